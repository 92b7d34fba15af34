import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from overlace.arrays.pairs import as_pairs, difference, is_sorted, patch, positions, sort_pairs, undirected
from tests.strategies import rows

huge = st.lists(st.tuples(st.integers(-(2**63), 2**63 - 1), st.integers(-(2**63), 2**63 - 1)), max_size=10)

edges = st.sampled_from([-1, 0, 1, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**32 + 1])  # where packed keys would run over
at_edges = st.lists(st.tuples(edges, edges), max_size=10)


def listed(pairs):
    return [tuple(row) for row in pairs.tolist()]


@given(rows() | huge | at_edges)
def test_a_relation_is_its_rows_sorted_and_once(given_rows):
    assert listed(as_pairs(given_rows)) == sorted(set(given_rows))


@given(rows() | huge)
def test_sorted_is_strictly_ascending(given_rows):
    array = np.array(given_rows, np.int64).reshape(-1, 2)
    assert is_sorted(array) == all(a < b for a, b in itertools.pairwise(given_rows))


@given(rows() | huge, rows() | huge)
def test_the_difference_is_that_of_sets(a, b):
    removed, added = difference(as_pairs(a), as_pairs(b))
    assert listed(removed) == sorted(set(a) - set(b))
    assert listed(added) == sorted(set(b) - set(a))


@given(rows(), rows(), rows())
def test_a_patch_counts_what_does_not_fit(base, gone, new):
    base, gone, new = set(base), set(gone) - set(new), set(new)
    result, missing, present = patch(as_pairs(list(base)), as_pairs(list(gone)), as_pairs(list(new)))
    assert listed(result) == sorted((base - gone) | new)
    assert missing == len(gone - base)
    assert present == len(new & base)


@given(rows(), rows())
def test_positions_find_each_row_or_say_minus_one(a, b):
    sorted_rows = as_pairs(a)
    found = positions(sorted_rows, np.array(b, np.int64).reshape(-1, 2))
    for row, at in zip(b, found, strict=True):
        assert (tuple(sorted_rows[at]) == row) if at >= 0 else (row not in a)


@given(rows())
def test_undirected_links_have_the_lower_end_left(given_rows):
    assert listed(undirected(as_pairs(given_rows))) == sorted({(min(r), max(r)) for r in given_rows})


@given(rows())
def test_sorting_twice_changes_nothing(given_rows):
    once = sort_pairs(np.array(given_rows, np.int64).reshape(-1, 2))
    assert np.array_equal(sort_pairs(once), once)


@pytest.mark.parametrize("bad", [[[1, 2, 3]], [1, 2], [[0.5, 1]]])
def test_rows_that_are_no_pairs_of_integers_are_refused(bad):
    with pytest.raises(ValueError, match="expected"):
        as_pairs(bad)
