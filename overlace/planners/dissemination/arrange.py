"""Arrange the subscribers of a channel in a tree so that as many latency bounds as possible hold.

PART10 §3.2: an algorithm there maximises the number of subscribers whose latency bounds hold without breaking their
traffic limits. The paper that has it is not at hand; this is a reconstruction. Greedy by bound and by compactness,
those who cannot meet their bound last; then hill climbing, and annealing for all but very large channels.

Keeps: every peer is in the tree, no degree limit is ever broken, the same seed gives the same tree.
Reads: a degree limit is the most children (copies sent on); the link to the parent does not count.
"""

from __future__ import annotations

from typing import Any

from overlace.arrays.jit import Ints
from overlace.planners.dissemination.greedy import grow_by_bound, grow_compact
from overlace.planners.dissemination.measures import is_met
from overlace.planners.dissemination.moves import set_prices
from overlace.planners.dissemination.problem import Problem, find_arrivals, make_problem
from overlace.planners.dissemination.search import COLD, Cooling, climb, improve

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


def arrange_problem(problem: Problem, seed: int = 0, draws: int | None = None) -> Ints:
    """The same for a problem that was checked; `draws` moves are tried, or as many as suit its size."""
    peers = len(problem.bound)
    starts = [grow_by_bound(problem), grow_compact(problem)]
    if peers <= 2:
        return starts[0]
    start = min(starts, key=lambda parent: price_tree(problem, parent))
    tries = min(max(EACH * peers, LEAST), MOST) if draws is None else draws
    if peers > SMALL:
        return improve(problem, start, Cooling(tries, 0.0, 0.0), seed)
    best, price = start, price_tree(problem, start)
    for run, hot in enumerate(HOT):
        cooling = Cooling(tries // len(HOT), hot, COLD)
        found = improve(problem, start, cooling, len(HOT) * seed + run)
        if peers <= SWEPT:
            found = climb(problem, found, SWEEPS)
        if (paid := price_tree(problem, found)) < price:
            best, price = found, paid
        if price[0] == 0:
            break  # every bound that can be met is
    return best


def price_tree(problem: Problem, parent: Ints) -> tuple[int, float]:
    """What a tree is judged by: bounds missed that could be met, then the sum of arrivals in milliseconds."""
    arrival, prices = find_arrivals(problem, parent), set_prices(problem)
    missed = (prices.worth > 0) & ~is_met(problem, arrival)
    return int(missed.sum()), float(arrival.sum())
