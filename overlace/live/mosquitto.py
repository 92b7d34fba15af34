"""Mosquitto networks: brokers joined by their built-in bridges, each colour a set of processes.

Mosquitto names nobody: clients are those that answer, and `$SYS/broker/clients/connected` above their number means
others, whom only the log names.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import secrets
import threading
import time
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from overlace.errors import BadNetwork, Busy
from overlace.extras import require
from overlace.live import local, mosquitto_files
from overlace.live.adapter import Answer, Answers, Order, Seen, Shown, await_links, retained_text
from overlace.live.client import ClientError, client_address, hash_name, mqtt_client
from overlace.live.deploying import deploy, run_command
from overlace.live.deployment import Deployment
from overlace.live.mosquitto_files import Filters
from overlace.live.servers import refuse_old
from overlace.live.wiring import Links, Pair, links_of, parents_first, slug
from overlace.wording import counted

if TYPE_CHECKING:
    import paho.mqtt.client as mqtt

PATIENCE = 3.0
APPLIER = "$overlace/applier"
ANSWERS, LEFT, PROBE = "$overlace/answers/", "$overlace/left", "$overlace/probe/"
AWAY = "$SYS/broker/clients/disconnected"
PROBES = 5
"""Messages sent over a link to measure its latency; the quickest counts."""

VERSION, CONNECTED = "$SYS/broker/version", "$SYS/broker/clients/connected"
STATES = "$SYS/broker/connection/+/state"
UPTIME = "$SYS/broker/uptime"
"""Said whenever the broker has counted, before all else."""


class NotTaken(BadNetwork):
    """A broker that is there and refuses us, or a credential that cannot be read: not the same as silence."""


class Line:
    """Our connection to one broker; what comes is kept, newest last."""

    def __init__(self, network: MosquittoNetwork, broker: str, colour: int) -> None:
        self.network, self.broker, self.colour = network, broker, colour
        self.told: dict[str, str] = {}  # topics of the broker itself
        self.acked = 0
        self.beats = 0  # how often the broker has counted since we came
        self.problem = ""
        self.client: mqtt.Client = mqtt_client(
            network.deployment.plain(), "control", f"overlace.control.{secrets.token_hex(4)}"
        )
        self.client.on_message = self._message
        self.client.on_subscribe = self._subscribed
        self.client.on_connect = self._connected

    def open(self) -> None:
        """Connect and subscribe; blocks until the broker has acknowledged, or for the patience."""
        host, _, port = client_address(self.network.deployment.plain(), self.broker, self.colour).rpartition(":")
        self.client.connect_timeout = PATIENCE
        self.client.connect(host.strip("[]"), int(port))
        self.client.loop_start()
        deadline = time.monotonic() + PATIENCE
        while self.acked == 0:
            if self.problem or time.monotonic() > deadline:
                self.close()
                said = f"{self.broker} at {host}:{port} does not take control"
                if self.problem:
                    raise NotTaken(f"{said}: {self.problem}. Check [credentials] of the network file")
                raise BadNetwork(f"{said}: no answer")
            time.sleep(0.002)

    def _connected(self, client: Any, data: Any, flags: Any, reason: Any, properties: Any) -> None:
        if reason.is_failure:
            self.problem = str(reason)
            return
        # retained messages come in this order: when the version has come, all else has
        topics = [APPLIER, f"{ANSWERS}#", LEFT, f"{PROBE}#", UPTIME, STATES, CONNECTED, AWAY, VERSION]
        self.client.subscribe([(topic, 1) for topic in topics])

    def _subscribed(self, *_: Any) -> None:
        self.acked += 1

    def _message(self, client: Any, data: Any, message: mqtt.MQTTMessage) -> None:
        topic = message.topic
        if topic.startswith("$SYS/"):
            self.told[topic] = message.payload.decode(errors="replace")
            self.beats += topic == UPTIME and not message.retain
        else:
            self.network.take(self.broker, self.colour, topic, bytes(message.payload))

    def publish(self, topic: str, payload: bytes, qos: int = 1) -> None:
        """Send a message."""
        self.client.publish(topic, payload, qos)

    async def retained(self) -> dict[str, mqtt.MQTTMessage]:
        """Retained messages by topic, but the broker's own."""
        found: dict[str, mqtt.MQTTMessage] = {}
        probe = mqtt_client(self.network.deployment.plain(), "control", f"overlace.control.{secrets.token_hex(4)}")
        done = threading.Event()

        def take(client: Any, data: Any, message: mqtt.MQTTMessage) -> None:
            if message.topic == mark:
                done.set()
            elif message.retain:
                found[message.topic] = message

        mark = f"$overlace/answers/{secrets.token_hex(8)}"
        probe.on_message = take

        def subscribe(*_: Any) -> None:
            probe.subscribe([("#", 2), (mark, 2)])

        def publish(*_: Any) -> None:
            probe.publish(mark, b"", 2)  # comes behind all that is retained

        probe.on_connect, probe.on_subscribe = subscribe, publish
        host, _, port = client_address(self.network.deployment.plain(), self.broker, self.colour).rpartition(":")
        await asyncio.to_thread(probe.connect, host.strip("[]"), int(port))
        probe.loop_start()
        try:
            if not await asyncio.to_thread(done.wait, PATIENCE):
                raise BadNetwork(f"{self.broker} does not say what it retains")
        finally:
            probe.disconnect()
            probe.loop_stop()
        return found

    def retain(self, message: mqtt.MQTTMessage) -> None:
        """Publish a message so that it is retained; blocks until the broker has taken it."""
        properties = message.properties
        for name in ("SubscriptionIdentifier", "TopicAlias"):
            if properties is not None and hasattr(properties, name):
                delattr(properties, name)
        sent = self.client.publish(message.topic, message.payload, message.qos, retain=True, properties=properties)
        sent.wait_for_publish(PATIENCE)

    def take_over(self, client: str) -> None:
        """Connect under a client's name, so that the broker breaks its connection, and leave."""
        other = mqtt_client(self.network.deployment.plain(), "clients", client)
        there = threading.Event()
        other.on_connect = lambda *_: there.set()
        host, _, port = client_address(self.network.deployment.plain(), self.broker, self.colour).rpartition(":")
        other.connect(host.strip("[]"), int(port))
        other.loop_start()
        there.wait(PATIENCE)
        other.disconnect()
        other.loop_stop()

    def close(self) -> None:
        """Leave."""
        self.client.disconnect()
        self.client.loop_stop()


