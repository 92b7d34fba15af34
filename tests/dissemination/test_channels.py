"""Many channels over the same peers: each a tree, and together within everybody's degree."""

import numpy as np
import pytest

from overlace.errors import BadParameter
from overlace.planners.dissemination.channels import Channels, arrange_channels
from overlace.planners.dissemination.joining import ABSENT

rng = np.random.default_rng(0)
PLACE = rng.random((30, 2)) * 40
DELAY = np.hypot(*(PLACE[:, None] - PLACE[None]).transpose(2, 0, 1)) + 1


def channels(count=6, size=12):
    members = [np.sort(rng.permutation(30)[:size]) for _ in range(count)]
    roots = np.array([each[k % size] for k, each in enumerate(members)])
    bound = rng.choice([20.0, 40.0, 80.0, np.inf], count * size)
    return Channels(np.arange(count + 1) * size, np.concatenate(members), roots, bound, rng.random(count) * 9)


def test_every_channel_is_a_tree_and_nobody_sends_more_copies_than_its_degree():
    given = channels()
    found = arrange_channels(DELAY, given, np.full(30, 6))
    used = np.zeros(30, dtype=int)
    for k in range(6):
        rows = slice(given.start[k], given.start[k + 1])
        parent = dict(zip(given.members[rows].tolist(), found.parent[rows].tolist(), strict=True))
        for v in parent:
            way = [v]
            while parent[way[-1]] != -1:
                way.append(parent[way[-1]])
                assert len(way) <= len(parent)
            assert way[-1] == given.root[k]
            late = sum(DELAY[p, c] for c, p in zip(way, way[1:], strict=False))
            assert found.arrival[rows][given.members[rows] == v] == pytest.approx(late)
            used[parent[v]] += parent[v] >= 0
    assert (used <= 6).all()
    is_root = given.members == np.repeat(given.root, np.diff(given.start))
    assert found.met <= found.most <= found.bounds == (np.isfinite(given.bound) & ~is_root).sum()


def test_one_channel_is_arranged_as_alone():
    from overlace.planners.dissemination.arrange import arrange

    bound = np.full(30, 40.0)
    given = Channels(np.array([0, 30]), np.arange(30), np.array([4]), bound, np.ones(1))
    assert arrange_channels(DELAY, given, np.full(30, 2), 3).parent.tolist() == arrange(DELAY, bound, 2, 4, 3).tolist()


def test_a_channel_with_too_few_places_is_left_out_and_named():
    given = Channels(np.array([0, 3]), np.arange(3), np.array([0]), np.full(3, 50.0), np.ones(1))
    found = arrange_channels(DELAY[:3, :3], given, [1, 0, 0])
    assert found.unconnected == [0]
    assert found.parent.tolist() == [ABSENT] * 3
    assert (found.met, found.bounds, found.most) == (0, 0, 0)


def test_members_that_have_no_delays_are_refused():
    given = Channels(np.array([0, 2]), np.array([0, 9]), np.array([0]), np.full(2, 50.0), np.ones(1))
    with pytest.raises(BadParameter, match="members 0 to 9: expected peers, 0 to 2"):
        arrange_channels(DELAY[:3, :3], given, [2, 2, 2])


def test_each_channel_may_have_delays_of_its_own():
    given = channels(3)
    groups = [given.members[a:b] for a, b in zip(given.start[:-1], given.start[1:], strict=True)]
    own = [DELAY[np.ix_(group, group)] for group in groups]
    one, other = (arrange_channels(delay, given, np.full(30, 6), draws=5000) for delay in (DELAY, own))
    assert one.parent.tolist() == other.parent.tolist()
    with pytest.raises(BadParameter, match="one for each of 3 channels"):
        arrange_channels(own[:2], given, np.full(30, 6))
