"""Brokers in the unit square: the recipe behind the tree facet's tests, benchmarks and README's picture.

Brokers are uniform points in the unit square; every two could be linked, at a cost of 1 + the distance
in hundredths. The tree to start from is a random recursive tree: broker k is linked to a uniform
choice among those before it, as happens when sites join one after the other. Clients sit at uniform
brokers. A traffic class has 2 to 6 clients: with `locality` l each further client is, with
probability l, one of the clients nearest to the first, else anybody; its lowest client publishes.
Demands fall off as 1 / rank ** zipf, from `top` messages down to at least one; messages of a class are
of one size, 100 bytes to 10 kB, log-uniform.

With `metric=False` costs have nothing to do with distance: 1 to 101, uniform, for each pair by itself. With `near` only
so many nearest brokers of each could be linked to it, and a broker joins a uniform choice among the nearest of those
before it: networks of many thousand brokers, whose pairs would be too many to list.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.spatial import cKDTree

from overlace.arrays.jit import Ints, Pairs
from overlace.model import Classes, Flows, Network, Observation, Overlay


class Talk(NamedTuple):
    """Who talks to whom, and how much."""

    locality: float = 0.9  # the chance that a further client of a class is near the first
    top: int = 10_000  # messages of the first class
    zipf: float = 1.0  # how fast demands fall off with rank


MOSTLY_LOCAL = Talk()


def square(
    brokers: int = 24,
    clients: int = 96,
    classes: int = 200,
    *,
    talk: Talk = MOSTLY_LOCAL,
    metric: bool = True,
    near: int | None = None,
    seed: int = 0,
) -> Observation:
    """An observation after the recipe above: the same for the same arguments."""
    rng = np.random.default_rng(seed)
    points = rng.random((brokers, 2))
    links = _pairs(brokers) if near is None else _near_pairs(points, near)
    later = np.arange(1, brokers)
    earlier = (rng.random(brokers - 1) * later).astype(np.int64)
    homes = rng.integers(0, brokers, clients)
    if near is not None:
        earlier = _joined_near(points, near, rng)
    tree = np.column_stack([earlier, later])
    links = links if near is None else np.unique(np.concatenate([links, tree]), axis=0)
    apart = np.hypot(*(points[links[:, 0]] - points[links[:, 1]]).T)
    overlay = Overlay(placement=np.column_stack([np.arange(clients), homes]), tree=tree)
    network = Network(
        region=np.arange(brokers),
        links=links,
        link_cost=1 + np.floor(100 * (apart if metric else np.random.default_rng([seed, 1]).random(len(links)))),
    )
    nearest = _Nearest(points, homes)
    members = [_class_members(rng, nearest, clients, talk.locality) for _ in range(classes)]
    demand = np.maximum(1, (talk.top / np.arange(1, classes + 1) ** talk.zipf).astype(np.int64))
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


def _pairs(brokers: int) -> Pairs:
    left, right = np.triu_indices(brokers, 1)
    return np.column_stack([left, right])


def _near_pairs(points: np.ndarray, near: int) -> Pairs:
    """Each broker with its nearest."""
    _, found = cKDTree(points).query(points, min(near + 1, len(points)))
    rows = np.column_stack([np.repeat(np.arange(len(points)), found.shape[1] - 1), found[:, 1:].ravel()])
    return np.unique(np.sort(rows[rows[:, 0] != rows[:, 1]], axis=1), axis=0)


def _joined_near(points: np.ndarray, near: int, rng: np.random.Generator) -> Ints:
    """For each broker but the first a uniform choice among the nearest of those before it."""
    chosen = np.empty(len(points) - 1, dtype=np.int64)
    most = 4 * near
    _, found = cKDTree(points).query(points, min(most + 1, len(points)))
    for k in range(1, len(points)):
        before = found[k][found[k] < k][:near]
        if len(before) == 0:
            before = np.argsort(np.hypot(*(points[:k] - points[k]).T), kind="stable")[:near]
        chosen[k - 1] = rng.choice(before)
    return chosen


class _Nearest:
    """The clients nearest to a client, by their brokers; at one broker by id."""

    def __init__(self, points: np.ndarray, homes: Ints) -> None:
        self.points, self.homes, self.tree = points, homes, cKDTree(points)
        order = np.argsort(homes, kind="stable")
        self.at = np.split(order, np.searchsorted(homes[order], np.arange(1, len(points))))

    def __call__(self, client: int, many: int) -> Ints:
        brokers = 16
        while True:
            _, found = self.tree.query(self.points[self.homes[client]], min(brokers, len(self.points)))
            near = np.concatenate([self.at[b] for b in np.atleast_1d(found)])
            if len(near) >= min(many, len(self.homes)):
                return near[:many]
            brokers *= 4


def _class_members(rng: np.random.Generator, nearest: _Nearest, clients: int, locality: float) -> list[int]:
    """2 to 6 clients, or as many as there are."""
    size = min(int(rng.integers(2, 7)), clients)
    first = int(rng.integers(clients))
    near = nearest(first, max(8, size))
    chosen = {first}
    while len(chosen) < size:
        pool = near if rng.random() < locality else np.arange(clients)
        chosen.add(int(rng.choice(pool)))
    return sorted(chosen)
