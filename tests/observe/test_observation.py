from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overlace.errors import BadOverlay, BadParameter, BadTrace
from overlace.observe.cut import cut
from overlace.observe.tables import at_end, at_some_time, before_end
from overlace.observe.traffic import traffic_of
from overlace.trace.store import DAY_US, HOUR_US
from overlace.trace.tables import TIME
from tests.observe.brute import observed, of_observation
from tests.trace.test_traffic import some
from tests.traces import names_in, observe, trace_of


def times(values):
    return pa.array(values, pa.int64()).cast(TIME)


@settings(max_examples=25)
@given(some)
def test_an_observation_is_what_plain_python_counts(tmp_path_factory, messages):
    logged = [(at, c, t, b, r or []) for at, c, t, b, r in messages]
    trace = trace_of(tmp_path_factory.mktemp("t") / "trace", logged)
    plain = [{"client": f"c{c}", "receivers": [f"c{x}" for x in r], "bytes": b} for _, c, _, b, r in logged]
    assert of_observation(observe(trace), trace.names) == observed(plain)


@settings(max_examples=25)
@given(some, st.integers(0, 5 * HOUR_US), st.integers(0, 5 * HOUR_US))
def test_a_window_that_cuts_a_bucket_holds_exactly_its_messages(tmp_path_factory, messages, a, b):
    since, until = min(a, b), max(a, b) + 1
    logged = [(at, c, t, size, r or []) for at, c, t, size, r in messages]
    trace = trace_of(tmp_path_factory.mktemp("t") / "trace", logged)
    inside = [m for m in logged if since <= m[0] < until]
    plain = [{"client": f"c{c}", "receivers": [f"c{x}" for x in r], "bytes": size} for _, c, _, size, r in inside]
    names = names_in(trace, (since, until))
    flows, classes, sent = of_observation(observe(trace, (since, until)), names)
    assert (flows, classes, sent) == observed(plain)


def test_receivers_that_were_not_logged_follow_from_subscriptions_of_their_bucket(tmp_path):
    subscriptions = {
        "client": [1, 2, 3],
        "topic": pa.array([0, 0, None], pa.int32()),
        "filter": pa.array([None, None, "#"]),
        "dialect": pa.array([None, None, "mqtt"]),
        "since": times([None, HOUR_US, None]),
        "until": times([HOUR_US, None, None]),
    }
    messages = [(5, 0, 0, 1, None), (HOUR_US + 5, 0, 0, 1, None), (HOUR_US + 6, 0, 1, 1, None), (7, 0, None, 1, None)]
    trace = trace_of(tmp_path / "t", messages, {"client": ["c0", "c1", "c2", "c3"]}, subscriptions=subscriptions)
    rows = [(r["topic"], r["receivers"]) for r in traffic_of(trace).to_pylist()]
    assert sorted(rows, key=str) == [(0, [1, 3]), (0, [2, 3]), (1, [3]), (None, [])]


@pytest.mark.parametrize("messages", [1, 7, 12])
def test_groups_take_turns_lowest_id_first(tmp_path, messages):
    subscriptions = {
        "client": [1, 2, 3, 4, 5, 6],
        "topic": pa.array([0] * 6, pa.int32()),
        "group": ["a", "a", "b", "b", "b", None],
    }
    log = [(i, 0, 0, 10, None) for i in range(messages)]
    trace = trace_of(tmp_path / "t", log, {"client": [f"c{i}" for i in range(7)]}, subscriptions=subscriptions)
    rows = traffic_of(trace).to_pylist()
    assert sum(r["messages"] for r in rows) == messages
    assert sum(r["bytes"] for r in rows) == 10 * messages
    got = Counter()
    for row in rows:
        for receiver in row["receivers"]:
            got[receiver] += row["messages"]
    assert got[6] == messages
    assert [got[1], got[2]] == [(messages + 1) // 2, messages // 2]
    assert [got[3], got[4], got[5]] == [(messages + 2) // 3, (messages + 1) // 3, messages // 3]


def test_groups_go_on_with_their_turns_from_bucket_to_bucket(tmp_path):
    subscriptions = {"client": [1, 2], "topic": pa.array([0, 0], pa.int32()), "group": ["a", "a"]}
    log = [(i * HOUR_US, 0, 0, 10, None) for i in range(20)]
    trace = trace_of(tmp_path / "t", log, {"client": ["c0", "c1", "c2"]}, subscriptions=subscriptions)
    got = Counter()
    for row in traffic_of(trace).to_pylist():
        got.update(dict.fromkeys(row["receivers"], row["messages"]))
    assert got == {1: 10, 2: 10}


@st.composite
def subscribed(draw):
    """Subscriptions as (client, topic, group, since, until), and messages whose receivers were not logged."""
    hour = st.none() | st.integers(0, 5 * HOUR_US)
    client, group = st.integers(0, 5), st.none() | st.sampled_from("ab")
    subscriptions = draw(st.lists(st.tuples(client, st.integers(0, 1), group, hour, hour), max_size=12))
    log = draw(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 5), st.integers(0, 1)), min_size=1, max_size=60))
    return subscriptions, [(h * HOUR_US, c, t, 10, None) for h, c, t in log]


