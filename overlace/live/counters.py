"""Flows estimated from the counters of NATS servers, for clients that are as they are.

/connz?subs=detail of every broker says how many messages each client has sent and each subscription has received. What
is not said is who sent what to whom: that is fitted (fit.py), from how amounts rise and fall together, tick by tick.
A topic is a filter that somebody subscribes to, less what narrower filters receive.

It fails where publishers rise and fall together (`Estimate.together` names them: they share by what they sent), and
with recordings of fewer ticks than publishers. `Estimate.spread` says how far two halves of the recording differ.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Any, NamedTuple

import numpy as np

from overlace.arrays.jit import Bools, Floats, Ints
from overlace.errors import BadNetwork
from overlace.live.deployment import Deployment
from overlace.live.fit import deal, differ, explained, groups_alike, shares_by_broker
from overlace.live.ledger import (
    OURS,
    Connection,
    Key,
    Ledger,
    Snapshot,
    covers,
    read_connection,
    read_ledger,
    topic_of,
    topics_of,
)
from overlace.live.monitor import connections, look
from overlace.live.origins import published_at

TICK = 0.25
"""Seconds between two looks. In a simulation of 40 publishers with three topics each for 60 s, a tick of 1 s left 21 %
of the messages at a wrong publisher, one of 0.25 s 12 %, one of 0.1 s 11 %."""

REST = 4
"""A look is followed by at least so many times the time it took, so that large networks are not kept busy by it."""

LEAF = "Leafnode"
ALL = (None, "", "Client", LEAF)
"""Kinds of connections that are looked at."""

SECOND_US = 1_000_000
UNHEARD = "$unheard"
"""The topic of messages that nobody has received: which topics they had is not known."""


class Subscription(NamedTuple):
    """A filter of a client; None: since always, or still."""

    client: str
    filter: str
    group: str | None
    home: str
    messages: int  # received
    since: int | None
    until: int | None


class Home(NamedTuple):
    """Where a client was connected; None: since always, or still."""

    client: str
    broker: str
    since: int | None
    until: int | None


@dataclass(frozen=True)
class Estimate:
    """Who published what, as far as counters tell: rows by second, client and topic."""

    second: Ints  # microseconds UTC, whole seconds
    client: Sequence[str]
    topic: Sequence[str]
    messages: Ints
    bytes: Ints  # by the mean size of the client's messages
    subscriptions: Sequence[Subscription]
    sessions: Sequence[Home]
    seconds: float
    fit: float  # the share of what amounts vary by that is explained
    spread: float  # the share of messages that two halves of the recording have at different publishers
    together: Sequence[tuple[str, ...]]  # publishers that cannot be told apart
    sent: int  # messages that clients sent
    unheard: int  # of them such that nobody received
    lost: int  # received, but nobody is known to have sent anything
    incomplete: int  # ticks that were left out: a broker was silent or began anew
    notes: Sequence[str] = ()

    @property
    def homes(self) -> dict[str, str]:
        """The last home of each client."""
        return {each.client: each.broker for each in sorted(self.sessions, key=lambda each: each.since or 0)}

    def receivers(self, topic: str) -> list[Subscription]:
        """The subscriptions that a topic's messages go to; of those of one group, to one each."""
        return [each for each in self.subscriptions if covers(each.filter, topic) or topic_of(each.filter) == topic]


