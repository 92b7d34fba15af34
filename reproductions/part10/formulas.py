"""(4.1) and (4.2): the most channels that strategies 1 and 2 can make, against runs."""

from __future__ import annotations

from math import comb

from overlace.model import Progress
from overlace.planners.channels.strategies import Strategy1, Strategy2
from overlace.report.charts import Row
from reproductions.part10.curves import PRINTED, Setup, Strategy, grow, points
from reproductions.result import Measured, Spread, item

CASES = ((10, (3, 4)), (10, (9, 9)), (5, (3, 4)), (5, (2, 3)), (10, (10, 10)), (10, (7, 7)), (10, (2, 2)))
JOINING = 3000


def most_1(n: int, m: int) -> int:
    """(4.1) without the empty combination (R1)."""
    return 1 if m == n else sum(comb(n, i) for i in range(1, m + 1))


def most_2(n: int, m: int) -> int:
    """(4.2)."""
    return comb(n, m)


def _figures(measured: Measured, seeds: int) -> dict[str, object]:
    def reached(formula: str) -> bool:
        mine = [row for row in measured.rows if row["formula"] == formula]
        return all(row["most seen"] == row["formula without the empty one"] for row in mine)

    above = [row for row in measured.rows if not row["never above"]]
    return {
        "first": "each is" if reached("4.1") else "not all are",
        "second": "is reached as well" if reached("4.2") else "is not reached by all",
        "above": f"{len(above)} rows go" if above else "No run goes",
        "joining": f"{JOINING:,}",
        "moments": len(points(JOINING)),
    }


@item("part10/formulas", "Formulas (4.1) and (4.2): the most channels of strategies 1 and 2", seeds=5, figures=_figures)
def formulas(seeds: int, progress: Progress) -> Measured:
    """Enough publishers of every kind join, and the most channels ever seen are compared with the formulas."""
    rows: list[Row] = []
    for i, (n, size) in enumerate(CASES):
        setup = Setup(n, size, JOINING)
        for name, strategy, formula in (("4.1", Strategy1(), most_1), ("4.2", Strategy2(), most_2)):
            runs = [_most(strategy, setup, seed) for seed in range(seeds)]
            row = f"{n}, {size[0]}..{size[1]}"
            rows.append(
                {
                    "formula": name,
                    "attributes, each": row,
                    "thesis": PRINTED.get((name, row, "channels")),
                    "formula without the empty one": formula(n, size[1]),
                    "most seen": max(runs),
                    "mean over seeds": Spread.of(runs).mean,
                    "seeds": seeds,
                    "never above": max(runs) <= formula(n, size[1]),
                }
            )
        progress((i + 1) / len(CASES), str(setup))
    return Measured(rows)


def _most(strategy: Strategy, setup: Setup, seed: int) -> float:
    return max(metrics.of("channels") for _, metrics in grow(strategy, setup, seed, points(setup.joining)))
