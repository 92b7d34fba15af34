"""Drift: does a plan still hold on newer traffic, and would planning again pay?

The overlay as it was and the one that stands now are replayed on the newer trace, clients and brokers joined by name.
What stands now is the plan (clients that it never saw are where the newer trace has them), or what the newer trace
itself shows: homes by its sessions, and the links that are wired there. Then the plan's own planner plans again from
there, on the first part of the newer trace, for what it planned for before, and is judged on the rest: if that saves
less than `min_gain`, nothing should be done. Where the newer trace is too short to cut, all of it plans and judges.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Literal, NamedTuple, get_args

import numpy as np
import pyarrow as pa

from overlace.arrays.jit import Floats
from overlace.catalog import PLANNERS
from overlace.errors import Absent, BadPlan, BadTrace, OverlaceError, Unknown
from overlace.limits import Limits
from overlace.model import Names, Network, Observation, Overlay, Plan, Planner, Progress
from overlace.observe.cut import Cut, cut
from overlace.observe.forecast import expect_traffic, read_slices
from overlace.observe.known import known_as
from overlace.observe.later import later
from overlace.observe.observation import observe_with_names
from overlace.observe.traffic import traffic_of
from overlace.optimize.case import metric_of
from overlace.optimize.interval import total
from overlace.optimize.joined import InPlace, Joined
from overlace.optimize.solve import objective_of, plan_for
from overlace.replay.measure import measure
from overlace.trace.judgement import Judgement
from overlace.trace.plan_file import PlanFile
from overlace.trace.plans import load_plan, read_plan
from overlace.trace.runs import read_json, read_observation
from overlace.trace.store import Trace

MIN_GAIN = Limits().min_gain
Overlays = Literal["planned", "applied"]
"""Which overlay stands now: as the plan has it, or as the newer trace shows it."""


class Drift(NamedTuple):
    """What newer traffic says of a plan."""

    plan: str
    overlay: Overlays  # what `after`, the loads now and planning again are about
    metric: str
    predicted: float  # share saved where the plan was judged, or where it was made
    before: float  # the overlay as it was, on the newer traffic
    after: float  # the overlay that stands now, on the newer traffic
    unseen: float  # share of the newer messages that clients sent whom the plan never saw
    loads: list[tuple[str, float, float]]  # broker, share of messages sent there then and now, most changed first
    again: float  # share that planning again on the first part of the newer traffic saves of the rest
    min_gain: float  # what the plan itself had to save
    in_place: InPlace

    @property
    def seen(self) -> float:
        """The share that is saved on the newer traffic."""
        return 1 - self.after / self.before if self.before else 0.0


def drift(
    run: Path,
    newer_trace: str | Trace,
    plan: str | None = None,
    *,
    overlay: Overlays = "planned",
    progress: Progress | None = None,
) -> Drift:
    """Replay a run's plan, or what was applied of it, on a newer trace."""
    tell = progress or (lambda share, what: None)
    if overlay not in get_args(Overlays):
        raise Unknown("overlay", overlay, get_args(Overlays))
    observation, names = read_observation(run)
    folder = _plan_of(run, plan)
    document = read_plan(folder)
    made = load_plan(folder, PLANNERS, observation)
    if not {"placement", "tree"} & set(made.planner.facets):
        raise BadPlan(f"{folder.name} plans {', '.join(made.planner.facets)}; drift is about placement and tree")
    tell(0.1, "observing")
    trace = newer_trace if isinstance(newer_trace, Trace) else Trace.open(newer_trace)
    newer, newer_names = observe_with_names(trace)
    stands = Standing(made, document, observation, names, overlay)
    joined, after = stands.join(newer, newer_names)
    before = joined.overlay(made.before)
    start = replace(joined.newer, network=joined.network, overlay=after)
    tell(0.4, "replaying")
    rows, judged = traffic_of(trace, None, known_as(trace, newer_names)), document.judged
    metric = _metric(judged, made.planner, observation.network)
    costs = [_measure(start, each, rows, trace, metric) for each in (before, after)]
    tell(0.7, "planning again")
    again = _saved_again(stands, trace, metric)
    then = _sent_shares(observation, made.after)[np.argsort(joined.broker)]
    return Drift(
        plan=folder.name,
        overlay=overlay,
        metric=metric,
        predicted=_promised_share(judged, made, observation),
        before=costs[0],
        after=costs[1],
        unseen=joined.unseen(observation),
        loads=_rank_changes(then, _sent_shares(start, after), newer_names),
        again=again,
        min_gain=judged.min_gain(MIN_GAIN) if judged else MIN_GAIN,
        in_place=joined.in_place(made),
    )


