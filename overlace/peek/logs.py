"""The beginning of a log, read by its format and counted row by row, as an ingest counts it but by other code."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from overlace.ingest.accounts import HINTS, INCOMPLETE, ORPHANS, notes_on_rows, shown_mapping
from overlace.ingest.events import WHOLE
from overlace.ingest.options import Options
from overlace.ingest.sources import Source, look

LOOKS_RANDOM = re.compile(r"[0-9a-f]{12,}|auto-|mqttjs_|paho\d{6,}|mosq-\w{10,}|[0-9a-f]{8}-[0-9a-f]{4}-", re.I)
SHOWN = ("at", "client", "broker", "topic", "bytes", "weight", "attributes", "receivers")
READ = ("offset", "kind", "reason", "sample", "message", "rows", "balance", *SHOWN)
KEPT = 0.9
"""Share of the rows of a log that a command keeps, at least, to be printed."""

TABLE_ROWS = 50_000
"""Rows of a large table that are read."""


class Event(dict[str, Any]):
    """An event by the names of its columns; one that a batch has no value in is None."""

    def __missing__(self, name: str) -> None:
        return None


class LogSample(NamedTuple):
    """The beginning of a log, and the events in it."""

    source: Source
    data: bytes
    events: list[Event]


def read_log(path: str, options: Options, data: bytes, whole: bool) -> LogSample:
    """The events of the first bytes of a log."""
    source = look(path, options)
    events: list[Event] = []
    batches: Iterable[pa.RecordBatch]
    if source.format == "parquet":
        parts = source.splits(0) if whole else [(0, 1)]
        batches = chain.from_iterable(source.read(begin, end)[0] for begin, end in parts)
    else:
        size = len(data) if source.packed else source.size
        cut = data[:size] if whole or source.form.lines else data[: data.rfind(b"\n") + 1] or data
        blocks = iter([(0, cut)] if cut else [])
        if source.form.lines:
            blocks = (each for each in source.form.lines(blocks) if whole or each[1].endswith(b"\n"))
        batches = source.form.read(blocks, source.options)
    for batch in batches:
        there = [name for name in READ if batch[name].null_count < batch.num_rows]
        columns = [batch[name].cast(pa.int64()) if name == "at" else batch[name] for name in there]
        events += map(Event, pa.RecordBatch.from_arrays(columns, names=there).to_pylist())
        if not whole and source.format == "parquet" and len(events) >= TABLE_ROWS:
            break
    for event in events:
        event["rows"] = 1 if event["rows"] is None else event["rows"]
    return LogSample(source, data, events)


def count_logs(logs: Sequence[LogSample]) -> tuple[dict[str, Any], float]:
    """(counts, worst): what becomes of the lines of logs, and the largest share of bad lines that one of them has."""
    tallies: list[Counter[tuple[str, str]]] = [Counter() for _ in logs]
    joined: dict[object, list[tuple[int, dict[str, Any]]]] = defaultdict(list)
    for number, log in enumerate(logs):
        for event in log.events:
            kind, reason = event["kind"], event["reason"]
            tallies[number]["ignored" if kind == "link" and reason else kind, reason or "other"] += event["rows"]
            if kind in ("message", "delivery", "counts"):
                joined[_key_of(log.source, event) or (number, event["offset"])].append((number, event))
    messages = duplicates = 0
    for numbered in joined.values():
        (number, first), events = numbered[0], [event for _, event in numbered]
        balance, rows = sum(each["balance"] or 0 for each in events) % 2**64, sum(each["rows"] for each in events)
        if balance not in (0, WHOLE):
            tallies[number]["bad", INCOMPLETE] += rows
        elif all(each["client"] is None for each in events):
            tallies[number]["ignored", ORPHANS] += rows
        else:
            messages += (first["weight"] or 1) if first["kind"] == "counts" else 1
            published = [each for each in events if each["kind"] != "delivery"]
            several = any(len(each["receivers"] or ()) > 1 and each["rows"] == 1 for each in published)
            receivers = {name for each in events for name in each["receivers"] or ()}
            expected = 1 if several else max(len(receivers), 1)
            duplicates += 0 if balance else max(sum(each["rows"] for each in published) - expected, 0)
    total = sum(tallies, Counter())
    bad = [sum(lines for (kind, _), lines in tally.items() if kind == "bad") for tally in tallies]
    lines = [sum(event["rows"] for event in log.events) for log in logs]
    reasons = {name: {why: n for (kind, why), n in total.items() if kind == name} for name in ("ignored", "bad")}
    counts = {"lines": sum(lines), "messages": messages, **reasons, "duplicates": duplicates}
    return counts, max((wrong / max(own, 1) for wrong, own in zip(bad, lines, strict=True)), default=0.0)


def find_fault(
    logs: Sequence[LogSample], counts: Mapping[str, Any], worst: float, asked: Options, whole: bool, alone: bool
) -> str:
    """Why logs are not read well, and what to give for that, after what they count; nothing if they are.

    Of logs with columns, which may be guessed, more is expected than of those whose format says what they are; of logs
    that are all there (`alone`) more than one client.
    """
    source, settled = logs[0].source, logs[0].source.options
    guessed = "mapping" in settled and source.format not in ("nats", "counts")
    lines, bad, orphans = counts["lines"], sum(counts["bad"].values()), counts["ignored"].get(ORPHANS, 0)
    rows = lines - sum(counts["ignored"].values()) + orphans
    if not counts["messages"]:
        reasons = {**counts["bad"], **counts["ignored"]}
        reason = max(reasons, key=lambda each: reasons[each], default="")
        return f"read as {source.format}, no line is a message" + (f". Most often: {reason}." if reason else ".")
    lost = {"bad": bad - (0 if whole else counts["bad"].get(INCOMPLETE, 0))}
    if guessed:
        named = asked.group or "key" in asked.map
        lost |= {"orphans": orphans if whole else 0, "duplicates": 0 if named else counts["duplicates"]}
    most = max(lost, key=lambda name: lost[name])
    if sum(lost.values()) > (1 - KEPT) * rows or (worst > 1 - KEPT and lost["bad"]):
        return _why_lost(logs, counts, most, rows)
    names = {name for log in logs for each in log.events for name in (each["client"], *(each["receivers"] or ()))}
    clients = sorted(names - {None})
    if guessed and alone and len(clients) < 2 and "client" not in asked.map:
        mine = settled["mapping"]["client"][0]
        return (
            f"all messages have one client, {clients[0]!r} (from {mine}). Name the column that says who sends: --map "
            f"client=COLUMN; if it is that one: --map client={mine}"
        )
    return ""


def _why_lost(logs: Sequence[LogSample], counts: Mapping[str, Any], most: str, rows: int) -> str:
    """Why rows are not kept, by what most of them are, and what to give for that."""
    source, settled = logs[0].source, logs[0].source.options
    if most == "bad":
        reason, count = max(counts["bad"].items(), key=lambda item: item[1])
        samples = (each["sample"] for log in logs for each in log.events if each["reason"] == reason)
        hint = HINTS.get(reason) or f"; such as {next(filter(None, samples), '')[:90]!r}."
        share = f"{sum(counts['bad'].values()):,} of {counts['lines']:,} lines cannot be read"
        return f"read as {source.format}, {share}. Most often ({count:,}): {reason}{hint}"
    if most == "orphans":
        return (
            f"{counts['ignored'][ORPHANS]:,} of {rows:,} rows are deliveries of messages that no row publishes. Name "
            "what both have in common with --map key=COLUMN, or leave --deliveries-where out."
        )
    if notes := notes_on_rows(source, rows, counts["duplicates"]):
        return notes[-1].removeprefix(f"{source.label}: ")
    agree = ", ".join(settled.get("group") or settled["mapping"]["key"])
    return (
        f"{counts['duplicates']:,} of {rows:,} rows repeat others in {agree}. If they are messages of their own, name "
        "a column that tells them apart: --map key=COLUMN."
    )


def _key_of(source: Source, event: dict[str, Any]) -> object:
    """What rows of one message have in common; none of a row that is a message of its own."""
    own = event["message"]
    if group := source.options.get("group"):
        values = Event({**event, "key": own, "receiver": event["receivers"], "bytes": event["bytes"] or 0})
        own = repr([values[name] for name in group])
    return own and (source.format if source.form.keys == "call" else source.log, own)


def summarise(logs: Sequence[LogSample]) -> dict[str, Any]:
    """What the samples say: events by kind, ten messages, clients, topics, brokers, bridges."""
    events = [event for log in logs for event in log.events]
    kinds: Counter[str] = Counter()
    for event in events:
        apart = event["kind"] in ("bad", "ignored", "link") and event["reason"]
        kinds[f"{event['kind']}: {event['reason']}" if apart else event["kind"]] += event["rows"]
    messages = [event for event in events if event["kind"] in ("message", "counts")]
    bridges = {event[name] for event in events if event["kind"] == "bridge" for name in ("topic", "client")} - {None}
    named = {event["client"] for event in events} | {name for event in events for name in event["receivers"] or ()}
    clients = sorted(named - bridges - {None})
    shown = [{name: event[name] for name in SHOWN if event[name] is not None} for event in messages[:10]]
    for row in shown:
        row["at"] = str(np.datetime64(row["at"], "us")).removesuffix(".000000") + "Z"
    return {
        "format": logs[0].source.format if logs else "",
        "mapping": shown_mapping(logs[0].source) if logs else [],
        "lines": sum(event["rows"] for event in events),
        "kinds": dict(kinds),
        "rows": shown,
        "clients": len(clients),
        "topics": len({event["topic"] for event in messages} - {None}),
        "brokers": len({event["broker"] for event in events} - {None}),
        "bridges": sorted(bridges),
        "unstable": [name for name in clients if LOOKS_RANDOM.search(name)],
        "receivers": any(event["receivers"] is not None for event in messages),
    }
