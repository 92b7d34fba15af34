"""Plan files: a plan that people review, compare, cut, and hand to `apply` as it is.

A plan is a folder. `plan.json` is for people: names, gains, reasons, in the order of the steps.
`changes.parquet`, `steps.parquet` and `after.parquet` are the same plan as columns, so that a plan of
millions of changes stays small and quick. One digest, in plan.json, covers all of it, and what plan.json
says must be what the columns give: a plan file that was altered is refused. That guards against accidents,
not against forgery; the digest has no key. The bytes of plan.json are the same for the same plan.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, cast, get_type_hints

import numpy as np
from pydantic import TypeAdapter, ValidationError

from overlace.errors import BadParameter, BadPlan, Unknown
from overlace.model import Changes, Names, Observation, Overlay, Plan, Planner
from overlace.trace.judgement import Judgement
from overlace.trace.plan_checks import check_document, check_ids, check_reasons, listed_steps
from overlace.trace.plan_file import MOST_LISTED, MOVES, ChangeLine, ForecastModel, Newcomers, PlanFile
from overlace.trace.plan_tables import PlanColumns, count_changes, read_tables, reconnects, write_tables
from overlace.trace.runs import read_json, whole_folder, write_json
from overlace.trace.tables import SCHEMA_VERSION

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


def parameters_of(planner: Planner) -> dict[str, object]:
    """A planner's fields as plain JSON values; 2 is 2.0 where the field is a float."""
    hints = get_type_hints(type(planner))
    values = {}
    for name, value in asdict(cast("DataclassInstance", planner)).items():
        whole = isinstance(value, int) and not isinstance(value, bool)
        values[name] = float(value) if whole and hints[name] in (float, float | None) else value
    plain: dict[str, object] = json.loads(json.dumps(values))
    return plain


def plan_id(
    name: str,
    parameters: Mapping[str, object],
    seed: int,
    observation: str,
    forecast: ForecastModel | None = None,
    rule: Sequence[str] = (),
) -> str:
    """The planner's name and 8 hex digits of all that decides the plan: solving again is a no-op."""
    ahead = [forecast.model_dump() if forecast else None, list(rule)] if forecast or rule else []
    what = json.dumps([parameters, seed, observation, *ahead], sort_keys=True)
    return f"{name}-{hashlib.blake2b(what.encode(), digest_size=4).hexdigest()}"


class Provenance(NamedTuple):
    """What a plan was made from and for, beside the observation."""

    trace: str = ""  # the digest of the trace
    forecast: ForecastModel | None = None
    newcomers: Newcomers | None = None
    stopped: bool = False  # whether the search was ended early


def save_plan(plan: Plan, document: PlanFile, folder: Path, *, force: bool = False) -> None:
    """Write a plan that is described already."""
    columns = PlanColumns(plan.changes, plan.steps)
    check_document(document, plan.before, plan.after, columns, MOST_LISTED)
    _write(folder, document, plan.after, columns, force=force)


def with_judgement(document: PlanFile, judged: Judgement) -> PlanFile:
    """plan.json with how the plan was judged."""
    return _seal(document.model_dump() | {"judged": judged})


def describe(
    plan: Plan,
    name: str,
    observation: Observation,
    names: Names | None = None,
    provenance: Provenance | None = None,
) -> PlanFile:
    """plan.json for this plan."""
    columns = PlanColumns(plan.changes, plan.steps)
    document = {
        "schema_version": SCHEMA_VERSION,
        "digest": "",
        "planner": name,
        "parameters": parameters_of(plan.planner),
        "seed": int(plan.seed),
        "facets": list(plan.planner.facets),
        "observation": observation.digest(),
        "window": list(observation.window),
        "before": plan.before.digest(),
        "after": plan.after.digest(),
        "columns": columns.digest(),
        "cost_before": float(plan.planner.cost(observation, plan.before)),
        "cost_after": float(plan.planner.cost(observation, plan.after)),
        "beside": {name: float(cost) for name, cost in plan.beside.items()},
        "steps_total": len(plan.steps),
        "changes_total": len(plan.changes),
        "changes": count_changes(plan.changes)._asdict(),
        "peak_reconnects": int(reconnects(plan.changes, plan.steps).max(initial=0)),
        **(provenance or Provenance())._asdict(),
        "steps": [_step_line(plan, i, names) for i in range(listed_steps(columns, MOST_LISTED))],
    }
    return _seal(document)


_REMEDY = "Make it anew: `overlace solve PLANNER RUN --force`, or `overlace optimize TRACE --out RUN --force`."


