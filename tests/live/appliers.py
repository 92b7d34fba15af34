"""Appliers that can be killed after any unit, and clients that can be killed: processes of their own.

One process loads Overlace once and forks one after another, so that each costs next to nothing. Verbs are the real
ones; a killer or a holder is put around `Swap.forward` in the child alone.
"""

import asyncio
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent.parent
LONGEST = 120  # seconds, after which something hangs
KILLED = -signal.SIGKILL


class Outcome(NamedTuple):
    """What came of a verb."""

    code: int  # KILLED: by SIGKILL
    out: str
    err: str

    @property
    def text(self) -> str:
        """All of it, in one line."""
        return " ".join((self.out + " " + self.err).split())


class Child(NamedTuple):
    """A process that was forked: its id, and where it writes."""

    pid: int
    folder: Path


class Appliers:
    """What forks appliers and clients; all of them are ended at the end."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.live.appliers"],
            cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True,
        )  # fmt: skip
        self.folder = tempfile.TemporaryDirectory()
        self.children: list[Child] = []
        self._count = 0

    def __enter__(self) -> "Appliers":
        return self

    def __exit__(self, *_: object) -> None:
        assert self.process.stdin
        assert self.process.stdout
        for child in self.children:
            with suppress(ProcessLookupError):
                os.kill(child.pid, signal.SIGKILL)
        self.process.stdin.close()
        self.process.wait(LONGEST)
        self.process.stdout.close()
        self.folder.cleanup()

    def _ask(self, **order: object) -> Child:
        assert self.process.stdin
        assert self.process.stdout
        self._count += 1
        folder = Path(self.folder.name) / str(self._count)
        folder.mkdir()
        self.process.stdin.write(json.dumps({**order, "folder": str(folder)}) + "\n")
        self.process.stdin.flush()
        child = Child(int(self.process.stdout.readline()), folder)
        self.children.append(child)
        return child

    def start(self, *words: object, kill: object = None, hold: tuple = (), patience: float = 0.0) -> Child:
        """Start a verb: killed after (phase, units), held after the first unit of phases until `release`."""
        return self._ask(words=[str(each) for each in words], kill=kill, hold=list(hold), patience=patience)

    def run(self, *words: object, kill: object = None) -> Outcome:
        """Run a verb to its end, or to that of its process."""
        return self.wait(self.start(*words, kill=kill))

    def wait(self, child: Child) -> Outcome:
        """What came of a verb."""
        wait_for(child.folder / "code", "the verb ends")
        self.children.remove(child)
        code = int((child.folder / "code").read_text())
        return Outcome(code, (child.folder / "out").read_text(), (child.folder / "err").read_text())

    def wait_for_phase(self, child: Child, phase: str) -> None:
        """Wait until a verb is held in a phase."""
        wait_for(child.folder / f"in-{phase}", f"the applier is in {phase}", child)

    def release(self, child: Child, phase: str) -> None:
        """Let it go on."""
        (child.folder / f"go-{phase}").touch()

    def client(self, name: str, network: Path, home: str, topic: str) -> Child:
        """A client in a process of its own, that subscribes to a topic; it is there when this returns."""
        child = self._ask(client=name, network=str(network), home=home, topic=topic)
        wait_for(child.folder / "ready", f"{name} is connected", child)
        return child

    def kill(self, child: Child) -> None:
        """Kill a client; it is gone when this returns."""
        os.kill(child.pid, signal.SIGKILL)
        wait_for(child.folder / "code", "it is gone")
        self.children.remove(child)


def wait_for(file: Path, what: str, child: Child | None = None) -> None:
    """Wait until a file is there; refused if the process that should write it has ended."""
    deadline = time.monotonic() + LONGEST
    while not file.exists():
        if child is not None and (child.folder / "code").exists():
            raise AssertionError(f"{what}: its process has ended: {(child.folder / 'err').read_text()}")
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what}: not within {LONGEST} s")
        time.sleep(0.005)


# in the process that forks


def serve() -> None:
    """Fork a child for each line; note how each ended."""
    import overlace.live.apply
    import overlace.live.mosquitto
    import overlace.live.nats  # noqa: F401
    from overlace.cli.commands import run

    load_the_rest()
    children: dict[int, Path] = {}
    while True:
        with suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                note(children.pop(ended[0]), ended[1])
        if not select.select([sys.stdin], [], [], 0.01)[0]:
            continue
        line = sys.stdin.readline()
        if not line:
            break
        order = json.loads(line)
        pid = os.fork()
        if pid == 0:
            work(order, run)
        children[pid] = Path(order["folder"])
        print(pid, flush=True)
    for pid in children:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def load_the_rest() -> None:
    """Load what verbs load late, and compile what reads a plan."""
    import nats.aio.client  # noqa: F401
    import numpy as np
    import paho.mqtt.client  # noqa: F401

    import overlace.cli.live_apply
    import overlace.live.record  # noqa: F401
    from overlace.model.overlay import check_tree

    check_tree(np.array([[0, 1]]), 2, {"broker": ("a", "b")})


def note(folder: Path, status: int) -> None:
    """Write how a child ended."""
    beside = folder / ".code"
    beside.write_text(str(os.waitstatus_to_exitcode(status)))
    beside.replace(folder / "code")


def work(order: dict, run: object) -> None:
    """Be a child."""
    folder = Path(order["folder"])
    code = 70
    try:
        for number, name in ((1, "out"), (2, "err")):
            os.dup2(os.open(folder / name, os.O_WRONLY | os.O_CREAT, 0o600), number)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.environ["COLUMNS"] = "400"
        if "client" in order:
            asyncio.run(be_client(order, folder))
        else:
            put_around(order["kill"], order["hold"], folder)
            if order["patience"]:
                sys.modules["overlace.live.nats"].PATIENCE = order["patience"]
            code = run(order["words"])  # type: ignore[operator]
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def put_around(kill: object, hold: list, folder: Path) -> None:
    """Kill or hold this process after units of a swap."""
    from overlace.live.swap import Swap

    real, done, held = Swap.forward, {}, set()

    async def forward(self):
        async for unit in real(self):
            done[unit.phase] = done.get(unit.phase, 0) + 1
            if kill and [unit.phase, done[unit.phase]] == list(kill):
                os.kill(os.getpid(), signal.SIGKILL)
            if unit.phase in hold and unit.phase not in held:
                held.add(unit.phase)
                (folder / f"in-{unit.phase}").touch()
                while not (folder / f"go-{unit.phase}").exists():
                    await asyncio.sleep(0.005)
            yield unit

    Swap.forward = forward  # type: ignore[method-assign]


async def be_client(order: dict, folder: Path) -> None:
    """Be a client until we are killed."""
    from overlace.live.client import connect

    client = await connect(order["client"], order["network"], order["home"])
    await client.subscribe(order["topic"], lambda message: None)
    await client.flush()
    (folder / "ready").touch()
    while True:
        await asyncio.sleep(60)


if __name__ == "__main__":
    serve()
