"""Plan files: a plan that people review, compare, cut, and hand to `apply` as it is.

A plan is a folder. `plan.json` is for people: names, gains, reasons, in the order of the steps.
`changes.parquet`, `steps.parquet` and `after.parquet` are the same plan as columns, so that a plan of
millions of changes stays small and quick. One digest, in plan.json, covers all of it: a plan file
that was altered is refused. The bytes of plan.json are the same for the same plan.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal, NamedTuple, cast, get_type_hints

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from overlace.arrays.jit import Ints
from overlace.errors import BadPlan, Unknown
from overlace.model import (
    ENDS,
    FACETS,
    Changes,
    Facet,
    Names,
    Observation,
    Overlay,
    Plan,
    Planner,
    Steps,
    name_of,
)
from overlace.trace.runs import overlay_of, overlay_table, read_json, whole_folder, write_json
from overlace.trace.tables import SCHEMA_VERSION, conform

MOST_LISTED = 20_000
"""Changes that plan.json lists; of a larger plan it lists the first steps, and the columns hold all."""


FEW = 3
"""Slices of time below which an interval says nothing."""


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ChangeLine(_Part):
    """One change, by name."""

    action: Literal["add", "remove"]
    facet: Facet
    left: str
    right: str

    def __str__(self) -> str:
        sign = "+" if self.action == "add" else "-"
        return f"{sign} {self.facet} {self.left} {self.right}"


class StepLine(_Part):
    """One step: what it saves, why, and what is changed."""

    step: int = Field(description="counted from 1")
    gain: float = Field(description="how much of the planner's cost the step saves")
    why: str
    reconnects: int = Field(description="clients, links or combinations that must connect anew while it is carried out")
    changes: list[ChangeLine] = Field(description="in the order in which they are carried out")
    inverse: list[ChangeLine] = Field(description="what takes the step back, in order")
    more: int = Field(default=0, description="changes of this step that are not listed here")


class Measure(_Part):
    """One metric of a part of the log, as it was and with the plan."""

    metric: str
    part: Literal["train", "held-out"]
    before: float
    after: float


class Sure(_Part):
    """The share saved on the part that judges, with the interval that holds 95 % of what was drawn again."""

    share: float
    low: float
    high: float
    slices: int = Field(description="pieces of time that the interval is drawn from")
    origins: int = Field(description="points in time from which plans were made to be judged on what came next")

    def __str__(self) -> str:
        if self.slices < FEW:
            return "too short to say how sure"
        times = f" and plans from {self.origins} times" if self.origins > 1 else ""
        return f"{self.low:.1%} to {self.high:.1%} over {self.slices} slices of time{times}"


class Point(_Part):
    """A plan stopped after some of its steps: what has changed by then, and what that comes to where it is judged."""

    steps: int
    moves: int = Field(description="clients that have moved")
    links: int = Field(description="links that are new; as many are gone")
    own_cost: float = Field(description="the planner's own cost, on the part that planned")
    metrics: dict[str, float] = Field(description="measured on the part that judges; the objective's metric first")


class Judgement(_Part):
    """How a plan did on the part that it was made from and on the part that it has not seen."""

    train: list[int] = Field(description="first and last microsecond (UTC) of the part that planned; half-open")
    held_out: list[int] = Field(description="and of the part that judges")
    objective: str
    limits: dict[str, Any] = Field(description="what the user asked for")
    metrics: list[Measure]
    saving: Sure | None = Field(description="of the objective's metric, the first one; for placement and tree")
    curve: list[Point] = Field(
        default_factory=list,
        description="for placement and tree: after no step, after all, and after some numbers of steps between",
    )


class Newcomers(_Part):
    """Where a client should connect that the plan has never seen."""

    rule: str = Field(pattern="^[a-z][a-z-]*$", description="what of the newcomer decides: region, community, ...")
    brokers: dict[str, str] = Field(default_factory=dict, description="the broker for each of these, by name")
    default: str | None = Field(default=None, description="the broker for all others; null: none is named")

    @model_validator(mode="after")
    def _names_a_broker(self) -> Newcomers:
        if not self.brokers and self.default is None:
            raise ValueError("a rule for newcomers names at least one broker")
        return self


class PlanFile(_Part):
    """plan.json."""

    schema_version: int = SCHEMA_VERSION
    digest: str = Field(description="of everything else in this file, and through it of the columns beside it")
    planner: str = Field(description="the planner's name in the catalog")
    parameters: dict[str, Any]
    seed: int
    facets: list[Facet]
    trace: str = Field(default="", description="digest of the trace that was observed")
    observation: str = Field(description="digest of the observation the plan was made from")
    window: list[int] = Field(description="first and last microsecond (UTC) of what was observed; half-open")
    before: str = Field(description="digest of the overlay that the plan starts from")
    after: str = Field(description="digest of the overlay that it leads to")
    columns: str = Field(description="digest of the changes and steps as columns")
    cost_before: float
    cost_after: float
    beside: dict[str, float] = Field(
        default_factory=dict, description="the cost that other ways reach within the same limits, by their names"
    )
    steps_total: int
    changes_total: int
    peak_reconnects: int = Field(description="the most that must connect anew in one step")
    newcomers: Newcomers | None = Field(
        default=None, description="a rule for clients that the plan has never seen; null: the plan has none"
    )
    judged: Judgement | None = Field(default=None, description="where `overlace optimize` made the plan")
    steps: list[StepLine] = Field(description=f"all steps, or the first of a plan of over {MOST_LISTED:,} changes")


class Columns(NamedTuple):
    """A plan's changes and steps without its planner."""

    changes: Changes
    steps: Steps

    def digest(self) -> str:
        """The same for the same changes, gains and reasons in the same order."""
        return hashlib.blake2b((self.changes.digest() + self.steps.digest()).encode(), digest_size=16).hexdigest()


