"""Trees grown from the root, one peer at a time, within the degree limits: where a search starts, and its rivals.

By bound: whoever must be served first joins first, below the peer that brings it the message earliest. By compactness:
the peer that can be reached earliest joins next. Either way those whose bound is out of reach come last. A
shortest-path tree and a minimum spanning tree grow the same way and look at no bound.

Keeps: no degree limit is broken, and everybody is in the tree: while somebody outside can have children, the last free
place is not given to a peer that cannot.
"""

from __future__ import annotations

import numpy as np

from overlace.arrays.jit import Bools, Floats, Ints, kernel
from overlace.planners.dissemination.moves import PeerTree, hang, plant
from overlace.planners.dissemination.problem import TINY, TreeProblem, find_shortest


def grow_by_bound(problem: TreeProblem) -> Ints:
    """The parents of a tree that peers join in the order of their bounds, the possible ones first."""
    reach = find_shortest(problem.delay, problem.root)
    never = reach > problem.bound + TINY
    order = np.lexsort((np.arange(len(reach)), reach, problem.bound, never))
    tree = plant(problem.delay, problem.degree, problem.root)
    join_in_order(tree, order[order != problem.root], problem.bound)
    return tree.parent


def grow_compact(problem: TreeProblem) -> Ints:
    """The parents of a tree that the peer which can be reached earliest joins next, those in time first."""
    return grow_nearest(problem, (True, True))


def grow_shortest(problem: TreeProblem) -> Ints:
    """The parents of a shortest-path tree under the degree limits."""
    return grow_nearest(problem, (True, False))


def grow_spanning(problem: TreeProblem) -> Ints:
    """The parents of a minimum spanning tree, grown from the root under the degree limits."""
    return grow_nearest(problem, (False, False))


def grow_nearest(problem: TreeProblem, rule: tuple[bool, bool]) -> Ints:
    """The parents of a tree that the nearest peer joins next: by arrival or by the link, those in time first or not."""
    tree = plant(problem.delay, problem.degree, problem.root)
    join_nearest(tree, problem.root, problem.bound, rule)
    return tree.parent


def make_star(problem: TreeProblem) -> Ints:
    """Everybody below the root: no tree is faster, and the root's degree limit is broken. A control."""
    parent = np.full(len(problem.bound), problem.root, dtype=np.int64)
    parent[problem.root] = -1
    return parent


@kernel
def find_parent(t: PeerTree, inside: Bools, v: int) -> int:
    """The peer with a free place that brings v the message earliest; -1: nobody has one."""
    best, least = -1, np.inf
    for p in range(len(inside)):
        if inside[p] and t.children[p] < t.degree[p] and t.arrival[p] + t.delay[p, v] < least:
            best, least = p, t.arrival[p] + t.delay[p, v]
    return best


@kernel
def join(t: PeerTree, inside: Bools, v: int, p: int, left: Ints) -> None:
    """Let v join below p; left counts free places, peers outside, and those of them that can have children."""
    hang(t, v, p)
    t.arrival[v] = t.arrival[p] + t.delay[p, v]
    inside[v] = True
    left[0] += t.degree[v] - 1
    left[1] -= 1
    left[2] -= t.degree[v] > 0


@kernel
def count_left(t: PeerTree, inside: Bools) -> Ints:
    """Free places, peers outside, and those of them that can have children."""
    left = np.zeros(3, dtype=np.int64)
    for v in range(len(inside)):
        if inside[v]:
            left[0] += t.degree[v] - t.children[v]
        else:
            left[1] += 1
            left[2] += t.degree[v] > 0
    return left


@kernel
def would_block(t: PeerTree, v: int, left: Ints) -> bool:
    """Whether v would take the last free place while others who could offer some are outside."""
    return bool(t.degree[v] == 0 and left[0] == 1 and left[2] > 0)


@kernel
def join_in_order(t: PeerTree, order: Ints, bound: Floats) -> None:
    """Let peers join one after the other; those who would be late, or block others, come in a second round."""
    inside = np.isfinite(t.arrival)
    left = count_left(t, inside)
    for last in range(3):
        for v in order:
            if inside[v] or would_block(t, v, left) or (last == 1 and t.degree[v] == 0):
                continue
            p = find_parent(t, inside, v)
            if p >= 0 and (last > 0 or t.arrival[p] + t.delay[p, v] <= bound[v] + TINY):
                join(t, inside, v, p, left)


@kernel
def join_nearest(t: PeerTree, root: int, bound: Floats, rule: tuple[bool, bool]) -> None:
    """Let the nearest peer outside join until all have: by arrival or by the link alone, those in time first or not."""
    by_arrival, timely = rule
    n = len(bound)
    inside = np.isfinite(t.arrival)
    left = count_left(t, inside)
    parent = np.full(n, -1, dtype=np.int64)  # where each peer outside would hang
    least = np.full(n, np.inf)
    fresh = root  # the last one inside, who may be a better parent
    while left[1] > 0:
        best = -1
        for v in range(n):
            if inside[v]:
                continue
            if parent[v] >= 0 and t.children[parent[v]] >= t.degree[parent[v]]:
                parent[v], least[v] = -1, np.inf
                for p in range(n):
                    if inside[p] and t.children[p] < t.degree[p]:
                        far = t.delay[p, v] + (t.arrival[p] if by_arrival else 0.0)
                        if far < least[v]:
                            parent[v], least[v] = p, far
            elif t.children[fresh] < t.degree[fresh]:
                far = t.delay[fresh, v] + (t.arrival[fresh] if by_arrival else 0.0)
                if far < least[v]:
                    parent[v], least[v] = fresh, far
            if parent[v] < 0 or would_block(t, v, left):
                continue
            if best < 0:
                best = v
                continue
            late, least_late = least[v] > bound[v] + TINY, least[best] > bound[best] + TINY
            if timely and late != least_late:
                if not late:
                    best = v
            elif least[v] < least[best]:
                best = v
        join(t, inside, best, parent[best], left)
        fresh = best
