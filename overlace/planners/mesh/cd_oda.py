"""CD-ODA: the next centre is the client with most neighbours.

TDCD17 §III, (1), after Onus and Richa. A neighbour is another client with whom a topic that is left is shared.
The centre is linked to all of them and its topics are done.

Keeps: every topic has a star, so its diameter is at most 2; a client is the centre at most once.
Reads: R3, ties to the lowest id, or random.
Departs: neighbours are counted anew only for who might be next, by bounds that follow each topic that is done.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from overlace.arrays.jit import Bools, Ints, kernel
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
class CdOda(StarPlanner):
    """Stars around the clients with most neighbours: diameter 2, few links, a high maximum degree."""

    name: ClassVar[str] = "mesh.cd-oda"
    paper: ClassVar[str] = "TDCD17 (1)"

    def choose(self, given: Interests) -> Stars:
        """By the most neighbours (1)."""
        return stars_by_neighbours(given, False, False, len(given.start))


@kernel
def stars_by_neighbours(given: Interests, weighted: bool, itself: bool, cap: int) -> Stars:
    """Stars by the most neighbours (1), or by the most weight (2) for each neighbour (3), itself counted or not.

    Only whole stars that leave their centre at most cap links; topics that none of these does are left over.
    A topic that is done takes at least nobody and at most all its subscribers from their neighbours. That bounds
    the keys from above, and who comes to the top by a bound is counted then and put back in its place.
    """
    clients, topics = len(given.start) - 1, len(given.first) - 1
    subscribers = np.diff(given.first)
    left = subscribers > 0
    seen = np.full(clients, -1, dtype=np.int64)
    weight, waiting = np.zeros(clients, dtype=np.int64), np.diff(given.start)  # of the topics left
    least, most = np.ones(clients, dtype=np.int64), np.zeros(clients, dtype=np.int64)  # neighbours and itself
    known, degree = np.zeros(clients, dtype=np.bool_), np.zeros(clients, dtype=np.int64)
    key = np.full(clients, -np.inf)
    for v in range(clients):
        for i in range(given.start[v], given.start[v + 1]):
            weight[v] += subscribers[given.topic[i]]
            least[v] = max(least[v], subscribers[given.topic[i]])
        most[v] = min(weight[v] - waiting[v] + 1, clients)
        if weight[v] > 0 and least[v] - 1 <= cap:
            key[v] = density(weight[v], least[v], most[v], weighted, itself)
    best, who, top = rank_all(key)
    centre = np.empty(min(clients, topics), dtype=np.int64)
    done, joined = np.zeros_like(centre), np.zeros_like(centre)
    start = np.zeros(len(centre) + 1, dtype=np.int64)
    leaf = np.empty(room_for_links(given), dtype=np.int32)
    stamp, stars = clients, 0
    while True:
        v = first_of(best, who, top)
        if v < 0:
            break
        if not known[v]:
            least[v] = count_neighbours(given, v, left, seen, stamp, cap - degree[v] + 1)
            stamp += 1
            fits = known[v] = least[v] - 1 <= cap - degree[v]
            most[v] = least[v] if fits else most[v]
            rank(key, best, who, top, v, density(weight[v], least[v], most[v], weighted, itself) if fits else -np.inf)
            continue
        start[stars + 1] = link_star(given, v, left, seen, stamp, leaf, start[stars])
        stamp += 1
        for k in range(start[stars], start[stars + 1]):
            degree[leaf[k]] += 1
        degree[v] += start[stars + 1] - start[stars]
        for i in range(given.start[v], given.start[v + 1]):
            t = given.topic[i]
            if not left[t]:
                continue
            left[t] = False
            done[stars] += 1
            joined[stars] += subscribers[t] - 1
            for k in range(given.first[t], given.first[t + 1]):
                u = given.member[k]
                weight[u] -= subscribers[t]
                waiting[u] -= 1
                least[u] = max(least[u] - subscribers[t] + 1, 1)
                most[u] = min(most[u], weight[u] - waiting[u] + 1)
                known[u] = waiting[u] == 1
                if known[u]:
                    least[u] = most[u]
                fits = weight[u] > 0 and least[u] - 1 <= cap - degree[u]
                new = density(weight[u], least[u], most[u], weighted, itself) if fits else -np.inf
                rank(key, best, who, top, u, new)
        centre[stars] = v
        stars += 1
    links = start[stars]
    return Stars(centre[:stars], done[:stars], joined[:stars], start[: stars + 1], leaf[:links])


@kernel
def density(weight: int, least: int, most: int, weighted: bool, itself: bool) -> float:
    """The key of a client, or the most it can be; neighbours are counted with the client itself."""
    if not weighted:
        return float(most - 1)
    if itself:
        return weight / least
    if most == 1:
        return 0.0  # nobody to link: chosen last, changes nothing
    return weight / max(least - 1, 1)


@kernel
def count_neighbours(given: Interests, v: int, left: Bools, seen: Ints, stamp: int, most: int) -> int:
    """How many share a topic that is left with v, itself counted, or some number above most if there are more.

    seen holds stamps of earlier calls.
    """
    first, member, topic = given.first, given.member, given.topic
    found = 0
    for i in range(given.start[v], given.start[v + 1]):
        t = topic[i]
        if left[t]:
            for k in range(first[t], first[t + 1]):
                u = member[k]
                if seen[u] != stamp:
                    seen[u] = stamp
                    found += 1
            if found > most:
                break
    return found
