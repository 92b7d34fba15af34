"""The tables of a trace and of a run, written once as Arrow schemas.

Times are UTC microseconds; `since` null means always, `until` null means still. A field that is not nullable must be
there in every row.

Ids of clients, brokers and topics are 64-bit hashes of their names (ids.py); those of regions and attributes are small
numbers from 0. What runs in process has dense numbers in their place: `Trace.read` and `Writer.write` translate.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from overlace.arrays.jit import Bools, Ints
from overlace.errors import BadTrace, Unknown

SCHEMA_VERSION = 3
"""Goes up when a reader of the old version would misread a table."""

TIME = pa.timestamp("us", tz="UTC")

Numbers = NDArray[Any]
"""Integers, floats or truths, as wide as a column of Arrow has them."""


def _table(*columns: tuple[str, pa.DataType], optional: str = "") -> pa.Schema:
    nullable = set(optional.split())
    return pa.schema([pa.field(name, kind, nullable=name in nullable) for name, kind in columns])


CONTENT = "content"
"""The dialect of subscriptions whose filters are on content: receivers follow from them at ingest."""


def is_content(dialects: pa.ChunkedArray) -> Bools:
    """Which subscriptions are on content, by their dialects; none (null) is a dialect of topics."""
    if dialects.null_count == len(dialects):
        return np.zeros(len(dialects), dtype=np.bool_)
    return np.array([each == CONTENT for each in dialects.to_pylist()], dtype=np.bool_)


_LIFE = (("since", TIME), ("until", TIME))

TRACE: dict[str, pa.Schema] = {
    "names": _table(
        ("kind", pa.string()), ("id", pa.int64()), ("name", pa.string()), ("since", TIME), optional="since"
    ),
    "messages": _table(
        ("message", pa.int64()), ("at", TIME), ("client", pa.int64()), ("topic", pa.int64()),
        ("attributes", pa.int64()), ("bytes", pa.int32()), ("audience", pa.int64()), ("weight", pa.int32()),
        optional="topic attributes bytes audience",
    ),
    "audiences": _table(("audience", pa.int64()), ("receivers", pa.list_(pa.int64()))),
    "traffic": _table(
        ("bucket", TIME), ("client", pa.int64()), ("topic", pa.int64()), ("attributes", pa.int64()),
        ("audience", pa.int64()), ("messages", pa.int64()), ("rows", pa.int64()), ("bytes", pa.int64()),
        optional="topic attributes",
    ),
    "doubles": _table(("bucket", TIME), ("client", pa.int64()), ("messages", pa.int64()), ("bytes", pa.int64())),
    "deliveries": _table(
        ("message", pa.int64()), ("client", pa.int64()), ("at", TIME), ("hops", pa.int16()), optional="at hops"
    ),
    "clients": _table(
        ("client", pa.int64()), ("region", pa.int32()), ("max_degree", pa.int32()), *_LIFE,
        optional="region max_degree since until",
    ),
    "access": _table(
        ("region", pa.int32()), ("broker", pa.int64()), ("latency_us", pa.int32()), ("cost", pa.float64())
    ),
    "sessions": _table(("client", pa.int64()), ("broker", pa.int64()), *_LIFE, optional="since until"),
    "subscriptions": _table(
        ("client", pa.int64()), ("topic", pa.int64()), ("filter", pa.string()), ("dialect", pa.string()),
        ("group", pa.string()), ("attributes", pa.int64()), ("bound_ms", pa.float64()), *_LIFE,
        optional="topic filter dialect group attributes bound_ms since until",
    ),
    "advertisements": _table(
        ("client", pa.int64()), ("attributes", pa.int64()), ("connections", pa.int32()), *_LIFE,
        ("filter", pa.string()), optional="attributes connections since until filter",
    ),
    "brokers": _table(
        ("broker", pa.int64()), ("region", pa.int32()), *_LIFE, ("cost", pa.float64()), ("capacity", pa.float64()),
        ("max_degree", pa.int32()), ("group", pa.string()), optional="region since until capacity max_degree group",
    ),
    "links": _table(
        ("left", pa.int64()), ("right", pa.int64()), ("cost", pa.float64()), ("latency_us", pa.int32()),
        ("wired", pa.bool_()), ("dials", pa.int64()), *_LIFE, optional="cost latency_us dials since until",
    ),
    "peers": _table(
        ("left", pa.int64()), ("right", pa.int64()), ("topic", pa.int64()), *_LIFE, optional="topic since until"
    ),
    "channels": _table(("combination", pa.int64()), ("channel", pa.int64()), *_LIFE, optional="since until"),
    "sources": _table(
        ("digest", pa.string()), ("name", pa.string()), ("format", pa.string()), ("lines", pa.int64()),
        ("kept", pa.int64()), ("ignored", pa.int64()), ("quarantined", pa.int64()), ("duplicates", pa.int64()),
    ),
    "quarantine": _table(
        ("source", pa.string()), ("reason", pa.string()), ("count", pa.int64()), ("sample", pa.string())
    ),
    "fragments": _table(
        ("message", pa.int64()), ("source", pa.int64()), ("at", TIME), ("client", pa.int64()), ("topic", pa.int64()),
        ("attributes", pa.int64()), ("bytes", pa.int64()), ("audience", pa.int64()),
        ("receivers", pa.list_(pa.int64())), ("weight", pa.int64()), ("heard", pa.int64()),
        ("rows", pa.int64()), ("publishes", pa.int64()),
        ("most", pa.int64()), ("balance", pa.int64()),
        optional="source at client topic attributes bytes audience receivers weight",
    ),
}  # fmt: skip
"""What ingest writes."""

HASHED = ("client", "broker", "topic")
"""Kinds of things whose ids are hashes of their names."""


def hashed_columns(table: str) -> dict[str, str]:
    """The columns of a table that hold hashed ids, or lists of them, and of what kind."""
    ends = "client" if table == "peers" else "broker"
    kinds = {**{kind: kind for kind in HASHED}, "receivers": "client", "left": ends, "right": ends, "dials": "broker"}
    return {column: kind for column, kind in kinds.items() if column in TRACE[table].names}


FOR_INGEST = ("sources", "quarantine", "fragments")
"""The accounts of the logs, and what ingest keeps of messages whose rows are not all there yet."""

RUN: dict[str, pa.Schema] = {
    "overlay": _table(("facet", pa.string()), ("left", pa.int64()), ("right", pa.int64())),
    "changes": _table(
        ("facet", pa.string()), ("action", pa.int8()), ("left", pa.int64()), ("right", pa.int64()),
        ("step", pa.int64()),
    ),
    "steps": _table(("gain", pa.float64()), ("reason", pa.int64())),
    "runs": _table(
        ("run", pa.string()), ("planner", pa.string()), ("parameters", pa.string()), ("seed", pa.int64()),
        ("plan", pa.string()), ("overlay", pa.string()), ("part", pa.string()), ("since", TIME), ("until", TIME),
        ("version", pa.string()), ("seconds", pa.float64()), optional="plan",
    ),
    "trees": _table(
        ("channel", pa.int64()), ("client", pa.string()), ("parent", pa.string()), ("delay_ms", pa.float64()),
        ("bound_ms", pa.float64()), ("met", pa.bool_()), optional="parent bound_ms met",
    ),
    "metrics": _table(
        ("run", pa.string()), ("metric", pa.string()), ("scope", pa.string()), ("key", pa.int64()),
        ("other", pa.int64()), ("value", pa.float64()), optional="other",
    ),
}  # fmt: skip
"""What observe, solve and replay write; a plan's steps have one more column for each argument of its reasons."""


