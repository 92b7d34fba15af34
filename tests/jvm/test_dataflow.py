"""Ingest on Apache Spark is a dataflow: what Spark's own event log says of it."""

import json
import re
import subprocess
import sys

import pytest

from overlace.trace.store import Trace

pytestmark = pytest.mark.jvm

HEAD = "id,at,client,topic,bytes,receiver\n"


def deliveries(messages):
    """Rows of messages, three receivers each, the last of which comes far from the others; names grow with them."""
    rows = [(i, r) for i in range(messages) for r in range(2)] + [(i, 2) for i in range(messages)]
    return HEAD + "".join(f"m{i},{1_767_571_200 + i},c{i},t{i},{i % 90},r{(i + r) % messages}\n" for i, r in rows)


RUN = """
import json, sys
from overlace.ingest import source
from overlace.spark.ingest import ingest
from overlace.spark.engines import Engine, session

source.LEAST = source.MOST = 20_000
log, trace, config = sys.argv[1:]
with session(engine=Engine(master="local[2]", conf=json.loads(config))) as spark:
    ingest(log, trace, spark=spark)
"""


@pytest.fixture
def logged(tmp_path):
    """Ingests a log in several splits, in a process with settings of its own; (trace, the events that Spark logged)."""

    def run(messages):
        folder = tmp_path / f"{messages}"
        folder.mkdir()
        config = {
            "spark.eventLog.enabled": "true",
            "spark.eventLog.dir": folder.as_uri(),
            "spark.eventLog.compress": "false",
            "spark.sql.shuffle.partitions": "2",
            "spark.sql.autoBroadcastJoinThreshold": "-1",  # no small side of a join passes through the driver
        }
        path, out = tmp_path / f"{messages}.csv", tmp_path / f"trace{messages}"
        path.write_text(deliveries(messages))
        subprocess.run([sys.executable, "-c", RUN, str(path), str(out), json.dumps(config)], check=True)
        files = [each for each in folder.rglob("*") if each.is_file() and "appstatus" not in each.name]
        return Trace.open(str(out)), [json.loads(line) for each in files for line in each.read_text().splitlines()]

    return run


def plans(events):
    return [e["physicalPlanDescription"] for e in events if e["Event"].endswith("SparkListenerSQLExecutionStart")]


def tasks(events):
    return [e for e in events if e["Event"] == "SparkListenerTaskEnd"]


def to_driver(events):
    """Bytes of results that tasks sent to the driver."""
    return sum(task["Task Metrics"]["Result Size"] for task in tasks(events))


def test_fragments_are_joined_by_an_exchange_between_two_aggregations_and_nothing_grows_on_the_driver(logged):
    trace, events = logged(2000)
    assert trace.rows("messages") == 2000
    assert max(map(len, trace.read("audiences")["receivers"].to_pylist())) == 3
    shuffled = sum(t["Task Metrics"]["Shuffle Write Metrics"]["Shuffle Bytes Written"] for t in tasks(events))
    assert shuffled > 2000 * 50  # a message is some tens of bytes
    joined = [plan for plan in plans(events) if re.search(r"Arguments: hashpartitioning\(message#\d+L?, ", plan)]
    trees = [re.findall(r"HashAggregate|Exchange", plan.partition("\n\n")[0]) for plan in joined]
    assert ["HashAggregate", "Exchange", "HashAggregate"] in [tree[:3] for tree in trees], joined[:1]
    _, more = logged(20_000)
    assert len(tasks(more)) > len(tasks(events))  # of ten times as many bytes more splits
    most = [to_driver(each) / len(tasks(each)) for each in (events, more)]
    assert most[1] < 1.5 * most[0]  # a task answers with what it counted, not with rows
