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
from overlace.channels import cost as channels_cost
from overlace.channels.online import Online, join_all
from overlace.channels.partition import VERSION, Book, Partition, arrive, gather, meet, unassigned
from overlace.channels.steps import REASONS
from overlace.model import Facet, Observation, Overlay, Plan, Progress


@dataclass(frozen=True)
class Strategy2:
    """Merges channels to keep connections few, at any number of false positives."""

    facets: ClassVar[tuple[Facet, ...]] = ("channels",)
    paper: ClassVar[str] = "PART10 Algorithm 2"
    REASONS: ClassVar[tuple[str, ...]] = REASONS

    def solve(self, observation: Observation, seed: int = 0, *, progress: Progress | None = None) -> Plan:
        """The channels after all publishers have joined in the order of the offers."""
        return join_all(self, self.online(observation, seed), observation, seed, progress, limited=False)

    def online(self, observation: Observation, seed: int = 0) -> Online:
        """Channels that publishers of the observation's offers join and leave, one by one."""
        return Online(observation, seed, join_rows, tracked=False)

    def cost(self, observation: Observation, overlay: Overlay) -> float:
        """D, the traffic received."""
        return channels_cost.cost(observation, overlay)


@kernel
def join_rows(book: Book, now: Partition, kinds: Ints, messages: Ints) -> None:
    """Let publishers join one after the other."""
    for row in range(len(kinds)):
        version = now.counts[VERSION]
        if now.quiet[kinds[row]] != version:  # else its like has joined since the last change
            join(book, now, book.kind_type[kinds[row]])
        arrive(book, now, kinds[row], messages[row], False)
        if now.counts[VERSION] == version:
            now.quiet[kinds[row]] = version


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
