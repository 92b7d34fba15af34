"""Files of a log: many, twice, broken, packed, and none; in one process, without a JVM."""

import gzip
import json
import os
from collections import Counter

import pyarrow.parquet as pq
import pytest

from overlace.errors import BadParameter, BadTrace
from overlace.ingest import files, source, sources
from overlace.ingest.lines import blocks
from overlace.ingest.options import Options
from overlace.trace import address
from overlace.trace.store import Trace
from tests.engine import ingest_sources

START = 1_767_571_200


def lines(count, first=0, **more):
    rows = [
        {
            "at": START + i * 60,
            "client": f"c{i % 7}",
            "broker": f"b{i % 2}",
            "topic": "t",
            "receivers": [f"c{i % 3}"],
            **more,
        }
        for i in range(first, first + count)
    ]
    return "".join(json.dumps(row) + "\n" for row in rows)


class Counting:
    """A file system that counts what is opened and listed."""

    def __init__(self, inner, calls):
        self.inner, self.calls = inner, calls

    def __getattr__(self, name):
        def call(*args, **named):
            self.calls[name] += 1
            return getattr(self.inner, name)(*args, **named)

        return call


def test_known_files_cost_a_few_opens_each_and_new_ones_no_more_for_those_that_are_known(tmp_path, monkeypatch):
    (tmp_path / "logs").mkdir()

    def more(first, count):
        for i in range(first, first + count):
            (tmp_path / f"logs/{i:04}.jsonl").write_text(lines(40 if i % 2 else 3, i * 50))

    calls = Counter()

    def counted(path):
        files, at = address.place(path)
        return Counting(files, calls), at

    for module in (files, sources):
        monkeypatch.setattr(module, "place", counted)
    opens = []
    for first, count in ((0, 20), (20, 0), (20, 20), (40, 0)):
        more(first, count)
        calls.clear()
        ingest_sources([str(tmp_path / "logs")], str(tmp_path / "trace"))
        opens.append(calls["open_input_file"] + calls["open_input_stream"])
        assert calls["get_file_info"] < 10 + 8 * (first + count)
    assert opens[1] <= 4 * 20
    assert opens[3] <= 4 * 40  # twice the files, twice the opens
    assert opens[2] - opens[1] <= 8 * 20  # new files cost what new files cost


def test_a_path_or_the_same_bytes_named_twice_are_read_once_and_said(tmp_path):
    log = tmp_path / "a.jsonl"
    log.write_text(lines(30))
    (tmp_path / "copy.jsonl").write_text(lines(30))
    paths = [str(log), str(tmp_path), str(tmp_path / "." / "a.jsonl")]
    done = ingest_sources(paths, str(tmp_path / "trace"))
    assert done.trace.rows("messages") == 30
    assert [account.lines for account in done.accounts] == [30]
    assert sum("named twice: read once" in text for text in done.known) == 2
    assert "copy.jsonl is the same as a.jsonl: read once" in done.known


def test_small_parts_are_joined_when_there_are_many_and_nothing_else_changes(tmp_path, monkeypatch):
    monkeypatch.setattr("overlace.trace.writer.FILES", 4)
    monkeypatch.setattr(source, "MOST", 1000)
    monkeypatch.setattr(source, "LEAST", 1000)
    texts = [lines(10, i * 20) for i in range(12)]
    named = []
    for i, text in enumerate(texts):
        (tmp_path / f"{i:02}.jsonl").write_text(text)
        grown = ingest_sources(
            [str(tmp_path / f"{i:02}.jsonl")], str(tmp_path / "grown"), options=Options(bucket="minute")
        )
        named.append({part.path for parts in grown.trace.parts.values() for part in parts})
    monkeypatch.setattr("overlace.trace.writer.FILES", 1000)
    paths = [str(tmp_path / f"{i:02}.jsonl") for i in range(12)]
    once = ingest_sources(paths, str(tmp_path / "once"), options=Options(bucket="minute"))
    assert grown.trace.digest() == once.trace.digest()
    assert all(len({part.path for part in parts}) <= 5 for parts in grown.trace.parts.values())
    assert {part.source for part in grown.trace.parts["traffic"]} == {
        part.source for part in once.trace.parts["traffic"]
    }
    for part in grown.trace.parts["messages"]:
        assert pq.ParquetDataset(tmp_path / "grown" / part.path).read().num_rows == part.rows
    inside = {str(p.relative_to(tmp_path / "grown")) for p in (tmp_path / "grown").rglob("*.parquet")}
    assert all(any(file.startswith(part) for part in named[-1] | named[-2]) for file in inside)


