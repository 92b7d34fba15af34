"""Routing by content in a replay: what it takes is measured where a trace has content subscriptions."""

import json

import pyarrow.parquet as pq
import pytest

from overlace.errors import BadTrace
from overlace.ingest.options import Options
from overlace.ingest.tables import add_tables
from overlace.observe.known import known_in
from overlace.optimize.replay import read_requests, replay
from overlace.optimize.task import observe as observe_run
from overlace.trace.store import Trace
from tests.engine import ingest_sources
from tests.traces import observe


def rows(path, *rows):
    path.write_text("".join(json.dumps(each) + "\n" for each in rows))
    return [str(path)]


@pytest.fixture
def trace(tmp_path):
    """b0 - b1 - b2: p publishes at b2, ann and bob are at b0, and ann's filter covers bob's."""
    out = str(tmp_path / "trace")
    homes = {"ann": "b0", "bob": "b0", "p": "b2"}
    add_tables(rows(tmp_path / "s.jsonl", *({"client": c, "broker": b} for c, b in homes.items())), "sessions", out, {})
    links = ({"left": "b0", "right": "b1"}, {"left": "b1", "right": "b2"})
    add_tables(rows(tmp_path / "l.jsonl", *links), "links", out, {})
    asked = (("ann", "close > 1"), ("bob", "close > 2 and symbol = 'A'"))
    listed = ({"client": c, "filter": f, "dialect": "content"} for c, f in asked)
    add_tables(rows(tmp_path / "f.jsonl", *listed), "subscriptions", out, {})
    log = ({"at": 1_767_571_200 + 3600 * i, "client": "p", "close": i % 4, "symbol": "A"} for i in range(48))
    ingest_sources(rows(tmp_path / "log.jsonl", *log), out, options=Options(content=("close", "symbol")))
    return Trace.open(out)


def test_a_replay_measures_tables_and_control_messages_of_content(trace, tmp_path):
    run = tmp_path / "run"
    observe_run(trace.path, run)
    for each in replay(run):
        metrics = each.metrics
        assert metrics.of("content_subscriptions") == 2
        assert metrics.of("table_rows") == 6
        assert metrics.of("covering_table_rows") == 4
        assert metrics.of("subscription_messages") == 4
        assert metrics.of("flooded_messages") == 2 * metrics.of("messages")
        assert metrics.of("link_messages") <= metrics.of("flooded_messages")
        assert "advertised_table_rows" not in metrics


def test_advertisements_as_filters_are_no_offers_of_attributes(trace, tmp_path):
    add_tables(rows(tmp_path / "a.jsonl", {"client": "p", "filter": "symbol = 'B'"}), "advertisements", trace.path, {})
    trace = Trace.open(trace.path)
    assert len(observe(trace).offers.publisher) == 0
    requests = read_requests(trace, (0, 0), known_in(trace, (0, 0)))
    assert len(requests.advertised) == 1
    assert not requests.met.any()


def test_true_advertises_the_empty_message_only_and_that_is_told(trace, tmp_path):
    told = []
    offers = ({"client": "p", "filter": text} for text in ("true", "symbol exists and close exists"))
    add_tables(rows(tmp_path / "a.jsonl", *offers), "advertisements", trace.path, {}, tell=told.append)
    assert len(told) == 1
    assert "1 advertisement is 'true', which advertises only the message without attributes" in told[0]
    requests = read_requests(Trace.open(trace.path), (0, 0), known_in(trace, (0, 0)))
    assert dict(zip(map(len, requests.advertised), requests.met.tolist(), strict=True)) == {
        0: [False, False],
        2: [True, True],
    }


def test_an_advertisement_of_nothing_is_refused_with_its_row(tmp_path):
    with pytest.raises(BadTrace, match="row 1: attributes is empty. Expected attributes, or a filter on content"):
        add_tables(
            rows(tmp_path / "a.jsonl", {"client": "p", "connections": 3}), "advertisements", str(tmp_path / "t"), {}
        )


def test_a_trace_without_content_subscriptions_has_no_such_metrics(tmp_path):
    out = str(tmp_path / "trace")
    ingest_sources(rows(tmp_path / "log.jsonl", {"at": 1_767_571_200, "client": "p", "receivers": ["q"]}), out)
    trace = Trace.open(out)
    assert read_requests(trace, (0, 0), known_in(trace, (0, 0))) is None


def test_advertisements_from_before_filters_are_read(tmp_path):
    out = str(tmp_path / "trace")
    add_tables(rows(tmp_path / "a.jsonl", {"client": "p", "attributes": "x"}), "advertisements", out, {})
    (part,) = Trace.open(out).parts["advertisements"]
    path = f"{out}/{part.path}"
    pq.write_table(pq.ParquetFile(path).read().drop_columns(["filter"]), path)
    (row,) = Trace.open(out).read("advertisements").to_pylist()
    assert row["filter"] is None
    assert row["attributes"] == 1
