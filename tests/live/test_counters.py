"""Flows estimated from counters: laws, on counters that the test makes up."""

import asyncio
from collections import Counter, defaultdict
from itertools import pairwise, product

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overlace.errors import BadNetwork
from overlace.live.counters import UNHEARD, Sampler, estimate, own_users
from overlace.live.deployment import check_deployment
from overlace.live.fit import deal, groups_alike
from overlace.live.ledger import (
    Connection,
    Received,
    Snapshot,
    covers,
    narrower,
    read_connection,
    read_ledger,
    topic_of,
)
from overlace.live.origins import families, published_at

BEGIN_US = 1_800_000_000_250_000


class Network:
    """Brokers with counters: clients publish to subjects, subscriptions receive, and looks are taken."""

    def __init__(self, seed=0, tree=None):
        self.clients = {}  # name: [broker, cid, messages, bytes, [[sid, filter, group, messages], ...]]
        self.snapshots, self.true, self.rng = [], Counter(), np.random.default_rng(seed)
        self.tree = nx.Graph(tree) if tree else None  # links, if their counters are to be seen
        self.brokers = sorted(self.tree) if tree else ["b1", "b2"]
        self.crossed, self.origins = Counter(), Counter()

    def connect(self, name, broker="b1", filters=()):
        cid = 1 + sum(len(each) > 0 for each in self.clients) + len(self.snapshots) * 100
        held = [[str(i), wanted, group, 0] for i, (wanted, group) in enumerate(filters)]
        self.clients[name] = [broker, cid, 0, 0, held]

    def publish(self, name, topic, messages=1, size=10):
        self.clients[name][2] += messages
        self.clients[name][3] += messages * size
        heard, here = False, self.clients[name][0]
        groups, over = defaultdict(list), set()
        for broker, _, _, _, held in self.clients.values():
            for each in held:
                if covers(each[1], topic):
                    heard = True
                    if each[2] is None:
                        each[3] += messages
                        over |= {(link, each[1]) for link in self.way(here, broker)}
                    else:
                        groups[each[1], each[2]].append((broker, each))
        taken = set()
        for link, wanted in sorted(over):  # a message that several filters match is counted at one
            if link not in taken:
                self.crossed[(*link, wanted, None)] += messages
                taken.add(link)
        for (wanted, group), members in groups.items():
            for _ in range(messages):
                broker, each = members[self.rng.integers(len(members))]
                each[3] += 1
                for link in self.way(here, broker):
                    self.crossed[(*link, wanted, group)] += 1
        self.origins[topic, here] += messages
        self.true[name, topic if heard else UNHEARD] += messages

    def way(self, here, there):
        path = nx.shortest_path(self.tree, here, there) if self.tree else []
        return list(pairwise(path))

    def links(self):
        """The counters of links: of each, all that is wanted behind it."""
        found = defaultdict(tuple)
        for near, far in [*self.tree.edges, *((b, a) for a, b in self.tree.edges)] if self.tree else ():
            behind = nx.node_connected_component(nx.restricted_view(self.tree, [], [(near, far)]), far)
            wanted = {(e[1], e[2]) for broker, *_, held in self.clients.values() if broker in behind for e in held}
            counts = tuple(
                Received(f"{w} {g}", w, g, self.crossed[near, far, w, g]) for w, g in sorted(wanted, key=str)
            )
            found[near] += (Connection(self.brokers.index(far) + 10**6, "s", far, "", 0, 0, counts),)
        return dict(found)

    def look(self, silent=()):
        brokers = defaultdict(list, {broker: [] for broker in self.brokers})
        for name in self.clients:
            broker, cid, messages, size, held = self.clients[name]
            filters = tuple(Received(*each) for each in held)
            brokers[broker].append(Connection(cid, f"s{cid}", name, f"127.0.0.1:{cid}", messages, size, filters))
        at = BEGIN_US + 250_000 * len(self.snapshots)
        told = {broker: None if broker in silent else tuple(rows) for broker, rows in brokers.items()}
        self.snapshots.append(Snapshot(at, told, {b: rows for b, rows in self.links().items() if b not in silent}))


