"""Servers that somebody else has set up, without accounts: they are looked at and recorded like any other."""

import asyncio
import subprocess
from contextlib import AsyncExitStack

import nats
import pytest

from overlace.errors import BadNetwork
from overlace.live.adapter import adapter_for
from overlace.live.deployment import read_deployment
from tests.live.servers import NATS, free_port, listens, stop, wait_until

pytestmark = [pytest.mark.live, pytest.mark.skipif(NATS is None, reason="no nats-server on this machine")]


@pytest.fixture
def ports(tmp_path):
    """Two servers, the second one a leaf of the first; their ports by server and purpose."""
    ports = {name: {what: free_port() for what in ("client", "monitor", "links")} for name in "ab"}
    link = {
        "a": f'listen: "127.0.0.1:{ports["a"]["links"]}"',
        "b": f'remotes: [ {{ url: "nats-leaf://127.0.0.1:{ports["a"]["links"]}" }} ]',
    }
    started = []
    try:
        for name, port in ports.items():
            file = tmp_path / f"{name}.conf"
            file.write_text(
                f'server_name: {name}\nlisten: "127.0.0.1:{port["client"]}"\nhttp: "127.0.0.1:{port["monitor"]}"\n'
                f"leafnodes {{ {link[name]} }}\n"
            )
            started.append(subprocess.Popen([NATS, "-c", file], stderr=subprocess.DEVNULL))
            wait_until(lambda port=port: listens(port["client"]) and listens(port["monitor"]), f"{name} listens")
        yield ports
    finally:
        for each in started:
            stop(each)


def look(ports, file, colours):
    lines = ['substrate = "nats"', colours]
    for name, port in ports.items():
        lines += [f"[brokers.{name}]", f'client = "127.0.0.1:{port["client"]}"']
        lines += [f'monitor = "http://127.0.0.1:{port["monitor"]}"']
    file.write_text("\n".join(lines) + "\n")

    async def take(message):
        pass

    async def run():
        async with AsyncExitStack() as stack:
            for name, home in (("one", "a"), ("two", "b")):
                client = await nats.connect(f"nats://127.0.0.1:{ports[home]['client']}", name=name)
                stack.push_async_callback(client.close)
                await client.subscribe(f"to.{name}", cb=take)
                await client.flush()
            adapter = adapter_for(read_deployment(file))
            stack.push_async_callback(adapter.close)
            while True:
                found = await adapter.shown()
                if found.links[0]:
                    return found
                await asyncio.sleep(0.02)

    return asyncio.run(asyncio.wait_for(run(), 60))


def test_clients_of_the_only_account_are_found_at_their_homes(ports, tmp_path):
    found = look(ports, tmp_path / "network.toml", 'colours = ["$G"]')
    assert {name: (seen.homes[0], seen.filters) for name, seen in found.clients.items()} == {
        "one": ("a", (("to.one", None),)),
        "two": ("b", (("to.two", None),)),
    }
    assert list(found.links[0]) == [("a", "b")]


def test_a_network_file_that_names_other_colours_is_told_which(ports, tmp_path):
    with pytest.raises(BadNetwork, match=r'colours = \["\$G"\]'):
        look(ports, tmp_path / "network.toml", "")
