"""Sites: brokers in several regions, clients with skewed rates and mostly local topics, over days.

A recipe for logs of any size. Regions have stars of brokers around a head; the heads form a random
recursive tree. Every client lives in a region and, with probability `at_home`, is connected to a broker
there, else anywhere. A topic belongs to a region; each of its subscribers is, with probability
`locality`, of that region, else anybody. A client publishes to up to three topics, mostly of its own
region. Rates fall off by Zipf's law. Messages follow the day (fewer at night) and the week (fewer at
weekends); they are stratified over time, so message i is the i-th in time.

World and messages depend only on the parameters: message i is drawn from (seed, i), so it does not matter
how the work is cut. Hard variants: `loud` (one client sends that share of all messages), `fan_out` (one topic
has that many subscribers), `turns` (share of topics whose subscribers take turns at random, so that
audiences differ from message to message), `scatter` (every message has an audience of its own).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from overlace.arrays.csr import group, take_groups
from overlace.arrays.draws import scattered, uniform
from overlace.arrays.jit import Bools, Floats, Ints, kernel
from overlace.errors import BadParameter
from overlace.limits import check_options, option

MONDAY_US = 1_767_571_200_000_000  # 2026-01-05T00:00Z
HOUR_US, DAY_US = 3_600_000_000, 86_400_000_000
AT, WHO, TOPIC, TURN = range(1, 5)


class SiteWorld(NamedTuple):
    """Who lives where, who subscribes to what and who publishes how much."""

    region: Ints  # per client
    home: Ints  # per client, its broker
    topic_region: Ints  # per topic
    rate: Floats  # per client, the share of messages up to and with it
    start: Ints  # subscriber[start[t]:start[t + 1]] are topic t's
    subscriber: Ints
    publishes: Ints  # (clients, 3): the topics that each client publishes to
    size: Ints  # bytes of a message, per topic
    turning: Bools  # per topic, whether its subscribers take turns


@dataclass(frozen=True)
class Sites:
    """Brokers in several regions; clients with skewed rates and mostly local topics, over days."""

    messages: int = option(200_000, "how many messages", least=1)
    regions: int = option(6, "how many regions", least=1)
    brokers: int = option(4, "brokers in each region", least=1)
    clients: int = option(600, "how many clients", least=2)
    topics: int = option(300, "how many topics", least=1)
    subscribers: int = option(5, "mean subscribers of a topic", least=1)
    days: int = option(14, "days that the log spans", least=1)
    locality: float = option(0.85, "share of a topic's subscribers from its own region", least=0, most=1)
    at_home: float = option(0.5, "share of clients connected in the region they live in", least=0, most=1)
    zipf: float = option(1.0, "how fast rates fall off with rank", least=0)
    loud: float = option(0.0, "share of all messages that one client sends (hard: 0.6)", least=0, most=1)
    fan_out: int = option(0, "subscribers of the largest topic (hard: 10000)", least=0)
    turns: float = option(0.0, "share of topics whose subscribers take turns at random", least=0, most=1)
    scatter: bool = option(False, "every message has an audience of its own")
    seed: int = option(0, "same seed, same trace", least=0)

    def __post_init__(self) -> None:
        check_options(self)
        if self.fan_out > self.clients:
            raise BadParameter(f"fan_out is {self.fan_out}; there are only {self.clients} clients")

    # --- the world: small, drawn once ----------------------------------------------------------------

    @cached_property
    def world(self) -> SiteWorld:
        """Homes, subscriptions and rates as arrays."""
        rng = np.random.default_rng([self.seed, 1])
        region = rng.integers(0, self.regions, self.clients)
        elsewhere = rng.random(self.clients) >= self.at_home
        home_region = np.where(elsewhere, rng.integers(0, self.regions, self.clients), region)
        home = home_region * self.brokers + rng.integers(0, self.brokers, self.clients)
        topic_region = rng.integers(0, self.regions, self.topics)
        rank = rng.permutation(self.clients) + 1
        rate = 1.0 / rank**self.zipf
        if self.loud:
            rate[0] = 0
            rate[0] = rate.sum() * self.loud / max(1 - self.loud, 1e-9)
        start, subscriber = self._subscriptions(rng, region, topic_region)
        publishes = self._publishes(rng, region, topic_region)
        size = (50 * 40 ** rng.random(self.topics)).astype(np.int64)
        turning = rng.random(self.topics) < self.turns
        shares = np.cumsum(rate) / rate.sum()
        return SiteWorld(region, home, topic_region, shares, start, subscriber, publishes, size, turning)

    def _subscriptions(self, rng: np.random.Generator, region: Ints, topic_region: Ints) -> tuple[Ints, Ints]:
        counts = np.minimum(1 + rng.poisson(max(self.subscribers - 1, 0), self.topics), self.clients)
        if self.fan_out:
            counts[0] = self.fan_out
        topic = np.repeat(np.arange(self.topics), counts)
        first, order = group(region, self.regions)
        own = topic_region[topic]
        width = np.diff(first)[own]
        local = order[
            first[own] + (rng.random(len(topic)) * np.maximum(width, 1)).astype(np.int64) % np.maximum(width, 1)
        ]
        anybody = rng.integers(0, self.clients, len(topic))
        chosen = np.where((rng.random(len(topic)) < self.locality) & (width > 0), local, anybody)
        if self.fan_out:
            chosen[: self.fan_out] = rng.permutation(self.clients)[: self.fan_out]
        pairs = np.unique(np.column_stack([topic, chosen]), axis=0)
        return np.searchsorted(pairs[:, 0], np.arange(self.topics + 1)), np.ascontiguousarray(pairs[:, 1])

    def _publishes(self, rng: np.random.Generator, region: Ints, topic_region: Ints) -> Ints:
        first, order = group(topic_region, self.regions)
        own = np.repeat(region[:, None], 3, axis=1)
        width = np.diff(first)[own]
        local = order[np.minimum(first[own] + (rng.random(own.shape) * width).astype(np.int64), self.topics - 1)]
        anything = rng.integers(0, self.topics, own.shape)
        made: Ints = np.where((rng.random(own.shape) < self.locality) & (width > 0), local, anything)
        if self.fan_out:
            made[0, 0] = 0
        return made

    @cached_property
    def hours(self) -> Floats:
        """The share of messages up to each hour of the log: a day's and a week's rhythm."""
        hour = np.arange(24 * self.days)
        day = 0.25 + np.exp(-(((hour % 24) - 13.5) ** 2) / 30)
        week = np.where((hour // 24) % 7 >= 5, 0.35, 1.0)
        weight = np.cumsum(day * week)
        shares: Floats = weight / weight[-1]
        return shares

    # --- messages, any part of them ------------------------------------------------------------------

    def part(self, first: int, count: int) -> dict[str, Ints]:
        """Messages first to first + count, as columns."""
        world = self.world
        quantile = (np.arange(first, first + count) + uniform(self.seed, AT, first, count)) / self.messages
        hour = np.minimum(np.searchsorted(self.hours, quantile, side="right"), len(self.hours) - 1)
        below = np.append(0.0, self.hours)[hour]
        inside = (quantile - below) / (self.hours[hour] - below)
        at = MONDAY_US + hour * HOUR_US + np.clip((inside * HOUR_US).astype(np.int64), 0, HOUR_US - 1)
        client = np.searchsorted(world.rate, uniform(self.seed, WHO, first, count), side="right")
        client = np.minimum(client, self.clients - 1)
        which = np.searchsorted([0.6, 0.9], uniform(self.seed, TOPIC, first, count))
        topic = world.publishes[client, which]
        if self.scatter:
            size = min(self.subscribers, self.clients)
            start, members = scattered(self.seed, TURN, np.arange(first, first + count), size, self.clients)
        else:
            start, members = take_groups(world.start, world.subscriber, topic)
            if self.turns:
                draw = uniform(self.seed, TURN, first, count)
                start, members = pick_in_turn(start, members, world.turning[topic], draw)
        start, members = leave_out(start, members, client)
        return {
            "at": at,
            "client": client.astype(np.int64),
            "topic": topic,
            "bytes": world.size[topic],
            "start": start,
            "receivers": members,
        }

    # --- tables of the world -------------------------------------------------------------------------

    def tables(self) -> dict[str, pa.Table]:
        """brokers, links, clients, access, sessions and subscriptions."""
        world, n = self.world, self.regions * self.brokers
        rng = np.random.default_rng([self.seed, 2])
        points = rng.random((self.regions, 2))
        region = np.repeat(np.arange(self.regions), self.brokers)
        place = points[region] + rng.normal(0, 0.01, (n, 2))
        tree = self._tree(rng)
        left, right = self._candidates(tree, n)
        far = region[left] != region[right]
        apart = np.hypot(*(place[left] - place[right]).T)
        latency = np.where(far, 2000 + 30000 * apart, 200).astype(np.int32)
        wired = np.isin(left * n + right, tree[:, 0] * n + tree[:, 1])
        grid_region, grid_broker = (each.reshape(-1) for each in np.indices((self.regions, n)))
        reach = np.hypot(*(points[grid_region] - place[grid_broker]).T)
        topic = np.repeat(np.arange(self.topics), np.diff(world.start))
        near = region[grid_broker] == grid_region
        delay = np.where(near, 500, 2500 + 30000 * reach).astype(np.int32)
        price, fee = np.where(far, 1 + np.floor(10 * apart), 0.1), np.where(near, 0.0, 1 + np.floor(10 * reach))
        links = {"left": left, "right": right, "cost": price, "latency_us": latency, "wired": wired}
        access = {"region": grid_region, "broker": grid_broker, "latency_us": delay, "cost": fee}
        return {
            "brokers": pa.table({"broker": np.arange(n), "region": region, "cost": np.ones(n)}),
            "links": pa.table(links),
            "clients": pa.table({"client": np.arange(self.clients), "region": world.region}),
            "access": pa.table(access),
            "sessions": pa.table({"client": np.arange(self.clients), "broker": world.home}),
            "subscriptions": pa.table({"client": world.subscriber, "topic": topic}),
        }

    def _tree(self, rng: np.random.Generator) -> Ints:
        heads = np.arange(self.regions) * self.brokers
        later = np.arange(1, self.regions)
        earlier = (rng.random(self.regions - 1) * later).astype(np.int64)
        stars = [(h, h + k) for h in heads.tolist() for k in range(1, self.brokers)]
        spine = zip(heads[earlier].tolist(), heads[later].tolist(), strict=True)
        return np.array([*stars, *spine], dtype=np.int64).reshape(-1, 2)

    def _candidates(self, tree: Ints, n: int) -> tuple[Ints, Ints]:
        """All pairs of up to 200 brokers; beyond, all pairs of heads and of brokers of a region."""
        left, right = np.triu_indices(n, 1)
        if n > 200:
            same = left // self.brokers == right // self.brokers
            heads = (left % self.brokers == 0) & (right % self.brokers == 0)
            left, right = left[same | heads], right[same | heads]
        return left.astype(np.int64), right.astype(np.int64)

    def names(self) -> dict[str, list[str]]:
        """Regions, brokers, clients and topics."""
        return {
            "region": [f"region-{r}" for r in range(self.regions)],
            "broker": [f"broker-{r}-{b}" for r in range(self.regions) for b in range(self.brokers)],
            "client": [f"client-{c:0{len(str(self.clients - 1))}d}" for c in range(self.clients)],
            "topic": [f"site/{r}/topic/{t}" for t, r in enumerate(self.world.topic_region.tolist())],
        }


@kernel
def leave_out(start: Ints, members: Ints, who: Ints) -> tuple[Ints, Ints]:
    """(start, members) of groups less one member each, where it is there."""
    bounds = np.zeros(len(start), dtype=np.int64)
    kept = np.empty(len(members), dtype=np.int64)
    n = 0
    for g in range(len(start) - 1):
        for k in range(start[g], start[g + 1]):
            if members[k] != who[g]:
                kept[n] = members[k]
                n += 1
        bounds[g + 1] = n
    return bounds, kept[:n].copy()


@kernel
def pick_in_turn(start: Ints, members: Ints, turning: Bools, draw: Floats) -> tuple[Ints, Ints]:
    """(start, members): of a group that takes turns only one member, by the draw."""
    bounds = np.zeros(len(start), dtype=np.int64)
    kept = np.empty(len(members), dtype=np.int64)
    n = 0
    for g in range(len(start) - 1):
        size = start[g + 1] - start[g]
        if turning[g] and size:
            kept[n] = members[start[g] + np.int64(draw[g] * size)]
            n += 1
        else:
            for k in range(start[g], start[g + 1]):
                kept[n] = members[k]
                n += 1
        bounds[g + 1] = n
    return bounds, kept[:n].copy()
