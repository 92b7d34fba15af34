"""What a load has sent and what came of it, id by id."""

from __future__ import annotations

import asyncio
import json
import time
from array import array
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from overlace.live.scenario import ClientFilter, Kind, Scenario
from overlace.live.wiring import Pair, pair

KINDS: tuple[Kind, ...] = ("topics", "groups", "requests")
PERCENTILES = (50, 90, 99, 100)


class Stream:
    """The messages of one publisher to one topic, at one receiver: how often each has come."""

    __slots__ = ("highest", "seen")

    def __init__(self) -> None:
        self.seen = bytearray()
        self.highest = -1


class DeliveryFigures(NamedTuple):
    """What came of messages of one kind."""

    sent: int
    expected: int
    delivered: int
    lost: int
    duplicated: int
    reordered: int


class Tally:
    """Counts of a load. A delivery is one message at one receiver; of a group or a request, one is expected."""

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self.homes = dict(scenario.homes)
        self.began = self.ended = time.time()
        self.counts: Counter[tuple[str, str]] = Counter()
        """Messages by (client, topic): what the client's own counts must be, answers to requests included."""
        self.sizes: Counter[tuple[str, str]] = Counter()
        self.failed = 0
        self.foreign = 0
        self.answered = 0
        self.unanswered = 0
        self.awaited = 0
        """Deliveries and answers that are still to come."""
        self.complete = asyncio.Event()
        self._sent: dict[tuple[int, str], int] = {}
        self._streams: dict[tuple[int, str, str], Stream] = {}
        self._delivered, self._duplicated, self._reordered = Counter[str](), Counter[str](), Counter[str]()
        self._micros = {kind: array("f") for kind in KINDS}

    # what happens

    def send(self, topic: int, client: str, size: int) -> int:
        """A message is published: its number among those of its publisher to this topic."""
        kind = self.scenario.topics[topic].kind
        number = self._sent.get((topic, client), 0)
        self._sent[topic, client] = number + 1
        self._count(client, self.scenario.topics[topic].name, size)
        self.awaited += len(self.scenario.topics[topic].receivers) if kind == "topics" else 1
        self.complete.clear()
        return number

    def fail(self, topic: int) -> None:
        """A message could not be published: it is lost, and nobody waits for it."""
        self.failed += 1
        kind, receivers = self.scenario.topics[topic].kind, self.scenario.topics[topic].receivers
        self._account(len(receivers) if kind == "topics" else 1)

    def receive(self, topic: int, client: str, receiver: str, number: int, sent_ns: int) -> None:
        """A message has come."""
        kind = self.scenario.topics[topic].kind
        key = (topic, client, receiver if kind == "topics" else "")
        stream = self._streams.get(key)
        if stream is None:
            stream = self._streams[key] = Stream()
        if number >= len(stream.seen):
            stream.seen.extend(bytes(number + 1 - len(stream.seen)))
        stream.seen[number] = min(255, stream.seen[number] + 1)
        if stream.seen[number] > 1:
            self._duplicated[kind] += 1
            return
        self._delivered[kind] += 1
        self._micros[kind].append((time.perf_counter_ns() - sent_ns) / 1000)
        if number < stream.highest and kind == "topics":
            self._reordered[kind] += 1
        stream.highest = max(stream.highest, number)
        if kind != "requests":
            self._account(1)

    def respond(self, client: str, reply: str, size: int) -> None:
        """An answer is published."""
        self._count(client, reply, size)

    def close_request(self, answered: bool) -> None:
        """A request is answered, or not."""
        self.answered += answered
        self.unanswered += not answered
        self._account(1)

    def _count(self, client: str, topic: str, size: int) -> None:
        self.counts[client, topic] += 1
        self.sizes[client, topic] += size

    def _account(self, count: int) -> None:
        self.awaited -= count
        if self.awaited <= 0:
            self.complete.set()

    # what came of it

    def figures(self, kind: Kind) -> DeliveryFigures:
        """What came of messages of one kind."""
        sent = expected = 0
        for (topic, _), count in self._sent.items():
            known = self.scenario.topics[topic]
            if known.kind == kind:
                sent += count
                expected += count * (len(known.receivers) if kind == "topics" else 1)
        delivered = self._delivered[kind]
        return DeliveryFigures(
            sent, expected, delivered, expected - delivered, self._duplicated[kind], self._reordered[kind]
        )

    @property
    def sent(self) -> int:
        """Messages that were published, without answers."""
        return sum(self._sent.values())

    @property
    def delivered(self) -> int:
        """Deliveries, each counted once."""
        return sum(self._delivered.values())

    @property
    def lost(self) -> int:
        """Deliveries that were expected and did not come."""
        return sum(self.figures(kind).lost for kind in KINDS)

    @property
    def duplicated(self) -> int:
        """Deliveries beyond the first of a message at a receiver."""
        return sum(self._duplicated.values())

    @property
    def reordered(self) -> int:
        """Deliveries that came after a later message of the same publisher to the same topic; groups keep no order."""
        return sum(self._reordered.values())

    @property
    def subscriptions(self) -> tuple[ClientFilter, ...]:
        """Who is subscribed to what."""
        return self.scenario.subscriptions

    def mark(self) -> dict[Kind, int]:
        """How many deliveries there were by now."""
        return {kind: len(self._micros[kind]) for kind in KINDS}

    def latency(self, kinds: Collection[Kind] = KINDS, since: Mapping[Kind, int] | None = None) -> dict[int, float]:
        """Percentiles of the time from publishing to receiving, in milliseconds; of deliveries since a mark."""
        micros = sorted(each for kind in kinds for each in self._micros[kind][(since or {}).get(kind, 0) :])
        if not micros:
            return {}
        return {p: round(micros[min(len(micros) - 1, len(micros) * p // 100)] / 1000, 3) for p in PERCENTILES}

    def crossings(self, links: Iterable[Pair], homes: Mapping[str, str] | None = None) -> float:
        """Links that a topic message crosses in a tree, in the mean: the paths to its receivers, each link once.

        Groups and requests are left out: who gets them is the brokers' choice.
        """
        at = self.homes if homes is None else homes
        tree = list(links)
        crossed = messages = 0
        for (topic, client), count in self._sent.items():
            known = self.scenario.topics[topic]
            if known.kind == "topics":
                crossed += count * len(links_crossed(tree, at[client], {at[each] for each in known.receivers}))
                messages += count
        return crossed / messages if messages else 0.0

    def document(self) -> dict[str, Any]:
        """All as JSON."""
        return {
            "seed": self.scenario.options.seed,
            "seconds": round(self.ended - self.began, 3),
            "sent": self.sent,
            "delivered": self.delivered,
            "lost": self.lost,
            "duplicated": self.duplicated,
            "reordered": self.reordered,
            "answered": self.answered,
            "unanswered": self.unanswered,
            "failed": self.failed,
            "foreign": self.foreign,
            "latency_ms": {f"p{p}": value for p, value in self.latency().items()},
            "kinds": {
                kind: {
                    **self.figures(kind)._asdict(),
                    "latency_ms": {f"p{p}": value for p, value in self.latency([kind]).items()},
                }
                for kind in KINDS
            },
            "homes": self.homes,
            "subscriptions": [list(each) for each in self.subscriptions],
            "counts": [
                {"client": client, "topic": topic, "messages": count, "bytes": self.sizes[client, topic]}
                for (client, topic), count in sorted(self.counts.items())
            ],
        }

    def write(self, path: str | Path) -> None:
        """The document as a file."""
        Path(path).write_text(json.dumps(self.document(), indent=1) + "\n", encoding="utf-8")

    def lines(self) -> list[str]:
        """What to tell a user."""
        spread = self.latency()
        times = ", ".join(f"{'max' if p == 100 else f'p{p}'} {value:g} ms" for p, value in spread.items())
        lines = [
            f"sent       {self.sent:,} messages in {self.ended - self.began:.1f} s",
            f"delivered  {self.delivered:,}; lost {self.lost:,}, duplicated {self.duplicated:,}, "
            f"reordered {self.reordered:,}",
            f"requests   {self.answered:,} answered, {self.unanswered:,} not",
            f"latency    {times or 'nothing was delivered'}",
        ]
        if self.failed:
            lines.append(f"failed     {self.failed:,} messages could not be published")
        return lines


def links_crossed(links: Iterable[Pair], source: str, targets: Iterable[str]) -> frozenset[Pair]:
    """The links of a tree that a message crosses: those on the paths from its source to all targets."""
    near: dict[str, list[str]] = {}
    for left, right in links:
        near.setdefault(left, []).append(right)
        near.setdefault(right, []).append(left)
    towards = {source: source}
    ahead = [source]
    for here in ahead:
        for other in near.get(here, ()):
            if other not in towards:
                towards[other] = here
                ahead.append(other)
    crossed: set[Pair] = set()
    for target in targets:
        while target in towards and towards[target] != target:
            crossed.add(pair(target, towards[target]))
            target = towards[target]
    return frozenset(crossed)
