"""What tasks of an ingest do, as batch functions: they run in Spark's workers, or in a list.

Parsing turns byte ranges of sources into staged events with the names they use. Encoding turns staged
messages into rows with ids, writes them, and reduces them. Each task writes files of its own and
answers with a row about them; nothing that a task writes counts until the trace's manifest names it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from overlace.arrays.csr import sort_groups
from overlace.errors import BadTrace
from overlace.ingest.formats.events import EVENT
from overlace.ingest.formats.lines import blocks
from overlace.ingest.sources import FORMATS, Source, opened
from overlace.matching.topics import collapse, pseudonyms
from overlace.trace.store import DAY_US, place, write_part
from overlace.trace.tables import TIME, conform
from overlace.trace.traffic import NONE, Messages, Reduction, audience_hashes, merge, reduce

STAGED = EVENT.append(pa.field("source", pa.int32(), nullable=False))

SPLIT = "source int, number int, begin long, finish long"
PARSED = (
    "source int, number int, kind string, reason string, sample string, events long, first long, last long, "
    "folded long, keyed long, lines long"
)
ENCODED = "table string, path string, rows long, hash string, source int"


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
    bridged: bool = False  # some messages crossed bridges
    id: str = ""


def parse(job: Job) -> Any:
    """The batch function that parses splits: events and names into files, a row a kind of event out."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for split in batch.to_pylist():
                yield _parse_split(job, **split)

    return run


def _parse_split(job: Job, source: int, number: int, begin: int, finish: int) -> pa.RecordBatch:
    origin = job.sources[source]
    form = FORMATS[origin.format]
    counted = Counted()
    with opened(origin.path) as file:
        finish_at = None if origin.packed or form.scope == "file" else finish
        start = 0 if form.scope == "file" or origin.packed else begin
        read = list(form.read(counted.over(blocks(file, start, finish_at)), origin.options))
    raw = pa.Table.from_batches(read, EVENT).combine_chunks() if read else EVENT.empty_table()
    table = _settled(raw, job)
    table = table.append_column(STAGED.field("source"), pa.array(np.full(table.num_rows, source, np.int32)))
    table = table.sort_by("offset")
    stage(job, f"events/{source}-{number}.parquet", table)
    stage(job, f"names/{source}-{number}.parquet", _names_in(table))
    said = table.group_by(["kind", "reason"]).aggregate([("sample", "min"), ("offset", "count"), ("key", "count")])
    times = table.filter(pc.is_in(table["kind"], pa.array(["message", "counts"])))["at"].cast(pa.int64())
    ends = pc.min_max(times)
    about = {
        "source": source, "number": number, "first": ends["min"].as_py(), "last": ends["max"].as_py(),
        "folded": _distinct(raw["topic"]) - _distinct(table["topic"]) if not job.keep_topics else 0,
        "lines": counted.lines,
    }  # fmt: skip
    rows = [
        {**about, "kind": row["kind"], "reason": row["reason"], "sample": row["sample_min"],
         "events": row["offset_count"], "keyed": row["key_count"] if row["kind"] == "message" else 0}
        for row in said.to_pylist()
    ]  # fmt: skip
    kinds = {
        "source": pa.int32(),
        "number": pa.int32(),
        "kind": pa.string(),
        "reason": pa.string(),
        "sample": pa.string(),
    }
    kinds |= {name: pa.int64() for name in ("events", "first", "last", "folded", "keyed", "lines")}
    return pa.RecordBatch.from_pylist(rows, pa.schema(kinds))


class Counted:
    """Counts the lines that go by, on its own account."""

    lines = 0

    def over(self, parts: Iterator[tuple[int, bytes]]) -> Iterator[tuple[int, bytes]]:
        """The same blocks."""
        for offset, block in parts:
            self.lines += block.count(b"\n") + (not block.endswith(b"\n"))
            yield offset, block


def _distinct(values: pa.ChunkedArray) -> int:
    return int(pc.count_distinct(values, mode="only_valid").as_py()) if len(values) else 0


