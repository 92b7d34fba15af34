"""Deliveries in Parquet, reduced natively in tasks and by Spark's expressions: the same digests."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from overlace.errors import BadTrace
from overlace.spark.deliveries import by_expressions, reduce_deliveries, reduce_split, splits_of, united
from overlace.tables import TIME
from overlace.trace import HOUR_US, digest
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
    assert digests(united(pieces)) == digests(native)
    assert native.reduction.traffic["messages"].to_numpy().sum() == len(set(table["message"].to_pylist()))


def test_a_message_across_many_row_groups_is_one_message(spark, tmp_path):
    table = deliveries()
    one = table.set_column(0, "message", pa.array(np.full(table.num_rows, 7)))
    pq.write_table(one, tmp_path / "one.parquet", row_group_size=100)
    pieces = [reduce_split(*split, HOUR_US) for split in splits_of(str(tmp_path / "one.parquet"), rows=300)]
    assert united(pieces).reduction.traffic["messages"].to_pylist() == [1]


def test_what_is_not_sorted_or_lacks_a_column_is_refused(spark, tmp_path):
    table = deliveries()
    pq.write_table(table.take(np.arange(table.num_rows)[::-1]), tmp_path / "back.parquet")
    with pytest.raises(BadTrace, match="not sorted by message"):
        reduce_split(str(tmp_path / "back.parquet"), 0, 1, HOUR_US)
    pq.write_table(table.drop_columns(["topic"]), tmp_path / "less.parquet")
    with pytest.raises(BadTrace, match="no column topic"):
        splits_of(str(tmp_path / "less.parquet"))
