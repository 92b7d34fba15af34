"""A tree that is changed in place: who hangs below whom, and when messages arrive.

Children are linked lists, so a subtree is walked without a stack. Arrivals are always sums from the root down, never
shifted, so that no rounding piles up.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from overlace.arrays.jit import Floats, Ints, by_address, kernel
from overlace.arrays.lists import put_in, take_out


@by_address
class Tree(NamedTuple):
    """One entry a peer; changed in place."""

    delay: Floats  # (n, n) ms
    parent: Ints  # -1 at the root, and where a peer is not in the tree
    first: Ints  # a child; -1: none
    after: Ints  # the next child of the same parent
    before: Ints
    children: Ints  # how many
    degree: Ints  # the most children
    arrival: Floats  # ms from the root


def plant(delay: Floats, degree: Ints, root: int) -> Tree:
    """A tree of the root alone."""
    n = len(degree)
    none = np.full(n, -1, dtype=np.int64)
    arrival = np.full(n, np.inf)
    arrival[root] = 0.0
    return Tree(
        delay, none.copy(), none.copy(), none.copy(), none.copy(), np.zeros(n, dtype=np.int64), degree.copy(), arrival
    )


@kernel
def hang(t: Tree, v: int, p: int) -> None:
    """Hang v, with all below it, below p."""
    t.parent[v] = p
    put_in(t.first, t.after, t.before, p, v)
    t.children[p] += 1


@kernel
def cut(t: Tree, v: int) -> None:
    """Take v, with all below it, from its parent."""
    p = t.parent[v]
    take_out(t.first, t.after, t.before, p, v)
    t.children[p] -= 1
    t.parent[v] = -1


@kernel
def step(t: Tree, v: int, top: int) -> int:
    """The peer after v on a walk through all below top, parents first; -1 at its end."""
    if t.first[v] >= 0:
        return int(t.first[v])
    x = v
    while x != top and t.after[x] < 0:
        x = t.parent[x]
    return -1 if x == top else int(t.after[x])


@kernel
def is_below(t: Tree, v: int, top: int) -> bool:
    """Whether v is top or hangs somewhere below it."""
    x = v
    while x >= 0 and x != top:
        x = t.parent[x]
    return bool(x == top)


@kernel
def arrive(t: Tree, top: int) -> None:
    """Sum up anew the arrivals of top and all below it."""
    x = top
    while x >= 0:
        p = t.parent[x]
        if p >= 0:
            t.arrival[x] = t.arrival[p] + t.delay[p, x]
        x = step(t, x, top)


@kernel
def exchange_peers(t: Tree, u: int, w: int) -> None:
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
def _exchange_children(t: Tree, u: int, w: int) -> None:
    """Give each of two the other's children."""
    t.first[u], t.first[w] = t.first[w], t.first[u]
    t.children[u], t.children[w] = t.children[w], t.children[u]
    for x in (u, w):
        c = t.first[x]
        while c >= 0:
            t.parent[c] = x
            c = t.after[c]


def grow(delay: Floats, degree: Ints, parent: Ints, root: int) -> Tree:
    """A tree that can be changed, from the parent of each peer; without those whose parent is below 0."""
    given = np.asarray(parent, dtype=np.int64)
    made = plant(delay, degree, root)
    hang_all(made, given, root)
    return made


@kernel
def hang_all(t: Tree, parent: Ints, root: int) -> None:
    """Hang every peer below its parent, children in the order of their ids."""
    for v in range(len(parent) - 1, -1, -1):
        if parent[v] >= 0:
            hang(t, v, parent[v])
    arrive(t, root)
