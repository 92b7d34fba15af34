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
from typing import Annotated, Any, Literal, cast, get_type_hints

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, model_validator

from overlace.errors import BadParameter, BadPlan, Unknown
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
from overlace.trace.plan_checks import check_document, check_ids, check_reasons, listed_steps
from overlace.trace.plan_tables import Columns, Counts, count_changes, read_tables, reconnects, write_tables
from overlace.trace.runs import read_json, whole_folder, write_json
from overlace.trace.tables import SCHEMA_VERSION

MOST_LISTED = 20_000
"""Changes that plan.json lists; of a larger plan it lists the first steps, and the columns hold all."""


FEW = 3
"""Slices of time below which an interval says nothing."""


Count = Annotated[int, Field(ge=0, lt=2**63)]
"""How many."""


def _in_order(window: list[int]) -> list[int]:
    if window[0] > window[1]:
        raise ValueError(f"a window ends at {window[1]}, before it begins at {window[0]}")
    return window


Time = Annotated[int, Field(ge=-(2**63), lt=2**63)]
Window = Annotated[list[Time], Field(min_length=2, max_length=2), AfterValidator(_in_order)]
"""Two times, the first and the one after the last."""


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


class ChangeLine(_Part):
    """One change, by name."""

    action: Literal["add", "remove"]
    facet: Facet
    left: str
    right: str

    def __str__(self) -> str:
        sign = "+" if self.action == "add" else "-"
        return f"{sign} {SAID[self.facet].format(self.left, self.right)}"


SAID = {
    "placement": "client {} at {}", "tree": "link {} - {}", "channels": "combination {} in channel {}",
    "mesh": "link {} - {}",
}  # fmt: skip
"""What one row of each relation says."""


def change_lines(changes: Sequence[ChangeLine]) -> list[str]:
    """Changes as infrastructure tools show them: `+` new, `-` gone, `~` what is at one place and then at another."""
    removed = {(line.facet, line.left): line for line in changes if line.action == "remove" and line.facet in MOVES}
    added = {(line.facet, line.left) for line in changes if line.action == "add"}
    lines = []
    for line in changes:
        key = line.facet, line.left
        if line.action == "add" and key in removed:
            lines.append(f"~ {MOVES[line.facet].format(line.left, removed[key].right, line.right)}")
        elif not (line.action == "remove" and key in removed and key in added):
            lines.append(str(line))
    return lines


MOVES = {"placement": "client {}: {} -> {}", "channels": "combination {}: channel {} -> {}"}
"""Relations in which a row takes the place of another."""


class StepLine(_Part):
    """One step: what it saves, why, and what is changed."""

    step: Count = Field(description="counted from 1")
    gain: float = Field(description="how much of the planner's cost the step saves")
    why: str
    reconnects: Count = Field(
        description="clients, links or combinations that must connect anew while it is carried out"
    )
    changes: list[ChangeLine] = Field(description="in the order in which they are carried out")
    inverse: list[ChangeLine] = Field(description="what takes the step back, in order")
    more: Count = Field(default=0, description="changes of this step that are not listed here")


class Measure(_Part):
    """One metric of a part of the log, as it was and with the plan."""

    metric: str
    part: Literal["train", "held-out"]
    before: float
    after: float


class Apart(_Part):
    """What the messages of some clients cost where a plan is judged."""

    clients: Literal["known", "newcomers"]
    before: float
    after: float

    @property
    def saved(self) -> float:
        """The share that is saved."""
        return 1 - self.after / self.before if self.before else 0.0


class Sure(_Part):
    """The share saved on the part that judges, with the interval that holds 95 % of what was drawn again."""

    share: float
    low: float
    high: float
    slices: Count = Field(description="pieces of time that the interval is drawn from")
    origins: Count = Field(description="points in time from which plans were made to be judged on what came next")

    def __str__(self) -> str:
        if self.slices < FEW:
            return "too short to say how sure"
        times = f" and plans from {self.origins} times" if self.origins > 1 else ""
        return f"{self.low:.1%} to {self.high:.1%} over {self.slices} slices of time{times}"


class Baseline(_Part):
    """What moving clients greedily saves where a plan is judged: whoever saves most goes first, as long as there is
    room."""

    links: Literal["planned", "today"] = Field(description="the links between brokers under which clients move")
    changes: Count = Field(description="at most as many as the plan has; those of planned links among them")
    share: float = Field(description="saved, of what today's overlay costs")


