"""A lower bound on D by linear programming over all channels that could be.

Every set C of combinations could be a channel, at the cost S(C) x R(C). A cut takes each combination into
one channel, and each type meets at most as many as its limit. Give each combination a value v >= 0 and each
limit a price p >= 0 (the dual of that programme). If no channel is worth more than it costs, with the prices of the
types that meet it, but for at most e(a) where a is its first combination, then for every cut within the limits

    sum of v  <=  D + sum of p x limit + sum of e,

since every combination is first in at most one channel and no type meets more channels than its limit. So
D >= sum of v - sum of p x limit - sum of e, whatever the values and prices are.

Good ones come of the programme over the channels known so far; then channels that are worth more than they
cost are looked for (`pricing`), until there are none. The excess e is found by a search that leaves nothing out,
at the values and prices as they are, so that the bound is proven whatever the solver's tolerance.

Costs: some seconds for 400 combinations and 300 types. Where limits are low and channels large new channels are found
without end; then it is given up.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import csc_matrix

from overlace.arrays.jit import Floats, Ints
from overlace.planners.channels.book import Book
from reproductions.part10.bounds.pricing import NEAR, Found, Priced, grow, most_beyond, room_for

MOST_PAIRS = 1 << 18
"""Combinations x types up to which it is tried; beyond that it would take minutes."""
ROUNDS = 50  # of the programme, at most
LARGEST = 16  # combinations of a channel that is grown
PATIENCE = 25  # rounds after which it is given up if growing still finds a channel for every fourth combination
FEW = 10  # channels found by growing: with fewer, or none, all are searched
NODES = 400  # of the search, for each combination


class Limits(NamedTuple):
    """What a cut has to keep to, by type."""

    messages: Ints
    limit: Ints


class Programme:
    """The channels known so far, and what taking them costs."""

    def __init__(self, book: Book, limits: Limits, scale: float) -> None:
        self.book, self.offered = book, np.flatnonzero(np.diff(book.by_start) > 0)
        self.priced = np.flatnonzero(np.diff(book.start) > limits.limit)
        self.limit = limits.limit[self.priced].astype(np.float64)
        self.weight, self.messages = book.weight.astype(np.float64), limits.messages / scale
        self.row = np.full(len(book.combination), -1)
        self.row[self.offered] = np.arange(len(self.offered))
        self.type_row = np.full(len(book.attributes), -1)
        self.type_row[self.priced] = len(self.offered) + np.arange(len(self.priced))
        self.known: set[tuple[int, ...]] = set()
        self.rows: list[Ints] = []
        self.cost: list[float] = []

    def add(self, channel: tuple[int, ...]) -> bool:
        """Take in a channel; false: it is known."""
        if channel in self.known:
            return False
        self.known.add(channel)
        book = self.book
        types = np.unique(np.concatenate([book.by_type[book.by_start[a] : book.by_start[a + 1]] for a in channel]))
        limited = self.type_row[types]
        self.rows.append(np.concatenate([self.row[list(channel)], limited[limited >= 0]]))
        self.cost.append(float(self.weight[list(channel)].sum() * self.messages[types].sum()))
        return True

    def take_in(self, found: Found) -> int:
        """Take in what was found; how many were new."""
        return sum(self.add(tuple(row[row >= 0].tolist())) for row in found.rows[: int(found.total[0])])

    def solve(self) -> tuple[Floats, Floats] | None:
        """(value of each combination, price of each type) at the optimum over the known channels."""
        n = len(self.offered)
        start = np.concatenate([[0], np.cumsum([len(rows) for rows in self.rows])])
        rows = np.concatenate(self.rows)
        shape = (n + len(self.priced), len(self.rows))
        matrix = csc_matrix((np.where(rows < n, -1.0, 1.0), rows, start), shape=shape)
        sides = np.concatenate([-np.ones(n), self.limit])
        solved = linprog(self.cost, A_ub=matrix, b_ub=sides, bounds=(0, None), method="highs-ds")
        if solved.x is None:
            return None
        dual = np.maximum(-solved.ineqlin.marginals, 0.0)
        value, price = np.zeros(len(self.weight)), np.zeros(len(self.messages))
        value[self.offered], price[self.priced] = dual[:n], dual[n:]
        return value, price


def bound_by_channels(book: Book, limits: Limits) -> tuple[float, Floats]:
    """(D at least, prices of a connection of each type); 0 where there are too many combinations and types to try."""
    offered = np.flatnonzero(np.diff(book.by_start) > 0)
    types = len(book.attributes)
    matched = np.bincount(
        np.repeat(np.arange(len(book.weight)), np.diff(book.by_start)),
        weights=limits.messages[book.by_type],
        minlength=len(book.weight),
    )
    wanted = float((book.weight * matched).sum())
    none = 0.0, np.zeros(types)
    if wanted == 0 or len(offered) * types > MOST_PAIRS:
        return none
    scale = wanted / len(offered)
    programme = Programme(book, limits, scale)
    rank = np.full(len(book.weight), -1)
    rank[offered[np.lexsort((offered, -matched[offered]))]] = np.arange(len(offered))
    for a in offered.tolist():
        programme.add((a,))
    programme.add(tuple(offered.tolist()))
    best, prices = none
    for turn in range(ROUNDS):
        dual = programme.solve()
        if dual is None:
            break
        value, price = dual
        priced = Priced(programme.weight, programme.messages, price, value, rank)
        found = room_for(len(offered))
        grow(book, priced, LARGEST, found)
        new = programme.take_in(found)
        if turn >= PATIENCE and 4 * new > len(offered):
            break
        if new > FEW:
            continue
        found = room_for(4 * len(offered))
        beyond = most_beyond(book, priced, NODES, found)
        new += programme.take_in(found)
        rounding = NEAR * (value.sum() + float((price[programme.priced] * programme.limit).sum()))
        least = value.sum() - (price[programme.priced] * programme.limit).sum() - beyond.sum() - rounding
        if least > best:
            best, prices = float(least), price
        if new == 0:
            break
    return best * scale, prices * scale
