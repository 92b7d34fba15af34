"""Counts: messages and bytes per client, topic and hour, as many systems can export them cheaply.

CSV with the columns client (or broker), topic, messages, bytes, hour. They go straight into traffic; the
receivers follow from subscriptions.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from overlace.ingest.events import Blocks, Format, Settled
from overlace.ingest.fields import COMMON
from overlace.ingest.formats import csv

LARGEST = 2**53
"""Sums may be large; beyond this they are no longer exact everywhere."""


def settle(sample: bytes, options: Settled) -> Settled:
    """As for CSV; a log without clients counts by broker."""
    asked = dict(options["map"])
    columns = csv.detect_layout(sample, options.get("delimiter"), options.get("header")).columns
    if "client" not in asked and not any(c.strip().lower() in COMMON["client"] for c in columns):
        named = next((c for c in columns if c.strip().lower() in ("broker", "server")), None)
        if named:
            asked["client"] = (named,)
    return {**csv.settle(sample, {**options, "map": asked}), "group": ()}


def read(blocks: Blocks, options: Settled) -> Iterator[pa.RecordBatch]:
    """Events of kind counts: weight is the number of messages, bytes their sum."""
    yield from csv.read(blocks, options, "counts", LARGEST)


def sniff(head: bytes) -> float:
    """CSV whose header names messages and an hour."""
    first = head.partition(b"\n")[0].lower()
    return 0.9 if b"messages" in first and b"hour" in first else 0.0


FORMAT = Format(
    name="counts",
    scope="line",
    sniff=sniff,
    read=read,
    settle=settle,
    options=csv.FORMAT.options - {"group", "list_separator", "content"},
)
