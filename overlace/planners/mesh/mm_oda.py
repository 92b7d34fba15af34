"""MinMax-ODA: among the links that raise the maximum degree least, the one that joins most components of topics.

Onus and Richa, INFOCOM 2009; TDCD17 [6] is its journal version. Built from its description, not from its text
or code: the low-degree rival beside GM. While the maximum degree is d, links between two clients with fewer than
d links come first, by their contribution as in GM; when none of them joins anything, the best of all links is
added, which makes the maximum d + 1.

Keeps: every link joins at least one component.
Reads: ties to the lowest pair of ids (TDCD17 R3), or random among the clients.
Departs: as GM, level by level and without a queue of pairs; each new maximum degree begins at the top again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from overlace.arrays.jit import Ints, kernel
from overlace.limits import option
from overlace.model import Observation, Plan, Progress
from overlace.planners.mesh.greedy_merge import (
    LINK_REASONS,
    Merging,
    contribution,
    contributions,
    link_plan,
    merge,
    merging,
    open_topics,
)
from overlace.planners.mesh.interests import Ties, interests_by_ties
from overlace.planners.mesh.planner import MeshPlanner


@dataclass(frozen=True)
class MmOda(MeshPlanner):
    """GM that keeps the maximum degree as low as it can at every link."""

    ties: Ties = option("lowest", "who is chosen among equals: the lowest ids, or random ones")
    paper: ClassVar[str] = "Onus, Richa 2009"
    REASONS: ClassVar[tuple[str, ...]] = LINK_REASONS

    def solve(self, observation: Observation, seed: int = 0, *, progress: Progress | None = None) -> Plan:
        """Maximum degree by maximum degree, a step for each link; then what the old mesh had beyond that goes."""
        given, who = interests_by_ties(observation, "mesh.mm-oda", self.ties, seed)
        state = merging(given)
        degree = np.zeros(observation.clients, dtype=np.int64)
        links, most, total = 0, 0, max(int(len(given.member) - (np.diff(given.first) > 0).sum()), 1)
        while True:
            u, v, adds = best_pair(state)
            if adds == 0:
                break
            links = merge(state, u, v, adds, links)
            degree[[u, v]] += 1
            most += 1
            links = merge_below(state, degree, most, links)
            if progress:
                progress(min(state.joined[:links].sum() / total, 1.0), f"links under a maximum degree of {most}")
        left, right = who[state.left[:links]].astype(np.int32), who[state.right[:links]].astype(np.int32)
        return link_plan(self, observation, seed, state._replace(left=left, right=right), links)


@kernel
def best_pair(state: Merging) -> tuple[int, int, int]:
    """(client, client, contribution) of the link that contributes most, the lowest ids of equals."""
    touched = np.empty(len(state.bound), dtype=np.int64)
    best_u, best_v, best = -1, -1, 0
    for u in range(len(state.bound)):
        if state.bound[u] <= best:
            continue
        n = contributions(state, u, touched, open_topics(state, u))
        reached = 0
        for k in range(n):
            v, adds = touched[k], state.counted[touched[k]]
            reached = max(reached, adds)
            if adds > best or (adds == best and u == best_u and v < best_v):
                best_u, best_v, best = u, v, adds
            state.counted[v] = 0
        state.bound[u] = reached
    return best_u, best_v, best


@kernel
def merge_below(state: Merging, degree: Ints, most: int, links: int) -> int:
    """Add links between clients of fewer than most links, the greatest contribution first, until none is left."""
    clients = len(degree)
    bound = state.bound.copy()  # of links to clients that are still free
    touched = np.empty(clients, dtype=np.int64)
    level = bound.max()
    while level > 0:
        below = 0  # the next level that is worth a pass
        for u in range(clients):
            if degree[u] >= most:
                continue
            if bound[u] >= level:
                links, bound[u] = merge_client(state, degree, most, level, u, touched, links)
            below = max(below, bound[u])
        level = below
    return links


@kernel
def merge_client(
    state: Merging, degree: Ints, most: int, level: int, u: int, touched: Ints, links: int
) -> tuple[int, int]:
    """(links, bound): add the links of a client that contribute the level; what its others can still do."""
    n = contributions(state, u, touched, open_topics(state, u))
    reached, found = 0, 0
    for k in range(n):
        v = touched[k]
        if degree[v] < most:
            if state.counted[v] >= level:
                touched[found] = v
                found += 1
            else:
                reached = max(reached, state.counted[v])
        state.counted[v] = 0
    for v in np.sort(touched[:found]):
        adds = contribution(state, u, v)
        if adds == level and degree[u] < most:
            links = merge(state, u, v, adds, links)
            degree[u] += 1
            degree[v] += 1
        else:
            reached = max(reached, min(adds, level - 1))
    return links, reached
