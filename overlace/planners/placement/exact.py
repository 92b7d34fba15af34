"""The best placement there is, by branch and bound: an oracle for tiny cases.

Clients are placed one by one, those that talk most first; a branch is left when what it costs so far, plus the least
that each client still to be placed must pay for its ties with those that are, is no better than the best found.
Objective and caps are those of placement.leiden, but without caps unless they are given.

Keeps: nothing that respects the caps costs less. Refused where there would be more than `most` placements to look at.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from overlace.arrays.jit import Ints, kernel
from overlace.errors import BadObservation, BadParameter, NothingBetter
from overlace.model import Facet, Observation, Overlay, Plan, Progress
from overlace.planners.placement import cost as placement_cost
from overlace.planners.placement.leiden import Leiden
from overlace.planners.placement.modularity import strengths
from overlace.planners.placement.moves import REASONS, plan_of
from overlace.planners.placement.problem import Problem, excess, move, price, state_at, total_cost


@dataclass(frozen=True)
class Exact:
    """Tries all placements that can still be the best: for tiny cases, and to check the others."""

    weight: placement_cost.Weight = field(
        default="messages", metadata={"help": "what a flow weighs: its messages or its bytes"}
    )
    distance: placement_cost.Distance = field(
        default="hops", metadata={"help": "what a link counts: one hop, its cost, or its latency"}
    )
    move_cost: float = field(default=0.0, metadata={"help": "price of a client that leaves its region; 0 or more"})
    region_sent: float | None = field(
        default=None, metadata={"help": "cap on what a region's clients send, times its fair share (5)"}
    )
    broker_sent: float | None = field(
        default=None, metadata={"help": "cap on what a broker's clients send, times its fair share"}
    )
    broker_handled: float | None = field(
        default=None, metadata={"help": "cap on what a broker handles, times the largest such load at the start"}
    )
    most: int = field(default=2_000_000, metadata={"help": "branches to look at before it gives up (exit 3)"})
    facets: ClassVar[tuple[Facet, ...]] = ("placement",)
    paper: ClassVar[str] = ""
    REASONS: ClassVar[tuple[str, ...]] = REASONS

    def __post_init__(self) -> None:
        if self.most < 1:
            raise BadParameter(f"most is {self.most}; expected 1 or more")
        self._searching()

    def _searching(self) -> Leiden:
        return Leiden(
            weight=self.weight, distance=self.distance, move_cost=self.move_cost, region_sent=self.region_sent,
            broker_sent=self.broker_sent, broker_handled=self.broker_handled,
        )  # fmt: skip

    def solve(self, observation: Observation, seed: int = 0, *, progress: Progress | None = None) -> Plan:
        """The cheapest placement within the caps; the seed is not used."""
        problem = self._searching().problem(observation)
        counts = (np.diff(problem.ties.start) > 0) | (problem.sent > 0) | (problem.amount > 0)
        alike = problem._replace(movable=problem.movable & counts)  # where the others are changes nothing
        start = state_at(alike, alike.origin)
        broken = excess(alike, start) > 1e-9
        bound = np.inf if broken else total_cost(alike, alike.origin)
        order = np.argsort(-strengths(alike.ties), kind="stable")
        order = order[alike.movable[order]]
        home, _, looked = best_homes(alike, order, bound, self.most)
        if looked >= self.most:
            raise BadObservation(
                f"placement.exact: {len(order)} clients at {int(problem.may.sum())} brokers are too many: "
                f"{self.most:,} branches were not enough. Use placement.leiden, or raise most."
            )
        if broken and home[0] == -2:
            raise NothingBetter("placement.exact: no placement respects the caps. Raise region_sent or broker_sent.")
        return plan_of(self, observation, seed, problem, problem.origin.copy() if home[0] == -2 else home)

    def cost(self, observation: Observation, overlay: Overlay) -> float:
        """As placement.leiden's: messages (or bytes) x distance and access, plus the price of the moves."""
        return self._searching().cost(observation, overlay)


@kernel
def best_homes(problem: Problem, order: Ints, bound: float, most: int) -> tuple[Ints, float, int]:
    """(homes, cost, branches): the best homes that cost less than bound; homes[0] is -2 if there are none."""
    n, brokers, ties = len(order), len(problem.region), problem.ties
    state = state_at(problem, np.where(problem.movable, -1, problem.origin))
    best = np.full(len(problem.origin), -2, dtype=np.int64)
    tried = np.full(n + 1, -1, dtype=np.int64)  # the broker that each depth is at
    so_far = np.zeros(n + 1)
    so_far[0] = total_cost(problem, state.home) if n < len(problem.origin) else 0.0
    depth, looked = 0, 0
    while depth >= 0 and looked < most:
        if depth == n:
            if so_far[n] < bound - 1e-9:
                bound = so_far[n]
                best[:] = state.home
            depth -= 1
            continue
        c = order[depth]
        if state.home[c] >= 0:
            move(problem, state, c, -1)
        tried[depth] += 1
        b = tried[depth]
        if b == brokers:
            tried[depth] = -1
            depth -= 1
            continue
        if not problem.may[b] and b != problem.origin[c]:
            continue
        looked += 1
        here = so_far[depth] + price(problem, c, b)
        for k in range(ties.start[c], ties.start[c + 1]):
            at = state.home[ties.other[k]]
            if at >= 0:
                here += ties.weight[k] * problem.apart[b, at]
        move(problem, state, c, b)
        if excess(problem, state) > 1e-9 or here + still_to_pay(problem, state.home, order, depth + 1) >= bound - 1e-9:
            continue
        so_far[depth + 1] = here
        depth += 1
    return best, bound, looked


@kernel
def still_to_pay(problem: Problem, home: Ints, order: Ints, depth: int) -> float:
    """The least that the clients from depth on must pay for their ties with those that are placed."""
    total, ties = 0.0, problem.ties
    for i in range(depth, len(order)):
        c = order[i]
        least = np.inf
        for b in range(len(problem.region)):
            paid = price(problem, c, b)
            for k in range(ties.start[c], ties.start[c + 1]):
                at = home[ties.other[k]]
                if at >= 0:
                    paid += ties.weight[k] * problem.apart[b, at]
            least = min(least, paid)
        total += least
    return total
