"""Hub-tree: longer ways for fewer links. A bound on the diameter of every topic: 3, 4, 6, any.

Beyond TDCD17, between its stars (diameter 2) and GM (no bound). Topics are looked at one by one, the largest first.
A topic with an even bound gets a root, and everybody must be within half the bound of it; with an odd bound the
root is a link. Links that earlier topics brought count: the root is a subscriber who reaches most others over
them. Whoever is out of reach is tied in by a new link to somebody within it: the link that brings most others
along, serves most topics that are still to come, and falls on the least linked clients.

In a topic with many subscribers only some candidates are looked at, evenly spaced: `MOST` at either end.

Keeps: the diameter of every topic is at most the bound.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from overlace.arrays.jit import Bools, Ints, kernel
from overlace.errors import BadParameter
from overlace.model import Observation, Plan, Progress
from overlace.planners.mesh.interests import Ids, Interests, interests_of
from overlace.planners.mesh.planner import MeshPlanner
from overlace.planners.mesh.stars import room_for_links
from overlace.planners.mesh.steps import REMOVED, Wanted, mesh_plan

MOST = 48


@dataclass(frozen=True)
class HubTree(MeshPlanner):
    """A bound on every topic's diameter, and links shared by topics; longer ways mostly need fewer links."""

    diameter: int = field(default=4, metadata={"help": "longest way between two subscribers of a topic; 2 or more"})
    spread: float = field(
        default=0.2, metadata={"help": "topics that a link must serve more for each link its ends have; 0 or more"}
    )
    REASONS: ClassVar[tuple[str, ...]] = ("{links} links bring all of {topic} within {ways} steps", REMOVED)

    def __post_init__(self) -> None:
        if self.diameter < 2:
            raise BadParameter(f"diameter is {self.diameter}: expected 2 or more")
        if not self.spread >= 0:
            raise BadParameter(f"spread is {self.spread}: expected 0 or more")

    def solve(self, observation: Observation, seed: int = 0, *, progress: Progress | None = None) -> Plan:
        """Topic by topic; then what the old mesh had beyond that goes."""
        given = interests_of(observation, "mesh.hub-tree")
        if progress:
            progress(0.0, "topics")
        order, start, one, other = bounded_trees(given, self.diameter, float(self.spread))
        if progress:
            progress(0.8, "steps")
        args = {"topic": order, "ways": np.full(len(order), self.diameter)}
        return mesh_plan(self, observation, seed, Wanted(one, other, start, args))


@kernel
def bounded_trees(given: Interests, diameter: int, spread: float) -> tuple[Ints, Ints, Ids, Ids]:
    """(topics in order, start, one end, the other): the new links of each topic."""
    clients = len(given.start) - 1
    subscribers = np.diff(given.first)
    order = np.argsort(-subscribers, kind="mergesort")
    room = room_for_links(given)
    one, other = np.empty(room, dtype=np.int32), np.empty(room, dtype=np.int32)
    start = np.zeros(len(order) + 1, dtype=np.int64)
    head, after = np.full(clients, -1, dtype=np.int64), np.empty(2 * room, dtype=np.int64)
    degree, ahead = np.zeros(clients, dtype=np.int64), np.ones(len(order), dtype=np.bool_)
    inside = np.zeros(clients, dtype=np.bool_)
    depth, trial = np.full(clients, -1, dtype=np.int64), np.full(clients, -1, dtype=np.int64)
    queue, near = np.empty(clients, dtype=np.int64), np.empty(clients, dtype=np.int64)
    far = diameter // 2
    links = 0
    for n in range(len(order)):
        t = order[n]
        own = given.member[given.first[t] : given.first[t + 1]]
        ahead[t] = False
        for v in own:
            inside[v] = True
        reached = 0
        for roots in range(1 + diameter % 2):
            if reached == len(own):
                break
            root = best_root(own, far, head, after, one, other, inside, depth, trial, near, degree, spread)
            if roots == 1:  # the other end of the link in the middle
                links = tie(queue[0], root, one, other, head, after, degree, links)
            depth[root] = 0
            queue[reached] = root
            reached = spread_out(reached, far, head, after, one, other, inside, depth, queue)
        while reached < len(own):
            p, x = best_tie(
                given, own, queue[:reached], far, head, after, one, other, inside, depth, trial, near, degree, ahead,
                spread,
            )  # fmt: skip
            links = tie(p, x, one, other, head, after, degree, links)
            depth[x] = depth[p] + 1
            queue[reached] = x
            reached = spread_out(reached, far, head, after, one, other, inside, depth, queue)
        for v in own:
            inside[v] = False
            depth[v] = -1
        start[n + 1] = links
    return order, start, one[:links], other[:links]


