"""Parquet and DataFrames go the way that text goes: the same rows, the same trace."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from overlace import ingest
from overlace.errors import BadParameter, BadTrace, Unknown
from overlace.ingest.options import Options
from overlace.trace.tables import TIME
from overlace.workloads.sites import Sites
from tests.traces import observe


def deliveries(seed=0, text=False, **more):
    part = Sites(messages=2000, clients=60, topics=30, days=2, seed=seed, **more).part(0, 2000)
    per = np.diff(part["start"])
    columns = {
        "message": np.repeat(np.arange(2000), per),
        "at": pa.array(np.repeat(part["at"], per)).cast(TIME),
        "client": pa.array(np.repeat(part["client"], per)),
        "topic": pa.array(np.repeat(part["topic"], per)),
        "bytes": np.repeat(part["bytes"], per),
        "receiver": pa.array(part["receivers"]),
    }
    if text:
        for name in ("client", "topic", "receiver"):
            columns[name] = pa.array([f"{name[0] if name == 'topic' else 'c'}{i}" for i in columns[name].to_pylist()])
    return pa.table(columns)


def saved(table, path, **how):
    pq.write_table(table, path, **how)
    return str(path)


def traffic(trace):
    return trace.digest("traffic", "audiences", "names")


@pytest.mark.parametrize("shape", [{}, {"text": True}, {"scatter": True}])
def test_however_rows_are_cut_and_ordered_the_traffic_is_the_same(sail, tmp_path, shape, monkeypatch):
    table = deliveries(**shape)
    monkeypatch.setattr("overlace.ingest.formats.parquet.ROWS", 1500)
    shuffled = table.take(np.random.default_rng(0).permutation(table.num_rows))
    (tmp_path / "lines.jsonl").write_text("".join(json.dumps(r, default=str) + "\n" for r in table.to_pylist()))
    paths = {
        "fine": saved(table, tmp_path / "a.parquet", row_group_size=997),
        "coarse": saved(table, tmp_path / "b.parquet"),
        "without statistics": saved(table, tmp_path / "c.parquet", row_group_size=700, write_statistics=False),
        "shuffled": saved(shuffled, tmp_path / "d.parquet", row_group_size=997),
        "text": str(tmp_path / "lines.jsonl"),
    }
    found = {}
    for name, path in paths.items():
        for only in (False, True):
            done = ingest(path, str(tmp_path / f"{name}-{only}"), spark=sail, options=Options(reduce_only=only))
            found[name, only] = traffic(done.trace)
            assert done.trace.rows("messages") == (0 if only else 2000)
            assert done.accounts[0].adds_up()
            assert done.accounts[0].lines == table.num_rows
    assert len(set(found.values())) == 1, found


def test_a_message_in_several_files_is_one_message(sail, tmp_path):
    table = deliveries()
    cut = table["message"].to_pylist()
    assert cut[1001] == cut[1002]
    names = [saved(table.slice(0, 1002), tmp_path / "l.parquet"), saved(table.slice(1002), tmp_path / "r.parquet")]
    parts = ingest(names, str(tmp_path / "parts"), spark=sail).trace
    whole = ingest([saved(table, tmp_path / "whole.parquet")], str(tmp_path / "one"), spark=sail).trace
    assert parts.rows("messages") == whole.rows("messages") == 2000
    assert observe(parts) == observe(whole)


def test_every_option_works_on_a_table_or_is_refused_by_name(sail, tmp_path, monkeypatch):
    path = saved(deliveries(text=True), tmp_path / "d.parquet")
    with pytest.raises(BadParameter, match="--pseudonymise needs a key of 16 bytes"):
        ingest(path, str(tmp_path / "t"), spark=sail, options=Options(pseudonymise=True))
    monkeypatch.setenv("OVERLACE_KEY", "a key of sixteen bytes or more")
    hidden = ingest(path, str(tmp_path / "h"), spark=sail, options=Options(pseudonymise=True, strict=True)).trace
    plain = ingest(path, str(tmp_path / "p"), spark=sail).trace
    assert not set(plain.names["client"]) & set(hidden.names["client"])
    assert sorted(observe(plain).sent) == sorted(observe(hidden).sent)
    with pytest.raises(BadParameter, match="--delimiter means nothing for the format parquet"):
        ingest(path, str(tmp_path / "x"), spark=sail, options=Options(delimiter=";"))
    joined = ingest(path, str(tmp_path / "i"), spark=sail, options=Options(identity="c[0-9]")).trace
    assert joined.names["client"] == sorted(
        {name[:2] for name in plain.names["client"]}, key=joined.names["client"].index
    )
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize("engine", ["sail", pytest.param("spark", marks=pytest.mark.jvm)])
def test_a_frame_becomes_a_trace_whatever_its_columns_are_called_and_a_second_batch_is_added(engine, tmp_path, request):
    sail = request.getfixturevalue(engine)
    table = deliveries(text=True)
    plain = ingest(saved(table, tmp_path / "raw.parquet"), str(tmp_path / "plain"), spark=sail).trace
    odd = saved(table.rename_columns(["nr", "when", "who", "about", "long", "whom"]), tmp_path / "odd.parquet")
    names = {"key": "nr", "at": "when", "client": "who", "topic": "about", "bytes": "long", "receiver": "whom"}
    frame = sail.read.parquet(odd).repartition(3)
    done = ingest(frame, str(tmp_path / "mapped"), map=names, spark=sail)
    assert traffic(done.trace) == traffic(plain)
    assert observe(done.trace) == observe(plain)
    assert done.accounts[0].source == "DataFrame"
    assert not list((tmp_path / "mapped").glob(".staging*"))
    more = sail.createDataFrame([("a", 1_900_000_000, ["b"])], "client string, at long, receivers array<string>")
    again = ingest(more, str(tmp_path / "mapped"), spark=sail)
    assert again.trace.rows("messages") == 2001
    assert sail.range(3).count() == 3  # the session is still there


def test_rows_without_an_id_topics_or_receivers_are_messages_too(sail, tmp_path):
    rows = [("a", 100, ["b", "c"]), ("a", 100, ["c"]), ("b", 4000, [])]
    frame = sail.createDataFrame(rows, "client string, at long, receivers array<string>")
    done = ingest(frame, str(tmp_path / "t"), spark=sail)
    found = observe(done.trace)
    assert done.trace.names == {"client": ["a", "b", "c"]}
    assert found.sent.tolist() == [1, 1, 0]
    assert done.accounts[0].duplicates == 1
    with pytest.raises(Unknown, match="no column is called 'x'"):
        ingest(frame, str(tmp_path / "u"), topic="x", spark=sail)
    with pytest.raises(BadTrace, match="no column is the sender of a message"):
        ingest(frame.drop("client"), str(tmp_path / "u"), spark=sail, options=Options(max_bad=0.1))
    assert not (tmp_path / "u").exists()


@pytest.mark.parametrize("text", [False, True])
def test_rows_that_cannot_be_read_are_quarantined_alone(sail, tmp_path, text):
    table = deliveries(text=text)
    client = table["client"].to_pylist()
    at = table["at"].cast(pa.int64()).to_pylist()
    length = table["bytes"].to_pylist()
    client[5], at[6], length[7] = None, None, -1
    columns = {
        "client": pa.array(client, table["client"].type),
        "at": pa.array(at, pa.int64()).cast(TIME),
        "bytes": length,
    }
    for name, values in columns.items():
        table = table.set_column(
            table.schema.get_field_index(name), name, pa.array(values) if name == "bytes" else values
        )
    done = ingest(saved(table, tmp_path / "d.parquet"), str(tmp_path / "t"), spark=sail)
    account = done.accounts[0]
    assert {reason: n for reason, (n, _) in account.quarantined.items()} == {
        "client: empty": 1, "at: empty": 1, "bytes: not a whole number of 0 or more": 1,
    }  # fmt: skip
    assert account.lines == table.num_rows


def test_null_topics_and_receivers_stay_null_and_files_without_rows_are_logs_without_messages(sail, tmp_path):
    table = deliveries(text=True)
    nothing = pa.array([None] * table.num_rows, pa.string())
    bare = table.set_column(3, "topic", nothing).set_column(5, "receiver", nothing)
    trace = ingest(saved(bare, tmp_path / "raw.parquet"), str(tmp_path / "t"), spark=sail).trace
    assert trace.read("traffic")["topic"].null_count == trace.rows("traffic") > 0
    assert set(trace.read("traffic")["audience"].to_pylist()) == {0}
    empty = ingest(saved(table.slice(0, 0), tmp_path / "none.parquet"), str(tmp_path / "e"), spark=sail).trace
    assert empty.rows("traffic") == 0
