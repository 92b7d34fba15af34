"""Regions in the unit square: where both clients and links may change, with prices for distance.

The clients and their talk are those of CC12's client networks. Regions are random points in the unit square, brokers
lie normally (0.03) around theirs. Any two brokers could be linked, at 1 + the distance in hundredths; a broker costs
1 to 5. To start from, each region is a star around its first broker, and those heads form a random path.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from overlace.errors import Unknown
from overlace.model import Network, Observation, Overlay
from overlace.workloads.composition import Composition
from overlace.workloads.random_clients import RandomClients
from overlace.workloads.services import Services
from overlace.workloads.small_world import SmallWorld

SPREAD = 0.03
TALK: dict[str, type[Services]] = {"composition": Composition, "random": RandomClients, "small-world": SmallWorld}


def regional(
    talk: str = "small-world",
    brokers: int = 45,
    clients: int = 200,
    regions: int = 9,
    messages: int = 20_000,
    seed: int = 0,
) -> Observation:
    """An observation after the recipe above; `talk` is composition, small-world or random."""
    if talk not in TALK:
        raise Unknown("workload", talk, TALK)
    least, most = brokers // regions, -(-brokers // regions)
    made = TALK[talk](messages, clients, regions=regions, brokers=brokers, least=least, most=most, seed=seed)
    rng = np.random.default_rng([seed, 77])
    region = made.layout.region[made.layout.region >= 0]
    points = rng.random((regions, 2))[region] + rng.normal(0, SPREAD, (brokers, 2))
    left, right = np.triu_indices(brokers, 1)
    apart = np.hypot(*(points[left] - points[right]).T)
    network = Network(
        region=region,
        broker_cost=rng.integers(1, 6, brokers),
        links=np.column_stack([left, right]),
        link_cost=1 + np.floor(100 * apart),
    )
    head = np.searchsorted(region, np.arange(regions))
    leaf = np.setdiff1d(np.arange(brokers), head)
    path = head[rng.permutation(regions)]
    tree = np.concatenate([np.column_stack([head[region[leaf]], leaf]), np.column_stack([path[:-1], path[1:]])])
    overlay = Overlay(placement=np.column_stack([np.arange(clients), made.homes]), tree=tree)
    return replace(made.observation(), overlay=overlay, network=network)
