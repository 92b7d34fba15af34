"""Strategies 1, 2, 3 and 3.1: publishers arrive one by one, and channels are split and merged for each newcomer.

PART10 §4.1 to §4.4, Algorithms 1 to 4. *Strategy 1* only splits, so that there are no false positives: a newcomer
joins every channel that lies wholly in its offer and parts the common combinations from every channel that does not;
what no channel holds becomes a channel of its own. Combinations end up together exactly when the same publishers offer
them. *Strategy 2* only merges, so that there are few connections: a newcomer joins every channel that its offer meets
in part; the channels that lie wholly in its offer are merged with what no channel holds yet. *Strategy 3* splits while
connections last, then merges: common combinations are parted from a channel as long as everyone concerned has a
connection to spare; the newcomer joins what it can of the rest, and what is left over becomes one channel. *Strategy
3.1* counts spare connections per combination: one can leave its channel when all who offer it have a connection to
spare, whoever else is in the channel. If only some of the common combinations can leave, the newcomer needs two
connections: one for these and one for the channel they leave.

Keeps: (3.1). 1: no false positives, whatever the order of arrival. 2: the same channels in whatever order they are
visited. 3 and 3.1: nobody exceeds their connections; with 2^m connections each, not 2^m - 1, they are strategy 1 (R9).
Reads: R3; 1, 3 and 3.1: R4; 2: R2 (a combination found in a joined channel is not added again); 3 and 3.1: R5, R8 (of
equally large channels the one with the lowest id comes first).
Departs: only the channels that the offer meets are visited, found through its 2^m combinations instead of a scan;
strategies 1 and 2 do not look at limits on connections (R1).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from overlace.arrays.csr import copy
from overlace.arrays.jit import Ints, kernel
from overlace.limits import option
from overlace.model import Observation
from overlace.planners.channels.book import Book
from overlace.planners.channels.changes import arrange, gather, split, take_shared, unassigned
from overlace.planners.channels.online import Joining, Online
from overlace.planners.channels.partition import Partition, arrive, has_changed, meet

SPLIT, MERGE, BY_CHANNEL, BY_COMBINATION = range(4)
"""What a newcomer does: strategies 1, 2, 3 and 3.1."""
TIES = {"oldest": 1, "newest": -1, "least": 0}
"""The sign of the ids by which equally large channels are ordered."""


class Strategy(Joining):
    """One of the thesis's strategies, by its rule."""

    rule: ClassVar[int]

    @property
    def options(self) -> tuple[bool, int]:
        """Whether to shuffle the channels that a newcomer visits, and how ties are broken."""
        return False, TIES["oldest"]

    def online(self, observation: Observation, seed: int = 0) -> Online:
        """Channels that publishers of the observation's offers join and leave, one by one."""
        return Online(observation, seed, join_rows, tracked=self.limited, options=(self.rule, *self.options))


@dataclass(frozen=True)
class Strategy1(Strategy):
    """Splits channels until nobody receives what they did not ask for, at any number of connections."""

    paper: ClassVar[str] = "PART10 Algorithm 1"
    limited: ClassVar[bool] = False
    rule: ClassVar[int] = SPLIT


@dataclass(frozen=True)
class Strategy2(Strategy):
    """Merges channels to keep connections few, at any number of false positives."""

    paper: ClassVar[str] = "PART10 Algorithm 2"
    limited: ClassVar[bool] = False
    rule: ClassVar[int] = MERGE


@dataclass(frozen=True)
class Strategy3(Strategy):
    """Between splitting always (strategy 1) and merging always (strategy 2), as connections allow."""

    order: Literal["descending", "random"] = option(
        "descending", "how a newcomer visits the channels: descending (largest first) or random"
    )
    ties: Literal["oldest", "newest", "least"] = option(
        "oldest",
        "which of equally large channels is visited first: the oldest (lowest id), the newest, or the one "
        "with the least combination on offer",
    )
    paper: ClassVar[str] = "PART10 Algorithm 3"
    rule: ClassVar[int] = BY_CHANNEL

    @property
    def options(self) -> tuple[bool, int]:
        """As the fields say."""
        return self.order == "random", TIES[self.ties]


@dataclass(frozen=True)
class Strategy31(Strategy3):
    """Strategy 3 with a finer eye for who has connections to spare."""

    paper: ClassVar[str] = "PART10 Algorithm 4"
    rule: ClassVar[int] = BY_COMBINATION


