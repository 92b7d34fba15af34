"""What logs give together is what they give apart, however they are cut."""

import functools
import gzip
import json
import tempfile
from collections import Counter
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from overlace.ingest.lines import blocks
from overlace.ingest.options import Options
from overlace.trace.traffic import UNLOGGED
from tests.engine import ingest_sources
from tests.ingest.logs import START, broken, ingested, mostly, objects, rows_of

HOUR = 3600


@contextmanager
def folder():
    with tempfile.TemporaryDirectory() as path:
        yield Path(path)


def written(path, log):
    path.write_bytes(log)
    return str(path)


class Cut(NamedTuple):
    """How large blocks and splits are; 0: as always."""

    block: int = 0
    split: int = 0
    rows: int = 0  # of Parquet


WHOLE = Cut()
cuts = st.builds(Cut, st.sampled_from([0, 1, 50]), st.sampled_from([0, 100, 400]))


def ingest(paths, out, cut=WHOLE, **options):
    chosen = Options(**{"unit": "s", "bucket": "hour", **options})
    with pytest.MonkeyPatch.context() as patch:
        if cut.block:
            patch.setattr("overlace.ingest.sources.blocks", functools.partial(blocks, size=cut.block))
        if cut.split:
            patch.setattr("overlace.ingest.source.MOST", cut.split)
            patch.setattr("overlace.ingest.source.LEAST", cut.split)
        if cut.rows:
            patch.setattr("overlace.ingest.formats.parquet.ROWS", cut.rows)
        done = ingest_sources([str(path) for path in paths], str(out), options=chosen)
    assert all(account.adds_up() for account in done.accounts)
    return done


def audiences(trace):
    table, names = trace.read("audiences"), trace.names.get("client", [])
    listed = zip(table["audience"].to_pylist(), table["receivers"].to_pylist(), strict=True)
    return {audience: tuple(sorted(names[each] for each in members)) for audience, members in listed}


def attributes(trace, mask):
    return None if mask is None else tuple(n for i, n in enumerate(trace.names.get("attribute", [])) if mask >> i & 1)


def messages(trace):
    """Messages by name, how ingested each."""
    known, found = audiences(trace), Counter()
    clients, topics = trace.names.get("client", []), trace.names.get("topic", [])
    table = trace.read("messages")
    at = table["at"].cast(pa.int64()).to_pylist()
    for when, row in zip(at, table.to_pylist(), strict=True):
        topic = None if row["topic"] is None else topics[row["topic"]]
        heard = None if row["audience"] is None else known[row["audience"]]
        found[
            when,
            clients[row["client"]],
            topic,
            row["bytes"],
            row["weight"],
            heard,
            attributes(trace, row["attributes"]),
        ] += 1
    return found


def traffic(trace):
    """Messages and bytes by bucket, client, topic, attributes and receivers, by name."""
    known, found = audiences(trace), Counter()
    clients, topics = trace.names.get("client", []), trace.names.get("topic", [])
    for row in trace.read("traffic").to_pylist():
        topic = None if row["topic"] is None else topics[row["topic"]]
        heard = None if row["audience"] == UNLOGGED else known[row["audience"]]
        key = (row["bucket"], clients[row["client"]], topic, attributes(trace, row["attributes"]), heard)
        found[key, "messages"] += row["messages"]
        found[key, "bytes"] += row["bytes"]
    return found


def counted(account):
    bad = {reason: count for reason, (count, _) in account.quarantined.items()}
    return account.lines, account.kept, dict(account.ignored), bad, account.duplicates


# --- logs ----------------------------------------------------------------------------------------------


def first_line(at, client, keyed):
    row = {"at": at, "client": client, "topic": "t", "receivers": ["b"], "bytes": 4}
    return json.dumps({**row, "id": "first"} if keyed else row).encode()


