"""A seeded load on a running network, and its tally: `overlace live traffic`.

All clients of the load live in this process and use `overlace.live.client`. `Load` is for whoever records or changes a
network meanwhile:

    async with Load("net", TrafficOptions(seed=7)) as load:   # clients are connected, subscribed, and reach each other
        running = asyncio.create_task(load.run(60))
        ...
        load.end()                                            # publish no more
        tally = await running                                 # all is accounted for, or the patience ran out

A time in a payload is this process' own clock: latencies are from the call of publish to the call of the handler.
"""

from __future__ import annotations

import asyncio
import secrets
import struct
import time
from collections.abc import Awaitable, Coroutine, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from overlace import stopping
from overlace.errors import BadNetwork
from overlace.live.adapter import adapter_for
from overlace.live.client import Client, ClientError, Handler, Message, MqttLink, NatsLink, Out, connect, find_home
from overlace.live.deployment import Deployment, read_deployment
from overlace.live.options import TrafficOptions
from overlace.live.scenario import Event, draw_scenario
from overlace.live.tally import Tally
from overlace.model import Progress

PATIENCE = 5.0
"""Seconds without a delivery, after which the rest is taken for lost."""

REQUEST = 5.0
"""Seconds to wait for an answer to a request."""

READY = 30.0
"""Seconds in which all clients must reach each other."""

AT_ONCE = 8
"""Clients that connect at a time."""

OFTEN = 0.25
"""Seconds between two looks at whether to end, and between two reports."""

HEAD = struct.Struct("<8sIIIQ")
"""Of a payload: the load's mark, topic, publisher, number, time."""

ANSWER = b"done"

LOOKS = 5
"""How often clients that are there already are looked for."""


class Load:
    """A load on a network: start, run (any number of times), stop."""

    def __init__(self, network: Deployment | str | Path, options: TrafficOptions | None = None) -> None:
        self.deployment = network if isinstance(network, Deployment) else read_deployment(network)
        self.options = options or TrafficOptions()
        plain = self.deployment.plain()
        try:
            self.scenario = draw_scenario(
                self.options, list(self.deployment.brokers), self.deployment.substrate,
                lambda name: find_home(plain, name),
            )  # fmt: skip
        except ClientError as error:
            raise BadNetwork(f"{self.deployment.path}: {error}") from None
        for home in self.scenario.homes.values():
            self.deployment.of(home)
        self.tally = Tally(self.scenario)
        self.clients: dict[str, Client] = {}
        self._names = list(self.scenario.homes)
        self._mark = secrets.token_bytes(8)
        self._runs = 0
        self._ending = False
        self._asked: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Load:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    async def start(self, progress: Progress | None = None) -> None:
        """Connect all clients, subscribe, and wait until each can be reached from every home."""
        report = progress or _silent
        report(0.0, f"connecting {self.options.clients:,} clients")
        limit = asyncio.Semaphore(AT_ONCE)
        try:
            await _all(self._join(name, limit) for name in self._names)
            report(0.5, f"connected {self.options.clients:,} clients")
            await self._reach()
        except BaseException as error:
            await self.stop()
            if isinstance(error, ClientError):
                raise BadNetwork(str(error)) from None
            raise
        report(1.0, "ready")

    async def _join(self, name: str, limit: asyncio.Semaphore) -> None:
        async with limit:
            client = await connect(name, self.deployment.plain(), self.scenario.homes[name])
            self.clients[name] = client
            for each in self.scenario.subscriptions:
                if each.client == name:
                    await client.subscribe(each.filter, lambda message: self._got(client, message), each.group)

    async def _reach(self) -> None:
        """Wait until a message from each home arrives at each client: brokers learn filters in their order."""
        nats = self.deployment.substrate == "nats"
        start = f"_OVERLACE.probe.{self._mark.hex()}." if nats else f"$overlace/probe/ready/{self._mark.hex()}/"
        missing = {(name, client.home) for name in self._names for client in self.clients.values()}

        def reached(name: str) -> Handler:
            return lambda message: missing.discard((name, message.payload.decode(errors="replace")))

        for k, name in enumerate(self._names):
            await self.clients[name].subscribe(f"{start}{k}", reached(name))
        publishers = {client.home: client for client in self.clients.values()}
        deadline = time.monotonic() + READY
        while missing:
            if time.monotonic() > deadline:
                name, home = min(missing)
                raise BadNetwork(
                    f"messages from {home} do not reach {name} at {self.clients[name].home} within {READY:g} s. "
                    "Are all links up? `overlace live status` shows them."
                )
            for name, home in sorted(missing):
                link = publishers[home]._links[publishers[home].live]  # these messages are not counted
                await link.publish(Out(f"{start}{self._names.index(name)}", home.encode()))
            await asyncio.sleep(0.05)
        for k, name in enumerate(self._names):
            await self.clients[name].unsubscribe(f"{start}{k}")

    def _got(self, client: Client, message: Message) -> Awaitable[None] | None:
        """Account for a message; answer a request."""
        try:
            mark, topic, sender, number, sent_ns = HEAD.unpack_from(message.payload)
        except struct.error:
            mark = b""
        if mark != self._mark or self.scenario.topics[topic].name != message.topic:
            self.tally.foreign += 1
            return None
        self.tally.receive(topic, self._names[sender], client.name, number, sent_ns)
        if message.reply is None:
            return None
        kind = NatsLink if self.deployment.substrate == "nats" else MqttLink
        self.tally.respond(client.name, kind.fold(message.reply), len(ANSWER))
        return message.respond(ANSWER)

    def end(self) -> None:
        """Publish no more; `run` returns when all is accounted for."""
        self._ending = True

    async def run(self, seconds: float | None = None, progress: Progress | None = None) -> Tally:
        """Publish for some seconds, then wait until all is accounted for or nothing more comes."""
        report = progress or _silent
        length = self.options.seconds if seconds is None else seconds
        self._ending = False
        events = self.scenario.events(self._runs)
        self._runs += 1
        queues: dict[str, asyncio.Queue[Event | None]] = {name: asyncio.Queue() for name in self._names}
        workers = [asyncio.create_task(self._publish(self.clients[name], queues[name])) for name in self._names]
        began = time.monotonic()
        self.tally.began = min(self.tally.began, time.time()) if self._runs > 1 else time.time()
        try:
            await self._pace(events, queues, began, length, report)
            for queue in queues.values():
                queue.put_nowait(None)
            await asyncio.gather(*workers)
            report(1.0, "waiting for what is under way")
            await self._settle()
        finally:
            for worker in (*workers, *self._asked):
                worker.cancel()
            self.tally.ended = time.time()
            self._note_homes()
        return self.tally

    async def _pace(
        self,
        events: Iterator[Event],
        queues: dict[str, asyncio.Queue[Event | None]],
        began: float,
        length: float,
        report: Progress,
    ) -> None:
        """Hand each message to its publisher when its time has come."""
        shown = 0.0
        for event in events:
            while True:
                now = time.monotonic() - began
                if event.at > length or self._ending or stopping.asked():
                    return
                if now - shown >= OFTEN:
                    shown = now
                    report(min(1.0, now / length), f"{self.tally.sent:,} sent, {self.tally.delivered:,} delivered")
                if event.at <= now:
                    break
                await asyncio.sleep(min(OFTEN, event.at - now))
            queues[event.client].put_nowait(event)

    async def _publish(self, client: Client, queue: asyncio.Queue[Event | None]) -> None:
        """Publish what one client has to, in its order."""
        sender = self._names.index(client.name)
        while (event := await queue.get()) is not None:
            topic = self.scenario.topics[event.topic]
            size = HEAD.size + event.size
            number = self.tally.send(event.topic, client.name, size)
            payload = HEAD.pack(self._mark, event.topic, sender, number, time.perf_counter_ns()) + bytes(event.size)
            if topic.kind == "requests":
                task = asyncio.create_task(self._request(client, topic.name, payload))
                self._asked.add(task)
                task.add_done_callback(self._asked.discard)
                continue
            try:
                await client.publish(topic.name, payload)
            except ClientError:
                self.tally.fail(event.topic)

    async def _request(self, client: Client, topic: str, payload: bytes) -> None:
        answered = False
        with suppress(ClientError):
            answered = (await client.request(topic, payload, REQUEST)).payload == ANSWER
        self.tally.close_request(answered)

    async def _settle(self) -> None:
        """Wait until all is accounted for, or until nothing has come for the patience."""
        while self.tally.awaited > 0:
            before = self.tally.delivered, self.tally.answered, self.tally.unanswered
            with suppress(TimeoutError):
                await asyncio.wait_for(self.tally.complete.wait(), PATIENCE)
            if before == (self.tally.delivered, self.tally.answered, self.tally.unanswered):
                return

    def _note_homes(self) -> None:
        for name, client in self.clients.items():
            if client.homes[client.live] is not None:
                self.tally.homes[name] = client.home

    async def stop(self) -> None:
        """Leave the network."""
        self._note_homes()
        clients, self.clients = list(self.clients.values()), {}
        await asyncio.gather(*(client.close() for client in clients), return_exceptions=True)


