import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from overlace.arrays.vectors import copy_to, fill, sort_by


@given(st.lists(st.tuples(st.integers(-3, 3), st.integers(0, 20)), max_size=40), st.data())
def test_a_part_is_sorted_by_key_and_then_by_item_and_the_rest_is_left_alone(pairs, data):
    first = data.draw(st.integers(0, len(pairs)))
    last = data.draw(st.integers(first, len(pairs)))
    key, item = np.array([float(k) for k, _ in pairs]), np.array([i for _, i in pairs], dtype=np.int64)
    sort_by(key, item, first, last)
    found = list(zip(key.tolist(), item.tolist(), strict=True))
    assert found == [*pairs[:first], *sorted(pairs[first:last]), *pairs[last:]]


def test_fill_and_copy():
    target = np.zeros(4)
    fill(target, 2.5)
    assert target.tolist() == [2.5] * 4
    copy_to(target, np.arange(3.0))
    assert target.tolist() == [0, 1, 2, 2.5]
