"""Sessions, subscriptions and links from events: who was where, and asked for what, since when until when."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from overlace.arrays.jit import Bools, Ints
from overlace.ingest.encode import SIGHTING_US
from overlace.ingest.events import PLAIN
from overlace.ingest.notes import rows_from
from overlace.ingest.reduce import Ids
from overlace.ingest.staging import Job, Parsed, staged
from overlace.trace.tables import TIME, numbers, schema_of
from overlace.trace.writer import Writer

EVER = np.iinfo(np.int64).min


def sessions_of(events: pa.Table, seen: pa.Table, ids: Mapping[str, pa.Array]) -> pa.Table:
    """A connection's session runs from its connect to its next connect or disconnect.

    Before a client's first connect or disconnect, and always if it has neither, it was at each broker from when it was
    seen there until it was seen at another. A client of which nothing is known before its disconnect is known from
    then on to have been there: no line tells of the time before it.
    """
    life = _in_order(events.filter(pc.is_in(events["kind"], pa.array(["connect", "disconnect"]))))
    client, broker = ids_of(life["client"], ids["client"]), ids_of(life["broker"], ids["broker"])
    at, opens = times_of(life), _is_kind(life, "connect")
    until = np.where(_same_as_next(_connections(life)), np.roll(at, -1), EVER)
    order = np.lexsort((life["offset"].to_numpy(), at, client))
    first = order[_turns(client[order])]  # the first event of each client
    who, where, since, ends = _runs(seen, client[first], at[first])
    left = first[~opens[first] & ~np.isin(client[first], who)]
    rows = [
        (client[opens], broker[opens], at[opens], until[opens]),
        (client[left], broker[left], at[left], at[left]),
        (who, where, since, ends),
    ]
    columns = [np.concatenate(each) for each in zip(*rows, strict=True)]
    return with_times({"client": columns[0], "broker": columns[1]}, columns[2], columns[3], "sessions")


def _runs(seen: pa.Table, known: Ints, from_then: Ints) -> tuple[Ints, Ints, Ints, Ints]:
    """(client, broker, since, until): sightings in order of time, those at one broker joined.

    Of clients that are `known` otherwise from some time on, only those before it.
    """
    ordered = seen.sort_by([("client", "ascending"), ("at_min", "ascending"), ("broker", "ascending")])
    who, where, since = (ordered[name].to_numpy() for name in ("client", "broker", "at_min"))
    place = np.searchsorted(known, who)  # clients are in order
    known_before = np.append(known, -1)[place] == who
    ends = np.where(known_before, np.append(from_then, EVER)[place], EVER)
    early = ~known_before | (since < ends)
    who, where, since, ends = (each[early] for each in (who, where, since, ends))
    turn = _turns(who) | _turns(where)
    who, where, since, ends = (each[turn] for each in (who, where, since, ends))
    follows = _same_as_next(who)
    return who, where, since, np.where(follows, np.roll(since, -1), ends)


def _turns(values: Ints) -> Bools:
    """Whether each value differs from the one before it; the first does."""
    return np.append(True, values[1:] != values[:-1])[: len(values)]


def seen_before(sessions: pa.Table | None, seen: pa.Table | None) -> pa.Table:
    """Who was seen where and when, over all parts of a log, sessions known from an earlier part among them."""
    sessions = schema_of("sessions").empty_table() if sessions is None else sessions
    since = sessions["since"].cast(pa.int64()).fill_null(EVER)
    kind = pa.schema({name: pa.int64() for name in ("client", "broker", "at_min")})
    known = pa.table({"client": sessions["client"], "broker": sessions["broker"], "at_min": since}).cast(kind)
    if seen is None:
        return known
    own = seen.select(kind.names).cast(kind)  # of one hour, the first of all parts: wherever the log was cut
    hour = pa.array(own["at_min"].to_numpy() // SIGHTING_US)
    first = own.append_column("hour", hour).group_by(["client", "broker", "hour"]).aggregate([("at_min", "min")])
    return pa.concat_tables([known, first.rename_columns({"at_min_min": "at_min"}).select(kind.names)])


def subscriptions_of(events: pa.Table, ids: Mapping[str, pa.Array]) -> pa.Table:
    """A subscription runs from its subscribe until it is taken back, or until the session that asked for it ends.

    It is taken back by an unsubscribe of the same connection from the same filter, or from all. Sessions end where
    the events say so (`ends`): a session that is kept over a disconnect keeps its subscriptions.
    """
    life, closed = _spans(events)
    asked = pc.coalesce(life["filter"], life["topic"])
    what = pc.binary_join_element_wise(pc.fill_null(life["group"], ""), pc.fill_null(asked, ""), "\x1f")
    whose = np.column_stack([_connections(life), life["span"].to_numpy(), _codes(what)])
    order = np.lexsort((np.arange(len(whose)), *whose.T[::-1]))
    life, whose, closed = life.take(pa.array(order)), whose[order], closed[order]
    at, opens = times_of(life), _is_kind(life, "subscribe")
    same = _same_as_next(whose)
    fresh = opens & ~np.roll(same & opens, 1)  # asking again is no new subscription
    until = _next_of(~opens, same, at, closed)
    picked = life.filter(pa.array(fresh))
    plain = pc.if_else(picked["filter"].is_valid(), None, picked["topic"])
    topic = pc.index_in(plain.combine_chunks(), value_set=ids["topic"]) if picked.num_rows else pa.array([], pa.int32())
    columns = {
        "client": ids_of(picked["client"], ids["client"]),
        "topic": topic,
        "filter": picked["filter"],
        "dialect": picked["dialect"],
        "group": picked["group"],
    }
    return with_times(columns, at[fresh], until[fresh], "subscriptions")


def first_seen_only(before: pa.Table, now: pa.Table) -> pa.Table:
    """Subscriptions that are known by what they were sent, over two parts of a log: each since its first delivery."""
    whose = ["client", "topic", "filter", "dialect", "group"]
    both = pa.concat_tables([before.select(now.column_names).cast(now.schema), now])
    first = both.group_by(whose, use_threads=False).aggregate([("since", "min"), ("until", "max")])
    return first.rename_columns({"since_min": "since", "until_max": "until"}).select(now.column_names)


def _spans(events: pa.Table) -> tuple[pa.Table, Ints]:
    """(life, closed): lines about subscriptions, in `span` the session they fall in, and when that session ends."""
    every = pc.and_(pc.equal(events["kind"], "unsubscribe"), pc.is_null(pc.coalesce(events["filter"], events["topic"])))
    ends = pc.or_(pc.fill_null(events["ends"], False), every)
    about = pc.or_(ends, pc.is_in(events["kind"], pa.array(["subscribe", "unsubscribe"])))
    life = _in_order(events.append_column("over", ends).filter(about))
    over, at, whose = life["over"].to_numpy(), times_of(life), _connections(life)
    span = np.cumsum(over) - over
    closed = _next_of(over, _same_as_next(whose), at, np.full(len(at), EVER))
    life = life.append_column("span", pa.array(span))
    return life.filter(pa.array(~over)), closed[~over]


def _next_of(marked: Bools, same: Bools, at: Ints, otherwise: Ints) -> Ints:
    """For each row the time of the next marked one from it on in its group, else what is given otherwise."""
    here = np.arange(len(at))
    place = np.minimum.accumulate(np.where(marked, here, len(at))[::-1])[::-1]
    group = np.cumsum(~np.roll(same, 1)) if len(at) else here
    found = (place < len(at)) & (np.append(group, -1)[place] == group)
    return np.where(found, np.append(at, EVER)[place], otherwise)


def _in_order(events: pa.Table) -> pa.Table:
    """Events by connection, then as they happened."""
    whose = pa.array(_connections(events))
    return events.append_column("whose", whose).sort_by([(each, "ascending") for each in ("whose", "at", "offset")])


def _connections(events: pa.Table) -> Ints:
    """Whose event it is, as codes: the connection where several make one client, else the client."""
    client, connection = _codes(events["client"]), _codes(events["key"])
    return np.where(connection >= 0, connection + client.max(initial=-1) + 1, client)


def _codes(values: pa.ChunkedArray) -> Ints:
    """Equal values have equal codes, null -1."""
    return numbers(values.combine_chunks().dictionary_encode().indices, -1)


def _same_as_next(rows: Ints) -> Bools:
    """Whether each row equals the next one; the last does not."""
    same = rows[1:] == rows[:-1]
    return np.append(same.all(axis=1) if same.ndim > 1 else same, False)[: len(rows)]


def times_of(events: pa.Table) -> Ints:
    """When each event was; EVER where that is not known."""
    return numbers(events["at"].cast(pa.int64()), EVER)


def _is_kind(events: pa.Table, kind: str) -> Bools:
    return pc.equal(events["kind"], kind).to_numpy(zero_copy_only=False) if events.num_rows else np.empty(0, bool)


def ids_of(values: pa.ChunkedArray, names: pa.Array) -> Ints:
    """Ids of names, -1 for none."""
    return numbers(pc.index_in(values.combine_chunks(), value_set=names).cast(pa.int64()), -1)


def with_times(columns: Mapping[str, pa.Array | Ints | Bools], since: Ints, until: Ints, table: str) -> pa.Table:
    """Rows with since and until, EVER being none."""
    time = schema_of(table).field("since").type
    ends = {
        "since": pa.array(since, pa.int64(), mask=since == EVER),
        "until": pa.array(until, pa.int64(), mask=until == EVER),
    }
    return pa.table({**columns, **{name: values.cast(time) for name, values in ends.items()}})


def doubles_of(life: pa.Table, names: Mapping[str, pa.Array], bucket_us: int) -> pa.Table:
    """Sends of a message to a client that it was sent already: no flow, but a load on the client's home."""
    twice = pc.and_(pc.equal(life["kind"], "follows"), pc.fill_null(pc.equal(life["reason"], "double"), False))
    rows = life.filter(twice)
    if rows.num_rows == 0:
        return schema_of("doubles").empty_table()
    at = rows["at"].cast(pa.int64()).to_numpy()
    table = pa.table(
        {
            "bucket": pa.array(at // bucket_us * bucket_us).cast(TIME),
            "client": pc.index_in(rows["client"], value_set=names["client"]),
            "messages": np.ones(len(at), dtype=np.int64),
            "bytes": pc.fill_null(rows["bytes"].cast(pa.int64()), 0),
        }
    )
    sums = table.group_by(["bucket", "client"]).aggregate([("messages", "sum"), ("bytes", "sum")])
    return sums.rename_columns({"messages_sum": "messages", "bytes_sum": "bytes"}).sort_by("bucket")


def read_life(job: Job, splits: Sequence[Parsed]) -> pa.Table:
    """Events of sessions, subscriptions and bridges that some splits staged."""
    tables = [staged(job, f"life/{each.read.name}").cast(PLAIN) for each in splits if each.read.life]
    return pa.concat_tables([PLAIN.empty_table(), *tables]).combine_chunks()


def write_history(
    writer: Writer, job: Job, lives: Sequence[pa.Table], sightings: Sequence[pa.Table], names: Mapping[str, pa.Array]
) -> None:
    """Write sessions, subscriptions and doubles of each source, from its events and who was seen in it."""
    rows: dict[str, list[tuple[str, pa.Table]]] = {"sessions": [], "subscriptions": [], "doubles": []}
    for source, life, seen in zip(job.sources, lives, sightings, strict=True):
        before = rows_from(writer.base, "sessions", source.digest) if writer.base and source.begin else None
        for table in ("sessions", "doubles"):
            writer.drop(table, source.digest)
        rows["sessions"].append((source.digest, sessions_of(life, seen_before(before, seen), names)))
        asked = subscriptions_of(life, names)
        if source.form.one_log and writer.base and source.begin:
            asked = first_seen_only(rows_from(writer.base, "subscriptions", source.digest), asked)
            writer.drop("subscriptions", source.digest)
        rows["subscriptions"].append((source.digest, asked))
        rows["doubles"].append((source.digest, doubles_of(life, names, job.bucket_us)))
    for table, rows_by_source in rows.items():
        writer.write_by_source(table, rows_by_source)


def seen_in(splits: Sequence[tuple[Parsed, Ids]]) -> pa.Table:
    """Who was seen where and when in some splits, under ids."""
    tables = []
    for split, ids in splits:
        seen = split.tables.table("seen")
        client, broker = ids.client[seen["client"].to_numpy()], ids.broker[seen["broker"].to_numpy()]
        tables.append(pa.table({"client": client, "broker": broker, "at_min": seen["at_min"].cast(pa.int64())}))
    return pa.concat_tables(tables)
