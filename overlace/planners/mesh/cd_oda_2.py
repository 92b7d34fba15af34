"""CD-ODA-II: the next centre is the client with the greatest weight for each neighbour.

TDCD17 §III, (3), after Onus and Richa: connection density, the weight (2) over the neighbours. A dense client
does many subscriptions with each link. The centre is linked to all neighbours and its topics are done.

Keeps: every topic has a star, so its diameter is at most 2; a client is the centre at most once.
Reads: R3, ties to the lowest id, or random. R8, (3) as printed counts the client itself among the neighbours;
`itself=False` leaves it out, as the note below (3) has it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from overlace.limits import option
from overlace.planners.mesh.cd_oda import stars_by_neighbours
from overlace.planners.mesh.interests import Interests
from overlace.planners.mesh.stars import StarPlanner, Stars


@dataclass(frozen=True)
class CdOda2(StarPlanner):
    """Stars around the densest clients: diameter 2 with few links, a high maximum degree."""

    itself: bool = option(True, "count a client among its own neighbours, as (3) does (R8)")
    name: ClassVar[str] = "mesh.cd-oda-2"
    paper: ClassVar[str] = "TDCD17 (3)"

    def choose(self, given: Interests) -> Stars:
        """By the greatest weight for each neighbour (3)."""
        return stars_by_neighbours(given, True, self.itself, len(given.start))
