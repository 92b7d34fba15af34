"""Content at ingest: who receives is who asked for what a message says, however the log is written and cut."""

import json
import re
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from overlace.errors import BadFilter, BadParameter, BadPlan, BadTrace, Unknown
from overlace.ingest import source
from overlace.ingest.formats import csv
from overlace.ingest.options import Options
from overlace.ingest.receivers import match_events, prepare
from overlace.ingest.tables import add_tables
from overlace.live.subscribed import _asked
from overlace.matching.content.filters import matches, parse_filter
from overlace.observe.subscribers import read_subscribers
from overlace.optimize.scope import members_of
from overlace.trace.store import Trace
from tests.engine import ingest_sources
from tests.ingest.logs import ingested

START = datetime(2026, 1, 5, tzinfo=UTC)
FORMS = ("jsonl", "json", "csv", "parquet", "padres-quotes")

texts = st.sampled_from(["AAPL", "AB", "B", "a b"])
numerals = st.sampled_from([-1.5, 0.0, 1.0, 10.5, 60.0])
messages = st.fixed_dictionaries(
    {"day": st.integers(0, 5), "who": st.sampled_from(["p", "q"])},
    optional={"symbol": texts, "close": numerals, "open": st.booleans(), "volume": numerals},
)
constraints = st.one_of(
    st.builds(lambda op, v: f"close {op} {v}", st.sampled_from(["=", "!=", "<", "<=", ">", ">="]), numerals),
    st.builds(lambda op, v: f"symbol {op} '{v}'", st.sampled_from(["=", "!=", "prefix", "suffix", "contains"]), texts),
    st.builds(lambda v: f"open = {v}", st.sampled_from(["true", "false"])),
    st.builds(lambda name: f"{name} exists", st.sampled_from(["close", "symbol", "volume", "other"])),
)
filters = st.lists(constraints, min_size=1, max_size=3).map(" and ".join)
days = st.one_of(st.none(), st.integers(0, 6))
subscriptions = st.lists(
    st.tuples(st.sampled_from(["ann", "bob", "p"]), filters, days, days), max_size=6, unique_by=lambda row: row[:3]
)


def at(day, second=0):
    """A moment of a day; messages of one log have seconds of their own, by which they are found again."""
    return (START + timedelta(days=day, seconds=second)).strftime("%Y-%m-%d %H:%M:%S") if day is not None else ""


def write_subscriptions(path, rows):
    table = [{"client": c, "filter": f, "dialect": "content", "since": at(s), "until": at(u)} for c, f, s, u in rows]
    path.write_text("".join(json.dumps({k: v for k, v in row.items() if v != ""}) + "\n" for row in table))
    return str(path)


def write_log(path, form, rows):
    """Messages as a log of a form, with the options to read it."""
    names = ("symbol", "close", "open", "volume")
    plain = [
        {"at": at(row["day"], i), "client": row["who"], **{n: row.get(n) for n in names}} for i, row in enumerate(rows)
    ]
    content = ("symbol:text", "close:number", "open:flag", "volume:number")
    if form == "jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in plain))
    elif form == "json":
        path.write_text(json.dumps(plain))
    elif form == "csv":
        cells = [["" if value is None else str(value) for value in row.values()] for row in plain]
        path.write_text("\n".join([",".join(plain[0]), *map(",".join, cells)]) + "\n")
    elif form == "parquet":
        kinds = [pa.string(), pa.string(), pa.string(), pa.float64(), pa.bool_(), pa.float64()]
        schema = pa.schema(list(zip(plain[0], kinds, strict=True)))
        pq.write_table(pa.Table.from_pylist(plain, schema), path, row_group_size=3)
        content = names
    else:
        path.write_text("".join(quote(row) + "\n" for row in plain))
        return Options(format=form, map={"client": "client", "at": "at"})
    return Options(format=form, content=content)


def quote(row):
    def shown(value):
        return f"'{value}'" if isinstance(value, str) else json.dumps(value)

    return ",".join(f"[{name},{shown(value)}]" for name, value in row.items() if value is not None)


def received(trace):
    """Who received each message, in order of time."""
    called = trace.names.get("client", [])
    sets = {row["audience"]: row["receivers"] for row in trace.read("audiences").to_pylist()}
    rows = sorted(trace.read("messages").to_pylist(), key=lambda row: row["at"])
    return [None if row["audience"] is None else sorted(called[c] for c in sets[row["audience"]]) for row in rows]


