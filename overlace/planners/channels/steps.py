"""From the channels as they are to the channels that are wanted: which combinations move, in which order.

A step moves one combination, or several at once where no single move keeps everybody within their limit
(or within the connections they had, if those were more). Where no channels are there yet, one step builds
them all. Every combination moves once, straight to where it ends up.

Keeps: (3.1) after every step; for planners that respect limits, no limit that held before is broken on
the way. Moves that save traffic come first where that can be; gains are exact, since traffic is whole
messages. Combinations that no channel holds count as one channel of traffic, as in `cost`, but nobody needs
a connection for it (R3).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from overlace.arrays.jit import Bools, Floats, Ints, Pairs, kernel
from overlace.model import UNLIMITED, Changes, Observation, Plan, Planner, Progress, Steps
from overlace.planners.channels.book import Book
from overlace.planners.channels.changes import shift
from overlace.planners.channels.partition import BORN, SPARE, STAMP, Partition, empty_partition, meet, put
from overlace.planners.ordering import carry_out

REASONS: tuple[str, ...] = (
    "builds {channels} channels for {combinations} combinations: {saved:,} messages fewer are received",
    "{combination} goes to {to_channel}: {saved:,} messages fewer are received; {burdened} publishers need a "
    "connection more",
    "{combination} goes to {to_channel}: {saved:,} messages fewer are received, and {relieved} publishers, "
    "{first_client} among them, need a connection less ({burdened} one more)",
    "{combination} goes to {to_channel}: relieves {relieved} publishers, {first_client} among them, of a connection "
    "({burdened} need one more) for {added:,} messages more",
    "{combination} goes to {to_channel}, where it is wanted for later steps: {added:,} messages more are received",
    "{combinations} combinations, {combination} among them, change channels at once, so that no limit is broken on the "
    "way: {relieved} publishers need fewer connections, {burdened} more; {saved:,} messages fewer, {added:,} more",
    "nobody offers {combination} any more: {saved:,} messages fewer are received",
)
BUILD, SAVE, SAVE_AND_RELIEVE, RELIEVE, ADD, TOGETHER, GONE = range(7)
MANY = 1_000  # combinations up to which the best move is looked for among all


def plan_to(
    planner: Planner,
    observation: Observation,
    seed: int,
    book: Book,
    channel: Ints,
    progress: Progress | None = None,
    *,
    limited: bool,
) -> Plan:
    """The plan that leads to the given channel of each combination of the book (-1: none)."""
    before = observation.overlay
    old = np.full(len(book.combination), -1, dtype=np.int64)
    old[np.searchsorted(book.combination, before.channels[:, 0])] = before.channels[:, 1]
    new = kept_ids(channel, old)
    if len(before.channels) == 0:
        return _build(planner, observation, seed, book, new)
    moving = np.flatnonzero(old != new)
    if len(moving) == 0:
        return Plan(planner, seed, before, before, Changes(), Steps())
    order, start, gain, relieved, burdened, eased = _ordered(observation, book, old, new, moving, limited)
    if progress:
        progress(1.0, f"{len(start) - 1:,} steps")
    rows = _rows(book, old, new, order)
    kept = rows[:, 2] >= 0
    facet = np.full(int(kept.sum()), 2)
    changes = Changes(facet, rows[kept, 0], rows[kept, 1], rows[kept, 2])
    bounds = np.concatenate([[0], np.cumsum(kept)])[2 * start]
    first, several = order[start[:-1]], np.diff(start)
    reason = np.where(gain >= 0, np.where(relieved > 0, SAVE_AND_RELIEVE, SAVE), np.where(relieved > 0, RELIEVE, ADD))
    _, at = np.unique(observation.offers.attributes, return_index=True)  # the first publisher of each type
    reason[new[first] < 0] = GONE
    reason[several > 1] = TOGETHER
    args = {
        "channels": np.zeros(len(gain), dtype=np.int64), "combinations": several,
        "combination": book.combination[first], "to_channel": new[first],
        "saved": np.maximum(gain, 0).astype(np.int64), "added": np.maximum(-gain, 0).astype(np.int64),
        "relieved": relieved, "burdened": burdened,
        "first_client": observation.offers.publisher[at[np.maximum(eased, 0)]],
    }  # fmt: skip
    return Plan(planner, seed, before, before.apply(changes), changes, Steps(bounds, gain, reason, args))


def _rows(book: Book, old: Ints, new: Ints, order: Ints) -> Pairs:
    """(action, combination, channel): each combination's removal, then its addition."""
    rows = np.empty((2 * len(order), 3), dtype=np.int64)
    rows[0::2, 0], rows[1::2, 0] = -1, 1
    rows[:, 1] = np.repeat(book.combination[order], 2)
    rows[0::2, 2], rows[1::2, 2] = old[order], new[order]
    return rows


