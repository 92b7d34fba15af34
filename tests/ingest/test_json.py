"""A JSON array of objects is read as the same objects, a line each."""

import gzip
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overlace.errors import BadTrace
from overlace.ingest import lines as lines_module
from overlace.ingest.formats.json import FORMAT, split_elements
from overlace.ingest.options import Options
from overlace.ingest.sources import guess, look
from tests.engine import ingest_sources

START = 1_767_571_200
names = st.sampled_from(["a", "b", "c,d", "e]f", "g}", 'h"i', "j\\\\k", "l\nm", "[{", "ü", ""])
objects = st.fixed_dictionaries(
    {"at": st.sampled_from([START, START + 60, "never", None]), "client": names},
    optional={"topic": names, "receivers": st.lists(names, max_size=3), "more": st.just({"deep": [{"a": [1, "]"]}]})},
)
elements_of = st.lists(st.one_of(objects, objects, objects, st.sampled_from([1, "x", [], {}, None])), max_size=12)


def ingested(path, out):
    """The account without what tells files apart, and all flows."""
    done = ingest_sources([str(path)], str(out), options=Options(bucket="minute"))
    (account,) = done.accounts
    bad = {reason: count for reason, (count, _) in account.quarantined.items()}
    names = done.trace.names
    rows = done.trace.read("messages").to_pylist()
    told = sorted((row["at"], names["client"][row["client"]], str(row["topic"])) for row in rows)
    return account.lines, account.kept, account.ignored, bad, account.duplicates, told


@settings(max_examples=40, deadline=None)
@given(elements_of, st.sampled_from([None, 0, 2]), st.booleans(), st.booleans(), st.sampled_from(["", "\n", " \r\n\n"]))
def test_an_array_gives_what_its_elements_give_a_line_each(tmp_path_factory, rows, indent, packed, marked, end):
    folder = tmp_path_factory.mktemp("t")
    rows = [{"at": START, "client": "first", "topic": "t"}, *rows]
    (folder / "x.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    text = ("\ufeff" if marked else "") + json.dumps(rows, indent=indent) + end
    data = text.replace("\n", "\r\n" if indent == 2 else "\n").encode()
    (folder / "x.json").write_bytes(gzip.compress(data) if packed else data)
    assert look(str(folder / "x.json")).format == "json"
    assert ingested(folder / "x.json", folder / "a") == ingested(folder / "x.jsonl", folder / "b")


@settings(max_examples=60, deadline=None)
@given(elements_of, st.integers(1, 40), st.sampled_from([None, 1]))
def test_where_blocks_are_cut_changes_nothing_and_nothing_moves(rows, size, indent):
    data = json.dumps(rows, indent=indent, ensure_ascii=False).encode()
    whole = list(split_elements(iter([(0, data)])))
    cut = list(split_elements((i, data[i : i + size]) for i in range(0, len(data), size)))
    assert b"".join(block for _, block in cut) == b"".join(block for _, block in whole)
    for offset, block in cut:
        assert all(a == b or chr(b) in " \n" for a, b in zip(data[offset:], block, strict=False))
    lines = b"".join(block for _, block in cut).split(b"\n")
    assert [json.loads(line) for line in lines if line.strip()] == rows


@pytest.mark.parametrize(
    ("text", "lines", "bad"),
    [
        ("[]", 0, {}),
        ("[ \n ]\n", 0, {}),
        ('[{"at": 1767571200, "client": "a"},]', 1, {}),
        ('[{"at": 1767571200, "client": "a"}', 1, {}),
        ('[{"at": 1767571200, "client": "a"}, {"at": 17675', 2, {"not one JSON object": 1}),
        ('[{"at": 1767571200, "client": "a"}] more', 2, {"not one JSON object": 1}),
        ('[{"at": 1767571200, "client": "a"} {"at": 1767571200, "client": "b"}]', 1, {"not one JSON object": 1}),
        ('[{"at": 1767571200, "client": "a\nb"}]', 1, {"not one JSON object": 1}),
    ],
)
def test_an_array_that_is_cut_or_odd_is_accounted_for(tmp_path, text, lines, bad):
    (tmp_path / "x.json").write_text(text)
    done = ingest_sources([str(tmp_path / "x.json")], str(tmp_path / "t"))
    (account,) = done.accounts
    assert account.lines == lines
    assert {reason: count for reason, (count, _) in account.quarantined.items()} == bad


def test_an_array_that_is_longer_by_now_replaces_what_it_gave(tmp_path):
    rows = [{"at": START + i, "client": f"c{i % 7}", "topic": "t" * 20, "receivers": ["x"]} for i in range(300)]
    log, out = tmp_path / "x.json", str(tmp_path / "t")
    log.write_text(json.dumps(rows[:200]))
    assert ingest_sources([str(log)], out).trace.rows("messages") == 200
    assert ingest_sources([str(log)], out).known == ["x.json: nothing new"]
    log.write_text(json.dumps(rows))
    assert ingest_sources([str(log)], out).trace.rows("messages") == 300


def test_an_array_is_read_in_blocks_however_it_is_laid_out(tmp_path, monkeypatch):
    rows = [{"at": START + i, "client": f"c{i}"} for i in range(500)]
    (tmp_path / "x.json").write_text(json.dumps(rows))
    monkeypatch.setattr(lines_module.raw_blocks, "__defaults__", (100, None))
    done = ingest_sources([str(tmp_path / "x.json")], str(tmp_path / "t"))
    assert done.accounts[0].kept == 500


def test_what_begins_with_a_bracket_is_not_always_an_array_of_objects(tmp_path):
    assert FORMAT.sniff(b' [ {"a": 1}]') > 0.5
    for head in (b"[class,'STOCK'],[symbol,'YHOO']\n", b'[["a", "b"]]', b"[1, 2]", b"[main]\nkey = value\n"):
        assert guess(head) != "json"
    (tmp_path / "x.txt").write_bytes(b"[main]\nkey = value\n")
    with pytest.raises(BadTrace, match="no known format"):
        look(str(tmp_path / "x.txt"))
