"""Logs that grow, at their edges: rotated while they are read, settled too early, moved, and brokers with bridges."""

import os
import shutil
from collections import Counter

import pytest

from overlace.errors import BadParameter, BadTrace, Busy
from overlace.ingest import run
from overlace.ingest.options import Options
from tests.engine import ingest_sources
from tests.ingest.logs import START
from tests.ingest.test_growing import row

HEAD = "at,client,topic,bytes,receiver\n"
SENT = "(d0, q0, r0, m0, 't', ... (1 bytes))"
NEAR = [
    f"{START}: Bridge local.vm.m1-m2 doing local SUBSCRIBE on topic #",
    f"{START}: Connecting bridge (step 1) m1-m2 (127.0.0.1:50965)",
    f"{START}: Bridge vm.m1-m2 sending CONNECT",
    f"{START}: Received CONNACK on connection local.vm.m1-m2.",
    f"{START + 1}: New client connected from 127.0.0.1:1 as c (p2, c1, k60).",
    f"{START + 10}: Received PUBLISH from c {SENT}",
    f"{START + 10}: Sending PUBLISH to local.vm.m1-m2 {SENT}",
]
FAR = [
    f"{START}: New bridge connected from 127.0.0.1:35178 as vm.m1-m2 (p2, c0, k60).",
    f"{START + 1}: New client connected from 127.0.0.1:2 as r (p2, c1, k60).",
    f"{START + 10}: Received PUBLISH from vm.m1-m2 {SENT}",
    f"{START + 10}: Sending PUBLISH to r {SENT}",
]


@pytest.fixture
def logs(tmp_path):
    (tmp_path / "logs").mkdir()
    return tmp_path / "logs"


def put(path, *parts):
    path.write_bytes(b"".join(each if isinstance(each, bytes) else each.encode() for each in parts))


def add(path, *parts):
    put(path, path.read_bytes(), *parts)


def ingest(path, **options):
    trace = path.parent / "trace" if path.name != "trace" else path
    return ingest_sources([str(path)], str(trace), options=Options(**{"bucket": "hour", **options})).trace


def kept(trace):
    return {
        each["name"]: (each["lines"], each["kept"], each["quarantined"]) for each in trace.read("sources").to_pylist()
    }


def receivers(trace):
    names = trace.names["client"]
    return sorted([names[each] for each in group] for group in trace.read("audiences")["receivers"].to_pylist())


def test_a_log_that_is_rotated_while_it_is_read_is_read_again(logs, monkeypatch):
    put(logs / "a.jsonl", *(row(i) for i in range(100)))
    plain = run.read_events

    def rotated(spark, job):
        os.rename(logs / "a.jsonl", logs / "a.jsonl.1")
        put(logs / "a.jsonl", row(500))
        return plain(spark, job)

    with monkeypatch.context() as patch:
        patch.setattr(run, "read_events", rotated)
        with pytest.raises(BadTrace, match="was rotated or written anew while it was being read. Nothing was ingested"):
            ingest(logs)
    assert ingest(logs).rows("messages") == 101


def test_a_log_that_grows_while_it_is_read_is_read_up_to_where_it_was(logs, monkeypatch):
    put(logs / "a.jsonl", *(row(i) for i in range(100)))
    plain = run.read_events

    def grown(spark, job):
        add(logs / "a.jsonl", row(500))
        return plain(spark, job)

    with monkeypatch.context() as patch:
        patch.setattr(run, "read_events", grown)
        assert ingest(logs).rows("messages") == 100
    assert ingest(logs).rows("messages") == 101


@pytest.mark.parametrize("grows", ["m1.log", "m2.log"])
def test_where_messages_cross_bridges_the_logs_of_both_ends_are_read_again(logs, grows):
    put(logs / "m1.log", "\n".join(NEAR) + "\n")
    put(logs / "m2.log", "\n".join(FAR) + "\n")
    assert receivers(ingest(logs)) == [["m2/r"]]
    add(logs / grows, f"{START + 300}: New client connected from 127.0.0.1:3 as late (p2, c1, k60).\n")
    assert receivers(ingest(logs)) == [["m2/r"]]
    add(logs / grows, f"{START + 400}: New client connected from 127.0.0.1:3 as later (p2, c1, k60).\n")
    with pytest.raises(BadTrace, match="may be in m[12].log, ingested before. Name all logs of that time together"):
        ingest_sources([str(logs / grows)], str(logs.parent / "trace"))


