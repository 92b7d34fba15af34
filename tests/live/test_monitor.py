"""Monitoring: whatever listens where a broker should be, the broker is silent, and nothing else happens."""

import asyncio
import socket
import threading
from pathlib import Path

import pytest

from overlace.live.deployment import check_deployment
from overlace.live.monitor import look

SAID = {
    "a NATS server": b'INFO {"server_id":"x"} \r\n',
    "an MQTT broker": b"\x20\x02\x00\x00",
    "nothing": b"",
    "a page": b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n<html>",
    "less than it said": b'HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{"a": 1}',
    "a list": b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]",
    "no number": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    "deep": b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n" + b"[" * 100_000,
    "many headers": b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 200 + b"\r\n{}",
    "not found": b"HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\n{}",
}


def ask(said):
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer():
            with server.accept()[0] as taken:
                taken.recv(4096)
                taken.sendall(said)

        thread = threading.Thread(target=answer)
        thread.start()
        address = f"127.0.0.1:{server.getsockname()[1]}"
        entry = {"client": address, "monitor": f"http://{address}"}
        deployment = check_deployment({"substrate": "nats", "brokers": {"a": entry}}, Path("network.toml"))
        try:
            return asyncio.run(look(deployment, "a", "varz"))
        finally:
            thread.join()


@pytest.mark.parametrize("said", SAID.values(), ids=SAID)
def test_whoever_is_no_broker_is_silent(said):
    assert ask(said) is None


def test_brokers_are_asked_themselves_and_no_proxy_for_the_web(monkeypatch):
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    assert ask(b'HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\n{"a": 1}') == {"a": 1}
