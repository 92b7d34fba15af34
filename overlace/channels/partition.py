"""The combinations that publishers offer, cut into channels: what every strategy reads and changes.

PART10 §3. `Book` is what does not change while publishers come and go: the combinations by place, the
distinct advertisements (types) and which combination belongs to which. Publishers with equal
advertisements always share all channels (R3), so connections and loads are kept per type, and a
million publishers with ten attributes are a few hundred types. `Partition` is what changes, as arrays
that kernels write in place.

Keeps: each combination is in at most one channel (3.1); a channel's id stays with the larger part of a
split and with the largest channel of a merge (ties: the part with the least combination); a type's
connections are the channels its offer meets (R3), free ones are limit - connections (R5).

Costs: whatever looks at a newcomer's offer is O(2^m); a shift of combinations between channels is
O(2^m) for each type that offers one of them. Memory is proportional to the offered combinations.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from overlace.arrays.csr import group
from overlace.arrays.hashing import mix
from overlace.arrays.jit import Ints, kernel
from overlace.arrays.masks import bits, bits_of, submasks_of
from overlace.channels.cost import advertisement_types
from overlace.errors import BadObservation, NotObserved
from overlace.model import Observation, name_of

MOST_LISTED = 1 << 27
"""Combinations of all types together that are listed: a gigabyte of them, and as much again for the way back."""

CHANNELS, SPARE, STAMP, DRAWS, VERSION, CHANGED, RETUNED, BORN = range(8)
"""Places in `Partition.counts`: channels in use, places to give out, marks, draws, changes so far, channels changed,
subscribers that had to tune in elsewhere, ids given out."""


class Book(NamedTuple):
    """What is fixed: combinations, types (distinct advertisements) and kinds (a type with a limit)."""

    combination: Ints  # ascending: offered, requested or held by an observed channel
    weight: Ints  # subscribers of each combination
    attributes: Ints  # of each type, ascending
    start: Ints  # offered[start[t]:start[t + 1]]: places of the combinations that type t offers, ascending
    offered: Ints
    by_start: Ints  # by_type[by_start[a]:by_start[a + 1]]: the types that offer the combination at place a
    by_type: Ints
    kind_start: Ints  # kinds of each type, the least limit first
    kind_type: Ints
    kind_limit: Ints


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
    counts: Ints  # see CHANNELS and the others


def book_of(observation: Observation) -> tuple[Book, Ints]:
    """The book of an observation, and the kind of each row of its offers. Refuses what cannot be planned."""
    offers = observation.offers
    if len(offers.publisher) == 0:
        raise NotObserved("channels: no offers were observed. Ingest the table advertisements.")
    attributes, _ = advertisement_types(offers)  # refuses empty and over-long advertisements
    none = np.flatnonzero(offers.connections < 1)
    if len(none):
        row = int(none[0])
        who = name_of("client", int(offers.publisher[row]))
        raise BadObservation(
            f"offers: the connection limit of {who} (row {row}) is {offers.connections[row]}; expected 1 or more, "
            "since a publisher without a channel reaches nobody"
        )
    negative = np.flatnonzero(offers.messages < 0)
    if len(negative):
        row = int(negative[0])
        who = name_of("client", int(offers.publisher[row]))
        raise BadObservation(f"offers: {who} (row {row}) publishes {offers.messages[row]} messages; expected 0 or more")
    sizes = bits_of(attributes)
    total = int((2.0**sizes - 1).sum())
    if total > MOST_LISTED:
        worst = int(sizes.argmax())
        row = int(np.flatnonzero(offers.attributes == attributes[worst])[0])
        who = name_of("client", int(offers.publisher[row]))
        raise BadObservation(
            f"offers: {len(attributes):,} different advertisements offer {total:,} combinations together, more than "
            f"the {MOST_LISTED:,} that are listed; the largest is {who}'s (row {row}) with {sizes[worst]} attributes"
        )
    all_offered = submasks_of(attributes)
    held, wanted = observation.overlay.channels[:, 0], observation.requests.attributes
    combination = np.unique(np.concatenate([all_offered, held, wanted]))
    if len(wanted):
        weight = np.bincount(np.searchsorted(combination, wanted), minlength=len(combination))
    else:
        weight = np.zeros(len(combination), dtype=np.int64)
        weight[np.searchsorted(combination, all_offered)] = 1
    start, offered = offered_places(attributes, combination)
    owner = np.repeat(np.arange(len(attributes)), np.diff(start))
    by_start, order = group(offered, len(combination))
    kind_of, kind_type, kind_limit = _kinds(attributes, offers.attributes, offers.connections)
    kind_start = np.searchsorted(kind_type, np.arange(len(attributes) + 1))
    book = Book(
        combination, weight.astype(np.int64), attributes, start, offered, by_start, owner[order],
        kind_start.astype(np.int64), kind_type, kind_limit,
    )  # fmt: skip
    return book, kind_of


def _kinds(attributes: Ints, masks: Ints, limits: Ints) -> tuple[Ints, Ints, Ints]:
    """(kind of each row, type of each kind, limit of each kind), sorted by type and limit."""
    known, limit_at = np.unique(limits, return_inverse=True)
    key = np.searchsorted(attributes, masks) * len(known) + limit_at
    kinds, at = np.unique(key, return_inverse=True)
    return at.astype(np.int64), (kinds // len(known)).astype(np.int64), known[kinds % len(known)]


@kernel
def offered_places(attributes: Ints, combination: Ints) -> tuple[Ints, Ints]:
    """(start, places): where the non-empty sub-masks of each mask stand among the ascending combinations."""
    start = np.zeros(len(attributes) + 1, dtype=np.int64)
    for t in range(len(attributes)):
        start[t + 1] = start[t] + (1 << bits(attributes[t])) - 1
    places = np.empty(start[-1], dtype=np.int64)
    for t in range(len(attributes)):
        sub = attributes[t]
        for i in range(start[t + 1] - 1, start[t] - 1, -1):
            places[i] = np.searchsorted(combination, sub)
            sub = (sub - 1) & attributes[t]
    return start, places


def empty_partition(book: Book, seed: int = 0, channels: int = 0) -> Partition:
    """Nobody has joined and there is no channel; draws follow the seed. Room for a channel per combination, or more."""
    combinations, types, kinds = len(book.combination), len(book.attributes), len(book.kind_type)
    longest = int(np.diff(book.start).max(initial=0))
    channels = max(channels, combinations)

    def zeros(size: int, value: int = 0) -> Ints:
        return np.full(size, value, dtype=np.int64)

    count = zeros(8)
    count[SPARE] = channels
    with np.errstate(over="ignore"):  # hashes wrap around; only uncompiled kernels tell
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
        moved=zeros(combinations), counts=count,
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
    now.counts[DRAWS] += 1
    return int(np.int64(mix(np.uint64(now.counts[DRAWS])) % np.uint64(below)))


@kernel
def arrange(now: Partition, found: int, shuffled: bool, ties: int) -> None:
    """Bring the met channels into the order of visit: random, or largest first.

    Of equally large ones the lower id comes first (ties 1), or they stay as they are (ties 0).
    """
    met, size, born = now.met, now.size, now.born
    if shuffled:
        for i in range(found - 1, 0, -1):
            k = draw(now, i + 1)
            met[i], met[k] = met[k], met[i]
        return
    for i in range(1, found):
        c = met[i]
        k = i
        while k > 0:
            d = met[k - 1]
            if size[c] < size[d] or (size[c] == size[d] and (ties == 0 or born[c] > born[d])):
                break
            met[k] = d
            k -= 1
        met[k] = c


# --- changing channels -------------------------------------------------------------------------------


@kernel
def put(book: Book, now: Partition, a: int, c: int) -> None:
    """Move one combination to channel c (-1: to none); loads of types are not looked at."""
    old = now.channel[a]
    if old >= 0:
        before, behind = now.preceding[a], now.following[a]
        if before >= 0:
            now.following[before] = behind
        else:
            now.head[old] = behind
        if behind >= 0:
            now.preceding[behind] = before
        now.size[old] -= 1
        now.subscribers[old] -= book.weight[a]
        now.tight_in[old] -= now.tight_on[a]
        if now.size[old] == 0:
            now.spare[now.counts[SPARE]] = old
            now.counts[SPARE] += 1
            now.counts[CHANNELS] -= 1
    now.channel[a] = c
    if c >= 0:
        if now.size[c] == 0:
            now.counts[CHANNELS] += 1
        now.preceding[a] = -1
        now.following[a] = now.head[c]
        if now.head[c] >= 0:
            now.preceding[now.head[c]] = a
        now.head[c] = a
        now.size[c] += 1
        now.subscribers[c] += book.weight[a]
        now.tight_in[c] += now.tight_on[a]
    now.counts[VERSION] += 1


@kernel
def fresh(now: Partition) -> int:
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
def shift(book: Book, now: Partition, k: int, target: int, tracked: bool) -> None:
    """Move the first k combinations of `moved`, all of one channel, to another; connections follow (R3).

    Where nobody's connections are asked for (strategies 1 and 2) they are not tracked.
    """
    source = now.channel[now.moved[0]]
    listed = 0
    if tracked:
        for m in range(k):
            now.moving[now.moved[m]] = 1
        now.counts[STAMP] += 1
        for m in range(k):
            a = now.moved[m]
            for i in range(book.by_start[a], book.by_start[a + 1]):
                t = book.by_type[i]
                if now.present[t] == 0 or now.touched[t] == now.counts[STAMP]:
                    continue
                now.touched[t] = now.counts[STAMP]
                stays = there = False
                for j in range(book.start[t], book.start[t + 1]):
                    b = book.offered[j]
                    if now.channel[b] == target:
                        there = True
                    elif now.channel[b] == source and now.moving[b] == 0:
                        stays = True
                if not there:
                    now.connections[t] += 1
                    now.rate[target] += now.messages[t]
                if not stays:
                    now.connections[t] -= 1
                    now.rate[source] -= now.messages[t]
                if there != stays:
                    now.listed[listed] = t
                    listed += 1
    for m in range(k):
        now.moving[now.moved[m]] = 0
        now.counts[RETUNED] += book.weight[now.moved[m]]
        put(book, now, now.moved[m], target)
    for i in range(listed):
        retighten(book, now, now.listed[i])


@kernel
def split(book: Book, now: Partition, k: int, tracked: bool) -> None:
    """Part the first k combinations of `moved` from the rest of their channel; the larger part keeps the id."""
    c = now.channel[now.moved[0]]
    now.counts[CHANGED] += 1
    rest = now.size[c] - k
    take_rest = rest < k
    if rest == k:  # a tie: the part with the least combination keeps the id
        least = now.moved[0]
        for m in range(k):
            least = min(least, now.moved[m])
        a = now.head[c]
        lowest = a
        while a >= 0:
            lowest = min(lowest, a)
            a = now.following[a]
        take_rest = lowest == least
    if take_rest:
        for m in range(k):
            now.moving[now.moved[m]] = 1
        old, k, a = k, 0, now.head[c]
        first = now.moved[:old].copy()
        while a >= 0:
            if now.moving[a] == 0:
                now.moved[k] = a
                k += 1
            a = now.following[a]
        for m in range(old):
            now.moving[first[m]] = 0
    shift(book, now, k, fresh(now), tracked)


@kernel
def take_shared(book: Book, now: Partition, t: int, c: int, loose: bool) -> int:
    """Put the combinations that type t offers in channel c into `moved`; loose: only where nobody is tight."""
    k = 0
    for i in range(book.start[t], book.start[t + 1]):
        a = book.offered[i]
        if now.channel[a] == c and (not loose or now.tight_on[a] == 0):
            now.moved[k] = a
            k += 1
    return k


@kernel
def merge(book: Book, now: Partition, first: int, last: int, tracked: bool) -> int:
    """Make one channel of the channels met[first:last]; the largest keeps its id (ties: least combination)."""
    best, best_least = now.met[first], -1
    for i in range(first, last):
        c = now.met[i]
        if now.size[c] < now.size[best]:
            continue
        least = now.head[c]
        a = now.head[c]
        while a >= 0:
            least = min(least, a)
            a = now.following[a]
        if now.size[c] > now.size[best] or best_least < 0 or least < best_least:
            best, best_least = c, least
    now.counts[CHANGED] += last - first if last - first > 1 else 0
    for i in range(first, last):
        if now.met[i] == best:
            continue
        k, a = 0, now.head[now.met[i]]
        while a >= 0:
            now.moved[k] = a
            k += 1
            a = now.following[a]
        shift(book, now, k, best, tracked)
    return int(best)


@kernel
def gather(book: Book, now: Partition, t: int, first: int, last: int, tracked: bool) -> None:
    """A channel of what type t offers and no channel holds yet, with the channels met[first:last] merged into it."""
    target = merge(book, now, first, last, tracked) if last > first else -1
    for i in range(book.start[t], book.start[t + 1]):
        a = book.offered[i]
        if now.channel[a] < 0:
            if target < 0:
                target = fresh(now)
            put(book, now, a, target)  # offered for the first time, so it changes nobody's connections


@kernel
def unassigned(book: Book, now: Partition, t: int) -> bool:
    """Whether type t offers something that no channel holds."""
    found = False
    for i in range(book.start[t], book.start[t + 1]):
        found = found or now.channel[book.offered[i]] < 0
    return found


# --- coming and going --------------------------------------------------------------------------------


@kernel
def arrive(book: Book, now: Partition, kind: int, messages: int, tracked: bool) -> None:
    """Count a publisher in, once all it offers is in channels."""
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
