"""All that can be measured of an overlay on some traffic."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from overlace.metrics import Metrics
from overlace.model import Observation, Overlay
from overlace.replay.routing import routing
from overlace.replay.tally import Tally
from overlace.trace.tables import groups, numbers

if TYPE_CHECKING:  # few traces have content
    from overlace.replay.forwarding import ContentRequests


BATCH = 1 << 17
"""Rows of traffic that are routed at a time."""


def measure(
    observation: Observation,
    overlay: Overlay,
    rows: pa.Table,
    unit: str,
    doubles: pa.Table | None = None,
    requests: ContentRequests | None = None,
) -> Metrics:
    """All that can be measured of an overlay: routing where there are brokers, delivery, shape.

    `requests` are who asked for which content, for what it takes to route by it.
    """
    found = []
    if observation.network.brokers and (len(overlay.tree) or observation.network.brokers == 1) and rows.num_rows:
        route = routing(observation, overlay, unit=unit)  # type: ignore[arg-type]
        found.append(route.finish(route.partial(rows.to_batches(max_chunksize=BATCH))))
        if observation.network.access_cost.size:
            found.append(access_costs(observation, overlay, rows, unit, found[0].of("cost")))
        if doubles is not None and doubles.num_rows:
            found.append(double_sends(observation, overlay, doubles))
        if requests is not None:
            from overlace.replay.forwarding import forwarding

            sent = found[0].of("messages") - found[0].of("homeless_messages")
            found.append(forwarding(observation, overlay, requests, int(sent)))
    if len(observation.offers.publisher):
        from overlace.replay.delivery import delivery

        found.append(delivery(observation, overlay))
    if len(observation.interests) and len(overlay.mesh):
        from overlace.replay.shape import shape

        found.append(shape(observation, overlay))
    return Metrics.join(found)


def access_costs(observation: Observation, overlay: Overlay, rows: pa.Table, unit: str, routed: float) -> Metrics:
    """What clients pay for the way to a home far from where they are, and with it all that the traffic costs.

    As in routing, nothing of a sender without a home is delivered, and nobody receives its own message.
    """
    network, homes = observation.network, overlay.homes(observation.clients)
    sender, (start, receivers) = numbers(rows["client"]), groups(rows["receivers"])
    amount = numbers(rows["bytes"]) / 1e9 if unit == "gb" else numbers(rows["messages"]).astype(np.float64)
    clients = max(len(homes), int(sender.max(initial=-1)) + 1, int(receivers.max(initial=-1)) + 1)
    amount = np.where(np.pad(homes, (0, clients - len(homes)), constant_values=-1)[sender] >= 0, amount, 0.0)
    got = np.where(np.repeat(sender, np.diff(start)) != receivers, np.repeat(amount, np.diff(start)), 0.0)
    paid = np.bincount(sender, weights=amount, minlength=clients) + np.bincount(receivers, got, clients)
    region = network.client_region[: len(homes)]
    known = np.flatnonzero((region >= 0) & (homes[: len(region)] >= 0))
    access = float(paid[known] @ network.access_cost[region[known], homes[known]])
    tally = Tally()
    tally.overall("access_cost", access)
    tally.overall("total_cost", routed + access)
    return tally.metrics()


def double_sends(observation: Observation, overlay: Overlay, doubles: pa.Table) -> Metrics:
    """Second sends of a message to a client, by the client's broker: load that is no flow."""
    homes = overlay.homes(observation.clients)
    client, amount = numbers(doubles["client"]), numbers(doubles["messages"])
    known = (client < len(homes)) & (homes[np.minimum(client, len(homes) - 1)] >= 0)
    tally = Tally()
    tally.overall("double_sends", int(amount.sum()))
    sums = np.bincount(homes[client[known]], weights=amount[known], minlength=observation.network.brokers)
    tally.add("double_sends", "broker", np.flatnonzero(sums), sums[sums > 0])
    return tally.metrics()


def within(rows: pa.Table, window: tuple[int, int], bucket_us: int) -> pa.Table:
    """The rows of a table whose bucket lies wholly in a window; (0, 0) is all of time."""
    if window == (0, 0) or rows.num_rows == 0:
        return rows
    bucket = rows["bucket"].cast(pa.int64())
    return rows.filter(pc.and_(pc.greater_equal(bucket, window[0]), pc.less_equal(bucket, window[1] - bucket_us)))
