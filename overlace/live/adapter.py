"""What every kind of broker network can do, and what it shows of itself.

Which links are wired, who is at home where and which colour is live is always asked of the brokers, never remembered.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol, TypeAlias

from overlace.errors import BadNetwork
from overlace.live.deployment import Deployment
from overlace.live.wiring import Links

Order: TypeAlias = Mapping[str, Any]
"""What control asks of a client: {"do": "count"}. It names brokers, never addresses."""

Answer: TypeAlias = Mapping[str, Any]
"""What a client answers: its name, live colour, home in each colour, filters with their groups, and counts."""


class Seen(NamedTuple):
    """A client as the brokers show it."""

    homes: tuple[str | None, str | None]  # by colour
    live: int  # the colour that it publishes in, as far as is known
    filters: tuple[tuple[str, str | None], ...]  # with their groups
    wrapped: bool  # whether it follows orders
    connections: int = 1  # more than one in a colour: two clients have this name


class Shown(NamedTuple):
    """A network as its brokers show it."""

    brokers: Mapping[str, str]  # name to version; one that does not answer has ""
    links: tuple[Links, Links]  # wired, by colour
    clients: Mapping[str, Seen]
    nameless: int = 0  # connections that have no name, or that only the broker's log names

    @property
    def silent(self) -> list[str]:
        """Brokers that do not answer."""
        return [name for name, version in self.brokers.items() if not version]

    @property
    def live(self) -> int:
        """The colour that is live: the one with clients in it, else the one with links."""
        count = [0, 0]
        for each in self.clients.values():
            count[each.live] += 1
        if count[0] != count[1]:
            return int(count[1] > count[0])
        return int(len(self.links[1]) > len(self.links[0]))


class Adapter(Protocol):
    """One kind of broker network. Everything may be called again: the second time changes nothing."""

    deployment: Deployment

    async def shown(self) -> Shown:
        """What the brokers say."""
        ...

    async def tell(self, client: str, order: Order, colour: int) -> list[Answer]:
        """Give an order to a client; what it answers, in parts; nothing: no answer within the patience."""
        ...

    async def tell_all(self, order: Order, colour: int) -> list[Answer]:
        """Give an order to all clients of a colour that follow orders; what they answer."""
        ...

    async def latencies(self, colour: int, links: Links) -> dict[tuple[str, str], int]:
        """Microseconds that a message takes over each of these links, where they could be measured."""
        ...

    async def close(self) -> None:
        """Leave the network."""
        ...


def refuse_silent(shown: Shown, deployment: Deployment) -> None:
    """Refused if a broker does not answer."""
    if shown.silent:
        first = shown.silent[0]
        more = f" and {len(shown.silent) - 1} more" if len(shown.silent) > 1 else ""
        raise BadNetwork(f"{first}{more} at {deployment.client_address(first)} does not answer. Is it running?")
