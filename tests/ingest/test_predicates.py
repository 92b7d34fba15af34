"""Attributes of a trace from content: masks of messages and subscriptions, and what publishers advertise."""

import json
import re

import pytest

from overlace.errors import BadParameter
from overlace.ingest import source
from overlace.ingest.options import Options
from overlace.ingest.tables import add_tables
from overlace.matching.content.filters import covers, matches, parse_filter
from overlace.matching.content.syntax import format_filter
from overlace.planners.channels.strategy4 import Strategy4
from overlace.replay.delivery import delivery
from reproductions.workloads.content import content_filters, quote_columns, quotes
from tests.engine import ingest_sources
from tests.traces import observe

CONTENT = ("symbol", "close", "volume", "open", "high", "low")


@pytest.fixture(scope="module")
def market():
    table = quotes(12, 30, seed=8)
    return table.to_pylist(), content_filters(quote_columns(table), 40, selective=0.6, seed=9)


def write(path, rows):
    path.write_text("".join(json.dumps(each) + "\n" for each in rows))
    return [str(path)]


def ingested(folder, rows, filters, asked=16, **patched):
    out = str(folder / "trace")
    listed = [
        {"client": f"c{i}", "filter": format_filter(each), "dialect": "content"} for i, each in enumerate(filters)
    ]
    add_tables(write(folder / "subs.jsonl", listed), "subscriptions", out, {})
    log = [{"client": row["symbol"], "at": row["date"], **{name: row[name] for name in CONTENT}} for row in rows]
    return ingest_sources(
        write(folder / "log.jsonl", log), out, options=Options(content=CONTENT, attributes=asked)
    ).trace


def test_masks_say_what_messages_satisfy_and_filters_imply(tmp_path, market):
    rows, filters = market
    trace = ingested(tmp_path, rows, filters)
    predicates = [parse_filter(text) for text in trace.names["attribute"]]
    assert 1 < len(predicates) <= 16
    assert trace.notes["predicates"] == trace.names["attribute"]
    called = trace.names["client"]
    told = (
        (called[row["client"]], f"{row['at']:%d-%b-%y}", row["attributes"])
        for row in trace.read("messages").to_pylist()
    )
    found = {(client, day): mask for client, day, mask in told}
    masks = [sum(1 << i for i, p in enumerate(predicates) if matches(_content(row), p)) for row in rows]
    assert found == {(row["symbol"], row["date"]): mask for row, mask in zip(rows, masks, strict=True)}
    assert len(found) == len(rows)
    asked = {row["filter"]: row["attributes"] for row in trace.read("subscriptions").to_pylist()}
    for filter in filters:
        assert asked[format_filter(filter)] == sum(1 << i for i, p in enumerate(predicates) if covers(p, filter))
    offered = {(row["client"], row["attributes"]) for row in trace.read("advertisements").to_pylist()}
    assert offered == {
        (row["client"], row["attributes"]) for row in trace.read("messages").to_pylist() if row["attributes"]
    }


def _content(row):
    return {name: row[name] for name in CONTENT}


def test_the_observation_has_offers_with_their_messages_and_planners_of_channels_run_on_it(tmp_path, market):
    rows, filters = market
    trace = ingested(tmp_path, rows, filters)
    observation = observe(trace)
    masks = [row["attributes"] for row in trace.read("messages").to_pylist()]
    assert observation.offers.messages.sum() == sum(mask > 0 for mask in masks)
    assert len(observation.requests.attributes) == len(filters)
    plan = Strategy4(effort=10).solve(observation)
    before, after = (delivery(observation, each).of("received") for each in (observation.overlay, plan.after))
    assert after < before
    wanted = sum(matches(_content(row), filter) for filter in filters for row in rows)
    assert delivery(observation, plan.after).of("true_positives") >= wanted


def test_a_later_log_has_the_attributes_that_the_trace_has(tmp_path, market):
    rows, filters = market
    whole = ingested(tmp_path, rows, filters)
    more = write(tmp_path / "more.jsonl", [{"client": "S000", "at": 1_767_571_200, "symbol": "S000", "close": 5.0}])
    trace = ingest_sources(more, whole.path, options=Options(content=("symbol", "close"))).trace
    assert trace.names["attribute"] == whole.names["attribute"]
    (mask,) = (row["attributes"] for row in trace.read("messages").to_pylist() if row["at"].year == 2026)
    said = {"symbol": "S000", "close": 5.0}
    assert mask == sum(1 << i for i, t in enumerate(trace.names["attribute"]) if matches(said, parse_filter(t)))


