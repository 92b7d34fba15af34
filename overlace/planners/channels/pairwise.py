"""Pairwise grouping: the two channels whose merge wastes least become one, again and again.

PART10 §2.2, after Riabov et al. Every combination starts as a channel of its own. With a number of
channels given, merges go on until there are no more than that. Without one, the limits on connections decide, in the
thesis's own model: merges pay the waste and save the prices of connections, as `merging` does it.

Keeps: (3.1); the number of channels; with limits kept, every limit. No draws; of equal merges the one with the least
combinations.
Reads: R15.
Costs: combinations x types for each merge, and all pairs of combinations once.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from overlace.arrays.jit import Ints, kernel
from overlace.planners.channels.cells import CellPlanner, Cells, Table, table_of, within_limits
from overlace.planners.channels.merging import saved_by_merge
from overlace.planners.channels.partition import partition_of


@dataclass(frozen=True)
class Pairwise(CellPlanner):
    """Merges the two channels that waste least together, until few are left or every limit holds."""

    def cut(self, cells: Cells) -> Ints:
        """The channel of each combination of the book (-1: not offered)."""
        if self.channels == 0 and self.connections == "keep":
            return within_limits(cells)
        return super().cut(cells)

    def group(self, cells: Cells, most: int) -> Ints:
        """The group of each offered combination, after merges down to so many."""
        if most >= len(cells.offered):
            return np.arange(len(cells.offered))
        now = partition_of(cells.observation, cells.book, np.full(len(cells.book.combination), -1, dtype=np.int64))
        return merge_down(table_of(cells, now.messages), most)


@kernel
def merge_down(table: Table, most: int) -> Ints:
    """The group of each row after the merges that add least waste, down to so many groups."""
    n, types = table.meets.shape
    meets, subscribers, messages = table.meets.copy(), table.subscribers.copy(), table.messages
    rate, none = np.zeros(n), np.zeros(types)
    for c in range(n):
        for t in range(types):
            rate[c] += messages[t] if meets[c, t] else 0.0
    saves = np.full((n, n), -np.inf)
    for c in range(n):
        for d in range(c):
            saves[c, d] = saves[d, c] = saved_by_merge(meets, subscribers, rate, messages, none, c, d)
    best = np.zeros(n, dtype=np.int64)
    for c in range(n):
        best[c] = np.argmax(saves[c])
    into, there = np.arange(n), np.ones(n, dtype=np.bool_)
    for _ in range(n - most):
        c = -1
        for i in range(n):
            if there[i] and (c < 0 or saves[i, best[i]] > saves[c, best[c]]):
                c = i
        d = best[c]
        there[d] = False
        subscribers[c] += subscribers[d]
        for t in range(types):
            if meets[d, t] and not meets[c, t]:
                meets[c, t] = True
                rate[c] += messages[t]
        for a in range(n):
            if into[a] == d:
                into[a] = c
        saves[d, :] = -np.inf
        saves[:, d] = -np.inf
        for e in range(n):
            if e != c and there[e]:
                saves[c, e] = saves[e, c] = saved_by_merge(meets, subscribers, rate, messages, none, c, e)
        for e in range(n):
            if e == c or best[e] == c or best[e] == d:
                best[e] = np.argmax(saves[e])
            elif there[e] and saves[e, c] > saves[e, best[e]]:
                best[e] = c
    return into
