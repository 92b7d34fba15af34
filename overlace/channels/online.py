"""Channels that publishers join and leave one by one, and the plan that comes of all joins."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from overlace.arrays.jit import Ints, Pairs
from overlace.channels.partition import (
    CHANGED,
    CHANNELS,
    RETUNED,
    Book,
    Partition,
    book_of,
    empty_partition,
)
from overlace.channels.partition import leave as leave_as_it_is
from overlace.channels.steps import plan_to
from overlace.model import Observation, Plan, Planner, Progress

Leave = Callable[..., None]
AT_ONCE = 2_000  # joins between two reports of progress


class Online:
    """A partition into channels to which publishers come and from which they go, by the rows of the offers.

    `join(book, now, kinds, messages, *told)` is the strategy. What has happened so far is in `channels`,
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
        told: tuple[Any, ...] = (),
    ) -> None:
        self.book, self.kinds = book_of(observation)
        self.now: Partition = empty_partition(self.book, seed)
        self.messages: Ints = observation.offers.messages
        self._join, self._leave, self._told, self._tracked = join, leave, told, tracked

    def join(self, first: int, last: int | None = None) -> None:
        """Let the publisher of row `first` join, or those of rows first to last."""
        rows = slice(first, first + 1 if last is None else last)
        with np.errstate(over="ignore"):  # hashes wrap around; only uncompiled kernels tell
            self._join(self.book, self.now, self.kinds[rows], self.messages[rows], *self._told)

    def leave(self, row: int) -> None:
        """Let the publisher of a row, which has joined, go."""
        if self.now.joined[self.kinds[row]] == 0:
            raise ValueError(f"row {row} has not joined, so it cannot leave")
        kind, messages = int(self.kinds[row]), int(self.messages[row])
        with np.errstate(over="ignore"):
            if self._leave is None:
                leave_as_it_is(self.book, self.now, kind, messages, self._tracked)
            else:
                self._leave(self.book, self.now, kind, messages, *self._told)

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
        """(combination, channel) as it is now."""
        held = np.flatnonzero(self.now.channel >= 0)
        return np.column_stack([self.book.combination[held], self.now.channel[held]])

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


def join_all(
    planner: Planner, online: Online, observation: Observation, seed: int, progress: Progress | None, *, limited: bool
) -> Plan:
    """Let everybody join in the order of the offers, and plan the way to the channels that come of it."""
    rows = len(online.kinds)
    for first in range(0, rows, AT_ONCE):
        last = min(first + AT_ONCE, rows)
        online.join(first, last)
        if progress:
            progress(0.9 * last / rows, f"{last:,} of {rows:,} publishers have joined")
    return plan_to(planner, observation, seed, online.book, online.now.channel, progress, limited=limited)