def found_of(result):
    found = Counter()
    for client, topic, messages in zip(result.client, result.topic, result.messages.tolist(), strict=True):
        found[client, topic] += messages
    return found


def wrong(found, true):
    """The share of messages at a wrong publisher."""
    keys = {key for key in found | true if key[1] != UNHEARD}
    return sum(abs(found[key] - true[key]) for key in keys) / 2 / sum(true[key] for key in keys)


def independent(seed, publishers=6, topics=4, ticks=60, each_topic=None):
    """Publishers with one topic each, at random rates that vary on their own, at two brokers."""
    network = Network(seed)
    for t in range(topics):
        network.connect(f"reader {t}", f"b{1 + t % 2}", [(f"t.{t}", None)])
    for p in range(publishers):
        network.connect(f"p{p}", f"b{1 + p % 2}")
    network.look()
    for _ in range(ticks):
        for p in range(publishers):
            if amount := int(network.rng.poisson(1 + p)):
                network.publish(f"p{p}", f"t.{p % topics}", amount)
        network.look()
    return network


@given(st.integers(0, 50))
@settings(max_examples=15, deadline=None)
def test_independent_publishers_without_noise_are_found_exactly(seed):
    network = independent(seed)
    result = estimate(network.snapshots)
    assert found_of(result) == network.true
    assert result.fit == pytest.approx(1.0)
    assert result.spread == pytest.approx(0.0, abs=1e-6)
    assert (result.together, result.lost, result.incomplete, result.unheard) == ([], 0, 0, 0)


@st.composite
def any_traffic(draw):
    """Anything that may happen: few publishers, overlapping filters, groups, topics that nobody wants."""
    network = Network(draw(st.integers(0, 9)))
    wanted = st.sampled_from(["a.1", "a.2", "a.*", "a.>", "b", ">", "_INBOX.x.*"])
    for i in range(draw(st.integers(1, 4))):
        held = draw(st.lists(st.tuples(wanted, st.sampled_from([None, "g"])), max_size=3))
        network.connect(f"c{i}", f"b{1 + i % 2}", held)
    network.look()
    names = st.sampled_from(sorted(network.clients))
    topic = st.sampled_from(["a.1", "a.2", "a.3.4", "b", "nobody", "_INBOX.x.17"])
    for tick in draw(
        st.lists(st.lists(st.tuples(names, topic, st.integers(1, 9)), max_size=6), min_size=1, max_size=9)
    ):
        for name, subject, amount in tick:
            network.publish(name, subject, amount)
        network.look()
    return network


