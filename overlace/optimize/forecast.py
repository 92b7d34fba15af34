"""The forecast: the traffic to plan for, the rule for new clients and the saving to expect, from the training window.

At two earlier times the planner plans with each candidate, and the plans are judged on the rest of the training window:
nothing of what is held out is looked at. The half-life follows from the traffic alone (observe/forecast.py); the share
of community blocks and the rule for new clients are those that did best. What did best then is also what is expected of
the plan: the same way to plan, judged on traffic that it had not seen. The earlier times are five and six sevenths of
the training window, whole days of it where there are six or more.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from overlace.arrays.jit import Floats, Ints, Pairs
from overlace.arrays.pairs import positions
from overlace.catalog import planner_name
from overlace.errors import BadParameter, OverlaceError
from overlace.model import Observation, Overlay, Planner, Progress, name_of
from overlace.observe.forecast import BLOCKS, HALF_LIVES, expect_traffic, half_life_of, read_slices
from overlace.observe.known import IdMap, known_as
from overlace.observe.later import Later, later
from overlace.observe.observation import network_of, observe_with_names
from overlace.optimize.interval import PIECES, expect_saving, slices_of, sums_of, total
from overlace.optimize.newcomers import NONE_PINNED, NewClientRule, PinnedClients
from overlace.optimize.task import METRIC, Task, metric_of, objective_of, read_task
from overlace.planners.joint.joint import Joint
from overlace.planners.newcomers import RULES
from overlace.stopping import asked
from overlace.trace.judgement import Interval
from overlace.trace.plan_file import PLAIN_SUMS, ForecastModel
from overlace.trace.store import DAY_US, Trace


class Forecast(NamedTuple):
    """The traffic that a plan is made for, and what is expected of the plan."""

    model: ForecastModel | None = None  # None: plain sums, since the training window is too short to choose
    ahead: Observation | None = None  # the traffic to come; None: as observed
    rule: str = ""  # for new clients; empty: they stay where they connect
    pinned: PinnedClients = NONE_PINNED
    expected: Interval | None = None
    sums: Sequence[Floats] = ()  # (before, after) by slices of time, of each plan from an earlier time
    tried: int = 1  # candidates
    share: float = 0.0  # of the training window, at its end, that chose
    way: str = ""  # of WAYS: how clients move, if another way than the search saved more

    @property
    def applied(self) -> ForecastModel | None:
        """The model of the traffic to come, as a plan names it; None where it is planned for plain sums."""
        return self.model if self.ahead is not None else None

    def planner(self, planner: Joint) -> Joint:
        """The planner that plans as did best."""
        return replace(planner, **WAYS[self.way])

    def __str__(self) -> str:
        return self._model_text() + (f"; {self.way}, which saved more in trial plans" if self.way else "")

    def _model_text(self) -> str:
        if self.tried < 2:
            return "plain sums, as asked for" if self.model else "plain sums: there are no times to choose by"
        if not self.sums:
            return f"{self.model}; there was no earlier time to plan at, so community blocks were not tried"
        ages, blocks = len(HALF_LIVES), len(BLOCKS)
        return (
            f"{self.model}; chosen from {ages} half-lives (earlier client totals most like later ones) and {blocks} "
            f"shares of community blocks (best in trial plans on the last {self.share:.0%} of the training window)"
        )


WAYS: dict[str, dict[str, Any]] = {
    "": {},
    "clients moved greedily under the links of the plan": {"homes": "greedy"},
    "clients moved greedily under today's links": {"homes": "greedy", "max_swaps": 0},
}
"""Ways to plan that are tried at earlier times, as fields of the planner."""

AS_OBSERVED = Forecast()


def choose_forecast(
    task: Task,
    planner: Joint,
    metric: str,
    pinned: PinnedClients = NONE_PINNED,
    plain: bool = False,
    progress: Progress | None = None,
) -> Forecast:
    """The forecast that did best in the training window; where plain sums are asked for, only the rule is chosen."""
    trace, known, observation, window, seed = task.trace, task.known, task.observation, task.cut.train, task.goal.seed
    if window == (0, 0):
        return AS_OBSERVED._replace(pinned=pinned)
    shares = BLOCKS[:1] if plain else BLOCKS
    slices = read_slices(trace, window, known)
    days = None if plain else half_life_of(slices, observation.clients)
    report_progress = progress or (lambda share, what: None)
    tried: list[tuple[Origin, dict[float, Tried]]] = []
    for origin in origins_of(task, planner, metric):
        if asked():
            break
        report_progress(0.5 * len(tried), f"choosing a forecast: at earlier time {len(tried) + 1}")
        left = shares if not tried else sorted({shares[0], _best(tried)})
        models = [ForecastModel(half_life_days=days, blocks=blocks) for blocks in left]
        if found := _try_blocks(trace, origin, models, seed, metric):
            tried.append((origin, found))
    blocks = _best(tried) if tried else shares[0]
    model = ForecastModel(half_life_days=days, blocks=blocks)
    way, afters = _choose_way(trace, [(origin, found[blocks]) for origin, found in tried], model, seed, metric)
    plans = [
        (origin, after, NewClientRule(origin.planner, origin.observation, "", seed, pinned))
        for (origin, _), after in zip(tried, afters, strict=True)
    ]
    rule, sums = _choose_rule(trace, plans, seed, metric)
    first = tried[0][0].observation.window[1] if tried else window[1]
    return Forecast(
        model,
        None if model == PLAIN_SUMS else expect_traffic(observation, slices, model, seed),
        rule,
        pinned,
        expect_saving(sums),
        sums,
        tried=1 if plain else len(HALF_LIVES) * len(BLOCKS),
        share=(window[1] - first) / (window[1] - window[0]),
        way=way,
    )


def forecast_for(run: Path, planner: Planner, seed: int, progress: Progress | None = None) -> Forecast:
    """A forecast for a planner of a run: chosen as optimize does for `joint`, for others by the half-life alone."""
    check_is_for_traffic(planner)
    task = read_task(run)
    task = task._replace(goal=replace(task.goal, seed=seed))
    if router := planner.router:
        metric = metric_of(objective_of(planner), task.observation.network)
        keep, only = (tuple(name_of("client", c, task.names) for c in ids) for ids in (router.keep, router.only))
        return choose_forecast(task, router, metric, PinnedClients(keep, only), progress=progress)
    slices = read_slices(task.trace, task.cut.train, task.known)
    model = ForecastModel(half_life_days=half_life_of(slices, task.observation.clients))
    if model == PLAIN_SUMS:
        return AS_OBSERVED
    return Forecast(model, expect_traffic(task.observation, slices, model, seed), tried=len(HALF_LIVES))


def check_is_for_traffic(planner: Planner) -> None:
    """Refuse a forecast for a planner that does not plan homes or links of brokers."""
    if not {"placement", "tree"} & set(planner.facets):
        name, what = planner_name(planner), planner.facets[0]
        raise BadParameter(f"a forecast is of traffic between brokers; {name} plans {what}")


class Tried(NamedTuple):
    """What the planner made of a candidate at an earlier time, and the share it saved of what followed."""

    after: Overlay
    saved: float


def _best(tried: Sequence[tuple[Origin, dict[float, Tried]]]) -> float:
    """The blocks that saved most over all earlier times at which they were tried; the fewest of equals."""
    everywhere = sorted(set.intersection(*(set(found) for _, found in tried)))
    return max(everywhere, key=lambda blocks: round(sum(found[blocks].saved for _, found in tried), 12))


def _try_blocks(
    trace: Trace, origin: Origin, models: Sequence[ForecastModel], seed: int, metric: str
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
    for model in models:
        ahead = observation if model == PLAIN_SUMS else expect_traffic(observation, slices, model, seed)
        try:
            after = origin.planner.overlay(ahead, seed, plain=None if ahead is observation else observation)
        except OverlaceError:  # what was there by then cannot be planned for
            return {}
        left = total(follows.stage, follows.overlay(after), rows, trace.unit, metric)
        found[model.blocks] = Tried(after, 1 - left / today)
        if found[model.blocks].saved < max(each.saved for each in found.values()):
            break
    return found


def _choose_way(
    trace: Trace, tried: Sequence[tuple[Origin, Tried]], model: ForecastModel, seed: int, metric: str
) -> tuple[str, list[Overlay]]:
    """(way, overlays): the way to move clients that saved most over the earlier times, and what each came to with it.

    Another way than the search is taken only if it saved more at each of them.
    """
    afters: dict[str, list[Overlay]] = {way: [] for way in WAYS}
    saved: dict[str, list[float]] = {way: [] for way in WAYS}
    for origin, found in tried:
        observation, planner, follows = origin.observation, origin.planner, origin.later
        today, ahead = observation.overlay, observation
        if model != PLAIN_SUMS:
            ahead = expect_traffic(observation, read_slices(trace, observation.window, origin.known), model, seed)
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
    trace: Trace, plans: list[tuple[Origin, Overlay, NewClientRule]], seed: int, metric: str
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


EARLIER = (5 / 7, 6 / 7)
"""Shares of the training window."""
LONG_US = 6 * DAY_US


class Origin(NamedTuple):
    """An earlier time: what was known then, the planner as it would have been, and what came after."""

    observation: Observation
    known: IdMap
    planner: Joint
    later: Later
    until: int  # the end of that


def origins_of(task: Task, planner: Joint, metric: str) -> Iterator[Origin]:
    """The earlier times at which the planner could have planned, and what counts could have been measured.

    The planner's clients, brokers and links are given in the numbers of the whole window.
    """
    trace, known, window = task.trace, task.known, task.cut.train
    begin, end = window
    unit = DAY_US if end - begin >= LONG_US and DAY_US % trace.bucket_us == 0 else trace.bucket_us
    links = network_of(trace, window, known).links
    for origin in sorted({int(begin + share * (end - begin)) // unit * unit for share in EARLIER}):
        if not begin < origin < end:
            continue
        try:
            observation, names = observe_with_names(trace, (begin, origin))
        except OverlaceError:  # the system as it was then could not be planned for, whatever it is now
            continue
        then = known_as(trace, names)
        mine = by_then(planner, observation, links, Numbers.between(known, then))
        measured = metric != "total_cost" or observation.network.access_cost.size
        if metric == METRIC["latency"]:
            measured = not observation.network.unmeasured(observation.overlay.tree)
        if mine is None or not measured or not len(observation.classes) or not len(observation.overlay.tree):
            continue
        follows = later(trace, (origin, end), then, observation)
        if len(follows.traffic.client):
            yield Origin(observation, then, mine, follows, end)


class Numbers(NamedTuple):
    """By the numbers of the training window, those of an earlier origin; what was not known then has higher ones."""

    client: Ints
    broker: Ints

    @classmethod
    def between(cls, known: IdMap, then: IdMap) -> Numbers:
        """From what is known to what was known then."""
        return cls(*(then.number(kind, known.ids(kind)) for kind in ("client", "broker")))


def by_then(planner: Joint, observation: Observation, links: Pairs, to: Numbers | None = None) -> Joint | None:
    """The planner without what had not been seen by then; None if of the clients that may move nobody had.

    Links are rows of the network's, here those of the training window; by then there may have been fewer.
    """

    def numbers_then(ids: tuple[int, ...], place: Ints | None, most: int) -> tuple[int, ...]:
        then = ids if place is None else place[list(ids)].tolist() if ids else ()
        return tuple(sorted(n for n in then if n < most))

    clients, at = to or (None, None)
    keep, only = (numbers_then(ids, clients, observation.clients) for ids in (planner.keep, planner.only))
    if planner.only and not only:
        return None
    there = links if at is None or not len(links) else np.ascontiguousarray(np.sort(at[links], axis=1))
    rows = positions(observation.network.links, there)
    wire, stay = (
        tuple(sorted(int(rows[r]) for r in ids if rows[r] >= 0)) for ids in (planner.may_wire, planner.keep_links)
    )
    method = "joint" if planner.method == "best" else planner.method  # its rivals hardly ever find more
    brokers = numbers_then(planner.keep_brokers, at, observation.network.brokers)
    return replace(
        planner, keep=keep, only=only, may_wire=wire, keep_links=stay, keep_brokers=brokers, effort=0, method=method
    )
