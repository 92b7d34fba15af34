import pickle
from collections import Counter
from dataclasses import replace
from unittest import mock

import networkx as nx
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from overlace.errors import BadOverlay, BadTrace, NotObserved, Unknown
from overlace.metrics import Metrics
from overlace.model import Classes, Flows, Network, Observation, Overlay
from overlace.planners.placement.cost import cost as placement_cost
from overlace.planners.tree.cost import cost as tree_cost
from overlace.replay.partials import PARTIAL, add_up
from overlace.replay.routing import Routing, routing
from overlace.replay.subtrees import TrafficSums, empty_pairs, route
from overlace.trace.traffic import rows_of
from tests.arrays.test_trees import steiner
from tests.replay.traffic import batch_of, replay, replays
from tests.strategies import trees


def graph_of(observation):
    graph = nx.Graph()
    graph.add_nodes_from(range(observation.network.brokers))
    network = observation.network
    known = dict(
        zip(map(tuple, network.links.tolist()), zip(network.link_cost, network.latency_us, strict=True), strict=True)
    )
    for link in observation.overlay.tree.tolist():
        cost, latency = known[tuple(link)]
        graph.add_edge(*link, cost=cost, latency=int(latency))
    return graph


def access_of(observation, client, broker):
    network = observation.network
    if network.access_latency_us.size == 0 or network.client_region[client] < 0:
        return 0
    return int(network.access_latency_us[network.client_region[client], broker])


def by_hand(observation, rows):
    """Every message over its minimal subtree, every delivery over its path, one after the other."""
    graph, region = graph_of(observation), observation.network.region.tolist()
    homes = dict(observation.overlay.placement.tolist())
    seen = Counter()
    for sender, topic, messages, size, receivers in rows:
        seen["messages", "overall", 0, -1] += messages
        seen["bytes", "overall", 0, -1] += size
        others = [r for r in receivers if r != sender]
        seen["to_self", "overall", 0, -1] += messages * (len(receivers) - len(others))
        reached = [r for r in others if r in homes and sender in homes]
        seen["homeless", "overall", 0, -1] += messages * (len(others) - len(reached))
        if sender not in homes:
            seen["homeless_messages", "overall", 0, -1] += messages
            continue
        home = homes[sender]
        seen["sent", "broker", home, -1] += messages
        seen["sent", "region", region[home], -1] += messages
        least = steiner(graph, {home, *(homes[r] for r in reached)})
        for broker in least:
            seen["handled", "broker", broker, -1] += messages
            seen["handled_bytes", "broker", broker, -1] += size
            seen["backbone_load", "overall", 0, -1] += messages * (region[broker] == -1)
        for touched in {region[broker] for broker in least}:
            seen["handled", "region", touched, -1] += messages
        for link in least.edges:
            left, right = sorted(link)
            pair = sorted((region[left], region[right]))
            seen["messages", "link", left, right] += messages
            seen["bytes", "link", left, right] += size
            seen["cost", "link", left, right] += messages * graph.edges[link]["cost"]
            seen["cost", "overall", 0, -1] += messages * graph.edges[link]["cost"]
            seen["crossing_messages", "region pair", *pair] += messages
            seen["crossing_bytes", "region pair", *pair] += size
            seen["cost", "region pair", *pair] += messages * graph.edges[link]["cost"]
            across = pair[0] != pair[1]
            for scope, key in (("overall", 0), ("client", sender), ("topic", topic)):
                if key is not None:
                    seen["link_messages", scope, key, -1] += messages
                    seen["link_bytes", scope, key, -1] += size
                    seen["crossing_messages", scope, key, -1] += messages * across
                    seen["crossing_bytes", scope, key, -1] += size * across
        for receiver in reached:
            path = nx.shortest_path(graph, home, homes[receiver])
            latency = sum(graph.edges[link]["latency"] for link in nx.utils.pairwise(path))
            latency += access_of(observation, sender, home) + access_of(observation, receiver, homes[receiver])
            pair = sorted((region[home], region[homes[receiver]]))
            seen["deliveries", "overall", 0, -1] += messages
            seen["delivered_bytes", "overall", 0, -1] += size
            seen["deliveries", "region pair", *pair] += messages
            seen["delivered_bytes", "region pair", *pair] += size
            seen["broker_hops", "bin", len(path) - 1, -1] += messages
            seen["hops", "bin", len(path) + 1, -1] += messages
            seen["latency_us", "bin", latency, -1] += messages
    for client, broker in homes.items():
        assert client < observation.clients
        seen["clients", "broker", broker, -1] += 1
        seen["clients", "region", region[broker], -1] += 1
    return {name: amount for name, amount in seen.items() if amount}


