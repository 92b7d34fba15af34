"""Strategy 4: repair what a newcomer breaks at the least traffic, improve what is near, and keep a draft.

Ours, after the two improvements that PART10 §6 hopes for: use up every connection, and look again at
channels of others when somebody joins. Publishers arrive one by one. Every combination that is new
becomes a channel of its own. A newcomer beyond its limit is relieved, one connection at a time, by the move of a part
of one of its channels into another, or by the merge of two, that adds least traffic for each publisher
type at its limit that it frees. Then at most `effort` local moves are tried: a combination goes where
that lowers the traffic, whoever this pushes beyond their limit is relieved in turn, and the move is
kept only if the traffic is lower after all. When a publisher leaves, the same local moves use what it freed.

Local moves within hard limits end where nobody has a connection to spare. So `drafted` moves are also made in a
draft (`draft`), where a connection beyond a limit has a price. After every SWEEPS moves per combination the
draft is repaired and polished, and taken if it saves more than a share of the traffic (`hysteresis`), since whoever
is moved must tune in elsewhere; then the next round starts from the cut in use.

Uses: the rates of those who have joined, and the requests, where they are known; one message each and one
subscriber per combination where not. It never looks at publishers that are still to come, nor at
requests that nobody present serves.
Keeps: (3.1); every limit, after every join, leave and step. With no draft it is what it was before there were drafts;
where pairs of combinations and types are too many to count there is none.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from overlace.arrays.jit import Ints, Pairs, kernel
from overlace.limits import option
from overlace.model import Observation
from overlace.planners.channels.book import Book
from overlace.planners.channels.changes import shift
from overlace.planners.channels.draft import (
    CoolingRound,
    Draft,
    can_draft,
    copy_cut,
    empty_draft,
    follow,
    search,
    within_limits,
)
from overlace.planners.channels.moves import attempt, improve, received, relieve
from overlace.planners.channels.online import Joining, Online
from overlace.planners.channels.partition import (
    CHANGED,
    HELD,
    Partition,
    arrive,
    draw,
    leave,
    new_channel,
    put,
)
from overlace.planners.channels.steps import kept_ids

SWEEPS = 100  # moves of a round of the draft, for each combination
HOT, COLD = 0.1, 0.03  # temperature at the start and the end of a round, in messages received per combination
CHEAP, DEAR = 0.25, 0.8  # price of a connection beyond a limit, likewise
NO_ROUND = CoolingRound(0, 1.0, 1.0, 1.0, 1.0)


@dataclass(frozen=True)
class Strategy4(Joining):
    """Repairs what a newcomer breaks at the least traffic, tries some local moves, and works on a draft."""

    effort: int = option(
        100,
        "local moves tried after each join and leave (0: only repair); "
        "100 take about a third of a millisecond at ten attributes",
        least=0,
    )
    drafted: int = option(
        4000,
        "moves made in the draft after each join and leave (0: no draft); "
        "4000 take about 0.4 milliseconds at ten attributes",
        least=0,
    )
    hysteresis: float = option(
        0.002, "share of the traffic that a draft must save, at least, to be taken", least=0, most=1
    )

    def online(self, observation: Observation, seed: int = 0) -> Online:
        """Channels that publishers of the observation's offers join and leave, one by one."""
        return Drafting(observation, seed, self)


class RedraftEffort(NamedTuple):
    """What is tried at a join or leave."""

    local: int  # moves of combinations in use
    drafted: int  # moves of the draft
    made: int  # moves of the round so far


