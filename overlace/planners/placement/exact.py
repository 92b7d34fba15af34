"""The best placement there is, by branch and bound: an oracle for tiny cases.

Clients are placed one by one, those that talk most first; a branch is left when what it costs so far, plus the least
that each client still to be placed must pay for its ties with those that are, is no better than the best found.
Objective and caps are those of placement.leiden, but without caps unless they are given.

Keeps: nothing that respects the caps costs less. Refused where there would be more than `most` placements to look at.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from overlace.arrays.csr import copy
from overlace.arrays.jit import Floats, Ints, kernel
from overlace.arrays.trees import common_ancestor
from overlace.errors import BadObservation, NothingBetter
from overlace.limits import option
from overlace.model import Observation, Overlay, Progress
from overlace.planners.placement.leiden import Leiden
from overlace.planners.placement.modularity import strengths
from overlace.planners.placement.planner import WeighedPlacement
from overlace.planners.placement.problem import Problem, total_cost


@dataclass(frozen=True)
class ExactPlacement(WeighedPlacement):
    """Tries all placements that can still be the best: for tiny cases, and to check the others."""

    move_cost: float = option(0.0, "price of a client that leaves its region", least=0)
    region_sent: float | None = option(None, "cap on what a region's clients send, times its fair share (5)", above=0)
    broker_sent: float | None = option(None, "cap on what a broker's clients send, times its fair share", above=0)
    broker_handled: float | None = option(
        None, "cap on what a broker handles, times the largest such load at the start", above=0
    )
    most: int = option(2_000_000, "branches to look at before it gives up (exit 3)", least=1)

    def __post_init__(self) -> None:
        super().__post_init__()
        self._searching()

    def _searching(self) -> Leiden:
        return Leiden(
            weight=self.weight,
            distance=self.distance,
            move_cost=self.move_cost,
            region_sent=self.region_sent,
            broker_sent=self.broker_sent,
            broker_handled=self.broker_handled,
        )

    def problem(self, observation: Observation) -> Problem:
        """That of placement.leiden with the same caps."""
        return self._searching().problem(observation)

    def wanted(self, observation: Observation, problem: Problem, seed: int, progress: Progress) -> Ints:
        """The cheapest placement within the caps; the seed is not used."""
        counts = (np.diff(problem.ties.start) > 0) | (problem.sent > 0) | (problem.amount > 0)
        alike = problem._replace(movable=problem.movable & counts)  # where the others are changes nothing
        start = state_at(alike, alike.origin)
        broken = excess(alike, start) > 1e-9
        bound = np.inf if broken else total_cost(alike, alike.origin)
        order = np.argsort(-strengths(alike.ties), kind="stable")
        order = order[alike.movable[order]]
        fixed = np.where(alike.movable, -1, alike.origin)
        home, _, looked = best_homes(alike, fixed, order, total_cost(alike, fixed), bound, self.most)
        if looked >= self.most:
            raise BadObservation(
                f"placement.exact: {len(order)} clients at {int(problem.may.sum())} brokers are too many: "
                f"{self.most:,} branches were not enough. Use placement.leiden, or raise most."
            )
        if broken and home[0] == -2:
            raise NothingBetter("placement.exact: no placement respects the caps. Raise region_sent or broker_sent.")
        return problem.origin.copy() if home[0] == -2 else home

    def cost(self, observation: Observation, overlay: Overlay) -> float:
        """As placement.leiden's: messages (or bytes) x distance and access, plus the price of the moves."""
        return self._searching().cost(observation, overlay)


class PlacementState(NamedTuple):
    """A placement, in which a client may have no home yet, and its loads."""

    home: Ints
    broker_sent: Floats
    region_sent: Floats
    broker_handled: Floats
    region_handled: Floats
    stamp: Ints  # scratch: brokers, then regions, that were touched last
    stamped: Ints  # [0]: the last stamp


