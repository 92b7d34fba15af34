"""Channels: joins of up to a million publishers, beside the scan of all channels that the pseudocode has."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from protocol import peak_bytes, short, table, write

from overlace.channels.online import Online
from overlace.channels.strategy1 import Strategy1
from overlace.channels.strategy2 import Strategy2
from overlace.channels.strategy3 import Strategy3
from overlace.channels.strategy4 import Strategy4
from overlace.channels.strategy31 import Strategy31
from overlace.model import Observation
from overlace.workloads.publishers import publishers

sys.path.insert(0, str(Path(__file__).parent.parent))
from tests.oracles.channels import Literal

STRATEGIES = {
    "strategy 1": Strategy1(), "strategy 2": Strategy2(), "strategy 3": Strategy3(),
    "strategy 3 random": Strategy3("random"), "strategy 3.1": Strategy31(), "strategy 3.1 random": Strategy31("random"),
    "strategy 4": Strategy4(),
}  # fmt: skip
LITERAL = {
    "strategy 1": Literal.join1, "strategy 2": Literal.join2, "strategy 3": Literal.join3,
    "strategy 3.1": Literal.join31,
}  # fmt: skip


def run(strategy: object, observation: Observation) -> tuple[float, float, Online]:
    """CPU seconds to write the book (types, combinations), and for everybody to join."""
    start = time.process_time()
    online = strategy.online(observation)  # type: ignore[attr-defined]
    middle = time.process_time()
    online.join(0, len(online.kinds))
    return middle - start, time.process_time() - middle, online


def growth(title: str, attributes: int, size: tuple[int, int], limits: tuple[int, int], most: int, slow: int) -> str:
    rows = []
    for name, strategy in STRATEGIES.items():
        before, top = 0.0, most if name != "strategy 4" else slow
        run(strategy, publishers(20, attributes, size, limits))  # compiled
        count = 1_000
        while count <= top:
            observation = publishers(count, attributes, size, limits, seed=1)
            times = 3 if count <= 10_000 else 1
            book, joins, online = min((run(strategy, observation) for _ in range(times)), key=lambda each: each[1])
            total = book + joins
            memory = peak_bytes(lambda s=strategy, o=observation: s.online(o)) if count == top else 0
            rows.append(
                (name, f"{count:,}", f"{len(online.book.attributes):,}", f"{len(online.book.combination):,}",
                 f"{online.channels:,}", short(book), short(joins), f"{joins / count * 1e6:.2f} us",
                 f"{total / before:.1f}" if before else "-", f"{memory / 1e6:,.1f} MB" if memory else "")
            )  # fmt: skip
            before = total
            count *= 10
    head = ("strategy", "publishers", "types", "combinations", "channels", "book", "joins", "a join", "growth per 10x",
            "peak memory")  # fmt: skip
    return f"## {title}\n\n" + table(head, rows)


def naive() -> str:
    """The pseudocode word for word visits every channel: the same channels, at what price."""
    rows = []
    for name, join in LITERAL.items():
        for count in (100, 1_000):
            observation = publishers(count, 10, (3, 4), (13, 15), seed=1)
            start = time.process_time()
            slow = Literal()
            offers = observation.offers
            for publisher in zip(offers.attributes.tolist(), offers.connections.tolist(), strict=True):
                join(slow, publisher, slow.descending(publisher[0]))
            taken = time.process_time() - start
            book, joins, online = min((run(STRATEGIES[name], observation) for _ in range(3)), key=lambda each: each[1])
            held: dict[int, set[int]] = {}
            for combination, channel in online.pairs.tolist():
                held.setdefault(channel, set()).add(combination)
            assert {frozenset(each) for each in held.values()} == slow.partition()
            rows.append((name, f"{count:,}", short(taken), short(book + joins), f"{taken / (book + joins):,.0f}"))
    text = (
        "The rival is tests/oracles/channels.py: plain Python, sets, every channel visited at every join, spare "
        "connections counted from the channels each time. Its channels are checked to be the same before the times "
        "are compared."
    )
    head = ("strategy", "publishers", "scan of all channels", "ours", "scan / ours")
    return f"## The scan of the pseudocode\n\n{text}\n\n" + table(head, rows)


if __name__ == "__main__":
    write(
        __file__,
        "Channels",
        [
            "Times are CPU seconds, one thread. `book` lists types and combinations once; `joins` is every publisher "
            "joining in turn. Publishers with equal advertisements are one type, so a join costs O(2^m) whatever "
            "the number of "
            "publishers and channels; a join of a kind that changed nothing since the last change of anything "
            "is only counted.",
            growth("10 attributes, 3..4 each, limits 13..15", 10, (3, 4), (13, 15), 1_000_000, 10_000),
            growth("20 attributes, 3..6 each, limits 40..63", 20, (3, 6), (40, 63), 100_000, 1_000),
            naive(),
        ],
    )
