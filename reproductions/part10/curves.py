"""What all figures of PART10 §5 share: publishers join, and now and then somebody counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal, NamedTuple, Protocol

import numpy as np

from overlace.arrays.jit import Floats
from overlace.metrics import Metrics
from overlace.model import Observation, Offers, Overlay
from overlace.planners.channels.online import Online
from overlace.replay.delivery import delivery
from overlace.report.charts import Chart, Row
from reproductions.result import Spread, expected, words
from reproductions.workloads.publishers import publishers

PRINTED = expected("part10")
LARGE = 5
"""Seeds of a curve with many publishers, at most."""
CURVES = 10
"""Seeds of the curves of strategies 3 and 3.1, at most."""


class Strategy(Protocol):
    """A planner to which publishers can come one by one."""

    def online(self, observation: Observation, seed: int = 0) -> Online:
        """Channels that publishers join and leave."""


class Setup(NamedTuple):
    """Attributes in all, how many a publisher takes, publishers, limits."""

    attributes: int
    size: tuple[int, int]
    joining: int
    limits: tuple[int, int] | None = None

    def __str__(self) -> str:
        """As in expected.csv."""
        return f"{self.attributes}, {self.size[0]}..{self.size[1]}, {self.joining}"

    def draw(self, seed: int) -> Observation:
        """The publishers of one seed: the same for every strategy."""
        return publishers(self.joining, self.attributes, self.size, self.limits, seed=seed)


def points(count: int, steps: int = 20) -> list[int]:
    """Where to count: some even steps up to everybody, with the first few publishers."""
    return sorted({1, 5, *(round(count * k / steps) for k in range(1, steps + 1))})


def first_offers(observation: Observation, rows: int) -> Observation:
    """What was observed when only the first publishers had joined."""
    offers = observation.offers
    kept = Offers(*(getattr(offers, name)[:rows] for name in ("publisher", "attributes", "connections", "messages")))
    return replace(observation, offers=kept, clients=0, sent=(), sent_bytes=())


def grow(strategy: Strategy, setup: Setup, seed: int, at: Sequence[int]) -> list[tuple[int, Metrics]]:
    """What `delivery` measures each time so many publishers have joined."""
    observation = setup.draw(seed)
    online = strategy.online(observation, seed)
    found, before = [], 0
    for rows in at:
        online.join(before, rows)
        found.append((rows, delivery(first_offers(observation, rows), Overlay(channels=online.pairs))))
        before = rows
    return found


def end(strategy: Strategy, setup: Setup, seed: int) -> Metrics:
    """What `delivery` measures when all have joined."""
    return grow(strategy, setup, seed, [setup.joining])[-1][1]


def per_channel(metrics: Metrics, metric: str) -> Floats:
    """The values of a metric over the channels."""
    values: Floats = metrics.value[(metrics.metric == metric) & (metrics.scope == "channel")]
    return values


METRICS: Mapping[str, str] = {"channels": "channels", "connections": "mean_connections", "rate": "false_positive_rate"}


def curve_rows(label: str, strategy: Strategy, setup: Setup, seeds: int, at: Sequence[int], figure: str) -> list[Row]:
    """Rows of a chart: channels, connections and rate with their spread, each time so many have joined."""
    runs = [grow(strategy, setup, seed, at) for seed in range(seeds)]
    rows: list[Row] = []
    for i, joined in enumerate(at):
        row: dict[str, object] = {"figure": figure, "series": label, "publishers": joined}
        for name, metric in METRICS.items():
            spread = Spread.of([run[i][1].of(metric) for run in runs])
            row |= {name: spread.mean, f"{name} low": spread.low, f"{name} high": spread.high}
        rows.append(row)
    return rows


def curve_chart(title: str, rows: Sequence[Row], y: str, log: Literal["", "y"] = "") -> Chart:
    """A measure as publishers join, with its spread, a line for each series."""
    return Chart(title, rows, "publishers", y, "series", low=f"{y} low", high=f"{y} high", log=log)


def size_label(low: int, high: int, end: int) -> str:
    """How a bin of sizes is called: 3, 5-9, or 160 or more when it is the last."""
    return f"{low}" if high == low + 1 else f"{low}-{high - 1}" if high < end else f"{low} or more"


def compare(table: str, row: str, column: str, values: Sequence[float]) -> Row:
    """A printed number against ours."""
    spread = Spread.of(values)
    return {
        "figure": table,
        "setup": row,
        "measure": column,
        "thesis": PRINTED.get((table, row, column)),
        "ours": spread.mean,
        "least": spread.low,
        "most": spread.high,
        "deviation": spread.deviation,
        "seeds": len(values),
        "note": "",
    }


def found(rows: Sequence[Row], setup: str, measure: str) -> Row:
    """The row of a setup and a measure."""
    return next(row for row in rows if (row["setup"], row["measure"]) == (setup, measure))


def judge(row: Row) -> str:
    """Whether the thesis's figure comes out."""
    if row["least"] <= row["thesis"] <= row["most"]:
        return "within our range"
    return f"{'above' if row['thesis'] > row['most'] else 'below'} our range: does not come out"


def judge_all(rows: Sequence[Row], measures: Sequence[str]) -> str:
    """Whether all that the thesis prints of some measures comes out."""
    printed = [row for row in rows if row["measure"] in measures and row["thesis"] is not None]
    off = [f"{row['measure']} of {row['setup']}" for row in printed if not row["least"] <= row["thesis"] <= row["most"]]
    if off:
        return f"do not all come out: {words(off)} lie outside the range of our runs"
    return "come out: every printed count lies within the range of our runs"


def histogram(values: Sequence[Floats], bins: Sequence[float]) -> list[float]:
    """How many channels fall into each bin, mean over the runs."""
    counts: Floats = np.mean([np.histogram(each, bins)[0] for each in values], axis=0)
    return [float(count) for count in counts]
