import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from overlace.arrays.csr import group, neighbours
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
