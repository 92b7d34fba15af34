from itertools import combinations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from overlace.arrays.masks import bits, bits_of, submasks, submasks_of

small = st.lists(st.integers(0, 62), max_size=7, unique=True)


def mask(positions):
    return sum(1 << p for p in positions)


@given(st.integers(0, 2**63 - 1))
def test_bits_are_counted(number):
    assert bits(number) == number.bit_count()
    assert bits_of(np.array([number, 0], np.int64)).tolist() == [number.bit_count(), 0]


@given(small)
def test_submasks_are_all_non_empty_subsets_ascending(positions):
    expected = sorted(mask(c) for k in range(1, len(positions) + 1) for c in combinations(positions, k))
    assert submasks(mask(positions)).tolist() == expected


@given(st.lists(small, max_size=5))
def test_submasks_of_several_are_the_union(several):
    expected = sorted({int(s) for positions in several for s in submasks(mask(positions))})
    assert submasks_of(np.array([mask(p) for p in several], np.int64)).tolist() == expected