def measured(metrics):
    rows = zip(metrics.metric, metrics.scope, metrics.key, metrics.other, metrics.value, strict=True)
    return {(str(m), str(s), int(k), int(o)): v for m, s, k, o, v in rows}


@given(replays())
def test_every_sum_is_what_following_each_message_by_hand_counts(drawn):
    observation, rows = drawn
    found = measured(replay(observation, observation.overlay, [batch_of(rows)], top=None))
    expected = by_hand(observation, rows)
    for name, amount in expected.items():
        assert found[name] == pytest.approx(amount), name
    sums = {(metric, scope) for metric, scope, _, _ in expected}
    for name, value in found.items():
        if name[:2] in sums and name not in expected:
            assert value == 0, name


@given(replays())
def test_means_shares_and_quantiles_follow_from_the_sums(drawn):
    observation, rows = drawn
    metrics = replay(observation, observation.overlay, [batch_of(rows)])
    of, found = metrics.of, measured(metrics)
    deliveries = of("deliveries")
    routed = of("messages") - of("homeless_messages")
    for metric in ("hops", "broker_hops", "latency_us"):
        bins = sorted((key, int(value)) for (m, s, key, _), value in found.items() if (m, s) == (metric, "bin"))
        assert sum(count for _, count in bins) == deliveries
        mean = sum(key * count for key, count in bins) / deliveries if deliveries else 0
        assert of(f"mean_{metric}") == pytest.approx(mean)
    each = np.repeat([key for key, _ in bins], [count for _, count in bins])
    for percent in (50, 95, 99):
        expected = np.quantile(each, percent / 100, method="inverted_cdf") if len(each) else 0
        assert of(f"p{percent}_latency_us") == expected
    assert of("crossings") == pytest.approx(of("link_messages") / routed if routed else 0)
    local = sum(v for (m, s, a, b), v in found.items() if (m, s) == ("deliveries", "region pair") and a == b)
    assert of("region_local_share") == pytest.approx(local / deliveries if deliveries else 0)
    assert of("local_share") == pytest.approx(found.get(("broker_hops", "bin", 0, -1), 0) / max(deliveries, 1))
    touched = found.get(("handled", "region", -1, -1), 0)
    assert of("backbone_share") == pytest.approx(touched / routed if routed else 0)
    handled = [v for (m, s, _, _), v in found.items() if (m, s) == ("handled", "broker")]
    carried = [v for (m, s, _, _), v in found.items() if (m, s) == ("messages", "link")]
    assert of("max_broker_load") == max(handled)
    assert of("max_link_load") == max(carried, default=0)


@given(replays())
def test_nothing_is_lost_silently(drawn):
    observation, rows = drawn
    of = replay(observation, observation.overlay, [batch_of(rows)]).of
    assert of("deliveries") + of("homeless") + of("to_self") == sum(r[2] * len(r[4]) for r in rows)


