"""The verdict on a plan: before and after on both parts of the log, how sure that is, and what simpler ways reach.

A plan can be stopped after any step, so its gain curve is measured too: the overlay after so many steps is replayed on
the traffic that judges. Short plans are measured after every step. Of longer ones, the points are spread as much over
what the planner expects of the steps as over the steps: a steep beginning is seen too.

Keeps: the first point of a curve is today and the last is the whole plan, with the figures that judged them.
Reads: how many points there are follows from the size of the traffic, never from a clock: plan.json has stable bytes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from overlace.arrays.jit import Ints
from overlace.limits import as_document, as_flag
from overlace.metrics import Metrics
from overlace.model import Steps
from overlace.observe.later import Later, strangers
from overlace.optimize.forecast import LONG_US, Forecast
from overlace.optimize.interval import saving, slices_of, sums_of, total
from overlace.optimize.newcomers import NewClientRule, PinnedClients, split_clients
from overlace.optimize.plan import CHANNELS, MESH, ROUTED, Solved, without_effect
from overlace.optimize.replay import PartTraffic, Replayed
from overlace.optimize.result import Verdict
from overlace.optimize.task import Task
from overlace.optimize.words import Units
from overlace.planners.joint.joint import Joint
from overlace.replay.measure import measure
from overlace.stopping import asked
from overlace.trace.judgement import Baseline, GroupCost, Judgement, Measure, Point, RuleSaving
from overlace.trace.plan_tables import PlanColumns, count_changes
from overlace.trace.plans import with_judgement
from overlace.trace.tables import groups
from overlace.wording import percent

LOADS = "local_share max_broker_load max_link_load cut_share_max deliveries homeless"
ALSO = {
    ROUTED: f"cost total_cost link_messages link_bytes mean_hops mean_latency_us p95_latency_us {LOADS}".split(),
    CHANNELS: "false_positive_rate received mean_connections over_limit channels".split(),
    MESH: "max_degree average_degree max_diameter links topic_connected".split(),
}
"""What is written into a plan of each family; of channels and meshes the first is what counts."""

GAP = 1 / 3
"""Of the saving in the training window: a gap so large is named."""


Part = Literal["train", "held-out"]


@dataclass(frozen=True, eq=False)
class Evaluation:
    """What plans are judged by: a task, the forecast they were made for, its traffic, and what was replayed of it."""

    task: Task
    forecast: Forecast
    traffic: Mapping[str, PartTraffic]
    done: Sequence[Replayed]

    def of(self, plan: str, part: str) -> Metrics:
        """What was measured of a plan, or of today's overlay, on a part."""
        return next(each.metrics for each in self.done if (each.plan, each.part) == (plan, part))


def judge(family: str, solved: Solved, by: Evaluation, joint: Joint | None = None) -> Verdict:
    """Before and after on both parts and how sure that is; of a plan for placement and tree, what `joint` bounds."""
    task, plan = by.task, solved.folder.name
    metric = task.metric if joint else ALSO[family][0]
    parts: tuple[Part, ...] = ("train", "held-out") if joint and task.held_out else ("train",)
    followed = _follow(joint, solved, by, parts[-1]) if joint else {"saving": None}
    sheets = {part: (by.of("", part), by.of(plan, part)) for part in parts}
    every = [metrics for both in sheets.values() for metrics in both]
    measured = [each for each in ALSO[family] if any(each in metrics for metrics in every)]
    measured = [each for each in measured if "latency" not in each or all(each in metrics for metrics in every)]
    judged = Judgement(
        train=list(task.cut.train),
        held_out=list(task.cut.held_out),
        train_share=task.cut.share,
        objective=task.goal.objective,
        limits=as_document(task.limits, task.goal),
        **followed,
        expected=by.forecast.expected if joint else None,
        metrics=[
            Measure(metric=each, part=part, before=before.get(each), after=after.get(each))
            for part, (before, after) in sheets.items()
            for each in dict.fromkeys((metric, *measured))
        ],
    )
    document = with_judgement(solved.document, judged)
    forecast = str(by.forecast) if joint else ""
    notes = _notes_of(family, judged, by.of(plan, parts[-1]), task)
    units = Units(task.trace.unit, task.links_priced)
    return Verdict(family, solved.folder, document, units, notes=notes, forecast=forecast, made=solved.plan)


