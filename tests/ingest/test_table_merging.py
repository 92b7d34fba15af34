"""Merging tables: what is named is set, what is not named keeps its value."""

from itertools import permutations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from overlace.errors import BadTrace
from overlace.ingest.table_merging import RowCounts, changed_rows, counts_of, merge, unite_rows
from overlace.trace.digests import digest
from overlace.trace.tables import TIME, schema_of

SET = ("cost", "latency_us", "wired", "dials")
VALUES = {
    "cost": st.none() | st.floats(0, 9),
    "latency_us": st.none() | st.integers(0, 9),
    "wired": st.none() | st.booleans(),
    "dials": st.none() | st.integers(0, 4),
}
NEW = {"cost": None, "latency_us": None, "wired": True, "dials": None, "since": None, "until": None}


def table(rows, columns=SET):
    """Rows by (left, right), as a table that names these columns."""
    names = ["left", "right", *columns]
    listed = [(*key, *(row[c] for c in columns)) for key, row in rows.items()]
    kinds = [schema_of("links").field(name).type for name in names]
    cells = list(zip(*listed, strict=True)) or [[] for _ in names]
    return pa.table({n: pa.array(c, k) for n, c, k in zip(names, cells, kinds, strict=True)})


def held(merged):
    """A table of links as rows by key, each key once."""
    rows = {(row.pop("left"), row.pop("right")): row for row in merged.to_pylist()}
    assert len(rows) == merged.num_rows
    return rows


PAIR = st.tuples(st.integers(0, 2), st.integers(3, 4))
FILE = st.dictionaries(PAIR, st.fixed_dictionaries(VALUES), max_size=6)
NONE = schema_of("links").empty_table()
TRACE = FILE.map(lambda rows: merge(NONE, table(rows), "links"))


@given(TRACE, FILE, st.sets(st.sampled_from(SET)))
def test_a_merge_is_what_plain_python_says(old, file, columns):
    expected = held(old)
    for key, row in file.items():
        kept = expected.get(key, NEW)
        expected[key] = {**kept, **{c: row[c] for c in columns if row[c] is not None}}
    merged = merge(old, table(file, sorted(columns)), "links")
    assert held(merged) == expected
    counts = counts_of(old, merged)
    before = held(old)
    assert counts.new == len(expected.keys() - before.keys())
    assert counts.changed == sum(before[key] != expected[key] for key in before)
    assert sum(counts) == merged.num_rows


@given(TRACE, FILE)
def test_disjoint_columns_give_the_same_table_in_any_order(old, file):
    found = set()
    for order in permutations((("cost",), ("latency_us", "dials"), ("wired",))):
        merged = old
        for columns in order:
            merged = merge(merged, table(file, columns), "links")
        found.add(digest(merged))
    assert found == {digest(merge(old, table(file), "links"))}


@given(TRACE)
def test_rows_that_name_nothing_new_change_nothing(old):
    rows = held(old)
    for columns in ((), SET):
        merged = merge(old, table(rows, columns), "links")
        assert merged.equals(merge(old, table({}), "links"))
        assert counts_of(old, merged) == RowCounts(0, 0, old.num_rows)


@given(TRACE, FILE)
def test_merging_twice_is_merging_once(old, file):
    once = merge(old, table(file), "links")
    assert merge(once, table(file), "links").equals(once)


@given(FILE, FILE)
def test_rows_of_several_sources_are_united_as_if_merged(first, second):
    parts = [merge(NONE, table(each), "links") for each in (first, second)]
    united = unite_rows(pa.concat_tables(parts), "links")
    assert held(united) == held(merge(parts[0], parts[1], "links"))


def test_the_lives_of_a_link_are_told_apart_by_since():
    def links(cost, since=None, right=(1, 1)):
        columns = {"left": pa.array([0] * len(right), pa.int32()), "right": pa.array(right, pa.int32())}
        columns |= {"cost": cost} if cost else {}
        return pa.table({**columns, **({"since": pa.array(since, TIME)} if since else {})})

    two = merge(NONE, links([1.0, 2.0], [5, 9]), "links")
    assert merge(two, links([7.0], right=[1]), "links")["cost"].to_pylist() == [7, 7]
    assert merge(two, links([7.0], [9], right=[1]), "links")["cost"].to_pylist() == [1, 7]
    assert merge(two, links([7.0], [11], right=[1]), "links")["cost"].to_pylist() == [1, 2, 7]
    one = merge(NONE, links([1.0], right=[1]), "links")
    (dated,) = merge(one, links(None, [5], right=[1]), "links").to_pylist()
    assert dated["since"] is not None
    assert dated["cost"] == 1.0
    assert unite_rows(two, "links").num_rows == 2


def test_two_rows_with_one_key_are_refused_and_so_is_a_new_row_without_what_it_needs():
    with pytest.raises(BadTrace, match="f.csv: rows 1 and 3 have the same left, right. Keep one of them"):
        merge(NONE, pa.table({"left": [0, 0, 0], "right": [1, 2, 1]}), "links", where="f.csv")
    channels = schema_of("channels").empty_table()
    with pytest.raises(BadTrace, match="f.csv: row 2: channel is empty. A new row of channels needs it"):
        merge(channels, pa.table({"combination": [1, 2], "channel": [0, None]}), "channels", where="f.csv")


def test_null_is_a_value_of_a_key():
    rows = {"client": [0, 0], "topic": [1, None], "filter": [None, "a/#"], "group": ["g", None]}
    old = merge(schema_of("subscriptions").empty_table(), pa.table(rows), "subscriptions")
    again = merge(old, pa.table({**rows, "bound_ms": [5.0, None]}), "subscriptions")
    assert again["bound_ms"].to_pylist() == [5, None]
    assert changed_rows(old, again).tolist() == [True, False]
    assert merge(old, pa.table({"client": [0], "topic": [1]}), "subscriptions").num_rows == 3  # of no group
