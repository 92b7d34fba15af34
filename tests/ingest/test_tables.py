"""Plain files and topologies merged into a trace."""

import json

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overlace.errors import BadParameter, BadTrace
from overlace.ingest.options import KEY_VARIABLE, Options, TableOptions
from overlace.ingest.tables import add_tables, add_topology
from overlace.matching.topics import match
from overlace.trace.store import HOUR_US, Trace
from overlace.trace.writer import LOGS, Writer
from tests.engine import ingest_sources
from tests.traces import observe, trace_of

REPETITA = """NODES 3
label x y
a 0 0
b 0 0
c 0 0

EDGES 2
label src dest weight bw delay
e0 0 1 5 1000 200
e1 1 2 7 1000 300
"""


@pytest.fixture
def add(tmp_path):
    """Merge text into a trace as a table, or as a topology."""

    def put(table, text, name="x.csv", **options):
        (tmp_path / name).write_text(text)
        if table == "topology":
            return add_topology([str(tmp_path / name)], str(tmp_path / "t"), **options)[:2]
        return add_tables([str(tmp_path / name)], table, str(tmp_path / "t"), {}, **options)

    return put


def links(trace, *columns):
    """Links by the names of their ends."""
    name = trace.names["broker"]
    rows = trace.read("links").to_pylist()
    found = {"-".join(sorted((name[r["left"]], name[r["right"]]))): tuple(r[c] for c in columns) for r in rows}
    assert len(found) == len(rows)
    return found


def test_costs_that_are_latencies_are_milliseconds_until_a_link_has_another_cost(add):
    graph = REPETITA.replace(" 5 1000 200", " 0.2 1000 200").replace(" 7 1000 300", " 0.3 1000 300")
    assert add("topology", graph, "x.graph")[0].unit == "ms"
    trace, _ = add("sessions", "client,broker\nc1,a\n")
    assert trace.unit == "ms"
    assert add("links", "left,right,wired\na,c,true\n")[0].unit == "ms"
    assert add("links", "left,right,cost\na,c,9\n")[0].unit == "message"


def test_what_a_cost_is_per_can_be_said_and_then_holds(add):
    graph = REPETITA.replace(" 5 1000 200", " 0.2 1000 200").replace(" 7 1000 300", " 0.3 1000 300")
    assert add("topology", graph, "x.graph", cost_unit="gb")[0].unit == "gb"
    assert add("sessions", "client,broker\nc1,a\n")[0].unit == "gb"
    assert add("links", "left,right,cost\na,c,9\n", cost_unit="message")[0].unit == "message"
    assert add("links", "left,right,cost,latency_us\na,c,1,1000\n")[0].unit == "message"
    with pytest.raises(BadParameter, match="--cost-unit 'eur': expected one of message, gb, ms"):
        TableOptions(table="links", cost_unit="eur")
    with pytest.raises(BadParameter, match="--cost-unit goes with --table links or --topology"):
        TableOptions(table="brokers", cost_unit="gb")


def test_a_table_of_links_after_a_topology_keeps_what_it_does_not_name(add):
    trace, counts = add("topology", REPETITA, "x.graph")
    assert counts == {"brokers": (3, 0, 0), "links": (2, 0, 0)}
    assert links(trace, "cost", "latency_us", "wired") == {"a-b": (5, 200, False), "b-c": (7, 300, False)}
    trace, counts = add("links", "left,right,wired\nb,a,true\nc,d,\n")
    assert counts == (1, 1, 1)
    assert str(counts) == "1 new, 1 changed, 1 unchanged"
    expected = {"a-b": (5, 200, True), "b-c": (7, 300, False), "c-d": (None, None, True)}
    assert links(trace, "cost", "latency_us", "wired") == expected
    trace, counts = add("topology", REPETITA.replace(" 5 ", " 6 "), "x.graph")
    assert counts == {"brokers": (0, 0, 3), "links": (0, 1, 2)}
    assert links(trace, "cost", "latency_us", "wired")["a-b"] == (6, 200, True)


def test_what_a_configuration_does_not_know_keeps_its_value(add):
    add("links", "left,right,cost,latency_us,wired\nhub,plant,4,900,false\n")
    conf = "listener 1884 127.0.0.1\nconnection up\naddress hub:1883\n"
    trace, counts = add("topology", conf, "plant.conf")
    assert links(trace, "cost", "latency_us", "wired")["hub-plant"] == (4, 900, False)
    assert links(trace, "cost", "wired")["hub:1883-plant"] == (None, True)
    assert counts["links"] == (1, 0, 1)


