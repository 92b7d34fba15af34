"""Where should a client connect without traffic in the log? By what it subscribes to.

It will hear what others with the same interests hear. So the traffic expected for it is that of the known clients, each
weighted by the share of subscriptions it has in common with the newcomer, (6) of CC12; the broker with the shortest way
to those senders is its home, among the brokers whose clients do not send more than `most` times the mean. Where nobody
shares an interest, it is the broker with the least load.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from overlace.errors import BadParameter
from overlace.model import Observation
from overlace.planners.placement.baselines import interests_of
from overlace.planners.placement.problem import check, problem_of


def home_for(interests: Iterable[int], observation: Observation, *, most: float = 1.5) -> int:
    """The broker for a newcomer with these topics; ties to the least load, then to the lowest id."""
    check(observation, "home_for")
    if not most > 0:
        raise BadParameter(f"most is {most}; expected a number above 0")
    problem = problem_of(observation)
    start, topic, _ = interests_of(observation)
    mine = np.unique(np.fromiter(interests, dtype=np.int64))
    client = np.repeat(np.arange(observation.clients), np.diff(start))
    common = np.bincount(client, weights=np.isin(topic, mine), minlength=observation.clients)
    alike = common / np.maximum(np.diff(start) + len(mine) - common, 1)
    flows, home = observation.flows, problem.origin
    expected = np.bincount(flows.sender, weights=alike[flows.receiver] * flows.messages, minlength=observation.clients)
    expected[home < 0] = 0.0
    pull = np.bincount(np.maximum(home, 0), weights=expected, minlength=len(problem.region))
    way = problem.apart @ pull
    sent = np.bincount(home[home >= 0], weights=problem.sent[home >= 0], minlength=len(problem.region))
    mean = problem.sent.sum() / problem.may.sum()
    room = problem.may & (sent <= most * mean)
    if not room.any():
        room = problem.may
    chosen = np.lexsort((np.arange(len(way)), sent, way, ~room))
    return int(chosen[0])
