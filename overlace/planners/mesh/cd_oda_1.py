"""CD-ODA-I: the next centre is the client of the greatest weight.

TDCD17 §III, (2), after Onus and Richa. The weight of a client is the number of subscribers, itself among them,
of its topics that are left, added up. The centre is linked to everyone it shares such a topic with.

Keeps: every topic has a star, so its diameter is at most 2; a client is the centre at most once.
Reads: R3, ties to the lowest id, or random.
Departs: a topic that is done is taken out of its subscribers' weights, nothing is added up anew; so the work is
in the order of the interests and the links.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from overlace.arrays.jit import kernel
from overlace.planners.mesh.interests import Interests
from overlace.planners.mesh.stars import (
    StarPlanner,
    Stars,
    first_of,
    link_star,
    rank,
    rank_all,
    room_for_links,
)


@dataclass(frozen=True)
class CdOda1(StarPlanner):
    """Stars around the clients whose topics have most subscribers: diameter 2, a high maximum degree."""

    name: ClassVar[str] = "mesh.cd-oda-1"
    paper: ClassVar[str] = "TDCD17 (2)"

    def choose(self, given: Interests) -> Stars:
        """By the greatest weight (2)."""
        return stars_by_weight(given)


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
    best, who, top = rank_all(key)
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
