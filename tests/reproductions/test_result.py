import csv

import pytest

from overlace.errors import BadParameter, Unknown
from overlace.report.charts import Chart, chart_svg
from reproductions import Result
from reproductions import pages as job
from reproductions.result import Measured, Spread, by_name, words
from reproductions.result import item as make_item


def item(*, seeds=None, progress=None):
    rows = [{"n": n, "paper": 2.0 * n, "ours": 2.1 * n, "low": 2.0 * n, "high": 2.2 * n} for n in (1, 2, 3)]
    chart = Chart("Both", rows, "n", "ours", low="low", high="high")
    return Result("A table", rows, [f"{seeds} seeds"], [chart])


@pytest.fixture
def items(monkeypatch):
    monkeypatch.setattr(job, "ITEMS", {"tdcd17": {"table-1": item, "table-2": item}, "cc12": {"figure-5": item}})


def test_an_item_is_a_page_a_table_and_pictures(items, tmp_path):
    done = job.reproduce("tdcd17/table-1", tmp_path, seeds=3)
    assert list(done) == ["tdcd17/table-1"]
    page = (tmp_path / "tdcd17" / "table-1.md").read_text()
    assert page.startswith(
        "# TDCD17: A table\n\n`python -m reproductions tdcd17/table-1 --seeds 3`\n\n| n | paper | ours |"
    )
    assert "| 2 | 4 | 4.2 | 4 | 4.4 |" in page
    assert "3 seeds" in page
    assert "![Both](table-1.svg)" in page
    assert "<svg" in (tmp_path / "tdcd17" / "table-1.svg").read_text()
    rows = list(csv.DictReader((tmp_path / "tdcd17" / "table-1.csv").read_text().splitlines()))
    assert [row["ours"] for row in rows] == ["2.1", "4.2", "6.300000000000001"]


def test_a_paper_is_all_its_items_and_nothing_is_everything(items, tmp_path):
    assert job.chosen_items("TDCD17") == [("tdcd17", "table-1"), ("tdcd17", "table-2")]
    assert len(job.chosen_items(None)) == 3
    with pytest.raises(Unknown, match="tdcd17"):
        job.chosen_items("tdcd71")
    with pytest.raises(Unknown, match="table-1"):
        job.chosen_items("tdcd17/table1")


@pytest.mark.parametrize("mark", ["line", "point", "bar"])
@pytest.mark.parametrize("log", ["", "y"])
def test_every_kind_of_chart_can_be_drawn(mark, log):
    rows = [{"who": who, "n": n, "v": n + 1.0, "part": "ab"[n % 2]} for who in ("gm", "td") for n in range(4)]
    for panel in ("", "part"):
        svg = chart_svg(Chart("T", rows, "n", "v", series="who", panel=panel, mark=mark, log=log))
        assert "gm" in svg
        assert "td" in svg


def test_a_page_can_be_written_anew_from_its_rows(monkeypatch, tmp_path):
    """Measured once; what changes in the file changes in the table and in the notes, and the picture stays."""

    def figures(measured, seeds):
        return {"verdicts": [f"{measured.rows[-1]['ours']:g} with {seeds} seeds"]}

    @make_item("tdcd17/table-1", "A table", seeds=4, figures=figures, template="tdcd17/tables")
    def table(seeds, progress):
        values = (("5.10", 1.5, True, ""), ("5.2", 2.25, False, ""))
        rows = [dict(zip(("n", "ours", "fine", "note"), each, strict=True)) for each in values]
        return Measured(rows, [Chart("Both", rows, "n", "ours")], {"seen": "3"})

    monkeypatch.setattr(job, "ITEMS", {"tdcd17": by_name(table)})
    with pytest.raises(BadParameter, match="not there"):
        job.rewrite("tdcd17/table-1", tmp_path)
    job.reproduce("tdcd17/table-1", tmp_path, seeds=2)
    page, rows = (tmp_path / "tdcd17" / f"table-1.{ending}" for ending in ("md", "csv"))
    before = page.read_text()
    assert "| 5.10 | 1.5 | yes |  |" in before
    assert "2.25 with 2 seeds" in before
    measured = job.read_measured(tmp_path / "tdcd17", "table-1")
    assert measured.rows[1] == {"n": "5.2", "ours": 2.25, "fine": False, "note": None}
    assert measured.facts == {"seen": "3"}
    job.rewrite("tdcd17/table-1", tmp_path)
    assert page.read_text() == before
    rows.write_text(rows.read_text().replace("2.25", "7.5"))
    job.rewrite("tdcd17/table-1", tmp_path)
    assert page.read_text() == before.replace("2.25", "7.5")


def test_a_list_in_words():
    assert words(["a", "b", "c"]) == "a, b and c"
    assert words(["a"]) == "a"
    assert words([]) == "none"


def test_a_spread_is_mean_ends_and_deviation():
    assert Spread.of([1, 2, 3]) == (2, 1, 3, 1)
    assert Spread.of([5]) == (5, 5, 5, 0)
