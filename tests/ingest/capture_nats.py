"""Captures tests/ingest/nats_events.jsonl from real nats-servers: python -m tests.ingest.capture_nats

Four servers, linked hub-2 - hub-1 - hub-3 - hub-4, each with a collector, all in one queue group. Every kind of message
once or a few times; what was published and who received it is in EXPECTED, by hand.
"""

import asyncio
import sys
import tempfile
from pathlib import Path

from overlace.ingest.formats.nats import Hop, adds_up, read_event
from overlace.live.client import client_address, connect_nats, nats_options, read_network
from tests.live.servers import NatsServers, until

FILE = Path(__file__).with_name("nats_events.jsonl")
NAMES = ("hub-1", "hub-2", "hub-3", "hub-4")
LINKS = (("hub-2", "hub-1"), ("hub-3", "hub-1"), ("hub-4", "hub-3"))
ACCOUNT = """
    msg_trace: { dest: "_OVERLACE.trace.sampled", sampling: "100%" }
    mappings: { "old.*": "new.$1" }
"""
ODD = 'é "odd" \\ > *'
FABRIC = frozenset(["hmi", "hub-3:12", ODD])
EXPECTED = [
    ("plc 1", "fab.1.temp", 4, FABRIC),
    ("plc 1", "fab.1.temp", 4, FABRIC),  # told by its traceparent
    ("hub-3:12", "fab.2", 6, frozenset(["echo", "hmi", ODD])),
    ("plc 1", "jobs", 3, frozenset(["worker-3"])),
    ("plc 1", "nobody", 0, frozenset()),
    ("plc 1", "svc", 4, frozenset(["worker-4"])),  # a request, and its reply
    ("worker-4", "_INBOX", 4, frozenset(["plc 1"])),
    ("echo", "fab.3", 1, frozenset(["hmi", ODD])),  # not itself
    (ODD, "fab.4", 1, frozenset(["echo", "hmi", ODD])),
    ("plc 1", "old.7", 2, frozenset(["hmi"])),
]


class Servers(NatsServers):
    """Servers that trace by traceparent too, and map subjects."""

    def account(self, colour):
        return super().account(colour).removesuffix("}") + (ACCOUNT if colour == 0 else "") + "}"


async def carried(publisher, subject, receivers):
    """Publish until all of some lists grow: interest has reached the publisher's server."""
    before = [len(each) for each in receivers]
    while any(len(each) == n for each, n in zip(receivers, before, strict=True)):
        await publisher.publish(subject, b"")
        await publisher.flush()
        await asyncio.sleep(0.02)


async def capture():
    """Raw events in the order in which collectors got them."""
    with tempfile.TemporaryDirectory() as folder, Servers(folder, NAMES, LINKS) as servers:
        raw: list[bytes] = []
        network = read_network(servers.network)

        async def keep(message):
            raw.append(message.data)

        connections = []

        async def client(server, name=None, role="clients", **more):
            own = nats_options(network, role, 0)
            connections.append(await connect_nats(client_address(network, server), name, **own, **more))
            return connections[-1]

        for name in NAMES:
            collector = await client(name, f"collector-{name}", "control")
            await collector.subscribe("_OVERLACE.trace.*", queue="collectors", cb=keep)
            await collector.flush()
        plc, hmi, twin = await client("hub-2", "plc 1"), await client("hub-4", "hmi"), await client("hub-1", "hmi")
        worker_3, worker_4 = await client("hub-3", "worker-3"), await client("hub-4", "worker-4")
        nameless = await client("hub-3")
        odd, echo = await client("hub-4", ODD), await client("hub-2", "echo", no_echo=True)
        got: list[list[object]] = []

        async def subscribe(who, subject, queue="", answer=False):
            seen: list[object] = []
            got.append(seen)

            async def take(message):
                seen.append(message)
                if answer and message.reply:
                    await message.respond(b"pong")

            await who.subscribe(subject, queue=queue, cb=take)
            await who.flush()
            return seen

        waits = [
            ("fab.1.temp", [await subscribe(hmi, "fab.>"), await subscribe(hmi, "fab.1.*"),
                            await subscribe(twin, "fab.1.temp"), await subscribe(nameless, "fab.1.temp"),
                            await subscribe(odd, "fab.>")]),
            ("svc", [await subscribe(worker_4, "svc", answer=True)]),
            ("jobs", [await subscribe(worker_3, "jobs", "workers")]),
            ("new.7", [await subscribe(hmi, "new.7")]),
        ]  # fmt: skip
        await subscribe(worker_4, "jobs", "workers")
        for subject, seen in waits:
            await carried(plc, subject, seen)
        await subscribe(echo, "fab.*")

        numbers = iter(range(100))

        async def publish(who, subject, data, **headers):
            header = {"Nats-Trace-Dest": f"_OVERLACE.trace.{next(numbers):04x}"}
            await who.publish(subject, data, headers=headers or header)
            await who.flush()

        await carried(odd, "fab.4", [got[-1]])
        await publish(plc, "fab.1.temp", b"21.5")
        await publish(plc, "fab.1.temp", b"21.6", traceparent="00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
        await publish(nameless, "fab.2", b"22.415")
        await publish(plc, "jobs", b"job")
        await publish(plc, "nobody", b"")
        await plc.request("svc", b"ping", timeout=30, headers={"Nats-Trace-Dest": "_OVERLACE.trace.request"})
        await publish(echo, "fab.3", b"e")
        await publish(odd, "fab.4", b"o")
        await publish(plc, "old.7", b"77")
        probe = {"Nats-Trace-Dest": "_OVERLACE.trace.probe", "Nats-Trace-Only": "true"}
        await publish(plc, "fab.1.temp", b"", **probe)
        await until(lambda: len(raw) >= 4 and complete(raw) >= len(EXPECTED))
        for each in connections:
            await each.close()
    return raw


def complete(raw):
    """How many messages are whole."""
    sums: dict[bytes, int] = {}
    for hop in map(read_event, raw):
        if isinstance(hop, Hop):
            sums[hop.key] = sums.get(hop.key, 0) + hop.balance
    return sum(map(adds_up, sums.values()))


if __name__ == "__main__":
    lines = asyncio.run(capture())
    FILE.write_bytes(b"".join(line + b"\n" for line in lines))
    sys.stdout.write(f"{len(lines)} events, {complete(lines)} complete messages\n")
