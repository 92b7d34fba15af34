"""Solve: one plan from a run's observation, into RUN/plans/ID."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np

from overlace.catalog import PLANNERS, planner_name
from overlace.errors import BadParameter
from overlace.model import PARTS, Names, Observation, Plan, Planner, Progress
from overlace.optimize.newcomers import NOBODY, Placing, Stays, describe_rule
from overlace.planners.joint.joint import Joint
from overlace.stopping import asked
from overlace.trace.plan_file import Forecast, PlanFile
from overlace.trace.plans import Provenance, load_plan, parameters_of, plan_id, read_plan, write_plan
from overlace.trace.runs import read_json

AMOUNTS = ("messages", "saved")
"""What reasons say of amounts of traffic."""


class Solved(NamedTuple):
    """A plan file, where it lies, and whether it was there before."""

    document: PlanFile
    folder: Path
    again: bool
    plan: Plan


class Target(NamedTuple):
    """What a plan is made for beside what was observed: traffic to come, and a rule for newcomers."""

    forecast: Forecast | None = None
    ahead: Observation | None = None  # None: what was observed
    rule: str = ""
    stays: Stays = NOBODY


AS_OBSERVED = Target()


def solve(
    planner: Planner,
    observation: Observation,
    run: Path,
    names: Names | None = None,
    *,
    seed: int = 0,
    target: Target = AS_OBSERVED,
    progress: Progress | None = None,
) -> Solved:
    """The plan of this planner, parameters and seed, into a run; read instead of solved if it is there."""
    folder = _folder_of(planner, observation, run, seed, target)
    if folder.exists():
        document = read_plan(folder)
        if not document.stopped:
            return Solved(document, folder, again=True, plan=load_plan(folder, PLANNERS, observation))
    plan = plan_for(planner, observation, target.ahead, seed, progress)
    return keep_plan(plan, observation, run, names, target)


def keep_plan(
    plan: Plan, observation: Observation, run: Path, names: Names | None = None, target: Target = AS_OBSERVED
) -> Solved:
    """A plan in hand, written into a run."""
    planner, folder = plan.planner, _folder_of(plan.planner, observation, run, plan.seed, target)
    rule = None
    if target.rule and isinstance(planner, Joint):
        placing = Placing(planner, observation, target.rule, plan.seed, target.stays)
        rule = describe_rule(placing, plan.after, names or {})
    about = run / "run.json"
    trace = str(read_json(about).get("trace_digest", "")) if about.exists() else ""
    made_of = Provenance(trace, target.forecast, rule, stopped=asked())
    document = write_plan(plan, folder, planner_name(planner), observation, names, made_of, force=True)
    return Solved(document, folder, again=False, plan=plan)


def _folder_of(planner: Planner, observation: Observation, run: Path, seed: int, target: Target) -> Path:
    """Where the plan lies: its name says all that it was made of."""
    rule = [target.rule, *target.stays.keep, "|", *target.stays.only] if target.rule else []
    made_of = (parameters_of(planner), seed, observation.digest(), target.forecast, rule)
    return run / "plans" / plan_id(planner_name(planner), *made_of)


def objective_of(planner: Planner) -> str:
    """What a planner lowers, as optimize calls it."""
    objective = str(getattr(planner, "objective", "cost"))
    by_bytes = objective == "messages" and getattr(planner, "weight", "messages") == "bytes"
    return "bytes" if by_bytes else objective


def check_is_for_traffic(planner: Planner) -> None:
    """Refuse a forecast for a planner that does not plan homes or links of brokers."""
    if not {"placement", "tree"} & set(planner.facets):
        name, what = planner_name(planner), planner.facets[0]
        raise BadParameter(f"a forecast is of traffic between brokers; {name} plans {what}")


def plan_for(
    planner: Planner, observation: Observation, ahead: Observation | None, seed: int, progress: Progress | None = None
) -> Plan:
    """A planner's plan for the traffic ahead, each step with what it would have saved of what was observed."""
    if ahead is None:
        return planner.solve(observation, seed, progress=progress)
    if isinstance(planner, Joint):
        return planner.solve(observation, seed, progress=progress, ahead=ahead)
    check_is_for_traffic(planner)
    ahead = replace(ahead, sent=PARTS * observation.sent, sent_bytes=PARTS * observation.sent_bytes)  # limits are plain
    there = planner
    if "tree" in planner.facets and hasattr(planner, "min_gain"):  # in units of the cost
        there = cast(Any, replace)(planner, min_gain=PARTS * planner.min_gain)
    found = there.solve(ahead, seed, progress=progress)
    overlay, costs = observation.overlay, [planner.cost(observation, observation.overlay)]
    for i in range(len(found.steps)):
        overlay = overlay.apply(found.changes.between(int(found.steps.start[i]), int(found.steps.start[i + 1])))
        costs.append(planner.cost(observation, overlay))
    args = {key: each / PARTS if key in AMOUNTS else each for key, each in found.steps.args.items()}
    steps = replace(found.steps, gain=-np.diff(costs), args=args)
    return replace(found, planner=planner, steps=steps, beside={})
