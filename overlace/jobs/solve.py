"""Solve: one plan from a run's observation, into RUN/plans/ID."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from overlace.catalog import planner_name
from overlace.model import Names, Observation, Planner, Progress
from overlace.trace.plans import PlanFile, parameters_of, plan_id, read_plan, write_plan
from overlace.trace.runs import read_json


class Solved(NamedTuple):
    """A plan file, where it lies, and whether it was there before."""

    document: PlanFile
    folder: Path
    again: bool


def solve(
    planner: Planner,
    observation: Observation,
    run: Path,
    names: Names | None = None,
    *,
    seed: int = 0,
    force: bool = False,
    progress: Progress | None = None,
) -> Solved:
    """The plan of this planner, parameters and seed; read instead of solved if it is there already."""
    name = planner_name(planner)
    folder = run / "plans" / plan_id(name, parameters_of(planner), seed, observation.digest())
    if folder.exists() and not force:
        return Solved(read_plan(folder), folder, again=True)
    plan = planner.solve(observation, seed, progress=progress)
    trace = str(read_json(run / "run.json").get("trace_digest", "")) if (run / "run.json").exists() else ""
    document = write_plan(plan, folder, name, observation, names, trace=trace, force=force)
    return Solved(document, folder, again=False)
