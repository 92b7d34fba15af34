"""A stopped command leaves nothing behind: no JVM, no worker, no file."""

import json
import os
import pty
import signal

import pytest

from tests.processes import LONGEST, command, marked, runs, until

pytestmark = pytest.mark.jvm

JVM, WORKER = "SparkSubmit", "pyspark.daemon"


@pytest.fixture
def words(tmp_path, monkeypatch):
    """An ingest that takes a while, with temporary files of its own."""
    rows = ({"at": 1_767_571_200 + i, "client": f"c{i % 99}", "receivers": [f"c{i % 98}"]} for i in range(200_000))
    (tmp_path / "log.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "tmp").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    return "ingest", tmp_path / "log.jsonl", "--out", tmp_path / "trace"


def left_in(folder):
    return [path for path in folder.rglob("*") if path.is_file()]


@pytest.mark.parametrize(("number", "moment"), [(signal.SIGINT, JVM), (signal.SIGTERM, WORKER)])
def test_a_signal_ends_all_in_one_line(words, tmp_path, number, moment):
    process = command(*words)
    until(lambda: runs(process, moment) or process.poll() is not None)
    process.send_signal(number)
    out, said = process.communicate(timeout=LONGEST)
    *before, last = said.splitlines()  # before: how long stages took, where the machine is slow
    assert (process.returncode, out, last) == (128 + number, "", "stopped")
    assert all(line.startswith("ingest: ") for line in before)
    until(lambda: not marked(process))
    assert left_in(tmp_path / "trace") == []
    assert list((tmp_path / "tmp").glob("overlace-*")) == []


def test_a_closed_terminal_ends_all(words):
    ours, theirs = pty.openpty()
    process = command(*words, stdout=theirs, stderr=theirs, pass_fds=(theirs,))
    os.close(theirs)
    until(lambda: runs(process, JVM) or process.poll() is not None)
    os.close(ours)
    process.send_signal(signal.SIGHUP)
    assert process.wait(timeout=LONGEST) == 129
    until(lambda: not marked(process))


def test_a_killed_driver_takes_its_jvm_along(words):
    process = command(*words)
    until(lambda: runs(process, JVM) or process.poll() is not None)
    process.kill()
    process.communicate(timeout=LONGEST)
    until(lambda: not marked(process))
