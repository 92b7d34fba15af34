"""What to plan for: the forecast, the rule for newcomers and the saving to expect, chosen in the training window.

At two earlier times the planner plans with each candidate, and the plans are judged on the rest of the training window:
nothing of what is held out is looked at. The half-life follows from the traffic alone (observe/forecast.py); the share
of community blocks and the rule for newcomers are those that did best. What did best then is also what is expected of
the plan: the same way to plan, judged on traffic that it had not seen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from overlace.arrays.jit import Floats
from overlace.errors import OverlaceError
from overlace.model import Observation, Overlay, Planner, Progress, name_of
from overlace.observe.forecast import BLOCKS, HALF_LIVES, expect_traffic, half_life_of, read_slices
from overlace.observe.known import known_as
from overlace.observe.later import Later, later
from overlace.optimize.case import Training, metric_of
from overlace.optimize.earlier import Origin, origins_of
from overlace.optimize.interval import PIECES, expect_saving, slices_of, sums_of, total
from overlace.optimize.newcomers import NOBODY, Placing, Stays
from overlace.optimize.observe import trace_of
from overlace.optimize.solve import Target, check_is_for_traffic, objective_of
from overlace.planners.joint.joint import Joint
from overlace.planners.newcomers import RULES
from overlace.stopping import asked
from overlace.trace.judgement import Interval
from overlace.trace.plan_file import PLAIN_SUMS, Forecast
from overlace.trace.runs import read_observation
from overlace.trace.store import Trace


class Outlook(NamedTuple):
    """What a plan is made for, and what is expected of it."""

    forecast: Forecast | None  # None: plain sums, since the training window is too short to choose
    tried: int  # candidates
    origins: int  # earlier times at which they were tried
    share: float  # of the training window, at its end, that chose
    rule: str  # for newcomers; empty: they stay where they connect
    expected: Interval | None
    sums: list[Floats]  # (before, after) by slices of time, of each plan from an earlier time
    way: str = ""  # of WAYS: how clients move, if another way than the search saved more

    def planner(self, planner: Joint) -> Joint:
        """The planner that plans as did best."""
        return replace(planner, **WAYS[self.way])

    def __str__(self) -> str:
        return self._forecast() + (f"; {self.way}, which saved more in trial plans" if self.way else "")

    def _forecast(self) -> str:
        if self.tried < 2:
            return "plain sums, as asked for" if self.forecast else "plain sums: there are no times to choose by"
        if not self.origins:
            return f"{self.forecast}; there was no earlier time to plan at, so community blocks were not tried"
        ages, blocks = len(HALF_LIVES), len(BLOCKS)
        return (
            f"{self.forecast}; chosen from {ages} half-lives (earlier client totals most like later ones) and {blocks} "
            f"shares of community blocks (best in trial plans on the last {self.share:.0%} of the training window)"
        )


WAYS: dict[str, dict[str, Any]] = {
    "": {},
    "clients moved greedily under the links of the plan": {"homes": "greedy"},
    "clients moved greedily under today's links": {"homes": "greedy", "max_swaps": 0},
}
"""Ways to plan that are tried at earlier times, as fields of the planner."""

NOTHING = Outlook(None, 1, 0, 0.0, "", None, [])


def choose_forecast(
    training: Training,
    planner: Joint,
    seed: int,
    metric: str,
    stays: Stays = NOBODY,
    plain: bool = False,
    progress: Progress | None = None,
) -> tuple[Outlook, Observation | None]:
    """(what was chosen, the observation to plan for): from the training window alone; no observation: as it is.

    Where plain sums are asked for, only the rule for newcomers is chosen.
    """
    trace, window, known, observation = training
    if window == (0, 0):
        return NOTHING, None
    shares = BLOCKS[:1] if plain else BLOCKS
    slices = read_slices(trace, window, known)
    days = None if plain else half_life_of(slices, observation.clients)
    tell = progress or (lambda share, what: None)
    tried: list[tuple[Origin, dict[float, Tried]]] = []
    for origin in origins_of(training, planner, metric):
        if asked():
            break
        tell(0.5 * len(tried), f"choosing a forecast: at earlier time {len(tried) + 1}")
        left = shares if not tried else sorted({shares[0], _best(tried)})
        forecasts = [Forecast(half_life_days=days, blocks=blocks) for blocks in left]
        if found := _try_blocks(trace, origin, forecasts, seed, metric):
            tried.append((origin, found))
    blocks = _best(tried) if tried else shares[0]
    forecast = Forecast(half_life_days=days, blocks=blocks)
    way, afters = _choose_way(trace, [(origin, found[blocks]) for origin, found in tried], forecast, seed, metric)
    plans = [
        (origin, after, Placing(origin.planner, origin.observation, "", seed, stays))
        for (origin, _), after in zip(tried, afters, strict=True)
    ]
    rule, sums = _choose_rule(trace, plans, seed, metric)
    first = tried[0][0].observation.window[1] if tried else window[1]
    share = (window[1] - first) / (window[1] - window[0])
    chosen = Outlook(
        forecast, 1 if plain else len(HALF_LIVES) * len(BLOCKS), len(tried), share, rule, expect_saving(sums), sums, way
    )
    if forecast == PLAIN_SUMS:
        return chosen, None
    return chosen, expect_traffic(observation, slices, forecast, seed)


def target_of(outlook: Outlook, ahead: Observation | None, stays: Stays = NOBODY) -> Target:
    """What was chosen, as a plan is made for it."""
    return Target(outlook.forecast if ahead is not None else None, ahead, outlook.rule, stays)


def target_for(run: Path, planner: Planner, seed: int, progress: Progress | None = None) -> Target:
    """A forecast for a planner of a run: chosen as optimize does for `joint`, for others by the half-life alone."""
    check_is_for_traffic(planner)
    trace, parts = trace_of(run)
    observation, names = read_observation(run)
    training = Training(trace, parts.train, known_as(trace, names), observation)
    if isinstance(planner, Joint):
        metric = metric_of(objective_of(planner), observation.network)
        keep, only = (tuple(name_of("client", c, names) for c in ids) for ids in (planner.keep, planner.only))
        stays = Stays(keep, only)
        return target_of(*choose_forecast(training, planner, seed, metric, stays, progress=progress), stays)
    slices = read_slices(trace, parts.train, training.known)
    forecast = Forecast(half_life_days=half_life_of(slices, observation.clients))
    if forecast == PLAIN_SUMS:
        return Target()
    outlook = Outlook(forecast, len(HALF_LIVES), 0, 0.0, "", None, [])
    return target_of(outlook, expect_traffic(observation, slices, forecast, seed))


class Tried(NamedTuple):
    """What the planner made of a candidate at an earlier time, and the share it saved of what followed."""

    after: Overlay
    saved: float


def _best(tried: Sequence[tuple[Origin, dict[float, Tried]]]) -> float:
    """The blocks that saved most over all earlier times at which they were tried; the fewest of equals."""
    everywhere = sorted(set.intersection(*(set(found) for _, found in tried)))
    return max(everywhere, key=lambda blocks: round(sum(found[blocks].saved for _, found in tried), 12))


def _try_blocks(
    trace: Trace, origin: Origin, forecasts: Sequence[Forecast], seed: int, metric: str
) -> dict[float, Tried]:
    """What came of each forecast at an origin, by its blocks; nothing where nothing is paid or can be planned.

    More community blocks are tried as long as they save no less.
    """
    observation, follows = origin.observation, origin.later
    rows, before = follows.rows(), follows.overlay(observation.overlay)
    today = total(follows.stage, before, rows, trace.unit, metric)
    if not today > 0:
        return {}
    slices = read_slices(trace, observation.window, origin.known)
    found: dict[float, Tried] = {}
    for forecast in forecasts:
        ahead = observation if forecast == PLAIN_SUMS else expect_traffic(observation, slices, forecast, seed)
        try:
            after = origin.planner.overlay(ahead, seed, plain=None if ahead is observation else observation)
        except OverlaceError:  # what was there by then cannot be planned for
            return {}
        left = total(follows.stage, follows.overlay(after), rows, trace.unit, metric)
        found[forecast.blocks] = Tried(after, 1 - left / today)
        if found[forecast.blocks].saved < max(each.saved for each in found.values()):
            break
    return found


def _choose_way(
    trace: Trace, tried: Sequence[tuple[Origin, Tried]], forecast: Forecast, seed: int, metric: str
) -> tuple[str, list[Overlay]]:
    """(way, overlays): the way to move clients that saved most over the earlier times, and what each came to with it.

    Another way than the search is taken only if it saved more at each of them.
    """
    afters: dict[str, list[Overlay]] = {way: [] for way in WAYS}
    saved: dict[str, list[float]] = {way: [] for way in WAYS}
    for origin, found in tried:
        observation, planner, follows = origin.observation, origin.planner, origin.later
        today, ahead = observation.overlay, observation
        if forecast != PLAIN_SUMS:
            ahead = expect_traffic(observation, read_slices(trace, observation.window, origin.known), forecast, seed)
        plain = None if ahead is observation else observation
        links = len(today.changes_to(replace(today, tree=found.after.tree)).facet) // 2
        most = min(each for each in (planner.max_moves, planner.budget, observation.clients) if each is not None)
        rest = most if planner.budget is None else min(most, planner.budget - links)
        rows, before = follows.rows(), follows.overlay(today)
        paid = total(follows.stage, before, rows, trace.unit, metric)
        for way, tree, moves in zip(WAYS, (None, found.after.tree, today.tree), (0, rest, most), strict=True):
            after = found.after if tree is None else planner.greedy(ahead, tree, moves, plain)
            afters[way].append(after)
            left = total(follows.stage, follows.overlay(after), rows, trace.unit, metric)
            saved[way].append(found.saved if tree is None else 1 - left / paid)
    better = [way for way in WAYS if all(a > b + 1e-12 for a, b in zip(saved[way], saved[""], strict=True))]
    best = max(["", *better], key=lambda way: sum(saved[way]))
    return best, afters[best]


def _choose_rule(
    trace: Trace, plans: list[tuple[Origin, Overlay, Placing]], seed: int, metric: str
) -> tuple[str, list[Floats]]:
    """(rule, sums): the rule under which newcomers' messages cost least; what the changes of each plan did, by slices.

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
    for origin, after, _ in plans:
        follows = origin.later
        slices = slices_of((origin.observation.window[1], origin.until), trace.bucket_us, most=PIECES)
        overlays = follows.overlay(origin.observation.overlay), follows.overlay(after)
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
