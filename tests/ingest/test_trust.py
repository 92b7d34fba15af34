"""What a trace must not say, and what an ingest makes of odd names and altered manifests."""

import copy
import hashlib
import json
import os
import shutil

import pyarrow.parquet as pq
import pytest
import xxhash

from overlace.errors import BadParameter, BadTrace, OverlaceError
from overlace.ingest.options import Options
from overlace.trace.store import Trace
from tests.engine import ingest_sources

START = 1_767_571_200
KEY = "a key of sixteen bytes or more"
SITE = f"""{START}: mosquitto version 2.0.11 starting
{START + 1}: New client connected from 127.0.0.1:1 as ivan (p2, c1, k60, u'heidi').
{START + 1}: New client connected from 127.0.0.1:1 as judy (p2, c1, k60).
{START + 1}: Received SUBSCRIBE from judy
{START + 1}: \tvault/+ (QoS 0)
{START + 1}: judy 0 vault/+
{START + 2}: Received PUBLISH from ivan (d0, q0, r0, m0, 'vault/door', ... (5 bytes))
{START + 2}: Sending PUBLISH to judy (d0, q0, r0, m0, 'vault/door', ... (5 bytes))
{START + 3}: Connecting bridge mallory (10.1.2.3:1883)
"""


def row(i, **more):
    return json.dumps({"client": f"c{i}", "at": START + i, "receivers": ["zoe"], **more}) + "\n"


@pytest.fixture
def logs(tmp_path):
    """A folder with a log of columns, one of JSON and one of a broker."""
    folder = tmp_path / "customer"
    folder.mkdir()
    cells = "".join(f"{i},alice{i % 3},plant/oven{i % 2},{START + i},bob,hush,crimson\n" for i in range(20))
    (folder / "quarter.csv").write_text(
        f"id,client,topic,at,receivers,wages,attributes\n{cells}1,alice,x,never,bob,,\n"
    )
    (folder / "mixer.jsonl").write_text("".join(row(i, topic="plant/mixer", frank=i, broker="depot") for i in range(9)))
    (folder / "branch.log").write_text(SITE)
    return folder


NAMES = """alice alice0 alice1 bob plant oven0 oven1 plant/oven0 plant/oven1 hush crimson wages c0 c1 zoe mixer
plant/mixer frank depot ivan judy heidi vault door vault/door vault/+ mallory 10.1.2.3:1883 branch quarter quarter.csv
mixer.jsonl branch.log customer branch/ivan branch/judy""".split()


def values(held):
    """All texts and numbers in nested lists and dictionaries."""
    if isinstance(held, dict):
        yield from values([*held, *held.values()])
    elif isinstance(held, list | tuple):
        for each in held:
            yield from values(each)
    elif isinstance(held, str | int) and not isinstance(held, bool):
        yield held


def guesses(candidate):
    """What a name or some bytes become under hashes without a key."""
    digests = [hashlib.new(name, candidate).hexdigest() for name in ("md5", "sha1", "sha256", "blake2b")]
    digests += [hashlib.blake2b(candidate, digest_size=size).hexdigest() for size in (4, 8, 16, 20, 32)]
    yield from (each[:16] for each in digests)
    for text in (candidate, *(each.encode() for each in digests)):
        for seed in (0, 42):
            yield xxhash.xxh64_intdigest(text, seed)
        yield xxhash.xxh3_64_intdigest(text)
    yield from (int.from_bytes(hashlib.blake2b(candidate, digest_size=8).digest(), end) for end in ("little", "big"))


