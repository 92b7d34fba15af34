"""What placement planners share: the facet, its cost, and what flows and links count."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from overlace.model import Facet, Observation, Overlay
from overlace.planners.placement import cost as placement_cost
from overlace.planners.placement.moves import REASONS


@dataclass(frozen=True)
class PlacementPlanner:
    """A planner of homes, by messages x hops."""

    facets: ClassVar[tuple[Facet, ...]] = ("placement",)
    paper: ClassVar[str] = ""
    REASONS: ClassVar[tuple[str, ...]] = REASONS

    def cost(self, observation: Observation, overlay: Overlay) -> float:
        """Messages x hops between homes."""
        return placement_cost.cost(observation, overlay)


@dataclass(frozen=True)
class WeighedPlacement(PlacementPlanner):
    """A planner of homes that may count bytes for messages, and costs or latencies for hops."""

    weight: placement_cost.Weight = field(
        default="messages", metadata={"help": "what a flow weighs: its messages or its bytes"}
    )
    distance: placement_cost.Distance = field(
        default="hops", metadata={"help": "what a link counts: one hop, its cost, or its latency"}
    )

    def cost(self, observation: Observation, overlay: Overlay) -> float:
        """Messages (or bytes) x distance between homes."""
        return placement_cost.cost(observation, overlay, weight=self.weight, distance=self.distance)
