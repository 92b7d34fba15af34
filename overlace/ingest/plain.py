"""Plain files for the tables of a trace: brokers, links, clients, sessions and so on, by name.

A file is CSV, JSON lines or Parquet with the columns of its table (`overlace schema TABLE`), in which
clients, brokers, topics and regions stand by name. `interests` is client and topic, without times; a
JSON object of lists ({"user": ["topic", ...]}) is that too. New names get ids after those that are there.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv
import pyarrow.json as pajson
import pyarrow.parquet as pq

from overlace.errors import BadTrace, Unknown
from overlace.ingest.columns import times
from overlace.ingest.formats.csv import layout
from overlace.ingest.topologies import Topology
from overlace.model import Names
from overlace.trace.tables import schema_of

TABLES = ("clients access brokers links sessions subscriptions advertisements peers channels interests").split()
KINDS = {
    "client": "client", "broker": "broker", "topic": "topic", "region": "region", "left": "broker", "right": "broker",
    "dials": "broker",
}  # fmt: skip
"""Columns that hold ids, and of what."""


def read_plain(path: str, table: str, options: Mapping[str, Any]) -> pa.Table:
    """A file as text or numbers, its columns renamed as the options' `map` says (table column = file column)."""
    if table not in TABLES:
        raise Unknown("table", table, TABLES)
    try:
        rows = _read(path, options)
    except (OSError, pa.ArrowException, ValueError) as error:
        raise BadTrace(f"{path}: cannot be read as a table: {str(error).splitlines()[0]}") from None
    asked = dict(options.get("map") or {})
    for column in asked.values():
        if column not in rows.column_names:
            raise Unknown("column", column, rows.column_names)
    back = {column: name for name, column in asked.items()}
    return rows.rename_columns([back.get(name, name.strip().lower()) for name in rows.column_names])


def _read(path: str, options: Mapping[str, Any]) -> pa.Table:
    plain = Path(path.removesuffix(".gz"))
    if plain.suffix == ".parquet":
        return pq.read_table(path)
    data = gzip.decompress(Path(path).read_bytes()) if path.endswith(".gz") else Path(path).read_bytes()
    if plain.suffix == ".json" and data.lstrip()[:1] == b"{":
        lists = json.loads(data)
        who = np.repeat(list(lists), [len(each) for each in lists.values()])
        return pa.table({"client": who.astype(str), "topic": [str(t) for each in lists.values() for t in each]})
    if plain.suffix in (".jsonl", ".ndjson", ".json"):
        return pajson.read_json(pa.BufferReader(data))
    shape = layout(data[:4096], options)
    return pacsv.read_csv(
        pa.BufferReader(data),
        pacsv.ReadOptions(column_names=shape["columns"], skip_rows=1 if shape["header"] else 0),
        pacsv.ParseOptions(delimiter=shape["delimiter"]),
        pacsv.ConvertOptions(
            column_types=dict.fromkeys(shape["columns"], pa.string()), strings_can_be_null=True, null_values=[""]
        ),
    )


def encoded(
    rows: pa.Table, table: str, names: Names, *, both_ways: bool = False
) -> tuple[str, pa.Table, dict[str, list[str]]]:
    """(table, rows, names): with ids for names, new names among the old; interests become subscriptions."""
    if table == "interests":
        rows = (
            rows.select(["client", "topic"]) if {"client", "topic"} <= set(rows.column_names) else _refuse(rows, table)
        )
        if both_ways:
            turned = pa.table({"client": rows["topic"], "topic": rows["client"]})
            rows = pa.concat_tables([rows, turned])
        rows = rows.group_by(["client", "topic"]).aggregate([])
        table = "subscriptions"
    schema = schema_of(table)
    unknown = [name for name in rows.column_names if name not in schema.names]
    missing = [each.name for each in schema if not each.nullable and each.name not in rows.column_names]
    missing = [name for name in missing if name not in _DEFAULTS.get(table, {})]
    if unknown or missing:
        _refuse(rows, table)
    known = {kind: list(values) for kind, values in names.items()}
    columns: dict[str, Any] = {}
    for name in rows.column_names:
        values, kind = rows[name].combine_chunks(), schema.field(name).type
        if name in KINDS and not (name == "region" and _numbers(values)):
            kind_of = "client" if table == "peers" and name in ("left", "right") else KINDS[name]
            columns[name] = _ids(values, known.setdefault(kind_of, []))
        elif name == "attributes":
            columns[name] = _mask(values, known.setdefault("attribute", []))
        elif pa.types.is_timestamp(kind):
            columns[name] = _times(values.cast(pa.string()), f"{table}.{name}")
        elif pa.types.is_boolean(kind):
            columns[name] = pc.is_in(pc.utf8_lower(values.cast(pa.string())), pa.array(["1", "true", "yes", "t", "y"]))
        else:
            columns[name] = _cast(values, kind, f"{table}.{name}")
    for name, default in _DEFAULTS.get(table, {}).items():
        if name not in columns:
            columns[name] = pa.array(np.full(rows.num_rows, default))
    if table == "links":
        left, right = (np.asarray(columns[side].to_numpy(zero_copy_only=False)) for side in ("left", "right"))
        columns["left"], columns["right"] = pa.array(np.minimum(left, right)), pa.array(np.maximum(left, right))
    if table == "brokers" and "region" not in rows.column_names:
        columns["region"] = columns["broker"]
    return table, pa.table(columns), known


