"""In which order combinations move to the channels where they are wanted.

A step moves one combination, or several at once where no single move keeps everybody within their limit
(or within the connections they had, if those were more). Moves that save traffic come first where that can be.
Combinations that no channel holds count as one channel of traffic, as in `cost`, but nobody needs a connection for
it (R3).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from overlace.arrays.jit import Bools, Floats, Ints, kernel
from overlace.model import UNLIMITED, Observation
from overlace.planners.channels.book import Book
from overlace.planners.channels.changes import shift
from overlace.planners.channels.partition import STAMP, Partition, meet, partition_of
from overlace.planners.ordering import carry_out

MANY = 1_000  # combinations up to which the best move is looked for among all


class Moves(NamedTuple):
    """Combinations that wait to move, and those that have moved by steps; changed in place."""

    target: Ints  # per combination
    moving: Ints  # the combinations that move
    place: Ints  # per combination its place in moving, or -1
    pending: Bools  # per place in moving
    cap: Ints  # connections of a type, at most
    none: int  # where those in no channel are, or -1
    search: bool  # whether what costs waits for what saves
    order: Ints  # the combinations that have moved
    start: Ints  # order[start[i]:start[i + 1]] move in step i
    gain: Floats  # per step
    relieved: Ints  # per step, publishers that need fewer connections
    burdened: Ints  # per step, publishers that need more
    eased: Ints  # per step, the first type that needs fewer; -1: none
    done: Ints  # combinations, steps


def order_moves(observation: Observation, book: Book, old: Ints, new: Ints, moving: Ints, *, limited: bool) -> Moves:
    """The moving combinations by steps."""
    ids, both = np.unique(np.concatenate([old, new]), return_inverse=True)
    source, target = both[: len(old)].copy(), both[len(old) :].copy()  # those in no channel share one
    now = partition_of(observation, book, source, len(ids))
    none = 0 if ids[0] < 0 else -1
    connect(book, now, np.arange(len(now.limit)), none)
    cap = np.maximum(now.limit, now.connections) if limited else np.full(len(now.limit), UNLIMITED)
    n = len(moving)
    place = np.full(len(now.channel), -1)
    place[moving] = np.arange(n)
    moves = Moves(
        target=target,
        moving=moving,
        place=place,
        pending=np.ones(n, dtype=np.bool_),
        cap=cap,
        none=none,
        search=bool(limited and n <= MANY),
        order=np.empty(n, dtype=np.int64),
        start=np.zeros(n + 1, dtype=np.int64),
        gain=np.zeros(n),
        relieved=np.zeros(n, dtype=np.int64),
        burdened=np.zeros(n, dtype=np.int64),
        eased=np.full(n, -1),
        done=np.zeros(2, dtype=np.int64),
    )
    carry_out(InOrder(book, now, moves))
    steps = int(moves.done[1])
    found = {name: getattr(moves, name)[:steps] for name in ("gain", "relieved", "burdened", "eased")}
    return moves._replace(start=moves.start[: steps + 1], **found)


class InOrder:
    """All combinations on their way to their channels, for `ordering.carry_out`."""

    def __init__(self, book: Book, now: Partition, moves: Moves) -> None:
        self.book, self.now, self.moves, self.next = book, now, moves, -1

    @property
    def left(self) -> int:
        """Combinations that have not moved yet."""
        return len(self.moves.moving) - int(self.moves.done[0])

    def alone(self) -> bool:
        """Move one by one whatever saves and breaks nothing."""
        before = self.left
        self.next = move_alone(self.book, self.now, self.moves)
        return self.left < before

    def together(self) -> None:
        """Move the one that loses least, and what else it takes until nobody is beyond their cap."""
        move_together(self.book, self.now, self.moves, self.next)


@kernel
def connect(book: Book, now: Partition, types: Ints, none: int) -> None:
    """Count the connections of some types anew: the channels they meet, without the place of what is in none."""
    for i in range(len(types)):
        met = meet(book, now, types[i])
        now.connections[types[i]] = met - (1 if none >= 0 and now.seen[none] == now.counts[STAMP] else 0)


class Effect(NamedTuple):
    """What a move would do."""

    gain: int  # the traffic saved
    relieved: int  # publishers that need a connection less
    burdened: int  # publishers that need one more
    broken: int  # how many more types would be beyond their cap
    eased: int  # the first type that needs a connection less; -1: none


@kernel
def weigh(book: Book, now: Partition, moves: Moves, i: int) -> Effect:
    """What it would do if a combination that waits moved."""
    a, none, cap = moves.moving[i], moves.none, moves.cap
    source, target = now.channel[a], moves.target[a]
    lost = won = relieved = burdened = broken = 0
    eased = -1
    for k in range(book.by_start[a], book.by_start[a + 1]):
        t = book.by_type[k]
        stays = there = False
        for j in range(book.start[t], book.start[t + 1]):
            b = book.offered[j]
            if now.channel[b] == target:
                there = True
            elif now.channel[b] == source and b != a:
                stays = True
        if not stays:
            lost += now.messages[t]
        if not there:
            won += now.messages[t]
        if (stays or source == none) and not there:
            burdened += now.present[t]
            if now.connections[t] == cap[t]:
                broken += 1
        elif there and not stays and source != none:
            relieved += now.present[t]
            eased = t if eased < 0 else min(eased, t)
            if now.connections[t] == cap[t] + 1:
                broken -= 1
    s, w = now.subscribers, book.weight[a]
    before = s[source] * now.rate[source] + s[target] * now.rate[target]
    after = (s[source] - w) * (now.rate[source] - lost) + (s[target] + w) * (now.rate[target] + won)
    return Effect(before - after, relieved, burdened, broken, eased)


@kernel
def move(book: Book, now: Partition, moves: Moves, i: int) -> None:
    """Move a combination that waits."""
    a = moves.moving[i]
    now.moved[0] = a
    shift(book, now, 1, moves.target[a], True)
    connect(book, now, book.by_type[book.by_start[a] : book.by_start[a + 1]], moves.none)
    moves.pending[i] = False
    moves.order[moves.done[0]] = a
    moves.done[0] += 1


@kernel
def end_step(moves: Moves) -> None:
    """What has moved since the last step is one."""
    moves.done[1] += 1
    moves.start[moves.done[1]] = moves.done[0]


@kernel
def move_alone(book: Book, now: Partition, moves: Moves) -> int:
    """Move whatever saves and breaks nothing; what loses least of the others that break nothing, or -1."""
    chosen, most = -1, 0
    for i in range(len(moves.moving)):
        if not moves.pending[i]:
            continue
        effect = weigh(book, now, moves, i)
        if effect.broken > 0:
            continue
        if effect.gain >= 0 or not moves.search:
            step = moves.done[1]
            moves.gain[step], moves.eased[step] = effect.gain, effect.eased
            moves.relieved[step], moves.burdened[step] = effect.relieved, effect.burdened
            move(book, now, moves, i)
            end_step(moves)
        elif chosen < 0 or effect.gain > most:
            chosen, most = i, effect.gain
    return chosen


@kernel
def move_together(book: Book, now: Partition, moves: Moves, chosen: int) -> None:
    """Move one, and what else it takes until nobody is beyond their cap, as one step."""
    step, beyond = moves.done[1], 0
    had = now.connections.copy()
    while moves.done[0] < len(moves.moving):
        i = chosen if chosen >= 0 else choose_next(book, now, moves, beyond > 0)
        effect = weigh(book, now, moves, i)
        move(book, now, moves, i)
        moves.gain[step] += effect.gain
        beyond += effect.broken
        chosen = -1
        if beyond <= 0:
            break
    for t in range(len(had)):  # what all of it together did
        if now.connections[t] < had[t]:
            moves.relieved[step] += now.present[t]
            moves.eased[step] = t if moves.eased[step] < 0 else moves.eased[step]
        elif now.connections[t] > had[t]:
            moves.burdened[step] += now.present[t]
    end_step(moves)


@kernel
def choose_next(book: Book, now: Partition, moves: Moves, beyond: bool) -> int:
    """The move that brings most types back within their cap; where one is beyond, only moves of what it offers."""
    best, least = -1, 0
    worst = -1
    if beyond:
        for t in range(len(moves.cap)):
            if now.present[t] > 0 and now.connections[t] > moves.cap[t]:
                worst = t
                break
    if worst >= 0:
        for j in range(book.start[worst], book.start[worst + 1]):
            i = moves.place[book.offered[j]]
            if i >= 0 and moves.pending[i]:
                broken = weigh(book, now, moves, i).broken
                if best < 0 or broken < least:
                    best, least = i, broken
    if best >= 0:
        return best

    tried = 0
    for i in range(len(moves.pending)):
        if moves.pending[i]:
            tried += 1
            broken = weigh(book, now, moves, i).broken
            if best < 0 or broken < least:
                best, least = i, broken
            if beyond or tried == MANY:
                break
    return best
