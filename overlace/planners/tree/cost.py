"""What a broker tree costs: OCBR07 (1).

Each traffic class pays, per message, alpha times the cost of the links and beta times the cost of the
brokers in the minimal subtree that joins its clients. A class with one client costs nothing (R8). The
link between a client and its broker is the same in every tree and not counted.
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np

from overlace.arrays.jit import Floats, Ints
from overlace.arrays.trees import Rooted, subtree_costs
from overlace.errors import BadOverlay, BadParameter, NotObserved
from overlace.model import Observation, Overlay, name_of

Weight = Literal["messages", "bytes"]


def check_weights(alpha: float, beta: float) -> None:
    """Refuse weights of (1) that are no numbers of 0 or more."""
    for name, value in (("alpha", alpha), ("beta", beta)):
        if not (math.isfinite(value) and value >= 0):
            raise BadParameter(f"{name} is {value}; expected a number of 0 or more")


def cost(
    observation: Observation,
    overlay: Overlay,
    *,
    alpha: float = 1.0,
    beta: float = 0.0,
    weight: Weight = "messages",
) -> float:
    """OCBR07 (1): demand x (alpha x links + beta x brokers), summed over the classes."""
    classes = observation.classes
    demand = classes.demand if weight == "messages" else classes.bytes
    return float((demand * class_costs(observation, overlay, alpha=alpha, beta=beta)).sum())


def class_costs(observation: Observation, overlay: Overlay, *, alpha: float = 1.0, beta: float = 0.0) -> Floats:
    """What one message of each class costs. While there is no tree, no message crosses one: 0."""
    classes, network = observation.classes, observation.network
    if network.brokers == 0:
        raise NotObserved("tree: no brokers were observed. Ingest the tables brokers and links.")
    if len(overlay.tree) == 0 and network.brokers > 1:
        return np.zeros(len(classes))
    homes = class_homes(observation, overlay)
    tree, rise, toll = priced(observation, overlay, alpha=alpha, beta=beta)
    costs = subtree_costs(tree, rise, toll, classes.start, homes)
    costs[np.diff(classes.start) < 2] = 0.0  # R8
    return costs


def priced(observation: Observation, overlay: Overlay, *, alpha: float, beta: float) -> tuple[Rooted, Floats, Floats]:
    """(tree, rise, toll): the tree, the price of each broker's link up and of each broker."""
    network = observation.network
    tree = overlay.rooted(network.brokers)
    rise = np.zeros(network.brokers)
    below = tree.link >= 0
    rise[below] = alpha * network.costs_of(overlay.tree)[tree.link[below]]
    return tree, rise, beta * network.broker_cost


def class_homes(observation: Observation, overlay: Overlay) -> Ints:
    """The broker of each member of each class; refused, naming the client, where one has none."""
    brokers, members = observation.network.brokers, observation.classes.members
    homes = overlay.homes(observation.clients)[members]
    homeless = np.flatnonzero((homes < 0) | (homes >= brokers))
    if len(homeless):
        raise BadOverlay(
            f"tree: a traffic class names {name_of('client', int(members[homeless[0]]))}, whose broker is none of the "
            f"{brokers} brokers. Ingest its sessions, or leave its messages out."
        )
    return homes
