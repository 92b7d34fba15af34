"""What a message pays for: the same search for cost, messages, hops and latency.

`cost` and `messages` are paid once for each link of the subtree that joins a message's clients, `hops` and
`latency` on the way from the sender to each receiver.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np

from overlace.arrays.jit import Ints
from overlace.model import Classes, Flows, Network, Observation

Objective = Literal["cost", "messages", "hops", "latency"]


def apply_objective(observation: Observation, objective: Objective) -> Observation:
    """The observation with links that cost what the objective counts, and classes that pay for it.

    Links whose latency was not measured have no price in latency: see problem.among_measured.
    """
    observation = drop_homeless(observation)
    network = observation.network
    if objective == "cost":
        return observation
    if objective == "latency":
        return replace(
            observation,
            network=_priced(network, np.maximum(network.latency_us, 0), network.access_latency_us),
            classes=pairwise(observation),
            flows=(flows := _to_others(observation.flows)),
            sent=_per_delivery(flows, flows.messages, observation.clients),
            sent_bytes=_per_delivery(flows, flows.bytes, observation.clients),
        )
    flat = _priced(network, np.ones(len(network.links)), np.empty((0, 0)))
    return replace(
        observation, network=flat, classes=pairwise(observation) if objective == "hops" else observation.classes
    )


def drop_homeless(observation: Observation) -> Observation:
    """The observation without clients that have no home.

    A class does not say who sends: what such a client sent still joins its receivers here, and is lost in replay.
    """
    homes = observation.overlay.homes(observation.clients)
    classes, flows = observation.classes, observation.flows
    there = homes[classes.members] >= 0
    between = (homes[flows.sender] >= 0) & (homes[flows.receiver] >= 0)
    if there.all() and between.all():
        return observation
    start = np.append(0, np.cumsum(there))[classes.start]
    left = Classes(start, classes.members[there], classes.demand, classes.bytes)
    rows = (flows.sender, flows.receiver, flows.messages, flows.bytes)
    return replace(observation, classes=left, flows=Flows(*(each[between] for each in rows)))


def _to_others(flows: Flows) -> Flows:
    """The flows between two clients."""
    apart = flows.sender != flows.receiver
    return Flows(*(each[apart] for each in (flows.sender, flows.receiver, flows.messages, flows.bytes)))


def _per_delivery(flows: Flows, amount: Ints, clients: int) -> Ints:
    """What each client sends, a message counted once for each of its receivers: each waits for the sender's way."""
    return np.bincount(flows.sender, weights=amount, minlength=clients).astype(np.int64)


def _priced(network: Network, link_cost: np.ndarray, access: np.ndarray) -> Network:
    return replace(network, link_cost=link_cost.astype(np.float64), access_cost=access.astype(np.float64))


def pairwise(observation: Observation) -> Classes:
    """A class of two for every two clients that talk, in either direction."""
    flows = observation.flows
    low, high = np.minimum(flows.sender, flows.receiver), np.maximum(flows.sender, flows.receiver)
    apart = low != high
    pairs, place = np.unique(low[apart] * observation.clients + high[apart], return_inverse=True)
    sums = [
        np.bincount(place, weights=amount[apart], minlength=len(pairs)).astype(np.int64)
        for amount in (flows.messages, flows.bytes)
    ]
    members = np.column_stack(np.divmod(pairs, max(observation.clients, 1))).ravel()
    return Classes(np.arange(0, len(members) + 1, 2), members, *sums)
