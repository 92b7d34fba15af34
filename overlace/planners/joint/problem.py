"""What is given: demand, costs and limits, from an observation."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from overlace.arrays.jit import Bools, Floats, Ints, Pairs
from overlace.arrays.pairs import positions
from overlace.errors import BadParameter, NotObserved, Unknown
from overlace.limits import PlannerLimits, option
from overlace.model import PARTS, Observation
from overlace.planners.placement.cost import amounts_of
from overlace.planners.search.limits import LoadLimits, capacity_of
from overlace.planners.search.problem import SearchProblem, talking
from overlace.planners.search.system import Demand, root_tree, traffic_cost
from overlace.planners.search.wires import wires_over
from overlace.planners.tree import cost as tree_cost
from overlace.planners.tree.problem import classes_of


@dataclass(frozen=True)
class JointLimits(PlannerLimits):
    """What a plan must keep, and what may change, by id."""

    wired_only: bool = option(False, "no new links but those of may_wire")
    may_wire: tuple[int, ...] = option((), "rows of the network's links that may be wired", metavar="ROW")
    within_region: bool = option(False, "clients stay in their region")
    keep: tuple[int, ...] = option((), "clients that stay", ids="client")
    only: tuple[int, ...] = option((), "clients that may move; none: all", ids="client")
    keep_brokers: tuple[int, ...] = option((), "brokers that keep their clients and links", ids="broker")
    keep_links: tuple[int, ...] = option((), "rows of the network's links that stay", metavar="ROW")

    @property
    def limits(self) -> tuple[str, ...]:
        """The limits in force, those that are lifted together by the first of their fields; a cap of 0 is none."""
        found = []
        for name, lifted in LIFTED.items():
            values = [(getattr(self, each), free) for each, free in lifted.items()]
            if any(value != free and (value or not name.endswith("_cap")) for value, free in values):
                found.append(name)
        return tuple(found)

    def relax(self, limit: str) -> Self:
        """The same without one of its limits; none of its changes, clients, brokers and links are held in place."""
        if limit not in self.limits:
            raise Unknown("limit", limit, self.limits)
        return replace(self, **LIFTED[limit])


LIFTED: dict[str, dict[str, Any]] = {
    "within_region": {"within_region": False},
    "wired_only": {"wired_only": False, "may_wire": ()},
    "budget": {"budget": None, "max_moves": None, "max_swaps": None},
    "sent_cap": {"sent_cap": None},
    "handled_cap": {"handled_cap": None},
    "head_room": {"head_room": 0.0},
    "max_degree": {"max_degree": None},
    "max_cut": {"max_cut": None},
    "min_step": {"min_step": 0.0},
    "keep": {"keep": (), "only": (), "keep_brokers": (), "keep_links": ()},
}
"""Limits, and the values of the fields that lift each."""


def problem_of(
    observation: Observation,
    alpha: float,
    beta: float,
    weight: tree_cost.Weight,
    caps: JointLimits,
    carried: Observation | None = None,
) -> SearchProblem:
    """The problem of an observation; `carried` is what brokers carry, where that is another."""
    network, overlay, classes = observation.network, observation.overlay, observation.classes
    if len(classes) == 0:
        raise NotObserved("joint: no traffic classes were observed. Ingest a log that says who received what.")
    if network.brokers > 1 and len(overlay.tree) == 0:
        raise NotObserved("joint: there is no tree to start from. Ingest links that are wired.")
    tree_cost.class_costs(observation, overlay)  # refuses clients without homes and what is no tree
    demand = classes_of(observation, weight)
    load = demand if carried is None and weight == "messages" else classes_of(carried or observation, "messages")
    candidates = _candidates(observation, caps)
    wires = wires_over(network.brokers, candidates, alpha * network.costs_of(candidates))
    node = beta * network.broker_cost
    home = observation.overlay.homes(observation.clients)
    links = np.sort(overlay.tree, axis=1).reshape(-1, 2)
    none = np.full(network.brokers, -1, dtype=np.int64)
    tree = root_tree(links, wires)
    _, handled = traffic_cost(load, np.maximum(home, 0), tree, node, none, network.brokers)
    limits, capped = _limits(observation, carried or observation, demand, home, handled, weight, caps)
    degree = np.bincount(links.ravel(), minlength=network.brokers)
    most = network.max_degree if caps.max_degree is None else np.minimum(network.max_degree, caps.max_degree)
    stays = _stays(observation, tree.parent, caps)
    limits.may[:, list(caps.keep_brokers)] = False
    return SearchProblem(
        demand=demand,
        wires=wires,
        node=node,
        links=links,
        parent=tree.parent.copy(),
        stays=stays,
        max_degree=np.maximum(most, degree),
        limits=limits,
        capped=capped,
        movable=_movable(observation, home, demand, limits, caps),
        sent_goal=limits.sent_cap,
        handled_goal=limits.handled_cap,
        load=load,
        rewires=bool((~stays[tree.parent >= 0]).any() and len(candidates) > len(links)),
        degree_goal=most if (most < degree).any() else None,
    )


def among_measured(caps: JointLimits, observation: Observation) -> JointLimits:
    """The limits where latency counts: a link that was not measured is not new, and one that is wired is refused."""
    network, tree = observation.network, observation.overlay.tree
    network.check_measured(tree)
    if network.measured.all():
        return caps
    rows = caps.may_wire if caps.wired_only else range(len(network.links))
    return replace(caps, wired_only=True, may_wire=tuple(row for row in rows if network.measured[row]))


def in_messages(problem: SearchProblem) -> SearchProblem:
    """The problem of a forecast with amounts in messages, as prices of changes are."""
    demand, limits = problem.demand, problem.limits
    return replace(
        problem,
        demand=demand._replace(demand=demand.demand / PARTS),
        limits=limits._replace(amount=limits.amount / PARTS, talk=limits.talk / PARTS),
    )


def _candidates(observation: Observation, caps: JointLimits) -> Pairs:
    """The links that may be: those of the tree, and others that the network names."""
    network, tree = observation.network, observation.overlay.tree
    links = network.links if len(network.links) else tree
    if caps.wired_only and len(network.links):
        wrong = [row for row in caps.may_wire if not 0 <= row < len(links)]
        if wrong:
            raise BadParameter(f"joint: may_wire names row {wrong[0]}; the network has {len(links)} links")
        allowed = positions(tree, links) >= 0
        allowed[list(caps.may_wire)] = True
        links = links[allowed]
    at_kept = np.isin(links, caps.keep_brokers).any(axis=1) & (positions(tree, links) < 0)
    return np.ascontiguousarray(links[~at_kept])


def _stays(observation: Observation, parent: Ints, caps: JointLimits) -> Bools:
    """Per broker whether the link to its parent stays."""
    network = observation.network
    for name, given, most in (
        ("brokers", caps.keep_brokers, network.brokers),
        ("links", caps.keep_links, len(network.links)),
    ):
        wrong = [each for each in given if not 0 <= each < most]
        if wrong:
            raise BadParameter(f"joint: keep_{name} names {wrong[0]}; there are {most} {name}")
    stays = np.isin(np.arange(network.brokers), caps.keep_brokers) | np.isin(parent, caps.keep_brokers)
    for a, b in network.links[list(caps.keep_links)].tolist():
        stays[[v for v, up in ((a, b), (b, a)) if parent[v] == up]] = True
    return stays


def _limits(
    observation: Observation,
    carried: Observation,
    demand: Demand,
    home: Ints,
    handled: Floats,
    weight: tree_cost.Weight,
    caps: JointLimits,
) -> tuple[LoadLimits, bool]:
    """(limits, whether what brokers handle is among them): no limit is tighter than what is there today."""
    network, placed = observation.network, home >= 0
    n, sent = network.brokers, np.where(placed, carried.sent, 0).astype(np.float64)
    now = np.bincount(home[placed], weights=sent[placed], minlength=n)
    sent_cap = np.full(n, np.inf)
    if caps.sent_cap:
        holding = max(1, int((network.region >= 0).sum()))
        sent_cap = np.maximum(now, max(caps.sent_cap * sent.sum() / holding, sent.max(initial=0.0)))
    handled_cap = np.full(n, np.inf)
    handled_cap = np.minimum(handled_cap, capacity_of(observation) * (1 - caps.head_room))
    if caps.handled_cap:
        handled_cap = np.minimum(handled_cap, caps.handled_cap * handled.max(initial=0.0))
    if caps.max_cut is not None:
        handled_cap = np.minimum(handled_cap, caps.max_cut * carried.classes.demand.sum())
    handled_cap = np.maximum(handled_cap, handled)
    where, may, access = _places(observation, home, caps.within_region)
    amount = amounts_of(observation, weight) if network.access_cost.size else np.zeros(observation.clients)
    talk = np.zeros(observation.clients)
    np.add.at(talk, demand.member, np.repeat(demand.demand, np.diff(demand.start)))
    limits = LoadLimits(
        first=np.where(placed, home, 0),
        sent=sent,
        sent_cap=sent_cap,
        handled_cap=handled_cap,
        area=np.full(n, -1, dtype=np.int64),
        may=may,
        group=where,
        access=access,
        amount=np.where(placed, amount, 0.0),
        talk=talk,
        nearest=np.where(may, access, np.inf).min(axis=1),
        place=np.arange(n),
        region=np.zeros(n, dtype=np.int64),
        leave=0.0,
        inside=False,
    )
    return limits, bool(np.isfinite(handled_cap).any())


def _places(observation: Observation, home: Ints, within_region: bool) -> tuple[Ints, Bools, Floats]:
    """(group of each client, where a group may be, what access costs it there)."""
    network = observation.network
    region = network.client_region if len(network.client_region) else np.full(observation.clients, -1)
    bound = network.region[np.maximum(home, 0)] if within_region else np.full(observation.clients, -2)
    rows, where = np.unique(np.column_stack([region, bound]), axis=0, return_inverse=True)
    may = np.broadcast_to(network.region >= 0, (len(rows), network.brokers)).copy()
    if within_region:
        may &= network.region[None, :] == rows[:, 1:2]
    access = np.zeros((len(rows), network.brokers))
    known = rows[:, 0] >= 0
    if network.access_cost.size:
        access[known] = network.access_cost[rows[known, 0]]
    return where.reshape(-1), may, access


def _movable(observation: Observation, home: Ints, demand: Demand, limits: LoadLimits, caps: JointLimits) -> Ints:
    """Clients that may move and for whom it can make a difference."""
    talks = np.zeros(observation.clients, dtype=np.bool_)
    talks[talking(demand)] = True
    travels = (limits.amount > 0) & (np.ptp(limits.access, axis=1)[limits.group] > 0)
    may = (home >= 0) & (talks | travels)
    for name, chosen in (("keep", caps.keep), ("only", caps.only)):
        wrong = [c for c in chosen if not 0 <= c < observation.clients]
        if wrong:
            raise BadParameter(f"joint: {name} names client {wrong[0]}; there are {observation.clients}")
    if caps.only:
        chosen_only = np.zeros_like(may)
        chosen_only[list(caps.only)] = True
        may &= chosen_only
    may[list(caps.keep)] = False
    may &= ~np.isin(home, caps.keep_brokers)
    return np.flatnonzero(may)
