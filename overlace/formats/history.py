"""Sessions, subscriptions and links from events: who was where, and asked for what, since when until when."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from overlace.tables import schema_of

EVER = np.iinfo(np.int64).min


def sessions_of(events: pa.Table, seen: pa.Table, ids: Mapping[str, pa.Array]) -> pa.Table:
    """A client's session runs from its connect to its next connect or disconnect.

    A disconnect without a connect ends a session that has always been open. A client with neither was at
    each broker from when it was seen there until it was seen at another.
    """
    known = pc.is_in(events["kind"], pa.array(["connect", "disconnect"]))
    life = events.filter(known).sort_by([("client", "ascending"), ("at", "ascending"), ("offset", "ascending")])
    client = _ids(life["client"], ids["client"])
    broker = _ids(life["broker"], ids["broker"])
    at = life["at"].cast(pa.int64()).fill_null(EVER).to_numpy()
    opens = pc.equal(life["kind"], "connect").to_numpy() if life.num_rows else np.empty(0, bool)
    follows = np.append(client[1:] == client[:-1], False) if len(client) else np.empty(0, bool)
    until = np.where(follows, np.append(at[1:], EVER) if len(at) else at, EVER)
    first = ~np.append(False, follows[:-1]) if len(client) else np.empty(0, bool)
    early = first & ~opens
    rows = [(client[opens], broker[opens], at[opens], until[opens])]
    rows.append((client[early], broker[early], np.full(early.sum(), EVER), at[early]))
    new = seen.filter(pc.invert(pc.is_in(seen["client"], pa.array(np.unique(client)))))
    rows.append(_runs(new))
    columns = [np.concatenate(each) for each in zip(*rows, strict=True)]
    return _lived({"client": columns[0], "broker": columns[1]}, columns[2], columns[3], "sessions")


def _runs(seen: pa.Table) -> tuple[Any, Any, Any, Any]:
    """(client, broker, since, until): sightings in order of time, those at one broker joined."""
    order = seen.sort_by([("client", "ascending"), ("at_min", "ascending"), ("broker", "ascending")])
    who, where, since = (order[name].to_numpy() for name in ("client", "broker", "at_min"))
    if len(who) == 0:
        return who, where, since, since
    turn = np.append(True, (who[1:] != who[:-1]) | (where[1:] != where[:-1]))
    who, where, since = who[turn], where[turn], since[turn]
    follows = np.append(who[1:] == who[:-1], False)
    return who, where, since, np.where(follows, np.append(since[1:], EVER), EVER)


def seen_before(sessions: pa.Table | None, seen: pa.Table | None) -> pa.Table:
    """Who was seen where and when, over all parts of a log, sessions known from an earlier part among them."""
    sessions = schema_of("sessions").empty_table() if sessions is None else sessions
    since = sessions["since"].cast(pa.int64()).fill_null(EVER)
    kind = pa.schema({name: pa.int64() for name in ("client", "broker", "at_min")})
    known = pa.table({"client": sessions["client"], "broker": sessions["broker"], "at_min": since}).cast(kind)
    return known if seen is None else pa.concat_tables([known, seen.select(kind.names).cast(kind)])


def subscriptions_of(events: pa.Table, ids: Mapping[str, pa.Array]) -> pa.Table:
    """A subscription runs from its subscribe to the unsubscribe of the same client and filter."""
    known = pc.is_in(events["kind"], pa.array(["subscribe", "unsubscribe"]))
    life = events.filter(known)
    asked = pc.coalesce(life["filter"], life["topic"])
    what = pc.binary_join_element_wise(pc.fill_null(life["group"], ""), pc.fill_null(asked, ""), "\x1f")
    life = life.append_column("what", what).sort_by(
        [("client", "ascending"), ("what", "ascending"), ("at", "ascending"), ("offset", "ascending")]
    )
    client, at = _ids(life["client"], ids["client"]), life["at"].cast(pa.int64()).fill_null(EVER).to_numpy()
    named = life["what"].to_numpy()
    same = (
        np.append((client[1:] == client[:-1]) & (named[1:] == named[:-1]), False) if len(client) else np.empty(0, bool)
    )
    opens = pc.equal(life["kind"], "subscribe").to_numpy() if life.num_rows else np.empty(0, bool)
    fresh = (
        opens & ~np.append(False, same[:-1] & opens[:-1]) if len(opens) else opens
    )  # asking again is no new subscription
    closes = np.full(len(at), EVER, dtype=np.int64)
    end = EVER
    for i in range(len(at) - 1, -1, -1):  # subscriptions are few
        if not same[i]:
            end = EVER
        if not opens[i]:
            end = int(at[i])
        else:
            closes[i] = end
    picked = life.filter(pa.array(fresh))
    plain = pc.if_else(picked["filter"].is_valid(), None, picked["topic"])
    topic = pc.index_in(plain.combine_chunks(), value_set=ids["topic"]) if picked.num_rows else pa.array([], pa.int32())
    columns = {
        "client": client[fresh],
        "topic": topic,
        "filter": picked["filter"],
        "dialect": picked["dialect"],
        "group": picked["group"],
    }
    return _lived(columns, at[fresh], closes[fresh], "subscriptions")


def links_of(pairs: Iterable[tuple[int, int]]) -> pa.Table:
    """Wired links of bridges, given as (broker that dials, broker at the far end)."""
    dials, far = (np.array(each) for each in zip(*sorted(pairs), strict=True))
    ends = {"left": np.minimum(dials, far), "right": np.maximum(dials, far), "dials": dials}
    return pa.table({**ends, "cost": np.ones(len(dials)), "wired": np.ones(len(dials), dtype=bool)})


def _ids(values: pa.ChunkedArray, names: pa.Array) -> Any:
    flat = values.combine_chunks()
    return pc.index_in(flat, value_set=names).cast(pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False)


def _lived(columns: Mapping[str, Any], since: Any, until: Any, table: str) -> pa.Table:
    """Rows with since and until, EVER being none."""
    time = schema_of(table).field("since").type
    ends = {
        "since": pa.array(since, pa.int64(), mask=since == EVER),
        "until": pa.array(until, pa.int64(), mask=until == EVER),
    }
    return pa.table({**columns, **{name: values.cast(time) for name, values in ends.items()}})
