"""Deliveries in Parquet, reduced natively in tasks and by Spark's expressions: the same digests."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from overlace.spark.deliveries import by_expressions, ingest_frame, reduce_deliveries, reduce_split, splits_of, united

from overlace.errors import BadTrace, Unknown
from overlace.observe.observation import observe
from overlace.trace.store import HOUR_US, digest
from overlace.trace.tables import TIME
from overlace.workloads.sites import Sites

pytestmark = pytest.mark.jvm


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


def digests(named):
    return digest(named.reduction.traffic), digest(named.reduction.audiences), named.clients.to_pylist()


@pytest.mark.parametrize("shape", [{}, {"text": True}, {"scatter": True}])
@pytest.mark.parametrize("row_group", [997, 100_000])
def test_native_work_and_expressions_agree_however_rows_are_cut_and_ordered(spark, tmp_path, shape, row_group):
    table = deliveries(**shape)
    path = tmp_path / "raw.parquet"
    pq.write_table(table, path, row_group_size=row_group)
    native = reduce_deliveries([str(path)], spark, HOUR_US)
    order = np.random.default_rng(0).permutation(table.num_rows)
    pq.write_table(table.take(order), tmp_path / "shuffled.parquet")
    assert digests(by_expressions(spark.read.parquet(str(tmp_path / "shuffled.parquet")), HOUR_US)) == digests(native)
    pieces = [reduce_split(*split, HOUR_US) for split in splits_of(str(path), rows=1500)]
    assert len(pieces) > 1 or row_group > 10_000
    assert digests(united(pieces, HOUR_US)) == digests(native)
    assert native.reduction.traffic["messages"].to_numpy().sum() == len(set(table["message"].to_pylist()))


def test_a_message_across_many_row_groups_is_one_message(spark, tmp_path):
    table = deliveries()
    one = table.set_column(0, "message", pa.array(np.full(table.num_rows, 7)))
    pq.write_table(one, tmp_path / "one.parquet", row_group_size=100)
    pieces = [reduce_split(*split, HOUR_US) for split in splits_of(str(tmp_path / "one.parquet"), rows=300)]
    assert united(pieces, HOUR_US).reduction.traffic["messages"].to_pylist() == [1]


def test_what_is_not_sorted_or_lacks_a_column_is_refused(spark, tmp_path):
    table = deliveries()
    pq.write_table(table.take(np.arange(table.num_rows)[::-1]), tmp_path / "back.parquet")
    with pytest.raises(BadTrace, match="not sorted by message"):
        reduce_split(str(tmp_path / "back.parquet"), 0, 1, HOUR_US)
    pq.write_table(table.drop_columns(["topic"]), tmp_path / "less.parquet")
    with pytest.raises(BadTrace, match="no column topic"):
        splits_of(str(tmp_path / "less.parquet"))


def test_files_that_are_sorted_only_piece_by_piece_or_share_messages_are_not_reduced_natively(spark, tmp_path):
    table = deliveries()
    twice = pa.concat_tables([table, table])
    pq.write_table(twice, tmp_path / "twice.parquet", row_group_size=table.num_rows)
    with pytest.raises(BadTrace, match="not sorted by message"):
        reduce_split(str(tmp_path / "twice.parquet"), 1, 2, HOUR_US)
    names = [str(tmp_path / f"{name}.parquet") for name in ("left", "right")]
    pq.write_table(table.slice(0, 1002), names[0])
    pq.write_table(table.slice(1002), names[1])
    cut = table["message"].to_pylist()
    assert cut[1001] == cut[1002]
    with pytest.raises(BadTrace, match="both hold messages"):
        reduce_deliveries(names, spark, HOUR_US)
    pq.write_table(table, tmp_path / "whole.parquet")
    parts = ingest_frame(names, {}, str(tmp_path / "parts"), spark)
    whole = ingest_frame([str(tmp_path / "whole.parquet")], {}, str(tmp_path / "one"), spark)
    assert parts.digest() == whole.digest()


@pytest.mark.parametrize("text", [False, True])
@pytest.mark.parametrize("statistics", [False, True])
def test_deliveries_to_nobody_count_as_messages_either_way(spark, tmp_path, text, statistics):
    table = deliveries(text=text)
    some = np.arange(table.num_rows) % 3 == 0
    receiver = pa.array(table["receiver"].to_pylist(), mask=some)
    table = table.set_column(5, "receiver", receiver)
    path = str(tmp_path / "raw.parquet")
    pq.write_table(table, path, row_group_size=700, write_statistics=statistics)
    native = [reduce_split(*split, HOUR_US) for split in splits_of(path, rows=1500)]
    assert digests(united(native, HOUR_US)) == digests(by_expressions(spark.read.parquet(path), HOUR_US))


def test_files_without_rows_are_a_log_without_messages(spark, tmp_path):
    table = deliveries()
    path = str(tmp_path / "none.parquet")
    pq.write_table(table.slice(0, 0), path)
    with pq.ParquetWriter(str(tmp_path / "no_groups.parquet"), table.schema):
        pass
    for each in (path, str(tmp_path / "no_groups.parquet")):
        named = reduce_deliveries([each], spark, HOUR_US)
        assert [table.num_rows for table in named.reduction] == [0, 0]
        assert len(named.clients) == len(named.topics) == 0


def test_messages_without_a_sender_are_refused_in_plain_words(tmp_path):
    table = deliveries()
    path = str(tmp_path / "raw.parquet")
    pq.write_table(table.set_column(2, "client", pa.nulls(table.num_rows, pa.int64())), path)
    with pytest.raises(BadTrace, match="2,000 messages have no client"):
        reduce_split(path, 0, 1, HOUR_US)


def test_a_frame_becomes_a_trace_whatever_its_columns_are_called(spark, tmp_path):
    table = deliveries(text=True)
    pq.write_table(table, tmp_path / "raw.parquet")
    native = ingest_frame([str(tmp_path / "raw.parquet")], {}, str(tmp_path / "native"), spark)
    odd = table.rename_columns(["id", "when", "src", "subject", "size", "dst"])
    pq.write_table(odd, tmp_path / "odd.parquet")
    names = {"message": "id", "at": "when", "client": "src", "topic": "subject", "bytes": "size", "receiver": "dst"}
    frame = spark.read.parquet(str(tmp_path / "odd.parquet")).repartition(3)
    mapped = ingest_frame(frame, names, str(tmp_path / "mapped"), spark)
    assert native.digest() == mapped.digest()
    assert observe(native) == observe(mapped)
    with pytest.raises(BadTrace, match="keeps no messages"):
        observe(native, (native.span()[0] + 1, native.span()[1]))
    with pytest.raises(BadTrace, match="has traffic already"):
        ingest_frame(frame, names, str(tmp_path / "mapped"), spark)


def test_rows_without_an_id_topics_or_receivers_are_messages_too(spark, tmp_path):
    rows = [("a", 100, ["b", "c"]), ("a", 100, ["c"]), ("b", 4000, [])]
    frame = spark.createDataFrame(rows, "client string, at long, receivers array<string>")
    trace = ingest_frame(frame, {}, str(tmp_path / "t"), spark)
    found = observe(trace)
    assert trace.names == {"client": ["a", "b", "c"]}
    assert found.sent.tolist() == [1, 1, 0]
    assert list(zip(found.flows.sender, found.flows.receiver, found.flows.messages, strict=True)) == [
        (0, 1, 1),
        (0, 2, 1),
    ]
    with pytest.raises(Unknown, match="no column is called 'x'"):
        ingest_frame(frame, {"topic": "x"}, str(tmp_path / "u"), spark)
    with pytest.raises(BadTrace, match="has no receiver"):
        ingest_frame(frame.drop("receivers"), {}, str(tmp_path / "u"), spark)


@pytest.mark.parametrize("text", [False, True])
def test_null_topics_stay_null(spark, tmp_path, text):
    table = deliveries(text=text)
    nothing = pa.array([None] * table.num_rows, table["topic"].type)
    pq.write_table(table.set_column(3, "topic", nothing), tmp_path / "raw.parquet")
    trace = ingest_frame([str(tmp_path / "raw.parquet")], {}, str(tmp_path / "t"), spark)
    assert trace.read("traffic")["topic"].null_count == trace.rows("traffic") > 0
