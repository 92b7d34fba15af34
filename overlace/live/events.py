"""Trace events as messages, complete or not: the join of `overlace ingest --format nats`, for a running network.

Keeps: a message is taken only when all servers that it passed have told of it, none twice (ingest.formats.nats);
events may come in any order.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from overlace.ingest.formats.nats import Hop, adds_up, read_event
from overlace.live.wiring import Links, links_of

INBOX = "_INBOX."


class Traced(NamedTuple):
    """A message and who received it."""

    at_us: int
    client: str
    topic: str  # all replies to one client are one
    bytes: int
    receivers: tuple[str, ...]  # each once, in order
    crossings: int  # links that it crossed


class Traces(NamedTuple):
    """What was traced: complete messages in order of time, and what they tell of clients and links."""

    messages: list[Traced]
    homes: dict[str, str]  # client to the broker where it was seen last
    filters: dict[str, set[tuple[str, str | None]]]  # client to its subscriptions that received, with their groups
    links: Links  # that messages crossed
    several: list[str]  # clients that were seen at several brokers
    incomplete: int  # messages of which an event is missing or too many
    events: int  # that were joined
    left_out: dict[str, int]  # events that are none, by reason


class Join:
    """Events put together as they come."""

    def __init__(self) -> None:
        self.parts: dict[bytes, list[Hop]] = {}
        self.sums: dict[bytes, int] = {}
        self.open: set[bytes] = set()
        self.left_out: dict[str, int] = {}

    def add(self, raw: Iterable[bytes]) -> None:
        """More events."""
        for data in raw:
            hop = read_event(data)
            if isinstance(hop, str):
                self.left_out[hop] = self.left_out.get(hop, 0) + 1
                continue
            self.parts.setdefault(hop.key, []).append(hop)
            self.sums[hop.key] = self.sums.get(hop.key, 0) + hop.balance
            if adds_up(self.sums[hop.key]):
                self.open.discard(hop.key)
            else:
                self.open.add(hop.key)

    def traces(self) -> Traces:
        """The messages that are complete by now, and how many are not."""
        whole = [hops for key, hops in self.parts.items() if key not in self.open]
        homes: dict[str, dict[str, int]] = {}
        filters: dict[str, set[tuple[str, str | None]]] = {}
        crossed: set[tuple[str, str]] = set()
        for hop in (hop for hops in whole for hop in hops):
            seen = {each.client for each in hop.deliveries} | ({hop.client} if hop.client is not None else set())
            for name in seen:
                own = homes.setdefault(name, {})
                own[hop.server] = max(hop.at, own.get(hop.server, hop.at))
            for each in hop.deliveries:
                filters.setdefault(each.client, set()).add((fold_filter(each.filter), each.group))
            crossed |= {(hop.server, far) for far in hop.neighbours}
        return Traces(
            messages=sorted(map(message_of, whole)),
            homes={name: max(own, key=lambda server: own[server]) for name, own in homes.items()},
            filters=filters,
            links=links_of(crossed),
            several=sorted(name for name, own in homes.items() if len(own) > 1),
            incomplete=len(self.open),
            events=sum(map(len, self.parts.values())),
            left_out=dict(self.left_out),
        )


def message_of(hops: list[Hop]) -> Traced:
    """A complete trace as a message."""
    first = next(hop for hop in hops if hop.client is not None)
    receivers = sorted({each.client for hop in hops for each in hop.deliveries})
    publisher = first.client or ""
    return Traced(first.at, publisher, fold_topic(first.topic), first.bytes, tuple(receivers), len(hops) - 1)


def fold_topic(topic: str) -> str:
    """A topic, all inboxes of one client as one: as overlace.live.client counts them."""
    return f"{INBOX}{topic.split('.', 2)[1]}.reply" if topic.startswith(INBOX) else topic


def fold_filter(asked: str) -> str:
    """A subscription, all to inboxes of one client as one."""
    return f"{INBOX}{asked.split('.', 2)[1]}.>" if asked.startswith(INBOX) else asked
