"""What each strategy knows, and what a join costs those who were there before."""

from __future__ import annotations

from overlace.model import Progress
from overlace.planners.channels.strategies import Strategy1, Strategy2, Strategy3, Strategy31
from overlace.planners.channels.strategy4 import Strategy4
from overlace.report.charts import Row
from reproductions.part10.curves import Strategy
from reproductions.part10.strategy_3 import thesis
from reproductions.result import Measured, Spread, item

OWN = "its own offer, and the combinations of the channels"
SPARE = "also everybody's spare connections, per channel"
FINER = "also everybody's spare connections, per combination"
ALL = "also the rates of those present, and the requests"


@item("part10/joins", "What a strategy knows and what a join costs the others", seeds=5)
def joins(seeds: int, progress: Progress) -> Measured:
    """Count, over 1,000 joins, channels that were split or merged and subscribers that had to tune in elsewhere."""
    cases: dict[str, tuple[Strategy, str]] = {
        "strategy 1": (Strategy1(), OWN),
        "strategy 2": (Strategy2(), OWN),
        "strategy 3 descending": (Strategy3(), SPARE),
        "strategy 3 random": (Strategy3("random"), SPARE),
        "strategy 3.1 descending": (Strategy31(), FINER),
        "strategy 3.1 random": (Strategy31("random"), FINER),
        "strategy 4, repair only": (Strategy4(effort=0, drafted=0), ALL),
        "strategy 4, no draft": (Strategy4(drafted=0), ALL),
        "strategy 4": (Strategy4(), ALL),
    }
    rows: list[Row] = []
    for i, (name, (strategy, information)) in enumerate(cases.items()):
        found = []
        for seed in range(seeds):
            online = strategy.online(thesis((11, 15)).draw(seed), seed)
            online.join(0, 500)
            half = (online.changed, online.retuned)
            online.join(500, 1000)
            found.append(
                (half[0] / 500, half[1] / 500, (online.changed - half[0]) / 500, (online.retuned - half[1]) / 500)
            )
        means = [Spread.of(column).mean for column in zip(*found, strict=True)]
        rows.append(
            {
                "strategy": name,
                "knows": information,
                "channels changed per join, first 500": means[0],
                "subscribers re-tuned, first 500": means[1],
                "channels changed per join, last 500": means[2],
                "subscribers re-tuned, last 500": means[3],
                "seeds": seeds,
            }
        )
        progress((i + 1) / len(cases), name)
    return Measured(rows)