def test_what_arrives_over_a_bridge_later_finds_its_message(logs):
    put(logs / "m1.log", "\n".join(NEAR) + "\n")
    put(logs / "m2.log", "\n".join(FAR[:2]) + "\n")
    ingest(logs)
    put(logs / "m2.log", "\n".join(FAR) + "\n")
    assert receivers(ingest(logs)) == [["m2/r"]]


LATER = [
    f"{START + 20}: Received PUBLISH from c {SENT}",
    f"{START + 20}: Sending PUBLISH to local.vm.m1-m2 {SENT}",
]
LATER_FAR = [
    f"{START + 20}: Received PUBLISH from vm.m1-m2 {SENT}",
    f"{START + 20}: Sending PUBLISH to r {SENT}",
]


def rotated(logs, *, first=(NEAR, FAR)):
    for name, lines in zip(("m1.log.1", "m2.log.1"), first, strict=True):
        put(logs / name, "\n".join(lines) + "\n")
    put(logs / "m1.log", "\n".join(LATER) + "\n")
    put(logs / "m2.log", "\n".join(LATER_FAR) + "\n")


def flows(trace):
    names, rows = trace.names["client"], trace.read("traffic").to_pylist()
    assert not [name for name in names if "vm.m1-m2" in name]
    sent = Counter()
    for each in rows:
        sent[names[each["client"]]] += each["messages"]
    return dict(sent), receivers(trace), trace.rows("links")


@pytest.mark.parametrize("at_once", [True, False])
def test_a_bridge_is_one_in_every_file_of_its_brokers_log(logs, at_once):
    rotated(logs)
    if not at_once:
        for name in ("m1.log", "m2.log"):
            put(logs / name, (logs / f"{name}.1").read_bytes())
            (logs / f"{name}.1").unlink()
        ingest(logs)
        for name in ("m1.log", "m2.log"):
            os.rename(logs / name, logs / f"{name}.1")
        rotated(logs)
    done = ingest_sources([str(logs)], str(logs.parent / "trace"), options=Options(bucket="hour"))
    assert flows(done.trace) == ({"m1/c": 2}, [["m2/r"]], 1)
    assert not [note for note in done.notes if "taken for a client" in note]


def test_a_bridge_that_is_shown_too_late_is_told(logs):
    for name, lines in (("m1.log", LATER), ("m2.log", LATER_FAR)):
        put(logs / name, "\n".join(lines) + "\n")
    ingest(logs)
    for name, lines in (("m1.log", NEAR), ("m2.log", FAR)):
        os.rename(logs / name, logs / f"{name}.1")
        put(logs / name, "\n".join(lines).replace(str(START + 10), str(START + 99)) + "\n")
    done = ingest_sources([str(logs)], str(logs.parent / "trace"), options=Options(bucket="hour"))
    assert [note for note in done.notes if note.startswith("vm.m1-m2 is a bridge, and is taken for a client in logs")]
    anew = ingest_sources([str(logs)], str(logs.parent / "anew"), options=Options(bucket="hour"))
    assert flows(anew.trace) == ({"m1/c": 2}, [["m2/r"]], 1)


def test_a_log_that_names_no_client_is_read(logs):
    put(logs / "m.log", f"{START}: mosquitto version 2.0.18 starting\n")
    assert kept(ingest(logs)) == {"m.log": (1, 0, 0)}


def test_a_file_without_a_row_does_not_hold_up_its_log(logs):
    put(logs / "app.csv-20260105", HEAD)
    ingest(logs)
    (logs / "app.csv-20260105").unlink()
    put(logs / "app.csv-20260106", HEAD, f"{START},c0,t,1,r0\n")
    assert ingest(logs).rows("messages") == 1


def test_hidden_names_do_not_hold_up_a_log_whose_oldest_file_is_gone(logs, monkeypatch):
    monkeypatch.setenv("OVERLACE_KEY", "a key of sixteen bytes or more")
    put(logs / "app.csv.1", HEAD, f"{START},c0,t,1,r0\n")
    ingest(logs, pseudonymise=True)
    (logs / "app.csv.1").unlink()
    put(logs / "app.csv", HEAD, f"{START + 9},c0,t,1,r0\n")
    assert ingest(logs, pseudonymise=True).rows("messages") == 2
    with pytest.raises(BadParameter, match="are hidden: give --pseudonymise"):
        ingest(logs)


@pytest.mark.parametrize("options", [{}, {"unit": "ms"}])
def test_what_was_settled_from_nothing_is_settled_again(logs, options):
    put(logs / "a.csv", HEAD)
    ingest(logs)
    add(logs / "a.csv", f"{START}000,c1,t,5,x\n")
    assert kept(ingest(logs, **options)) == {"a.csv": (2, 1, 0)}


