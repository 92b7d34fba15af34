"""Logs that grow, are rotated, renamed, copied, packed and cut: the trace holds what their bytes say, once."""

import contextlib
import gzip
import json
import shutil
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from overlace.errors import BadTrace
from overlace.ingest import sources
from overlace.ingest.files import strip_rotation
from overlace.ingest.options import Options
from overlace.trace.store import Trace
from tests.engine import ingest_sources
from tests.ingest.logs import START, ingested
from tests.ingest.test_together import folder, ingest, json_logs, messages, tables, traffic, written


def row(i, key=None, to="b", **more):
    own = {"at": START + i, "client": f"c{i % 5}", "topic": "t", "bytes": i % 7, "receivers": [to], **more}
    return json.dumps({**own, "id": f"m{key}"} if key is not None else own).encode() + b"\n"


def rows(first, count, **more):
    return b"".join(row(i, **more) for i in range(first, first + count))


def content_of(trace):
    """What a trace says of its log, by name: messages, traffic and the accounts of the lines."""
    counts = trace.read("sources").to_pylist()
    bad = {}
    for each in trace.read("quarantine").to_pylist():
        bad[each["source"], each["reason"]] = bad.get((each["source"], each["reason"]), 0) + each["count"]
    accounts = [{k: v for k, v in each.items() if k != "digest"} for each in counts]
    return messages(trace), traffic(trace), accounts, bad


@contextlib.contextmanager
def small(head=40):
    """Heads of a few lines, so that short logs have all that long ones have."""
    with pytest.MonkeyPatch.context() as patch:
        for module in ("files", "sources", "growth"):
            patch.setattr(f"overlace.ingest.{module}.HEAD", head)
        yield


