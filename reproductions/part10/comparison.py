"""Strategy 4 against the thesis's strategies, the other channel makers, the offline search and the proven bound."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import NamedTuple

from overlace.model import Observation, Planner, Progress
from overlace.planners.channels.anneal import Anneal
from overlace.planners.channels.baselines import KMeans, NoLoss, Pairwise, SpanningTree
from overlace.planners.channels.semcast import SemCast
from overlace.planners.channels.strategies import Strategy1, Strategy2, Strategy3, Strategy31
from overlace.planners.channels.strategy4 import Strategy4
from overlace.replay.delivery import delivery
from overlace.report.charts import Chart, Row
from reproductions.part10.bounds.least import bound
from reproductions.result import Measured, Spread, item
from reproductions.workloads.publishers import publishers

PLANNERS: dict[str, Planner] = {
    "strategy 1 (no limits)": Strategy1(),
    "strategy 2 (no limits)": Strategy2(),
    "strategy 3": Strategy3(),
    "strategy 3 random": Strategy3("random"),
    "strategy 3.1": Strategy31(),
    "strategy 3.1 random": Strategy31("random"),
    "strategy 4": Strategy4(),
    "no-loss (no limits)": NoLoss(),
    "minimum spanning tree": SpanningTree(),
    "k-means": KMeans(),
    "SemCast": SemCast(),
    "pairwise": Pairwise(),
    "offline search": Anneal(),
}
FREE = ("strategy 1 (no limits)", "strategy 2 (no limits)", "no-loss (no limits)")
BOUND = "proven lower bound"
AGAINST = "False positives against connections, all strategies"


class Case(NamedTuple):
    """Publishers, and the rate that strategy 4 should reach."""

    limits: tuple[int, int]
    aim: float | None
    zipf: float = 0.0
    known: bool = False

    def __str__(self) -> str:
        """How it is called in the table."""
        kind = "Zipf attributes, rates and requests" if self.known else "Zipf attributes" if self.zipf else "uniform"
        return f"{self.limits[0]}..{self.limits[1]}, {kind}"

    def draw(self, seed: int) -> Observation:
        """The publishers of one seed: 10 attributes, 3 to 4 each, 1,000 publishers."""
        if self.known:
            return publishers(1000, 10, (3, 4), self.limits, zipf=self.zipf, subscribers=2000, seed=seed)
        return publishers(1000, 10, (3, 4), self.limits, zipf=self.zipf, seed=seed)


CASES = (
    Case((14, 15), 0.16),
    Case((13, 15), 0.27),
    Case((11, 15), 0.40),
    Case((11, 15), 0.15, 1.0),
    Case((11, 15), None, 1.0, True),
)


def _measure(planner: Planner, observation: Observation, seed: int) -> tuple[float, ...]:
    """Rate, channels, connections of a publisher, publishers beyond their limit, milliseconds of CPU per join."""
    start = time.process_time()
    after = planner.solve(observation, seed).after
    taken = time.process_time() - start
    metrics = delivery(observation, after)
    names = ("false_positive_rate", "channels", "mean_connections", "over_limit")
    return (*(metrics.of(name) for name in names), 1000 * taken / len(observation.offers.publisher))


def _rates(case: Case, name: str, rate: Spread) -> dict[str, object]:
    return {"limits": str(case), "strategy": name, "rate": rate.mean, "least": rate.low, "most": rate.high}


def _figures(measured: Measured, seeds: int) -> dict[str, object]:
    case = next(case for case in CASES if case.zipf)
    row = next(row for row in measured.rows if row["limits"] == str(case) and row["aim"] is not None)
    reached = {name: f"{row[name]:.3f}" for name in ("rate", "least", "most")}
    return {"aim": row["aim"], **reached}


@item(
    "part10/comparison",
    "Strategy 4 compared with the thesis's strategies, an offline search and a bound",
    seeds=5,
    figures=_figures,
)
def comparison(seeds: int, progress: Progress) -> Measured:
    """Rates, channels, connections and time of everybody on the same publishers."""
    rows: list[Row] = []
    marks: list[Row] = []
    for i, case in enumerate(CASES):
        drawn = [case.draw(seed) for seed in range(seeds)]
        for name, planner in PLANNERS.items():
            planner.solve(publishers(20, limits=case.limits))  # compiled before it is timed
            found = [_measure(planner, observation, seed) for seed, observation in enumerate(drawn)]
            rate, channels, connections, over, each = (Spread.of(column) for column in zip(*found, strict=True))
            aim = case.aim if name == "strategy 4" else None
            rows.append(
                {
                    **_rates(case, name, rate),
                    "aim": aim,
                    "reached": None if aim is None else rate.mean <= aim,
                    "channels": channels.mean,
                    "connections": connections.mean,
                    "over": over.high,
                    "ms per join": each.mean,
                }
            )
            marks.append({"limits": str(case), "strategy": name, "connections": connections.mean, "rate": rate.mean})
        lowest = Spread.of([bound(observation).rate for observation in drawn])
        rows.append(dict.fromkeys(rows[0]) | _rates(case, BOUND, lowest))
        progress((i + 1) / len(CASES), str(case))
    title, x_title, y_title = AGAINST, "connections per publisher", "false-positive rate"
    chart = Chart(
        title, marks, "connections", "rate", "strategy", "limits", mark="point", x_title=x_title, y_title=y_title
    )
    return Measured(rows, [chart])


def _spread(limit: int | None, name: str, rate: Spread, connections: float | None) -> Row:
    return {
        "limit": limit,
        "strategy": name,
        "connections": connections,
        "rate": rate.mean,
        "least": rate.low,
        "most": rate.high,
    }


def _deliver(planner: Planner, drawn: list[Observation]) -> tuple[Spread, float]:
    """The rates over the seeds, and the connections of a publisher on the mean."""
    runs = [delivery(observation, planner.solve(observation, seed).after) for seed, observation in enumerate(drawn)]
    connections = Spread.of([run.of("mean_connections") for run in runs]).mean
    return Spread.of([run.of("false_positive_rate") for run in runs]), connections


@item("part10/frontier", "False positives against connections", seeds=5)
def frontier(seeds: int, progress: Progress) -> Measured:
    """The same limit for everybody, from 2 to 15: false positives against connections."""
    shown = {name: planner for name, planner in PLANNERS.items() if name not in FREE}
    shown["offline search"] = Anneal(sweeps=500)
    rows: list[Row] = []
    limits = (2, 5, 8, 11, 13, 14, 15)
    for i, limit in enumerate(limits):
        drawn = [publishers(1000, 10, (3, 4), (limit, limit), seed=seed) for seed in range(seeds)]
        rows += [_spread(limit, name, *_deliver(planner, drawn)) for name, planner in shown.items()]
        rows.append(_spread(limit, BOUND, Spread.of([bound(observation).rate for observation in drawn]), None))
        progress((i + 1) / len(limits), f"limit {limit}")
    rows += [_spread(None, name, *_deliver(PLANNERS[name], drawn)) for name in FREE]
    spread = Chart("", rows, "limit", "rate", "strategy", low="least", high="most", y_title="false-positive rate")
    charts = [
        replace(
            spread,
            title=AGAINST,
            rows=[row for row in rows if row["connections"] is not None],
            x="connections",
            x_title="connections per publisher (mean)",
        ),
        replace(
            spread, title="False positives against the limit", rows=[row for row in rows if row["limit"] is not None]
        ),
    ]
    return Measured(rows, charts)
