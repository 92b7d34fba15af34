"""Tables of a trace as DataFrames: the rows that are read in this process, with names for ids."""

import json

import duckdb
import polars
import pyarrow as pa
import pytest

from overlace import ingest, read
from overlace.errors import Unknown
from overlace.ingest.tables import add_tables
from overlace.trace.store import Trace
from overlace.trace.tables import TRACE, hashed_columns
from tests.engine import ingest_sources


@pytest.fixture(scope="module")
def trace(tmp_path_factory):
    folder = tmp_path_factory.mktemp("read")
    rows = [
        {"at": f"2026-01-05T0{i % 9}:00:00Z", "client": f"ç {i % 4}", "topic": f"t/{i % 3}", "broker": f"b{i % 2}",
         "receivers": [f"r{k}" for k in range(i % 5)]}
        for i in range(60)
    ]  # fmt: skip
    (folder / "log.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "links.csv").write_text("left,right\nb0,b1\nb1,b2\n")
    (folder / "clients.csv").write_text("client,region\nr1,north\nr2,south\nç 1,north\n")
    ingest_sources([str(folder / "log.jsonl")], str(folder / "trace"))
    for table in ("links", "clients"):
        add_tables([str(folder / f"{table}.csv")], table, str(folder / "trace"), {})
    return Trace.open(str(folder / "trace"))


def named(trace, table):
    """The rows of a table by plain Python, with names for numbers."""
    kinds = {**hashed_columns(table), **({"region": "region"} if "region" in TRACE[table].names else {})}
    rows = trace.read(table).to_pylist()
    for row in rows:
        for column, kind in kinds.items():
            value = row[column]
            if isinstance(value, list):
                row[column] = sorted(trace.names[kind][each] for each in value)
            elif value is not None:
                row[column] = trace.names[kind][value]
    return rows


def in_order(rows):
    """Rows as text; which end of a link is left goes by ids in the files, by numbers here."""
    ends = [sorted((row["left"], row["right"])) if "left" in row else [] for row in rows]
    return sorted(
        repr({**row, **dict(zip(("left", "right"), each, strict=False))}) for row, each in zip(rows, ends, strict=True)
    )


@pytest.mark.parametrize("table", ["messages", "traffic", "audiences", "sessions", "clients", "links", "sources"])
def test_a_table_has_names_for_ids(sail, trace, table):
    rows = read(sail, trace.path, table).toArrow().to_pylist()
    assert rows
    assert in_order(rows) == in_order(named(trace, table))


def test_names_and_ids_are_those_of_the_files(sail, trace):
    plain = read(sail, trace.path, "traffic", names=False).toArrow()
    assert in_order(plain.to_pylist()) == in_order(trace.stored("traffic").to_pylist())
    with pytest.raises(Unknown, match="no table is called 'trafic'. Nearest: traffic"):
        read(sail, trace.path, "trafic")
    assert read(sail, trace.path, "peers").count() == 0, "a table that the trace does not have"


def test_tables_go_to_a_lakehouse_and_logs_come_from_there(sail, trace, tmp_path):
    """Delta, as Sail writes and reads it; Apache Spark does so with the jars of the user's own catalog."""
    traffic = read(sail, trace.path, "traffic")
    traffic.write.format("delta").save(str(tmp_path / "traffic"))
    back = sail.read.format("delta").load(str(tmp_path / "traffic"))
    assert in_order(back.toArrow().to_pylist()) == in_order(traffic.toArrow().to_pylist())

    rows = [{"src": f"c{i % 3}", "dst": f"r{i % 5}", "when": f"2026-01-05T0{i % 9}:00:00Z"} for i in range(40)]
    sail.createDataFrame(pa.Table.from_pylist(rows)).write.format("delta").save(str(tmp_path / "deliveries"))
    log = sail.read.format("delta").load(str(tmp_path / "deliveries"))
    done = ingest(log, str(tmp_path / "trace"), client="src", receiver="dst", at="when")
    (account,) = done.accounts
    assert (account.lines, account.bad) == (40, 0)
    assert done.trace.rows("messages") == len({(row["src"], row["when"]) for row in rows})


def test_other_tools_read_the_files(trace):
    """As docs/engines.md has it."""
    traffic, names = trace.stored("traffic"), trace.stored("names")
    query = "select name, sum(messages) from traffic join names on id = client where kind = 'client' group by all"
    sent = duckdb.sql(query)
    expected = {}
    for row in named(trace, "traffic"):
        expected[row["client"]] = expected.get(row["client"], 0) + row["messages"]
    assert dict(sent.fetchall()) == expected
    counted = polars.from_arrow(traffic)["messages"].sum(), traffic.to_pandas()["messages"].sum()
    assert counted == (sum(expected.values()),) * 2
    assert names.num_rows