def test_what_the_user_says_wins_over_what_was_settled(logs):
    put(logs / "a.csv", "at,client,topic,bytes,receivers\n", f"{START},c1,t,5,x\n{START + 1},c1,t,5,x;y\n")
    assert kept(ingest(logs)) == {"a.csv": (3, 1, 1)}
    add(logs / "a.csv", f"{START + 2},c1,t,5,x;z\n")
    assert kept(ingest(logs, list_separator=";")) == {"a.csv": (4, 3, 0)}


def test_what_holds_for_all_logs_of_a_trace_is_kept(logs):
    put(logs / "a.jsonl", row(0).replace(b'"c0"', b'"dev-1-x"'))
    ingest(logs, identity=r"dev-\d+", reduce_only=True)
    add(logs / "a.jsonl", row(1).replace(b'"c1"', b'"dev-1-y"'))
    trace = ingest(logs)
    assert trace.names["client"] == ["b", "dev-1"]
    assert (trace.rows("messages"), int(trace.read("traffic")["messages"].to_numpy().sum())) == (0, 2)
    with pytest.raises(BadParameter, match="cannot change"):
        ingest(logs, identity="client")


def test_messages_are_kept_for_all_of_a_trace_or_for_nothing(logs):
    put(logs / "a.jsonl", row(0))
    ingest(logs)
    add(logs / "a.jsonl", row(1))
    with pytest.raises(BadParameter, match="--reduce-only: the trace at .* was made without"):
        ingest(logs, reduce_only=True)


@pytest.mark.parametrize("count", [9, 400])
def test_an_older_copy_and_a_log_that_was_cut_are_refused(logs, count):
    put(logs / "a.jsonl", *(row(i) for i in range(count)))
    ingest(logs)
    shutil.copy(logs / "a.jsonl", logs.parent / "copy.jsonl")
    add(logs / "a.jsonl", row(count))
    ingest(logs)
    with pytest.raises(BadTrace, match="begins like a.jsonl, of which .* Leave it out if it is an older copy"):
        ingest_sources([str(logs.parent / "copy.jsonl")], str(logs.parent / "trace"))
    put(logs / "a.jsonl", *(row(i) for i in range(count // 2)))
    with pytest.raises(BadTrace, match="begins like a.jsonl, of which .* and is shorter"):
        ingest(logs)


@pytest.mark.parametrize("move", [os.rename, os.symlink])
def test_a_key_runs_across_a_rotation_under_another_path_too(logs, move):
    put(logs / "app.jsonl", row(0, key=0), row(1, key=1))
    ingest(logs)
    elsewhere = logs.parent / "elsewhere"
    move(logs, elsewhere)
    os.rename(elsewhere / "app.jsonl", elsewhere / "app.jsonl.1")
    put(elsewhere / "app.jsonl", row(2, key=1, to="y"), row(3, key=2))
    assert ingest(elsewhere).rows("messages") == 3


def test_bad_lines_are_weighed_against_all_lines_of_a_log(logs):
    put(logs / "a.jsonl", *(row(i) for i in range(100)))
    ingest(logs)
    add(logs / "a.jsonl", b"oops\n", row(200))
    assert kept(ingest(logs, max_bad=0.1)) == {"a.jsonl": (102, 101, 1)}


def test_a_file_of_which_nothing_can_be_told_yet_holds_up_no_other(logs):
    put(logs / "m1.log", f"{START + 1}: New client connected from 127.0.0.1:1 as c (p2, c1, k60).\n")
    put(logs / "m2.log", f"{START}: New clie")
    assert set(kept(ingest(logs))) == {"m1.log"}


@pytest.mark.parametrize("stage", ["reading", "reading: ", "joining", "summing", "writing"])
def test_who_loses_the_lock_on_the_way_is_told_so(logs, stage):
    put(logs / "a.jsonl", row(0))
    put(logs / "b.jsonl", row(5))
    out, broken = str(logs.parent / "trace"), []

    def tell(share, what):
        if what.startswith(stage) and not broken:
            broken.append(what)
            ingest_sources([str(logs / "b.jsonl")], out, options=Options(bucket="hour", break_lock=True))

    with pytest.raises(Busy, match="another writer took the lock"):
        ingest_sources([str(logs / "a.jsonl")], out, options=Options(bucket="hour"), progress=tell)
    assert kept(ingest(logs)) == {"a.jsonl": (1, 1, 0), "b.jsonl": (1, 1, 0)}
