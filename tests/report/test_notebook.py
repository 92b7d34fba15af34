"""Notebooks show the nouns as the report does: escaped, small, without being asked for."""

import subprocess
import sys
from dataclasses import dataclass, replace

import numpy as np
import pytest

from overlace.metrics import Metrics
from overlace.model import Network, Observation, Overlay
from overlace.planners.tree.baselines import Mst
from overlace.report.notebook import noun_html
from overlace.report.sheets import Amount
from overlace.testing import linked_clients, three_in_a_row, three_publishers
from overlace.workloads.square import square
from tests.report.test_page import HOSTILE, Page

MOST_ROWS = 40


@dataclass(frozen=True)
class Hostile(Mst):
    """A planner that was given a name by somebody else."""

    name: str = HOSTILE[0]


@pytest.fixture(scope="module")
def observation():
    return square(12, 24, 10, seed=3)


@pytest.fixture(scope="module")
def plan(observation):
    return Mst().solve(observation)


def rows_of(page):
    return sum(len(rows) for rows in page.tables.values())


def test_they_work_after_a_plain_import_and_load_the_report_only_then():
    code = """
import sys
from overlace import Observation, Overlay
assert "overlace.report" not in sys.modules
assert "Overlay" in Observation(interests=[[0, 0], [1, 0]]).overlay._repr_html_()
assert "overlace.report.notebook" in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_plan_shows_its_steps_with_gains_and_reasons(plan):
    page = Page(plan._repr_html_())
    (rows,) = page.tables.values()
    assert [row[1] for row in rows] == plan.steps.gain[: len(rows)].tolist()
    for i, row in enumerate(rows):
        assert plan.why(i) in row[3]
    text = " ".join(page.text)
    assert "messages × cost of links" in text
    assert str(Amount(plan.gain)) in text
    assert page.tags.count("svg") == 1


def test_an_observation_shows_what_crosses_each_link(observation):
    page = Page(observation._repr_html_())
    counts = {row[0]: row[1] for row in page.tables["Observed"]}
    assert (counts["clients"], counts["brokers"]) == (observation.clients, 12)
    assert counts["messages"] == observation.classes.demand.sum()
    loads = [row[1] for row in page.tables["Over each link"]]
    assert loads == sorted(loads, reverse=True)
    assert all(crossed == sent * links for _, crossed, sent, links, _ in page.tables["By sender and receiver"])


def test_whoever_gave_no_regions_sees_none(observation, plan):
    assert len(set(observation.network.region.tolist())) == 12
    for noun in (observation, plan, observation.overlay):
        assert "region" not in noun._repr_html_()


def test_an_overlay_shows_its_relations():
    page = Page(three_in_a_row().overlay._repr_html_())
    assert sum(row[2] for row in page.tables["Brokers"]) == 2 * len(three_in_a_row().overlay.tree)
    assert rows_of(Page(three_publishers(cut=True).overlay._repr_html_())) > 0
    mesh = linked_clients().overlay
    assert sum(row[1] for row in Page(mesh._repr_html_()).tables["Mesh"]) == 2 * len(mesh.mesh)
    assert "empty" in Overlay()._repr_html_()


def test_metrics_show_what_was_measured_overall():
    rows = [("cost", "overall", 0, 7), ("mean_hops", "overall", 0, 2.5), ("hops", "bin", 2, 1), ("hops", "bin", 3, 1)]
    metric, scope, key, value = zip(*rows, strict=True)
    metrics = Metrics(metric=metric, scope=scope, key=key, value=value)
    page = Page(metrics._repr_html_())
    assert [row[1] for row in page.tables["Overall"]] == [2.5, 7]
    assert page.tags.count("svg") == 1
    assert Page(Metrics()._repr_html_()).tags.count("table") == 0


def test_a_tree_that_is_none_is_named_and_does_no_harm():
    wrong = Observation(network=Network(region=[0, 1, 2, 3]), overlay=Overlay(tree=[[0, 1], [1, 2], [0, 2]]))
    assert "close a cycle" in wrong._repr_html_()


def test_other_records_keep_their_repr():
    assert Network()._repr_html_() is None
    assert noun_html("text") is None


@pytest.mark.parametrize("bad", HOSTILE)
def test_hostile_names_stay_text(observation, bad):
    names = {kind: [bad] * 30 for kind in ("client", "broker", "topic", "region", "channel")}
    plan = Hostile(name=bad).solve(observation)
    for noun in (plan, observation, observation.overlay):
        html = noun_html(noun, names)
        page = Page(html)
        assert not {"script", "img", "iframe"} & set(page.tags)
        assert page.tags.count("style") == 1
        assert not [name for _, name, _ in page.attributes if name.startswith("on")]
        assert not {"\x00", "\u202e"} & set(html)
        assert bad[:20] in "".join(page.text) or not bad.isprintable()


def test_large_nouns_have_small_views():
    brokers, clients = 5000, 20_000
    tree = np.column_stack([np.arange(brokers - 1), np.arange(1, brokers)])
    placement = np.column_stack([np.arange(clients), np.arange(clients) % brokers])
    overlay = Overlay(placement=placement, tree=tree)
    html = overlay._repr_html_()
    assert rows_of(Page(html)) <= MOST_ROWS
    assert "and 4,985 more brokers" in html
    assert len(html) < 30_000


def test_a_long_plan_says_how_many_steps_are_left_out():
    plan = Mst().solve(square(60, 24, 10, seed=3))
    assert len(plan.steps) > 20
    html = plan._repr_html_()
    assert rows_of(Page(html)) <= MOST_ROWS
    assert f"and {len(plan.steps) - 20:,} more steps" in html
    assert replace(plan, seed=1)._repr_html_() != html
