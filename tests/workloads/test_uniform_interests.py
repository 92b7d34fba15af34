import numpy as np
import pytest

from overlace.errors import BadParameter
from reproductions.workloads.uniform_interests import uniform_interests


def test_every_client_wants_as_many_topics_and_the_seed_decides_which():
    observation = uniform_interests(50, 20, 6, seed=3)
    assert (np.bincount(observation.interests[:, 0]) == 6).all()
    assert observation.interests.shape == (300, 2)
    assert observation.interests[:, 1].max() < 20
    assert observation == uniform_interests(50, 20, 6, seed=3)
    assert observation != uniform_interests(50, 20, 6, seed=4)


def test_topics_are_wanted_alike():
    wanted = np.bincount(uniform_interests(5000, 10, 3).interests[:, 1])
    assert wanted == pytest.approx(np.full(10, 1500), rel=0.1)


def test_more_topics_than_there_are_cannot_be_wanted():
    with pytest.raises(BadParameter, match="0 to 5"):
        uniform_interests(3, 5, 6)
    assert len(uniform_interests(3, 5, 0).interests) == 0
