"""Figures 5.17 to 5.20: strategy 3.1 against strategy 3 at 11..15 connections."""

from __future__ import annotations

import numpy as np

from overlace.arrays.jit import Floats
from overlace.model import Progress
from overlace.planners.channels.strategies import Strategy3, Strategy31
from overlace.report.charts import Chart, Row
from reproductions.part10.curves import (
    CURVES,
    Strategy,
    compare,
    curve_chart,
    curve_rows,
    end,
    found,
    histogram,
    judge,
    per_channel,
    points,
    size_label,
)
from reproductions.part10.strategy_3 import SHARES, thesis
from reproductions.result import Measured, item, words

LIMITS = (11, 15)
SIZES = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 21, 1000]


def _figures(measured: Measured, seeds: int) -> dict[str, object]:
    names = ("strategy 3 descending", "strategy 3.1 descending", "strategy 3.1 random")
    channels, rates, largest, means, deviations = (
        [found(measured.rows, name, measure) for name in names]
        for measure in ("channels", "rate", "largest", "mean rate per channel", "deviation of rate per channel")
    )
    three, descending, random = (row["ours"] for row in rates)
    ordered = channels[0]["ours"] < channels[1]["ours"] < channels[2]["ours"]
    return {
        "channels": words([f"{row['ours']:.0f}" for row in channels]),
        "order": "comes out" if ordered else "does not come out",
        "range_descending": judge(channels[1]),
        "range_random": judge(channels[2]),
        "rates": f"{descending:.3f}, {random:.3f} and {three:.3f}",
        "lowest": "comes out" if descending < random else "does not come out",
        "better": "comes out" if random < three else "does not come out",
        "largest": f"{largest[1]['ours']:.1f}",
        "largest_printed": f"{largest[1]['thesis']:g}, {judge(largest[1])}",
        "largest_random": f"{largest[2]['ours']:.1f}",
        "mean": f"{means[2]['ours']:.3f}",
        "mean_descending": f"{means[1]['ours']:.3f}",
        "mean_printed": f"{means[2]['thesis']:.3f}, {judge(means[2])}",
        "deviation": f"{deviations[2]['ours']:.3f}",
        "deviation_descending": f"{deviations[1]['ours']:.3f}",
        "deviation_printed": f"{deviations[2]['thesis']:.3f}, {judge(deviations[2])}",
        "curves": min(seeds, CURVES),
    }


@item("part10/strategy-3.1", "Figures 5.17 to 5.20: strategy 3.1", seeds=30, figures=_figures)
def strategy_31(seeds: int, progress: Progress) -> Measured:
    """Counting spare connections per combination makes more channels."""
    cases: dict[str, Strategy] = {
        "strategy 3 descending": Strategy3(),
        "strategy 3.1 descending": Strategy31(),
        "strategy 3.1 random": Strategy31("random"),
    }
    rows: list[Row] = []
    curves: list[Row] = []
    sizes: list[Row] = []
    own: list[Row] = []
    total: dict[str, Floats] = {}
    for i, (name, strategy) in enumerate(cases.items()):
        curves += curve_rows(name, strategy, thesis(LIMITS), min(seeds, CURVES), points(1000, 20), "5.17")
        runs = [end(strategy, thesis(LIMITS), seed) for seed in range(seeds)]
        held = [per_channel(run, "combinations") for run in runs]
        rates = [per_channel(run, "false_positive_rate") for run in runs]
        rows.append(compare("5.17", name, "channels", [run.of("channels") for run in runs]))
        total[name] = np.array([run.of("false_positive_rate") for run in runs])
        rows.append(compare("5.18", name, "rate", total[name].tolist()))
        rows.append(compare("5.19", name, "largest", [float(each.max()) for each in held]))
        rows.append(compare("5.19", name, "channels above 10", [float((each > 10).sum()) for each in held]))
        rows.append(compare("5.20", name, "mean rate per channel", [float(each.mean()) for each in rates]))
        rows.append(compare("5.20", name, "deviation of rate per channel", [float(each.std()) for each in rates]))
        for low, high, n in zip(SIZES, SIZES[1:], histogram(held, SIZES), strict=False):
            sizes.append({"strategy": name, "combinations": size_label(low, high, SIZES[-1]), "channels": n})
        own += [
            {"strategy": name, "rate": f"{low:.1f}", "channels": n}
            for low, n in zip(SHARES, histogram(rates, SHARES), strict=False)
        ]
        progress((i + 1) / len(cases), name)
    three, *finer = cases
    rows += [compare("5.18", f"{three} - {name}", "rate", (total[three] - total[name]).tolist()) for name in finer]
    title = "5.20: channels by their own false-positive rate"
    charts = [
        curve_chart("5.17: channels, 11..15 connections", curves, "channels"),
        curve_chart("5.18: false-positive rate, 11..15 connections", curves, "rate"),
        Chart("5.19: combinations per channel", sizes, "combinations", "channels", panel="strategy", mark="bar"),
        Chart(title, own, "rate", "channels", panel="strategy", mark="bar", x_title="rate from"),
    ]
    worse = int((total[finer[-1]] > total[three]).sum())
    return Measured(rows, charts, {"worse": str(worse)})
