"""What a recorded window comes to: what it cost, and messages, crossings and clients by broker and link."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from overlace.limits import Objective
from overlace.live.wiring import Pair, pair
from overlace.metrics import Metrics
from overlace.model import name_of
from overlace.observe.known import known_as
from overlace.observe.observation import observe_with_names
from overlace.observe.traffic import traffic_of
from overlace.optimize.task import metric_of
from overlace.replay.measure import measure
from overlace.trace.store import Trace


class WindowFigures(NamedTuple):
    """A window in numbers, under the overlay of its end."""

    messages: int
    cost: float  # what the objective lowers, over the whole window
    crossings: float  # links that a message crosses, in the mean
    by_broker: Mapping[str, int]  # messages by the home of their publisher
    by_link: Mapping[Pair, int]  # messages that crossed
    clients: Mapping[str, int]  # by their home


def figures_of(trace: Trace, objective: Objective) -> WindowFigures:
    """What a trace comes to under its own overlay."""
    observation, names = observe_with_names(trace)
    rows = traffic_of(trace, None, known_as(trace, names))
    found = measure(observation, observation.overlay, rows, trace.unit)
    brokers = [name_of("broker", b, names) for b in range(observation.network.brokers)]
    metric = metric_of(objective, observation.network)
    messages = int(observation.sent.sum())
    cost = found.get(metric) * (found.get("deliveries") if metric.startswith("mean_") else 1)
    clients = np.bincount(observation.overlay.placement[:, 1], minlength=len(brokers))
    return WindowFigures(
        messages,
        cost,
        found.get("link_messages") / max(1, messages),
        {brokers[b]: int(value) for b, _, value in _of(found, "sent", "broker")},
        {pair(brokers[a], brokers[b]): int(value) for a, b, value in _of(found, "messages", "link")},
        dict(zip(brokers, clients.tolist(), strict=True)),
    )


def _of(found: Metrics, metric: str, scope: str) -> list[tuple[int, int, float]]:
    mine = (found.metric == metric) & (found.scope == scope)
    return list(zip(found.key[mine].tolist(), found.other[mine].tolist(), found.value[mine].tolist(), strict=True))