class Standing(NamedTuple):
    """A plan of a run, and what is taken to stand now: the plan, or what a newer trace shows."""

    made: Plan
    document: PlanFile
    observation: Observation  # of the run
    names: Names
    overlay: Overlays

    def join(self, newer: Observation, names: Names) -> tuple[Joined, Overlay]:
        """The run and a newer observation joined by name, and the overlay that stands."""
        joined = Joined(self.observation.network, self.names, newer, names)
        planned = self.overlay == "planned"
        return joined, joined.overlay(self.made.after) if planned else joined.applied(self.made.before)


def _saved_again(stands: Standing, trace: Trace, metric: str) -> float:
    """The share that planning again saves on the rest of a newer trace, planned on its first part."""
    span = trace.span()
    try:
        return _saved_on(stands, trace, cut(trace), metric)
    except OverlaceError:  # too short to cut, or not all of the system was there by then
        return _saved_on(stands, trace, Cut(span, span, 1.0), metric)


def _saved_on(stands: Standing, trace: Trace, parts: Cut, metric: str) -> float:
    """The share that planning on one part of a newer trace saves on another."""
    first, first_names = observe_with_names(trace, parts.train)
    joined, after = stands.join(first, first_names)
    if metric == "total_cost" and not joined.network.access_cost.size:
        raise BadTrace("the first part of the newer trace does not say what it costs to reach a broker")
    start, known = replace(joined.newer, network=joined.network, overlay=after), known_as(trace, first_names)
    made, forecast = stands.made, stands.document.forecast
    ahead = None
    if forecast is not None:
        slices = read_slices(trace, parts.train, known)
        ahead = expect_traffic(start, slices, forecast, made.seed)
    fresh = plan_for(joined.planner(made.planner, stands.observation.network), start, ahead, made.seed)
    rest = later(trace, parts.held_out, known, start)
    rows = rest.rows()
    if not rows.num_rows:
        return 0.0
    costs = [total(rest.stage, rest.overlay(each), rows, trace.unit, metric) for each in (after, fresh.after)]
    return 1 - costs[1] / costs[0] if costs[0] else 0.0


def _plan_of(run: Path, plan: str | None) -> Path:
    folders = sorted(each.parent for each in (run / "plans").glob("*/plan.json"))
    if plan:
        folders = [each for each in folders if each.name == plan]
    elif (run / "answer.json").exists():
        named = {part["plan"] for part in read_json(run / "answer.json")["parts"]}
        folders = [each for each in folders if each.name in named] or folders
    if len(folders) != 1:
        listed = ", ".join(each.name for each in folders) or "none"
        raise BadPlan(f"{run} holds {len(folders)} plans that could be meant ({listed}). Say which with --plan.")
    return folders[0]


def _promised_share(judged: Judgement | None, made: Plan, observation: Observation) -> float:
    """What was promised: on held-out traffic where optimize judged it, else in the training window."""
    if judged and judged.saving:
        return judged.saving.share
    before = made.planner.cost(observation, made.before)
    return made.gain / before if before else 0.0


def _metric(judged: Judgement | None, planner: Planner, network: Network) -> str:
    """What the plan was judged by; if it was not, what replay measures of its planner's objective."""
    if judged and judged.metrics:
        return judged.metrics[0].metric
    return metric_of(objective_of(planner), network if "placement" in planner.facets else Network(), judged=False)


def _measure(observation: Observation, overlay: Overlay, rows: pa.Table, trace: Trace, metric: str) -> float:
    """A metric of an overlay on the newer traffic; refused if that does not say enough."""
    if rows.num_rows == 0:
        raise Absent("the newer trace holds no messages, so there is nothing to replay")
    found = measure(observation, overlay, rows, trace.unit)
    if metric not in found:
        raise BadTrace(f"the newer trace does not say what {metric} needs: ingest the same tables as for the run")
    return found.of(metric)


def _rank_changes(then: Floats, now: Floats, names: Names) -> list[tuple[str, float, float]]:
    """(broker, share then, share now) of the messages that are sent there, the most changed first."""
    called = list(names.get("broker", ()))
    order = np.argsort(-np.abs(now - then), kind="stable")
    return [(called[b], float(then[b]), float(now[b])) for b in order.tolist()]


def _sent_shares(observation: Observation, overlay: Overlay) -> Floats:
    homes = overlay.homes(observation.clients)
    placed = homes >= 0
    sums = np.bincount(homes[placed], weights=observation.sent[placed], minlength=observation.network.brokers)
    return np.asarray(sums / max(1.0, sums.sum()), dtype=np.float64)
