"""What each client sent and each subscription received, from look to look at the counters of NATS servers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from overlace.arrays.jit import Bools, Floats
from overlace.matching.topics import match

OURS = ("_OVERLACE.", "$")
"""Filters that are no traffic of applications."""


class Received(NamedTuple):
    """A subscription of a connection, and how many messages it has received."""

    sid: str
    filter: str
    group: str | None
    messages: int


class Connection(NamedTuple):
    """A client's connection, and what it has sent since it began."""

    cid: int
    start: str
    name: str
    address: str
    messages: int
    bytes: int
    filters: tuple[Received, ...]


class Snapshot(NamedTuple):
    """What all brokers said at a moment; None: one was silent."""

    at_us: int
    brokers: Mapping[str, tuple[Connection, ...] | None]
    links: Mapping[str, tuple[Connection, ...]] = {}  # by broker; those to other brokers, under their names


def read_connection(row: Mapping[str, Any]) -> Connection:
    """A connection as /connz lists it."""
    subscriptions = tuple(
        Received(str(each.get("sid")), str(each.get("subject")), each.get("qgroup") or None, _count(each.get("msgs")))
        for each in row.get("subscriptions_list_detail") or ()
    )
    return Connection(
        cid=_count(row.get("cid")),
        start=str(row.get("start")),
        name=str(row.get("name") or ""),
        address=f"{row.get('ip')}:{row.get('port')}",
        messages=_count(row.get("in_msgs")),
        bytes=_count(row.get("in_bytes")),
        filters=subscriptions,
    )


def _count(value: object) -> int:
    return value if isinstance(value, int) and value > 0 else 0


Key = tuple[str, int, str]
"""A connection: broker, number, and when it began."""


@dataclass
class Ledger:
    """What was sent and received in each tick, of which the first begins with the first look."""

    ticks: int
    names: dict[Key, str]
    brokers: Sequence[str] = ()
    sent: dict[tuple[str, str], Floats] = field(default_factory=dict)  # by client and broker
    bytes: dict[str, int] = field(default_factory=lambda: defaultdict(int))  # by client
    crossed: dict[tuple[str, str], dict[tuple[str, str | None], Floats]] = field(default_factory=dict)
    """By broker and the one that it is linked with: what went there, by filter and group."""
    strange: bool = False  # links lead elsewhere, so what came from there is not known
    got: dict[tuple[Key, str], Counted] = field(default_factory=dict)
    whole: Bools = field(default_factory=lambda: np.empty(0, dtype=np.bool_))
    fell: int = 0  # counters that began anew
    silent: dict[str, int] = field(default_factory=lambda: defaultdict(int))


@dataclass
class Counted:
    """What a subscription received in each tick, and in which it was there from the beginning."""

    filter: str
    group: str | None
    amount: Floats
    there: Bools
    full: Bools


def read_ledger(snapshots: Sequence[Snapshot]) -> Ledger:
    """What each client sent and each subscription received from look to look.

    A connection that comes up at a broker that was seen before began in between: all its counts are new. One that is
    gone has taken with it what it did since the last look.
    """
    ticks = len(snapshots) - 1
    ledger = Ledger(ticks, names_of(snapshots), sorted(snapshots[0].brokers))
    ledger.whole = np.ones(ticks, dtype=np.bool_)
    last: dict[str, dict[Key, Connection]] = {}
    for k, snapshot in enumerate(snapshots):
        for broker, told in snapshot.brokers.items():
            if told is None:
                ledger.silent[broker] += 1
                ledger.whole[max(0, k - 1) : k + 1] = False
                continue
            links = snapshot.links.get(broker, ())
            now = {(broker, each.cid, each.start): each for each in (*told, *links)}
            if broker in last:
                for key, each in now.items():
                    enter = _enter if key in ledger.names else _enter_link
                    enter(ledger, key, each, last[broker].get(key), k - 1)
            elif k > 0:
                ledger.whole[k - 1] = False
            last[broker] = now
    return ledger


def _enter(ledger: Ledger, key: Key, now: Connection, before: Connection | None, tick: int) -> None:
    """Enter what a connection did in a tick."""
    name = ledger.names[key]
    if before is not None and before.messages > now.messages:  # counters never fall: they began anew
        ledger.fell += 1
        ledger.whole[tick] = False
        before = now
    sent, size = now.messages - (before.messages if before else 0), now.bytes - (before.bytes if before else 0)
    heard = {each[:3]: each.messages for each in before.filters} if before else {}
    if sent:
        ledger.sent.setdefault((name, key[0]), np.zeros(ledger.ticks))[tick] += sent
    ledger.bytes[name] += max(0, size)
    for each in now.filters:
        if each.filter.startswith(OURS):
            continue
        mine = ledger.got.get((key, each.sid))
        if mine is None or (mine.filter, mine.group) != (each.filter, each.group):
            ticks = ledger.ticks
            nothing = np.zeros(ticks, dtype=np.bool_)
            mine = Counted(each.filter, each.group, np.zeros(ticks), nothing, nothing.copy())
            ledger.got[key, each.sid] = mine
        known = each[:3] in heard
        mine.amount[tick] = max(0, each.messages - (heard[each[:3]] if known else 0))
        mine.there[tick], mine.full[tick] = True, known


