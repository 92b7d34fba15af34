"""What every source yields: EVENT, one row a line that says something, names as they are logged.

A format is a `Format`: how to tell it, what it honours, and a function from bytes to events. With scope
`line` each line stands alone and a file may be cut between any two; with scope `file` state runs
through the whole file. Every line becomes exactly one event of its own, so that lines in = events out:
what is not used is an event of kind `ignored` with its kind of line as reason, what cannot be read one
of kind `bad` with the reason and a sample. Names are dictionary-encoded, batch by batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from overlace.trace.notes import ReadSettings

TIME = pa.timestamp("us", tz="UTC")
NAME = pa.dictionary(pa.int32(), pa.string())

EVENT = pa.schema(
    [
        pa.field("offset", pa.int64(), nullable=False),  # of the line's first byte in its source, or a row's number
        pa.field("kind", NAME, nullable=False),  # see KINDS
        pa.field("reason", pa.string()),  # of an ignored or bad line
        pa.field("sample", pa.string()),  # of a bad line: its first 200 characters
        pa.field("at", TIME),
        pa.field("client", NAME),  # who published, connected or subscribed
        pa.field("broker", NAME),  # where
        pa.field("topic", NAME),
        pa.field("attributes", pa.list_(NAME)),
        pa.field("bytes", pa.int64()),
        pa.field("receivers", pa.list_(NAME)),  # null: not logged; empty: nobody
        pa.field("message", pa.binary(16)),  # rows with one are one message; null: a message of its own
        pa.field("rows", pa.int64()),  # of the source that the event stands for; null: 1
        pa.field("key", pa.string()),  # a session's connection; the message in a send to a bridge; a link's far end
        pa.field("weight", pa.int64()),  # how many messages the row stands for; null: 1
        pa.field("filter", pa.string()),  # a subscription's, where it is no plain topic
        pa.field("dialect", pa.string()),  # mqtt or nats: how its wildcards are written
        pa.field("group", pa.string()),  # a shared subscription's
        pa.field("user", pa.string()),  # who logged in, of a connect
        pa.field("ends", pa.bool_()),  # of a connect or disconnect: the session from before and what it asked for end
        pa.field("balance", pa.int64()),  # adds up to WHOLE over all rows of a message; null: nothing is to be proven
    ]
)

WHOLE = 0x6E61_7473_6861_6C6C
"""What balances of the rows of one message add up to, modulo 2 ** 64, if no row is missing and none is too many."""

KINDS = (
    "message",  # published; receivers if they were logged
    "delivery",  # receivers of a message that another line publishes: both have its key
    "counts",  # messages and bytes already summed over the bucket at `at`
    "connect",  # client opened a session at broker
    "disconnect",
    "subscribe",
    "unsubscribe",  # from a topic or filter; without one from all
    "advertise",  # client with its attributes; weight holds its connections
    "bridge",  # client is the far end of a link, seen at broker; topic: the link's name
    "link",  # key is the broker at the far end of a link from broker; with a reason the line else counts as ignored
    "follows",  # a line whose content went into the event of another line (a send, a QoS handshake)
    "ignored",
    "bad",
)
"""`message` to `follows` are kept (a link without a reason among them), `ignored` and `bad` are accounted for."""

Scope = Literal["line", "file"]
Column: TypeAlias = "pa.Array | pa.ChunkedArray | NDArray[np.generic] | str | None"
Blocks = Iterator[tuple[int, bytes]]


class Settled(ReadSettings, total=False):
    """How a source is read: what was asked for, and what its first bytes settled for all of it."""

    broker: str | None
    bridges: Sequence[str]
    question: str  # what kinds of rows there are, where no filter says which are messages
    seen: Mapping[str, Sequence[str]]  # what the columns of filters hold in the first rows
    whole_seconds: bool  # all times of the first rows are


@dataclass(frozen=True)
class Format:
    """A log format: its name, its scope, how sure a look at the first bytes is, and how to read it."""

    name: str
    scope: Scope
    sniff: Callable[[bytes], float]  # 0: surely not, 1: surely
    read: Callable[[Blocks, Settled], Iterator[pa.RecordBatch]]
    """From blocks of whole lines with the offset of each block's first byte, and options, to events."""
    options: frozenset[str] = frozenset()
    """What it honours; anything else that is asked for is refused."""
    settle: Callable[[bytes, Settled], Settled] = lambda sample, options: options
    """What holds for the whole source, from its first bytes and what was asked: columns, units, delimiter."""
    keys: Literal["source", "call"] = "source"
    """Whether a key names a message in its own source, or in all that are ingested together."""
    identity: str = "client"
    """Who is one client, unless the user says otherwise."""
    at_home: bool = False
    """Whether receivers are at home at the broker that logs them."""
    finished: Callable[[bytes], bool] = lambda line: False
    """Whether a line without an end that cannot be read is whole nevertheless: nothing that follows would help."""
    lines: Callable[[Blocks], Blocks] | None = None
    """From blocks of the file, cut anywhere, to blocks of whole lines; none: its lines are what it holds."""
    one_log: bool = False
    """Whether all files of it in a trace are one log, in which a key names one message."""
    content: bool = False
    """Whether what its messages say is read unasked."""
    one_broker: bool = False
    """Whether a source is the log of one broker, named by the file unless the user names it."""


def events(offset: pa.Array | NDArray[np.int64], **columns: Column) -> pa.RecordBatch:
    """A batch of events from some of its columns; the others are empty."""
    rows, columns = len(offset), {"offset": offset, **columns}
    return pa.RecordBatch.from_arrays(
        [_column(columns.get(each.name), each.type, rows) for each in EVENT], schema=EVENT
    )


def _column(values: Column, kind: pa.DataType, rows: int) -> pa.Array:
    if values is None:
        return pa.nulls(rows, kind)
    if isinstance(values, str):  # the same in every row
        return pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int32)), pa.array([values], pa.string()))
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    array: pa.Array = values if isinstance(values, pa.Array) else pa.array(values)
    if array.type == kind:
        return array
    if kind == NAME:
        return array.cast(pa.string()).dictionary_encode()
    if kind == pa.list_(NAME):
        if pa.types.is_null(array.type):
            return pa.nulls(rows, kind)
        array = array.cast(pa.list_(pa.string()))
        sizes = array.value_lengths().fill_null(0).to_numpy(zero_copy_only=False)
        start = pa.array(np.append(0, np.cumsum(sizes)).astype(np.int32))
        missing = array.is_null() if array.null_count else None
        return pa.ListArray.from_arrays(start, array.flatten().dictionary_encode(), mask=missing)
    return array.cast(kind)


def in_one_piece(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """A column as one array."""
    if isinstance(column, pa.ChunkedArray):
        return pa.concat_arrays(column.chunks) if column.num_chunks else pa.nulls(0, column.type)
    return column