def broken_files():
    packed = gzip.compress(os.urandom(3000).hex().encode())
    return {
        "cut.jsonl.gz": (packed[:-50], "not a whole gzip file"),
        "u16.csv": ("client,at\na,1\n".encode("utf-16"), "UTF-16 or not text.*iconv"),
        "u16le.csv": ("client,at\nabc,123456\n".encode("utf-16-le"), "UTF-16 or not text"),
        "pairs.json": (b'[["a", "b"], ["c", "d"]]\n', "no known format"),
        "cut.parquet": (b"PAR1" + b"x" * 100, "not a whole Parquet file"),
        "log.zip": (b"PK\x03\x04" + b"\0" * 40, "packed by zip"),
        "prose.txt": (b"once upon a time\nthere was, a log\n\n", "no known format.*--skip '\\*.txt'"),
        "empty.jsonl": (b"", "nothing to ingest: empty.jsonl: empty"),
    }


@pytest.mark.parametrize("name", broken_files())
def test_what_is_no_log_is_refused_in_one_line_that_says_what_to_do(tmp_path, name):
    data, expected = broken_files()[name]
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / name).write_bytes(data)
    with pytest.raises(BadTrace, match=expected) as caught:
        ingest_sources([str(tmp_path / "logs" / name)], str(tmp_path / "trace"))
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "trace").exists()