async def _all(work: Iterable[Coroutine[None, None, None]]) -> None:
    """Do all; the first failure ends the rest."""
    tasks = [asyncio.create_task(each) for each in work]
    try:
        await asyncio.gather(*tasks)
    except BaseException:
        for each in tasks:
            each.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        raise


def _silent(share: float, text: str) -> None:
    """No progress is wanted."""


async def refuse_second(load: Load) -> None:
    """Refuse a load whose clients are there already: two would take each other's messages and count them as lost."""
    adapter = adapter_for(load.deployment)
    try:
        for _ in range(LOOKS):  # the last load's clients may be about to leave
            both = sorted((await adapter.shown()).clients.keys() & load.scenario.homes.keys())
            if not both:
                return
            await asyncio.sleep(0.2)
    except BadNetwork:  # a load needs no monitoring
        return
    finally:
        await adapter.close()
    raise BadNetwork(
        f"{both[0]} is connected already: another load is running on this network. Wait for it, or stop it."
    )


def run_load(
    network: Deployment | str | Path, options: TrafficOptions | None = None, progress: Progress | None = None
) -> Tally:
    """Put a load on a network and account for it; Ctrl-C ends it early, with what there is."""

    async def run() -> Tally:
        load = Load(network, options)
        await refuse_second(load)
        await load.start(_part(progress, 0.0, 0.1))
        try:
            return await load.run(progress=_part(progress, 0.1, 1.0))
        finally:
            await load.stop()

    with stopping.coming_to_an_end():
        return asyncio.run(run())


def _part(progress: Progress | None, start: float, end: float) -> Progress | None:
    """Progress of a part of the whole."""
    if progress is None:
        return None
    return lambda share, text: progress(start + (end - start) * share, text)
