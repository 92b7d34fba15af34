"""Rows of several kinds: what a filter leaves is what a log of only these rows gives, in every format."""

import csv
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from overlace.errors import Absent, BadParameter, BadTrace, Unknown
from overlace.ingest.options import Options, read_filters
from overlace.ingest.run import ingest_frame
from overlace.ingest.source import job_of
from tests.engine import ingest_sources, sail
from tests.ingest.logs import START, ingested
from tests.ingest.test_together import messages

FORMS = ("jsonl", "json", "csv", "parquet", "frame")

kinds = st.sampled_from([["Publish-In", "Publish-Out", "a,b=c", "", None], [7, 70, -1, None], [True, False, None]])
rows_of = kinds.flatmap(
    lambda values: st.lists(
        st.fixed_dictionaries(
            {
                "client": st.sampled_from(["a", "b"]),
                "kind": st.sampled_from(values),
                "level": st.sampled_from(["INFO", "DEBUG", "7.0"]),
                "at": st.sampled_from([True, True, True, False]),
            }
        ),
        min_size=1,
        max_size=12,
    )
)
values = st.sampled_from(["Publish-In", "Publish-Out", "a,b=c", "", "7", "-1", "true", "false", "True"])
words = st.one_of(
    st.builds("kind{}{}".format, st.sampled_from(["=", "=", "!="]), values),
    st.builds("level{}{}".format, st.sampled_from(["=", "!="]), st.sampled_from(["INFO", "DEBUG", "7", "7.0"])),
)
filters = st.lists(words, min_size=1, max_size=3).map(tuple)


def text(value):
    return "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def holds(row, words):
    """A filter by definition."""
    wanted = {}
    for word in words:
        column, mark, value = word.partition("!=")
        if mark and text(row[column]) == value:
            return False
        if not mark:
            column, _, value = word.partition("=")
            wanted.setdefault(column, set()).add(value)
    return all(text(row[column]) in values for column, values in wanted.items())


def ingest(folder, form, rows, **options):
    """The rows as a log of a form, ingested."""
    chosen = Options(**{"map": {"client": "client", "at": "at"}, "bucket": "minute", "max_bad": 1.0, **options})
    out, path, names = str(folder / "trace"), folder / f"log.{form}", [*rows[0]]
    table = pa.table({name: [row[name] for row in rows] for name in names}) if form in ("parquet", "frame") else None
    if form == "frame":
        return ingest_frame(table, out, lambda size: sail(), chosen)
    if form == "parquet":
        pq.write_table(table, path, row_group_size=3)
    elif form == "csv":
        with path.open("w", newline="") as file:
            csv.writer(file).writerows([names, *([text(row[name]) for name in names] for row in rows)])
    else:
        path.write_text(json.dumps(rows) if form == "json" else "".join(json.dumps(row) + "\n" for row in rows))
    return ingest_sources([str(path)], out, chosen)


@pytest.mark.parametrize("form", FORMS)
def test_a_trace_of_filtered_rows_is_the_trace_of_only_those_rows(form, tmp_path_factory):
    @ingested(40)
    @given(rows_of, filters)
    def law(rows, words):
        rows = [{**row, "at": str(START + i) if row["at"] else "never"} for i, row in enumerate(rows)]
        left = [row for row in rows if holds(row, words)]
        fine = sum(row["at"] != "never" for row in left)
        assume(fine or len(left) < len(rows))
        folder = tmp_path_factory.mktemp("where")
        if not fine:
            with pytest.raises(BadTrace) as found:
                ingest(folder, form, rows, where=words)
            assert "\n" not in str(found.value)
            assert not (folder / "trace" / "trace.json").exists()
            return
        done = ingest(folder, form, rows, where=words)
        (account,) = done.accounts
        out = {reason: n for reason, n in account.ignored.items() if reason.startswith("left out by --where ")}
        assert account.adds_up()
        assert account.lines == len(rows) + (form == "csv")
        assert (sum(out.values()), account.kept, account.bad) == (len(rows) - len(left), fine, len(left) - fine)
        (tmp := folder / "only").mkdir()
        assert messages(done.trace) == messages(ingest(tmp, form, left).trace)

    law()