def _settled(table: pa.Table, job: Job) -> pa.Table:
    """Who is one client, which topics are folded, and pseudonyms: by rule, on whole columns, in this order."""
    lists = _flat(table["receivers"])
    client, receivers = _flat(table["client"]), lists.flatten()
    by_bridge = pc.fill_null(pc.equal(table["reason"], "bridge"), False)
    crossing = _flat(pc.or_(pc.equal(table["kind"], "bridge"), by_bridge))
    if job.identity != "client":
        rows = np.arange(len(client)), pc.list_parent_indices(lists).to_numpy(zero_copy_only=False)
        connection = _at_broker(table, client, rows[0])
        if job.identity == "broker/client":
            client, receivers = connection, _at_broker(table, receivers, rows[1])
        elif job.identity == "user":
            users = Users(table)
            client, receivers = users.of(client, rows[0]), users.of(receivers, rows[1])
        else:
            client, receivers = _extracted(client, job.identity), _extracted(receivers, job.identity)
        if job.identity != "broker/client":  # several connections may be one client, and end one by one
            life = pc.is_in(table["kind"], pa.array(["connect", "disconnect", "subscribe", "unsubscribe"]))
            table = _replaced(table, "key", pc.if_else(_flat(life), connection, _flat(table["key"])))
    if not job.keep_topics:
        for name in ("topic", "filter"):
            table = _replaced(table, name, collapse(_flat(table[name])))
    if job.key:
        client, receivers = pseudonyms(client, job.key), pseudonyms(receivers, job.key)
        for name in ("broker", "group", "user"):
            table = _replaced(table, name, pseudonyms(_flat(table[name]), job.key))
        hidden = pc.if_else(crossing, _flat(table["key"]), pseudonyms(_flat(table["key"]), job.key))
        table = _replaced(table, "key", hidden)  # that of a send to a bridge is a number, and needed as one
        for name in ("topic", "filter"):
            table = _replaced(table, name, pseudonyms(_flat(table[name]), job.key, "/."))
        table = _replaced(table, "sample", pc.if_else(table["sample"].is_valid(), "(hidden)", None))
    client = pc.if_else(crossing, _flat(table["client"]), client)  # a bridge is no client: its ends are joined by id
    return _replaced(_replaced(table, "client", client), "receivers", _lists_like(lists, receivers))


def _at_broker(table: pa.Table, names: pa.Array, rows: Any) -> pa.Array:
    """Names of clients that are their own only at the broker of their row."""
    broker = _flat(table["broker"]).take(pa.array(rows, pa.int64()))
    return pc.if_else(broker.is_valid(), pc.binary_join_element_wise(broker, names, "/"), names)


class Users:
    """Who was logged in as which client, by the connects of a log."""

    def __init__(self, table: pa.Table) -> None:
        self.table, self.offset = table, table["offset"].to_numpy()
        connects = np.flatnonzero(pc.equal(_flat(table["kind"]), "connect").to_numpy(zero_copy_only=False))
        client = _flat(table["client"]).take(pa.array(connects))
        self.clients = pc.unique(client)
        keys = (pc.index_in(client, value_set=self.clients).to_numpy().astype(np.int64) << 40) | self.offset[connects]
        order = np.argsort(keys)
        self.keys, self.users = keys[order], _flat(table["user"]).take(pa.array(connects[order]))

    def of(self, names: pa.Array, rows: Any) -> pa.Array:
        """The users that clients were in some rows: as of their last connect, before the first as of that one.

        A client of whom no user is logged stays the client that it is at its broker.
        """
        client = pc.fill_null(pc.index_in(names, value_set=self.clients), -1).to_numpy().astype(np.int64)
        last = np.searchsorted(self.keys, (client << 40) | self.offset[rows], side="right") - 1
        whose = np.append(self.keys >> 40, -2)
        place = np.where(whose[last] == client, last, last + 1)
        user = self.users.take(pa.array(place, pa.int64(), mask=whose[place] != client))
        return pc.coalesce(user, _at_broker(self.table, names, rows))


def _extracted(names: pa.Array, pattern: str) -> pa.Array:
    """The part of each name that the pattern names `client`, or the whole name where it does not match."""
    found = pc.extract_regex(names, pattern if "(?P<" in pattern else f"(?P<client>{pattern})")
    part = found.field("client") if found.type.get_field_index("client") >= 0 else found.field(0)
    return pc.if_else(found.is_valid(), part, names)


def _lists_like(lists: pa.Array, values: pa.Array) -> pa.Array:
    """The same lists with other values."""
    valid = lists.is_valid().to_numpy(zero_copy_only=False)
    sizes = pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False)
    bounds = np.append(0, np.cumsum(sizes)).astype(np.int32)
    made = pa.ListArray.from_arrays(pa.array(bounds), values)
    return made if valid.all() else pc.if_else(pa.array(valid), made, None)


