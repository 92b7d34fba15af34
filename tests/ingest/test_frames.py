"""Frames of Arrow, pandas and Polars: however its columns are typed, a frame gives what its values say."""

import dataclasses
import decimal
import inspect

import pandas
import polars
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import overlace
from overlace.errors import Absent, BadParameter, BadTrace, Unknown
from overlace.ingest.options import Options, TableOptions
from overlace.ingest.run import ingest_frame
from overlace.spark.engines import Engine
from overlace.spark.ingest import options_of
from tests.engine import sail
from tests.ingest.logs import START
from tests.ingest.test_together import messages

TIMES = [START + i for i in range(8)]
NAMES = [f"c{i % 3}" for i in range(8)]
LISTS = [[f"r{i % 5}", f"r{(i + 1) % 5}"] for i in range(8)]
PLAIN = {"when": TIMES, "src": NAMES, "bytes": [*range(8)], "receivers": LISTS}
VIEWS = [pa.string_view(), pa.large_string(), pa.dictionary(pa.int32(), pa.large_string()), pa.large_binary()]
TYPES = {
    "when": [pa.uint64(), pa.int32(), pa.float64(), pa.decimal128(20, 3), pa.timestamp("s"), pa.timestamp("s", "UTC")],
    "src": [*VIEWS, pa.binary(), pa.binary_view()],
    "bytes": [
        pa.uint64(),
        pa.uint8(),
        pa.float16(),
        pa.float32(),
        pa.decimal128(9, 0),
        pa.decimal256(50, 0),
        pa.string(),
    ],
    "receivers": [pa.list_(each) for each in VIEWS[:3]] + [pa.large_list(pa.large_string())],
}


def kept(frame, out, **options):
    done = ingest_frame(frame, str(out), lambda size: sail(), Options(map={"client": "src", "at": "when"}, **options))
    assert all(account.adds_up() for account in done.accounts)
    return done


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    return messages(kept(pa.table(PLAIN), tmp_path_factory.mktemp("plain") / "t").trace)


def cast(values, kind):
    if pa.types.is_timestamp(kind):
        return pa.array([each * 1 for each in values], pa.int64()).cast(kind)
    if pa.types.is_decimal(kind):
        return pa.array([decimal.Decimal(each) for each in values], kind)
    if pa.types.is_large_binary(kind) or pa.types.is_binary(kind) or kind == pa.binary_view():
        return pa.array([each.encode() for each in values], kind)
    if pa.types.is_string(kind):
        return pa.array([str(each) for each in values])
    return pa.array(values, kind)


@pytest.mark.parametrize(("name", "kind"), [(name, kind) for name, kinds in TYPES.items() for kind in kinds], ids=str)
def test_a_column_of_any_type_is_read_as_its_values(name, kind, expected, tmp_path):
    table = pa.table({**PLAIN, name: cast(PLAIN[name], kind)})
    assert messages(kept(pa.concat_tables([table.slice(0, 3), table.slice(3)]), tmp_path / "t").trace) == expected


@pytest.mark.parametrize(
    "made", [pandas.DataFrame, polars.DataFrame, lambda rows: sail().createDataFrame(pa.table(rows))]
)
def test_frames_of_any_library_give_the_same(made, expected, tmp_path):
    assert messages(kept(made(PLAIN), tmp_path / "t").trace) == expected


LINKS = {"left": ["x", "y", "x"], "right": ["y", "z", "z"], "cost": [5.0, 0.5, 1.0], "wired": [True, True, False]}
SESSIONS = {"who": ["a", "b"], "broker": ["x", "z"], "since": TIMES[:2]}


@pytest.mark.parametrize(
    "made", [pa.table, pandas.DataFrame, polars.DataFrame, lambda rows: sail().createDataFrame(pa.table(rows))]
)
@pytest.mark.parametrize(
    ("table", "rows", "columns"), [("links", LINKS, {}), ("sessions", SESSIONS, {"client": "who"})]
)
def test_a_frame_of_a_plain_table_gives_the_trace_that_its_file_gives(made, table, rows, columns, tmp_path):
    pq.write_table(pa.table(rows), tmp_path / "t.parquet")
    expected = overlace.ingest(tmp_path / "t.parquet", tmp_path / "file", table=table, map=columns)
    found = overlace.ingest(made(rows), tmp_path / "frame", table=table, **columns)
    assert found.trace.digest() == expected.trace.digest()
    assert found.tables == expected.tables == {table: (len(rows["broker" if columns else "left"]), 0, 0)}
    assert "\n" not in repr(found)
    assert f"{table}: " in repr(found)


