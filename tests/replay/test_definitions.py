import ast
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa

import overlace.replay
from overlace.model import Network, Observation, Offers, Overlay
from overlace.replay.definitions import DELIVERY, FORWARDING, METRICS, ROUTING, SHAPE
from overlace.replay.delivery import delivery
from overlace.replay.forwarding import ContentRequests, forwarding
from overlace.replay.measure import access_costs, double_sends
from overlace.replay.shape import shape
from tests.replay.traffic import batch_of, replay


def names(metrics):
    return set(zip(metrics.metric.tolist(), metrics.scope.tolist(), strict=True))


def everything():
    """All metrics of a small overlay that has something of everything."""
    overlay = Overlay(
        placement=[[0, 0], [1, 1], [2, 0]],
        tree=[[0, 1]],
        channels=[[1, 0]],
        mesh=[[v, v + 1] for v in range(5)],
    )
    observation = Observation(
        network=Network(region=[0, 1], links=[[0, 1]]),
        offers=Offers([0, 1], [3, 5]),
        interests=[(v, 0) for v in range(6)] + [(0, 1), (5, 1)],
        overlay=overlay,
    )
    yield replay(observation, overlay, [batch_of([(0, 4, 2, 100, [1, 2])])])
    far = replace(
        observation,
        network=replace(observation.network, client_region=[0, 1, 1, -1, -1, -1], access_cost=[[0, 4], [3, 0]]),
    )
    rows = pa.table({"client": [0, 2], "messages": [2, 5], "bytes": [9, 9], "receivers": [[1, 2], []]})
    found = access_costs(far, overlay, rows, "message", 10.0)
    assert found.of("access_cost") == 3 * (2 + 5)  # only client 2 is far from home
    assert found.of("total_cost") == 31
    lost = pa.table({"client": [5, 2], "messages": [9, 4], "bytes": [9, 9], "receivers": [[2], [1, 2]]})
    assert access_costs(far, overlay, lost, "message", 0.0).of("access_cost") == 3 * 4  # no home; to itself
    yield found
    yield double_sends(observation, overlay, pa.table({"client": [1], "messages": [2]}))
    yield delivery(observation, overlay)
    yield shape(observation, overlay, most_exact=1, sources=1)
    yield forwarding(observation, overlay, ContentRequests(np.array([0]), [()], np.array([1]), [()]))


def test_every_metric_that_is_measured_is_listed_and_every_listed_one_is_measured():
    measured = set().union(*map(names, everything()))
    listed = {(name, scope) for name, metric in METRICS.items() for scope in metric.scopes}
    assert measured == listed


def test_no_metric_stands_in_two_lists():
    assert len(METRICS) == len(ROUTING) + len(DELIVERY) + len(SHAPE) + len(FORWARDING)


def test_every_metric_says_what_it_is():
    scopes = {"overall", "broker", "link", "region", "region pair", "channel", "client", "topic", "bin"}
    for name, metric in METRICS.items():
        assert metric.unit, name
        assert metric.direction in ("lower", "higher", "neither"), name
        assert set(metric.scopes) <= scopes, name
        assert metric.definition.endswith("."), name
        assert metric.citation == "" or metric.citation.split()[0] in ("CC12", "OCBR07", "PART10", "TDCD17"), name


def test_replay_knows_no_facet():
    """A planner's cost and replay's are two implementations that check each other."""
    allowed = {"overlace.arrays", "overlace.errors", "overlace.metrics", "overlace.model", "overlace.replay"}
    allowed |= {"overlace.trace"}  # tables, batches, and where they run
    allowed |= {"overlace.matching"}  # what filters match and cover
    for path in Path(overlace.replay.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            module = node.module if isinstance(node, ast.ImportFrom) else ""
            if (module or "").startswith("overlace"):
                assert ".".join(module.split(".")[:2]) in allowed, (path.name, module)
