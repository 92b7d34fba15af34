"""What tracing alone costs real nats-servers: messages on links, CPU a publish, and whether traces are right.

Collectors run, nobody gives orders: what `record` adds beside tracing is measured in traced.py.
"""

from __future__ import annotations

import asyncio
import random
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from protocol import table

from overlace.live.client import client_address, connect_nats, nats_options
from overlace.live.deployment import Deployment
from overlace.live.local import down, up
from overlace.live.options import LocalOptions
from overlace.live.servers import read_processes
from overlace.live.traced import Collector
from recording.networks import SEEDS, cpu, crossed

SHARES = (0.0, 0.01, 0.1, 1.0)
CLIENTS, TOPICS, MESSAGES = 40, 24, 4000
EVERY, AT_ONCE = 0.01, 10  # a burst of so many messages, every so many seconds
FLAT_OUT = 30_000
LONGEST = 60.0


class Sent(NamedTuple):
    """A message of the load."""

    client: str
    topic: str
    payload: bytes


class Run(NamedTuple):
    """One share, measured."""

    links: int  # messages on links
    cpu: float  # seconds, of all servers
    traced: int
    complete: int
    incomplete: int
    wrong: int  # traces that are not the tally's


class Load:
    """Clients at their homes, what they are subscribed to, and what each received."""

    def __init__(self, deployment: Deployment, seed: int) -> None:
        self.deployment, self.draw = deployment, random.Random(seed)
        self.homes = {f"c{i}": self.draw.choice(list(deployment.brokers)) for i in range(CLIENTS)}
        self.asked = {
            name: sorted({self._topic() for _ in range(self.draw.randrange(1, 4))}) for name in self.homes
        }  # fmt: skip
        weights = [1 / (i + 1) for i in range(CLIENTS)]
        self.drawn = [(name, self._topic()) for name in self.draw.choices(list(self.homes), weights, k=MESSAGES)]
        self.receivers: dict[bytes, set[str]] = {}
        self.deliveries = 0
        self.connected: dict[str, Any] = {}

    def _topic(self) -> str:
        return f"t.{min(int(self.draw.paretovariate(0.8)), TOPICS)}"

    def messages(self, share: float) -> list[Sent]:
        """The messages of one run, the same in all, told apart by their payloads."""
        return [Sent(name, topic, f"{share:.2f} {i:06}".encode()) for i, (name, topic) in enumerate(self.drawn)]

    async def connect(self) -> None:
        """Connect, subscribe, and wait until interest has spread."""
        network = self.deployment.plain()
        for name, home in self.homes.items():
            options = nats_options(network, "clients", 0)
            self.connected[name] = await connect_nats(client_address(network, home), name, **options)
            for topic in self.asked[name]:
                await self.connected[name].subscribe(topic, cb=self._take(name))
            await self.connected[name].flush()
        for topic in sorted({each for own in self.asked.values() for each in own}):
            expected = {name for name, own in self.asked.items() if topic in own}
            for home in self.deployment.brokers:
                sender = next((name for name, own in self.homes.items() if own == home), None)
                mark = f"mark {topic} {home}".encode()
                while sender and self.receivers.get(mark, set()) != expected:
                    await self.connected[sender].publish(topic, mark)
                    await asyncio.sleep(0.02)
        self.deliveries = 0

    def _take(self, name: str) -> Any:
        async def take(message: Any) -> None:
            self.receivers.setdefault(bytes(message.data), set()).add(name)
            self.deliveries += 1

        return take

    def expected(self, sent: Sequence[Sent]) -> int:
        """Deliveries of some messages."""
        count = Counter(topic for own in self.asked.values() for topic in own)
        return sum(count[each.topic] for each in sent)

    async def close(self) -> None:
        """Leave."""
        for each in self.connected.values():
            await each.close()


class Alone(Collector):
    """One collector, at the first broker: what the others are for."""

    async def _start(self, broker: str) -> None:
        if broker == next(iter(self.deployment.brokers)):
            await super()._start(broker)


