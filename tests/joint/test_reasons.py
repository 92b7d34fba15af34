"""What a step of joint says for itself."""

from dataclasses import replace

import numpy as np
import pytest

from overlace.model import Changes, Plan, Steps
from overlace.planners.joint.joint import Joint
from overlace.planners.joint.reasons import Present, reason_of
from overlace.planners.ordering import OverlayMove
from overlace.testing import three_in_a_row

MOVE, OTHER = OverlayMove(0, (0, 0), (0, 1)), OverlayMove(1, (1, 2), (1, 1))
SWAP = OverlayMove(-1, (1, 2), (0, 2))


def why(*changes, gain=1.0, access=(0, 0, 0)):
    observation = three_in_a_row()
    problem = Joint().problem(observation)
    limits = problem.limits._replace(access=np.array([access], dtype=np.float64), amount=np.array([14.0, 14.0]))
    now = Present(replace(problem, limits=limits), observation.overlay.homes(observation.clients))
    reason, named = reason_of(list(changes), gain, now)
    steps = Steps([0, 0], [gain], [reason], {name: np.array([value]) for name, value in named.items()})
    return Plan(Joint(), 0, observation.overlay, observation.overlay, Changes(), steps).why(0)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ((MOVE, OTHER), "2 clients move together: no single one keeps the limits"),
        ((SWAP, SWAP), "2 links change together: no single one keeps the limits"),
        ((MOVE, OTHER, SWAP, SWAP), "2 clients and 2 links change together: no single one keeps the limits"),
    ],
)
def test_what_does_not_change_is_not_counted(changes, says):
    assert why(*changes) == says


def test_a_third_broker_is_named_for_what_is_there():
    """The partner of c0 is at b2, and b1 is nearer to it."""
    assert why(MOVE) == (
        "c0 moves from b0 to b1: 100% of its traffic is with clients nearer to there, and the largest part (100%) with "
        "those at b2"
    )


def test_access_is_named_where_it_saves_most_and_only_there():
    """Moving c0, which has 14 messages, from b0 to b1."""
    assert why(MOVE, access=(3, 1, 3)).startswith("c0 moves from b0 to b1: access costs 28 less; 100% of its")
    for gain, access in [(-1.0, (0, 0, 0)), (0.0, (0, 0, 0)), (-1.0, (1, 3, 1)), (99.0, (3, 1, 3))]:
        assert "access" not in why(MOVE, gain=gain, access=access)
