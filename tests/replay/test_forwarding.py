"""Routing by content on a tree: what is counted is what brokers do; who receives does not depend on the scheme."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from overlace.matching.content.filters import advertised, matches, parse_filter
from overlace.model import Network, Observation, Overlay
from overlace.replay.forwarding import ContentRequests, forwarding
from tests.ingest.logs import often
from tests.oracles.forwarding import Brokers, path, roots
from tests.strategies import trees

WIDE = [
    "x > 0",
    "x > 1",
    "x > 2 and y = 'a'",
    "x exists",
    "y = 'a'",
    "y prefix 'a'",
    "x > 1 and x < 1",
    "true",
    "x >= 3",
]
ADS = ["x > 0 and y = 'a'", "x exists", "y = 'b'", "x < 2", "x > 2 and y exists"]
filters = st.sampled_from(WIDE).map(parse_filter)
ads = st.sampled_from(ADS).map(parse_filter)
messages = st.fixed_dictionaries({}, optional={"x": st.integers(0, 4), "y": st.sampled_from(["a", "ab", "b"])})
SCHEMES = {
    "": (False, False),
    "covering_": (True, False),
    "advertised_": (False, True),
    "advertised_covering_": (True, True),
}


@st.composite
def systems(draw):
    """(brokers, links, homes of clients, requests)."""
    brokers, links = draw(trees(1, 6))
    clients = draw(st.integers(1, 5))
    homes = {c: draw(st.integers(0, brokers - 1)) for c in range(clients) if draw(st.integers(0, 9))}
    asked = draw(st.lists(st.tuples(st.integers(0, clients - 1), filters), max_size=8))
    offered = draw(st.lists(st.tuples(st.integers(0, clients - 1), ads), max_size=3))
    return brokers, links, homes, asked, offered


def measured(system, messages=0):
    brokers, links, homes, asked, offered = system
    clients = 6
    overlay = Overlay(placement=sorted(homes.items()), tree=links)
    observation = Observation(network=Network(region=[0] * brokers, links=links), overlay=overlay, clients=clients)
    requests = ContentRequests(
        np.array([c for c, _ in asked], np.int64),
        [f for _, f in asked],
        np.array([c for c, _ in offered], np.int64),
        [f for _, f in offered],
    )
    return forwarding(observation, overlay, requests, messages)


def simulated(system, covering, use):
    brokers, links, homes, asked, offered = system
    found = Brokers(brokers, links.tolist(), covering, use)
    if use:
        for client, filter in offered:
            if client in homes:
                found.advertise(homes[client], filter)
    for number, (client, filter) in enumerate(asked):
        if client in homes:
            found.subscribe(homes[client], number, filter)
    if covering:
        found.prune()
    return found


@often(120)
@given(systems())
def test_rows_and_control_messages_are_those_of_brokers_that_send_filters_one_by_one(system):
    metrics = measured(system)
    for name, (covering, use) in SCHEMES.items():
        if use and not any(client in system[2] for client, _ in system[4]):
            assert f"{name}table_rows" not in metrics
            continue
        brokers = simulated(system, covering, use)
        assert metrics.of(f"{name}table_rows") == sum(map(len, brokers.rows.values()))
        for broker, rows in brokers.rows.items():
            assert metrics.of(f"{name}table_rows", "broker", broker) == len(rows)
        assert metrics.of(f"{name}subscription_messages") == brokers.control
        if use:
            assert metrics.of("advertisement_messages") == brokers.announced
            assert metrics.of("advertisement_rows") == sum(map(len, brokers.ads.values()))


@often(120)
@given(systems(), st.lists(st.tuples(st.integers(0, 4), messages), max_size=5))
def test_a_message_reaches_the_same_over_the_fewest_links_under_every_scheme(system, published):
    _, links, homes, asked, offered = system
    for covering, use in SCHEMES.values():
        brokers = simulated(system, covering, use)
        for publisher, message in published:
            own = [filter for client, filter in offered if client == publisher]
            if publisher not in homes or (use and not any(advertised(message, filter) for filter in own)):
                continue
            wanted = {i for i, (c, filter) in enumerate(asked) if c in homes and matches(message, filter)}
            reached, crossed = brokers.publish(homes[publisher], message)
            ways = [path(links.tolist(), homes[publisher], homes[asked[i][0]]) for i in wanted]
            assert reached == wanted
            assert crossed == len({link for way in ways for link in way})


@often(80)
@given(systems())
def test_covering_and_advertisements_never_take_more(system):
    metrics = measured(system)
    for kind in ("table_rows", "subscription_messages"):
        assert metrics.of(f"covering_{kind}") <= metrics.of(kind)
        if f"advertised_{kind}" in metrics:
            assert metrics.of(f"advertised_{kind}") <= metrics.of(kind)
            assert metrics.of(f"advertised_covering_{kind}") <= metrics.of(f"advertised_{kind}")
            assert metrics.of(f"advertised_covering_{kind}") <= metrics.of(f"covering_{kind}")


@often(80)
@given(systems())
def test_one_that_leaves_is_taken_back_and_brings_back_those_that_only_it_covered(system):
    brokers, links, homes, asked, _ = system
    here = [(number, filter, homes[c]) for number, (c, filter) in enumerate(asked) if c in homes]
    total = 0
    for gone, *_ in here:
        for a, b in links.tolist():
            for behind in (a, b):
                side = {v for v in range(brokers) if (a, b) not in ordered(path(links.tolist(), behind, v), a, b)}
                before = [(number, filter) for number, filter, home in here if home in side]
                total += len(roots(before) ^ roots([each for each in before if each[0] != gone]))
    found = measured(system).of("covering_unsubscription_messages")
    assert found == pytest.approx(total / len(here) if here else 0)


def ordered(way, a, b):
    return [(a, b)] if (min(a, b), max(a, b)) in way else []


def test_three_brokers_in_a_row_by_hand():
    """b0 - b1 - b2: a wide filter at b0 covers a narrow one at b0, a third is at b2; p at b2 advertises y only."""
    asked = [(0, parse_filter("x > 1")), (1, parse_filter("x > 2")), (2, parse_filter("y = 'a'"))]
    system = 3, np.array([[0, 1], [1, 2]]), {0: 0, 1: 0, 2: 2, 3: 2}, asked, [(3, parse_filter("y = 'a'"))]
    metrics = measured(system, messages=10)
    assert metrics.of("table_rows") == 9
    assert metrics.of("covering_table_rows") == 7
    assert metrics.of("subscription_messages") == 6
    assert metrics.of("covering_subscription_messages") == 4
    assert metrics.of("advertised_subscription_messages") == 0  # nobody behind b2 advertises x, nor anyone else y
    assert metrics.of("advertisement_messages") == 2
    assert metrics.of("flooded_messages") == 20
    assert metrics.of("covering_unsubscription_messages") == pytest.approx((2 * 2 + 0 + 2) / 3)