_DEFAULTS: Mapping[str, Mapping[str, Any]] = {
    "brokers": {"cost": 1.0, "region": 0},
    "links": {"cost": 1.0, "wired": True},
    "access": {"latency_us": 0, "cost": 0.0},
}


def _refuse(rows: pa.Table, table: str) -> Any:
    expected = "client topic" if table == "interests" else " ".join(schema_of(table).names)
    raise BadTrace(
        f"{table}: found the columns {', '.join(rows.column_names)}; expected {expected}. "
        "Name them with --map COLUMN=FILE_COLUMN."
    )


def _times(text: pa.Array, what: str) -> pa.Array:
    found, ok = times(text)
    wrong = ~ok & text.is_valid().to_numpy(zero_copy_only=False)
    if wrong.any():
        raise BadTrace(f"{what}: {text[int(np.flatnonzero(wrong)[0])].as_py()!r} is not a time")
    return found


def _cast(values: pa.Array, kind: pa.DataType, what: str) -> pa.Array:
    try:
        return values.cast(kind)
    except pa.ArrowInvalid as error:
        raise BadTrace(f"{what}: expected {kind}; {str(error).splitlines()[0]}") from None


def _numbers(values: pa.Array) -> bool:
    return bool(pa.types.is_integer(values.type))


def _ids(values: pa.Array, names: list[str]) -> pa.Array:
    """Ids of names; new ones are added, sorted."""
    text = values.cast(pa.string())
    have = pa.array(names, pa.string())
    new = sorted(set(pc.unique(text).drop_null().to_pylist()) - set(names))
    names += new
    return pc.index_in(text, value_set=pa.concat_arrays([have, pa.array(new, pa.string())]))


def _mask(values: pa.Array, names: list[str]) -> pa.Array:
    """Masks of attributes that are given as a number, or as names between ; | + or spaces."""
    digits = pc.all(pc.match_substring_regex(values.cast(pa.string()), r"^\d+$")).as_py()
    if pa.types.is_integer(values.type) or digits:
        return values.cast(pa.int64())
    split = [None if text is None else [t for t in _pieces(text) if t] for text in values.cast(pa.string()).to_pylist()]
    names += sorted({t for each in split if each for t in each} - set(names))
    if len(names) > 63:
        raise BadTrace(f"{len(names)} attributes; a mask holds at most 63")
    bit = {name: 1 << i for i, name in enumerate(names)}
    return pa.array([None if each is None else sum(bit[t] for t in set(each)) for each in split], pa.int64())


def _pieces(text: str) -> Sequence[str]:
    for mark in ";|+":
        text = text.replace(mark, " ")
    return text.split()


def topology_tables(topology: Topology) -> dict[str, pa.Table]:
    """The brokers and links of a topology, by name."""
    links = topology.links
    return {
        "brokers": pa.table({"broker": pa.array(topology.brokers, pa.string())}),
        "links": links.select(
            [c for c in ("left", "right", "cost", "latency_us", "wired", "dials") if c in links.column_names]
        ),
    }
