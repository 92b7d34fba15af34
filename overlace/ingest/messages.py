"""Rows of one key as one message."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from overlace.arrays.csr import group as by_group
from overlace.arrays.csr import sort_groups, take_groups
from overlace.arrays.hashing import distinct_groups, hash_groups
from overlace.arrays.jit import Bools, Ints, kernel, size
from overlace.ingest.coded import Codes, Events
from overlace.ingest.events import WHOLE
from overlace.ingest.keys import group_keys

ROWWISE = (
    "offset",
    "at",
    "client",
    "topic",
    "attributes",
    "bytes",
    "weight",
    "counts",
    "audience",
    "lines",
    "rows",
    "most",
    "balance",
)


class Messages(NamedTuple):
    """Messages as columns, names as codes; -1 is none."""

    offset: Ints
    at: Ints
    client: Codes
    topic: Codes
    attributes: Codes  # which of the sets of attributes
    bytes: Ints
    weight: Ints
    counts: Bools  # sums already: their bytes are those of all messages together
    audience: Codes  # which of the audiences; -1: not logged
    key: Ints  # (n, 2), or (0, 2) where no message has one
    lines: Ints  # rows of the source that publish it
    rows: Ints  # and those that name its receivers
    most: Ints  # receivers that one of them names, at most
    balance: Ints  # of all its rows: WHOLE, or 0 where nothing is to be proven, if none is missing or too many
    start: Ints  # audiences: members[start[i]:start[i + 1]], sorted
    members: Ints
    sets_start: Ints  # sets of attributes, likewise
    sets: Ints


@kernel(work=size)
def heads_of(start: Ints, order: Ints, at: Ints, client: Codes) -> Ints:
    """The row of each group that speaks for it: one with a client before one without, the least time, the first."""
    head = np.empty(len(start) - 1, dtype=np.int64)
    for g in range(len(start) - 1):
        best = order[start[g]]
        for k in range(start[g] + 1, start[g + 1]):
            i = order[k]
            better = client[i] >= 0 and client[best] < 0
            same = (client[i] >= 0) == (client[best] >= 0)
            if better or (same and at[i] < at[best]):
                best = i
        head[g] = best
    return head


def group_messages(events: Events, rows: Ints, keys: Ints, keyed: Bools) -> tuple[Messages, int]:
    """(messages, extra): rows of one key as one message, and how many rows only repeat others."""
    n = len(rows)
    start, members = events.start, events.receivers.codes.astype(np.int64)
    if n < events.rows:
        start, members = take_groups(start, members, rows)
    at, client = events.at[rows], events.client.codes[rows]

    # rows that publish, and the most receivers that one of them names: what repeats others is counted by these
    publishes = ~events.is_kind("delivery")[rows]
    every = events.lines[rows]
    lines = np.where(publishes, every, 0)
    logged = events.logged[rows]
    sizes = np.diff(start)
    balance = events.balance[rows]
    kept = np.zeros((0, 2), np.int64)
    most = np.where(publishes, np.where(every > 1, np.minimum(sizes, 1), sizes), 0)

    # rows of one key are one message; one row of it speaks for all
    head: Ints | slice = slice(None)
    if keyed[rows].any():
        own = keys[rows]
        group, first = group_keys(np.ascontiguousarray(own[:, 0]), np.ascontiguousarray(own[:, 1]), keyed[rows])
        if len(first) < n:
            bounds, order = by_group(group, len(first))
            head = heads_of(bounds, order, at, client)
            if (np.diff(order) < 0).any():
                start, members = take_groups(start, members, order)
                lines, every, most, balance = (each[order] for each in (lines, every, most, balance))
                logged = logged[order]
            start = start[bounds]
            lines, every, balance = (np.add.reduceat(each, bounds[:-1]) for each in (lines, every, balance))
            most = np.maximum.reduceat(most, bounds[:-1])
            logged = np.logical_or.reduceat(logged, bounds[:-1])
        kept = own[head]
        kept[~keyed[rows][head]] = 0

    start, members = sort_groups(start, members)
    extra = extra_rows(lines, most, logged, np.diff(start)) * (balance == 0)
    audience, audience_start, audience_members = distinct_sets(start, members, logged)
    chosen = rows[head]
    sets_start, sets = take_groups(events.sets_start, events.attribute.codes.astype(np.int64), chosen)
    described = events.described[chosen]
    which, sets_start, sets = distinct_sets(*sort_groups(sets_start, sets), described)
    found = Messages(
        offset=events.offset[chosen],
        at=at[head],
        client=client[head],
        topic=events.topic.codes[chosen],
        attributes=which,
        bytes=events.bytes[chosen],
        weight=events.weight[chosen],
        counts=events.is_kind("counts")[chosen],
        audience=audience,
        key=kept,
        lines=lines,
        rows=every,
        most=most,
        balance=balance,
        start=audience_start,
        members=audience_members,
        sets_start=sets_start,
        sets=sets,
    )
    return found, int(extra.sum())


def extra_rows(lines: Ints, most: Ints, logged: Bools, receivers: Ints) -> Ints:
    """Rows of each message that only repeat others: beyond one a receiver, or beyond one where rows name several."""
    each = np.where(logged & (most <= 1), np.maximum(receivers, 1), 1)
    return np.maximum(lines - each, 0)


def distinct_sets(start: Ints, members: Ints, there: Bools) -> tuple[Codes, Ints, Ints]:
    """(number, start, members): each set once, and which of them each row has; -1 where it has none."""
    chosen = np.flatnonzero(there)
    groups = (start, members) if len(chosen) == len(there) else take_groups(start, members, chosen)
    hashes = hash_groups(*groups)
    number, first, clash = distinct_groups(hashes, *groups)
    if clash >= 0:  # two sets with one hash within a split: tell them apart by what they hold
        listed = [tuple(groups[1][groups[0][i] : groups[0][i + 1]]) for i in range(len(hashes))]
        places: dict[tuple[int, ...], int] = {}
        number = np.array([places.setdefault(each, len(places)) for each in listed])
        first = np.unique(number, return_index=True)[1]
    found = np.full(len(there), -1, np.int32)
    found[chosen] = number
    own_start, own = take_groups(*groups, first)
    return found, own_start, own


def masks_of(sets_start: Ints, sets: Ints, bits: Mapping[int, int] | Ints) -> Ints:
    """Sets of attributes as masks, given the id of each attribute."""
    masks = np.zeros(len(sets_start) - 1, np.int64)
    owner = np.repeat(np.arange(len(masks)), np.diff(sets_start))
    np.bitwise_or.at(masks, owner, np.left_shift(1, np.asarray(bits)[sets]))
    return masks


def take(messages: Messages, rows: Ints) -> Messages:
    """Some of the messages, with all audiences."""
    columns = {name: getattr(messages, name)[rows] for name in ROWWISE}
    return messages._replace(**columns, key=messages.key[rows] if len(messages.key) else messages.key)


def is_incomplete(messages: Messages) -> Bools:
    """Messages of which a row is missing or too many."""
    found: Bools = (messages.balance != 0) & (messages.balance != WHOLE)
    return found


def incomplete_in(messages: Messages) -> int:
    """Rows of messages of which a row is missing or too many."""
    return int(messages.rows[is_incomplete(messages)].sum())


def orphans_in(messages: Messages) -> int:
    """Rows that name receivers of messages that nobody published."""
    return int(messages.rows[(messages.client < 0) & ~is_incomplete(messages)].sum())


def without_orphans(messages: Messages) -> Messages:
    """Only messages that somebody published, and of which no row is missing."""
    kept = (messages.client >= 0) & ~is_incomplete(messages)
    return messages if kept.all() else take(messages, np.flatnonzero(kept))


def compact_audiences(messages: Messages) -> Messages:
    """Only audiences that a message has."""
    used, number = np.unique(messages.audience, return_inverse=True)
    if len(used) - (len(used) > 0 and used[0] < 0) == len(messages.start) - 1:
        return messages
    kept = used[used >= 0].astype(np.int64)
    start, members = take_groups(messages.start, messages.members, kept)
    audience = number - (len(kept) < len(used))
    return messages._replace(audience=audience.astype(np.int32), start=start, members=members)


def concatenate(parts: Sequence[Messages]) -> Messages:
    """Messages of several splits, under ids, one after the other."""
    columns = {name: np.concatenate([getattr(part, name) for part in parts]) for name in (*ROWWISE, "key")}
    for codes, start in (("audience", "start"), ("attributes", "sets_start")):
        at, moved = 0, []
        for part in parts:
            own = getattr(part, codes)
            moved.append(np.where(own < 0, -1, own + at).astype(np.int32))
            at += len(getattr(part, start)) - 1
        columns[codes] = np.concatenate(moved)
    for start, members in (("start", "members"), ("sets_start", "sets")):
        sizes = np.concatenate([np.diff(getattr(part, start)) for part in parts])
        columns[start] = np.append(0, np.cumsum(sizes)).astype(np.int64)
        columns[members] = np.concatenate([getattr(part, members) for part in parts])
    return Messages(**columns)


def audience_sizes(messages: Messages) -> Ints:
    """How many receivers each message has; 0 where they were not logged."""
    return np.append(np.diff(messages.start), 0)[messages.audience]


def receivers_of(messages: Messages, order: Ints) -> tuple[Ints, Ints]:
    """(start, members): the receivers of messages, in some order, none where they were not logged."""
    audiences = len(messages.start) - 1
    start = np.append(messages.start, messages.start[-1])  # one more, empty, for those
    which = np.where(messages.audience[order] < 0, audiences, messages.audience[order]).astype(np.int64)
    return take_groups(start, messages.members, which)