class Sampler:
    """Looks at the counters of all brokers, tick by tick, as long as it is open.

    async with Sampler(deployment) as sampler:
        await asyncio.sleep(60)
    found = sampler.estimate()
    """

    def __init__(self, deployment: Deployment, colour: int | None = None, tick: float = TICK) -> None:
        self.deployment, self.tick = deployment, tick
        self.accounts = {deployment.colours[colour]} if colour is not None else set(deployment.colours)
        self.ours = own_users(deployment)
        self.snapshots: list[Snapshot] = []
        self._known: dict[str, dict[tuple[int, str], Connection]] = {}
        self._far: dict[tuple[str, int, str], str] = {}  # who is at the other end of a link
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Sampler:
        if self.deployment.substrate != "nats":
            raise BadNetwork(f"{self.deployment.path}: only NATS has counters to estimate flows from")
        first = await self.look()
        if silent := [name for name, told in first.brokers.items() if told is None]:
            monitor = self.deployment.of(silent[0]).monitor
            more = f" and {len(silent) - 1} more" if len(silent) > 1 else ""
            raise BadNetwork(f"{silent[0]}{more} at {monitor} does not answer. Is its monitoring on?")
        self._task = asyncio.create_task(self._run())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
        if kind is None:
            await self.look()

    async def look(self) -> Snapshot:
        """Ask all brokers once."""
        begun = time.time()
        brokers = list(self.deployment.brokers)
        told = await asyncio.gather(*(connections(self.deployment, b, "subs=detail&auth=1", ALL) for b in brokers))
        middle = int((begun + time.time()) / 2 * 1e6)
        found: dict[str, tuple[Connection, ...] | None] = {}
        links: dict[str, tuple[Connection, ...]] = {}
        for broker, rows in zip(brokers, told, strict=True):
            if rows is None:
                found[broker] = None
                continue
            mine = [row for row in rows if row["account"] in self.accounts]
            leafs = [row for row in mine if row.get("kind") == LEAF]
            apps = [row for row in mine if row.get("kind") != LEAF and row.get("authorized_user") not in self.ours]
            await self._find_ends(broker, leafs)
            known = self._keep(broker, [*map(read_connection, apps), *(self._link(broker, row) for row in leafs)])
            found[broker], links[broker] = known[: len(apps)], known[len(apps) :]
        self.snapshots.append(Snapshot(middle, found, links))
        return self.snapshots[-1]

    def _keep(self, broker: str, now: Iterable[Connection]) -> tuple[Connection, ...]:
        """The connections; those that did nothing are kept as they were, to save room."""
        before = self._known.get(broker, {})
        kept = tuple(old if (old := before.get((each.cid, each.start))) == each else each for each in now)
        self._known[broker] = {(each.cid, each.start): each for each in kept}
        return kept

    def _link(self, broker: str, row: Mapping[str, Any]) -> Connection:
        made = read_connection(row)
        return made._replace(name=self._far.get((broker, made.cid, made.start), ""))

    async def _find_ends(self, broker: str, leafs: Sequence[Mapping[str, Any]]) -> None:
        """Find out who is at the other end of links: /connz does not say it of those that the broker dialled."""
        keys = [(broker, each.cid, each.start) for each in map(read_connection, leafs)]
        if all(key in self._far for key in keys):
            return
        told = await look(self.deployment, broker, "leafz")
        names = {each.get("id"): str(each.get("name")) for each in (told or {}).get("leafs") or ()}
        self._far |= {key: names[key[1]] for key in keys if key[1] in names}

    async def _run(self) -> None:
        following = time.monotonic() + self.tick
        while True:
            await asyncio.sleep(max(0.0, following - time.monotonic()))
            begun = time.monotonic()
            await self.look()
            took = time.monotonic() - begun
            following = max(following + self.tick, time.monotonic() + REST * took)

    def estimate(self) -> Estimate:
        """What the counters say by now."""
        return estimate(self.snapshots)


def own_users(deployment: Deployment) -> set[str]:
    """The names under which Overlace and the brokers themselves log in; no secret is needed for them but NKEYs'."""
    found = set()
    for role in ("control", "links", "system"):
        held = getattr(deployment.credentials, role)
        for colour, name in enumerate(deployment.colours if held else ()):
            if held.user:
                plain = held.user if "{colour}" in held.user or role == "system" else held.user + "-{colour}"
                found.add(plain.replace("{colour}", name))
            elif held.nkey:
                with suppress(BadNetwork, OSError):
                    found.add(deployment.login(role, colour).public_key())
    return found


