"""What every tree planner looks at first: the observed tree, or one to start from, and what must stay."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from overlace.arrays.components import components, spanning_forest
from overlace.arrays.jit import Bools, Ints, Pairs
from overlace.arrays.pairs import positions
from overlace.arrays.trees import root_at
from overlace.errors import BadObservation, BadOverlay, NotObserved
from overlace.model import Network, Observation, Overlay, name_of
from overlace.planners.search import problem as search
from overlace.planners.search.limits import no_limits
from overlace.planners.search.spans import Spans
from overlace.planners.tree.problem import classes_of

if TYPE_CHECKING:
    from overlace.planners.tree.planner import TreePlanner


class Setting(NamedTuple):
    """The problem and the tree to start from."""

    problem: Spans
    start: Pairs  # the observed tree, or the minimum spanning tree where there is none yet
    built: bool  # whether it is the observed one
    kept: Bools  # per link of start: it must stay


def setting_of(planner: TreePlanner, observation: Observation, overlay: Overlay | None = None) -> Setting:
    """The problem of an observation; refuses what is no tree, or cannot be joined, naming the links."""
    network, before = observation.network, overlay or observation.overlay
    if network.brokers == 0:
        raise NotObserved("tree: no brokers were observed. Ingest the tables brokers and links.")
    unknown = [b for b in planner.keep if not 0 <= b < network.brokers]
    if unknown:
        raise BadOverlay(f"keep names broker {unknown[0]}; there are {network.brokers}")
    built = len(before.tree) > 0 or network.brokers == 1
    if built:
        before.rooted(network.brokers)
        network.costs_of(before.tree)
    problem = planner.problem(observation, before)
    start = np.array(before.tree if built else all_links(network)[spanning_tree(network, before.tree)])
    kept = np.isin(start, planner.keep).all(axis=1) & built
    return Setting(problem, np.ascontiguousarray(start), built, np.asarray(kept))


def search_problem(planner: TreePlanner, observation: Observation, setting: Setting) -> search.SearchProblem:
    """The problem as the search takes it: nobody moves, and every link that differs must save `min_gain`."""
    p = setting.problem
    demand = classes_of(observation, planner.weight)
    parent = root_at(p.wires.brokers, setting.start, 0).parent
    stays = np.zeros(p.wires.brokers, dtype=np.bool_)
    for a, b in setting.start[setting.kept].tolist():
        stays[a if parent[a] == b else b] = True
    home = np.maximum(observation.overlay.homes(observation.clients), 0)
    limits = no_limits(home, p.wires.brokers)
    return search.SearchProblem(
        demand=demand,
        wires=p.wires,
        node=p.toll,
        links=setting.start,
        parent=parent,
        stays=stays,
        max_degree=p.cap,
        limits=limits,
        capped=False,
        movable=np.empty(0, dtype=np.int64),
        sent_goal=limits.sent_cap,
        handled_goal=limits.handled_cap,
        load=demand,
        least=planner.min_gain if setting.built else 0.0,
    )


def all_links(network: Network) -> Pairs:
    """The links that could be wired: those of the network, or all where it names none."""
    if len(network.links):
        return network.links
    left, right = np.triu_indices(network.brokers, 1)
    return np.column_stack([left, right])


def spanning_tree(network: Network, wired: Pairs) -> Ints:
    """Rows of the links that form a minimum spanning tree; of equal links the wired ones first."""
    links = all_links(network)
    cost = network.link_cost if len(network.links) else np.ones(len(links))
    spare = positions(wired, links) < 0
    order = np.lexsort((links[:, 1], links[:, 0], spare, cost))
    chosen = np.flatnonzero(spanning_forest(network.brokers, links, order))
    if len(chosen) != network.brokers - 1:
        apart = np.unique(components(network.brokers, links))
        first = ", ".join(name_of("broker", int(b)) for b in apart[:5])
        raise BadObservation(
            f"tree: the network's {len(links)} links leave {network.brokers} brokers in "
            f"{len(apart)} parts (at {first}). Add the links that could join them."
        )
    return chosen
