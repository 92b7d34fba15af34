"""Stay: everybody keeps their home.

The baseline that moves nobody and saves nothing. It shows what today's placement costs, and it is the
smallest planner there can be.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from overlace.errors import NotObserved
from overlace.model import Changes, Facet, Observation, Overlay, Plan, Progress, Steps
from overlace.planners.placement import cost as placement_cost


@dataclass(frozen=True)
class Stay:
    """Moves no client: the baseline of every placement."""

    weight: placement_cost.Weight = field(
        default="messages", metadata={"help": "what a flow weighs: its messages or its bytes"}
    )
    distance: placement_cost.Distance = field(
        default="hops", metadata={"help": "what a link counts: one hop, its cost, or its latency"}
    )
    facets: ClassVar[tuple[Facet, ...]] = ("placement",)
    paper: ClassVar[str] = ""
    REASONS: ClassVar[tuple[str, ...]] = ()

    def solve(self, observation: Observation, seed: int = 0, *, progress: Progress | None = None) -> Plan:
        """The plan without a step."""
        if len(observation.flows.sender) == 0:
            raise NotObserved("placement.stay: no flows were observed. Ingest a log that says who received what.")
        return Plan(self, seed, observation.overlay, observation.overlay, Changes(), Steps())

    def cost(self, observation: Observation, overlay: Overlay) -> float:
        """Messages (or bytes) x distance between homes."""
        return placement_cost.cost(observation, overlay, weight=self.weight, distance=self.distance)
