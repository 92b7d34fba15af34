"""A subscriber joins or leaves an arranged tree, and nothing is built anew.

Whoever joins takes the place where it costs least: below a peer with a free place, or between a peer and its child.
Where one leaves, its children are hung where they cost least. Then the tree is climbed for a moment, and only by moves
that bring a bound into time or nearly so, so few others get another parent; where bounds are missed it looks a little
further, and takes what it finds if more are met. (PART10 §3.1: peers join and leave at will.)

The arrays are those of all peers that may ever be in the channel; the parent of one that is not is ABSENT.
"""

from __future__ import annotations

import numpy as np

from overlace.arrays.draws import drawing
from overlace.arrays.jit import Ints, kernel
from overlace.errors import BadParameter
from overlace.planners.dissemination.arrange import COLD, PriceSchedule, SearchTables, anneal, list_near
from overlace.planners.dissemination.moves import (
    PeerTree,
    Prices,
    arrive,
    cut,
    grow,
    hang,
    price,
    set_prices,
    shift_price,
    step,
)
from overlace.planners.dissemination.problem import TINY, TreeProblem

ABSENT = -2
"""The parent of a peer that is not in the tree."""
REPAIR, GAIN = 60, 0.3
"""Draws for each peer after a join or leave, and what a move must save, where a missed bound costs 1."""
FURTHER, MOST, WARM = 2_000, 400_000, 0.3
"""Draws for each peer that look further, and in all at most; and what a move may cost then at first."""


def join(problem: TreeProblem, parent: Ints, newcomer: int, seed: int = 0) -> Ints:
    """The parents after one more subscriber has joined."""
    _check_peer(problem, newcomer)
    if parent[newcomer] != ABSENT:
        raise BadParameter(f"peer {newcomer} is in the tree already: only one that is absent can join")
    tree, prices = _stand(problem, parent), set_prices(problem)
    tree.degree[newcomer] = problem.degree[newcomer]
    if not take_place(tree, prices, newcomer, problem.root):
        raise BadParameter(
            f"no peer has a free place for peer {newcomer}, which can have no children itself. Raise a degree."
        )
    return _settle(problem, tree, prices, seed)


def leave(problem: TreeProblem, parent: Ints, leaver: int, seed: int = 0) -> Ints:
    """The parents after a subscriber has left."""
    _check_peer(problem, leaver)
    if parent[leaver] == ABSENT:
        raise BadParameter(f"peer {leaver} is not in the tree: it cannot leave")
    inside = parent != ABSENT
    inside[leaver] = False
    if int(problem.degree[inside].sum()) < int(inside.sum()) - 1:
        raise BadParameter(f"without peer {leaver} too few peers can have children for all to be connected")
    tree, prices = _stand(problem, parent), set_prices(problem)
    drop_peer(tree, prices, leaver, problem.root)
    return _settle(problem, tree, prices, seed)


def _check_peer(problem: TreeProblem, peer: int) -> None:
    if not 0 <= peer < len(problem.bound) or peer == problem.root:
        raise BadParameter(f"peer {peer}: expected a subscriber, 0 to {len(problem.bound) - 1} but the root")


def _stand(problem: TreeProblem, parent: Ints) -> PeerTree:
    """The tree of those who are there; the others can have no children."""
    return grow(problem.delay, np.where(parent == ABSENT, 0, problem.degree), parent, problem.root)


def _settle(problem: TreeProblem, tree: PeerTree, prices: Prices, seed: int) -> Ints:
    """Climb for a moment, then look a little further, which counts only if more bounds are met; the parents then."""
    present = np.flatnonzero(tree.parent >= 0)
    out = tree.parent < 0
    out[problem.root] = False
    if len(present) > 1:
        known, root = SearchTables(prices, list_near(problem.delay), present), problem.root
        anneal(tree, known, root, PriceSchedule(REPAIR * len(present), 0.0, GAIN), drawing(seed))
        climbed, missed = tree.parent.copy(), count_missed(tree, prices, root)
        if missed > 0:
            draws = min(FURTHER * len(present), MOST)
            found = anneal(tree, known, root, PriceSchedule(draws, WARM, COLD), drawing(seed))
            further = grow(tree.delay, tree.degree, found, root)
            climbed = found if count_missed(further, prices, root) < missed else climbed
        return np.where(out, ABSENT, climbed)
    return np.where(out, ABSENT, tree.parent)


@kernel
def count_missed(t: PeerTree, c: Prices, root: int) -> int:
    """Bounds that could be met and are not."""
    missed, x = 0, root
    while x >= 0:
        missed += c.worth[x] > 0.0 and t.arrival[x] > c.bound[x] + TINY
        x = step(t, x, root)
    return missed


@kernel
def take_place(t: PeerTree, c: Prices, v: int, root: int) -> bool:
    """Hang v where it costs least, with all below it; false if there is no place."""
    least, best, between = np.inf, -1, -1
    p = root
    while p >= 0:
        at = t.arrival[p] + t.delay[p, v]
        if t.children[p] < t.degree[p]:
            cost = join_price(t, c, v, at)
            if cost < least:
                least, best, between = cost, p, -1
        elif t.children[v] < t.degree[v]:
            w = t.first[p]
            while w >= 0:
                cost = join_price(t, c, v, at) + shift_price(t, c, w, at + t.delay[v, w] - t.arrival[w])
                if cost < least:
                    least, best, between = cost, p, w
                w = t.after[w]
        p = step(t, p, root)
    if best < 0:
        return False
    if between >= 0:
        cut(t, between)
        hang(t, between, v)
    hang(t, v, best)
    arrive(t, v)
    return True


@kernel
def join_price(t: PeerTree, c: Prices, v: int, at: float) -> float:
    """What v and all below it cost if v gets its messages at such a time; below v arrivals count from v."""
    total, x = 0.0, v
    while x >= 0:
        total += price(c, x, at + (t.arrival[x] if x != v else 0.0))
        x = step(t, x, v)
    return total


@kernel
def drop_peer(t: PeerTree, c: Prices, v: int, root: int) -> None:
    """Take v out, and hang its children where they cost least: those first that bring free places with them."""
    orphans = np.empty(t.children[v], dtype=np.int64)
    for i in range(len(orphans)):
        orphans[i] = t.first[v]
        cut(t, orphans[i])
    cut(t, v)
    t.degree[v], t.arrival[v] = 0, np.inf
    for w in orphans:
        arrive_from(t, w)
    for last in (False, True):
        for w in orphans:
            if t.parent[w] < 0 and (last or count_free(t, w) > 0):
                take_place(t, c, w, root)


@kernel
def count_free(t: PeerTree, top: int) -> int:
    """Free places at a peer and all below it."""
    free, x = 0, top
    while x >= 0:
        free += t.degree[x] - t.children[x]
        x = step(t, x, top)
    return free


@kernel
def arrive_from(t: PeerTree, top: int) -> None:
    """Sum up arrivals below a peer, counted from it."""
    t.arrival[top] = 0.0
    x = t.first[top]
    while x >= 0:
        arrive(t, x)
        x = t.after[x]