class Point(_Part):
    """A plan stopped after some of its steps: what has changed by then, and what that comes to where it is judged."""

    steps: Count
    moves: Count = Field(description="clients that have moved")
    links: Count = Field(description="links that are new; as many are gone")
    own_cost: float = Field(description="the planner's own cost, on the part that planned")
    metrics: dict[str, float] = Field(description="measured on the part that judges; the objective's metric first")


class Judgement(_Part):
    """How a plan did on the part that it was made from and on the part that it has not seen."""

    train: Window = Field(description="first and last microsecond (UTC) of the part that planned; half-open")
    held_out: Window = Field(description="and of the part that judges")
    objective: str
    limits: dict[str, Any] = Field(description="what the user asked for")
    metrics: list[Measure]
    saving: Sure | None = Field(description="of the objective's metric, the first one; for placement and tree")
    expected: Sure | None = Field(
        default=None,
        description="the saving to expect, from plans made at earlier times of the part that planned; before anything "
        "of the part that judges was looked at",
    )
    apart: list[Apart] = Field(
        default_factory=list,
        description="of the objective's metric on the part that judges: messages of known clients, and those with one "
        "that had no traffic before",
    )
    baselines: list[Baseline] = Field(
        default_factory=list, description="for placement and tree: what a greedy way saves with as many changes"
    )
    curve: list[Point] = Field(
        default_factory=list,
        description="for placement and tree: after no step, after all, and after some numbers of steps between",
    )

    @model_validator(mode="after")
    def _measures_what_counts(self) -> Judgement:
        for i, point in enumerate(self.curve):
            if not self.metrics or self.metrics[0].metric not in point.metrics:
                raise ValueError(f"point {i} of the curve does not have the metric that counts, the first one")
        return self

    def min_gain(self, default: float) -> float:
        """The least share that the user wanted saved."""
        asked = self.limits.get("min_gain", default)
        if not isinstance(asked, int | float):
            raise BadPlan(f"judged.limits.min_gain: expected a number, found {asked!r}")
        return float(asked)


class Newcomers(_Part):
    """Where a client should connect that the plan has never seen."""

    rule: str = Field(pattern="^[a-z][a-z-]*$", description="what of the newcomer decides: region, community, ...")
    brokers: dict[str, str] = Field(default_factory=dict, description="the broker for each of these, by name")
    default: str | None = Field(
        default=None, description="the broker for all others; null: where they connect, or the nearest with room"
    )
    keep: list[str] = Field(default_factory=list, description="clients that stay where they connect, names or patterns")
    only: list[str] = Field(default_factory=list, description="where any is given: all others stay where they connect")

    def __str__(self) -> str:
        goes = {
            "first-contact": "to the home of whom it met first",
            "community": "to the broker with most of the traffic of whom it met first and of those that one talks with",
            "region": "to the broker with most of its region's traffic",
        }
        return f"each goes {goes.get(self.rule, f'by its {self.rule}')}, or the nearest with room"

    @model_validator(mode="after")
    def _names_a_broker(self) -> Newcomers:
        if not self.brokers and self.default is None and self.rule != "first-contact":
            raise ValueError("a rule for newcomers names at least one broker, unless it is that of the first contact")
        return self


class PlannedFor(_Part):
    """The traffic that a plan was made for: an estimate of what follows, from what was observed."""

    half_life_days: float | None = Field(default=None, gt=0, description="after which traffic counts half; null: never")
    blocks: float = Field(default=0.0, ge=0, lt=1, description="share of the demand drawn from communities")

    def __str__(self) -> str:
        age = "no ageing" if self.half_life_days is None else f"half-life {self.half_life_days:g} days"
        return f"{age}, {self.blocks:.0%} community blocks"


class PlanFile(_Part):
    """plan.json."""

    schema_version: int = SCHEMA_VERSION
    digest: str = Field(description="of everything else in this file, and through it of the columns beside it")
    planner: str = Field(description="the planner's name in the catalog")
    parameters: dict[str, Any]
    seed: int = Field(ge=-(2**63), lt=2**63)
    facets: list[Facet]
    trace: str = Field(default="", description="digest of the trace that was observed")
    observation: str = Field(description="digest of the observation the plan was made from")
    window: Window = Field(description="first and last microsecond (UTC) of what was observed; half-open")
    before: str = Field(description="digest of the overlay that the plan starts from")
    after: str = Field(description="digest of the overlay that it leads to")
    columns: str = Field(description="digest of the changes and steps as columns")
    cost_before: float
    cost_after: float
    beside: dict[str, float] = Field(
        default_factory=dict, description="the cost that other ways reach within the same limits, by their names"
    )
    steps_total: Count
    changes_total: Count = Field(description="rows of changes.parquet: a move is two, one that goes and one that comes")
    changes: dict[str, Count] = Field(
        description="what the whole plan changes: clients that move, links between brokers that change (one that takes "
        "another's place counts once), combinations that change their channel, links between clients that come and go"
    )
    peak_reconnects: Count = Field(description="the most that must connect anew in one step")
    forecast: PlannedFor | None = Field(
        default=None, description="what the plan was made for; null: the observed traffic as it was, plain sums"
    )
    newcomers: Newcomers | None = Field(
        default=None, description="a rule for clients that the plan has never seen; null: the plan has none"
    )
    stopped: bool = Field(default=False, description="whether Ctrl-C ended the search early: solving again searches on")
    judged: Judgement | None = Field(default=None, description="where `overlace optimize` made the plan")
    steps: list[StepLine] = Field(description=f"all steps, or the first of a plan of over {MOST_LISTED:,} changes")

    @property
    def counts(self) -> Counts:
        """What the plan changes, as everybody counts it."""
        return Counts(**self.changes)


