"""What a search over trees works on: classes as sets of nodes, prices of links, limits; arrays for kernels.

OCBR07 (1) asks of a class only at which brokers its clients are, so classes over the same brokers are one,
with their demands added up, and a class at a single broker costs the same in every tree and is left out.
With `clients=True` every client is a node of its own, a leaf behind its broker with a free link (R5): then a
search may also move clients.

A price is alpha times the cost of a link, infinite for one that could not be wired; tolls are beta times the
cost of a broker.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from overlace.arrays.csr import group, sort_groups, take_groups
from overlace.arrays.hashing import distinct_groups, hash_groups
from overlace.arrays.jit import Floats, Ints, Pairs, kernel
from overlace.errors import BadOverlay
from overlace.model import Network, Observation, Overlay
from overlace.planners.tree.cost import Weight, class_homes

UNIFORM, FULL, SPARSE = 0, 1, 2
"""How prices are looked up: all alike, one for every pair of brokers, or only for some pairs."""


class Problem(NamedTuple):
    """Classes, prices, tolls and limits of a search; one entry a class, a broker or a link."""

    brokers: int  # nodes from here on are clients
    start: Ints  # terminal[start[k]:start[k + 1]] are the nodes of class k, sorted
    terminal: Ints
    weight: Floats
    example: Ints  # per class the one of the observation that it stands for, the heaviest of several
    at_start: Ints  # at[at_start[v]:at_start[v + 1]] are the classes with a terminal at v
    at: Ints
    kind: int
    price: Floats  # FULL: in order of the pairs
    link_start: Ints  # SPARSE: links at each broker, by far end
    link_other: Ints
    link_price: Floats
    cheapest: Floats  # per broker the least price of a link
    toll: Floats  # per node
    cap: Ints  # most links of each broker


@kernel
def price_of(p: Problem, a: int, b: int) -> float:
    """The price of a link between two nodes; infinite if it could not be wired."""
    if a > b:
        a, b = b, a
    if b >= p.brokers:
        return 0.0 if a < p.brokers else np.inf
    if p.kind == UNIFORM:
        return float(p.price[0])
    if p.kind == FULL:
        return float(p.price[a * (2 * p.brokers - a - 1) // 2 + b - a - 1])
    low, high = p.link_start[a], p.link_start[a + 1]
    while low < high:
        middle = (low + high) // 2
        if p.link_other[middle] < b:
            low = middle + 1
        else:
            high = middle
    if low < p.link_start[a + 1] and p.link_other[low] == b:
        return float(p.link_price[low])
    return np.inf


@kernel
def prices_of(p: Problem, links: Pairs) -> Floats:
    """The price of each link."""
    found = np.empty(len(links), dtype=np.float64)
    for k in range(len(links)):
        found[k] = price_of(p, links[k, 0], links[k, 1])
    return found


def problem_of(
    observation: Observation,
    overlay: Overlay,
    *,
    alpha: float = 1.0,
    beta: float = 0.0,
    weight: Weight = "messages",
    max_degree: int | None = None,
    clients: bool = False,
) -> Problem:
    """The search problem of an observation with clients where the overlay has them."""
    network, classes = observation.network, observation.classes
    homes = class_homes(observation, overlay)
    demand = (classes.demand if weight == "messages" else classes.bytes).astype(np.float64)
    ends = classes.members + network.brokers if clients else homes
    start, terminal, merged, example = merge_classes(classes.start, ends, demand)
    nodes = network.brokers + (observation.clients if clients else 0)
    at_start, order = group(terminal, nodes)
    at = np.repeat(np.arange(len(merged)), np.diff(start))[order]
    cap = network.max_degree if max_degree is None else np.minimum(network.max_degree, max_degree)
    toll = np.concatenate([beta * network.broker_cost, np.zeros(nodes - network.brokers)])
    return Problem(
        network.brokers, start, terminal, merged, example, at_start, at, *_prices(network, alpha), toll, np.array(cap)
    )


def merge_classes(start: Ints, terminals: Ints, demand: Floats) -> tuple[Ints, Ints, Floats, Ints]:
    """(start, terminals, weight, example): classes over the same terminals as one; none over fewer than two."""
    start, terminals = sort_groups(start, np.ascontiguousarray(terminals))
    wide = np.flatnonzero((np.diff(start) > 1) & (demand > 0))
    wide = wide[np.argsort(-demand[wide], kind="stable")]
    start, terminals = take_groups(start, terminals, wide)
    chosen, first, clash = distinct_groups(hash_groups(start, terminals), start, terminals)
    if clash >= 0:  # two sets with one hash: leave all classes as they are
        return start, terminals, demand[wide], wide
    weight = np.bincount(chosen, weights=demand[wide], minlength=len(first)).astype(np.float64)
    start, terminals = take_groups(start, terminals, first)
    return start, terminals, weight, wide[first]


def _prices(network: Network, alpha: float) -> tuple[int, Floats, Ints, Ints, Floats, Floats]:
    n, links, cost = network.brokers, network.links, alpha * network.link_cost
    none, nothing = np.empty(0, dtype=np.int64), np.empty(0)
    if len(links) == 0:
        return UNIFORM, np.array([alpha]), none, none, nothing, np.full(n, alpha)
    cheapest = np.full(n, np.inf)
    np.minimum.at(cheapest, links[:, 0], cost)
    np.minimum.at(cheapest, links[:, 1], cost)
    if len(links) == n * (n - 1) // 2:
        return FULL, cost, none, none, nothing, cheapest
    both = np.concatenate([links, links[:, ::-1]])
    order = np.lexsort((both[:, 1], both[:, 0]))
    start = np.searchsorted(both[order, 0], np.arange(n + 1))
    other = np.ascontiguousarray(both[order, 1])
    return SPARSE, nothing, start, other, np.concatenate([cost, cost])[order], cheapest


def nodes_tree(overlay: Overlay, brokers: int, clients: int) -> Pairs:
    """The overlay's links between brokers, then one from each client's node to its home."""
    homes = overlay.homes(clients)
    if (homes < 0).any():
        client = int(np.flatnonzero(homes < 0)[0])
        raise BadOverlay(f"tree: client {client} has no home, so its link cannot be moved. Ingest its sessions.")
    leaves = np.column_stack([homes, brokers + np.arange(clients)])
    return np.ascontiguousarray(np.concatenate([overlay.tree, leaves]))
