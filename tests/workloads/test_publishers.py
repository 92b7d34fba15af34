import numpy as np
import pytest

from overlace.arrays.masks import bits_of
from overlace.errors import BadParameter
from reproductions.workloads.publishers import publishers


def test_the_same_arguments_give_the_same_publishers():
    assert publishers(50, seed=3) == publishers(50, seed=3)
    assert publishers(50, seed=3) != publishers(50, seed=4)


def test_sizes_limits_and_attributes_are_uniform():
    offers = publishers(20_000, 10, (3, 4), (11, 15), seed=1).offers
    sizes = bits_of(offers.attributes)
    assert set(sizes.tolist()) == {3, 4}
    assert abs((sizes == 3).mean() - 0.5) < 0.02
    assert set(offers.connections.tolist()) == set(range(11, 16))
    each = [(offers.attributes >> bit & 1).mean() for bit in range(10)]
    assert np.allclose(each, 0.35, atol=0.02)


def test_zipf_prefers_low_attributes_early_ranks_and_few_combinations():
    seen = publishers(5_000, 10, (3, 4), zipf=1.0, subscribers=5_000, seed=1)
    each = [(seen.offers.attributes >> bit & 1).mean() for bit in range(10)]
    assert each[0] > 2 * each[9]
    assert seen.offers.messages.max() == 1000
    _, times = np.unique(seen.requests.attributes, return_counts=True)
    assert times.max() > 10 * np.median(times)


@pytest.mark.parametrize(("attributes", "size"), [(10, (0, 3)), (3, (2, 4)), (64, (1, 2)), (10, (4, 3))])
def test_sizes_that_cannot_be_drawn_are_refused(attributes, size):
    with pytest.raises(BadParameter, match=f"size is {size[0]}"):
        publishers(10, attributes, size)
