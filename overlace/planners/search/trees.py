"""Trees that follow from the network or the traffic alone: where a search for links may start, what limits leave."""

from __future__ import annotations

import numpy as np

from overlace.arrays.components import spanning_forest
from overlace.arrays.jit import Floats, Ints, Pairs, kernel
from overlace.arrays.wiring import links_of
from overlace.planners.search.links import Rules, relieve, stand
from overlace.planners.search.spans import Spans
from overlace.planners.search.wires import SPARSE, price_of, prices_of


def other_trees(p: Spans, stay: Pairs) -> list[Pairs]:
    """The minimum spanning tree and the best star with the links that must stay, where the limits let them be."""
    left, right = np.triu_indices(p.wires.brokers, 1)
    pairs = np.column_stack([left, right])
    price = prices_of(p.wires, pairs)
    order = np.argsort(price, kind="stable")
    trees = [pairs[spanning_forest(p.wires.brokers, pairs, order[np.isfinite(price[order])])]]
    if p.wires.kind != SPARSE:
        trees.append(pairs[(pairs == int(np.argmin(star_costs(p)))).any(axis=1)])
    found = (within_limits(p, stay, tree) for tree in trees)
    return [links for links, stuck in found if stuck < 0]


def within_limits(p: Spans, stay: Pairs, wanted: Pairs) -> tuple[Pairs, int]:
    """(the wanted tree with the links that must stay and none too many at a broker, a broker that has yet, or -1)."""
    if len(wanted) == 0:
        return wanted, -1
    n, price = p.wires.brokers, prices_of(p.wires, wanted)
    both = np.concatenate([stay, wanted[np.lexsort((wanted[:, 1], wanted[:, 0], price))]])
    links = both[spanning_forest(n, both, np.arange(len(both)))]
    none: Ints = np.full(n, -1, dtype=np.int64)
    return relieve_brokers(p, links, Rules(np.arange(len(links)) < len(stay), p.cap, none, n, 0.0))


def relieve_brokers(p: Spans, links: Pairs, rules: Rules) -> tuple[Pairs, int]:
    """(the tree with links taken from brokers that have too many, one that has yet, or -1)."""
    standing = stand(p, np.ascontiguousarray(links), rules)
    stuck = relieve(p, standing, rules)
    return links_of(standing.wiring), int(stuck)


@kernel
def star_costs(p: Spans) -> Floats:
    """What (1) is with each broker as the hub."""
    costs = np.zeros(p.wires.brokers)
    for hub in range(p.wires.brokers):
        for k in range(len(p.weight)):
            each = p.toll[hub]
            for i in range(p.start[k], p.start[k + 1]):
                v = p.terminal[i]
                if v != hub:
                    each += price_of(p.wires, hub, v) + p.toll[v]
            costs[hub] += p.weight[k] * each
    return costs
