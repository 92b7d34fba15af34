import pytest

from reproductions import ITEMS
from reproductions.result import expected
from reproductions.tdcd17 import lower_bounds, tables, three_axes, under_caps
from reproductions.tdcd17.runs import PRINTED, Setting

SMALL = Setting(60, 30, 5)


def test_all_120_printed_numbers_are_there():
    printed = expected("tdcd17")
    assert len(printed) == 120
    assert {column for _, _, column in printed} == set(PRINTED)
    assert printed["I", "200", "TD-CD-ODA"] == 17.35
    assert printed["VI", "35", "GM"] == 17


def test_a_table_compares_ours_with_the_paper_s_on_all_three_axes(monkeypatch):
    shares = []
    monkeypatch.setattr(tables, "_by_clients", lambda clients: {"": Setting(clients // 4, 25, 5)})
    result = tables.table_2(seeds=2, progress=lambda share, what: shares.append(share))
    assert shares[-1] == 1
    assert len(result.rows) == 20
    row = result.rows[3]
    assert (row["clients"], row["algorithm"], row["paper"]) == (200, "TD-CD-ODA", 114)
    assert row["ours / paper"] == pytest.approx(row["ours"] / 114)
    assert row["least"] <= row["ours"] <= row["most"]
    assert row["diameter"] == 2
    assert row["average"] < row["ours"]
    assert "not reproduced" in result.notes[1]  # these instances are a quarter of the paper's
    assert {each["who"] for each in result.charts[0].rows} == {"ours", "paper"}


def test_tables_5_and_6_are_run_at_both_settings(monkeypatch):
    monkeypatch.setattr(
        tables, "_by_size", lambda each: {"fits": Setting(40, 40, each // 5), "printed": Setting(50, 20, each // 5)}
    )
    result = tables.table_5(seeds=1)
    assert {row["setting"] for row in result.rows} == {"fits", "printed"}
    assert len(result.rows) == 40
    assert len(result.notes) == 3


def test_the_comparison_stays_within_td_cd_oda_s_average_and_draws_all_four(monkeypatch):
    monkeypatch.setattr(under_caps, "AIMS", {SMALL: None})
    monkeypatch.setattr(under_caps, "EFFORT", 4000)
    result = under_caps.comparison(seeds=2)
    row = result.rows[0]
    assert row["star-cap average"] <= row["TD-CD-ODA average"]
    assert row["star-cap maximum"] < row["TD-CD-ODA maximum"]
    assert row["diameter"] == 2
    meshes = {each["mesh"] for each in result.charts[0].rows}
    assert meshes == {"star-cap: frontier", "TD-CD-ODA", "CD-ODA-II", "star bound: largest topic less one"}


def test_bounds_are_below_what_is_found(monkeypatch):
    monkeypatch.setattr(lower_bounds, "SEEDS", {SMALL: 1})
    monkeypatch.setattr(lower_bounds, "EFFORT", 2000)
    row = lower_bounds.bounds().rows[0]
    assert row["any mesh: bound"] <= row["GM"]
    assert row["stars: bound"] <= row["star-cap, whole stars"]
    assert row["gap"] >= 0


def test_every_planner_s_axes_are_shown(monkeypatch):
    monkeypatch.setattr(three_axes, "SETTING", SMALL)
    rows = {row["mesh"]: row for row in three_axes.diameters(seeds=1).rows}
    assert set(rows) == set(three_axes.PLANNERS)
    assert rows["hub-tree 3"]["diameter"] <= 3
    assert rows["GM"]["average degree"] < rows["TD-CD-ODA"]["average degree"]


def test_the_items_are_the_paper_s_six_tables_and_three_more():
    assert list(ITEMS["tdcd17"]) == [*(f"table-{i}" for i in range(1, 7)), "comparison", "diameters", "bounds"]