def _enter_link(ledger: Ledger, key: Key, now: Connection, before: Connection | None, tick: int) -> None:
    """Enter what went over a link in a tick."""
    ledger.strange |= now.name not in ledger.brokers
    amounts = ledger.crossed.setdefault((key[0], now.name), {})
    heard = {each[:3]: each.messages for each in before.filters} if before else {}
    for each in now.filters:
        if not each.filter.startswith(OURS):
            amount = amounts.setdefault((each.filter, each.group), np.zeros(ledger.ticks))
            amount[tick] += max(0, each.messages - heard.get(each[:3], 0))


def names_of(snapshots: Sequence[Snapshot]) -> dict[Key, str]:
    """What each connection is called: by its name, with its address where two had one name at a time, or by number."""
    name: dict[Key, str] = {}
    address: dict[Key, str] = {}
    beside: dict[frozenset[Key], int] = defaultdict(int)
    for snapshot in snapshots:
        here: dict[str, list[Key]] = defaultdict(list)
        for broker, told in snapshot.brokers.items():
            for each in told or ():
                key = (broker, each.cid, each.start)
                name[key], address[key] = each.name or f"{broker}:{each.cid}", each.address
                here[name[key]].append(key)
        for keys in here.values():
            if len(keys) > 1:
                beside[frozenset(keys)] += 1
    replicas = {name[key] for keys, times in beside.items() for key in keys if times > 1}  # once: it moves
    return {key: f"{each}@{address[key]}" if each in replicas else each for key, each in name.items()}


def topics_of(ledger: Ledger) -> dict[str, Floats]:
    """What was published to each topic in each tick: what its filter received, less what narrower ones did."""
    by_filter: dict[str, list[Counted]] = defaultdict(list)
    for each in ledger.got.values():
        by_filter[each.filter].append(each)
    published = {wanted: _published(held, ledger.ticks) for wanted, held in by_filter.items()}
    inner = narrower(sorted(published))
    topics: dict[str, Floats] = {}
    for wanted, amount in sorted(published.items()):
        rest = amount.copy()
        for other in inner[wanted]:
            rest -= published[other]
        topic = topic_of(wanted)
        topics[topic] = topics[topic] + rest if topic in topics else rest
    return {topic: amount for topic, amount in topics.items() if amount.sum() > 0}


def _published(subscriptions: Sequence[Counted], ticks: int) -> Floats:
    """What was published to a filter: every plain subscription receives it all, every group once."""
    plain = sorted((each for each in subscriptions if each.group is None), key=lambda each: -each.amount.sum())
    ways = [first_there(plain, ticks)]
    groups: dict[str, Floats] = defaultdict(lambda: np.zeros(ticks))
    for each in subscriptions:
        if each.group is not None:
            groups[each.group] = groups[each.group] + each.amount
    return max([*ways, *(groups[name] for name in sorted(groups))], key=lambda amount: float(amount.sum()))


def first_there(plain: Sequence[Counted], ticks: int) -> Floats:
    """The amounts of the first subscription that was there, tick by tick."""
    found, known = np.zeros(ticks), np.zeros(ticks, dtype=np.bool_)
    for which in ("full", "there"):
        for each in plain:
            take = getattr(each, which) & ~known
            found[take] = each.amount[take]
            known |= take
    return found


def topic_of(filter_text: str) -> str:
    """The topic that stands for a filter: the filter itself; of all replies to one inbox, one."""
    words = filter_text.split(".")
    return f"_INBOX.{words[1]}.reply" if words[0] == "_INBOX" and len(words) > 2 else filter_text


def covers(wide: str, narrow: str) -> bool:
    """Whether a filter matches all that another matches."""
    ours, theirs = wide.split("."), narrow.split(".")
    for i, word in enumerate(ours):
        if word == ">":
            return len(theirs) > i
        if i >= len(theirs) or theirs[i] == ">" or word not in ("*", theirs[i]):
            return False
    return len(ours) == len(theirs)


def narrower(filters: Sequence[str]) -> dict[str, list[str]]:
    """For each filter the widest of those that it covers."""
    below: dict[str, set[str]] = {each: set() for each in filters}
    for wide, narrow in match(filters, "nats", filters).tolist():
        if wide != narrow and covers(filters[wide], filters[narrow]):
            below[filters[wide]].add(filters[narrow])
    return {each: sorted(inner - {n for other in inner for n in below[other]}) for each, inner in below.items()}
