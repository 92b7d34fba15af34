"""What hypothesis draws for placements: regions on a backbone, flows, classes, some access costs."""

from dataclasses import replace

import numpy as np
from hypothesis import strategies as st

from overlace.arrays.communities import communities_at
from overlace.arrays.jit import Ints
from overlace.model import Classes, Flows, Observation, Overlay
from overlace.planners.placement.ties import Ties
from overlace.workloads.backbone import layout


@st.composite
def placements(draw, clients=7, most_regions=3, access=False):
    sizes = np.array([draw(st.integers(1, 2)) for _ in range(draw(st.integers(1, most_regions)))])
    placed = layout(sizes)
    may = np.flatnonzero(placed.region >= 0).tolist()
    n = draw(st.integers(2, clients))
    homes = [draw(st.sampled_from(may)) for _ in range(n)]
    sender = [draw(st.integers(0, n - 1)) for _ in range(draw(st.integers(1, 10)))]
    groups, demand, flows = [], [], {}
    for s in sender:
        heard = draw(st.sets(st.integers(0, n - 1).filter(lambda c, s=s: c != s), min_size=1, max_size=3))
        groups.append([s, *heard])
        demand.append(draw(st.integers(1, 9)))
        for r in heard:
            flows[s, r] = flows.get((s, r), 0) + demand[-1]
    network = placed.network(latency_us=7)
    if access:
        table = np.array(draw(st.lists(st.integers(0, 3), min_size=len(placed.region), max_size=len(placed.region))))
        network = replace(network, client_region=np.zeros(n, np.int64), access_cost=table.reshape(1, -1))
    pairs = np.array(list(flows), dtype=np.int64)
    return Observation(
        overlay=Overlay(placement=list(enumerate(homes)), tree=placed.tree),
        network=network,
        flows=Flows(pairs[:, 0], pairs[:, 1], list(flows.values()), [100 * v for v in flows.values()]),
        classes=Classes.of(groups, demand),
        clients=n,
        sent=np.bincount(sender, weights=demand, minlength=n).astype(np.int64),
    )


def leiden_communities(ties: Ties, seed: int, resolution: float = 1.0) -> Ints:
    """The community of each client by NetworKit's Leiden, numbered by their lowest client."""
    clients = len(ties.start) - 1
    left = np.repeat(np.arange(clients), np.diff(ties.start))
    once = left < ties.other
    return communities_at(left[once], ties.other[once], ties.weight[once], clients, seed, resolution)
