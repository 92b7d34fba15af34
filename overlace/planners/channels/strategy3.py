"""Strategy 3: split channels while connections last, then merge.

PART10 §4.3, Algorithm 3. Publishers arrive one by one. A newcomer parts the common combinations from each
channel that only partly meets its offer, as long as everyone concerned has a connection to spare; it
joins what it can of the rest, and what is left over becomes one channel.

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
class Strategy3(InOrder):
    """Between splitting always (strategy 1) and merging always (strategy 2), as connections allow."""

    paper: ClassVar[str] = "PART10 Algorithm 3"

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
    met = meet(book, now, t)  # A3:1, A3:6
    included, overlapping = np.empty(met, np.int64), np.empty(met, np.int64)
    n = k = 0  # A3:2, A3:3
    arrange(now, met, shuffled, ties)  # A3:4
    for i in range(met):  # A3:5
        c = now.met[i]
        if now.shared[c] == now.size[c]:  # A3:7
            included[n] = c  # A3:8
            n += 1
        elif free > 1:  # A3:11: one stays for A3:31
            if now.tight_in[c] == 0:  # A3:12
                split(book, now, take_shared(book, now, t, c, False), True)  # A3:13
            free -= 1  # A3:14, A3:16, A3:17: one channel holds all the common part, old or new
        else:
            overlapping[k] = c  # A3:20
            k += 1
    done = 0
    while done < n and free > 1:  # A3:25
        free -= 1  # A3:26
        done += 1  # A3:27, A3:28
    rest = n - done + k
    now.met[: n - done] = included[done:n]
    now.met[n - done : rest] = overlapping[:k]
    if rest > 0 or unassigned(book, now, t):  # A3:30
        gather(book, now, t, 0, rest, True)  # A3:31, A3:32