def test_new_rows_have_the_defaults_of_what_is_not_named(add):
    trace, _ = add("brokers", "broker,max_degree\nb,3\n")
    (row,) = trace.read("brokers").to_pylist()
    assert (row["cost"], row["region"], row["max_degree"]) == (1.0, None, 3)
    trace, counts = add("brokers", "broker,region,max_degree\nb,eu,\nc,us,2\n")
    assert counts == (1, 1, 0)
    assert [(r["region"], r["max_degree"]) for r in trace.read("brokers").to_pylist()] == [(0, 3), (1, 2)]
    trace, _ = add("clients", "client,max_degree,since\nx,8,2026-01-05\n")
    assert trace.read("clients")["max_degree"].to_pylist() == [8]
    trace, _ = add("access", "region,broker,latency_us\neu,b,50\n")
    trace, counts = add("access", "region,broker,cost\neu,b,2\n")
    assert counts == (0, 1, 0)
    assert trace.read("access").to_pylist() == [{"region": 0, "broker": 0, "latency_us": 50, "cost": 2.0}]


COLUMNS = {"cost": ["", "2.0"], "capacity": ["", "9.0"], "max_degree": ["", "4"], "region": ["", "eu"]}


@settings(max_examples=15)
@given(st.permutations(sorted(COLUMNS)), st.data())
def test_columns_given_one_by_one_in_any_order_make_the_table_given_at_once(tmp_path_factory, order, data):
    folder = tmp_path_factory.mktemp("t")
    rows = {b: {c: data.draw(st.sampled_from(v)) for c, v in COLUMNS.items()} for b in ("x", "y", "z")}

    def put(trace, columns):
        lines = [
            ",".join(["broker", *columns]),
            *(",".join([b, *(row[c] for c in columns)]) for b, row in rows.items()),
        ]
        (folder / "x.csv").write_text("\n".join(lines))
        return add_tables([str(folder / "x.csv")], "brokers", str(folder / trace), {})[0]

    once = put("once", order)
    for column in order:
        by_one = put("by-one", [column])
    assert by_one.digest() == once.digest()


def test_files_of_one_table_are_merged_one_after_the_other(tmp_path):
    (tmp_path / "a.csv").write_text("left,right,cost\nx,y,4\n")
    (tmp_path / "b.csv").write_text("left,right,wired\ny,x,no\nx,z,yes\n")
    files = [str(tmp_path / name) for name in ("a.csv", "b.csv")]
    trace, counts = add_tables(files, "links", str(tmp_path / "t"), {})
    assert counts == (2, 0, 0)
    assert links(trace, "cost", "wired") == {"x-y": (4, False), "x-z": (None, True)}


def test_a_file_that_is_refused_leaves_the_trace_as_it_was(add, tmp_path):
    before, _ = add("links", "left,right,cost\na,b,4\n")
    for text in ("left,right\na,c\nc,a\n", "left,right,cost\nb,c,x\n", "left\na\n", ""):
        with pytest.raises(BadTrace, match="x.csv"):
            add("links", text)
    assert Trace.open(str(tmp_path / "t")).digest() == before.digest()


def shown(dials, far):
    """Links as logs show them: wired, and from which end they are dialled."""
    left, right = np.minimum(dials, far), np.maximum(dials, far)
    return pa.table({"left": left, "right": right, "wired": [True] * len(left), "dials": dials})


def test_links_that_bridges_showed_are_merged_and_have_no_cost_of_their_own(add, tmp_path):
    out = str(tmp_path / "t")
    base = trace_of(out, [(5, 0, 0, 1, [1])], {"broker": ["x", "y", "z"]})
    writer = Writer(out, base)
    writer.write("links", shown([1, 1], [0, 2]), source=LOGS)
    trace = writer.commit(bucket_us=HOUR_US, unit="message", notes={})
    assert observe(trace).network.link_cost.tolist() == [1, 1]
    trace, counts = add("links", "left,right,cost\nx,y,3\nz,y,4\n")
    assert counts == (0, 2, 0)
    assert links(trace, "cost", "wired", "dials") == {"x-y": (3, True, 1), "y-z": (4, True, 1)}
    assert {part.source for part in trace.parts["links"]} == {"table:links"}


def test_a_key_that_two_sources_gave_is_there_once_after_a_merge(add, tmp_path):
    out = str(tmp_path / "t")
    trace, _ = add("links", "left,right,cost\nx,y,3\n")
    writer = Writer(out, trace)
    writer.write("links", shown([1], [0]), source=LOGS)
    writer.commit(bucket_us=HOUR_US, unit="message", notes={})
    trace, counts = add("links", "left,right\nx,y\n")
    assert links(trace, "cost", "dials") == {"x-y": (3, 1)}
    assert counts == (0, 0, 1)


