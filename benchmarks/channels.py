"""Channels: joins of up to a million publishers, against the scan of all channels that the pseudocode has."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

from protocol import short, table, write

from overlace.model import Observation
from overlace.planners.channels.moves import received
from overlace.planners.channels.online import Online
from overlace.planners.channels.strategies import Strategy1, Strategy2, Strategy3, Strategy31
from overlace.planners.channels.strategy4 import Strategy4
from reproductions.part10.bounds.least import bound
from reproductions.workloads.publishers import publishers

sys.path.insert(0, str(Path(__file__).parent.parent))
from tests.oracles.channels import Literal

STRATEGIES = {
    "strategy 1": Strategy1(),
    "strategy 2": Strategy2(),
    "strategy 3": Strategy3(),
    "strategy 3 random": Strategy3("random"),
    "strategy 3.1": Strategy31(),
    "strategy 3.1 random": Strategy31("random"),
    "strategy 4": Strategy4(),
}
LITERAL = {
    "strategy 1": Literal.join1,
    "strategy 2": Literal.join2,
    "strategy 3": Literal.join3,
    "strategy 3.1": Literal.join31,
}

SEEDS = (100, 101, 102)  # not those that the tables of reproductions/part10 are judged on


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
            rows.append(
                (
                    name,
                    f"{count:,}",
                    f"{len(online.book.attributes):,}",
                    f"{len(online.book.combination):,}",
                    f"{online.channels:,}",
                    short(book),
                    short(joins),
                    f"{joins / count * 1e6:.2f} us",
                    f"{total / before:.1f}" if before else "-",
                )
            )
            before = total
            count *= 10
    head = ("strategy", "publishers", "types", "combinations", "channels", "book", "joins", "a join", "growth per 10x")
    return f"## {title}\n\n" + table(head, rows)


def peak(strategy: str, count: int, attributes: int, size: tuple[int, int], limits: tuple[int, int]) -> list[int]:
    """[bytes above what was there before, types, combinations of all types, different ones] of book and joins.

    The peak of resident memory, in a process of its own in which 20 other publishers have joined.
    """
    code = (
        "import ctypes, sys; sys.path.insert(0, 'benchmarks')\n"
        "from channels import STRATEGIES, publishers, run\n"
        "from protocol import risen\n"
        f"strategy = STRATEGIES[{strategy!r}]\n"
        "run(strategy, publishers(20, 5, (2, 3), (4, 8)))\n"
        f"observation = publishers({count}, {attributes}, {size}, {limits}, seed=1)\n"
        "ctypes.CDLL(None).malloc_trim(0)\n"  # what was freed must not be used again unseen
        "(_, _, online), taken = risen(lambda: run(strategy, observation))\n"
        "book = online.book\n"
        "print(taken, len(book.attributes), len(book.offered), len(book.combination))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    return [int(word) for word in done.stdout.split()]


def memory() -> str:
    """What the book and the joins take at their highest, and what that is per publisher and per combination."""
    ten, twenty = (10, (3, 4), (13, 15)), (20, (3, 6), (40, 63))
    cases = [("strategy 3.1", count, ten) for count in (1_000, 10_000, 100_000, 1_000_000)]
    cases += [(name, 1_000_000, ten) for name in ("strategy 1", "strategy 2", "strategy 3")]
    cases += [("strategy 3.1", count, twenty) for count in (1_000, 10_000, 100_000)]
    cases += [(name, 100_000, twenty) for name in ("strategy 1", "strategy 2", "strategy 3")]
    cases += [("strategy 4", 10_000, ten), ("strategy 4", 1_000, twenty)]
    cases += [(name, 1, (20, (20, 20), (1 << 20, 1 << 20))) for name in ("strategy 1", "strategy 3.1")]
    rows = []
    for name, count, kind in cases:
        taken, types, listed, different = peak(name, count, *kind)
        rows.append(
            (
                name,
                f"{kind[0]}, {kind[1][0]}..{kind[1][1]}",
                f"{count:,}",
                f"{types:,}",
                f"{listed:,}",
                f"{different:,}",
                f"{taken / 1e6:,.1f} MB",
                f"{taken / count:,.0f}",
                f"{taken / listed:,.0f}",
                f"{taken / different:,.0f}",
            )
        )
    text = (
        "Resident memory at its peak, book and joins together, above what was there before, in a process of its own; "
        "a few hundred KB are noise. Three things add up: some 60 bytes for each publisher (its kind, and the sorting "
        "that finds the types), some 30 for each combination of each type, and some 200 for each different one. "
        "With 10 attributes the publishers are nearly all of it, with 20 the combinations of the types; the last two "
        "rows are one advertisement of 20 attributes."
    )
    head = (
        "strategy | attributes, each | publishers | types | combinations of all types | different ones | peak | "
        "bytes a publisher | bytes a combination of a type | bytes a different combination"
    ).split(" | ")
    return f"## Memory\n\n{text}\n\n" + table(head, rows)


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


def drafts() -> str:
    """Strategy 4 with and without its draft, and the bound, side by side on the same publishers."""
    rows = []
    plain, drafting = Strategy4(effort=150, drafted=0), Strategy4()
    bound(publishers(20, 6, (2, 3), (3, 5)))  # compiled
    for limits in ((14, 15), (13, 15), (11, 15)):
        found: list[list[float]] = []
        for seed in SEEDS:
            observation = publishers(1_000, 10, (3, 4), limits, seed=seed)
            start = time.process_time()
            lowest = bound(observation)
            proved = time.process_time() - start
            each = []
            for strategy in (plain, drafting):
                _, joins, online = run(strategy, observation)
                each += [1 - lowest.true_positives / received(online.now), joins, online.retuned / 1_000]
            found.append([*each, lowest.rate, proved])
        means = [sum(column) / len(SEEDS) for column in zip(*found, strict=True)]
        old, before, turned, new, after, again, least, proved = means
        rows.append(
            (
                f"{limits[0]}..{limits[1]}",
                f"{old:.4f}",
                f"{new:.4f}",
                f"{least:.4f}",
                short(before / 1_000),
                short(after / 1_000),
                f"{after / before:.2f}",
                f"{turned:.2f}",
                f"{again:.2f}",
                short(proved),
            )
        )
    text = (
        f"10 attributes, 3..4 each, 1,000 publishers, mean over seeds {SEEDS[0]} to {SEEDS[-1]}. Without a draft it is "
        "strategy 4 as it was, with 150 local moves; with it 100 local moves and 4,000 in the draft. Re-tuned: "
        "subscribers that had to change their channel, for each join."
    )
    head = (
        "limits | rate without | rate with | proven lower bound | a join without | a join with | with / without | "
        "re-tuned without | re-tuned with | the bound takes"
    ).split(" | ")
    return f"## Strategy 4 with and without a draft\n\n{text}\n\n" + table(head, rows)


if __name__ == "__main__":
    write(
        __file__,
        "Channels",
        [
            "Times are CPU seconds, one thread. `book` lists types and combinations once; `joins` is every publisher "
            "joining in turn. Publishers with equal advertisements are one type. A join looks at its 2^m combinations "
            "and at the channels that hold them, however many publishers and channels there are; where strategies 3, "
            "3.1 and 4 split or merge, also at the 2^m combinations of each type that offers what moves. A join of a "
            "kind that changed nothing since the last change of anything is only counted.",
            growth("10 attributes, 3..4 each, limits 13..15", 10, (3, 4), (13, 15), 1_000_000, 10_000),
            growth("20 attributes, 3..6 each, limits 40..63", 20, (3, 6), (40, 63), 100_000, 1_000),
            memory(),
            drafts(),
            naive(),
        ],
    )
