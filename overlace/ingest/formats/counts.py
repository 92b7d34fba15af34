"""Counts: messages and bytes per client, topic and hour, as many systems can export them cheaply.

CSV with the columns client (or broker), topic, messages, bytes, hour. They go straight into traffic; the
receivers follow from subscriptions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from overlace.ingest.formats import csv
from overlace.ingest.formats.events import EVENT, Format


def read(blocks: Iterator[tuple[int, bytes]], options: Mapping[str, Any]) -> Iterator[pa.RecordBatch]:
    """Events of kind counts: weight is the number of messages, bytes their sum."""
    asked = dict(options.get("map") or {})
    if "client" not in asked and not any(c.lower() in ("client", "sender") for c in options["columns"]):
        named = next((c for c in options["columns"] if c.lower() in ("broker", "server")), None)
        if named:
            asked["client"] = named
    for batch in csv.read(blocks, {**options, "map": asked}):
        kind = pc.if_else(pc.equal(batch["kind"], "message"), "counts", batch["kind"])
        table = pa.Table.from_batches([batch])
        table = table.set_column(EVENT.get_field_index("kind"), EVENT.field("kind"), kind)
        key = EVENT.get_field_index("key")
        table = table.set_column(key, EVENT.field("key"), pa.nulls(table.num_rows, pa.string()))
        yield from table.combine_chunks().to_batches()


def sniff(head: bytes) -> float:
    """CSV whose header names messages and an hour."""
    first = head.partition(b"\n")[0].lower()
    return 0.9 if b"messages" in first and b"hour" in first else 0.0


FORMAT = Format(name="counts", scope="line", sniff=sniff, read=read, options=csv.FORMAT.options)