ROWS = [
    {"client": f"c{i % 3}", "kind": f"Publish-{'In' if i % 2 else 'Out'}", "level": "INFO", "at": str(START + i)}
    for i in range(9)
]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("where", "error", "why"),
    [
        (("kinds=Publish-In",), Unknown, "is called 'kinds'. Nearest: kind"),
        (
            ("kind=Publish",),
            Absent,
            "log.*9 of .* lines are left out by --where kind=Publish.*no value of kind.*Nearest: Publish-(In|Out)",
        ),
    ],
)
def test_a_filter_that_cannot_be_meant_is_one_clear_line(form, where, error, why, tmp_path):
    with pytest.raises(error, match=why if form != "frame" else why.replace("log", "DataFrame")) as found:
        ingest(tmp_path, form, ROWS, where=where)
    assert "\n" not in str(found.value)
    assert not (tmp_path / "trace" / "trace.json").exists()


@pytest.mark.parametrize("word", ["kind", "=a", "!=a", ""])
def test_a_filter_has_a_column_and_a_value(word):
    with pytest.raises(BadParameter, match="expected COLUMN=VALUE"):
        Options(where=(word,))


def test_what_is_typed_may_be_joined_by_commas_and_a_value_may_have_them():
    assert read_filters(["a=1,b.c!=x y", "d=1, 2"]) == ("a=1", "b.c!=x y", "d=1, 2")


def test_a_format_without_columns_refuses_it(tmp_path):
    log = tmp_path / "b.log"
    log.write_text("1767571200: New connection from 1.2.3.4 on port 1883.\n")
    with pytest.raises(BadParameter, match="--where means nothing for the format mosquitto"):
        ingest_sources([str(log)], str(tmp_path / "t"), Options(format="mosquitto", where=("a=b",)))


@pytest.mark.parametrize("form", ["jsonl", "json", "csv"])
def test_a_log_that_has_grown_is_read_on_as_it_was_filtered_before(form, tmp_path):
    rows = [{**row, "more": "x" * 600, "at": str(START + i)} for i, row in enumerate(ROWS * 3)]
    assert ingest(tmp_path, form, rows[:9], where=("kind=Publish-In",)).trace.rows("messages") == 4
    assert ingest(tmp_path, form, rows[:18]).trace.rows("messages") == 8
    assert ingest(tmp_path, form, rows, where=("kind=Publish-Out",)).trace.rows("messages") == 15


@pytest.mark.parametrize("form", ["jsonl", "csv"])
def test_new_rows_of_which_none_is_asked_for_are_no_fault(form, tmp_path):
    ingest(tmp_path, form, ROWS, where=("kind=Publish-In",))
    more = [*ROWS, {**ROWS[0], "at": str(START + 100)}]
    done = ingest(tmp_path, form, more)
    assert (done.trace.rows("messages"), done.accounts[0].kept) == (4, 0)


def test_a_filter_that_would_show_a_hidden_name_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("OVERLACE_KEY", "k" * 32)
    with pytest.raises(BadParameter, match="--where client=c1 would put"):
        ingest(tmp_path, "csv", ROWS, where=("client=c1",), pseudonymise=True)
    assert ingest(tmp_path, "csv", ROWS, where=("kind=Publish-In",), pseudonymise=True).trace.rows("messages") == 4


def test_the_data_source_takes_filters_as_text(tmp_path):
    (tmp_path / "x.csv").write_text("at,client,kind\n1767571200,a,p\n")
    job = job_of({"path": str(tmp_path / "x.csv"), "where": "kind=p,client!=b"})
    assert job.sources[0].options["where"] == ("kind=p", "client!=b")


def logged(kinds):
    """Rows of these kinds, each with the message that it is about, a client, and times in order."""
    row = st.tuples(st.sampled_from(kinds), st.sampled_from(["m0", "m1", "m2", ""]), st.sampled_from(["a", "b", "c"]))
    return st.lists(row, min_size=1, max_size=12)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("by_column", [False, True])
