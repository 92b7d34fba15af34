"""Watching a running network for a while: who is where, who subscribes to what, who publishes how much.

Counted: once a second every wrapped client says how many messages of each topic it has published since it began. What
was published in a second is the difference, so an answer that is lost or comes twice does no harm. A client that
leaves says a last time.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, TypeVar

from overlace.errors import BadNetwork
from overlace.live.adapter import Answer, Order, Shown, Watched, read_answer, refuse_silent
from overlace.live.deployment import Deployment
from overlace.live.wiring import Links, Pair
from overlace.model import Progress

SECOND_US = 1_000_000
Key = TypeVar("Key", bound=tuple[object, ...])


class Span(NamedTuple, Generic[Key]):
    """Something that was so for a time; None: since always, or still."""

    what: Key
    since: int | None
    until: int | None


class Spans(Generic[Key]):
    """What is so, as it is seen from time to time.

    A change between two looks dates from the first of them, as what was counted between them does: who subscribes and
    receives in one second is subscribed in that second.
    """

    def __init__(self) -> None:
        self.open: dict[Key, int | None] = {}
        self.over: list[Span[Key]] = []
        self.looked: int | None = None  # when

    def look(self, now: Iterable[Key], at: int) -> None:
        """What is so at a moment; at the first look it has always been so."""
        current = set(now)
        changed = at if self.looked is None else self.looked
        for key in [each for each in self.open if each not in current]:
            self.over.append(Span(key, self.open.pop(key), changed))
        for key in current - self.open.keys():
            self.open[key] = None if self.looked is None else changed
        self.looked = at

    def rows(self) -> list[Span[Key]]:
        """Everything that was so, in order."""
        every = [*self.over, *(Span(key, since, None) for key, since in self.open.items())]
        return sorted(every, key=lambda each: (each.since or 0, str(each.what), each.until or 0))


Session = tuple[str, str]  # client, broker
Subscription = tuple[str, str, str | None]  # client, filter, group


@dataclass
class Recording:
    """What was seen of a network."""

    how: str
    begin_us: int
    end_us: int = 0
    sent: dict[tuple[int, str, str], list[int]] = field(default_factory=lambda: defaultdict(lambda: [0, 0]))
    """By second, client and topic: messages and bytes. Receivers follow from subscriptions."""
    sessions: Spans[Session] = field(default_factory=Spans)
    subscriptions: Spans[Subscription] = field(default_factory=Spans)
    links: Links = frozenset()
    latency_us: Mapping[Pair, int] = field(default_factory=dict)
    silent_clients: list[str] = field(default_factory=list)
    """Clients that do not follow orders: what they publish is not counted."""
    notes: list[str] = field(default_factory=list)


class Counter:
    """Cumulative counts of clients, turned into what was published in each second."""

    def __init__(self, recording: Recording) -> None:
        self.recording = recording
        self.last: dict[tuple[str, str], dict[str, tuple[int, int]]] = {}

    def begin(self, answers: Iterable[Answer]) -> None:
        """What was published before the recording."""
        for each in answers:
            self.last[key_of(each)] = counts_of(each)

    def take(self, answer: Answer, second: int) -> None:
        """What a client has published since its last answer; of one that is new, everything."""
        before = self.last.get(key_of(answer), {})
        counts = counts_of(answer)
        for topic, (messages, size) in counts.items():
            old = before.get(topic, (0, 0))
            if messages > old[0]:
                row = self.recording.sent[second, str(answer["client"]), topic]
                row[0] += messages - old[0]
                row[1] += max(0, size - old[1])
        newest = {topic: max(each, before.get(topic, (0, 0))) for topic, each in counts.items()}
        self.last[key_of(answer)] = {**before, **newest}


def key_of(answer: Answer) -> tuple[str, str]:
    """Whose answer it is: two processes with one name are two."""
    return str(answer["client"]), str(answer["instance"])


def counts_of(answer: Answer) -> dict[str, tuple[int, int]]:
    """Messages and bytes by topic."""
    return {str(topic): (int(pair[0]), int(pair[1])) for topic, pair in (answer.get("counts") or {}).items()}


async def begin_recording(adapter: Watched, how: str) -> tuple[Recording, Shown]:
    """Look at the network before anything is recorded; refused if it cannot be."""
    shown = await adapter.shown()
    refuse_silent(shown, adapter.deployment)
    refuse_names(shown, adapter.deployment)
    recording = Recording(how, int(time.time() * 1e6))
    recording.links = shown.links[shown.live]
    return recording, shown


def refuse_names(shown: Shown, deployment: Deployment) -> None:
    """Refused if a client has no name, or two have the same."""
    if shown.nameless and deployment.substrate == "nats":
        count = shown.nameless
        raise BadNetwork(
            f"{count} client{'s have' if count > 1 else ' has'} no name, so that nobody can say who they are. "
            "Give every client a name of its own (the connect option `name`)."
        )
    for name, seen in shown.clients.items():
        if seen.connections > 1:
            raise BadNetwork(f"{seen.connections} clients are called {name!r}. Give every client a name of its own.")


def refuse_same_names(answers: Iterable[Answer]) -> None:
    """Refused if two clients answer under one name."""
    seen: dict[str, str] = {}
    for each in answers:
        name, instance = key_of(each)
        if seen.setdefault(name, instance) != instance:
            raise BadNetwork(f"two clients are called {name!r}. Give every client a name of its own.")


COUNT: Order = {"do": "count"}
SELDOM = 10
"""Seconds between two orders where nothing is counted: all clients answer, and answers cross links."""


async def watch(
    adapter: Watched, recording: Recording, shown: Shown, seconds: float, progress: Progress, order: Order = COUNT
) -> None:
    """Give everybody an order until the time is over, at whole seconds of the clock; take answers.

    What is counted is asked for every second, other orders are repeated every few.
    """
    live = shown.live
    count = order == COUNT
    follow = [name for name, seen in shown.clients.items() if seen.wrapped]
    first = await adapter.tell_all(order, live, follow)
    refuse_same_names(first)
    if missing := sorted(set(follow) - {str(each["client"]) for each in first}):
        raise BadNetwork(f"client {missing[0]!r} follows orders but does not answer. Is it stuck?")
    if not first:
        raise BadNetwork(
            f"no client follows orders, so nothing can be {recording.how}: use overlace.live.client in them"
            + (", or record --how estimated" if adapter.deployment.substrate == "nats" else "")
        )
    if error := next((str(each["error"]) for each in first if each.get("error")), None):
        raise BadNetwork(f"a client cannot follow the order {order['do']}: {error}")
    counter = Counter(recording)
    counter.begin(first)
    recording.silent_clients = sorted(name for name, seen in shown.clients.items() if not seen.wrapped)
    adapter.farewells.clear()
    at = recording.begin_us = int(time.time() * 1e6)
    look(recording, shown, first, at)
    known = {str(each["client"]) for each in first}
    heard = {str(each["client"]): each for each in first}
    unheard: set[str] = set()
    last = at + round(seconds * 1e6)
    second = at // SECOND_US * SECOND_US
    progress(0.0, f"recording: {len(known)} clients")
    while at < last:
        ends = min(second + (1 if count else SELDOM) * SECOND_US, last)
        await asyncio.sleep(max(0.0, ends / 1e6 - time.time()))
        answers = await adapter.tell_all(order, live, known)
        farewells = take_farewells(adapter)
        for each in (*answers, *farewells) if count else ():
            counter.take(each, second)
        at = int(time.time() * 1e6)
        gone = {str(each["client"]) for each in farewells}
        here = [each for each in answers if key_of(each) not in {key_of(bye) for bye in farewells}]
        now = {str(each["client"]): each for each in here}
        unheard = (unheard | known) - gone - now.keys()
        known = now.keys() | await still_there(adapter, known - gone, here)
        heard |= now
        look(recording, shown, [*here, *(heard[name] for name in sorted(known - now.keys()))], at)
        second = max(ends, at // SECOND_US * SECOND_US) // SECOND_US * SECOND_US
        total = sum(row[0] for row in recording.sent.values())
        told = f"{total:,} messages, {len(known)} clients" if count else f"{len(known)} clients"
        progress(min(0.9, 0.9 * (at - recording.begin_us) / max(1, last - recording.begin_us)), f"recording: {told}")
    recording.end_us = at
    if unheard and count:
        many = "1 client was" if len(unheard) == 1 else f"{len(unheard):,} clients were"
        first_few = ", ".join(map(repr, sorted(unheard)[:3])) + (", ..." if len(unheard) > 3 else "")
        recording.notes.append(
            f"{many} not heard to the end, gone without a word or behind a broker that is away; what they published "
            f"last is not in the trace: {first_few}"
        )


async def still_there(adapter: Watched, names: set[str], here: Iterable[Answer]) -> set[str]:
    """Of clients that were silent once, those that a broker still shows."""
    absent = names - {str(each["client"]) for each in here}
    if not absent:
        return set()
    shown = await adapter.shown()
    return {name for name in absent if name in shown.clients and shown.clients[name].wrapped}


def take_farewells(adapter: Watched) -> list[Answer]:
    """The last answers of clients that left."""
    found: list[Answer] = []
    while adapter.farewells:
        told = read_answer(adapter.farewells.pop(0))
        if told is not None:
            found.append(told)
    return found


def look(recording: Recording, shown: Shown, answers: Collection[Answer], at: int) -> None:
    """Who is where, and subscribed to what, at a moment: as those say that answer, as brokers show the others."""
    sessions: list[Session] = []
    filters: list[Subscription] = []
    for each in answers:
        name, live = str(each["client"]), int(each.get("live", 0))
        homes = [*each.get("homes", ()), None, None]
        if homes[live] in shown.brokers:
            sessions.append((name, str(homes[live])))
        elif homes[live] is not None:
            note = f"{name!r} says that it is at {homes[live]!r}, which the network file does not name: left out"
            recording.notes += [note] if note not in recording.notes else []
        filters += [(name, str(f), g) for f, g in each.get("filters", ())]
    for name, seen in shown.clients.items():
        if not seen.wrapped and seen.homes[seen.live]:
            sessions.append((name, str(seen.homes[seen.live])))
            filters += [(name, each, group) for each, group in seen.filters]
    recording.sessions.look(sessions, at)
    recording.subscriptions.look(filters, at)
