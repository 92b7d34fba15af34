"""A tree that is changed in place: who hangs below whom, and when messages arrive.

Children are linked lists, so a subtree is walked without a stack. Arrivals are always sums from the root down, never
shifted, so that no rounding piles up.

Changes of a dissemination tree, each priced before it is made: re-hang, insert, exchange two peers or subtrees.

What a tree costs is the number of bounds that it misses, plus what leads a search there: how late those are who could
be in time, and a little for every millisecond, so that trees are compact. A move that would break a degree limit or
close a ring is never priced.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from overlace.arrays.jit import Floats, Ints, by_address, kernel
from overlace.arrays.lists import put_in, take_out
from overlace.planners.dissemination.problem import TINY, TreeProblem, find_shortest


@by_address
class PeerTree(NamedTuple):
    """One entry a peer; changed in place."""

    delay: Floats  # (n, n) ms
    parent: Ints  # -1 at the root, and where a peer is not in the tree
    first: Ints  # a child; -1: none
    after: Ints  # the next child of the same parent
    before: Ints
    children: Ints  # how many
    degree: Ints  # the most children
    arrival: Floats  # ms from the root


def plant(delay: Floats, degree: Ints, root: int) -> PeerTree:
    """A tree of the root alone."""
    n = len(degree)
    none = np.full(n, -1, dtype=np.int64)
    arrival = np.full(n, np.inf)
    arrival[root] = 0.0
    return PeerTree(
        delay, none.copy(), none.copy(), none.copy(), none.copy(), np.zeros(n, dtype=np.int64), degree.copy(), arrival
    )


@kernel
def hang(t: PeerTree, v: int, p: int) -> None:
    """Hang v, with all below it, below p."""
    t.parent[v] = p
    put_in(t.first, t.after, t.before, p, v)
    t.children[p] += 1


@kernel
def cut(t: PeerTree, v: int) -> None:
    """Take v, with all below it, from its parent."""
    p = t.parent[v]
    take_out(t.first, t.after, t.before, p, v)
    t.children[p] -= 1
    t.parent[v] = -1


@kernel
def step(t: PeerTree, v: int, top: int) -> int:
    """The peer after v on a walk through all below top, parents first; -1 at its end."""
    if t.first[v] >= 0:
        return int(t.first[v])
    x = v
    while x != top and t.after[x] < 0:
        x = t.parent[x]
    return -1 if x == top else int(t.after[x])


@kernel
def is_below(t: PeerTree, v: int, top: int) -> bool:
    """Whether v is top or hangs somewhere below it."""
    x = v
    while x >= 0 and x != top:
        x = t.parent[x]
    return bool(x == top)


@kernel
def arrive(t: PeerTree, top: int) -> None:
    """Sum up anew the arrivals of top and all below it."""
    x = top
    while x >= 0:
        p = t.parent[x]
        if p >= 0:
            t.arrival[x] = t.arrival[p] + t.delay[p, x]
        x = step(t, x, top)


@kernel
def exchange_peers(t: PeerTree, u: int, w: int) -> None:
    """Let two peers trade places: each gets the other's parent and children. Arrivals are left to `arrive`."""
    up, wp = t.parent[u], t.parent[w]
    if wp == u or up == w:
        high, low = (u, w) if wp == u else (w, u)
        top = t.parent[high]
        cut(t, low)
        cut(t, high)
        _exchange_children(t, high, low)
        hang(t, low, top)
        hang(t, high, low)
        return
    cut(t, u)
    cut(t, w)
    _exchange_children(t, u, w)
    # where one of them hung somewhere below the other, its parent stays what it was
    hang(t, u, wp)
    hang(t, w, up)


@kernel
def _exchange_children(t: PeerTree, u: int, w: int) -> None:
    """Give each of two the other's children."""
    t.first[u], t.first[w] = t.first[w], t.first[u]
    t.children[u], t.children[w] = t.children[w], t.children[u]
    for x in (u, w):
        c = t.first[x]
        while c >= 0:
            t.parent[c] = x
            c = t.after[c]


def grow(delay: Floats, degree: Ints, parent: Ints, root: int) -> PeerTree:
    """A tree that can be changed, from the parent of each peer; without those whose parent is below 0."""
    given = np.asarray(parent, dtype=np.int64)
    made = plant(delay, degree, root)
    hang_all(made, given, root)
    return made


@kernel
def hang_all(t: PeerTree, parent: Ints, root: int) -> None:
    """Hang every peer below its parent, children in the order of their ids."""
    for v in range(len(parent) - 1, -1, -1):
        if parent[v] >= 0:
            hang(t, v, parent[v])
    arrive(t, root)


LATE, HURRY = 0.5, 0.003
"""What it costs to be late by the mean of the shortest delays, beyond being late at all, and to arrive after that mean,
where a missed bound costs 1. Found by trial: with more hurry bounds are given up, with less the search is blind."""
NOBODY = -1
PATIENT = 1 / 8
"""The part of that hurry which is left to those who have no bound or cannot meet it."""


@by_address
class Prices(NamedTuple):
    """What an arrival costs each peer."""

    bound: Floats  # ms
    worth: Floats  # 1 where a bound can be met by the shortest way, otherwise 0
    late: Floats  # per ms beyond the bound, up to LATE
    hurry: Floats  # per ms


