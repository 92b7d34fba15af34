"""Brokers in the unit square: the recipe behind the tree facet's tests, benchmarks and README's picture.

Brokers are uniform points in the unit square; every two could be linked, at a cost of 1 + the distance
in hundredths. The tree to start from is a random recursive tree: broker k is linked to a uniform
choice among those before it, as happens when sites join one after the other. Clients sit at uniform
brokers. A traffic class has 2 to 6 clients: with `locality` l each further client is, with
probability l, one of the clients nearest to the first, else anybody; its lowest client publishes.
Demands fall off as 1 / rank ** zipf, from `top` messages down to at least one; messages of a class are
of one size, 100 bytes to 10 kB, log-uniform.
"""

from __future__ import annotations

import numpy as np

from overlace.arrays.jit import Ints
from overlace.model import Classes, Flows, Network, Observation, Overlay


def square(
    brokers: int = 24,
    clients: int = 96,
    classes: int = 200,
    *,
    locality: float = 0.9,
    zipf: float = 1.0,
    top: int = 10_000,
    seed: int = 0,
) -> Observation:
    """An observation after the recipe above: the same for the same arguments."""
    rng = np.random.default_rng(seed)
    points = rng.random((brokers, 2))
    left, right = np.triu_indices(brokers, 1)
    apart = np.hypot(*(points[left] - points[right]).T)
    later = np.arange(1, brokers)
    earlier = (rng.random(brokers - 1) * later).astype(np.int64)
    homes = rng.integers(0, brokers, clients)
    overlay = Overlay(placement=np.column_stack([np.arange(clients), homes]), tree=np.column_stack([earlier, later]))
    network = Network(
        region=np.arange(brokers),
        links=np.column_stack([left, right]),
        link_cost=1 + np.floor(100 * apart),
    )
    members = [_class_members(rng, points[homes], locality) for _ in range(classes)]
    demand = np.maximum(1, (top / np.arange(1, classes + 1) ** zipf).astype(np.int64))
    size = (100 * 100 ** rng.random(classes)).astype(np.int64)
    start = np.cumsum([0, *map(len, members)])
    classed = Classes(start, np.concatenate([*members, []]), demand, demand * size)
    return Observation(
        overlay=overlay, network=network, classes=classed, flows=_flows(members, demand, size), clients=clients
    )


def _flows(members: list[list[int]], demand: Ints, size: Ints) -> Flows:
    """The first client of each class sends to the others."""
    sums: dict[tuple[int, int], list[int]] = {}
    for group, messages, each in zip(members, demand.tolist(), size.tolist(), strict=True):
        for receiver in group[1:]:
            total = sums.setdefault((group[0], receiver), [0, 0])
            total[0] += messages
            total[1] += messages * each
    pairs = sorted(sums)
    amounts = np.array([sums[pair] for pair in pairs], dtype=np.int64).reshape(-1, 2)
    ends = np.array(pairs, dtype=np.int64).reshape(-1, 2)
    return Flows(ends[:, 0], ends[:, 1], amounts[:, 0], amounts[:, 1])


def _class_members(rng: np.random.Generator, at: np.ndarray, locality: float) -> list[int]:
    """2 to 6 clients, or as many as there are."""
    size = min(int(rng.integers(2, 7)), len(at))
    first = int(rng.integers(len(at)))
    near = np.argsort(np.hypot(*(at - at[first]).T), kind="stable")[: max(8, size)]
    chosen = {first}
    while len(chosen) < size:
        pool = near if rng.random() < locality else np.arange(len(at))
        chosen.add(int(rng.choice(pool)))
    return sorted(chosen)