def _follow(joint: Joint, solved: Solved, by: Evaluation, part: Part) -> dict[str, Any]:
    """What a plan does on the traffic that judges it, stretch by stretch and step by step, and a greedy baseline."""
    task, (window, follows) = by.task, by.traffic[part]
    trace, observation, earlier = task.trace, task.observation, by.forecast.sums
    metric, plan = task.metric, solved.plan
    before, then = follows.overlay(observation.overlay), follows.overlay(plan.after)
    curve = []
    if not asked():
        ends = by.of("", part), by.of(solved.folder.name, part)
        columns = PlanColumns(plan.changes, plan.steps)
        curve = curve_of(follows, columns, trace.unit, metric, solved.document.cost_before, ends)
    daily = task.cut.train[1] - task.cut.train[0] >= LONG_US and len(earlier) > 0
    slices = slices_of(window if window != (0, 0) else trace.span(), trace.bucket_us, daily=daily)
    judged = saving(sums_of(follows, before, then, trace.unit, metric, slices), earlier)
    split, by_rule = [], None
    if follows.fresh.any():
        split = split_clients(follows, before, then, trace.unit, metric)
        by_rule = _by_rule(joint, solved, task, follows, split)
    baselines = _baselines(joint, solved, task, follows)
    return {"saving": judged, "curve": curve, "apart": split, "newcomers": by_rule, "baselines": baselines}


def _by_rule(joint: Joint, solved: Solved, task: Task, follows: Later, split: list[GroupCost]) -> RuleSaving | None:
    """What the rule for newcomers saves beyond the listed changes, and how many it sends elsewhere."""
    new, after = solved.document.newcomers, solved.plan.after
    if new is None:
        return None
    pinned = PinnedClients(tuple(new.keep), tuple(new.only))
    placing = NewClientRule(joint, task.observation, new.rule, solved.plan.seed, pinned)
    rule = placing.rule_for(after)
    arrivals, paid = follows.arrivals, sum(each.before for each in split)
    homes = placing.homes(follows, after, rule) if rule else arrivals.home
    rows = follows.rows(np.flatnonzero(follows.fresh))
    left = total(follows.stage, follows.overlay(after, homes), rows, task.trace.unit, task.metric)
    return RuleSaving(
        share=(split[1].after - left) / paid if paid else 0.0,
        newcomers=len(arrivals.client),
        elsewhere=int((homes != arrivals.home).sum()),
    )


def _baselines(joint: Joint, solved: Solved, task: Task, follows: Later) -> list[Baseline]:
    """What a greedy way saves with at most as many changes, under the plan's links and under today's."""
    counts, observation, metric = solved.document.counts, task.observation, task.metric
    changes = counts.moves + counts.links
    if not changes:
        return []
    rows, today, unit = follows.rows(), observation.overlay.tree, task.trace.unit
    paid = total(follows.stage, follows.overlay(observation.overlay), rows, unit, metric) if rows.num_rows else 0.0
    if not paid > 0:
        return []
    ways: list[tuple[Literal["planned", "today"], int]] = [("planned", counts.moves)] if counts.links else []
    found = []
    for links, moves in [*ways, ("today", changes)]:
        tree = solved.plan.after.tree if links == "planned" else today
        most = moves if joint.max_moves is None else min(moves, joint.max_moves)
        overlay = joint.greedy(observation, tree, most)
        made = count_changes(observation.overlay.changes_to(overlay))
        left = total(follows.stage, follows.overlay(overlay), rows, unit, metric)
        if made.moves or links == "planned":
            found.append(Baseline(links=links, changes=made.moves + made.links, share=1 - left / paid))
    return found


