"""The most bounds that any tree can meet, for up to 7 subscribers, by looking at every labelled tree.

Pruefer's sequences of n - 2 peers are exactly the trees over n peers, and a peer stands in its sequence once less
often than it has links: so degree limits are checked before the tree is made. A reference for tests and benchmarks.
"""

from __future__ import annotations

import numpy as np

from overlace.arrays.jit import Floats, Ints, kernel
from overlace.errors import BadParameter
from overlace.planners.dissemination.problem import TINY, TreeProblem, arrivals

MOST = 8
"""Peers, the root among them: there are 8^6 trees."""


def find_optimum(problem: TreeProblem) -> Ints:
    """The parents of a tree that meets as many bounds as any does; of those the one with the least sum of arrivals."""
    peers = len(problem.bound)
    if peers > MOST:
        raise BadParameter(f"the exact optimum takes up to {MOST - 1} subscribers, found {peers - 1}. Use arrange.")
    if peers == 1:
        return np.full(1, -1, dtype=np.int64)
    found: Ints = best_of_all(problem.delay, problem.bound, problem.degree, problem.root)
    return found


@kernel
def best_of_all(delay: Floats, bound: Floats, degree: Ints, root: int) -> Ints:
    """Go through all sequences of peers as one counts."""
    n = len(bound)
    sequence = np.zeros(max(n - 2, 0), dtype=np.int64)
    best, most, least = np.full(n, -1, dtype=np.int64), -1, np.inf
    for code in range(n ** max(n - 2, 0)):
        rest = code
        for i in range(n - 2):
            sequence[i] = rest % n
            rest //= n
        parent = parents_of(sequence, degree, root)
        if parent[root] != -1:
            continue
        arrival = arrivals(delay, parent)
        met = 0
        for v in range(n):
            met += v != root and bound[v] < np.inf and arrival[v] <= bound[v] + TINY
        if met > most or (met == most and arrival.sum() < least):
            best, most, least = parent, met, arrival.sum()
    return best


@kernel
def parents_of(sequence: Ints, degree: Ints, root: int) -> Ints:
    """The tree of a sequence, hung up at the root; parent[root] is -2 where it breaks a degree limit."""
    n = len(degree)
    links = np.ones(n, dtype=np.int64)
    for v in sequence:
        links[v] += 1
    parent = np.full(n, -1, dtype=np.int64)
    for v in range(n):
        if links[v] - (v != root) > degree[v]:
            parent[root] = -2
            return parent
    near = np.zeros((n, n), dtype=np.bool_)
    for i in range(n - 1):
        leaf = 0
        while links[leaf] != 1:
            leaf += 1
        other = -1
        if i < n - 2:
            other = sequence[i]
        else:
            for v in range(n):
                if v != leaf and links[v] == 1:
                    other = v
        near[leaf, other] = near[other, leaf] = True
        links[leaf] -= 1
        links[other] -= 1
    queue = np.empty(n, dtype=np.int64)
    queue[0], last = root, 1
    for i in range(n):
        for v in range(n):
            if near[queue[i], v] and v != root and parent[v] < 0:
                parent[v] = queue[i]
                queue[last] = v
                last += 1
    return parent