def test_no_name_is_recovered_from_a_trace_with_hidden_names_by_trying(logs, tmp_path, monkeypatch):
    monkeypatch.setenv("OVERLACE_KEY", KEY)
    out = tmp_path / "trace"
    done = ingest_sources([str(logs)], str(out), Options(pseudonymise=True))
    assert done.trace.rows("messages") == 30
    assert done.trace.rows("quarantine") == done.trace.rows("subscriptions") == 1
    held = set(values(json.loads((out / "trace.json").read_text())))
    files = [path for path in out.rglob("*") if path.is_file()]
    for path in files:
        if path.suffix == ".parquet":
            held.update(values(pq.read_table(path, partitioning=None).to_pylist()))
    numbers = {each % 2**64 for each in held if isinstance(each, int)}
    texts = "\n".join(each for each in held if isinstance(each, str))
    raw = b"".join(path.read_bytes() + str(path.relative_to(out)).encode() for path in files)
    words = [*NAMES, *(str(path) for path in (logs, *logs.iterdir()))]
    candidates = [each.encode() for each in words]
    for path in logs.iterdir():
        data = path.read_bytes()
        ends = [cut for size in (256, 512, 1024, 4096) for cut in (data[:size], data[-size:])]
        candidates += [data, *ends, *data.splitlines()]
    for each in candidates:
        assert len(each) < 4 or each not in raw
        for guess in guesses(each):
            assert guess not in numbers if isinstance(guess, int) else guess not in texts
    assert not {each.decode() for each in candidates} & held


def test_a_key_is_long_and_a_trace_refuses_another(logs, tmp_path, monkeypatch):
    paths, out, hidden = [str(logs / "mixer.jsonl")], str(tmp_path / "trace"), Options(pseudonymise=True)
    for short in ("", "fifteen bytes.."):
        monkeypatch.setenv("OVERLACE_KEY", short)
        with pytest.raises(BadParameter, match="needs a key of 16 bytes or more in OVERLACE_KEY"):
            ingest_sources(paths, out, hidden)
    monkeypatch.setenv("OVERLACE_KEY", KEY)
    before = ingest_sources(paths, out, hidden).trace
    (logs / "mixer.jsonl").write_text("".join(row(i, frank=i) for i in range(12)))
    monkeypatch.setenv("OVERLACE_KEY", KEY + "!")
    with pytest.raises(BadParameter, match="hidden with another key"):
        ingest_sources(paths, out, hidden)
    with pytest.raises(BadParameter, match="give --pseudonymise with the same key"):
        ingest_sources(paths, out)
    assert Trace.open(out).digest() == before.digest()


def test_a_log_of_columns_grows_where_its_header_is_not_kept(logs, tmp_path, monkeypatch):
    monkeypatch.setenv("OVERLACE_KEY", KEY)
    path, hidden = logs / "quarter.csv", Options(pseudonymise=True)
    ingest_sources([str(path)], str(tmp_path / "grown"), hidden)
    with path.open("a") as log:
        log.write(f"90,alice9,plant/oven9,{START + 90},bob,hush,crimson\n")
    grown = ingest_sources([str(path)], str(tmp_path / "grown"), hidden)
    assert [account.lines for account in grown.accounts] == [1]
    assert grown.trace.digest() == ingest_sources([str(path)], str(tmp_path / "whole"), hidden).trace.digest()


def test_a_name_that_is_not_utf_8_stops_no_folder(tmp_path):
    folder = tmp_path / "logs"
    folder.mkdir()
    (folder / "fine.jsonl").write_text(row(1))
    bad = os.fsdecode(os.fsencode(folder) + b"/b\xff.jsonl")
    with open(bad, "w") as log:
        log.write(row(2))
    done = ingest_sources([str(folder)], str(tmp_path / "trace"))
    assert [account.source for account in done.accounts] == ["fine.jsonl"]
    assert done.known == [f"{folder}/b\\xff.jsonl is left out: its name is not UTF-8. Rename it to have it read"]
    with pytest.raises(BadTrace, match="is not UTF-8"):
        ingest_sources([bad], str(tmp_path / "trace"))


@pytest.mark.parametrize("name", ["a{b}", "a[1]", "a*?", "a b", "a%20b", "a\\b", "ä#+:,'\""])
def test_logs_and_traces_have_names_that_mean_something_to_engines(tmp_path, name):
    log, out = tmp_path / f"{name}.jsonl", tmp_path / f"trace {name}"
    for rows in (1, 2):
        log.write_text("".join(row(i) for i in range(rows)))
        assert ingest_sources([str(log)], str(out)).trace.rows("messages") == rows
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([log.name, out.name])


