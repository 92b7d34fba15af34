"""Hops against moves: plans for many prices of a move, from moving whoever saves anything to moving nobody.

At the highest price no saving is worth a move: who still moves does so for a cap that was broken at the start.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from overlace.model import Observation, Plan, Progress
from overlace.planners.placement import cost as placement_cost
from overlace.planners.placement.leiden import Leiden
from overlace.planners.placement.modularity import strengths


class Point(NamedTuple):
    """One end of the trade: what it costs, how many clients change their region, and the plan."""

    cost: float  # messages x distance, without the price of moves
    moves: int  # across regions
    move_cost: float
    plan: Plan


def frontier(
    observation: Observation,
    planner: Leiden | None = None,
    *,
    points: int = 12,
    seed: int = 0,
    progress: Progress | None = None,
) -> Sequence[Point]:
    """Plans that no other one beats in both cost and moves, fewest moves first; `points` prices are tried."""
    planner = planner or Leiden()
    problem = planner.problem(observation)
    most = strengths(problem.ties) * problem.apart.max() + problem.amount * np.ptp(problem.access)  # a client can save
    top = max(float(most.max()), 1.0)
    prices = [0.0, *np.geomspace(top / 400, 2 * top, max(points - 1, 1)).tolist()]
    found = []
    for i, price in enumerate(prices):
        plan = replace(planner, move_cost=float(price)).solve(observation, seed)
        found.append(_point(observation, planner, plan, float(price)))
        if progress:
            progress((i + 1) / len(prices), "prices of a move")
    kept: list[Point] = []
    for point in sorted(found, key=lambda each: (each.moves, each.cost)):
        if not kept or point.cost < kept[-1].cost - 1e-9:
            kept.append(point)
    return kept


def _point(observation: Observation, planner: Leiden, plan: Plan, price: float) -> Point:
    region = observation.network.region
    old, new = (each.homes(observation.clients) for each in (plan.before, plan.after))
    moved = int((region[old[old >= 0]] != region[new[old >= 0]]).sum())
    cost = placement_cost.cost(observation, plan.after, weight=planner.weight, distance=planner.distance)
    return Point(cost, moved, price, plan)