DAY = 1_767_571_200
"""The 5th of January 2026."""


@pytest.fixture
def connected(tmp_path):
    """Ingest a broker's log that says who connected, second after second, and subscribed to t."""

    def put(name, *clients):
        lines = (
            f"{DAY + i}: New client connected from 1.2.3.4:5 as {client} (p2, c1, k60).\n"
            f"{DAY + i}: Received SUBSCRIBE from {client}\n{DAY + i}: \tt (QoS 0)\n"
            for i, client in enumerate(clients)
        )
        (tmp_path / f"{name}.log").write_text("".join(lines))
        options = Options(format="mosquitto", broker=name)
        return ingest_sources([str(tmp_path / f"{name}.log")], str(tmp_path / "t"), options).trace

    return put


def ends(trace, table):
    """By client when its rows of a table end."""
    rows, name = trace.read(table).to_pylist(), trace.names["client"]
    assert len({row["client"] for row in rows}) == len(rows)
    return {name[row["client"]]: row["until"] and int(row["until"].timestamp()) - DAY for row in rows}


@pytest.mark.parametrize(
    ("table", "key"), [("sessions", ("client,broker", "{0}/{1},{0}")), ("subscriptions", ("client,topic", "{0}/{1},t"))]
)
def test_sessions_and_subscriptions_stay_with_the_log_that_they_came_from(add, connected, table, key):
    connected("x", "a", "b")
    connected("y", "c")
    day, own = "2026-01-05", key[1].format
    text = f"{key[0]},since,until\n{own('x', 'a')},{day},2026-01-06\n{own('x', 'd')},,\n"
    trace, counts = add(table, text)
    assert counts == (1, 1, 2)
    assert {part.source: part.rows for part in trace.parts[table]} == {LOGS: 3, f"table:{table}": 1}
    assert ends(trace, table) == {"x/a": 86_400, "x/b": None, "y/c": None, "x/d": None}
    again, counts = add(table, f"{key[0]}\n{own('x', 'd')}\n")
    assert counts == (0, 0, 4)
    assert again.digest() == trace.digest()
    grown = connected("y", "c", "e")  # those of the other log and of the table stay
    assert ends(grown, table) == {"x/a": 86_400, "x/b": None, "y/c": None, "y/e": None, "x/d": None}
    grown = connected("x", "a", "b", "e")  # its own rows are made anew
    assert ends(grown, table)["x/e"] is None
    assert len(ends(grown, table)) == 6


def test_a_trace_of_an_older_schema_is_not_added_to(add, tmp_path):
    add("links", "left,right\na,b\n")
    manifest = tmp_path / "t/trace.json"
    manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "schema_version": 1}))
    with pytest.raises(BadTrace, match="Remove it and make it anew: `overlace ingest ... --out"):
        add("links", "left,right\na,b\n")


def test_tables_of_a_trace_whose_names_are_hidden_are_hidden_like_them(tmp_path, monkeypatch):
    monkeypatch.setenv(KEY_VARIABLE, "a key of sixteen bytes or more")
    log, asked, links, out = (tmp_path / name for name in ("a.jsonl", "asked.csv", "links.csv", "t"))
    log.write_text('{"at": "2026-01-05T08:00:00Z", "client": "zebra", "topic": "yard/north", "broker": "hub-one"}\n')
    asked.write_text("client,filter\nzebra,yard/+\n")
    links.write_text("left,right\nhub-one,hub-two\n")
    ingest_sources([str(log)], str(out), Options(pseudonymise=True))
    add_tables([str(asked)], "subscriptions", str(out), {})
    trace, _ = add_tables([str(links)], "links", str(out), {})
    assert (trace.count("client"), trace.count("broker")) == (1, 2)
    held = b"".join(path.read_bytes() for path in out.rglob("*") if path.is_file())
    assert not [name for name in (b"zebra", b"yard", b"north", b"hub-") if name in held]
    filters, topics = trace.read("subscriptions")["filter"], pa.array(trace.names["topic"])
    assert match(filters, "mqtt", topics).tolist() == [[0, 0]]
    monkeypatch.setenv(KEY_VARIABLE, "another key of sixteen bytes")
    with pytest.raises(BadParameter, match="hidden with another key"):
        add_tables([str(links)], "links", str(out), {})
    add_tables([str(links)], "links", str(tmp_path / "plain"), {})
    with pytest.raises(BadParameter, match="made without"):
        ingest_sources([str(log)], str(tmp_path / "plain"), Options(pseudonymise=True))
