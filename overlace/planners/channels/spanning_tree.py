"""Minimum spanning tree on cells: combinations near each other hang on short edges, the longest edges are cut.

PART10 §2.2, after Riabov et al. The distance of two combinations is the waste that one channel for both would
add: the subscribers of each times the messages that match only the other. A combination that nobody asks for
counts as one subscriber, or it would be at no distance from all that contain it and tie them together. The
edges of a minimum spanning tree are cut, longest first, until there are as many channels as there may be.

Keeps: (3.1); the number of channels; with limits kept, every limit. No draws; ties go to the lowest combination.
Reads: R15.
Costs: all pairs of combinations once; memory for one row of them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from overlace.arrays.jit import Ints, kernel
from overlace.planners.channels.cells import CellPlanner, Cells
from overlace.planners.channels.partition import partition_of


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
