"""2D-ODA: topic by topic, the client and topic of the greatest topic density.

TDCD17 §III, (4), after Onus and Richa. The density of a client for one of its topics is its weight, the
subscribers of its topics that are left added up, over the subscribers of that topic to whom it has no link
yet, itself among them. The client is linked to these and only that topic is done.

Keeps: every topic has a star, so its diameter is at most 2. A client may be the centre of several topics.
Reads: R3, ties to the lowest client, or random, then to the lowest topic. R6, the weight runs over what is left
(`weight="all"`: over all topics of the client, always).
Departs: who is not linked yet is kept for every (client, topic) and lowered link by link.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from overlace.arrays.jit import Bools, Ints, kernel
from overlace.arrays.lists import add_link, link_ends, no_links
from overlace.limits import option
from overlace.model import Observation, Plan, Progress
from overlace.planners.mesh.interests import Ids, Interests, Ties, interests_by_ties, next_shared
from overlace.planners.mesh.planner import MeshPlanner
from overlace.planners.mesh.stars import first_of, rank, rank_all, room_for_links
from overlace.planners.mesh.steps import REMOVED, Wanted, mesh_plan


@dataclass(frozen=True)
class TwoDOda(MeshPlanner):
    """A star for each topic around the client of the greatest topic density: diameter 2."""

    ties: Ties = option("lowest", "who is chosen among equals: the lowest id, or a random one")
    weight: Literal["left", "all"] = option(
        "left", "which topics of a client its weight adds up: those left, or all (R6)"
    )
    paper: ClassVar[str] = "TDCD17 (4)"
    REASONS: ClassVar[tuple[str, ...]] = ("{client} becomes the centre of {topic}: {links} links join it", REMOVED)

    def solve(self, observation: Observation, seed: int = 0, *, progress: Progress | None = None) -> Plan:
        """Topic by topic; then what the old mesh had beyond that goes."""
        given, who = interests_by_ties(observation, "mesh.2d-oda", self.ties, seed)
        if progress:
            progress(0.0, "stars")
        centre, topic, start, leaf = stars_by_topic(given, self.weight == "left")
        if progress:
            progress(0.6, "steps")
        centre = who[centre]
        left = np.repeat(centre.astype(np.int32), np.diff(start))
        args = {"client": centre, "topic": topic}
        return mesh_plan(self, observation, seed, Wanted(left, who[leaf].astype(np.int32), start, args))


@kernel
def stars_by_topic(given: Interests, only_left: bool) -> tuple[Ints, Ints, Ints, Ids]:
    """(centre, topic, start, leaf): who is the centre of which topic, in order, and its new links."""
    clients, topics = len(given.start) - 1, len(given.first) - 1
    subscribers = np.diff(given.first)
    left = subscribers > 0
    apart = np.empty(len(given.topic), dtype=np.int64)  # per interest: subscribers without a link to the client
    weight = np.zeros(clients, dtype=np.int64)
    for v in range(clients):
        for i in range(given.start[v], given.start[v + 1]):
            apart[i] = subscribers[given.topic[i]]
            weight[v] += apart[i]
    key = np.empty(clients)
    for v in range(clients):
        i = nearest(given, v, left, apart)
        key[v] = weight[v] / apart[i] if i >= 0 else -np.inf
    best, who, top = rank_all(key)
    centre, topic = np.empty(topics, dtype=np.int64), np.empty(topics, dtype=np.int64)
    start = np.zeros(topics + 1, dtype=np.int64)
    links, seen = no_links(clients, room_for_links(given)), np.full(clients, -1, dtype=np.int64)
    stars = 0
    while True:
        v = first_of(best, who, top)
        if v < 0:
            break
        t = given.topic[nearest(given, v, left, apart)]
        seen[v] = stars
        half = links.head[v]
        while half >= 0:
            seen[links.to[half]] = stars
            half = links.after[half]
        for m in range(given.first[t], given.first[t + 1]):
            u = given.member[m]
            if seen[u] != stars:
                add_link(links, v, u)
                link_topics(given, apart, v, u)
        left[t] = False
        for m in range(given.first[t], given.first[t + 1]):
            u = given.member[m]
            if only_left:
                weight[u] -= subscribers[t]
            i = nearest(given, u, left, apart)
            rank(key, best, who, top, u, weight[u] / apart[i] if i >= 0 else -np.inf)
        centre[stars], topic[stars], start[stars + 1] = v, t, links.many[0]
        stars += 1
    return centre[:stars], topic[:stars], start[: stars + 1], link_ends(links)[1]


@kernel
def nearest(given: Interests, v: int, left: Bools, apart: Ints) -> int:
    """Which interest of v in a topic that is left has the fewest subscribers without a link to v; -1: none."""
    found = -1
    for i in range(given.start[v], given.start[v + 1]):
        if left[given.topic[i]] and (found < 0 or apart[i] < apart[found]):
            found = i
    return found


@kernel
def link_topics(given: Interests, apart: Ints, v: int, u: int) -> None:
    """A new link: in every topic that they share, v and u have one fewer to go."""
    i, j = next_shared(given, v, u, given.start[v], given.start[u])
    while i < given.start[v + 1]:
        apart[i] -= 1
        apart[j] -= 1
        i, j = next_shared(given, v, u, i + 1, j + 1)
