from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from overlace.errors import BadParameter, NotObserved
from overlace.model import Classes
from overlace.trace.store import HOUR_US
from reproductions.ocbr07.smoothing import Smoothing, expect, mean_classes
from tests.observe.test_observation import times
from tests.traces import observe, trace_of

groups = st.lists(
    st.sets(st.integers(0, 6), min_size=1, max_size=4).map(sorted), min_size=1, max_size=5, unique_by=tuple
)


def windows_of(draw_groups, demands):
    return [Classes.of(draw_groups, row[: len(draw_groups)]) for row in demands]


def by_members(classes):
    return {
        tuple(classes.members[classes.start[k] : classes.start[k + 1]].tolist()): int(classes.demand[k])
        for k in range(len(classes))
    }


@given(groups, st.lists(st.lists(st.integers(1, 999), min_size=5, max_size=5), min_size=1, max_size=6))
def test_a_forecast_is_the_weighted_mean_of_each_class(some, demands):
    smoothing = Smoothing(0.4)
    windows = windows_of(some, demands)
    weight = smoothing.weights(len(windows))
    assert weight.sum() == pytest.approx(1)
    assert np.all(np.diff(weight) > 0)
    found = by_members(smoothing.forecast(windows))
    for k, members in enumerate(some):
        mean = sum(w * row[k] for w, row in zip(weight, demands, strict=True))
        assert found.get(tuple(members), 0) == pytest.approx(mean, abs=0.6)


@given(groups, st.lists(st.integers(1, 999), min_size=5, max_size=5), st.integers(1, 6))
def test_traffic_that_stays_the_same_is_forecast_as_it_is(some, demand, count):
    windows = windows_of(some, [demand] * count)
    for smoothing in (Smoothing(), Smoothing(1.0), Smoothing(0.5, 2)):
        assert by_members(smoothing.forecast(windows)) == by_members(windows[0])


weights = st.sampled_from([[1.0], [0.5, 0.5], [0.25, 0.75], [0.125, 0.375, 0.5]])  # sums of these are exact


@given(groups, weights, st.data())
def test_a_class_has_its_rounded_mean_and_is_left_out_where_that_is_none(some, weight, data):
    rows = st.lists(st.integers(0, 3), min_size=len(some), max_size=len(some))
    demands = [data.draw(rows) for _ in weight]
    found = mean_classes([Classes.of(some, row) for row in demands], np.array(weight))
    means = [round(sum(w * row[k] for w, row in zip(weight, demands, strict=True))) for k in range(len(some))]
    assert by_members(found) == {tuple(each): mean for each, mean in zip(some, means, strict=True) if mean}
    assert (found.demand > 0).all()


def test_with_share_1_only_the_last_window_counts():
    windows = [Classes.of([[0, 1]], [100]), Classes.of([[1, 2]], [7])]
    assert by_members(Smoothing(1.0).forecast(windows)) == {(1, 2): 7}


def test_a_known_period_looks_only_at_the_same_hour():
    day = [Classes.of([[0, 1]], [100]), Classes.of([[1, 2]], [50]), Classes.of([[2, 3]], [20])]
    assert by_members(Smoothing(0.5, 3).forecast(day + day)) == {(0, 1): 100}
    assert by_members(Smoothing(0.5, 3).forecast([*day, *day, day[0]])) == {(1, 2): 50}
    assert len(Smoothing(0.5, 3).forecast(day[:2])) == 2  # no whole day yet: all windows count


def test_a_class_that_is_hardly_there_is_left_out():
    windows = [Classes.of([[0, 1]], [1]), Classes.of([[1, 2]], [100]), Classes.of([[1, 2]], [100])]
    assert by_members(Smoothing(0.5).forecast(windows)).keys() == {(1, 2)}


def test_many_windows_that_hardly_differ_in_weight_all_count():
    windows = [Classes.of([[0, 1]], [k % 2 * 100]) for k in range(3000)]
    assert np.all(Smoothing(1e-4).weights(3000) > 0)
    assert by_members(Smoothing(1e-4).forecast(windows)) == {(0, 1): 50}


def test_windows_that_are_too_old_weigh_nothing():
    weight = Smoothing(0.5).weights(100)
    assert weight.sum() == pytest.approx(1)
    assert np.count_nonzero(weight) == 10


HOURS = [(h * HOUR_US, (h + 1) * HOUR_US) for h in range(3)]


def test_the_next_window_is_expected_from_a_trace(tmp_path):
    """c0 writes to c1 in the first hour, to c2 in the second, to both in the third."""
    messages = [(5, 0, 0, 10, [1])] * 8 + [(HOUR_US + 5, 0, 0, 10, [2])] * 4 + [(2 * HOUR_US + 5, 0, 0, 10, [1, 2])] * 2
    trace = trace_of(tmp_path / "t", messages)
    windows = [observe(trace, each) for each in HOURS]
    found = expect(trace, HOURS, Smoothing(0.5))
    assert found.classes == Smoothing(0.5).forecast([each.classes for each in windows])
    assert by_members(found.classes) == {(0, 1): 1, (0, 2): 1, (0, 1, 2): 1}
    assert replace(found, classes=windows[-1].classes) == windows[-1]


def test_who_has_left_is_expected_in_no_class(tmp_path):
    messages = [(5, 0, 0, 10, [1, 2])] * 8 + [(2 * HOUR_US + 5, 0, 0, 10, [2])] * 8
    sessions = {
        "client": [0, 1, 2],
        "broker": [0, 0, 1],
        "since": times([None, None, None]),
        "until": times([None, HOUR_US, None]),
    }
    trace = trace_of(tmp_path / "t", messages, sessions=sessions)
    found = expect(trace, HOURS, Smoothing(0.1))
    assert by_members(found.classes).keys() == {(0, 2)}
    assert set(found.classes.members.tolist()) <= set(found.overlay.placement[:, 0].tolist())


def test_what_makes_no_sense_is_refused(tmp_path):
    for bad in ({"share": 0.0}, {"share": 1.5}, {"period": 0}):
        with pytest.raises(BadParameter, match=next(iter(bad))):
            Smoothing(**bad)
    with pytest.raises(NotObserved):
        Smoothing().forecast([])
    with pytest.raises(NotObserved, match="no window was named"):
        expect(trace_of(tmp_path / "t", [(5, 0, 0, 10, [1])]), [])
