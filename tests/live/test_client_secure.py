"""TLS on both substrates, and NKEYS on NATS: passed through to the libraries; nothing is sent where TLS is missing."""

import asyncio

import nkeys
import pytest

from overlace.live.client import Refused, connect, read_network
from tests.live.certificates import OPENSSL, make_certificates
from tests.live.servers import MOSQUITTO, NATS, Mosquittos, NatsServers, until

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(NATS is None, reason="no nats-server on PATH or in this environment"),
    pytest.mark.skipif(MOSQUITTO is None, reason="no mosquitto on PATH"),
    pytest.mark.skipif(OPENSSL is None, reason="no openssl to make certificates with"),
]


async def talk(network):
    """A message and a request between two clients at one broker."""
    async with await connect("left", network, "a") as left, await connect("right", network, "a") as right:
        got = []
        await right.subscribe("t", lambda message: got.append(message.payload))
        await right.subscribe("ask", lambda message: message.respond(b"yes"))
        await left.publish("t", b"hello")
        await until(lambda: got == [b"hello"])
        return (await left.request("ask", timeout=20)).payload


@pytest.mark.parametrize("kind", [NatsServers, Mosquittos])
def test_clients_talk_over_tls_and_trust_only_the_named_authority(kind, tmp_path):
    ca, certificate, key = make_certificates(tmp_path)
    tls = {"ca": str(ca), "hostname": "broker.test"}
    with kind(tmp_path, "a", [], tls=tls, server_tls=(str(certificate), str(key))) as servers:
        network = read_network(servers.network)
        assert asyncio.run(talk(network)) == b"yes"
        for wrong in ({"ca": str(ca)}, {"hostname": "broker.test"}, {"ca": str(ca), "hostname": "other.test"}):
            with pytest.raises(Refused, match="TLS"):
                asyncio.run(talk({**network, "tls": wrong}))
        missing = {**network, "tls": {"ca": str(tmp_path / "none.pem")}}
        with pytest.raises(Exception, match="cannot be used"):
            asyncio.run(talk(missing))


@pytest.mark.parametrize("kind", [NatsServers, Mosquittos])
def test_no_password_is_sent_to_a_broker_without_tls(kind, tmp_path):
    ca, _, _ = make_certificates(tmp_path)
    with kind(tmp_path, "a", []) as servers:
        network = {**read_network(servers.network), "tls": {"ca": str(ca), "hostname": "broker.test"}}
        with pytest.raises(Refused, match="TLS"):
            asyncio.run(talk(network))


def seed():
    """A user's NKEY: (seed, public key)."""
    import os

    made = nkeys.encode_seed(os.urandom(32), nkeys.PREFIX_BYTE_USER)
    return made.decode(), nkeys.from_seed(bytearray(made)).public_key.decode()


def test_clients_connect_by_nkey_in_each_colour(tmp_path):
    blue, green, other = seed(), seed(), seed()
    for name, (text, _) in {"BLUE": blue, "GREEN": green, "OTHER": other}.items():
        (tmp_path / f"{name}.nk").write_text(text + "\n")
    with NatsServers(tmp_path, "a", [], nkeys=(blue[1], green[1])) as servers:
        network = {**read_network(servers.network), "credentials": {"clients": {"nkey": "{colour}.nk"}}}
        assert asyncio.run(talk(network)) == b"yes"
        servers.wire(1, [])
        servers.unwire(0)

        async def live():
            async with await connect("left", network, "a") as left:
                return left.live, left.homes

        assert asyncio.run(live()) == (1, [None, "a"])
        with pytest.raises(Refused, match="credentials"):
            asyncio.run(talk({**network, "credentials": {"clients": {"nkey": "OTHER.nk"}}}))
