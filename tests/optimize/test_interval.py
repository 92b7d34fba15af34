import numpy as np
import pytest

from overlace.model import Overlay
from overlace.observe.known import known_in
from overlace.observe.later import later
from overlace.optimize.interval import saving, slices_of, sums_of
from overlace.trace.store import HOUR_US
from tests.traces import observe, trace_of


def test_the_interval_holds_95_of_100_draws():
    """Of many slices that differ by chance alone it is the mean and 1.96 standard errors either way."""
    saved = np.random.default_rng(5).normal(0.3, 0.1, 400)
    found = saving(np.column_stack([np.ones(400), 1 - saved]))
    error = saved.std() / np.sqrt(len(saved))
    assert found.share == pytest.approx(saved.mean())
    assert (found.share - found.low) / error == pytest.approx(1.96, rel=0.1)
    assert (found.high - found.share) / error == pytest.approx(1.96, rel=0.1)


def test_a_mean_per_delivery_counts_for_all_deliveries_of_its_slice(tmp_path):
    """c0 at x writes to c1 at y, a hop, and in the second hour also to c2 at z, two hops."""
    log = [(i, 0, 0, 1, [1]) for i in range(4)] + [(HOUR_US + i, 0, 0, 1, [1, 2]) for i in range(3)]
    names = {"broker": ["x", "y", "z"], "client": ["c0", "c1", "c2"]}
    links = {"left": [0, 1], "right": [1, 2], "cost": [1.0, 1.0], "wired": [True, True]}
    sessions = {"client": [0, 1, 2], "broker": [0, 1, 2]}
    trace = trace_of(tmp_path / "t", log, names, links=links, sessions=sessions)
    observation = observe(trace)
    together = Overlay(placement=[[0, 0], [1, 0], [2, 0]], tree=observation.overlay.tree)
    window = (0, 2 * HOUR_US)
    heard = later(trace, window, known_in(trace, window), observation)
    slices = slices_of(window, HOUR_US)
    sums = sums_of(heard, observation.overlay, together, "message", "mean_broker_hops", slices)
    assert sums.tolist() == [[4.0, 0.0], [3 * 1.0 + 3 * 2.0, 0.0]]
