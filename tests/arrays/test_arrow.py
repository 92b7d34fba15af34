"""Between Arrow and numpy (tables.py): what Arrow's own conversions say, without pandas."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from overlace.trace.tables import TIME, arrow, groups, lists, numbers, table_of, texts

KINDS = {pa.int32(): st.integers(-9, 9), pa.int64(): st.integers(-(2**63), 2**63 - 1), pa.bool_(): st.booleans()}
KINDS |= {pa.float64(): st.floats(-5, 5), TIME: st.integers(0, 10**15)}


@pytest.mark.parametrize("kind", KINDS, ids=str)
@given(data=st.data())
def test_numbers_are_those_of_arrow_whatever_the_slices_and_chunks(kind, data):
    values = data.draw(st.lists(st.none() | KINDS[kind], max_size=20))
    a, b = sorted(data.draw(st.tuples(*[st.integers(0, len(values))] * 2)))
    whole = pa.array(values, pa.int64()).cast(kind) if kind == TIME else pa.array(values, kind)
    cut = pa.chunked_array([whole[:a], whole[a:b], whole[b:]])
    for column, plain in ((whole, values), (cut, values), (whole[a:b], values[a:b]), (cut.slice(a), values[a:])):
        assert numbers(column, 0).tolist() == [0 if v is None else v for v in plain]
    missing = np.array([v is None for v in values], dtype=bool)
    again = arrow(numbers(whole, 0), kind, missing)
    assert again.equals(whole)
    again.validate(full=True)


def test_a_null_may_be_a_number_that_the_column_cannot_hold_but_never_nothing():
    column = pa.array([1, None], pa.int32())
    assert numbers(column, np.iinfo(np.int64).min).tolist() == [1, np.iinfo(np.int64).min]
    assert numbers(column, -1).dtype == np.int32
    with pytest.raises(ValueError, match="1 of 2 values are empty"):
        numbers(column)


@given(st.lists(st.lists(st.integers(0, 9), max_size=4), max_size=8), st.integers(0, 8))
def test_lists_go_there_and_back(rows, cut):
    for kind in (pa.list_(pa.int32()), pa.large_list(pa.int64())):
        column = pa.array(rows, kind)
        for each in (column, pa.chunked_array([column[:cut], column[cut:]]), pa.chunked_array([], kind)):
            start, values = groups(each)
            made = lists(start, values, kind)
            made.validate(full=True)
            assert made.to_pylist() == each.to_pylist()
        assert groups(column[cut:])[0][0] == 0


@given(st.lists(st.none() | st.text(max_size=5), max_size=10))
def test_texts_are_arrow_s_strings(words):
    assert texts(words).equals(pa.array(words, pa.string()))


def test_a_table_is_made_from_its_columns_in_order():
    made = table_of("names", ["client", "client"], np.array([0, 1]), texts(["a", "b"]), pa.nulls(2, TIME))
    assert made.to_pylist() == [
        {"kind": "client", "id": 0, "name": "a", "since": None},
        {"kind": "client", "id": 1, "name": "b", "since": None},
    ]
