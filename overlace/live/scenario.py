"""Who talks about what in a seeded load: communities of clients that share topics, at random brokers.

A planner can do better than that: clients of one community belong at one broker, or at near ones. Every third client
subscribes to all topics of its community by a wildcard, the others to single ones. Where the pattern changes after some
time, the same clients have other communities and other topics from then on; filters are held all the time.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from random import Random
from typing import Literal, NamedTuple

from overlace.live.options import TrafficOptions

Kind = Literal["topics", "groups", "requests"]

COMMUNITY = 6
"""Clients of a community, about."""

STRANGERS = 0.02
"""Share of subscriptions by clients of another community."""


class Topic(NamedTuple):
    """What is published to, by whom, and who receives it: all of them, or one where it is a group or a request."""

    name: str
    kind: Kind
    publishers: tuple[str, ...]
    receivers: tuple[str, ...]
    weight: float
    pattern: int = 0  # which of the patterns that follow each other


class ClientFilter(NamedTuple):
    """A filter of a client."""

    client: str
    filter: str
    group: str | None


class Event(NamedTuple):
    """A message to publish, seconds after the beginning."""

    at: float
    client: str
    topic: int
    size: int


@dataclass(frozen=True)
class Scenario:
    """Clients, their homes, topics and filters."""

    options: TrafficOptions
    homes: dict[str, str]
    topics: tuple[Topic, ...]
    subscriptions: tuple[ClientFilter, ...]

    def events(self, seed: int = 0) -> Iterator[Event]:
        """Messages without end; the same for the same seed."""
        drawn = Random(f"events {self.options.seed} {seed}")
        patterns = [self.flows(k) for k in range(len(self.options.change_at) + 1)]
        weights = [list(accumulate(weight for _, _, weight in each)) for each in patterns]
        pace = self.options.rate / (1 + self.options.requests)  # a request brings an answer
        at = 0.0
        while True:
            at += drawn.expovariate(pace)
            now = bisect_right(self.options.change_at, at)
            topic, client, _ = patterns[now][drawn.choices(range(len(patterns[now])), cum_weights=weights[now])[0]]
            yield Event(at, client, topic, min(2000, int(drawn.expovariate(1 / 120))))

    def flows(self, pattern: int = 0) -> list[tuple[int, str, float]]:
        """(topic, publisher, share of all messages) in one of the patterns."""
        return [
            (i, client, topic.weight / rank / sum(1 / (k + 1) for k in range(len(topic.publishers))))
            for i, topic in enumerate(self.topics)
            if topic.pattern == pattern
            for rank, client in enumerate(topic.publishers, 1)
        ]


def draw_scenario(
    options: TrafficOptions, brokers: Sequence[str], substrate: str, home_of: Callable[[str], str | None]
) -> Scenario:
    """A scenario by its seed; `home_of` knows homes that are given."""
    first, *others = (_draw(options, k, brokers, substrate) for k in range(len(options.change_at) + 1))
    homes = {name: home_of(name) or home for name, home in first.homes.items()}
    topics = (*first.topics, *(topic for each in others for topic in each.topics))
    asked = (*first.subscriptions, *(subscribed for each in others for subscribed in each.subscriptions))
    return Scenario(options, homes, topics, asked)


def _draw(options: TrafficOptions, pattern: int, brokers: Sequence[str], substrate: str) -> Scenario:
    """One pattern; topics of later ones have names of their own."""
    drawn = Random(f"scenario {options.seed}" + (f" {pattern}" if pattern else ""))
    fab, jobs, asking = (f"{word}-{pattern + 1}" if pattern else word for word in ("fab", "jobs", "ask"))
    between, rest = (".", ">") if substrate == "nats" else ("/", "#")
    names = [f"client-{k + 1:02}" for k in range(options.clients)]
    homes = {name: drawn.choice(list(brokers)) for name in names}
    communities = _deal(drawn, names, max(1, round(options.clients / COMMUNITY)))
    ranks = drawn.sample(range(1, options.topics + 1), options.topics)
    weights = [1 / rank**options.zipf for rank in ranks]
    plain = (1 - options.groups - options.requests) / sum(weights)
    wide = {name for members in communities for name in members[::3]}
    topics, subscriptions = [], []
    for c, members in enumerate(communities):
        subscriptions += [
            ClientFilter(name, between.join([fab, str(c + 1), rest]), None) for name in members if name in wide
        ]
    for k in range(options.topics):
        c = k % len(communities)
        name = between.join([fab, str(c + 1), f"t{k + 1}"])
        members = communities[c]
        narrow = [each for each in members if each not in wide]
        strangers = [each for each in names if each not in members and drawn.random() < STRANGERS]
        chosen = [each for each in narrow if drawn.random() < 0.4] + strangers
        subscriptions += [ClientFilter(each, name, None) for each in chosen]
        publishers = tuple(drawn.sample(members, min(len(members), drawn.randint(1, 3))))
        receivers = tuple(each for each in names if each in chosen or (each in wide and each in members))
        topics.append(Topic(name, "topics", publishers, receivers, plain * weights[k], pattern))
    for c, members in enumerate(communities):
        publishers = tuple(drawn.sample(members, min(len(members), 3)))
        workers = tuple(drawn.sample(members, min(len(members), 3)))
        if pattern and substrate == "mosquitto":  # homes are those of the first pattern
            workers = workers[:1]
        work, ask = between.join([jobs, str(c + 1)]), between.join([asking, str(c + 1)])
        responder = drawn.choice(members)
        subscriptions += [ClientFilter(each, work, f"workers-{c + 1}") for each in workers]
        subscriptions.append(ClientFilter(responder, ask, None))
        topics.append(Topic(work, "groups", publishers, workers, options.groups / len(communities), pattern))
        topics.append(Topic(ask, "requests", publishers, (responder,), options.requests / len(communities), pattern))
        if substrate == "mosquitto":  # which deals the messages of a group at each broker on its own
            homes |= dict.fromkeys(workers, homes[workers[0]])
    return Scenario(options, homes, tuple(topics), tuple(subscriptions))


def _deal(drawn: Random, names: Sequence[str], count: int) -> list[list[str]]:
    """Names in so many communities, at random."""
    order = drawn.sample(list(names), len(names))
    return [sorted(order[c::count]) for c in range(count)]
