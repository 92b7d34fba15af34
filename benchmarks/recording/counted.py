"""Counted recordings against the load's own tally: the same counts, and the same observation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from overlace.live.client import MqttLink, NatsLink, hash_name
from overlace.live.deployment import Deployment
from overlace.live.local import draw_tree
from overlace.live.recorder import SECOND_US, Recording, Span
from overlace.live.recording_tables import Published, RecordedRows, tables_of
from overlace.live.tally import Tally
from overlace.live.wiring import Pair, pair
from overlace.model import Observation
from overlace.observe.traffic import complete_traffic
from overlace.trace.store import Trace
from overlace.trace.writer import writing
from tests.traces import observe

Counts = Counter[tuple[str, str]]


class Compared(NamedTuple):
    """How a counted recording and the tally of its load differ."""

    messages: int
    counts: int  # of (client, topic)
    wrong_counts: int
    wrong_bytes: int
    deliveries: int  # of the trace as it was recorded, second by second
    wrong_deliveries: int
    flows: int
    classes: int
    same: bool  # observation and overlay of the recording, and of the tally


def counts_of(trace: Trace) -> tuple[Counts, Counts]:
    """(messages, bytes) by client and topic, as a trace has them."""
    names = trace.names
    messages, size = Counts(), Counts()
    for row in trace.read("traffic").to_pylist():
        key = names["client"][row["client"]], names["topic"][row["topic"]]
        messages[key] += row["messages"]
        size[key] += row["bytes"]
    return messages, size


def differing(found: Counts, true: Counts) -> int:
    """Keys whose counts differ."""
    return sum(found[key] != true[key] for key in found.keys() | true.keys())


def rows_of_tally(tally: Tally, substrate: str, at: int) -> RecordedRows:
    """The tally as rows of a recording, all in one second."""
    published = [
        Published(at, client, topic, count, tally.sizes[client, topic])
        for (client, topic), count in sorted(tally.counts.items())
    ]
    kind = NatsLink if substrate == "nats" else MqttLink
    asking = {topic.name for topic in tally.scenario.topics if topic.kind == "requests"}
    asked = [(each.client, each.filter, each.group) for each in tally.subscriptions]
    asked += [
        (client, kind.replies.format(hash_name(client)), None)
        for client in sorted({client for client, topic in tally.counts if topic in asking})
    ]
    sessions = [Span(each, None, None) for each in sorted(tally.homes.items())]
    return RecordedRows(published, sessions, [Span(each, None, None) for each in sorted(asked, key=str)])


def rows_of_trace(trace: Trace, at: int) -> RecordedRows:
    """A trace as rows of a recording, all in one second."""
    names = trace.names
    messages, size = counts_of(trace)
    published = [Published(at, *key, count, size[key]) for key, count in sorted(messages.items())]
    sessions = [
        (names["client"][row["client"]], names["broker"][row["broker"]]) for row in trace.read("sessions").to_pylist()
    ]
    asked = [
        (names["client"][row["client"]], row["filter"], row["group"]) for row in trace.read("subscriptions").to_pylist()
    ]
    return RecordedRows(
        published,
        [Span(each, None, None) for each in sorted(set(sessions))],
        [Span(each, None, None) for each in sorted(set(asked), key=str)],
    )


def wired_in(trace: Trace) -> dict[Pair, int]:
    """The wired links of a trace, with their latencies."""
    broker = trace.names["broker"]
    rows = [row for row in trace.read("links").to_pylist() if row["wired"]]
    return {pair(broker[row["left"]], broker[row["right"]]): row["latency_us"] for row in rows}


def observed(rows: RecordedRows, recording: Recording, deployment: Deployment, out: Path) -> Observation:
    """The observation of rows that are written as a trace."""
    with writing(str(out), anew=True) as writer:
        tables_of(rows, recording, deployment, 1).write(writer)
        return observe(writer.commit(bucket_us=SECOND_US, unit="message", notes={}))


def compare(path: Path, tally: Tally, deployment: Deployment, seed: int) -> Compared:
    """A counted recording beside the tally of the load that it is a recording of."""
    trace = Trace.open(str(path))
    messages, size = counts_of(trace)
    at = trace.span()[0]
    latencies = wired_in(trace)
    made = []
    ways: Sequence[tuple[Callable[[], RecordedRows], frozenset[Pair]]] = (
        (lambda: rows_of_trace(trace, at), frozenset(latencies)),
        (lambda: rows_of_tally(tally, deployment.substrate, at), draw_tree(list(deployment.brokers), seed)),
    )
    for i, (rows, links) in enumerate(ways):
        recording = Recording("counted", at, links=links, latency_us=latencies)
        made.append(observed(rows(), recording, deployment, path.parent / f"{path.name}.{i}"))
    own, true = made
    traffic = complete_traffic(trace)
    found = int((traffic.messages * np.diff(traffic.start)[traffic.audience]).sum())
    return Compared(
        messages=messages.total(),
        counts=len(tally.counts),
        wrong_counts=differing(messages, tally.counts),
        wrong_bytes=differing(size, tally.sizes),
        deliveries=found,
        wrong_deliveries=abs(found - tally.delivered - tally.answered),
        flows=len(own.flows.messages),
        classes=len(own.classes.demand),
        same=(own.digest(), own.overlay.digest()) == (true.digest(), true.overlay.digest()),
    )
