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

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from overlace.arrays.jit import Bools, Ints, kernel
from overlace.arrays.lists import Links, add_link, are_linked, link_ends, no_links
from overlace.limits import option
from overlace.model import Observation, Plan, Progress
from overlace.planners.mesh.caps import CapTooLow, least_solved, too_low
from overlace.planners.mesh.interests import Ids, Interests, interests_of, next_shared
from overlace.planners.mesh.planner import MeshPlanner
from overlace.planners.mesh.stars import room_for_links
from overlace.planners.mesh.steps import REMOVED, WantedLinks, mesh_plan

MOST = 48
DEEP = 4
"""Steps over which those are counted whom a client brings along."""


@dataclass(frozen=True)
class HubTree(MeshPlanner):
    """A bound on every topic's diameter, and links shared by topics; longer ways mostly need fewer links."""

    diameter: int = option(4, "longest way between two subscribers of a topic", least=2)
    spread: float = option(0.2, "topics that a link must serve more for each link its ends have", least=0)
    cap: int | None = option(None, "most links a client may have", least=1)
    REASONS: ClassVar[tuple[str, ...]] = ("{links} links bring all of {topic} within {ways} steps", REMOVED)

    def solve(self, observation: Observation, seed: int = 0, *, progress: Progress | None = None) -> Plan:
        """Topic by topic; then what the old mesh had beyond that goes."""
        given = interests_of(observation, "mesh.hub-tree")
        if progress:
            progress(0.0, "topics")
        most = observation.clients if self.cap is None else self.cap
        found = grow_trees(given, self.diameter, float(self.spread), most)
        if found.stuck >= 0:
            raise self._too_low(given, most, found.stuck)
        if progress:
            progress(0.8, "steps")
        args = {"topic": found.order, "ways": np.full(len(found.order), self.diameter)}
        return mesh_plan(self, observation, seed, WantedLinks(found.one, found.other, found.start, args))

    def _too_low(self, given: Interests, cap: int, stuck: int) -> CapTooLow:
        """Who forbids the cap, and the least that was found."""

        def highest(cap: int) -> int:
            found = grow_trees(given, self.diameter, float(self.spread), cap)
            return cap + 1 if found.stuck >= 0 else cap

        def least() -> int:
            free = grow_trees(given, self.diameter, float(self.spread), len(given.start) - 1)
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


class TreeRule(NamedTuple):
    """What a tree must keep, and what a link must be worth."""

    far: int  # steps from the root, at most
    spread: float  # topics that a link must serve more for each link its ends have
    cap: int  # links of a client, at most


class HubTreeState(NamedTuple):
    """The links so far and the topic at hand; changed in place."""

    links: Links
    left: Ints  # per client, its topics still to come
    ahead: Bools  # per topic, whether it is still to come
    inside: Bools  # per client, whether it wants the topic at hand
    depth: Ints  # per client, steps from the root; -1: out of reach
    reached: Ints  # those in reach
    lost: Ints  # those out of reach, and some who have been reached since
    spare: Ints  # where to look on for ends that have links to spare, see `choose_link`
    trial: Ints  # -1 between calls: depths that `count_brought` tries
    near: Ints  # whom it has found


