"""All labelled trees, and the slow way to find the best of them."""

from itertools import product

import networkx as nx
import numpy as np

from overlace.model import Overlay
from overlace.planners.tree.cost import cost


def labelled_trees(n):
    """Every tree over n nodes, by its Pruefer sequence."""
    if n <= 2:
        yield [(0, 1)][: n - 1]
        return
    for sequence in product(range(n), repeat=n - 2):
        yield sorted(tuple(sorted(link)) for link in nx.from_prufer_sequence(list(sequence)).edges)


def allowed(links, observation, cap=None, kept=()):
    """Whether a tree has only candidate links, all that must stay, and nobody above the cap."""
    candidates = {tuple(row) for row in observation.network.links.tolist()}
    degree = np.bincount(np.array(links, dtype=np.int64).reshape(-1), minlength=observation.network.brokers)
    most = observation.network.max_degree if cap is None else np.minimum(observation.network.max_degree, cap)
    return set(links) <= candidates and set(kept) <= set(links) and bool((degree <= most).all())


def best_of_all(observation, cap=None, kept=(), **weights):
    """The least cost of any tree that is allowed; None if there is none."""
    found = [
        cost(observation, Overlay(placement=observation.overlay.placement, tree=links), **weights)
        for links in labelled_trees(observation.network.brokers)
        if allowed(links, observation, cap, kept)
    ]
    return min(found, default=None)
