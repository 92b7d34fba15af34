import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given

from overlace.model import Network
from overlace.planners.tree.cost import cost
from overlace.report.layout import link_loads, place_brokers
from overlace.testing import three_in_a_row
from overlace.workloads.square import square
from tests.strategies import observations

sys.path.insert(0, str(Path(__file__).parents[2] / "scripts"))

import picture


@given(observations(2))
def test_loads_times_link_costs_are_the_tree_s_cost(observation):
    loads = link_loads(observation, observation.overlay)
    assert loads @ observation.network.costs_of(observation.overlay.tree) == pytest.approx(
        cost(observation, observation.overlay)
    )


def test_a_client_without_a_home_loads_no_link():
    observation = three_in_a_row()
    away = replace(observation.overlay, placement=[[0, 0]])
    assert link_loads(observation, away).tolist() == [0, 0]


def test_brokers_that_are_cheap_to_link_lie_near():
    observation = square(12, 24, 10, seed=3)
    points = place_brokers(observation.network)
    apart = np.hypot(*(points[observation.network.links[:, 0]] - points[observation.network.links[:, 1]]).T)
    assert np.corrcoef(apart, observation.network.link_cost)[0, 1] > 0.99
    assert np.array_equal(points, place_brokers(observation.network))


@pytest.mark.parametrize("brokers", [1, 2, 4])
def test_small_and_unlinked_networks_are_drawn_too(brokers, tmp_path):
    assert np.isfinite(place_brokers(Network(region=range(brokers)))).all()
    observation = square(brokers, 4, 3)
    chart = picture.tree_picture(observation, {"now": observation.overlay}, {"broker": ["oslo"]})
    chart.save(str(tmp_path / "tree.svg"))
    assert "oslo" in (tmp_path / "tree.svg").read_text()
