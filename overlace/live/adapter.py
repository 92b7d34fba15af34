"""What every kind of broker network can do, and what it shows of itself.

Which links are wired, who is at home where and which colour is live is always asked of the brokers, never remembered.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any, NamedTuple, Protocol, TypeAlias

from overlace.errors import BadNetwork
from overlace.live.deployment import Deployment
from overlace.live.mosquitto_files import Filters
from overlace.live.wiring import Links
from overlace.wording import counted

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
    movable: bool = True  # whether one that follows no orders can come back in the other colour


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


def read_answer(data: bytes) -> Answer | None:
    """What a client says, as it may be used: whoever may answer may say anything. None: it is no answer."""
    try:
        told = json.loads(data)
        homes = [None if each is None else _text(each) for each in told.get("homes") or ()]
        filters = [(_text(text), group and _text(group)) for text, group in told.get("filters") or ()]
        counts = {
            _text(topic): (_count(pair[0]), _count(pair[1])) for topic, pair in (told.get("counts") or {}).items()
        }
        part, parts, live = (
            _count(told.get(key, default)) for key, default in (("part", 0), ("parts", 1), ("live", 0))
        )
        known = {"client": _text(told["client"]), "instance": _text(told["instance"])}
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, OverflowError, RecursionError):
        return None
    if not 0 <= part < parts or live not in (0, 1):
        return None
    error = {"error": str(told["error"])[:MOST_SAID]} if told.get("error") else {}
    return {
        **known, **error, "homes": homes[:2], "filters": filters, "counts": counts,
        "live": live, "part": part, "parts": parts,
    }  # fmt: skip


MOST_SAID = 500
"""Characters of an error that a client tells of."""


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError("no text")
    value.encode()  # half a character can be in JSON, and in no file
    return value


def _count(value: object) -> int:
    if not isinstance(value, int) or not 0 <= value < 1 << 53:
        raise ValueError("no count")
    return value


class Answers:
    """The answers to an order as they come, in parts; done when all that are expected have answered, or for a time
    nobody more has."""

    QUIET = 0.5  # seconds, where it is not known who should answer

    def __init__(self, expected: Collection[str] = ()) -> None:
        self.expected = set(expected)
        self.parts: dict[tuple[str, str], dict[int, Answer]] = {}
        self.last = time.monotonic()
        self.nobody = False  # whether the broker has said that nobody is there to answer

    def take(self, data: bytes) -> None:
        """One answer, or a part of one; what is none is left."""
        answer = read_answer(data)
        if answer is not None:
            self.parts.setdefault((answer["client"], answer["instance"]), {})[answer["part"]] = answer
            self.last = time.monotonic()

    def whole(self) -> list[Answer]:
        """The answers that are whole, their parts put together."""
        found: list[Answer] = []
        for held in list(self.parts.values()):  # answers may come from other threads meanwhile
            parts = dict(held)
            first = next(iter(parts.values()), None)  # none: its first part is just being added
            if first is not None and len(parts) == first["parts"]:
                counts = {k: v for i in sorted(parts) for k, v in parts[i]["counts"].items()}
                filters = [each for i in sorted(parts) for each in parts[i]["filters"]]
                found.append({**first, "counts": counts, "filters": filters})
        return found

    async def wait(self, patience: float) -> list[Answer]:
        """Wait for the answers."""
        began = time.monotonic()
        while time.monotonic() - began < patience:
            whole = {str(each["client"]) for each in self.whole()}
            if self.nobody or (self.expected and self.expected <= whole):
                break
            quiet = time.monotonic() - max(self.last, began)
            if not self.expected and len(whole) == len(self.parts) and quiet > self.QUIET:
                break
            await asyncio.sleep(0.005)
        return self.whole()


class Watched(Protocol):
    """One kind of broker network, as far as it is watched. Everything may be called again."""

    deployment: Deployment
    farewells: list[bytes]  # last answers of clients that left, as they came

    async def shown(self) -> Shown:
        """What the brokers say."""
        ...

    async def tell(self, client: str, order: Order, colour: int = 0) -> list[Answer]:
        """Give an order to a client; what it answers, in parts; nothing: no answer within the patience."""
        ...

    async def tell_all(self, order: Order, colour: int = 0, expected: Collection[str] = ()) -> list[Answer]:
        """Give an order to all clients of a colour that follow orders; what they answer."""
        ...

    async def latencies(self, colour: int, links: Links) -> dict[tuple[str, str], int]:
        """Microseconds that a message takes over each of these links, where they could be measured."""
        ...

    async def close(self) -> None:
        """Leave the network."""
        ...


class Changed(Watched, Protocol):
    """One kind of broker network, as far as it is changed. Everything may be done again: the second time changes
    nothing."""

    meant: dict[int, Links]  # by colour, while a swap is under way: what is wired there, or is to be

    def wire(self, colour: int, links: Links, filters: Filters | None = None) -> AsyncIterator[str]:
        """Wire a colour, and let it take clients; yields each broker when it is done."""
        ...

    def unwire(self, colour: int) -> AsyncIterator[str]:
        """Take a colour down; it takes no clients from then on. Yields each broker when it is done."""
        ...

    def admit(self, colour: int) -> AsyncIterator[str]:
        """Let clients that follow no orders into this colour and no other, so that those in the other are cut off and
        come back by themselves; where that is done by ending the other, nothing. Yields each broker when it is done."""
        ...

    async def probe(self, colour: int, broker: str, expected: Collection[str]) -> set[str]:
        """Whom a message reaches that is published in a colour at a broker."""
        ...

    def alone(self) -> AbstractAsyncContextManager[None]:
        """Be the only applier; refused if there is another."""
        ...

    async def stranded(self) -> list[str]:
        """What would be left behind, in words: streams, durable sessions, retained messages."""
        ...

    async def kick(self, client: str) -> None:
        """Break the connections of a client that follows no orders."""
        ...

    async def copy_retained(self, old: int, new: int) -> int:
        """Have all retained messages of a colour in the other, before anybody subscribes there; how many topics."""
        ...


RETAINED = "retained messages"


def retained_text(topics: Collection[str]) -> str:
    """Retained messages that would be left behind, in words."""
    listed = ", ".join(map(repr, sorted(topics)[:5])) + (", ..." if len(topics) > 5 else "")
    return f"{RETAINED} of {counted(len(topics), 'topic', 'topics')}: {listed}"


def adapter_for(deployment: Deployment) -> Changed:
    """The network that a network file names."""
    if deployment.substrate == "nats":
        from overlace.live.nats import NatsNetwork

        return NatsNetwork(deployment)
    from overlace.live.mosquitto import MosquittoNetwork

    return MosquittoNetwork(deployment)


WIRED = 15.0
"""Seconds until links must be wired."""


async def await_links(look: Callable[[], Awaitable[Links]], links: Links) -> None:
    """Wait until exactly these links are wired, as a look shows; refused if they are not in time."""
    deadline = time.monotonic() + WIRED
    while (found := await look()) != links:
        if time.monotonic() > deadline:
            wrong = sorted(found ^ links)[0]
            state = "is still wired" if wrong in found else "is not wired"
            raise BadNetwork(f"link {wrong[0]} - {wrong[1]} {state} after {WIRED:g} s")
        await asyncio.sleep(0.02)


def refuse_silent(shown: Shown, deployment: Deployment) -> None:
    """Refused if a broker does not answer."""
    if shown.silent:
        first = shown.silent[0]
        more = f" and {len(shown.silent) - 1} more" if len(shown.silent) > 1 else ""
        raise BadNetwork(f"{first}{more} at {deployment.client_address(first)} does not answer. Is it running?")
