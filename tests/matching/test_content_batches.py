"""Matching as a batch function."""

import pickle
from functools import partial

import pyarrow as pa
import pytest

from overlace.errors import BadParameter, BadTrace
from overlace.matching.content.batches import match_batches, match_lists
from overlace.matching.content.columns import Columns
from overlace.matching.content.filters import parse_filter
from overlace.matching.content.matcher import Matcher
from tests.matching.test_content_matcher import literal_match, quotes

FILTERS = [
    parse_filter(text)
    for text in ("symbol = 'S1'", "close > 20 and open exists", "symbol prefix 'S1' and volume < 500", "other = 1")
]


def test_batches_come_out_with_the_filters_of_each_message():
    batches = [quotes(30, 0), quotes(0, 1), quotes(7, 2)]
    done = list(match_batches(iter(batches), Matcher(FILTERS)))
    for given, got in zip(batches, done, strict=True):
        assert got.schema.names == [*given.schema.names, "filters"]
        assert got.schema.field("filters").type == pa.list_(pa.int32())
        assert got.select(given.schema.names).equals(given)
        messages = list(Columns.from_batch(given).messages())
        assert got.column("filters").to_pylist() == literal_match(enumerate(FILTERS), messages)


def test_the_function_can_be_shipped():
    here = partial(match_batches, matcher=Matcher(FILTERS))
    there = pickle.loads(pickle.dumps(here))
    assert list(there([quotes(9, 3)])) == list(here([quotes(9, 3)]))


def test_columns_that_no_filter_names_may_be_anything():
    batch = quotes(5, 4).append_column("when", pa.array(range(5), pa.timestamp("us")))
    assert match_lists(batch, Matcher(FILTERS)).equals(match_lists(quotes(5, 4), Matcher(FILTERS)))
    with pytest.raises(BadTrace, match="column when: found timestamp"):
        match_lists(batch, Matcher([parse_filter("when > 1")]))


def test_a_column_is_not_written_over():
    with pytest.raises(BadParameter, match="found a column close already"):
        list(match_batches([quotes(3, 0)], Matcher(FILTERS), column="close"))


@pytest.mark.jvm
def test_spark_gives_the_same_rows_as_a_list(spark):
    table = pa.Table.from_batches([quotes(200, 5)])
    plain = table.set_column(0, "symbol", table.column("symbol").cast(pa.string()))
    expected = [row for batch in match_batches(plain.to_batches(), Matcher(FILTERS)) for row in batch.to_pylist()]
    frame = spark.createDataFrame(plain.to_pylist(), "symbol string, close double, volume long, open double")
    matched = frame.repartition(3).mapInArrow(
        partial(match_batches, matcher=Matcher(FILTERS)),
        "symbol string, close double, volume long, open double, filters array<int>",
    )

    def key(row):
        return str(sorted(row.items()))

    assert sorted((row.asDict() for row in matched.collect()), key=key) == sorted(expected, key=key)
