"""Optimize: from a trace to a plan that was judged on held-out traffic, with its report.

Decides what can be planned (who has brokers and links gets placement and tree together, advertisements get channels
and, where latency bounds are given, a tree for each; interests without brokers get a mesh), says what it left out and
why, plans on the first part of the log, replays the rest before and after, and says how sure the saving is. Where
regions are given and what it costs to reach a broker is not, nobody leaves its region; where nothing says where clients
are, any broker may serve any client, and that is said. Links that are listed with a cost could be wired. What a limit
costs is said. Ctrl-C ends the search early: the best plan so far is judged all the same.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple, cast

from overlace.errors import NothingBetter, NotObserved
from overlace.limits import Goal, Limits, as_flag
from overlace.limits import as_document as options_document
from overlace.model import Observation, Overlay, Progress
from overlace.observe.known import known_as
from overlace.observe.traffic import traffic_of
from overlace.optimize.bounds import (
    Measured,
    assumptions,
    broken_later,
    broken_limits,
    by_broker,
    limits_in_force,
    load_limits,
    within_cut,
)
from overlace.optimize.case import Case, metric_of
from overlace.optimize.choose import CHANNELS, MESH, ROUTED, Chosen, choose
from overlace.optimize.dissemination import TREES, Trees, arrange_trees, trees_document, write_trees
from overlace.optimize.forecast import NOTHING, Outlook, choose_forecast, target_of
from overlace.optimize.groups import grouped_in
from overlace.optimize.judge import Evidence, Part, explain_gap, judge_plan, notes_of, worth
from overlace.optimize.meshes import MeshChoice, mesh_limits
from overlace.optimize.newcomers import Stays
from overlace.optimize.observe import observe
from overlace.optimize.peers import read_client_delays
from overlace.optimize.replay import read_traffic, replay_plans
from overlace.optimize.scope import by_kind, check_names
from overlace.optimize.solve import AS_OBSERVED, Solved, keep_plan, solve
from overlace.planners.joint.joint import Joint
from overlace.replay.measure import measure
from overlace.report.answer import answer_lines, headline
from overlace.report.page import write_report
from overlace.stopping import asked, coming_to_an_end
from overlace.trace.recorded import describe_recording
from overlace.trace.runs import write_json, writing_run
from overlace.trace.store import Trace

NO_LIMITS, USUAL = Limits(), Goal()


@dataclass(frozen=True)
class Answer:
    """What was found: a plan of each family, judged, or why no change is recommended."""

    run: Path
    parts: list[Part]
    left_out: list[tuple[str, str]]
    limits: Limits
    goal: Goal
    unit: str = "message"
    links_priced: bool = True
    outlook: Outlook = NOTHING
    mesh: MeshChoice | None = None
    trees: Trees | None = None
    bounds: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    warning: str = ""
    report: Path = Path()
    why_not: str = ""  # why no change is recommended; empty: one is
    stopped: bool = False  # Ctrl-C ended the search early


class Refused(NothingBetter):
    """No change is recommended: no plan is worth it, or one breaks a limit that was asked for; with what was found."""

    def __init__(self, answer: Answer) -> None:
        super().__init__(answer.why_not)
        self.answer = answer


def optimize(
    path: str,
    run: Path,
    limits: Limits = NO_LIMITS,
    goal: Goal = USUAL,
    *,
    force: bool = False,
    progress: Progress | None = None,
) -> Answer:
    """Observe, plan, replay what was held out, and report; Refused where no change is recommended."""
    tell = progress or (lambda share, what: None)
    named = Trace.open(path).names
    check_names(limits, named)
    if goal.delays is not None:
        read_client_delays(goal.delays, named)  # refused now, not after the search
    tell(0.02, "observing")
    fresh = not run.exists()
    with writing_run(run):
        try:
            observation, names, trace, cut = observe(path, run, goal, force=force)
            known = known_as(trace, names)
            case = Case(trace, cut, observation, names, known, limits, goal, grouped_in(trace, limits))
            if force and (run / "plans").is_dir():  # what they were made from has just been replaced
                shutil.rmtree(run / "plans")
            with coming_to_an_end():
                answer = _written(case, run, tell)
        except BaseException:
            if fresh:  # a run without a plan would only be in the way of the next try
                shutil.rmtree(run, ignore_errors=True)
            raise
    if answer.why_not:
        raise Refused(answer)
    return answer


def _written(case: Case, run: Path, tell: Progress) -> Answer:
    """The answer, with its plans and its report in the run folder."""
    answer = _answer(case, run, tell)
    answer = replace(answer, notes=[*describe_recording(case.trace.notes), *answer.notes])
    tell(0.95, "writing the report")
    write_trees(answer.trees, run)
    write_json(run / "answer.json", as_document(answer) | {"limits": _load_limits(answer, case.observation)})
    write_report(run)
    tell(1.0, "done")
    return answer


def _answer(case: Case, run: Path, tell: Progress) -> Answer:
    """Plan, replay, judge, and ask what limits the plan."""
    tell(0.05, "choosing planners")
    chosen = choose(case, _within(tell, 0.05, 0.3, "choosing a mesh: "))
    answer = Answer(
        run,
        [],
        chosen.left_out,
        case.limits,
        case.goal,
        case.trace.unit,
        case.links_priced,
        mesh=chosen.mesh,
        warning=case.cut.warning,
        report=run / "report.html",
    )
    if not chosen.planners and chosen.refused:
        replay_plans(run, case.training, {}, read_traffic(case.training, case.cut))
        return replace(answer, why_not=chosen.refused)
    if not chosen.planners:
        why = "; ".join(f"{facet}: {reason}" for facet, reason in chosen.left_out)
        raise NotObserved(f"{case.trace.path}: nothing can be planned from this trace. {why}")
    planned = _plan(case, chosen, run, tell)
    tell(0.5, "replaying")
    traffic = read_traffic(case.training, case.cut)
    made = {each.folder.name: each.plan for each in planned.solved.values()}
    evidence = Evidence(case, planned.outlook, traffic, replay_plans(run, case.training, made, traffic))
    tell(0.6, "judging")
    parts = [judge_plan(name, each, evidence) for name, each in planned.solved.items()]
    answer = replace(answer, parts=parts, outlook=planned.outlook, notes=notes_of(parts, evidence))
    broken: dict[str, str] = {}
    if parts[0].name == ROUTED:
        answer, broken = _with_limits(answer, planned.ahead, evidence, tell)
    if chosen.mesh:
        answer = replace(answer, bounds=[*answer.bounds, *mesh_limits(case.limits)])
    if CHANNELS in planned.solved:
        plan = planned.solved[CHANNELS].plan
        found = arrange_trees(case, plan.after.channels, _within(tell, 0.9, 0.95, "arranging trees: "))
        if isinstance(found, Trees):
            answer = replace(answer, trees=found, notes=[*answer.notes, *found.notes])
        else:
            answer = replace(answer, left_out=[*answer.left_out, (TREES, found)])
    if asked():
        answer = replace(answer, stopped=True, notes=[STOPPED, *answer.notes])
    return replace(answer, why_not=_why_not(answer, broken, case))


class Planned(NamedTuple):
    """The plan of each family, and the traffic that they were made for."""

    solved: dict[str, Solved]
    outlook: Outlook
    ahead: Observation | None  # None: as observed


def _plan(case: Case, chosen: Chosen, run: Path, tell: Progress) -> Planned:
    """A plan of each family, written into the run and kept in hand."""
    solved: dict[str, Solved] = {}
    observation, goal, outlook, ahead = case.observation, case.goal, NOTHING, None
    for i, (name, planner) in enumerate(chosen.planners.items()):
        target, begin, end = AS_OBSERVED, *(0.3 + 0.2 * k / len(chosen.planners) for k in (i, i + 1))
        if isinstance(planner, Joint):
            tell(0.1, "choosing a forecast")
            stays = Stays(*(tuple(by_kind(each)["client"]) for each in (case.scoped.keep, case.limits.only)))
            metric = metric_of(goal.objective, observation.network)
            plain, part = goal.forecast == "plain", _within(tell, 0.1, 0.3)
            outlook, ahead = choose_forecast(case.training, planner, goal.seed, metric, stays, plain, part)
            target, planner = target_of(outlook, ahead, stays), outlook.planner(planner)
            if planner.max_cut is not None:
                rows = traffic_of(case.trace, case.cut.train, case.known)
                planner = within_cut(planner, observation, ahead, rows, case.trace.unit, goal.seed)
        tell(begin, f"planning {name}")
        if chosen.mesh and name == MESH:
            solved[name] = keep_plan(chosen.mesh.plan, observation, run, case.names)
            continue
        part = _within(tell, begin, end, f"planning {name}: ")
        solved[name] = solve(planner, observation, run, case.names, seed=goal.seed, target=target, progress=part)
    return Planned(solved, outlook, ahead)


def _with_limits(
    answer: Answer, ahead: Observation | None, evidence: Evidence, tell: Progress
) -> tuple[Answer, dict[str, str]]:
    """The answer with what limits its plan for placement and tree, and the limits that stay broken, by option."""
    tell(0.8, "asking what limits the plan")
    case, part = evidence.case, answer.parts[0]
    plan, name, trained = part.solved.plan, part.solved.folder.name, evidence.traffic["train"].later
    planner = cast(Joint, plan.planner)
    rows = trained.rows()

    def measured(overlay: Overlay) -> Measured:
        metrics = measure(trained.stage, trained.overlay(overlay), rows, case.trace.unit)
        return Measured(metrics.of(part.metric), metrics.of("cut_share_max"))

    brokers = case.observation.network.brokers
    cut_shares = [by_broker(evidence.of(which, "train"), "cut_share", brokers) for which in ("", name)]
    broken = broken_limits(case, planner, plan.after, cut_shares)
    asking = _within(tell, 0.8, 0.95, "asking what limits the plan: ")
    bounds = limits_in_force(case, planner, ahead, plan.after, measured, asking)
    notes = answer.notes
    if gap := explain_gap(part, evidence.traffic["held-out"].later):
        notes = [gap, *notes]
    if part.part == "held-out":
        then, now = (evidence.of(which, "held-out") for which in ("", name))
        notes = broken_later(case.observation, case.limits, then, now, case.cut.held_out) + notes
    notes = assumptions(case, planner) + notes
    return replace(answer, bounds=[*bounds, *broken.values()], notes=notes), broken


STOPPED = (
    "stopped early by Ctrl-C: this is the best plan found by then, judged like any other; a full run may find more"
)


def _why_not(answer: Answer, broken: dict[str, str], case: Case) -> str:
    """Why no change is recommended, as a sentence; empty where one is."""
    least = case.limits.min_gain
    for name in sorted(broken.keys() & case.given):
        flag = as_flag(name)
        return (
            f"no plan was found that keeps {flag}: {broken[name]}. To try: a looser {flag}, or more changes. The "
            f"nearest plan is in {answer.report}"
        )
    if any(_pays(part, answer) for part in answer.parts):
        return ""
    if answer.mesh and answer.mesh.no_better and all(part.name == MESH for part in answer.parts):
        return f"{answer.mesh.no_better}."
    best = max(worth(part) for part in answer.parts)
    where = "of held-out traffic"
    if not case.held_out:
        where = "as far as plans from earlier times tell" if answer.outlook.expected else "in the training window"
    harms = best < 0 or all(not part.before and part.after for part in answer.parts)
    if harms:
        more = f"costs {-best:.1%} more" if best < 0 else "costs something where nothing is paid today,"
        return f"the best plan found {more} {where}. More in {answer.report}"
    asked_for = f"less than the {least:.1%} of --min-gain" if best < least else "and changes nothing"
    tries = to_try(answer.bounds) or (" To try: a lower --min-gain." if 0 < best < least else "")
    return f"the best plan found saves {best:.1%} {where}, {asked_for}.{tries} More in {answer.report}"


def _pays(part: Part, answer: Answer) -> bool:
    """Whether a plan saves enough where it was judged."""
    document = part.solved.document
    if part.saving is None:
        return document.steps_total > 0 and not (part.name == MESH and answer.mesh and answer.mesh.no_better)
    by_rule = part.judged.newcomers
    if (not document.steps_total and by_rule is None) or (not part.before and part.after):
        return False
    listed = worth(part) if document.steps_total else 0.0
    return max(listed, listed + (by_rule.share if by_rule else 0.0)) >= max(0.0, answer.limits.min_gain)


def to_try(bounds: list[str]) -> str:
    """What a user who wants more could lift."""
    could = [text.partition("; without it: ")[0] for text in bounds if " less instead of " in text]
    return f" To try: lift {could[0]}." if could else ""


def _within(tell: Progress, low: float, high: float, prefix: str = "") -> Progress:
    """Progress as a part of a whole."""
    return lambda share, what: tell(low + (high - low) * share, prefix + what)


def _load_limits(answer: Answer, observation: Observation) -> dict[str, list[float | None]]:
    """What each broker may send and handle, for the report."""
    for part in answer.parts:
        planner = part.solved.plan.planner
        if part.name == ROUTED and isinstance(planner, Joint):
            return load_limits(observation, planner)
    return {}


def as_document(answer: Answer) -> dict[str, Any]:
    """The answer as JSON."""
    return {
        "recommended": not answer.why_not,
        "why_not": answer.why_not or None,
        "stopped_early": answer.stopped,
        "options": options_document(answer.limits, answer.goal),
        "parts": [_part_document(part, answer) for part in answer.parts],
        "frontier": {"why": answer.mesh.why, "rows": answer.mesh.rows} if answer.mesh else None,
        "trees": trees_document(answer.trees) if answer.trees else None,
        "forecast": str(answer.outlook) if any(part.name == ROUTED for part in answer.parts) else None,
        "left_out": [{"facet": facet, "why": why} for facet, why in answer.left_out],
        "bounds": answer.bounds,
        "notes": answer.notes,
        "warning": answer.warning,
        "report": str(answer.report),
    }


def _part_document(part: Part, answer: Answer) -> dict[str, Any]:
    """A plan and how it was judged, as JSON."""
    document, judged = part.solved.document, part.judged
    return {
        "name": part.name,
        "plan": part.solved.folder.name,
        "metric": part.metric,
        "part": part.part,
        "before": part.before,
        "after": part.after,
        "saved_on_train": part.train,
        "saved": part.saving.model_dump() if part.saving else None,
        "changes": document.changes,
        "steps": document.steps_total,
        "moves": document.counts.moves,
        "links": document.counts.links,
        "expected": judged.expected.model_dump() if judged.expected else None,
        "apart": [each.model_dump() for each in judged.apart],
        "newcomers": {"rule": document.newcomers.rule, **judged.newcomers.model_dump()}
        if document.newcomers and judged.newcomers
        else None,
        "baselines": [each.model_dump() for each in judged.baselines],
        "metrics": [each.model_dump() for each in judged.metrics],
        "headline": headline(document),
        "lines": dict(answer_lines(document, answer.unit, answer.links_priced)),
        "beside": document.beside,
    }
