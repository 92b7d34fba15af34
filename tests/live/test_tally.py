"""Laws of the load and its tally, without a network."""

import json
from collections import Counter
from itertools import islice

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from overlace.errors import BadParameter
from overlace.live.options import TrafficOptions
from overlace.live.scenario import draw_scenario
from overlace.live.tally import Tally, links_crossed
from overlace.live.wiring import links_of
from overlace.matching.topics import match

HUBS = [f"hub-{k + 1}" for k in range(5)]
seeds = st.integers(0, 2**63 - 1)


def scenario(seed, substrate="nats", **options):
    return draw_scenario(TrafficOptions(seed=seed, **options), HUBS, substrate, lambda name: None)


@given(seeds)
def test_the_same_seed_gives_the_same_load(seed):
    left, right = scenario(seed, clients=12), scenario(seed, clients=12)
    assert left == right
    assert list(islice(left.events(), 50)) == list(islice(right.events(), 50))
    assert list(islice(left.events(1), 50)) != list(islice(left.events(), 50))


@given(seeds, st.integers(2, 60), st.sampled_from(["nats", "mosquitto"]))
def test_receivers_are_those_whose_filters_match_and_nobody_gets_a_message_twice(seed, clients, substrate):
    made = scenario(seed, substrate, clients=clients)
    filters = [each.filter for each in made.subscriptions]
    pairs = match(filters, {"nats": "nats", "mosquitto": "mqtt"}[substrate], [topic.name for topic in made.topics])
    found = {topic.name: Counter() for topic in made.topics}
    for row, topic in pairs:
        found[made.topics[topic].name][made.subscriptions[row].client] += 1
    assert found == {topic.name: Counter(topic.receivers) for topic in made.topics}


@given(seeds, st.integers(2, 60))
def test_members_of_a_group_share_a_broker_on_mosquitto(seed, clients):
    made = scenario(seed, "mosquitto", clients=clients)
    groups = {}
    for each in made.subscriptions:
        if each.group:
            groups.setdefault(each.group, set()).add(made.homes[each.client])
    assert all(len(homes) == 1 for homes in groups.values())


@given(seeds)
def test_a_given_home_is_kept(seed):
    made = draw_scenario(TrafficOptions(seed=seed), HUBS, "nats", lambda name: "hub-2" if name == "client-07" else None)
    assert made.homes["client-07"] == "hub-2"
    assert set(made.homes.values()) <= set(HUBS)


@given(seeds, st.floats(0, 0.5), st.floats(0, 0.5))
def test_shares_of_kinds_are_as_asked_for(seed, groups, requests):
    made = scenario(seed, groups=groups, requests=requests, rate=100)
    tally = Tally(made)
    for event in islice(made.events(), 4000):
        tally.send(event.topic, event.client, event.size)
    assert tally.figures("groups").sent / 4000 == pytest.approx(groups, abs=0.05)
    assert tally.figures("requests").sent / 4000 == pytest.approx(requests, abs=0.05)


def deliveries(made, count):
    """A tally of so many messages, and each delivery that is expected, as arguments of receive."""
    tally = Tally(made)
    expected = []
    for event in islice(made.events(), count):
        number = tally.send(event.topic, event.client, event.size)
        topic = made.topics[event.topic]
        receivers = topic.receivers if topic.kind == "topics" else topic.receivers[:1]
        expected += [(event.topic, event.client, each, number, 0) for each in receivers]
    return tally, expected


@given(seeds, st.data())
def test_what_is_left_out_is_lost_and_what_comes_again_is_doubled(seed, data):
    tally, expected = deliveries(scenario(seed, clients=10, topics=6), 60)
    lost = data.draw(st.sets(st.integers(0, len(expected) - 1)))
    again = data.draw(st.lists(st.integers(0, len(expected) - 1), max_size=20))
    again = [k for k in again if k not in lost]
    for k, each in enumerate(expected):
        if k not in lost:
            tally.receive(*each)
    for k in again:
        tally.receive(*expected[k])
    assert (tally.delivered, tally.lost) == (len(expected) - len(lost), len(lost))
    assert (tally.duplicated, tally.reordered) == (len(again), 0)
    asked = sum(made.kind == "requests" for made in (tally.scenario.topics[each[0]] for each in expected))
    for _ in range(asked):
        tally.close_request(True)
    assert tally.complete.is_set() == (tally.awaited <= 0)
    found = json.loads(json.dumps(tally.document()))
    assert found["lost"] == sum(kind["lost"] for kind in found["kinds"].values()) == len(lost)
    assert sum(row["messages"] for row in found["counts"]) == tally.sent == 60


@given(seeds, st.data())
def test_a_delivery_after_a_later_one_of_its_stream_is_out_of_order(seed, data):
    tally, expected = deliveries(scenario(seed, clients=10, topics=6), 60)
    order = data.draw(st.permutations(expected))
    highest, wrong = {}, 0
    for topic, client, receiver, number, at in order:
        tally.receive(topic, client, receiver, number, at)
        if tally.scenario.topics[topic].kind == "topics":
            wrong += number < highest.get((topic, client, receiver), -1)
            highest[topic, client, receiver] = max(number, highest.get((topic, client, receiver), -1))
    assert (tally.reordered, tally.lost, tally.duplicated) == (wrong, 0, 0)


@given(st.integers(1, 12), st.randoms(use_true_random=False), st.data())
def test_a_message_crosses_the_links_of_all_its_paths_once(size, drawn, data):
    """As networkx finds the paths."""
    names = [f"b{k}" for k in range(size)]
    tree = nx.Graph([(name, names[drawn.randrange(k + 1)]) for k, name in enumerate(names[1:])])
    tree.add_nodes_from(names)
    source = data.draw(st.sampled_from(names))
    targets = data.draw(st.sets(st.sampled_from(names)))
    paths = [nx.shortest_path(tree, source, each) for each in targets]
    wanted = links_of(pair for path in paths for pair in zip(path, path[1:], strict=False))
    assert links_crossed(links_of(tree.edges), source, targets) == wanted


def test_crossings_are_the_mean_over_messages():
    made = scenario(3, clients=10)
    tally, _ = deliveries(made, 500)
    star = links_of(("hub-1", each) for each in HUBS[1:])
    crossed = messages = 0
    for (client, name), count in tally.counts.items():
        topic = next(each for each in made.topics if each.name == name)
        if topic.kind == "topics":
            crossed += count * len(
                links_crossed(star, made.homes[client], {made.homes[each] for each in topic.receivers})
            )
            messages += count
    assert tally.crossings(star) == pytest.approx(crossed / messages)
    assert tally.crossings(star, dict.fromkeys(made.homes, "hub-3")) == 0


def test_more_than_all_messages_are_refused():
    with pytest.raises(BadParameter, match="at most 1"):
        TrafficOptions(groups=0.6, requests=0.6)
