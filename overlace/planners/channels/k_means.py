"""K-means on cells: as many channels as there may be, each combination in the one where it wastes least.

PART10 §2.2, after Riabov et al. The channels begin with the combinations that deliver most (subscribers times
messages); the others come to where they add least waste, in that order. Then every combination in turn goes
to the channel where the total waste is least, until nothing moves.

Keeps: (3.1); the number of channels; with limits kept, every limit. Every move lowers D, so it ends. No draws; ties go
to the combination and to the channel that come first.
Reads: R15.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from overlace.arrays.jit import Ints, kernel
from overlace.planners.channels.book import Book
from overlace.planners.channels.cells import CellPlanner, Cells
from overlace.planners.channels.changes import shift
from overlace.planners.channels.moves import saved_by, survey
from overlace.planners.channels.partition import Partition, partition_of

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