def test_options_of_the_command_line_are_those_of_python(tmp_path):
    taken = inspect.signature(overlace.ingest).parameters
    for each in [each for kind in (Options, TableOptions, Engine) for each in dataclasses.fields(kind)]:
        assert each.name in taken or each.metadata.get("hidden")
    with pytest.raises(Unknown, match="Nearest: table"):
        overlace.ingest(pa.table(LINKS), tmp_path / "t", tabel="links")
    with pytest.raises(BadParameter, match="--group works on logs"):
        overlace.ingest(pa.table(LINKS), tmp_path / "t", table="links", group=("client",))
    with pytest.raises(BadParameter, match="a topology comes from files"):
        overlace.ingest(pa.table(LINKS), tmp_path / "t", topology=True)
    with pytest.raises(BadParameter, match="tables need no engine"):
        overlace.ingest(pa.table(LINKS), tmp_path / "t", table="links", engine="sail")
    assert not (tmp_path / "t").exists()


def test_a_list_is_as_good_as_a_tuple_for_every_option_that_has_several_values():
    several = [each for each in dataclasses.fields(Options) if "tuple" in str(each.type)]
    assert {"group", "skip", "where", "deliveries_where"} <= {each.name for each in several}
    for each in several:
        values = ["a=b"] if "where" in each.name else ["at"]
        assert options_of(**{each.name: values}) == options_of(**{each.name: tuple(values)})


TWICE = pa.Table.from_arrays([pa.array(TIMES), pa.array(NAMES), pa.array(NAMES)], names=["when", "src", "src"])


@pytest.mark.parametrize(
    ("frame", "error", "why"),
    [
        (TWICE, BadTrace, "several columns are called src"),
        (
            pandas.concat([pandas.DataFrame(PLAIN), pandas.DataFrame({"src": NAMES})], axis=1),
            BadTrace,
            "Duplicate column",
        ),
        (pandas.DataFrame({**PLAIN, "src": [1, "a"] * 4}), BadTrace, "column src"),
        (pandas.Series(NAMES), BadParameter, "found Series"),
        (pa.table({**PLAIN, "when": pa.array(TIMES, pa.duration("s"))}), BadTrace, "cannot be read as at"),
        (pa.table(PLAIN).slice(0, 0), Absent, "nothing to ingest: DataFrame: empty"),
    ],
)
def test_what_cannot_be_read_is_refused_in_one_line_and_nothing_is_written(frame, error, why, tmp_path):
    with pytest.raises(error, match=why) as found:
        kept(frame, tmp_path / "t")
    assert "\n" not in str(found.value)
    assert not (tmp_path / "t" / "trace.json").exists()


@pytest.mark.parametrize("field", ["time", "sender"])
def test_a_column_that_every_row_needs_is_missed_before_an_engine_starts(field, tmp_path):
    rows = {"at": TIMES, "client": NAMES, "topic": NAMES}
    del rows["at" if field == "time" else "client"]

    def start(size):
        raise AssertionError("an engine was started")

    with pytest.raises(BadTrace, match=f"no column is the {field} of a message"):
        ingest_frame(pa.table(rows), str(tmp_path / "t"), start, Options())


@pytest.mark.parametrize("form", ["delta", "iceberg"])
def test_a_table_of_a_lakehouse_is_a_log_and_takes_a_trace(form, expected, tmp_path):
    spark, logs, lake = sail(), str(tmp_path / "logs"), str(tmp_path / "traffic")
    spark.createDataFrame(pa.table(PLAIN)).write.format(form).save(logs)
    trace = kept(spark.read.format(form).load(logs), tmp_path / "t").trace
    assert messages(trace) == expected
    overlace.read(spark, trace.path, "traffic").write.format(form).save(lake)
    assert spark.read.format(form).load(lake).count() == trace.rows("traffic")
