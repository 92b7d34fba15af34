from itertools import pairwise

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from overlace.errors import BadTrace, Unknown
from overlace.trace.tables import TABLES, conform, groups, lists, schema_of

COLUMNS = {
    "messages": "message at client topic? attributes? bytes? audience? weight",
    "traffic": "bucket client topic? attributes? audience messages rows bytes",
    "clients": "client region? max_degree? since? until?",
    "subscriptions": "client topic? filter? dialect? group? attributes? bound_ms? since? until?",
    "brokers": "broker region? since? until? cost capacity? max_degree? group?",
    "links": "left right cost? latency_us? wired dials? since? until?",
    "metrics": "run metric scope key other? value",
}


@pytest.mark.parametrize("name", COLUMNS)
def test_columns_are_those_of_the_contract(name):
    assert " ".join(f.name + "?" * f.nullable for f in schema_of(name)) == COLUMNS[name]


@pytest.mark.parametrize("name", TABLES)
def test_an_empty_table_of_each_kind_conforms_and_times_are_utc(name):
    schema = schema_of(name)
    assert conform(schema.empty_table(), name).schema == schema
    assert all(f.type.tz == "UTC" for f in schema if pa.types.is_timestamp(f.type))


def test_types_are_widened_and_optional_columns_filled():
    table = conform(pa.table({"client": [1, 2], "broker": pa.array([3, 4], pa.int64())}), "sessions")
    assert table.schema == schema_of("sessions")
    assert table["since"].null_count == 2


@pytest.mark.parametrize(
    ("columns", "says"),
    [
        ({"client": [1]}, "columns missing: broker"),
        ({"client": [1], "broker": [2], "colour": [3]}, "not known: colour"),
        ({"client": [1], "broker": ["x"]}, "sessions.broker: expected int64, found string"),
        ({"client": [1], "broker": [2.5]}, "sessions.broker: expected int64"),
        ({"client": [1, None], "broker": [2, 3]}, "sessions.client: 1 of 2 rows are empty"),
    ],
)
def test_a_table_that_does_not_conform_is_told_what_differs(columns, says):
    with pytest.raises(BadTrace, match=says):
        conform(pa.table(columns), "sessions")


def test_an_unknown_table_is_answered_with_the_nearest_names():
    with pytest.raises(Unknown, match="Nearest: messages"):
        schema_of("mesages")


@given(st.lists(st.lists(st.integers(-5, 5), max_size=3), max_size=8), st.data())
def test_groups_are_the_rows_of_lists_also_of_a_part_of_them(rows, data):
    kind = data.draw(st.sampled_from([pa.list_(pa.int64()), pa.large_list(pa.int64())]))
    first = data.draw(st.integers(0, len(rows)))
    count = data.draw(st.integers(0, len(rows) - first))
    part = pa.array(rows, kind).slice(first, count)
    for column in (part, pa.chunked_array([part]), pa.chunked_array([part, part])):
        start, values = groups(column)
        found = [values[a:b].tolist() for a, b in pairwise(start.tolist())]
        assert found == column.to_pylist()
        assert start[0] == 0
        assert start[-1] == len(values)
        assert lists(start, values, kind).to_pylist() == found
