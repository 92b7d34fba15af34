"""What the mesh tests draw and look at."""

import networkx as nx
import numpy as np
from hypothesis import strategies as st

from overlace.model import Observation, Overlay


@st.composite
def interests(draw, clients: int = 9, topics: int = 7):
    """Client to topics, not empty; clients and topics may be idle."""
    n, most = draw(st.integers(2, clients)), draw(st.integers(1, topics))
    wants = [draw(st.sets(st.integers(0, most - 1), max_size=4)) for _ in range(n)]
    if not any(wants):
        wants[0] = {0}
    return dict(enumerate(wants))


def observed(wants, mesh=(), topics: int = 0) -> Observation:
    pairs = [(v, t) for v, own in wants.items() for t in sorted(own)]
    return Observation(interests=pairs, overlay=Overlay(mesh=list(mesh)), clients=len(wants), topics=topics)


def uniform(clients: int, topics: int, each: int, seed: int = 0) -> Observation:
    rng = np.random.default_rng(seed)
    return observed({v: {int(t) for t in rng.choice(topics, each, replace=False)} for v in range(clients)})


def links_of(plan) -> set:
    return set(map(tuple, plan.after.mesh.tolist()))


def graph_of(observation, mesh) -> nx.Graph:
    graph = nx.Graph(list(map(tuple, np.asarray(mesh).tolist())))
    graph.add_nodes_from(range(observation.clients))
    return graph


def topic_graphs(observation, mesh):
    graph = graph_of(observation, mesh)
    for topic in np.unique(observation.interests[:, 1]):
        yield graph.subgraph(observation.interests[observation.interests[:, 1] == topic, 0].tolist())


def diameters(observation, mesh) -> list:
    """Per topic; infinite where it falls apart."""
    return [nx.diameter(g) if nx.is_connected(g) else np.inf for g in topic_graphs(observation, mesh)]


def useful(observation, mesh) -> bool:
    """Every link joins two clients that share a topic."""
    wants = {}
    for v, t in observation.interests.tolist():
        wants.setdefault(v, set()).add(t)
    return all(wants.get(int(u), set()) & wants.get(int(v), set()) for u, v in mesh)
