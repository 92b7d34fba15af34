"""Stars: a centre linked to everyone with whom it shares a topic that is left, until no topic is left.

What CD-ODA, -I, -II and TD-CD-ODA have in common (TDCD17 §III, §IV). They differ in which client they choose
next, by a key that is a ratio of integers. As floats such keys compare exactly as long as numerators times
denominators stay below 2**52. Each block of 64 clients knows its best, each 64 blocks again. A new key is
compared with the best of its block and mostly that is all; only where the best itself falls is its block
looked through. Of equal keys the lower id is the best.

A client is the centre at most once: its topics are done then. So no link comes twice, and a star joins all
the components of its topics at once: the gain of a star is known without looking.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from overlace.arrays.jit import Bools, Floats, Ints, kernel
from overlace.limits import option
from overlace.model import Observation, Plan, Progress
from overlace.planners.mesh.interests import Ids, Interests, Ties, interests_by_ties
from overlace.planners.mesh.planner import MeshPlanner
from overlace.planners.mesh.steps import REMOVED, WantedLinks, mesh_plan


class Stars(NamedTuple):
    """Centres in the order in which they were chosen, and whom each is linked to."""

    centre: Ints
    topics: Ints  # how many topics were done with each centre
    joined: Ints  # how many components they had, one less per topic
    start: Ints  # leaf[start[k]:start[k + 1]] are centre k's
    leaf: Ids


@dataclass(frozen=True)
class StarPlanner(MeshPlanner):
    """A planner that chooses whole clients as centres."""

    ties: Ties = option("lowest", "who is chosen among equals: the lowest id, or a random one")
    name: ClassVar[str]
    REASONS: ClassVar[tuple[str, ...]] = (
        "{client} becomes the centre of {topics} topics: {links} links join all their subscribers",
        REMOVED,
    )

    def choose(self, given: Interests) -> Stars:
        """The stars, in order."""
        raise NotImplementedError

    def solve(self, observation: Observation, seed: int = 0, *, progress: Progress | None = None) -> Plan:
        """Star by star; then what the old mesh had beyond that goes."""
        if progress:
            progress(0.0, "stars")
        given, who = interests_by_ties(observation, self.name, self.ties, seed)
        stars = self.choose(given)
        if self.ties == "random":
            stars = stars._replace(centre=who[stars.centre], leaf=who[stars.leaf].astype(np.int32))
        if progress:
            progress(0.7, "steps")
        left = np.repeat(stars.centre.astype(np.int32), np.diff(stars.start))
        args = {"client": stars.centre, "topics": stars.topics}
        plan = mesh_plan(self, observation, seed, WantedLinks(left, stars.leaf, stars.start, args, stars.joined))
        if progress:
            progress(1.0, "steps")
        return plan


@kernel
def rank_all(key: Floats) -> tuple[Floats, Ints, Floats]:
    """(best, who, top): the best key of each 64 clients and whose it is, and the best of each 64 of these."""
    blocks = (len(key) + 63) // 64
    best, who = np.full(blocks, -np.inf), np.full(blocks, -1)
    top = np.full((blocks + 63) // 64, -np.inf)
    for v in range(len(key)):
        if key[v] > best[v >> 6]:
            best[v >> 6], who[v >> 6] = key[v], v
    for b in range(blocks):
        top[b >> 6] = max(top[b >> 6], best[b])
    return best, who, top


@kernel
def first_of(best: Floats, who: Ints, top: Floats) -> int:
    """The client with the greatest key, the lowest id of equals; -1 if nobody is left."""
    most, at = -np.inf, -1
    for k in range(len(top)):
        if top[k] > most:
            most, at = top[k], k
    if at < 0:
        return -1
    b = at * 64
    while best[b] != most:
        b += 1
    return int(who[b])


@kernel
def rank(key: Floats, best: Floats, who: Ints, top: Floats, v: int, new: float) -> None:
    """Give client v another key; -inf takes it out."""
    key[v] = new
    b = v >> 6
    if new > best[b]:
        best[b], who[b] = new, v
        top[b >> 6] = max(top[b >> 6], new)
    elif new == best[b]:
        who[b] = min(who[b], v)
    elif who[b] == v:
        rank_block(key, best, who, top, b)


@kernel
def rank_block(key: Floats, best: Floats, who: Ints, top: Floats, b: int) -> None:
    """Look through a block whose best has fallen."""
    old = best[b]
    best[b], who[b] = -np.inf, -1
    for v in range(b * 64, min(b * 64 + 64, len(key))):
        if key[v] > best[b]:
            best[b], who[b] = key[v], v
    if old == top[b >> 6]:
        most = -np.inf
        for k in range(b >> 6 << 6, min(((b >> 6) + 1) << 6, len(best))):
            most = max(most, best[k])
        top[b >> 6] = most


@kernel
def link_star(given: Interests, v: int, left: Bools, seen: Ints, stamp: int, leaf: Ids, links: int) -> int:
    """Write everyone who shares a topic that is left with v into leaf, from links on; returns where it ends.

    seen holds stamps of earlier calls, never this one.
    """
    seen[v] = stamp
    for i in range(given.start[v], given.start[v + 1]):
        t = given.topic[i]
        if left[t]:
            links = link_members(given, t, seen, stamp, leaf, links)
    return links


@kernel
def link_members(given: Interests, t: int, seen: Ints, stamp: int, leaf: Ids, links: int) -> int:
    """Write the subscribers of a topic that were not seen into leaf, from links on; returns where it ends."""
    for k in range(given.first[t], given.first[t + 1]):
        u = given.member[k]
        if seen[u] != stamp:
            seen[u] = stamp
            leaf[links] = u
            links += 1
    return links


@kernel
def empty_stars(given: Interests) -> Stars:
    """Room for a star at each client, or for each topic where they are fewer."""
    most = min(len(given.start) - 1, len(given.first) - 1)
    centre = np.empty(most, dtype=np.int64)
    start = np.zeros(most + 1, dtype=np.int64)
    return Stars(centre, np.zeros_like(centre), np.zeros_like(centre), start, np.empty(room_for_links(given), np.int32))


@kernel
def first_stars(found: Stars, count: int) -> Stars:
    """The first of them."""
    links = found.start[count]
    return Stars(
        found.centre[:count], found.topics[:count], found.joined[:count], found.start[: count + 1], found.leaf[:links]
    )


@kernel
def room_for_links(given: Interests) -> int:
    """The most links that stars can need: one less than its subscribers for each topic."""
    room = 0
    for t in range(len(given.first) - 1):
        room += max(given.first[t + 1] - given.first[t] - 1, 0)
    return room
