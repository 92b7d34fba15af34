"""What is subscribed at each broker with a plan: the filters that links have to carry."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal, NamedTuple

import numpy as np
import pyarrow as pa

from overlace.arrays.jit import Ints
from overlace.errors import BadPlan, BadTrace
from overlace.live.planned import Planned
from overlace.matching.topics import shared, valid
from overlace.model import name_of
from overlace.observe.subscribers import read_subscribers
from overlace.observe.tables import columns
from overlace.trace.runs import read_run
from overlace.trace.store import Trace
from overlace.trace.tables import CONTENT, groups, numbers
from overlace.wording import counted

Dialect = Literal["mqtt", "nats"]


class Asked(NamedTuple):
    """A subscription."""

    client: str
    filter: str
    group: str | None


def read_subscribed(planned: Planned, dialect: Dialect) -> tuple[Mapping[str, set[str]], tuple[str, ...]]:
    """(filters, notes): of each broker's clients, from the trace that the plan's run was observed from.

    They are those that were open in the plan's window or later. What a client received without a subscription that
    the trace knows of counts as subscribed: it may have subscribed before the log began.
    """
    path = str(read_run(planned.run)["trace"])
    try:
        trace = Trace.open(path)
    except BadTrace as error:
        raise BadTrace(f"who subscribed to what is in the trace of the run: {error} {WITHOUT}") from None
    homes = _homes_in(trace, planned)
    found: dict[str, set[str]] = {}
    asked, wrong = _asked(trace, planned.document.window[0], dialect)
    received = _received_alone(trace, dialect)
    homeless = set()
    for client, text in (*((each.client, each.filter) for each in asked), *received):
        if client in homes:
            found.setdefault(homes[client], set()).add(text)
        else:
            homeless.add(client)
    if not found:
        raise BadTrace(f"{path} holds no subscriptions of clients whose broker is known. {WITHOUT}")
    notes: list[str] = []
    notes += _spread(asked, homes, planned.was)
    if wrong:
        notes.append(f"{counted(wrong, 'subscription', 'subscriptions')} left out: malformed filters")
    if received:
        topics = counted(len({topic for _, topic in received}), "topic", "topics")
        notes.append(f"{topics} that clients received without a known subscription: carried too")
    if homeless:
        notes.append(
            f"{counted(len(homeless), 'subscriber', 'subscribers')} not served: neither plan nor trace names a broker"
        )
    return found, tuple(notes)


def _spread(asked: Iterable[Asked], homes: Mapping[str, str], was: Mapping[str, str]) -> list[str]:
    """A note on groups with members at several brokers: Mosquitto deals messages at each broker on its own."""
    members: dict[tuple[str, str], list[str]] = {}
    for each in asked:
        if each.group is not None and each.client in homes:
            members.setdefault((each.group, each.filter), []).append(each.client)
    apart = {key: some for key, some in members.items() if len({homes[each] for each in some}) > 1}
    if not apart:
        return []
    today = sum(len({was.get(each, homes[each]) for each in some}) > 1 for some in apart.values())
    (group, text), some = min(apart.items())
    first = f"{text} of group {group}, at {', '.join(sorted({homes[each] for each in some})[:3])}"
    many = counted(len(apart), "shared subscription has", "shared subscriptions have")
    return [
        f"{many} members at several brokers, {today:,} of them today (first: {first}): in Mosquitto one member at "
        "each of these brokers gets every message. Plan with --keep for those who should stay together"
    ]


WITHOUT = "`--filters all` needs no trace."


def _homes_in(trace: Trace, planned: Planned) -> dict[str, str]:
    """Homes with the plan; of clients that it does not know where they were last seen, at a broker of the plan."""
    rows = columns(trace, "sessions", "client broker since until")
    clients, brokers = trace.names.get("client", ()), trace.names.get("broker", ())
    order = np.argsort(rows["since"], kind="stable")
    pairs = zip(rows["client"][order].tolist(), rows["broker"][order].tolist(), strict=True)
    last = {name_of("client", c, {"client": clients}): name_of("broker", b, {"broker": brokers}) for c, b in pairs}
    return {name: home for name, home in last.items() if home in planned.brokers} | dict(planned.homes)


def _asked(trace: Trace, begin: int, dialect: Dialect) -> tuple[list[Asked], int]:
    """(subscriptions that were open after a time, how many filters are malformed)."""
    rows = trace.read("subscriptions")
    until = numbers(rows["until"], np.iinfo(np.int64).max)
    rows = rows.filter(pa.array(until > begin))
    spoken = {each or "mqtt" for each, text in zip(*_lists(rows, "dialect", "filter"), strict=True) if text is not None}
    if CONTENT in spoken:
        raise BadPlan(
            f"{trace.path}: its subscriptions are filters on content, and brokers of this kind have filters on topics. "
            f"{WITHOUT}"
        )
    if spoken - {dialect}:
        other = "NATS" if dialect == "mqtt" else "MQTT"
        raise BadPlan(f"{trace.path}: its subscriptions are {other} filters, and the files are for another kind.")
    texts = [
        text if text is not None else name_of("topic", topic, trace.names) if topic is not None else None
        for text, topic in zip(*_lists(rows, "filter", "topic"), strict=True)
    ]
    rows = rows.append_column("text", pa.array(texts, pa.string())).filter(
        pa.array([each is not None for each in texts])
    )
    plain, groups_of = rows["text"].to_pylist(), rows["group"].to_pylist()
    if dialect == "mqtt":
        named, inner = shared(plain)
        plain = inner.to_pylist()
        groups_of = [group or other for group, other in zip(groups_of, named.to_pylist(), strict=True)]
    good = valid(plain, dialect).tolist()
    clients = [name_of("client", client, trace.names) for client in rows["client"].to_pylist()]
    found = [Asked(*row) for *row, fine in zip(clients, plain, groups_of, good, strict=True) if fine]
    return list(dict.fromkeys(found)), good.count(False)


def _lists(rows: pa.Table, *names: str) -> list[list[object]]:
    return [rows[name].to_pylist() for name in names]


def _received_alone(trace: Trace, dialect: Dialect) -> list[tuple[str, str]]:
    """(client, topic) of deliveries that no subscription of the trace explains."""
    topics = trace.count("topic")
    rows = trace.read("traffic", ["topic", "audience"]).group_by(["topic", "audience"]).aggregate([])
    topic, audience = numbers(rows["topic"], -1).astype(np.int64), numbers(rows["audience"]).astype(np.int64)
    listed = trace.read("audiences")
    if not topics or not listed.num_rows:
        return []
    start, members = groups(listed["receivers"])
    ids = numbers(listed["audience"]).astype(np.int64)
    order = np.argsort(ids, kind="stable")
    at = np.minimum(np.searchsorted(ids[order], audience), len(ids) - 1)
    which = order[at]
    known = (ids[which] == audience) & (topic >= 0)
    which, topic = which[known], topic[known]
    size = (start[which + 1] - start[which]).astype(np.int64)
    first = np.repeat(np.cumsum(size) - size, size)
    place = np.repeat(start[which], size) + np.arange(int(size.sum())) - first
    got: Ints = np.unique(members[place].astype(np.int64) * topics + np.repeat(topic, size))
    asked = read_subscribers(trace)
    left = np.setdiff1d(got, asked.client * topics + asked.topic).tolist()
    texts = [name_of("topic", key % topics, trace.names) for key in left]
    good = valid(texts, dialect).tolist()
    return [
        (name_of("client", key // topics, trace.names), text)
        for key, text, fine in zip(left, texts, good, strict=True)
        if fine
    ]