def test_subscriptions_that_imply_no_attribute_are_told(tmp_path, market):
    rows, _ = market
    whole = ingested(tmp_path, rows, [parse_filter("symbol = 'S000'")] * 3)
    assert "true" not in whole.names["attribute"]
    assert all(row["attributes"] for row in whole.read("subscriptions").to_pylist())
    told = []
    late = [{"client": f"late{i}", "filter": "other exists", "dialect": "content"} for i in range(4)]
    late.append({"client": "fine", "filter": "symbol = 'S000' and close > 1", "dialect": "content"})
    add_tables(write(tmp_path / "late.jsonl", late), "subscriptions", whole.path, {}, tell=told.append)
    assert "Until then they ask for no attribute, and so for no channel." in told[0]
    log = write(tmp_path / "more.jsonl", [{"client": "S000", "at": 1_767_571_200, "symbol": "S000", "close": 5.0}])
    done = ingest_sources(log, whole.path, options=Options(content=("symbol", "close")))
    called = done.trace.names["client"]
    asked = {called[row["client"]]: row["attributes"] for row in done.trace.read("subscriptions").to_pylist()}
    assert [name for name in asked if asked[name] is None] == ["late0", "late1", "late2", "late3"]
    (note,) = (note for note in done.notes if "for no attribute" in note)
    assert note.startswith("4 of 8 content subscriptions ask for no attribute, and so for no channel")
    assert "(late0, late1, late2, ...)" in note


def test_attributes_that_are_asked_for_again_stay_and_that_is_told(tmp_path, market):
    rows, filters = market
    whole = ingested(tmp_path, rows, filters, 4)
    log = write(tmp_path / "more.jsonl", [{"client": "S000", "at": 1_767_571_200, "symbol": "S000", "close": 5.0}])
    for found in (0, 1):  # the second time there is nothing new
        done = ingest_sources(log, whole.path, options=Options(content=("symbol", "close"), attributes=16))
        assert (len(done.known), done.trace.names["attribute"]) == (found, whole.names["attribute"])
        kept = f"--attributes 16: the trace keeps the {len(whole.names['attribute'])} attributes that it has."
        assert sum(note.startswith(kept) for note in done.notes) == 1


def test_content_subscriptions_that_are_given_again_are_the_same(tmp_path, market):
    rows, filters = market
    whole = ingested(tmp_path, rows, filters)
    told = []
    trace, counts = add_tables([str(tmp_path / "subs.jsonl")], "subscriptions", whole.path, {}, tell=told.append)
    assert (counts.new, counts.changed, told) == (0, 0, [])
    assert trace.read("subscriptions").equals(whole.read("subscriptions"))


def test_tables_name_attributes_as_they_are_written(tmp_path, market):
    rows, filters = market
    whole = ingested(tmp_path, rows, filters)
    names, clients = whole.names["attribute"], whole.names["client"]
    assert any(" " in name for name in names)
    held = whole.read("advertisements").to_pylist()
    assert any(row["attributes"].bit_count() > 1 for row in held)
    sets = [[name for i, name in enumerate(names) if row["attributes"] >> i & 1] for row in held]
    limits = [
        {"client": clients[row["client"]], "attributes": "; ".join(own), "connections": 7}
        for row, own in zip(held, sets, strict=True)
    ]
    trace, counts = add_tables(write(tmp_path / "a.jsonl", limits), "advertisements", whole.path, {})
    assert trace.names["attribute"] == names
    assert (counts.new, counts.changed) == (0, len(held))
    assert trace.read("advertisements").to_pylist() == [{**row, "connections": 7} for row in held]


def test_how_a_log_is_cut_changes_nothing(tmp_path, market, monkeypatch):
    rows, filters = market
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    whole = ingested(tmp_path / "a", rows, filters)
    monkeypatch.setattr(source, "LEAST", 2000)
    monkeypatch.setattr(source, "MOST", 2000)
    cut = ingested(tmp_path / "b", rows, filters)
    for table in ("messages", "subscriptions", "advertisements", "names"):
        same = [each.read(table).sort_by([(name, "ascending") for name in ORDER[table]]) for each in (whole, cut)]
        assert same[0].equals(same[1])


ORDER = {
    "messages": ["message"],
    "subscriptions": ["client"],
    "advertisements": ["client", "attributes"],
    "names": ["kind", "id"],
}


@pytest.mark.parametrize(
    ("filters", "options", "what"),
    [
        (["close > 1"], {}, "no log has content"),
        ([], {"content": ("close",)}, "the trace has no content subscriptions"),
        (["close > 1"], {"content": ("close",), "map": {"attributes": "kind"}}, "has attributes of its own"),
        (["close > 1"], {"content": ("close",), "attributes": 64}, "63"),
    ],
)
def test_what_cannot_be_made_attributes_is_refused_in_one_line(tmp_path, filters, options, what):
    out = str(tmp_path / "trace")
    if filters:
        listed = [{"client": "c", "filter": text, "dialect": "content"} for text in filters]
        add_tables(write(tmp_path / "subs.jsonl", listed), "subscriptions", out, {})
    path = write(tmp_path / "log.jsonl", [{"client": "p", "at": 1_767_571_200, "close": 2, "kind": "a"}])
    with pytest.raises(BadParameter, match=re.escape(what)) as error:
        ingest_sources(path, out, options=Options(**{"attributes": 8, **options}))
    assert "\n" not in str(error.value)