@given(replays())
def test_a_cut_share_is_what_can_no_longer_be_reached(drawn):
    """Take the broker (or the link) away, and count the deliveries whose two homes are then apart."""
    observation, rows = drawn
    metrics = replay(observation, observation.overlay, [batch_of(rows)])
    homes = dict(observation.overlay.placement.tolist())
    pairs = Counter()
    for sender, _, messages, _, receivers in rows:
        for r in receivers:
            if r != sender and r in homes and sender in homes:
                pairs[homes[sender], homes[r]] += messages
    whole = graph_of(observation)

    def lost(graph):
        gone = [n for (a, b), n in pairs.items() if a not in graph or b not in graph or not nx.has_path(graph, a, b)]
        return sum(gone) / pairs.total() if pairs else 0

    cuts = []
    for broker in list(whole):
        cut = whole.copy()
        cut.remove_node(broker)
        cuts.append(lost(cut))
        assert metrics.of("cut_share", "broker", broker) == pytest.approx(cuts[-1])
    for left, right in observation.overlay.tree.tolist():
        cut = whole.copy()
        cut.remove_edge(left, right)
        assert metrics.of("cut_share", "link", left, right) == pytest.approx(lost(cut))
    assert metrics.of("cut_share_max") == pytest.approx(max(cuts))


@given(replays(), st.data())
def test_splitting_anywhere_and_permuting_rows_changes_nothing(drawn, data):
    observation, rows = drawn
    route = routing(observation, observation.overlay)
    whole = route.finish(route.partial([batch_of(rows)]))
    shuffled = batch_of(data.draw(st.permutations(rows)))
    cut = data.draw(st.integers(0, len(rows)))
    slices = [shuffled.slice(0, cut), shuffled.slice(cut)]
    assert route.finish(route.partial(slices)) == whole
    tasks = [part for each in reversed(slices) for part in pickle.loads(pickle.dumps(route)).partial([each])]
    assert route.finish(tasks) == whole


@given(replays(), st.data())
def test_partial_rows_add_up_for_any_partition(drawn, data):
    observation, rows = drawn
    route = routing(observation, observation.overlay)
    task = data.draw(st.lists(st.integers(0, 2), min_size=len(rows), max_size=len(rows)))
    parts = []
    for number in range(3):
        mine = [r for r, t in zip(rows, task, strict=True) if t == number]
        parts += route.partial([batch_of(mine)])
    assert all(part.schema == PARTIAL for part in parts)
    whole = pa.Table.from_batches(route.partial([batch_of(rows)]))
    added = pa.Table.from_batches(parts).group_by(PARTIAL.names[:4]).aggregate([("amount", "sum")])
    by = [(name, "ascending") for name in PARTIAL.names[:4]]
    assert added.rename_columns(PARTIAL.names).sort_by(by).to_pylist() == whole.sort_by(by).to_pylist()
    assert route.finish(parts) == route.finish(whole.to_batches())


@given(replays(homeless=False))
def test_the_cost_is_the_tree_facet_s_on_classes_of_the_same_traffic(drawn):
    """Two implementations of OCBR07 (1) that know nothing of one another."""
    observation, rows = drawn
    groups = [sorted({r[0], *r[4]}) for r in rows]
    classes = Classes.of(groups, [r[2] for r in rows])
    classes = replace(classes, bytes=[r[3] for r in rows])
    observation = replace(observation, classes=classes)
    batch = batch_of(rows)
    metrics = replay(observation, observation.overlay, [batch])
    expected = tree_cost(observation, observation.overlay)
    assert metrics.of("cost") == pytest.approx(expected)
    network = observation.network
    price = {tuple(link): c for link, c in zip(network.links.tolist(), network.link_cost, strict=True)}
    over = sum(metrics.of("messages", "link", a, b) * price[a, b] for a, b in observation.overlay.tree.tolist())
    assert over == pytest.approx(expected)
    per_gb = replay(observation, observation.overlay, [batch], unit="gb").of("cost")
    assert per_gb == pytest.approx(tree_cost(observation, observation.overlay, weight="bytes") / 1e9)
    assert replay(observation, observation.overlay, [batch], unit="ms").of("cost") == metrics.of("cost")