class MosquittoNetwork:
    """A Mosquitto network."""

    def __init__(self, deployment: Deployment) -> None:
        require("live", "paho")
        self.deployment = deployment
        self.lines: dict[tuple[str, int], Line] = {}
        self.waiting: dict[str, Answers] = {}  # by the token that answers carry
        self.came: dict[str, dict[str, float]] = {}  # probes: where they came, and when
        self.farewells: list[bytes] = []
        self.meant: dict[int, Links] = {}
        self.token = secrets.token_hex(8)
        self.applying = False
        self.counted = False  # whether connections of clients that do not answer were counted with care

    def take(self, broker: str, colour: int, topic: str, payload: bytes) -> None:
        """A message to us; called from the threads of our connections."""
        if topic == APPLIER:
            token = payload.decode(errors="replace")
            if self.applying and token != self.token:
                here = json.dumps({"client": "", "instance": self.token}).encode()
                self.lines[broker, colour].publish(f"{ANSWERS}{token}", here)
        elif topic.startswith(PROBE):
            self.came.setdefault(payload.decode(errors="replace"), {})[broker] = time.perf_counter()
        elif topic == LEFT:
            self.farewells.append(payload)
        elif (answers := self.waiting.get(topic.removeprefix(ANSWERS))) is not None:
            answers.take(payload)

    async def line(self, broker: str, colour: int) -> Line:
        """Our connection to a broker of a colour, made once."""
        key = broker, colour
        if key not in self.lines:
            try:
                made = Line(self, broker, colour)
                await asyncio.to_thread(made.open)
            except ClientError as error:
                raise NotTaken(f"{broker} does not take control: {error}") from None
            except OSError as error:
                raise BadNetwork(f"{broker} does not take control: {error}") from None
            self.lines[key] = made
        return self.lines[key]

    async def _all_lines(self, colour: int) -> dict[str, Line]:
        """Our connections to all brokers of a colour that answer; refused if one is there and refuses us."""
        found = await asyncio.gather(
            *(self.line(broker, colour) for broker in self.deployment.brokers), return_exceptions=True
        )
        for each in found:
            if isinstance(each, NotTaken):
                raise each
        named = zip(self.deployment.brokers, found, strict=True)
        return {broker: each for broker, each in named if isinstance(each, Line) and each.client.is_connected()}

    async def shown(self) -> Shown:
        """Brokers and links as brokers say, clients as they answer."""
        brokers = self.deployment.brokers
        versions = dict.fromkeys(brokers, "")
        wired: list[Links] = []
        clients: dict[str, Seen] = {}
        answered = 0
        every: list[Line] = []
        away: list[str] = []
        for colour in range(len(self.deployment.colours)):
            lines = await self._all_lines(colour)
            await self._until(partial(_versions_known, list(lines.values())))
            for broker, line in lines.items():
                version = line.told.get(VERSION, "").removeprefix("mosquitto version ")
                refuse_old("mosquitto", broker, version)
                versions[broker] = version
            wired.append(self._links(lines))
            await self._until(partial(_have_counted, dict.fromkeys(lines.values(), 1)))  # else we are not in it
            answers = await self.tell_all({"do": "ask"}, colour)
            answered += len(answers)
            every += lines.values()
            for each in answers:
                clients[str(each["client"])] = seen_of(each, clients.get(str(each["client"])), answers)
            away += [broker for broker in brokers if answers and broker not in lines]
        versions |= dict.fromkeys(away, "")  # where clients are, the other colour does not make up for a broker
        links = (wired[0], wired[1] if len(wired) > 1 else frozenset())
        ours = len(every) + 2 * sum(map(len, links)) + answered
        return Shown(versions, links, clients, await self._others(every, ours))

    async def _others(self, lines: Collection[Line], ours: int) -> int:
        """Connections that are not ours, bridges or clients that answer.

        Brokers count every second: the first time, who has just left is told from who is there.
        """
        count = sum(int(line.told.get(CONNECTED, "0")) for line in lines) - ours
        if count > 0 and not self.counted:
            await self._until(partial(_have_counted, {line: line.beats + 2 for line in lines}))
            count = min(count, sum(int(line.told.get(CONNECTED, "0")) for line in lines) - ours)
        self.counted = True
        return max(0, count)

    def _links(self, lines: Mapping[str, Line]) -> Links:
        """The bridges that brokers say are connected."""
        brokers = self.deployment.brokers
        joined = {f"overlace.{slug(a)}.{slug(b)}": (a, b) for a in brokers for b in brokers if a != b}
        found = []
        for line in lines.values():
            for topic, state in list(line.told.items()):
                name = topic.removeprefix("$SYS/broker/connection/").removesuffix("/state")
                if state == "1" and name in joined:
                    found.append(joined[name])
        return links_of(found)

    async def _until(self, condition: Callable[[], bool], patience: float = PATIENCE) -> None:
        deadline = time.monotonic() + patience
        while not condition() and time.monotonic() < deadline:
            await asyncio.sleep(0.005)

    def _has_come(self, mark: str, to: Collection[str]) -> bool:
        return set(to) <= self.came.get(mark, {}).keys()

    async def tell(self, client: str, order: Order, colour: int = 0) -> list[Answer]:
        """Give an order to a client; what it answers."""
        return await self._request(hash_name(client), order, colour, {client})

    async def tell_all(self, order: Order, colour: int = 0, expected: Collection[str] = ()) -> list[Answer]:
        """Give an order to all clients that follow orders; what they answer until all that are expected have."""
        return await self._request("all", order, colour, expected)

    async def _request(self, to: str, order: Order, colour: int, expected: Collection[str]) -> list[Answer]:
        token = secrets.token_hex(8)
        self.waiting[token] = answers = Answers(expected)
        try:
            text = json.dumps({**order, "reply": f"{ANSWERS}{token}"}).encode()
            lines = await self._all_lines(colour)
            for line in lines.values():
                line.publish(f"$overlace/ctl/{to}", text)
            return await answers.wait(PATIENCE) if lines else []
        finally:
            del self.waiting[token]

    async def latencies(self, colour: int, links: Links) -> dict[Pair, int]:
        """Microseconds over each link: what a message takes from end to end, without our own ways to both ends."""
        lines = await self._all_lines(colour)
        best: dict[Pair, float] = {}
        token = secrets.token_hex(8)
        for turn in range(PROBES + 1):
            for broker, line in lines.items():
                mark = f"{token} {broker} {turn}"
                near = {other for link in links if broker in link for other in link} & lines.keys()
                began = time.perf_counter()
                line.publish(f"{PROBE}{token}", mark.encode(), 0)
                await self._until(partial(self._has_come, mark, near))
                if turn:
                    note_times(best, broker, began, dict(self.came.get(mark, {})))
        self.came.clear()
        return latencies_of(best, links)

    async def wire(self, colour: int, links: Links, filters: Filters | None = None) -> AsyncIterator[str]:
        """Start the brokers of a colour from their files, parents first."""
        deployment = self.deployment
        proxied = (deployment.folder / "run" / "ports.json").exists()
        files = mosquitto_files.broker_files(
            deployment, colour, links, filters, local.more_lines(deployment), proxied=proxied
        )
        for broker in parents_first(deployment.brokers, links):
            names = mosquitto_files.names_of(broker, colour)
            await deploy(deployment, broker, {name: files[name] for name in names.values()})
            start = deployment.of(broker).start
            if start is None:
                local.start_beside(deployment, broker, colour)
            else:
                await run_command(start, {"file": names["main"]}, f"start of {broker}")
            yield broker
        await self._until_wired(colour, links)

    async def _until_wired(self, colour: int, links: Links) -> None:
        """Wait until exactly these links are wired in a colour."""

        async def look() -> Links:
            return self._links(await self._all_lines(colour))

        await await_links(look, links)

    async def unwire(self, colour: int) -> AsyncIterator[str]:
        """Stop the brokers of a colour."""
        deployment = self.deployment
        for broker in deployment.brokers:
            if (line := self.lines.pop((broker, colour), None)) is not None:
                await asyncio.to_thread(line.close)
            stop = deployment.of(broker).stop
            if stop is None:
                local.end_beside(deployment, broker, colour)
            else:
                await run_command(stop, {"file": mosquitto_files.names_of(broker, colour)["main"]}, f"stop of {broker}")
            yield broker

    async def probe(self, colour: int, broker: str, expected: Collection[str]) -> set[str]:
        """Whom a message reaches that is published at a broker: those at brokers where a message of ours arrives.

        Bridges carry what their files say; a client has its filters when its broker has acknowledged them.
        """
        lines = await self._all_lines(colour)
        mark = f"{secrets.token_hex(8)} {broker}"
        deadline = time.monotonic() + PATIENCE
        while not lines.keys() <= self.came.get(mark, {}).keys() and time.monotonic() < deadline:
            lines[broker].publish(f"{PROBE}{mark[:16]}", mark.encode(), 1)
            await self._until(partial(self._has_come, mark, lines.keys()), 0.5)
        reached = self.came.pop(mark, {}).keys()
        answers = await self.tell_all({"do": "ask"}, colour, expected)
        return {str(each["client"]) for each in answers if each["homes"][colour] in reached}

    @contextlib.asynccontextmanager
    async def alone(self) -> AsyncIterator[None]:
        """Be the only applier: all ask and answer at the first broker of each colour that runs."""
        first = next(iter(self.deployment.brokers))
        lines = [each[first] for c in (0, 1) if first in (each := await self._all_lines(c))]
        self.waiting[self.token] = answers = Answers()
        for line in lines:
            line.publish(APPLIER, self.token.encode())
        await self._until(lambda: bool(answers.parts), 0.5)
        del self.waiting[self.token]
        if answers.parts:
            raise Busy("another applier is at work on this network. Wait for it, or stop it.")
        self.applying = True
        try:
            yield
        finally:
            self.applying = False

    async def stranded(self) -> list[str]:
        """Durable sessions that are away, and retained messages."""
        found = []
        kept: dict[str, tuple[str, bytes]] = {}  # where it was seen first
        for broker, line in (await self._all_lines((await self.shown()).live)).items():
            away = int(line.told.get(AWAY, "0"))
            if away:
                found.append(f"{counted(away, 'durable session', 'durable sessions')} at {broker}")
            for topic, message in (await line.retained()).items():
                other = kept.setdefault(topic, (broker, bytes(message.payload)))
                if other[1] != bytes(message.payload):
                    found.append(f"retained message {topic!r}, which differs between {other[0]} and {broker}")
        return [*found, *([retained_text(kept)] if kept else [])]

    async def copy_retained(self, old: int, new: int) -> int:
        """Publish what brokers retain at their like of the other colour, where it is not; return when it is there."""
        held = {broker: await line.retained() for broker, line in (await self._all_lines(old)).items()}
        lines = await self._all_lines(new)
        for broker, messages in held.items():
            there = await lines[broker].retained()
            for topic, message in sorted(messages.items()):
                if topic not in there or bytes(there[topic].payload) != bytes(message.payload):
                    await asyncio.to_thread(lines[broker].retain, message)
        for broker, line in lines.items():
            for qos in (0, 1, 2):  # behind all that was published there, on every way, however it was sent
                mark = f"{secrets.token_hex(8)} {broker} {qos}"
                line.publish(f"{PROBE}{mark[:16]}", mark.encode(), qos)
                await self._until(partial(self._has_come, mark, lines.keys()))
                if not self._has_come(mark, lines.keys()):
                    raise BadNetwork(f"{broker}: what was copied there has not reached all brokers")
                self.came.pop(mark)
        return len({topic for messages in held.values() for topic in messages})

    async def admit(self, colour: int) -> AsyncIterator[str]:
        """Nothing: clients that follow no orders are cut off when their broker stops."""
        return
        yield

    async def kick(self, client: str) -> None:
        """Take over the name of a client, so that its connection is broken."""
        for line in (await self._all_lines((await self.shown()).live)).values():
            await asyncio.to_thread(line.take_over, client)

    async def close(self) -> None:
        """Leave the network."""
        for each in self.lines.values():
            with contextlib.suppress(Exception):
                await asyncio.to_thread(each.close)
        self.lines.clear()


