"""Traced recording on NATS: a collector at every broker takes the events of sampled messages.

All collectors are one queue group. A server prefers members that are its own clients, so an event is taken where it was
made and crosses no link. While messages are recorded their events are only kept as they are; they are joined at the
end, when stragglers have been waited for.

What servers need: nothing. What publishers need: the right to publish to `_OVERLACE.trace.>`; a server that refuses it
refuses the message too.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING

from overlace.errors import BadNetwork
from overlace.live.client import ClientError, client_address, connect_nats, nats_options
from overlace.live.deployment import Deployment
from overlace.live.events import Join, Traces

if TYPE_CHECKING:
    from nats.aio.client import Client
    from nats.aio.msg import Msg

EVENTS = "_OVERLACE.trace.*"
GROUP = "_OVERLACE.collectors"
CONNECT = 5.0
"""Seconds in which a broker must take a collector."""

PATIENCE = 5.0
"""Seconds to wait for events of messages that are not complete, after the last that was recorded."""

LOOK = 0.02
"""Seconds between two looks at what has come."""


class Collector:
    """Collectors at all brokers, from when they have subscribed until they have settled."""

    def __init__(self, deployment: Deployment, colour: int, patience: float = PATIENCE) -> None:
        self.deployment, self.colour, self.patience = deployment, colour, patience
        self.raw: list[bytes] = []
        self.connections: dict[str, Client] = {}
        self.lost: list[str] = []  # brokers that were away for a while: events of theirs may be missing
        self._join = Join()
        self._leaving = False

    async def __aenter__(self) -> Collector:
        """Connect to all brokers, and subscribe."""
        starts = [self._start(broker) for broker in self.deployment.brokers]
        try:
            for failed in await asyncio.gather(*starts, return_exceptions=True):  # nobody is left half connected
                if failed is not None:
                    raise failed
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Wait for stragglers, unless something went wrong, and leave."""
        try:
            if kind is None:
                await self.settle()
        finally:
            await self.close()

    async def _start(self, broker: str) -> None:
        network = self.deployment.plain()

        async def gone() -> None:
            if not self._leaving and broker not in self.lost:
                self.lost.append(broker)

        try:
            options = nats_options(network, "control", self.colour)
            name = f"overlace.collector.{secrets.token_hex(4)}"
            address = client_address(network, broker, self.colour)
            made = await connect_nats(address, name, CONNECT, disconnected_cb=gone, **options)
        except ClientError as error:
            raise BadNetwork(f"{broker} does not take a collector: {error}") from None
        self.connections[broker] = made
        await made.subscribe(EVENTS, queue=GROUP, cb=self._keep, pending_msgs_limit=-1, pending_bytes_limit=-1)
        await made.flush(int(CONNECT))

    async def _keep(self, message: Msg) -> None:
        self.raw.append(message.data)

    async def settle(self) -> None:
        """Wait until every message is complete, or the patience is over."""
        deadline = time.monotonic() + self.patience
        await asyncio.gather(*(self._flush(each) for each in self.connections.values()))
        while True:
            came, self.raw = self.raw, []
            self._join.add(came)
            if not self._join.open or time.monotonic() >= deadline:
                return
            await asyncio.sleep(LOOK)

    async def _flush(self, connection: Client) -> None:
        """Everything that the broker has sent so far has come; one that is away has nothing to say."""
        with suppress(Exception):
            await connection.flush(max(1, int(self.patience)))

    async def close(self) -> None:
        """Leave all brokers."""
        self._leaving = True
        for each in self.connections.values():
            with suppress(Exception):
                await asyncio.wait_for(each.close(), CONNECT)

    def traces(self) -> Traces:
        """What was traced, as far as it has come."""
        came, self.raw = self.raw, []
        self._join.add(came)
        return self._join.traces()
