import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from overlace.arrays.heap import pop, push

entries = st.lists(st.tuples(st.integers(-3, 3), st.integers(0, 3), st.integers(0, 3), st.integers(0, 9)), min_size=1)


@given(entries)
def test_entries_come_out_by_key_and_then_by_their_first_two_numbers(given_):
    key, row = np.empty(len(given_)), np.empty((len(given_), 4), dtype=np.int64)
    size = 0
    for value, a, b, c in given_:
        size = push(key, row, size, float(value), (a, b, c, 7))
    out = []
    while size:
        out.append((key[0], *row[0].tolist()))
        size = pop(key, row, size)
    assert [each[:3] for each in out] == sorted((v, a, b) for v, a, b, _ in given_)
    assert sorted(out) == sorted((v, a, b, c, 7) for v, a, b, c in given_)
