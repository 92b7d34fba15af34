"""Small networks where everything is drawn: what trees are compared on with the optimum (OCBR07).

Every two brokers could be linked at a cost of 1 to 50, uniform and so not metric; a broker costs 0 to 30. The tree
to start from is uniform among all labelled trees (by its Pruefer sequence). Three clients a broker sit at uniform
brokers; four classes a broker have 2 to 6 of them, anybody, with 1 to 100 messages of 1 kB.
"""

from __future__ import annotations

import heapq

import numpy as np

from overlace.arrays.jit import Pairs
from overlace.model import Classes, Network, Observation, Overlay


def lottery(brokers: int, *, seed: int = 0) -> Observation:
    """An observation after the recipe above: the same for the same arguments."""
    rng = np.random.default_rng([seed, brokers])
    left, right = np.triu_indices(brokers, 1)
    clients = 3 * brokers
    network = Network(
        broker_cost=rng.integers(0, 31, brokers),
        links=np.column_stack([left, right]),
        link_cost=rng.integers(1, 51, len(left)),
    )
    homes = rng.integers(0, brokers, clients)
    tree = uniform_tree(brokers, rng)
    sizes = rng.integers(2, 7, 4 * brokers)
    members = [rng.choice(clients, min(int(size), clients), replace=False) for size in sizes]
    demand = rng.integers(1, 101, len(members))
    start = np.cumsum([0, *map(len, members)])
    return Observation(
        overlay=Overlay(placement=np.column_stack([np.arange(clients), homes]), tree=tree),
        network=network,
        classes=Classes(start, np.concatenate(members), demand, 1000 * demand),
        clients=clients,
    )


def uniform_tree(n: int, rng: np.random.Generator) -> Pairs:
    """A tree drawn from all labelled trees with equal chances."""
    if n < 3:
        return np.array([[0, 1]][: n - 1], dtype=np.int64).reshape(-1, 2)
    sequence = rng.integers(0, n, n - 2).tolist()
    left = np.bincount(sequence, minlength=n)
    leaves = [v for v in range(n) if left[v] == 0]
    heapq.heapify(leaves)
    links = []
    for v in sequence:
        links.append((heapq.heappop(leaves), v))
        left[v] -= 1
        if left[v] == 0:
            heapq.heappush(leaves, v)
    links.append((heapq.heappop(leaves), heapq.heappop(leaves)))
    return np.sort(np.array(links, dtype=np.int64), axis=1)
