"""`spark.read.format("overlace")` on Apache Spark; tests/ingest/test_source.py has the same on Sail."""

import pytest

from overlace.ingest.source import Logs, job_of, read_split, tasks_of
from overlace.ingest.stages import fragments_of, messages_of

pytestmark = pytest.mark.jvm

LINES = """sender,receiver,time,id
ann,bob,2026-01-05T08:00:00Z,m1
bob,ann,2026-01-05T08:00:01Z,m2
ann,cid,2026-01-05T08:00:02Z,m1
"""


def test_a_users_own_session_reads_logs_and_runs_the_stages(spark, tmp_path):
    (tmp_path / "log.csv").write_text(LINES)
    options = {"path": str(tmp_path), "map": "key=id", "format": "csv"}
    spark.dataSource.register(Logs)
    events = spark.read.format("overlace").options(**options).load()
    found = messages_of(fragments_of(events)).select("message", "rows", "heard", "state").toArrow().to_pylist()
    job = job_of(options)
    batches = [batch for task in tasks_of(job) for split in task.splits for batch in read_split(job, *split)]
    ids = {row["message"] for batch in batches for row in batch.to_pylist() if row["kind"] == "message"}
    assert {row["message"] for row in found} == ids
    assert sorted((row["rows"], row["heard"], row["state"]) for row in found) == [(1, 1, "whole"), (2, 1, "cut")]