def read_plan(path: Path, planners: Mapping[str, type[Planner]] | None = None) -> PlanFile:
    """plan.json of a plan folder (or named itself); refused unless it is whole and says what its columns give.

    With planners, its parameters and reasons are held against the planner that it names, if that is among them.
    """
    document = read_document(path)
    if document.planner in (planners or {}):
        _make(path, document, planners or {})
    else:
        _open(path, document)
    return document


def read_columns(path: Path, document: PlanFile) -> tuple[Overlay, PlanColumns]:
    """The overlay after and the columns beside a plan.json, checked against it."""
    _, after, columns = _open(path, document)
    return after, columns


def load_plan(path: Path, planners: Mapping[str, type[Planner]], observation: Observation | None = None) -> Plan:
    """The plan itself, with its planner made again from its name and parameters.

    With an observation, a plan is refused that was made from another one or names what that does not have.
    """
    document = read_document(path)
    if document.planner not in planners:
        raise Unknown("planner", document.planner, planners)
    plan = _make(path, document, planners)
    if observation is not None:
        if (document.observation, document.before) != (observation.digest(), observation.overlay.digest()):
            raise BadPlan(f"{_file_of(path)} was made from another observation than the run holds. Solve again.")
        try:
            check_ids(plan.after, observation)
        except BadPlan as error:
            raise BadPlan(f"{_file_of(path).with_name('after.parquet')}: {error}") from None
    return plan


def read_document(path: Path) -> PlanFile:
    """plan.json alone: of the right form, with the digest it names."""
    file = _file_of(path)
    document = read_json(file, _REMEDY)
    try:
        plan = PlanFile.model_validate(document)
        digest = _digest_of(document)
    except ValidationError as error:
        raise BadPlan(f"{file}: {_first(error)}. Is it a plan file?") from None
    except (ValueError, RecursionError) as error:
        raise BadPlan(f"{file}: {' '.join(str(error).split())}. Is it a plan file?") from None
    if digest != plan.digest:
        raise BadPlan(f"{file}: digest: its content does not have the digest it names: it was altered. Solve again.")
    return plan


def _open(path: Path, document: PlanFile) -> tuple[Overlay, Overlay, PlanColumns]:
    """(before, after, columns) of a plan.json whose columns are what it says."""
    after, columns = read_tables(_file_of(path).parent)
    seen = document.digest, after.digest(), columns.digest()
    try:
        before = after.apply(columns.changes.inverse())
        if seen not in _checked:
            check_document(document, before, after, columns, MOST_LISTED)
            _checked.add(seen)
    except BadPlan as error:
        raise BadPlan(f"{_file_of(path)}: {error}. It was altered: solve again.") from None
    return before, after, columns


_checked: set[tuple[str, str, str]] = set()
"""What this process has found to be whole: a plan is read several times in a job."""


def _make(path: Path, document: PlanFile, planners: Mapping[str, type[Planner]]) -> Plan:
    """The plan of a plan.json that names one of these planners."""
    before, after, columns = _open(path, document)
    try:
        planner = _planner_of(planners[document.planner], document.parameters)
        if list(planner.facets) != document.facets:
            raise BadPlan(f"facets: {', '.join(document.facets)}; {document.planner} plans {', '.join(planner.facets)}")
        plan = Plan(planner, document.seed, before, after, columns.changes, columns.steps, document.beside)
        check_reasons(plan)
    except (BadPlan, BadParameter) as error:
        raise BadPlan(f"{_file_of(path)}: {error}") from None
    return plan


def _planner_of(kind: type[Planner], parameters: Mapping[str, object]) -> Planner:
    """A planner made again from its parameters as JSON has them."""
    hints = get_type_hints(kind)
    known = {each.name: hints[each.name] for each in fields(cast("type[DataclassInstance]", kind))}
    values = {}
    for name, value in parameters.items():
        if name not in known:
            raise BadPlan(f"parameters.{name}: not known; there are {', '.join(known) or 'none'}")
        try:
            values[name] = TypeAdapter(known[name]).validate_json(json.dumps(value), strict=True)
        except ValidationError as error:
            raise BadPlan(f"parameters.{name}{_first(error)}") from None
    return kind(**values)


def _first(error: ValidationError) -> str:
    """The first fault in a line, after the field that it is in."""
    first = error.errors()[0]
    return " ".join(f"{'.'.join(map(str, first['loc']))}: {first['msg']}".split())


def _file_of(path: Path) -> Path:
    return path / "plan.json" if path.is_dir() else path