@kernel
def tie(p: int, x: int, one: Ids, other: Ids, head: Ints, after: Ints, degree: Ints, links: int) -> int:
    """Add a link unless it is there."""
    k = head[p]
    while k >= 0:
        if one[k // 2] + other[k // 2] - p == x:
            return links
        k = after[k]
    one[links], other[links] = p, x
    after[2 * links], head[p] = head[p], 2 * links
    after[2 * links + 1], head[x] = head[x], 2 * links + 1
    degree[p] += 1
    degree[x] += 1
    return links + 1


@kernel
def spread_out(
    at: int, far: int, head: Ints, after: Ints, one: Ids, other: Ids, inside: Bools, depth: Ints, queue: Ints
) -> int:
    """Breadth-first from queue[at] over clients inside without a depth; returns the end of the queue."""
    end = at + 1
    while at < end:
        v = queue[at]
        at += 1
        if depth[v] == far:
            continue
        k = head[v]
        while k >= 0:
            u = one[k // 2] + other[k // 2] - v
            if inside[u] and depth[u] < 0:
                queue[end] = u
                end += 1
                depth[u] = depth[v] + 1
            k = after[k]
    return end


@kernel
def brings(
    x: int, far: int, head: Ints, after: Ints, one: Ids, other: Ids, inside: Bools, depth: Ints, trial: Ints, near: Ints
) -> int:
    """How many clients without a depth x reaches over links among them within so many steps, itself counted."""
    near[0], trial[x] = x, 0
    at, end = 0, 1
    while at < end:
        v = near[at]
        at += 1
        if trial[v] == far:
            continue
        k = head[v]
        while k >= 0:
            u = one[k // 2] + other[k // 2] - v
            if inside[u] and depth[u] < 0 and trial[u] < 0:
                trial[u] = trial[v] + 1
                near[end] = u
                end += 1
            k = after[k]
    for i in range(end):
        trial[near[i]] = -1
    return end


@kernel
def best_root(
    own: Ids, far: int, head: Ints, after: Ints, one: Ids, other: Ids, inside: Bools, depth: Ints, trial: Ints,
    near: Ints, degree: Ints, spread: float,
) -> int:  # fmt: skip
    """The one without a depth who brings most others, less what its links weigh; of equals the lowest id."""
    step = max(len(own) // (4 * MOST), 1)
    found, most = -1, -np.inf
    for i in range(0, len(own), step):
        v = own[i]
        if depth[v] >= 0:
            continue
        count = brings(v, far, head, after, one, other, inside, depth, trial, near)
        if count == len(own):  # the links are there already: nobody has to take one more
            return int(v)
        worth = count - spread * degree[v]
        if worth > most:
            found, most = v, worth
    if found < 0:  # none of those looked at
        for v in own:
            if depth[v] < 0:
                return int(v)
    return found


@kernel
def best_tie(
    given: Interests, own: Ids, reached: Ints, far: int, head: Ints, after: Ints, one: Ids, other: Ids, inside: Bools,
    depth: Ints, trial: Ints, near: Ints, degree: Ints, ahead: Bools, spread: float,
) -> tuple[int, int]:  # fmt: skip
    """(within, out of reach): the link that ties in most, serves most topics to come, and burdens the least linked."""
    out = np.empty(MOST, dtype=np.int64)
    lost = 0
    for v in own:
        lost += depth[v] < 0
    step, seen, n = max(lost // MOST, 1), 0, 0
    for v in own:
        if depth[v] < 0:
            if seen % step == 0 and n < MOST:
                out[n] = v
                n += 1
            seen += 1
    best_p, best_x, best = -1, -1, -np.inf
    hop = max(len(reached) // MOST, 1)
    for i in range(n):
        x = out[i]
        along = np.empty(far, dtype=np.int64)  # whom x brings, by the steps that are left at x
        for d in range(far):
            along[d] = brings(x, d, head, after, one, other, inside, depth, trial, near)
        for j in range(0, len(reached), hop):
            p = reached[j]
            if depth[p] >= far:
                continue
            worth = along[far - 1 - depth[p]] + shared(given, p, x, ahead) - spread * max(degree[p], degree[x])
            if worth > best:
                best_p, best_x, best = p, x, worth
    if best_p < 0:  # of those looked at nobody is near enough
        return reached[0], out[0]
    return best_p, best_x


@kernel
def shared(given: Interests, u: int, v: int, ahead: Bools) -> int:
    """How many topics that are still to come both want."""
    topic = given.topic
    i, j, end_i, end_j = given.start[u], given.start[v], given.start[u + 1], given.start[v + 1]
    found = 0
    while i < end_i and j < end_j:
        if topic[i] < topic[j]:
            i += 1
        elif topic[i] > topic[j]:
            j += 1
        else:
            found += ahead[topic[i]]
            i += 1
            j += 1
    return found
