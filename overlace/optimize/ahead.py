"""What to plan for: the forecast, the rule for newcomers and the saving to expect, chosen inside the part that plans.

At two earlier times the planner plans with each candidate, and the plans are judged on the rest of the part that plans:
nothing of what is held out is looked at. The half-life follows from the traffic alone (observe/forecast.py); the share
of community blocks and the rule for newcomers are those that did best. What did best then is also what is expected of
the plan: the same way to plan, judged on traffic that it had not seen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from overlace.arrays.jit import Floats
from overlace.errors import OverlaceError
from overlace.model import Observation, Overlay, Planner, Progress, name_of
from overlace.observe.forecast import BLOCKS, HALF_LIVES, expect_traffic, half_life_of, read_slices
from overlace.observe.known import Known, known_as
from overlace.observe.later import Later, later
from overlace.optimize.interval import PIECES, predicted, slices_of, sums_of, total
from overlace.optimize.newcomers import Placing
from overlace.optimize.observe import trace_of
from overlace.optimize.origins import Origin, origins_of
from overlace.optimize.solve import Wanted, check_is_for_traffic
from overlace.planners.joint.joint import Joint
from overlace.planners.newcomers import RULES
from overlace.stopping import asked
from overlace.trace.judgement import Interval
from overlace.trace.plan_file import PLAIN_SUMS, Forecast
from overlace.trace.runs import read_observation
from overlace.trace.store import Trace


class Ahead(NamedTuple):
    """What a plan is made for, and what is expected of it."""

    forecast: Forecast | None  # None: plain sums, since the part that plans is too short to choose
    tried: int  # candidates
    origins: int  # earlier times at which they were tried
    share: float  # of the part that plans, at its end, that chose
    rule: str  # for newcomers; empty: they stay where they connect
    expected: Interval | None
    sums: list[Floats]  # (before, after) by slices of time, of each plan from an earlier time

    def __str__(self) -> str:
        if self.tried < 2:
            return "plain sums, as asked for" if self.forecast else "plain sums: there are no times to choose by"
        if not self.origins:
            return f"{self.forecast}; there was no earlier time to plan at, so community blocks were not tried"
        ages, blocks = len(HALF_LIVES), len(BLOCKS)
        return (
            f"{self.forecast}; the half-life among {ages} by who says how much, the blocks among {blocks} by plans "
            f"judged on the last {self.share:.0%} of the part that plans"
        )


NOTHING = Ahead(None, 1, 0, 0.0, "", None, [])


def look_ahead(
    trace: Trace, window: tuple[int, int], known: Known, observation: Observation, planner: Joint, seed: int,
    metric: str, progress: Progress | None = None, plain: bool = False, keep: Sequence[str] = (),
    only: Sequence[str] = (),
) -> tuple[Ahead, Observation | None]:  # fmt: skip
    """(what was chosen, the observation to plan for): from the part that plans alone; no observation: as it is.

    Where plain sums are asked for, only the rule for newcomers is chosen. `keep` and `only` name clients that stay
    where they connect, and those that alone do not.
    """
    if window == (0, 0):
        return NOTHING, None
    shares = BLOCKS[:1] if plain else BLOCKS
    slices = read_slices(trace, window, known)
    days = None if plain else half_life_of(slices, observation.clients)
    tell = progress or (lambda share, what: None)
    tried: list[tuple[Origin, dict[float, Tried]]] = []
    for origin in origins_of(trace, window, known, planner, metric):
        if asked():
            break
        tell(0.5 * len(tried), f"choosing a forecast: at earlier time {len(tried) + 1}")
        left = shares if not tried else sorted({shares[0], _best(tried)})
        if found := _tried(trace, origin, days, left, seed, metric):
            tried.append((origin, found))
    blocks = _best(tried) if tried else shares[0]
    forecast = Forecast(half_life_days=days, blocks=blocks)
    plans = [
        (origin, found[blocks].after, Placing(origin.planner, origin.observation, "", seed, keep, only))
        for origin, found in tried
    ]
    rule, sums = _rule(trace, plans, seed, metric)
    first = tried[0][0].observation.window[1] if tried else window[1]
    share = (window[1] - first) / (window[1] - window[0])
    chosen = Ahead(
        forecast, 1 if plain else len(HALF_LIVES) * len(BLOCKS), len(tried), share, rule, predicted(sums), sums
    )
    if forecast == PLAIN_SUMS:
        return chosen, None
    return chosen, expect_traffic(observation, slices, forecast, seed)


METRIC = {
    "cost": "cost", "messages": "link_messages", "bytes": "link_bytes", "hops": "mean_hops",
    "latency": "mean_latency_us",
}  # fmt: skip
"""What replay measures for each objective; where access has a cost, `total_cost` takes the place of `cost`."""


def measured_by(objective: str, observation: Observation) -> str:
    """What replay measures for an objective."""
    return "total_cost" if objective == "cost" and observation.network.access_cost.size else METRIC[objective]


def wanted_of(looked: Ahead, ahead: Observation | None, keep: Sequence[str] = (), only: Sequence[str] = ()) -> Wanted:
    """What was chosen, as a plan is made for it."""
    return Wanted(looked.forecast if ahead is not None else None, ahead, looked.rule, tuple(keep), tuple(only))


def wanted_for(run: Path, planner: Planner, seed: int, progress: Progress | None = None) -> Wanted:
    """A forecast for a planner of a run: chosen as optimize does for `joint`, for others by the half-life alone."""
    check_is_for_traffic(planner)
    trace, parts = trace_of(run)
    observation, names = read_observation(run)
    known = known_as(trace, names)
    if isinstance(planner, Joint):
        objective = "bytes" if planner.weight == "bytes" and planner.objective == "messages" else planner.objective
        metric = measured_by(objective, observation)
        keep, only = ([name_of("client", c, names) for c in ids] for ids in (planner.keep, planner.only))
        found = look_ahead(
            trace, parts.train, known, observation, planner, seed, metric, progress, keep=keep, only=only
        )
        return wanted_of(*found, keep, only)
    slices = read_slices(trace, parts.train, known)
    forecast = Forecast(half_life_days=half_life_of(slices, observation.clients))
    if forecast == PLAIN_SUMS:
        return Wanted()
    looked = Ahead(forecast, len(HALF_LIVES), 0, 0.0, "", None, [])
    return wanted_of(looked, expect_traffic(observation, slices, forecast, seed))


class Tried(NamedTuple):
    """What the planner made of a candidate at an earlier time, and the share it saved of what followed."""

    after: Overlay
    saved: float


def _best(tried: Sequence[tuple[Origin, dict[float, Tried]]]) -> float:
    """The blocks that saved most over all earlier times at which they were tried; the fewest of equals."""
    everywhere = sorted(set.intersection(*(set(found) for _, found in tried)))
    return max(everywhere, key=lambda blocks: round(sum(found[blocks].saved for _, found in tried), 12))


def _tried(
    trace: Trace, origin: Origin, days: float | None, shares: Sequence[float], seed: int, metric: str
) -> dict[float, Tried]:
    """What came of each candidate at an origin, by its blocks; nothing where nothing is paid or can be planned.

    More community blocks are tried as long as they save no less.
    """
    observation, follows = origin.observation, origin.later
    rows, before = follows.rows(), follows.overlay(observation.overlay)
    today = total(follows.stage, before, rows, trace.unit, metric)
    if not today > 0:
        return {}
    slices = read_slices(trace, observation.window, origin.known)
    found: dict[float, Tried] = {}
    for blocks in shares:
        forecast = Forecast(half_life_days=days, blocks=blocks)
        ahead = observation if forecast == PLAIN_SUMS else expect_traffic(observation, slices, forecast, seed)
        try:
            after = origin.planner.overlay(ahead, seed, plain=None if ahead is observation else observation)
        except OverlaceError:  # what was there by then cannot be planned for
            return {}
        left = total(follows.stage, follows.overlay(after), rows, trace.unit, metric)
        found[blocks] = Tried(after, 1 - left / today)
        if found[blocks].saved < max(each.saved for each in found.values()):
            break
    return found


def _rule(
    trace: Trace, plans: list[tuple[Origin, Overlay, Placing]], seed: int, metric: str
) -> tuple[str, list[Floats]]:
    """(rule, sums): the rule under which newcomers' messages cost least, and what each plan did with it, by slices.

    Where hardly anybody was new after the earlier times, some of those that were not are asked as if they were. Where
    no client may move, newcomers stay where they connect.
    """
    still = any(0 in (p.planner.budget, p.planner.max_moves) for _, _, p in plans)
    names = ("",) if still else ("", *RULES)
    few = sum(len(origin.later.arrivals.client) for origin, _, _ in plans) < FEW
    cost = np.zeros(len(names))
    for origin, after, placing in plans:
        new = _with_pretenders(trace, origin, seed) if few else origin.later
        rows = new.rows(np.flatnonzero(new.fresh))
        for i, name in enumerate(names):
            mine = replace(placing, rule=name)
            if name and mine.rule_for(after) is None:
                cost[i] = np.inf
            elif rows.num_rows:
                cost[i] += total(new.stage, mine.overlay(new, after), rows, trace.unit, metric)
    best = names[int(np.argmin(cost))]
    sums = []
    for origin, after, placing in plans:
        follows = origin.later
        slices = slices_of((origin.observation.window[1], origin.until), trace.bucket_us, most=PIECES)
        overlays = follows.overlay(origin.observation.overlay), replace(placing, rule=best).overlay(follows, after)
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