@st.composite
def message_lines(draw, start=START):
    """A JSON line that can be read, in one of the ways that there are to say it."""
    at = start + draw(st.integers(0, 5 * HOUR))
    row = {
        draw(st.sampled_from(["at", "time", "TS"])): draw(st.sampled_from([at, f" {at}", at + 0.5, f"{at}.25"])),
        draw(st.sampled_from(["client", "sender", "From"])): draw(
            st.sampled_from(["a", "b", "c", 7, 7.0, 12345678901234567])
        ),
    }
    if draw(st.booleans()):
        row[draw(st.sampled_from(["topic", "Topic", "subject"]))] = draw(
            st.sampled_from(["t", "u/1", "_INBOX.x7", "", None])
        )
    if draw(st.booleans()):
        row["receivers"] = draw(st.lists(st.sampled_from(["a", "b", "d", 7, None]), max_size=3))
    elif draw(st.booleans()):
        row["to"] = draw(st.sampled_from(["a", "d", "", None, ["a", "b"]]))
    if draw(st.booleans()):
        row["bytes"], row["weight"] = draw(st.sampled_from([0, 4, "5", 6.0])), draw(st.sampled_from([1, 3, None]))
    if draw(st.booleans()):
        row["broker"] = draw(st.sampled_from(["east", "west"]))
    if draw(mostly(st.just(False), st.just(True))):
        row["attributes"] = draw(st.lists(st.sampled_from(["hot", "cold"]), max_size=2))
    if draw(st.booleans()):
        row["id"] = draw(st.integers(1, 4))
    return json.dumps(row)


@st.composite
def json_logs(draw, client="a", start=START, keyed=None):
    lines = mostly(message_lines(start).map(str.encode), broken(objects()) if start == START else st.just(b"{"), 5)
    keyed = draw(st.booleans()) if keyed is None else keyed
    body = [first_line(start, client, keyed), *draw(st.lists(lines, max_size=12))]
    return b"\n".join(body) + draw(st.sampled_from([b"\n", b""]))


HEAD = "at,client,topic,receiver,bytes,broker"


@st.composite
def tables(draw, client="a", head=HEAD, start=START):
    hours = st.integers(0, 2).map(lambda n: str(start + n * 1800))
    cells = {"at": hours, "client": st.sampled_from("ab"), "topic": st.sampled_from("tu"), "id": st.sampled_from("123")}
    cells |= {"receiver": st.sampled_from(["a", "b", "c", ""]), "bytes": st.sampled_from(["4", ""])}
    cells |= {"broker": st.sampled_from(["east", "west", ""])}
    good = st.tuples(*(cells[name] for name in head.split(","))).map(",".join).map(str.encode)
    odd = broken(rows_of(head.split(","), ",")) if start == START else st.just(b"a,b")
    first = ",".join({"at": str(start), "client": client}.get(name, "4") for name in head.split(",")).encode()
    again = draw(st.lists(mostly(good, st.one_of(odd, st.just(head.encode()))), max_size=25))
    return b"\n".join([head.encode(), first, *again]) + draw(st.sampled_from([b"\n", b""]))


# --- laws ----------------------------------------------------------------------------------------------


def together_is_apart(a, b, kind, cut, **options):
    with folder() as at:
        paths = [written(at / f"a.{kind}", a), written(at / f"b.{kind}", b)]
        both = ingest(paths, at / "both", cut, format=kind, **options)
        apart = [ingest([path], at / f"only-{i}", format=kind, **options) for i, path in enumerate(paths)]
        assert messages(both.trace) == sum((messages(each.trace) for each in apart), Counter())
        assert traffic(both.trace) == sum((traffic(each.trace) for each in apart), Counter())
        assert [counted(each) for each in both.accounts] == [counted(each.accounts[0]) for each in apart]


@ingested(40)
@given(json_logs("a"), json_logs("b"), cuts)
def test_json_lines_together_are_what_they_are_apart(a, b, cut):
    together_is_apart(a, b, "jsonl", cut)


@ingested(30)
@given(tables("a"), tables("b"), cuts, st.sampled_from([None, ("sender", "at")]))
def test_tables_together_are_what_they_are_apart(a, b, cut, group):
    together_is_apart(a, b, "csv", cut, **({"group": group} if group else {}))


