"""Plain files: what can be read as a table, and what is said of what cannot."""

import gzip
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overlace.errors import OverlaceError
from overlace.ingest.table_merging import merge
from overlace.ingest.table_rows import TABLES, encode_rows, read_table_file
from overlace.trace.tables import schema_of

ROWS = [{"left": "a", "right": "b", "cost": 2.5, "wired": True}, {"left": "c", "right": "a", "cost": None}]
CSV = "left,right,cost,wired\na,b,2.5,yes\nc,a,,\n"


@pytest.fixture
def links(tmp_path):
    """A file of links as coded rows."""

    def read(name, content, table="links", **options):
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        rows = read_table_file(str(path), table, options)
        return encode_rows(rows, table, {}, where=name)[1].to_pylist()

    return read


def parquet(rows):
    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_pylist(rows), sink)
    return sink.getvalue().to_pybytes()


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("x.csv", CSV),
        ("x.csv", CSV.replace("\n", "\r\n")),
        ("x.csv", "\ufeff" + CSV),
        ("x.txt", "\n" + CSV.replace(",", ";")),
        ("x.csv.gz", gzip.compress(CSV.encode(), mtime=0)),
        ("packed.csv", gzip.compress(CSV.encode(), mtime=0)),
        ("x.jsonl", "\n".join(map(json.dumps, ROWS))),
        ("x.json", "\n\n".join(map(json.dumps, ROWS)) + "\n"),
        ("x.log", "\n".join(map(json.dumps, ROWS))),
        ("x.json", json.dumps(ROWS)),
        ("x.csv", json.dumps(ROWS, indent=1)),
        ("x.json.gz", gzip.compress(json.dumps(ROWS).encode(), mtime=0)),
        ("x.parquet", parquet(ROWS)),
        ("x", parquet(ROWS)),
    ],
)
def test_the_same_rows_in_any_kind_of_file(links, name, content):
    assert links(name, content) == [
        {"left": 0, "right": 2, "cost": 2.5, "wired": True},
        {"left": 0, "right": 1, "cost": None, "wired": None},
    ]


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("x.csv", "", "x.csv: the file is empty"),
        ("x.csv", " \n\n", "x.csv: the file is empty"),
        ("x.jsonl", "", "x.jsonl: the file is empty"),
        ("x.parquet", "", "x.parquet: cannot be read as a table"),
        ("x.parquet", parquet(ROWS)[:-9], "x.parquet: cannot be read as a table"),
        ("x.csv.gz", gzip.compress(CSV.encode() * 50, mtime=0)[:-12], "x.csv.gz: the gzip file is cut"),
        ("x.csv.gz", b"\x1f\x8b" + b"?" * 30, "x.csv.gz: the gzip file is cut"),
        ("x.csv", CSV.encode("utf-16"), "x.csv: UTF-16, or no text. Expected UTF-8"),
        ("x.csv", CSV.encode("utf-16-le"), "x.csv: UTF-16, or no text"),
        ("x.csv", "left,right\na,b\nZürich,b\n".encode("latin-1"), "x.csv: line 3 is not UTF-8"),
        ("x.json", json.dumps([1, 2]), "x.json: found the columns 0, 1"),
        ("x.json", json.dumps([{"left": "a"}, ["a", "b"]]), "x.json: element 2 is no JSON object"),
        ("x.json", json.dumps(ROWS)[:-3], "x.json: line 1 is no JSON object"),
        ("x.json", json.dumps(ROWS[0], indent=1), "x.json: line 1 is no JSON object"),
        ("x.jsonl", '{"left": "a"}\n[1]\n', "x.jsonl: line 2 is no JSON object"),
        ("x.jsonl", "[" * 100_000, "x.jsonl: line 1 is no JSON object"),
        ("x.jsonl", '{"a":' * 100_000, "x.jsonl: line 1 is no JSON object"),
        ("x.jsonl", '{"left": ["a"], "right": "b"}', "x.jsonl: line 1: left is a list or an object"),
        ("x.jsonl", '{"left": "\\ud800", "right": "b"}', "x.jsonl: cannot be read as a table"),
        ("x.csv", "left,right\na,b\na\n", "x.csv: cannot be read as a table: .*Expected 2 columns, got 1"),
        ("x.csv", "left,left,right\na,b,c\n", "x.csv: the column left stands twice"),
        ("x.csv", "left,cost\na,1\n", "x.csv: found the columns left, cost; expected left right cost"),
        ("x.csv", "left,right,colour\na,b,red\n", "x.csv: found the columns left, right, colour; expected left right"),
        ("x.csv", "left,right,cost\na,b,1\nb,c,dear\n", "x.csv: row 2: cost is 'dear'. Expected a number from 0 on"),
        ("x.csv", "left,right,cost\na,b,-1\n", "row 1: cost is '-1'. Expected a number from 0 on"),
        ("x.csv", "left,right,cost\na,b,nan\n", "row 1: cost is 'nan'. Expected a number"),
        ("x.csv", "left,right,latency_us\na,b,1.5\n", "row 1: latency_us is '1.5'. Expected a whole number from 0 on"),
        ("x.csv", "left,right,latency_us\na,b,99999999999\n", "row 1: latency_us is '99999999999'"),
        ("x.csv", "left,right,wired\na,b,no\nb,c,maybe\n", "row 2: wired is 'maybe'. Expected true or false"),
        ("x.csv", "left,right,since\na,b,soon\n", "row 1: since is 'soon'. Expected a time, such as 2026"),
        ("x.csv", "left,right\na,b\n,c\n", "row 2: left is empty. Expected a value"),
        ("x.csv", "left,right\na,b\nc,c\n", "row 2 joins 'c' with itself"),
        ("x.jsonl", '{"left": "a", "right": 1, "cost": true}\n{"left": "a", "right": 2, "cost": 1}', "row 1: cost is"),
        ("x.parquet", parquet([{"left": ["a"], "right": "b"}]), "row 1: left is ..a... Expected text"),
        ("x.parquet", parquet([{"left": b"\xff", "right": "b"}]), "row 1: left is b'.xff'. Expected text"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_as_a_table_is_said_in_one_line(links, name, content, says):
    with pytest.raises(OverlaceError, match=says) as caught:
        links(name, content)
    assert "\n" not in str(caught.value)


def test_a_file_that_is_not_there_is_said(tmp_path):
    with pytest.raises(OverlaceError, match="none.csv: No such file or directory"):
        read_table_file(str(tmp_path / "none.csv"), "links", {})


def test_a_table_with_a_header_and_no_rows_is_a_table(links):
    assert links("x.csv", "left,right\n") == []
    assert links("x.csv", "left,right") == []


def test_numbers_and_times_as_other_tools_write_them(links):
    written = "left,right,latency_us,since\na,b,1500.0,2026-01-05\nb,c, 7 ,1767571200\n"
    first, second = links("x.csv", written)
    assert (first["latency_us"], second["latency_us"]) == (1500, 7)
    assert first["since"] == second["since"]
    stamp = pa.array([1_767_571_200_000_000_000], pa.timestamp("ns"))
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"left": [1], "right": [2], "since": stamp, "latency_us": [3.0]}), sink)
    (row,) = links("x.parquet", sink.getvalue().to_pybytes())
    assert row["since"] == first["since"]
    assert row["latency_us"] == 3