def parameters_of(planner: Planner) -> dict[str, Any]:
    """A planner's fields as plain JSON values; 2 is 2.0 where the field is a float."""
    hints = get_type_hints(type(planner))
    values = {}
    for name, value in asdict(cast(Any, planner)).items():
        whole = isinstance(value, int) and not isinstance(value, bool)
        values[name] = float(value) if whole and hints[name] in (float, float | None) else value
    return cast(dict[str, Any], json.loads(json.dumps(values)))


def plan_id(name: str, parameters: Mapping[str, Any], seed: int, observation: str) -> str:
    """The planner's name and 8 hex digits of all that decides the plan: solving again is a no-op."""
    what = json.dumps([parameters, seed, observation], sort_keys=True)
    return f"{name}-{hashlib.blake2b(what.encode(), digest_size=4).hexdigest()}"


def write_plan(
    plan: Plan,
    folder: Path,
    name: str,
    observation: Observation,
    names: Names | None = None,
    *,
    trace: str = "",
    force: bool = False,
) -> PlanFile:
    """Write a plan that the planner of that name made from this observation (of the trace with that digest)."""
    document = describe(plan, name, observation, names, trace)
    _write(folder, document, plan.after, Columns(plan.changes, plan.steps), force=force)
    return document


def judge(folder: Path, judged: Judgement) -> PlanFile:
    """Write into a plan how it was judged."""
    document = _sealed(read_plan(folder).model_dump() | {"judged": judged})
    write_json(folder / "plan.json", document.model_dump())
    return document


def reconnects(changes: Changes, steps: Steps) -> Ints:
    """How many must connect anew in each step: a client at its home, the two ends of a link, a combination."""
    added = np.append(0, np.cumsum(changes.action > 0))
    return np.diff(added[steps.start])


