"""A broker network in this process, with the interface of the real ones: for tests of order, loss and failure.

It carries no messages; it says who is where, what was published and what is wired, as a test lets it, and checks the
law of order after every change.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from overlace.errors import BadNetwork, Busy
from overlace.live.adapter import Answer, Order, Seen, Shown, retained_text
from overlace.live.deployment import Deployment
from overlace.live.mosquitto_files import Filters
from overlace.live.wiring import Links, Pair, dials, is_tree

NO_LINKS: Links = frozenset()


@dataclass
class MemoryClient:
    """A client that a test drives; it follows orders as overlace.live.client does."""

    name: str
    home: str
    filters: list[tuple[str, str | None]] = field(default_factory=list)
    instance: str = "1"
    wrapped: bool = True
    live: int = 0
    counts: dict[str, list[int]] = field(default_factory=dict)
    other: str | None = None  # its home in the idle colour

    def publish(self, topic: str, size: int = 1, messages: int = 1) -> None:
        """Count messages."""
        row = self.counts.setdefault(topic, [0, 0])
        row[0] += messages
        row[1] += messages * size

    @property
    def homes(self) -> tuple[str | None, str | None]:
        """Its home in each colour."""
        return (self.home, self.other) if self.live == 0 else (self.other, self.home)

    def obey(self, order: Order) -> str | None:
        """Follow an order; what is wrong with it, if something is."""
        do, colour = order.get("do"), order.get("colour")
        if do == "prepare" and colour != self.live:
            self.other = str(order["home"])
        elif do == "switch" and colour != self.live:
            if self.other is None:
                return f"switch: colour {colour} is not prepared"
            self.live, self.home, self.other = 1 - self.live, self.other, self.home
        elif do in ("finish", "cancel"):
            self.other = None
        return None

    def answer(self, error: str | None = None) -> Answer:
        """What it answers to an order."""
        counts = {topic: list(row) for topic, row in self.counts.items()}
        told = {"client": self.name, "instance": self.instance, "live": self.live, "homes": list(self.homes),
                "filters": [list(each) for each in self.filters], "counts": counts}  # fmt: skip
        return {**told, "error": error} if error else told


class MemoryNetwork:
    """A network without processes. `step` is called before every order, so that a test can let things happen."""

    def __init__(self, deployment: Deployment, links: tuple[Links, Links] = (NO_LINKS, NO_LINKS)) -> None:
        self.deployment = deployment
        self.links = links
        self.takes = {0}  # colours that take clients
        self.plain = 0  # the one that takes clients without the wrapper
        self.lands: dict[str, str] = {}  # where these come back, who have lists of servers of their own
        self.retained: tuple[set[str], set[str]] = (set(), set())  # topics, by colour
        self.clients: list[MemoryClient] = []
        self.silent: set[str] = set()
        self.mute: set[str] = set()  # clients whose answers are lost
        self.farewells: list[bytes] = []
        self.meant: dict[int, Links] = {}
        self.nameless = 0
        self.orders: list[Order] = []
        self.left_behind: list[str] = []
        self.applied = False
        self.step: Callable[[int], None] = lambda turn: None

    async def shown(self) -> Shown:
        """Who is where."""
        versions = {name: "" if name in self.silent else "memory" for name in self.deployment.brokers}
        clients: dict[str, Seen] = {}
        for each in self.clients:
            again = 1 + (clients[each.name].connections if each.name in clients else 0)
            clients[each.name] = Seen(each.homes, each.live, tuple(each.filters), each.wrapped, again)
        return Shown(versions, self.links, clients, self.nameless)

    async def tell(self, client: str, order: Order, colour: int = 0) -> list[Answer]:
        """What a client answers."""
        self.step(len(self.orders))
        self.orders.append(order)
        return [each.answer(each.obey(order)) for each in self._present() if each.name == client]

    async def tell_all(self, order: Order, colour: int = 0, expected: Collection[str] = ()) -> list[Answer]:
        """What all clients answer."""
        self.step(len(self.orders))
        self.orders.append(order)
        return [each.answer(each.obey(order)) for each in self._present()]

    def _present(self) -> list[MemoryClient]:
        return [each for each in self.clients if each.wrapped and each.name not in self.mute]

    async def latencies(self, colour: int, links: Links) -> dict[Pair, int]:
        """A millisecond over every link."""
        return dict.fromkeys(sorted(links), 1000)

    # what changes it

    async def wire(self, colour: int, links: Links, filters: Filters | None = None) -> AsyncIterator[str]:
        """Wire a colour, broker by broker: the links that each dials."""
        self._refuse_silent()
        parents = dials(self.deployment.brokers, links)
        for broker in self.deployment.brokers:
            own = {link for link in links if parents.get(broker) in link and broker in link}
            stale = {link for link in self.links[colour] if broker in link and link not in links}
            self._set(colour, (self.links[colour] - stale) | own)
            self.takes.add(colour)
            yield broker

    async def unwire(self, colour: int) -> AsyncIterator[str]:
        """Take a colour down, broker by broker."""
        self._refuse_silent()
        for broker in self.deployment.brokers:
            self.takes.discard(colour)
            self._cut(1 - colour)
            self.retained[colour].clear()
            self._set(colour, frozenset(link for link in self.links[colour] if broker not in link))
            yield broker

    async def admit(self, colour: int) -> AsyncIterator[str]:
        """Let clients without the wrapper into a colour and no other."""
        for broker in self.deployment.brokers:
            self._cut(colour)
            yield broker

    def _cut(self, colour: int) -> None:
        self.plain = colour
        for each in self.clients:
            if not each.wrapped and each.live != colour:
                each.live, each.home = colour, self.lands.get(each.name, each.home)

    async def copy_retained(self, old: int, new: int) -> int:
        """Have retained messages of a colour in the other."""
        if self.retained[old] - self.retained[new] and any(each.homes[new] is not None for each in self.clients):
            raise BadNetwork("a subscriber sees a retained message as a new one")
        self.retained[new].update(self.retained[old])
        return len(self.retained[old])

    def _set(self, colour: int, links: Collection[Pair]) -> None:
        both = [*self.links]
        both[colour] = frozenset(links)
        self.links = both[0], both[1]

    def _refuse_silent(self) -> None:
        if self.silent:
            raise BadNetwork(f"{min(self.silent)} does not answer. Is it running?")

    async def probe(self, colour: int, broker: str, expected: Collection[str]) -> set[str]:
        """Whom a message from a broker reaches: those whose home is joined with it."""
        joined, ahead = {broker}, [broker]
        for here in ahead:
            for link in self.links[colour]:
                if here in link:
                    other = link[0] if link[1] == here else link[1]
                    if other not in joined:
                        joined.add(other)
                        ahead.append(other)
        return {each.name for each in self._present() if each.homes[colour] in joined}

    @asynccontextmanager
    async def alone(self) -> AsyncIterator[None]:
        """Be the only applier."""
        if self.applied:
            raise Busy("another applier is at work on this network. Wait for it, or stop it.")
        self.applied = True
        try:
            yield
        finally:
            self.applied = False

    async def stranded(self) -> list[str]:
        """What would be left behind."""
        found = self.retained[(await self.shown()).live]
        return [*self.left_behind, *([retained_text(found)] if found else [])]

    async def kick(self, client: str) -> None:
        """Take a client away."""
        self.clients = [each for each in self.clients if each.name != client]

    async def close(self) -> None:
        """Nothing to leave."""

    def broken_laws(self) -> list[str]:
        """Which of L1 to L5 do not hold now, in words."""
        found = []
        brokers = self.deployment.brokers
        wrapped = [each for each in self.clients if each.wrapped]
        publishing = {each.live for each in wrapped}
        for colour in (0, 1):
            try:
                dials(brokers, self.links[colour])
            except BadNetwork:
                found.append(f"L1: colour {colour} has a cycle")
                continue
            if colour in publishing and not is_tree(brokers, self.links[colour]):
                found.append(f"L1: somebody publishes in colour {colour}, which is no tree")
            away = [each.name for each in wrapped if each.homes[colour] is None]
            if colour in publishing and away:
                found.append(f"L2, L4: somebody publishes in colour {colour}, where {away[0]} does not receive")
            if colour not in self.takes and any(each.homes[colour] is not None for each in self.clients):
                found.append(f"L5: a client is in colour {colour}, which takes none")
        if self.plain not in self.takes:
            found.append(f"L5: clients without the wrapper are let into colour {self.plain}, which takes none")
        return found
