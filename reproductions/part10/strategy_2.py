"""Figures 5.5 to 5.10: strategy 2, channels, connections, false positives and the sizes of channels."""

from __future__ import annotations

from overlace.model import Progress
from overlace.planners.channels.strategies import Strategy2
from overlace.report.charts import Chart, Row
from reproductions.part10.curves import (
    LARGE,
    Setup,
    compare,
    curve_chart,
    curve_rows,
    end,
    found,
    histogram,
    judge,
    judge_all,
    per_channel,
    points,
    size_label,
)
from reproductions.result import Measured, item

SETUPS = [
    Setup(10, (3, 4), 200),
    Setup(10, (9, 9), 200),
    Setup(5, (3, 4), 200),
    Setup(10, (10, 10), 200),
    Setup(10, (2, 2), 200),
    Setup(10, (7, 7), 200),
    Setup(5, (2, 2), 200),
]
MANY = Setup(10, (3, 4), 3000)
SEVEN = Setup(10, (7, 7), 1000)
LARGEST, HALF = SETUPS[5], SETUPS[6]
"""Whose channels are counted by size."""
BINS = [1, 2, 3, 4, 5, 10, 20, 40, 80, 160]
END = 2000


def _figures(measured: Measured, seeds: int) -> dict[str, object]:
    rate = found(measured.rows, str(HALF), "rate")
    size = found(measured.rows, str(LARGEST), "largest")
    return {
        "counts": judge_all(measured.rows, ("channels", "connections")),
        "rate": f"{100 * rate['ours']:.0f} %",
        "printed_rate": f"{100 * rate['thesis']:.0f} %",
        "range": judge(rate),
        "named": f"{size['thesis']:g}",
        "largest": f"{size['most']:g} in every run"
        if size["least"] == size["most"]
        else f"{size['ours']:g} on the mean",
        "few": min(seeds, LARGE),
    }


@item("part10/strategy-2", "Figures 5.5 to 5.10: strategy 2", seeds=20, figures=_figures)
def strategy_2(seeds: int, progress: Progress) -> Measured:
    """Few channels and connections, at many false positives."""
    rows: list[Row] = []
    curves: list[Row] = []
    bars: list[Row] = []
    for i, setup in enumerate([*SETUPS, MANY, SEVEN]):
        figure = {MANY: "5.6", SEVEN: "5.7"}.get(setup, "5.5")
        name = f"n={setup.attributes}, m={setup.size[0]}..{setup.size[1]}"
        curves += curve_rows(
            name, Strategy2(), setup, seeds if figure == "5.5" else min(seeds, LARGE), points(setup.joining, 10), figure
        )
        runs = [end(Strategy2(), setup, seed) for seed in range(seeds)]
        sizes = [per_channel(run, "combinations") for run in runs]
        rows.append(
            compare("5.6" if setup == MANY else "5.5", str(setup), "channels", [r.of("channels") for r in runs])
        )
        rows.append(compare("5.7", str(setup), "connections", [run.of("mean_connections") for run in runs]))
        rows.append(compare("5.8", str(setup), "rate", [run.of("false_positive_rate") for run in runs]))
        largest = {LARGEST: "5.9", HALF: "5.10"}.get(setup)
        if largest:
            rows.append(compare(largest, str(setup), "largest", [float(each.max()) for each in sizes]))
            counts = histogram(sizes, [*BINS, END])
            for low, high, count in zip(BINS, [*BINS[1:], END], counts, strict=True):
                bars.append(
                    {"figure": f"{largest}: {name}", "combinations": size_label(low, high, END), "channels": count}
                )
        progress((i + 1) / (len(SETUPS) + 2), str(setup))
    small, large, seven = ([row for row in curves if row["figure"] == each] for each in ("5.5", "5.6", "5.7"))
    title = "5.9 and 5.10: combinations per channel, strategy 2"
    charts = [
        curve_chart("5.5: channels, strategy 2", small, "channels"),
        curve_chart("5.6: channels, strategy 2, 3,000 publishers", large, "channels"),
        curve_chart("5.7: connections per publisher, strategy 2", small, "connections"),
        curve_chart("5.7: connections per publisher, strategy 2, m=7, 1,000 publishers", seven, "connections"),
        curve_chart("5.8: false-positive rate, strategy 2", small, "rate"),
        Chart(title, bars, "combinations", "channels", panel="figure", mark="bar"),
    ]
    return Measured(rows, charts)
