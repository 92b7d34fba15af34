"""Real nats-servers on loopback, linked as a tree of leafnodes, ended by their process ids."""

import contextlib
import random
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

PASSWORD = "of-this-test"
LONGEST = 60  # seconds, after which something hangs


class Server(NamedTuple):
    """A server: where clients and monitoring reach it."""

    name: str
    client: int
    leaves: int
    process: subprocess.Popen


def binary():
    """The nats-server of this environment, or of PATH; none if there is none."""
    beside = Path(sys.executable).parent / "nats-server"
    return str(beside) if beside.exists() else shutil.which("nats-server")


def free_port():
    """A port that nobody listens on, below the ephemeral ones."""
    while True:
        port = random.SystemRandom().randrange(15000, 32000)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


def config(name, client, leaves, parent, account=""):
    """A server with the account BLUE (`account` is put into it), dialling the leafnode port of its parent."""
    users = ", ".join(f"{{ user: {each}, password: {PASSWORD} }}" for each in ("clients-BLUE", "control-BLUE"))
    remotes = f'{{ url: "nats-leaf://clients-BLUE:{PASSWORD}@127.0.0.1:{parent}", account: BLUE }}' if parent else ""
    return f"""
server_name: "{name}"
listen: "127.0.0.1:{client}"
leafnodes {{ listen: "127.0.0.1:{leaves}", no_advertise: true, reconnect: "1s", remotes: [ {remotes} ] }}
accounts {{
  BLUE {{
    users: [ {users} ]
    {account}
  }}
  SYS {{ users: [ {{ user: system, password: {PASSWORD} }} ] }}
}}
system_account: SYS
"""


@contextlib.contextmanager
def tree(folder, parents, account=""):
    """Servers by name, linked as `parents` says (name -> the name that it dials, or none), until all links are up."""
    servers: dict[str, Server] = {}
    try:
        for name, parent in parents.items():
            client, leaves = free_port(), free_port()
            dialled = servers[parent].leaves if parent else None
            file = Path(folder) / f"{len(servers)}.conf"
            file.write_text(config(name, client, leaves, dialled, account))
            with (Path(folder) / f"{len(servers)}.log").open("wb") as log:
                process = subprocess.Popen([binary(), "-c", str(file)], stdout=log, stderr=log, cwd=folder)
            servers[name] = Server(name, client, leaves, process)
            _wait(lambda port=client: _listens(port), process)
            _wait(lambda port=leaves: _listens(port), process)
        yield servers
    finally:
        for each in servers.values():
            each.process.terminate()
        for each in servers.values():
            each.process.wait(LONGEST)


def _listens(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _wait(true, process):
    deadline = time.monotonic() + LONGEST
    while not true():
        assert process.poll() is None, f"nats-server ended with {process.returncode}"
        assert time.monotonic() < deadline, "it never listened"
        time.sleep(0.01)


async def connect(server, user="clients-BLUE", **more):
    """A nats-py connection at a server."""
    import nats

    return await nats.connect(
        f"nats://127.0.0.1:{server.client}", user=user, password=PASSWORD, max_reconnect_attempts=1, **more
    )


async def until(true):
    """Wait for a condition."""
    import asyncio

    deadline = time.monotonic() + LONGEST
    while not true():
        assert time.monotonic() < deadline, "it never came true"
        await asyncio.sleep(0.01)


async def carried(publisher, subject, receivers):
    """Publish until every one of some counters has moved: interest has reached the publisher's server."""
    import asyncio

    before = [len(each) for each in receivers]
    deadline = time.monotonic() + LONGEST
    while any(len(each) == n for each, n in zip(receivers, before, strict=True)):
        assert time.monotonic() < deadline, "it never arrived"
        await publisher.publish(subject, b"")
        await publisher.flush()
        await asyncio.sleep(0.02)
