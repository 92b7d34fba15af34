"""Events of a split to messages with codes for names: once, for every source.

In this order, on dictionaries and not on rows: who is one client, which topics are folded, pseudonyms; then the
account of the lines, when each name first came up, who was seen at which broker, and rows of one key
grouped into one message. Codes are the split's own; the driver gives ids.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from overlace.arrays.csr import group as by_group
from overlace.arrays.csr import sort_groups, take_groups
from overlace.arrays.hashing import distinct_groups, hash_groups, mix
from overlace.arrays.jit import Bools, Ints, kernel, size
from overlace.ingest.events import EVENT, NAME, PLAIN
from overlace.ingest.sources import Source
from overlace.matching.topics import collapse, pseudonyms

Codes = NDArray[np.int32]
LATER = np.iinfo(np.int64).max
"""When a name first came up that no row uses."""

KINDS = ("client", "topic", "broker", "attribute")
"""What has names."""

LIFE = ("connect", "disconnect", "subscribe", "unsubscribe", "advertise", "bridge", "link", "follows")
"""Kinds of events that are no messages and tell of sessions, subscriptions or links."""

SIGHTING_US = 3_600_000_000
"""A client is noted at a broker at most once in so long."""


@dataclass(frozen=True)
class Job:
    """What every task of one ingest knows."""

    trace: str
    staging: str  # a folder of the trace
    sources: tuple[Source, ...]
    identity: str = "client"
    keep_topics: bool = False
    key: bytes = field(default=b"", repr=False)  # for pseudonyms; none: names stay as they are
    bucket_us: int = 0
    reduce_only: bool = False
    staged: bool = True  # messages are staged for a second job; else they are reduced at once
    id: str = ""


class Coded(NamedTuple):
    """A column of names: codes into `names`, -1 for none."""

    codes: Codes
    names: pa.Array


class Counted(NamedTuple):
    """What became of the lines of a split: (kind, reason) -> rows, and where a sample of it is."""

    rows: dict[tuple[str, str], int]
    samples: dict[str, tuple[int, str]]  # reason -> (offset, sample) of the first


class Grouped(NamedTuple):
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
    start: Ints  # audiences: members[start[i]:start[i + 1]], sorted
    members: Ints
    sets_start: Ints  # sets of attributes, likewise
    sets: Ints


class Encoded(NamedTuple):
    """What a split gives."""

    messages: Grouped
    names: dict[str, tuple[pa.Array, Ints]]  # by kind: names, and when each first came up
    counted: Counted
    extra: int  # rows that only repeat others
    seen: pa.Table  # client, broker, at_min: codes
    life: pa.Table  # further events, names as text
    first: int  # times of messages; LATER where there is none
    last: int
    folded: int  # topic names that folding saved


# --- columns of names ----------------------------------------------------------------------------------


def unite(chunks: Sequence[pa.Array]) -> Coded:
    """Chunks of a dictionary-encoded column under one dictionary."""
    if not chunks:
        return Coded(np.empty(0, np.int32), pa.array([], pa.string()))
    names = pc.unique(pa.concat_arrays([chunk.dictionary.cast(pa.string()) for chunk in chunks])).drop_null()
    parts = []
    for chunk in chunks:
        to = pc.index_in(chunk.dictionary.cast(pa.string()), value_set=names).fill_null(-1)
        to = np.append(to.to_numpy(zero_copy_only=False), -1).astype(np.int32)
        indices = chunk.indices
        codes = indices.fill_null(len(to) - 1) if indices.null_count else indices
        parts.append(to[codes.to_numpy(zero_copy_only=False)])
    return Coded(np.concatenate(parts), names)


def rename(column: Coded, change: Any) -> Coded:
    """The same column with names changed by a rule; names that become equal are one."""
    changed = change(column.names)
    names = pc.unique(changed).drop_null()
    to = pc.index_in(changed, value_set=names).fill_null(-1).to_numpy(zero_copy_only=False)
    return Coded(np.append(to, -1).astype(np.int32)[column.codes], names)


def decode(column: Coded) -> pa.Array:
    """The names of the codes, null for -1."""
    mask = column.codes < 0
    indices = pa.array(column.codes, mask=mask) if mask.any() else pa.array(column.codes)
    return pa.DictionaryArray.from_arrays(indices, column.names).cast(pa.string())


class Events:
    """The events of a split as columns, names as codes."""

    def __init__(self, batches: Sequence[pa.RecordBatch]) -> None:
        self.batches = batches
        self.rows = sum(batch.num_rows for batch in batches)
        self.offset, self.at, self.bytes = (self._integers(name) for name in ("offset", "at", "bytes"))
        self.weight, self.lines = (self._integers(name, 1) for name in ("weight", "rows"))
        self.kind, self.topic, self.broker = (unite(self._chunks(name)) for name in ("kind", "topic", "broker"))
        lists = self._chunks("receivers")
        both = unite([*self._chunks("client"), *(each.flatten() for each in lists)])
        self.client = Coded(both.codes[: self.rows], both.names)
        self.receivers = Coded(both.codes[self.rows :], both.names)
        self.logged, self.start = self._lists(lists)
        sets = self._chunks("attributes")
        self.attribute = unite([each.flatten() for each in sets])
        self.described, self.sets_start = self._lists(sets)

    def _chunks(self, name: str) -> list[pa.Array]:
        return [batch[name] for batch in self.batches]

    def _integers(self, name: str, default: int = 0) -> Ints:
        parts = []
        for batch in self.batches:
            values = batch[name]
            if values.null_count == len(values):
                parts.append(np.full(len(values), default, np.int64))
                continue
            values = values.cast(pa.int64()) if values.type != pa.int64() else values
            parts.append((values.fill_null(default) if values.null_count else values).to_numpy(zero_copy_only=False))
        return np.concatenate(parts) if parts else np.empty(0, np.int64)

    def _lists(self, lists: Sequence[pa.Array]) -> tuple[Bools, Ints]:
        """(there, start) of lists, one after the other."""
        there = [~np.asarray(each.is_null().to_numpy(zero_copy_only=False), bool) for each in lists]
        sizes = [pc.fill_null(pc.list_value_length(each), 0).to_numpy(zero_copy_only=False) for each in lists]
        start = np.zeros(self.rows + 1, np.int64)
        if sizes:
            np.cumsum(np.concatenate(sizes), out=start[1:])
        return (np.concatenate(there) if there else np.empty(0, bool)), start

    def is_kind(self, *kinds: str) -> Bools:
        """Which rows are of one of these kinds."""
        wanted = np.array([name in kinds for name in self.kind.names.to_pylist()], bool)
        if wanted.all() or not wanted.any():
            return np.full(self.rows, bool(len(wanted) and wanted[0]))
        found: Bools = wanted[self.kind.codes]
        return found

    def keys(self) -> tuple[Ints, Bools]:
        """(words, there): the keys of messages, two words a row."""
        words, there = np.zeros((self.rows, 2), np.int64), np.zeros(self.rows, bool)
        at = 0
        for batch in self.batches:
            column = batch["message"]
            if column.null_count < len(column):
                there[at : at + len(column)] = ~np.asarray(column.is_null().to_numpy(zero_copy_only=False), bool)
                raw = np.frombuffer(column.buffers()[1], np.int64).reshape(-1, 2)
                words[at : at + len(column)] = raw[column.offset : column.offset + len(column)]
            at += len(column)
        return words, there

    def crossing(self) -> Bools:
        """Rows about bridges: a bridge is no client, its ends are joined by its name."""
        flags = self.is_kind("bridge")
        at = 0
        for batch in self.batches:
            reason = batch["reason"]
            if reason.null_count < len(reason):
                about = pc.fill_null(pc.equal(reason, "bridge"), False).to_numpy(zero_copy_only=False)
                flags[at : at + len(reason)] |= about
            at += len(reason)
        return flags

    def table(self, rows: Ints) -> pa.Table:
        """Some rows as a table, as they came."""
        whole = pa.Table.from_batches([batch.select(_TEXT) for batch in self.batches]) if self.batches else None
        return whole.take(pa.array(rows)) if whole is not None else EVENT.empty_table().select(_TEXT)


_TEXT = [each.name for each in EVENT if each.type != NAME and each.type != pa.list_(NAME)]


# --- who, what, where ----------------------------------------------------------------------------------


def encode(batches: Sequence[pa.RecordBatch], job: Job, source: Source) -> Encoded:
    """The events of a split, settled and grouped."""
    events = Events([batch for batch in batches if batch.num_rows])
    counted = count(events.batches)
    broker = source.options.get("broker")
    if broker and not source.form.one_broker:
        filled = np.where(events.broker.codes < 0, len(events.broker.names), events.broker.codes)
        names = pa.concat_arrays([events.broker.names, pa.array([broker], pa.string())])
        events.broker = rename(Coded(filled.astype(np.int32), names), lambda each: each)
    grouping = source.options.get("group") or ()
    keys, keyed = _keys(events, grouping) if grouping else events.keys()
    crossing = events.crossing()
    connection = _identify(events, job, crossing)
    topics = len(events.topic.names)
    if not job.keep_topics:
        events.topic = rename(events.topic, collapse)
    folded = topics - len(events.topic.names)
    if job.key:
        _hide(events, job.key, crossing)
        counted = Counted(counted.rows, {reason: (at, "(hidden)") for reason, (at, _) in counted.samples.items()})
    of_messages = events.is_kind("message", "counts", "delivery")
    life = _life(events, job, of_messages, crossing, connection)
    messages, extra = _group(events, np.flatnonzero(of_messages), keys, keyed)
    names = _names(events, crossing)
    names["broker"] = _with_far_ends(names["broker"], life)
    at = messages.at
    return Encoded(
        messages, names, counted, extra, _seen(events, of_messages, crossing, source),
        life, int(at.min(initial=LATER)), int(at.max(initial=-LATER)), folded,
    )  # fmt: skip


def count(batches: Iterable[pa.RecordBatch]) -> Counted:
    """Rows by kind and reason, and for each reason of bad rows the sample that comes first."""
    rows: dict[tuple[str, str], int] = {}
    samples: dict[str, tuple[int, str]] = {}
    for batch in batches:
        kind, reason, lines = batch["kind"], batch["reason"], batch["rows"]
        if len(kind.dictionary) == 1 and reason.null_count == len(reason):
            name = (kind.dictionary[0].as_py(), "")
            many = len(kind) if lines.null_count == len(lines) else int(pc.sum(pc.fill_null(lines, 1)).as_py())
            rows[name] = rows.get(name, 0) + many
            continue
        table = pa.table({"kind": kind.cast(pa.string()), "reason": reason, "rows": pc.fill_null(lines, 1)})
        for row in table.group_by(["kind", "reason"]).aggregate([("rows", "sum")]).to_pylist():
            told = row["kind"] == "link" and row["reason"]  # all that the line is good for
            name = ("ignored" if told else row["kind"], row["reason"] or "")
            rows[name] = rows.get(name, 0) + row["rows_sum"]
        shown = pa.table({"reason": reason, "sample": batch["sample"], "offset": batch["offset"]})
        shown = shown.filter(shown["sample"].is_valid())
        for row in shown.sort_by("offset").to_pylist():
            if row["reason"] not in samples or row["offset"] < samples[row["reason"]][0]:
                samples[row["reason"]] = (row["offset"], row["sample"])
    return Counted(rows, samples)


def _identify(events: Events, job: Job, crossing: Bools) -> Coded | None:
    """Settle who is one client; the connections that the rows are of, where several may be one client."""
    if job.identity == "client":
        return None
    rows = np.concatenate([np.arange(events.rows), np.repeat(np.arange(events.rows), np.diff(events.start))])
    codes = np.concatenate([events.client.codes, events.receivers.codes])
    before = Coded(codes, events.client.names)
    at_broker = _at_broker(before, events.broker, rows)
    if job.identity == "broker/client":
        found = at_broker
    elif job.identity == "user":
        found = _users(events, before, at_broker, rows)
    else:
        found = rename(before, lambda names: _extracted(names, job.identity))
    kept = np.zeros(len(rows), bool)
    kept[: events.rows] = crossing
    _set_clients(events, _choose(kept, before, found))
    return None if job.identity == "broker/client" else Coded(at_broker.codes[: events.rows], at_broker.names)


def _at_broker(clients: Coded, broker: Coded, rows: Ints) -> Coded:
    """Names of clients that are their own only at the broker of their row."""
    where = broker.codes[rows].astype(np.int64)
    pair = np.where(clients.codes < 0, -1, (where + 1) * len(clients.names) + clients.codes)
    used, codes = np.unique(pair, return_inverse=True)
    at, who = np.divmod(np.maximum(used, 0), max(len(clients.names), 1))
    names = clients.names.take(pa.array(who))
    brokers = broker.names.take(pa.array(at - 1, mask=at < 1))
    joined = pc.if_else(brokers.is_valid(), pc.binary_join_element_wise(brokers, names, "/"), names)
    found = Coded(np.where(clients.codes < 0, -1, codes).astype(np.int32), joined.cast(pa.string()))
    return rename(found, lambda each: each)


def _choose(kept: Bools, left: Coded, right: Coded) -> Coded:
    """Of some rows the names in one column, of the others those in another."""
    codes = np.where(kept, left.codes, np.where(right.codes < 0, -1, right.codes + len(left.names)))
    names = pa.concat_arrays([left.names, right.names])
    return rename(Coded(codes.astype(np.int32), names), lambda each: each)


def _users(events: Events, clients: Coded, otherwise: Coded, rows: Ints) -> Coded:
    """The users that clients were in some rows: as of their last connect, before the first as of that one.

    A client of whom no user is logged stays the client that it is at its broker.
    """
    connects = np.flatnonzero(events.is_kind("connect"))
    user = unite([events.table(connects)["user"].combine_chunks().dictionary_encode()])
    keys = (events.client.codes[connects].astype(np.int64) << 40) | events.offset[connects]
    order = np.argsort(keys, kind="stable")
    keys, whose = keys[order], user.codes[order]
    client = clients.codes.astype(np.int64)
    last = np.searchsorted(keys, (client << 40) | events.offset[rows], side="right") - 1
    owner = np.append(keys >> 40, -2)
    place = np.where(owner[last] == client, last, last + 1)
    codes = np.where(owner[place] == client, np.append(whose, -1)[place], -1).astype(np.int32)
    return _choose(codes >= 0, Coded(codes, user.names), otherwise)


def _extracted(names: pa.Array, pattern: str) -> pa.Array:
    """The part of each name that the pattern names `client`, or the whole name where it does not match."""
    found = pc.extract_regex(names, pattern if "(?P<" in pattern else f"(?P<client>{pattern})")
    part = found.field("client") if found.type.get_field_index("client") >= 0 else found.field(0)
    return pc.if_else(found.is_valid(), part, names)


def _hide(events: Events, key: bytes, crossing: Bools) -> None:
    """Put pseudonyms in the place of names."""
    before = Coded(np.concatenate([events.client.codes, events.receivers.codes]), events.client.names)
    kept = np.append(crossing, np.zeros(len(events.receivers.codes), bool))
    _set_clients(events, _choose(kept, before, rename(before, lambda names: pseudonyms(names, key))))
    events.broker = rename(events.broker, lambda names: pseudonyms(names, key))
    events.topic = rename(events.topic, lambda names: pseudonyms(names, key, "/."))


def _set_clients(events: Events, both: Coded) -> None:
    """Put senders and receivers, one after the other, in their places."""
    events.client = Coded(both.codes[: events.rows], both.names)
    events.receivers = Coded(both.codes[events.rows :], both.names)


def _life(events: Events, job: Job, of_messages: Bools, crossing: Bools, connection: Coded | None) -> pa.Table:
    """Events that are no messages, with names as text, as what follows reads them."""
    rows = _links_once(events, np.flatnonzero(events.is_kind(*LIFE) & ~of_messages))
    table = events.table(rows)
    follows = events.is_kind("follows")[rows]
    told = pc.is_in(table["reason"], pa.array(["bridge", "double"])).to_numpy(zero_copy_only=False)
    use = ~follows | told
    rows, table = rows[use], table.filter(pa.array(use))
    if not job.keep_topics:
        table = _replace(table, "filter", collapse(_flat(table["filter"])))
    key = _flat(table["key"])
    sessions = events.is_kind("connect", "disconnect", "subscribe", "unsubscribe")[rows]
    if connection is not None:
        own = decode(Coded(connection.codes[rows], connection.names))
        key = pc.if_else(pa.array(sessions), own, key)
    if job.key:
        key = pc.if_else(
            pa.array(crossing[rows]), key, pseudonyms(key, job.key)
        )  # that of a send to a bridge is a number
        for name in ("group", "user"):
            table = _replace(table, name, pseudonyms(_flat(table[name]), job.key))
        table = _replace(table, "filter", pseudonyms(_flat(table["filter"]), job.key, "/."))
        table = _replace(table, "sample", pa.nulls(table.num_rows, pa.string()))
    table = _replace(table, "key", key)
    names = {
        each: decode(Coded(column.codes[rows], column.names))
        for each, column in (
            ("kind", events.kind), ("client", events.client), ("broker", events.broker), ("topic", events.topic),
        )
    }  # fmt: skip
    start, codes = take_groups(events.start, events.receivers.codes.astype(np.int64), rows)
    values = decode(Coded(codes.astype(np.int32), events.receivers.names))
    logged = events.logged[rows]
    lists = pa.ListArray.from_arrays(
        pa.array(start.astype(np.int32)), values, mask=None if logged.all() else pa.array(~logged)
    )
    for name, values in {**names, "receivers": lists}.items():
        table = table.append_column(name, values)
    start, codes = take_groups(events.sets_start, events.attribute.codes.astype(np.int64), rows)
    described = events.described[rows]
    sets = pa.ListArray.from_arrays(
        pa.array(start.astype(np.int32)), decode(Coded(codes.astype(np.int32), events.attribute.names)),
        mask=None if described.all() else pa.array(~described),
    )  # fmt: skip
    return table.append_column("attributes", sets).select(PLAIN.names)


def _links_once(events: Events, rows: Ints) -> Ints:
    """Rows without those that only tell a link again: of each link the earliest stays."""
    links = events.is_kind("link")[rows]
    if not links.any():
        return rows
    chosen = rows[links]
    far = pa.concat_arrays([batch["key"] for batch in events.batches]).take(pa.array(chosen)).dictionary_encode()
    both = events.broker.codes[chosen].astype(np.int64) * len(far.dictionary) + far.indices.to_numpy()
    coded = pa.array(both).dictionary_encode()
    codes, at = coded.indices.to_numpy(), events.at[chosen]
    early = np.flatnonzero(at == first_seen(codes, at, np.ones(len(at), bool), len(coded.dictionary))[codes])
    _, once = np.unique(codes[early], return_index=True)
    return np.sort(np.concatenate([rows[~links], chosen[early[once]]]))


def _flat(values: Any) -> pa.Array:
    if isinstance(values, pa.ChunkedArray):
        return pa.concat_arrays(values.chunks) if values.num_chunks else pa.array([], values.type)
    return values


def _replace(table: pa.Table, name: str, values: Any) -> pa.Table:
    at = table.schema.get_field_index(name)
    return table.set_column(at, table.schema.field(at), values)


# --- names and sightings -------------------------------------------------------------------------------


@kernel(work=size)
def first_seen(codes: Codes, at: Ints, used: Bools, names: int) -> Ints:
    """When each code first came up in a row that is used; LATER where it did not."""
    first = np.full(names, LATER, dtype=np.int64)
    for i in range(len(codes)):
        c = codes[i]
        if c >= 0 and used[i] and at[i] < first[c]:
            first[c] = at[i]
    return first


@kernel(work=size)
def first_listed(start: Ints, codes: Codes, at: Ints, used: Bools, names: int) -> Ints:
    """When each code first came up in the list of a row that is used; LATER where it did not."""
    first = np.full(names, LATER, dtype=np.int64)
    for i in range(len(start) - 1):
        if used[i]:
            for k in range(start[i], start[i + 1]):
                c = codes[k]
                if c >= 0 and at[i] < first[c]:
                    first[c] = at[i]
    return first


def _names(events: Events, crossing: Bools) -> dict[str, tuple[pa.Array, Ints]]:
    """Every name that events use, by kind, with when it first came up."""
    used = ~(events.is_kind("bad", "ignored") | (events.is_kind("follows") & ~crossing))
    plain = used & ~events.is_kind("bridge", "follows")
    at, clients = events.at, len(events.client.names)
    by_client = first_seen(events.client.codes, at, plain, clients)
    by_receiver = first_listed(events.start, events.receivers.codes, at, used, clients)
    attributes = events.attribute
    return {
        "client": (events.client.names, np.minimum(by_client, by_receiver)),
        "topic": (events.topic.names, first_seen(events.topic.codes, at, plain, len(events.topic.names))),
        "broker": (events.broker.names, first_seen(events.broker.codes, at, used, len(events.broker.names))),
        "attribute": (
            attributes.names,
            first_listed(events.sets_start, attributes.codes, at, used, len(attributes.names)),
        ),
    }


def _with_far_ends(brokers: tuple[pa.Array, Ints], life: pa.Table) -> tuple[pa.Array, Ints]:
    """Names of brokers, and those that are only known as the far end of a link."""
    links = life.filter(pc.equal(life["kind"], "link"))
    far = pa.concat_arrays([brokers[0], _flat(links["key"])])
    return far, np.concatenate([brokers[1], links["at"].cast(pa.int64()).to_numpy()])


def _seen(events: Events, of_messages: Bools, crossing: Bools, source: Source) -> pa.Table:
    """Who was seen at which broker and when, at most once an hour."""
    kind = {"client": pa.int64(), "broker": pa.int64(), "hour": pa.int64(), "at": pa.int64()}
    if len(events.broker.names) == 0:
        return pa.table({name: pa.array([], each) for name, each in kind.items()}).rename_columns(
            ["client", "broker", "hour", "at_min"]
        )
    senders = np.flatnonzero(of_messages & ~events.is_kind("delivery"))
    parts: list[tuple[Any, Any]] = [(events.client.codes[senders], senders)]
    if source.form.at_home:
        arrived = crossing & events.is_kind("follows") & events.logged
        rows = np.flatnonzero(arrived | (of_messages & ~events.is_kind("counts")))
        start, codes = take_groups(events.start, events.receivers.codes.astype(np.int64), rows)
        parts.append((codes, np.repeat(rows, np.diff(start))))
    who, rows = (np.concatenate(each) for each in zip(*parts, strict=True))
    where, when = events.broker.codes[rows], events.at[rows]
    known = (where >= 0) & (who >= 0)
    seen = pa.table(
        {"client": who[known].astype(np.int64), "broker": where[known].astype(np.int64),
         "hour": when[known] // SIGHTING_US, "at": when[known]}
    )  # fmt: skip
    return seen.group_by(["client", "broker", "hour"]).aggregate([("at", "min")])


# --- messages ------------------------------------------------------------------------------------------


def _keys(events: Events, fields: Sequence[str]) -> tuple[Ints, Bools]:
    """(words, there): keys made of some columns."""
    words = np.empty((events.rows, 2), np.int64)
    columns: list[Ints] = []
    for name in fields:
        if name in ("client", "topic", "broker"):
            column: Coded = getattr(events, name)
            hashes = np.append(_name_hashes(column.names), 0)
            columns.append(hashes[column.codes])
        elif name in ("at", "bytes", "weight"):
            columns.append(getattr(events, name))
        elif name == "key":
            own, _ = events.keys()
            columns += [own[:, 0], own[:, 1]]
        else:
            start, codes = events.start, np.append(_name_hashes(events.receivers.names), 0)[events.receivers.codes]
            columns.append(hash_groups(start, codes))
    for seed in range(2):
        state = np.full(events.rows, seed + 1, np.int64)
        for each in columns:
            fold(state, np.ascontiguousarray(each, np.int64))
        words[:, seed] = state
    return words, np.ones(events.rows, bool)


@kernel(work=size)
def fold(state: Ints, words: Ints) -> None:
    """Fold one column into the running hash of each row, in place."""
    for i in range(len(state)):
        state[i] = np.int64(mix(np.uint64(state[i]) ^ np.uint64(words[i])))


def _name_hashes(names: pa.Array) -> Ints:
    each = [hashlib.blake2b(name.encode(), digest_size=8).digest() for name in names.to_pylist()]
    return np.frombuffer(b"".join(each), dtype=np.int64)


@kernel(work=size)
def group_keys(high: Ints, low: Ints, there: Bools) -> tuple[Ints, Ints]:
    """(group, first): rows of one key are one group, numbered as they come up, a row without a key is its own."""
    n = len(high)
    group = np.empty(n, dtype=np.int64)
    first = np.empty(n, dtype=np.int64)
    size = 1024
    slot = np.full(size, -1, dtype=np.int64)
    groups = 0
    held = 0  # groups with a key
    for i in range(n):
        if i and there[i] and there[i - 1] and high[i] == high[i - 1] and low[i] == low[i - 1]:
            group[i] = group[i - 1]
            continue
        if not there[i]:
            first[groups] = i
            group[i] = groups
            groups += 1
            continue
        if 2 * held >= size:
            size *= 4
            slot = np.full(size, -1, dtype=np.int64)
            for g in range(groups):
                if there[first[g]]:
                    at = np.int64(mix(np.uint64(high[first[g]])) & np.uint64(size - 1))
                    while slot[at] >= 0:
                        at = (at + 1) & (size - 1)
                    slot[at] = g
        at = np.int64(mix(np.uint64(high[i])) & np.uint64(size - 1))
        found = -1
        while slot[at] >= 0:
            g = slot[at]
            if high[first[g]] == high[i] and low[first[g]] == low[i]:
                found = g
                break
            at = (at + 1) & (size - 1)
        if found < 0:
            found = groups
            slot[at] = groups
            first[groups] = i
            groups += 1
            held += 1
        group[i] = found
    return group, first[:groups].copy()


@kernel(work=size)
def heads_of(start: Ints, order: Ints, at: Ints, client: Codes) -> Ints:
    """The row of each group that tells of it: one with a client before one without, the least time, the first."""
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


def _group(events: Events, rows: Ints, keys: Ints, keyed: Bools) -> tuple[Grouped, int]:
    """(messages, extra): rows of one key as one message, and how many rows only repeat others."""
    n = len(rows)
    start, members = events.start, events.receivers.codes.astype(np.int64)
    if n < events.rows:
        start, members = take_groups(start, members, rows)
    at, client = events.at[rows], events.client.codes[rows]
    tells = ~events.is_kind("delivery")[rows]
    every = events.lines[rows]
    lines = np.where(tells, every, 0)
    logged = events.logged[rows]
    sizes = np.diff(start)
    kept = np.zeros((0, 2), np.int64)
    most = np.where(tells, np.where(every > 1, np.minimum(sizes, 1), sizes), 0)
    head: Any = slice(None)
    if keyed[rows].any():
        own = keys[rows]
        group, first = group_keys(np.ascontiguousarray(own[:, 0]), np.ascontiguousarray(own[:, 1]), keyed[rows])
        if len(first) < n:
            bounds, order = by_group(group, len(first))
            head = heads_of(bounds, order, at, client)
            if (np.diff(order) < 0).any():
                start, members = take_groups(start, members, order)
                lines, every, most = (each[order] for each in (lines, every, most))
                logged = logged[order]
            start = start[bounds]
            lines, every = (np.add.reduceat(each, bounds[:-1]) for each in (lines, every))
            most = np.maximum.reduceat(most, bounds[:-1])
            logged = np.logical_or.reduceat(logged, bounds[:-1])
        kept = own[head]
        kept[~keyed[rows][head]] = 0
    start, members = sort_groups(start, members)
    extra = extra_rows(lines, most, logged, np.diff(start))
    audience, audience_start, audience_members = _distinct(start, members, logged)
    chosen = rows[head]
    sets_start, sets = take_groups(events.sets_start, events.attribute.codes.astype(np.int64), chosen)
    described = events.described[chosen]
    which, sets_start, sets = _distinct(*sort_groups(sets_start, sets), described)
    found = Grouped(
        offset=events.offset[chosen], at=at[head], client=client[head], topic=events.topic.codes[chosen],
        attributes=which, bytes=events.bytes[chosen], weight=events.weight[chosen],
        counts=events.is_kind("counts")[chosen], audience=audience, key=kept, lines=lines, rows=every, most=most,
        start=audience_start, members=audience_members, sets_start=sets_start, sets=sets,
    )  # fmt: skip
    return found, int(extra.sum())


def extra_rows(lines: Ints, most: Ints, logged: Bools, receivers: Ints) -> Ints:
    """Rows of each message that only repeat others: beyond one a receiver, or beyond one where rows name several."""
    each = np.where(logged & (most <= 1), np.maximum(receivers, 1), 1)
    return np.maximum(lines - each, 0)


def _distinct(start: Ints, members: Ints, there: Bools) -> tuple[Codes, Ints, Ints]:
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
