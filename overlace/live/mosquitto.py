"""Mosquitto networks: brokers joined by their built-in bridges, each colour a set of processes.

Mosquitto names nobody: clients are those that answer, and `$SYS/broker/clients/connected` above their number means
others, whom only the log names.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import secrets
import time
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from overlace.errors import BadNetwork
from overlace.live.adapter import Answer, Answers, Order, Seen, Shown
from overlace.live.client import ClientError, client_address, hash_name, mqtt_client
from overlace.live.deployment import Deployment
from overlace.live.nats import PROBES, note_times
from overlace.live.servers import refuse_old
from overlace.live.wiring import Links, Pair, links_of, slug

if TYPE_CHECKING:
    import paho.mqtt.client as mqtt

PATIENCE = 3.0
ANSWERS, LEFT, PROBE = "$overlace/answers/", "$overlace/left", "$overlace/probe/"
SYSTEM = ("$SYS/broker/version", "$SYS/broker/clients/connected", "$SYS/broker/connection/+/state")


class Line:
    """Our connection to one broker; what comes is kept, newest last."""

    def __init__(self, network: MosquittoNetwork, broker: str, colour: int) -> None:
        self.network, self.broker, self.colour = network, broker, colour
        self.told: dict[str, str] = {}  # topics of the broker itself
        self.acked = 0
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
                raise BadNetwork(f"{self.broker} at {host}:{port} does not take control: {self.problem or 'no answer'}")
            time.sleep(0.002)

    def _connected(self, client: Any, data: Any, flags: Any, reason: Any, properties: Any) -> None:
        if reason.is_failure:
            self.problem = str(reason)
            return
        topics = [*SYSTEM, f"{ANSWERS}#", LEFT, f"{PROBE}#"]
        self.client.subscribe([(topic, 1) for topic in topics])

    def _subscribed(self, *_: Any) -> None:
        self.acked += 1

    def _message(self, client: Any, data: Any, message: mqtt.MQTTMessage) -> None:
        topic = message.topic
        if topic.startswith("$SYS/"):
            self.told[topic] = message.payload.decode(errors="replace")
        else:
            self.network.take(self.broker, topic, bytes(message.payload))

    def publish(self, topic: str, payload: bytes, qos: int = 1) -> None:
        """Send a message."""
        self.client.publish(topic, payload, qos)

    def close(self) -> None:
        """Leave."""
        self.client.disconnect()
        self.client.loop_stop()


class MosquittoNetwork:
    """A Mosquitto network."""

    def __init__(self, deployment: Deployment) -> None:
        self.deployment = deployment
        self.lines: dict[tuple[str, int], Line] = {}
        self.waiting: dict[str, Answers] = {}  # by the token that answers carry
        self.came: dict[str, dict[str, float]] = {}  # probes: where they came, and when
        self.farewells: list[bytes] = []

    def take(self, broker: str, topic: str, payload: bytes) -> None:
        """A message to us; called from the threads of our connections."""
        if topic.startswith(PROBE):
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
            except (OSError, ClientError) as error:
                raise BadNetwork(f"{broker} does not take control: {error}") from None
            self.lines[key] = made
        return self.lines[key]

    async def _all_lines(self, colour: int) -> dict[str, Line]:
        """Our connections to all brokers of a colour that answer."""
        found = await asyncio.gather(
            *(self.line(broker, colour) for broker in self.deployment.brokers), return_exceptions=True
        )
        named = zip(self.deployment.brokers, found, strict=True)
        return {broker: each for broker, each in named if isinstance(each, Line)}

    async def shown(self) -> Shown:
        """Brokers and links as brokers say, clients as they answer."""
        brokers = self.deployment.brokers
        versions = dict.fromkeys(brokers, "")
        wired: list[Links] = []
        clients: dict[str, Seen] = {}
        connected = answered = 0
        joined = {f"overlace.{slug(a)}.{slug(b)}": (a, b) for a in brokers for b in brokers if a != b}
        for colour in range(len(self.deployment.colours)):
            lines = await self._all_lines(colour)
            await self._until(lambda lines=lines: all(SYSTEM[0] in line.told for line in lines.values()))
            found = []
            for broker, line in lines.items():
                version = line.told.get(SYSTEM[0], "").removeprefix("mosquitto version ")
                refuse_old("mosquitto", broker, version)
                versions[broker] = version
                for topic, state in line.told.items():
                    name = topic.removeprefix("$SYS/broker/connection/").removesuffix("/state")
                    if state == "1" and name in joined:
                        found.append(joined[name])
            wired.append(links_of(found))
            answers = await self.tell_all({"do": "ask"}, colour)
            answered += len(answers)
            connected += sum(int(line.told.get(SYSTEM[1], "0")) for line in lines.values())
            connected -= len(lines) + 2 * len(wired[-1])
            for each in answers:
                clients[str(each["client"])] = seen_of(each, clients.get(str(each["client"])), answers)
        links = (wired[0], wired[1] if len(wired) > 1 else frozenset())
        return Shown(versions, links, clients, max(0, connected - answered))

    async def _until(self, condition: Any) -> None:
        deadline = time.monotonic() + PATIENCE
        while not condition() and time.monotonic() < deadline:
            await asyncio.sleep(0.005)

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
            for line in (await self._all_lines(colour)).values():
                line.publish(f"$overlace/ctl/{to}", text)
            return await answers.wait(PATIENCE)
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
                await self._until(lambda mark=mark, near=near: near <= self.came.get(mark, {}).keys())
                if turn:
                    note_times(best, broker, began, self.came.get(mark, {}), links)
        self.came.clear()
        return {link: max(1, round(1e6 * best[link])) for link in sorted(best)}

    async def close(self) -> None:
        """Leave the network."""
        for each in self.lines.values():
            with contextlib.suppress(Exception):
                await asyncio.to_thread(each.close)
        self.lines.clear()


def seen_of(answer: Answer, before: Seen | None, all_of_them: list[Answer]) -> Seen:
    """A client as it answers."""
    homes = [*answer.get("homes", ()), None, None][:2]
    filters = tuple((str(f), g) for f, g in answer.get("filters", ()))
    same = {str(each["instance"]) for each in all_of_them if each["client"] == answer["client"]}
    count = max(len(same), before.connections if before else 1)
    return Seen((homes[0], homes[1]), int(answer.get("live", 0)), filters, True, count)
