"""Figures 5.5 to 5.10: strategy 2, channels, connections, false positives and the sizes of channels."""

from __future__ import annotations

from typing import Any

from overlace.model import Progress
from overlace.planners.channels.strategy2 import Strategy2
from overlace.report.charts import Chart
from reproductions.part10.curves import Setup, beside, curve_rows, end, histogram, per_channel, points
from reproductions.result import Result

SETUPS = [Setup(10, (3, 4), 200), Setup(10, (9, 9), 200), Setup(5, (3, 4), 200), Setup(10, (10, 10), 200),
          Setup(10, (2, 2), 200), Setup(10, (7, 7), 200), Setup(5, (2, 2), 200)]  # fmt: skip
MANY = Setup(10, (3, 4), 3000)
SEVEN = Setup(10, (7, 7), 1000)
BINS = [1, 2, 3, 4, 5, 10, 20, 40, 80, 160]


def strategy_2(*, seeds: int | None = None, progress: Progress | None = None) -> Result:
    """Few channels and connections, at many false positives."""
    many = seeds or 20
    rows: list[dict[str, Any]] = []
    curves: list[dict[str, Any]] = []
    bars: list[dict[str, Any]] = []
    for i, setup in enumerate([*SETUPS, MANY, SEVEN]):
        figure = {MANY: "5.6", SEVEN: "5.7"}.get(setup, "5.5")
        name = f"n={setup.attributes}, m={setup.size[0]}..{setup.size[1]}"
        curves += curve_rows(name, Strategy2(), setup, many if figure == "5.5" else min(many, 5),
                             points(setup.joining, 10), figure)  # fmt: skip
        runs = [end(Strategy2(), setup, seed) for seed in range(many)]
        sizes = [per_channel(run, "combinations") for run in runs]
        rows.append(beside("5.6" if setup == MANY else "5.5", str(setup), "channels", [r.of("channels") for r in runs]))
        rows.append(beside("5.7", str(setup), "connections", [run.of("mean_connections") for run in runs]))
        rows.append(beside("5.8", str(setup), "rate", [run.of("false_positive_rate") for run in runs]))
        largest = {Setup(10, (7, 7), 200): "5.9", Setup(5, (2, 2), 200): "5.10"}.get(setup)
        if largest:
            rows.append(beside(largest, str(setup), "largest", [float(each.max()) for each in sizes]))
            counts = histogram(sizes, [*BINS, 2000])
            for low, high, count in zip(BINS, [*BINS[1:], 2000], counts, strict=True):
                label = f"{low}" if high == low + 1 else f"{low}-{high - 1}" if high < 2000 else f"{low} or more"
                bars.append({"figure": f"{largest}: {name}", "combinations": label, "channels": count})
        if progress:
            progress((i + 1) / (len(SETUPS) + 2), str(setup))
    small, large, seven = ([row for row in curves if row["figure"] == each] for each in ("5.5", "5.6", "5.7"))
    notes = [
        "5.5, 5.6 and 5.7: 10, 5 and 210 channels, and about 14 connections at m = 7, come out.",
        "5.8: 43 % with 5 attributes and m = 2, where the thesis reads about 40 % off one run: within our range.",
        "5.9: the thesis names a channel of 96 combinations as an example. The largest is the first publisher's, which "
        "nobody ever takes apart: 2^7 - 1 = 127 in every run.",
        "The rate is exact: 1 - wanted / received, one subscriber per offered combination, a message per publisher.",
        f"Charts: the mean over {many} seeds, with 1,000 and 3,000 publishers over {min(many, 5)}; the bars are the "
        "least and the most. Their points are in [figures.csv](figures.csv).",
    ]
    charts = [
        Chart("5.5: channels, strategy 2", small, "publishers", "channels", "series",
              low="channels low", high="channels high"),
        Chart("5.6: channels, strategy 2, 3,000 publishers", large, "publishers", "channels", "series",
              low="channels low", high="channels high"),
        Chart("5.7: connections per publisher, strategy 2", small, "publishers", "connections", "series",
              low="connections low", high="connections high"),
        Chart("5.7: connections per publisher, strategy 2, m=7, 1,000 publishers", seven, "publishers", "connections",
              "series", low="connections low", high="connections high"),
        Chart("5.8: false-positive rate, strategy 2", small, "publishers", "rate", "series",
              low="rate low", high="rate high"),
        Chart("5.9 and 5.10: combinations per channel, strategy 2", bars, "combinations", "channels", panel="figure",
              mark="bar"),
    ]  # fmt: skip
    return Result("Figures 5.5 to 5.10: strategy 2", rows, notes, charts)
