"""What placement planners share: the facet, its cost, and the way from the homes that are wanted to steps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from overlace.arrays.jit import Ints
from overlace.errors import BadPlan
from overlace.limits import check_options, option
from overlace.model import Facet, Observation, Overlay, Plan, Planner, Progress
from overlace.planners.placement import cost as placement_cost
from overlace.planners.placement.moves import REASONS, plan_of
from overlace.planners.placement.problem import Problem, check, problem_of


@dataclass(frozen=True)
class PlacementPlanner(Planner):
    """A planner is the homes it wants, by messages x hops: `wanted` says which, all else stands here."""

    facets: ClassVar[tuple[Facet, ...]] = ("placement",)
    paper: ClassVar[str] = ""
    REASONS: ClassVar[tuple[str, ...]] = REASONS

    def __post_init__(self) -> None:
        check_options(self)

    def problem(self, observation: Observation) -> Problem:
        """The observation ready to be searched; refused, saying what is missing, where it cannot be."""
        check(observation, f"placement.{type(self).__name__.lower()}")
        return problem_of(observation)

    def wanted(self, observation: Observation, problem: Problem, seed: int, progress: Progress) -> Ints:
        """The home of each client that the plan leads to; -1 for a client that has none."""
        kind, method = type(self).__name__, "def wanted(self, observation, problem, seed, progress)"
        raise NotImplementedError(f"{kind} has no method wanted; expected {method}")

    def solve(self, observation: Observation, seed: int = 0, *, progress: Progress | None = None) -> Plan:
        """Client by client from the observed homes to the wanted ones, those who save most first."""
        tell = progress or (lambda share, what: None)
        problem = self.problem(observation)
        home = check_homes(self.wanted(observation, problem, seed, tell), problem)
        tell(0.95, "steps")
        plan = plan_of(self, observation, seed, problem, home)
        tell(1.0, "done")
        return plan

    def cost(self, observation: Observation, overlay: Overlay) -> float:
        """Messages x hops between homes."""
        return placement_cost.cost(observation, overlay)


@dataclass(frozen=True)
class WeighedPlacement(PlacementPlanner):
    """A planner of homes that may count bytes for messages, and costs or latencies for hops."""

    weight: placement_cost.Weight = option("messages", "what a flow weighs: its messages or its bytes")
    distance: placement_cost.Distance = option("hops", "length of a link: one hop, its cost, or its latency")

    def cost(self, observation: Observation, overlay: Overlay) -> float:
        """Messages (or bytes) x distance between homes."""
        return placement_cost.cost(observation, overlay, weight=self.weight, distance=self.distance)


def check_homes(home: ArrayLike, problem: Problem) -> Ints:
    """What `wanted` returned as homes; refused, saying why, unless it is a broker for each client that has one."""
    found, clients = np.asarray(home), len(problem.origin)
    if found.shape != (clients,) or found.dtype.kind not in "iu":
        what = "None" if home is None else f"{found.dtype} values of shape {found.shape}"
        raise BadPlan(f"wanted returned {what}; expected the broker of each of {clients} clients, -1 for none")
    known = (found >= 0) == (problem.origin >= 0)
    wrong = np.flatnonzero((found < -1) | (found >= len(problem.region)) | ~known)
    if len(wrong):
        c, brokers = int(wrong[0]), len(problem.region)
        expected = f"0 to {brokers - 1}" if problem.origin[c] >= 0 else "-1, since its broker is not known"
        raise BadPlan(f"wanted returned broker {found[c]} for client {c}; expected {expected}")
    return found.astype(np.int64)
