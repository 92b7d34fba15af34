"""No-loss: only channels in which nobody receives what they did not ask for.

PART10 §2.2, after Riabov et al. Combinations share a channel only where that wastes nothing: whatever is
published in it matches the request of everybody who listens. Of the merges that waste nothing the one that saves
most connections comes first, until there is none. It differs from strategy 1 where a publisher sends nothing or a
combination has no subscriber: these stand in nobody's way.

Keeps: (3.1); no false positives. Limits on connections and the number of channels are not looked at. No draws; of
equal merges the one with the least combinations.
Reads: R15.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from overlace.arrays.jit import Bools, Floats, Ints, kernel
from overlace.model import Facet, Observation, Overlay, Plan, Planner, Progress
from overlace.planners.channels import cost as channels_cost
from overlace.planners.channels.book import book_of
from overlace.planners.channels.cells import Cells, Table, spread, table_of
from overlace.planners.channels.partition import partition_of
from overlace.planners.channels.steps import REASONS, plan_to


@dataclass(frozen=True)
class NoLoss(Planner):
    """Merges combinations only where nobody receives anything unasked for, at any number of connections."""

    facets: ClassVar[tuple[Facet, ...]] = ("channels",)
    paper: ClassVar[str] = "PART10 §2.2"
    REASONS: ClassVar[tuple[str, ...]] = REASONS

    def solve(self, observation: Observation, seed: int = 0, *, progress: Progress | None = None) -> Plan:
        """The channels after all merges that waste nothing."""
        book, _ = book_of(observation)
        cells = Cells(observation, book, np.flatnonzero(np.diff(book.by_start) > 0))
        now = partition_of(observation, book, np.full(len(book.combination), -1, dtype=np.int64))
        channel = spread(cells, merge_without_waste(table_of(cells, now.messages), now.present))
        return plan_to(self, observation, seed, book, channel, progress, limited=False)

    def cost(self, observation: Observation, overlay: Overlay) -> float:
        """D, the traffic received."""
        return channels_cost.cost(observation, overlay)


@kernel
def merge_without_waste(table: Table, present: Ints) -> Ints:
    """The group of each row after all merges that waste nothing, those that save most connections first."""
    n = len(table.meets)
    meets, subscribers = table.meets.copy(), table.subscribers.copy()
    into = np.arange(n)
    saves = np.full((n, n), -1, dtype=np.int64)
    for c in range(n):
        for d in range(c):
            saves[c, d] = saves[d, c] = saved_for_nothing(table, meets, subscribers, present, c, d)
    best = np.zeros(n, dtype=np.int64)
    for c in range(n):
        best[c] = np.argmax(saves[c])
    while n > 0:
        c = 0
        for i in range(n):
            if saves[i, best[i]] > saves[c, best[c]]:
                c = i
        d = best[c]
        if saves[c, d] < 0:
            break
        subscribers[c] += subscribers[d]
        meets[c] |= meets[d]
        for a in range(n):
            if into[a] == d:
                into[a] = c
        saves[d, :] = -1
        saves[:, d] = -1
        for e in range(n):
            if e != c and into[e] == e:
                saves[c, e] = saves[e, c] = saved_for_nothing(table, meets, subscribers, present, c, e)
        for e in range(n):
            best[e] = np.argmax(saves[e])
    return into


@kernel
def saved_for_nothing(table: Table, meets: Bools, subscribers: Floats, present: Ints, c: int, d: int) -> int:
    """Connections of publishers that a merge of two groups saves; -1: it would waste something."""
    saved = 0
    for t in range(len(table.messages)):
        if meets[c, t] and meets[d, t]:
            saved += present[t]
        elif table.messages[t] > 0 and ((meets[c, t] and subscribers[d] > 0) or (meets[d, t] and subscribers[c] > 0)):
            return -1
    return int(saved) if saved > 0 else -1
