"""Commands as processes of their own, and what is left of them."""

import os
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path

MARK = "OVERLACE_TEST_MARK"
LONGEST = 120  # seconds, after which something hangs


def command(*words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **more):
    """Start a command in a session of its own; its processes carry a mark."""
    mark = uuid.uuid4().hex
    process = subprocess.Popen(
        [sys.executable, "-c", "from overlace.cli import main; main()", *map(str, words)],
        stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr, text=True, start_new_session=True,
        env={**os.environ, MARK: mark}, preexec_fn=_as_from_a_shell, **more,
    )  # fmt: skip
    process.mark = mark
    return process


def _as_from_a_shell():
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


def until(true):
    """Wait for a condition."""
    deadline = time.monotonic() + LONGEST
    while not true():
        assert time.monotonic() < deadline, "it never came true"
        time.sleep(0.01)


def handles(pid, number):
    """Whether a process has a handler for a signal."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False
    caught = next((line.split()[1] for line in status.splitlines() if line.startswith("SigCgt")), "0")
    return int(caught, 16) >> (number - 1) & 1 == 1


def marked(process):
    """The command lines of all that a command has started and that still runs, itself included."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if f"{MARK}={process.mark}".encode() in (folder / "environ").read_bytes():
                found[int(folder.name)] = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        except OSError:
            continue
    return {pid: line for pid, line in found.items() if line}  # none: it has ended and waits to be noticed


def runs(process, words):
    """Whether something with these words in its command line belongs to a command."""
    return any(words in line for line in marked(process).values())