def estimate(snapshots: Sequence[Snapshot]) -> Estimate:
    """Who published what to which filter, as far as the counters of servers tell."""
    if len(snapshots) < 2:
        raise BadNetwork("nothing was recorded: counters have to be read twice or more. Record for some seconds.")
    ledger = read_ledger(snapshots)
    publishers = sorted(ledger.sent)  # with their brokers
    sent = _columns([ledger.sent[each] for each in publishers], ledger.ticks)
    topics = topics_of(ledger)
    names = sorted(topics)
    got = _columns([topics[name] for name in names], ledger.ticks)
    at_broker = np.array([ledger.brokers.index(broker) for _, broker in publishers], dtype=np.int64)
    origins = _origins(ledger, names)
    use = ledger.whole

    def fitted(ticks: Bools | Ints) -> Floats:
        some = {topics: {b: amount[ticks] for b, amount in by.items()} for topics, by in origins.items()}
        return shares_by_broker(sent[ticks], got[ticks], at_broker, some)

    shares = fitted(use)
    edges, at = _seconds(snapshots)
    called = [name for name, _ in publishers]
    sent_by_second, got_by_second = _whole(sent, at, edges), _whole(got, at, edges)
    dealt = [
        deal(_weights(shares[:, i], sent_by_second), got_by_second[:, i]) for i in range(len(names))
    ]  # per topic: (second, publisher)
    lost = int(got_by_second.sum()) - sum(int(each.sum()) for each in dealt)
    unheard = _unheard(sent_by_second, dealt)
    rows = list(_rows((*names, UNHEARD), called, (*dealt, unheard)))
    total = Counter(dict.fromkeys(called, 0.0))
    for (name, _), amount in ledger.sent.items():
        total[name] += amount.sum()
    size = {name: ledger.bytes[name] / max(1.0, total[name]) for name in called}
    halves = [fitted(part) * sent.sum(axis=0)[:, None] for part in _halves(use)]
    begin = edges[:-1] // SECOND_US * SECOND_US
    found = Estimate(
        second=begin[[row[0] for row in rows]] if rows else np.empty(0, dtype=np.int64),
        client=[row[1] for row in rows],
        topic=[row[2] for row in rows],
        messages=np.array([row[3] for row in rows], dtype=np.int64),
        bytes=np.array([round(row[3] * size[row[1]]) for row in rows], dtype=np.int64),
        subscriptions=list(_subscriptions(snapshots, ledger)),
        sessions=list(_sessions(snapshots, ledger)),
        seconds=(snapshots[-1].at_us - snapshots[0].at_us) / 1e6,
        fit=explained(sent[use], got[use], shares),
        spread=differ(*halves),
        together=_together(sent[use], publishers, apart=sum(map(len, origins)) == len(names)),
        sent=round(sent.sum()),
        unheard=int(unheard.sum()),
        lost=lost,
        incomplete=int((~use).sum()),
    )
    return _with_notes(found, ledger, len(set(called)), int(use.sum()))


def _origins(ledger: Ledger, topics: Sequence[str]) -> dict[tuple[int, ...], dict[int, Floats]]:
    """By topics that are looked at together and broker, what was published there, where that is known."""
    place = {topic: i for i, topic in enumerate(topics)}
    found = {}
    for family, by_broker in published_at(ledger).items():
        mine = tuple(sorted({place[topic] for each in family if (topic := topic_of(each)) in place}))
        if mine:
            found[mine] = {ledger.brokers.index(broker): amount for broker, amount in by_broker.items()}
    count = Counter(topic for family in found for topic in family)
    return {family: each for family, each in found.items() if max(count[topic] for topic in family) == 1}


def _columns(series: Sequence[Floats], ticks: int) -> Floats:
    return np.column_stack(series) if series else np.empty((ticks, 0))


def _weights(share: Floats, sent: Ints) -> Floats:
    """(second, publisher) of a topic: by the fit; where it gives nobody anything, by what was sent."""
    weights = share[None, :] * sent
    return weights if weights.any() else sent.astype(np.float64)


def _halves(use: Bools) -> tuple[Ints, Ints]:
    ticks = np.flatnonzero(use)
    return ticks[::2], ticks[1::2]


def _unheard(sent: Ints, dealt: Sequence[Ints]) -> Ints:
    """(second, publisher): what was sent and not received, all in all as much as there is of it."""
    heard: Ints = np.sum(dealt, axis=0, dtype=np.int64) if dealt else np.zeros_like(sent)
    total = max(0, int(sent.sum() - heard.sum()))
    left = np.maximum(sent.sum(axis=0) - heard.sum(axis=0), 0).astype(np.float64)
    each = deal(left[None, :], np.array([total]))[0] if left.any() else np.zeros(sent.shape[1], dtype=np.int64)
    columns = [deal(sent[:, [p]].T.astype(np.float64), each[[p]])[0] for p in range(sent.shape[1])]
    return np.column_stack(columns) if columns else np.zeros_like(sent)


def _rows(
    topics: Sequence[str], publishers: Sequence[str], dealt: Sequence[Ints]
) -> Iterator[tuple[int, str, str, int]]:
    """(second, client, topic, messages), in this order."""
    found: Counter[tuple[int, str, str]] = Counter()
    for topic, table in zip(topics, dealt, strict=True):
        for second, p in np.argwhere(table > 0).tolist():
            found[second, publishers[p], topic] += int(table[second, p])
    yield from ((*key, found[key]) for key in sorted(found))


