"""What to plan for: the forecast, the rule for newcomers and the saving to expect, chosen inside the part that plans.

At two earlier times the planner plans with each candidate, and the plans are judged on the rest of the part that plans:
nothing of what is held out is looked at. The half-life follows from the traffic alone (observe/forecast.py); the share
of community blocks and the rule for newcomers are those that did best. What did best then is also what is expected of
the plan: the same way to plan, judged on traffic that it had not seen.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from overlace.arrays.jit import Floats
from overlace.jobs.interval import PIECES, predicted, slices_of, sums_of, total
from overlace.jobs.newcomers import placed, rule_named
from overlace.jobs.observe import trace_of
from overlace.jobs.origins import Origin, origins_of
from overlace.jobs.solve import Wanted, check_is_for_traffic
from overlace.model import Observation, Overlay, Planner, Progress
from overlace.observe.forecast import BLOCKS, HALF_LIVES, PLAIN_SUMS, Forecast, expected, half_life_of, sliced
from overlace.observe.known import Known, known_as
from overlace.observe.later import Later, later
from overlace.planners.joint.joint import Joint
from overlace.planners.newcomers import RULES
from overlace.trace.plans import PlannedFor, Sure
from overlace.trace.runs import read_observation
from overlace.trace.store import Trace


class Ahead(NamedTuple):
    """What a plan is made for, and what is expected of it."""

    forecast: Forecast | None  # None: plain sums, since the part that plans is too short to choose
    tried: int  # candidates
    origins: int  # earlier times at which they were tried
    share: float  # of the part that plans, at its end, that chose
    rule: str  # for newcomers; empty: they stay where they connect
    expected: Sure | None
    sums: list[Floats]  # (before, after) by slices of time, of each plan from an earlier time

    def __str__(self) -> str:
        if self.forecast is None:
            return "plain sums; the part that plans is too short to choose another"
        if not self.origins:
            return f"{self.forecast}; the part that plans is too short to try community blocks"
        return f"{self.forecast}; chosen among {self.tried} on the last {self.share:.0%} of the part that plans"


NOTHING = Ahead(None, 1, 0, 0.0, "", None, [])


def look_ahead(
    trace: Trace, window: tuple[int, int], known: Known, observation: Observation, planner: Joint, seed: int,
    metric: str, progress: Progress | None = None, plain: bool = False,
) -> tuple[Ahead, Observation | None]:  # fmt: skip
    """(what was chosen, the observation to plan for): from the part that plans alone; no observation: as it is.

    Where plain sums are asked for, only the rule for newcomers is chosen.
    """
    if window == (0, 0):
        return NOTHING, None
    shares = BLOCKS[:1] if plain else BLOCKS
    slices = sliced(trace, window, known)
    days = None if plain else half_life_of(slices, observation.clients)
    tell = progress or (lambda share, what: None)
    tried: list[tuple[Origin, list[Overlay], list[float]]] = []
    for origin in origins_of(trace, window, known, planner):
        tell(0.5 * len(tried), "trying forecasts")
        found = _tried(trace, origin, days, shares, seed, metric)
        if found:
            tried.append((origin, *found))
    best = int(np.argmax(np.round(np.sum([saved for _, _, saved in tried], axis=0), 12))) if tried else 0
    forecast = Forecast(days, shares[best])
    rule, sums = _rule(trace, [(origin, after[best]) for origin, after, _ in tried], seed, metric)
    first = tried[0][0].observation.window[1] if tried else window[1]
    share = (window[1] - first) / (window[1] - window[0])
    chosen = Ahead(
        forecast, 1 if plain else len(HALF_LIVES) * len(BLOCKS), len(tried), share, rule, predicted(sums), sums
    )
    if forecast == PLAIN_SUMS:
        return chosen, None
    return chosen, expected(observation, slices, forecast, seed)


METRIC = {
    "cost": "cost", "messages": "link_messages", "bytes": "link_bytes", "hops": "mean_hops",
    "latency": "mean_latency_us",
}  # fmt: skip
"""What replay measures for each objective; where access has a cost, `total_cost` takes the place of `cost`."""


def measured_by(objective: str, observation: Observation) -> str:
    """What replay measures for an objective."""
    return "total_cost" if objective == "cost" and observation.network.access_cost.size else METRIC[objective]


def wanted_of(looked: Ahead, ahead: Observation | None) -> Wanted:
    """What was chosen, as a plan is made for it."""
    forecast = looked.forecast
    if forecast is None or ahead is None:
        return Wanted(None, None, looked.rule)
    return Wanted(PlannedFor(half_life_days=forecast.half_life, blocks=forecast.blocks), ahead, looked.rule)


def wanted_for(run: Path, planner: Planner, seed: int, progress: Progress | None = None) -> Wanted:
    """A forecast for a planner of a run: chosen as optimize does for `joint`, for others by the half-life alone."""
    check_is_for_traffic(planner)
    trace, parts = trace_of(run)
    observation, names = read_observation(run)
    known = known_as(trace, names)
    if isinstance(planner, Joint):
        objective = "bytes" if planner.weight == "bytes" and planner.objective == "messages" else planner.objective
        metric = measured_by(objective, observation)
        return wanted_of(*look_ahead(trace, parts.train, known, observation, planner, seed, metric, progress))
    slices = sliced(trace, parts.train, known)
    forecast = Forecast(half_life_of(slices, observation.clients))
    if forecast == PLAIN_SUMS:
        return Wanted()
    found = Ahead(forecast, len(HALF_LIVES), 0, 0.0, "", None, [])
    return wanted_of(found, expected(observation, slices, forecast, seed))


def _tried(
    trace: Trace, origin: Origin, days: float | None, shares: Sequence[float], seed: int, metric: str
) -> tuple[list[Overlay], list[float]] | None:
    """(overlays, shares saved): what the planner makes of each candidate at an origin; None where nothing is paid.

    More community blocks are tried as long as they save no less.
    """
    observation, follows = origin.observation, origin.later
    rows, before = follows.rows(), follows.overlay(observation.overlay)
    today = total(follows.stage, before, rows, trace.unit, metric)
    if not today > 0:
        return None
    slices = sliced(trace, observation.window, origin.known)
    made, saved = [], []
    for blocks in shares:
        forecast = Forecast(days, blocks)
        if forecast == PLAIN_SUMS:
            after = origin.planner.overlay(observation, seed)
        else:
            after = origin.planner.overlay(expected(observation, slices, forecast, seed), seed, plain=observation)
        made.append(after)
        saved.append(1 - total(follows.stage, follows.overlay(after), rows, trace.unit, metric) / today)
        if saved[-1] < max(saved):
            break
    return made, saved + [-np.inf] * (len(shares) - len(saved))


def _rule(trace: Trace, plans: list[tuple[Origin, Overlay]], seed: int, metric: str) -> tuple[str, list[Floats]]:
    """(rule, sums): the rule under which newcomers' messages cost least, and what each plan did with it, by slices.

    Where hardly anybody was new after the earlier times, some of those that were not are asked as if they were.
    """
    names = ("", *RULES)
    few = sum(len(origin.later.arrivals.client) for origin, _ in plans) < FEW
    cost = np.zeros(len(names))
    for origin, after in plans:
        new = _with_pretenders(trace, origin, seed) if few else origin.later
        rows = new.rows(np.flatnonzero(new.fresh))
        for i, name in enumerate(names):
            rule = rule_named(name, origin.observation, after, seed)
            if name and rule is None:
                cost[i] = np.inf
            elif rows.num_rows:
                cost[i] += total(new.stage, placed(origin.planner, new, after, rule), rows, trace.unit, metric)
    best = names[int(np.argmin(cost))]
    sums = []
    for origin, after in plans:
        follows = origin.later
        slices = slices_of(
            (origin.observation.window[1], int(follows.heard.bucket.max()) + 1), trace.bucket_us, most=PIECES
        )
        rule = rule_named(best, origin.observation, after, seed)
        overlays = follows.overlay(origin.observation.overlay), placed(origin.planner, follows, after, rule)
        sums.append(sums_of(follows, *overlays, trace.unit, metric, slices))
    return best, sums


FEW = 20
"""Newcomers below which others are asked as if they were new."""
PRETENDERS = 0.1
"""The share of clients that are."""


def _with_pretenders(trace: Trace, origin: Origin, seed: int) -> Later:
    """What followed an origin, as if some clients that had traffic had none."""
    clients = origin.observation.clients
    chosen = np.random.default_rng([seed, 16]).permutation(clients)[: int(np.ceil(PRETENDERS * clients))]
    begin = origin.observation.window[1]
    return later(trace, (begin, origin.until), origin.known, origin.observation, np.sort(chosen))