@given(replays(homeless=False))
def test_messages_times_hops_is_the_placement_facet_s_cost_on_the_same_flows(drawn):
    observation, rows = drawn
    flows = [(r[0], to, r[2], r[3]) for r in rows for to in r[4] if to != r[0]]
    observation = replace(observation, flows=Flows(*np.array(flows, np.int64).reshape(-1, 4).T), sent=[], sent_bytes=[])
    metrics = replay(observation, observation.overlay, [batch_of(rows)])
    assert metrics.of("mean_broker_hops") * metrics.of("deliveries") == pytest.approx(
        placement_cost(observation, observation.overlay)
    )


@given(trees(2, 12), st.data())
def test_crossings_are_the_links_of_networkx_s_pruned_tree(tree, data):
    brokers, links = tree
    homes = data.draw(st.sets(st.integers(0, brokers - 1), min_size=1))
    observation = Observation(
        overlay=Overlay(placement=[(b, b) for b in range(brokers)], tree=links), network=Network(region=range(brokers))
    )
    sender = min(homes)
    metrics = replay(observation, observation.overlay, [batch_of([(sender, None, 1, 0, sorted(homes))])])
    assert metrics.of("crossings") == steiner(nx.Graph(links.tolist()), homes).number_of_edges()


@pytest.mark.parametrize(
    ("tree", "receivers", "crossings"),
    [
        ([(0, 1), (1, 2), (2, 3), (3, 4)], [4], 4),
        ([(0, 1), (1, 2), (2, 3), (3, 4)], [1, 2, 3, 4], 4),
        ([(0, 1), (1, 2), (2, 3), (3, 4)], [0], 0),
        ([(0, 1), (0, 2), (0, 3), (0, 4)], [1, 2], 2),
        ([(1, 0), (1, 2), (1, 3), (1, 4)], [2, 3, 4], 4),
    ],
)
def test_crossings_on_a_path_and_on_a_star(tree, receivers, crossings):
    overlay = Overlay(placement=[(b, b) for b in range(5)], tree=tree)
    observation = Observation(network=Network(region=[0] * 5), clients=5)
    metrics = replay(observation, overlay, [batch_of([(0, 7, 10, 1000, receivers)])])
    assert metrics.of("crossings") == crossings
    assert metrics.of("link_bytes") == 1000 * crossings
    if crossings:
        assert metrics.of("link_messages", "topic", 7) == 10 * crossings
        assert metrics.of("crossing_messages", "client", 0) == 0  # one region


def test_only_the_clients_and_topics_that_cause_most_are_kept():
    overlay = Overlay(placement=[(0, 0), (1, 0), (2, 0), (3, 1)], tree=[(0, 1)])
    observation = Observation(network=Network(region=[0, 1]), clients=4)
    rows = [(0, 0, 1, 1, [3]), (1, 1, 3, 1, [3]), (2, 2, 3, 1, [3])]
    metrics = replay(observation, overlay, [batch_of(rows)], top=1)
    kept = metrics.scope == "client"
    assert set(metrics.key[kept].tolist()) == {1}  # of two equal ones the lower id
    everyone = replay(observation, overlay, [batch_of(rows)], top=None)
    mine = (everyone.scope == "topic") & (everyone.metric == "link_messages")
    assert everyone.value[mine].tolist() == [1, 3, 3]


def test_many_pairs_of_sites_outgrow_the_first_table_and_are_worked_out_between_batches():
    brokers = 40
    overlay = Overlay(placement=[(b, b) for b in range(brokers)], tree=[(b - 1, b) for b in range(1, brokers)])
    observation = Observation(network=Network(region=[0] * brokers), clients=brokers)
    batch = batch_of([(b, None, b + 1, 1, list(range(brokers))) for b in range(brokers)])
    routes = routing(observation, overlay)
    whole = routes.finish(routes.partial([batch]))
    loads = TrafficSums(*(np.zeros(s, np.int64) for s in (5, (brokers, 5), 1, (brokers, 4), (0, 4))))
    pairs = route(rows_of(batch), routes.tree, routes.regions[1], routes.site, routes.home, loads, empty_pairs(2))
    _, deliveries, size = pairs.columns()
    assert len(deliveries) == brokers * (brokers - 1) // 2
    assert (deliveries.sum(), size.sum()) == (whole.of("deliveries"), whole.of("delivered_bytes"))
    with mock.patch("overlace.replay.routing.MOST_PAIRS", 100):
        assert routes.finish(routes.partial([batch.slice(b, 5) for b in range(0, brokers, 5)])) == whole