def _flat(values: Any) -> pa.Array:
    if isinstance(values, pa.ChunkedArray):
        return pa.concat_arrays(values.chunks) if values.num_chunks else pa.array([], values.type)
    return values


def _replaced(table: pa.Table, name: str, values: Any) -> pa.Table:
    at = table.schema.get_field_index(name)
    return table.set_column(at, table.schema.field(at), values)


def _names_in(table: pa.Table) -> pa.Table:
    """Every name that the events use, by kind, with when it first came up."""
    crossing = pc.fill_null(pc.equal(table["reason"], "bridge"), False)
    follows = pc.and_(pc.equal(table["kind"], "follows"), pc.invert(crossing))
    used = table.filter(pc.invert(pc.or_(follows, pc.is_in(table["kind"], pa.array(["bad", "ignored"])))))
    plain = used.filter(pc.invert(pc.is_in(used["kind"], pa.array(["bridge", "follows"]))))
    at = _flat(used["at"].cast(pa.int64()))
    plain_at = _flat(plain["at"].cast(pa.int64()))
    receivers, attributes = _flat(used["receivers"]), _flat(used["attributes"])
    sets = (
        ("client", _flat(plain["client"]), plain_at),
        ("client", receivers.flatten(), at.take(pc.list_parent_indices(receivers))),
        ("topic", _flat(plain["topic"]), plain_at),
        ("broker", _flat(used["broker"]), at),
        ("attribute", attributes.flatten(), at.take(pc.list_parent_indices(attributes))),
    )
    parts = [
        pa.table({"kind": pa.array([kind] * len(names), pa.string()), "name": names, "at": when})
        for kind, names, when in sets
    ]
    every = pa.concat_tables(parts)
    every = every.filter(every["name"].is_valid())
    return every.group_by(["kind", "name"]).aggregate([("at", "min")])


def stage(job: Job, path: str, table: pa.Table) -> None:
    """Write a file that only this ingest reads."""
    files, at = place(f"{job.trace}/{job.staging}/{path}")
    files.create_dir(at.rpartition("/")[0], recursive=True)
    pq.write_table(table, at, filesystem=files, compression="lz4")


def staged(job: Job, path: str) -> pa.Table:
    """A staged file."""
    files, at = place(f"{job.trace}/{job.staging}/{path}")
    return pq.read_table(at, filesystem=files, partitioning=None)


def parts_batch(rows: list[dict[str, Any]]) -> pa.RecordBatch:
    """Parts of the trace as the rows that a task answers with (ENCODED)."""
    names = {"table": pa.string(), "path": pa.string(), "rows": pa.int64(), "hash": pa.string(), "source": pa.int32()}
    return pa.RecordBatch.from_pylist(rows, pa.schema(names))


