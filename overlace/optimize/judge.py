"""How a plan did: before and after on both parts of the log, how sure that is, and what simpler ways reach."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from overlace.limits import as_document, as_flag
from overlace.metrics import Metrics
from overlace.observe.later import Later, strangers
from overlace.optimize.case import Case, metric_of
from overlace.optimize.choose import CHANNELS, MESH, ROUTED, without_effect
from overlace.optimize.curve import curve_of
from overlace.optimize.earlier import LONG_US
from overlace.optimize.forecast import Outlook
from overlace.optimize.interval import saving, slices_of, sums_of, total
from overlace.optimize.newcomers import Placing, Stays, split_clients
from overlace.optimize.replay import Replayed, Traffic
from overlace.optimize.solve import Solved
from overlace.planners.joint.joint import Joint
from overlace.report.curve import flattens
from overlace.stopping import asked
from overlace.trace.judgement import Baseline, GroupCost, Interval, Judgement, Measure, Point, RuleSaving
from overlace.trace.plan_tables import Columns, count_changes
from overlace.trace.plans import judge
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


class Part(NamedTuple):
    """A plan of one family and how it was judged."""

    name: str
    solved: Solved
    metric: str
    part: Literal["train", "held-out"]  # the part of the log that judges
    before: float
    after: float
    train: float  # share saved in the training window
    saving: Interval | None

    @property
    def judged(self) -> Judgement:
        """What plan.json says of it."""
        assert self.solved.document.judged is not None
        return self.solved.document.judged


@dataclass(frozen=True, eq=False)
class Evidence:
    """What plans are judged by: a case, the outlook they were made for, its traffic, and what was replayed of it."""

    case: Case
    outlook: Outlook
    traffic: Mapping[str, Traffic]
    done: list[Replayed]

    def of(self, plan: str, part: str) -> Metrics:
        """What was measured of a plan, or of today's overlay, on a part."""
        return next(each.metrics for each in self.done if (each.plan, each.part) == (plan, part))

    def metric(self, name: str) -> str:
        """What a plan of a family is judged by."""
        routed = name == ROUTED
        return metric_of(self.case.goal.objective, self.case.observation.network) if routed else ALSO[name][0]


class Followed(NamedTuple):
    """What came of a plan for placement and tree on the traffic that judges it."""

    saving: Interval | None
    curve: list[Point]
    apart: list[GroupCost]
    newcomers: RuleSaving | None
    baselines: list[Baseline]


def judge_plan(name: str, solved: Solved, evidence: Evidence) -> Part:
    """Before and after on both parts, how sure that is, and all of it written into the plan."""
    metric, plan = evidence.metric(name), solved.folder.name
    parts: tuple[Literal["train", "held-out"], ...]
    case = evidence.case
    parts = ("train", "held-out") if name == ROUTED and case.held_out else ("train",)
    found = Followed(None, [], [], None, [])
    planner = solved.plan.planner
    if name == ROUTED and isinstance(planner, Joint):
        found = _follow(planner, solved, evidence, parts[-1])
    sheets = {part: (evidence.of("", part), evidence.of(plan, part)) for part in parts}
    every = [metrics for both in sheets.values() for metrics in both]
    measured = [each for each in ALSO[name] if any(each in metrics for metrics in every)]
    measured = [each for each in measured if "latency" not in each or all(each in metrics for metrics in every)]
    judged = Judgement(
        train=list(case.cut.train),
        held_out=list(case.cut.held_out),
        train_share=case.cut.share,
        objective=case.goal.objective,
        limits=as_document(case.limits, case.goal),
        **found._asdict(),
        expected=evidence.outlook.expected if name == ROUTED else None,
        metrics=[
            Measure(metric=each, part=part, before=before.get(each), after=after.get(each))
            for part, (before, after) in sheets.items()
            for each in dict.fromkeys((metric, *measured))
        ],
    )
    document = judge(solved.folder, judged)
    first, last = (each.get(metric) for each in sheets["train"])
    before, after = (each.get(metric) for each in sheets[parts[-1]])
    share = 1 - last / first if first else 0.0
    return Part(name, solved._replace(document=document), metric, parts[-1], before, after, share, found.saving)


def _follow(planner: Joint, solved: Solved, evidence: Evidence, part: Literal["train", "held-out"]) -> Followed:
    """What a plan does on the traffic that judges it, stretch by stretch and step by step, and a greedy baseline."""
    case, (window, follows) = evidence.case, evidence.traffic[part]
    trace, observation, earlier = case.trace, case.observation, evidence.outlook.sums
    metric, plan = evidence.metric(ROUTED), solved.plan
    before, then = follows.overlay(observation.overlay), follows.overlay(plan.after)
    curve = []
    if not asked():
        ends = evidence.of("", part), evidence.of(solved.folder.name, part)
        columns = Columns(plan.changes, plan.steps)
        curve = curve_of(follows, columns, trace.unit, metric, solved.document.cost_before, ends)
    daily = case.cut.train[1] - case.cut.train[0] >= LONG_US and len(earlier) > 0
    slices = slices_of(window if window != (0, 0) else trace.span(), trace.bucket_us, daily=daily)
    judged = saving(sums_of(follows, before, then, trace.unit, metric, slices), earlier)
    split, by_rule = [], None
    if follows.fresh.any():
        split = split_clients(follows, before, then, trace.unit, metric)
        by_rule = _by_rule(planner, solved, evidence, follows, split)
    return Followed(judged, curve, split, by_rule, _baselines(planner, solved, evidence, follows))