def expected(rows, asked):
    """The same by definition: message by message, filter by filter."""
    found = []
    for row in rows:
        content = {name: value for name, value in row.items() if name not in ("day", "who")}
        valid = [(c, f) for c, f, s, u in asked if (s is None or s <= row["day"]) and (u is None or row["day"] < u)]
        found.append(sorted({c for c, f in valid if matches(content, parse_filter(f))}))
    return found


@pytest.mark.parametrize("form", FORMS)
def test_receivers_are_those_whose_filter_matches_then_in_every_format_and_cut(tmp_path_factory, form):
    @ingested(15)
    @given(st.lists(messages, min_size=1, max_size=12), subscriptions, st.sampled_from([60, 1 << 20]))
    def law(rows, asked, size):
        folder = tmp_path_factory.mktemp("content")
        out = str(folder / "trace")
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(source, "LEAST", size)
            patch.setattr(source, "MOST", size)
            if asked:
                add_tables([write_subscriptions(folder / "subs.jsonl", asked)], "subscriptions", out, {})
            how = write_log(folder / "log", form, rows)
            done = ingest_sources([str(folder / "log")], out, options=how)
        ordered = sorted(rows, key=lambda row: row["day"])
        assert received(done.trace) == (expected(ordered, asked) if asked else [None] * len(rows))
        assert [len(note) > 0 for note in done.notes if "no content subscriptions" in note] == [True] * (not asked)

    law()


def test_a_filter_matches_values_of_its_own_type_only():
    rows = pa.table({"client": ["a", "b", "c"], "filter": ["x = 1", "x = '1'", "x exists"]})
    rows = rows.append_column("since", pa.nulls(3, pa.int64())).append_column("until", pa.nulls(3, pa.int64()))
    times = pa.array([0, 0, 0, 0], pa.timestamp("us", "UTC"))
    batch = pa.record_batch(
        {"at": times, "content.number.x": [1.0, None, 2.0, None], "content.text.x": [None, "1", None, None]}
    )
    start, clients = match_events(batch, prepare(rows))
    assert [clients[a:b].tolist() for a, b in zip(start, start[1:], strict=False)] == [[0, 2], [1, 2], [2], []]


@pytest.fixture
def trace(tmp_path):
    """A trace with a subscription, and how to read logs into it."""
    out = str(tmp_path / "trace")
    add_tables(
        [write_subscriptions(tmp_path / "s.jsonl", [("ann", "close > 10", None, None)])], "subscriptions", out, {}
    )
    return out


def log(tmp_path, *rows, name="log.jsonl"):
    told = ({"at": at(0, i), "client": "p", **row} for i, row in enumerate(rows))
    (tmp_path / name).write_text("".join(json.dumps(row) + "\n" for row in told))
    return [str(tmp_path / name)]


def test_logged_receivers_stay_and_only_who_receives_is_stored(tmp_path, trace):
    rows = {"close": 60, "receivers": ["zoe"]}, {"close": 60, "receivers": []}, {"close": 60}, {"close": 1}
    done = ingest_sources(log(tmp_path, *rows), trace, options=Options(content=("close",)))
    assert received(done.trace) == [["zoe"], [], ["ann"], []]
    stored = {name for table in done.trace.parts for name in done.trace.read(table).column_names}
    assert "close" not in stored


def test_a_subscription_counts_from_its_first_moment_until_before_its_last(tmp_path):
    out = str(tmp_path / "trace")
    add_tables([write_subscriptions(tmp_path / "s.jsonl", [("ann", "close > 10", 1, 3)])], "subscriptions", out, {})
    rows = [{"close": 60, "at": at(day)} for day in range(5)]
    done = ingest_sources(log(tmp_path, *rows), out, options=Options(content=("close",)))
    assert received(done.trace) == [[], ["ann"], ["ann"], [], []]


def test_not_a_number_is_absent_from_a_column_of_numbers_and_a_word_elsewhere(tmp_path):
    asked = [("ann", "close exists", None, None), ("bob", "code = 'nan'", None, None)]
    out = str(tmp_path / "trace")
    add_tables([write_subscriptions(tmp_path / "s.jsonl", asked)], "subscriptions", out, {})
    cells = ("nan", "x"), ("60", "nan"), (" -NaN ", "y"), ("7", "nan"), ("", "z")
    (tmp_path / "log.csv").write_text(
        "at,client,close,code\n" + "".join(f"{at(i)},p,{a},{b}\n" for i, (a, b) in enumerate(cells))
    )
    done = ingest_sources([str(tmp_path / "log.csv")], out, options=Options(content=("close", "code")))
    assert received(done.trace) == [[], ["ann", "bob"], [], ["ann", "bob"], []]


def settled_types(text, *content):
    return csv.FORMAT.settle(text.encode(), Options(content=content).for_format(csv.FORMAT))["types"]