def _integers(names: str) -> pa.Schema:
    return _table(*((name, pa.int64()) for name in names.split()))


OBSERVATION: dict[str, pa.Schema] = {
    "overlay": RUN["overlay"],
    "flows": _integers("sender receiver messages bytes"),
    "classes": _table(("members", pa.large_list(pa.int64())), ("demand", pa.int64()), ("bytes", pa.int64())),
    "interests": _integers("client topic"),
    "offers": _integers("publisher attributes connections messages"),
    "requests": _integers("client attributes"),
    "observed_brokers": _table(
        ("region", pa.int64()), ("broker_cost", pa.float64()), ("capacity", pa.float64()), ("max_degree", pa.int64())
    ),
    "observed_links": _table(
        ("left", pa.int64()), ("right", pa.int64()), ("link_cost", pa.float64()), ("latency_us", pa.int64())
    ),
    "observed_clients": _integers("sent sent_bytes region"),
    "observed_access": _table(
        ("access_cost", pa.float64()), ("access_latency_us", pa.int64()), optional="access_cost access_latency_us"
    ),
    "names": TRACE["names"],
}
"""The tables of RUN/observation: the objects of the model, row i being broker, link, client or class i."""

TABLES: dict[str, pa.Schema] = {**TRACE, **RUN, **OBSERVATION}


def check_version(version: object, what: str, remedy: str) -> None:
    """Refuse what another schema wrote; `remedy` names the command that makes it anew."""
    if not isinstance(version, int) or version > SCHEMA_VERSION:
        raise BadTrace(
            f"{what} has schema version {version}; this Overlace reads up to {SCHEMA_VERSION}. Update Overlace."
        )
    if version < SCHEMA_VERSION:
        raise BadTrace(f"{what} has schema version {version}; this Overlace reads {SCHEMA_VERSION}. {remedy}")


def schema_of(name: str) -> pa.Schema:
    """The schema of a table; the nearest names if there is none of that name."""
    if name not in TABLES:
        raise Unknown("table", name, TABLES)
    return TABLES[name]


