"""Strategy 3: split channels while connections last, then merge.

PART10 §4.3, Algorithm 3. Publishers arrive one by one. A newcomer parts the common combinations from each
channel that only partly meets its offer, as long as everyone concerned has a connection to spare; it
joins what it can of the rest, and what is left over becomes one channel.

Keeps: (3.1); nobody exceeds their connections; with 2^m - 1 connections each it is strategy 1.
Reads: R3, R4, R5, R8 (of equally large channels the one with the lowest id comes first).
Departs: only the channels that the offer meets are visited.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Literal

import numpy as np

from overlace.arrays.jit import Ints, kernel
from overlace.channels import cost as channels_cost
from overlace.channels.online import Online, join_all
from overlace.channels.partition import (
    VERSION,
    Book,
    Partition,
    arrange,
    arrive,
    gather,
    meet,
    split,
    take_shared,
    unassigned,
)
from overlace.channels.steps import REASONS
from overlace.errors import BadParameter
from overlace.model import Facet, Observation, Overlay, Plan, Progress


@dataclass(frozen=True)
class Strategy3:
    """Between splitting always (strategy 1) and merging always (strategy 2), as connections allow."""

    order: Literal["descending", "random"] = field(
        default="descending",
        metadata={"help": "how a newcomer visits the channels: descending (largest first) or random"},
    )
    ties: Literal["oldest", "least"] = field(
        default="oldest",
        metadata={
            "help": "which of equally large channels is visited first: the oldest (lowest id), or the one with the "
            "least combination on offer"
        },
    )
    facets: ClassVar[tuple[Facet, ...]] = ("channels",)
    paper: ClassVar[str] = "PART10 Algorithm 3"
    REASONS: ClassVar[tuple[str, ...]] = REASONS

    def __post_init__(self) -> None:
        if self.order not in ("descending", "random"):
            raise BadParameter(f"order is {self.order!r}: expected descending or random")
        if self.ties not in ("oldest", "least"):
            raise BadParameter(f"ties is {self.ties!r}: expected oldest or least")

    def solve(self, observation: Observation, seed: int = 0, *, progress: Progress | None = None) -> Plan:
        """The channels after all publishers have joined in the order of the offers."""
        return join_all(self, self.online(observation, seed), observation, seed, progress, limited=True)

    def online(self, observation: Observation, seed: int = 0) -> Online:
        """Channels that publishers of the observation's offers join and leave, one by one."""
        told = (self.order == "random", int(self.ties == "oldest"))
        return Online(observation, seed, join_rows, tracked=True, told=told)

    def cost(self, observation: Observation, overlay: Overlay) -> float:
        """D, the traffic received."""
        return channels_cost.cost(observation, overlay)


@kernel
def join_rows(book: Book, now: Partition, kinds: Ints, messages: Ints, shuffled: bool, ties: int) -> None:
    """Let publishers join one after the other."""
    for row in range(len(kinds)):
        version = now.counts[VERSION]
        if shuffled or now.quiet[kinds[row]] != version:  # else its like has joined since the last change
            join(book, now, kinds[row], shuffled, ties)
        arrive(book, now, kinds[row], messages[row], True)
        if now.counts[VERSION] == version:
            now.quiet[kinds[row]] = version


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
