"""Channels by other methods on cells (PART10 §2.2): pairwise, k-means, a spanning tree, no loss.

Pairwise grouping: the two channels whose merge wastes least become one, again and again.

PART10 §2.2, after Riabov et al. Every combination starts as a channel of its own. With a number of
channels given, merges go on until there are no more than that. Without one, the limits on connections decide, in the
thesis's own model: merges pay the waste and save the prices of connections, as `merging` does it.

Keeps: (3.1); the number of channels; with limits kept, every limit. No draws; of equal merges the one with the least
combinations.
Reads: R15.
Costs: combinations x types for each merge, and all pairs of combinations once.

K-means on cells: as many channels as there may be, each combination in the one where it wastes least.

PART10 §2.2, after Riabov et al. The channels begin with the combinations that deliver most (subscribers times
messages); the others come to where they add least waste, in that order. Then every combination in turn goes
to the channel where the total waste is least, until nothing moves.

Keeps: (3.1); the number of channels; with limits kept, every limit. Every move lowers D, so it ends. No draws; ties go
to the combination and to the channel that come first.
Reads: R15.

Minimum spanning tree on cells: combinations near each other hang on short edges, the longest edges are cut.

PART10 §2.2, after Riabov et al. The distance of two combinations is the waste that one channel for both would
add: the subscribers of each times the messages that match only the other. A combination that nobody asks for
counts as one subscriber, or it would be at no distance from all that contain it and tie them together. The
edges of a minimum spanning tree are cut, longest first, until there are as many channels as there may be.

Keeps: (3.1); the number of channels; with limits kept, every limit. No draws; ties go to the lowest combination.
Reads: R15.
Costs: all pairs of combinations once; memory for one row of them.

No-loss: only channels in which nobody receives what they did not ask for.

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
from overlace.model import Observation, Plan, Progress
from overlace.planners.channels.book import Book, book_of
from overlace.planners.channels.cells import CellPlanner, Cells, CellTable, spread, table_of, within_limits
from overlace.planners.channels.changes import shift
from overlace.planners.channels.merging import merge_down
from overlace.planners.channels.moves import saved_by, survey
from overlace.planners.channels.partition import Partition, partition_of
from overlace.planners.channels.steps import ChannelPlanner, plan_to


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
        table = table_of(cells, now.messages)
        none = np.zeros(len(table.messages))
        return merge_down(table.meets, table.subscribers, table.messages, none, most, -np.inf)[0]


MOST_ROUNDS = 1000  # a stop for what never happens: each round but the last lowers D


@dataclass(frozen=True)
class KMeans(CellPlanner):
    """Starts from the combinations that deliver most and moves each to the channel where it wastes least."""

    def group(self, cells: Cells, most: int) -> Ints:
        """The group of each offered combination, in the end."""
        book, offered = cells.book, cells.offered
        apart = np.full(len(book.combination), -1, dtype=np.int64)
        apart[offered] = np.arange(len(offered))
        now = partition_of(cells.observation, book, apart)
        order = offered[np.lexsort((offered, -(now.subscribers * now.rate)[apart[offered]]))]
        move_to_nearest(book, now, order, min(most, len(offered)))
        return now.channel[offered]


@kernel
def move_to_nearest(book: Book, now: Partition, order: Ints, most: int) -> None:
    """Keep the channels of the first `most` combinations; the others come to these, then all move until none gains."""
    centres = now.channel[order[:most]].copy()
    for i in range(most, len(order)):
        now.moved[0] = order[i]
        d, _ = nearest(book, now, centres)
        shift(book, now, 1, d, True)
    for _ in range(MOST_ROUNDS):
        moved = False
        for i in range(len(order)):
            if now.size[now.channel[order[i]]] == 1:
                continue  # a channel is never given up
            now.moved[0] = order[i]
            d, saved = nearest(book, now, centres)
            if saved > 0:
                shift(book, now, 1, d, True)
                moved = True
        if not moved:
            return


@kernel
def nearest(book: Book, now: Partition, centres: Ints) -> tuple[int, int]:
    """(channel, D saved): where among these channels the combination in `moved` lowers D most, or adds least."""
    now.common[:] = 0  # a survey does not look at channels with no publisher in common
    seen = survey(book, now, 1)
    best, most = -1, 0
    for i in range(len(centres)):
        if centres[i] == seen.source:
            continue
        saved = saved_by(now, seen, centres[i])
        if best < 0 or saved > most:
            best, most = centres[i], saved
    return best, most


@dataclass(frozen=True)
class SpanningTree(CellPlanner):
    """Cuts the longest edges of a minimum spanning tree on combinations, by expected waste."""

    def group(self, cells: Cells, most: int) -> Ints:
        """The group of each offered combination: the parts of the tree without its longest edges."""
        book, offered = cells.book, cells.offered
        now = partition_of(cells.observation, book, np.full(len(book.combination), -1, dtype=np.int64))
        matched = np.bincount(
            np.repeat(np.arange(len(book.combination)), np.diff(book.by_start)),
            weights=now.messages[book.by_type],
            minlength=len(book.combination),
        ).astype(np.int64)
        parent, length = grow_tree(book.combination[offered], np.maximum(book.weight[offered], 1), matched[offered])
        by_length = np.lexsort((np.arange(len(offered)), length))  # the first has no parent
        by_length = by_length[by_length != 0]
        kept = by_length[: max(0, len(offered) - most)]
        return parts_of(parent, kept)


@kernel
def grow_tree(combination: Ints, weight: Ints, matched: Ints) -> tuple[Ints, Ints]:
    """(parent, distance to it) of each of the ascending combinations in a minimum spanning tree from the first (Prim).

    Messages match two combinations if they match the one that has the attributes of both.
    """
    n = len(combination)
    parent, length = np.zeros(n, dtype=np.int64), np.full(n, np.iinfo(np.int64).max)
    done = np.zeros(n, dtype=np.bool_)
    length[0] = 0
    for _ in range(n):
        a = -1
        for b in range(n):
            if not done[b] and (a < 0 or length[b] < length[a]):
                a = b
        done[a] = True
        for b in range(n):
            if done[b]:
                continue
            both = combination[a] | combination[b]
            at = np.searchsorted(combination, both)
            common = matched[at] if at < n and combination[at] == both else 0
            distance = weight[a] * (matched[b] - common) + weight[b] * (matched[a] - common)
            if distance < length[b]:
                parent[b], length[b] = a, distance
    return parent, length


@kernel
def parts_of(parent: Ints, kept: Ints) -> Ints:
    """The part of each node, if only the edges from the kept nodes to their parents are there."""
    part = np.arange(len(parent))
    for i in range(len(kept)):
        one, other = part[kept[i]], part[parent[kept[i]]]
        for a in range(len(part)):
            if part[a] == one:
                part[a] = other
    return part


@dataclass(frozen=True)
class NoLoss(ChannelPlanner):
    """Merges combinations only where nobody receives anything unasked for, at any number of connections."""

    paper: ClassVar[str] = "PART10 §2.2"

    def solve(self, observation: Observation, seed: int = 0, *, progress: Progress | None = None) -> Plan:
        """The channels after all merges that waste nothing."""
        book, _ = book_of(observation)
        cells = Cells(observation, book, np.flatnonzero(np.diff(book.by_start) > 0))
        now = partition_of(observation, book, np.full(len(book.combination), -1, dtype=np.int64))
        channel = spread(cells, merge_without_waste(table_of(cells, now.messages), now.present))
        return plan_to(self, observation, seed, book, channel, progress, limited=False)


@kernel
def merge_without_waste(table: CellTable, present: Ints) -> Ints:
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
def saved_for_nothing(table: CellTable, meets: Bools, subscribers: Floats, present: Ints, c: int, d: int) -> int:
    """Connections of publishers that a merge of two groups saves; -1: it would waste something."""
    saved = 0
    for t in range(len(table.messages)):
        if meets[c, t] and meets[d, t]:
            saved += present[t]
        elif table.messages[t] > 0 and ((meets[c, t] and subscribers[d] > 0) or (meets[d, t] and subscribers[c] > 0)):
            return -1
    return int(saved) if saved > 0 else -1
