"""Windows of a network that is recorded again and again, and the last of them as one trace.

Every window is a trace of its own. Joined they are a trace like any other: a client that moved between two windows has
a session that ended when the later one began, and a new one from then on; what was so at the end of a window and at the
beginning of the next was so in between. Links are those of the last window.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from overlace.live.deployment import Deployment
from overlace.live.recorder import SECOND_US, Key, Recording, Session, Span, Subscription
from overlace.live.recording_tables import DIALECTS, links_of, sessions_of, subscriptions_of
from overlace.live.wiring import Links, Pair, pair
from overlace.trace.store import Trace
from overlace.trace.tables import numbers
from overlace.trace.traffic import NONE, UNLOGGED, add_up, traffic_table
from overlace.trace.writer import writing


class Window(NamedTuple):
    """A recorded window: where its trace lies, and when it was, in microseconds."""

    trace: Path
    begin_us: int
    end_us: int


class Contents(NamedTuple):
    """What a window says, by name."""

    window: Window
    trace: Trace
    clients: Sequence[str]
    topics: Sequence[str]
    sessions: list[Span[Session]]
    subscriptions: list[Span[Subscription]]
    links: Links
    latency_us: dict[Pair, int]


ALIKE = 0.4
"""Cosine of the flows of two windows below which the pattern has changed between them."""


def of_one_pattern(windows: Sequence[Contents]) -> list[Contents]:
    """The last window, and those before it back to the first that is not like it."""
    last, found = windows[-1], [windows[-1]]
    for each in reversed(windows[:-1]):
        if likeness(each, last) < ALIKE:
            break
        found.insert(0, each)
    return found


def likeness(one: Contents, other: Contents) -> float:
    """The cosine of what was published in two windows, by client and topic: 1 where shares are the same."""
    sums = [flows_of(one), flows_of(other)]
    product = sum(value * sums[1].get(key, 0) for key, value in sums[0].items())
    sizes = [sum(value**2 for value in each.values()) ** 0.5 for each in sums]
    return product / (sizes[0] * sizes[1]) if all(sizes) else 0.0


def flows_of(contents: Contents) -> dict[tuple[str, str], int]:
    """Messages of a window, by client and topic."""
    found: dict[tuple[str, str], int] = {}
    for client, topic, messages in _rows(contents.trace, "traffic", "client topic messages"):
        key = contents.clients[client], contents.topics[topic]
        found[key] = found.get(key, 0) + messages
    return found


def join_windows(found: Sequence[Contents], deployment: Deployment, out: Path) -> Trace:
    """The windows, in their order, as one trace that takes the place of what is there."""
    clients, topics = (
        {name: i for i, name in enumerate(sorted({name for each in found for name in getattr(each, kind)}))}
        for kind in ("clients", "topics")
    )
    brokers = {name: i for i, name in enumerate(deployment.brokers)}
    begins = [each.window.begin_us for each in found]
    sessions = join_spans(begins, [[s for s in each.sessions if s.what[1] in brokers] for each in found])
    asked = join_spans(begins, [each.subscriptions for each in found])
    last = found[-1]
    recording = Recording("counted", begins[0], last.window.end_us)
    recording.links = last.links
    recording.latency_us = {key: value for each in found for key, value in each.latency_us.items()}
    tables = {
        "traffic": _traffic(found, clients, topics),
        "sessions": sessions_of(sessions, clients, brokers),
        "subscriptions": subscriptions_of(asked, clients, DIALECTS[deployment.substrate]),
        "brokers": pa.table({"broker": np.arange(len(brokers)), "cost": np.ones(len(brokers))}),
        "links": links_of(deployment, recording),
    }
    with writing(str(out), anew=True) as writer:
        writer.name({"client": list(clients), "broker": list(brokers), "topic": list(topics)})
        for name, table in tables.items():
            writer.write(name, table, replace=True)
        about = {"how": "counted", "windows": len(found), "not_counted": _not_counted(last.trace)}
        return writer.commit(bucket_us=SECOND_US, unit="message", notes={"recorded": about})


def read_window(window: Window) -> Contents:
    """What the trace of a window says."""
    trace = Trace.open(str(window.trace))
    clients, topics, brokers = (trace.names.get(kind, []) for kind in ("client", "topic", "broker"))
    sessions = [
        Span((clients[c], brokers[b]), since, until)
        for c, b, since, until in _rows(trace, "sessions", "client broker since until")
    ]
    asked = [
        Span((clients[c], wanted, group), since, until)
        for c, wanted, group, since, until in _rows(trace, "subscriptions", "client filter group since until")
    ]
    links, latency = set(), {}
    for left, right, latency_us, wired in _rows(trace, "links", "left right latency_us wired"):
        link = pair(brokers[left], brokers[right])
        if wired:
            links.add(link)
        if latency_us is not None:
            latency[link] = latency_us
    return Contents(window, trace, clients, topics, sessions, asked, frozenset(links), latency)


def _rows(trace: Trace, table: str, names: str) -> list[tuple[Any, ...]]:
    """Rows of a table; times are microseconds."""
    found = trace.read(table, names.split())
    columns = [
        (each.cast(pa.int64()) if pa.types.is_timestamp(each.type) else each).to_pylist() for each in found.columns
    ]
    return list(zip(*columns, strict=True))


def join_spans(begins: Sequence[int], windows: Sequence[Sequence[Span[Key]]]) -> list[Span[Key]]:
    """What was so in windows that begin at these times, each until the next, as spans over all of them."""
    pieces: list[Span[Key]] = []
    for i, spans in enumerate(windows):
        first, ends = (begins[i] if i else None), (begins[i + 1] if i + 1 < len(windows) else None)
        for what, since, until in spans:
            pieces.append(Span(what, first if since is None else since, ends if until is None else until))
    joined: dict[Key, list[Span[Key]]] = {}
    for each in sorted(pieces, key=lambda piece: piece.since or 0):
        mine = joined.setdefault(each.what, [])
        if mine and mine[-1].until is not None and mine[-1].until == each.since:
            mine[-1] = mine[-1]._replace(until=each.until)
        else:
            mine.append(each)
    every = [span for spans in joined.values() for span in spans]
    return sorted(every, key=lambda each: (each.since or 0, str(each.what), each.until or 0))


def _traffic(found: Sequence[Contents], clients: dict[str, int], topics: dict[str, int]) -> pa.Table:
    """All traffic, by the numbers of the whole."""
    parts: list[list[np.ndarray]] = []
    for each in found:
        rows = each.trace.read("traffic", ["bucket", "client", "topic", "messages", "rows", "bytes"])
        client, topic = (
            np.array([place[name] for name in names], dtype=np.int64)
            for place, names in ((clients, each.clients), (topics, each.topics))
        )
        bucket, who, what, *sums = (numbers(column).astype(np.int64) for column in rows.columns)
        parts.append([bucket, client[who], topic[what], *sums])
    bucket, who, what, *sums = (np.concatenate(column) for column in zip(*parts, strict=True))
    keys = [bucket, who, what, np.full(len(bucket), NONE), np.full(len(bucket), UNLOGGED)]
    return traffic_table(*add_up(keys, sums))


def _not_counted(trace: Trace) -> int:
    about = trace.notes.get("recorded")
    return int(about.get("not_counted", 0)) if isinstance(about, dict) else 0
