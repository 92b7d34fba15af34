"""Ids are hashes of names: those of Spark, in what is stored; what runs in process has numbers."""

import json
import math
import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overlace.errors import BadTrace
from overlace.trace import ids
from overlace.trace.digests import digest, digest_columns, digest_of
from overlace.trace.ids import AUDIENCE_SALT, audience_of, identities, xxhash64
from overlace.trace.store import HOUR_US, NEVER, Part, Trace
from overlace.trace.tables import TIME, TRACE, conform
from overlace.trace.writer import Writer, writing
from tests.traces import observe, trace_of

longs = st.integers(-(2**63), 2**63 - 1)


@pytest.fixture(scope="module")
def sail():
    """A session on Sail; made so that a Spark of its own can still be had in this process."""
    server = pytest.importorskip("pysail.spark").SparkConnectServer()
    server.start(background=True)
    from pyspark.sql.connect.session import SparkSession

    spark = SparkSession.builder.remote(f"sc://localhost:{server.listening_address[1]}").create()
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    yield spark
    spark.stop()
    server.stop()


def test_an_id_is_spark_s_xxhash64_of_the_name():
    assert identities(["a"]).tolist() == [-8582455328737087284]
    assert xxhash64(np.array([1])).tolist() == [-7001672635703045582]


@given(st.lists(st.lists(longs, max_size=5, unique=True), max_size=8), st.randoms(use_true_random=False))
def test_an_audience_is_a_set(sets, random):
    start = np.cumsum([0, *map(len, sets)])
    members = np.array([each for own in sets for each in own], np.int64)
    shuffled = np.array([each for own in sets for each in random.sample(own, len(own))], np.int64)
    found = audience_of(start, members)
    assert found.tolist() == audience_of(start, shuffled).tolist()
    for own, audience in zip(sets, found.tolist(), strict=True):
        expected = AUDIENCE_SALT
        for each in xxhash64(np.array(own, np.int64)).tolist():
            expected ^= each
        assert audience == expected


@settings(max_examples=25)
@given(st.lists(longs, min_size=1, max_size=20), st.lists(st.text(max_size=9), min_size=1, max_size=20))
def test_sail_has_the_same_ids(sail, values, names):
    frame = sail.createDataFrame(pa.table({"value": pa.array(values, pa.int64())}))
    assert [row[0] for row in frame.selectExpr("xxhash64(value)").collect()] == xxhash64(np.array(values)).tolist()
    frame = sail.createDataFrame(pa.table({"name": pa.array(names, pa.string())}))
    assert [row[0] for row in frame.selectExpr("xxhash64(name)").collect()] == identities(names).tolist()


def of_type(kind):
    if pa.types.is_string(kind):
        return st.text(max_size=6)
    if pa.types.is_boolean(kind):
        return st.booleans()
    if pa.types.is_list(kind):
        return st.lists(longs, max_size=4)
    if pa.types.is_floating(kind):
        return st.floats().map(lambda value: value if value == value else math.nan)
    if pa.types.is_timestamp(kind):
        return st.integers(-(2**50), 2**50)
    width = kind.bit_width - 1
    return st.integers(-(2**width), 2**width - 1)


@pytest.mark.parametrize("name", sorted(TRACE))
@settings(max_examples=8, deadline=None)
@given(data=st.data())
def test_sail_computes_the_same_digests(sail, name, data):
    fields = [(each, of_type(each.type)) for each in TRACE[name]]
    row = st.tuples(*(st.none() | own if each.nullable else own for each, own in fields))
    rows = data.draw(st.lists(row, min_size=1, max_size=8))
    columns = [pa.array(column, each.type) for column, each in zip(zip(*rows, strict=True), TRACE[name], strict=True)]
    table = pa.table(columns, schema=TRACE[name])
    (found,) = sail.createDataFrame(table).selectExpr(*digest_columns(name)).collect()
    assert digest_of(*found) == digest(table)


@given(st.permutations(range(6)))
def test_equal_values_in_other_columns_are_other_rows(order):
    def made(since, until):
        return conform(pa.table({"client": [1], "broker": [2], "since": since, "until": until}), "sessions")

    one, none = pa.array([7], pa.int64()).cast(TIME), pa.nulls(1, TIME)
    assert len({digest(made(*each)) for each in ((one, none), (none, one), (one, one), (none, none))}) == 4
    table = pa.table({"client": list(range(6)), "broker": [0] * 6})
    assert digest(conform(table.take(order), "sessions")) == digest(conform(table, "sessions"))