@kernel
def touch(problem: Problem, state: PlacementState, each: int, sign: float) -> None:
    """Add (or take away) what the messages of a class are to the brokers and regions of its minimal subtree."""
    first = problem.classes.start[each]
    last = problem.classes.start[each + 1]
    top = -1
    for k in range(first, last):
        at = state.home[problem.classes.member[k]]
        if at >= 0:
            top = at if top < 0 else common_ancestor(problem.tree, top, at)
    if top < 0:
        return
    brokers = len(problem.region)
    state.stamped[0] += 1
    mark, amount = state.stamped[0], sign * problem.classes.demand[each]
    for k in range(first - 1, last):
        at = top if k < first else state.home[problem.classes.member[k]]
        while at >= 0 and state.stamp[at] != mark:
            state.stamp[at] = mark
            state.broker_handled[at] += amount
            region = problem.region[at]
            if state.stamp[brokers + region] != mark:
                state.stamp[brokers + region] = mark
                state.region_handled[region] += amount
            if at == top:
                break
            at = problem.tree.parent[at]


@kernel
def move(problem: Problem, state: PlacementState, client: int, broker: int) -> None:
    """Give a client another home, loads included."""
    old = state.home[client]
    first, last = problem.classes.of_start[client], problem.classes.of_start[client + 1]
    for k in range(first, last):
        touch(problem, state, problem.classes.of_class[k], -1.0)
    sent = problem.sent[client]
    if old >= 0:
        state.broker_sent[old] -= sent
        state.region_sent[problem.region[old]] -= sent
    state.home[client] = broker
    if broker >= 0:
        state.broker_sent[broker] += sent
        state.region_sent[problem.region[broker]] += sent
    for k in range(first, last):
        touch(problem, state, problem.classes.of_class[k], 1.0)


@kernel
def state_at(problem: Problem, home: Ints) -> PlacementState:
    """A placement with its loads."""
    brokers, regions = len(problem.region), problem.region.max() + 1
    state = PlacementState(
        home=home.copy(),
        broker_sent=np.zeros(brokers),
        region_sent=np.zeros(regions),
        broker_handled=np.zeros(brokers),
        region_handled=np.zeros(regions),
        stamp=np.zeros(brokers + regions, dtype=np.int64),
        stamped=np.zeros(1, dtype=np.int64),
    )
    for c in range(len(home)):
        if home[c] >= 0:
            state.broker_sent[home[c]] += problem.sent[c]
            state.region_sent[problem.region[home[c]]] += problem.sent[c]
    for each in range(len(problem.classes.demand)):
        touch(problem, state, each, 1.0)
    return state


@kernel
def price(problem: Problem, client: int, broker: int) -> float:
    """What a client at a broker costs besides its ties: access, and its move."""
    total = float(problem.amount[client] * problem.access[problem.access_row[client], broker])
    origin = problem.origin[client]
    if origin >= 0 and problem.region[broker] != problem.region[origin]:
        total += problem.move_cost
    return total


@kernel
def excess(problem: Problem, state: PlacementState) -> float:
    """By how much loads are above their caps, as shares of the caps, all together."""
    over = 0.0
    for b in range(len(problem.region)):
        over += max(0.0, state.broker_sent[b] - problem.broker_sent[b]) / max(problem.broker_sent[b], 1.0)
        over += max(0.0, state.broker_handled[b] - problem.broker_handled[b]) / max(problem.broker_handled[b], 1.0)
    for r in range(len(problem.region_sent)):
        over += max(0.0, state.region_sent[r] - problem.region_sent[r]) / max(problem.region_sent[r], 1.0)
        over += max(0.0, state.region_handled[r] - problem.region_handled[r]) / max(problem.region_handled[r], 1.0)
    return over


@kernel
def best_homes(
    problem: Problem, fixed: Ints, order: Ints, paid: float, bound: float, most: int
) -> tuple[Ints, float, int]:
    """(homes, cost, branches): the best homes that cost less than bound; homes[0] is -2 if there are none.

    Who has a fixed home stays there; those among themselves pay `paid`.
    """
    n, brokers, ties = len(order), len(problem.region), problem.ties
    state = state_at(problem, fixed)
    best = np.full(len(problem.origin), -2, dtype=np.int64)
    tried = np.full(n + 1, -1, dtype=np.int64)  # the broker that each depth is at
    so_far = np.zeros(n + 1)
    so_far[0] = paid
    depth, looked = 0, 0
    while depth >= 0 and looked < most:
        if depth == n:
            if so_far[n] < bound - 1e-9:
                bound = so_far[n]
                copy(state.home, best)
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
