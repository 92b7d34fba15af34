import re
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings

from overlace.errors import NothingBetter
from overlace.planners.placement.community import Community
from overlace.planners.placement.cost import cost
from overlace.planners.placement.exact import ExactPlacement
from overlace.planners.placement.leiden import Leiden
from overlace.workloads.small_world import SmallWorld
from reproductions import ITEMS
from reproductions.cc12 import comparison, held_out, hops, latency, runs
from reproductions.cc12.bound import lower_bound
from reproductions.cc12.mail import cut_at, mail_of, shuffle_receivers
from reproductions.result import expected
from tests.placement.observed import placements


@pytest.fixture
def small(monkeypatch):
    """One small network, nothing kept from other tests."""
    monkeypatch.setattr(runs, "NETWORKS", {"random": partial(SmallWorld, messages=600, clients=60, m=20)})
    for module in (hops, latency, comparison):
        monkeypatch.setattr(module, "NETWORKS", runs.NETWORKS)
    caches = (runs.instance, runs.observed, runs._measured)
    for each in caches:
        each.cache_clear()
    yield
    for each in caches:
        each.cache_clear()


def test_every_item_is_registered_and_every_printed_number_belongs_to_one():
    assert set(ITEMS["cc12"]) >= {"figures-5-7", "figure-9", "table-1", "table-3", "table-4", "comparison", "held-out"}
    assert {table for table, _, _ in expected("cc12")} <= {*ITEMS["cc12"], "modularity"}


def test_measured_hops_are_the_cost_of_the_placement(small):
    observation = runs.observed("random", 0)
    for planner in (None, Community()):
        made = runs.measured("random", 0, planner)
        assert made.hops.sum() == pytest.approx(1)
        deliveries = observation.flows.messages.sum()
        assert made.mean_hops == pytest.approx(cost(observation, made.overlay) / deliveries + 2)
        assert (made.latency >= 0).all()


@pytest.mark.parametrize("name", ["figures-5-7", "table-3"])
def test_items_have_rows_with_the_papers_numbers_and_ours(small, name):
    result = ITEMS["cc12"][name](seeds=2)
    assert result.rows
    assert result.charts
    assert len({tuple(row) for row in result.rows}) == 1


def test_ours_is_within_the_papers_loads_and_moves(small):
    observation = runs.observed("random", 0)
    paper = runs.measured("random", 0, Community())
    limits = comparison.peaks(observation, paper.overlay)
    made = runs.measured("random", 0, comparison.ours_at(limits, paper.moves))
    mine = comparison.peaks(observation, made.overlay)
    assert all(mine[name] <= limits[name] for name in limits)
    assert made.moves <= paper.moves
    assert made.mean_hops < paper.mean_hops


def test_the_comparison_stands_there_for_the_seeds_that_were_looked_at_and_for_others(small):
    rows = comparison.compare_placements(seeds=1).rows
    assert [row["seeds"] for row in rows] == ["0-0"] * 4 + ["1-1"] * 4 + ["2-2"] * 4
    assert len({row["comparison"] for row in rows}) == 4
    for row in rows:
        loads = [row["sent loads kept"], row["handled loads kept"]]
        asked = loads if "all loads" in row["comparison"] else loads[:1] if "sent" in row["comparison"] else []
        assert all(asked) or not row["met"]


def test_a_printed_figure_comes_out_if_it_lies_within_our_seeds():
    row = hops.line("random", "within 4 hops, %", [48.0, 52.0], 49)
    assert (row["comes out"], row["ours - paper"]) == (True, 1.0)
    assert hops.line("random", "within 4 hops, %", [50.0, 52.0], 49)["comes out"] is False
    assert hops.line("random", "within 4 hops, %", [50.0, 52.0], None)["comes out"] is None


