"""What all mesh planners share: the facet and its cost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from overlace.limits import check_options
from overlace.model import Facet, Observation, Overlay, Planner
from overlace.planners.mesh import cost as mesh_cost


@dataclass(frozen=True)
class MeshPlanner(Planner):
    """A planner of links between clients."""

    facets: ClassVar[tuple[Facet, ...]] = ("mesh",)
    paper: ClassVar[str] = ""

    def __post_init__(self) -> None:
        check_options(self)

    def cost(self, observation: Observation, overlay: Overlay) -> float:
        """clients x components too many + links."""
        return mesh_cost.cost(observation, overlay)