def describe(plan: Plan, name: str, observation: Observation, names: Names | None = None, trace: str = "") -> PlanFile:
    """plan.json for this plan."""
    listed = int(np.searchsorted(plan.steps.start, MOST_LISTED))  # steps that begin within the limit
    document = {
        "schema_version": SCHEMA_VERSION,
        "digest": "",
        "planner": name,
        "parameters": parameters_of(plan.planner),
        "seed": int(plan.seed),
        "facets": list(plan.planner.facets),
        "trace": trace,
        "observation": observation.digest(),
        "window": list(observation.window),
        "before": plan.before.digest(),
        "after": plan.after.digest(),
        "columns": Columns(plan.changes, plan.steps).digest(),
        "cost_before": float(plan.planner.cost(observation, plan.before)),
        "cost_after": float(plan.planner.cost(observation, plan.after)),
        "beside": {name: float(cost) for name, cost in plan.beside.items()},
        "steps_total": len(plan.steps),
        "changes_total": len(plan.changes),
        "peak_reconnects": int(reconnects(plan.changes, plan.steps).max(initial=0)),
        "steps": [_step_line(plan, i, names) for i in range(min(listed, len(plan.steps)))],
    }
    return _sealed(document)


_REMEDY = "Make it anew: `overlace solve PLANNER RUN --force`, or `overlace optimize TRACE --out RUN --force`."


def read_plan(path: Path) -> PlanFile:
    """plan.json of a plan folder (or named itself), refused if it was altered."""
    file = path / "plan.json" if path.is_dir() else path
    document = read_json(file, _REMEDY)
    try:
        plan = PlanFile.model_validate(document)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise BadPlan(f"{file}: {where}: {first['msg']}. Is it a plan file?") from None
    if _sealed({**document, "digest": ""}).digest != plan.digest:
        raise BadPlan(f"{file}: its content does not have the digest it names: it was altered. Solve again.")
    return plan


def read_columns(path: Path, document: PlanFile) -> tuple[Overlay, Columns]:
    """The overlay after and the columns beside a plan.json, checked against its digest."""
    folder = path if path.is_dir() else path.parent
    try:
        after = overlay_of(pq.read_table(folder / "after.parquet"))
        changes = pq.read_table(folder / "changes.parquet")
        steps = pq.read_table(folder / "steps.parquet")
    except (OSError, pa.ArrowException) as error:
        raise BadPlan(f"{folder}: the plan's tables cannot be read: {error}") from None
    try:
        columns = _columns(changes, steps)
        whole = columns.digest() == document.columns and after.digest() == document.after
    except (BadPlan, KeyError):
        whole = False
    if not whole:
        raise BadPlan(f"{folder}: the tables do not have the digest that plan.json names: they were altered")
    return after, columns


def _columns(changes: pa.Table, steps: pa.Table) -> Columns:
    codes = {facet: code for code, facet in enumerate(FACETS)}
    facet, at = np.unique(changes["facet"].to_numpy(zero_copy_only=False).astype(str), return_inverse=True)
    coded = np.array([codes[each] for each in facet.tolist()], dtype=np.int8)[at]
    args = {name[4:]: steps[name].to_numpy() for name in steps.column_names if name.startswith("arg_")}
    sizes = np.bincount(changes["step"].to_numpy(), minlength=len(steps))
    return Columns(
        Changes(coded, *(changes[name].to_numpy() for name in ("action", "left", "right"))),
        Steps(np.append(0, np.cumsum(sizes)), steps["gain"].to_numpy(), steps["reason"].to_numpy(), args),
    )


def load_plan(path: Path, planners: Mapping[str, type[Planner]]) -> Plan:
    """The plan itself, with its planner made again from its name and parameters."""
    document = read_plan(path)
    after, columns = read_columns(path, document)
    if document.planner not in planners:
        raise Unknown("planner", document.planner, planners)
    parameters = {k: tuple(v) if isinstance(v, list) else v for k, v in document.parameters.items()}
    planner = planners[document.planner](**parameters)
    before = after.apply(columns.changes.inverse())
    return Plan(planner, document.seed, before, after, columns.changes, columns.steps, document.beside)


