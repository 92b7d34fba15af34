import json
import shutil

import pyarrow as pa
import pytest

from overlace.errors import BadTrace, Busy
from overlace.trace.store import HOUR_US, Trace
from overlace.trace.writer import Writer
from tests.traces import trace_of


def test_nothing_counts_until_it_is_committed(tmp_path):
    path = str(tmp_path / "t")
    first = trace_of(path, [(5, 0, 0, 1, [1])])
    writer = Writer(path, first)
    writer.name({"client": ["x"]})
    assert Trace.open(path).digest() == first.digest()
    second = writer.commit(bucket_us=HOUR_US, unit="message", notes={})
    assert second.names == {"client": ["x"]}
    assert second.digest("traffic") == first.digest("traffic")


def test_files_that_no_longer_count_are_removed(tmp_path):
    path = str(tmp_path / "t")
    writer = Writer(path, trace_of(path, [(5, 0, 0, 1, [1])]))
    (tmp_path / "t/traffic/0123456789ab-left-by-a-killed-write.parquet").write_bytes(b"half")
    (tmp_path / "t/traffic/mine.parquet").write_bytes(b"somebody's own")
    (tmp_path / "t/messages/day1.jsonl").write_bytes(b"somebody's log")
    writer.name({"client": ["x"]})
    second = writer.commit(bucket_us=HOUR_US, unit="message", notes={})
    Writer(path, second).commit(bucket_us=HOUR_US, unit="message", notes={})  # what was replaced stays until then
    assert (tmp_path / "t/messages/day1.jsonl").exists()
    (tmp_path / "t/traffic/mine.parquet").unlink()
    assert len(list((tmp_path / "t").rglob("*.parquet"))) == sum(map(len, Trace.open(path).parts.values()))


def test_a_folder_with_other_things_does_not_become_a_trace(tmp_path):
    (tmp_path / "thesis.txt").write_text("...")
    with pytest.raises(BadTrace, match="holds other things .thesis.txt."):
        Writer(str(tmp_path))


def test_a_source_s_files_can_be_dropped(tmp_path):
    path = str(tmp_path / "t")
    writer = Writer(path)
    writer.name({"client": ["c"], "broker": ["b"]})
    for source in ("a", "b"):
        writer.write("sessions", pa.table({"client": [0], "broker": [0]}), source=source, name=source)
    writer.drop("sessions", "a")
    assert writer.commit(bucket_us=HOUR_US, unit="gb", notes={"x": 1}).rows("sessions") == 1
    assert Trace.open(path).unit == "gb"
    assert Trace.open(path).notes == {"x": 1}


def test_what_is_no_trace_is_said(tmp_path):
    with pytest.raises(BadTrace, match="has no trace.json"):
        Trace.open(str(tmp_path))
    assert not Trace.exists(str(tmp_path))
    trace = trace_of(str(tmp_path / "t"), [(5, 0, 0, 1, [1])])
    (tmp_path / "t" / trace.parts["traffic"][0].path).unlink()
    with pytest.raises(BadTrace, match="is named by trace.json but cannot be read"):
        trace.read("traffic")
    manifest = tmp_path / "t/trace.json"
    manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "schema_version": 9}))
    with pytest.raises(BadTrace, match="schema version 9; this Overlace reads up to 3"):
        Trace.open(str(tmp_path / "t"))
    manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "schema_version": 2}))
    with pytest.raises(BadTrace, match="schema version 2; .* make it anew: `overlace ingest ... --out .*/t`"):
        Trace.open(str(tmp_path / "t"))
    manifest.write_text("[]")
    with pytest.raises(BadTrace, match="schema version None"):
        Trace.open(str(tmp_path / "t"))
    manifest.write_text("{")
    with pytest.raises(BadTrace, match="cannot be read"):
        Trace.open(str(tmp_path / "t"))


def test_what_is_written_anew_while_it_is_read_is_busy_and_not_damaged(tmp_path):
    path = str(tmp_path / "t")
    trace = trace_of(path, [(5, 0, 0, 1, [1])])
    read = trace.read("traffic")
    shutil.rmtree(path)
    with pytest.raises(Busy, match="written anew while it was read"):
        trace.read("traffic")
    other = trace_of(path, [(5, 0, 0, 2, [1])])
    with pytest.raises(Busy, match="written anew while it was read"):
        trace.read("traffic")
    assert other.read("traffic") != read


def test_the_span_is_whole_buckets(tmp_path):
    assert trace_of(str(tmp_path / "t"), [(5, 0, 0, 1, [1]), (HOUR_US + 1, 0, 0, 1, [])]).span() == (0, 2 * HOUR_US)
    assert trace_of(str(tmp_path / "u"), []).span() == (0, 0)
