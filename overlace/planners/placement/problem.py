"""A placement as arrays: ties, distances, access, loads and their caps; and the same as the search takes it.

What is minimised is the facet's cost (messages x distance on the tree, plus access) plus a price for every client
that leaves its region. Four loads can be capped: what clients of a broker or a region send (CC12 (5)), and what a
broker or a region handles, that is the messages whose minimal subtree touches it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from overlace.arrays.jit import Bools, Floats, Ints, by_address, kernel
from overlace.arrays.trees import Rooted, common_ancestor, from_root
from overlace.errors import BadObservation, NotObserved
from overlace.model import Observation
from overlace.planners.placement import cost as placement_cost
from overlace.planners.placement.cost import Distance, Weight
from overlace.planners.placement.ties import Ties, ties_of
from overlace.planners.search import problem as search
from overlace.planners.search.limits import LoadLimits
from overlace.planners.search.problem import loads_at
from overlace.planners.search.system import Demand, root_tree
from overlace.planners.search.wires import wires_over


@by_address
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
    broker_sent: Floats  # caps
    region_sent: Floats
    broker_handled: Floats
    region_handled: Floats
    tree: Rooted
    classes: Demand  # traffic classes; none where nothing handled is capped


class Caps(NamedTuple):
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
        raise NotObserved(f"{who}: no client's broker is known. Ingest the table sessions.")
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
    movable: Bools | None = None,
    within: bool = False,
) -> Problem:
    """The observation ready to be searched; of those who have a home all are movable, or some."""
    network, overlay = observation.network, observation.overlay
    placement_cost.cost(observation, overlay, weight=weight, distance=distance)  # refuses what cannot be costed
    tree = overlay.rooted(network.brokers)
    _, region = region_numbers(observation)
    origin = overlay.homes(observation.clients)
    none = np.full(network.brokers, np.inf)
    caps = caps or Caps(none, np.full(region.max() + 1, np.inf), none, np.full(region.max() + 1, np.inf))
    handled = bool(np.isfinite(caps.broker_handled).any() or np.isfinite(caps.region_handled).any())
    amount, row, table = _access(observation, weight, distance)
    return Problem(
        ties=ties_of(observation, weight),
        apart=distances(tree, placement_cost.link_lengths(tree, network, overlay, distance)),
        region=region,
        may=network.region >= 0,
        origin=origin,
        movable=origin >= 0 if movable is None else movable & (origin >= 0),
        within=within,
        sent=observation.sent.astype(np.float64),
        amount=amount,
        access_row=row,
        access=table,
        move_cost=float(move_cost),
        **caps._asdict(),
        tree=tree,
        classes=classes_of(observation) if handled else nobody(observation.clients),
    )


def nobody(clients: int) -> Demand:
    """No traffic class."""
    return search.demand_of(np.zeros(1, np.int64), np.empty(0, np.int64), np.empty(0), clients)


def classes_of(observation: Observation) -> Demand:
    """The traffic classes, of clients that have a home; where none are known, the flows as pairs."""
    classes, flows, n = observation.classes, observation.flows, observation.clients
    if len(classes):
        homes = observation.overlay.homes(n)
        start, member = keep_members(classes.start, classes.members, homes[classes.members] >= 0)
        return search.demand_of(start, member, classes.demand.astype(np.float64), n)
    apart = flows.sender != flows.receiver
    member = np.column_stack([flows.sender[apart], flows.receiver[apart]]).reshape(-1)
    return search.demand_of(np.arange(0, len(member) + 1, 2), member, flows.messages[apart].astype(np.float64), n)


def keep_members(start: Ints, member: Ints, kept: Bools) -> tuple[Ints, Ints]:
    """Groups of some of their members."""
    return np.append(0, np.cumsum(kept))[start], member[kept]


def _access(observation: Observation, weight: Weight, distance: Distance) -> tuple[Floats, Ints, Floats]:
    network, n = observation.network, observation.clients
    table = (network.access_latency_us if distance == "latency" else network.access_cost).astype(np.float64)
    if table.size == 0 or len(network.client_region) == 0:
        return np.zeros(n), np.zeros(n, dtype=np.int64), np.zeros((1, network.brokers))
    amount = placement_cost.amounts_of(observation, weight)
    unknown = np.zeros((1, network.brokers))
    row = np.where(network.client_region >= 0, network.client_region, len(table))
    return amount, row, np.concatenate([table, unknown])


@kernel(work=lambda tree, length: 3 * len(length) ** 2)
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


def total_cost(problem: Problem, home: Ints) -> float:
    """What a placement costs, moves included; who has no home costs nothing."""
    ties, origin = problem.ties, problem.origin
    left = np.repeat(np.arange(len(home)), np.diff(ties.start))
    both = (home[left] >= 0) & (home[ties.other] >= 0)
    ways = float((ties.weight * problem.apart[home[left], home[ties.other]])[both].sum()) / 2
    there = np.flatnonzero(home >= 0)
    access = float((problem.amount[there] * problem.access[problem.access_row[there], home[there]]).sum())
    known = there[origin[there] >= 0]
    return ways + access + problem.move_cost * int((problem.region[home[known]] != problem.region[origin[known]]).sum())


# --- as the search takes it


def search_problem(problem: Problem, *, across: bool = False) -> search.SearchProblem:
    """Two clients that talk are a class of two on a tree that stays; loads above their caps have to come down to them.

    With `across` only a client that leaves its region is moved.
    """
    n, first = len(problem.region), np.maximum(problem.origin, 0)
    demand = _pairs(problem.ties)
    load = problem.classes if len(problem.classes.demand) else demand
    child = np.flatnonzero(problem.tree.parent >= 0)
    links = np.sort(np.column_stack([child, problem.tree.parent[child]]), axis=1)
    wires = wires_over(n, links, problem.apart[links[:, 0], links[:, 1]])
    areas = bool(np.isfinite(problem.region_sent).any() or np.isfinite(problem.region_handled).any())
    sent_goal, handled_goal = problem.broker_sent, problem.broker_handled
    if areas:
        sent_goal = np.concatenate([sent_goal, problem.region_sent])
        handled_goal = np.concatenate([handled_goal, problem.region_handled])
    group, may, access = _groups(problem)
    placed = problem.origin >= 0
    limits = LoadLimits(
        first=first,
        sent=np.where(placed, problem.sent, 0.0),
        sent_cap=sent_goal,
        handled_cap=handled_goal,
        area=n + problem.region if areas else np.full(n, -1),
        may=may,
        group=group,
        access=access,
        amount=np.where(placed, problem.amount, 0.0),
        talk=_talk(problem.ties),
        nearest=np.where(may, access, np.inf).min(axis=1),
        place=problem.region if across else np.arange(n),
        region=problem.region,
        leave=problem.move_cost,
        inside=across,
    )
    sent, handled = loads_at(limits, load, first, links, wires)
    limits = limits._replace(sent_cap=np.maximum(sent_goal, sent), handled_cap=np.maximum(handled_goal, handled))
    return search.SearchProblem(
        demand=demand,
        wires=wires,
        node=np.zeros(n),
        links=links,
        parent=root_tree(links, wires).parent,
        stays=np.ones(n, dtype=np.bool_),
        max_degree=np.full(n, n),
        limits=limits,
        capped=bool(np.isfinite(handled_goal).any()),
        movable=np.flatnonzero(problem.movable),
        sent_goal=sent_goal,
        handled_goal=handled_goal,
        load=load,
        rewires=False,
    )


def _pairs(ties: Ties) -> Demand:
    left = np.repeat(np.arange(len(ties.start) - 1), np.diff(ties.start))
    once = left < ties.other
    member = np.column_stack([left[once], ties.other[once]]).reshape(-1)
    return search.demand_of(np.arange(0, len(member) + 1, 2), member, ties.weight[once], len(ties.start) - 1)


def _talk(ties: Ties) -> Floats:
    total = np.append(0.0, np.cumsum(ties.weight))
    return np.asarray(total[ties.start[1:]] - total[ties.start[:-1]])


def _groups(problem: Problem) -> tuple[Ints, Bools, Floats]:
    """(group of each client, where a group may be, what access costs it there)."""
    bound = problem.region[np.maximum(problem.origin, 0)] if problem.within else np.zeros(len(problem.origin), np.int64)
    key = problem.access_row * (int(problem.region.max()) + 1) + bound
    rows, one, group = np.unique(key, return_index=True, return_inverse=True)
    may = np.broadcast_to(problem.may, (len(rows), len(problem.may))).copy()
    if problem.within:
        may &= problem.region[None, :] == bound[one][:, None]
    return group.reshape(-1), may, problem.access[problem.access_row[one]]
