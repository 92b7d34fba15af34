"""A whole colour swap by hand, under load: nothing lost, nothing doubled, nothing out of order."""

import asyncio
import time
from collections import Counter, defaultdict
from contextlib import AsyncExitStack

import pytest

from overlace.live.client import NoAnswer, connect
from tests.live.orders import Control
from tests.live.servers import MOSQUITTO, NATS, PATIENCE, Mosquittos, NatsServers, until

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(NATS is None, reason="no nats-server on PATH or in this environment"),
    pytest.mark.skipif(MOSQUITTO is None, reason="no mosquitto on PATH"),
]

BROKERS = "abcd"
OLD, NEW = [("a", "b"), ("b", "c"), ("c", "d")], [("d", "a"), ("c", "a"), ("b", "a")]
AHEAD = 20
"""So many of its own numbers a client publishes ahead of those that came back to it: no backlog on a slow machine."""
HOLD = 3000
"""Milliseconds, longer than any message takes, or an answer, on a machine that is busy with other tests."""
MEMBERS = {"client-6", "client-7"}
"""Members of the queue group; on Mosquitto they are always at one broker, since each deals on its own."""


class Crowd:
    """Clients that publish numbers without end, and what each of them got."""

    def __init__(self, servers, qos):
        self.servers, self.qos = servers, qos
        self.clients, self.sent, self.got, self.echoed = {}, Counter(), defaultdict(list), Counter()
        self.grouped, self.work, self.asked, self.unanswered = Counter(), 0, 0, 0
        self.probed = defaultdict(set)
        self.ending = asyncio.Event()
        self.loads = []

    async def join(self, stack, name, home):
        """A client that gets all numbers, works in the group or answers requests; its load starts with `load`."""
        client = await stack.enter_async_context(await connect(name, self.servers.network, home))
        got, own = self.got[name], name.encode()

        def take(message):
            sender, number = message.payload.split()
            got.append((sender, number))
            self.echoed[name] += sender == own

        await client.subscribe("numbers", take, qos=self.qos)
        if name in MEMBERS:
            await client.subscribe("work", self._worked, group="g", qos=self.qos)
        if name == "client-5":
            await client.subscribe("ask", self._asked, qos=self.qos)
        await client.subscribe(f"probe-{name}", lambda message: self.probed[name].add(message.payload), qos=self.qos)
        self.clients[name] = client
        return client

    def _worked(self, message):
        self.grouped[message.payload] += 1

    async def _asked(self, message):
        await asyncio.sleep(0.001)
        await message.respond(message.payload)

    def load(self, name):
        self.loads.append(asyncio.create_task(self._publish(name, self.clients[name])))

    async def _publish(self, name, client):
        while not self.ending.is_set():
            await client.publish("numbers", f"{name} {self.sent[name]}", qos=self.qos)
            self.sent[name] += 1
            if name == "client-0":
                await client.publish("work", str(self.work), qos=self.qos)
                self.work += 1
            if name == "client-1":
                self.asked += 1
                try:
                    await client.request("ask", str(self.asked), timeout=20, qos=self.qos)
                except NoAnswer:
                    self.unanswered += 1
            await asyncio.sleep(0.004)
            await until(lambda: self.sent[name] - self.echoed[name] < AHEAD, f"{name} gets what it publishes")

    async def arrived(self):
        """All that was sent until now has arrived, at those who were there from the beginning."""
        sent, work = Counter(self.sent), self.work

        def everywhere():
            counts = [Counter(who.decode() for who, _ in self.got[f"client-{k}"]) for k in range(8)]
            return all(count >= sent for count in counts) and sum(self.grouped.values()) >= work

        await until(everywhere, "all that was sent arrives")

    async def go_on(self, more):
        """Until everybody has sent so many messages more."""
        before = Counter(self.sent)

        def gone_on():
            for load in self.loads:
                if load.done():
                    load.result()
            return all(self.sent[name] >= before[name] + more for name in before)

        try:
            await until(gone_on, "everybody goes on")
        except TimeoutError as error:
            error.add_note(f"sent {self.sent}, of it {self.sent - before} since; came back {self.echoed}")
            raise

    async def probe(self, controls, colour):
        """Publish at each broker in a colour, until all clients have got it from all."""
        wanted = {f"{broker}-{colour}".encode() for broker in controls}
        while not all(self.probed[name] >= wanted for name in self.clients):
            for broker, control in controls.items():
                for name in self.clients:  # a topic each: its way is known when all that it subscribed before is
                    if self.servers.substrate == "nats":
                        await control.nats.publish(f"probe-{name}", f"{broker}-{colour}".encode())
                    else:
                        control.mqtt.publish(f"probe-{name}", f"{broker}-{colour}", self.qos)
            await asyncio.sleep(0.02)

    async def end(self):
        self.ending.set()
        await asyncio.gather(*self.loads)
        await self.arrived()