@kernel
def grow_trees(given: Interests, diameter: int, spread: float, cap: int) -> BoundedTrees:
    """Topic by topic, the largest first, until one cannot be held together under the cap."""
    clients, topics = len(given.start) - 1, len(given.first) - 1
    order = np.argsort(-np.diff(given.first), kind="mergesort")
    start = np.zeros(topics + 1, dtype=np.int64)
    rule = TreeRule(diameter // 2, spread, cap)
    state = HubTreeState(
        no_links(clients, room_for_links(given)),
        np.diff(given.start),
        np.ones(topics, dtype=np.bool_),
        np.zeros(clients, dtype=np.bool_),
        np.full(clients, -1, dtype=np.int64),
        np.empty(clients, dtype=np.int64),
        np.empty(clients, dtype=np.int64),
        np.empty(4, dtype=np.int64),
        np.full(clients, -1, dtype=np.int64),
        np.empty(clients, dtype=np.int64),
    )

    stuck = -1
    for n in range(topics):
        if not tie_topic(given, state, rule, order[n], 1 + diameter % 2):
            stuck = order[n]
            break
        start[n + 1] = state.links.many[0]
    one, other = link_ends(state.links)
    return BoundedTrees(order, start, one, other, stuck)


@kernel
def tie_topic(given: Interests, state: HubTreeState, rule: TreeRule, t: int, roots: int) -> bool:
    """Bring all subscribers of a topic within reach of one root or two linked ones; whether the cap allows it."""
    own = given.member[given.first[t] : given.first[t + 1]]
    reached, lost, depth, degree = state.reached, state.lost, state.depth, state.links.degree
    state.ahead[t] = False
    state.spare[:] = 0
    for i in range(len(own)):
        state.inside[own[i]] = True
        state.left[own[i]] -= 1
        lost[i] = own[i]

    found, waiting = 0, len(own)
    for _ in range(roots):
        if found == len(own):
            break
        root = choose_root(state, own, rule)
        if found:  # the other end of the link in the middle
            if max(degree[reached[0]], degree[root]) >= rule.cap:
                return False
            tie(state.links, reached[0], root)
        depth[root], reached[found] = 0, root
        found = spread_out(state, depth, reached, found, rule.far)

    while found < len(own):
        if 8 * (len(own) - found) < 7 * waiting:  # those in reach leave the list, now and then
            waiting = keep_lost(state, waiting)
        p, x = choose_link(given, state, rule, reached[:found], lost[:waiting])
        if p < 0:
            return False
        tie(state.links, p, x)
        depth[x], reached[found] = depth[p] + 1, x
        found = spread_out(state, depth, reached, found, rule.far)

    for v in own:
        state.inside[v] = False
        depth[v] = -1
    return True


@kernel
def tie(links: Links, p: int, x: int) -> None:
    """Add a link unless it is there."""
    if not are_linked(links, p, x):
        add_link(links, p, x)


@kernel
def keep_lost(state: HubTreeState, waiting: int) -> int:
    """Take those in reach off the list of those who are not; returns how long it is then."""
    kept = 0
    for i in range(waiting):
        if state.depth[state.lost[i]] < 0:
            state.lost[kept] = state.lost[i]
            kept += 1
    state.spare[2], state.spare[3] = 0, 0
    return kept


@kernel
def spread_out(state: HubTreeState, depth: Ints, queue: Ints, at: int, far: int) -> int:
    """Breadth-first from queue[at] over subscribers out of reach; returns the end of the queue.

    Steps are written to depth, which is the state's or one that is tried, and is -1 where nobody has been yet.
    """
    links = state.links
    end = at + 1
    while at < end:
        v = queue[at]
        at += 1
        if depth[v] == far:
            continue
        half = links.head[v]
        while half >= 0:
            u = links.to[half]
            if state.inside[u] and state.depth[u] < 0 and depth[u] < 0:
                queue[end] = u
                end += 1
                depth[u] = depth[v] + 1
            half = links.after[half]
    return end


@kernel
def count_brought(state: HubTreeState, x: int, far: int) -> int:
    """How many subscribers out of reach x brings along over links among them, within so many steps; itself counted."""
    trial, near = state.trial, state.near
    near[0], trial[x] = x, 0
    end = spread_out(state, trial, near, 0, far)
    for i in range(end):
        trial[near[i]] = -1
    return end


@kernel
def choose_root(state: HubTreeState, own: Ids, rule: TreeRule) -> int:
    """The one out of reach who brings most others, less what its links weigh; of equals the lowest id."""
    step = max(len(own) // (4 * MOST), 1)
    found, most = -1, -np.inf
    for i in range(0, len(own), step):
        v = own[i]
        if state.depth[v] >= 0:
            continue
        count = count_brought(state, v, rule.far)
        if count == len(own):  # the links are there already: nobody has to take one more
            return int(v)
        worth = count - rule.spread * state.links.degree[v]
        if worth > most:
            found, most = v, worth
    if found < 0:  # none of those looked at
        for v in own:
            if state.depth[v] < 0:
                return int(v)
    return found


@kernel
def choose_link(given: Interests, state: HubTreeState, rule: TreeRule, reached: Ints, lost: Ints) -> tuple[int, int]:
    """(within, out of reach): the link that ties in most, serves most topics to come, and burdens the least linked.

    Where none of those looked at is near enough and has links to spare, the first of all who are; -1 if nobody is.
    """
    depth, degree, left = state.depth, state.links.degree, state.left
    step, hop = max(len(lost) // MOST, 1), max(len(reached) // MOST, 1)
    begin = len(reached) % step  # others each time: those tied in stay on the list for a while
    deep = min(rule.far, DEEP)
    along = np.empty(deep, dtype=np.int64)  # whom x brings, by the steps that are left at x
    best_p, best_x, best = -1, -1, -np.inf
    for i in range(begin, len(lost), step):
        x = lost[i]
        if depth[x] >= 0 or degree[x] + left[x] >= rule.cap:
            continue
        for d in range(deep):
            along[d] = count_brought(state, x, d)
        for j in range(0, len(reached), hop):
            p = reached[j]
            if depth[p] >= rule.far or degree[p] + left[p] >= rule.cap:
                continue
            worth = along[min(rule.far - 1 - depth[p], deep - 1)] - rule.spread * max(degree[p], degree[x])
            if worth + min(left[p], left[x]) <= best:
                continue
            worth += count_shared(given, p, x, state.ahead)
            if worth > best:
                best_p, best_x, best = p, x, worth
    if best_p >= 0:
        return best_p, best_x

    spare = state.spare
    for kept in range(2):  # first by those who keep a link for each of their topics to come
        spare[kept] = next_spare(state, reached, spare[kept], rule.far, rule.cap, kept == 0)
        spare[2 + kept] = next_spare(state, lost, spare[2 + kept], 0, rule.cap, kept == 0)
        if spare[kept] < len(reached) and spare[2 + kept] < len(lost):
            return reached[spare[kept]], lost[spare[2 + kept]]
    return -1, -1


@kernel
def next_spare(state: HubTreeState, among: Ints, at: int, far: int, cap: int, kept: bool) -> int:
    """The next place on a list of somebody above a depth with a link to spare: whoever has none gets none back."""
    depth, degree, left = state.depth, state.links.degree, state.left
    while at < len(among):
        v = among[at]
        if depth[v] < far and degree[v] + (left[v] if kept else 0) < cap:
            break
        at += 1
    return at


@kernel
def count_shared(given: Interests, u: int, v: int, ahead: Bools) -> int:
    """How many topics that are still to come both want."""
    found = 0
    i, j = next_shared(given, u, v, given.start[u], given.start[v])
    while i < given.start[u + 1]:
        found += ahead[given.topic[i]]
        i, j = next_shared(given, u, v, i + 1, j + 1)
    return found
