"""Optimize: from a trace to a plan that was judged on held-out traffic.

    task = observe(trace)               what the training window says, and what the user asks for
    forecast = choose_forecast(task)    the traffic to come
    plan = plan_for(task, forecast)     one for each family that can be planned
    metrics = replay(task, plan)        before and after, in the training window and on held-out traffic
    verdict = judge(plan, metrics)      what it saves, how sure that is, what limits it
    write(Result(task, verdicts))       plans, figures and answer in the run folder

Brokers and links give placement and tree together, advertisements channels and, where latency bounds are given, a tree
for each; interests without brokers a mesh. What was left out is said, and why. Where regions are given and what it
costs to reach a broker is not, clients stay in their region; where nothing says where clients are, they may move to
any broker, and that is said. Links that are listed with a cost could be wired. What a limit costs is said. Ctrl-C ends
the search early: the best plan so far is judged all the same.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from overlace.errors import NotObserved
from overlace.limits import Goal, Limits, as_flag
from overlace.limits import as_document as options_document
from overlace.model import Overlay, Progress
from overlace.observe.traffic import traffic_of
from overlace.optimize.forecast import AS_OBSERVED, Forecast, choose_forecast
from overlace.optimize.judge import Evaluation, explain_gap, judge
from overlace.optimize.limits import (
    Measured,
    assumptions,
    broken_later,
    broken_limits,
    by_broker,
    limits_in_force,
    load_limits,
)
from overlace.optimize.meshes import mesh_limits
from overlace.optimize.newcomers import PinnedClients
from overlace.optimize.plan import CHANNELS, MESH, ROUTED, Chosen, Solved, choose, describe_plan, plan_for, within_cut
from overlace.optimize.replay import read_traffic, replay_plans
from overlace.optimize.result import NoChangeRecommended, Result, Verdict, write
from overlace.optimize.scope import by_kind, check_names, grouped_in
from overlace.optimize.task import NO_LIMITS, USUAL, Task, observe
from overlace.optimize.trees import TREES, Trees, arrange_trees, read_client_delays
from overlace.planners.joint.joint import Joint
from overlace.replay.measure import measure
from overlace.stopping import asked, coming_to_an_end
from overlace.trace.recorded import describe_recording
from overlace.trace.runs import read_run, writing_run
from overlace.trace.store import Trace
from overlace.wording import left


def optimize(
    path: str,
    run: Path,
    limits: Limits = NO_LIMITS,
    goal: Goal = USUAL,
    *,
    force: bool = False,
    progress: Progress | None = None,
    show: Callable[[Result], object] = lambda result: None,
) -> Result:
    """Observe, plan, replay what was held out, and judge; NoChangeRecommended where none is.

    `show` is called with the result as long as nobody else may write into the run folder.
    """
    report_progress = progress or (lambda share, what: None)
    named = Trace.open(path).names
    check_names(limits, named)
    if goal.delays is not None:
        read_client_delays(goal.delays, named)  # refused now, not after the search
    report_progress(0.02, "observing")
    fresh = not run.exists()
    with writing_run(run):
        try:
            task = observe(path, run, goal, force=force)
            task = task._replace(limits=limits, goal=goal, grouped=grouped_in(task.trace, limits))
            if force and (run / "plans").is_dir():  # what they were made from has just been replaced
                shutil.rmtree(run / "plans")
            with coming_to_an_end():
                result = _result(task, run, report_progress)
                report_progress(0.95, "writing the report")
                show(result)
                report_progress(1.0, "done")
        except BaseException:
            if fresh:  # a run without a plan would only be in the way of the next try
                shutil.rmtree(run, ignore_errors=True)
            raise
    if result.why_not:
        raise NoChangeRecommended(result)
    return result


def _result(task: Task, run: Path, report_progress: Progress) -> Result:
    """The walk: choose, forecast, plan, replay, judge, write."""
    report_progress(0.05, "choosing planners")
    chosen = choose(task, _within(report_progress, 0.05, 0.3, "choosing a mesh: "))
    if not (chosen.joint or chosen.channels or chosen.mesh or chosen.refused):
        why = "; ".join(f"{facet}: {reason}" for facet, reason in chosen.left_out)
        raise NotObserved(f"{task.trace.path}: nothing can be planned from this trace. {why}")
    joint, forecast = _forecast(task, chosen.joint, _within(report_progress, 0.1, 0.3))
    chosen = chosen._replace(joint=joint)
    plans = _plans(task, chosen, forecast, run, report_progress)
    report_progress(0.5, "replaying")
    traffic = read_traffic(task)
    replays = replay_plans(task, {each.folder.name: each.plan for each in plans.values()}, traffic)
    by = Evaluation(task, forecast, traffic, replays)
    result = _judged(plans, chosen, by, Result(run, read_run(run), task.observation, task.names), report_progress)
    write(result, replays)
    return result


def _forecast(task: Task, joint: Joint | None, progress: Progress) -> tuple[Joint | None, Forecast]:
    """(the planner for placement and tree as it did best, the traffic to plan for); pinned clients stay."""
    if joint is None:
        return None, AS_OBSERVED
    progress(0.0, "choosing a forecast")
    pinned = PinnedClients(*(tuple(by_kind(each)["client"]) for each in (task.scoped.keep, task.limits.only)))
    forecast = choose_forecast(task, joint, task.metric, pinned, task.goal.forecast == "plain", progress)
    joint = forecast.planner(joint)
    if joint.max_cut is not None:
        rows = traffic_of(task.trace, task.cut.train, task.known)
        joint = within_cut(joint, task.observation, forecast.ahead, rows, task.trace.unit, task.goal.seed)
    return joint, forecast


def _plans(task: Task, chosen: Chosen, forecast: Forecast, run: Path, report_progress: Progress) -> dict[str, Solved]:
    """A plan of each family, as its file will have it."""
    planners = {ROUTED: chosen.joint, CHANNELS: chosen.channels}
    found, wanted = {}, [(family, planner) for family, planner in planners.items() if planner]
    parts = len(wanted) + (chosen.mesh is not None)
    for i, (family, planner) in enumerate(wanted):
        begin, end = (0.3 + 0.2 * k / parts for k in (i, i + 1))
        report_progress(begin, f"planning {family}")
        made_for = forecast if family == ROUTED else AS_OBSERVED
        progress = _within(report_progress, begin, end, f"planning {family}: ")
        plan = plan_for(planner, task.observation, made_for.ahead, task.goal.seed, progress)
        found[family] = describe_plan(plan, task.observation, run, task.names, made_for)
    if chosen.mesh:
        found[MESH] = describe_plan(chosen.mesh.plan, task.observation, run, task.names)
    return found


def _judged(
    plans: Mapping[str, Solved], chosen: Chosen, by: Evaluation, result: Result, report_progress: Progress
) -> Result:
    """The result with a verdict on each plan, and why no change is recommended, if none is."""
    report_progress(0.6, "judging")
    task, joint, mesh = by.task, chosen.joint, chosen.mesh
    verdicts = {family: judge(family, plan, by, joint if family == ROUTED else None) for family, plan in plans.items()}
    left_out, trees, broken = [*chosen.left_out], None, dict[str, str]()
    if joint:
        verdicts[ROUTED], broken = _with_limits(verdicts[ROUTED], joint, by, report_progress)
    if mesh:
        frontier = {"why": mesh.why, "rows": mesh.rows}
        verdicts[MESH] = replace(verdicts[MESH], limits=mesh_limits(task.limits), frontier=frontier)
    if chosen.channels:
        progress = _within(report_progress, 0.9, 0.95, "arranging trees: ")
        found = arrange_trees(task, plans[CHANNELS].plan.after.channels, progress)
        if isinstance(found, Trees):
            notes, trees = [*verdicts[CHANNELS].notes, *found.notes], found.rows
            verdicts[CHANNELS] = replace(verdicts[CHANNELS], notes=notes, trees=found.document)
        else:
            left_out.append((TREES, found))
    stopped = bool(verdicts) and asked()
    result = replace(
        result,
        verdicts=list(verdicts.values()),
        left_out=left_out,
        stopped=stopped,
        remarks=[*describe_recording(task.trace.notes), *([STOPPED] if stopped else [])],
        options=options_document(task.limits, task.goal),
        load_limits=load_limits(task.observation, joint) if joint else {},
        measured={each.run: each.metrics for each in by.done},
        replays=[each.about for each in by.done],
        trees=trees,
    )
    no_better = mesh.no_better if mesh else ""
    return replace(result, why_not=_why_not(result, broken, task, no_better) if verdicts else chosen.refused)


def _with_limits(
    verdict: Verdict, joint: Joint, by: Evaluation, report_progress: Progress
) -> tuple[Verdict, dict[str, str]]:
    """The verdict with what limits its plan for placement and tree, and the limits that stay broken, by option."""
    report_progress(0.8, "asking what limits the plan")
    task, plan, trained = by.task, verdict.plan, by.traffic["train"].later
    rows = trained.rows()

    def measured(overlay: Overlay) -> Measured:
        metrics = measure(trained.stage, trained.overlay(overlay), rows, task.trace.unit)
        return Measured(metrics.of(verdict.metric), metrics.of("cut_share_max"))

    brokers = task.observation.network.brokers
    cut_shares = [by_broker(by.of(which, "train"), "cut_share", brokers) for which in ("", verdict.id)]
    broken = broken_limits(task, joint, plan.after, cut_shares)
    asking = _within(report_progress, 0.8, 0.95, "asking what limits the plan: ")
    bounds = limits_in_force(task, joint, by.forecast.ahead, plan.after, measured, asking)
    notes = []  # what changes a decision first
    if verdict.part == "held-out":
        then, now = (by.of(which, "held-out") for which in ("", verdict.id))
        notes += broken_later(task.observation, task.limits, then, now, task.cut.held_out)
    if gap := explain_gap(verdict, by.traffic["held-out"].later):
        notes.append(gap)
    notes += [*verdict.notes, *assumptions(task, joint)]
    return replace(verdict, limits=[*broken.values(), *bounds], notes=notes), broken


STOPPED = (
    "stopped early by Ctrl-C: this is the best plan found by then, judged like any other; a full run may find more"
)


def _why_not(result: Result, broken: dict[str, str], task: Task, no_better: str) -> str:
    """Why no change is recommended, as a sentence; empty where one is. `no_better`: why today's mesh stays."""
    least, verdicts = task.limits.min_gain, result.verdicts
    for name in sorted(broken.keys() & task.given):
        flag = as_flag(name)
        return (
            f"no plan was found that keeps {flag}: {broken[name]}. To try: a looser {flag}, or more changes. The "
            "nearest plan is in the report."
        )
    if any(_pays(each, least, no_better) for each in verdicts):
        return ""
    if no_better and all(each.name == MESH for each in verdicts):
        return f"{no_better}."
    best = max(each.worth for each in verdicts)
    where = "of held-out traffic"
    if not task.held_out:
        expected = any(each.judged.expected for each in verdicts)
        where = "as far as plans from earlier times tell" if expected else "in the training window"
    if best < 0 or all(not each.before and each.after for each in verdicts):
        more = f"costs {-best:.1%} more" if best < 0 else "costs something where nothing is paid today,"
        return f"the best plan found {more} {where}."
    asked_for = f"less than the {least:.1%} of --min-gain" if best < least else "and changes nothing"
    tries = suggest_relaxation(result.bounds) or (" To try: a lower --min-gain." if 0 < best < least else "")
    return f"the best plan found saves {best:.1%} {where}, {asked_for}.{tries}"


def _pays(verdict: Verdict, least: float, no_better: str) -> bool:
    """Whether a plan saves enough where it was judged."""
    steps = verdict.document.steps_total
    if verdict.saving is None:
        return steps > 0 and not (verdict.name == MESH and no_better)
    by_rule = verdict.judged.newcomers
    if (not steps and by_rule is None) or (not verdict.before and verdict.after):
        return False
    listed = verdict.worth if steps else 0.0
    return max(listed, listed + (by_rule.share if by_rule else 0.0)) >= max(0.0, least)


def suggest_relaxation(bounds: list[str]) -> str:
    """What a user who wants more could lift."""
    could = [text.partition("; without it: ")[0] for text in bounds if " less instead of " in text]
    return f" To try: lift {could[0]}." if could else ""


def _within(report_progress: Progress, low: float, high: float, prefix: str = "") -> Progress:
    """Progress as a part of a whole; what has a name of its own says how far it is."""
    began = time.monotonic()

    def report(share: float, what: str) -> None:
        own = f", {share:.0%}{left(share, time.monotonic() - began)}" if prefix else ""
        report_progress(low + (high - low) * share, f"{prefix}{what}{own}")

    return report