def test_names_are_numbered_by_when_they_came_up_then_by_name_and_stored_by_hash(tmp_path):
    with writing(str(tmp_path / "t"), anew=True) as writer:
        writer.name({"client": ["z", "b", "a", "y"], "region": ["r1", "r0"]}, {"client": np.array([5, 9, 9, NEVER])})
        writer.write("sessions", pa.table({"client": [0, 1, 2, 3], "broker": [0] * 4}).slice(0, 0))
        writer.write("clients", pa.table({"client": [0, 1, 2, 3], "region": pa.array([0, 1, None, 0], pa.int32())}))
        trace = writer.commit(bucket_us=HOUR_US, unit="message", notes={})
    assert trace.names == {"client": ["y", "z", "a", "b"], "region": ["r1", "r0"]}
    assert trace.since["client"].tolist() == [NEVER, 5, 9, 9]
    assert trace.read("clients")["client"].to_pylist() == [1, 3, 2, 0]
    assert trace.stored("clients")["client"].to_pylist() == identities(["z", "b", "a", "y"]).tolist()
    assert trace.read("clients")["region"].to_pylist() == [0, 1, None, 0]
    assert trace.read("names").num_rows == 6


def test_the_same_rows_under_other_numbers_are_the_same_trace(tmp_path):
    sent = [(5, 0, 0, 1, [1, 2]), (9, 2, 1, 1, None)]
    other = [(5, 2, 1, 1, [0, 1]), (9, 1, 0, 1, None)]
    names = {"client": ["p", "q", "r"], "topic": ["s", "t"], "broker": ["x", "y"]}
    turned = {"client": ["q", "r", "p"], "topic": ["t", "s"], "broker": ["y", "x"]}
    tables = {
        "sessions": {"client": [0, 1], "broker": [0, 1]},
        "links": {"left": [0], "right": [1], "wired": [True], "dials": [1]},
    }
    same = {
        "sessions": {"client": [2, 0], "broker": [1, 0]},
        "links": {"left": [0], "right": [1], "wired": [True], "dials": [0]},
    }
    one = trace_of(tmp_path / "one", sent, names, **tables)
    two = trace_of(tmp_path / "two", other, turned, **same)
    for table in ("traffic", "audiences", "messages", "sessions", "links"):
        assert one.digest(table) == two.digest(table), table
    assert [two.names["broker"][each] for each in two.read("links")["dials"].to_pylist()] == ["y"]


def test_receivers_are_sorted_by_number_and_by_id(tmp_path):
    trace = trace_of(tmp_path / "t", [(5, 0, 0, 1, [3, 1, 2])])
    assert trace.read("audiences")["receivers"].to_pylist() == [[1, 2, 3]]
    (stored,) = trace.stored("audiences")["receivers"].to_pylist()
    assert stored == sorted(identities(["c1", "c2", "c3"]).tolist())
    assert trace.read("audiences")["audience"].to_pylist() == audience_of([0, 3], np.array(stored)).tolist()


def test_two_names_of_one_id_are_refused_by_name(tmp_path, monkeypatch):
    monkeypatch.setattr(ids, "BITS", 2)
    writer = Writer(str(tmp_path / "t"))
    with pytest.raises(BadTrace, match="the client names 'c[0-9]' and 'c[0-9]' have the same id"):
        writer.name({"client": [f"c{i}" for i in range(5)]})
    monkeypatch.setattr(ids, "BITS", 64)
    writer.name({"client": ["one"], "topic": ["one"]})
    with pytest.raises(BadTrace, match="a client without a name"):
        writer.write("clients", pa.table({"client": [1]}))


def test_an_id_without_a_name_is_said(tmp_path):
    with writing(str(tmp_path / "t"), anew=True) as writer:
        writer.name({"client": ["a"]})
        writer.store("clients", conform(pa.table({"client": [7]}), "clients"))
        trace = writer.commit(bucket_us=HOUR_US, unit="message", notes={})
    with pytest.raises(BadTrace, match=r"1 rows name a client without a name \(first: 7\)"):
        trace.read("clients")


# --- parts that are folders ----------------------------------------------------------------------------


def in_a_folder(trace, table, folder):
    """A writer of the trace with a table in a folder of several files, as an engine writes it."""
    writer, rows = Writer(trace.path, trace), trace.stored(table)
    at = Path(trace.path) / folder
    at.mkdir(parents=True)
    source = pa.field("source", pa.int64())
    for i in range(rows.num_rows):
        one = rows.slice(i, 1).append_column(source, pa.array([i], pa.int64()))
        pq.write_table(one, at / f"part-{i:05}-c000.zstd.parquet")
    (at / "_SUCCESS").touch()
    (at / ".part-0.crc").write_bytes(b"x")
    writer.parts[table] = [Part(folder, *digest(rows))]
    return writer


