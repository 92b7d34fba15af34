"""Strategy 1: only split, so that there are no false positives.

PART10 §4.1, Algorithm 1. Publishers arrive one by one. A newcomer joins every channel that lies wholly in
its offer and parts the common combinations from every channel that does not; what no channel holds
becomes a channel of its own. Combinations end up together exactly when the same publishers offer them.

Keeps: (3.1); no false positives; the outcome does not depend on the order of arrival.
Reads: R1, R3, R4. Departs: only the channels that the offer meets are visited, found through its 2^m
combinations instead of a scan; limits on connections are not looked at.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from overlace.arrays.jit import Ints, kernel
from overlace.model import Observation
from overlace.planners.channels.book import Book
from overlace.planners.channels.changes import gather, split, take_shared, unassigned
from overlace.planners.channels.online import Joining, Online
from overlace.planners.channels.partition import Partition, arrive, has_changed, meet


@dataclass(frozen=True)
class Strategy1(Joining):
    """Splits channels until nobody receives what they did not ask for, at any number of connections."""

    paper: ClassVar[str] = "PART10 Algorithm 1"
    limited: ClassVar[bool] = False

    def online(self, observation: Observation, seed: int = 0) -> Online:
        """Channels that publishers of the observation's offers join and leave, one by one."""
        return Online(observation, seed, join_rows, tracked=False)


@kernel
def join_rows(book: Book, now: Partition, kinds: Ints, messages: Ints) -> None:
    """Let publishers join one after the other."""
    for row in range(len(kinds)):
        if has_changed(now, kinds[row]):
            join(book, now, book.kind_type[kinds[row]])
        arrive(book, now, kinds[row], messages[row], False)


@kernel
def join(book: Book, now: Partition, t: int) -> None:
    """A publisher of type t enters."""
    met = meet(book, now, t)  # A1:1, A1:3: what is left is the offer, by the channels it meets
    for i in range(met):  # A1:2
        c = now.met[i]
        if now.shared[c] == now.size[c]:  # A1:4
            continue  # A1:5, A1:6: joined; by (3.1) no other channel holds any of it
        split(book, now, take_shared(book, now, t, c, False), False)  # A1:8, A1:9
    # A1:11, A1:12: what is left is empty after the last channel that is met
    if unassigned(book, now, t):  # A1:16
        gather(book, now, t, 0, 0, False)  # A1:17
