"""Plan: an overlay before, an overlay after and the ordered steps between; Planner: what makes one."""

from __future__ import annotations

import string
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from overlace.arrays.records import FloatColumn, IntColumn, Record, column, frozen
from overlace.errors import BadPlan, Unknown
from overlace.model.names import Names, name_of
from overlace.model.observation import Observation
from overlace.model.overlay import Changes, Facet, Overlay
from overlace.wording import amount

Progress = Callable[[float, str], None]
"""Told the share that is done (0 to 1) and what is being done."""


@runtime_checkable
class Planner(Protocol):
    """A frozen dataclass whose fields are its parameters; see docs/adding-a-planner.md.

    One that inherits this has `limits` and `relax` for its optional fields; one without limits may leave both out.
    """

    facets: ClassVar[tuple[Facet, ...]]
    REASONS: ClassVar[tuple[str, ...]]

    def solve(self, observation: Observation, seed: int = 0, *, progress: Progress | None = None) -> Plan:
        """A better overlay, with the steps that lead there."""

    def cost(self, observation: Observation, overlay: Overlay) -> float:
        """What the planner lowers: the facet's own cost unless it says otherwise."""

    @property
    def limits(self) -> tuple[str, ...]:
        """The limits in force, by the names of their fields: optional ones that have a value, for None is unlimited."""
        optional = [each.name for each in fields(self) if "None" in str(each.type)]  # type: ignore[arg-type]
        return tuple(name for name in optional if getattr(self, name) is not None)

    def relax(self, limit: str) -> Planner:
        """The planner without one of its limits."""
        if limit not in self.limits:
            raise Unknown("limit", limit, self.limits)
        return replace(self, **{limit: None})  # type: ignore[type-var]

    @property
    def router(self) -> Any:
        """The planner itself where it plans for a forecast and places new clients, as `joint` does; else None."""
        return None


@dataclass(frozen=True, eq=False, repr=False)
class Steps(Record):
    """Ordered units of a plan, as columns: no Python object per change."""

    start: IntColumn = column(np.int64)  # changes[start[i]:start[i + 1]] are step i's
    gain: FloatColumn = column(np.float64)  # how much of the planner's cost the step saves
    reason: IntColumn = column(np.int64)  # index into the planner's REASONS; ~index for a step taken back
    args: Mapping[str, NDArray[Any]] = field(default_factory=dict)  # what the reasons' templates name

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.start) == 0:
            self._put("start", np.zeros(1), np.int64)
        columns = {}
        for name, values in self.args.items():
            whole = np.issubdtype(np.asarray(values).dtype, np.integer)
            try:
                columns[name] = frozen(values, np.int64 if whole else np.float64)
            except ValueError as error:
                raise BadPlan(f"Steps.args[{name!r}]: {error}; names are shown for ids, not kept") from None
        self._put("args", MappingProxyType(columns))
        sizes = {len(self.start) - 1, len(self.gain), len(self.reason), *map(len, columns.values())}
        if len(sizes) > 1:
            raise BadPlan(f"Steps: columns of unequal length: {sorted(sizes)} steps")
        self._starts("start", int(self.start[-1]))

    fault = BadPlan

    def __len__(self) -> int:
        return len(self.gain)

    def first(self, k: int) -> Steps:
        """The first k of them."""
        args = {name: values[:k] for name, values in self.args.items()}
        return Steps(self.start[: k + 1], self.gain[:k], self.reason[:k], args)


class Sentences(string.Formatter):
    """Templates that know `{x:amount}`, a number as people read it, and `{x:more}`, nothing where it is 0."""

    def format_field(self, value: Any, format_spec: str) -> Any:
        """A value in a sentence."""
        if format_spec == "amount":
            return amount(value)
        if format_spec == "more":
            return f" and {value:,} more" if value > 0 else ""
        return super().format_field(value, format_spec)


SENTENCES = Sentences()


@dataclass(frozen=True)
class Step:
    """One step of a plan, taken out of its columns."""

    gain: float
    changes: Changes
    reason: int
    args: Mapping[str, int | float]


@dataclass(frozen=True, eq=False, repr=False)
class Plan(Record):
    """An overlay before, an overlay after, and the ordered steps between."""

    planner: Planner
    seed: int
    before: Overlay
    after: Overlay
    changes: Changes
    steps: Steps
    beside: Mapping[str, float] = field(default_factory=dict)  # cost that other ways reach within the same limits

    def __post_init__(self) -> None:
        if self.steps.start[-1] != len(self.changes):
            raise BadPlan(f"the steps end at change {self.steps.start[-1]} of {len(self.changes)}")

    def step(self, i: int) -> Step:
        """Step i, counted from 0."""
        if not 0 <= i < len(self.steps):
            raise BadPlan(f"no step {i}: the plan has {len(self.steps)}, counted from 0")
        changes = self.changes.between(int(self.steps.start[i]), int(self.steps.start[i + 1]))
        args = {name: values[i] for name, values in self.steps.args.items()}
        return Step(float(self.steps.gain[i]), changes, int(self.steps.reason[i]), args)

    def why(self, i: int, names: Names | None = None) -> str:
        """The reason for step i as a sentence, with names where they are known.

        An argument whose name ends in a kind (client, from_broker) is shown by the name of that id.
        """
        step = self.step(i)
        shown = {}
        for key, value in step.args.items():
            kind = key.rsplit("_", 1)[-1]
            named = kind in ("client", "broker", "topic", "region", "channel", "combination", "attribute")
            shown[key] = name_of(kind, int(value), names) if named else value
        if step.reason < 0:
            return "undo: " + SENTENCES.format(self.planner.REASONS[~step.reason], **shown)
        return SENTENCES.format(self.planner.REASONS[step.reason], **shown)

    @cached_property
    def gain(self) -> float:
        """What all steps save together."""
        return float(self.steps.gain.sum())

    def first(self, k: int) -> Plan:
        """The plan that stops after k steps."""
        if not 0 <= k <= len(self.steps):
            raise BadPlan(f"cannot keep {k} steps: the plan has {len(self.steps)}")
        changes = self.changes.between(0, int(self.steps.start[k]))
        beside = self.beside if k == len(self.steps) else {}  # those had as many changes as the whole plan
        after = self.before.apply(changes)
        return Plan(self.planner, self.seed, self.before, after, changes, self.steps.first(k), beside)

    def inverse(self) -> Plan:
        """The plan that takes this one back, last step first."""
        args = {name: values[::-1] for name, values in self.steps.args.items()}
        start = len(self.changes) - self.steps.start[::-1]
        steps = Steps(start, -self.steps.gain[::-1], ~self.steps.reason[::-1], args)
        return Plan(self.planner, self.seed, self.after, self.before, self.changes.inverse(), steps, self.beside)