def test_a_part_may_be_a_folder_with_further_columns(tmp_path):
    trace = trace_of(tmp_path / "t", [(5, 0, 0, 1, [1]), (6, 1, 0, 1, [0]), (HOUR_US, 0, 1, 2, None)])
    seen = observe(trace)
    writer = in_a_folder(trace, "messages", "messages/generation=2/day=1970-01-01")
    made = writer.commit(bucket_us=trace.bucket_us, unit=trace.unit, notes={})
    assert made.digest() == trace.digest()
    assert made.read("messages").equals(trace.read("messages"))
    more = made.stored("messages", ["at"], extra=[pa.field("source", pa.int64())])
    assert more["source"].to_pylist() == [0, 1, 2]
    assert observe(made) == seen
    again = Writer(made.path, made).commit(bucket_us=trace.bucket_us, unit=trace.unit, notes={})
    assert len(list((tmp_path / "t/messages").rglob("*.parquet"))) == 3
    gone = Writer(made.path, again)
    gone.parts["messages"] = []
    for _ in range(2):  # what a generation no longer names stays until the next one
        assert (tmp_path / "t/messages/generation=2").exists()
        last = gone.commit(bucket_us=trace.bucket_us, unit=trace.unit, notes={})
        gone = Writer(made.path, last)
    assert not [each for each in (tmp_path / "t/messages").rglob("*") if each.is_file()]


def test_a_generation_that_was_never_committed_is_removed(tmp_path):
    trace = trace_of(tmp_path / "t", [(5, 0, 0, 1, [1])])
    left = tmp_path / "t/messages/generation=2/day=1970-01-01"
    left.mkdir(parents=True)
    (left / "part-0.parquet").write_bytes(b"half")
    with pytest.raises(ValueError, match="on the way"), writing(trace.path) as writer:
        assert not list(left.glob("*"))
        in_a_folder(writer.base, "traffic", "traffic/generation=2/day=1970-01-01")
        raise ValueError("on the way")
    assert not list((tmp_path / "t").rglob("generation=*/"))
    assert Trace.open(trace.path).digest() == trace.digest()


# --- the manifest ----------------------------------------------------------------------------------------


def change_at(document, path, value):
    *way, last = path
    for step in way:
        document = document[step]
    if value is KeyError:
        del document[last]
    else:
        document[last] = value


PLACES = [
    ("schema_version",), ("generation",), ("bucket_us",), ("unit",), ("tables",), ("notes",), ("more",),
    ("tables", "traffic"), ("tables", "colours"), ("tables", "traffic", 0),
    *(("tables", "traffic", 0, each) for each in ("path", "rows", "hash", "group", "source", "more")),
]  # fmt: skip
json_values = st.sampled_from([None, True, -1, 0, 1.5, "x", [], {}, [1], {"a": 1}, 2**70, KeyError])


@pytest.fixture(scope="module")
def manifest(tmp_path_factory):
    trace = trace_of(tmp_path_factory.mktemp("m") / "t", [(5, 0, 0, 1, [1])])
    path = Path(trace.path) / "trace.json"
    return path, path.read_text()


@given(place=st.sampled_from(PLACES), value=json_values)
def test_an_altered_manifest_is_read_or_refused_in_one_line(manifest, place, value):
    path, text = manifest
    document = json.loads(text)
    if value is KeyError and place[-1] in ("more", "colours", "group", "source", "generation"):
        return
    change_at(document, place, value)
    path.write_text(json.dumps(document))
    said = ""
    try:
        Trace.open(str(path.parent)).read("traffic")
    except BadTrace as error:
        said = str(error)
    assert not said or (str(path.parent) in said and "\n" not in said)


@pytest.mark.parametrize(
    ("place", "value", "says"),
    [
        (("unit",), KeyError, "missing required field `unit`"),
        (("more",), 1, "unknown field `more`"),
        (("bucket_us",), 0, "`int` >= 1"),
        (("tables", "traffic", 0, "rows"), "x", re.escape("`$.tables[...][0].rows`")),
        (("tables", "colours"), [], "names the table 'colours'"),
        (("tables", "traffic", 0, "path"), "traffic/../../secret.parquet", "where no part of it lies"),
        (("tables", "traffic", 0, "path"), "/etc/secret.parquet", "where no part of it lies"),
        (("tables", "traffic", 0, "path"), "messages/x.parquet", "where no part of it lies"),
    ],
)
def test_what_is_wrong_in_a_manifest_is_named(manifest, place, value, says):
    path, text = manifest
    document = json.loads(text)
    change_at(document, place, value)
    path.write_text(json.dumps(document))
    with pytest.raises(BadTrace, match=says):
        Trace.open(str(path.parent))
