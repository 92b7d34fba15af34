"""What the beginning of a log says: its events by kind, who is in it, and what it brings for planning."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from overlace.ingest.accounts import shown_mapping
from overlace.ingest.events import EVENT, with_text_names
from overlace.ingest.files import open_file
from overlace.ingest.formats import parquet
from overlace.ingest.lines import blocks
from overlace.ingest.options import Options
from overlace.ingest.sources import FORMATS, Source, look

LOOKS_RANDOM = re.compile(r"[0-9a-f]{12,}|auto-|mqttjs_|paho\d{6,}|mosq-\w{10,}|[0-9a-f]{8}-[0-9a-f]{4}-", re.I)


class Summary(NamedTuple):
    """What the first bytes of logs say."""

    format: str
    mapping: Sequence[str]  # what was settled: which column is which, units
    lines: int
    kinds: Mapping[str, int]  # events by kind, bad, ignored and links with their reason
    rows: list[dict[str, Any]]  # ten events
    clients: int
    topics: int
    brokers: int
    bridges: list[str]
    unstable: list[str]  # clients whose ids look made up for one connection
    has: Mapping[str, bool]  # what it brings for planning


def summarise(logs: Sequence[tuple[str, Options, int]]) -> Summary:
    """What the first bytes of logs say: so many of each, read as its options tell."""
    tables: list[pa.RecordBatch] = []
    source: Source | None = None
    for path, options, size in logs:
        each = look(path, options.format, options)
        tables += first_events(each, size)
        source = source or each
    tables = [each.select(EVENT.names) for each in tables]
    events = with_text_names(pa.Table.from_batches(tables, EVENT) if tables else EVENT.empty_table()).combine_chunks()
    return _summarise(events, source)


def first_events(source: Source, most: int) -> list[pa.RecordBatch]:
    """Events of the first bytes of a file."""
    if source.format == "parquet":
        return list(parquet.read_groups(source.path, 0, min(1, len(parquet.splits(source.path, 1))), source.options))
    with open_file(source.path) as file:
        if source.form.lines:
            parts = source.form.lines(iter([(0, file.read(most))]))
        else:
            stop = None if source.packed else source.size
            parts = iter([next(blocks(file, 0, most, most, stop=stop), (0, b""))])
        return list(FORMATS[source.format].read((part for part in parts if part[1]), source.options))


def _summarise(events: pa.Table, source: Source | None) -> Summary:
    kinds: Counter[str] = Counter()
    for row in events.group_by(["kind", "reason"]).aggregate([("offset", "count")]).to_pylist():
        apart = row["kind"] in ("bad", "ignored", "link") and row["reason"]
        kinds[f"{row['kind']}: {row['reason']}" if apart else row["kind"]] += row["offset_count"]
    messages = events.filter(pc.is_in(events["kind"], pa.array(["message", "counts"])))
    senders = pc.unique(messages["client"]).drop_null().to_pylist()
    lists = messages["receivers"].combine_chunks()
    receivers = pc.unique(lists.flatten()).drop_null().to_pylist() if messages.num_rows else []
    clients = sorted({*senders, *receivers, *pc.unique(events["client"]).drop_null().to_pylist()})
    bridges = events.filter(pc.equal(events["kind"], "bridge"))
    named = sorted(
        {*pc.unique(bridges["topic"]).drop_null().to_pylist(), *pc.unique(bridges["client"]).drop_null().to_pylist()}
    )
    clients = [name for name in clients if name not in named]
    shown = messages.slice(0, 10).to_pylist()
    return Summary(
        format=source.format if source else "",
        mapping=shown_mapping(source) if source else [],
        lines=int(pc.sum(pc.fill_null(events["rows"], 1)).as_py() or 0),
        kinds=dict(kinds),
        rows=[{k: v for k, v in row.items() if v is not None and k not in ("kind", "balance")} for row in shown],
        clients=len(clients),
        topics=_distinct(messages, "topic"),
        brokers=_distinct(events, "broker"),
        bridges=named,
        unstable=[name for name in clients if LOOKS_RANDOM.search(name)],
        has={
            "messages": messages.num_rows > 0,
            "receivers": messages.num_rows > 0 and lists.null_count < len(lists),
            "subscriptions": "subscribe" in kinds,
            "broker": _distinct(events, "broker") > 0,
            "bridges": bool(named) or any(name.startswith("link") for name in kinds),
            "attributes": False,
        },
    )


def _distinct(table: pa.Table, column: str) -> int:
    return int(pc.count_distinct(table[column], mode="only_valid").as_py())
