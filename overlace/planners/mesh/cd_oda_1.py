"""CD-ODA-I: the next centre is the client of the greatest weight.

TDCD17 §III, (2), after Onus and Richa. The weight of a client is the number of subscribers, itself among them,
of its topics that are left, added up. The centre is linked to everyone it shares such a topic with.

Keeps: every topic has a star, so its diameter is at most 2; a client is the centre at most once.
Reads: R3, ties to the lowest id, or random.
Departs: a topic that is done is taken out of its subscribers' weights, nothing is added up anew; so the work is
in the order of the interests and the links.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from overlace.arrays.jit import kernel
from overlace.model import Observation, Plan, Progress
from overlace.planners.mesh.interests import Interests, Ties, check_ties
from overlace.planners.mesh.planner import MeshPlanner
from overlace.planners.mesh.stars import (
    STAR_REASONS,
    Stars,
    first_of,
    link_star,
    rank,
    ranks,
    room_for_links,
    star_plan,
)


@dataclass(frozen=True)
class CdOda1(MeshPlanner):
    """Stars around the clients whose topics have most subscribers: diameter 2, a high maximum degree."""

    ties: Ties = field(
        default="lowest", metadata={"help": "who is chosen among equals: the lowest id, or a random one"}
    )
    paper: ClassVar[str] = "TDCD17 (2)"
    REASONS: ClassVar[tuple[str, ...]] = STAR_REASONS

    def __post_init__(self) -> None:
        check_ties(self.ties)

    def solve(self, observation: Observation, seed: int = 0, *, progress: Progress | None = None) -> Plan:
        """Star by star; then what the old mesh had beyond that goes."""
        return star_plan(self, "mesh.cd-oda-1", observation, seed, self.ties, stars_by_weight, progress)


@kernel
def stars_by_weight(given: Interests) -> Stars:
    """Stars by the greatest weight (2)."""
    clients, topics = len(given.start) - 1, len(given.first) - 1
    subscribers = np.diff(given.first)
    left = subscribers > 0
    key, seen = np.zeros(clients), np.full(clients, -1, dtype=np.int64)
    for v in range(clients):
        for i in range(given.start[v], given.start[v + 1]):
            key[v] += subscribers[given.topic[i]]
        if key[v] == 0:
            key[v] = -np.inf
    best, who, top = ranks(key)
    centre = np.empty(min(clients, topics), dtype=np.int64)
    done, joined = np.zeros_like(centre), np.zeros_like(centre)
    start = np.zeros(len(centre) + 1, dtype=np.int64)
    leaf = np.empty(room_for_links(given), dtype=np.int32)
    stars = 0
    while True:
        v = first_of(best, who, top)
        if v < 0:
            break
        start[stars + 1] = link_star(given, v, left, seen, v, leaf, start[stars])
        for i in range(given.start[v], given.start[v + 1]):
            t = given.topic[i]
            if not left[t]:
                continue
            left[t] = False
            done[stars] += 1
            joined[stars] += subscribers[t] - 1
            for k in range(given.first[t], given.first[t + 1]):
                u = given.member[k]
                weight = key[u] - subscribers[t]
                rank(key, best, who, top, u, weight if weight > 0 else -np.inf)
        centre[stars] = v
        stars += 1
    links = start[stars]
    return Stars(centre[:stars], done[:stars], joined[:stars], start[: stars + 1], leaf[:links])
