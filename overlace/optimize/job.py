"""Optimize: from a trace to a plan that was judged on held-out traffic, with its report.

Decides what can be planned (who has brokers and links gets placement and tree together, advertisements get
channels, interests without brokers get a mesh), says what it left out and why, plans on the first part of the log,
replays the rest before and after, and says how sure the saving is. Where regions are given and what it costs to reach a
broker is not, nobody leaves its region; where nothing says where clients are, any broker may serve any client, and that
is said. Links that are listed with a cost could be wired. What a limit costs is said. Ctrl-C ends the search early:
the best plan so far is judged all the same.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from overlace.errors import NothingBetter, NotObserved
from overlace.model import Overlay, Progress
from overlace.observe.known import known_as
from overlace.observe.later import later
from overlace.observe.traffic import traffic_of
from overlace.optimize.ahead import NOTHING, Ahead, look_ahead, wanted_of
from overlace.optimize.bounds import assumed, bounds_of, broken_by, broken_later, limits_of, within_cut
from overlace.optimize.choose import MESH, ROUTED, choose, link_costs_known
from overlace.optimize.interval import total
from overlace.optimize.judge import Evidence, Part, gap_of, judge_plan, metric_of, notes_of, worth
from overlace.optimize.meshes import MeshChoice, mesh_limits
from overlace.optimize.observe import observe, trace_of
from overlace.optimize.replay import replay
from overlace.optimize.solve import Wanted, solve
from overlace.optimize.wishes import Wishes, check_names, kinds_of
from overlace.planners.joint.joint import Joint
from overlace.report.answer import answer_lines
from overlace.report.page import write_report
from overlace.stopping import asked, coming_to_an_end
from overlace.trace.runs import read_observation, write_json
from overlace.trace.store import Trace


@dataclass(frozen=True)
class Answer:
    """What was found."""

    run: Path
    parts: list[Part]
    left_out: list[tuple[str, str]]
    wishes: Wishes
    unit: str = "message"
    ahead: Ahead = NOTHING
    mesh: MeshChoice | None = None
    bounds: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    warning: str = ""
    report: Path = Path()
    why_not: str = ""  # why no change is recommended; empty: one is
    stopped: bool = False  # Ctrl-C ended the search early


class Refused(NothingBetter):
    """Nothing beats what is there, or a limit that was asked for is not kept; with what was found."""

    def __init__(self, answer: Answer) -> None:
        super().__init__(answer.why_not)
        self.answer = answer


def optimize(path: str, run: Path, wishes: Wishes, *, force: bool = False, progress: Progress | None = None) -> Answer:
    """Observe, plan, replay what was held out, and report; Refused where no change is recommended."""
    tell = progress or (lambda share, what: None)
    check_names(wishes, Trace.open(path).names)
    tell(0.02, "observing")
    fresh = not run.exists()
    observed = observe(path, run, train=wishes.train, train_until=wishes.train_until, force=force)
    if force and (run / "plans").is_dir():  # what they were made from has just been replaced
        shutil.rmtree(run / "plans")
    with coming_to_an_end():
        try:
            answer = _answered(path, run, wishes, observed.cut.warning, tell)
        except BaseException:
            if fresh:  # a run without a plan would only be in the way of the next try
                shutil.rmtree(run, ignore_errors=True)
            raise
        tell(0.95, "writing the report")
        write_json(run / "answer.json", as_document(answer) | {"limits": _limits(answer)})
        write_report(run)
        tell(1.0, "done")
    if answer.why_not:
        raise Refused(answer)
    return answer


def _answered(path: str, run: Path, wishes: Wishes, warning: str, tell: Progress) -> Answer:
    """Plans, judged; and what there is to say of them."""
    observation, names = read_observation(run)
    opened = Trace.open(path)
    tell(0.05, "choosing planners")
    chosen = choose(
        observation, names, wishes, opened.unit, priced=link_costs_known(opened),
        progress=_within(tell, 0.05, 0.3, "choosing a mesh: "),
    )  # fmt: skip
    planners = chosen.planners
    if not planners and chosen.refused:
        replay(run)
        return Answer(run, [], chosen.left_out, wishes, report=run / "report.html", why_not=chosen.refused)
    if not planners:
        why = "; ".join(f"{facet}: {reason}" for facet, reason in chosen.left_out)
        raise NotObserved(f"{path}: nothing can be planned from this trace. {why}")
    trace, cut = trace_of(run)
    known = known_as(trace, names)
    keep, only = (kinds_of(each)["client"] for each in (wishes.keep, wishes.only))
    solved, looked, ahead = {}, NOTHING, None
    for i, (name, planner) in enumerate(planners.items()):
        wanted = Wanted()
        if isinstance(planner, Joint):
            tell(0.1, "choosing a forecast")
            looked, ahead = look_ahead(
                trace, cut.train, known, observation, planner, wishes.seed, metric_of(name, observation, wishes),
                _within(tell, 0.1, 0.3), plain=wishes.forecast == "plain", keep=keep, only=only,
            )  # fmt: skip
            wanted = wanted_of(looked, ahead, keep, only)
            if planner.max_cut is not None:
                rows = traffic_of(trace, cut.train, known)
                planner = planners[name] = within_cut(planner, observation, ahead, rows, trace.unit, wishes)
        begin, end = (0.3 + 0.2 * k / len(planners) for k in (i, i + 1))
        tell(begin, f"planning {name}")
        solved[name] = solve(
            planner, observation, run, names, seed=wishes.seed, wanted=wanted,
            made=chosen.mesh.plan if chosen.mesh and name == MESH else None,
            progress=_within(tell, begin, end, f"planning {name}: "),
        )  # fmt: skip
    tell(0.5, "replaying")
    heard = {"train": later(trace, cut.train, known, observation)}
    heard["held-out"] = later(trace, cut.held_out, known, observation)
    done = replay(run, heard=heard)
    tell(0.6, "judging")
    evidence = Evidence(trace, observation, cut, wishes, looked, heard, done)
    parts = [judge_plan(name, planners[name], each, evidence) for name, each in solved.items()]
    answer = Answer(
        run, parts, chosen.left_out, wishes, trace.unit, looked, chosen.mesh, notes=notes_of(parts, evidence),
        warning=warning, report=run / "report.html",
    )  # fmt: skip
    broken: dict[str, str] = {}
    routed = planners.get(ROUTED)
    if isinstance(routed, Joint):
        tell(0.8, "asking what limits the plan")
        made, judged = parts[0].solved, parts[0]
        broken = broken_by(observation, names, wishes, routed, made.plan.after, made.folder.name, done)
        asking = _within(tell, 0.8, 0.95, "asking what limits the plan: ")
        seen, rows = heard["train"], heard["train"].rows()

        def paid(overlay: Overlay) -> float:
            return total(seen.stage, seen.overlay(overlay), rows, trace.unit, judged.metric)

        bounds = bounds_of(observation, ahead, wishes, routed, made.plan.after, paid, asking)
        notes = answer.notes
        if said := gap_of(judged, heard["held-out"]):
            notes.insert(0, said)
        if judged.part == "held-out":
            then, now = (evidence.of(which, "held-out") for which in ("", made.folder.name))
            notes = broken_later(observation, wishes, then, now, cut.held_out) + notes
        notes = assumed(observation, names, wishes, routed) + notes
        answer = replace(answer, bounds=bounds + list(broken.values()), notes=notes)
    if chosen.mesh:
        answer = replace(answer, bounds=[*answer.bounds, *mesh_limits(wishes)])
    if asked():
        answer = replace(answer, stopped=True, notes=[STOPPED, *answer.notes])
    return replace(answer, why_not=_why_not(answer, broken, evidence))


STOPPED = (
    "stopped early by Ctrl-C: this is the best plan found by then, judged like any other; a full run may find more"
)


def _why_not(answer: Answer, broken: dict[str, str], evidence: Evidence) -> str:
    """Why no change is recommended, as a sentence; empty where one is."""
    wishes = answer.wishes
    for name in sorted(broken.keys() & wishes.model_fields_set):
        flag = "--" + name.replace("_", "-")
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
    if not evidence.held_out:
        where = "as far as plans from earlier times tell" if answer.ahead.expected else "in the training window"
    asked_for = (
        f"less than the {wishes.min_gain:.1%} of --min-gain" if best < wishes.min_gain else "and changes nothing"
    )
    tries = to_try(answer.bounds) or (" To try: a lower --min-gain." if 0 < best < wishes.min_gain else "")
    return f"the best plan found saves {best:.1%} {where}, {asked_for}.{tries} More in {answer.report}"


def _pays(part: Part, answer: Answer) -> bool:
    """Whether a plan saves enough where it was judged."""
    document = part.solved.document
    if part.saving is None:
        return document.steps_total > 0 and not (part.name == MESH and answer.mesh and answer.mesh.no_better)
    return worth(part) >= answer.wishes.min_gain and (document.steps_total > 0 or document.newcomers is not None)


def to_try(bounds: list[str]) -> str:
    """What a user who wants more could lift."""
    could = [text.partition("; without it: ")[0] for text in bounds if "saves at least" in text]
    return f" To try: lift {could[0]}." if could else ""


def _within(tell: Progress, low: float, high: float, prefix: str = "") -> Progress:
    """Progress as a part of a whole."""
    return lambda share, what: tell(low + (high - low) * share, prefix + what)


def _limits(answer: Answer) -> dict[str, list[float | None]]:
    """What each broker may send and handle, for the report."""
    for part in answer.parts:
        planner = part.solved.plan.planner
        if part.name == ROUTED and isinstance(planner, Joint):
            observation, _ = read_observation(answer.run)
            return limits_of(observation, planner)
    return {}


def as_document(answer: Answer) -> dict[str, Any]:
    """The answer as JSON."""
    return {
        "recommended": not answer.why_not, "why_not": answer.why_not or None, "stopped_early": answer.stopped,
        "wishes": answer.wishes.model_dump(mode="json"),
        "parts": [_part_document(part, answer.unit) for part in answer.parts],
        "frontier": {"why": answer.mesh.why, "rows": answer.mesh.rows} if answer.mesh else None,
        "forecast": str(answer.ahead) if any(part.name == ROUTED for part in answer.parts) else None,
        "left_out": [{"facet": facet, "why": why} for facet, why in answer.left_out],
        "bounds": answer.bounds,
        "notes": answer.notes,
        "warning": answer.warning,
        "report": str(answer.report),
    }  # fmt: skip


def _part_document(part: Part, unit: str) -> dict[str, Any]:
    """A plan and how it was judged, as JSON."""
    document, judged = part.solved.document, part.judged
    return {
        "name": part.name, "plan": part.solved.folder.name, "metric": part.metric, "part": part.part,
        "before": part.before, "after": part.after, "saved_on_train": part.train,
        "saved": part.saving.model_dump() if part.saving else None,
        "changes": document.changes, "steps": document.steps_total,
        "moves": document.counts.moves, "links": document.counts.links,
        "expected": judged.expected.model_dump() if judged.expected else None,
        "apart": [each.model_dump() for each in judged.apart],
        "newcomers": document.newcomers.rule if document.newcomers else None,
        "baselines": [each.model_dump() for each in judged.baselines],
        "metrics": [each.model_dump() for each in judged.metrics],
        "lines": dict(answer_lines(document, unit)),
        "beside": document.beside,
    }  # fmt: skip
