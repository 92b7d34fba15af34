"""Tables of a trace from plain files and topologies: small, so no Spark is needed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow as pa

from overlace.ingest.plain import encoded, read_plain, topology_tables
from overlace.ingest.topologies import read_topology
from overlace.trace.store import HOUR_US, Trace, Writer


def add_tables(
    paths: Sequence[str], table: str, out: str, options: Mapping[str, Any], *, both_ways: bool = False
) -> tuple[Trace, int]:
    """Files of one table into the trace; what an earlier file of that table gave is replaced."""
    rows = pa.concat_tables([read_plain(path, table, options) for path in paths], promote_options="default")
    trace = _put(out, {table: rows}, both_ways=both_ways)
    return trace, rows.num_rows


def add_topology(paths: Sequence[str], out: str, kind: str | None = None) -> tuple[Trace, list[str]]:
    """The brokers and links of topology files into the trace, and what the reader noted."""
    topology = read_topology([Path(path) for path in paths], kind)
    noted = {"bridges": [asdict(bridge) for bridge in topology.bridges]} if topology.bridges else {}
    return _put(out, topology_tables(topology), notes=noted), list(topology.notes)


def _put(
    out: str, tables: Mapping[str, pa.Table], *, both_ways: bool = False, notes: Mapping[str, Any] | None = None
) -> Trace:
    base = Trace.open(out) if Trace.exists(out) else None
    writer = Writer(out, base)
    names = base.names if base else {}
    for given, rows in tables.items():
        table, coded, names = encoded(rows, given, names, both_ways=both_ways)
        source = f"table:{given}"
        writer.drop(table, source)
        writer.write(table, coded, source=source, name=f"-{given}")
    listed = [(kind, i, name) for kind in sorted(names) for i, name in enumerate(names[kind])]
    kinds, ids, called = zip(*listed, strict=True) if listed else ((), (), ())
    columns = {
        "kind": pa.array(kinds, pa.string()),
        "id": pa.array(ids, pa.int32()),
        "name": pa.array(called, pa.string()),
    }
    writer.write("names", pa.table(columns), replace=True)
    return writer.commit(
        bucket_us=base.bucket_us if base else HOUR_US,
        unit=base.unit if base else "message",
        notes={**(base.notes if base else {}), **(notes or {})},
    )