def test_deliveries_are_joined_with_the_messages_that_they_deliver(form, by_column, tmp_path_factory):
    """The trace is that of messages with their receivers; deliveries of what nobody published are ignored."""

    @ingested(40)
    @given(logged(["In", "Out", "Out", "Connect"]))
    def law(found):
        names = ("client", "kind", "at", "id", "topic", "other")
        rows, plain, sent = [], [], {}
        for i, (kind, key, who) in enumerate(found):
            if kind == "In" and key in sent:
                continue  # once
            other, at = (who, str(START + i)) if by_column and kind == "Out" else ("", str(START + i))
            client = "p" if by_column and kind == "Out" else who
            rows.append(dict(zip(names, (client, kind, at, key, "t" if kind == "In" else "u", other), strict=True)))
            if kind == "In":
                plain.append({"client": who, "at": at, "topic": "t", "receivers": []})
                sent |= {key: plain[-1]} if key else {}
        assume(plain)
        orphans = 0
        for kind, key, who in found:
            if kind == "Out" and key in sent:
                sent[key]["receivers"].append(who)
            orphans += kind == "Out" and key not in sent
        folder = tmp_path_factory.mktemp("deliveries")
        asked = {"where": ("kind=In",), "deliveries_where": ("kind=Out",)}
        columns = {"client": "client", "at": "at", "key": "id", **({"receiver": "other"} if by_column else {})}
        done = ingest(folder, form, rows, map=columns, **asked)
        (account,) = done.accounts
        (folder / "plain").mkdir()
        assert account.adds_up()
        assert (account.bad, account.duplicates) == (0, 0)
        assert account.ignored.get("delivery of a message that no log publishes", 0) == orphans
        assert account.kept == len(plain) + sum(row["kind"] == "Out" for row in rows) - orphans
        assert messages(done.trace) == messages(ingest(folder / "plain", "jsonl", plain).trace)

    law()


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("group", [(), ("sender", "at")])
def test_deliveries_without_a_key_in_common_are_refused(form, group, tmp_path):
    with pytest.raises(BadParameter, match="have in common: --map key=COLUMN"):
        ingest(tmp_path, form, ROWS, deliveries_where=("kind=Publish-Out",), group=group)


def test_deliveries_can_have_a_time_or_topic_in_common_and_show_where_receivers_are(tmp_path):
    rows = [
        {"client": who, "kind": kind, "at": str(START + i // 3), "broker": at}
        for i, (who, kind, at) in enumerate([("p", "In", "b1"), ("q", "Out", "b2"), ("r", "Out", "b3")] * 2)
    ]
    done = ingest(tmp_path, "csv", rows, deliveries_where=("kind=Out",), group=("at",))
    names = done.trace.names
    homes = {
        names["client"][row["client"]]: names["broker"][row["broker"]]
        for row in done.trace.read("sessions").to_pylist()
    }
    assert homes == {"p": "b1", "q": "b2", "r": "b3"}
    assert sum(messages(done.trace).values()) == 2


def test_numbers_of_json_are_compared_as_written_and_lists_equal_nothing(tmp_path):
    rows = [{"client": "a", "at": START + i, "kind": kind} for i, kind in enumerate([7, 7.0, ["7"], {"7": 7}, None])]
    for i, (word, left) in enumerate([("kind=7", 1), ("kind=7.0", 1), ("kind!=7", 4), ("kind=", 1)]):
        (tmp_path / str(i)).mkdir()
        assert ingest(tmp_path / str(i), "jsonl", rows, where=(word,)).trace.rows("messages") == left


@pytest.mark.parametrize("form", ["parquet", "frame"])
def test_a_column_of_lists_is_refused(form, tmp_path):
    rows = [{**row, "kind": ["a"]} for row in ROWS]
    with pytest.raises(BadTrace, match="column kind is list.*--where compares"):
        ingest(tmp_path, form, rows, where=("kind=a",))


@pytest.mark.parametrize("form", ["jsonl", "json", "csv", "parquet", "frame"])
def test_rows_of_several_kinds_without_a_filter_are_noted_in_every_format(tmp_path, form):
    notes = ingest(tmp_path, form, ROWS).notes
    assert any("--where kind=Publish-In --deliveries-where kind=Publish-Out" in note for note in notes)
    (tmp_path / "one").mkdir()
    notes = ingest(tmp_path / "one", form, [{**row, "kind": "Publish-In"} for row in ROWS]).notes
    assert not any("several kinds" in note for note in notes)
