"""How a plan did: before and after on both parts of the log, how sure that is, and what simpler ways reach."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

from overlace.metrics import Metrics
from overlace.model import Observation, Overlay, Planner
from overlace.observe.cut import Cut
from overlace.observe.later import Later, strangers
from overlace.optimize.ahead import Ahead, measured_by
from overlace.optimize.choose import CHANNELS, MESH, ROUTED, not_bound
from overlace.optimize.curve import curve_of
from overlace.optimize.interval import saving, slices_of, sums_of, total
from overlace.optimize.newcomers import Placing, group_costs
from overlace.optimize.origins import LONG_US
from overlace.optimize.replay import Replayed
from overlace.optimize.solve import Solved
from overlace.optimize.wishes import Wishes
from overlace.planners.joint.joint import Joint
from overlace.report.curve import flattens
from overlace.stopping import asked
from overlace.trace.judgement import Baseline, GroupCost, Interval, Judgement, Measure, Point
from overlace.trace.plan_tables import Columns, count_changes
from overlace.trace.plans import judge
from overlace.trace.store import Trace

ALSO = {
    ROUTED: (
        "cost", "total_cost", "link_messages", "link_bytes", "mean_hops", "mean_latency_us", "p95_latency_us",
        "local_share", "max_broker_load", "max_link_load", "cut_share_max", "deliveries", "homeless",
    ),
    CHANNELS: ("false_positive_rate", "received", "mean_connections", "over_limit", "channels"),
    MESH: ("max_degree", "average_degree", "max_diameter", "links", "topic_connected"),
}  # fmt: skip
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
    """What plans are judged by: a trace, its two parts, and what was replayed of them."""

    trace: Trace
    observation: Observation
    cut: Cut
    wishes: Wishes
    looked: Ahead
    heard: Mapping[str, Later]
    done: list[Replayed]

    def of(self, plan: str, part: str) -> Metrics:
        """What was measured of a plan, or of today's overlay, on a part."""
        return next(each.metrics for each in self.done if (each.plan, each.part) == (plan, part))

    @property
    def held_out(self) -> bool:
        """Whether there is a part that plans have not seen."""
        return self.cut.held_out[1] > self.cut.held_out[0]

    def metric(self, name: str) -> str:
        """What a plan of a family is judged by."""
        return metric_of(name, self.observation, self.wishes)


def metric_of(name: str, observation: Observation, wishes: Wishes) -> str:
    """What a plan of a family is judged by."""
    return measured_by(wishes.objective, observation) if name == ROUTED else ALSO[name][0]


class Followed(NamedTuple):
    """What came of a plan for placement and tree on the part that judges it."""

    saving: Interval | None
    curve: list[Point]
    apart: list[GroupCost]
    baselines: list[Baseline]


def judge_plan(name: str, planner: Planner, solved: Solved, evidence: Evidence) -> Part:
    """Before and after on both parts, how sure that is, and all of it written into the plan."""
    metric, plan = evidence.metric(name), solved.folder.name
    parts: tuple[Literal["train", "held-out"], ...]
    parts = ("train", "held-out") if name == ROUTED and evidence.held_out else ("train",)
    found = Followed(None, [], [], [])
    if name == ROUTED and isinstance(planner, Joint):
        found = _followed(planner, solved, evidence, parts[-1])
    sheets = {part: (evidence.of("", part), evidence.of(plan, part)) for part in parts}
    every = [metrics for both in sheets.values() for metrics in both]
    measured = [each for each in ALSO[name] if any(each in metrics for metrics in every)]
    document = judge(
        solved.folder,
        Judgement(
            train=list(evidence.cut.train), held_out=list(evidence.cut.held_out), objective=evidence.wishes.objective,
            limits=evidence.wishes.model_dump(mode="json"), **found._asdict(),
            expected=evidence.looked.expected if name == ROUTED else None,
            metrics=[
                Measure(metric=each, part=part, before=before.get(each), after=after.get(each))
                for part, (before, after) in sheets.items() for each in dict.fromkeys((metric, *measured))
            ],
        ),
    )  # fmt: skip
    first, last = (each.get(metric) for each in sheets["train"])
    before, after = (each.get(metric) for each in sheets[parts[-1]])
    share = 1 - last / first if first else 0.0
    return Part(name, solved._replace(document=document), metric, parts[-1], before, after, share, found.saving)


