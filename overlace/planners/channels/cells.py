"""Combinations as cells that are grouped by expected waste: what the grid-based makers of channels have in common.

PART10 §2.2, after Riabov et al. There a cell of a grid has the subscribers interested in it and a rate of
publication, and cells are grouped so that little is delivered to members who did not ask for it. Here a cell is an
offered combination (R15): its members are the subscribers that request it, its rate the messages that match
it. A group is a channel; its waste is what its members receive beyond what they asked for. So two groups are as far
apart as the traffic D that one channel for both would add.

Keeps: (3.1); with limits kept, nobody exceeds their connections: whoever does after the grouping is relieved (`moves`),
which never makes a channel more.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

import numpy as np

from overlace.arrays.jit import Bools, Floats, Ints
from overlace.errors import BadObservation
from overlace.limits import option
from overlace.model import Observation, Plan, Progress
from overlace.planners.channels.book import Book, book_of
from overlace.planners.channels.merging import merge_by_prices
from overlace.planners.channels.moves import repair
from overlace.planners.channels.partition import CHANNELS, partition_of
from overlace.planners.channels.steps import ChannelPlanner, plan_to

MOST_CELLS = 4096
"""Combinations up to which all pairs are looked at: 130 MB of distances."""


class Cells(NamedTuple):
    """What is offered, to be grouped."""

    observation: Observation
    book: Book
    offered: Ints  # the places of the offered combinations in the book


class CellTable(NamedTuple):
    """Cells or groups of cells, a row each, as kernels that look at all pairs take them."""

    meets: Bools  # (row, type): whether the type offers something of it
    subscribers: Floats  # of each row
    messages: Floats  # of each type


def table_of(cells: Cells, messages: Ints) -> CellTable:
    """One row for each offered combination; refuses more than all pairs of can be looked at."""
    book, n, types = cells.book, len(cells.offered), len(cells.book.attributes)
    if n > MOST_CELLS:
        raise BadObservation(
            f"offers: {n:,} combinations are on offer, more than the {MOST_CELLS:,} of which all pairs are looked at; "
            "use channels.strategy-4, or fewer attributes"
        )
    place = np.full(len(book.combination), -1, dtype=np.int64)
    place[cells.offered] = np.arange(n)
    meets = np.zeros((n, types), dtype=np.bool_)
    meets[place[book.offered], np.repeat(np.arange(types), np.diff(book.start))] = True
    return CellTable(meets, book.weight[cells.offered].astype(np.float64), messages.astype(np.float64))


def spread(cells: Cells, groups: Ints) -> Ints:
    """The group of each offered combination as the channel of each combination of the book, with dense ids."""
    channel = np.full(len(cells.book.combination), -1, dtype=np.int64)
    _, channel[cells.offered] = np.unique(groups, return_inverse=True)
    return channel


def within_limits(cells: Cells) -> Ints:
    """The channel of each combination by pairwise merging with prices on the limits, or by repair alone if too many."""
    found = merge_by_prices(cells.observation, cells.book, cells.offered)
    if found is not None:
        return found
    return relieved(cells, spread(cells, np.arange(len(cells.offered))))


def relieved(cells: Cells, channel: Ints) -> Ints:
    """The channels after everybody who was beyond their limit is not any more."""
    now = partition_of(cells.observation, cells.book, channel)
    repair(cells.book, now)
    return now.channel


@dataclass(frozen=True)
class CellPlanner(ChannelPlanner, ABC):
    """A planner that groups all combinations at once by expected waste."""

    channels: int = option(
        0,
        "number of channels at most (0: as many as pairwise merging makes to keep the limits, or all apart where "
        "limits are ignored)",
        least=0,
    )
    connections: Literal["keep", "ignore"] = option(
        "keep",
        "limits on connections: keep (relieve publishers beyond theirs after the grouping) or ignore",
        formerly="limits",
    )
    paper: ClassVar[str] = "PART10 §2.2"

    @abstractmethod
    def group(self, cells: Cells, most: int) -> Ints:
        """The group of each offered combination: at most so many groups."""

    def solve(self, observation: Observation, seed: int = 0, *, progress: Progress | None = None) -> Plan:
        """The groups as channels."""
        book, _ = book_of(observation)
        cells = Cells(observation, book, np.flatnonzero(np.diff(book.by_start) > 0))
        channel = self.cut(cells)
        if progress:
            progress(0.9, f"{channel.max() + 1:,} channels for {len(cells.offered):,} combinations")
        return plan_to(self, observation, seed, book, channel, progress, limited=self.connections == "keep")

    def cut(self, cells: Cells) -> Ints:
        """The channel of each combination of the book (-1: not offered)."""
        channel = spread(cells, self.group(cells, self.channels or self.default(cells)))
        return relieved(cells, channel) if self.connections == "keep" else channel

    def default(self, cells: Cells) -> int:
        """How many channels there may be where no number is given."""
        if self.connections == "ignore":
            return len(cells.offered)
        return int(partition_of(cells.observation, cells.book, within_limits(cells)).counts[CHANNELS])
