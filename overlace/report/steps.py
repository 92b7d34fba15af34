"""The steps of a plan, as pages and notebooks list them: what each saves, why, and what it changes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from overlace.model import ENDS, FACETS, Changes, Names, Plan, name_of
from overlace.report.curve import MOST_STEPS
from overlace.report.sheets import Amount
from overlace.trace.plan_file import ChangeLine, PlanFile, change_lines

MOST_CHANGES = 6
"""Changes of a step that are listed."""
MOST_NAMED = 100
"""Changes of a step that are looked at to list some: the first step of a mesh has as many as it has links."""


class StepRow(NamedTuple):
    """A step: what it saves, why, what it changes, and how many more changes it has."""

    step: int
    gain: Amount
    share: Amount  # of the cost before; of what all steps save, where that cost is not known
    why: str
    changes: Sequence[str]
    more: int


def list_steps(document: PlanFile) -> list[StepRow]:
    """The first steps of a plan file."""
    found = []
    for step in document.steps[:MOST_STEPS]:
        lines = change_lines(step.changes)
        more = max(0, len(lines) - MOST_CHANGES) + step.more
        saved = (Amount(step.gain), _share(step.gain, document.cost_before))
        found.append(StepRow(step.step, *saved, step.why, lines[:MOST_CHANGES], more))
    return found


def list_plan_steps(plan: Plan, names: Names | None, most: int) -> list[StepRow]:
    """The first steps of a plan in memory."""
    found = []
    for i in range(min(most, len(plan.steps))):
        step = plan.step(i)
        kept = step.changes.between(0, MOST_NAMED)
        lines = change_lines(_name_changes(kept, names))
        more = max(0, len(lines) - MOST_CHANGES) + len(step.changes) - len(kept)
        saved = (Amount(step.gain), _share(step.gain, plan.gain))
        found.append(StepRow(i + 1, *saved, plan.why(i, names), lines[:MOST_CHANGES], more))
    return found


def _share(gain: float, whole: float) -> Amount:
    return Amount(gain / whole if whole else None, "share")


def _name_changes(changes: Changes, names: Names | None) -> list[ChangeLine]:
    lines = []
    for code, action, left, right in zip(changes.facet, changes.action, changes.left, changes.right, strict=True):
        facet = FACETS[code]
        first, second = (name_of(kind, int(i), names) for kind, i in zip(ENDS[facet], (left, right), strict=True))
        lines.append(ChangeLine(action="add" if action > 0 else "remove", facet=facet, left=first, right=second))
    return lines
