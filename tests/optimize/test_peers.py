"""Channels as peers with delays and bounds, beside a plain account of who is where and asks for what."""

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from overlace.model import Network, Observation, Offers, Overlay
from overlace.optimize.trees import Bounds, delays_of_links, peers_of

BROKERS, CLIENTS = 4, 7


@st.composite
def systems(draw):
    """(observation, channels, bounds): few clients, brokers in pieces, some latencies not measured."""
    links = draw(st.sets(st.tuples(st.integers(0, 3), st.integers(0, 3)).filter(lambda p: p[0] < p[1])))
    links = np.array(sorted(links), dtype=np.int64).reshape(-1, 2)
    latency = np.array([draw(st.integers(-1, 30)) * 1000 for _ in links], dtype=np.int64)
    latency[latency < 0] = -1
    homes = [(c, draw(st.integers(0, BROKERS - 1))) for c in range(CLIENTS) if draw(st.integers(0, 5))]
    offers = draw(st.lists(st.tuples(st.integers(0, 2), st.integers(1, 7), st.integers(1, 9)), min_size=1, max_size=4))
    cut = {mask: draw(st.integers(0, 2)) for mask in range(1, 8) if draw(st.booleans())}
    asked = draw(
        st.lists(
            st.tuples(st.integers(0, CLIENTS - 1), st.integers(1, 7), st.sampled_from([5.0, 20.0, 50.0, math.inf]))
        )
    )
    asked.sort(key=lambda each: each[:2])
    degree = np.array([draw(st.integers(0, 3)) for _ in range(CLIENTS)], dtype=np.int64)
    publisher, attributes, messages = (np.array(each, dtype=np.int64) for each in zip(*offers, strict=True))
    observation = Observation(
        overlay=Overlay(placement=np.array(homes, dtype=np.int64).reshape(-1, 2)),
        network=Network(
            region=np.arange(BROKERS), broker_cost=np.ones(BROKERS), capacity=np.full(BROKERS, np.inf),
            max_degree=np.full(BROKERS, 9), links=links, link_cost=np.ones(len(links)), latency_us=latency,
        ),
        offers=Offers(publisher, attributes, np.full(len(offers), 9), messages),
        clients=CLIENTS,
    )  # fmt: skip
    rows = [np.array([each[i] for each in asked], dtype=np.int64 if i < 2 else np.float64) for i in range(3)]
    channels = np.array(sorted(cut.items()), dtype=np.int64).reshape(-1, 2)
    return observation, channels, Bounds(*rows, degree)


def plain_delays(observation):
    """Milliseconds between brokers, by relaxing every link as often as there are brokers."""
    far = {(a, b): 0.0 if a == b else math.inf for a in range(BROKERS) for b in range(BROKERS)}
    for _ in range(BROKERS):
        for (a, b), us in zip(observation.network.links.tolist(), observation.network.latency_us.tolist(), strict=True):
            if us >= 0:
                for x in range(BROKERS):
                    for near, other in ((a, b), (b, a)):
                        far[x, other] = min(far[x, other], far[x, near] + us / 1000)
                        far[other, x] = far[x, other]
    return far


def _leads(found, client):
    """How many channels a client leads with somebody below it."""
    return sum(int(each.client[0]) == client and len(each.client) > 1 for each in found)


@given(systems())
def test_channels_hold_their_subscribers_once_with_what_is_left_of_their_tightest_bound(system):
    observation, channels, asked = system
    delays = delays_of_links(observation)
    if delays is None:
        assert not (observation.network.latency_us >= 0).any() or not len(observation.overlay.placement)
        return
    far, home = plain_delays(observation), dict(observation.overlay.placement.tolist())
    found, left_out = peers_of(observation, channels, asked, delays)
    cut = dict(channels.tolist())
    wanted = {}
    for client, mask, bound in zip(asked.client.tolist(), asked.attributes.tolist(), asked.bound_ms, strict=True):
        row = wanted.setdefault(cut.get(mask, -1), {})
        row[client] = min(row.get(client, math.inf), float(bound))
    served = unheard = 0
    for each in found:
        root, *others = each.client.tolist()
        held = [mask for mask, channel in cut.items() if channel == each.channel]
        held = held or [int(m) for m in asked.attributes if cut.get(int(m), -1) == -1]
        offers = zip(observation.offers.publisher.tolist(), observation.offers.attributes.tolist(), strict=True)
        may = {p for p, offered in offers if any(offered & mask == mask for mask in held)}
        assert asked.degree[root] >= _leads(found, root)
        assert others or root in wanted[each.channel]
        able = {p for p in may if p in home and asked.degree[p]}
        assert root in may or (root in wanted[each.channel] and all(_leads(found, p) == asked.degree[p] for p in able))
        assert each.bound[0] == wanted[each.channel].get(root, math.inf) - each.entry
        reached = [far[home[p], home[root]] for p in may if p in home]
        unheard += len(may) - sum(d < math.inf for d in reached)
        assert math.isclose(each.entry, max(d for d in reached if d < math.inf), abs_tol=1e-6)
        assert len(set(others)) == len(others)
        assert set(others) <= wanted[each.channel].keys()
        for i, client in enumerate(each.client.tolist()):
            for j, other in enumerate(each.client.tolist()):
                assert math.isclose(each.delay[i, j], 0 if i == j else far[home[client], home[other]], abs_tol=1e-6)
        for client, bound in zip(others, each.bound[1:].tolist(), strict=True):
            assert bound == wanted[each.channel][client] - each.entry
        served += len(wanted[each.channel].keys() & {root, *others})
    lost = left_out.unpublished + left_out.unknown + left_out.unserved + left_out.large
    assert served + lost == sum(map(len, wanted.values()))  # everybody is in a tree, or it is said why not
    assert left_out.publishers == unheard