@settings(max_examples=50)
@given(subscribed())
def test_unlogged_messages_are_dealt_out_as_one_by_one(tmp_path_factory, drawn):
    """Message n of a topic goes to member n modulo k of each group of k; messages by bucket, client, topic."""
    subscriptions, log = drawn
    columns = list(zip(*subscriptions, strict=True)) or [()] * 5
    table = {"client": pa.array(columns[0], pa.int32()), "topic": pa.array(columns[1], pa.int32())}
    table |= {"group": pa.array(columns[2], pa.string()), "since": times(columns[3]), "until": times(columns[4])}
    names = {"client": [f"c{i}" for i in range(6)]}
    trace = trace_of(tmp_path_factory.mktemp("t") / "trace", log, names, subscriptions=table)
    expected, count = Counter(), Counter()
    for at, sender, topic, _, _ in sorted(log):
        live = [s for s in subscriptions if s[1] == topic and (s[3] is None or s[3] < at + HOUR_US)]
        live = [s for s in live if s[4] is None or s[4] > at]
        chosen = {s[0] for s in live if s[2] is None}
        for group in {s[2] for s in live} - {None}:
            members = sorted({s[0] for s in live if s[2] == group})
            chosen.add(members[count[topic] % len(members)])
        count[topic] += 1
        expected[sender, topic, tuple(sorted(chosen))] += 1
    found, rows = Counter(), traffic_of(trace).to_pylist()
    for row in rows:
        found[row["client"], row["topic"], tuple(row["receivers"])] += row["messages"]
    assert found == expected
    assert sum(row["bytes"] for row in rows) == 10 * len(log)


def test_home_is_the_last_session_open_in_the_window(tmp_path):
    sessions = {
        "client": [0, 0, 1, 2],
        "broker": [0, 1, 1, 0],
        "since": times([None, 100, None, 900]),
        "until": times([100, 800, 50, None]),
    }
    trace = trace_of(
        tmp_path / "t", [(5, 0, 0, 1, [1])], {"broker": ["x", "y"], "client": ["a", "b", "c"]}, sessions=sessions
    )
    assert observe(trace, (0, 90)).overlay.placement.tolist() == [[0, 0], [1, 1]]
    assert observe(trace, (60, 500)).overlay.placement.tolist() == [[0, 1]]
    assert observe(trace, (0, 1000)).overlay.placement.tolist() == [[0, 1], [1, 1], [2, 0]]


def test_the_network_is_that_of_the_end_of_the_window_and_a_cycle_is_named(tmp_path):
    links = {
        "left": [0, 1, 0], "right": [1, 2, 2], "cost": [1.0, 2.0, 3.0], "wired": [True, True, True],
        "since": times([None, None, 500]), "until": times([None, None, None]),
    }  # fmt: skip
    names = {"broker": ["oslo", "rome", "paris"]}
    brokers = {"broker": [0, 1, 2], "region": [0, 0, 1], "cost": [1.0, 1.0, 4.0]}
    trace = trace_of(tmp_path / "t", [(5, 0, 0, 1, [1])], names, links=links, brokers=brokers)
    found = observe(trace, (0, 100))
    assert found.overlay.tree.tolist() == [[0, 1], [1, 2]]
    assert found.network.broker_cost.tolist() == [1, 1, 4]
    with pytest.raises(BadOverlay, match="rome-paris close a cycle"):
        observe(trace, (0, 1000))


