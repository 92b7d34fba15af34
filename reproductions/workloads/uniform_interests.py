"""Uniform interests, TDCD17's setup (§V): every client wants the same number of topics, drawn uniformly.

An instance is its seed: client after client draws its topics without replacement from `default_rng(seed)`.
"""

from __future__ import annotations

import numpy as np

from overlace.errors import BadParameter
from overlace.model import Observation


def uniform_interests(clients: int = 200, topics: int = 100, each: int = 10, *, seed: int = 0) -> Observation:
    """An observation after the recipe above: the same for the same arguments."""
    if not 0 <= each <= topics:
        raise BadParameter(f"each is {each}: a client can want 0 to {topics} of {topics} topics")
    rng = np.random.default_rng(seed)
    drawn = [np.sort(rng.choice(topics, each, replace=False)) for _ in range(clients)]
    topic = np.concatenate([*drawn, np.empty(0, dtype=np.int64)])
    pairs = np.column_stack([np.repeat(np.arange(clients), each), topic])
    return Observation(interests=pairs, clients=clients, topics=topics)