def parameters_of(planner: Planner) -> dict[str, Any]:
    """A planner's fields as plain JSON values; 2 is 2.0 where the field is a float."""
    hints = get_type_hints(type(planner))
    values = {}
    for name, value in asdict(cast(Any, planner)).items():
        whole = isinstance(value, int) and not isinstance(value, bool)
        values[name] = float(value) if whole and hints[name] in (float, float | None) else value
    return cast(dict[str, Any], json.loads(json.dumps(values)))


def plan_id(
    name: str, parameters: Mapping[str, Any], seed: int, observation: str, forecast: PlannedFor | None = None,
    rule: Sequence[str] = (),
) -> str:  # fmt: skip
    """The planner's name and 8 hex digits of all that decides the plan: solving again is a no-op."""
    ahead = [forecast.model_dump() if forecast else None, list(rule)] if forecast or rule else []
    what = json.dumps([parameters, seed, observation, *ahead], sort_keys=True)
    return f"{name}-{hashlib.blake2b(what.encode(), digest_size=4).hexdigest()}"


def write_plan(
    plan: Plan,
    folder: Path,
    name: str,
    observation: Observation,
    names: Names | None = None,
    *,
    trace: str = "",
    forecast: PlannedFor | None = None,
    newcomers: Newcomers | None = None,
    stopped: bool = False,
    force: bool = False,
) -> PlanFile:
    """Write a plan that the planner of that name made from this observation (of the trace with that digest)."""
    document = describe(plan, name, observation, names, trace, forecast, newcomers)
    if stopped:
        document = _sealed(document.model_dump() | {"stopped": True})
    columns = Columns(plan.changes, plan.steps)
    check_document(document, plan.before, plan.after, columns, MOST_LISTED)
    _write(folder, document, plan.after, columns, force=force)
    return document


def judge(folder: Path, judged: Judgement) -> PlanFile:
    """Write into a plan how it was judged."""
    document = _sealed(read_plan(folder).model_dump() | {"judged": judged})
    write_json(folder / "plan.json", document.model_dump())
    return document


def describe(
    plan: Plan, name: str, observation: Observation, names: Names | None = None, trace: str = "",
    forecast: PlannedFor | None = None, newcomers: Newcomers | None = None,
) -> PlanFile:  # fmt: skip
    """plan.json for this plan."""
    columns = Columns(plan.changes, plan.steps)
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
        "columns": columns.digest(),
        "cost_before": float(plan.planner.cost(observation, plan.before)),
        "cost_after": float(plan.planner.cost(observation, plan.after)),
        "beside": {name: float(cost) for name, cost in plan.beside.items()},
        "steps_total": len(plan.steps),
        "changes_total": len(plan.changes),
        "changes": count_changes(plan.changes)._asdict(),
        "peak_reconnects": int(reconnects(plan.changes, plan.steps).max(initial=0)),
        "forecast": forecast,
        "newcomers": newcomers,
        "steps": [_step_line(plan, i, names) for i in range(listed_steps(columns, MOST_LISTED))],
    }
    return _sealed(document)


_REMEDY = "Make it anew: `overlace solve PLANNER RUN --force`, or `overlace optimize TRACE --out RUN --force`."


def read_plan(path: Path, planners: Mapping[str, type[Planner]] | None = None) -> PlanFile:
    """plan.json of a plan folder (or named itself); refused unless it is whole and says what its columns give.

    With planners, its parameters and reasons are held against the planner that it names, if that is among them.
    """
    document = _document(path)
    if document.planner in (planners or {}):
        _made(path, document, planners or {})
    else:
        _opened(path, document)
    return document