@ingested(30)
@given(st.data(), cuts, st.booleans())
def test_where_one_log_precedes_another_it_does_not_matter_when_it_is_ingested(data, cut, reduce_only):
    kind, logs = data.draw(st.sampled_from([("jsonl", json_logs), ("csv", tables)]))
    early, late = START - 10**6, START + 10**6
    a, b = data.draw(logs("a", start=early)), data.draw(logs("b", start=late))
    with folder() as at:
        paths = [written(at / f"a.{kind}", a), written(at / f"b.{kind}", b)]
        both = ingest(paths, at / "both", cut, format=kind, reduce_only=reduce_only).trace
        for path in paths:
            last = ingest([path], at / "grown", format=kind, reduce_only=reduce_only).trace
        assert both.names == last.names
        assert both.digest() == last.digest()


@ingested(30)
@given(st.data(), cuts, st.booleans())
def test_a_log_cut_anywhere_gives_the_same_trace(data, cut, reduce_only):
    """Rows of one key may lie all over the file; those that repeat others are counted once."""
    kind, log = data.draw(
        st.one_of(
            st.tuples(st.just("csv"), tables()), st.tuples(st.just("csv"), tables(head="id,at,client,topic,receiver")),
            st.tuples(st.just("jsonl"), json_logs()),
        )
    )  # fmt: skip
    with folder() as at:
        path = written(at / f"log.{kind}", log)
        whole = ingest([path], at / "whole", format=kind)
        parts = ingest([path], at / "parts", cut, format=kind, reduce_only=reduce_only)
        assert counted(parts.accounts[0]) == counted(whole.accounts[0])
        assert parts.trace.digest("traffic", "audiences") == whole.trace.digest("traffic", "audiences")
        assert parts.trace.names == whole.trace.names
        assert reduce_only or parts.trace.digest() == whole.trace.digest()
        for name in ("sessions", "subscriptions"):
            assert parts.trace.digest(name) == whole.trace.digest(name)


@ingested(20)
@given(json_logs(), cuts)
def test_a_packed_log_gives_the_same_trace(log, cut):
    with folder() as at:
        plain = ingest([written(at / "log.jsonl", log)], at / "plain", cut, format="jsonl")
        packed = ingest([written(at / "log.jsonl.gz", gzip.compress(log))], at / "packed", cut, format="jsonl")
        assert packed.trace.digest() == plain.trace.digest()
        assert counted(packed.accounts[0]) == counted(plain.accounts[0])


@ingested(30)
@given(st.data(), cuts)
def test_a_log_that_grows_gives_what_it_gives_at_once(data, cut):
    """Wherever it is cut, also inside a line."""
    kind, log = data.draw(
        st.one_of(st.tuples(st.just("csv"), tables()), st.tuples(st.just("jsonl"), json_logs(keyed=True)))
    )
    least = log.index(b"\n", log.index(b"\n") + 1 if kind == "csv" else 0) if log.count(b"\n") > 1 else len(log)
    upto = data.draw(st.integers(least, len(log)))
    with folder() as at:
        path = written(at / f"log.{kind}", log[:upto])
        ingest([path], at / "grown", format=kind)
        grown = ingest([written(at / f"log.{kind}", log)], at / "grown", cut, format=kind).trace
        once = ingest([path], at / "once", format=kind).trace
        assert messages(grown) == messages(once)
        assert traffic(grown) == traffic(once)
        told = [trace.read("sources").drop(["digest"]).to_pylist() for trace in (grown, once)]
        assert told[0] == told[1]


# --- the same rows in three formats --------------------------------------------------------------------

COLUMNS = ("id", "at", "client", "topic", "receiver", "bytes")