def test_a_gzip_that_is_cut_far_into_it_leaves_nothing_behind(tmp_path):
    whole = gzip.compress("".join(lines(1, i, topic=os.urandom(200).hex()) for i in range(2000)).encode())
    (tmp_path / "log.jsonl.gz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(BadTrace, match="not a whole gzip file"):
        ingest_sources([str(tmp_path / "log.jsonl.gz")], str(tmp_path / "trace"))
    assert not (tmp_path / "trace").exists()


def test_other_files_of_a_folder_can_be_skipped(tmp_path):
    (tmp_path / "logs/old").mkdir(parents=True)
    (tmp_path / "logs/a.jsonl").write_text(lines(5))
    (tmp_path / "logs/old/b.jsonl").write_text(lines(5, 5))
    (tmp_path / "logs/README.md").write_text("# Logs\n\nThey are here.\n")
    (tmp_path / "logs/.hidden").write_text("x")
    with pytest.raises(BadTrace, match="--skip '\\*.md'"):
        ingest_sources([str(tmp_path / "logs")], str(tmp_path / "t"))
    done = ingest_sources([str(tmp_path / "logs")], str(tmp_path / "t"), options=Options(skip=("*.md",)))
    assert done.trace.rows("messages") == 10


def test_a_log_is_told_by_its_bytes_and_not_by_its_name(tmp_path):
    (tmp_path / "packed").write_bytes(gzip.compress(lines(7).encode()))
    assert ingest_sources([str(tmp_path / "packed")], str(tmp_path / "t")).trace.rows("messages") == 7


@pytest.mark.parametrize(
    ("options", "flag"),
    [
        (Options(delimiter=";"), "--delimiter"),
        (Options(header=True), "--header"),
        (Options(bridges=("x",)), "--bridges"),
        (Options(identity="user"), "tells users apart"),
    ],
)
def test_what_a_format_does_not_honour_is_refused_by_name(tmp_path, options, flag):
    (tmp_path / "a.jsonl").write_text(lines(5))
    with pytest.raises(BadParameter, match=flag):
        ingest_sources([str(tmp_path / "a.jsonl")], str(tmp_path / "t"), options=options)
    assert not (tmp_path / "t").exists()


def test_what_was_settled_holds_for_the_bytes_to_come(tmp_path):
    """The unit of numeric times is that of the first lines, whatever the next ones would suggest."""
    log = tmp_path / "a.csv"
    log.write_text("client,t,receivers\nx,1767571200000,y\n")
    options = Options(group=("sender",), max_bad=1.0)
    ingest_sources([str(log)], str(tmp_path / "t"), options=options)
    log.write_text("client,t,receivers\nx,1767571200000,y\nz,1767571200,y\n")
    done = ingest_sources([str(log)], str(tmp_path / "t"), options=options)
    (noted,) = done.trace.notes["sources"].values()
    assert noted["settled"]["unit"] == "ms"
    at = sorted(done.trace.read("messages")["at"].to_pylist())
    assert [str(each.date()) for each in at] == ["1970-01-21", "2026-01-05"]


def test_a_broker_that_is_named_is_that_of_rows_that_name_none(tmp_path):
    (tmp_path / "a.csv").write_text("client,at,receiver,broker\nx,100,y,\nz,100,y,b2\n")
    trace = ingest_sources([str(tmp_path / "a.csv")], str(tmp_path / "t"), options=Options(broker="b1")).trace
    rows = trace.read("sessions").to_pylist()
    assert {(trace.names["client"][r["client"]], trace.names["broker"][r["broker"]]) for r in rows} == {
        ("x", "b1"),
        ("z", "b2"),
    }


def test_a_refused_ingest_leaves_a_trace_as_it_was(tmp_path):
    (tmp_path / "a.jsonl").write_text(lines(20))
    first = ingest_sources([str(tmp_path / "a.jsonl")], str(tmp_path / "t")).trace
    before = {p: p.read_bytes() for p in (tmp_path / "t").rglob("*") if p.is_file()}
    (tmp_path / "b.jsonl").write_text(lines(5, 100) + "oops\n")
    with pytest.raises(BadTrace, match="1 of 6 lines cannot be read"):
        ingest_sources([str(tmp_path / "b.jsonl")], str(tmp_path / "t"), options=Options(strict=True))
    assert {p: p.read_bytes() for p in (tmp_path / "t").rglob("*") if p.is_file()} == before
    assert Trace.open(str(tmp_path / "t")).digest() == first.digest()


@pytest.mark.parametrize("only", [False, True])
def test_keys_that_only_later_lines_have_are_joined_over_splits_all_the_same(tmp_path, monkeypatch, only):
    monkeypatch.setattr(sources, "SAMPLE", 500)
    early = lines(20)
    keyed = "".join(lines(1, 50, id=f"m{i % 5}", receivers=[f"r{i % 7}"]) for i in range(200))
    (tmp_path / "log.jsonl").write_text(early + keyed)
    options = Options(reduce_only=only)
    whole = ingest_sources([str(tmp_path / "log.jsonl")], str(tmp_path / "a"), options=options)
    monkeypatch.setattr(source, "MOST", 1500)
    monkeypatch.setattr(source, "LEAST", 1500)
    cut = ingest_sources([str(tmp_path / "log.jsonl")], str(tmp_path / "b"), options=options)
    assert int(whole.trace.read("traffic")["messages"].to_numpy().sum()) == 25
    assert cut.trace.digest() == whole.trace.digest()
    assert cut.accounts == whole.accounts


def test_what_is_packed_is_read_piece_by_piece(tmp_path, monkeypatch):
    text = "".join(lines(1, i, id=f"m{i % 40}", receivers=[f"r{i}"]) for i in range(300))
    (tmp_path / "log.jsonl").write_text(text)
    (tmp_path / "log.jsonl.gz").write_bytes(gzip.compress(text.encode()))
    plain = ingest_sources([str(tmp_path / "log.jsonl")], str(tmp_path / "a"))
    monkeypatch.setattr(sources, "blocks", lambda file, start=0, end=None: blocks(file, start, end, 1500))
    packed = ingest_sources([str(tmp_path / "log.jsonl.gz")], str(tmp_path / "b"))
    assert packed.trace.digest() == plain.trace.digest()
    assert [a[3:] for a in packed.accounts] == [a[3:] for a in plain.accounts]
    assert plain.trace.rows("messages") == 40


def test_a_column_is_read_into_one_field_and_what_is_shown_as_used_is_read(tmp_path):
    log = tmp_path / "a.jsonl"
    log.write_text(lines(5, **{" topic ": "x", "Subject": "y"}))
    with pytest.raises(BadParameter, match="names the column 'client' twice"):
        ingest_sources([str(log)], str(tmp_path / "t"), options=Options(map={"client": "client", "receiver": "client"}))
    done = ingest_sources([str(log)], str(tmp_path / "t"))
    assert "topic from topic, else Subject" in done.accounts[0].mapping[0]
    assert "not used:  topic " in done.accounts[0].mapping
    assert done.trace.names["topic"] == ["t"]


def test_lines_of_comment_before_rows_are_ignored_and_counted_and_a_header_with_a_hash_is_a_header(tmp_path):
    rows = "".join(f"a,b,{START + i}\n" for i in range(5))
    options = Options(map={"client": "0", "receiver": "1", "at": "2"})
    (tmp_path / "x.csv").write_text(f"# made by hand\n# on a Monday\n{rows}# and so on\n{rows}")
    (account,) = ingest_sources([str(tmp_path / "x.csv")], str(tmp_path / "t"), options=options).accounts
    assert (account.lines, account.kept, account.ignored, account.duplicates) == (13, 5, {"comment": 3}, 5)
    (tmp_path / "y.csv").write_text(f"#who,whom,when\n{rows}#x,b,{START}\n")
    options = Options(map={"client": "#who", "receiver": "whom", "at": "when"})
    (account,) = ingest_sources([str(tmp_path / "y.csv")], str(tmp_path / "u"), options=options).accounts
    assert (account.kept, account.ignored) == (6, {"header": 1})