def cut_plan(
    path: Path,
    steps: int,
    folder: Path,
    planners: Mapping[str, type[Planner]] | None = None,
    *,
    force: bool = False,
) -> PlanFile:
    """The first steps of a plan as a plan of its own; it is read as `read_plan` reads it."""
    document = read_plan(path, planners)
    after, (changes, all_steps) = read_columns(path, document)
    if not 0 <= steps <= document.steps_total:
        raise BadPlan(f"{path} has {document.steps_total} steps; cannot keep {steps}")
    end = int(all_steps.start[steps])
    after = after.apply(changes.between(end, len(changes)).inverse())
    kept = PlanColumns(changes.between(0, end), all_steps.first(steps))
    cut = document.model_dump() | {
        "digest": "",
        "after": after.digest(),
        "columns": kept.digest(),
        "cost_after": document.cost_before - float(kept.steps.gain.sum()),
        "steps_total": steps,
        "changes_total": end,
        "changes": count_changes(kept.changes)._asdict(),
        "peak_reconnects": int(reconnects(*kept).max(initial=0)),
        "judged": None,
        "beside": document.beside if steps == document.steps_total else {},
        "steps": [line.model_dump() for line in document.steps[:steps]],
    }
    sealed = _seal(cut)
    _write(folder, sealed, after, kept, force=force)
    return sealed


def plan_difference(ours: Path, theirs: Path) -> tuple[list[str], list[str], int]:
    """(only in ours, only in theirs, in both): changes, told apart by id and shown by name, in order of the steps."""
    first, second = _changes_of(ours), _changes_of(theirs)
    return (
        [text for key, text in first.items() if key not in second],
        [text for key, text in second.items() if key not in first],
        len(first.keys() & second.keys()),
    )


def changes_by_name(
    path: Path, names: Names | None = None, most: int | None = None
) -> tuple[list[int], list[tuple[int, int, int, int]], list[ChangeLine]]:
    """(step, row, the same by name) of each change or the first `most`; `names`: of what plan.json does not list."""
    document = read_plan(path)
    _, (changes, steps) = read_columns(path, document)
    rows = list(changes.between(0, len(changes) if most is None else min(most, len(changes))).rows())
    lines = [line for step in document.steps for line in step.changes][: len(rows)]
    lines += [ChangeLine.of(*row, names) for row in rows[len(lines) :]]
    return np.searchsorted(steps.start, np.arange(len(rows)), side="right").tolist(), rows, lines


def _changes_of(path: Path) -> dict[tuple[int, ...], str]:
    """What a plan changes, by ids: a move is one, and so is each link that comes or goes."""
    _, rows, lines = changes_by_name(path)
    left = {row[::2]: (row, line) for row, line in zip(rows, lines, strict=True) if row[1] < 0 and line.facet in MOVES}
    there = {row[::2] for row in rows if row[1] > 0}
    found: dict[tuple[int, ...], str] = {}
    for row, line in zip(rows, lines, strict=True):
        if row[1] > 0 and row[::2] in left:
            before, old = left[row[::2]]
            found[*row, before[3]] = f"~ {MOVES[line.facet].format(line.left, old.right, line.right)}"
        elif not (row[1] < 0 and row[::2] in left and row[::2] in there):
            found[row] = str(line)
    return found


def _step_line(plan: Plan, i: int, names: Names | None) -> dict[str, object]:
    step = plan.step(i)
    shown = max(0, min(len(step.changes), MOST_LISTED - int(plan.steps.start[i])))
    listed = step.changes.between(0, shown)
    return {
        "step": i + 1,
        "gain": step.gain,
        "why": plan.why(i, names),
        "reconnects": int((step.changes.action > 0).sum()),
        "changes": _change_lines(listed, names),
        "inverse": _change_lines(listed.inverse(), names),
        "more": len(step.changes) - shown,
    }


def _change_lines(changes: Changes, names: Names | None) -> list[ChangeLine]:
    return [ChangeLine.of(*row, names) for row in changes.rows()]


def _seal(document: Mapping[str, object]) -> PlanFile:
    """The document with the digest of all else, taken after it has its final form."""
    unsealed = PlanFile.model_validate({**document, "digest": ""})
    return unsealed.model_copy(update={"digest": _digest_of(unsealed.model_dump())})


def _digest_of(document: Mapping[str, object]) -> str:
    """The digest of what is written, so that a file without a field that came later keeps its own."""
    plain = json.dumps({**document, "digest": ""}, sort_keys=True, allow_nan=False)
    return hashlib.blake2b(plain.encode(), digest_size=16).hexdigest()


def _write(folder: Path, document: PlanFile, after: Overlay, columns: PlanColumns, *, force: bool) -> None:
    with whole_folder(folder, "plan.json", force=force) as beside:
        write_tables(beside, after, columns)
        write_json(beside / "plan.json", document.model_dump())
