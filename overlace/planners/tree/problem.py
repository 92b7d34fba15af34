"""What a search over trees works on: classes as sets of brokers, prices of links, limits.

With `clients=True` every client is a node of its own, a leaf behind its broker with a free link (R5): then a search may
also move clients. A price is alpha times the cost of a link, infinite for one that could not be wired; tolls are beta
times the cost of a broker.
"""

from __future__ import annotations

import numpy as np

from overlace.arrays.jit import Ints, Pairs
from overlace.errors import BadOverlay
from overlace.model import Network, Observation, Overlay
from overlace.planners.search.problem import demand_of
from overlace.planners.search.spans import Spans, spans_of
from overlace.planners.search.system import Demand
from overlace.planners.search.wires import Wires, all_alike, wires_over
from overlace.planners.tree.cost import Weight, class_homes


def problem_of(
    observation: Observation,
    overlay: Overlay,
    *,
    alpha: float = 1.0,
    beta: float = 0.0,
    weight: Weight = "messages",
    max_degree: int | None = None,
    clients: bool = False,
) -> Spans:
    """The search problem of an observation with clients where the overlay has them."""
    network, classes = observation.network, observation.classes
    homes = class_homes(observation, overlay)
    demand = (classes.demand if weight == "messages" else classes.bytes).astype(np.float64)
    ends = classes.members + network.brokers if clients else homes
    nodes = network.brokers + (observation.clients if clients else 0)
    cap = network.max_degree if max_degree is None else np.minimum(network.max_degree, max_degree)
    toll = np.concatenate([beta * network.broker_cost, np.zeros(nodes - network.brokers)])
    return spans_of(classes.start, ends, demand, wires_of(network, alpha), toll, np.array(cap))


def classes_of(observation: Observation, weight: Weight) -> Demand:
    """Classes that weigh something, and the classes of each client."""
    classes = observation.classes
    amount = (classes.demand if weight == "messages" else classes.bytes).astype(np.float64)
    return demand_of(classes.start, classes.members, amount, observation.clients)


def wires_of(network: Network, alpha: float = 1.0) -> Wires:
    """What links cost: those that the network names, or all alike where it names none."""
    if len(network.links) == 0:
        return all_alike(network.brokers, alpha)
    return wires_over(network.brokers, network.links, alpha * network.link_cost)


def nodes_tree(overlay: Overlay, brokers: int, clients: int) -> Pairs:
    """The overlay's links between brokers, then one from each client's node to its home."""
    homes = overlay.homes(clients)
    if (homes < 0).any():
        client = int(np.flatnonzero(homes < 0)[0])
        raise BadOverlay(f"tree: client {client} has no broker, so its link cannot be moved. Ingest its sessions.")
    leaves = np.column_stack([homes, brokers + np.arange(clients)])
    return np.ascontiguousarray(np.concatenate([overlay.tree, leaves]))


def split_nodes(links: Pairs, brokers: int) -> tuple[Pairs, Ints]:
    """(tree, homes): the links between brokers, and the broker of each client's node."""
    links = np.sort(links, axis=1)
    leaf = links[:, 1] >= brokers
    homes = np.empty(int(leaf.sum()), dtype=np.int64)
    homes[links[leaf, 1] - brokers] = links[leaf, 0]
    return np.ascontiguousarray(links[~leaf]), homes
