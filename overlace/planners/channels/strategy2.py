"""Strategy 2: only merge, so that there are few connections.

PART10 §4.2, Algorithm 2. Publishers arrive one by one. A newcomer joins every channel that its offer meets
in part; the channels that lie wholly in its offer are merged with what no channel holds yet.

Keeps: (3.1); the outcome does not depend on the order of visiting.
Reads: R2 (a combination found in a joined channel is not added again), R3. Departs: only the channels
that the offer meets are visited; limits on connections are not looked at.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from overlace.arrays.jit import Ints, kernel
from overlace.model import Observation
from overlace.planners.channels.book import Book
from overlace.planners.channels.changes import gather, unassigned
from overlace.planners.channels.online import Joining, Online
from overlace.planners.channels.partition import Partition, arrive, has_changed, meet


@dataclass(frozen=True)
class Strategy2(Joining):
    """Merges channels to keep connections few, at any number of false positives."""

    paper: ClassVar[str] = "PART10 Algorithm 2"
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