def _together(sent: Floats, publishers: Sequence[tuple[str, str]], apart: bool) -> list[tuple[str, ...]]:
    """Publishers that cannot be told apart; `apart`: those at different brokers can."""
    members: dict[tuple[int, str], list[str]] = defaultdict(list)
    for (name, broker), label in zip(publishers, groups_alike(sent).tolist(), strict=True):
        members[label, broker if apart else ""].append(name)
    return sorted(tuple(each) for each in members.values() if len(each) > 1)


def _with_notes(found: Estimate, ledger: Ledger, publishers: int, ticks: int) -> Estimate:
    """The estimate with what a reader of it must know."""
    notes = []
    if ticks < 2 * publishers:
        notes.append(
            f"{ticks} ticks are few for {publishers} publishers, so many messages may be at a wrong one: "
            "record for longer"
        )
    for names in found.together[:5]:
        shown = ", ".join(map(repr, names[:4])) + (", ..." if len(names) > 4 else "")
        notes.append(f"{shown} rise and fall together and cannot be told apart: they share by what they sent")
    if len(found.together) > 5:
        notes.append(f"so do {len(found.together) - 5} more groups of clients")
    for broker, times in sorted(ledger.silent.items()):
        notes.append(f"{broker} was silent {times} times; what its clients did meanwhile is shared out over that time")
    if ledger.fell:
        notes.append(f"the counters of {ledger.fell} connections began anew; what they did just before is not known")
    if found.lost:
        notes.append(f"{found.lost:,} messages came from nobody who is connected here, and are left out")
    return Estimate(**{**vars(found), "notes": tuple(notes)})


def _seconds(snapshots: Sequence[Snapshot]) -> tuple[Ints, Floats]:
    """(edges of whole seconds, with both ends of the recording; the time of each look)."""
    at = np.maximum.accumulate(np.array([each.at_us for each in snapshots], dtype=np.int64))
    first, last = int(at[0]), int(at[-1])
    inner = range((first // SECOND_US + 1) * SECOND_US, last, SECOND_US)
    return np.array([first, *inner, max(last, first + 1)], dtype=np.int64), at.astype(np.float64)


def _whole(amounts: Floats, at: Floats, edges: Ints) -> Ints:
    """Amounts of ticks as whole numbers by second; the sum of all stays."""
    found = np.zeros((len(edges) - 1, amounts.shape[1]), dtype=np.int64)
    for i in range(amounts.shape[1]):
        so_far = np.append(0.0, np.cumsum(amounts[:, i]))
        so_far = np.minimum(np.maximum.accumulate(so_far), so_far[-1])  # what narrower filters took may come late
        found[:, i] = np.diff(np.rint(np.interp(edges, at, so_far)).astype(np.int64))
    return found


def _spans(
    seen: Mapping[Any, list[int]], snapshots: Sequence[Snapshot]
) -> Iterator[tuple[Any, int | None, int | None]]:
    """(what, since, until) by the looks at which something was there."""
    for what, looks in seen.items():
        since = None if looks[0] == 0 else snapshots[looks[0]].at_us
        yield what, since, None if looks[-1] == len(snapshots) - 1 else snapshots[looks[-1] + 1].at_us


def _sessions(snapshots: Sequence[Snapshot], ledger: Ledger) -> Iterator[Home]:
    seen: dict[Key, list[int]] = defaultdict(list)
    for k, snapshot in enumerate(snapshots):
        for broker, told in snapshot.brokers.items():
            for each in told or ():
                seen[broker, each.cid, each.start].append(k)
    found = [Home(ledger.names[key], key[0], since, until) for key, since, until in _spans(seen, snapshots)]
    yield from sorted(found, key=lambda each: (each.client, each.since or 0, each.broker))


def _subscriptions(snapshots: Sequence[Snapshot], ledger: Ledger) -> Iterator[Subscription]:
    seen: dict[tuple[Key, Any], list[int]] = defaultdict(list)
    for k, snapshot in enumerate(snapshots):
        for broker, told in snapshot.brokers.items():
            for each in told or ():
                for heard in each.filters:
                    if not heard.filter.startswith(OURS):
                        seen[(broker, each.cid, each.start), heard[:3]].append(k)
    found = []
    for (key, (sid, wanted, group)), since, until in _spans(seen, snapshots):
        counted = ledger.got.get((key, sid))
        messages = int(counted.amount.sum()) if counted is not None else 0
        found.append(Subscription(ledger.names[key], wanted, group, key[0], messages, since, until))
    yield from sorted(found, key=lambda each: (each.client, each.filter, each.group or "", each.since or 0))