def _by_rule(
    planner: Joint, solved: Solved, evidence: Evidence, follows: Later, split: list[GroupCost]
) -> RuleSaving | None:
    """What the rule for newcomers saves beyond the listed changes, and how many it sends elsewhere."""
    new, case, after, metric = solved.document.newcomers, evidence.case, solved.plan.after, evidence.metric(ROUTED)
    if new is None:
        return None
    stays = Stays(tuple(new.keep), tuple(new.only))
    placing = Placing(planner, case.observation, new.rule, solved.plan.seed, stays)
    rule = placing.rule_for(after)
    arrivals, paid = follows.arrivals, sum(each.before for each in split)
    homes = placing.homes(follows, after, rule) if rule else arrivals.home
    rows = follows.rows(np.flatnonzero(follows.fresh))
    left = total(follows.stage, follows.overlay(after, homes), rows, case.trace.unit, metric)
    return RuleSaving(
        share=(split[1].after - left) / paid if paid else 0.0,
        newcomers=len(arrivals.client),
        elsewhere=int((homes != arrivals.home).sum()),
    )


def _baselines(planner: Joint, solved: Solved, evidence: Evidence, follows: Later) -> list[Baseline]:
    """What a greedy way saves with at most as many changes, under the plan's links and under today's."""
    counts, observation, metric = solved.document.counts, evidence.case.observation, evidence.metric(ROUTED)
    changes = counts.moves + counts.links
    if not changes:
        return []
    rows, today, unit = follows.rows(), observation.overlay.tree, evidence.case.trace.unit
    paid = total(follows.stage, follows.overlay(observation.overlay), rows, unit, metric) if rows.num_rows else 0.0
    if not paid > 0:
        return []
    ways: list[tuple[Literal["planned", "today"], int]] = [("planned", counts.moves)] if counts.links else []
    found = []
    for links, moves in [*ways, ("today", changes)]:
        tree = solved.plan.after.tree if links == "planned" else today
        most = moves if planner.max_moves is None else min(moves, planner.max_moves)
        overlay = planner.greedy(observation, tree, most)
        made = count_changes(observation.overlay.changes_to(overlay))
        left = total(follows.stage, follows.overlay(overlay), rows, unit, metric)
        if made.moves or links == "planned":
            found.append(Baseline(links=links, changes=made.moves + made.links, share=1 - left / paid))
    return found


def notes_of(parts: list[Part], evidence: Evidence) -> list[str]:
    """What a reader of the figures must know."""
    notes = []
    for part in parts:
        metrics = evidence.of(part.solved.folder.name, part.part)
        if part.name == ROUTED and (lost := metrics.get("homeless")):
            share = lost / (lost + metrics.of("deliveries"))
            notes.append(
                f"{share:.1%} of the deliveries that judge are not counted: the log does not show where their sender "
                "or receiver was connected"
            )
        if ignored := without_effect(part.name, evidence.case.given):
            notes.append(f"{part.name}: not limited by {', '.join(map(as_flag, ignored))}")
        if flat := flattens(part.judged):
            notes.append(flat)
    return notes


def explain_gap(part: Part, follows: Later) -> str:
    """Why a plan saves far less than in the training window, or another share than expected, as a sentence."""
    if part.part != "held-out" or part.saving is None or part.train <= 0:
        return ""
    saved, expected = part.saving.share, part.judged.expected
    surprises = expected is not None and not expected.low <= saved <= expected.high
    if saved >= (1 - GAP) * part.train and not surprises:
        return ""
    causes = []
    paid = {each.clients: each.before for each in part.judged.apart}
    if paid.get("newcomers"):
        share = paid["newcomers"] / sum(paid.values())
        causes.append(f"{share:.0%} of it is for messages with a client that had no traffic then")
    if met := strangers(follows):
        causes.append(f"{met:.0%} of the deliveries between known clients are between two that had not talked then")
    why = f". Likely why: {'; '.join(causes)}" if causes and saved < part.train else ""
    known = f" and {percent(expected.share)} was expected ({expected})" if expected and surprises else ""
    trained = f"{percent(part.train)} was in the training window"
    return f"{percent(saved)} is paid on held-out traffic where {trained}{known}{why}"


def worth(part: Part) -> float:
    """The share that a plan is worth: where nothing is held out, what plans from earlier times let expect."""
    if part.part == "train" and part.judged.expected:
        return part.judged.expected.share
    return part.saving.share if part.saving else part.train
