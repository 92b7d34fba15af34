import dataclasses
import json
import shutil

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from overlace.errors import BadTrace, Busy
from overlace.trace.store import HOUR_US, Part, Trace
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


@pytest.mark.parametrize("of_groups", [False, True])
def test_the_first_rows_are_those_that_reading_all_of_them_begins_with(tmp_path, of_groups):
    """Over files of several row groups, folders of files, and parts that are one row group of a file."""
    trace = trace_of(str(tmp_path / "t"), [(5, 0, 0, 1, [1])])
    rows = pa.table({"digest": [f"{i:016x}" for i in range(23)]} | {"name": ["a"] * 23, "format": ["x"] * 23})
    for column in ("lines", "kept", "ignored", "quarantined", "duplicates"):
        rows = rows.append_column(column, pa.array(range(23), pa.int64()))
    folder = tmp_path / "t/sources"
    (folder / "day").mkdir(parents=True)
    pq.write_table(rows.slice(0, 9), folder / "a.parquet", row_group_size=4)
    pq.write_table(rows.slice(9, 0), folder / "day/0.parquet")
    pq.write_table(rows.slice(9, 5), folder / "day/1.parquet", row_group_size=2)
    pq.write_table(rows.slice(14, 9), folder / "day/2.parquet", row_group_size=4)
    parts = [Part("sources/a.parquet", 9, 0), Part("sources/day", 14, 0)]
    if of_groups:
        parts = [Part("sources/a.parquet", 4, 0, group=1), Part("sources/a.parquet", 1, 0, group=2), parts[1]]
    trace = dataclasses.replace(trace, parts={"sources": parts})
    all_rows = trace.stored("sources")
    assert len(all_rows) == 19 if of_groups else 23
    for most in range(25):
        assert trace.stored("sources", most=most).equals(all_rows.slice(0, most)), most