@given(any_traffic())
@settings(max_examples=80, deadline=None)
def test_totals_are_kept_and_nothing_is_negative(network):
    result = estimate(network.snapshots)
    true, found = network.true, found_of(result)
    assert (result.messages > 0).all()
    assert (result.bytes >= 0).all()
    sent = sum(true.values())
    assert result.sent == sent
    assert result.messages.sum() == sent  # every message of an account is somewhere, heard or not
    assert found.total() - result.unheard == sum(true[key] for key in true if key[1] != UNHEARD)
    assert set(result.second.tolist()) <= {BEGIN_US // 10**6 * 10**6 + s * 10**6 for s in range(9)}
    for each in result.subscriptions:
        held = next(h for h in network.clients[each.client][4] if tuple(h[1:3]) == (each.filter, each.group))
        assert each.messages <= sent
        assert each.home == network.clients[each.client][0]
        assert held[1] == each.filter


@given(any_traffic(), st.randoms(use_true_random=False))
@settings(max_examples=40, deadline=None)
def test_the_order_in_which_brokers_list_clients_changes_nothing(network, random):
    mixed = []
    for snapshot in network.snapshots:
        told = {broker: tuple(random.sample(rows, len(rows))) for broker, rows in snapshot.brokers.items()}
        mixed.append(Snapshot(snapshot.at_us, dict(sorted(told.items(), reverse=True))))
    one, other = estimate(network.snapshots), estimate(mixed)
    assert one.client == other.client
    assert one.topic == other.topic
    assert one.messages.tolist() == other.messages.tolist()
    assert one.subscriptions == other.subscriptions
    assert one.sessions == other.sessions


@given(st.permutations(range(6)), st.integers(0, 9))
@settings(max_examples=10, deadline=None)
def test_other_names_give_the_same_flows_under_these(order, seed):
    network = independent(seed)
    called = {f"p{p}": f"q{order[p]}" for p in range(6)}
    renamed = [
        Snapshot(at, {b: tuple(e._replace(name=called.get(e.name, e.name)) for e in rows) for b, rows in told.items()})
        for at, told, _ in network.snapshots
    ]
    found = found_of(estimate(renamed))
    expected = {(called[client], topic): n for (client, topic), n in found_of(estimate(network.snapshots)).items()}
    assert found == expected


TREE = [("b1", "b2"), ("b2", "b3"), ("b2", "b4"), ("b4", "b5")]


@given(st.integers(0, 99))
@settings(max_examples=30, deadline=None)
def test_what_was_published_at_each_broker_follows_from_links(seed):
    network = Network(seed, TREE)
    rng = network.rng
    for i in range(8):
        plain = [(f"t.{t}", None) for t in rng.choice(4, rng.integers(0, 3), replace=False)]
        plain += [("w.>", None)] if i == 0 or rng.random() < 0.2 else []
        plain += [(f"w.{t}.*", None) for t in rng.choice(3, rng.integers(0, 2), replace=False)]
        group = [("jobs", "g")] if rng.random() < 0.4 else []
        network.connect(f"c{i}", rng.choice(network.brokers), plain + group)
    network.look()
    for _ in range(5):
        for _ in range(20):
            topic = str(rng.choice([*(f"t.{i}" for i in range(4)), *(f"w.{i}.x" for i in range(4)), "jobs"]))
            network.publish(f"c{rng.integers(8)}", topic, int(rng.integers(1, 5)))
        network.look()
    ledger = read_ledger(network.snapshots)
    found = published_at(ledger)
    wanted = {each[1] for *_, held in network.clients.values() for each in held}
    assert {each for family in found for each in family} == wanted
    for family, by_broker in found.items():
        assert len(family) == 1 or set(family) == {each for each in wanted if each.startswith("w.")}
        for broker in network.brokers:
            true = sum(n for (t, b), n in network.origins.items() if b == broker and any(covers(f, t) for f in family))
            assert by_broker.get(broker, np.zeros(1)).sum() == true


def test_publishers_that_rise_and_fall_together_at_different_brokers_are_told_apart_by_links():
    network = Network(1, TREE)
    network.connect("reader", "b1", [("t.1", None), ("t.2", None)])
    for name, broker in (("one", "b3"), ("two", "b5"), ("three", "b5")):
        network.connect(name, broker)
    network.look()
    for _ in range(60):
        amount = int(network.rng.poisson(4))
        for name, topic in (("one", "t.1"), ("two", "t.2"), ("three", "t.2")):
            network.publish(name, topic, amount)
        network.look()
    result = estimate(network.snapshots)
    assert found_of(result) == network.true
    assert result.together == [("three", "two")]


def test_who_published_to_a_family_is_told_by_links_and_to_which_of_its_topics_by_amounts():
    network = Network(4, TREE)
    network.connect("all", "b1", [("w.>", None)])
    network.connect("some", "b4", [("w.1", None), ("w.2", None)])
    for i, broker in enumerate(("b2", "b3", "b3", "b5")):
        network.connect(f"p{i}", broker)
    network.look()
    for _ in range(100):
        for i, topic in enumerate(("w.1", "w.2", "w.3", "w.1")):
            network.publish(f"p{i}", topic, int(network.rng.poisson(3)))
        network.look()
    result = estimate(network.snapshots)
    true = network.true
    expected = {("p0", "w.1"): true["p0", "w.1"], ("p1", "w.2"): true["p1", "w.2"], ("p2", "w.>"): true["p2", "w.3"],
                ("p3", "w.1"): true["p3", "w.1"]}  # fmt: skip
    assert found_of(result) == expected


def test_filters_that_overlap_by_chance_and_links_that_lead_elsewhere_are_not_followed():
    network = Network(1, TREE)
    odd = [("a.*.c", None), ("a.b.*", None), ("both", None), ("both", "g")]
    network.connect("reader", "b1", [("t.1", None), ("t.*", None), ("alone", None), *odd])
    network.connect("writer", "b3")
    network.look()
    network.publish("writer", "alone", 3)
    network.look()
    assert set(published_at(read_ledger(network.snapshots))) == {("alone",), ("t.*", "t.1")}
    cut = [each._replace(links={**each.links, "b5": ()}) for each in network.snapshots]
    assert published_at(read_ledger(cut)) == {}
    strange = [
        each._replace(links={b: tuple(e._replace(name="x") for e in rows) for b, rows in each.links.items()})
        for each in network.snapshots
    ]
    assert published_at(read_ledger(strange)) == {}
    for snapshots in (network.snapshots, cut, strange):
        assert found_of(estimate(snapshots)) == network.true


@given(st.lists(st.lists(st.sampled_from(["a", "b", "*", ">"]), min_size=1, max_size=3), min_size=2, max_size=5))
def test_filters_that_some_subject_matches_are_a_family(drawn):
    filters = sorted({".".join(words) for words in drawn if ">" not in words[:-1]})
    subjects = [".".join(words) for size in (1, 2, 3, 4) for words in product("abc", repeat=size)]
    matched = {each: {subject for subject in subjects if covers(each, subject)} for each in filters}
    graph = nx.Graph()
    graph.add_nodes_from(filters)
    graph.add_edges_from((one, other) for one in filters for other in filters if matched[one] & matched[other])
    assert sorted(families(filters)) == sorted(tuple(sorted(each)) for each in nx.connected_components(graph))


def test_several_topics_each_are_found_far_better_than_shares_in_proportion():
    network = Network(3)
    network.connect("reader", "b1", [(f"t.{t}", None) for t in range(8)])
    for p in range(10):
        network.connect(f"p{p}", "b2")
    shares = network.rng.dirichlet(np.ones(8) * 0.2, 10)
    network.look()
    for _ in range(240):
        for p in range(10):
            for t in np.flatnonzero(amounts := network.rng.poisson((1 + p) * shares[p])):
                network.publish(f"p{p}", f"t.{t}", int(amounts[t]))
        network.look()
    result = estimate(network.snapshots)
    sent, got = Counter(), Counter()
    for (client, topic), n in network.true.items():
        sent[client] += n
        got[topic] += n
    plain = Counter({(c, t): sent[c] * got[t] / sent.total() for c in sent for t in got})
    assert wrong(found_of(result), network.true) < 0.2 < 0.4 < wrong(plain, network.true)
    assert result.spread < 0.4


def test_publishers_that_rise_and_fall_together_are_named_and_share_by_what_they_sent():
    network = Network(1)
    network.connect("reader", "b1", [("t.1", None), ("t.2", None)])
    for name in ("one", "two", "other"):
        network.connect(name, "b2")
    network.look()
    for _ in range(60):
        amount = int(network.rng.poisson(4))
        network.publish("one", "t.1", amount)
        network.publish("two", "t.2", 2 * amount)
        network.publish("other", "t.2", int(network.rng.poisson(4)))
        network.look()
    result = estimate(network.snapshots)
    assert result.together == [("one", "two")]
    assert any("'one', 'two' rise and fall together" in note for note in result.notes)
    found = found_of(result)
    assert found["one", "t.1"] * 2 == pytest.approx(found["two", "t.1"], rel=0.05)
    assert found["other", "t.2"] == pytest.approx(network.true["other", "t.2"], rel=0.1)


def test_a_wide_filter_is_what_narrower_ones_leave_and_queue_groups_count_once():
    network = Network(2)
    network.connect("all", "b1", [("a.>", None)])
    network.connect("one", "b2", [("a.1", None)])
    for i in range(3):
        network.connect(f"worker {i}", "b2", [("jobs", "g")])
    for name in ("p", "q", "r"):
        network.connect(name, "b1")
    network.look()
    for _ in range(80):
        for name, topic in (("p", "a.1"), ("q", "a.2"), ("r", "jobs")):
            network.publish(name, topic, int(network.rng.poisson(5)))
        network.look()
    result = estimate(network.snapshots)
    true = network.true
    expected = {("p", "a.1"): true["p", "a.1"], ("q", "a.>"): true["q", "a.2"], ("r", "jobs"): true["r", "jobs"]}
    assert found_of(result) == expected
    assert {each.client for each in result.receivers("a.1")} == {"all", "one"}
    assert {each.client for each in result.receivers("a.>")} == {"all"}
    assert [each.group for each in result.receivers("jobs")] == ["g"] * 3
    assert result.homes["all"] == "b1"
    assert result.homes["one"] == "b2"


def test_restarts_silence_and_reconnects_lose_no_more_than_their_ticks():
    network = independent(5, ticks=20)
    assert network.snapshots[-1].brokers["b1"]
    network.clients["p0"][0:4] = ["b2", 900, 3, 30]  # a new connection, elsewhere: 3 are new
    for _ in range(3):
        network.look(silent=("b2",))
    for p in range(6):
        network.publish(f"p{p}", f"t.{p % 4}", 2)
    network.look()
    network.clients["p1"][2] = 1  # as after a restart under the same number
    network.look()
    result = estimate(network.snapshots)
    assert result.incomplete == 5
    assert any("b2 was silent 3 times" in note for note in result.notes)
    assert result.homes["p0"] == "b2"
    assert [each.broker for each in result.sessions if each.client == "p0"] == ["b1", "b2"]
    assert abs(result.messages.sum() - network.true.total()) <= 3


def test_clients_without_a_name_and_replicas_are_told_apart():
    network = independent(0)
    anonymous = [
        Snapshot(at, {b: tuple(e._replace(name="" if e.name == "p1" else "same") for e in r) for b, r in told.items()})
        for at, told, _ in network.snapshots
    ]
    names = set(estimate(anonymous).client)
    cid = network.clients["p1"][1]
    assert f"b2:{cid}" in names
    assert all(name.startswith(("b2:", "same@127.0.0.1:")) for name in names)
    assert len(names) == 6


def test_one_look_is_too_few():
    network = Network()
    network.connect("a")
    network.look()
    with pytest.raises(BadNetwork, match="read twice"):
        estimate(network.snapshots)
    network.look()
    assert len(estimate(network.snapshots).messages) == 0


@given(st.integers(1, 5), st.integers(1, 12), st.data())
def test_dealing_keeps_every_amount_and_comes_near_to_the_weights(publishers, seconds, data):
    weights = np.array(
        data.draw(st.lists(st.lists(st.integers(0, 9), min_size=publishers, max_size=publishers), min_size=seconds,
                           max_size=seconds)), dtype=np.float64,
    )  # fmt: skip
    amounts = np.array(data.draw(st.lists(st.integers(0, 30), min_size=seconds, max_size=seconds)))
    dealt = deal(weights, amounts)
    assert (dealt >= 0).all()
    if weights.any():
        assert dealt.sum(axis=1).tolist() == amounts.tolist()
        filled = np.where(weights.sum(axis=1, keepdims=True) > 0, weights, weights.sum(axis=0))
        wanted = (amounts[:, None] * filled / filled.sum(axis=1, keepdims=True)).sum(axis=0)
        assert np.abs(dealt.sum(axis=0) - wanted).max() <= publishers
    else:
        assert not dealt.any()


def test_constant_publishers_cannot_be_told_apart_and_random_ones_can():
    rng = np.random.default_rng(0)
    steady = np.column_stack([np.full(60, 3.0), np.full(60, 7.0)])
    assert groups_alike(steady).tolist() == [0, 0]
    for _ in range(20):
        assert len(set(groups_alike(rng.poisson([0.3, 3.0, 30.0, 90.0], (60, 4)).astype(float)).tolist())) == 4


@pytest.mark.parametrize(
    ("wide", "narrow", "whether"),
    [
        ("a.>", "a.b", True), ("a.>", "a", False), ("a.*", "a.>", False), ("a.>", "a.*", True), (">", "a.b.c", True),
        ("a.*.c", "a.b.c", True), ("a.b", "a.b", True), ("a.*", "a.b.c", False), ("*", ">", False),
        ("*.*", "a.b", True),
    ],
)  # fmt: skip
def test_filters_cover_filters(wide, narrow, whether):
    assert covers(wide, narrow) is whether


def test_the_widest_of_the_narrower_ones():
    assert narrower([">", "a.>", "a.b", "c"]) == {">": ["a.>", "c"], "a.>": ["a.b"], "a.b": [], "c": []}


def test_replies_are_one_topic_for_each_inbox():
    assert topic_of("_INBOX.abc.*") == topic_of("_INBOX.abc.17") == "_INBOX.abc.reply"
    assert (topic_of("_INBOX.abc"), topic_of("a.*")) == ("_INBOX.abc", "a.*")


def test_what_a_broker_says_is_not_trusted():
    made = read_connection(
        {"cid": "x", "in_msgs": -3, "in_bytes": None, "name": None, "subscriptions_list_detail": [{}]}
    )
    assert (made.cid, made.messages, made.bytes, made.name) == (0, 0, 0, "")


def test_a_broker_that_is_silent_at_first_is_refused_by_name(tmp_path):
    brokers = {"hub-1": {"client": "127.0.0.1:1", "monitor": "http://127.0.0.1:1"}}
    deployment = check_deployment({"substrate": "nats", "brokers": brokers}, tmp_path / "network.toml")

    async def run():
        async with Sampler(deployment):
            raise AssertionError("never reached")

    with pytest.raises(BadNetwork, match="hub-1 at http://127.0.0.1:1 does not answer"):
        asyncio.run(run())


def test_our_own_users_are_known_without_their_secrets(tmp_path):
    roles = {
        "control": {"user": "ours", "password_env": "NOT_SET_ANYWHERE"},
        "links": {"user": "{colour}.links", "password_file": "not there"},
        "system": {"user": "sys", "password_file": "not there"},
        "clients": {"user": "apps", "password_file": "not there"},
    }
    brokers = {"hub-1": {"client": "127.0.0.1:1", "monitor": "http://127.0.0.1:1"}}
    document = {"substrate": "nats", "brokers": brokers, "credentials": roles}
    expected = {"ours-BLUE", "ours-GREEN", "BLUE.links", "GREEN.links", "sys"}
    assert own_users(check_deployment(document, tmp_path / "network.toml")) == expected


def test_mosquitto_has_no_such_counters(tmp_path):
    document = {"substrate": "mosquitto", "brokers": {"hub-1": {"client": "127.0.0.1:1"}}}

    async def run():
        async with Sampler(check_deployment(document, tmp_path / "network.toml")):
            raise AssertionError("never reached")

    with pytest.raises(BadNetwork, match="only NATS"):
        asyncio.run(run())