async def swap(servers, qos):
    """Wire, prepare, probe, switch, settle, finish, unwire; each order comes twice, newcomers come in between."""
    crowd = Crowd(servers, qos)
    async with AsyncExitStack() as stack:
        for k in range(8):
            home = "d" if f"client-{k}" in MEMBERS else BROKERS[k % 4]
            await crowd.join(stack, f"client-{k}", home)
        old = {each: await stack.enter_async_context(Control(servers.network, each, 0)) for each in BROKERS}
        await crowd.probe(old, 0)
        for name in crowd.clients:
            crowd.load(name)
        await crowd.go_on(20)
        await asyncio.to_thread(servers.wire, 1, NEW)

        homes = {name: "b" if name in MEMBERS else BROKERS[(k + 1) % 4] for k, name in enumerate(crowd.clients)}

        async def order(**words):
            for name in crowd.clients:
                mine = {**words, "home": homes[name]} if words["do"] == "prepare" else words
                if words["do"] == "finish":  # whoever has finished hears the old colour no more
                    answers = [await old["a"].tell(name, **mine), await new["a"].tell(name, **mine)]
                else:
                    answers = await asyncio.gather(old["a"].tell(name, **mine), old["a"].tell(name, **mine))
                assert answers[0] == answers[1]
                assert "error" not in answers[0], answers[0]
            return answers[0]

        await order(do="prepare", colour=1)
        newcomer = await crowd.join(stack, "newcomer", "c")
        assert (newcomer.live, newcomer.homes) == (0, ["c", "c"])  # both take it, and the others say which is live
        crowd.got["newcomer"].clear()
        homes["newcomer"] = "a"
        await order(do="prepare", colour=1)
        assert newcomer.homes == ["c", "a"]
        new = {each: await stack.enter_async_context(Control(servers.network, each, 1)) for each in BROKERS}
        await crowd.probe(new, 1)
        crowd.sent["newcomer"] = 0
        crowd.load("newcomer")
        await crowd.go_on(10)

        await order(do="switch", colour=1, hold_ms=HOLD)
        late = await crowd.join(stack, "late", "d")
        assert (late.live, late.homes) == (1, ["d", "d"])
        homes["late"] = "d"
        await order(do="prepare", colour=1)
        await crowd.arrived()
        answer = await order(do="finish")
        assert answer["homes"] == [None, "d"]
        for control in old.values():
            await control.__aexit__()
            control.__aexit__ = lambda *_: asyncio.sleep(0)
        await asyncio.to_thread(servers.unwire, 0)
        await crowd.go_on(20)
        await crowd.end()
        assert {name: client.homes for name, client in crowd.clients.items()} == {
            k: [None, v] for k, v in homes.items()
        }
        return crowd


def check(crowd):
    """Id by id: everybody has all numbers of everybody who published, each once, in order."""
    everybody = {name for name in crowd.clients if name.startswith("client")}
    for receiver in everybody:
        by_sender = defaultdict(list)
        for sender, number in crowd.got[receiver]:
            by_sender[sender.decode()].append(int(number))
        assert by_sender == {name: list(range(sent)) for name, sent in crowd.sent.items()}, receiver
    assert crowd.grouped == {b"%d" % each: 1 for each in range(crowd.work)}
    assert (crowd.unanswered, crowd.asked > 50) == (0, True)
    for name, sent in crowd.sent.items():
        assert crowd.clients[name].counts["numbers"][0] == sent


@pytest.mark.parametrize("kind", [NatsServers, pytest.param(Mosquittos, marks=pytest.mark.long)])
def test_a_colour_swap_under_load_loses_nothing_and_doubles_nothing(kind, tmp_path):
    with kind(tmp_path, BROKERS, OLD) as servers:
        check(asyncio.run(swap(servers, qos=0)))