def set_prices(problem: TreeProblem) -> Prices:
    """What arrivals cost in a problem."""
    reach = find_shortest(problem.delay, problem.root)
    others = np.arange(len(reach)) != problem.root
    scale = max(float(reach[others].mean()) if others.any() else 0.0, TINY)
    possible = others & np.isfinite(problem.bound) & (reach <= problem.bound + TINY)
    hurry = np.where(possible, HURRY, HURRY * PATIENT)
    return Prices(problem.bound, possible.astype(np.float64), np.full(len(reach), LATE / scale), hurry / scale)


@kernel
def price(c: Prices, v: int, arrival: float) -> float:
    """What it costs that v gets its messages after so many milliseconds."""
    cost = c.hurry[v] * arrival
    if c.worth[v] > 0.0 and arrival > c.bound[v] + TINY:
        cost += c.worth[v] * (1.0 + min(LATE, c.late[v] * (arrival - c.bound[v])))
    return float(cost)


@kernel
def shift_price(t: PeerTree, c: Prices, top: int, by: float) -> float:
    """What it adds to the cost when top and all below it get their messages later by so much."""
    if by == 0.0:
        return 0.0
    added = 0.0
    x = top
    while x >= 0:
        added += price(c, x, t.arrival[x] + by) - price(c, x, t.arrival[x])
        x = step(t, x, top)
    return added


@kernel
def below_price(t: PeerTree, c: Prices, top: int) -> float:
    """What top and all below it cost."""
    total = 0.0
    x = top
    while x >= 0:
        total += price(c, x, t.arrival[x])
        x = step(t, x, top)
    return total


@kernel
def attach_if(t: PeerTree, c: Prices, u: int, p: int, w: int, q: int, most: float) -> float:
    """Hang u below p, and w (if any) below q, if that adds at most so much to the cost; what it added, inf if not."""
    at = t.arrival[p] + t.delay[p, u]
    added = shift_price(t, c, u, at - t.arrival[u])
    if w != NOBODY:
        added += shift_price(t, c, w, (at if q == u else t.arrival[q]) + t.delay[q, w] - t.arrival[w])
    if not added <= most:
        return np.inf
    cut(t, u)
    if w != NOBODY:
        cut(t, w)
    hang(t, u, p)
    if w != NOBODY:
        hang(t, w, q)
        if q != u:
            arrive(t, w)
    arrive(t, u)
    return float(added)


@kernel
def try_rehang(t: PeerTree, c: Prices, v: int, p: int, most: float) -> float:
    """Hang v below p, which has room, if that adds at most so much to the cost; what it added, inf if not done."""
    if p == v or p == t.parent[v] or t.children[p] >= t.degree[p] or is_below(t, p, v):
        return np.inf
    return attach_if(t, c, v, p, NOBODY, NOBODY, most)


@kernel
def try_exchange_subtrees(t: PeerTree, c: Prices, u: int, w: int, most: float) -> float:
    """Let u and w, with all below them, trade parents, on the same terms."""
    p, q = t.parent[u], t.parent[w]
    if p < 0 or q < 0 or p == q or is_below(t, q, u) or is_below(t, p, w):
        return np.inf
    return attach_if(t, c, u, q, w, p, most)


@kernel
def try_insert(t: PeerTree, c: Prices, v: int, w: int, most: float) -> float:
    """Let v take the place of w, and hang w below v, on the same terms."""
    p = t.parent[w]
    if p < 0 or t.parent[v] < 0 or v == w or p == v or t.children[v] >= t.degree[v]:
        return np.inf
    if is_below(t, w, v) or is_below(t, v, w):
        return np.inf
    return attach_if(t, c, v, p, w, v, most)


@kernel
def try_exchange_peers(t: PeerTree, c: Prices, u: int, w: int, most: float) -> float:
    """Let two peers trade places, each taking the other's parent and children, on the same terms."""
    if u == w or t.parent[u] < 0 or t.parent[w] < 0:
        return np.inf
    if t.children[u] > t.degree[w] or t.children[w] > t.degree[u]:
        return np.inf
    if is_below(t, u, w) or is_below(t, w, u):
        top, low = (w, u) if is_below(t, u, w) else (u, w)
        before = below_price(t, c, top)
        exchange_peers(t, top, low)
        arrive(t, low)
        added = below_price(t, c, low) - before
        if not added <= most:
            exchange_peers(t, top, low)
            arrive(t, top)
            return np.inf
        return float(added)
    added = _place_price(t, c, u, w) + _place_price(t, c, w, u)
    if not added <= most:
        return np.inf
    exchange_peers(t, u, w)
    arrive(t, u)
    arrive(t, w)
    return float(added)


@kernel
def _place_price(t: PeerTree, c: Prices, u: int, w: int) -> float:
    """What is added by u, and those below w, when u takes the place of w."""
    p = t.parent[w]
    at = t.arrival[p] + t.delay[p, u]
    added = price(c, u, at) - price(c, u, t.arrival[u])
    x = t.first[w]
    while x >= 0:
        added += shift_price(t, c, x, at + t.delay[u, x] - t.arrival[x])
        x = t.after[x]
    return float(added)
