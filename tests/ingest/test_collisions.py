"""Ids are hashes: two names of one id, or two sets of receivers of one hash, are an error that says which."""

import json
from functools import partial
from itertools import combinations

import pytest

from overlace.errors import BadTrace
from overlace.ingest.lines import blocks
from overlace.ingest.options import Options
from overlace.trace import ids
from overlace.trace.store import Trace
from tests.engine import ingest_sources
from tests.ingest.logs import START

WHERE = ("one piece", "two pieces", "two splits", "two files", "two ingests")


def id_of(name):
    """The id of a name."""
    return int(ids.identities([name])[0])


@pytest.fixture
def short_ids(monkeypatch):
    """Ids of 8 bits."""
    monkeypatch.setattr(ids, "BITS", 8)


def colliding():
    """Two names of one id, and three names with ids of their own."""
    names = [f"n{i}" for i in range(60)]
    one, other = next(pair for pair in combinations(names, 2) if id_of(pair[0]) == id_of(pair[1]))
    own = {id_of(name): name for name in names if id_of(name) != id_of(one)}
    return one, other, list(own.values())[:3]


def ingest(folder, patch, where, row, first, second):
    """Rows with what is first and, near it or far from it, what is second; all else is in `row`."""

    def lines(*rows):
        return "".join(json.dumps({"at": START + i, **row, **each}) + "\n" for i, each in enumerate(rows))

    if where in ("two files", "two ingests"):
        (folder / "a.jsonl").write_text(lines(first))
        (folder / "b.jsonl").write_text(lines({}, second))
    else:
        (folder / "a.jsonl").write_text(lines(first, *([first] * 30 if where != "one piece" else []), second))
    if where == "two pieces":
        patch.setattr("overlace.ingest.fragments.MANY", 1)
        patch.setattr("overlace.ingest.sources.blocks", partial(blocks, size=200))
    if where == "two splits":
        patch.setattr("overlace.ingest.source.MOST", 200)
        patch.setattr("overlace.ingest.source.LEAST", 200)
    paths = sorted(map(str, folder.glob("*.jsonl")))
    for some in (paths[:1], paths) if where == "two ingests" else (paths,):
        done = ingest_sources(some, str(folder / "trace"), options=Options(format="jsonl", unit="s"))
    return done.trace


def refused(folder, patch, where, row, first, second, message):
    """The error of such an ingest: in one line, and the trace is as it was."""
    with pytest.raises(BadTrace, match=message) as error:
        ingest(folder, patch, where, row, first, second)
    assert "\n" not in str(error.value)
    if where == "two ingests":
        assert Trace.open(str(folder / "trace")).rows("messages") == 1
    else:
        assert not (folder / "trace").exists()
    return str(error.value)


@pytest.mark.parametrize("where", WHERE)
@pytest.mark.parametrize("field", ["client", "receivers", "topic", "broker"])
def test_two_names_of_one_id_are_refused_by_both_names(tmp_path, monkeypatch, short_ids, field, where):
    one, other, (client, topic, receiver) = colliding()
    row = {"client": client, "topic": topic, "receivers": [receiver]}
    first, second = ({field: [name] if field == "receivers" else name} for name in (one, other))
    kind = "client" if field == "receivers" else field
    named = f"two names of kind {kind} have one id: ({one} and {other}|{other} and {one})"
    refused(tmp_path, monkeypatch, where, row, first, second, named)


def test_names_of_their_own_ids_or_of_different_kinds_are_taken(tmp_path, monkeypatch, short_ids):
    one, other, (client, topic, receiver) = colliding()
    row = {"client": client, "topic": one, "receivers": [receiver], "broker": topic}
    assert ingest(tmp_path, monkeypatch, "one piece", row, {"client": other}, {"client": client}).rows("messages") == 2


@pytest.mark.parametrize("where", WHERE)
def test_two_sets_of_receivers_of_one_hash_are_refused_by_what_they_hold(tmp_path, monkeypatch, where):
    monkeypatch.setattr("overlace.ingest.fragments.audience_of", lambda start, members: start[1:] * 0 + 7)
    first, second = ({"receivers": ["a", name]} for name in "bc")
    row = {"client": "s", "topic": "t", "receivers": ["a", "b"]}
    said = refused(tmp_path, monkeypatch, where, row, first, second, "two sets of receivers have the hash 7")
    for each in (first, second):
        assert str(sorted(map(id_of, each["receivers"]))) in said
