"""Figures 5.2 to 5.4: strategy 1, channels and connections per publisher."""

from __future__ import annotations

from typing import Any

from overlace.model import Progress
from overlace.planners.channels.strategy1 import Strategy1
from overlace.report.charts import Chart
from reproductions.part10.curves import Setup, beside, curve_rows, end, points
from reproductions.result import Result

FEW = [Setup(10, (3, 4), 50), Setup(10, (9, 9), 50), Setup(5, (3, 4), 50), Setup(5, (2, 3), 50),
       Setup(10, (10, 10), 50), Setup(10, (3, 6), 50)]  # fmt: skip
MANY = Setup(10, (3, 4), 3000)


def strategy_1(*, seeds: int | None = None, progress: Progress | None = None) -> Result:
    """Channels grow up to (4.1), connections up to 2^m - 1, and nobody gets what they did not ask for."""
    many = seeds or 20
    rows: list[dict[str, Any]] = []
    curves: list[dict[str, Any]] = []
    for i, setup in enumerate([*FEW, MANY]):
        figure = "5.3" if setup == MANY else "5.2"
        curves += curve_rows(f"n={setup.attributes}, m={setup.size[0]}..{setup.size[1]}", Strategy1(), setup,
                             many if setup != MANY else min(many, 5), points(setup.joining, 10), figure)  # fmt: skip
        runs = [end(Strategy1(), setup, seed) for seed in range(many)]
        rows.append(beside(figure, str(setup), "channels", [run.of("channels") for run in runs]))
        rows.append(beside("5.4", str(setup), "connections", [run.of("mean_connections") for run in runs]))
        rows.append(beside(figure, str(setup), "rate", [run.of("false_positive_rate") for run in runs]))
        if progress:
            progress((i + 1) / (len(FEW) + 1), str(setup))
    small = [row for row in curves if row["figure"] == "5.2"]
    large = [row for row in curves if row["figure"] == "5.3"]
    notes = [
        "No message is received that was not asked for, in any run; §5.2 saw none in about 4.8 million.",
        "Channels and connections come out: every printed count lies within the range of our runs.",
        "The thesis expects 8 to 16 connections for 3..4 attributes and 4 to 8 for 2..3: the true ends are 7 and 15, "
        "and 3 and 7, since the empty combination is not offered (R1).",
        f"Charts: the mean over {many} seeds, with 3,000 publishers over {min(many, 5)}; the bars are the least and "
        "the most. Their points are in [figures.csv](figures.csv).",
    ]
    charts = [
        Chart("5.2: channels, strategy 1", small, "publishers", "channels", "series",
              low="channels low", high="channels high", log="y"),
        Chart("5.3: channels, strategy 1, 3,000 publishers", large, "publishers", "channels", "series",
              low="channels low", high="channels high"),
        Chart("5.4: connections per publisher, strategy 1", small, "publishers", "connections", "series",
              low="connections low", high="connections high", log="y"),
    ]  # fmt: skip
    return Result("Figures 5.2 to 5.4: strategy 1", rows, notes, charts)
