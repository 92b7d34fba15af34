"""Every placement on every tree, and what the best within a budget costs; for a handful of brokers and clients."""

import itertools

import networkx as nx
import numpy as np

from overlace.model import Overlay


def every_tree(brokers):
    """All labelled trees, by their Prüfer sequences."""
    if brokers < 3:
        yield [(0, 1)] if brokers == 2 else []
        return
    for code in itertools.product(range(brokers), repeat=brokers - 2):
        yield [tuple(sorted(edge)) for edge in nx.from_prufer_sequence(list(code)).edges]


def best_cost(planner, observation, budget):
    """The least cost of any placement and tree that changes at most so much."""
    before = observation.overlay
    homes = before.homes(observation.clients)
    had = {tuple(link) for link in before.tree.tolist()}
    least = np.inf
    for links in every_tree(observation.network.brokers):
        swapped = len(set(links) - had)
        if swapped > budget:
            continue
        for chosen in itertools.product(range(observation.network.brokers), repeat=observation.clients):
            if swapped + int((np.array(chosen) != homes).sum()) > budget:
                continue
            overlay = Overlay(placement=list(enumerate(chosen)), tree=links)
            least = min(least, planner.cost(observation, overlay))
    return least
