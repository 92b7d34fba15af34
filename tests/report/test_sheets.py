"""What was measured, and numbers as people read them."""

import pyarrow.parquet as pq
import pytest

from overlace.metrics import Metrics
from overlace.optimize.result import read_metrics
from overlace.report.sheets import Amount, change, sheet_of
from tests.report.test_page import sites

__all__ = ["sites"]


def test_a_sheet_holds_what_the_replay_measured(sites):
    run, _, _ = sites
    rows = pq.read_table(run / "metrics.parquet").to_pylist()
    sheets = {name: sheet_of(each) for name, each in read_metrics(run / "metrics.parquet").items()}
    assert len(rows) == sum(len(column.key) for sheet in sheets.values() for column in sheet.columns.values())
    for row in rows:
        found = sheets[row["run"]].by_pair(row["metric"], row["scope"])
        assert found[row["key"], -1 if row["other"] is None else row["other"]] == row["value"]


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0.0584, "share", "5.8 %"),
        (0.0004, "share", "0.04 %"),
        (49_278_938, "bytes", "49.3 MB"),
        (999.9, "bytes", "1.00 kB"),
        (26_542.97, "microseconds", "26.5 ms"),
        (850, "microseconds", "850 µs"),
        (2_500_000, "microseconds", "2.50 s"),
        (504_984, "deliveries", "504,984"),
        (6.73104, "links", "6.73"),
        (1_059_650.4, "", "1,059,650"),
        (81_075, "short", "81.1k"),
        (None, "", "–"),
    ],
)
def test_numbers_are_shown_as_people_read_them(value, unit, text):
    assert str(Amount(value, unit)) == text


def test_a_change_is_better_or_worse_by_the_metric_s_direction():
    assert change("cost", 200, 100) == ("−50.0 %", "better")
    assert change("local_share", 0.1, 0.05) == ("−5.0 points", "worse")
    assert change("messages", 1, 2) == ("+100.0 %", "")
    assert change("cost", 5, 5) == ("unchanged", "")


def test_a_sheet_is_the_same_from_memory(sites):
    run, _, _ = sites
    table = pq.read_table(run / "metrics.parquet").to_pylist()
    rows = [each for each in table if each["run"] == "before/held-out"]
    columns = {name: [each[name] for each in rows] for name in ("metric", "scope", "key", "value")}
    metrics = Metrics(**columns, other=[-1 if each["other"] is None else each["other"] for each in rows])
    there = sheet_of(read_metrics(run / "metrics.parquet")["before/held-out"])
    here = sheet_of(metrics)
    assert here.columns.keys() == there.columns.keys()
    for metric, scope in there.columns:
        assert here.by_pair(metric, scope) == there.by_pair(metric, scope)
