"""Strategy 4: repair what a newcomer breaks at the least traffic, then improve what is near.

Ours, after the two improvements that PART10 §6 hopes for: use up every connection, and look again at
channels of others when somebody joins. Publishers arrive one by one. Every combination that is new
becomes a channel of its own. A newcomer beyond its limit is relieved, one connection at a time, by the move of a part
of one of its channels into another, or by the merge of two, that adds least traffic for each publisher
type at its limit that it frees. Then at most `effort` local moves are tried: a combination goes where
that lowers the traffic, whoever this pushes beyond their limit is relieved in turn, and the move is
kept only if the traffic is lower after all. When a publisher leaves, the same local moves use what it freed.

Uses: the rates of those who have joined, and the requests, where they are known; one message each and one
subscriber per combination where not. It never looks at publishers that are still to come, nor at
requests that nobody present serves.
Keeps: (3.1); every limit, after every join, leave and step.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from overlace.arrays.jit import Ints, Pairs, kernel
from overlace.limits import check_options, option
from overlace.model import Observation
from overlace.planners.channels.book import Book
from overlace.planners.channels.moves import attempt, improve, relieve
from overlace.planners.channels.online import Joining, Online
from overlace.planners.channels.partition import HELD, Partition, arrive, draw, leave, new_channel, put


@dataclass(frozen=True)
class Strategy4(Joining):
    """Repairs what a newcomer breaks at the least traffic, then tries some local moves."""

    effort: int = option(
        150,
        "local moves tried after each join and leave (0: only repair); "
        "150 take about half a millisecond at ten attributes",
        least=0,
    )

    def __post_init__(self) -> None:
        check_options(self)

    def online(self, observation: Observation, seed: int = 0) -> Online:
        """Channels that publishers of the observation's offers join and leave, one by one."""
        return Online(observation, seed, join_rows, tracked=True, leave=leave_row, options=(self.effort,))


@kernel
def join_rows(book: Book, now: Partition, kinds: Ints, messages: Ints, effort: int) -> None:
    """Let publishers join one after the other."""
    log = np.empty((4 * len(book.combination) + 64, 4), dtype=np.int64)
    for row in range(len(kinds)):
        t = book.kind_type[kinds[row]]
        for i in range(book.start[t], book.start[t + 1]):
            if now.channel[book.offered[i]] < 0:
                put(book, now, book.offered[i], new_channel(now))
        arrive(book, now, kinds[row], messages[row], True)
        while now.connections[t] > now.limit[t]:
            relieve(book, now, t, log, 0, True)
        local_moves(book, now, t, log, effort)


@kernel
def leave_row(book: Book, now: Partition, kind: int, messages: int, effort: int) -> None:
    """Let a publisher go."""
    leave(book, now, kind, messages, True)
    log = np.empty((4 * len(book.combination) + 64, 4), dtype=np.int64)
    local_moves(book, now, book.kind_type[kind], log, effort)


@kernel
def local_moves(book: Book, now: Partition, t: int, log: Pairs, effort: int) -> None:
    """Try `effort` moves: the newcomer's combinations first, then any on offer; every seventh may push others."""
    first, size = book.start[t], book.start[t + 1] - book.start[t]
    if now.counts[HELD] == 0:
        return
    for i in range(effort):
        a = book.offered[first + i] if i < size else now.held[draw(now, now.counts[HELD])]
        if now.channel[a] < 0:
            continue
        if i % 7 < 6:
            improve(book, now, a)
        else:
            attempt(book, now, a, log)
