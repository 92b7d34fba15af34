"""Services that call one another over publish/subscribe: what CC12's three client networks share (§IV).

A service is a client. It subscribes to the topics of its inputs and publishes to those of its outputs. A composition
starts at a random service, which publishes one of its outputs; everyone who has it as input receives the message, and
a random one of them goes on, `length` messages in all. Where nobody listens to a service, the composition goes on at
another one. So who sends how much follows from the network, as in the paper's runs.

Message i is step i % length of composition i // length, and a composition is drawn from (seed, its number), so any
part of the messages is the same however the work is cut. Messages are spread evenly over the days.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from overlace.arrays.csr import group, take_groups
from overlace.arrays.draws import remainder, uniform, word_at
from overlace.arrays.hashing import mix
from overlace.arrays.jit import Ints, Pairs, kernel
from overlace.errors import BadParameter
from overlace.limits import check_options, option
from overlace.model import Classes, Flows, Observation, Overlay
from overlace.workloads.backbone import BackboneLayout, Start, layout, sizes, start_homes
from overlace.workloads.sites import DAY_US, MONDAY_US, leave_out

AT, WALK = 11, 12


class TopicGroups(NamedTuple):
    """The wiring as groups: who listens to each topic, and which topics of a client somebody else listens to."""

    start: Ints  # listener[start[t]:start[t + 1]] listen to topic t
    listener: Ints
    output_start: Ints  # output[output_start[v]:output_start[v + 1]] are the topics that client v publishes to
    output: Ints
    size: Ints  # bytes of a message, per topic

    @property
    def topics(self) -> int:
        """How many topics there are."""
        return len(self.size)


class ServiceWiring(NamedTuple):
    """Who publishes to and who listens to each topic, as pairs (topic, client) and (client, topic)."""

    inputs: Pairs  # (topic, client that subscribes), sorted
    outputs: Pairs  # (client, topic it publishes to), sorted


@dataclass(frozen=True)
class Services:
    """What every client network of CC12 needs; `wiring` is what they differ in."""

    messages: int = option(20_000, "how many messages", least=1)
    clients: int = option(200, "how many clients (services)", least=2)
    length: int = option(5, "messages that a composition triggers", least=1)
    regions: int = option(8, "how many regions besides the backbone", least=1)
    brokers: int = option(45, "how many brokers besides the backbone's", least=1)
    least: int = option(3, "brokers of a region, at least", least=1)
    most: int = option(8, "brokers of a region, at most (the same as least: equal regions)", least=1)
    start: Start = option("balanced", "clients anywhere, or in some regions only")
    share: float = option(0.375, "concentrated start: share of regions that hold clients", above=0, most=1)
    days: int = option(10, "days that the log spans", least=1)
    latency_us: int = option(10_000, "latency of a link between brokers", least=0, most=2_000_000_000)
    seed: int = option(0, "same seed, same trace", least=0)

    def __post_init__(self) -> None:
        check_options(self)
        sizes(self.regions, self.brokers, self.least, self.most, np.random.default_rng(0))

    def wiring(self) -> ServiceWiring:
        """Who listens to whom."""
        raise NotImplementedError

    @cached_property
    def layout(self) -> BackboneLayout:
        """Regions and backbone."""
        rng = np.random.default_rng([self.seed, 21])
        return layout(sizes(self.regions, self.brokers, self.least, self.most, rng))

    @cached_property
    def homes(self) -> Ints:
        """The broker of each client at the start."""
        rng = np.random.default_rng([self.seed, 22])
        return start_homes(self.layout.region, self.clients, self.start, self.share, rng)

    @cached_property
    def world(self) -> TopicGroups:
        """The wiring as groups."""
        wired = self.wiring()
        topics = int(max(wired.inputs[:, 0].max(initial=-1), wired.outputs[:, 1].max(initial=-1))) + 1
        start, order = group(np.ascontiguousarray(wired.inputs[:, 0]), topics)
        listener = wired.inputs[order, 1]
        outputs = wired.outputs[rows_with_listeners(start, listener, wired.outputs)]
        output_start, order = group(np.ascontiguousarray(outputs[:, 0]), self.clients)
        size = (50 * 40 ** np.random.default_rng([self.seed, 23]).random(topics)).astype(np.int64)
        if len(outputs) == 0:
            raise BadParameter("nobody listens to anybody: give the clients more links")
        return TopicGroups(start, listener, output_start, outputs[order, 1], size)

    def part(self, first: int, count: int) -> dict[str, Ints]:
        """Messages first to first + count, as columns."""
        world = self.world
        client, topic = walk(world, self.seed, self.length, first, count)
        start, receivers = take_groups(world.start, world.listener, topic)
        start, receivers = leave_out(start, receivers, client)
        quantile = (np.arange(first, first + count) + uniform(self.seed, AT, first, count)) / self.messages
        at = MONDAY_US + np.minimum((quantile * self.days * DAY_US).astype(np.int64), self.days * DAY_US - 1)
        size = world.size[topic]
        return {"at": at, "client": client, "topic": topic, "bytes": size, "start": start, "receivers": receivers}

    def observation(self) -> Observation:
        """All messages as an observation, without a trace; for sizes that fit in memory."""
        part, placed = self.part(0, self.messages), self.layout
        rows = np.repeat(np.arange(self.messages), np.diff(part["start"]))
        pair = part["client"][rows] * self.clients + part["receivers"]
        pairs, place = np.unique(pair, return_inverse=True)
        sender, receiver = np.divmod(pairs, self.clients)
        amount = np.bincount(place, minlength=len(pairs))
        size = np.bincount(place, weights=part["bytes"][rows], minlength=len(pairs)).astype(np.int64)
        sent = np.bincount(part["client"], minlength=self.clients)
        sent_bytes = np.bincount(part["client"], weights=part["bytes"], minlength=self.clients).astype(np.int64)
        world = self.world
        topic = np.repeat(np.arange(world.topics), np.diff(world.start))
        return Observation(
            window=(MONDAY_US, MONDAY_US + self.days * DAY_US),
            overlay=Overlay(placement=np.column_stack([np.arange(self.clients), self.homes]), tree=placed.tree),
            network=placed.network(self.latency_us),
            flows=Flows(sender, receiver, amount, size),
            classes=self._classes(part),
            interests=np.column_stack([world.listener, topic]),
            clients=self.clients,
            topics=world.topics,
            sent=sent,
            sent_bytes=sent_bytes,
        )

    def _classes(self, part: dict[str, Ints]) -> Classes:
        """A class for each (sender, topic): its listeners and the sender."""
        key = part["client"] * self.world.topics + part["topic"]
        _, first, demand = np.unique(key, return_index=True, return_counts=True)
        start, members = take_groups(part["start"], part["receivers"], first)
        count = np.diff(start) + 1
        bounds = np.append(0, np.cumsum(count))
        joined = np.empty(bounds[-1], dtype=np.int64)
        joined[bounds[1:] - 1] = part["client"][first]
        others = np.ones(len(joined), dtype=np.bool_)
        others[bounds[1:] - 1] = False
        joined[others] = members
        return Classes(bounds, joined, demand, demand * part["bytes"][first])

    def tables(self) -> dict[str, pa.Table]:
        """brokers, links, sessions and subscriptions."""
        placed, world = self.layout, self.world
        n = len(placed.region)
        links = np.sort(placed.tree, axis=1)
        topic = np.repeat(np.arange(world.topics), np.diff(world.start))
        order = np.lexsort((topic, world.listener))
        columns = {
            "left": links[:, 0],
            "right": links[:, 1],
            "cost": np.ones(len(links)),
            "latency_us": np.full(len(links), self.latency_us, dtype=np.int32),
            "wired": np.ones(len(links), dtype=np.bool_),
        }
        return {
            "brokers": pa.table({"broker": np.arange(n), "region": placed.region, "cost": np.ones(n)}),
            "links": pa.table(columns),
            "sessions": pa.table({"client": np.arange(self.clients), "broker": self.homes}),
            "subscriptions": pa.table({"client": world.listener[order], "topic": topic[order]}),
        }

    def names(self) -> dict[str, list[str]]:
        """Regions, brokers, clients and topics."""
        region = self.layout.region.tolist()
        return {
            "region": [f"region-{r}" for r in range(self.regions)],
            "broker": [f"broker-{b}" if r >= 0 else f"backbone-{b}" for b, r in enumerate(region)],
            "client": [f"service-{c:0{len(str(self.clients - 1))}d}" for c in range(self.clients)],
            "topic": [f"parameter/{t}" for t in range(self.world.topics)],
        }


@kernel
def rows_with_listeners(start: Ints, listener: Ints, outputs: Pairs) -> Ints:
    """The rows of outputs that somebody other than the one who publishes listens to."""
    kept = np.empty(len(outputs), dtype=np.int64)
    n = 0
    for i in range(len(outputs)):
        for k in range(start[outputs[i, 1]], start[outputs[i, 1] + 1]):
            if listener[k] != outputs[i, 0]:
                kept[n] = i
                n += 1
                break
    return kept[:n].copy()


@kernel
def walk(world: TopicGroups, seed: int, length: int, first: int, count: int) -> tuple[Ints, Ints]:
    """(client, topic) of messages first to first + count: who publishes what, composition by composition."""
    start, listener, own = world.start, world.listener, world.output_start
    client = np.empty(count, dtype=np.int64)
    topic = np.empty(count, dtype=np.int64)
    filled = 0
    composition = first // length
    while filled < count:
        state = word_at(seed, WALK, composition)
        at = -1
        for step in range(length):
            while at < 0 or own[at] == own[at + 1]:  # nobody listens to it: another one
                state = mix(state)
                at = remainder(state, len(own) - 1)
            state = mix(state)
            t = world.output[own[at] + remainder(state, own[at + 1] - own[at])]
            message = composition * length + step
            if first <= message < first + count:
                client[filled], topic[filled] = at, t
                filled += 1

            # a random listener goes on; where that is the one who published, the next one
            state = mix(state)
            width = start[t + 1] - start[t]
            place = remainder(state, width)
            if listener[start[t] + place] == at:
                place = (place + 1) % width
            at = listener[start[t] + place]
        composition += 1
    return client, topic
