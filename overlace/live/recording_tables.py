"""A recording as the tables of a trace."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from overlace.arrays.csr import take_groups
from overlace.arrays.jit import Ints
from overlace.live.deployment import Deployment
from overlace.live.recorder import SECOND_US, Recording, Session, Span, Subscription
from overlace.live.wiring import dials, pair
from overlace.matching.names import pseudonyms
from overlace.trace.ids import audience_of, identities
from overlace.trace.store import NEVER
from overlace.trace.tables import TIME, schema_of, texts
from overlace.trace.traffic import NONE, UNLOGGED, Reduction, add_up, distinct, traffic_table
from overlace.trace.writer import Writer


class Published(NamedTuple):
    """Messages of one client to one topic in one second; receivers are None where they follow from subscriptions."""

    at_us: int
    client: str
    topic: str
    messages: int
    bytes: int
    receivers: tuple[str, ...] | None = None


class RecordedRows(NamedTuple):
    """What becomes of a recording: rows by name."""

    traffic: Sequence[Published]
    sessions: Sequence[Span[Session]]
    subscriptions: Sequence[Span[Subscription]]


class Tables(NamedTuple):
    """Names by kind in order of their numbers, when they first came up, and tables with numbers for ids."""

    names: Mapping[str, Sequence[str]]
    since: Mapping[str, Ints]
    rows: Mapping[str, pa.Table]

    def write(self, writer: Writer) -> None:
        """Write them as those of a trace."""
        writer.name(self.names, self.since)
        for name, table in self.rows.items():
            writer.write(name, table, replace=True)


def tables_of(
    rows: RecordedRows, recording: Recording, deployment: Deployment, weight: int, key: bytes = b""
) -> Tables:
    """All tables of the trace; with a key, names are pseudonyms."""
    brokers = list(deployment.brokers)
    place = dict(zip(brokers, brokers, strict=True))
    if key:
        rows, place = veil(rows, brokers, key)
    since = first_times(rows)
    ids = {kind: {name: i for i, name in enumerate(found)} for kind, found in since.items()}
    number = {place[name]: i for i, name in enumerate(brokers)}
    traffic = traffic_of(rows.traffic, ids, weight)
    names = {"client": list(ids["client"]), "broker": list(number), "topic": list(ids["topic"])}
    count = len(brokers)
    tables = {
        "traffic": traffic.traffic,
        "audiences": traffic.audiences,
        "sessions": sessions_of(rows.sessions, ids["client"], number),
        "subscriptions": subscriptions_of(rows.subscriptions, ids["client"], DIALECTS[deployment.substrate]),
        "brokers": pa.table({"broker": np.arange(count), "cost": np.ones(count)}),
        "links": links_of(deployment, recording),
    }
    times = {kind: np.array(list(found.values()), dtype=np.int64) for kind, found in since.items()}
    return Tables(names, times, tables)


DIALECTS = {"nats": "nats", "mosquitto": "mqtt"}


def veil(rows: RecordedRows, brokers: Sequence[str], key: bytes) -> tuple[RecordedRows, dict[str, str]]:
    """(rows, brokers): the same under pseudonyms; topics level by level, so that filters still match."""

    def hidden(names: Iterable[str], separators: str = "") -> dict[str, str]:
        own = sorted(set(names))
        return dict(zip(own, pseudonyms(texts(own), key, separators).to_pylist(), strict=True))

    receivers = [name for each in rows.traffic for name in each.receivers or ()]
    senders = [each.client for each in rows.traffic]
    at_home, asking = ([each.what[0] for each in part] for part in (rows.sessions, rows.subscriptions))
    people = hidden([*senders, *receivers, *at_home, *asking])
    topics = hidden([*(each.topic for each in rows.traffic), *(each.what[1] for each in rows.subscriptions)], "/.")
    groups = hidden(each.what[2] for each in rows.subscriptions if each.what[2])
    places = hidden(brokers)
    traffic = [
        each._replace(
            client=people[each.client],
            topic=topics[each.topic],
            receivers=None if each.receivers is None else tuple(people[name] for name in each.receivers),
        )
        for each in rows.traffic
    ]
    sessions = [Span((people[c], places[b]), since, until) for (c, b), since, until in rows.sessions]
    asked = [
        Span((people[c], topics[f], groups[g] if g else None), since, until)
        for (c, f, g), since, until in rows.subscriptions
    ]
    return RecordedRows(traffic, sessions, asked), places


def first_times(rows: RecordedRows) -> dict[str, dict[str, int]]:
    """When clients and topics first came up, in this order, then by name; NEVER if they were there before."""
    clients: dict[str, int] = {}
    topics: dict[str, int] = {}

    def see(found: dict[str, int], name: str, at: int) -> None:
        found[name] = min(at, found.get(name, at))

    for each in rows.traffic:
        see(topics, each.topic, each.at_us)
        for name in (each.client, *(each.receivers or ())):
            see(clients, name, each.at_us)
    for session in rows.sessions:
        see(clients, session.what[0], NEVER if session.since is None else session.since)
    for asked in rows.subscriptions:
        see(clients, asked.what[0], NEVER if asked.since is None else asked.since)
    return {
        kind: dict(sorted(found.items(), key=lambda item: (item[1], item[0])))
        for kind, found in (("client", clients), ("topic", topics))
    }


def traffic_of(published: Sequence[Published], ids: Mapping[str, Mapping[str, int]], weight: int) -> Reduction:
    """Rows of traffic, and the audiences of those whose receivers are known."""
    receivers = [sorted({ids["client"][name] for name in each.receivers or ()}) for each in published]
    start = np.append(0, np.cumsum([len(each) for each in receivers])).astype(np.int64)
    members = np.array([name for each in receivers for name in each], dtype=np.int64)
    logged = np.array([each.receivers is not None for each in published], dtype=np.bool_)
    clients = identities(ids["client"])
    audience = np.where(logged, audience_of(start, clients[members]), UNLOGGED)
    _, audiences = distinct(audience[logged], *take_groups(start, members, np.flatnonzero(logged)))
    messages, size = (np.array([getattr(e, name) for e in published], np.int64) for name in ("messages", "bytes"))
    keys = [
        np.array([each.at_us // SECOND_US * SECOND_US for each in published], dtype=np.int64),
        np.array([ids["client"][each.client] for each in published], dtype=np.int64),
        np.array([ids["topic"][each.topic] for each in published], dtype=np.int64),
        np.full(len(published), NONE),
        audience,
    ]
    return Reduction(traffic_table(*add_up(keys, [messages * weight, messages, size * weight])), audiences)


def _times(spans: Sequence[Span[Session]] | Sequence[Span[Subscription]]) -> dict[str, pa.Array]:
    ends = {"since": [each.since for each in spans], "until": [each.until for each in spans]}
    return {name: pa.array(each, pa.int64()).cast(TIME) for name, each in ends.items()}


def sessions_of(spans: Sequence[Span[Session]], clients: Mapping[str, int], brokers: Mapping[str, int]) -> pa.Table:
    """Who was at home where."""
    columns = {
        "client": pa.array([clients[each.what[0]] for each in spans], pa.int64()),
        "broker": pa.array([brokers[each.what[1]] for each in spans], pa.int64()),
        **_times(spans),
    }
    return pa.table(columns, schema=schema_of("sessions"))


def subscriptions_of(spans: Sequence[Span[Subscription]], clients: Mapping[str, int], dialect: str) -> pa.Table:
    """Who was subscribed to what."""
    columns = {
        "client": pa.array([clients[each.what[0]] for each in spans], pa.int64()),
        "filter": texts([each.what[1] for each in spans]),
        "dialect": texts([dialect] * len(spans)),
        "group": texts([each.what[2] for each in spans]),
    }
    return pa.table({**columns, **_times(spans)})


def links_of(deployment: Deployment, recording: Recording) -> pa.Table:
    """Wired links with their latency, and pairs that may be linked, whose latency nobody has measured."""
    names = list(deployment.brokers)
    number = {name: i for i, name in enumerate(names)}
    pairs = {pair(a, b) for i, a in enumerate(names) for b in names[i + 1 :] if deployment.may_link(a, b)}
    parents = dials(names, recording.links)
    found = sorted(pairs | recording.links, key=lambda link: sorted(number[end] for end in link))
    ends = [sorted(number[end] for end in link) for link in found]
    dialled = [
        next((number[e] for e in link if parents.get(e) in link and link in recording.links), None) for link in found
    ]
    return pa.table(
        {
            "left": pa.array([left for left, _ in ends], pa.int64()),
            "right": pa.array([right for _, right in ends], pa.int64()),
            "cost": pa.array([1.0] * len(found), pa.float64()),
            "latency_us": pa.array([recording.latency_us.get(link) for link in found], pa.int32()),
            "wired": pa.array([link in recording.links for link in found], pa.bool_()),
            "dials": pa.array(dialled, pa.int64()),
        }
    )
