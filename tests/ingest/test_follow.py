"""Logs that go on: each message once, whatever is killed when; the digests are those of one ingest."""

import os
import random
import signal
import subprocess
import sys

import pytest

from overlace.errors import BadParameter
from overlace.spark.follow import read_seconds
from overlace.trace.store import Trace
from tests.engine import ingest_sources
from tests.processes import LONGEST, command, marked, until

MOMENTS = [
    ("merge.facts_of", False), ("Writer.commit", False), ("Writer.commit", True),
    *((moment, False) for moment in ("Store.write", "merge.write_messages", "merge.write_traffic", "Writer.store")),
    ("merge.write_audiences", True), ("merge.write_names", True), ("Store.digests", True),
]  # fmt: skip
"""Before or after (True) what a batch is killed: between what is written and the manifest, too."""

KILLED = """
import os, signal, sys
from overlace.cli import main
from overlace.ingest import merge
from overlace.ingest.store import Store
from overlace.trace.writer import Writer

where, name = sys.argv.pop(1).split(".")
after, owner = int(sys.argv.pop(1)), globals()[where]
plain = getattr(owner, name)

def die(*words, **named):
    if after:
        plain(*words, **named)
    os.kill(os.getpid(), signal.SIGKILL)

setattr(owner, name, die)
main()
"""


def lines(count):
    rng = random.Random(1)
    return [
        b'{"at": %d, "id": %d, "client": "c%d", "receivers": ["r%d"]}\n'
        % (1_767_571_200 + i * 60, i // 2, i // 2 % 7, rng.randrange(9))
        for i in range(count)
    ]  # fmt: skip


def end(process, number):
    """End a command and all that it has started."""
    os.killpg(process.pid, number)
    said = process.communicate(timeout=LONGEST)
    until(lambda: not marked(process))
    return said


def followed(log, *words, **more):
    return command("ingest", log, "--out", "t", "--follow", "--every", "100ms", "--engine", "sail", *words, **more)


@pytest.mark.parametrize("moments", [MOMENTS[:3], pytest.param(MOMENTS, marks=pytest.mark.long)])
def test_a_follower_that_is_killed_loses_nothing_and_doubles_nothing(tmp_path, moments):
    (tmp_path / "logs").mkdir()
    log, rows, here = tmp_path / "logs/a.jsonl", lines(1200), tmp_path / "t"
    step = len(rows) // (len(moments) + 1)
    words = ["ingest", "logs", "--out", "t", "--follow", "--engine", "sail"]
    for k, (moment, after) in enumerate(moments, 1):
        with log.open("ab") as more:
            more.write(b"".join(rows[step * (k - 1) : step * k]))
        run = [sys.executable, "-c", KILLED, moment, str(int(after)), *words]
        assert subprocess.run(run, cwd=tmp_path, capture_output=True, check=False).returncode == -signal.SIGKILL
    with log.open("ab") as more:
        more.write(b"".join(rows[step * len(moments) :]))
    process = followed("logs", cwd=tmp_path)
    try:
        until(lambda: Trace.exists(str(here)) and Trace.open(str(here)).rows("messages") == len(rows) // 2)
    finally:
        end(process, signal.SIGINT)
    assert process.returncode == 0
    assert Trace.open(str(here)).digest() == ingest_sources([str(log)], str(tmp_path / "once")).trace.digest()


def test_what_is_not_there_is_waited_for_and_what_is_bad_ends_it(tmp_path):
    said = tmp_path / "said"
    with said.open("w") as err:
        process = followed("logs", "--strict", cwd=tmp_path, stderr=err)
    try:
        until(lambda: "logs does not exist. Name" in said.read_text())
        (tmp_path / "logs").mkdir()
        until(lambda: "note: nothing to ingest: no file was found. Waiting for it." in said.read_text())
        log = tmp_path / "logs/a.jsonl"
        log.write_bytes(b"".join(lines(10)))
        until(lambda: Trace.exists(str(tmp_path / "t")))
        whole = Trace.open(str(tmp_path / "t")).digest()
        log.rename(tmp_path / "elsewhere")
        (tmp_path / "logs").rmdir()
        until(lambda: said.read_text().count("logs does not exist. Name") == 2)
        (tmp_path / "logs").mkdir()
        log.write_bytes(b"".join(lines(10)) + b"{\n")
        process.communicate(timeout=LONGEST)
    finally:
        if process.poll() is None:
            end(process, signal.SIGKILL)
    assert process.returncode == 1
    assert "error: a.jsonl: 1 of 11 lines cannot be read" in said.read_text()
    assert Trace.open(str(tmp_path / "t")).digest() == whole


@pytest.mark.parametrize(("text", "seconds"), [("10s", 10), ("500ms", 0.5), ("2.5 m", 150), ("7", 7), ("1h", 3600)])
def test_times_are_read(text, seconds):
    assert read_seconds(text) == seconds


@pytest.mark.parametrize("text", ["", "s", "0s", "-1s", "10d", "1e3s"])
def test_what_is_no_time_is_refused(text):
    with pytest.raises(BadParameter, match="expected a time such as 10s"):
        read_seconds(text)
