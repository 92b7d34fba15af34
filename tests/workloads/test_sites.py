import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overlace.arrays.draws import scattered, uniform
from overlace.errors import BadParameter
from overlace.trace.tables import conform
from overlace.workloads.sites import DAY_US, HOUR_US, MONDAY_US, Sites

SMALL = Sites(messages=5000, clients=80, topics=50, days=14)


@settings(max_examples=20)
@given(st.integers(0, 4999), st.integers(0, 4999), st.sampled_from([{}, {"turns": 0.5}, {"scatter": True}]))
def test_any_part_is_that_part_of_the_whole(a, b, hard):
    first, last = min(a, b), max(a, b) + 1
    workload = Sites(messages=5000, clients=80, topics=50, **hard)
    whole, part = workload.part(0, 5000), workload.part(first, last - first)
    for name in ("at", "client", "topic", "bytes"):
        assert np.array_equal(whole[name][first:last], part[name])
    low, high = whole["start"][first], whole["start"][last]
    assert np.array_equal(whole["receivers"][low:high], part["receivers"])


def test_messages_come_in_order_of_time_and_follow_day_and_week():
    at = SMALL.part(0, 5000)["at"]
    assert (np.diff(at) >= 0).all()
    assert at[0] >= MONDAY_US
    assert at[-1] < MONDAY_US + 14 * DAY_US
    hour = (at - MONDAY_US) // HOUR_US
    day = np.bincount(hour // 24)
    assert day[5] < day[4] / 2  # Saturday
    by_hour = np.bincount(hour % 24, minlength=24)
    assert by_hour[3] < by_hour[13] / 2


def test_nobody_receives_their_own_message_and_receivers_are_sorted_and_distinct():
    for workload in (SMALL, Sites(messages=2000, clients=30, topics=10, scatter=True)):
        part = workload.part(0, 2000)
        for i in range(2000):
            mine = part["receivers"][part["start"][i] : part["start"][i + 1]].tolist()
            assert mine == sorted(set(mine))
            assert part["client"][i] not in mine


def test_hard_variants_are_hard():
    loud = Sites(messages=5000, clients=80, topics=50, loud=0.6).part(0, 5000)
    assert np.mean(loud["client"] == 0) == pytest.approx(0.6, abs=0.03)
    wide = Sites(messages=100, clients=12_000, topics=20, fan_out=10_000)
    assert np.diff(wide.world.start).max() == 10_000
    turning = Sites(messages=5000, clients=80, topics=50, turns=1.0).part(0, 5000)
    assert np.diff(turning["start"]).max() == 1
    spread = Sites(messages=1000, clients=500, topics=50, scatter=True, subscribers=8).part(0, 1000)
    sets = {tuple(spread["receivers"][spread["start"][i] : spread["start"][i + 1]]) for i in range(1000)}
    assert len(sets) > 990


def test_locality_is_the_share_of_local_subscribers():
    for locality in (0.0, 1.0):
        workload = Sites(clients=2000, topics=500, locality=locality)
        topic = np.repeat(np.arange(500), np.diff(workload.world.start))
        same = workload.world.topic_region[topic] == workload.world.region[workload.world.subscriber]
        assert same.mean() == pytest.approx(1.0 if locality else 1 / 6, abs=0.06)


def test_the_tables_of_the_world_conform_and_the_wired_links_are_a_tree():
    tables = SMALL.tables()
    for name, table in tables.items():
        conform(table, name)
    wired = tables["links"].filter(tables["links"]["wired"])
    assert wired.num_rows == 6 * 4 - 1


@pytest.mark.parametrize(
    "bad",
    [
        *({"messages": 0}, {"messages": 1.5}, {"clients": 1}, {"clients": True}, {"locality": 1.5}, {"seed": -1}),
        *({"fan_out": 10**9}, {"fan_out": -1}, {"zipf": float("nan")}, {"zipf": -1}, {"loud": float("inf")}),
    ],
)
def test_parameters_out_of_range_are_refused(bad):
    with pytest.raises(BadParameter, match=next(iter(bad))):
        Sites(**bad)


def test_draws_depend_only_on_their_place():
    whole = uniform(3, 1, 0, 1000)
    assert np.array_equal(whole[400:600], uniform(3, 1, 400, 200))
    assert abs(whole.mean() - 0.5) < 0.05
    assert not np.array_equal(whole, uniform(4, 1, 0, 1000))
    _, members = scattered(1, 2, np.array([7, 8]), 3, 5)
    assert len(set(members[:3].tolist())) == 3
