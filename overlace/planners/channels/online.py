"""Channels that publishers join and leave one by one, and what all online strategies have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar

import numpy as np

from overlace.arrays.jit import Ints, Pairs
from overlace.model import Observation, Plan, Progress
from overlace.planners.channels.book import Book, book_of
from overlace.planners.channels.partition import CHANGED, CHANNELS, RETUNED, Partition, empty_partition
from overlace.planners.channels.partition import leave as leave_as_it_is
from overlace.planners.channels.steps import ChannelPlanner, plan_to

Leave = Callable[..., None]
AT_ONCE = 2_000  # joins between two reports of progress


class Online:
    """A partition into channels to which publishers come and from which they go, by the rows of the offers.

    `join(book, now, kinds, messages, *options)` is the strategy. What has happened so far is in `channels`,
    `pairs`, `connections`, and what the joins cost others in `changed` and `retuned`.
    """

    def __init__(
        self,
        observation: Observation,
        seed: int,
        join: Callable[..., None],
        *,
        tracked: bool,
        leave: Leave | None = None,
        options: tuple[object, ...] = (),
    ) -> None:
        self.book, self.kinds = book_of(observation)
        self.now: Partition = empty_partition(self.book, seed)
        self.messages: Ints = observation.offers.messages
        self.present = np.zeros(len(self.kinds), dtype=np.bool_)
        self._join, self._leave, self._options, self._tracked = join, leave, options, tracked

    def join(self, first: int, last: int | None = None) -> None:
        """Let the publisher of row `first` join, or those of the rows from first up to, without, last."""
        last = first + 1 if last is None else last
        if not 0 <= first <= last <= len(self.kinds):
            raise ValueError(f"rows {first} to {last - 1} cannot join: the offers have rows 0 to {len(self.kinds) - 1}")
        for row in first + np.flatnonzero(self.present[first:last])[:1]:
            raise ValueError(f"row {row} has joined already")
        self.let_in(first, last)
        self.present[first:last] = True

    def let_in(self, first: int, last: int) -> None:
        """Let the publishers of rows that may join do so."""
        rows = slice(first, last)
        self._join(self.book, self.now, self.kinds[rows], self.messages[rows], *self._options)

    def leave(self, row: int) -> None:
        """Let the publisher of a row, which has joined, go."""
        if not 0 <= row < len(self.kinds) or not self.present[row]:
            raise ValueError(f"row {row} has not joined, so it cannot leave")
        kind, messages = int(self.kinds[row]), int(self.messages[row])
        if self._leave is None:
            leave_as_it_is(self.book, self.now, kind, messages, self._tracked)
        else:
            self._leave(self.book, self.now, kind, messages, *self._options)
        self.present[row] = False

    @property
    def channels(self) -> int:
        """How many channels there are."""
        return int(self.now.counts[CHANNELS])

    @property
    def changed(self) -> int:
        """How many times a channel that others used was split or merged."""
        return int(self.now.counts[CHANGED])

    @property
    def retuned(self) -> int:
        """How many times a subscriber had to change its channel."""
        return int(self.now.counts[RETUNED])

    @property
    def pairs(self) -> Pairs:
        """(combination, channel) as it is now. An id is never given to a second channel."""
        held = np.flatnonzero(self.now.channel >= 0)
        return np.column_stack([self.book.combination[held], self.now.born[self.now.channel[held]]])

    @property
    def connections(self) -> Ints:
        """How many channels each type of publisher that is present is connected to; 0 for one that is not."""
        return connections_of(self.book, self.now)


def connections_of(book: Book, now: Partition) -> Ints:
    """Connections of each type, counted anew from the channels."""
    owner = np.repeat(np.arange(len(book.attributes)), np.diff(book.start))
    channel = now.channel[book.offered]
    held = (channel >= 0) & (now.present[owner] > 0)
    pairs = np.unique(owner[held] * np.int64(len(now.size) + 1) + channel[held])
    return np.bincount(pairs // (len(now.size) + 1), minlength=len(book.attributes)).astype(np.int64)


class Joining(ChannelPlanner, ABC):
    """A planner whose channels come of everybody joining in the order of the offers."""

    limited: ClassVar[bool] = True  # whether it looks at the limits on connections

    @abstractmethod
    def online(self, observation: Observation, seed: int = 0) -> Online:
        """Channels that publishers of the observation's offers join and leave, one by one."""

    def solve(self, observation: Observation, seed: int = 0, *, progress: Progress | None = None) -> Plan:
        """The channels after all publishers have joined in the order of the offers."""
        online = self.online(observation, seed)
        rows = len(online.kinds)
        for first in range(0, rows, AT_ONCE):
            last = min(first + AT_ONCE, rows)
            online.join(first, last)
            if progress:
                progress(0.9 * last / rows, f"{last:,} of {rows:,} publishers have joined")
        return plan_to(self, observation, seed, online.book, online.now.channel, progress, limited=self.limited)
