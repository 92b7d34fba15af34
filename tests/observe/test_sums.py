import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overlace.errors import BadObservation
from overlace.observe.observation import observe
from overlace.observe.sums import SUMS, _classes, finish, partial
from overlace.trace.traffic import TRAFFIC
from tests.trace.test_traffic import some
from tests.traces import trace_of

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
    whole = finish(partial([batch_of(rows)]))
    shuffled = random.sample(rows, len(rows))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(rows)), max_size=3)))
    bounds = list(zip([0, *cuts], [*cuts, len(rows)], strict=True))
    slices = [batch_of(shuffled[a:b]) for a, b in bounds]
    assert same(finish(partial(slices)), whole)
    tasks = [out for each in slices for out in partial([each])]
    assert all(out.schema == SUMS for out in tasks)
    assert same(finish(tasks), whole)
    assert same(finish(reversed(tasks)), whole)


@settings(max_examples=20)
@given(some, st.integers(1, 5))
def test_an_observation_has_the_same_digest_whoever_runs_it_and_in_what_batches(tmp_path_factory, messages, size):
    trace = trace_of(tmp_path_factory.mktemp("t") / "trace", messages)

    def backwards(function, batches, schema):
        table = pa.Table.from_batches(batches, schema=TRAFFIC)
        for batch in reversed(table.to_batches(max_chunksize=size)):
            yield from function(iter([batch]))

    assert observe(trace, run=backwards).digest() == observe(trace).digest()


def test_no_traffic_adds_up_to_nothing():
    nothing = finish([])
    assert nothing.clients == 0
    assert same(nothing, finish(partial([])))
    assert [len(each) for each in nothing.objects()[1:]] == [0]


def test_two_classes_with_one_hash_are_not_taken_for_one(monkeypatch):
    monkeypatch.setattr("overlace.observe.sums.hash_groups", lambda start, members: np.full(len(start) - 1, 7))
    one = np.ones(2, np.int64)
    with pytest.raises(BadObservation, match="have the hash 7"):
        _classes(np.array([0, 2, 4]), np.array([0, 1, 0, 2]), one, one)
