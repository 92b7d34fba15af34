"""GM, greedy merge: link by link, the one that joins most components of topics.

TDCD17 §III, after Chockler, Melamed, Tock and Vitenberg (PODC 2007). The contribution of a link is the number of
topics in which its two ends are in different components. The link with the greatest contribution is added until
every topic is one component. Few links and low degrees; the diameter of a topic may grow with its size.

Keeps: every link joins at least one component.
Reads: R3, ties to the lowest pair of ids (a scan by index, which makes the paper's maximum degree), or random.
Departs: no queue of pairs. A contribution never grows, so for each level of it, highest first, one pass over
the pairs in order is exact: what has less than the level when the pass comes by never has it again. Each client
remembers a bound on its contributions and sits out passes above it; topics in one piece are skipped, and who shares
several topics is found by the smallest of them. Memory is in the order of the interests; with random ties also in
that of the pairs of one level, which are put in a random order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from overlace.arrays.jit import Ints, kernel
from overlace.limits import option
from overlace.model import Observation, Plan, Planner, Progress
from overlace.planners.mesh.interests import Ids, Interests, Ties, interests_of, next_shared
from overlace.planners.mesh.planner import MeshPlanner
from overlace.planners.mesh.stars import room_for_links
from overlace.planners.mesh.steps import REMOVED, WantedLinks, mesh_plan

LINK_REASONS = ("{left_client} and {right_client} join {joined} components of the topics they share", REMOVED)


@dataclass(frozen=True)
class GreedyMerge(MeshPlanner):
    """The link that joins most topic components, again and again: few links, low degrees, long ways."""

    ties: Ties = option("lowest", "which link is chosen among equals: the lowest ids, or a random one")
    paper: ClassVar[str] = "TDCD17 §III"
    REASONS: ClassVar[tuple[str, ...]] = LINK_REASONS

    def solve(self, observation: Observation, seed: int = 0, *, progress: Progress | None = None) -> Plan:
        """Level by level, a step for each link; then what the old mesh had beyond that goes."""
        state = merging(interests_of(observation, "mesh.gm"))
        rng = np.random.default_rng(seed)
        links = 0
        level = most = int(np.diff(state.given.start).max(initial=0))
        while level > 0:
            if progress:
                progress(1 - level / most, f"links that join {level} components")
            if self.ties == "random":
                one, other = pairs_at(state, level)
                order = rng.permutation(len(one))
                links = merge_pairs(state, level, one[order], other[order], links)
            else:
                links = merge_level(state, level, links)
            level = min(level - 1, int(state.bound.max(initial=0)))
        return link_plan(self, observation, seed, state, links)


class Merging(NamedTuple):
    """What a merge knows as it goes."""

    given: Interests
    place: Ints  # per interest by client: where it stands among the members of its topic
    part: Ids  # per interest by topic: the component the member is in
    around: Ids  # per interest by topic: the next member of the component, in a ring
    size: Ids  # per component: its members
    parts: Ints  # per topic: its components
    bound: Ints  # per client: no link to a higher id contributes more
    looked: Ints  # per client: members looked at without counting all
    counted: Ids  # scratch, 0 between calls: contributions of links from one client
    left: Ids  # the links so far
    right: Ids
    joined: Ints  # how many components each joined


def merging(given: Interests) -> Merging:
    """Nothing merged yet."""
    clients, room = len(given.start) - 1, room_for_links(given)
    place = places(given)
    bound = np.diff(given.start)
    part = np.arange(len(given.member), dtype=np.int32)
    left, right, joined = np.empty(room, np.int32), np.empty(room, np.int32), np.empty(room, np.int64)
    parts, size = np.diff(given.first), np.ones(len(part), dtype=np.int32)
    counted = np.zeros(clients, np.int32)
    return Merging(
        given, place, part, part.copy(), size, parts, bound, np.zeros(clients, np.int64), counted, left, right, joined
    )


def link_plan(planner: Planner, observation: Observation, seed: int, state: Merging, links: int) -> Plan:
    """The plan with a step for each link."""
    left, right, joined = state.left[:links], state.right[:links], state.joined[:links].copy()
    low, high = np.minimum(left, right).astype(np.int64), np.maximum(left, right).astype(np.int64)
    args = {"left_client": low, "right_client": high, "joined": joined}
    return mesh_plan(planner, observation, seed, WantedLinks(left, right, np.arange(links + 1), args, joined))


@kernel
def places(given: Interests) -> Ints:
    """Where each interest by client stands by topic."""
    at = given.first.copy()
    place = np.empty(len(given.topic), dtype=np.int64)
    for i in range(len(given.topic)):
        place[i] = at[given.topic[i]]
        at[given.topic[i]] += 1
    return place


@kernel
def merge_level(state: Merging, level: int, links: int) -> int:
    """Add every link that contributes as much as the level, by ids; returns how many links there are then."""
    clients = len(state.bound)
    touched = np.empty(clients, dtype=np.int64)
    for u in range(clients):
        if state.bound[u] < level:
            continue
        some = smallest_topics(state, u, level)
        few = len(some) > 0
        n = contributions(state, u, touched, some) if few else contributions(state, u, touched, open_topics(state, u))
        reached, found = (level - 1 if few else 0), 0
        for k in range(n):
            v = touched[k]
            if few or state.counted[v] >= level:
                touched[found] = v
                found += 1
            else:
                reached = max(reached, state.counted[v])
            state.counted[v] = 0
        for v in np.sort(touched[:found]):
            adds = contribution(state, u, v)
            if adds == level:
                links = merge(state, u, v, adds, links)
            else:
                reached = max(reached, adds)
        state.bound[u] = reached
    return links


@kernel
def pairs_at(state: Merging, level: int) -> tuple[Ids, Ids]:
    """Every pair that contributes as much as the level now."""
    one, other = np.empty(1024, dtype=np.int32), np.empty(1024, dtype=np.int32)
    touched = np.empty(len(state.bound), dtype=np.int64)
    found = 0
    for u in range(len(state.bound)):
        if state.bound[u] < level:
            continue
        n = contributions(state, u, touched, open_topics(state, u))
        reached = 0
        for k in range(n):
            v = touched[k]
            if state.counted[v] >= level:
                if found == len(one):
                    one, other = np.concatenate((one, one)), np.concatenate((other, other))
                one[found], other[found] = u, v
                found += 1
                reached = level - 1
            reached = max(reached, min(level - 1, state.counted[v]))
            state.counted[v] = 0
        state.bound[u] = reached
    return one[:found], other[:found]


@kernel
def merge_pairs(state: Merging, level: int, one: Ids, other: Ids, links: int) -> int:
    """Add those of the pairs, in this order, that still contribute as much as the level."""
    for k in range(len(one)):
        adds = contribution(state, one[k], other[k])
        if adds == level:
            links = merge(state, one[k], other[k], adds, links)
    return links


@kernel
def open_topics(state: Merging, u: int) -> Ints:
    """Which of u's interests are in topics with several components."""
    begin, end = state.given.start[u], state.given.start[u + 1]
    found, n = np.empty(end - begin, dtype=np.int64), 0
    for i in range(begin, end):
        if state.parts[state.given.topic[i]] > 1:
            found[n] = i
            n += 1
    return found[:n]


