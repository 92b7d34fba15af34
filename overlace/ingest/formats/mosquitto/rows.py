"""A log whose sends are matched, as events: one a line, in batches."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from overlace.arrays.jit import Bools, Ints
from overlace.ingest.events import TIME, events
from overlace.ingest.formats.mosquitto.lines import NEVER, Numbers, is_any
from overlace.ingest.formats.mosquitto.log import Log
from overlace.ingest.formats.mosquitto.sends import Matched
from overlace.ingest.formats.mosquitto.sessions import ends_of
from overlace.ingest.formats.mosquitto.shapes import (
    BAD,
    BRIDGE,
    CODES,
    CONNECT,
    EXPIRED,
    FILTER,
    FILTER_OFF,
    GONE,
    LEFT,
    LINK,
    LINK_IN,
    LINK_TEXT,
    OTHER,
    REASONS,
    RECEIVE,
    REDELIVERY,
    SEND,
    SYS,
)

ROWS = 1 << 17  # of a batch that goes out

_KINDS = "message connect disconnect subscribe unsubscribe bridge follows ignored bad".split()
_KIND = {name: code for code, name in enumerate(_KINDS)}
_KIND_OF = np.full(CODES, _KIND["follows"], np.int64)
_KIND_OF[[OTHER, RECEIVE, CONNECT, BAD]] = [_KIND[each] for each in ("ignored", "message", "connect", "bad")]
_KIND_OF[[GONE, LEFT]], _KIND_OF[FILTER], _KIND_OF[[FILTER_OFF, EXPIRED]] = (
    _KIND[each] for each in ("disconnect", "subscribe", "unsubscribe")
)
_KIND_OF[[LINK, LINK_IN]] = _KIND["bridge"]
_KIND_NAMES, _REASON_NAMES = pa.array(_KINDS), pa.array(REASONS, pa.string())


def rows_of(log: Log, found: Matched, broker: str | None) -> Iterator[pa.RecordBatch]:
    """One event a line, in batches."""
    kind, reason = _kinds(log, found)
    client = np.where(is_any(log.code, OTHER, BAD), -1, found.publisher)
    sample = _places(log.sampled, log.code == BAD)
    address = _places(log.addressed, kind == _KIND["bridge"])
    asked = is_any(log.code, FILTER, FILTER_OFF, LINK_TEXT) & (found.topic >= 0)
    sized = is_any(log.code, RECEIVE, SEND)
    plain, wild, sharing = _filter_columns(log.topics)
    ends = ends_of(log)
    over, ending = np.zeros(len(kind), bool), np.zeros(len(kind), bool)
    over[ends.line], ending[ends.line] = ends.over, True
    ending &= is_any(kind, _KIND["connect"], _KIND["disconnect"])
    listed = (log.code == RECEIVE) & ~found.again
    listed |= (found.start[1:] > found.start[:-1]) | (kind == _KIND["message"])
    for first in range(0, len(kind), ROWS):
        part = slice(first, first + ROWS)
        topic, of_filter = found.topic[part], asked[part]
        rows = len(topic)
        start = found.start[first : first + rows + 1]
        values = _take_names(log.clients, found.receivers[start[0] : start[-1]])
        yield events(
            offset=log.offset[part],
            kind=_take_names(_KIND_NAMES, kind[part]),
            reason=pc.coalesce(_take_names(log.addresses, address[part]), _take_names(_REASON_NAMES, reason[part])),
            sample=_take_names(log.samples, sample[part]),
            at=pa.array(log.at[part], pa.int64(), mask=log.at[part] == NEVER).cast(TIME),
            client=_take_names(log.clients, client[part]),
            broker=pa.repeat(pa.scalar(broker, pa.string()), rows),
            topic=pc.coalesce(
                _take_names(plain, np.where(of_filter, topic, -1)),
                _take_names(log.topics, np.where(of_filter | (kind[part] == _KIND["bad"]), -1, topic)),
            ),
            bytes=pa.array(log.size[part], mask=~sized[part]),
            receivers=pa.ListArray.from_arrays(
                pa.array(start - start[0], pa.int32()), values, mask=pa.array(~listed[part])
            ),
            key=pa.array(found.key[part], mask=found.key[part] < 0).cast(pa.string()),
            filter=_take_names(wild, np.where(of_filter, topic, -1)),
            dialect=_take_names(pa.array(["mqtt"]), np.where(of_filter, 0, -1)),
            group=_take_names(sharing, np.where(of_filter, topic, -1)),
            user=_take_names(log.users, np.where(kind[part] == _KIND["connect"], log.user[part], -1)),
            ends=pa.array(over[part], mask=~ending[part]),
        )


def _kinds(log: Log, found: Matched) -> tuple[Ints, Ints]:
    """(kind, reason) of each line, as codes."""
    kind = _KIND_OF[log.code]
    reason = found.reason.astype(np.int64)
    kind[(log.code == SEND) & (reason == SYS)] = _KIND["ignored"]
    kind[found.wills], reason[found.wills] = _KIND["message"], 0
    kind[found.again], reason[found.again] = _KIND["follows"], REDELIVERY
    theirs = log.bridge[found.publisher]
    theirs &= (kind == _KIND["message"]) | is_any(log.code, GONE, LEFT, FILTER, FILTER_OFF, EXPIRED)
    kind[theirs], reason[theirs] = _KIND["follows"], BRIDGE
    return kind, reason


def _places(lines: Ints, wanted: Bools) -> Ints:
    """For each line that is wanted its place among some lines, else -1."""
    places = np.full(len(wanted), -1, np.int64)
    places[lines] = np.arange(len(lines))
    return np.where(wanted, places, -1)


def _take_names(names: pa.Array, codes: Numbers) -> pa.Array:
    """The names of codes, null for -1."""
    return names.take(pa.array(codes, pa.int64(), mask=np.asarray(codes) < 0)).cast(pa.string())


def _filter_columns(names: pa.Array) -> tuple[pa.Array, pa.Array, pa.Array]:
    """(topic, filter, group) of subscriptions to these names: a filter only where it has wildcards."""
    parts = pc.extract_regex(names, r"^\$share/(?P<group>[^/]*)/(?P<rest>.*)$")
    inner = pc.coalesce(pc.struct_field(parts, "rest"), names)
    wild = pc.match_substring_regex(inner, r"(^|/)(\+|#)(/|$)")
    return pc.if_else(wild, None, inner), pc.if_else(wild, inner, None), pc.struct_field(parts, "group")
