"""CD-ODA-II: the next centre is the client with the greatest weight for each neighbour.

TDCD17 §III, (3), after Onus and Richa: connection density, the weight (2) over the neighbours. A dense client
does many subscriptions with each link. The centre is linked to all neighbours and its topics are done.

Keeps: every topic has a star, so its diameter is at most 2; a client is the centre at most once.
Reads: R3, ties to the lowest id, or random. R8, (3) as printed counts the client itself among the neighbours;
`itself=False` leaves it out, as the note below (3) has it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from overlace.model import Observation, Plan, Progress
from overlace.planners.mesh.cd_oda import stars_by_neighbours
from overlace.planners.mesh.interests import Interests, Ties, check_ties
from overlace.planners.mesh.planner import MeshPlanner
from overlace.planners.mesh.stars import STAR_REASONS, Stars, star_plan


@dataclass(frozen=True)
class CdOda2(MeshPlanner):
    """Stars around the densest clients: diameter 2 with few links, a high maximum degree."""

    ties: Ties = field(
        default="lowest", metadata={"help": "who is chosen among equals: the lowest id, or a random one"}
    )
    itself: bool = field(default=True, metadata={"help": "count a client among its own neighbours, as (3) does (R8)"})
    paper: ClassVar[str] = "TDCD17 (3)"
    REASONS: ClassVar[tuple[str, ...]] = STAR_REASONS

    def __post_init__(self) -> None:
        check_ties(self.ties)

    def solve(self, observation: Observation, seed: int = 0, *, progress: Progress | None = None) -> Plan:
        """Star by star; then what the old mesh had beyond that goes."""

        def choose(given: Interests) -> Stars:
            return stars_by_neighbours(given, True, self.itself, len(given.start))

        return star_plan(self, "mesh.cd-oda-2", observation, seed, self.ties, choose, progress)
