"""What hypothesis draws: an observation and traffic for it, as plain rows and as record batches."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from overlace.model import Overlay
from overlace.replay.routing import routing
from overlace.trace.traffic import TRAFFIC
from tests.strategies import observations


def batch_of(rows):
    """Rows of (client, topic, messages, bytes, receivers) as one record batch of traffic."""
    client, topic, messages, size, receivers = zip(*rows, strict=True) if rows else [()] * 5
    columns = {
        "bucket": [0] * len(rows),
        "client": client,
        "topic": topic,
        "attributes": [None] * len(rows),
        "audience": range(len(rows)),
        "messages": messages,
        "rows": messages,
        "bytes": size,
        "receivers": receivers,
    }
    return pa.record_batch([pa.array(list(columns[f.name]), f.type) for f in TRAFFIC], schema=TRAFFIC)


def replay(observation, overlay, batches, **options):
    route = routing(observation, overlay, **options)
    return route.finish(route.partial(batches))


@st.composite
def row(draw, clients):
    return (
        draw(st.integers(0, clients - 1)),
        draw(st.none() | st.integers(0, 3)),
        draw(st.integers(1, 9)),
        draw(st.integers(0, 5000)),
        sorted(draw(st.sets(st.integers(0, clients - 1), max_size=5))),
    )


@st.composite
def replays(draw, homeless: bool = True):
    """(observation, rows): a network with regions, latencies and access, some clients without a home."""
    observation = draw(observations())
    brokers, clients = observation.network.brokers, observation.clients
    network = replace(
        observation.network,
        region=draw(st.lists(st.integers(-1, 2), min_size=brokers, max_size=brokers)),
        latency_us=[draw(st.integers(0, 50)) for _ in observation.network.links],
    )
    if draw(st.booleans()):
        network = replace(
            network,
            client_region=draw(st.lists(st.integers(-1, 1), min_size=clients, max_size=clients)),
            access_latency_us=np.array(
                draw(st.lists(st.integers(0, 9), min_size=2 * brokers, max_size=2 * brokers))
            ).reshape(2, -1),
        )
    overlay = observation.overlay
    if homeless and draw(st.booleans()):
        kept = draw(st.lists(st.booleans(), min_size=clients, max_size=clients))
        overlay = Overlay(placement=overlay.placement[np.array(kept)], tree=overlay.tree)
    observation = replace(observation, network=network, overlay=overlay)
    return observation, draw(st.lists(row(clients), max_size=12))
