import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from overlace.arrays.csr import group, neighbours, sort_groups, take_groups
from overlace.arrays.pairs import as_pairs
from tests.strategies import links


@given(st.lists(st.integers(0, 6), max_size=30))
def test_groups_hold_the_rows_of_their_key_in_order(keys):
    start, order = group(np.array(keys, np.int64), 7)
    for key in range(7):
        assert order[start[key] : start[key + 1]].tolist() == [i for i, k in enumerate(keys) if k == key]


@given(links(8))
def test_each_link_stands_at_both_its_ends(given_links):
    pairs = as_pairs(given_links)
    start, other, link = neighbours(8, pairs)
    at = np.repeat(np.arange(8), np.diff(start))
    seen = set(zip(link.tolist(), at.tolist(), other.tolist(), strict=True))
    expected = {(k, *ends) for k, (a, b) in enumerate(pairs.tolist()) for ends in ((a, b), (b, a))}
    assert seen == expected


groups = st.lists(
    st.lists(st.integers(0, 50), max_size=6) | st.lists(st.integers(0, 50), min_size=30, max_size=50), max_size=8
)


@given(groups)
def test_groups_are_sorted_and_hold_each_member_once(given_groups):
    start = np.cumsum([0, *map(len, given_groups)])
    members = np.array([m for g in given_groups for m in g], np.int64)
    bounds, kept = sort_groups(start, members)
    found = [kept[bounds[i] : bounds[i + 1]].tolist() for i in range(len(given_groups))]
    assert found == [sorted(set(g)) for g in given_groups]


@given(groups, st.data())
def test_some_groups_are_taken_in_the_order_asked_for(given_groups, data):
    start = np.cumsum([0, *map(len, given_groups)])
    members = np.array([m for g in given_groups for m in g], np.int64)
    chosen = data.draw(st.lists(st.integers(0, len(given_groups) - 1), max_size=9) if given_groups else st.just([]))
    bounds, taken = take_groups(start, members, np.array(chosen, np.int64))
    assert [taken[bounds[i] : bounds[i + 1]].tolist() for i in range(len(chosen))] == [given_groups[c] for c in chosen]
