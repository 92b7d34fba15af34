"""How a plan was judged, as plan.json has it: what it saves, how sure that is, compared with what, step by step."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from overlace.errors import BadPlan
from overlace.wording import percent

LEAST_SLICES = 3
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


class Strict(BaseModel):
    """A part of plan.json: these keys and types, and no others."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


class Measure(Strict):
    """One metric of a part of the log, as it was and with the plan."""

    metric: str
    part: Literal["train", "held-out"]
    before: float
    after: float


class GroupCost(Strict):
    """What the messages of a group of clients cost where a plan is judged."""

    clients: Literal["known", "newcomers"]
    before: float
    after: float

    @property
    def saved(self) -> float:
        """The share that is saved."""
        return 1 - self.after / self.before if self.before else 0.0


class Interval(Strict):
    """The share saved on the traffic that judges, with the interval that holds 95 % of what was drawn again."""

    share: float
    low: float
    high: float
    slices: Count = Field(description="pieces of time that the interval is drawn from")
    origins: Count = Field(description="points in time from which plans were made to be judged on what came next")

    def __str__(self) -> str:
        return f"{percent(self.share)} ({self.between})"

    @property
    def between(self) -> str:
        """From where to where it may be, as text."""
        if self.slices < LEAST_SLICES:
            return "too short to say how sure"
        if self.low < 0:
            return f"{percent(self.low)} to {percent(self.high)}"
        return f"{self.low:.1%} to {self.high:.1%}"


class RuleSaving(Strict):
    """What the rule for newcomers saves where a plan is judged, beyond the changes that the plan lists."""

    share: float = Field(description="of what today's overlay costs")
    newcomers: Count = Field(description="clients without traffic before")
    elsewhere: Count = Field(description="of them those whose broker by the rule is another than the log shows")

    def __str__(self) -> str:
        which = f"{self.elsewhere:,} of {self.newcomers:,} would have been placed elsewhere"
        return f"{abs(self.share):.1%} {'more' if self.share >= 0 else 'less'} of today's cost is saved; {which}"


class Baseline(Strict):
    """What moving clients greedily saves where a plan is judged: largest saving first, within the same limits."""

    links: Literal["planned", "today"] = Field(description="the links between brokers under which clients move")
    changes: Count = Field(description="at most as many as the plan has; those of planned links among them")
    share: float = Field(description="saved, of what today's overlay costs")


class Point(Strict):
    """A plan stopped after some of its steps: what has changed by then, and what that comes to where it is judged."""

    steps: Count
    moves: Count = Field(description="clients that have moved")
    links: Count = Field(description="links that are new; as many are gone")
    own_cost: float = Field(description="the planner's estimate, in the training window")
    metrics: dict[str, float] = Field(
        description="measured on held-out traffic, or in the training window where nothing is held out; the "
        "objective's metric first"
    )


class Judgement(Strict):
    """How a plan did in the training window and on held-out traffic."""

    train: Window = Field(description="first and last microsecond (UTC) of the training window; half-open")
    held_out: Window = Field(description="and of held-out traffic")
    train_share: float | None = Field(default=None, description="share of the messages that the training window holds")
    objective: str
    limits: dict[str, object] = Field(description="what the user asked for")
    metrics: list[Measure]
    saving: Interval | None = Field(
        description="of the objective's metric, the first one; for placement and tree: what the listed changes save, "
        "newcomers where the log shows them"
    )
    expected: Interval | None = Field(
        default=None,
        description="the saving to expect, from plans made at earlier times of the training window; before anything "
        "held out was looked at",
    )
    apart: list[GroupCost] = Field(
        default_factory=list,
        description="of the objective's metric on the traffic that judges, by the listed changes: messages of known "
        "clients, and those with one that had no traffic before",
    )
    newcomers: RuleSaving | None = Field(
        default=None, description="what the rule for newcomers saves beyond the listed changes"
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
                raise ValueError(f"point {i} of the curve does not have the objective's metric, the first one")
        return self

    def min_gain(self, default: float) -> float:
        """The least share that the user wanted saved."""
        asked = self.limits.get("min_gain", default)
        if not isinstance(asked, int | float):
            raise BadPlan(f"judged.limits.min_gain: expected a number, found {asked!r}")
        return float(asked)
