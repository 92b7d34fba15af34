"""A plan file held against itself: what plan.json says is what the columns beside it give.

Every total, every listed step and change, every point of a judged curve follows from the columns; an id has one name.
What plan.json says differently is refused in one line that names the field.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from overlace.arrays.jit import Floats
from overlace.errors import BadPlan
from overlace.model import ENDS, FACETS, Observation, Overlay, Plan
from overlace.trace.plan_tables import PlanColumns, count_changes, reconnects

if TYPE_CHECKING:
    from overlace.trace.plan_file import ChangeLine, PlanFile, StepLine

NEAR = 1e-6
"""How far sums of gains may lie from costs, as a share of the largest number in them."""

Field = tuple[str, object, object]
"""A field, what plan.json says there, and what the columns give."""


def listed_steps(columns: PlanColumns, most: int) -> int:
    """Steps that plan.json lists: those that begin within so many changes."""
    return min(int(np.searchsorted(columns.steps.start, most)), len(columns.steps))


def check_document(document: PlanFile, before: Overlay, after: Overlay, columns: PlanColumns, most: int) -> None:
    """Refuse a plan.json that says anything else than its columns do; it lists the first `most` changes."""
    changes, steps = columns
    used = [FACETS[code] for code in np.unique(changes.facet).tolist()]
    apart = [facet for facet in used if facet not in document.facets]
    if apart:
        raise BadPlan(f"facets: {', '.join(document.facets) or 'none'}, but the columns change {', '.join(apart)}")
    peak = int(reconnects(changes, steps).max(initial=0))
    _equal(
        ("columns", document.columns, columns.digest()),
        ("after", document.after, after.digest()),
        ("before", document.before, before.digest()),
        ("steps_total", document.steps_total, len(steps)),
        ("changes_total", document.changes_total, len(changes)),
        ("changes", document.changes, count_changes(changes)._asdict()),
        ("peak_reconnects", document.peak_reconnects, peak),
        ("steps", f"{len(document.steps):,} steps", f"{listed_steps(columns, most):,} steps"),
    )
    with np.errstate(all="ignore"):
        costs = document.cost_before - np.append(0.0, np.cumsum(steps.gain))
    _near("cost_after", document.cost_after, costs[-1], document.cost_before)
    names: dict[tuple[str, int], str] = {}
    for i, line in enumerate(document.steps):
        _check_step(line, i, columns, most, names)
    _check_curve(document, columns, costs)


def check_ids(overlay: Overlay, observation: Observation) -> None:
    """Refuse an overlay that names a client or broker which the observation does not have."""
    counts = {"client": observation.clients, "broker": observation.network.brokers}
    for facet in FACETS:
        for side, kind in enumerate(ENDS[facet]):
            most = int(overlay.relation(facet)[:, side].max(initial=-1))
            if kind in counts and most >= counts[kind]:
                raise BadPlan(f"{facet}: {kind} {most} does not exist; there are {counts[kind]:,}, counted from 0")


def check_reasons(plan: Plan) -> None:
    """Refuse steps whose reasons the planner does not have, or cannot say with the arguments that are there."""
    reason = plan.steps.reason
    index = np.where(reason < 0, ~reason, reason)
    known = len(plan.planner.REASONS)
    if (index >= known).any():
        row = int(np.argmax(index >= known))
        raise BadPlan(f"reason: step {row + 1} has reason {reason[row]}; the planner has {known}, counted from 0")
    for name, values in plan.steps.args.items():
        if not np.isfinite(values).all():
            raise BadPlan(f"arg_{name}: step {int(np.argmin(np.isfinite(values))) + 1} has no finite number")
    for i in np.unique(reason, return_index=True)[1].tolist():
        try:
            plan.why(i)
        except (LookupError, ValueError, TypeError) as error:
            why = " ".join(f"{type(error).__name__} {error}".split())
            raise BadPlan(f"reason: step {i + 1} cannot be explained by the arguments that are there: {why}") from None


def _equal(*fields: Field) -> None:
    for field, stated, given in fields:
        if stated != given:
            raise BadPlan(f"{field}: {stated}, but the columns give {given}")


def _near(field: str, stated: float, given: float, *others: float) -> None:
    most = max(1.0, abs(stated), *map(abs, others))
    if not abs(stated - given) <= NEAR * most:  # also where a sum is no number
        raise BadPlan(f"{field}: {stated!r}, but the gains of the columns give {float(given)!r}")


def _check_step(line: StepLine, i: int, columns: PlanColumns, most: int, names: dict[tuple[str, int], str]) -> None:
    changes, steps = columns
    start, stop = steps.start[i].item(), steps.start[i + 1].item()
    shown = min(stop - start, max(0, most - start))
    mine = changes.between(start, stop)
    where = f"steps.{i}"
    _equal(
        (f"{where}.step", line.step, i + 1),
        (f"{where}.gain", line.gain, steps.gain[i].item()),
        (f"{where}.reconnects", line.reconnects, int((mine.action > 0).sum())),
        (f"{where}.changes", f"{len(line.changes):,} changes", f"{shown:,} changes"),
        (f"{where}.inverse", f"{len(line.inverse):,} changes", f"{shown:,} changes"),
        (f"{where}.more", line.more, stop - start - shown),
    )
    listed = mine.between(0, shown)
    for field, lines, rows in (("changes", line.changes, listed), ("inverse", line.inverse, listed.inverse())):
        for j, (each, row) in enumerate(zip(lines, rows.rows(), strict=True)):
            _check_change(f"{where}.{field}.{j}", each, row, names)


def _check_change(
    where: str, line: ChangeLine, row: tuple[int, int, int, int], names: dict[tuple[str, int], str]
) -> None:
    """The line is that row, and its ends are called as they were before."""
    facet, action, left, right = row
    _equal(
        (f"{where}.facet", line.facet, FACETS[facet]),
        (f"{where}.action", line.action, "add" if action > 0 else "remove"),
    )
    for end, kind, number in zip(("left", "right"), ENDS[FACETS[facet]], (left, right), strict=True):
        name = getattr(line, end)
        known = names.setdefault((kind, number), name)
        if name != known:
            raise BadPlan(f"{where}.{end}: {kind} {number} is called {name!r} here and {known!r} before")


def _check_curve(document: PlanFile, columns: PlanColumns, costs: Floats) -> None:
    """Points in order, within the steps, with the changes and the cost that the columns give."""
    last = -1
    for i, point in enumerate(document.judged.curve if document.judged else ()):
        where = f"judged.curve.{i}"
        if not last < point.steps <= len(columns.steps):
            raise BadPlan(f"{where}.steps: {point.steps} of {len(columns.steps)} steps, after {max(last, 0)}")
        last = point.steps
        done = count_changes(columns.changes.between(0, int(columns.steps.start[last])))
        _equal((f"{where}.moves", point.moves, done.moves), (f"{where}.links", point.links, done.links))
        _near(f"{where}.own_cost", point.own_cost, costs[last], document.cost_before)