def note_times(best: dict[Pair, float], broker: str, began: float, came: Mapping[str, float]) -> None:
    """Keep the quickest time from a broker to each that a message reached, itself too."""
    for other, at in list(came.items()):  # threads may add to it meanwhile
        best[broker, other] = min(best.get((broker, other), float("inf")), at - began)


def latencies_of(best: Mapping[Pair, float], links: Links) -> dict[Pair, int]:
    """Microseconds over each link that was measured: the quickest way, less our own ways to both ends."""
    found = {}
    for a, b in sorted(links):
        ways = [best[way] for way in ((a, b), (b, a)) if way in best]
        if ways and (a, a) in best and (b, b) in best:
            found[a, b] = max(1, round(1e6 * (min(ways) - (best[a, a] + best[b, b]) / 2)))
    return found


def _have_counted(beats: Mapping[Line, int]) -> bool:
    return all(line.beats >= least for line, least in beats.items())


def _versions_known(lines: Collection[Line]) -> bool:
    return all(VERSION in line.told for line in lines)


def seen_of(answer: Answer, before: Seen | None, all_of_them: list[Answer]) -> Seen:
    """A client as it answers."""
    homes = [*answer.get("homes", ()), None, None][:2]
    filters = tuple((str(f), g) for f, g in answer.get("filters", ()))
    same = {str(each["instance"]) for each in all_of_them if each["client"] == answer["client"]}
    count = max(len(same), before.connections if before else 1)
    return Seen((homes[0], homes[1]), int(answer.get("live", 0)), filters, True, count)