async def measure(load: Load, pids: Sequence[int], share: float, kind: type[Collector] = Collector) -> Run:
    """Publish all messages with a share of them traced."""
    sent, chosen = load.messages(share), random.Random(1)
    load.deliveries, traced = 0, []
    async with kind(load.deployment, 0) as collector:
        links, seconds = await crossed(load.deployment), cpu(pids)
        for i, each in enumerate(sent):
            headers = None
            if chosen.random() < share:
                headers = {"Nats-Trace-Dest": f"_OVERLACE.trace.{each.payload.hex()}"}
                traced.append(each)
            await load.connected[each.client].publish(each.topic, each.payload, headers=headers)
            if i % AT_ONCE == AT_ONCE - 1:
                await asyncio.sleep(EVERY)
        deadline = time.monotonic() + LONGEST
        while load.deliveries < load.expected(sent) and time.monotonic() < deadline:
            await asyncio.sleep(0.01)
        links, seconds = await crossed(load.deployment) - links, cpu(pids) - seconds
    found = collector.traces()
    tally = Counter(
        (each.client, each.topic, len(each.payload), tuple(sorted(load.receivers.get(each.payload, ()))))
        for each in traced
    )
    told = Counter((each.client, each.topic, each.bytes, each.receivers) for each in found.messages)
    wrong = sum((told - tally).values())
    return Run(links, seconds, len(traced), len(found.messages), found.incomplete, wrong)


async def measure_all(deployment: Deployment, seed: int) -> dict[str, Run]:
    """All shares, one after the other, after one run that is not counted."""
    load = Load(deployment, seed)
    pids = [each.pid for each in read_processes(deployment.folder / "run" / "processes.json")]
    try:
        await load.connect()
        await measure(load, pids, 0.0)
        runs = {f"{share:.0%}": await measure(load, pids, share) for share in SHARES}
        runs["0%, again"] = await measure(load, pids, 0.0)
        return {**runs, "100%, one collector": await measure(load, pids, 1.0, Alone)}
    finally:
        await load.close()


async def publish_all(deployment: Deployment, share: float) -> float:
    """Seconds of a server's CPU for each message of one publisher that does not wait."""
    network, chosen, got = deployment.plain(), random.Random(1), 0
    broker = next(iter(deployment.brokers))
    pids = [each.pid for each in read_processes(deployment.folder / "run" / "processes.json")]

    async def take(message: Any) -> None:
        nonlocal got
        got += 1

    async with Collector(deployment, 0):
        options = nats_options(network, "clients", 0)
        sender, receiver = [await connect_nats(client_address(network, broker), n, **options) for n in ("p", "r")]
        await receiver.subscribe("t", cb=take, pending_msgs_limit=-1, pending_bytes_limit=-1)
        await receiver.flush()
        before = cpu(pids)
        for i in range(FLAT_OUT):
            traced = {"Nats-Trace-Dest": f"_OVERLACE.trace.{i}"} if chosen.random() < share else None
            await sender.publish("t", b"0123456789", headers=traced)
            if i % 500 == 499:
                await sender.flush(30)
        deadline = time.monotonic() + LONGEST
        while got < FLAT_OUT and time.monotonic() < deadline:
            await asyncio.sleep(0.01)
        taken = cpu(pids) - before
        await sender.close()
        await receiver.close()
    return taken / FLAT_OUT


def flat_out() -> list[list[str]]:
    """Each share at one server, the least of some runs."""
    with tempfile.TemporaryDirectory() as folder:
        deployment = up(Path(folder) / "net", LocalOptions(brokers=1), bound=True)
        try:
            runs = {share: min(asyncio.run(publish_all(deployment, share)) for _ in range(3)) for share in SHARES}
        finally:
            down(deployment)
    return [[f"{share:.0%}", f"{each * 1e6:.1f} us", f"{each / runs[0.0]:.2f}"] for share, each in runs.items()]


def compare_shares() -> str:
    """Seven servers, all shares one after the other."""
    rows = []
    for seed in SEEDS:
        with tempfile.TemporaryDirectory() as folder:
            deployment = up(Path(folder) / "net", LocalOptions(brokers=7, seed=seed), bound=True)
            try:
                runs = asyncio.run(measure_all(deployment, seed))
            finally:
                down(deployment)
        plain = runs["0%"]
        for share, run in runs.items():
            rows.append(
                [
                    str(seed), share, f"{run.links / MESSAGES:.3f}", f"{run.links / plain.links - 1:+.1%}",
                    f"{run.cpu / MESSAGES * 1e6:.1f} us", f"{run.cpu / plain.cpu:.2f}",
                    f"{run.complete:,} of {run.traced:,}", str(run.incomplete), str(run.wrong),
                ]
            )  # fmt: skip
    head = ["seed", "traced", "link messages a message", "more", "servers' CPU a publish", "times", "complete",
            "incomplete", "wrong"]  # fmt: skip
    return table(head, rows)


def compare_flat_out() -> str:
    """One server with one publisher, as quick as that can."""
    return table(["traced", "server's CPU a publish", "times"], flat_out())
