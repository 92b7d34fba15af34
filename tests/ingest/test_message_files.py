"""Files of messages: by day, or by year where days hold few."""

import json
from datetime import UTC, datetime, timedelta

import pytest

from overlace.ingest import message_files
from overlace.ingest.run import ingest_sources

START = datetime(2025, 12, 1, tzinfo=UTC)


def ingested(tmp_path, days, each):
    moments = [START + timedelta(days=day, seconds=i) for day in range(days) for i in range(each)]
    rows = [{"at": at.isoformat(), "client": "p", "receivers": ["q"]} for at in moments]
    (tmp_path / "log.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    trace = ingest_sources([str(tmp_path / "log.jsonl")], str(tmp_path / "trace")).trace
    assert sorted(row["at"] for row in trace.read("messages").to_pylist()) == moments
    return sorted({part.path.split("/")[1] for part in trace.parts["messages"]})


@pytest.mark.parametrize(("days", "each"), [(3, 2), (message_files.LONG, 1)])
def test_few_days_have_a_file_each(tmp_path, days, each):
    dates = [(START + timedelta(days=day)).strftime("day=%Y-%m-%d") for day in range(days)]
    assert ingested(tmp_path, days, each) == dates


def test_many_days_with_few_messages_are_in_files_by_year(tmp_path):
    assert ingested(tmp_path, message_files.LONG + 1, 2) == ["year=2025", "year=2026"]


def test_many_days_with_many_messages_have_a_file_each(tmp_path, monkeypatch):
    monkeypatch.setattr(message_files, "THIN", 2)
    assert len(ingested(tmp_path, message_files.LONG + 4, 3)) == message_files.LONG + 4
