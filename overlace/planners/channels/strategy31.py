"""Strategy 3.1: as strategy 3, but spare connections are counted per combination.

PART10 §4.4, Algorithm 4. A combination can leave its channel when all who offer it have a connection to
spare, whoever else is in the channel. If only some of the common combinations can leave, the newcomer
needs two connections: one for these and one for the channel they leave.

Keeps: (3.1); nobody exceeds their connections; with 2^m connections each, not 2^m - 1, it is strategy 1 (R9).
Reads: R3, R4, R5, R8 (of equally large channels the one with the lowest id comes first).
Departs: only the channels that the offer meets are visited.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from overlace.arrays.jit import Ints, kernel
from overlace.model import Observation
from overlace.planners.channels.book import Book
from overlace.planners.channels.changes import arrange, gather, split, take_shared, unassigned
from overlace.planners.channels.online import InOrder, Online
from overlace.planners.channels.partition import Partition, arrive, has_changed, meet


@dataclass(frozen=True)
class Strategy31(InOrder):
    """Strategy 3 with a finer eye for who has connections to spare."""

    paper: ClassVar[str] = "PART10 Algorithm 4"

    def online(self, observation: Observation, seed: int = 0) -> Online:
        """Channels that publishers of the observation's offers join and leave, one by one."""
        return Online(observation, seed, join_rows, tracked=True, options=self.options)


@kernel
def join_rows(book: Book, now: Partition, kinds: Ints, messages: Ints, shuffled: bool, ties: int) -> None:
    """Let publishers join one after the other."""
    for row in range(len(kinds)):
        if has_changed(now, kinds[row]) or shuffled:
            join(book, now, kinds[row], shuffled, ties)
        arrive(book, now, kinds[row], messages[row], True)


@kernel
def join(book: Book, now: Partition, kind: int, shuffled: bool, ties: int) -> None:
    """A publisher enters. What is left of its offer is in no channel yet, or in those it has not taken."""
    t, free = book.kind_type[kind], book.kind_limit[kind]
    met = meet(book, now, t)  # A4:1, A4:6
    included, overlapping = np.empty(met, np.int64), np.empty(met, np.int64)
    n = k = 0  # A4:2, A4:3
    arrange(now, met, shuffled, ties)  # A4:4
    for i in range(met):  # A4:5
        c = now.met[i]
        if now.shared[c] == now.size[c]:  # A4:7
            included[n] = c  # A4:8
            n += 1
        elif free > 1:  # A4:11
            loose = take_shared(book, now, t, c, True)  # A4:12, A4:13
            if loose == now.shared[c]:  # A4:14
                split(book, now, loose, True)  # A4:15
                free -= 1  # A4:16
            else:
                if free > 2 and loose > 0:  # A4:18
                    split(book, now, loose, True)  # A4:19
                    free -= 1
                free -= 1  # A4:21, A4:22
        else:
            overlapping[k] = c  # A4:25
            k += 1
    done = 0
    while done < n and free > 1:  # A4:30
        free -= 1  # A4:31
        done += 1  # A4:32, A4:33
    rest = n - done + k
    now.met[: n - done] = included[done:n]
    now.met[n - done : rest] = overlapping[:k]
    if rest > 0 or unassigned(book, now, t):  # A4:35
        gather(book, now, t, 0, rest, True)  # A4:36, A4:37