@kernel
def join_rows(book: Book, now: Partition, kinds: Ints, messages: Ints, rule: int, shuffled: bool, ties: int) -> None:
    """Let publishers join one after the other."""
    for row in range(len(kinds)):
        kind = kinds[row]
        if has_changed(now, kind) or shuffled:
            if rule == SPLIT:
                join_by_splits(book, now, book.kind_type[kind])
            elif rule == MERGE:
                join_by_merge(book, now, book.kind_type[kind])
            else:
                join_within_limit(book, now, kind, rule == BY_COMBINATION, shuffled, ties)
        arrive(book, now, kind, messages[row], rule >= BY_CHANNEL)


@kernel
def join_by_splits(book: Book, now: Partition, t: int) -> None:
    """Strategy 1: a publisher of type t enters."""
    met = meet(book, now, t)  # A1:1, A1:3: what is left is the offer, by the channels it meets
    for i in range(met):  # A1:2
        c = now.met[i]
        if now.shared[c] == now.size[c]:  # A1:4
            continue  # A1:5, A1:6: joined; by (3.1) no other channel holds any of it
        split(book, now, take_shared(book, now, t, c, False), False)  # A1:8, A1:9
    # A1:11, A1:12: what is left is empty after the last channel that is met
    if unassigned(book, now, t):  # A1:16
        gather(book, now, t, 0, 0, False)  # A1:17


@kernel
def join_by_merge(book: Book, now: Partition, t: int) -> None:
    """Strategy 2: a publisher of type t enters."""
    met = meet(book, now, t)  # A2:1, A2:4: what is left is the offer, by the channels it meets
    to_merge = 0  # A2:2
    for i in range(met):  # A2:3
        c = now.met[i]
        if now.shared[c] == now.size[c]:  # A2:5
            now.met[to_merge] = c  # A2:6
            to_merge += 1
        # A2:8, A2:9: else it is joined as it is; by (3.1) no other channel holds any of it
    # A2:11, A2:12: what is left is empty after the last channel that is met
    if to_merge > 0 or unassigned(book, now, t):  # A2:16
        gather(book, now, t, 0, to_merge, False)  # A2:17, A2:18


@kernel
def join_within_limit(book: Book, now: Partition, kind: int, finer: bool, shuffled: bool, ties: int) -> None:
    """Strategies 3 and 3.1: a publisher enters.

    What is left of its offer is in no channel yet, or in those it has not taken.
    """
    t, free = book.kind_type[kind], book.kind_limit[kind]
    met = meet(book, now, t)  # A3:1, A3:6, A4:1, A4:6
    included, overlapping = np.empty(met, np.int64), np.empty(met, np.int64)
    n = k = 0  # A3:2, A3:3, A4:2, A4:3
    arrange(now, met, shuffled, ties)  # A3:4, A4:4
    for i in range(met):  # A3:5, A4:5
        c = now.met[i]
        if now.shared[c] == now.size[c]:  # A3:7, A4:7
            included[n] = c  # A3:8, A4:8
            n += 1
        elif free > 1 and finer:  # A4:11
            loose = take_shared(book, now, t, c, True)  # A4:12, A4:13
            if loose == now.shared[c]:  # A4:14
                split(book, now, loose, True)  # A4:15
                free -= 1  # A4:16
            else:
                if free > 2 and loose > 0:  # A4:18
                    split(book, now, loose, True)  # A4:19
                    free -= 1
                free -= 1  # A4:21, A4:22
        elif free > 1:  # A3:11: one stays for A3:31
            if now.tight_in[c] == 0:  # A3:12
                split(book, now, take_shared(book, now, t, c, False), True)  # A3:13
            free -= 1  # A3:14, A3:16, A3:17: one channel holds all the common part, old or new
        else:
            overlapping[k] = c  # A3:20, A4:25
            k += 1
    done = 0
    while done < n and free > 1:  # A3:25, A4:30
        free -= 1  # A3:26, A4:31
        done += 1  # A3:27, A3:28, A4:32, A4:33
    rest = n - done + k
    copy(included[done:n], now.met)
    copy(overlapping[:k], now.met[n - done :])
    if rest > 0 or unassigned(book, now, t):  # A3:30, A4:35
        gather(book, now, t, 0, rest, True)  # A3:31, A3:32, A4:36, A4:37