@kernel
def smallest_topics(state: Merging, u: int, level: int) -> Ints:
    """The smallest of u's open topics, all but fewer than the level: who shares that many has one of these.

    None where that saves little, or where so much has been looked at by now that it is time to count all.
    """
    own, first = open_topics(state, u), state.given.first
    size = np.empty(len(own), dtype=np.int64)
    for k in range(len(own)):
        t = state.given.topic[own[k]]
        size[k] = first[t + 1] - first[t]
    if level < 2 or len(own) < level:
        return own[:0]
    order = np.argsort(size, kind="mergesort")
    some = own[order[: len(own) - level + 1]]
    work = len(own) * size[order[: len(some)]].sum()
    if state.looked[u] + work > size.sum():
        state.looked[u] = 0
        return own[:0]
    state.looked[u] += work
    return some


@kernel
def contributions(state: Merging, u: int, touched: Ints, own: Ints) -> int:
    """Count what a link from u to each higher id contributes in these of its topics; how many do, these in touched."""
    first, member, part, count = state.given.first, state.given.member, state.part, state.counted
    n = 0
    for i in own:
        mine = part[state.place[i]]
        for k in range(state.place[i] + 1, first[state.given.topic[i] + 1]):
            if part[k] != mine:
                v = member[k]
                if count[v] == 0:
                    touched[n] = v
                    n += 1
                count[v] += 1
    return n


@kernel
def contribution(state: Merging, u: int, v: int) -> int:
    """In how many topics that both want u and v are in different components."""
    given, place, part = state.given, state.place, state.part
    adds = 0
    i, j = next_shared(given, u, v, given.start[u], given.start[v])
    while i < given.start[u + 1]:
        adds += part[place[i]] != part[place[j]]
        i, j = next_shared(given, u, v, i + 1, j + 1)
    return adds


@kernel
def merge(state: Merging, u: int, v: int, adds: int, links: int) -> int:
    """Add a link: in every topic that both want their components become one."""
    given, place, part, around = state.given, state.place, state.part, state.around
    i, j = next_shared(given, u, v, given.start[u], given.start[v])
    while i < given.start[u + 1]:
        old, new, at = part[place[j]], part[place[i]], place[j]
        if state.size[new] < state.size[old]:
            old, new, at = new, old, place[i]
        if old != new:  # the smaller takes the name of the larger
            for _ in range(state.size[old]):
                part[at] = new
                at = around[at]
            around[place[i]], around[place[j]] = around[place[j]], around[place[i]]
            state.size[new] += state.size[old]
            state.parts[given.topic[i]] -= 1
        i, j = next_shared(given, u, v, i + 1, j + 1)
    state.left[links], state.right[links], state.joined[links] = u, v, adds
    return links + 1
