"""A broker network in this process, with the interface of the real ones: for tests of order, loss and failure.

It carries no messages; it says who is where and what was published, as a test lets it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from overlace.live.adapter import Answer, Order, Seen, Shown
from overlace.live.deployment import Deployment
from overlace.live.wiring import Links, Pair

NO_LINKS: Links = frozenset()


@dataclass
class MemoryClient:
    """A client that a test drives."""

    name: str
    home: str
    filters: list[tuple[str, str | None]] = field(default_factory=list)
    instance: str = "1"
    wrapped: bool = True
    live: int = 0
    counts: dict[str, list[int]] = field(default_factory=dict)

    def publish(self, topic: str, size: int = 1, messages: int = 1) -> None:
        """Count messages."""
        row = self.counts.setdefault(topic, [0, 0])
        row[0] += messages
        row[1] += messages * size

    def answer(self) -> Answer:
        """What it answers to any order."""
        homes: list[str | None] = [None, None]
        homes[self.live] = self.home
        counts = {topic: list(row) for topic, row in self.counts.items()}
        return {"client": self.name, "instance": self.instance, "live": self.live, "homes": homes,
                "filters": [list(each) for each in self.filters], "counts": counts}  # fmt: skip


class MemoryNetwork:
    """A network without processes. `step` is called before every order, so that a test can let things happen."""

    def __init__(self, deployment: Deployment, links: tuple[Links, Links] = (NO_LINKS, NO_LINKS)) -> None:
        self.deployment = deployment
        self.links = links
        self.clients: list[MemoryClient] = []
        self.silent: set[str] = set()
        self.mute: set[str] = set()  # clients whose answers are lost
        self.farewells: list[bytes] = []
        self.nameless = 0
        self.orders: list[Order] = []
        self.step: Callable[[int], None] = lambda turn: None

    async def shown(self) -> Shown:
        """Who is where."""
        versions = {name: "" if name in self.silent else "memory" for name in self.deployment.brokers}
        clients: dict[str, Seen] = {}
        for each in self.clients:
            homes: list[str | None] = [None, None]
            homes[each.live] = each.home
            again = 1 + (clients[each.name].connections if each.name in clients else 0)
            clients[each.name] = Seen((homes[0], homes[1]), each.live, tuple(each.filters), each.wrapped, again)
        return Shown(versions, self.links, clients, self.nameless)

    async def tell(self, client: str, order: Order, colour: int = 0) -> list[Answer]:
        """What a client answers."""
        self.orders.append(order)
        return [each.answer() for each in self._present() if each.name == client]

    async def tell_all(self, order: Order, colour: int = 0, expected: Collection[str] = ()) -> list[Answer]:
        """What all clients answer."""
        self.step(len(self.orders))
        self.orders.append(order)
        return [each.answer() for each in self._present()]

    def _present(self) -> list[MemoryClient]:
        return [each for each in self.clients if each.wrapped and each.name not in self.mute]

    async def latencies(self, colour: int, links: Links) -> dict[Pair, int]:
        """A millisecond over every link."""
        return dict.fromkeys(sorted(links), 1000)

    async def close(self) -> None:
        """Nothing to leave."""
