"""TD-CD-ODA: the next centre is the client whose topics have the fewest subscribers.

TDCD17 §IV, Algorithm 1. The topic distribution q of a client is the number of subscribers of its topics that
are left, over its subscription size. The client with the least q is linked to everyone it shares such a topic
with, and its topics are done. Few subscribers make small stars, so the maximum degree stays low.

Keeps: every topic has a star, so its diameter is at most 2; a client is the centre at most once.
Reads: R1, a client whose topics are all done is left out. R2, q divides by the size at the start
(`size="left"` by what is left). R3, ties to the lowest id, or random.
Departs: n and q are not computed anew in each round (A1:3, A1:4); a topic that is done is taken out of the
sums of its subscribers, so the work is in the order of the interests and the links.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from overlace.arrays.jit import kernel
from overlace.limits import option
from overlace.planners.mesh.interests import Interests
from overlace.planners.mesh.stars import StarPlanner, Stars, empty_stars, first_of, first_stars, rank_all, rank_block


@dataclass(frozen=True)
class TdCdOda(StarPlanner):
    """Stars around the clients whose topics have the fewest subscribers: diameter 2, low maximum degree."""

    size: Literal["start", "left"] = option(
        "start", "what q divides by: a client's topics at the start, or those left (R2)"
    )
    name: ClassVar[str] = "mesh.td-cd-oda"
    paper: ClassVar[str] = "TDCD17 Algorithm 1"

    def choose(self, given: Interests) -> Stars:
        """By the least topic distribution."""
        rows = np.empty((len(given.start) - 1, 4), np.int32 if len(given.member) < 2**31 else np.int64)  # room for sums
        return stars_of_few(given, self.size == "start", rows)


@kernel
def stars_of_few(given: Interests, by_start: bool, state: NDArray[np.int32]) -> Stars:
    """The stars of Algorithm 1; state has a row of four for each client, so that a client is one place in memory.

    A row is the sum of A1:4, the size that divides it, and the last centre that the client was linked to.
    """
    clients = len(given.start) - 1
    subscribers = np.diff(given.first)  # A1:3: it never changes while a topic is left
    left = subscribers > 0
    key = np.full(clients, -np.inf)
    for v in range(clients):
        state[v, 0], state[v, 1], state[v, 2] = 0, given.start[v + 1] - given.start[v], -1
        for i in range(given.start[v], given.start[v + 1]):
            state[v, 0] += subscribers[given.topic[i]]
        if state[v, 0] > 0:  # R1: who has no topic left is not chosen
            key[v] = -state[v, 0] / state[v, 1]  # A1:4: the least q has the greatest key
    best, who, top = rank_all(key)
    found = empty_stars(given)
    centre, done, joined, start, leaf = found
    stars = links = 0
    while True:  # A1:2
        v = first_of(best, who, top)  # A1:5
        if v < 0:
            break
        state[v, 2] = v
        for i in range(given.start[v], given.start[v + 1]):
            t = given.topic[i]
            if not left[t]:
                continue
            left[t] = False  # A1:7
            done[stars] += 1
            joined[stars] += subscribers[t] - 1
            for k in range(given.first[t], given.first[t + 1]):
                u = given.member[k]
                if state[u, 2] != v:
                    state[u, 2] = v
                    leaf[links] = u  # A1:6
                    links += 1
                state[u, 0] -= subscribers[t]
                if not by_start:
                    state[u, 1] -= 1
                new = -state[u, 0] / state[u, 1] if state[u, 0] > 0 else -np.inf
                key[u] = new
                b = u >> 6
                if new > best[b]:  # `rank`, written out: to call it here costs more than all the rest
                    best[b], who[b] = new, u
                    top[b >> 6] = max(top[b >> 6], new)
                elif new == best[b]:
                    who[b] = min(who[b], u)
                elif who[b] == u:
                    rank_block(key, best, who, top, b)
        centre[stars], start[stars + 1] = v, links
        stars += 1
    return first_stars(found, stars)