def log_of(days, per_day=10, start=4 * DAY_US):
    return [(start + d * DAY_US + i * HOUR_US, 0, 0, 1, [1]) for d in range(days) for i in range(per_day)]


@pytest.mark.parametrize(("days", "unit"), [(1, HOUR_US), (5, DAY_US), (21, 7 * DAY_US)])
def test_the_cut_is_a_whole_bucket_day_or_week(tmp_path, days, unit):
    trace = trace_of(tmp_path / "t", log_of(days))
    parts = cut(trace, 0.6)
    assert (parts.train[1] - 4 * DAY_US) % unit == 0
    assert parts.train[0] == 4 * DAY_US
    assert parts.held_out[0] == parts.train[1] < parts.held_out[1]
    assert parts.share >= 0.6
    earlier = np.mean([m[0] < parts.train[1] - unit for m in log_of(days)])
    assert earlier < 0.6


def test_a_log_that_cannot_be_cut_is_told_so(tmp_path):
    short = trace_of(tmp_path / "a", [(5, 0, 0, 1, [1])])
    with pytest.raises(BadTrace, match="too short to cut"):
        cut(short)
    assert cut(short, 1).train == (0, HOUR_US)
    with pytest.raises(BadParameter, match="train is 0"):
        cut(short, 0)
    assert cut(trace_of(tmp_path / "b", [])).train == (0, 0)


def test_a_cut_between_weekdays_and_weekend_is_warned_of(tmp_path):
    trace = trace_of(tmp_path / "t", log_of(7))  # Monday to Sunday
    assert "from weekends" in cut(trace, 0.7).warning
    assert cut(trace_of(tmp_path / "u", log_of(28)), 0.5).warning == ""


HOP = (5, 0, 0, 1, [1])
THREE = {"broker": ["x", "y", "z"], "client": ["a", "b"]}


def links_of(*rows):
    left, right, cost, wired = zip(*rows, strict=True)
    return {"left": left, "right": right, "cost": pa.array(cost, pa.float64()), "wired": wired}


def test_where_no_cost_is_known_every_link_counts_one_and_may_be_wired(tmp_path):
    links = links_of((0, 1, None, True), (1, 2, None, True), (0, 2, None, False))
    network = observe(trace_of(tmp_path / "t", [HOP], THREE, links=links)).network
    assert network.links.tolist() == [[0, 1], [0, 2], [1, 2]]
    assert network.link_cost.tolist() == [1, 1, 1]


def test_where_some_costs_are_known_a_link_without_is_no_candidate(tmp_path):
    links = links_of((0, 1, 4.0, True), (1, 2, 3.0, True), (0, 2, None, False))
    found = observe(trace_of(tmp_path / "t", [HOP], THREE, links=links))
    assert found.network.links.tolist() == [[0, 1], [1, 2]]
    assert found.network.link_cost.tolist() == [4, 3]
    assert found.overlay.tree.tolist() == [[0, 1], [1, 2]]


def test_a_wired_link_without_a_cost_among_others_that_have_one_is_refused_by_name(tmp_path):
    links = links_of((0, 1, 4.0, True), (1, 2, None, True))
    with pytest.raises(BadTrace, match="link y-z: wired, but without a cost, where 1 other link.* --table links"):
        observe(trace_of(tmp_path / "t", [HOP], THREE, links=links))


def test_a_cost_that_comes_after_the_window_decides_nothing_in_it(tmp_path):
    links = links_of((0, 1, None, True), (1, 2, None, True), (0, 2, 7.0, False))
    links["since"] = times([None, None, 2 * HOUR_US])
    assert observe(trace_of(tmp_path / "t", [HOP], THREE, links=links), (0, HOUR_US)).network.link_cost.tolist() == [
        1,
        1,
    ]


def test_a_broker_without_a_region_is_one_of_its_own_and_not_the_backbone(tmp_path):
    def regions(name, given, **names):
        brokers = {"broker": [0, 1, 2], "region": pa.array(given, pa.int32()), "cost": [1.0] * 3}
        return observe(trace_of(tmp_path / name, [HOP], {**THREE, **names}, brokers=brokers)).network.region.tolist()

    assert regions("none", [None] * 3) == [0, 1, 2]
    assert regions("some", [None, 1, -1]) == [2, 1, -1]
    assert regions("named", [None, 0, None], region=["eu", "us"]) == [2, 0, 4]


