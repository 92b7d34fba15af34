"""Who wants what, both ways round, as a mesh planner needs it; and what every mesh planner refuses.

A client without topics takes no part. A topic with one subscriber or none needs no link. Neither is an error.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from overlace.arrays.jit import Ints, Pairs, kernel
from overlace.arrays.pairs import sort_pairs
from overlace.errors import NotObserved
from overlace.model import Observation

Ties = Literal["lowest", "random"]
Ids = NDArray[np.int32]
"""Ids of clients or topics where there are as many as interests: half the memory, half the traffic."""


class Interests(NamedTuple):
    """The topics of each client and the clients of each topic, both sorted."""

    start: Ints  # topic[start[v]:start[v + 1]] are client v's
    topic: Ids
    first: Ints  # member[first[t]:first[t + 1]] are topic t's
    member: Ids


def interests_of(observation: Observation, planner: str) -> Interests:
    """The observed interests; refused if there are none."""
    pairs = observation.interests
    if len(pairs) == 0:
        raise NotObserved(
            f"{planner}: no interests were observed, so no two clients are known to share a topic. "
            "Ingest the table subscriptions (or interests: client, topic)."
        )
    return both_ways(pairs, observation.clients, observation.topics)


def interests_by_ties(observation: Observation, planner: str, ties: Ties, seed: int) -> tuple[Interests, Ints]:
    """(interests, who): client i of them is client who[i] of ours; in a random order if ties are.

    A planner that gives ties to the lowest id then gives them to a random one.
    """
    given = interests_of(observation, planner)
    if ties == "lowest":
        return given, np.arange(observation.clients)
    who = np.random.default_rng(seed).permutation(observation.clients)
    place = np.empty(observation.clients, dtype=np.int64)
    place[who] = np.arange(observation.clients)
    pairs = np.column_stack([place[observation.interests[:, 0]], observation.interests[:, 1]])
    return both_ways(sort_pairs(pairs), observation.clients, observation.topics), who


@kernel
def both_ways(pairs: Pairs, clients: int, topics: int) -> Interests:
    """Sorted (client, topic) pairs, by client and by topic."""
    start, first = np.zeros(clients + 1, dtype=np.int64), np.zeros(topics + 2, dtype=np.int64)
    topic, member = np.empty(len(pairs), dtype=np.int32), np.empty(len(pairs), dtype=np.int32)
    for k in range(len(pairs)):
        start[pairs[k, 0] + 1] += 1
        topic[k] = pairs[k, 1]
        first[topic[k] + 2] += 1
    for v in range(clients):
        start[v + 1] += start[v]
    for t in range(topics):
        first[t + 2] += first[t + 1]
    for k in range(len(pairs)):  # first[t + 1] runs from the beginning of t to its end
        at = first[topic[k] + 1]
        member[at] = pairs[k, 0]
        first[topic[k] + 1] = at + 1
    return Interests(start, topic, first[: topics + 1].copy(), member)


@kernel
def next_shared(given: Interests, u: int, v: int, i: int, j: int) -> tuple[int, int]:
    """The next interests of u and v, from i and j on, in the same topic; the ends of both where there is none."""
    topic, end_i, end_j = given.topic, given.start[u + 1], given.start[v + 1]
    while i < end_i and j < end_j:
        if topic[i] < topic[j]:
            i += 1
        elif topic[i] > topic[j]:
            j += 1
        else:
            return i, j
    return end_i, end_j
