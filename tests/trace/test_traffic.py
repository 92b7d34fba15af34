from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from overlace.arrays.hashing import distinct_groups, group_rows
from overlace.errors import BadTrace
from overlace.trace.digests import digest
from overlace.trace.ids import AUDIENCE_SALT, audience_of, xxhash64
from overlace.trace.store import HOUR_US
from overlace.trace.traffic import NONE, Messages, Reduction, add_up, distinct, merge, receivers_of, reduce
from tests.traces import columns

IDS = xxhash64(np.arange(5))
"""Of the clients that take part."""

some = st.lists(
    st.tuples(
        st.integers(0, 5 * HOUR_US),
        st.integers(0, 4),
        st.none() | st.integers(0, 3),
        st.integers(0, 9),
        st.none() | st.lists(st.integers(0, 4), max_size=4),
    ),
    min_size=1,
    max_size=30,
)


def sliced(messages: Messages, first: int, last: int) -> Messages:
    start = messages.start[first : last + 1]
    members = messages.receivers[start[0] : start[-1]]
    return Messages(*(each[first:last] for each in messages[:7]), start - start[0], members)


@given(some, st.data())
def test_traffic_is_what_counting_by_hand_gives(messages, data):
    """A message of weight n counts n times, its bytes too."""
    weights = data.draw(st.lists(st.integers(1, 3), min_size=len(messages), max_size=len(messages)))
    made = reduce(columns(messages)._replace(weight=np.array(weights, np.int64)), HOUR_US, IDS)
    start, members = receivers_of(made.audiences)
    audience = {
        h: tuple(members[start[i] : start[i + 1]].tolist())
        for i, h in enumerate(made.audiences["audience"].to_pylist())
    }
    found = Counter()
    for row in made.traffic.to_pylist():
        who = None if row["audience"] == 0 else audience[row["audience"]]
        key = (int(row["bucket"].timestamp()), row["client"], row["topic"], who)
        assert key not in found
        found[key] = (row["messages"], row["rows"], row["bytes"])
    expected = {}
    for (at, client, topic, size, receivers), weight in zip(messages, weights, strict=True):
        who = None if receivers is None else tuple(sorted(set(receivers)))
        key = (at // HOUR_US * 3600, client, topic, who)
        n, rows, total = expected.get(key, (0, 0, 0))
        expected[key] = (n + weight, rows + 1, total + weight * size)
    assert found == expected


@given(some, st.lists(st.integers(0, 30), max_size=4))
def test_parts_reduced_apart_and_merged_are_the_whole(messages, cuts):
    made = columns(messages)
    whole = reduce(made, HOUR_US, IDS)
    bounds = sorted({0, len(messages), *(c for c in cuts if c < len(messages))})
    parts = [reduce(sliced(made, a, b), HOUR_US, IDS) for a, b in zip(bounds, bounds[1:], strict=False)]
    merged = merge([*parts, Reduction(*(each.slice(0, 0) for each in whole))])
    assert merged.traffic.equals(whole.traffic)
    assert merged.audiences.equals(whole.audiences)


@given(some, st.randoms(use_true_random=False))
def test_digests_do_not_depend_on_the_order_and_add_up(messages, random):
    table = reduce(columns(messages), HOUR_US, IDS).traffic
    order = list(range(table.num_rows))
    random.shuffle(order)
    assert digest(table.take(order)) == digest(table)
    k = random.randint(0, table.num_rows)
    parts = [digest(table.slice(0, k)), digest(table.slice(k))]
    assert (sum(p[0] for p in parts), sum(p[1] for p in parts) % 2**64) == digest(table)


@given(some)
def test_a_changed_value_changes_the_digest(messages):
    table = reduce(columns(messages), HOUR_US, IDS).traffic
    more = table.set_column(5, table.schema.field(5), [[n + 1 for n in table["messages"].to_pylist()]])
    assert digest(more) != digest(table)


wide = st.integers(-3, 3) | st.sampled_from([NONE, np.iinfo(np.int64).max, -(2**40), 2**40])


@given(st.lists(st.tuples(wide, wide, wide, st.integers(0, 9)), min_size=1, max_size=40))
def test_rows_are_added_up_as_a_dictionary_would_whatever_their_range(rows):
    keys, (sums,) = add_up(*np.split(np.array(rows, np.int64).T, [3]))
    expected = Counter()
    for *key, value in rows:
        expected[tuple(key)] += value
    assert list(zip(zip(*(key.tolist() for key in keys), strict=True), sums.tolist(), strict=True)) == sorted(
        expected.items()
    )


@given(some, st.randoms(use_true_random=False))
def test_parts_in_any_order_and_rows_in_any_order_merge_to_the_same(messages, random):
    whole = reduce(columns(messages), 1_000_000, IDS)
    order = list(range(whole.traffic.num_rows))
    random.shuffle(order)
    k = random.randint(0, len(order))
    none = whole.audiences.slice(0, 0)
    parts = [
        Reduction(whole.traffic.take(pa.array(order[:k], pa.int64())), none),
        Reduction(whole.traffic.take(pa.array(order[k:], pa.int64())), whole.audiences),
        whole,
    ]
    merged = merge(parts)
    assert merged.traffic.drop_columns(["messages", "rows", "bytes"]).equals(
        whole.traffic.drop_columns(["messages", "rows", "bytes"])
    )
    assert (merged.traffic["messages"].to_numpy() == 2 * whole.traffic["messages"].to_numpy()).all()
    assert merged.audiences.equals(whole.audiences)


@given(st.lists(st.lists(st.integers(-3, 3), min_size=2, max_size=2), min_size=1, max_size=40))
def test_rows_are_grouped_as_a_dictionary_would(rows):
    group, first = group_rows(np.array(rows, np.int64))
    seen = {}
    for i, row in enumerate(rows):
        assert group[i] == seen.setdefault(tuple(row), len(seen))
        assert tuple(rows[first[group[i]]]) == tuple(row)


def test_two_audiences_with_one_hash_are_not_taken_for_one():
    hashes = np.array([7, 7])
    with pytest.raises(BadTrace, match="two different audiences have the hash 7"):
        distinct(hashes, np.array([0, 1, 2]), np.array([1, 2]))
    group, first, clash = distinct_groups(hashes, np.array([0, 1, 2]), np.array([3, 3]))
    assert (group.tolist(), first.tolist(), clash) == ([0, 0], [0], -1)
    assert audience_of(np.array([0, 0, 1]), np.array([0]))[0] == AUDIENCE_SALT != 0
    assert NONE < 0
