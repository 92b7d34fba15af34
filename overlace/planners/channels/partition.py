"""The combinations that publishers offer, cut into channels: what every strategy reads and changes.

PART10 §3. `Partition` is what changes while publishers come and go, as arrays that kernels write in place;
connections and loads are kept per type of the book. How channels are split and merged is in `changes`.

Keeps: each combination is in at most one channel (3.1); a type's connections are the channels its offer
meets (R3), free ones are limit - connections (R5).

Costs: whatever looks at a newcomer's offer is O(2^m). Memory is proportional to the different
combinations, offered or requested: some 200 bytes each with those of the book.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from overlace.arrays.draws import draw_counted
from overlace.arrays.hashing import mix
from overlace.arrays.jit import Ints, kernel
from overlace.arrays.lists import put_in, take_out
from overlace.model import UNLIMITED, Observation
from overlace.planners.channels.book import Book

CHANNELS, SPARE, STAMP, DRAWS, VERSION, CHANGED, RETUNED, BORN, HELD, BEFORE = range(10)
"""Places in `Partition.counts`: channels in use, places to give out, marks, draws, changes so far, channels changed,
subscribers that had to tune in elsewhere, ids given out, combinations in channels, changes before the last join."""


class Partition(NamedTuple):
    """What changes. Arrays are by combination, channel, kind or type."""

    channel: Ints  # of each combination; -1: none
    following: Ints  # the combinations of a channel are a list in both directions
    preceding: Ints
    offering: Ints  # present types that offer the combination
    tight_on: Ints  # of them, those with no connection to spare
    moving: Ints  # marks of the combinations that a shift takes along
    head: Ints  # of each channel, its first combination
    size: Ints
    subscribers: Ints
    rate: Ints  # messages published in the channel
    tight_in: Ints  # the sum of tight_on over the channel
    shared: Ints  # combinations of the newcomer in the channel
    seen: Ints  # marks
    born: Ints  # the channel's id: places are used again, ids are not
    spare: Ints  # places to give out, a stack
    reached: Ints  # channels that a survey looks at
    common: Ints  # messages that a survey finds published in the channel already
    agreed: Ints  # types without a connection to spare that are in the channel already
    freed: Ints  # types without a connection to spare that would have one
    met: Ints  # channels that the newcomer meets, in order of visit
    joined: Ints  # publishers of each kind
    quiet: Ints  # of each kind, the version in which its last join changed nothing
    present: Ints  # publishers of each type
    messages: Ints
    limit: Ints  # the least among those present
    connections: Ints
    tight: Ints  # 1: no connection to spare
    touched: Ints  # marks
    listed: Ints  # types that a shift looks at
    moved: Ints  # combinations that a shift takes along
    held: Ints  # the combinations that are in channels, in no order that matters
    held_at: Ints  # of each of these, where it stands there
    counts: Ints  # see CHANNELS and the others


def empty_partition(book: Book, seed: int = 0, channels: int = 0) -> Partition:
    """Nobody has joined and there is no channel; draws follow the seed. Room for a channel per combination, or more."""
    combinations, types, kinds = len(book.combination), len(book.attributes), len(book.kind_type)
    longest = int(np.diff(book.start).max(initial=0))
    channels = max(channels, combinations)

    def zeros(size: int, value: int = 0) -> Ints:
        return np.full(size, value, dtype=np.int64)

    count = zeros(10)
    count[SPARE] = channels
    count[DRAWS] = np.int64(np.uint64(mix(np.uint64(seed))) >> np.uint64(1))
    return Partition(
        channel=zeros(combinations, -1), following=zeros(combinations, -1), preceding=zeros(combinations, -1),
        offering=zeros(combinations), tight_on=zeros(combinations), moving=zeros(combinations),
        head=zeros(channels, -1), size=zeros(channels), subscribers=zeros(channels), rate=zeros(channels),
        tight_in=zeros(channels), shared=zeros(channels), seen=zeros(channels), born=zeros(channels),
        spare=np.arange(channels)[::-1].copy(), reached=zeros(channels), common=zeros(channels),
        agreed=zeros(channels), freed=zeros(channels), met=zeros(longest), joined=zeros(kinds),
        quiet=zeros(kinds, -1), present=zeros(types), messages=zeros(types), limit=zeros(types),
        connections=zeros(types), tight=zeros(types), touched=zeros(types), listed=zeros(types),
        moved=zeros(combinations), held=zeros(combinations), held_at=zeros(combinations), counts=count,
    )  # fmt: skip


# --- what a newcomer meets ---------------------------------------------------------------------------


@kernel
def meet(book: Book, now: Partition, t: int) -> int:
    """Find the channels that hold an offered combination of type t, by their least such combination.

    They are put into `met`, the number of common combinations into `shared`; returns how many they are.
    """
    now.counts[STAMP] += 1
    stamp, found = now.counts[STAMP], 0
    for i in range(book.start[t], book.start[t + 1]):
        c = now.channel[book.offered[i]]
        if c < 0:
            continue
        if now.seen[c] != stamp:
            now.seen[c] = stamp
            now.shared[c] = 0
            now.met[found] = c
            found += 1
        now.shared[c] += 1
    return found


@kernel
def draw(now: Partition, below: int) -> int:
    """A uniform draw from 0 to below - 1."""
    return draw_counted(now.counts, DRAWS, below)


@kernel
def put(book: Book, now: Partition, a: int, c: int) -> None:
    """Move one combination to channel c (-1: to none); loads of types are not looked at."""
    old = now.channel[a]
    if old >= 0:
        take_out(now.head, now.following, now.preceding, old, a)
        now.size[old] -= 1
        now.subscribers[old] -= book.weight[a]
        now.tight_in[old] -= now.tight_on[a]
        if now.size[old] == 0:
            now.spare[now.counts[SPARE]] = old
            now.counts[SPARE] += 1
            now.counts[CHANNELS] -= 1
        if c < 0:
            now.counts[HELD] -= 1
            last = now.held[now.counts[HELD]]
            now.held[now.held_at[a]], now.held_at[last] = last, now.held_at[a]
    elif c >= 0:
        now.held[now.counts[HELD]], now.held_at[a] = a, now.counts[HELD]
        now.counts[HELD] += 1
    now.channel[a] = c
    if c >= 0:
        if now.size[c] == 0:
            now.counts[CHANNELS] += 1
        put_in(now.head, now.following, now.preceding, c, a)
        now.size[c] += 1
        now.subscribers[c] += book.weight[a]
        now.tight_in[c] += now.tight_on[a]
    now.counts[VERSION] += 1


@kernel
def new_channel(now: Partition) -> int:
    """A place for a new channel; it must be filled before the next one is asked for."""
    now.counts[SPARE] -= 1
    c = int(now.spare[now.counts[SPARE]])
    now.born[c] = now.counts[BORN]
    now.counts[BORN] += 1
    return c


@kernel
def retighten(book: Book, now: Partition, t: int) -> None:
    """Note whether type t has a connection to spare, and tell its combinations and channels if that has changed."""
    tight = 1 if now.present[t] > 0 and now.limit[t] <= now.connections[t] else 0
    by = tight - now.tight[t]
    if by == 0:
        return
    now.tight[t] = tight
    now.counts[VERSION] += 1
    for i in range(book.start[t], book.start[t + 1]):
        a = book.offered[i]
        now.tight_on[a] += by
        if now.channel[a] >= 0:
            now.tight_in[now.channel[a]] += by


@kernel
def has_changed(now: Partition, kind: int) -> bool:
    """Whether anything has changed since a publisher of this kind joined and that changed nothing."""
    now.counts[BEFORE] = now.counts[VERSION]
    return bool(now.quiet[kind] != now.counts[VERSION])


@kernel
def arrive(book: Book, now: Partition, kind: int, messages: int, tracked: bool) -> None:
    """Count a publisher in, once all it offers is in channels; `has_changed` was asked before."""
    t = book.kind_type[kind]
    now.joined[kind] += 1
    now.present[t] += 1
    now.messages[t] += messages
    if now.present[t] == 1:
        now.limit[t] = book.kind_limit[kind]
        now.counts[VERSION] += 1
        for i in range(book.start[t], book.start[t + 1]):
            now.offering[book.offered[i]] += 1
    now.limit[t] = min(now.limit[t], book.kind_limit[kind])
    if tracked:
        found = meet(book, now, t)
        now.connections[t] = found
        for i in range(found):
            now.rate[now.met[i]] += messages
        retighten(book, now, t)
    if now.counts[VERSION] == now.counts[BEFORE]:
        now.quiet[kind] = now.counts[VERSION]


@kernel
def leave(book: Book, now: Partition, kind: int, messages: int, tracked: bool) -> None:
    """Count a publisher out. Combinations that nobody offers any more leave their channels; nobody else moves.

    PART10 says nothing of leaving; what is freed serves those who join later.
    """
    t = book.kind_type[kind]
    found = meet(book, now, t)
    if tracked:
        for i in range(found):
            now.rate[now.met[i]] -= messages
    now.joined[kind] -= 1
    now.present[t] -= 1
    now.messages[t] -= messages
    if now.present[t] > 0:
        for k in range(book.kind_start[t + 1] - 1, book.kind_start[t] - 1, -1):
            if now.joined[k] > 0:
                now.limit[t] = book.kind_limit[k]
        if tracked:
            retighten(book, now, t)
        return
    now.connections[t] = 0
    now.counts[VERSION] += 1
    retighten(book, now, t)
    for i in range(book.start[t], book.start[t + 1]):
        a = book.offered[i]
        now.offering[a] -= 1
        if now.offering[a] == 0:
            put(book, now, a, -1)


# --- everybody at once ------------------------------------------------------------------------------


def partition_of(observation: Observation, book: Book, channel: Ints, channels: int = 0, seed: int = 0) -> Partition:
    """The partition with all publishers present and each combination in the given channel (dense ids, -1 none)."""
    now = empty_partition(book, seed, channels)
    offers = observation.offers
    t = np.searchsorted(book.attributes, offers.attributes)
    now.present[:] = np.bincount(t, minlength=len(book.attributes))
    np.add.at(now.messages, t, offers.messages)
    now.limit[:] = UNLIMITED
    np.minimum.at(now.limit, t, offers.connections)
    return _filled(book, now, channel)


def recut(book: Book, now: Partition, channel: Ints) -> Partition:
    """Those present in a partition, with each combination in another channel (dense ids, -1 none)."""
    other = empty_partition(book)
    for name in ("present", "messages", "limit"):
        getattr(other, name)[:] = getattr(now, name)
    return _filled(book, other, channel)


def _filled(book: Book, now: Partition, channel: Ints) -> Partition:
    """Put everything where it belongs in an empty partition whose publishers are known."""
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
        found = meet(book, now, t) if now.present[t] > 0 else 0
        now.connections[t] = found
        for i in range(found):
            now.rate[now.met[i]] += now.messages[t]
