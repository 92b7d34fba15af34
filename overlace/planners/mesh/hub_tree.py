"""Hub-tree: longer ways for fewer links. A bound on the diameter of every topic: 3, 4, 6, any.

Beyond TDCD17, between its stars (diameter 2) and GM (no bound). Topics are looked at one by one, the largest first.
A topic with an even bound gets a root, and everybody must be within half the bound of it; with an odd bound the
root is a link. Links that earlier topics brought count: the root is a subscriber who reaches most others over
them. Whoever is out of reach is tied in by a new link to somebody within it: the link that brings most others
along, serves most topics that are still to come, and falls on the least linked clients.

In a topic with many subscribers only some candidates are looked at, evenly spaced: `MOST` at either end.

Under a cap everybody keeps a link free for each of its topics that is still to come, as long as others can take the
link instead. Where nobody can, the topic is named, with the least cap that was found.

Keeps: the diameter of every topic is at most the bound; the cap, or NothingBetter that says what was found.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

import numpy as np

from overlace.arrays.jit import Bools, Ints, kernel
from overlace.errors import BadParameter
from overlace.model import Observation, Plan, Progress
from overlace.planners.mesh.caps import CapTooLow, least_solved, too_low
from overlace.planners.mesh.interests import Ids, Interests, interests_of
from overlace.planners.mesh.planner import MeshPlanner
from overlace.planners.mesh.stars import room_for_links
from overlace.planners.mesh.steps import REMOVED, Wanted, mesh_plan

MOST = 48
DEEP = 4
"""Steps over which those are counted whom a client brings along."""


@dataclass(frozen=True)
class HubTree(MeshPlanner):
    """A bound on every topic's diameter, and links shared by topics; longer ways mostly need fewer links."""

    diameter: int = field(default=4, metadata={"help": "longest way between two subscribers of a topic; 2 or more"})
    spread: float = field(
        default=0.2, metadata={"help": "topics that a link must serve more for each link its ends have; 0 or more"}
    )
    cap: int | None = field(default=None, metadata={"help": "most links a client may have; none: unlimited"})
    REASONS: ClassVar[tuple[str, ...]] = ("{links} links bring all of {topic} within {ways} steps", REMOVED)

    def __post_init__(self) -> None:
        if self.diameter < 2:
            raise BadParameter(f"diameter is {self.diameter}: expected 2 or more")
        if not self.spread >= 0:
            raise BadParameter(f"spread is {self.spread}: expected 0 or more")
        if self.cap is not None and self.cap < 1:
            raise BadParameter(f"cap is {self.cap}: expected 1 or more links, or none for unlimited")

    def solve(self, observation: Observation, seed: int = 0, *, progress: Progress | None = None) -> Plan:
        """Topic by topic; then what the old mesh had beyond that goes."""
        given = interests_of(observation, "mesh.hub-tree")
        if progress:
            progress(0.0, "topics")
        most = observation.clients if self.cap is None else self.cap
        found = bounded_trees(given, self.diameter, float(self.spread), most)
        if found.stuck >= 0:
            raise self._too_low(given, most, found.stuck)
        if progress:
            progress(0.8, "steps")
        args = {"topic": found.order, "ways": np.full(len(found.order), self.diameter)}
        return mesh_plan(self, observation, seed, Wanted(found.one, found.other, found.start, args))

    def _too_low(self, given: Interests, cap: int, stuck: int) -> CapTooLow:
        """Who forbids the cap, and the least that was found."""

        def highest(cap: int) -> int:
            found = bounded_trees(given, self.diameter, float(self.spread), cap)
            return cap + 1 if found.stuck >= 0 else cap

        def least() -> int:
            free = bounded_trees(given, self.diameter, float(self.spread), len(given.start) - 1)
            most = int(np.bincount(np.concatenate((free.one, free.other)), minlength=1).max())
            return least_solved(highest, cap + 1, most)

        return too_low("mesh.hub-tree", given, cap, self.diameter, stuck, least)


class BoundedTrees(NamedTuple):
    """The new links of each topic."""

    order: Ints  # topics as they were looked at
    start: Ints  # one[start[i]:start[i + 1]] are the links of topic order[i]
    one: Ids
    other: Ids
    stuck: int  # a topic that nobody could be tied into under the cap; -1: none


