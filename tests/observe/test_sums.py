import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from overlace.errors import BadObservation
from overlace.observe.sums import _classes, sums_of
from overlace.trace.traffic import TRAFFIC

rows_of_traffic = st.lists(
    st.tuples(
        st.integers(0, 6),
        st.none() | st.integers(0, 3),
        st.integers(1, 9),
        st.integers(0, 5000),
        st.sets(st.integers(0, 6), max_size=5).map(sorted),
    ),
    max_size=25,
)


def batch_of(rows):
    columns = zip(*rows, strict=True) if rows else [()] * len(TRAFFIC)
    arrays = [pa.array(list(values), f.type) for values, f in zip(columns, TRAFFIC, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=TRAFFIC)


def same(a, b):
    return all(np.array_equal(x, y) for mine, other in zip(a, b, strict=True) for x, y in zip(mine, other, strict=True))


@given(rows_of_traffic, st.randoms(use_true_random=False), st.data())
def test_any_split_and_any_order_of_the_rows_adds_up_to_the_same(rows, random, data):
    whole = sums_of([batch_of(rows)])
    shuffled = random.sample(rows, len(rows))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(rows)), max_size=3)))
    assert same(sums_of(batch_of(shuffled[a:b]) for a, b in zip([0, *cuts], [*cuts, len(rows)], strict=True)), whole)


def test_no_traffic_adds_up_to_nothing():
    nothing = sums_of([])
    assert nothing.clients == 0
    assert same(nothing, sums_of([batch_of([])]))
    assert [len(each) for each in nothing.objects()[1:]] == [0]


def test_two_classes_with_one_hash_are_not_taken_for_one(monkeypatch):
    monkeypatch.setattr("overlace.observe.sums.hash_groups", lambda start, members: np.full(len(start) - 1, 7))
    one = np.ones(2, np.int64)
    with pytest.raises(BadObservation, match="have the hash 7"):
        _classes(np.array([0, 2, 4]), np.array([0, 1, 0, 2]), one, one)
