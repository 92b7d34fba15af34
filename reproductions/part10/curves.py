"""What all figures of PART10 §5 share: publishers join, and now and then somebody counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, Protocol

import numpy as np

from overlace.arrays.jit import Ints
from overlace.metrics import Metrics
from overlace.model import Observation, Offers, Overlay
from overlace.planners.channels.online import Online
from overlace.replay.delivery import delivery
from overlace.workloads.publishers import publishers
from reproductions.result import Spread, expected

PRINTED = expected("part10")


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


def per_channel(metrics: Metrics, metric: str) -> Any:
    """The values of a metric over the channels."""
    return metrics.value[(metrics.metric == metric) & (metrics.scope == "channel")]


METRICS: Mapping[str, str] = {
    "channels": "channels", "connections": "mean_connections", "rate": "false_positive_rate",
}  # fmt: skip


def curve_rows(
    label: str, strategy: Strategy, setup: Setup, seeds: int, at: Sequence[int], figure: str
) -> list[dict[str, Any]]:
    """Rows of a chart: channels, connections and rate with their spread, each time so many have joined."""
    runs = [grow(strategy, setup, seed, at) for seed in range(seeds)]
    rows = []
    for i, joined in enumerate(at):
        row: dict[str, Any] = {"figure": figure, "series": label, "publishers": joined}
        for name, metric in METRICS.items():
            spread = Spread.of([run[i][1].of(metric) for run in runs])
            row |= {name: spread.mean, f"{name} low": spread.low, f"{name} high": spread.high}
        rows.append(row)
    return rows


def beside(table: str, row: str, column: str, values: Sequence[float], note: str = "") -> dict[str, Any]:
    """A printed number beside ours."""
    spread = Spread.of(values)
    return {
        "figure": table, "setup": row, "measure": column, "thesis": PRINTED.get((table, row, column)),
        "ours": spread.mean, "least": spread.low, "most": spread.high, "deviation": spread.deviation,
        "seeds": len(values), "note": note,
    }  # fmt: skip


def histogram(values: Sequence[Any], bins: Ints | Sequence[float]) -> list[float]:
    """How many channels fall into each bin, mean over the runs."""
    return np.mean([np.histogram(each, bins)[0] for each in values], axis=0).tolist()  # type: ignore[no-any-return]
