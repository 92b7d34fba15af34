"""`spark.read.format("overlace")`: logs as rows of EVENT, on a session of the user's own."""

import json
import re
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from overlace.errors import OverlaceError
from overlace.ingest.job import EVENT
from overlace.ingest.source import SCHEMA, Logs, job_of
from overlace.ingest.stages import (
    accounts_of,
    audiences_of,
    fragments_of,
    messages_of,
    names_of,
    rows_of,
    traffic_of,
    with_period,
)

HOUR = 3_600_000_000
LINES = (
    "sender,receiver,time,size\n"
    "ann,bob,2026-01-05T08:00:00Z,7\n"
    "ann,cid,2026-01-05T08:00:00Z,7\n"
    "bob,ann,2026-01-05T09:30:00Z,5\n"
    "bob,ann,never,5\n"
)
COLUMNS = {"map": "client=sender,receiver=receiver,at=time,bytes=size"}


@pytest.fixture
def logs(tmp_path):
    """A folder with a log of deliveries, and one with its messages as JSON."""
    (tmp_path / "a.csv").write_text(LINES)
    line = {"at": "2026-01-05T10:00:00Z", "client": "dan", "receivers": ["ann"], "topic": "_INBOX.x1"}
    (tmp_path / "b.jsonl").write_text(json.dumps(line) + "\n")
    return tmp_path


def test_a_users_own_session_reads_logs_and_runs_the_stages(sail, logs):
    sail.dataSource.register(Logs)
    events = sail.read.format("overlace").options(path=str(logs / "a.csv"), format="csv", **COLUMNS).load()
    assert events.columns == EVENT.names
    messages = messages_of(fragments_of(events)).where("state = 'whole'")
    found = traffic_of(with_period(messages, "day"), HOUR).orderBy("bucket").toArrow().to_pylist()
    assert [(row["messages"], row["bytes"], row["bucket"].hour) for row in found] == [(1, 7, 8), (1, 5, 9)]
    sets = {row["audience"]: row["members"] for row in audiences_of(events).toArrow().to_pylist()}
    names = {row["id"]: row["name"] for row in names_of(events).where("kind = 'client'").toArrow().to_pylist()}
    assert [{names[each] for each in sets[row["audience"]]} for row in found] == [{"bob", "cid"}, {"ann"}]
    lines = accounts_of(events).groupBy("what").agg(F.sum("rows").alias("rows")).toArrow().to_pylist()
    assert {row["what"]: row["rows"] for row in lines}.items() >= {"lines": 5, "kept": 3, "bad": 1}.items()


def test_the_example_of_the_docs_runs(sail, tmp_path, monkeypatch, capsys):
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "a.csv").write_text("sender,receiver,time,id\nann,bob,2026-01-05T08:00:00Z,m1\n")
    monkeypatch.chdir(tmp_path)
    text = (Path(__file__).parents[2] / "docs" / "how-it-works.md").read_text()
    (example,) = re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    exec(compile(example, "how-it-works.md", "exec"), {"spark": sail})
    assert "| ann|   1|" in capsys.readouterr().out


def test_paths_are_joined_by_commas_and_may_be_folders(sail, logs):
    sail.dataSource.register(Logs)
    for path in (f"{logs / 'a.csv'},{logs / 'b.jsonl'}", str(logs)):
        events = sail.read.format("overlace").options(path=path).load()
        assert rows_of(events, "message").count() == 3


def test_options_are_those_of_the_command_line(logs):
    job = job_of({"path": str(logs), "SKIP": "*.csv", "keep_topics": "true", "identity": "broker/client"})
    assert [source.name for source in job.sources] == ["b.jsonl"]
    assert (job.keep_topics, job.identity) == (True, "broker/client")
    job = job_of({"path": str(logs / "a.csv"), **COLUMNS, "group": "sender,at"})
    assert job.sources[0].options["group"] == ("client", "at")
    assert job.identity == "client"


def test_the_identity_is_that_of_the_format(tmp_path):
    (tmp_path / "hub.log").write_text("1767600000: mosquitto version 2.0.18 starting\n")
    job = job_of({"path": str(tmp_path / "hub.log"), "format": "mosquitto"})
    assert job.identity == "broker/client"
    assert job.sources[0].options["broker"] == "hub"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "expected a path"),
        ({"path": "x.csv", "keep_topcs": "true"}, "keep_topics"),
        ({"path": "x.csv", "reduce_only": "true"}, "no option is called 'reduce_only'"),
        ({"path": "x.csv", "header": "maybe"}, "expected true or false"),
        ({"path": "x.csv", "map": "client"}, "expected FIELD=COLUMN"),
    ],
)
def test_what_means_nothing_is_refused(options, said):
    with pytest.raises(OverlaceError, match=said):
        job_of(options)


def test_one_schema_is_read_by_spark_and_by_arrow():
    assert pa.schema(SCHEMA) == EVENT
    assert isinstance(SCHEMA, StructType)
    assert StructType.fromJson(json.loads(SCHEMA.json())) == StructType(SCHEMA.fields)
