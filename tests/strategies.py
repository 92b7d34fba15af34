"""What hypothesis draws: relations, trees, overlays, observations."""

import numpy as np
from hypothesis import strategies as st

from overlace.model import Classes, Flows, Network, Observation, Overlay


def rows(most: int = 12, size: int = 20, least: int = 0):
    return st.lists(st.tuples(st.integers(least, most), st.integers(least, most)), max_size=size)


def links(nodes: int, size: int = 20):
    pair = st.tuples(st.integers(0, nodes - 1), st.integers(0, nodes - 1)).filter(lambda p: p[0] != p[1])
    return st.lists(pair, max_size=size) if nodes > 1 else st.just([])


@st.composite
def trees(draw, least: int = 1, most: int = 24):
    """A tree with its nodes shuffled: (nodes, links)."""
    n = draw(st.integers(least, most))
    name = draw(st.permutations(range(n)))
    return n, np.array([(name[draw(st.integers(0, k - 1))], name[k]) for k in range(1, n)], np.int64).reshape(-1, 2)


@st.composite
def overlays(draw, clients: int = 8, brokers: int = 5):
    placed = draw(st.dictionaries(st.integers(0, clients - 1), st.integers(0, brokers - 1)))
    channels = draw(st.dictionaries(st.integers(1, 31), st.integers(0, 6)))
    _, tree = draw(trees(brokers, brokers))
    return Overlay(
        placement=sorted(placed.items()),
        tree=tree if draw(st.booleans()) else [],
        channels=sorted(channels.items()),
        mesh=draw(links(clients)),
    )


@st.composite
def observations(draw, least: int = 1, most: int = 7):
    """Brokers that could all be linked, a tree, clients with homes, flows and classes."""
    brokers, tree = draw(trees(least, most))
    clients = draw(st.integers(1, 8))
    homes = [draw(st.integers(0, brokers - 1)) for _ in range(clients)]
    left, right = np.triu_indices(brokers, 1)
    cost = [draw(st.integers(0, 9)) for _ in left]
    talk = draw(st.lists(st.tuples(*[st.integers(0, clients - 1)] * 2, st.integers(1, 9)), max_size=12))
    groups = draw(st.lists(st.lists(st.integers(0, clients - 1), min_size=1, max_size=5), max_size=8))
    demand = [draw(st.integers(1, 9)) for _ in groups]
    return Observation(
        overlay=Overlay(placement=list(enumerate(homes)), tree=tree),
        network=Network(
            broker_cost=[draw(st.integers(0, 5)) for _ in range(brokers)],
            links=np.column_stack([left, right]),
            link_cost=cost,
        ),
        flows=Flows(*np.array(talk, np.int64).reshape(-1, 3).T),
        classes=Classes.of(groups, demand),
        clients=clients,
    )