class Drafting(Online):
    """Channels with a draft beside them, which goes on at every join and leave and is looked at after each round."""

    def __init__(self, observation: Observation, seed: int, planner: Strategy4) -> None:
        super().__init__(observation, seed, join_rows, tracked=True, leave=leave_row)
        drafted = planner.drafted if can_draft(self.book) else 0
        self.effort, self.hysteresis = RedraftEffort(planner.effort, drafted, 0), planner.hysteresis
        self.draft, self.round = empty_draft(self.book, seed, kept=drafted > 0), NO_ROUND
        self._options = (self.draft, self.round, self.effort)

    def let_in(self, first: int, last: int) -> None:
        """Let the publishers of rows that may join do so, and stop at the end of each round of the draft."""
        drafted = self.effort.drafted
        while first < last:
            left = -(-(self.round.length - self.effort.made) // drafted) if drafted else last - first
            until = min(last, first + max(1, left))
            super().let_in(first, until)
            self._count(until - first)
            first = until

    def leave(self, row: int) -> None:
        """Let the publisher of a row, which has joined, go."""
        super().leave(row)
        self._count(1)

    def _count(self, events: int) -> None:
        """So many have joined or left: at the end of a round, take the draft if it is better, and begin the next."""
        drafted = self.effort.drafted
        made = self.effort.made + events * drafted
        if drafted and made >= self.round.length:
            if self.round.length > 0:
                self._take()
            self.round, made = self._begin(), 0
        self.effort = self.effort._replace(made=made)
        self._options = (self.draft, self.round, self.effort)

    def _begin(self) -> CoolingRound:
        """A round that starts from the cut in use."""
        held = int(self.now.counts[HELD])
        unit = received(self.now) / max(held, 1)
        if unit == 0:
            return NO_ROUND
        copy_cut(self.book, self.now, self.draft)
        return CoolingRound(SWEEPS * held, HOT * unit, COLD * unit, CHEAP * unit, DEAR * unit)

    def _take(self) -> None:
        """Repair and polish the draft, and go over to it if that saves enough."""
        book, now = self.book, self.now
        other = within_limits(book, now, self.draft)
        saved = received(now) - received(other)
        if saved > self.hysteresis * received(now):
            adopt(book, now, kept_ids(other.channel, now.channel))


@kernel
def join_rows(
    book: Book, now: Partition, kinds: Ints, messages: Ints, draft: Draft, round: CoolingRound, effort: RedraftEffort
) -> None:
    """Let publishers join one after the other."""
    made = effort.made
    log = np.empty((4 * len(book.combination) + 64, 4), dtype=np.int64)
    for row in range(len(kinds)):
        t = book.kind_type[kinds[row]]
        for i in range(book.start[t], book.start[t + 1]):
            if now.channel[book.offered[i]] < 0:
                put(book, now, book.offered[i], new_channel(now))
        arrive(book, now, kinds[row], messages[row], True)
        while now.connections[t] > now.limit[t]:
            relieve(book, now, t, log, 0, True)
        local_moves(book, now, t, log, effort.local)
        if round.length > 0:
            follow(book, now, draft, t, messages[row])
            search(book, now, draft, round, made, min(round.length, made + effort.drafted))
            made += effort.drafted


@kernel
def leave_row(
    book: Book, now: Partition, kind: int, messages: int, draft: Draft, round: CoolingRound, effort: RedraftEffort
) -> None:
    """Let a publisher go."""
    leave(book, now, kind, messages, True)
    log = np.empty((4 * len(book.combination) + 64, 4), dtype=np.int64)
    local_moves(book, now, book.kind_type[kind], log, effort.local)
    if round.length > 0:
        follow(book, now, draft, book.kind_type[kind], -messages)
        if now.counts[HELD] > 0:
            search(book, now, draft, round, effort.made, min(round.length, effort.made + effort.drafted))


@kernel
def adopt(book: Book, now: Partition, wanted: Ints) -> None:
    """Go over to another cut: its channels have the places of those they follow, or numbers after all in use."""
    places = len(now.size)
    last = now.channel.max()
    place = np.full(places + last + 2, -1, dtype=np.int64)
    changed = np.zeros(places, dtype=np.bool_)
    for fresh in range(2):  # new channels last: by then nobody who goes there leaves an empty channel behind
        for a in range(len(wanted)):
            if now.channel[a] < 0 or wanted[a] == now.channel[a] or (wanted[a] > last) != (fresh == 1):
                continue
            target = wanted[a]
            if fresh == 1:
                if place[target] < 0:
                    place[target] = new_channel(now)
                target = place[target]
            if now.channel[a] == target:
                continue
            changed[now.channel[a]] = True
            changed[target] = True
            now.moved[0] = a
            shift(book, now, 1, target, True)
    now.counts[CHANGED] += changed.sum()


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
