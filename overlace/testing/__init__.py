"""What every overlay and every planner must keep, for our planners and for yours.

    from overlace.testing import check_planner, small_observations
    for observation in small_observations("tree").values():
        check_planner(MyPlanner(), observation)

No test library is needed: a broken law raises `Broken`, an AssertionError that says what was found and what was
expected. What a planner says about the data (NotObserved, NothingBetter) passes as it is.
"""

from overlace.testing.broken import Broken
from overlace.testing.laws import check_overlay, check_planner
from overlace.testing.small import linked_clients, small_observations, three_in_a_row, three_publishers

__all__ = [
    "Broken",
    "check_overlay",
    "check_planner",
    "linked_clients",
    "small_observations",
    "three_in_a_row",
    "three_publishers",
]