def test_what_was_prepared_is_cancelled_and_what_was_switched_is_switched_back(tmp_path):
    async def run(servers):
        crowd = Crowd(servers, 0)
        async with AsyncExitStack() as stack:
            control = await stack.enter_async_context(Control(servers.network, "b", 0))
            for k in range(2):
                await crowd.join(stack, f"client-{k}", "a")
            await asyncio.to_thread(servers.wire, 1, [("b", "a")])

            async def tell(**order):
                return list((await control.tell_all(crowd.clients, **order)).values())

            assert all("not prepared" in answer["error"] for answer in await tell(do="switch", colour=1))
            for home in ("b", "a"):  # another home for what is prepared already
                assert all(answer["homes"] == ["a", home] for answer in await tell(do="prepare", colour=1, home=home))
            assert all("not switched" in answer["error"] for answer in await tell(do="finish"))
            assert all(answer["homes"] == ["a", None] for answer in await tell(do="cancel"))
            await tell(do="prepare", colour=1, home="b")
            assert [answer["live"] for answer in await tell(do="switch", colour=1, hold_ms=0)] == [1, 1]
            assert all("switch" in answer["error"] for answer in await tell(do="cancel"))
            assert [answer["live"] for answer in await tell(do="switch", colour=0, hold_ms=0)] == [0, 0]
            for _ in range(2):
                answers = await tell(do="cancel")
                assert [(each["live"], each["homes"], "error" in each) for each in answers] == [
                    (0, ["a", None], False)
                ] * 2

    with NatsServers(tmp_path, "ab", [("a", "b")]) as servers:
        asyncio.run(run(servers))


def test_what_is_published_during_a_hold_is_sent_once_and_in_order(tmp_path):
    """Even where the switch goes back and forth before the first hold is over, and publishers do not wait."""

    async def run(servers):
        async with AsyncExitStack() as stack:
            control = await stack.enter_async_context(Control(servers.network, "a", 0))
            left = await stack.enter_async_context(await connect("left", servers.network, "a"))
            right = await stack.enter_async_context(await connect("right", servers.network, "a"))
            got = []
            await right.subscribe("t", lambda message: got.append(int(message.payload)))
            await asyncio.to_thread(servers.wire, 1, [])
            for name in ("left", "right"):
                await control.tell(name, do="prepare", colour=1, home="a")
            sent = []
            for colour in (1, 0, 1):
                await control.tell("left", do="switch", colour=colour, hold_ms=HOLD)
                assert left._held is not None
                sent += [asyncio.create_task(left.publish("t", str(len(sent) + k))) for k in range(20)]
                await asyncio.sleep(0)
            sent[30].cancel()
            await until(lambda: len(got) == 59)
            assert got == [k for k in range(60) if k != 30]
            assert left.counts["t"][0] == 59
            assert left._held is None

    with NatsServers(tmp_path, "a", []) as servers:
        asyncio.run(run(servers))


@pytest.mark.parametrize("kind", [NatsServers, Mosquittos])
def test_who_slept_through_the_swap_finds_the_live_colour(kind, tmp_path):
    """The old colour takes it no more; it goes on in the other, with its filters."""

    async def run(servers):
        async with await connect("sleeper", servers.network, "a") as sleeper:
            got = []
            await sleeper.subscribe("t", lambda message: got.append(message.payload))
            await asyncio.to_thread(servers.wire, 1, [])
            await asyncio.to_thread(servers.unwire, 0)
            await until(lambda: sleeper.live == 1 and sleeper._held is None)
            await sleeper.publish("t", b"on")
            await until(lambda: got == [b"on"])
            assert sleeper.homes == [None, "a"]

    with kind(tmp_path, "a", []) as servers:
        asyncio.run(run(servers))


def test_what_a_switch_holds_is_sent_though_the_broker_is_away_when_the_hold_ends(tmp_path):
    async def run(servers):
        crowd = Crowd(servers, 1)
        async with AsyncExitStack() as stack:
            control = await stack.enter_async_context(Control(servers.network, "b", 0))
            client = await crowd.join(stack, "client-0", "a")
            await asyncio.to_thread(servers.wire, 1, [("b", "a")])
            for order in ({"do": "prepare", "home": "b"}, {"do": "switch", "hold_ms": 1500}):
                assert "error" not in await control.tell("client-0", colour=1, **order)
            publishing = asyncio.create_task(client.publish("numbers", "client-0 0", qos=1))
            await asyncio.to_thread(servers.kill, ("b", 1))
            await until(lambda: client._finding, "the client looks for its broker")
            assert not publishing.done()
            await until(lambda: time.monotonic() > client._held_until + 0.2, "the hold is over")
            await asyncio.to_thread(servers.run, "b", 1, ["a"])
            await asyncio.wait_for(publishing, PATIENCE)
            await until(lambda: crowd.got["client-0"] == [(b"client-0", b"0")], "it arrives")

    with Mosquittos(tmp_path, "ab", [("a", "b")]) as servers:
        asyncio.run(run(servers))
