"""A placement as arrays that kernels can search: ties, distances, access, loads and their caps.

What is minimised is the facet's cost (messages x distance on the tree, plus access) plus a price for every client
that leaves its region or its broker. Four loads can be capped: what clients of a broker or a region send (CC12 (5)),
and what a broker or a region handles, that is the messages whose minimal subtree touches it.

Keeps: `Problem` never changes; `State` is a placement with its loads, changed only by `move`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from overlace.arrays.csr import group
from overlace.arrays.jit import Bools, Floats, Ints, kernel
from overlace.arrays.trees import Rooted, common_ancestor, from_root
from overlace.errors import BadObservation, NotObserved
from overlace.model import Observation
from overlace.planners.placement import cost as placement_cost
from overlace.planners.placement.cost import Distance, Weight
from overlace.planners.placement.ties import Ties, ties_of


class Problem(NamedTuple):
    """What does not change while clients move."""

    ties: Ties
    apart: Floats  # (brokers, brokers): the distance between two homes
    region: Ints  # per broker, numbered from 0; the backbone last
    may: Bools  # brokers that may take clients
    origin: Ints  # the home of each client at the start; -1: none
    movable: Bools  # clients that may move
    within: bool  # nobody may leave its region
    sent: Floats  # what each client sends
    amount: Floats  # what each client sends and receives, for access
    access_row: Ints  # per client, the row of `access`
    access: Floats  # (rows, brokers): the price of a message between a client there and a broker
    move_cost: float  # per client out of its region
    any_cost: float  # per client away from its broker
    broker_sent: Floats  # caps
    region_sent: Floats
    broker_handled: Floats
    region_handled: Floats
    tree: Rooted
    class_start: Ints  # members of each traffic class; none where nothing handled is capped
    class_member: Ints
    demand: Floats
    client_start: Ints  # classes of each client
    client_class: Ints


class State(NamedTuple):
    """A placement and its loads."""

    home: Ints
    broker_sent: Floats
    region_sent: Floats
    broker_handled: Floats
    region_handled: Floats
    stamp: Ints  # scratch: brokers, then regions, that were touched last
    stamped: Ints  # [0]: the last stamp


@dataclass(frozen=True)
class Caps:
    """What no broker and no region may exceed, in messages of the window; infinity where there is no cap."""

    broker_sent: Floats
    region_sent: Floats
    broker_handled: Floats
    region_handled: Floats


def region_numbers(observation: Observation) -> tuple[Ints, Ints]:
    """(regions ascending with the backbone last, the number of each broker's region among them)."""
    region = observation.network.region
    found = np.unique(region)
    known = np.concatenate([found[found >= 0], found[found < 0]])
    number = np.empty(len(region), dtype=np.int64)
    for i, each in enumerate(known.tolist()):
        number[region == each] = i
    return known, number


def check(observation: Observation, who: str) -> None:
    """Refuse what no placement can be worked out for, saying what is missing."""
    network = observation.network
    if len(observation.flows.sender) == 0:
        raise NotObserved(f"{who}: no flows were observed. Ingest a log that says who received what.")
    if network.brokers == 0:
        raise NotObserved(f"{who}: no brokers were observed. Ingest the tables brokers and links.")
    if len(observation.overlay.placement) == 0:
        raise NotObserved(f"{who}: no client has a home. Ingest the table sessions.")
    if (network.region < 0).all():
        raise BadObservation(
            f"{who}: all {network.brokers} brokers are of the backbone (region -1), which holds no client. "
            "Give brokers a region in the table brokers."
        )


def problem_of(
    observation: Observation,
    caps: Caps | None = None,
    *,
    weight: Weight = "messages",
    distance: Distance = "hops",
    move_cost: float = 0.0,
    any_cost: float = 0.0,
    keep: tuple[int, ...] = (),
    only: tuple[int, ...] = (),
    within: bool = False,
) -> Problem:
    """The observation ready to be searched."""
    network, overlay = observation.network, observation.overlay
    placement_cost.cost(observation, overlay, weight=weight, distance=distance)  # refuses what cannot be costed
    tree = overlay.rooted(network.brokers)
    _, region = region_numbers(observation)
    origin = overlay.homes(observation.clients)
    movable = origin >= 0
    if only:
        chosen = np.zeros(len(origin), dtype=np.bool_)
        chosen[list(only)] = True
        movable &= chosen
    movable[list(keep)] = False
    none = np.full(network.brokers, np.inf)
    caps = caps or Caps(none, np.full(region.max() + 1, np.inf), none, np.full(region.max() + 1, np.inf))
    handled = bool(np.isfinite(caps.broker_handled).any() or np.isfinite(caps.region_handled).any())
    amount, row, table = _access(observation, weight, distance)
    return Problem(
        ties_of(observation, weight),
        distances(tree, placement_cost.link_lengths(tree, network, overlay, distance)),
        region, network.region >= 0, origin, movable, within,
        observation.sent.astype(np.float64), amount, row, table, float(move_cost), float(any_cost),
        caps.broker_sent, caps.region_sent, caps.broker_handled, caps.region_handled,
        tree, *crowds(observation, handled),
    )  # fmt: skip


def crowds(observation: Observation, wanted: bool) -> tuple[Ints, Ints, Floats, Ints, Ints]:
    """(start, members, demand, start by client, classes by client): the traffic classes, else the flows as pairs."""
    classes, flows, n = observation.classes, observation.flows, observation.clients
    if not wanted:
        none = np.zeros(0, dtype=np.int64)
        return np.zeros(1, dtype=np.int64), none, np.zeros(0), np.zeros(n + 1, dtype=np.int64), none
    if len(classes):
        start, member, demand = classes.start.copy(), classes.members.copy(), classes.demand  # one type for kernels
    else:
        apart = flows.sender != flows.receiver
        member = np.column_stack([flows.sender[apart], flows.receiver[apart]]).reshape(-1)
        start, demand = np.arange(0, len(member) + 1, 2), flows.messages[apart]
    which = np.repeat(np.arange(len(start) - 1), np.diff(start))
    first, order = group(member, n)
    return start, member, demand.astype(np.float64), first, which[order]


def _access(observation: Observation, weight: Weight, distance: Distance) -> tuple[Floats, Ints, Floats]:
    network, flows, n = observation.network, observation.flows, observation.clients
    table = (network.access_latency_us if distance == "latency" else network.access_cost).astype(np.float64)
    if table.size == 0 or len(network.client_region) == 0:
        return np.zeros(n), np.zeros(n, dtype=np.int64), np.zeros((1, network.brokers))
    amount = (observation.sent if weight == "messages" else observation.sent_bytes).astype(np.float64)
    np.add.at(amount, flows.receiver, flows.messages if weight == "messages" else flows.bytes)
    unknown = np.zeros((1, network.brokers))
    row = np.where(network.client_region >= 0, network.client_region, len(table))
    return amount, row, np.concatenate([table, unknown])


@kernel
def distances(tree: Rooted, length: Floats) -> Floats:
    """The distance between every two brokers; length[v] is that of v's link up."""
    n = len(length)
    total = from_root(tree, length)
    apart = np.zeros((n, n), dtype=np.float64)
    for a in range(n):
        for b in range(a):
            top = common_ancestor(tree, a, b)
            apart[a, b] = apart[b, a] = total[a] + total[b] - 2 * total[top]
    return apart


@kernel
def touch(problem: Problem, state: State, crowd: int, sign: float) -> None:
    """Add (or take away) what the messages of a class are to the brokers and regions of its minimal subtree."""
    first = problem.class_start[crowd]
    last = problem.class_start[crowd + 1]
    top = -1
    for k in range(first, last):
        at = state.home[problem.class_member[k]]
        if at >= 0:
            top = at if top < 0 else common_ancestor(problem.tree, top, at)
    if top < 0:
        return
    brokers = len(problem.region)
    state.stamped[0] += 1
    mark, amount = state.stamped[0], sign * problem.demand[crowd]
    for k in range(first - 1, last):
        at = top if k < first else state.home[problem.class_member[k]]
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
def move(problem: Problem, state: State, client: int, broker: int) -> None:
    """Give a client another home, loads included."""
    old = state.home[client]
    first, last = problem.client_start[client], problem.client_start[client + 1]
    for k in range(first, last):
        touch(problem, state, problem.client_class[k], -1.0)
    sent = problem.sent[client]
    if old >= 0:
        state.broker_sent[old] -= sent
        state.region_sent[problem.region[old]] -= sent
    state.home[client] = broker
    if broker >= 0:
        state.broker_sent[broker] += sent
        state.region_sent[problem.region[broker]] += sent
    for k in range(first, last):
        touch(problem, state, problem.client_class[k], 1.0)


@kernel
def state_at(problem: Problem, home: Ints) -> State:
    """A placement with its loads."""
    brokers, regions = len(problem.region), problem.region.max() + 1
    state = State(
        home.copy(), np.zeros(brokers), np.zeros(regions), np.zeros(brokers), np.zeros(regions),
        np.zeros(brokers + regions, dtype=np.int64), np.zeros(1, dtype=np.int64),
    )  # fmt: skip
    for c in range(len(home)):
        if home[c] >= 0:
            state.broker_sent[home[c]] += problem.sent[c]
            state.region_sent[problem.region[home[c]]] += problem.sent[c]
    for crowd in range(len(problem.demand)):
        touch(problem, state, crowd, 1.0)
    return state


@kernel
def price(problem: Problem, client: int, broker: int) -> float:
    """What a client at a broker costs besides its ties: access, and its move."""
    total = float(problem.amount[client] * problem.access[problem.access_row[client], broker])
    origin = problem.origin[client]
    if broker != origin and origin >= 0:
        total += problem.any_cost
        if problem.region[broker] != problem.region[origin]:
            total += problem.move_cost
    return total


@kernel
def saving(problem: Problem, home: Ints, client: int, broker: int) -> float:
    """How much less the placement costs once the client is at the broker."""
    old = home[client]
    total = price(problem, client, old) - price(problem, client, broker)
    ties = problem.ties
    for k in range(ties.start[client], ties.start[client + 1]):
        at = home[ties.other[k]]
        total += ties.weight[k] * (problem.apart[old, at] - problem.apart[broker, at])
    return total


@kernel
def tie_between(ties: Ties, a: int, b: int) -> float:
    """The traffic of two clients with each other."""
    low, high = ties.start[a], ties.start[a + 1]
    end = high
    while low < high:
        middle = (low + high) // 2
        if ties.other[middle] < b:
            low = middle + 1
        else:
            high = middle
    return float(ties.weight[low]) if low < end and ties.other[low] == b else 0.0


@kernel
def total_cost(problem: Problem, home: Ints) -> float:
    """What a placement costs, moves included."""
    total, ties = 0.0, problem.ties
    for c in range(len(home)):
        if home[c] < 0:
            continue
        total += price(problem, c, home[c])
        for k in range(ties.start[c], ties.start[c + 1]):
            if ties.other[k] > c:
                total += ties.weight[k] * problem.apart[home[c], home[ties.other[k]]]
    return total


@kernel
def fits_sent(problem: Problem, state: State, client: int, broker: int) -> bool:
    """Whether what the client sends can be added to the broker and its region."""
    sent, region, old = problem.sent[client], problem.region[broker], state.home[client]
    if sent > 0 and state.broker_sent[broker] + sent > problem.broker_sent[broker]:
        return False
    same = old >= 0 and problem.region[old] == region
    return bool(same or sent == 0 or state.region_sent[region] + sent <= problem.region_sent[region])


@kernel
def excess(problem: Problem, state: State) -> float:
    """By how much loads are above their caps, as shares of the caps, all together."""
    over = 0.0
    for b in range(len(problem.region)):
        over += max(0.0, state.broker_sent[b] - problem.broker_sent[b]) / max(problem.broker_sent[b], 1.0)
        over += max(0.0, state.broker_handled[b] - problem.broker_handled[b]) / max(problem.broker_handled[b], 1.0)
    for r in range(len(problem.region_sent)):
        over += max(0.0, state.region_sent[r] - problem.region_sent[r]) / max(problem.region_sent[r], 1.0)
        over += max(0.0, state.region_handled[r] - problem.region_handled[r]) / max(problem.region_handled[r], 1.0)
    return over
