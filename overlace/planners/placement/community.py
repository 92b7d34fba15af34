"""Community-oriented clustering, the paper's planner (CC12 §III): three phases and the loop around them.

Phase 1 extracts communities by greedy modularity, phase 2 gives each its majority-place (Algorithm 1), phase 3 spreads
those who arrive over the region's brokers. Then communities are cut smaller and phase 2 runs again, as long as that
saves more of the moves than it loses of the performance (objective (1), moves as (2) counts them).

Keeps: nobody moves inside a region; the backbone gets no client.
Reads: R1 to R10. R5: the last merges are taken back. R6: Rp is the relative growth of the mean hops (both client links
counted), Rm the relative fall of the moves; it stops when Rp > Rm, when no move would be left, or none is left to save.
Departs: steps come best gain first; the paper gives no order. Loads are not capped on the way.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

import numpy as np

from overlace.arrays.jit import Ints, Pairs
from overlace.limits import option
from overlace.model import Observation, Progress
from overlace.planners.placement.majority import Placed, balance, fair_shares, place_communities, proportions
from overlace.planners.placement.modularity import communities_after, merges
from overlace.planners.placement.planner import PlacementPlanner
from overlace.planners.placement.problem import Problem, total_cost

CLIENT_LINKS = 2


class CommunityPass(NamedTuple):
    """What one pass of phases 2 and 3 comes to."""

    home: Ints
    hops: float
    moves: int
    communities: int
    placed: Placed


@dataclass(frozen=True)
class Community(PlacementPlanner):
    """The paper's three phases: communities by modularity to the region where most of each already is."""

    overload: float = option(1.2, "a region is overloaded above this times its share V(s)", above=0)
    test: Literal["each", "queue"] = option(
        "each", "test overload before each placement (R3) or only at A1:5, as printed"
    )
    proportion: Literal["community", "region"] = option(
        "community", "(3) by the community's clients (R1) or the region's, as printed"
    )
    brokers: Literal["regions", "all"] = option(
        "regions", "V(s) is a share of the regions' brokers (R10) or of all, as printed"
    )
    spill: bool = option(True, "what fits nowhere goes where most room is (R4)")
    redivide: bool = option(True, "cut communities smaller while that pays (R5, R6)")
    performance: Literal["hops", "saved"] = option(
        "hops", "Rp is relative to the mean hops, or to the hops that the plan saves (R6)"
    )
    paper: ClassVar[str] = "CC12 Algorithm 1"

    def wanted(self, observation: Observation, problem: Problem, seed: int, progress: Progress) -> Ints:
        """Phases 1 to 3 and the loop; the seed is not used."""
        progress(0.1, "communities")
        made, _ = merges(problem.ties)
        return self.rounds(observation, problem, made, progress)[-1].home

    def rounds(self, observation: Observation, problem: Problem, made: Pairs, tell: Progress) -> list[CommunityPass]:
        """The passes that were kept, each with smaller communities than the one before."""
        start = self._hops(problem, problem.origin)
        kept = [self._round(observation, problem, communities_after(observation.clients, made, len(made)))]
        for count in range(len(made) - 1, -1, -1) if self.redivide else ():
            tell(0.2 + 0.7 * (1 - count / len(made)), f"communities cut smaller: {observation.clients - count}")
            last = kept[-1]
            if last.moves == 0:
                break
            tried = self._round(observation, problem, communities_after(observation.clients, made, count))
            whole = last.hops if self.performance == "hops" else max(start - last.hops, 1e-12)
            lost, spared = (tried.hops - last.hops) / whole, (last.moves - tried.moves) / last.moves
            if lost > spared or tried.moves == 0:  # Rp > Rm; R6: a plan without a move is not a better one
                break
            kept.append(tried)
        return kept

    def _round(self, observation: Observation, problem: Problem, community: Ints) -> CommunityPass:
        origin, region = problem.origin, problem.region
        placed_clients = np.flatnonzero((origin >= 0) & (problem.may[np.maximum(origin, 0)]))
        regions, amount = int(region[problem.may].max()) + 1, int(community.max()) + 1
        count = np.zeros((amount, regions), dtype=np.int64)
        np.add.at(count, (community[placed_clients], region[origin[placed_clients]]), 1)
        load = np.bincount(community, weights=problem.sent, minlength=amount).astype(np.float64)
        of = len(region) if self.brokers == "all" else None
        limit = self.overload * fair_shares(float(problem.sent.sum()), np.bincount(region[problem.may]), of)
        part = proportions(count, self.proportion == "region")
        placed = place_communities(part, load, limit, self.test == "each", self.spill)
        wanted = np.full(len(origin), -1)
        wanted[placed_clients] = placed.region[community[placed_clients]]
        home = balance(origin, wanted, region, problem.may, problem.sent)
        moves = int((region[home[placed_clients]] != region[origin[placed_clients]]).sum())
        return CommunityPass(home, self._hops(problem, home), moves, amount, placed)

    def _hops(self, problem: Problem, home: Ints) -> float:
        """Mean hops of a delivery, (1), both client links counted (R8); access is no hop."""
        deliveries = max(problem.ties.weight.sum() / 2, 1)
        ways = problem._replace(amount=np.zeros_like(problem.amount))
        return float(total_cost(ways, home) / deliveries) + CLIENT_LINKS