def encode(job: Job) -> Any:
    """The batch function that encodes staged messages, given by file: parts of the trace out."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        names = staged(job, "ids.parquet")
        ids = {kind: _flat(names.filter(pc.equal(names["kind"], kind)).sort_by("id")["name"]) for kind in IDS}
        for batch in batches:
            for row in batch.to_pylist():
                yield _encode_file(job, row["path"], row["number"], ids)

    return run


SIGHTING_US = 3_600_000_000
"""A client is noted at a broker at most once in so long."""

IDS = ("client", "topic", "broker", "attribute")


def _encode_file(job: Job, path: str, number: int, ids: Mapping[str, pa.Array]) -> pa.RecordBatch:
    table = staged(job, path)
    arrived = table.slice(0, 0)
    if "kind" in table.column_names:
        crossing = pc.and_(pc.fill_null(pc.equal(table["reason"], "bridge"), False), table["receivers"].is_valid())
        arrived = table.filter(pc.and_(crossing, pc.equal(table["kind"], "follows")))
        counted = table.filter(pc.equal(table["kind"], "counts"))
        table = table.filter(pc.and_(pc.equal(table["kind"], "message"), pc.is_null(table["key"])))
    else:
        counted = table.slice(0, 0)
    rows: list[dict[str, Any]] = []
    parts = [*table["source"].chunks, *counted["source"].chunks, *arrived["source"].chunks]
    for source in pc.unique(pa.chunked_array(parts, pa.int32())).to_pylist():
        own, tally, came = (each.filter(pc.equal(each["source"], source)) for each in (table, counted, arrived))
        rows += _encode_source(job, _with_bridged(job, own), tally, source, number, ids)
        here = job.sources[source].format == "mosquitto"  # a broker logs what it sends to its own clients
        for name, events, senders, receivers in (
            ("own", own, True, here),
            ("counts", tally, True, False),
            ("came", came, False, True),
        ):
            if events.num_rows:
                seen = _seen(events, ids, senders=senders, receivers=receivers)
                stage(job, f"seen/{source}-{number}-{name}.parquet", seen)
    return parts_batch(rows)


def _with_bridged(job: Job, table: pa.Table) -> pa.Table:
    """Messages with the receivers that they reached over bridges."""
    if not job.bridged or table.num_rows == 0:
        return table
    more = staged(job, "bridged.parquet")
    theirs = (more["source"].to_numpy().astype(np.int64) << 40) | more["offset"].to_numpy()
    mine = (table["source"].to_numpy().astype(np.int64) << 40) | table["offset"].to_numpy()
    order = np.argsort(mine, kind="stable")
    at = np.minimum(np.searchsorted(mine[order], theirs), len(mine) - 1)
    found = np.flatnonzero(mine[order[at]] == theirs)
    if len(found) == 0:
        return table
    lists = _appended(
        _flat(table["receivers"]), order[at[found]], _flat(more["receiver_distinct"].take(pa.array(found)))
    )
    return _replaced(table, "receivers", lists)


def _appended(lists: pa.Array, rows: Any, more: pa.Array) -> pa.Array:
    """The same lists, where `more[i]` comes after what the list of `rows[i]` has; a row at most once."""
    own, new = (pc.fill_null(pc.list_value_length(each), 0).to_numpy(zero_copy_only=False) for each in (lists, more))
    sizes = own.astype(np.int64)
    sizes[rows] += new
    start = np.append(0, np.cumsum(sizes))
    into = np.empty(start[-1], np.int64)
    into[_within(start[:-1], own)] = np.arange(own.sum())
    into[_within(start[rows] + own[rows], new)] = own.sum() + np.arange(new.sum())
    valid = lists.is_valid().to_numpy(zero_copy_only=False).copy()
    valid[rows] = True
    values = pa.concat_arrays([lists.flatten(), more.flatten().cast(lists.type.value_type)]).take(pa.array(into))
    mask = None if valid.all() else pa.array(~valid)
    return pa.ListArray.from_arrays(pa.array(start.astype(np.int32)), values, type=lists.type, mask=mask)


def _within(start: Any, sizes: Any) -> Any:
    """The places start[i], start[i] + 1, ... of groups of these sizes, one group after the other."""
    first = np.cumsum(sizes) - sizes
    return np.repeat(start - first, sizes) + np.arange(sizes.sum())


def _seen(table: pa.Table, ids: Mapping[str, pa.Array], *, senders: bool, receivers: bool) -> pa.Table:
    """Who was seen at which broker and when, at most once an hour."""
    lists = _flat(table["receivers"])
    parents = pc.list_parent_indices(lists)
    broker = _ids(_flat(table["broker"]), ids["broker"], "broker")
    at = table["at"].cast(TIME).cast(pa.int64()).fill_null(0).to_numpy()
    rows = parents.to_numpy(zero_copy_only=False)
    parts = [(_ids(_flat(table["client"]), ids["client"], "client"), broker, at)] if senders else []
    parts += [(_ids(lists.flatten(), ids["client"], "client"), broker[rows], at[rows])] if receivers else []
    who, where, when = (np.concatenate(each) for each in zip(*parts, strict=True))
    known = where != NONE
    seen = pa.table(
        {"client": who[known], "broker": where[known], "hour": when[known] // SIGHTING_US, "at": when[known]}
    )
    return seen.group_by(["client", "broker", "hour"]).aggregate([("at", "min")])


def _encode_source(
    job: Job, table: pa.Table, tally: pa.Table, source: int, number: int, ids: Mapping[str, pa.Array]
) -> list[dict[str, Any]]:
    rows = []
    parts: list[Reduction] = []
    if table.num_rows:
        messages = _messages(table, ids)
        identity = (job.sources[source].number << 40) | table["offset"].to_numpy()
        for name, day in written(job, messages, identity, f"{job.id}-{source}-{number}"):
            rows.append({"table": "messages", **name, "source": source, "day": day})
        parts.append(reduce(messages, job.bucket_us))
    if tally.num_rows:
        counts = _messages(tally, ids)
        once = counts._replace(bytes=np.zeros_like(counts.bytes))
        made = reduce(once, job.bucket_us)
        with_bytes = reduce(counts._replace(weight=np.ones_like(counts.weight)), job.bucket_us)
        at = made.traffic.schema.get_field_index("bytes")
        parts.append(
            Reduction(
                made.traffic.set_column(at, made.traffic.schema.field(at), with_bytes.traffic["bytes"]), made.audiences
            )
        )
    if parts:
        merged = merge(parts)
        stage(job, f"traffic/{source}-{number}.parquet", merged.traffic)
        stage(job, f"audiences/{source}-{number}.parquet", merged.audiences)
    return [{k: v for k, v in row.items() if k != "day"} for row in rows]


def _ids(values: pa.Array, names: pa.Array, what: str) -> Any:
    """Ids of names, NONE for null."""
    found = pc.index_in(values, value_set=names)
    lost = pc.and_(found.is_null(), values.is_valid())
    if pc.any(lost).as_py():
        raise BadTrace(f"the {what} {values.filter(lost)[0].as_py()!r} has no id: the log changed while it was read")
    return found.cast(pa.int64()).fill_null(NONE).to_numpy(zero_copy_only=False)


def _messages(table: pa.Table, ids: Mapping[str, pa.Array]) -> Messages:
    """Messages with ids."""
    client = _ids(_flat(table["client"]), ids["client"], "client")
    lists = _flat(table["receivers"])
    logged = lists.is_valid().to_numpy(zero_copy_only=False)
    sizes = pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False)
    receivers = _ids(lists.flatten(), ids["client"], "client")
    start, receivers = sort_groups(np.append(0, np.cumsum(sizes)).astype(np.int64), receivers)
    at = table["at"].cast(TIME).cast(pa.int64()).fill_null(0).to_numpy()
    return Messages(
        at=at,
        client=client,
        topic=_ids(_flat(table["topic"]), ids["topic"], "topic"),
        attributes=_masks(_flat(table["attributes"]), ids["attribute"]),
        bytes=table["bytes"].fill_null(0).to_numpy(),
        weight=table["weight"].fill_null(1).to_numpy(),
        logged=logged.astype(np.int64),
        start=start,
        receivers=receivers,
    )


def _masks(lists: pa.Array, names: pa.Array) -> Any:
    """Attribute lists as masks, NONE for null."""
    if len(names) > 63:
        raise BadTrace(f"{len(names)} attributes; a mask holds at most 63. Leave some out with --map.")
    valid = lists.is_valid().to_numpy(zero_copy_only=False)
    masks = np.where(valid, 0, NONE).astype(np.int64)
    bits = _ids(lists.flatten(), names, "attribute")
    parents = pc.list_parent_indices(lists).to_numpy(zero_copy_only=False)
    np.bitwise_or.at(masks, parents, np.left_shift(1, bits))
    return masks


def written(job: Job, messages: Messages, identity: Any, name: str) -> Iterator[tuple[dict[str, Any], int]]:
    """Write messages by day, sorted by message; a row about each file."""
    day = messages.at // DAY_US
    audience = audience_hashes(messages)
    for each in np.unique(day):
        mine = np.flatnonzero(day == each)
        mine = mine[np.argsort(identity[mine], kind="stable")]

        def column(values: Any, chosen: Any = mine) -> pa.Array:
            return pa.array(values[chosen], mask=values[chosen] == NONE)

        rows = pa.table(
            {
                "message": identity[mine],
                "at": pa.array(messages.at[mine]).cast(TIME),
                "client": messages.client[mine],
                "topic": column(messages.topic),
                "attributes": column(messages.attributes),
                "bytes": messages.bytes[mine],
                "audience": pa.array(audience[mine], mask=messages.logged[mine] == 0),
                "weight": messages.weight[mine],
            }
        )
        date = str(np.datetime64(int(each), "D"))
        part = write_part(job.trace, "messages", conform(rows, "messages"), f"day={date}/{name}")
        yield {"path": part.path, "rows": part.rows, "hash": str(part.hash)}, int(each)
