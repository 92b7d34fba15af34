"""Figures 5.2 to 5.4: strategy 1, channels and connections per publisher."""

from __future__ import annotations

from overlace.model import Progress
from overlace.planners.channels.strategies import Strategy1
from overlace.report.charts import Row
from reproductions.part10.curves import LARGE, Setup, compare, curve_chart, curve_rows, end, judge_all, points
from reproductions.result import Measured, item

FEW = [
    Setup(10, (3, 4), 50),
    Setup(10, (9, 9), 50),
    Setup(5, (3, 4), 50),
    Setup(5, (2, 3), 50),
    Setup(10, (10, 10), 50),
    Setup(10, (3, 6), 50),
]
MANY = Setup(10, (3, 4), 3000)


def _figures(measured: Measured, seeds: int) -> dict[str, object]:
    most = max(row["most"] for row in measured.rows if row["measure"] == "rate")
    unwanted = "No message is received that was not asked for, in any run"
    return {
        "unwanted": unwanted if most == 0 else f"Up to {most:.2%} of the messages received were not asked for",
        "counts": judge_all(measured.rows, ("channels", "connections")),
        "few": min(seeds, LARGE),
    }


@item("part10/strategy-1", "Figures 5.2 to 5.4: strategy 1", seeds=20, figures=_figures)
def strategy_1(seeds: int, progress: Progress) -> Measured:
    """Channels grow up to (4.1), connections up to 2^m - 1, and nobody gets what they did not ask for."""
    rows: list[Row] = []
    curves: list[Row] = []
    for i, setup in enumerate([*FEW, MANY]):
        figure = "5.3" if setup == MANY else "5.2"
        label, many = f"n={setup.attributes}, m={setup.size[0]}..{setup.size[1]}", min(seeds, LARGE)
        at = points(setup.joining, 10)
        curves += curve_rows(label, Strategy1(), setup, many if setup == MANY else seeds, at, figure)
        runs = [end(Strategy1(), setup, seed) for seed in range(seeds)]
        rows.append(compare(figure, str(setup), "channels", [run.of("channels") for run in runs]))
        rows.append(compare("5.4", str(setup), "connections", [run.of("mean_connections") for run in runs]))
        rows.append(compare(figure, str(setup), "rate", [run.of("false_positive_rate") for run in runs]))
        progress((i + 1) / (len(FEW) + 1), str(setup))
    small = [row for row in curves if row["figure"] == "5.2"]
    large = [row for row in curves if row["figure"] == "5.3"]
    charts = [
        curve_chart("5.2: channels, strategy 1", small, "channels", "y"),
        curve_chart("5.3: channels, strategy 1, 3,000 publishers", large, "channels"),
        curve_chart("5.4: connections per publisher, strategy 1", small, "connections", "y"),
    ]
    return Measured(rows, charts)
