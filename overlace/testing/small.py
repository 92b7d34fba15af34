"""Small observations by name, for tests: one line each, the awkward ones among them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from overlace.arrays.masks import submasks
from overlace.errors import Unknown
from overlace.model import FACETS, Classes, Facet, Flows, Network, Observation, Offers, Overlay
from overlace.workloads.square import square


def small_observations(facet: Facet | None = None) -> Mapping[str, Observation]:
    """Small cases by name, the awkward ones among them; those that a facet can use, or all."""
    if facet is not None and facet not in FACETS:
        raise Unknown("facet", facet, FACETS)
    cases: dict[str, tuple[tuple[Facet, ...], Observation]] = {
        "three in a row": (("placement", "tree"), three_in_a_row()),
        "one broker": (("placement", "tree"), one_broker()),
        "square": (("placement", "tree"), square(9, 20, 30, seed=1)),
        "no tree yet": (("tree",), _without_tree(square(6, 12, 15, seed=2))),
        "equal costs": (("placement", "tree"), equal_costs()),
        "four clients": (
            ("mesh",),
            Observation(interests=[[0, 0], [0, 1], [1, 0], [1, 2], [2, 1], [2, 2], [3, 3]]),
        ),
        "four clients, linked": (("mesh",), linked_clients()),
        "three publishers": (("channels",), three_publishers()),
        "three publishers, cut": (("channels",), three_publishers(cut=True)),
    }
    return {name: each for name, (uses, each) in cases.items() if facet is None or facet in uses}


def three_in_a_row() -> Observation:
    """Brokers 0-1-2 in a row, a client at each end, all they say crosses both links."""
    return Observation(
        overlay=Overlay(placement=[[0, 0], [1, 2]], tree=[[0, 1], [1, 2]]),
        network=Network(links=[[0, 1], [1, 2], [0, 2]], link_cost=[5, 5, 1]),
        flows=Flows([0, 1], [1, 0], [10, 4], [100, 40]),
        classes=Classes.of([[0, 1]], [14]),
    )


def one_broker() -> Observation:
    """Everybody at the only broker: nothing to gain."""
    return Observation(
        overlay=Overlay(placement=[[0, 0], [1, 0]]),
        network=Network(region=[0]),
        flows=Flows([0], [1], [3]),
        classes=Classes.of([[0, 1]], [3]),
    )


def equal_costs() -> Observation:
    """A path of five brokers where every link costs the same: all ties, one class of a single client."""
    left, right = np.triu_indices(5, 1)
    return Observation(
        overlay=Overlay(placement=[[c, c % 5] for c in range(10)], tree=[[0, 1], [1, 2], [2, 3], [3, 4]]),
        network=Network(links=np.column_stack([left, right])),
        flows=Flows([0, 4, 9, 3], [4, 0, 5, 3], [7, 2, 5, 9]),
        classes=Classes.of([[0, 4], [9, 5, 2], [3]], [9, 5, 100]),
    )


def linked_clients() -> Observation:
    """Four clients with two topics and a mesh that leaves one topic in two parts."""
    interests = [[0, 0], [1, 0], [2, 0], [3, 0], [0, 1], [3, 1]]
    return Observation(interests=interests, overlay=Overlay(mesh=[[0, 1], [1, 2], [2, 3]]))


def three_publishers(*, cut: bool = False) -> Observation:
    """Publishers of AB, AC and BD with 2, 1 and 3 connections (PART10, figure 4.4)."""
    offers = Offers([0, 1, 2], [0b0011, 0b0101, 0b1010], [2, 1, 3])
    if not cut:
        return Observation(offers=offers)
    held = np.unique(np.concatenate([submasks(mask) for mask in (0b0011, 0b0101, 0b1010)]))
    channels = [[combination, 1 if combination & 0b1000 else 0] for combination in held.tolist()]
    return Observation(offers=offers, overlay=Overlay(channels=channels))


def _without_tree(observation: Observation) -> Observation:
    overlay = Overlay(placement=observation.overlay.placement)
    return Observation(
        overlay=overlay, network=observation.network, classes=observation.classes, clients=observation.clients
    )
