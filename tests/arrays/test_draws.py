import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from overlace.arrays.draws import scattered, uniform
from overlace.arrays.hashing import mix

seeds, streams = st.integers(0, 2**63 - 1), st.integers(0, 2**31)


@given(seeds, streams, st.integers(0, 2**40), st.integers(0, 30), st.integers(0, 30))
def test_a_draw_depends_on_its_place_and_on_nothing_else(seed, stream, first, count, cut):
    whole, cut = uniform(seed, stream, first, count), min(cut, count)
    parts = uniform(seed, stream, first, cut), uniform(seed, stream, first + cut, count - cut)
    assert np.concatenate(parts).tolist() == whole.tolist()
    assert ((whole >= 0) & (whole < 1)).all()


def test_draws_are_spread_evenly():
    drawn = uniform(7, 3, 0, 20_000)
    assert abs(np.bincount((10 * drawn).astype(int), minlength=10) - 2_000).max() < 250
    assert abs(np.corrcoef(drawn[1:], drawn[:-1])[0, 1]) < 0.05
    assert abs(np.corrcoef(drawn, uniform(7, 4, 0, 20_000))[0, 1]) < 0.05


@given(seeds, streams, st.lists(st.integers(0, 2**40), max_size=8), st.integers(1, 40), st.data())
def test_scattered_numbers_are_distinct_sorted_and_of_their_row_alone(seed, stream, rows, most, data):
    size = data.draw(st.integers(0, min(most, 12)))
    start, members = scattered(seed, stream, np.array(rows, np.int64), size, most)
    assert start.tolist() == [size * i for i in range(len(rows) + 1)]
    for i, row in enumerate(rows):
        own = members[i * size : (i + 1) * size].tolist()
        assert own == sorted(set(own))
        assert all(0 <= each < most for each in own)
        assert own == scattered(seed, stream, np.array([row]), size, most)[1].tolist()


@given(st.lists(st.integers(0, 2**64 - 1), min_size=2, max_size=20, unique=True))
def test_mix_never_makes_two_numbers_one(numbers):
    with np.errstate(over="ignore"):
        assert len({int(mix(np.uint64(each))) for each in numbers}) == len(numbers)