def read_columns(path: Path, document: PlanFile) -> tuple[Overlay, Columns]:
    """The overlay after and the columns beside a plan.json, checked against it."""
    _, after, columns = _opened(path, document)
    return after, columns


def load_plan(path: Path, planners: Mapping[str, type[Planner]], observation: Observation | None = None) -> Plan:
    """The plan itself, with its planner made again from its name and parameters.

    With an observation, a plan is refused that was made from another one or names what that does not have.
    """
    document = _document(path)
    if document.planner not in planners:
        raise Unknown("planner", document.planner, planners)
    plan = _made(path, document, planners)
    if observation is not None:
        if (document.observation, document.before) != (observation.digest(), observation.overlay.digest()):
            raise BadPlan(f"{_file_of(path)} was made from another observation than the run holds. Solve again.")
        try:
            check_ids(plan.after, observation)
        except BadPlan as error:
            raise BadPlan(f"{_file_of(path).with_name('after.parquet')}: {error}") from None
    return plan


def _document(path: Path) -> PlanFile:
    """plan.json alone: of the right form, with the digest it names."""
    file = _file_of(path)
    document = read_json(file, _REMEDY)
    try:
        plan = PlanFile.model_validate(document)
        sealed = _sealed({**document, "digest": ""})
    except ValidationError as error:
        raise BadPlan(f"{file}: {_first(error)}. Is it a plan file?") from None
    except (ValueError, RecursionError) as error:
        raise BadPlan(f"{file}: {' '.join(str(error).split())}. Is it a plan file?") from None
    if sealed.digest != plan.digest:
        raise BadPlan(f"{file}: digest: its content does not have the digest it names: it was altered. Solve again.")
    return plan


def _opened(path: Path, document: PlanFile) -> tuple[Overlay, Overlay, Columns]:
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


def _made(path: Path, document: PlanFile, planners: Mapping[str, type[Planner]]) -> Plan:
    """The plan of a plan.json that names one of these planners."""
    before, after, columns = _opened(path, document)
    try:
        planner = _planner_of(planners[document.planner], document.parameters)
        if list(planner.facets) != document.facets:
            raise BadPlan(f"facets: {', '.join(document.facets)}; {document.planner} plans {', '.join(planner.facets)}")
        plan = Plan(planner, document.seed, before, after, columns.changes, columns.steps, document.beside)
        check_reasons(plan)
    except (BadPlan, BadParameter) as error:
        raise BadPlan(f"{_file_of(path)}: {error}") from None
    return plan


def _planner_of(kind: type[Planner], parameters: Mapping[str, Any]) -> Planner:
    """A planner made again from its parameters as JSON has them."""
    hints = get_type_hints(kind)
    known = {each.name: hints[each.name] for each in fields(cast(Any, kind))}
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
        "changes": count_changes(kept.changes)._asdict(),
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
    first, second = _changes_of(ours), _changes_of(theirs)
    return (
        [text for key, text in first.items() if key not in second],
        [text for key, text in second.items() if key not in first],
        len(first.keys() & second.keys()),
    )


def _changes_of(path: Path) -> dict[tuple[int, ...], str]:
    """What a plan changes, by ids: a move is one, and so is each link that comes or goes."""
    document = read_plan(path)
    _, (changes, _) = read_columns(path, document)
    rows = list(zip(*(getattr(changes, f).tolist() for f in ("facet", "action", "left", "right")), strict=True))
    lines = [line for step in document.steps for line in step.changes]
    lines += [_line(row) for row in rows[len(lines) :]]
    left = {row[::2]: (row, line) for row, line in zip(rows, lines, strict=True) if row[1] < 0 and line.facet in MOVES}
    there = {row[::2] for row in rows if row[1] > 0}
    found = {}
    for row, line in zip(rows, lines, strict=True):
        if row[1] > 0 and row[::2] in left:
            before, old = left[row[::2]]
            found[*row, before[3]] = f"~ {MOVES[line.facet].format(line.left, old.right, line.right)}"
        elif not (row[1] < 0 and row[::2] in left and row[::2] in there):
            found[row] = str(line)
    return found


def _line(row: tuple[int, int, int, int]) -> ChangeLine:
    """A change that plan.json does not list, by ids."""
    facet, action, left, right = row
    kinds = ENDS[FACETS[facet]]
    return ChangeLine(
        action="add" if action > 0 else "remove", facet=FACETS[facet], left=name_of(kinds[0], left),
        right=name_of(kinds[1], right),
    )  # fmt: skip


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
    with whole_folder(folder, "plan.json", force=force) as beside:
        write_tables(beside, after, columns)
        write_json(beside / "plan.json", document.model_dump())