def _build(planner: Planner, observation: Observation, seed: int, book: Book, new: Ints) -> Plan:
    """All channels in one step, where there are none yet."""
    before, held = observation.overlay, np.flatnonzero(new >= 0)
    changes = Changes.of("channels", 1, np.column_stack([book.combination[held], new[held]]))
    after = before.apply(changes)
    gain = planner.cost(observation, before) - planner.cost(observation, after)
    zero = np.zeros(1, dtype=np.int64)
    args = {
        "channels": np.array([len(np.unique(new[held]))]), "combinations": np.array([len(held)]),
        "combination": book.combination[held[:1]], "to_channel": new[held[:1]],
        "saved": np.array([max(0, int(gain))]), "added": np.array([max(0, int(-gain))]),
        "relieved": zero, "burdened": zero, "first_client": zero,
    }  # fmt: skip
    return Plan(planner, seed, before, after, changes, Steps([0, len(held)], [gain], [BUILD], args))


def kept_ids(channel: Ints, old: Ints) -> Ints:
    """Channels under the ids they had: each id goes to the channel that holds most of its combinations.

    Ties go to the part with the least combination. Other channels get the ids after those in use, in
    order of their least combination.
    """
    held = np.flatnonzero(channel >= 0)
    label, at = np.unique(channel[held], return_inverse=True)
    least = np.full(len(label), len(channel))
    np.minimum.at(least, at, held)
    both = old[held] >= 0
    ids, place = np.unique(old[held][both], return_inverse=True)
    pairs, first, common = np.unique(at[both] * len(ids) + place, return_index=True, return_counts=True)
    found = held[both][first]  # the least combination that the two have in common
    order = np.lexsort((found, -common))
    names = assign(pairs[order] // max(len(ids), 1), pairs[order] % max(len(ids), 1), ids, len(label))
    others = np.flatnonzero(names < 0)
    others = others[np.argsort(least[others], kind="stable")]
    names[others] = int(old.max(initial=-1)) + 1 + np.arange(len(others))
    new = np.full(len(channel), -1, dtype=np.int64)
    new[held] = names[at]
    return new


@kernel
def assign(part: Ints, place: Ints, ids: Ints, parts: int) -> Ints:
    """Give ids to parts in the order of the rows, each id once and one id per part; -1 for parts without."""
    names = np.full(parts, -1, dtype=np.int64)
    used = np.zeros(len(ids), dtype=np.bool_)
    for i in range(len(part)):
        if names[part[i]] < 0 and not used[place[i]]:
            names[part[i]] = ids[place[i]]
            used[place[i]] = True
    return names


def everybody(observation: Observation, book: Book, channel: Ints, channels: int = 0, seed: int = 0) -> Partition:
    """The partition with all publishers present and each combination in the given channel (dense ids, -1 none)."""
    now = empty_partition(book, seed, channels)
    offers = observation.offers
    t = np.searchsorted(book.attributes, offers.attributes)
    now.present[:] = np.bincount(t, minlength=len(book.attributes))
    np.add.at(now.messages, t, offers.messages)
    now.limit[:] = UNLIMITED
    np.minimum.at(now.limit, t, offers.connections)
    settle(book, now, channel)
    free = np.flatnonzero(now.size == 0)[::-1]
    now.spare[: len(free)] = free
    now.born[:] = np.arange(len(now.size))
    now.counts[SPARE], now.counts[BORN] = len(free), len(now.size)
    return now


@kernel
def settle(book: Book, now: Partition, channel: Ints) -> None:
    """Put every combination where it belongs and count what types and channels have of it."""
    for a in range(len(channel)):
        put(book, now, a, channel[a])
    for t in range(len(book.attributes)):
        found = meet(book, now, t)
        now.connections[t] = found
        for i in range(found):
            now.rate[now.met[i]] += now.messages[t]


def _ordered(
    observation: Observation, book: Book, old: Ints, new: Ints, moving: Ints, limited: bool
) -> tuple[Ints, Ints, Floats, Ints, Ints, Ints]:
    """(order, start, gain, relieved, burdened, eased): the moving combinations by steps."""
    ids, both = np.unique(np.concatenate([old, new]), return_inverse=True)
    source, target = both[: len(old)].copy(), both[len(old) :].copy()  # those in no channel share one
    now = everybody(observation, book, source, len(ids))
    none = 0 if ids[0] < 0 else -1
    connect(book, now, np.arange(len(now.limit)), none)
    cap = np.maximum(now.limit, now.connections) if limited else np.full(len(now.limit), UNLIMITED)
    made = moving_to(now, target, moving, cap, none, search=bool(limited and len(moving) <= MANY))
    carry_out(InOrder(book, now, made))
    steps = int(made.done[1])
    return (
        made.order, made.start[: steps + 1], made.gain[:steps], made.relieved[:steps], made.burdened[:steps],
        made.eased[:steps],
    )  # fmt: skip


@kernel
def connect(book: Book, now: Partition, types: Ints, none: int) -> None:
    """Count the connections of some types anew: the channels they meet, without the place of what is in none."""
    for i in range(len(types)):
        met = meet(book, now, types[i])
        now.connections[types[i]] = met - (1 if none >= 0 and now.seen[none] == now.counts[STAMP] else 0)


@kernel
def go(book: Book, now: Partition, a: int, target: int, none: int) -> None:
    """Carry out the move of one combination."""
    now.moved[0] = a
    shift(book, now, 1, target, True)
    connect(book, now, book.by_type[book.by_start[a] : book.by_start[a + 1]], none)


@kernel
def weigh(book: Book, now: Partition, a: int, target: int, cap: Ints, none: int) -> tuple[int, int, int, int, int]:
    """(gain, relieved, burdened, broken, eased) if combination a went to a channel.

    The traffic saved, the publishers that need a connection less and more, how many more types would be
    beyond their cap, and the first type that needs a connection less (-1: none).
    """
    source = now.channel[a]
    lost = won = relieved = burdened = broken = 0
    eased = -1
    for i in range(book.by_start[a], book.by_start[a + 1]):
        t = book.by_type[i]
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
    return before - after, relieved, burdened, broken, eased


class Moving(NamedTuple):
    """Combinations that wait to move, and those that have moved by steps; changed in place."""

    target: Ints
    moving: Ints
    pending: Bools
    place: Ints  # per combination its place in moving, or -1
    cap: Ints  # per type
    none: int  # where those in no channel are, or -1
    search: bool  # whether what costs waits for what saves
    order: Ints
    start: Ints
    gain: Floats
    relieved: Ints
    burdened: Ints
    eased: Ints
    done: Ints  # combinations, steps


def moving_to(now: Partition, target: Ints, moving: Ints, cap: Ints, none: int, *, search: bool) -> Moving:
    """Nobody has moved yet."""
    n = len(moving)
    place = np.full(len(now.channel), -1)
    place[moving] = np.arange(n)
    relieved, burdened = np.zeros((2, n), dtype=np.int64)
    return Moving(
        target, moving, np.ones(n, dtype=np.bool_), place, cap, none, search, np.empty(n, dtype=np.int64),
        np.zeros(n + 1, dtype=np.int64), np.zeros(n), relieved, burdened, np.full(n, -1), np.zeros(2, dtype=np.int64),
    )  # fmt: skip


class InOrder:
    """The way of all combinations to their channels, for `ordering.carry_out`."""

    def __init__(self, book: Book, now: Partition, moving: Moving) -> None:
        self.book, self.now, self.moving, self.next = book, now, moving, -1

    @property
    def left(self) -> int:
        """Combinations that have not moved yet."""
        return len(self.moving.moving) - int(self.moving.done[0])

    def alone(self) -> bool:
        """Move one by one whatever saves and breaks nothing."""
        before = self.left
        self.next = move_alone(self.book, self.now, self.moving)
        return self.left < before

    def together(self) -> None:
        """Move the one that loses least, and what else it takes until nobody is beyond their cap."""
        move_together(self.book, self.now, self.moving, self.next)


@kernel
def move_alone(book: Book, now: Partition, m: Moving) -> int:
    """Move whatever saves and breaks nothing; what loses least of the others that break nothing, or -1."""
    chosen, most = -1, 0
    for i in range(len(m.moving)):
        if not m.pending[i]:
            continue
        a = m.moving[i]
        saves, less, more, broken, first = weigh(book, now, a, m.target[a], m.cap, m.none)
        if broken > 0:
            continue
        if saves >= 0 or not m.search:
            go(book, now, a, m.target[a], m.none)
            m.pending[i] = False
            done, step = m.done[0], m.done[1]
            m.order[done] = a
            m.gain[step], m.relieved[step], m.burdened[step], m.eased[step] = saves, less, more, first
            m.start[step + 1] = done + 1
            m.done[0], m.done[1] = done + 1, step + 1
        elif chosen < 0 or saves > most:
            chosen, most = i, saves
    return chosen


@kernel
def move_together(book: Book, now: Partition, m: Moving, chosen: int) -> None:
    """Move one, and what else it takes until nobody is beyond their cap, as one step."""
    step, beyond = m.done[1], 0
    had = now.connections.copy()
    while m.done[0] < len(m.moving):
        if chosen < 0:
            chosen = next_together(book, now, m.target, m.place, m.pending, m.moving, m.cap, m.none, beyond)
        a = m.moving[chosen]
        saves, _, _, broken, _ = weigh(book, now, a, m.target[a], m.cap, m.none)
        go(book, now, a, m.target[a], m.none)
        m.pending[chosen] = False
        m.order[m.done[0]] = a
        m.gain[step] += saves
        m.done[0] += 1
        beyond += broken
        chosen = -1
        if beyond <= 0:
            break
    for t in range(len(had)):  # what all of it together did
        if now.connections[t] < had[t]:
            m.relieved[step] += now.present[t]
            m.eased[step] = t if m.eased[step] < 0 else m.eased[step]
        elif now.connections[t] > had[t]:
            m.burdened[step] += now.present[t]
    m.start[step + 1] = m.done[0]
    m.done[1] += 1


@kernel
def next_together(
    book: Book, now: Partition, target: Ints, place: Ints, pending: Bools, moving: Ints, cap: Ints, none: int,
    beyond: int,
) -> int:  # fmt: skip
    """The pending move that brings most types back within their cap; only moves of one that is beyond are tried."""
    worst = -1
    if beyond > 0:
        for t in range(len(cap)):
            if now.present[t] > 0 and now.connections[t] > cap[t]:
                worst = t
                break
    best, least = -1, 0
    if worst >= 0:
        for j in range(book.start[worst], book.start[worst + 1]):
            m = place[book.offered[j]]
            if m >= 0 and pending[m]:
                _, _, _, broken, _ = weigh(book, now, moving[m], target[moving[m]], cap, none)
                if best < 0 or broken < least:
                    best, least = m, broken
    if best < 0:
        tried = 0
        for m in range(len(pending)):
            if pending[m]:
                tried += 1
                _, _, _, broken, _ = weigh(book, now, moving[m], target[moving[m]], cap, none)
                if best < 0 or broken < least:
                    best, least = m, broken
                if beyond > 0 or tried == MANY:
                    break
    return best
