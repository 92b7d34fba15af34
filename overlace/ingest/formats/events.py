"""What every format turns a log into: events, one row a line that says something, names as they are logged.

A format is a `Format`: how to tell it, its scope, and a function from bytes to events. With scope
`line` each line stands alone and a file may be cut between any two; with scope `file` state runs
through the whole file. Every line becomes exactly one event of its own, so that lines in = events out:
what is not used is an event of kind `ignored` with its kind of line as reason, what cannot be read one
of kind `bad` with the reason and a sample.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import pyarrow as pa

TIME = pa.timestamp("us", tz="UTC")

EVENT = pa.schema(
    [
        pa.field("offset", pa.int64(), nullable=False),  # of the line's first byte in its source
        pa.field("kind", pa.string(), nullable=False),  # see KINDS
        pa.field("reason", pa.string()),  # of an ignored or bad line
        pa.field("sample", pa.string()),  # of a bad line: its first 200 characters
        pa.field("at", TIME),
        pa.field("client", pa.string()),  # who published, connected or subscribed
        pa.field("broker", pa.string()),  # where
        pa.field("topic", pa.string()),
        pa.field("attributes", pa.list_(pa.string())),
        pa.field("bytes", pa.int64()),
        pa.field("receivers", pa.list_(pa.string())),  # null: not logged; empty: nobody
        pa.field("key", pa.string()),  # messages with one key are one; of sessions and subscriptions: the connection
        pa.field("weight", pa.int64()),  # how many messages the row stands for; null: 1
        pa.field("filter", pa.string()),  # a subscription's, where it is no plain topic
        pa.field("dialect", pa.string()),  # mqtt or nats: how its wildcards are written
        pa.field("group", pa.string()),  # a shared subscription's
        pa.field("user", pa.string()),  # who logged in, of a connect
        pa.field("ends", pa.bool_()),  # of a connect or disconnect: the session from before and what it asked for end
    ]
)

KINDS = (
    "message",  # published; receivers if they were logged
    "counts",  # messages and bytes already summed over the bucket at `at`
    "connect",  # client opened a session at broker
    "disconnect",
    "subscribe",
    "unsubscribe",  # from a topic or filter; without one from all
    "advertise",  # client with its attributes; weight holds its connections
    "bridge",  # client is the far end of a link, seen at broker; topic: the link's name
    "follows",  # a line whose content went into the event of another line (a send, a QoS handshake)
    "ignored",
    "bad",
)
"""`message` to `bridge` and `follows` are kept, `ignored` and `bad` are accounted for."""

Scope = Literal["line", "file"]


@dataclass(frozen=True)
class Format:
    """A log format: its name, its scope, how sure a look at the first bytes is, and how to read it."""

    name: str
    scope: Scope
    sniff: Callable[[bytes], float]  # 0: surely not, 1: surely
    read: Callable[[Iterator[tuple[int, bytes]], Mapping[str, Any]], Iterator[pa.RecordBatch]]
    """From blocks of whole lines with the offset of each block's first byte, and options, to events."""
    options: Mapping[str, str] = field(default_factory=dict)  # name -> help


def events(**columns: Any) -> pa.RecordBatch:
    """A batch of events from some of its columns; the others are empty."""
    rows = len(next(iter(columns.values())))
    arrays = []
    for each in EVENT:
        values = columns.get(each.name)
        if values is None:
            arrays.append(pa.nulls(rows, each.type))
        elif isinstance(values, pa.ChunkedArray):
            arrays.append(values.combine_chunks().cast(each.type))
        elif isinstance(values, pa.Array):
            arrays.append(values.cast(each.type))
        else:
            arrays.append(pa.array(values, each.type))
    return pa.RecordBatch.from_arrays(arrays, schema=EVENT)