def _notes_of(family: str, judged: Judgement, metrics: Metrics, task: Task) -> list[str]:
    """What a reader of the figures must know."""
    notes = []
    if family == ROUTED and (lost := metrics.get("homeless")):
        share = lost / (lost + metrics.of("deliveries"))
        notes.append(
            f"{share:.1%} of the deliveries that judge are not counted: the log does not show where their sender "
            "or receiver was connected"
        )
    if ignored := without_effect(family, task.given):
        notes.append(f"{family}: not limited by {', '.join(map(as_flag, ignored))}")
    return notes


def explain_gap(verdict: Verdict, follows: Later) -> str:
    """Why a plan saves far less than in the training window, or another share than expected, as a sentence."""
    if verdict.part != "held-out" or verdict.saving is None or verdict.train <= 0:
        return ""
    saved, expected = verdict.saving.share, verdict.judged.expected
    surprises = expected is not None and not expected.low <= saved <= expected.high
    if saved >= (1 - GAP) * verdict.train and not surprises:
        return ""
    causes = []
    paid = {each.clients: each.before for each in verdict.judged.apart}
    if paid.get("newcomers"):
        share = paid["newcomers"] / sum(paid.values())
        causes.append(f"{share:.0%} of it is for messages with a client that had no traffic then")
    if met := strangers(follows):
        causes.append(f"{met:.0%} of the deliveries between known clients are between two that had not talked then")
    why = f". Likely why: {'; '.join(causes)}" if causes and saved < verdict.train else ""
    known = f" and {percent(expected.share)} was expected ({expected.between})" if expected and surprises else ""
    trained = f"{percent(verdict.train)} was in the training window"
    return f"{percent(saved)} is paid on held-out traffic where {trained}{known}{why}"


# --- the gain curve --------------------------------------------------------------------------------------------------

MOST, LEAST = 24, 8
"""Points of a curve, both ends among them: as many where the traffic is small, and where it is large."""
WORK = 30_000_000
"""Rows, receivers and clients that the points between the ends may cost together: about three seconds."""
KEPT = ("link_messages", "mean_hops", "mean_latency_us", "local_share", "max_broker_load", "cut_share_max")
"""What is kept of each point beside what counts and what it costs."""


def curve_of(
    later: Later, columns: PlanColumns, unit: str, metric: str, cost: float, ends: tuple[Metrics, Metrics]
) -> list[Point]:
    """The curve of a plan on later traffic; cost is the planner's own at first, ends are what was measured already."""
    observation, rows = later.observation, later.rows()
    changes, steps = columns
    if not len(steps) or not (ends[0].metric == metric).any():
        return []
    own = cost - np.append(0.0, np.cumsum(steps.gain))
    overlay, done, found = observation.overlay, 0, []
    for k in points_of(steps, how_many(rows, observation.clients)).tolist():
        end = int(steps.start[k])
        overlay, done = overlay.apply(changes.between(done, end)), end
        metrics = measure(later.stage, later.overlay(overlay), rows, unit) if 0 < k < len(steps) else ends[k > 0]
        so_far = count_changes(changes.between(0, end))
        known = [name for name in dict.fromkeys((metric, "total_cost", "cost", *KEPT)) if name in metrics]
        kept = {name: metrics.of(name) for name in known if name != "cost" or "total_cost" not in known}
        found.append(Point(steps=k, moves=so_far.moves, links=so_far.links, own_cost=float(own[k]), metrics=kept))
    return found


def how_many(rows: pa.Table, clients: int) -> int:
    """Points that such traffic allows."""
    start, _ = groups(rows["receivers"])
    each = rows.num_rows + int(start[-1] - start[0]) + clients
    return int(np.clip(2 + WORK // max(each, 1), LEAST, MOST))


def points_of(steps: Steps, most: int) -> Ints:
    """Numbers of steps from none to all: each there is, or at most so many, spread over steps and gain alike."""
    total = len(steps)
    if total < most:
        return np.arange(total + 1)
    gain = np.abs(steps.gain)
    way = np.append(0.0, np.cumsum(1 / total + gain / (gain.sum() or 1.0)))
    return np.unique(np.searchsorted(way, np.linspace(0.0, way[-1], most)))