def conform(table: pa.Table, name: str) -> pa.Table:
    """The table with exactly its schema's columns and types, or an error that names the difference."""
    schema = schema_of(name)
    missing = [f.name for f in schema if f.name not in table.column_names and not f.nullable]
    extra = [column for column in table.column_names if column not in schema.names]
    if missing or extra:
        raise BadTrace(
            f"{name}: columns missing: {', '.join(missing) or 'none'}; not known: {', '.join(extra) or 'none'}. "
            f"Expected {', '.join(schema.names)}."
        )
    columns = []
    for each in schema:
        if each.name not in table.column_names:
            columns.append(pa.nulls(table.num_rows, each.type))
            continue
        values = table[each.name]
        try:
            columns.append(values if values.type == each.type else values.cast(each.type))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise BadTrace(f"{name}.{each.name}: expected {each.type}, found {values.type}: {error}") from None
        if not each.nullable and values.null_count:
            raise BadTrace(f"{name}.{each.name}: {values.null_count} of {len(values):,} rows are empty")
    return pa.table(columns, schema=schema)


# --- between Arrow and numpy -------------------------------------------------------------------------
#
# Arrow's own ways (pa.array, pa.scalar, to_numpy) import pandas, four tenths of a second in every fresh
# process. These work on the buffers, for the types that our tables have.


def numbers(column: pa.Array | pa.ChunkedArray, null: int | float | bool | None = None) -> Numbers:
    """Integers, floats, truths, or times as microseconds; read-only, not copied if they lie in one piece.

    A null is what `null` says; where it says nothing, a null is refused.
    """
    if isinstance(column, pa.ChunkedArray):
        if column.num_chunks != 1:
            parts = [numbers(chunk, null) for chunk in column.chunks]
            return np.concatenate(parts) if parts else np.empty(0, _dtype(column.type))
        column = column.chunk(0)
    place = slice(column.offset, column.offset + len(column))
    known, buffer = column.buffers()
    raw = buffer if buffer is not None else b""
    if pa.types.is_boolean(column.type):
        values: Numbers = _bits(raw)[place]
    else:
        values = np.frombuffer(raw, dtype=_dtype(column.type))[place]
    if column.null_count:
        if null is None:
            raise ValueError(f"{column.null_count:,} of {len(column):,} values are empty")
        fits = values.dtype.kind != "i" or abs(null) <= np.iinfo(values.dtype).max
        values = np.where(_bits(known)[place], values, null if fits else np.int64(null))
    values.flags.writeable = False
    return values


def arrow(values: ArrayLike, kind: pa.DataType, missing: ArrayLike | None = None) -> pa.Array:
    """Numbers as an Arrow column, null where they are missing; not copied if they are of this kind already."""
    whole = np.ascontiguousarray(values, dtype=_dtype(kind))
    known = None if missing is None or not np.any(missing) else _buffer(~np.asarray(missing, dtype=bool))
    data = _buffer(whole) if pa.types.is_boolean(kind) else pa.py_buffer(whole)
    return pa.Array.from_buffers(kind, len(whole), [known, data])


def table_of(name: str, *columns: Any) -> pa.Table:
    """A table from its columns in order: numbers, strings, or what is Arrow's already."""
    schema = schema_of(name)
    made = []
    for values, each in zip(columns, schema, strict=True):
        if not isinstance(values, pa.Array):
            values = texts(values) if pa.types.is_string(each.type) else arrow(values, each.type)
        made.append(values)
    return pa.table(made, schema=schema)


def groups(lists: pa.Array | pa.ChunkedArray) -> tuple[Ints, Ints]:
    """(start, values): row i of a column of lists is values[start[i]:start[i + 1]]."""
    if isinstance(lists, pa.ChunkedArray):
        lists = lists.chunk(0) if lists.num_chunks == 1 else pa.concat_arrays([*lists.chunks, pa.nulls(0, lists.type)])
    start = numbers(lists.offsets).astype(np.int64)
    return start - start[0], numbers(lists.values)[start[0] : start[-1]]


def lists(start: ArrayLike, values: ArrayLike, kind: pa.DataType) -> pa.Array:
    """Groups of numbers as an Arrow column of lists."""
    offsets = pa.int64() if pa.types.is_large_list(kind) else pa.int32()
    held = arrow(values, kind.value_type)
    return pa.Array.from_buffers(kind, len(np.asarray(start)) - 1, arrow(start, offsets).buffers()[:2], children=[held])


def texts(words: Sequence[str | None]) -> pa.Array:
    """Strings as an Arrow column."""
    coded = [b"" if word is None else word.encode() for word in words]
    start = np.append(0, np.cumsum([len(each) for each in coded])).astype(np.int32)
    missing = np.array([word is None for word in words], dtype=bool)
    known = _buffer(~missing) if missing.any() else None
    return pa.StringArray.from_buffers(len(coded), pa.py_buffer(start), pa.py_buffer(b"".join(coded)), known)


def _dtype(kind: pa.DataType) -> np.dtype[np.generic]:
    return np.dtype("int64" if pa.types.is_timestamp(kind) else str(kind))


def _bits(buffer: pa.Buffer | bytes) -> Bools:
    return np.unpackbits(np.frombuffer(buffer, dtype=np.uint8), bitorder="little").view(np.bool_)


def _buffer(flags: Bools) -> pa.Buffer:
    return pa.py_buffer(np.packbits(flags, bitorder="little"))