def test_the_types_of_a_table_are_those_of_its_cells_as_they_are_read():
    head = "at,client,name,close,open\n"
    rows = '2026-01-05,p,"x, y",60,true\n' + '2026-01-05,p,"say ""a, b""",7,false\r\n'
    expected = {"name": "text", "close": "number", "open": "flag"}
    for text in (head + rows, f"# made by hand\n# twice\n{head}{rows}", head + rows + head + rows):
        assert settled_types(text, "name", "close", "open") == expected


def test_a_late_word_in_the_sample_makes_a_column_text():
    rows = "2026-01-05,p,60\n" * 5000 + "2026-01-05,p,n/a\n"
    assert settled_types("at,client,close\n" + rows, "close") == {"close": "text"}


def test_rows_of_a_table_with_content_are_messages_each(tmp_path, trace):
    (tmp_path / "log.csv").write_text("at,client,close\n" + "2026-01-05,p,60\n" * 2 + "2026-01-06,p,7\n")
    done = ingest_sources([str(tmp_path / "log.csv")], trace, options=Options(content=("close",)))
    assert received(done.trace) == [["ann"], ["ann"], []]


@pytest.mark.parametrize("form", ["jsonl", "csv", "parquet"])
def test_rows_of_one_message_are_matched_each_whatever_the_format(tmp_path, form):
    asked = [("ann", "close > 10", None, None), ("bob", "close < 5", None, None), ("zoe", "close = 7", None, None)]
    out, path = str(tmp_path / "trace"), tmp_path / f"log.{form}"
    add_tables([write_subscriptions(tmp_path / "s.jsonl", asked)], "subscriptions", out, {})
    rows = [{"at": at(0), "client": "p", "id": "m", "close": close} for close in (60.0, 60.0, 1.0)]
    if form == "jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    elif form == "csv":
        path.write_text("\n".join([",".join(rows[0]), *(",".join(map(str, row.values())) for row in rows)]) + "\n")
    else:
        pq.write_table(pa.Table.from_pylist(rows), path)
    done = ingest_sources([str(path)], out, options=Options(content=("close",)))
    assert received(done.trace) == [["ann", "bob"]]
    assert done.accounts[0].adds_up()


def test_subscriptions_that_come_later_count_for_later_logs_and_that_is_said(tmp_path, trace):
    how = Options(content=("close",))
    ingest_sources(log(tmp_path, {"close": 60}), trace, options=how)
    told = []
    late = write_subscriptions(tmp_path / "t.jsonl", [("bob", "close > 10", None, None)])
    add_tables([late], "subscriptions", trace, {}, tell=told.append)
    assert "from now on" in told[0]
    assert "log.jsonl" in told[0]
    done = ingest_sources(log(tmp_path, {"close": 70, "at": at(1)}, name="more.jsonl"), trace, options=how)
    assert received(done.trace) == [["ann"], ["ann", "bob"]]
    told.clear()
    add_tables([late], "subscriptions", trace, {}, tell=told.append)
    assert told == []


def test_a_later_subscription_of_another_type_is_refused_and_the_trace_stays(tmp_path, trace):
    done = ingest_sources(log(tmp_path, {"close": 60}), trace, options=Options(content=("close",)))
    late = write_subscriptions(tmp_path / "t.jsonl", [("bob", "close = 'sixty'", None, None)])
    with pytest.raises(BadFilter, match=re.escape("the subscription of bob: close = 'sixty'")):
        add_tables([late], "subscriptions", trace, {})
    assert Trace.open(trace).digest() == done.trace.digest()


def test_a_log_that_grew_is_read_on_as_it_was(tmp_path, trace):
    path = log(tmp_path, {"close": 60})
    ingest_sources(path, trace, options=Options(content=("close",)))
    with open(path[0], "a") as file:
        file.write(json.dumps({"at": at(1), "client": "p", "close": 11}) + "\n")
    done = ingest_sources(path, trace)
    assert received(done.trace) == [["ann"], ["ann"]]


def test_what_cannot_be_read_is_in_quarantine_with_its_reason(tmp_path, trace):
    rows = [{"close": value} for value in (60, "60", [1], None, True)]
    done = ingest_sources(log(tmp_path, *rows), trace, options=Options(content=("close",)))
    assert received(done.trace) == [["ann"], [], [], []]
    assert list(done.accounts[0].quarantined) == ["close: neither text, a number nor true or false"]
    (tmp_path / "log.csv").write_text("at,client,close\n" + "2026-01-05,p,60\n2026-01-05,p,n/a\n2026-01-05,p,\n")
    done = ingest_sources([str(tmp_path / "log.csv")], trace, options=Options(content=("close:number",)))
    assert {why: count for why, (count, _) in done.accounts[0].quarantined.items()} == {"close: not a number": 1}


