"""What a placement costs: every message times the way between two homes, plus the way to them.

CC12 (1) lowers the mean number of hops of a message; the sum over all messages is that mean times a
constant. The two links between a client and its broker are there in every placement and not counted.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from overlace.arrays.jit import Floats, Ints
from overlace.arrays.trees import Rooted, lengths_between
from overlace.errors import BadOverlay, NotObserved
from overlace.model import Network, Observation, Overlay, name_of

Weight = Literal["messages", "bytes"]
Distance = Literal["hops", "cost", "latency"]


def cost(
    observation: Observation,
    overlay: Overlay,
    *,
    weight: Weight = "messages",
    distance: Distance = "hops",
) -> float:
    """Messages (or bytes) x distance on the tree between homes, plus access costs where known."""
    flows, network = observation.flows, observation.network
    if network.brokers == 0:
        raise NotObserved("placement: no brokers were observed. Ingest the tables brokers and links.")
    if network.brokers > 1 and len(overlay.tree) == 0:
        raise NotObserved("placement: there is no tree to measure distances on. Ingest links that are wired.")
    homes = overlay.homes(observation.clients)
    _check_homes(homes, observation)
    tree = overlay.rooted(network.brokers)
    length = link_lengths(tree, network, overlay, distance)
    apart = lengths_between(tree, length, homes[flows.sender], homes[flows.receiver])
    amount = flows.messages if weight == "messages" else flows.bytes
    return float((amount * apart).sum()) + access(observation, homes, weight, distance)


def link_lengths(tree: Rooted, network: Network, overlay: Overlay, distance: Distance) -> Floats:
    """The length of each broker's link towards the root: 1, its cost, or its latency."""
    length = np.zeros(network.brokers)
    below = tree.link >= 0
    if distance == "hops":
        per_link = np.ones(len(overlay.tree))
    elif distance == "cost":
        per_link = network.costs_of(overlay.tree)
    else:
        network.check_measured(overlay.tree)
        per_link = network.latencies_of(overlay.tree).astype(np.float64)
    length[below] = per_link[tree.link[below]]
    return length


def access(observation: Observation, homes: Ints, weight: Weight, distance: Distance) -> float:
    """What clients far from their home pay for all they send and receive; 0 where it is not known."""
    network = observation.network
    table = network.access_latency_us if distance == "latency" else network.access_cost
    if table.size == 0 or len(network.client_region) == 0:
        return 0.0
    amount = amounts_of(observation, weight)
    known = (network.client_region >= 0) & (homes[: len(network.client_region)] >= 0)
    client = np.flatnonzero(known)
    return float((amount[client] * table[network.client_region[client], homes[client]]).sum())


def amounts_of(observation: Observation, weight: Weight) -> Floats:
    """All that each client sends and receives."""
    flows = observation.flows
    amount = (observation.sent if weight == "messages" else observation.sent_bytes).astype(np.float64)
    np.add.at(amount, flows.receiver, flows.messages if weight == "messages" else flows.bytes)
    return amount


def _check_homes(homes: Ints, observation: Observation) -> None:
    talking = np.zeros(len(homes), dtype=np.bool_)
    talking[observation.flows.sender] = True
    talking[observation.flows.receiver] = True
    lost = np.flatnonzero(talking & (homes < 0))
    if len(lost):
        raise BadOverlay(
            f"placement: {len(lost)} clients with traffic have no broker (first: {name_of('client', int(lost[0]))}). "
            "Ingest their sessions, or leave their flows out."
        )
    if (homes >= observation.network.brokers).any():
        client = int(np.flatnonzero(homes >= observation.network.brokers)[0])
        raise BadOverlay(
            f"placement: {name_of('client', client)} is at {name_of('broker', int(homes[client]))}, "
            f"but there are {observation.network.brokers} brokers"
        )