@st.composite
def deliveries(draw):
    """Rows of messages 1, 2, ...: one a receiver, some of them twice."""
    rows = []
    for message in range(1, draw(st.integers(1, 8)) + 1):
        about = (START + 600 * draw(st.integers(0, 9)), draw(st.integers(1, 3)), draw(st.integers(10, 12)))
        receivers = draw(st.lists(st.integers(1, 5), min_size=1, max_size=4))
        rows += [(message, *about, receiver, 40 + message) for receiver in receivers]
    return rows


def as_json(rows):
    return "\n".join(json.dumps(dict(zip(COLUMNS, row, strict=True))) for row in rows).encode()


def as_csv(rows):
    return "\n".join(",".join(map(str, row)) for row in [COLUMNS, *rows]).encode()


def as_parquet(path, rows, text, groups):
    columns = {name: pa.array(each) for name, each in zip(COLUMNS, zip(*rows, strict=True), strict=True)}
    for name in ("client", "topic", "receiver") if text else ():
        columns[name] = pc.cast(columns[name], pa.string())
    pq.write_table(pa.table(columns), path, row_group_size=groups)
    return str(path)


def expected(rows):
    """Messages by what the rows say, and how many rows repeat others."""
    told = {}
    for message, at, client, topic, receiver, size in rows:
        told.setdefault(message, (at * 10**6, str(client), str(topic), size, set()))[-1].add(str(receiver))
    found = Counter((at, c, t, size, 1, tuple(sorted(heard)), None) for at, c, t, size, heard in told.values())
    return found, len(rows) - len({(row[0], row[4]) for row in rows})


