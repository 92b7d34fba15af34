"""Arrange the subscribers of a channel in a tree so that as many latency bounds as possible hold.

From a tree to a better one: hill climbing, and annealing where the channel is small enough for it.

A draw takes a subscriber and a new parent for it, often one nearby, and tries the move that fits: re-hang it there if
there is a free place; else exchange it with a child there, subtree for subtree, or put it between the parent and that
child; or let the two peers trade places. Hill climbing takes a move that costs less, annealing at times also one
that costs more, the less often the colder it is. The best tree met is kept.

Arrange the subscribers of a channel in a tree so that as many latency bounds as possible hold.

PART10 §3.2: an algorithm there maximises the number of subscribers whose latency bounds hold without breaking their
traffic limits. The paper that has it is not at hand; this is a reconstruction. Greedy by bound and by compactness,
those who cannot meet their bound last; then hill climbing, and annealing for all but very large channels.

Keeps: every peer is in the tree, no degree limit is ever broken, the same seed gives the same tree.
Reads: a degree limit is the most children (copies sent on); the link to the parent does not count.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from overlace.arrays.csr import copy
from overlace.arrays.draws import draw, draw_below, drawing
from overlace.arrays.jit import Floats, Ints, by_address, kernel
from overlace.planners.dissemination.baselines import grow_by_bound, grow_compact
from overlace.planners.dissemination.moves import (
    PeerTree,
    Prices,
    below_price,
    grow,
    set_prices,
    try_exchange_peers,
    try_exchange_subtrees,
    try_insert,
    try_rehang,
)
from overlace.planners.dissemination.problem import TreeProblem, find_arrivals, is_met, make_problem

NEAR = 24
"""Peers nearby of which one is often the new parent."""
NEARBY, TRADES, SUBTREES = 0.6, 0.25, 0.75
"""Shares of the draws: a parent nearby; peers that trade places; with those, exchanges of subtrees."""
COLD = 0.02
"""What a move may cost at last with a chance of 1 in e, where a missed bound costs 1."""
HARDLY = 1e-7
"""What a move must save to count as one that helps."""


class PriceSchedule(NamedTuple):
    """How many moves are drawn, while what one may cost falls from one price to another.

    Where `hot` is 0 it climbs: a move must save more than `cold`.
    """

    draws: int
    hot: float
    cold: float


@by_address
class SearchTables(NamedTuple):
    """What does not change while a tree is searched."""

    prices: Prices
    near: Ints  # (n, few): the peers whose messages reach each one soonest
    members: Ints  # the subscribers that are in the tree


def list_near(delay: Floats, few: int = NEAR) -> Ints:
    """For each peer those whose messages reach it soonest, without itself."""
    n = len(delay)
    apart = delay.T + np.where(np.eye(n, dtype=np.bool_), np.inf, 0.0)
    return np.ascontiguousarray(np.argsort(apart, axis=1, kind="stable")[:, : max(1, min(few, n - 1))])


def improve(problem: TreeProblem, parent: Ints, cooling: PriceSchedule, seed: int) -> Ints:
    """The parents of the best tree met from another on."""
    tree = grow(problem.delay, problem.degree, parent, problem.root)
    others = np.flatnonzero(np.arange(len(parent)) != problem.root)
    known = SearchTables(set_prices(problem), list_near(problem.delay), others)
    found: Ints = anneal(tree, known, problem.root, cooling, drawing(seed))
    return found


def climb(problem: TreeProblem, parent: Ints, sweeps: int) -> Ints:
    """The parents of a tree that no single move improves, or that so many sweeps over all pairs have led to."""
    tree = grow(problem.delay, problem.degree, parent, problem.root)
    prices = set_prices(problem)
    for _ in range(sweeps):
        if not sweep(tree, prices):
            break
    return tree.parent


@kernel
def sweep(t: PeerTree, c: Prices) -> bool:
    """Try every move of every peer once; whether one was made."""
    n = len(t.parent)
    changed = False
    for v in range(n):
        if t.parent[v] < 0:
            continue
        for p in range(n):
            if p == v:
                continue
            done = try_rehang(t, c, v, p, -HARDLY) < np.inf
            if p > v:
                done |= try_exchange_subtrees(t, c, v, p, -HARDLY) < np.inf
                done |= try_exchange_peers(t, c, v, p, -HARDLY) < np.inf
            done |= try_insert(t, c, v, p, -HARDLY) < np.inf
            changed |= done
    return changed


@kernel
def anneal(t: PeerTree, known: SearchTables, root: int, cooling: PriceSchedule, random: Ints) -> Ints:
    """Draw moves while it cools; the parents of the best tree met."""
    cost = below_price(t, known.prices, root)
    best = cost
    kept = t.parent.copy()
    for i in range(cooling.draws):
        most = -max(HARDLY, cooling.cold)
        if cooling.hot > 0.0:
            heat = cooling.hot * (cooling.cold / cooling.hot) ** (i / cooling.draws)
            most = -heat * np.log(1.0 - draw(random))
        added = draw_move(t, known, most, random)
        if added < np.inf:
            cost += added
            if cost < best - HARDLY:
                best = cost
                copy(t.parent, kept)
    return kept


@kernel
def draw_move(t: PeerTree, known: SearchTables, most: float, random: Ints) -> float:
    """Draw a subscriber and a parent for it, and make the move that fits if it adds at most so much to the cost."""
    c, many = known.prices, len(known.members)
    v = known.members[draw_below(random, many)]
    kind = draw(random)
    if draw(random) < NEARBY:
        p = known.near[v, draw_below(random, known.near.shape[1])]
    else:
        p = draw_below(random, len(t.parent))
    if kind < TRADES:
        return try_exchange_peers(t, c, v, p, most)
    if t.children[p] < t.degree[p]:
        return try_rehang(t, c, v, p, most)
    if t.children[p] == 0:
        return np.inf
    w = t.first[p]
    for _ in range(draw_below(random, t.children[p])):
        w = t.after[w]
    if kind < SUBTREES:
        return try_exchange_subtrees(t, c, v, w, most)
    return try_insert(t, c, v, w, most)


EACH, LEAST, MOST = 20_000, 40_000, 4_000_000
"""Draws for each peer, and at least and at most for a channel."""
HOT = (0.6, 1.0, 0.3)
"""What a move may cost at first with a chance of 1 in e, where a missed bound costs 1: a channel is annealed so many
times from the same start, since it depends on the channel how hot is best."""
SMALL, SWEPT, SWEEPS = 2_000, 700, 4
"""Peers up to which a channel is annealed, larger ones only climb by draws; up to which all moves are tried at last;
and how often, at most."""


def arrange(delay: Any, bound: Any, degree: Any, root: int = 0, seed: int = 0) -> Ints:
    """The parent of each peer in a tree that meets as many bounds as we can; -1 at the root.

    `delay` is a square matrix of milliseconds from row to column. `bound` (milliseconds from the root, inf: none) and
    `degree` (the most children) are one number for all or one for each peer; the root has its own entry.
    """
    return arrange_problem(make_problem(delay, bound, degree, root), seed)


def arrange_problem(problem: TreeProblem, seed: int = 0, draws: int | None = None) -> Ints:
    """The same for a problem that was checked; `draws` moves are tried, or as many as suit its size."""
    peers = len(problem.bound)
    starts = [grow_by_bound(problem), grow_compact(problem)]
    if peers <= 2:
        return starts[0]
    start = min(starts, key=lambda parent: price_tree(problem, parent))
    tries = min(max(EACH * peers, LEAST), MOST) if draws is None else draws
    if peers > SMALL:
        return improve(problem, start, PriceSchedule(tries, 0.0, 0.0), seed)
    best, price = start, price_tree(problem, start)
    for run, hot in enumerate(HOT):
        cooling = PriceSchedule(tries // len(HOT), hot, COLD)
        found = improve(problem, start, cooling, len(HOT) * seed + run)
        if peers <= SWEPT:
            found = climb(problem, found, SWEEPS)
        if (paid := price_tree(problem, found)) < price:
            best, price = found, paid
        if price[0] == 0:
            break  # every bound that can be met is
    return best


def price_tree(problem: TreeProblem, parent: Ints) -> tuple[int, float]:
    """What a tree is judged by: bounds missed that could be met, then the sum of arrivals in milliseconds."""
    arrival, prices = find_arrivals(problem, parent), set_prices(problem)
    missed = (prices.worth > 0) & ~is_met(problem, arrival)
    return int(missed.sum()), float(arrival.sum())
