"""Mesh planners on real interests: ego-Facebook (a user is a topic, friends subscribe) and Deezer (users and genres);
and the main job on a generated crowd.

The files are not part of the project. Give the folder that holds them, or have it beside the checkout at
../shared/data. They are read in as a user would: as the table `interests` of a trace, then observed.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from protocol import short, table, write

from overlace.arrays.jit import Pairs
from overlace.errors import NothingBetter
from overlace.ingest.tables import add_tables
from overlace.limits import Goal
from overlace.model import Observation, Planner
from overlace.optimize.meshes import choose_mesh
from overlace.planners.mesh.baselines import CdOda, CdOda1, CdOda2, MmOda, RandomMesh, TwoDOda
from overlace.planners.mesh.greedy_merge import GreedyMerge
from overlace.planners.mesh.hub_tree import HubTree
from overlace.planners.mesh.star_cap import StarCap
from overlace.planners.mesh.td_cd_oda import TdCdOda
from overlace.planners.mesh.two_hub import TwoHub
from overlace.replay.shape import shape
from overlace.trace.store import Trace
from tests.traces import observe

MOST_PAIRED = 10_000
EFFORT = 20_000
MOST_EXACT, SOURCES = 2000, 64
FILES: dict[str, tuple[str, dict[str, Any], bool]] = {
    "ego-Facebook": ("ego-facebook_combined.txt.gz", {"map": {"client": "0", "topic": "1"}}, True),
    "Deezer, Romania": ("deezer_RO_genres.json.gz", {}, False),
}


def ingested(path: Path, options: dict[str, Any], both_ways: bool) -> Observation:
    with tempfile.TemporaryDirectory() as folder:
        out = str(Path(folder) / "trace")
        add_tables([str(path)], "interests", out, options, both_ways=both_ways)
        return observe(Trace.open(out))


CROWD = {"clients": 240_000, "pairs": 500_000, "largest": 67_480}


def crowd(clients: int, pairs: int, largest: int, exponent: float, seed: int = 0) -> Pairs:
    """Interests of many: topic k has largest / k^exponent subscribers, at least two; all want one, some much more."""
    rng = np.random.default_rng(seed)
    sizes: list[int] = []
    while sum(sizes) < pairs:
        sizes.append(max(2, round(largest * (len(sizes) + 1.0) ** -exponent)))
    topic = rng.permutation(np.repeat(np.arange(len(sizes)), sizes)[:pairs])
    reach = np.cumsum(rng.lognormal(0.0, 1.0, clients))
    client = np.append(rng.permutation(clients), np.zeros(pairs - clients, dtype=np.int64))
    fresh = np.arange(clients, pairs)
    while len(fresh):  # nobody wants a topic twice
        client[fresh] = np.searchsorted(reach, rng.random(len(fresh)) * reach[-1])
        order = np.lexsort((np.arange(pairs), topic, client))
        again = np.append(False, (np.diff(client[order]) == 0) & (np.diff(topic[order]) == 0))
        fresh = order[again]
    return np.column_stack([client, topic])[np.lexsort((topic, client))]


def crowd_section(exponent: float) -> str:
    """What `optimize` makes of a crowd, in how much time."""
    rows = crowd(**CROWD, exponent=exponent)
    observation = Observation(interests=rows, clients=CROWD["clients"])
    begin = time.process_time()
    chosen = choose_mesh(observation)
    taken = time.process_time() - begin
    head = ("", "planner", "diameter", "links", "maximum", "average", "")
    listed = [
        (
            "taken" if row["taken"] else "",
            row["label"],
            str(row["diameter"]) if row["links"] else "",
            f"{row['links']:,}" if row["links"] else "",
            f"{row['max_degree']:,}" if row["links"] else "",
            f"{row['average_degree']:.2f}" if row["links"] else "",
            row["why_not"],
        )
        for row in chosen.rows
    ]
    about = (
        f"{CROWD['clients']:,} clients, {len(np.unique(rows[:, 1])):,} topics, "
        f"{len(rows):,} interests; topic k has {CROWD['largest']:,} / k^{exponent:g} subscribers, at least two. "
        f"Choosing among all of these took {short(taken)} of CPU time."
    )
    return f"## A crowd, exponent {exponent:g}\n\n{about}\n\n" + table(head, listed)


def planners(observation: Observation) -> dict[str, Planner]:
    largest = int(np.bincount(observation.interests[:, 1]).max())
    cap = largest + 9
    named = {
        "TD-CD-ODA": TdCdOda(),
        "CD-ODA-I": CdOda1(),
        "CD-ODA-II": CdOda2(),
        "2D-ODA": TwoDOda(),
        "CD-ODA": CdOda(),
        f"star-cap {cap}": StarCap(cap=cap),
        f"star-cap {cap}, effort {EFFORT:,}": StarCap(cap=cap, effort=EFFORT),
        "hub-tree 3": HubTree(diameter=3),
        "hub-tree 4": HubTree(diameter=4),
        "hub-tree 6": HubTree(diameter=6),
        "two-hub": TwoHub(effort=0),
        "random mesh 6": RandomMesh(),
        "GM": GreedyMerge(),
    }
    if largest <= MOST_PAIRED:
        named |= {"GM, random ties": GreedyMerge(ties="random"), "MinMax-ODA": MmOda()}
    return named


def row(label: str, planner: Planner, observation: Observation) -> tuple[str, ...]:
    begin = time.process_time()
    try:
        plan = planner.solve(observation)
    except NothingBetter as error:
        return (label, str(error).split(". ")[1], "", "", "", short(time.process_time() - begin))
    taken = time.process_time() - begin
    found = shape(observation, plan.after, MOST_EXACT, SOURCES)
    assert found.of("topic_connected")
    sampled = int(found.of("diameter_sampled"))
    longest = f"{found.of('max_diameter'):.0f}" + (f" or more ({sampled} topics sampled)" if sampled else "")
    degrees = (f"{found.of('average_degree'):.2f}", f"{found.of('max_degree'):,.0f}")
    return (label, *degrees, longest, f"{len(plan.after.mesh):,}", short(taken))


def section(name: str, observation: Observation, rows: list[tuple[str, ...]]) -> str:
    largest = np.bincount(observation.interests[:, 1]).max()
    about = (
        f"{observation.clients:,} clients, {observation.topics:,} topics, {len(observation.interests):,} interests; "
        f"the largest topic has {largest:,} subscribers."
    )
    if largest > MOST_PAIRED:
        about += " MinMax-ODA and random ties of GM are left out: they look at pairs of subscribers many times."
    head = ("planner", "average", "maximum", "diameter", "links", "CPU time")
    return f"## {name}\n\n{about}\n\n" + table(head, rows)


if __name__ == "__main__":
    given = [Path(word) for word in sys.argv[1:]] or [Path(__file__).resolve().parents[2] / "shared" / "data"]
    sys.argv[1:] = ["DATA"] if len(sys.argv) > 1 else []
    mapping = (
        "Mapping: ego-Facebook (SNAP; McAuley, Leskovec 2012) `a b` is a friendship, so a wants the topic b and b the "
        "topic a; Deezer (B. Rozemberczki) is user: [genres]. The table `interests` of a trace, then observed. "
        f"Diameters are exact to {MOST_EXACT:,} subscribers a topic, beyond if the bounds of {SOURCES} searches meet."
    )
    parts = [mapping]
    for name, (file, options, both_ways) in FILES.items():
        path = given[0] / file
        if not path.exists():
            sys.exit(f"{path} is not there: give the folder that holds {file}")
        observation = ingested(path, options, both_ways)
        rows: list[tuple[str, ...]] = []
        parts.append("")
        for label, planner in planners(observation).items():
            rows.append(row(label, planner, observation))
            parts[-1] = section(name, observation, rows)
            write(__file__, "Mesh on real interests", parts)  # the last take longest: keep what there is
    choose_mesh(Observation(interests=crowd(1000, 3000, 500, 1.0), clients=1000), goal=Goal(effort=0))  # compile first
    parts += [crowd_section(exponent) for exponent in (1.0, 1.3)]
    write(__file__, "Mesh on real interests", parts)
