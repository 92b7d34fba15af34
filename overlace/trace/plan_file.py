"""plan.json as an object: a plan by names, for people, and all that is known of how it was made and judged."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from pydantic import Field, model_validator

from overlace.model import ENDS, FACETS, Facet, Names, name_of
from overlace.trace.judgement import Count, Judgement, Strict, Window
from overlace.trace.plan_tables import ChangeCounts
from overlace.trace.tables import SCHEMA_VERSION

MOST_LISTED = 20_000
"""Changes that plan.json lists; of a larger plan it lists the first steps, and the columns hold all."""

ROWS = {
    "placement": "client {} at {}",
    "tree": "link {} - {}",
    "channels": "combination {} in channel {}",
    "mesh": "link {} - {}",
}
"""A row of each relation, in words."""

MOVES = {"placement": "client {}: {} -> {}", "channels": "combination {}: channel {} -> {}"}
"""Relations in which a row takes the place of another."""


class ChangeLine(Strict):
    """One change, by name."""

    action: Literal["add", "remove"]
    facet: Facet
    left: str
    right: str

    @classmethod
    def of(cls, facet: int, action: int, left: int, right: int, names: Names | None = None) -> ChangeLine:
        """A row of changes, by the names of its ends, or by their ids."""
        kinds = ENDS[FACETS[facet]]
        return cls(
            action="add" if action > 0 else "remove",
            facet=FACETS[facet],
            left=name_of(kinds[0], left, names),
            right=name_of(kinds[1], right, names),
        )

    def __str__(self) -> str:
        sign = "+" if self.action == "add" else "-"
        return f"{sign} {ROWS[self.facet].format(self.left, self.right)}"


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


class StepLine(Strict):
    """One step: what it saves, why, and what is changed."""

    step: Count = Field(description="counted from 1")
    gain: float = Field(description="how much of the planner's cost the step saves")
    why: str
    reconnects: Count = Field(description="clients, links or combinations that reconnect while it is carried out")
    changes: list[ChangeLine] = Field(description="in the order in which they are carried out")
    inverse: list[ChangeLine] = Field(description="what takes the step back, in order")
    more: Count = Field(default=0, description="changes of this step that are not listed here")


class Newcomers(Strict):
    """Where a client should connect that the plan has never seen."""

    rule: str = Field(pattern="^[a-z][a-z-]*$", description="what of the newcomer decides: region, community, ...")
    brokers: dict[str, str] = Field(default_factory=dict, description="the broker for each of these, by name")
    default: str | None = Field(
        default=None,
        description="the broker for all others; null: where they connect, or to the nearest broker below its limits",
    )
    keep: list[str] = Field(default_factory=list, description="clients that stay where they connect, names or patterns")
    only: list[str] = Field(default_factory=list, description="where any is given: all others stay where they connect")

    def __str__(self) -> str:
        goes = {
            "first-contact": "to the broker of the client that it met first",
            "community": "to the broker with most of the traffic of the client that it met first and its partners",
            "region": "to the broker with most of its region's traffic",
        }
        return f"each goes {goes.get(self.rule, f'by its {self.rule}')}, or to the nearest broker below its limits"

    @model_validator(mode="after")
    def _names_a_broker(self) -> Newcomers:
        if not self.brokers and self.default is None and self.rule != "first-contact":
            raise ValueError("a rule for newcomers names at least one broker, unless it is that of the first contact")
        return self


class ForecastModel(Strict):
    """The traffic that a plan is made for: an estimate of what follows, from what was observed."""

    half_life_days: float | None = Field(
        default=None, gt=0, description="after which traffic has half its weight; null: never"
    )
    blocks: float = Field(default=0.0, ge=0, lt=1, description="share of the demand drawn from communities")

    def __str__(self) -> str:
        if self == PLAIN_SUMS:
            return "plain sums"
        age = "no ageing" if self.half_life_days is None else f"half-life {self.half_life_days:g} days"
        return f"{age}, {self.blocks:.0%} community blocks"


PLAIN_SUMS = ForecastModel()
"""What was is what comes."""


class PlanFile(Strict):
    """plan.json."""

    schema_version: int = SCHEMA_VERSION
    digest: str = Field(description="of everything else in this file, and through it of the columns beside it")
    planner: str = Field(description="the planner's name in the catalog")
    parameters: dict[str, object]
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
        "another's place is one change), combinations that change their channel, links between clients that come and go"
    )
    peak_reconnects: Count = Field(
        description="the most reconnects in one step: clients that move and ends of links that change"
    )
    forecast: ForecastModel | None = Field(
        default=None, description="what the plan was made for; null: the observed traffic as it was, plain sums"
    )
    newcomers: Newcomers | None = Field(
        default=None, description="a rule for clients that the plan has never seen; null: the plan has none"
    )
    stopped: bool = Field(default=False, description="whether Ctrl-C ended the search early: solving again searches on")
    judged: Judgement | None = Field(default=None, description="where `overlace optimize` made the plan")
    steps: list[StepLine] = Field(description=f"all steps, or the first of a plan of over {MOST_LISTED:,} changes")

    @property
    def counts(self) -> ChangeCounts:
        """What the plan changes, as everybody counts it."""
        return ChangeCounts(**self.changes)
