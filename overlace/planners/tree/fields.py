"""The fields that all tree planners share, each with its help, and what they may be."""

from __future__ import annotations

import math
from dataclasses import field
from typing import Any, ClassVar, Protocol

from overlace.errors import BadParameter
from overlace.model import Facet, Observation, Overlay, Plan, Progress
from overlace.planners.tree.cost import Weight, check_weights


class TreePlanner(Protocol):
    """A planner with the fields that all tree planners share."""

    @property
    def alpha(self) -> float: ...  # noqa: D102
    @property
    def beta(self) -> float: ...  # noqa: D102
    @property
    def weight(self) -> Weight: ...  # noqa: D102
    @property
    def max_degree(self) -> int | None: ...  # noqa: D102
    @property
    def max_swaps(self) -> int | None: ...  # noqa: D102
    @property
    def min_gain(self) -> float: ...  # noqa: D102
    @property
    def keep(self) -> tuple[int, ...]: ...  # noqa: D102

    facets: ClassVar[tuple[Facet, ...]]
    REASONS: ClassVar[tuple[str, ...]]

    def solve(self, observation: Observation, seed: int = 0, *, progress: Progress | None = None) -> Plan:
        """A cheaper tree."""

    def cost(self, observation: Observation, overlay: Overlay) -> float:
        """OCBR07 (1)."""


def alpha() -> Any:
    """What links count."""
    return field(default=1.0, metadata={"help": "what a unit of link cost counts in (1); 0 or more"})


def beta() -> Any:
    """What brokers count."""
    return field(default=0.0, metadata={"help": "what a unit of broker cost counts in (1); 0 or more"})


def weight() -> Any:
    """What a class weighs."""
    return field(default="messages", metadata={"help": "what a traffic class weighs: its messages or its bytes"})


def max_degree() -> Any:
    """The most links of any broker."""
    return field(
        default=None,
        metadata={"help": "most links of a broker, besides its own limit in the table brokers; 1 or more"},
    )


def max_swaps() -> Any:
    """The most links that are replaced."""
    return field(default=None, metadata={"help": "most links that are replaced; 0 or more"})


def min_gain() -> Any:
    """What a swap must save."""
    return field(
        default=0.0,
        metadata={"help": "what each replaced link must save, so that small gains change nothing; 0 or more"},
    )


def keep() -> Any:
    """Links that stay."""
    return field(default=(), metadata={"help": "wired links between these brokers stay as they are", "ids": "broker"})


def check_fields(planner: TreePlanner) -> None:
    """Refuse values out of range."""
    check_weights(planner.alpha, planner.beta)
    if planner.weight not in ("messages", "bytes"):
        raise BadParameter(f"weight is {planner.weight!r}; expected messages or bytes")
    check_least(planner, max_degree=1, max_swaps=0)
    if not (math.isfinite(planner.min_gain) and planner.min_gain >= 0):
        raise BadParameter(f"min_gain is {planner.min_gain}; expected a number of 0 or more")


def check_least(planner: object, **least: int) -> None:
    """Refuse whole numbers below their least; None is unlimited."""
    for name, bound in least.items():
        value = getattr(planner, name)
        if value is not None and value < bound:
            raise BadParameter(f"{name} is {value}; expected {bound} or more")
