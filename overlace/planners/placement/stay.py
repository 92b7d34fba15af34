"""Stay: everybody keeps their home.

The baseline that moves nobody and saves nothing. It shows what today's placement costs, and it is the
smallest planner there can be.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from overlace.errors import NotObserved
from overlace.model import Changes, Observation, Plan, Progress, Steps
from overlace.planners.placement.planner import WeighedPlacement


@dataclass(frozen=True)
class Stay(WeighedPlacement):
    """Moves no client: the baseline of every placement."""

    REASONS: ClassVar[tuple[str, ...]] = ()

    def solve(self, observation: Observation, seed: int = 0, *, progress: Progress | None = None) -> Plan:
        """The plan without a step."""
        if len(observation.flows.sender) == 0:
            raise NotObserved("placement.stay: no flows were observed. Ingest a log that says who received what.")
        return Plan(self, seed, observation.overlay, observation.overlay, Changes(), Steps())