@kernel
def bounded_trees(given: Interests, diameter: int, spread: float, cap: int) -> BoundedTrees:
    """Topic by topic, the largest first, until one cannot be held together under the cap."""
    clients = len(given.start) - 1
    subscribers = np.diff(given.first)
    order = np.argsort(-subscribers, kind="mergesort")
    room = room_for_links(given)
    one, other = np.empty(room, dtype=np.int32), np.empty(room, dtype=np.int32)
    start = np.zeros(len(order) + 1, dtype=np.int64)
    head, after = np.full(clients, -1, dtype=np.int64), np.empty(2 * room, dtype=np.int64)
    degree, ahead = np.zeros(clients, dtype=np.int64), np.ones(len(order), dtype=np.bool_)
    left = np.diff(given.start)  # topics still to come, of each client
    inside = np.zeros(clients, dtype=np.bool_)
    depth, trial = np.full(clients, -1, dtype=np.int64), np.full(clients, -1, dtype=np.int64)
    queue, near = np.empty(clients, dtype=np.int64), np.empty(clients, dtype=np.int64)
    lost = np.empty(clients, dtype=np.int64)
    far = diameter // 2
    links = 0
    for n in range(len(order)):
        t = order[n]
        own = given.member[given.first[t] : given.first[t + 1]]
        ahead[t] = False
        for i in range(len(own)):
            inside[own[i]] = True
            left[own[i]] -= 1
            lost[i] = own[i]
        waiting, reached = len(own), 0
        spare = np.zeros(4, dtype=np.int64)  # where to look on for ends that have links to spare, see `spare_end`
        for roots in range(1 + diameter % 2):
            if reached == len(own):
                break
            root = best_root(own, far, head, after, one, other, inside, depth, trial, near, degree, spread)
            if roots == 1:  # the other end of the link in the middle
                if max(degree[queue[0]], degree[root]) >= cap:
                    return BoundedTrees(order, start, one[:links], other[:links], t)
                links = tie(queue[0], root, one, other, head, after, degree, links)
            depth[root] = 0
            queue[reached] = root
            reached = spread_out(reached, far, head, after, one, other, inside, depth, queue)
        while reached < len(own):
            if 8 * (len(own) - reached) < 7 * waiting:  # those in reach leave the list, now and then
                still = 0
                for i in range(waiting):
                    if depth[lost[i]] < 0:
                        lost[still] = lost[i]
                        still += 1
                waiting = still
                spare[2], spare[3] = 0, 0
            p, x = best_tie(
                given, lost[:waiting], queue[:reached], far, head, after, one, other, inside, depth, trial, near,
                degree, left, ahead, spread, cap, spare,
            )  # fmt: skip
            if p < 0:
                return BoundedTrees(order, start, one[:links], other[:links], t)
            links = tie(p, x, one, other, head, after, degree, links)
            depth[x] = depth[p] + 1
            queue[reached] = x
            reached = spread_out(reached, far, head, after, one, other, inside, depth, queue)
        for v in own:
            inside[v] = False
            depth[v] = -1
        start[n + 1] = links
    return BoundedTrees(order, start, one[:links], other[:links], -1)


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
    given: Interests, lost: Ints, reached: Ints, far: int, head: Ints, after: Ints, one: Ids, other: Ids, inside: Bools,
    depth: Ints, trial: Ints, near: Ints, degree: Ints, left: Ints, ahead: Bools, spread: float, cap: int, spare: Ints,
) -> tuple[int, int]:  # fmt: skip
    """(within, out of reach): the link that ties in most, serves most topics to come, and burdens the least linked.

    Where none of those looked at is near enough and has links to spare, the first of all who are; -1 if nobody is.
    """
    step, hop = max(len(lost) // MOST, 1), max(len(reached) // MOST, 1)
    begin = len(reached) % step  # others each time: those tied in stay on the list for a while
    best_p, best_x, best = -1, -1, -np.inf
    seen = min(far, DEEP)
    along = np.empty(seen, dtype=np.int64)  # whom x brings, by the steps that are left at x
    for i in range(begin, len(lost), step):
        x = lost[i]
        if depth[x] >= 0 or degree[x] + left[x] >= cap:
            continue
        for d in range(seen):
            along[d] = brings(x, d, head, after, one, other, inside, depth, trial, near)
        for j in range(0, len(reached), hop):
            p = reached[j]
            if depth[p] >= far or degree[p] + left[p] >= cap:
                continue
            worth = along[min(far - 1 - depth[p], seen - 1)] - spread * max(degree[p], degree[x])
            if worth + min(left[p], left[x]) <= best:
                continue
            worth += shared(given, p, x, ahead)
            if worth > best:
                best_p, best_x, best = p, x, worth
    if best_p >= 0:
        return best_p, best_x
    for kept in range(2):  # first by those who keep a link for each of their topics to come
        spare[kept] = spare_end(reached, spare[kept], far, depth, degree, left, cap, kept == 0)
        spare[2 + kept] = spare_end(lost, spare[2 + kept], 0, depth, degree, left, cap, kept == 0)
        if spare[kept] < len(reached) and spare[2 + kept] < len(lost):
            return reached[spare[kept]], lost[spare[2 + kept]]
    return -1, -1


@kernel
def spare_end(among: Ints, at: int, far: int, depth: Ints, degree: Ints, left: Ints, cap: int, kept: bool) -> int:
    """The next place on a list of somebody above a depth with a link to spare: whoever has none gets none back."""
    while at < len(among):
        v = among[at]
        if depth[v] < far and degree[v] + (left[v] if kept else 0) < cap:
            break
        at += 1
    return at


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