def test_a_trace_is_not_made_where_engines_cannot_write(tmp_path):
    (tmp_path / "a.jsonl").write_text(row(1))
    with pytest.raises(BadTrace, match="Choose another name"):
        ingest_sources([str(tmp_path / "a.jsonl")], str(tmp_path / "a\nb"))


def altered(document, values=(None, -1)):
    """The document with each of its values left out or replaced, one at a time."""

    def places(held, at=()):
        for key in held if isinstance(held, dict) else range(len(held)):
            yield (*at, key)
            if isinstance(held[key], dict | list):
                yield from places(held[key], (*at, key))

    for *way, last in places(document):
        for value in (..., *values):
            changed = copy.deepcopy(document)
            inside = changed
            for key in way:
                inside = inside[key]
            if value is ...:
                del inside[last]
            else:
                inside[last] = value
            yield changed


def test_an_altered_manifest_is_one_line(logs, tmp_path):
    """Whatever value is left out or is another: a trace is opened, read and grown, or refused in a line."""
    (logs / "mixer.jsonl").unlink()
    ingest_sources([str(logs)], str(tmp_path / "whole"))
    document = json.loads((tmp_path / "whole/trace.json").read_text())
    with (logs / "quarter.csv").open("a") as log:
        log.write(f"90,alice9,plant/oven9,{START + 90},bob,hush,crimson\n")
    ingests = 0
    for i, each in enumerate(altered(document)):
        out = tmp_path / "trace"
        shutil.rmtree(out, ignore_errors=True)
        shutil.copytree(tmp_path / "whole", out)
        (out / "trace.json").write_text(json.dumps(each))
        refused = None
        try:
            trace = Trace.open(str(out))
            for table in trace.parts:
                trace.read(table)
            trace.digest()
            if i % 10 == 0 or each.get("notes", {}).get("sources") != document["notes"]["sources"]:
                ingests += 1
                if ingests % 20 == 0:
                    ingest_sources([str(logs)], str(out))
        except OverlaceError as error:
            refused = str(error)
        if refused is not None:
            assert len(refused.splitlines()) == 1
            assert str(out) in refused or "quarter.csv" in refused or "--" in refused


def test_sixty_three_attributes_are_each_a_bit_of_their_own(tmp_path):
    """On a server of Connect too, which refuses expressions that are nested deep."""
    log = tmp_path / "a.jsonl"
    rows = [{"at": START + i, "client": "c", "attributes": [f"a{i:02}", "a00"]} for i in range(63)]
    log.write_text("".join(json.dumps(row) + "\n" for row in rows))
    trace = ingest_sources([str(log)], str(tmp_path / "t")).trace
    masks = trace.read("messages").sort_by("at")["attributes"].to_pylist()
    assert masks == [1 | 1 << i for i in range(63)]
    log.write_text(log.read_text() + json.dumps({**rows[0], "attributes": ["one more"]}) + "\n")
    with pytest.raises(BadTrace, match="64 attributes; a mask holds at most 63"):
        ingest_sources([str(log)], str(tmp_path / "t"))


@pytest.mark.parametrize("pattern", [r"^app-(\d+)", "(", "a{2,1}"])
def test_a_pattern_that_cannot_be_used_is_refused_before_anything_is_read(pattern):
    with pytest.raises(BadParameter, match=r"--identity .*\(\?P<client>\.\.\.\)"):
        Options(identity=pattern)


def test_a_link_to_what_is_not_there_does_not_stop_its_folder(tmp_path):
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs/a.jsonl").write_text(row(1) + row(2))
    (tmp_path / "logs/latest.jsonl").symlink_to(tmp_path / "gone.jsonl")
    done = ingest_sources([str(tmp_path / "logs")], str(tmp_path / "t"))
    assert done.known == ["latest.jsonl is left out: a link to what is not there"]
    assert done.trace.rows("messages") == 2
