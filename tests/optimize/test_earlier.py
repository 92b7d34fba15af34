"""Plans from earlier times: the planner as it could have been asked then."""

import numpy as np

from overlace.model import Network, Observation
from overlace.optimize.forecast import by_then
from overlace.planners.joint.joint import Joint


def test_links_and_clients_that_came_later_drop_out_and_the_others_keep_their_ids():
    later = np.array([[0, 1], [0, 2], [1, 2], [1, 3]])
    network = Network(region=np.zeros(3, dtype=int), links=later[[0, 2]], link_cost=np.ones(2))
    then = Observation(network=network, clients=4)
    planner = Joint(keep=(1, 5), only=(2, 6), may_wire=(1, 2), keep_links=(0, 2, 3), keep_brokers=(1, 3), effort=7)
    asked = by_then(planner, then, later)
    assert asked is not None
    assert (asked.keep, asked.only, asked.may_wire, asked.keep_links) == ((1,), (2,), (1,), (0, 1))
    assert (asked.keep_brokers, asked.effort) == ((1,), 0)


def test_nothing_is_asked_where_those_who_may_move_had_not_come():
    assert by_then(Joint(only=(6,)), Observation(clients=4), np.empty((0, 2), dtype=np.int64)) is None
