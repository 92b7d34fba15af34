"""What every planner of the catalog comes to on small problems by seed, as a line of hashes each.

A change that only moves or joins code leaves all lines as they are. `python tests/results.py` compares with results.txt
and prints what differs; with `--write` it writes what it finds. Numbers with a fraction count to nine digits.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))

from overlace.catalog import PLANNERS  # noqa: E402
from overlace.errors import OverlaceError  # noqa: E402
from overlace.model import Observation  # noqa: E402
from overlace.planners.dissemination.arrange import arrange_problem  # noqa: E402
from overlace.planners.dissemination.comparison import (  # noqa: E402
    add_optimum,
    compare,
    judge_drift,
)
from overlace.planners.dissemination.sharing import share_degrees  # noqa: E402
from overlace.testing import small_observations  # noqa: E402
from overlace.workloads.square import square  # noqa: E402
from reproductions.workloads.lottery import lottery  # noqa: E402
from reproductions.workloads.publishers import publishers  # noqa: E402
from reproductions.workloads.regional import regional  # noqa: E402
from reproductions.workloads.uniform_interests import uniform_interests  # noqa: E402
from tests.dissemination.common import plane  # noqa: E402

WRITTEN = Path(__file__).with_name("results.txt")
MOST_EXACT = 8
"""Brokers up to which the exact planners and all parameters of the others are tried."""


def problems() -> dict[str, Observation]:
    """Observations by name, those of the smallest size first within a facet."""
    found = {f"small: {name}": each for name, each in small_observations().items()}
    found |= {f"lottery {n} {seed}": lottery(n, seed=seed) for n, seed in ((5, 0), (6, 1), (7, 2), (14, 3))}
    found |= {f"square {n} {seed}": square(n, 3 * n, 5 * n, seed=seed) for n, seed in ((7, 0), (12, 1), (20, 2))}
    found["square 20, no metric"] = square(20, 60, 120, metric=False, seed=4)
    for seed, talk in enumerate(("composition", "small-world", "random")):
        found[f"regional {talk}"] = regional(talk, 12 + 4 * seed, 40, 4, 2_000, seed)
    found["publishers"] = publishers(40, 6, (1, 3), seed=1)
    found["publishers, limits"] = publishers(60, 7, (2, 4), (2, 9), seed=2)
    found["publishers, subscribers"] = publishers(50, 7, (2, 4), (1, 12), zipf=0.8, subscribers=200, seed=3)
    found["publishers, many"] = publishers(300, 9, (2, 4), (2, 15), zipf=0.5, subscribers=500, seed=4)
    for seed, (clients, topics, each) in enumerate(((12, 8, 3), (40, 20, 4), (80, 25, 6))):
        found[f"interests {clients}"] = uniform_interests(clients, topics, each, seed=seed)
    return found


def facets_of(observation: Observation) -> set[str]:
    """The facets that an observation has data for."""
    found = set()
    if observation.network.brokers:
        found |= {"placement", "tree"}
    if len(observation.offers.publisher):
        found.add("channels")
    if len(observation.interests):
        found.add("mesh")
    return found


def variants(kind: type[Any]) -> Iterator[dict[str, Any]]:
    """The defaults, and each parameter once at other values than its own; of a long search a tenth."""
    least = {"effort": 10} if any(each.name == "effort" for each in dataclasses.fields(kind)) else {}
    yield least
    hints = get_type_hints(kind)
    for each in dataclasses.fields(kind):
        hint, about = hints[each.name], each.metadata
        if each.name in ("effort", "steps", "starts"):
            continue  # how long is searched
        if get_origin(hint) is Literal:
            values = [value for value in get_args(hint) if value != each.default]
        elif hint is bool:
            values = [not each.default]
        elif int in (hint, *get_args(hint)) and not str(hint).startswith("tuple"):
            values = [int(about.get("least", 0)) + 3]
        elif float in (hint, *get_args(hint)):
            values = [float(about.get("least", about.get("above", 0))) + 0.75]
        else:
            values = []
        for value in values:
            yield least | {each.name: value}


def feed(into: Any, thing: Any) -> None:
    """A value, whatever it is made of, into a hash."""
    if isinstance(thing, np.ndarray | list | tuple) and not hasattr(thing, "_fields"):
        values = np.asarray(thing)
        if values.dtype.kind == "f":
            into.update(" ".join(f"{value:.9g}" for value in values.ravel().tolist()).encode())
        elif values.dtype.kind in "iub":
            into.update(values.astype(np.int64).tobytes())
        else:
            for each in thing:
                feed(into, each)
    elif hasattr(thing, "_fields"):
        feed(into, list(thing))
    elif dataclasses.is_dataclass(thing):
        feed(into, {each.name: getattr(thing, each.name) for each in dataclasses.fields(thing)})
    elif isinstance(thing, dict):
        for name in sorted(thing):
            feed(into, name)
            feed(into, thing[name])
    else:
        into.update((f"{thing:.9g}" if isinstance(thing, float) else str(thing)).encode() + b";")


def hash_of(*things: Any) -> str:
    """A short hash."""
    made = blake2b(digest_size=6)
    for each in things:
        feed(made, each)
    return made.hexdigest()


def solved(kind: type[Any], given: dict[str, Any], observation: Observation, seed: int) -> str:
    """A plan, its cost and what it says, as a hash; or that of the error."""
    try:
        planner = kind(**given)
        plan = planner.solve(observation, seed)
        said = [plan.why(i) for i in range(len(plan.steps))]
        costs = [float(planner.cost(observation, each)) for each in (plan.before, plan.after)]
        return hash_of(plan.after, plan.changes, plan.steps.start, plan.steps.gain, dict(plan.beside), said, costs)
    except OverlaceError as error:
        return hash_of(type(error).__name__, str(error))


def planner_lines() -> Iterator[str]:
    """A line a planner and problem: a hash of its results with all parameters tried."""
    given = problems()
    for name, kind in PLANNERS.items():
        yield f"{name}: {hash_of(dataclasses.fields(kind) and flags(kind), kind.facets)}"
        for what, observation in given.items():
            brokers = observation.network.brokers
            if not set(kind.facets) & facets_of(observation) or ("exact" in name and brokers > MOST_EXACT):
                continue
            small = brokers <= MOST_EXACT and what not in ("publishers, many", "interests 80")
            tried = list(variants(kind))[: None if small else 1]
            found = [solved(kind, each, observation, 0) for each in tried] + [solved(kind, tried[0], observation, 1)]
            yield f"{name} on {what}: {hash_of(found)}"


def flags(kind: type[Any]) -> list[tuple[str, str, str]]:
    """The parameters of a planner as people see them."""
    return [(each.name, str(each.type), str(sorted(each.metadata.items()))) for each in dataclasses.fields(kind)]


def tree_lines() -> Iterator[str]:
    """The same of dissemination trees."""
    for seed, (peers, degree) in enumerate(((5, 2), (7, 2), (7, 3), (24, 3), (60, 4))):
        problem = plane(peers, degree, seed)
        found = add_optimum(problem, compare(problem, seed))
        parts = hash_of(found.trees, {name: list(each) for name, each in found.measures.items()}, found.ceiling)
        later = hash_of(arrange_problem(problem, seed, 5_000), judge_drift(problem, 0.2, seed))
        yield f"dissemination of {peers} peers: {parts} {later}"
    groups = np.array([0, 4, 7, 11]), np.array([0, 1, 2, 3, 0, 2, 4, 1, 3, 4, 5])
    yield f"dissemination, shared: {hash_of(share_degrees([6, 4, 3, 5, 2, 2], groups, [5.0, 1.0, 3.0], [0, 0, 1]))}"


def lines() -> list[str]:
    """All of them."""
    return [*planner_lines(), *tree_lines()]


def main() -> int:
    """Write the lines, or say which differ."""
    found = lines()
    if "--write" in sys.argv:
        WRITTEN.write_text("\n".join(found) + "\n")
        return 0
    written = WRITTEN.read_text().splitlines()
    other = sorted(set(found) ^ set(written))
    print("\n".join(other) if other else f"{len(found)} lines, all as written")
    return bool(other)


if __name__ == "__main__":
    sys.exit(main())