def test_names_are_text_whatever_they_look_like(tmp_path):
    path = tmp_path / "x.jsonl"
    path.write_text(
        '{"client": "2026-01-05", "topic": 7}\n{"client": 1.5, "topic": "7"}\n{"client": true, "topic": "x"}\n'
    )
    _, _, names = encode_rows(read_table_file(str(path), "interests", {}), "interests", {})
    assert names == {"client": ["1.5", "2026-01-05", "true"], "topic": ["7", "x"]}


def test_a_path_with_braces_is_named_as_it_is(links):
    with pytest.raises(OverlaceError, match=r"\{x\}.csv: row 1: cost is '\{0\}'"):
        links("{x}.csv", "left,right,cost\na,b,{0}\n")


def complaint(path, table):
    """What is wrong with a file, empty if nothing is."""
    try:
        named, rows, _ = encode_rows(read_table_file(str(path), table, {}), table, {})
        merge(schema_of(named).empty_table(), rows, named)
    except OverlaceError as error:
        return str(error)
    return ""


@settings(max_examples=200)
@given(
    st.binary(max_size=60) | st.text(max_size=60).map(str.encode),
    st.sampled_from(TABLES),
    st.sampled_from(["csv", "json"]),
)
def test_any_file_is_a_table_or_a_clear_error(tmp_path_factory, content, table, ending):
    path = tmp_path_factory.getbasetemp() / f"any.{ending}"
    path.write_bytes(content)
    assert "\n" not in complaint(path, table)


CELL = st.text(",;'\"{}[]:01.-e ayz", max_size=4)


@settings(max_examples=200)
@given(st.lists(st.lists(CELL, min_size=4, max_size=4), max_size=4), st.sampled_from(["csv", "jsonl"]))
def test_any_cells_are_links_or_a_clear_error(tmp_path_factory, cells, ending):
    path = tmp_path_factory.getbasetemp() / f"cells.{ending}"
    names = ["left", "right", "cost", "since"]
    lines = [",".join(row) for row in [names, *cells]]
    lines = lines if ending == "csv" else [json.dumps(dict(zip(names, row, strict=True))) for row in cells]
    path.write_text("\n".join(lines))
    assert "\n" not in complaint(path, "links")


@pytest.mark.parametrize("text", ['[["a", "x"], ["b", 7]]', '["a", "x"]\n["b", 7]\n', '[["a", "x"],\n ["b", 7]]\n'])
def test_lists_in_json_are_rows_whose_columns_have_numbers(tmp_path, text):
    (tmp_path / "x.json").write_text(text)
    rows = read_table_file(str(tmp_path / "x.json"), "interests", {"map": {"client": "0", "topic": "1"}})
    assert rows.to_pylist() == [{"client": "a", "topic": "x"}, {"client": "b", "topic": "7"}]


def test_where_columns_are_mapped_others_are_left_out_and_told(tmp_path):
    (tmp_path / "x.csv").write_text("from,to,colour,cost\na,b,red,3\n")
    told = []
    rows = read_table_file(str(tmp_path / "x.csv"), "links", {"map": {"left": "from", "right": "to"}}, told.append)
    assert rows.to_pylist() == [{"left": "a", "right": "b", "cost": "3"}]
    assert told == [f"{tmp_path}/x.csv: columns not used: colour"]
