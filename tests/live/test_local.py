"""A network on this machine: up, looked at, recorded, down; nothing is left, and what is wrong is said in a line."""

import asyncio
import json
import os
import shlex
import signal
import stat
import subprocess
import sys
import textwrap
import time

import pytest

from overlace.cli.commands import run
from overlace.errors import BadNetwork
from overlace.live import servers
from overlace.live.adapter import adapter_for
from overlace.live.client import connect
from overlace.live.deployment import read_deployment
from overlace.live.local import down, up
from overlace.live.options import LocalOptions
from overlace.live.servers import PATIENCE, free_ports, listens, read_processes
from overlace.live.wiring import links_of

pytestmark = pytest.mark.live

SUBSTRATES = [
    pytest.param(
        each, marks=pytest.mark.skipif(servers.find_program(each) is None, reason=f"no {each} server on this machine")
    )
    for each in ("nats", "mosquitto")
]


needs_nats = pytest.mark.skipif(servers.find_program("nats") is None, reason="no nats server on this machine")


def wait_until(condition, what):
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.01)


@pytest.fixture
def network(tmp_path):
    """Networks that are ended whatever happens."""
    made = []

    def start(substrate="nats", **options):
        made.append(up(tmp_path / f"net{len(made)}", LocalOptions(substrate=substrate, **options), bound=True))
        return made[-1]

    yield start
    for each in made:
        if (each.folder / "run" / "processes.json").exists():
            down(each)


async def wired(adapter, count):
    while len((found := await adapter.shown()).links[0]) < count:
        await asyncio.sleep(0.02)
    return found


@pytest.mark.parametrize("substrate", SUBSTRATES)
def test_a_network_shows_its_links_clients_and_homes(network, tmp_path, substrate):
    tree = tmp_path / "tree.csv"
    tree.write_text("left,right\nhub-1,hub-3\nhub-3,hub-2\n")
    deployment = network(substrate, brokers=3, tree=str(tree))

    async def story():
        adapter = adapter_for(deployment)
        first = await connect("press 4", network=deployment.path, home="hub-2")
        second = await connect("näme \"$X\" 'y'", network=deployment.path, home="hub-1")
        try:
            await first.subscribe("fab" if substrate == "nats" else "fab/#", lambda message: None)
            await first.flush()
            found = await asyncio.wait_for(wired(adapter, 2), PATIENCE)
            again = await adapter.shown()
            latencies = await adapter.latencies(0, found.links[0])
        finally:
            await first.close()
            await second.close()
            await adapter.close()
        return found, again, latencies

    found, again, latencies = asyncio.run(story())
    assert found == again
    assert set(found.brokers) == {"hub-1", "hub-2", "hub-3"}
    assert found.links == (links_of([("hub-1", "hub-3"), ("hub-2", "hub-3")]), frozenset())
    assert {name: seen.homes for name, seen in found.clients.items()} == {
        "press 4": ("hub-2", None),
        "näme \"$X\" 'y'": ("hub-1", None),
    }
    assert all(seen.wrapped for seen in found.clients.values())
    assert ("fab" if substrate == "nats" else "fab/#", None) in found.clients["press 4"].filters
    assert latencies.keys() == found.links[0]
    assert min(latencies.values()) > 0


@pytest.mark.parametrize("substrate", SUBSTRATES)
def test_commands_from_up_to_down(tmp_path, monkeypatch, capsys, substrate):
    monkeypatch.chdir(tmp_path)
    try:
        assert run(["live", "up", "--substrate", substrate, "--brokers", "2", "--json"]) == 0
        told = json.loads(capsys.readouterr().out)
        assert told["links"][0] == [["hub-1", "hub-2"]]
        modes = {path.relative_to(tmp_path): stat.S_IMODE(path.stat().st_mode) for path in tmp_path.rglob("*")}
        assert all(mode == (0o700 if (tmp_path / path).is_dir() else 0o600) for path, mode in modes.items())
        secret = (tmp_path / "net" / "secrets" / "control").read_text().strip()
        holders = {path.name for path in (tmp_path / "net").rglob("*") if path.is_file() and secret in path.read_text()}
        expected = {"control", "hub-1.accounts.conf", "hub-2.accounts.conf"} if substrate == "nats" else {"control"}
        assert holders == expected
        deployment = read_deployment("net")
        assert all(host.startswith("127.0.0.1:") for each in deployment.brokers.values() for host in each.client)

        assert run(["live", "up", "--substrate", substrate]) == 1
        assert "holds a network that is up" in " ".join(capsys.readouterr().err.split())
        assert run(["live", "status"]) == 0
        assert "hub-2" in capsys.readouterr().out
        assert run(["live", "record", "--out", "trace", "--seconds", "1"]) == 1
        assert "no client follows orders" in capsys.readouterr().err
        assert not (tmp_path / "trace").exists()

        first = read_processes(tmp_path / "net" / "run" / "processes.json")[0]
        os.kill(first.pid, signal.SIGKILL)
        wait_until(lambda: not first.runs, "a killed broker is gone")
        assert run(["live", "status"]) == 1
        assert "silent" in capsys.readouterr().out
        assert run(["live", "record", "--out", "trace", "--seconds", "1"]) == 1
        assert "hub-1 at 127.0.0.1" in capsys.readouterr().err
    finally:
        processes = read_processes(tmp_path / "net" / "run" / "processes.json")
        assert run(["live", "down"]) == 0
    assert not any(each.runs for each in processes)
    capsys.readouterr()
    assert run(["live", "down"]) == 0
    assert "ended 0 processes" in capsys.readouterr().out
    try:
        assert run(["live", "up", "--substrate", substrate, "--brokers", "1"]) == 0  # there once more
    finally:
        assert run(["live", "down"]) == 0
    (tmp_path / "net" / "run" / "processes.json").unlink()
    assert run(["live", "down"]) == 1
    assert "not ours to end" in " ".join(capsys.readouterr().err.split())
    assert run(["live", "up", "--substrate", substrate, "--brokers", "1"]) == 1
    assert "holds other things" in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize("substrate", SUBSTRATES)