def cut_plan(path: Path, steps: int, folder: Path, *, force: bool = False) -> PlanFile:
    """The first steps of a plan as a plan of its own."""
    document = read_plan(path)
    after, (changes, all_steps) = read_columns(path, document)
    if not 0 <= steps <= document.steps_total:
        raise BadPlan(f"{path} has {document.steps_total} steps; cannot keep {steps}")
    end = int(all_steps.start[steps])
    after = after.apply(changes.between(end, len(changes)).inverse())
    args = {name: values[:steps] for name, values in all_steps.args.items()}
    kept = Columns(
        changes.between(0, end),
        Steps(all_steps.start[: steps + 1], all_steps.gain[:steps], all_steps.reason[:steps], args),
    )
    cut = document.model_dump() | {
        "digest": "",
        "after": after.digest(),
        "columns": kept.digest(),
        "cost_after": document.cost_before - float(kept.steps.gain.sum()),
        "steps_total": steps,
        "changes_total": end,
        "peak_reconnects": int(reconnects(*kept).max(initial=0)),
        "judged": None,
        "beside": document.beside if steps == document.steps_total else {},
        "steps": [line.model_dump() for line in document.steps[:steps]],
    }
    sealed = _sealed(cut)
    _write(folder, sealed, after, kept, force=force)
    return sealed


def plan_difference(ours: Path, theirs: Path) -> tuple[list[str], list[str], int]:
    """(only in ours, only in theirs, in both): changes, told apart by id and shown by name, in order of the steps."""
    rows, shown = [], []
    for path in (ours, theirs):
        document = read_plan(path)
        _, (changes, _) = read_columns(path, document)
        rows.append(
            list(zip(*(getattr(changes, f).tolist() for f in ("facet", "action", "left", "right")), strict=True))
        )
        shown.append([str(line) for step in document.steps for line in step.changes])
    first, second = set(rows[0]), set(rows[1])
    return (
        [_shown(shown[0], i, row) for i, row in enumerate(rows[0]) if row not in second],
        [_shown(shown[1], i, row) for i, row in enumerate(rows[1]) if row not in first],
        len(first & second),
    )


def _shown(lines: list[str], i: int, row: tuple[int, int, int, int]) -> str:
    """Change i by name where plan.json lists it, else by id."""
    facet, action, left, right = row
    kinds = ENDS[FACETS[facet]]
    plain = ChangeLine(
        action="add" if action > 0 else "remove",
        facet=FACETS[facet],
        left=name_of(kinds[0], left),
        right=name_of(kinds[1], right),
    )
    return lines[i] if i < len(lines) else str(plain)


def _step_line(plan: Plan, i: int, names: Names | None) -> dict[str, Any]:
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


def _change_lines(changes: Changes, names: Names | None) -> list[dict[str, Any]]:
    lines = []
    for facet, action, left, right in zip(changes.facet, changes.action, changes.left, changes.right, strict=True):
        kinds = ENDS[FACETS[facet]]
        lines.append(
            {
                "action": "add" if action > 0 else "remove",
                "facet": FACETS[facet],
                "left": name_of(kinds[0], int(left), names),
                "right": name_of(kinds[1], int(right), names),
            }
        )
    return lines


def _sealed(document: dict[str, Any]) -> PlanFile:
    """The document with the digest of all else, taken after it has its final form."""
    unsealed = PlanFile.model_validate({**document, "digest": ""})
    plain = json.dumps(unsealed.model_dump(), sort_keys=True, allow_nan=False)
    digest = hashlib.blake2b(plain.encode(), digest_size=16).hexdigest()
    return unsealed.model_copy(update={"digest": digest})


def _write(folder: Path, document: PlanFile, after: Overlay, columns: Columns, *, force: bool) -> None:
    changes, steps = columns
    step_of = np.repeat(np.arange(len(steps)), np.diff(steps.start))
    change_table = pa.table(
        {
            "facet": np.asarray(FACETS)[changes.facet],
            "action": changes.action,
            "left": changes.left,
            "right": changes.right,
            "step": step_of,
        }
    )
    args = {f"arg_{name}": values for name, values in steps.args.items()}
    step_table = pa.table({"gain": steps.gain, "reason": steps.reason, **args})
    with whole_folder(folder, "plan.json", force=force) as beside:
        pq.write_table(overlay_table(after), beside / "after.parquet", compression="zstd")
        pq.write_table(conform(change_table, "changes"), beside / "changes.parquet", compression="zstd")
        pq.write_table(step_table, beside / "steps.parquet", compression="zstd")
        write_json(beside / "plan.json", document.model_dump())