@ingested(30)
@given(deliveries(), st.data(), st.booleans())
def test_a_table_gives_the_same_in_any_format(rows, data, reduce_only):
    """As JSON lines, CSV or Parquet; sorted by message or not; numbers or text; in any cut, in one file or two."""
    known, twice = expected(rows)
    if data.draw(st.booleans()):
        rows = data.draw(st.permutations(rows))
    cut = data.draw(cuts)._replace(rows=data.draw(st.sampled_from([0, 1, 4])))
    text, groups, parts = data.draw(st.booleans()), data.draw(st.integers(1, 10)), data.draw(st.integers(1, 2))
    ends = [len(rows) * i // parts for i in range(parts + 1)]
    options = {"reduce_only": reduce_only}
    with folder() as at:
        pieces = [rows[a:b] for a, b in zip(ends, ends[1:], strict=False) if a < b]
        assume(len(set(map(tuple, pieces))) == len(pieces))  # the same file twice is read once
        paths = [as_parquet(at / f"rows-{i}.parquet", piece, text, groups) for i, piece in enumerate(pieces)]
        done = {
            "jsonl": ingest([written(at / "rows.jsonl", as_json(rows))], at / "j", cut, format="jsonl", **options),
            "csv": ingest([written(at / "rows.csv", as_csv(rows))], at / "c", cut, format="csv", **options),
            "parquet": ingest(paths, at / "p", cut, format="parquet", **options),
        }
        for name, each in done.items():
            assert traffic(each.trace) == traffic(done["csv"].trace), name
            assert reduce_only or messages(each.trace) == known, name
            assert sum(account.duplicates for account in each.accounts) == twice, name
            assert sum(account.kept for account in each.accounts) == len(rows) - twice, name


@st.composite
def plain_rows(draw):
    """Rows without an id, in which anything but time and client may be missing."""
    cells = (
        st.sampled_from([START, START + 60, START + HOUR]), st.sampled_from(["a", "b"]),
        st.sampled_from(["t", "u", None]),
        st.sampled_from(["a", "c", "d", None]), st.sampled_from([0, 4, None]), st.sampled_from(["east", "west", None]),
    )  # fmt: skip
    return draw(st.lists(st.tuples(*cells), min_size=1, max_size=20))


@ingested(40)
@given(plain_rows(), st.data())
def test_rows_that_agree_are_one_message_in_any_format(rows, data):
    names = ("at", "client", "topic", "receiver", "bytes", "broker")
    group = data.draw(
        st.sampled_from([("client", "at", "topic", "bytes"), ("client", "at"), ("client", "at", "broker")])
    )
    cut = data.draw(cuts)._replace(rows=data.draw(st.sampled_from([0, 1, 4])))
    table = [",".join(names), *(",".join("" if cell is None else str(cell) for cell in row) for row in rows)]
    lines = [json.dumps(dict.fromkeys(names)), *(json.dumps(dict(zip(names, row, strict=True))) for row in rows)]
    with folder() as at:
        kinds = {"at": pa.int64(), "bytes": pa.int64()}
        columns = [
            pa.array(each, kinds.get(name, pa.string()))
            for name, each in zip(names, zip(*rows, strict=True), strict=True)
        ]
        pq.write_table(
            pa.table(columns, names=names), at / "rows.parquet", row_group_size=data.draw(st.integers(1, 10))
        )
        written(at / "rows.csv", "\n".join(table).encode())
        written(at / "rows.jsonl", "\n".join(lines).encode())
        done = {
            kind: ingest([at / f"rows.{kind}"], at / kind, cut, format=kind, group=group)
            for kind in ("csv", "jsonl", "parquet")
        }
        for kind, each in done.items():
            assert messages(each.trace) == messages(done["csv"].trace), kind
            assert traffic(each.trace) == traffic(done["csv"].trace), kind
            assert each.accounts[0].kept == done["csv"].accounts[0].kept, kind
            assert each.accounts[0].duplicates == done["csv"].accounts[0].duplicates, kind
        assert done["jsonl"].trace.digest("sessions") == done["csv"].trace.digest("sessions")


# --- work ----------------------------------------------------------------------------------------------

ADVERSE = {
    "every line is bad in another way": "\n".join(
        f'{{"at": "x{i}", "client": {i}, "{i}": [{"[" * (i % 70)}' for i in range(4000)
    ),
    "one line of nested lists": '{"x": ' + "[" * 200_000,
    "one line of nested objects": '{"a":' * 40_000 + "1" + "}" * 40_000,
    "members all of other names": "\n".join(f'{{"at": {START}, "client": "a", "m{i}": {i}}}' for i in range(5000)),
    "one line with members all of other names": "{" + ",".join(f'"m{i}": {i}' for i in range(15_000)) + "}",
    "numeric and ISO times": "\n".join(
        f'{{"at": {START + i if i % 2 else json.dumps("2026-01-05T08:00:00")}, "client": "c{i}"}}' for i in range(4000)
    ),
    "names all of their own": "\n".join(f'{{"at": {START}, "client": "c{i}", "topic": "t{i}"}}' for i in range(4000)),
    "carriage returns": "\r" * 200_000,
    "open quotes": '"\n' * 20_000 + '{"at": "' + "\\" * 100_000,
    "one list of many": json.dumps({"at": START, "client": "a", "receivers": [f"r{i % 9000}" for i in range(25_000)]}),
    "blanks": " \n\t\n" * 50_000,
    "half of a pair": "\n".join(f'{{"at": {START}, "client": "\\ud83d{i}"}}' for i in range(4000)),
    "digits": f'{{"at": {"1" * 100_000}, "client": {"2" * 100_000}}}',
}  # fmt: skip


@pytest.mark.parametrize("kind", ["jsonl", "csv"])
@pytest.mark.parametrize("log", ADVERSE.values(), ids=ADVERSE.keys())
def test_whatever_a_log_holds_it_is_read_and_every_line_is_accounted_for(kind, log, tmp_path):
    first = first_line(START, "a", False) if kind == "jsonl" else b"at,client,topic"
    path = written(tmp_path / "log", first + b"\n" + log.encode())
    for name, cut in {"whole": Cut(), "parts": Cut(split=60_000)}.items():
        (account,) = ingest(
            [path], tmp_path / name, cut, format=kind, **({"header": True} if kind == "csv" else {})
        ).accounts
        assert account.lines + (account.waits > 0) == 1 + log.count("\n") + (not log.endswith("\n"))