def test_a_folder_of_any_name_and_commands_as_they_are_typed(tmp_path, monkeypatch, capsys, substrate):
    monkeypatch.chdir(tmp_path)
    folder = "[red] 'ü\"$x #\\"
    try:
        assert run(["live", "up", "--substrate", substrate, "--brokers", "2", "--out", folder]) == 0
        typed = "".join(capsys.readouterr().out.split("end it: ")[1].splitlines())
        assert shlex.split(typed)[-1].replace(" ", "") == folder.replace(" ", "")  # lines may be broken at spaces
        assert run(["live", "status", "--network", folder, "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["links"][0] == [["hub-1", "hub-2"]]
    finally:
        assert run(["live", "down", "--network", folder]) == 0


@pytest.mark.parametrize("substrate", SUBSTRATES)
def test_a_credential_that_is_wrong_is_not_taken_for_silence(network, tmp_path, monkeypatch, capsys, substrate):
    deployment = network(substrate, brokers=2)
    secret = deployment.folder / "secrets" / "control"
    monkeypatch.chdir(tmp_path)

    async def record():
        async with await connect("somebody", network=deployment.path):
            words = ["live", "record", "--network", str(deployment.path), "--seconds", "1", "--out", "trace"]
            return await asyncio.to_thread(run, words)

    for change in (lambda: secret.write_text("wrong"), secret.unlink):
        change()
        assert asyncio.run(record()) == 1
        said = " ".join(capsys.readouterr().err.split())
        assert "does not take control" in said
        assert "credentials" in said
        assert "wrong" not in said
    assert not (tmp_path / "trace").exists()


@needs_nats
def test_links_have_the_latency_that_was_asked_for(network):
    deployment = network(brokers=2, delay=20.0)

    async def story():
        adapter = adapter_for(deployment)
        try:
            found = await asyncio.wait_for(wired(adapter, 1), PATIENCE)
            return await adapter.latencies(0, found.links[0])
        finally:
            await adapter.close()

    (latency,) = asyncio.run(story()).values()
    assert latency >= 19_000


@needs_nats
def test_a_port_in_use_and_an_old_server_are_said(tmp_path, monkeypatch):
    (port,) = free_ports(1)
    with servers.socket.socket() as holder:
        holder.bind(("127.0.0.1", port))
        holder.listen()
        with pytest.raises(BadNetwork, match=f"port {port} is in use"):
            up(tmp_path / "net", LocalOptions(brokers=1, port=port))
    assert not (tmp_path / "net").exists()
    old = tmp_path / "bin" / "nats-server"
    old.parent.mkdir()
    old.write_text("#!/bin/sh\necho nats-server: v2.10.4\n")
    old.chmod(0o755)
    monkeypatch.setattr(servers.sys, "executable", str(old.parent / "python"))
    with pytest.raises(BadNetwork, match=r"version 2.10.4; needed is nats-server 2.14 or newer"):
        up(tmp_path / "net", LocalOptions(brokers=1))
    assert not (tmp_path / "net").exists()


@needs_nats
def test_servers_that_are_bound_end_with_their_parent(tmp_path):
    script = textwrap.dedent(
        """
        import os, signal, sys
        from pathlib import Path
        from overlace.live.local import up
        from overlace.live.options import LocalOptions
        up(Path(sys.argv[1]), LocalOptions(brokers=2, delay=1.0), bound=True)
        os.kill(os.getpid(), signal.SIGKILL)
        """
    )
    subprocess.run([sys.executable, "-c", script, str(tmp_path / "net")], check=False, timeout=60)
    deployment = read_deployment(tmp_path / "net")
    processes = read_processes(tmp_path / "net" / "run" / "processes.json")
    assert len(processes) == 3
    wait_until(lambda: not any(each.runs for each in processes), "servers end with their parent")
    assert not listens(deployment.client_address("hub-1"))


@needs_nats
def test_nothing_is_left_of_a_network_that_did_not_come_up(tmp_path, monkeypatch):
    started = []
    real = servers.start

    def start(name, words, log, **how):
        words = [*words, "--no-such-option"] if name == "hub-2" else words
        started.append(real(name, words, log, **how))
        return started[-1]

    monkeypatch.setattr("overlace.live.local.start", start)
    with pytest.raises(BadNetwork, match="hub-2 did not start"):
        up(tmp_path / "net", LocalOptions(brokers=3), bound=True)
    assert started
    assert not any(each.runs for each in started)
    assert not (tmp_path / "net").exists()
