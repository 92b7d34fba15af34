"""Events of a split to messages with codes for names: once, for every source.

In this order, on dictionaries and not on rows: who is one client, which topics are folded, pseudonyms, who receives by
content; then the
account of the lines, when each name first came up, who was seen at which broker, and rows of one key
grouped into one message. Codes are the split's own; the driver gives ids.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from overlace.arrays.csr import take_groups
from overlace.arrays.jit import Bools, Ints, kernel, size
from overlace.ingest.coded import Coded, Codes, Events, decode, rename
from overlace.ingest.events import PLAIN, in_one_piece
from overlace.ingest.identity import hide_names, identify
from overlace.ingest.keys import keys_of
from overlace.ingest.messages import Messages, group_messages
from overlace.ingest.receivers import add_receivers, describe_messages, subscriptions_of
from overlace.ingest.sources import Source
from overlace.ingest.staging import Job
from overlace.matching.names import collapse, pseudonyms

LATER = np.iinfo(np.int64).max
"""When a name first came up that no row uses."""

KINDS = ("client", "topic", "broker", "attribute")
"""What has names."""

LIFE = ("connect", "disconnect", "subscribe", "unsubscribe", "advertise", "bridge", "link", "follows")
"""Kinds of events that are no messages and tell of sessions, subscriptions or links."""

SIGHTING_US = 3_600_000_000
"""A client is noted at a broker at most once in so long."""


class Counted(NamedTuple):
    """What became of the lines of a split: (kind, reason) -> rows, and where a sample of it is."""

    rows: dict[tuple[str, str], int]
    samples: dict[str, tuple[int, str]]  # reason -> (offset, sample) of the first


class Encoded(NamedTuple):
    """What a split gives."""

    messages: Messages
    names: dict[str, tuple[pa.Array, Ints]]  # by kind: names, and when each first came up
    counted: Counted
    extra: int  # rows that only repeat others
    seen: pa.Table  # client, broker, at_min: codes
    life: pa.Table  # further events, names as text
    first: int  # times of messages; LATER where there is none
    last: int
    folded: int  # topic names that folding saved
    span: tuple[int, int]  # times of all events


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

    # keys are made of names as they are logged
    grouping = source.options.get("group") or ()
    keys, keyed = keys_of(events, grouping) if grouping else events.keys()
    crossing = events.crossing()

    # names: who is one client, which topics are folded, pseudonyms
    connection = identify(events, job.identity, crossing)
    topics = len(events.topic.names)
    if not job.keep_topics:
        events.topic = rename(events.topic, collapse)
    folded = topics - len(events.topic.names)
    if job.key:
        hide_names(events, job.key, crossing)
        counted = Counted(counted.rows, {reason: (at, "(hidden)") for reason, (at, _) in counted.samples.items()})

    if job.filters and source.has_content:
        add_receivers(events, subscriptions_of(job))
    if job.predicates and source.has_content:
        describe_messages(events, job.predicates)

    of_messages = events.is_kind("message", "counts", "delivery")
    life = _life(events, job, of_messages, crossing, connection)
    messages, extra = group_messages(events, np.flatnonzero(of_messages), keys, keyed)
    names = _names(events, crossing)
    names["broker"] = _with_far_ends(names["broker"], life)
    seen = _seen(events, of_messages, crossing, source)
    first, last = _ends(messages.at)
    return Encoded(
        messages, names, counted, extra, seen, life, first, last, folded, span=_ends(events.at[events.at != 0])
    )


def _ends(times: Ints) -> tuple[int, int]:
    """The first and the last of some times; LATER and -LATER where there is none."""
    return int(times.min(initial=LATER)), int(times.max(initial=-LATER))


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
            only_link = row["kind"] == "link" and row["reason"]  # all that the line is good for
            name = ("ignored" if only_link else row["kind"], row["reason"] or "")
            rows[name] = rows.get(name, 0) + row["rows_sum"]
        shown = pa.table({"reason": reason, "sample": batch["sample"], "offset": batch["offset"]})
        shown = shown.filter(shown["sample"].is_valid())
        for row in shown.sort_by("offset").to_pylist():
            if row["reason"] not in samples or row["offset"] < samples[row["reason"]][0]:
                samples[row["reason"]] = (row["offset"], row["sample"])
    return Counted(rows, samples)


def _life(events: Events, job: Job, of_messages: Bools, crossing: Bools, connection: Coded | None) -> pa.Table:
    """Events that are no messages, with names as text, as what follows reads them."""
    rows = _links_once(events, np.flatnonzero(events.is_kind(*LIFE) & ~of_messages))
    table = events.table(rows)
    follows = events.is_kind("follows")[rows]
    wanted = pc.is_in(table["reason"], pa.array(["bridge", "double"])).to_numpy(zero_copy_only=False)
    use = ~follows | wanted
    rows, table = rows[use], table.filter(pa.array(use))
    if not job.keep_topics:
        table = _replace(table, "filter", collapse(in_one_piece(table["filter"])))
    key = in_one_piece(table["key"])
    sessions = events.is_kind("connect", "disconnect", "subscribe", "unsubscribe")[rows]
    if connection is not None:
        own = decode(Coded(connection.codes[rows], connection.names))
        key = pc.if_else(pa.array(sessions), own, key)
    if job.key:
        key = pc.if_else(
            pa.array(crossing[rows]), key, pseudonyms(key, job.key)
        )  # that of a send to a bridge is a number
        for name in ("group", "user"):
            table = _replace(table, name, pseudonyms(in_one_piece(table[name]), job.key))
        table = _replace(table, "filter", pseudonyms(in_one_piece(table["filter"]), job.key, "/."))
        table = _replace(table, "sample", pa.nulls(table.num_rows, pa.string()))
    table = _replace(table, "key", key)
    columns = {"kind": events.kind, "client": events.client, "broker": events.broker, "topic": events.topic}
    for name, column in columns.items():
        table = table.append_column(name, decode(Coded(column.codes[rows], column.names)))
    receivers = _lists_of(events.start, events.receivers, events.logged, rows)
    attributes = _lists_of(events.sets_start, events.attribute, events.described, rows)
    table = table.append_column("receivers", receivers).append_column("attributes", attributes)
    return table.select(PLAIN.names)


def _lists_of(start: Ints, members: Coded, there: Bools, rows: Ints) -> pa.Array:
    """Lists of names in some rows, as text; null where there is none."""
    bounds, codes = take_groups(start, members.codes.astype(np.int64), rows)
    missing = None if there[rows].all() else pa.array(~there[rows])
    names = decode(Coded(codes.astype(np.int32), members.names))
    return pa.ListArray.from_arrays(pa.array(bounds.astype(np.int32)), names, mask=missing)


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


def _replace(table: pa.Table, name: str, values: pa.Array) -> pa.Table:
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
    far = pa.concat_arrays([brokers[0], in_one_piece(links["key"])])
    return far, np.concatenate([brokers[1], links["at"].cast(pa.int64()).to_numpy()])


def _seen(events: Events, of_messages: Bools, crossing: Bools, source: Source) -> pa.Table:
    """Who was seen at which broker and when, at most once an hour."""
    if len(events.broker.names) == 0:
        return pa.table({name: pa.array([], pa.int64()) for name in ("client", "broker", "hour", "at_min")})
    senders = np.flatnonzero(of_messages & ~events.is_kind("delivery"))
    parts: list[tuple[Codes | Ints, Ints]] = [(events.client.codes[senders], senders)]
    if source.form.at_home:
        arrived = crossing & events.is_kind("follows") & events.logged
        rows = np.flatnonzero(arrived | (of_messages & ~events.is_kind("counts")))
        start, codes = take_groups(events.start, events.receivers.codes.astype(np.int64), rows)
        parts.append((codes, np.repeat(rows, np.diff(start))))
    who, rows = (np.concatenate(each) for each in zip(*parts, strict=True))
    where, when = events.broker.codes[rows], events.at[rows]
    known = (where >= 0) & (who >= 0)
    columns = {
        "client": who.astype(np.int64),
        "broker": where.astype(np.int64),
        "hour": when // SIGHTING_US,
        "at": when,
    }
    seen = pa.table({name: values[known] for name, values in columns.items()})
    return seen.group_by(["client", "broker", "hour"]).aggregate([("at", "min")])
