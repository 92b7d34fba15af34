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
from overlace.errors import BadPlan, BadTrace, OverlaceError, Unknown
from overlace.model import Names, Network, Observation, Overlay, Plan, Planner, Progress
from overlace.observe.cut import Cut, cut
from overlace.observe.forecast import expect_traffic, read_slices
from overlace.observe.known import known_as
from overlace.observe.later import later
from overlace.observe.observation import observe_with_names
from overlace.observe.traffic import traffic_of
from overlace.optimize.interval import total
from overlace.optimize.joined import InPlace, Joined
from overlace.optimize.solve import plan_for
from overlace.replay.measure import measure
from overlace.trace.plans import load_plan, read_plan
from overlace.trace.runs import read_json, read_observation
from overlace.trace.store import Trace

METRIC = {"hops": "mean_broker_hops", "latency": "mean_latency_us", "messages": "link_messages", "cost": "cost"}
"""What replay measures for each objective, as planners count it: for a plan that was not judged."""
MIN_GAIN = 0.01
Standing = Literal["planned", "applied"]
"""Which overlay stands now: as the plan has it, or as the newer trace shows it."""


class Drift(NamedTuple):
    """What newer traffic says of a plan."""

    plan: str
    overlay: Standing  # what `after`, the loads now and planning again are about
    metric: str
    predicted: float  # share saved where the plan was judged, or where it was made
    before: float  # the overlay as it was, on the newer traffic
    after: float  # the overlay that stands now, on the newer traffic
    unseen: float  # share of the newer messages that clients sent whom the plan never saw
    loads: list[tuple[str, float, float]]  # broker, share of messages sent there then and now, most changed first
    again: float  # share that planning again on the first part of the newer traffic saves of the rest
    min_gain: float  # what the plan itself had to save
    in_place: InPlace
    rule: str = ""  # for newcomers, which the promise counted

    @property
    def seen(self) -> float:
        """The share that is saved on the newer traffic."""
        return 1 - self.after / self.before if self.before else 0.0


def drift(
    run: Path, path: str, plan: str | None = None, *, overlay: Standing = "planned", progress: Progress | None = None
) -> Drift:
    """Replay a run's plan, or what was applied of it, on a newer trace."""
    tell = progress or (lambda share, what: None)
    if overlay not in get_args(Standing):
        raise Unknown("overlay", overlay, get_args(Standing))
    observation, names = read_observation(run)
    folder = _plan_of(run, plan)
    made = load_plan(folder, PLANNERS, observation)
    if not {"placement", "tree"} & set(made.planner.facets):
        raise BadPlan(f"{folder.name} plans {', '.join(made.planner.facets)}; drift is about placement and tree")
    tell(0.1, "observing")
    trace = Trace.open(path)
    newer, newer_names = observe_with_names(trace)
    joined = Joined(observation.network, names, newer, newer_names)
    before = joined.overlay(made.before)
    after = joined.overlay(made.after) if overlay == "planned" else joined.applied(made.before)
    start = replace(joined.newer, network=joined.network, overlay=after)
    tell(0.4, "replaying")
    rows, metric = (
        traffic_of(trace, None, known_as(trace, newer_names)),
        _metric(folder, made.planner, observation.network),
    )
    costs = [_measured(start, each, rows, trace, metric) for each in (before, after)]
    tell(0.7, "planning again")
    again = _planned_again(folder, made, trace, observation, names, overlay, metric)
    then = _shares(observation, made.after)[np.argsort(joined.broker)]
    judged = read_plan(folder).judged
    return Drift(
        plan=folder.name,
        overlay=overlay,
        metric=metric,
        predicted=_predicted(folder, made, observation),
        before=costs[0],
        after=costs[1],
        unseen=joined.unseen(observation),
        loads=_changed(then, _shares(start, after), newer_names),
        again=again,
        min_gain=judged.min_gain(MIN_GAIN) if judged else MIN_GAIN,
        in_place=joined.in_place(made),
        rule=new.rule if (new := read_plan(folder).newcomers) else "",
    )


def _planned_again(
    folder: Path, made: Plan, trace: Trace, observation: Observation, names: Names, overlay: Standing, metric: str
) -> float:
    """The share that planning again saves on the rest of a newer trace, planned on its first part."""
    span = trace.span()
    try:
        parts = cut(trace)
        return _again(folder, made, trace, parts, observation, names, overlay, metric)
    except OverlaceError:  # too short to cut, or not all of the system was there by then
        return _again(folder, made, trace, Cut(span, span, 1.0), observation, names, overlay, metric)


def _again(
    folder: Path, made: Plan, trace: Trace, parts: Cut, observation: Observation, names: Names, overlay: Standing,
    metric: str,
) -> float:  # fmt: skip
    """The share that planning on one part of a newer trace saves on another."""
    first, first_names = observe_with_names(trace, parts.train)
    joined = Joined(observation.network, names, first, first_names)
    after = joined.overlay(made.after) if overlay == "planned" else joined.applied(made.before)
    if metric == "total_cost" and not joined.network.access_cost.size:
        raise BadTrace("the first part of the newer trace does not say what it costs to reach a broker")
    start, known = replace(joined.newer, network=joined.network, overlay=after), known_as(trace, first_names)
    ahead, forecast = None, read_plan(folder).forecast
    if forecast is not None:
        slices = read_slices(trace, parts.train, known)
        ahead = expect_traffic(start, slices, forecast, made.seed)
    fresh = plan_for(joined.planner(made.planner, observation.network), start, ahead, made.seed)
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


def _predicted(folder: Path, made: Plan, observation: Observation) -> float:
    """What was promised: on the held-out part where optimize judged it, else on the part it was made from."""
    judged = read_plan(folder).judged
    if judged and judged.saving:
        return judged.saving.share
    before = made.planner.cost(observation, made.before)
    return made.gain / before if before else 0.0


def _metric(folder: Path, planner: Planner, network: Network) -> str:
    """What the plan was judged by; if it was not, what replay measures of its planner's objective."""
    judged = read_plan(folder).judged
    if judged and judged.metrics:
        return judged.metrics[0].metric
    objective = getattr(planner, "objective", "cost")
    if objective == "cost" and "placement" in planner.facets and network.access_cost.size:
        return "total_cost"
    if objective == "messages" and getattr(planner, "weight", "messages") == "bytes":
        return "link_bytes"
    return METRIC.get(objective, "cost")


def _measured(observation: Observation, overlay: Overlay, rows: pa.Table, trace: Trace, metric: str) -> float:
    """A metric of an overlay on the newer traffic; refused if that does not say enough."""
    if rows.num_rows == 0:
        raise BadTrace("the newer trace holds no messages, so there is nothing to replay")
    found = measure(observation, overlay, rows, trace.unit)
    if not (found.metric == metric).any():
        raise BadTrace(f"the newer trace does not say what {metric} needs: ingest the same tables as for the run")
    return found.of(metric)


def _changed(then: Floats, now: Floats, names: Names) -> list[tuple[str, float, float]]:
    """(broker, share then, share now) of the messages that are sent there, the most changed first."""
    called = list(names.get("broker", ()))
    order = np.argsort(-np.abs(now - then), kind="stable")
    return [(called[b], float(then[b]), float(now[b])) for b in order.tolist()]


def _shares(observation: Observation, overlay: Overlay) -> Floats:
    homes = overlay.homes(observation.clients)
    placed = homes >= 0
    sums = np.bincount(homes[placed], weights=observation.sent[placed], minlength=observation.network.brokers)
    return np.asarray(sums / max(1.0, sums.sum()), dtype=np.float64)
