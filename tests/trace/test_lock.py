"""One writer at a time, whatever happens to the one before."""

import errno
import json
import os
import signal
import subprocess
import sys

import pytest

from overlace.errors import BadTrace, Busy
from overlace.trace import lock
from overlace.trace.lock import LOCK, locked, take

HOLD = """
import sys
from overlace.trace.lock import locked
with locked(sys.argv[1]):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture(params=[True, False], ids=["system", "file"])
def folder(request, tmp_path, monkeypatch):
    """A folder on a file system that knows locks, and on one that does not."""
    if not request.param:

        def unknown(*_):
            raise OSError(errno.ENOTSUP, "no locks here")

        monkeypatch.setattr(lock.fcntl, "flock", unknown)
    return tmp_path


def held_elsewhere(folder):
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "held\n"
    return process


def test_a_lock_is_held_once_and_names_its_owner(folder):
    with locked(str(folder)) as mine:
        told = json.loads((folder / LOCK).read_text())
        assert told["process"] == os.getpid()
        assert {"host", "since", "command"} < set(told)
        with pytest.raises(
            Busy, match=rf"being written by process {os.getpid()} on .* since 20.*--break-lock"
        ) as caught:
            take(str(folder))
        assert "\n" not in str(caught.value)
        assert mine.holds()
    assert not (folder / LOCK).exists()
    take(str(folder)).release()


def test_a_broken_lock_is_the_breakers_and_stays_so(folder):
    first = take(str(folder))
    second = take(str(folder), break_lock=True)
    assert not first.holds()
    assert second.holds()
    first.release()
    assert second.holds()
    with pytest.raises(Busy):
        take(str(folder))
    second.release()
    assert not (folder / LOCK).exists()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_the_lock_of_a_dead_process_is_free(folder, number):
    process = held_elsewhere(folder)
    with pytest.raises(Busy, match=f"process {process.pid} "):
        take(str(folder))
    process.send_signal(number)
    process.communicate()
    with locked(str(folder)) as mine:
        assert mine.holds()


def test_without_locks_of_the_system_only_an_owner_known_to_be_dead_gives_way(tmp_path, monkeypatch):
    monkeypatch.setattr(lock, "_ask", lambda held: None)
    (tmp_path / LOCK).write_text(json.dumps({"host": "elsewhere", "process": 1, "since": "2026-01-05", "command": "x"}))
    with pytest.raises(Busy, match="process 1 on elsewhere since 2026-01-05 .x."):
        take(str(tmp_path))
    (tmp_path / LOCK).write_text("{}")
    with pytest.raises(Busy, match="another process"):
        take(str(tmp_path))
    take(str(tmp_path), break_lock=True).release()


def test_a_lock_that_is_a_link_is_not_followed(tmp_path):
    (tmp_path / "precious").write_text("kept")
    (tmp_path / "trace").mkdir()
    (tmp_path / "trace" / LOCK).symlink_to(tmp_path / "precious")
    with pytest.raises(BadTrace, match="symbolic links"):
        take(str(tmp_path / "trace"))
    assert (tmp_path / "precious").read_text() == "kept"


@pytest.mark.parametrize("planted", ["link", "folder"])
def test_what_cannot_be_a_lock_is_named(tmp_path, planted):
    if planted == "link":
        (tmp_path / ".lock").symlink_to(tmp_path / "elsewhere")
    else:
        (tmp_path / ".lock").mkdir()
    with pytest.raises(BadTrace, match="lock cannot be the trace's lock .*: remove it"), locked(str(tmp_path)):
        pass
    assert not (tmp_path / "elsewhere").exists()
