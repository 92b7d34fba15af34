"""Strategy 4 against the thesis's strategies, the offline search and the proven bound."""

from __future__ import annotations

import time
from typing import Any, NamedTuple

from overlace.model import Observation, Planner, Progress
from overlace.planners.channels.anneal import Anneal
from overlace.planners.channels.bound import bound
from overlace.planners.channels.strategy1 import Strategy1
from overlace.planners.channels.strategy2 import Strategy2
from overlace.planners.channels.strategy3 import Strategy3
from overlace.planners.channels.strategy4 import Strategy4
from overlace.planners.channels.strategy31 import Strategy31
from overlace.replay.delivery import delivery
from overlace.report.charts import Chart
from overlace.workloads.publishers import publishers
from reproductions.result import Result, Spread

PLANNERS: dict[str, Planner] = {
    "strategy 1 (no limits)": Strategy1(),
    "strategy 2 (no limits)": Strategy2(),
    "strategy 3": Strategy3(),
    "strategy 3 random": Strategy3("random"),
    "strategy 3.1": Strategy31(),
    "strategy 3.1 random": Strategy31("random"),
    "strategy 4": Strategy4(),
    "offline search": Anneal(),
}


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
            return publishers(
                1000, 10, (3, 4), self.limits, zipf=self.zipf, subscribers=2000, seed=seed
            )
        return publishers(1000, 10, (3, 4), self.limits, zipf=self.zipf, seed=seed)


CASES = (
    Case((14, 15), 0.16), Case((13, 15), 0.27), Case((11, 15), 0.40), Case((11, 15), 0.15, 1.0),
    Case((11, 15), None, 1.0, True),
)  # fmt: skip


def beat(*, seeds: int | None = None, progress: Progress | None = None) -> Result:
    """Rates, channels, connections and time of everybody on the same publishers."""
    many = seeds or 5
    rows: list[dict[str, Any]] = []
    marks: list[dict[str, Any]] = []
    for i, case in enumerate(CASES):
        drawn = [case.draw(seed) for seed in range(many)]
        for name, planner in PLANNERS.items():
            runs = []
            for seed, observation in enumerate(drawn):
                if seed == 0:
                    planner.solve(publishers(20, limits=case.limits))  # compiled before it is timed
                start = time.process_time()
                after = planner.solve(observation, seed).after
                taken = time.process_time() - start
                metrics = delivery(observation, after)
                runs.append((metrics.of("false_positive_rate"), metrics.of("channels"), metrics.of("mean_connections"),
                             metrics.of("over_limit"), 1000 * taken / len(observation.offers.publisher)))  # fmt: skip
            rate, channels, connections, over, each = (Spread.of(column) for column in zip(*runs, strict=True))
            aim = case.aim if name == "strategy 4" else None
            rows.append(_row(str(case), name, rate, aim, channels.mean, connections.mean, over.high, each.mean))
            marks.append({"limits": str(case), "strategy": name, "connections": connections.mean, "rate": rate.mean})
        lowest = Spread.of([bound(observation).rate for observation in drawn])
        rows.append(_row(str(case), "proven lower bound", lowest, None, None, None, None, None))
        if progress:
            progress((i + 1) / len(CASES), str(case))
    notes = [
        f"10 attributes, 3..4 each, 1,000 publishers, limits uniform in the range, seeds 0 to {many - 1}; one "
        "subscriber per offered combination and one message per publisher. Where rates and requests are by Zipf: "
        "2,000 subscribers, rates from 1,000 down to 1.",
        "Milliseconds are CPU time of a whole solve divided by the publishers; the offline search sees all at once.",
        "over: publishers beyond their limit, the most over the seeds. Strategies 1 and 2 do not look at limits.",
        "The bound holds for every cut within the limits, online or not; a rate below it would mean a broken model. "
        "How much of the gap above it is the search's and how much the bound's is open.",
        "The aim with Zipf attributes (0.15) and the mean reached differ by less than the seeds do among themselves.",
    ]
    chart = Chart("False positives against connections, all strategies", marks, "connections", "rate", "strategy",
                  panel="limits", mark="point", x_title="connections per publisher",
                  y_title="false-positive rate")  # fmt: skip
    return Result("Strategy 4 beside the thesis's strategies, an offline search and a bound", rows, notes, [chart])


def _row(
    case: str, name: str, rate: Spread, aim: float | None, channels: float | None, connections: float | None,
    over: float | None, each: float | None,
) -> dict[str, Any]:  # fmt: skip
    return {
        "limits": case, "strategy": name, "rate": rate.mean, "least": rate.low, "most": rate.high, "aim": aim,
        "reached": None if aim is None else rate.mean <= aim, "channels": channels, "connections": connections,
        "over": over, "ms per join": each,
    }  # fmt: skip


def frontier(*, seeds: int | None = None, progress: Progress | None = None) -> Result:
    """The same limit for everybody, from 2 to 15: false positives against connections."""
    many = seeds or 5
    free = ("strategy 1 (no limits)", "strategy 2 (no limits)")
    shown = {name: planner for name, planner in PLANNERS.items() if name not in free}
    shown["offline search"] = Anneal(sweeps=500)
    rows: list[dict[str, Any]] = []
    limits = (2, 5, 8, 11, 13, 14, 15)
    for i, limit in enumerate(limits):
        drawn = [publishers(1000, 10, (3, 4), (limit, limit), seed=seed) for seed in range(many)]
        for name, planner in shown.items():
            runs = [delivery(o, planner.solve(o, seed).after) for seed, o in enumerate(drawn)]
            rate = Spread.of([run.of("false_positive_rate") for run in runs])
            mean = Spread.of([run.of("mean_connections") for run in runs]).mean
            rows.append({"limit": limit, "strategy": name, "connections": mean, "rate": rate.mean,
                         "least": rate.low, "most": rate.high})  # fmt: skip
        lowest = Spread.of([bound(o).rate for o in drawn])
        rows.append({"limit": limit, "strategy": "proven lower bound", "connections": None, "rate": lowest.mean,
                     "least": lowest.low, "most": lowest.high})  # fmt: skip
        if progress:
            progress((i + 1) / len(limits), f"limit {limit}")
    for name in free:
        runs = [delivery(o, PLANNERS[name].solve(o, seed).after) for seed, o in enumerate(drawn)]
        rate = Spread.of([run.of("false_positive_rate") for run in runs])
        mean = Spread.of([run.of("mean_connections") for run in runs]).mean
        rows.append({"limit": None, "strategy": name, "connections": mean, "rate": rate.mean,
                     "least": rate.low, "most": rate.high})  # fmt: skip
    charts = [
        Chart("False positives against connections, all strategies", [r for r in rows if r["connections"] is not None],
              "connections", "rate", "strategy", low="least", high="most", x_title="connections per publisher (mean)",
              y_title="false-positive rate"),
        Chart("False positives against the limit", [r for r in rows if r["limit"] is not None], "limit", "rate",
              "strategy", low="least", high="most", y_title="false-positive rate"),
    ]  # fmt: skip
    notes = [
        f"10 attributes, 3..4 each, 1,000 publishers, everybody with the same limit; seeds 0 to {many - 1}. The bars "
        "are the least and the most.",
        "Publishers with three attributes need at most 7 connections, so the mean stays below the limit.",
        "The offline search runs an eighth of its default sweeps here.",
        "The bound is proven but weak where limits are low: it charges each combination for the one other that comes "
        "cheapest beside it, not for all that share its channel, and low limits make large channels. Whether a cut "
        "between the bound and the offline search exists is open.",
    ]
    return Result("False positives against connections", rows, notes, charts)
