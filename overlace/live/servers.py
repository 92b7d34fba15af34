"""Broker programs on this machine: which there are, whether they are new enough, and processes that are ours to end."""

from __future__ import annotations

import ctypes
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from overlace.errors import BadNetwork
from overlace.extras import installing
from overlace.live.deployment import Substrate

OLDEST = {"nats": (2, 14), "mosquitto": (2, 0)}
"""Versions that will do: NATS changes links at run time from 2.14 on."""

PROGRAMS = {"nats": "nats-server", "mosquitto": "mosquitto"}
HAD_FROM = {"nats": f"{installing('live')}, or `make live`", "mosquitto": "your system's package mosquitto"}
HOST = "127.0.0.1"
PORTS = range(14_000, 32_000)
"""Where free ports are looked for: from 32768 on they are the system's own."""

PATIENCE = 20.0
"""Seconds until a server that we started has to answer."""


class Program(NamedTuple):
    """A broker program."""

    path: str
    version: str


def find_program(substrate: Substrate) -> Program | None:
    """The program of a substrate: beside this Python, on PATH, or where systems keep daemons."""
    name = PROGRAMS[substrate]
    beside = str(Path(sys.executable).parent)
    path = shutil.which(name, path=os.pathsep.join([beside, os.environ.get("PATH", ""), "/usr/sbin:/usr/local/sbin"]))
    if path is None:
        return None
    asked = [path, "--version"] if substrate == "nats" else [path, "-h"]
    with suppress(OSError, subprocess.TimeoutExpired):
        told = subprocess.run(asked, capture_output=True, text=True, timeout=10)
        if found := re.search(r"(\d+\.\d+(\.\d+)?)", told.stdout + told.stderr):
            return Program(path, found[1])
    return Program(path, "")


def is_new_enough(substrate: Substrate, version: str) -> bool:
    """Whether a version of a server will do."""
    numbers = re.findall(r"\d+", version)[:2]
    return tuple(map(int, numbers)) >= OLDEST[substrate]


def needed(substrate: Substrate) -> str:
    """The oldest version that will do, in words."""
    return f"{PROGRAMS[substrate]} {'.'.join(map(str, OLDEST[substrate]))} or newer"


def require_program(substrate: Substrate) -> Program:
    """The program of a substrate; refused if there is none or it is too old."""
    found = find_program(substrate)
    if found is None:
        raise BadNetwork(f"{needed(substrate)} is needed, and none is on this machine: {HAD_FROM[substrate]}")
    refuse_old(substrate, found.path, found.version)
    return found


def refuse_old(substrate: Substrate, where: str, version: str) -> None:
    """Refused if a server is older than what we need."""
    if not is_new_enough(substrate, version):
        raise BadNetwork(f"{where} is version {version or 'unknown'}; needed is {needed(substrate)}.")


def free_ports(count: int, first: int | None = None) -> list[int]:
    """Ports that nobody listens on; those from `first` on, if it is given, or refused."""
    if first is not None:
        taken = [port for port in range(first, first + count) if not is_free(port)]
        if taken or first + count > 65536:
            port = taken[0] if taken else first + count - 1
            raise BadNetwork(f"port {port} is in use; {count} from {first} on are needed. Choose another --port.")
        return list(range(first, first + count))
    start = PORTS.start + int.from_bytes(os.urandom(2)) % (len(PORTS) // 2)  # so that two networks seldom meet
    found: list[int] = []
    for port in [*range(start, PORTS.stop), *range(PORTS.start, start)]:
        if is_free(port):
            found.append(port)
        if len(found) == count:
            return found
    raise BadNetwork(f"{count} free ports are needed between {PORTS.start} and {PORTS.stop}; {len(found)} are free")


def is_free(port: int) -> bool:
    """Whether a port can be listened on."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except (OSError, OverflowError):
            return False
    return True


def listens(address: str) -> bool:
    """Whether somebody listens at host:port."""
    host, _, port = address.rpartition(":")
    with suppress(OSError), socket.create_connection((host.strip("[]"), int(port)), 1.0):
        return True
    return False


class Process(NamedTuple):
    """A process of ours: its id, and when it began, so that another with the same id is never taken for it."""

    name: str
    pid: int
    began: str

    @property
    def runs(self) -> bool:
        """Whether it is still there."""
        return bool(self.began) and _began(self.pid) == self.began


def start(name: str, words: Sequence[str], log: Path, *, given: str | None = None, bound: bool = False) -> Process:
    """Start a process that outlives us or, if `bound`, ends with us; what it says goes to the log."""
    with open(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "ab") as out:
        made = subprocess.Popen(
            list(words),
            stdin=subprocess.PIPE if given is not None else subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            start_new_session=True,
            preexec_fn=_end_with_parent if bound and sys.platform == "linux" else None,
        )
    if given is not None and made.stdin is not None:
        made.stdin.write(given.encode())
        made.stdin.close()
    STARTED[made.pid] = made
    return Process(name, made.pid, _began(made.pid))


STARTED: dict[int, subprocess.Popen[bytes]] = {}
"""Children of this process, which it has to wait for when they end."""


def _end_with_parent() -> None:
    """Ask the kernel to end this process when its parent is gone (Linux)."""
    ctypes.CDLL(None).prctl(1, signal.SIGTERM)


def _began(pid: int) -> str:
    """When a process began, as the kernel counts; empty if there is none, or if it has ended and nobody has asked."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return "" if fields[0] == "Z" else fields[19]
    except (OSError, IndexError):
        pass
    if Path("/proc/self/stat").exists():
        return ""
    told = subprocess.run(["ps", "-o", "lstart=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return told.stdout.strip()


def end(processes: Sequence[Process]) -> list[Process]:
    """End processes of ours by their ids; those that were still there."""
    there = [each for each in processes if each.runs]
    for how in (signal.SIGTERM, signal.SIGKILL):
        for each in there:
            if each.runs:
                with suppress(ProcessLookupError):
                    os.kill(each.pid, how)
        deadline = time.monotonic() + (5.0 if how == signal.SIGTERM else PATIENCE)
        while any(each.runs for each in there) and time.monotonic() < deadline:
            time.sleep(0.01)
    for each in there:
        if (child := STARTED.pop(each.pid, None)) is not None:
            child.wait(PATIENCE)
    return there


def read_processes(file: Path) -> list[Process]:
    """The processes that a file names."""
    try:
        return [Process(**each) for each in json.loads(file.read_text())]
    except FileNotFoundError:
        return []
    except (OSError, ValueError, TypeError):
        raise BadNetwork(f"{file}: cannot be read. The servers it named have to be ended by hand.") from None


def describe(processes: Sequence[Process]) -> list[Mapping[str, object]]:
    """Processes as JSON."""
    return [each._asdict() for each in processes]