def _followed(planner: Joint, solved: Solved, evidence: Evidence, part: Literal["train", "held-out"]) -> Followed:
    """What a plan does on the part that judges it, stretch by stretch, step by step, and beside a greedy way."""
    trace, cut, follows, observation = evidence.trace, evidence.cut, evidence.heard[part], evidence.observation
    new, metric, plan = solved.document.newcomers, evidence.metric(ROUTED), solved.plan
    placing = Placing(planner, observation, *((new.rule, evidence.wishes.seed, new.keep, new.only) if new else ()))

    def shown(overlay: Overlay) -> Overlay:
        return placing.overlay(follows, overlay)

    before, then = follows.overlay(observation.overlay), shown(plan.after)
    curve = []
    if not asked():
        ends = evidence.of("", part), evidence.of(solved.folder.name, part)
        columns = Columns(plan.changes, plan.steps)
        curve = curve_of(follows, columns, shown, trace.unit, metric, solved.document.cost_before, ends)
    daily = cut.train[1] - cut.train[0] >= LONG_US and len(evidence.looked.sums) > 0
    window = cut.held_out if part == "held-out" else cut.train
    slices = slices_of(window if window != (0, 0) else trace.span(), trace.bucket_us, daily=daily)
    judged = saving(sums_of(follows, before, then, trace.unit, metric, slices), evidence.looked.sums)
    split = []
    if follows.fresh.any():
        split = group_costs(follows, before, then, trace.unit, metric)
    return Followed(judged, curve, split, _baselines(planner, solved, evidence, follows, shown))


def _baselines(
    planner: Joint, solved: Solved, evidence: Evidence, follows: Later, shown: Callable[[Overlay], Overlay]
) -> list[Baseline]:
    """What a greedy way saves with at most as many changes, under the plan's links and under today's.

    Newcomers are where the plan's rule sends them, so that homes and links alone make the difference.
    """
    counts, observation, metric = solved.document.counts, evidence.observation, evidence.metric(ROUTED)
    changes = counts.moves + counts.links
    if not changes:
        return []
    rows, today, unit = follows.rows(), observation.overlay.tree, evidence.trace.unit
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
        left = total(follows.stage, shown(overlay), rows, unit, metric)
        if made.moves or links == "planned":
            found.append(Baseline(links=links, changes=made.moves + made.links, share=1 - left / paid))
    return found


def notes_of(parts: list[Part], evidence: Evidence) -> list[str]:
    """What a reader of the figures must know."""
    said = []
    for part in parts:
        metrics = evidence.of(part.solved.folder.name, part.part)
        if part.name == ROUTED and (lost := metrics.get("homeless")):
            share = lost / (lost + metrics.of("deliveries"))
            said.append(
                f"{share:.1%} of the deliveries that judge are not counted: the log does not show where their sender "
                "or receiver was connected"
            )
        if ignored := not_bound(part.name, evidence.wishes):
            said.append(f"{part.name}: not limited by {', '.join('--' + each.replace('_', '-') for each in ignored)}")
        if flat := flattens(part.judged):
            said.append(flat)
    return said


def gap_of(part: Part, follows: Later) -> str:
    """Why a plan saves far less than it did in the training window, as a sentence; nothing where it does not."""
    if part.part != "held-out" or part.saving is None or part.train <= 0:
        return ""
    if part.saving.share >= (1 - GAP) * part.train:
        return ""
    causes = []
    paid = {each.clients: each.before for each in part.judged.apart}
    if paid.get("newcomers"):
        share = paid["newcomers"] / sum(paid.values())
        causes.append(f"{share:.0%} of it is for messages with a client that had no traffic then")
    if met := strangers(follows):
        causes.append(f"{met:.0%} of the deliveries between known clients are between two that had not talked then")
    why = f". Likely why: {'; '.join(causes)}" if causes else ""
    saved = part.saving.share
    return (
        f"{abs(saved):.1%} {'less' if saved >= 0 else 'more'} is paid on held-out traffic where {part.train:.1%} less "
        f"was in the training window{why}"
    )


def worth(part: Part) -> float:
    """The share that a plan is worth: where nothing is held out, what plans from earlier times let expect."""
    if part.part == "train" and part.judged.expected:
        return part.judged.expected.share
    return part.saving.share if part.saving else part.train