def test_brokers_and_clients_that_come_after_the_window_or_went_before_it_are_not_there(tmp_path):
    late = {"since": times([None, None, 5 * HOUR_US]), "until": times([None, HOUR_US, None])}
    brokers = {"broker": [0, 1, 2], "cost": [1.0, 2.0, 3.0], **late}
    clients = {"client": [0, 1, 2], "region": pa.array([0, 1, 1], pa.int32()), **late}
    log, names = [HOP, (5 * HOUR_US, 0, 0, 1, [0])], {"client": ["a", "b", "c"]}
    trace = trace_of(tmp_path / "t", log, names, brokers=brokers, clients=clients)
    assert observe(trace, (0, HOUR_US)).network.broker_cost.tolist() == [1, 2]
    assert observe(trace, (0, HOUR_US)).clients == 2
    assert observe(trace, (2 * HOUR_US, 6 * HOUR_US)).network.broker_cost.tolist() == [1, 3]
    assert observe(trace, (2 * HOUR_US, 6 * HOUR_US)).network.client_region.tolist() == [0, -1, 1]


CHAIN = links_of((0, 1, 1.0, True), (0, 2, 1.0, True), (2, 3, 1.0, True))
FOUR = {"broker": ["w", "x", "y", "z"], "client": ["a", "b"]}


def test_a_link_lasts_no_longer_than_its_brokers_where_it_says_nothing(tmp_path):
    """x leaves before the window ends and z comes after it: what says no times of its own goes and comes with them."""
    times_of = {"since": times([None, None, None, 2 * HOUR_US]), "until": times([None, HOUR_US // 2, None, None])}
    brokers = {"broker": [0, 1, 2, 3], "cost": [1.0, 2.0, 3.0, 4.0], **times_of}
    sessions = {"client": [0, 0, 1], "broker": [0, 1, 3], "since": times([None, 5, None])}
    log = [HOP, (5 * HOUR_US, 0, 0, 1, [1])]
    trace = trace_of(tmp_path / "t", log, FOUR, brokers=brokers, links=CHAIN, sessions=sessions)
    then = observe(trace, (0, HOUR_US))
    assert names_in(trace, (0, HOUR_US))["broker"] == ["w", "y"]
    assert then.network.broker_cost.tolist() == [1, 3]
    assert then.overlay.tree.tolist() == then.network.links.tolist() == [[0, 1]]
    assert then.overlay.placement.tolist() == [[0, 0]]  # a was at x last, which has left; b is at z, to come
    now = observe(trace)
    assert names_in(trace)["broker"] == ["w", "y", "z"]
    assert now.overlay.tree.tolist() == [[0, 1], [1, 2]]
    assert now.overlay.placement.tolist() == [[0, 0], [1, 2]]


def test_a_row_holds_from_its_first_moment_up_to_its_last(tmp_path):
    """What begins at the end of a window is not in it, what ends there is open; what ended as it began is not."""
    rows = {"since": np.array([0, 9, 10, 0, 0]), "until": np.array([99, 99, 99, 10, 5]), "n": np.arange(5)}
    assert at_end(rows, (5, 10))["n"].tolist() == [0, 1, 3]
    assert at_some_time(rows, (5, 10))["n"].tolist() == [0, 1, 3]
    assert at_some_time(rows, (4, 10))["n"].tolist() == [0, 1, 3, 4]
    assert before_end(rows, (5, 10))["n"].tolist() == [0, 1, 3, 4]


def test_a_subscription_that_comes_later_in_a_bucket_hears_nothing_in_a_window_that_ends_before_it(tmp_path):
    subscriptions = {"client": [1, 2], "topic": pa.array([0, 0], pa.int32()), "since": times([None, 600])}
    log = [(5, 0, 0, 1, None), (700, 0, 0, 1, None)]
    trace = trace_of(tmp_path / "t", log, {"client": ["a", "b", "c"]}, subscriptions=subscriptions)
    assert observe(trace, (0, 600)).flows.receiver.tolist() == [1]
    assert observe(trace, (0, 601)).flows.receiver.tolist() == [1, 2]
