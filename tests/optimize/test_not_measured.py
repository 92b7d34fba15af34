"""Null latencies from a trace to an answer."""

import pytest

from overlace.cli.main_job import full_text
from overlace.errors import NotObserved
from overlace.model import NOT_MEASURED
from overlace.planners.joint.joint import Joint
from overlace.trace.runs import read_observation
from overlace.trace.store import Trace
from overlace.verbs import optimize
from tests.optimize.asking import options_of
from tests.optimize.test_optimize import LINKS, NAMES, TABLES, log
from tests.traces import observe as observation_of
from tests.traces import trace_of


def with_latencies(path, latency, **more):
    trace_of(path, log(hours=60), NAMES, **TABLES | {"links": {**LINKS, "latency_us": latency}} | more)
    return str(path)


def test_null_is_not_measured_and_0_is_0(tmp_path):
    path = with_latencies(tmp_path / "trace", [10, 0, 10, None, None, 7, 7])
    network = observation_of(Trace.open(path)).network
    seen = dict(zip(map(tuple, network.links.tolist()), network.latency_us.tolist(), strict=True))
    assert seen[1, 4] == 0
    assert seen[3, 4] == seen[0, 1] == NOT_MEASURED
    assert seen[1, 2] == 7


def test_a_link_that_was_not_measured_is_never_wired_for_latency_and_may_be_for_cost(tmp_path):
    path = with_latencies(tmp_path / "trace", [10_000] * 4 + [None, 1000, 1000])
    options = {"max_moves": 0, "effort": 2, "sent_cap": 0, "handled_cap": 0}
    found = optimize(path, tmp_path / "latency", *options_of(objective="latency", **options))
    (part,) = found.verdicts
    assert [0, 1] not in part.plan.after.tree.tolist()
    assert "1 link is no candidate: the latency was not measured" in found.notes
    assert any(note.startswith("2 links could be new") for note in found.notes)
    assert read_observation(tmp_path / "latency")[0].network.latency_us.tolist().count(NOT_MEASURED) == 1
    found = optimize(path, tmp_path / "cost", *options_of(objective="cost", **options))
    (part,) = found.verdicts
    assert [0, 1] in part.plan.after.tree.tolist()
    assert "latency" not in " ".join(each.metric for each in part.judged.metrics)
    assert "latency" not in "\n".join(full_text(found))
    page = found.report.read_text()
    assert f"No latency is known after {part.folder.name}" in page


def test_a_wired_link_that_was_not_measured_is_named(tmp_path):
    path = with_latencies(tmp_path / "trace", [10_000, None, 10_000, 10_000, 1000, 1000, 1000])
    said = r"the latency of 1 of 4 wired links was not measured \(first: plant-1-hub\): ingest links with latency_us"
    with pytest.raises(NotObserved, match=said):
        optimize(path, tmp_path / "run", *options_of(objective="latency"))
    page = optimize(path, tmp_path / "cost", *options_of(placement="anywhere", effort=1)).report.read_text()
    assert "Latencies of links that are wired were not measured" in page


def test_without_any_latency_plans_are_those_of_before(tmp_path):
    null, zero = (with_latencies(tmp_path / str(value), [value] * 7) for value in (None, 0))
    for objective in ("cost", "hops", "messages"):
        plans = [Joint(objective=objective, effort=1).solve(observation_of(Trace.open(path))) for path in (null, zero)]
        assert plans[0].after == plans[1].after
        assert plans[0].steps.gain.tolist() == plans[1].steps.gain.tolist()
    with pytest.raises(NotObserved, match="latencies of links are not known"):
        optimize(null, tmp_path / "run", *options_of(objective="latency"))
