"""Peek: what a log is, in two seconds and without a JVM."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from overlace.errors import BadTrace
from overlace.ingest.events import EVENT, plain
from overlace.ingest.formats import parquet
from overlace.ingest.lines import blocks
from overlace.ingest.options import Options
from overlace.ingest.sources import FORMATS, Source, find_files, look, opened, shown_mapping

SEEN = 4 << 20
"""Bytes of each file that are looked at."""

LOOKS_RANDOM = re.compile(r"[0-9a-f]{12,}|auto-|mqttjs_|paho\d{6,}|mosq-\w{10,}|[0-9a-f]{8}-[0-9a-f]{4}-", re.I)


class Peek(NamedTuple):
    """What the first bytes of a log say."""

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
    whole: bool  # everything was looked at
    facets: Mapping[str, str]  # possible, or what is missing


def peek(paths: Sequence[str], options: Options | None = None) -> Peek:
    """Look at the first bytes of each file."""
    chosen = options or Options()
    tables, whole, source = [], True, None
    for path in find_files(paths, chosen.skip):
        source = look(path, chosen.format, chosen)
        some, all_of_it = _events(source)
        tables += some
        whole = whole and all_of_it
    if source is None:
        raise BadTrace(f"{', '.join(paths)}: no files there. Name the log's files or a folder with them.")
    events = plain(pa.Table.from_batches(tables, EVENT) if tables else EVENT.empty_table()).combine_chunks()
    return _said(events, source, whole)


def _events(source: Source) -> tuple[list[pa.RecordBatch], bool]:
    """(events, whole): of the first bytes of a file, and whether that is all of it."""
    if source.format == "parquet":
        splits = parquet.splits(source.path, 1)
        return list(parquet.read_groups(source.path, 0, min(1, len(splits)), source.options)), len(splits) < 2
    with opened(source.path) as file:
        head = _first(file)
    return list(FORMATS[source.format].read(iter((head and [(0, head)]) or []), source.options)), len(head) < SEEN


def _first(file: Any) -> bytes:
    for _, block in blocks(file, 0, SEEN, SEEN):
        return block
    return b""


def _said(events: pa.Table, source: Source, whole: bool) -> Peek:
    form = source.format
    counts = events.group_by(["kind", "reason"]).aggregate([("offset", "count")]).to_pylist()
    kinds: dict[str, int] = {}
    for row in counts:
        apart = row["kind"] in ("bad", "ignored", "link") and row["reason"]
        name = f"{row['kind']}: {row['reason']}" if apart else row["kind"]
        kinds[name] = kinds.get(name, 0) + row["offset_count"]
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
    has = {
        "receivers": messages.num_rows > 0 and lists.null_count < len(lists),
        "subscriptions": "subscribe" in kinds,
        "broker": (pc.count(events["broker"]).as_py() > 0 and form != "csv") or _seen(events, "broker"),
        "bridges": bool(named) or any(name.startswith("link") for name in kinds),
        "attributes": _seen(messages, "attributes"),
        "topic": _seen(messages, "topic"),
    }
    lines = int(pc.sum(pc.fill_null(events["rows"], 1)).as_py() or 0)
    shown = messages.slice(0, 10).to_pylist()
    rows = [{k: v for k, v in row.items() if v is not None and k != "kind"} for row in shown]
    return Peek(
        form, shown_mapping(source), lines, kinds, rows, len(clients), _distinct(messages, "topic"),
        _distinct(events, "broker"),
        named, [name for name in clients if LOOKS_RANDOM.search(name)], whole, _facets(has),
    )  # fmt: skip


def _seen(table: pa.Table, column: str) -> bool:
    return bool(pc.count(table[column]).as_py() > 0)


def _distinct(table: pa.Table, column: str) -> int:
    return int(pc.count_distinct(table[column], mode="only_valid").as_py())


def _facets(has: Mapping[str, bool]) -> dict[str, str]:
    """For each facet: possible, or the tables that are missing."""
    audience = has["receivers"] or has["subscriptions"]
    lacking = {
        "placement": [
            *([] if audience else ["receivers (log them, or --table subscriptions)"]),
            *([] if has["broker"] else ["where clients are (--table sessions)"]),
            *([] if has["bridges"] else ["how brokers are wired (--table links, or --topology)"]),
        ],
        "channels": ["what publishers offer (--table advertisements)"],
        "mesh": [] if has["subscriptions"] else ["interests (--table interests)"],
    }
    lacking["tree"] = lacking["placement"]
    order = ("placement", "tree", "channels", "mesh")
    return {name: "possible" if not lacking[name] else "missing: " + "; ".join(lacking[name]) for name in order}