@pytest.mark.parametrize(
    ("table", "error", "what"),
    [
        ({"filter": "close >> 10"}, BadTrace, "row 1: filter: found '> 10'"),
        ({}, BadTrace, "row 1: filter is empty"),
        ({"filter": "close > 10", "group": "g"}, BadTrace, "group is 'g'. Expected nothing beside"),
        ({"filter": "close > 10", "topic": "t"}, BadTrace, "topic is 't'. Expected nothing beside"),
        ({"filter": "close > 10", "dialect": "Content"}, BadTrace, "row 1: dialect is 'Content'. Expected one of"),
        ({"filter": "close > 10", "dialect": "conten"}, BadTrace, "mqtt, nats, content. Nearest: content."),
        ({"filter": "a/#", "dialect": "amqp"}, BadTrace, "row 1: dialect is 'amqp'. Expected one of mqtt, nats"),
    ],
)
def test_a_bad_subscription_is_refused_with_its_row(tmp_path, table, error, what):
    (tmp_path / "subs.jsonl").write_text(json.dumps({"client": "ann", "dialect": "content", **table}))
    with pytest.raises(error, match=re.escape(what)) as caught:
        add_tables([str(tmp_path / "subs.jsonl")], "subscriptions", str(tmp_path / "trace"), {})
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("options", "error", "what"),
    [
        ({"content": ("close",)}, BadFilter, "the subscription of ann: close > 10"),
        ({"content": ("closs",)}, Unknown, "Nearest: close"),
        ({"content": ("close", "close")}, BadParameter, "twice"),
        ({"content": ("close:number",), "pseudonymise": True}, BadParameter, "--pseudonymise"),
        ({"content": ("close",), "format": "counts"}, BadParameter, "--content means nothing for the format counts"),
    ],
)
def test_what_cannot_be_honoured_is_refused_in_one_line(tmp_path, trace, monkeypatch, options, error, what):
    monkeypatch.setenv("OVERLACE_KEY", "a key of sixteen bytes or more")
    path = log(tmp_path, {"close": "sixty"})
    with pytest.raises(error, match=re.escape(what)) as caught:
        ingest_sources(path, trace, options=Options(**options))
    assert "\n" not in str(caught.value)


def test_filters_on_content_are_refused_where_names_are_hidden_and_the_trace_stays(tmp_path, monkeypatch):
    monkeypatch.setenv("OVERLACE_KEY", "a key of sixteen bytes or more")
    out = str(tmp_path / "trace")
    done = ingest_sources(log(tmp_path, {"close": 60}), out, options=Options(content=("close",), pseudonymise=True))
    late = write_subscriptions(tmp_path / "t.jsonl", [("bob", "close > 10", None, None)])
    with pytest.raises(BadTrace, match="the names in the trace at .* are hidden") as caught:
        add_tables([late], "subscriptions", out, {})
    assert "\n" not in str(caught.value)
    assert Trace.open(out).digest() == done.trace.digest()
    (tmp_path / "more.csv").write_text("client,filter,dialect\nbob,a/#,mqtt\n")
    assert add_tables([str(tmp_path / "more.csv")], "subscriptions", out, {})[0].rows("subscriptions") == 1


def test_filters_on_content_are_no_filters_on_topics(tmp_path, trace):
    (tmp_path / "more.csv").write_text("client,filter,dialect\nbob,a/#,mqtt\n")
    add_tables([str(tmp_path / "more.csv")], "subscriptions", trace, {})
    done = ingest_sources(log(tmp_path, {"close": 60, "topic": "a/b"}), trace, options=Options(content=("close",)))
    asked = read_subscribers(done.trace)
    assert [done.trace.names["client"][c] for c in asked.client] == ["bob"]
    assert members_of(done.trace) == {}
    assert any("1 other subscription did not apply" in note for note in done.notes)
    with pytest.raises(BadPlan, match="filters on content"):
        _asked(done.trace, 0, "mqtt")


def test_filters_without_a_dialect_that_look_like_content_are_told(tmp_path):
    (tmp_path / "subs.csv").write_text('client,filter\nann,close > 60\nbob,a/+/#\nzoe,"[close,>,60]"\n')
    told = []
    add_tables([str(tmp_path / "subs.csv")], "subscriptions", str(tmp_path / "trace"), {}, tell=told.append)
    assert len(told) == 1
    assert "2 filters look like content (first: close > 60)" in told[0]