def test_a_peak_comes_out_if_it_is_one_of_those_printed(small):
    printed = {("figure-9", "start", "peak"): 7.0, ("figure-9", "start", "peak, or"): 8.0}
    placed = [runs.Placed(np.eye(9)[each], each, 0, 0.0, np.zeros(1), None) for each in (7, 4, 7)]
    row = hops.peak("random", "start", placed, printed, "figure-9")
    assert (row["paper"], row["comes out"]) == ("7 or 8", True)
    assert hops.peak("random", "start", placed[1:2], printed, "figure-9")["comes out"] is False


@settings(max_examples=15)
@given(placements(clients=5, most_regions=2))
def test_nothing_within_the_caps_costs_less_than_the_bound(observation):
    planner = ExactPlacement(broker_sent=2.0, region_sent=1.5)
    try:
        best = planner.cost(observation, planner.solve(observation).after)
    except NothingBetter:
        return
    problem = Leiden(broker_sent=2.0, region_sent=1.5, broker_handled=None).problem(observation)
    assert lower_bound(problem) <= best + 1e-9


def mail_log(seed=0, people=40, mails=3000):
    """Two groups that mostly write among themselves."""
    rng = np.random.default_rng(seed)
    sender = rng.integers(0, people, mails)
    receiver = np.where(
        rng.random(mails) < 0.9, (sender // 10) * 10 + rng.integers(0, 10, mails), rng.integers(0, people, mails)
    )
    return mail_of(zip(sender.tolist(), receiver.tolist(), (np.arange(mails) * 600).tolist(), strict=True))


def test_a_plan_for_mail_keeps_its_cap_and_pays_on_held_out_traffic():
    mail = mail_log()
    cut = cut_at(mail, 0.7)
    home = np.random.default_rng(0).integers(0, 8, mail.clients)
    plan = held_out.our_planner().solve(held_out.observed(mail, cut, home))
    train, held = mail.at < cut, mail.at >= cut
    share, later, known, load, _, drift = held_out.shares_and_loads(mail, plan.after.homes(mail.clients), train, held)
    assert load <= 1.1 + 1e-9
    assert later > 2 * held_out.local(mail, home, held)
    assert 0 <= drift < 0.3
    assert known == later
    assert share > 0.3


def test_the_null_model_keeps_who_sends_and_who_receives_how_much():
    mail = mail_log()
    other = shuffle_receivers(mail, 1)
    assert np.array_equal(other.sender, mail.sender)
    assert np.array_equal(np.sort(other.receiver), np.sort(mail.receiver))
    assert not (other.sender == other.receiver).any()


def test_fading_mail_weighs_less_the_older_it_is():
    mail = mail_of(iter([(0, 1, 0), (2, 3, 86_400 * 10)]))
    flows = held_out.observed(mail, 86_400 * 10 + 1, np.zeros(4, np.int64), fade=5.0).flows
    assert flows.messages.tolist() == [135, 1000]


def test_the_page_says_which_fading_was_chosen_and_how_much_of_the_gain_is_structure(monkeypatch):
    monkeypatch.setattr(held_out, "read_logs", lambda folder: {"Enron": mail_log()})
    result = held_out.place_held_out_mail(seeds=1)
    chosen = next(note for note in result.notes if note.startswith("`Recent"))
    assert re.search(r"Chosen, seed by seed: Enron: (none|180 days|90 days|45 days)\.", chosen)
    share = {(r["traffic"], r["placement"]): r["held-out mean"] for r in result.rows}
    real = share["as logged", "leiden"] - share["as logged", "random"]
    null = share["shuffled, degrees kept", "leiden"] - share["shuffled, degrees kept", "random"]
    assert any(f"structure {100 * (1 - null / real):.0f} % on Enron" in note for note in result.notes)


def test_without_the_logs_the_page_says_so(monkeypatch, tmp_path):
    monkeypatch.setenv("OVERLACE_DATA", str(tmp_path))
    result = held_out.place_held_out_mail(seeds=1)
    assert result.rows == []
    assert "OVERLACE_DATA" in result.notes[-1]