def test_clients_that_the_overlay_never_heard_of_are_homeless():
    overlay = Overlay(placement=[(0, 0), (1, 0)])
    observation = Observation(network=Network(region=[0]))
    rows = [(0, None, 2, 10, [1, 99]), (77, None, 3, 10, [0, 1, 77])]
    of = replay(observation, overlay, [batch_of(rows)]).of
    assert (of("messages"), of("deliveries"), of("to_self")) == (5, 2, 3)
    assert (of("homeless"), of("homeless_messages")) == (2 + 6, 3)


def test_no_traffic_measures_zeros():
    observation = Observation(network=Network(region=[0, -1]), overlay=Overlay(placement=[[0, 0]], tree=[[0, 1]]))
    route = routing(observation, observation.overlay)
    nothing = route.finish([])
    assert isinstance(nothing, Metrics)
    assert nothing == route.finish(route.partial([]))
    assert nothing.of("mean_hops") == nothing.of("p99_latency_us") == nothing.of("cut_share_max") == 0
    assert nothing.of("clients", "broker", 0) == 1


def test_a_routing_is_a_value():
    observation = Observation(network=Network(region=[0, 1]), overlay=Overlay(placement=[[0, 0]], tree=[[0, 1]]))
    route = routing(observation, observation.overlay, unit="gb")
    again = pickle.loads(pickle.dumps(route))
    assert again == route
    assert isinstance(again, Routing)
    with pytest.raises(AttributeError):
        route.unit = "ms"


def test_sums_that_an_engine_added_and_retyped_are_taken_as_they_are():
    observation = Observation(network=Network(region=[0]), overlay=Overlay(placement=[[0, 0], [1, 0]]))
    route = routing(observation, observation.overlay)
    batch = next(route.partial([batch_of([(0, 0, 1, 5, [1])])]))
    retyped = pa.RecordBatch.from_arrays(
        [batch["metric"].cast(pa.large_string()), *batch.columns[1:]], names=PARTIAL.names
    )
    assert route.finish([retyped]) == route.finish([batch])
    assert add_up([batch, batch]).overall("messages") == 2


def test_what_cannot_be_routed_is_said():
    network = Network(region=[0, 1, 2])
    observation = Observation(network=network, clients=3)
    line = [[0, 1], [1, 2]]
    with pytest.raises(NotObserved, match="brokers"):
        routing(Observation(), Overlay())
    with pytest.raises(BadOverlay, match="close a cycle"):
        routing(observation, Overlay(tree=[*line, [0, 2]]))
    with pytest.raises(BadOverlay, match="3 parts"):
        routing(observation, Overlay())
    with pytest.raises(BadOverlay, match="c1 is at two brokers"):
        routing(observation, Overlay(tree=line, placement=[[1, 0], [1, 2]]))
    with pytest.raises(BadOverlay, match="c1 is at b9"):
        routing(observation, Overlay(tree=line, placement=[[1, 9]]))
    with pytest.raises(BadOverlay, match="b0-b1 is not among"):
        sparse = replace(observation, network=replace(network, links=[[0, 2], [1, 2]]))
        routing(sparse, Overlay(tree=line))
    with pytest.raises(Unknown, match="GB"):
        routing(observation, Overlay(tree=line), unit="GB")
    batch = batch_of([(0, 0, 1, 1, [1])])
    route = routing(observation, Overlay(tree=line))
    with pytest.raises(BadTrace, match="no column receivers"):
        list(route.partial([batch.drop_columns("receivers")]))
    orphan = batch.drop_columns("receivers").append_column("receivers", pa.array([None], pa.list_(pa.int32())))
    with pytest.raises(BadTrace, match="1 of 1 values are empty"):
        list(route.partial([orphan]))
