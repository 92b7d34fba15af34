"""Files of messages: by day, or by year where days hold few."""

import json
from datetime import UTC, datetime, timedelta

import pytest

from overlace.ingest import merge
from tests.engine import ingest_sources

START = datetime(2025, 12, 1, tzinfo=UTC)


def ingested(tmp_path, days, each):
    moments = [START + timedelta(days=day, seconds=i) for day in range(days) for i in range(each)]
    rows = [{"at": at.isoformat(), "client": "p", "receivers": ["q"]} for at in moments]
    (tmp_path / "log.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    trace = ingest_sources([str(tmp_path / "log.jsonl")], str(tmp_path / "trace")).trace
    assert sorted(row["at"] for row in trace.read("messages").to_pylist()) == moments
    return sorted({part.path.rpartition("/period=")[2] for part in trace.parts["messages"]})


@pytest.mark.parametrize(("days", "each"), [(3, 2), (merge.LONG, 1)])
def test_few_days_have_a_file_each(tmp_path, days, each):
    dates = [(START + timedelta(days=day)).strftime("%Y-%m-%d") for day in range(days)]
    assert ingested(tmp_path, days, each) == dates


def test_many_days_with_few_messages_are_in_files_by_year(tmp_path):
    assert ingested(tmp_path, merge.LONG + 1, 2) == ["2025-01-01", "2026-01-01"]


def test_many_days_with_many_messages_have_a_file_each(tmp_path, monkeypatch):
    monkeypatch.setattr(merge, "THIN", 2)
    assert len(ingested(tmp_path, merge.LONG + 4, 3)) == merge.LONG + 4


def test_days_are_never_joined_and_a_later_row_finds_its_message(tmp_path, monkeypatch):
    """However small they are and however many."""
    monkeypatch.setattr("overlace.trace.writer.FILES", 2)
    log, out = tmp_path / "log.jsonl", str(tmp_path / "trace")
    rows = [
        {"at": (START + timedelta(days=day)).isoformat(), "client": "p", "receiver": to, "id": day}
        for day, to in [(0, "q"), (1, "q"), (2, "q"), (3, "q"), (3, "r")]
    ]
    log.write_text("".join(json.dumps(row) + "\n" for row in rows[:-1]))
    ingest_sources([str(log)], out)
    log.write_text("".join(json.dumps(row) + "\n" for row in rows))
    grown = ingest_sources([str(log)], out).trace
    at_once = ingest_sources([str(log)], str(tmp_path / "other")).trace
    assert grown.digest() == at_once.digest()
    assert len({part.path.rpartition("/period=")[2] for part in grown.parts["messages"]}) == 4