keyed_logs = st.lists(
    st.tuples(st.integers(0, 3), st.sampled_from("abc"), st.integers(0, 9)), min_size=1, max_size=25
).map(
    lambda drawn: b"".join(
        row(i, key=(i // 2 if far else i % 3 * 1000), to=to, broker=f"b{step}")
        for i, (step, to, far) in enumerate(drawn)
    )
)
any_log = st.one_of(
    st.tuples(st.just("jsonl"), st.one_of(json_logs(), keyed_logs)), st.tuples(st.just("csv"), tables()),
    st.tuples(st.just("csv"), tables(head="id,at,client,topic,receiver")),
)  # fmt: skip


@ingested(60)
@given(any_log, st.lists(st.floats(0, 1), max_size=4), st.booleans(), st.booleans())
def test_whenever_it_is_read_the_trace_is_what_the_bytes_say_that_are_there(log, shares, reduce_only, bare):
    """Cut anywhere: inside a line, inside a message (where messages are kept), before the newline."""
    kind, data = log
    reduce_only = reduce_only and kind == "jsonl"  # rows of a table that agree are one message
    data = data.replace(b'"id"', b'"nr"') if reduce_only else data
    data = data.removesuffix(b"\n") if bare else data
    first = data.find(b"\n") + 1 or len(data)  # the columns are settled by what is there at first
    ends = sorted({first + int(share * (len(data) - first)) for share in shares} | {first, len(data)})
    with folder() as at, small():
        (at / "live").mkdir()
        for i, end in enumerate(ends):
            path = written(at / f"live/log.{kind}", data[:end])
            (at / f"{i}").mkdir()
            copy = written(at / f"{i}/log.{kind}", data[:end])
            with contextlib.suppress(BadTrace):  # nothing but an unfinished line
                grown = ingest([path], at / "grown", format=kind, reduce_only=reduce_only).trace
                options = {}
                if i and "settled" in (note := next(iter(grown.notes["sources"].values()))):
                    options = {"header": note["settled"].get("header")} if kind == "csv" else {}
                once = ingest([copy], at / f"once{i}", format=kind, reduce_only=reduce_only, **options).trace
                if same_reading(grown, once):
                    assert content_of(grown) == content_of(once)


def same_reading(one, other):
    """Whether both read the same columns: what holds for a log is settled when it is first seen."""
    return [note["settled"] for note in one.notes["sources"].values()] == [
        note["settled"] for note in other.notes["sources"].values()
    ]


class Logrotate:
    """A log as programs and logrotate treat it, and all that was ever written to it."""

    def __init__(self, at):
        self.at, self.whole = at / "logs", b""
        self.at.mkdir()
        self.log = self.at / "app.log"
        self.log.touch()

    def append(self, data):
        self.whole += data
        with self.log.open("ab") as file:
            file.write(data)

    def shift(self):
        """Make room for app.log.1, as logrotate does."""
        for i in range(30, 0, -1):
            for ending in ("", ".gz"):
                old = self.at / f"app.log.{i}{ending}"
                if old.exists():
                    old.rename(self.at / f"app.log.{i + 1}{ending}")

    def rotate(self):
        self.shift()
        self.log.rename(self.at / "app.log.1")
        self.log.touch()

    def copytruncate(self):
        self.shift()
        shutil.copy(self.log, self.at / "app.log.1")
        self.log.write_bytes(b"")

    def pack(self):
        for each in sorted(self.at.glob("app.log.[0-9]*")):
            if each.suffix != ".gz":
                (self.at / f"{each.name}.gz").write_bytes(gzip.compress(each.read_bytes()))
                each.unlink()

    def unpack(self):
        for each in sorted(self.at.glob("*.gz")):
            each.with_suffix("").write_bytes(gzip.decompress(each.read_bytes()))
            each.unlink()

    def copy(self):
        shutil.copy(self.log, self.at / "backup.log")


STEPS = ["rotate", "copytruncate", "pack", "unpack", "copy"]


@ingested(60)
@given(
    st.lists(
        st.one_of(st.integers(1, 6), st.sampled_from([*STEPS, "ingest", "ingest", "ingest"])), min_size=3, max_size=14
    ),
    st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 9)), min_size=70, max_size=70),
    st.sampled_from([(False, False), (True, False), (False, True)]),
)
def test_whatever_logrotate_does_each_message_counts_once(steps, drawn, how):
    keyed, reduce_only = how
    with folder() as at, small():
        logs, i = Logrotate(at), 0
        for step in [4, *steps, 2, "ingest"]:
            if isinstance(step, int):
                for to, far in drawn[i : i + step]:
                    logs.append(row(i, key=(i // 3 if far else i % 3 * 1000) if keyed else None, to=to))
                    i += 1
            elif step == "ingest":
                trace = ingest([logs.at], at / "trace", format="jsonl", reduce_only=reduce_only).trace
                plain = ingest(
                    [written(at / "whole.jsonl", logs.whole)], at / f"whole{i}", format="jsonl", reduce_only=reduce_only
                ).trace
                assert traffic(trace) == traffic(plain)
                assert messages(trace) == messages(plain)
                shutil.rmtree(at / f"whole{i}")
            else:
                getattr(logs, step)()


@ingested(40)
@given(
    st.lists(st.tuples(st.integers(0, 6), st.integers(10, 99)), min_size=9, max_size=30),
    st.integers(0, 2),
    st.booleans(),
    st.booleans(),
)
def test_a_part_of_a_log_that_is_read_anew_takes_nothing_from_the_other_parts(drawn, which, torn, reduce_only):
    """Rows of one key lie in all three files of a log; one of them goes on within its last cell, or is replaced."""
    lines = [f"m{key},{START + key},c{key},t,r{to}" for key, to in drawn]
    head = "id,at,client,topic,receiver"
    parts = ["\n".join([head, f"part{i},{START},c0,t,r10", *lines[i::3]]).encode() for i in range(3)]
    with folder() as at, small():
        (at / "logs").mkdir()
        files = [at / "logs" / name for name in ("app.log", "app.log.1", "app.log.2")]
        for path, part in zip(files, parts, strict=True):
            path.write_bytes(part + b"\n")
        now = files[which].read_bytes() if torn else parts[which].rpartition(b"\n")[0] + b"\n"
        if torn:
            files[which].write_bytes(parts[which][:-1])
        ingest([at / "logs"], at / "trace", format="csv", reduce_only=reduce_only)
        files[which].write_bytes(now)
        before = Trace.open(str(at / "trace")).digest()
        with pytest.raises(BadTrace, match="is read anew, and rows of its messages may be in app.log"):
            ingest([files[which]], at / "trace", format="csv", replace=not torn)
        assert Trace.open(str(at / "trace")).digest() == before
        found = ingest([at / "logs"], at / "trace", format="csv", replace=not torn).trace
        whole = ingest([at / "logs"], at / "once", format="csv", reduce_only=reduce_only).trace
        assert content_of(found) == content_of(whole)


# --- the rows of the table in docs/formats.md -------------------------------------------------------------


class Reads:
    """Counts the bytes that tasks take in."""

    def __init__(self, patch):
        self.bytes = 0
        plain = sources.Count.lines_of

        def counted(count, parts):
            for offset, block in plain(count, parts):
                self.bytes += len(block)
                yield offset, block

        patch.setattr(sources.Count, "lines_of", counted)

    def taken(self):
        taken, self.bytes = self.bytes, 0
        return taken


@pytest.fixture
def reads(monkeypatch):
    return Reads(monkeypatch)


@pytest.fixture
def log(tmp_path):
    (tmp_path / "logs").mkdir()
    path = tmp_path / "logs/app.log"
    path.write_bytes(rows(0, 60))
    return path


def again(log, **options):
    return ingest([log.parent], log.parent.parent / "trace", format="jsonl", **options)


def test_a_log_that_is_the_same_is_not_read(log, reads):
    again(log)
    assert reads.taken() == log.stat().st_size
    assert again(log).known == ["app.log: nothing new"]
    assert reads.taken() == 0


def test_of_a_longer_log_the_new_bytes_are_read(log, reads):
    again(log)
    reads.taken()
    new = rows(60, 7)
    log.write_bytes(log.read_bytes() + new)
    assert again(log).trace.rows("messages") == 67
    assert reads.taken() == len(new)


@pytest.mark.parametrize("cut", [1, 20, 60])
def test_an_unfinished_line_waits_and_only_it_and_what_follows_are_read(log, reads, cut):
    line = row(60)
    log.write_bytes(log.read_bytes() + line[:cut])
    done = again(log)
    assert (done.accounts[0].waits, done.accounts[0].bad, done.trace.rows("messages")) == (cut, 0, 60)
    assert again(log).known == ["app.log: nothing new, its last line is unfinished"]
    reads.taken()
    log.write_bytes(log.read_bytes() + line[cut:] + row(61))
    assert again(log).trace.rows("messages") == 62
    assert reads.taken() == len(line + row(61))


@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_a_last_line_that_lacks_only_its_end_counts_and_the_end_is_no_line(log, reads, end):
    log.write_bytes(log.read_bytes().removesuffix(b"\n"))
    assert again(log).trace.rows("messages") == 60
    reads.taken()
    log.write_bytes(log.read_bytes() + end + row(60))
    done = again(log)
    assert done.trace.rows("messages") == 61
    assert done.trace.read("sources")["lines"].to_pylist() == [61]
    assert reads.taken() == len(row(60))


def test_a_last_cell_that_went_on_is_read_anew(tmp_path):
    log = tmp_path / "log.csv"
    log.write_text(f"at,client,topic,bytes\n{START},a,t,1\n{START},b,t,12")
    first = ingest_sources([str(log)], str(tmp_path / "trace")).trace
    assert sorted(first.read("messages")["bytes"].to_pylist()) == [1, 12]
    log.write_text(f"at,client,topic,bytes\n{START},a,t,1\n{START},b,t,123\n")
    second = ingest_sources([str(log)], str(tmp_path / "trace")).trace
    assert sorted(second.read("messages")["bytes"].to_pylist()) == [1, 123]


@pytest.mark.parametrize("count", [3, 60])
@pytest.mark.parametrize("name", ["app.log.1", "app.log-20260105", "other.txt", "elsewhere/app.log"])
def test_a_log_that_was_renamed_is_known(log, reads, name, count):
    log.write_bytes(rows(0, count))
    again(log)
    reads.taken()
    (log.parent / "elsewhere").mkdir()
    log.rename(log.parent / name)
    done = again(log)
    assert done.known == [
        f"{Path(name).name}{'' if name.endswith('/app.log') else ' (app.log, which was read before)'}: nothing new"
    ]
    assert reads.taken() == 0
    with (log.parent / name).open("ab") as file:
        file.write(row(count))
    assert again(log).trace.rows("messages") == count + 1
    assert reads.taken() == len(row(count))


@pytest.mark.parametrize("count", [3, 60])
def test_a_copy_is_known_and_an_older_one_too(log, reads, count):
    log.write_bytes(rows(0, count))
    shutil.copy(log, log.parent / "copy.log")
    done = again(log)
    assert done.trace.rows("messages") == count
    assert done.known == ["copy.log is the same as app.log: read once"]
    with log.open("ab") as file:
        file.write(row(count))
    done = again(log)
    assert done.trace.rows("messages") == count + 1
    assert done.known == ["copy.log is the beginning of app.log: read once"]


@pytest.mark.parametrize("count", [3, 60])
def test_a_log_that_was_packed_is_known_and_what_it_gained_before_is_read(log, reads, count):
    log.write_bytes(rows(0, count))
    again(log)
    reads.taken()
    packed = log.parent / "app.log.2.gz"
    packed.write_bytes(gzip.compress(log.read_bytes()))
    log.unlink()
    assert again(log).known == ["app.log.2.gz (app.log, which was read before): nothing new"]
    assert reads.taken() == 0
    packed.write_bytes(gzip.compress(rows(0, count + 2)))
    assert again(log).trace.rows("messages") == count + 2
    assert reads.taken() == len(rows(count, 2))
    assert again(log).known == ["app.log.2.gz: nothing new"]
    log.write_bytes(rows(0, count + 2))  # packed and plain beside each other
    assert again(log).trace.rows("messages") == count + 2


def test_packed_and_plain_together_count_once(log):
    (log.parent / "app.log.gz").write_bytes(gzip.compress(log.read_bytes()))
    done = again(log)
    assert done.trace.rows("messages") == 60
    assert done.known in (
        ["app.log.gz is the same as app.log: read once"],
        ["app.log is the same as app.log.gz: read once"],
    )


def test_a_log_that_was_copied_and_truncated_goes_on(log, reads):
    again(log)
    reads.taken()
    shutil.copy(log, log.parent / "app.log.1")
    log.write_bytes(rows(60, 2))
    assert again(log).trace.rows("messages") == 62
    assert reads.taken() == len(rows(60, 2))


@pytest.mark.parametrize(
    ("now", "how"),
    [
        (rows(0, 80), "is shorter"),
        (rows(0, 9), "is shorter"),
        (rows(0, 80) + rows(100, 30), "goes on otherwise"),
        (rows(0, 80) + rows(100, 20), "is shorter"),
    ],
)
def test_a_log_that_was_cut_or_written_anew_is_refused_unless_it_is_to_replace_what_it_gave(log, now, how):
    log.write_bytes(rows(0, 100))
    before = again(log).trace.digest()
    log.write_bytes(now)
    with pytest.raises(BadTrace, match=f"begins like app.log, of which .* and {how}"):
        again(log)
    done = again(log, replace=True).trace
    assert before != done.digest()
    assert content_of(done) == content_of(ingest([log], log.parent / "other", format="jsonl").trace)
    log.write_bytes(now + row(500))
    assert again(log).trace.rows("messages") == now.count(b"\n") + 1


def test_of_a_log_with_keys_the_new_bytes_are_read_and_join_their_messages(log, reads):
    log.write_bytes(b"".join(row(i, key=i // 4, to=f"r{i}") for i in range(402)))
    again(log)
    reads.taken()
    for new in (
        b"".join(row(i, key=i // 4, to=f"r{i}") for i in range(402, 410)),
        row(500, key=0, to="far"),  # belongs to the very first message
    ):
        log.write_bytes(log.read_bytes() + new)
        trace = again(log).trace
        assert int(trace.read("traffic")["messages"].to_numpy().sum()) == trace.rows("messages") == 103
        assert reads.taken() == len(new)
    assert trace.read("sources")["lines"].to_pylist() == [411]
    assert Counter(map(len, trace.read("audiences")["receivers"].to_pylist())) == {4: 101, 5: 1, 2: 1}


@pytest.mark.parametrize("between", [False, True])
def test_a_key_that_runs_across_a_rotation_is_one_message(log, between):
    log.write_bytes(b"".join(row(i, key=i // 4, to=f"r{i}") for i in range(6)))
    if between:
        assert again(log).trace.rows("messages") == 2
    log.rename(log.parent / "app.log.1")
    log.write_bytes(b"".join(row(i, key=i // 4, to=f"r{i}") for i in range(6, 12)))
    done = again(log)
    assert done.trace.rows("messages") == 3
    assert max(map(len, done.trace.read("audiences")["receivers"].to_pylist())) == 4


def test_a_message_goes_on_in_a_log_whose_rotated_file_is_gone(log):
    log.write_bytes(b"".join(row(i, key=i // 4, to=f"r{i}") for i in range(6)))
    again(log)
    log.write_bytes(b"".join(row(i, key=i // 4, to=f"r{i}") for i in range(6, 12)))
    trace = again(log).trace
    assert trace.rows("messages") == 3
    assert sorted(map(len, trace.read("audiences")["receivers"].to_pylist())) == [4, 4, 4]


def test_keys_of_logs_that_are_no_rotation_are_their_own(log):
    log.write_bytes(row(0, key=1))
    (log.parent / "other.log").write_bytes(row(1, key=1))
    assert again(log).trace.rows("messages") == 2


def test_where_names_are_hidden_a_log_that_grows_is_read_on_all_the_same(log, reads, monkeypatch):
    monkeypatch.setenv("OVERLACE_KEY", "a key of sixteen bytes or more")
    log.write_bytes(b"".join(row(i, key=i // 4) for i in range(6)))
    assert again(log, pseudonymise=True).trace.rows("messages") == 2
    reads.taken()
    new = b"".join(row(i, key=i // 4) for i in range(6, 9))
    log.write_bytes(log.read_bytes() + new)
    assert again(log, pseudonymise=True).trace.rows("messages") == 3
    assert reads.taken() == len(new)


@pytest.mark.parametrize(
    ("name", "log"),
    [
        ("app.log", "app.log"), ("app.log.1", "app.log"), ("app.log.12.gz", "app.log"), ("app.log-20260105", "app.log"),
        ("app.log-20260105.gz", "app.log"), ("app.log.2026-01-05", "app.log"), ("app.log.2026-01-05_13", "app.log"),
        ("app.log-1767571200", "app.log"), ("broker.1", "broker.1"), ("broker-1.log", "broker-1.log"), ("5", "5"),
        ("events.jsonl.3", "events.jsonl"), ("app.log.gz", "app.log"), ("2026-01-05", "2026-01-05"),
    ],
)  # fmt: skip
def test_what_rotation_adds_to_a_name_is_known(name, log):
    assert strip_rotation(name) == log


def test_two_rotated_logs_of_one_broker_are_its_own(tmp_path):
    line = "{}: New client connected from 1.2.3.4:5 as {} (p2, c1, k60).\n"
    (tmp_path / "hub.log.1").write_text(line.format(START, "a"))
    (tmp_path / "hub.log").write_text(line.format(START + 9, "b"))
    done = ingest_sources([str(tmp_path)], str(tmp_path / "trace"), options=Options(format="mosquitto"))
    assert done.trace.names["broker"] == ["hub"]
    assert sorted(done.trace.names["client"]) == ["hub/a", "hub/b"]
