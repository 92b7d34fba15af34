"""Figures 5.11 to 5.16: strategy 3 between strategies 1 and 2, largest first against random order."""

from __future__ import annotations

import numpy as np

from overlace.model import Progress
from overlace.planners.channels.strategies import Strategy1, Strategy2, Strategy3
from overlace.report.charts import Chart, Row
from reproductions.part10.curves import (
    CURVES,
    Setup,
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
)
from reproductions.result import Measured, item

SHARES = [k / 10 for k in range(11)]


def thesis(limits: tuple[int, int]) -> Setup:
    """10 attributes, 3 to 4 each, 1,000 publishers."""
    return Setup(10, (3, 4), 1000, limits)


def _figures(measured: Measured, seeds: int) -> dict[str, object]:
    def channels(setup: str) -> float:
        return float(found(measured.rows, setup, "channels")["ours"])

    def rate(setup: str) -> Row:
        return found(measured.rows, setup, "rate")

    two, descending, random = (channels(n) for n in ("strategy 2", "strategy 3, 13..15", "strategy 3 random, 13..15"))
    better, worse = rate("strategy 2 - strategy 3, 13..15"), rate("random - descending, 13..15")
    looser, newest = rate("strategy 3, 14..15"), rate("strategy 3, 14..15, ties newest")
    return {
        "two": f"{two:.0f}",
        "descending": f"{descending:.0f}",
        "random": f"{random:.0f}",
        "looser": f"{channels('strategy 3, 14..15'):.0f}",
        "newest": f"{channels('strategy 3, 13..15, ties newest'):.0f}",
        "no_more": "comes out" if descending <= two else "does not come out",
        "fewer": "comes out" if random < descending else "does not come out",
        "better": f"{100 * better['ours']:.0f}",
        "better_printed": f"{100 * better['thesis']:.0f}, {judge(better)}",
        "rate": f"{looser['ours']:.2f}",
        "rate_printed": f"{looser['thesis']:.2f}, {judge(looser)}",
        "worse": f"{100 * worse['ours']:.0f}",
        "worse_runs": f"{100 * worse['least']:.0f} to {100 * worse['most']:.0f}",
        "worse_printed": f"{100 * worse['thesis']:.0f}, {judge(worse)}",
        "all": f"{channels('strategy 3, 15..15'):.0f}",
        "one": f"{channels('strategy 1'):.0f}",
        "all_rate": f"{rate('strategy 3, 15..15')['ours']:g}",
        "newest_rate": f"{newest['ours']:.2f}",
        "curves": min(seeds, CURVES),
    }


@item("part10/strategy-3", "Figures 5.11 to 5.16: strategy 3", seeds=20, figures=_figures)
def strategy_3(seeds: int, progress: Progress) -> Measured:
    """The more connections, the more channels and the fewer false positives."""
    cases: list[tuple[str, str, Strategy, tuple[int, int]]] = [
        ("5.11", "strategy 1", Strategy1(), (13, 15)),
        ("5.11", "strategy 2", Strategy2(), (13, 15)),
        ("5.11", "strategy 3, 13..15", Strategy3(), (13, 15)),
        ("5.11", "strategy 3, 14..15", Strategy3(), (14, 15)),
        ("5.11", "strategy 3, 15..15", Strategy3(), (15, 15)),
        ("5.13", "strategy 3 random, 13..15", Strategy3("random"), (13, 15)),
    ]
    rows: list[Row] = []
    curves: list[Row] = []
    bars: list[Row] = []
    rates: dict[str, list[float]] = {}
    for i, (figure, name, strategy, limits) in enumerate(cases):
        curves += curve_rows(name, strategy, thesis(limits), min(seeds, CURVES), points(1000, 20), figure)
        runs = [end(strategy, thesis(limits), seed) for seed in range(seeds)]
        rates[name] = [run.of("false_positive_rate") for run in runs]
        rows.append(compare(figure, name, "channels", [run.of("channels") for run in runs]))
        rows.append(compare("5.12" if figure == "5.11" else "5.14", name, "rate", rates[name]))
        if limits == (13, 15) and isinstance(strategy, Strategy3):
            counts = histogram([per_channel(run, "false_positive_rate") for run in runs], SHARES)
            panel = "5.15: descending" if strategy.order == "descending" else "5.16: random"
            bars += [
                {"figure": panel, "rate": f"{low:.1f}", "channels": n} for low, n in zip(SHARES, counts, strict=False)
            ]
        progress((i + 1) / len(cases), name)
    two, descending, random = (np.array(rates[name]) for name in ("strategy 2", cases[2][1], cases[5][1]))
    rows.append(compare("5.12", "strategy 2 - strategy 3, 13..15", "rate", (two - descending).tolist()))
    rows.append(compare("5.14", "random - descending, 13..15", "rate", (random - descending).tolist()))
    rows += _other_ties(seeds)
    first = [row for row in curves if row["figure"] == "5.11"]
    second = [row for row in curves if row["series"] in (cases[2][1], cases[5][1])]
    title = "5.15 and 5.16: channels by their own false-positive rate"
    charts = [
        curve_chart("5.11: channels", first, "channels"),
        curve_chart("5.12: false-positive rate", first, "rate"),
        curve_chart("5.13: channels, descending and random", second, "channels"),
        curve_chart("5.14: false-positive rate, descending and random", second, "rate"),
        Chart(title, bars, "rate", "channels", panel="figure", mark="bar", x_title="rate from"),
    ]
    return Measured(rows, charts)


def _other_ties(seeds: int) -> list[Row]:
    """R8: the same runs with another channel first among equally large ones."""
    rows = []
    for other in (Strategy3(ties="newest"), Strategy3(ties="least")):
        for limits in ((13, 15), (14, 15)):
            runs = [end(other, thesis(limits), seed) for seed in range(seeds)]
            for measure, metric in (("channels", "channels"), ("rate", "false_positive_rate")):
                name = f"strategy 3, {limits[0]}..15, ties {other.ties}"
                rows.append(compare("R8", name, measure, [run.of(metric) for run in runs]))
    return rows
