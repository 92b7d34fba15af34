"""Collectors at real nats-servers: what they join is what was sent, and no event crosses a link."""

import asyncio
import re
from collections import Counter
from contextlib import asynccontextmanager

import pytest

from overlace.errors import BadNetwork
from overlace.live.client import client_address, connect, connect_nats, nats_options
from overlace.live.deployment import read_deployment
from overlace.live.events import Join
from overlace.live.traced import Collector
from overlace.live.wiring import links_of
from tests.ingest.capture_nats import EXPECTED, capture
from tests.live.servers import NATS, NatsServers, until

pytestmark = [pytest.mark.live, pytest.mark.skipif(NATS is None, reason="no nats-server on this machine")]

NAMES = ("hub-1", "hub-2", "hub-3", "hub-4")
LINKS = [("hub-2", "hub-1"), ("hub-3", "hub-1"), ("hub-4", "hub-3")]
HOMES = {"plc": "hub-2", "hmi": "hub-4", "desk": "hub-1", "worker-3": "hub-3", "worker-4": "hub-4", "twin": "hub-4"}
FILTERS = [
    ("hmi", "fab.>", ""), ("desk", "fab.1", ""), ("twin", "fab.*", ""), ("twin", "fab.2", ""),
    ("worker-3", "jobs", "crew"), ("worker-4", "jobs", "crew"),
]  # fmt: skip


@pytest.fixture(scope="module")
def servers(tmp_path_factory):
    with NatsServers(tmp_path_factory.mktemp("traced"), NAMES, LINKS) as running:
        yield running


@pytest.fixture
def deployment(servers):
    return read_deployment(servers.network)


class Load:
    """Clients at their homes, and what each has received."""

    def __init__(self):
        self.clients, self.got, self.number = {}, {}, 0

    async def subscribe(self, who, subject, group):
        seen = self.got.setdefault(who, [])

        async def take(message):
            seen.append((message.subject, bytes(message.data)))
            if message.reply:
                await message.respond(b"pong")

        await self.clients[who].subscribe(subject, queue=group, cb=take)
        await self.clients[who].flush()

    async def publish(self, who, subject, data, traced=True):
        self.number += 1
        headers = {"Nats-Trace-Dest": f"_OVERLACE.trace.t{self.number}"} if traced else None
        await self.clients[who].publish(subject, data, headers=headers)

    async def arrives(self, who, subject, receivers):
        """Publish, untraced, until all of them receive: interest has spread."""
        counts = {name: len(self.got[name]) for name in receivers}
        while any(len(self.got[name]) == count for name, count in counts.items()):
            await self.publish(who, subject, b"", traced=False)
            await asyncio.sleep(0.02)


@asynccontextmanager
async def load(deployment):
    running, network = Load(), deployment.plain()
    try:
        for name, home in HOMES.items():
            options = nats_options(network, "clients", 0)
            running.clients[name] = await connect_nats(client_address(network, home), name, 20, **options)
        for each in FILTERS:
            await running.subscribe(*each)
        await running.subscribe("worker-4", "svc", "")
        for who in ("plc", "hmi"):
            for subject, receivers in (("fab.1", ["hmi", "desk", "twin"]), ("fab.2", ["twin"]), ("svc", ["worker-4"])):
                await running.arrives(who, subject, receivers)
        await running.arrives("plc", "jobs", ["worker-3"])
        yield running
    finally:
        for each in running.clients.values():
            await each.close()


def test_what_collectors_join_is_what_was_sent_and_who_received_it(deployment):
    async def story():
        async with load(deployment) as running, Collector(deployment, 0, patience=30) as collector:
            expected = Counter()
            for number in range(60):
                for who in ("plc", "hmi"):
                    await running.publish(who, "fab.1", b"x" * (number % 7))
                    expected[who, "fab.1", number % 7, ("desk", "hmi", "twin")] += 1
                await running.publish("plc", "fab.2", b"yy")
                expected["plc", "fab.2", 2, ("hmi", "twin")] += 1
                await running.publish("desk", "nobody", b"")
                expected["desk", "nobody", 0, ()] += 1
                await running.publish("plc", "jobs", b"job")
                expected["plc", "jobs", 3, ()] += 1
            asking = {"Nats-Trace-Dest": "_OVERLACE.trace.request"}
            await running.clients["plc"].request("svc", b"ping", timeout=30, headers=asking)
            for each in running.clients.values():
                await each.flush()
        return expected, collector

    expected, collector = asyncio.run(story())
    traces = collector.traces()
    assert (traces.incomplete, traces.left_out, collector.lost) == (0, {}, [])
    asked = [each for each in traces.messages if each.topic == "svc" or each.topic.startswith("_INBOX.")]
    assert [(each.client, each.bytes, each.receivers) for each in asked] == [
        ("plc", 4, ("worker-4",)), ("worker-4", 4, ("plc",)),
    ]  # fmt: skip
    assert asked[1].topic.endswith(".reply")
    found = Counter()
    for each in traces.messages:
        if each in asked:
            continue
        if each.topic == "jobs":
            assert each.receivers in [("worker-3",), ("worker-4",)]
            each = each._replace(receivers=())
        found[each.client, each.topic, each.bytes, each.receivers] += 1
    assert found == expected
    assert traces.homes == HOMES
    assert traces.several == []
    assert traces.links == links_of(LINKS)
    assert traces.filters["twin"] == {("fab.*", None), ("fab.2", None)}
    assert traces.filters["worker-3"] == {("jobs", "crew")}
    assert {each.crossings for each in traces.messages if (each.client, each.topic) == ("plc", "fab.1")} == {3}
    assert [each.at_us for each in traces.messages] == sorted(each.at_us for each in traces.messages)


