import numpy as np
import pytest
from hypothesis import given, settings

from overlace.errors import BadParameter, NotObserved
from overlace.model import Network, Observation, Overlay
from reproductions.cc12.simulate import Arrivals, Delays, simulate
from tests.replay.traffic import batch_of, replay, replays


def arrivals_of(rows, gap=0):
    """One message per message of a row, one after the other."""
    messages = [(client, receivers) for client, _, count, _, receivers in rows for _ in range(count)]
    start = np.cumsum([0, *(len(r) for _, r in messages)])
    receivers = np.array([c for _, r in messages for c in r], dtype=np.int64)
    client = np.array([c for c, _ in messages], dtype=np.int64)
    return Arrivals(gap * np.arange(len(messages)), client, start, receivers)


def bins(metrics, name):
    mine = (metrics.metric == name) & (metrics.scope == "bin")
    return dict(zip(metrics.key[mine].tolist(), metrics.value[mine].tolist(), strict=True))


@settings(max_examples=40)
@given(replays())
def test_without_service_times_and_with_unit_links_latencies_are_the_hops_of_replay(given):
    observation, rows = given
    done = simulate(observation, observation.overlay, arrivals_of(rows), Delays(service_us=0, link_us=1, client_us=1))
    metrics = replay(observation, observation.overlay, [batch_of(rows)])
    hops, counts = np.unique(done.latency_us[done.latency_us >= 0], return_counts=True)
    assert dict(zip(hops.tolist(), counts.tolist(), strict=True)) == bins(metrics, "hops")
    assert done.homeless == metrics.of("homeless")


@settings(max_examples=25)
@given(replays())
def test_a_broker_serves_exactly_the_messages_that_replay_says_it_handles(given):
    observation, rows = given
    done = simulate(observation, observation.overlay, arrivals_of(rows, gap=3), Delays(service_us=50), seed=1)
    metrics = replay(observation, observation.overlay, [batch_of(rows)])
    for broker in range(observation.network.brokers):
        assert done.served[broker] == metrics.of("handled", "broker", broker)


def two_brokers():
    return Observation(
        overlay=Overlay(placement=[[0, 0], [1, 1], [2, 0]], tree=[[0, 1]]),
        network=Network(links=[[0, 1]], latency_us=[100]),
    )


def burst(n):
    return Arrivals(np.zeros(n, np.int64), np.zeros(n, np.int64), np.arange(n + 1), np.ones(n, np.int64))


def test_messages_queue_first_come_first_served():
    done = simulate(
        two_brokers(), two_brokers().overlay, burst(3), Delays(service_us=10, service="constant", client_us=1)
    )
    assert done.latency_us.tolist() == [122.0, 132.0, 142.0]
    assert done.busy_us.tolist() == [30.0, 30.0]
    assert done.longest_queue.tolist() == [2, 0]


def test_the_same_seed_gives_the_same_times_and_another_one_others():
    one, again, other = (simulate(two_brokers(), two_brokers().overlay, burst(20), seed=s) for s in (4, 4, 5))
    assert np.array_equal(one.latency_us, again.latency_us)
    assert not np.array_equal(one.latency_us, other.latency_us)
    many = simulate(two_brokers(), two_brokers().overlay, burst(4000), Delays(service_us=10))
    assert many.busy_us[0] / 4000 == pytest.approx(10, rel=0.1)


def test_what_cannot_be_simulated_is_said():
    with pytest.raises(NotObserved, match="brokers"):
        simulate(Observation(), Overlay(), burst(1))
    with pytest.raises(BadParameter, match="service_us"):
        simulate(two_brokers(), two_brokers().overlay, burst(1), Delays(service_us=-1))
    backwards = burst(2)._replace(at_us=np.array([5, 1]))
    with pytest.raises(BadParameter, match="order of time"):
        simulate(two_brokers(), two_brokers().overlay, backwards)
