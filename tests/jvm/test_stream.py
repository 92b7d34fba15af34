"""Streams: a batch counts once, whatever fails when; what the trace then holds is what one ingest makes of the rows."""

import json

import pytest
from pyspark.errors import StreamingQueryException

from overlace import ingest
from overlace.errors import BadParameter, Unknown
from overlace.observe.observation import observe_with_names
from overlace.spark.stream import into
from overlace.trace.store import Trace
from overlace.trace.writer import Writer
from tests.jvm.behaviours import made_up
from tests.observe.brute import observed, of_observation

pytestmark = pytest.mark.jvm
SCHEMA = "id long, at timestamp, client string, topic string, bytes long, receiver string"


def deliveries(messages):
    return [
        {**{name: each[name] for name in ("id", "client", "topic", "bytes")}, "receiver": receiver,
         "at": f"2026-01-0{5 + each['id'] // 60}T10:{each['id'] % 60:02}:00Z"}
        for each in messages for receiver in each["receivers"]
    ]  # fmt: skip


def run(spark, folder, trace):
    """All that is there, a file a batch."""
    stream = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).json(str(folder / "in"))
    batches = stream.writeStream.foreachBatch(
        into(trace, client="client", receiver="receiver", at="at", key="id", bucket="hour")
    )
    query = batches.option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True).start()
    try:
        query.awaitTermination()
    finally:
        query.stop()


def test_batches_count_once_and_together_are_one_ingest(spark, tmp_path, monkeypatch):
    messages = [each for each in made_up(150) if each["receivers"]]
    rows, trace = deliveries(messages), str(tmp_path / "trace")
    (tmp_path / "in").mkdir()
    for k in range(4):  # messages go on in the next batch
        part = rows[len(rows) * k // 4 : len(rows) * (k + 1) // 4]
        (tmp_path / f"in/{k}.json").write_text("".join(json.dumps(row) + "\n" for row in part))
        if k == 1:
            run(spark, tmp_path, trace)
    plain, failed = Writer.commit, []

    def commit(self, **named):
        if failed:
            made = plain(self, **named)
        failed.append(Trace.open(trace).digest())
        if len(failed) < 3:
            raise OSError("the power went off")  # once before the manifest is written, once after
        return made

    with monkeypatch.context() as patched:
        patched.setattr(Writer, "commit", commit)
        for _ in range(2):
            with pytest.raises(StreamingQueryException):
                run(spark, tmp_path, trace)
        assert failed[0] != failed[1], "the second time it counted"
        run(spark, tmp_path, trace)
    assert len(failed) == 3, "what counted was not read again"
    run(spark, tmp_path, trace)

    kept = Trace.open(trace)
    (noted,) = kept.notes["sources"].values()
    assert (noted["name"], noted["end"], noted["account"]["lines"]) == ("stream", 4, len(rows))
    assert of_observation(*observe_with_names(kept)) == observed(messages)
    frame = spark.read.schema(SCHEMA).json(str(tmp_path / "in"))
    once = ingest(
        frame, str(tmp_path / "once"), client="client", receiver="receiver", at="at", key="id", bucket="hour"
    ).trace
    assert kept.rows("messages") == once.rows("messages") == len(messages)
    for table in ("traffic", "audiences", "names"):
        same = [sorted((part.rows, part.hash) for part in each.parts[table]) for each in (kept, once)]
        assert same[0] == same[1], table


def test_what_is_wrong_shows_before_a_stream_starts(spark, tmp_path):
    with pytest.raises(Unknown, match="no option is called 'sender'"):
        into("trace", sender="src")
    with pytest.raises(BadParameter, match="expected to be called by foreachBatch"):
        into(str(tmp_path / "t"))(spark.range(1), 0)
