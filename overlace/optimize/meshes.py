"""Which mesh: the frontier between long paths, many links and clients with too many of them, and a point on it.

Stars reach everybody of a topic in two links, and some client then has as many links as the largest topic has
subscribers. Trees of a larger diameter share that out. Without limits a longer path is taken only where it at least
halves the greatest number of links of a client, or where a client would have a link to everybody; under a degree limit
the shortest paths that keep it are taken.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from overlace.catalog import planner_name
from overlace.errors import NothingBetter
from overlace.limits import Goal, Limits, as_flag
from overlace.model import Names, Observation, Plan, Planner, Progress, name_of
from overlace.planners.mesh.caps import CapTooLow, forbidden
from overlace.planners.mesh.cost import degrees_of
from overlace.planners.mesh.greedy_merge import GreedyMerge
from overlace.planners.mesh.hub_tree import HubTree
from overlace.planners.mesh.interests import interests_of
from overlace.planners.mesh.star_cap import StarCap
from overlace.planners.mesh.td_cd_oda import TdCdOda
from overlace.planners.mesh.two_hub import TwoHub
from overlace.replay.shape import shape
from overlace.stopping import asked
from overlace.wording import counted

DIAMETERS = (4, 6, 8)
"""Of the trees that are tried."""
LONGER = (12, 32)
"""And where no shorter one keeps a limit on links."""
MOST_PAIRS = 500_000_000
"""Pairs of subscribers up to which GM, which looks at them, is tried: some seconds."""


MANY = 1_000_000
"""Links of a path that nobody has measured: it is listed last."""


NO_LIMITS, USUAL = Limits(), Goal()


class Candidate(NamedTuple):
    """A mesh that could be taken, or why it could not."""

    label: str  # the planner and what it was given
    planner: Planner | None  # None: what is there today
    diameter: int  # links on the longest path inside a topic, at most; of today and of GM as found
    diameter_exact: bool
    plan: Plan | None
    links: int
    max_degree: int
    average_degree: float
    why_not: str = ""

    def row(self, taken: bool) -> dict[str, Any]:
        """As JSON."""
        shown = ("label", "diameter", "diameter_exact", "links", "max_degree", "average_degree", "why_not")
        return {name: getattr(self, name) for name in shown} | {"taken": taken}


class MeshChoice(NamedTuple):
    """The plan to take, and what it was chosen from."""

    plan: Plan
    rows: list[dict[str, Any]]
    why: str
    no_better: str  # why today's mesh should stay, if it should


def choose_mesh(
    observation: Observation,
    limits: Limits = NO_LIMITS,
    goal: Goal = USUAL,
    names: Names | None = None,
    progress: Progress | None = None,
) -> MeshChoice:
    """Try what could be taken within the limits, and take one."""
    report_progress, found = progress or (lambda share, what: None), list[Candidate]()
    refused: list[CapTooLow] = []

    def attempt(planner: Planner, *, sure: bool = False) -> None:
        each, error = _try(planner, observation, limits, goal.seed, names, sure=sure)
        found.append(each)
        refused.extend([error] if error else [])

    planners = list(_to_try(observation, limits, goal))
    for i, planner in enumerate(planners):
        if asked() and take(found, limits):  # what is found by now will do
            break
        report_progress(i / len(planners), _label(planner))
        attempt(planner)
    for planner in _longer(limits):
        if take(found, limits):
            break
        report_progress(0.9, _label(planner))
        attempt(planner)
    if not take(found, limits) and not refused:  # those who forbid it were known before any search
        attempt(found.pop().planner or planners[-1], sure=True)
    found.sort(key=lambda each: each.diameter)
    taken = take(found, limits, len(np.unique(observation.interests[:, 0])) - 1)
    if taken is None:
        last = refused[-1]
        report_progress(0.95, "looking for the least --max-degree that can be kept")
        least = _least(observation, limits, goal.seed, last)
        longer = f", or paths longer than --max-diameter {limits.max_diameter}" if limits.max_diameter else ""
        longer = ", or leave --survive out" if limits.survive else longer
        *_, longest = (each for each in found if each.plan is None and each.diameter < MANY)
        raise NothingBetter(
            f"no mesh was found with at most {counted(last.cap, 'link', 'links')} a client. {longest.label}: "
            f"{longest.why_not}. The least found is {least}. To try: --max-degree {least}{longer}."
        )
    today = _today(observation, limits)
    assert taken.plan is not None
    listed = [*([today] if today else []), *found]
    return MeshChoice(
        taken.plan,
        [each.row(each is taken) for each in listed],
        _why(limits, taken, next(each for each in found if each.plan is not None and not each.why_not)),
        _no_better(today, taken),
    )


def take(found: Sequence[Candidate], limits: Limits, others: int = MANY) -> Candidate | None:
    """The one that an operator would take; the shortest paths come first.

    Nobody is linked to all `others` where paths of at most 8 links do with less.
    """
    may = [each for each in found if each.plan is not None and not each.why_not]
    if not may or limits.max_degree is not None:
        return may[0] if may else None
    taken = may[0]
    for each in may[1:]:
        if 2 * each.max_degree <= taken.max_degree:
            taken = each
    if taken.max_degree >= others:
        shorter = [each for each in may if each.diameter <= DIAMETERS[-1]]
        taken = min([taken, *shorter], key=lambda each: (each.max_degree, each.diameter))
    return taken


def _to_try(observation: Observation, limits: Limits, goal: Goal) -> Iterator[Planner]:
    """The planners of the frontier within the limits."""
    cap, longest = limits.max_degree, limits.max_diameter
    if limits.survive:
        yield TwoHub(hubs=limits.survive + 1, cap=cap, effort=1000 * goal.effort if _small(observation) else 0)
        return
    diameters = [d for d in DIAMETERS if longest is None or d <= longest]
    if longest is not None and 2 < longest < DIAMETERS[-1] and longest not in diameters:
        diameters.append(longest)
    yield _stars(observation, limits, goal)
    for diameter in diameters:
        yield HubTree(diameter=diameter, cap=cap)
    yield GreedyMerge()


def _longer(limits: Limits) -> Iterator[Planner]:
    """Trees of longer paths, tried in turn where nothing shorter keeps a limit on links."""
    if limits.max_degree is not None and not limits.survive:
        for diameter in sorted({*LONGER, limits.max_diameter or 0}):
            if diameter > DIAMETERS[-1] and diameter <= (limits.max_diameter or diameter):
                yield HubTree(diameter=diameter, cap=limits.max_degree)


def _least(observation: Observation, limits: Limits, seed: int, last: CapTooLow) -> int:
    """The least cap, found by doubling what is added and then halving, that any of the trees keeps."""
    if limits.survive or (limits.max_diameter or DIAMETERS[-1]) < DIAMETERS[0]:
        return last.least
    longest = limits.max_diameter or LONGER[0]
    diameters = sorted({min(longest, d) for d in (DIAMETERS[-1], longest)})

    def keeps(cap: int) -> bool:
        for diameter in diameters:
            try:
                HubTree(diameter=diameter, cap=cap).solve(observation, seed)
            except CapTooLow:
                continue
            return True
        return False

    low, step = last.cap, 1
    while not keeps(low + step):
        low, step = low + step, 2 * step
    high = low + step
    while low + 1 < high - high // 32:
        cap = (low + high) // 2
        low, high = (low, cap) if keeps(cap) else (cap, high)
    return high


def mesh_limits(limits: Limits) -> list[str]:
    """The limits of a mesh that are in force; the frontier shows what others need."""
    asked = {
        "max_degree": "links of a client",
        "max_diameter": "longest path",
        "survive": "clients that may fail at once",
    }
    return [f"{what} ({as_flag(name)} {value})" for name, what in asked.items() if (value := getattr(limits, name))]


def _stars(observation: Observation, limits: Limits, goal: Goal) -> StarCap:
    """Stars: under the cap, or with the least greatest degree found at no more links than TD-CD-ODA needs."""
    effort = 1000 * goal.effort if _small(observation) else 0
    if limits.max_degree is not None:
        return StarCap(cap=limits.max_degree, effort=effort)
    if not effort:
        return StarCap()
    links = len(TdCdOda().solve(observation, goal.seed).after.mesh)
    return StarCap(budget=2 * links / max(observation.clients, 1), effort=effort) if links else StarCap()


def _small(observation: Observation) -> bool:
    """Whether stars are annealed: in larger systems nobody takes them, somebody has a link to a whole topic."""
    return len(observation.interests) <= 50_000


def pairs_of(observation: Observation) -> float:
    """Pairs of subscribers of one topic, over all topics."""
    sizes = np.bincount(observation.interests[:, 1]).astype(np.float64)
    return float((sizes * (sizes - 1) / 2).sum())


def _try(
    planner: Planner, observation: Observation, limits: Limits, seed: int, names: Names | None, *, sure: bool
) -> tuple[Candidate, CapTooLow | None]:
    """What came of a planner; unless it is to be tried for sure, not where a topic or client is known to forbid it."""
    greedy, cap, label = planner == GreedyMerge(), limits.max_degree, _label(planner)
    diameter = 0 if greedy else int(getattr(planner, "diameter", 2))  # links on a path that it keeps; 0: as it comes
    if cap is not None and diameter and not sure and not getattr(planner, "effort", 0):
        given = interests_of(observation, planner_name(planner))
        if forbids := forbidden(given, cap, diameter):
            kind, key, why = forbids
            why = f"{kind} {name_of(kind, key, names)} {why}"
            return Candidate(label, planner, diameter, True, None, 0, 0, 0.0, why), None
    if greedy and (pairs := pairs_of(observation)) > MOST_PAIRS:
        why = f"not tried, it looks at {pairs / 1e6:,.0f} million pairs of subscribers: overlace solve mesh.gm RUN"
        return Candidate(label, planner, MANY, False, None, 0, 0, 0.0, why), None
    try:
        plan = planner.solve(observation, seed)
    except CapTooLow as error:
        return Candidate(label, planner, diameter, True, None, 0, 0, 0.0, error.why(names)), error
    average, highest = degrees_of(observation, plan.after.mesh)
    exact, why = True, ""
    if not diameter:
        found = shape(observation, plan.after, most_exact=500, sources=16)
        diameter, exact = int(found.of("max_diameter")), not found.of("diameter_sampled")
    if limits.max_diameter is not None and diameter > limits.max_diameter:
        why = f"a path of {diameter} links, above --max-diameter {limits.max_diameter}"
    elif limits.max_degree is not None and highest > limits.max_degree:
        why = f"a client with {highest:,} links, above --max-degree {limits.max_degree}"
    return Candidate(label, planner, diameter, exact, plan, len(plan.after.mesh), highest, average, why), None


def _label(planner: Planner) -> str:
    """A planner as it is typed."""
    given = {"diameter": getattr(planner, "diameter", None), "hubs": getattr(planner, "hubs", None)}
    flags = "".join(f" --{name} {value}" for name, value in given.items() if value is not None)
    return planner_name(planner) + flags


def _today(observation: Observation, limits: Limits) -> Candidate | None:
    """The mesh that is there, if there is one."""
    mesh = observation.overlay.mesh
    if not len(mesh):
        return None
    average, highest = degrees_of(observation, mesh)
    found = shape(observation, observation.overlay, most_exact=500, sources=16)
    why = "" if found.of("topic_connected") else "some topics are not connected"
    exact = not found.of("diameter_sampled")
    diameter = int(found.of("max_diameter"))
    if limits.max_degree is not None and highest > limits.max_degree:
        why = why or f"a client with {highest:,} links, above --max-degree {limits.max_degree}"
    if limits.max_diameter is not None and diameter > limits.max_diameter:
        why = why or f"a path of {diameter} links, above --max-diameter {limits.max_diameter}"
    if limits.survive:
        why = why or "whether it survives a loss is not known"
    return Candidate("today", None, diameter, exact, None, len(mesh), highest, average, why)


def _no_better(today: Candidate | None, taken: Candidate) -> str:
    """Why today's mesh stays: it is connected, keeps the limits, and nothing found is clearly better."""
    if today is None or today.why_not:
        return ""
    shorter = taken.diameter < today.diameter and taken.links <= today.links and taken.max_degree <= today.max_degree
    lighter = taken.links < today.links and taken.max_degree <= today.max_degree and taken.diameter <= today.diameter
    spread = 2 * taken.max_degree <= today.max_degree
    if shorter or lighter or spread:
        return ""
    return (
        f"today's mesh is connected with {today.links:,} links and at most {today.max_degree:,} a client; the best "
        f"found has {taken.links:,} and {taken.max_degree:,}"
    )


def _why(limits: Limits, taken: Candidate, first: Candidate) -> str:
    """What decided, and what was traded, as a sentence; `first` has the shortest paths."""
    if limits.survive:
        return f"{limits.survive + 1} hubs for each topic, as --survive {limits.survive} asks for"
    if limits.max_degree is not None:
        return f"the shortest paths found with no client above {limits.max_degree} links"
    if taken is first:
        return "the shortest paths: no longer ones at least halve the greatest number of links of a client"
    return (
        f"at most {counted(taken.max_degree, 'link', 'links')} a client instead of {first.max_degree:,}, for paths of "
        f"up to {taken.diameter} links instead of {first.diameter} and {taken.links:,} links in all instead of "
        f"{first.links:,}"
    )
