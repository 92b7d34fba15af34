"""The tables of a trace and of a run, written once as Arrow schemas.

Times are UTC microseconds; `since` null means always, `until` null means still. Ids are dense from 0.
A field that is not nullable must be there in every row.
"""

from __future__ import annotations

import pyarrow as pa

from overlace.errors import BadTrace, Unknown

SCHEMA_VERSION = 1
"""Goes up when a reader of the old version would misread a table."""

TIME = pa.timestamp("us", tz="UTC")


def _table(*columns: tuple[str, pa.DataType], optional: str = "") -> pa.Schema:
    nullable = set(optional.split())
    return pa.schema([pa.field(name, kind, nullable=name in nullable) for name, kind in columns])


_LIFE = (("since", TIME), ("until", TIME))

TRACE: dict[str, pa.Schema] = {
    "names": _table(("kind", pa.string()), ("id", pa.int32()), ("name", pa.string())),
    "messages": _table(
        ("message", pa.int64()), ("at", TIME), ("client", pa.int32()), ("topic", pa.int32()),
        ("attributes", pa.int64()), ("bytes", pa.int32()), ("audience", pa.int64()), ("weight", pa.int32()),
        optional="topic attributes bytes audience",
    ),
    "audiences": _table(("audience", pa.int64()), ("receivers", pa.list_(pa.int32()))),
    "traffic": _table(
        ("bucket", TIME), ("client", pa.int32()), ("topic", pa.int32()), ("attributes", pa.int64()),
        ("audience", pa.int64()), ("messages", pa.int64()), ("rows", pa.int64()), ("bytes", pa.int64()),
        optional="topic attributes",
    ),
    "deliveries": _table(
        ("message", pa.int64()), ("client", pa.int32()), ("at", TIME), ("hops", pa.int16()), optional="at hops"
    ),
    "clients": _table(("client", pa.int32()), ("region", pa.int32()), optional="region"),
    "access": _table(
        ("region", pa.int32()), ("broker", pa.int32()), ("latency_us", pa.int32()), ("cost", pa.float64())
    ),
    "sessions": _table(("client", pa.int32()), ("broker", pa.int32()), *_LIFE, optional="since until"),
    "subscriptions": _table(
        ("client", pa.int32()), ("topic", pa.int32()), ("filter", pa.string()), ("dialect", pa.string()),
        ("group", pa.string()), ("attributes", pa.int64()), *_LIFE,
        optional="topic filter dialect group attributes since until",
    ),
    "advertisements": _table(
        ("client", pa.int32()), ("attributes", pa.int64()), ("connections", pa.int32()), *_LIFE,
        optional="connections since until",
    ),
    "brokers": _table(
        ("broker", pa.int32()), ("region", pa.int32()), ("cost", pa.float64()), ("capacity", pa.float64()),
        ("max_degree", pa.int32()), ("group", pa.string()), optional="capacity max_degree group",
    ),
    "links": _table(
        ("left", pa.int32()), ("right", pa.int32()), ("cost", pa.float64()), ("latency_us", pa.int32()),
        ("wired", pa.bool_()), ("dials", pa.int32()), *_LIFE, optional="latency_us dials since until",
    ),
    "peers": _table(
        ("left", pa.int32()), ("right", pa.int32()), ("topic", pa.int32()), *_LIFE, optional="topic since until"
    ),
    "channels": _table(("combination", pa.int64()), ("channel", pa.int64()), *_LIFE, optional="since until"),
    "sources": _table(
        ("digest", pa.string()), ("name", pa.string()), ("format", pa.string()), ("lines", pa.int64()),
        ("kept", pa.int64()), ("ignored", pa.int64()), ("quarantined", pa.int64()), ("duplicates", pa.int64()),
    ),
    "quarantine": _table(
        ("source", pa.string()), ("reason", pa.string()), ("count", pa.int64()), ("sample", pa.string())
    ),
}  # fmt: skip
"""What ingest writes."""

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
"""The tables of RUN/observation: the objects of model.py, row i being broker, link, client or class i."""

TABLES: dict[str, pa.Schema] = {**TRACE, **RUN, **OBSERVATION}


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
            columns.append(values.cast(each.type))
        except pa.ArrowInvalid as error:
            raise BadTrace(f"{name}.{each.name}: expected {each.type}, found {values.type}: {error}") from None
        if not each.nullable and values.null_count:
            raise BadTrace(f"{name}.{each.name}: {values.null_count} of {len(values):,} rows are empty")
    return pa.table(columns, schema=schema)