def test_a_fresh_capture_reads_like_the_one_that_is_kept():
    """What nats-server writes today is what tests/ingest/nats_events.jsonl was captured from."""
    joined = Join()
    joined.add(asyncio.run(capture()))
    traces = joined.traces()

    def plain(name):
        return re.sub(r"^hub-3:\d+$", "hub-3:12", name)  # the number of a connection

    found = [
        (plain(e.client), e.topic.split(".")[0] if e.topic.startswith("_INBOX") else e.topic, e.bytes,
         frozenset(map(plain, e.receivers)))
        for e in traces.messages
    ]  # fmt: skip
    assert Counter(found) == Counter(EXPECTED)
    assert traces.several == ["hmi"]  # two clients with one name


def crossed(servers):
    """Messages that have crossed links so far."""
    leaves = [leaf for name in NAMES for leaf in servers.look(name, "leafz").get("leafs") or []]
    return sum(leaf["out_msgs"] for leaf in leaves)


def test_no_event_crosses_a_link(servers, deployment):
    async def story():
        async with load(deployment) as running, Collector(deployment, 0, patience=30) as collector:
            counts = []
            for traced in (False, True):
                mark = ("fab.1", b"mark %d" % traced)
                await running.publish("plc", *mark, traced=False)
                await until(lambda mark=mark: mark in running.got["hmi"])  # what came before it has crossed all links
                before, got = crossed(servers), len(running.got["hmi"])
                for _ in range(100):
                    await running.publish("plc", "fab.1", b"x", traced)
                await until(lambda got=got: len(running.got["hmi"]) == got + 100)
                await until(lambda n=traced: len(collector.raw) == 400 * n)
                counts.append(crossed(servers) - before)
        return counts, collector.traces()

    counts, traces = asyncio.run(story())
    assert counts[0] == 300
    assert counts[1] <= 1.03 * counts[0]
    assert (len(traces.messages), traces.incomplete) == (100, 0)


def test_an_event_that_never_comes_leaves_its_message_out(deployment):
    async def story():
        async with load(deployment) as running, Collector(deployment, 0, patience=0.1) as collector:
            for _ in range(5):
                await running.publish("plc", "fab.1", b"x")
            await until(lambda: len(collector.raw) == 20)
            del collector.raw[3]
            collector.raw.append(b"no event")
        return collector.traces()

    traces = asyncio.run(story())
    assert (len(traces.messages), traces.incomplete, sum(traces.left_out.values())) == (4, 1, 1)
    assert {each.receivers for each in traces.messages} == {("desk", "hmi", "twin")}


def test_a_sampled_share_of_what_wrapped_clients_publish_is_traced(servers, deployment):
    async def story():
        async with Collector(deployment, 0, patience=30) as collector:
            network = deployment.plain()
            control = await connect_nats(
                client_address(network, "hub-1"), "overlace.control", 20, **nats_options(network, "control", 0)
            )
            sender = await connect("sender", servers.network, home="hub-4")
            receiver = await connect("receiver", servers.network, home="hub-2")
            try:
                got = []
                await receiver.subscribe("wrapped.*", got.append)
                sampling = b'{"do": "sample", "share": 1.0, "seconds": 600}'
                while not any(b"sender" in each for each in collector.raw):
                    for _ in range(2):
                        await control.publish("_OVERLACE.ctl.all", sampling, reply="_OVERLACE.answers")
                    await sender.publish("wrapped.early", b"")
                    await asyncio.sleep(0.02)
                await until(lambda: bool(got))
                for _ in range(10):
                    await sender.publish("wrapped.late", b"12345")
                await sender.flush()
            finally:
                await sender.close()
                await receiver.close()
                await control.close()
        return collector.traces()

    traces = asyncio.run(story())
    late = [each for each in traces.messages if each.topic == "wrapped.late"]
    assert [(each.client, each.bytes, each.receivers) for each in late] == [("sender", 5, ("receiver",))] * 10
    assert traces.incomplete == 0


def test_a_broker_that_is_silent_or_refuses_is_named_without_a_secret(servers, deployment, tmp_path):
    async def story(which):
        async with Collector(which, 0):
            pass

    text = servers.network.read_text()
    (tmp_path / "control.password").write_text("another secret")
    other = tmp_path / "network.toml"
    other.write_text(text)
    with pytest.raises(BadNetwork, match="hub-. does not take a collector") as refused:
        asyncio.run(story(read_deployment(other)))
    assert "secret" not in str(refused.value)
    other.write_text(text.replace(str(servers.ports["hub-3"]["client"]), "1"))
    (tmp_path / "control.password").write_text(servers.passwords["control"])
    with pytest.raises(BadNetwork, match="hub-3 does not take a collector"):
        asyncio.run(story(read_deployment(other)))
