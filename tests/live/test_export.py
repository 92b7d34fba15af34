"""Exported files with real brokers: they start as they are, wire what was planned, and carry each message once."""

import asyncio
import json
import os
import re
import shutil
import socket
import subprocess
import time
import urllib.request
from functools import wraps

import pytest

from overlace.live import mosquitto_files, nats_files
from overlace.live.adapter import adapter_for
from overlace.live.client import connect
from overlace.live.deployment import read_deployment
from overlace.live.export import export
from overlace.live.files import write_files
from overlace.live.local import network_text
from overlace.live.options import ExportOptions
from overlace.live.servers import HOST, PATIENCE, end, find_program, free_ports, is_free, listens, start
from overlace.live.wiring import dials, links_of, slug
from tests.live.plans import Situation, make_plan, make_run

pytestmark = pytest.mark.live

SUBSTRATES = [
    pytest.param(each, marks=pytest.mark.skipif(find_program(each) is None, reason=f"no {each} server on this machine"))
    for each in ("nats", "mosquitto")
]
HUBS = ["hub-1", "$HOME", 'hüb"3\\', "a'b#{c}"]  # names that would do harm, were they not quoted
SPACED = ["hub-1", "$HOME", 'hüb "3\\', "a'b #{c}"]  # NATS takes no spaces
TREE = [(0, 1), (1, 2), (2, 3)]
PLAN = [(0, 2), (2, 1), (1, 3)]


class PortTakenError(Exception):
    """Somebody took a port between our look and our use."""


def with_other_ports(test):
    """Run a test again, elsewhere, where a port was taken."""

    @wraps(test)
    def run(tmp_path, **given):
        for left in (2, 1, 0):
            folder = tmp_path / f"try{left}"
            folder.mkdir()
            try:
                return test(folder, **given)
            except PortTakenError:
                if not left:
                    raise
        return None

    return run


def write_network(folder, substrate, names):
    """A network file for brokers on this machine that nobody has started."""
    ports = iter(free_ports(3 * len(names)))
    brokers = {}
    for name in names:
        at = [f"{HOST}:{next(ports)}" for _ in range(3)]
        nats = {"client": at[0], "links": at[1], "monitor": f"http://{at[2]}"}
        brokers[name] = nats if substrate == "nats" else {"client": at[:2]}
    roles = ("clients", "control", "links", "system")[: 4 if substrate == "nats" else 3]
    (folder / "secrets").mkdir(parents=True, mode=0o700)
    write_files(folder / "secrets", {role: f'{role} "pass" \\word $HOME #ä\n' for role in roles})
    credentials = {role: {"user": role, "password_file": f"secrets/{role}"} for role in roles}
    document = {"substrate": substrate, "files": "files", "credentials": credentials, "brokers": brokers}
    write_files(folder, {"network.toml": network_text(document)})
    return read_deployment(folder)


def main_file(deployment, broker, colour):
    names = nats_files.names_of(broker) if deployment.substrate == "nats" else mosquitto_files.names_of(broker, colour)
    return names["main"]


def start_all(deployment, folder, colour, links):
    """Start every broker from the files of a folder, as they are, those that are dialled first."""
    program = find_program(deployment.substrate)
    parents = dials(deployment.brokers, links)
    order = [name for name in deployment.brokers if name not in parents]
    for name in order:
        order += [child for child, parent in parents.items() if parent == name]
    started = []
    try:
        for i, broker in enumerate(order):
            words = [program.path, "-c", str(folder / main_file(deployment, broker, colour))]
            started.append(start(broker, words, folder.parent / f"broker{i}.log", bound=True))
            address = deployment.client_address(broker, colour)
            deadline = time.monotonic() + PATIENCE
            while not listens(address):
                log = (folder.parent / f"broker{i}.log").read_text()
                if not started[-1].runs and "address already in use" in log.lower():
                    raise PortTakenError
                assert started[-1].runs, f"{broker} does not start: {log}"
                assert time.monotonic() < deadline, f"{broker} does not listen: {log}"
                time.sleep(0.01)
    except BaseException:
        end(started)
        raise
    return started


async def wired(adapter, colour, count):
    while len((found := await adapter.shown()).links[colour]) < count:
        await asyncio.sleep(0.02)
    return found


class Receiver:
    """What a subscriber got, by topic."""

    def __init__(self):
        self.got = []

    def take(self, message):
        self.got.append((message.topic, bytes(message.payload).decode()))

    def numbers(self, topic):
        return [int(text) for at, text in self.got if at == topic and text.isdigit()]


@pytest.mark.parametrize("substrate", SUBSTRATES)
@with_other_ports
def test_exported_files_start_as_they_are_wired_as_planned_and_carry_each_message_once(tmp_path, substrate):
    names = HUBS if substrate == "nats" else SPACED
    dot, one = (".", "*") if substrate == "nats" else ("/", "+")
    words = ("fab 7 temp", "fab 7 pressure", "alarm x", "back x")
    temp, pressure, alarm, back = (dot.join(each.split()) for each in words)
    known = [dot.join(("fab", one, "temp")), dot.join(("fab", "7", "#" if dot == "/" else ">")), alarm]
    now = Situation(
        names,
        TREE,
        {"sensor": 0, "screen": 3, "store": 3, "guard": 1},
        {"screen": known[:1], "store": known[1:2], "guard": [alarm], "sensor": [back]},
        dialect="nats" if substrate == "nats" else "mqtt",
    )
    _, run = make_run(tmp_path, now)
    links = links_of((names[a], names[b]) for a, b in PLAN)
    plan = make_plan(run, links)
    deployment = write_network(tmp_path / "net", substrate, names)
    found = export(plan, substrate, tmp_path / "out", ExportOptions(network=str(deployment.path), colour="GREEN"))
    assert len(found.new) == 2
    started = start_all(deployment, tmp_path / "out", 1, links)

    async def story():
        adapter = adapter_for(deployment)
        clients = []

        async def receiver(name, home, *filters):
            mine = Receiver()
            clients.append(await connect(name, network=deployment.path, home=home))
            for each in filters:
                await clients[-1].subscribe(each, mine.take)
            await clients[-1].flush()
            return mine

        try:
            shown = await wired(adapter, 1, 3)
            assert shown.links == (frozenset(), links)
            assert not shown.silent
            screen = await receiver("screen", names[3], known[0])
            store = await receiver("store", names[3], known[1])
            guard = await receiver("guard", names[1], alarm)
            new = await receiver("new", names[3], pressure)  # the trace knows nobody who subscribed to this
            expected = {screen: [temp], store: [temp, pressure], guard: [alarm], new: [pressure]}
            sensor = await connect("sensor", network=deployment.path, home=names[0])
            clients.append(sensor)
            while not all({at for at, _ in each.got} >= set(topics) for each, topics in expected.items()):
                for topic in (temp, pressure, alarm):
                    await sensor.publish(topic, "ready?")
                await asyncio.sleep(0.05)
            for topic in (temp, pressure, alarm):
                for number in range(50):
                    await sensor.publish(topic, str(number))
            await sensor.flush()
            while not all(49 in each.numbers(topic) for each, topics in expected.items() for topic in topics):
                await asyncio.sleep(0.01)
            other = await receiver("other", names[0], back)  # and the other way, after all that
            while not other.got:
                await clients[0].publish(back, "ready?")
                await asyncio.sleep(0.05)
            for each, topics in expected.items():
                for topic in topics:
                    assert each.numbers(topic) == list(range(50))
                assert {at for at, _ in each.got} == set(topics)
        finally:
            for each in clients:
                await each.close()
            await adapter.close()

    try:
        asyncio.run(asyncio.wait_for(story(), 3 * PATIENCE))
        logs = "\n".join(path.read_text(errors="replace") for path in tmp_path.glob("broker*.log"))
        if substrate == "mosquitto":
            bridges = {
                found[1] for found in re.finditer(r"New client connected from \S+ as overlace\.(\S+) .*u'links'", logs)
            }
            assert bridges == {f"{slug(a)}.{slug(b)}" for a, b in dials(deployment.brokers, links).items()}
        assert not any(word in logs for word in ('clients "pass', 'links "pass'))
    finally:
        end(started)


def make_certificate(folder):
    """(certificate, key) of a broker on loopback, which is also who is trusted."""
    words = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=broker"
    names = [
        "-addext",
        f"subjectAltName=IP:{HOST},DNS:localhost",
        "-keyout",
        folder / "key.pem",
        "-out",
        folder / "cert.pem",
    ]
    subprocess.run(["openssl", *words.split(), *names], check=True, capture_output=True)
    return "cert.pem", "key.pem"


@pytest.mark.skipif(shutil.which("openssl") is None, reason="no openssl on this machine")
@pytest.mark.parametrize("substrate", SUBSTRATES)
@with_other_ports
def test_exported_files_carry_tls_and_keys(tmp_path, substrate):
    """TLS for clients and links; on NATS everybody proves itself by an NKEY, whose seed no difference shows."""
    now = Situation(["a", "b"], [(0, 1)], {"c": 0, "d": 1}, {"c": ["x"], "d": ["x"]}, dialect="mqtt")
    _, run = make_run(tmp_path, now)
    deployment = write_network(tmp_path / "net", substrate, ["a", "b"])
    cert, key = make_certificate(tmp_path / "net")
    document = deployment.model_dump(mode="json", exclude_none=True) | {"tls": {"ca": cert}}
    for entry in document["brokers"].values():
        entry |= {"cert": cert, "key": key}
    seeds = []
    if substrate == "nats":
        import nkeys

        for role in ("clients", "control", "links", "system"):
            document["credentials"][role] = {"nkey": f"secrets/{role}-{{colour}}.nk"}
            for colour in ("BLUE", "GREEN"):
                seeds.append(nkeys.encode_seed(os.urandom(32), nkeys.PREFIX_BYTE_USER).decode())
                write_files(tmp_path / "net" / "secrets", {f"{role}-{colour}.nk": seeds[-1] + "\n"})
    write_files(tmp_path / "net", {"network.toml": network_text(document)})
    deployment = read_deployment(tmp_path / "net")
    options = ExportOptions(network=str(deployment.path), colour="BLUE")
    found = export(make_plan(run), substrate, tmp_path / "out", options)
    holding = {
        path.name
        for path in (tmp_path / "out").iterdir()
        if path.is_file() and any(s in path.read_text() for s in seeds)
    }
    assert holding == ({"b.remotes.conf"} if substrate == "nats" else set())
    assert not any(seed in found.difference for seed in seeds)
    started = start_all(deployment, tmp_path / "out", 0, links_of([("a", "b")]))

    async def story():
        adapter = adapter_for(deployment)
        far = await connect("d", network=deployment.path, home="b")
        near = await connect("c", network=deployment.path, home="a")
        try:
            assert (await wired(adapter, 0, 1)).links[0] == {("a", "b")}
            mine = Receiver()
            await far.subscribe("x", mine.take)
            while not mine.got:
                await near.publish("x", "1")
                await asyncio.sleep(0.05)
        finally:
            await far.close()
            await near.close()
            await adapter.close()

    try:
        asyncio.run(asyncio.wait_for(story(), 2 * PATIENCE))
    finally:
        end(started)


@pytest.mark.skipif(find_program("nats") is None, reason="no nats server on this machine")
@with_other_ports
def test_nats_server_reads_back_every_text_that_was_quoted(tmp_path):
    """Users and passwords of many letters, at once: each logs in, and the server shows its name as it was written."""
    odd = [chr(code) for code in range(0x20, 0x7F)] + [
        chr(code) for code in (0xA0, 0xE4, 0x416, 0x4E2D, 0x1F600, 0xFEFF)
    ]
    texts = [
        "$HOME",
        "$2",
        "${HOME}",
        "\\x41",
        "\\n",
        '"',
        '\\"',
        "'",
        "# no",
        "// no",
        "a\\",
        "{x: 1}",
        "[",
        "(",
        "%41",
    ]
    texts += [f"a{letter}b" for letter in odd] + ["".join(odd)] + [f"{letter}{letter}" for letter in odd]
    users = ", ".join(
        f"{{ user: {nats_files.quote('u' + each)}, password: {nats_files.quote('p' + each)} }}" for each in texts
    )
    client, monitor = free_ports(2)
    conf = f'listen: "{HOST}:{client}"\nhttp: "{HOST}:{monitor}"\nserver_name: {nats_files.quote("$HOME")}\n'
    (tmp_path / "a.conf").write_text(conf + f"accounts {{ A {{ users: [ {users} ] }} }}\n")
    process = start("a", [find_program("nats").path, "-c", str(tmp_path / "a.conf")], tmp_path / "a.log", bound=True)
    try:
        deadline = time.monotonic() + PATIENCE
        while not (listens(f"{HOST}:{client}") and listens(f"{HOST}:{monitor}")):
            if not process.runs and "address already in use" in (tmp_path / "a.log").read_text():
                raise PortTakenError
            assert process.runs, (tmp_path / "a.log").read_text()
            assert time.monotonic() < deadline
            time.sleep(0.01)
        with urllib.request.urlopen(f"http://{HOST}:{monitor}/varz") as told:
            assert json.load(told)["server_name"] == "$HOME"
        held = [log_in(client, f"u{each}", f"p{each}") for each in dict.fromkeys(texts)]
        with urllib.request.urlopen(f"http://{HOST}:{monitor}/connz?auth=1&limit=1024") as told:
            shown = {each["authorized_user"] for each in json.load(told)["connections"]}
        for each in held:
            each.close()
        assert shown == {f"u{each}" for each in texts}
    finally:
        end([process])


def log_in(port, user, password):
    """A connection that has logged in."""
    made = socket.create_connection((HOST, port), PATIENCE)
    try:
        options = {"verbose": False, "pedantic": False, "user": user, "pass": password, "lang": "test", "version": "1"}
        made.sendall(b"CONNECT " + json.dumps(options).encode() + b"\r\nPING\r\n")
        data = b""
        while b"PONG" not in data:
            more = made.recv(4096)
            assert more, f"{user!r}: {data[-200:]!r}"
            assert b"-ERR" not in data
            data += more
    except BaseException:
        made.close()
        raise
    return made


@pytest.mark.skipif(find_program("mosquitto") is None, reason="no mosquitto on this machine")
@with_other_ports
def test_mosquitto_takes_every_filter_that_was_written(tmp_path):
    """Odd letters in filters, also spaces: the broker starts, and a file with them opens no further listener."""
    odd = [chr(code) for code in range(0x21, 0x7F) if chr(code) not in "+#/"] + ["ä", "Ж", "中", "😀", "\u00a0", " "]
    filters = [f"x{i}/{letter}{letter}/#" for i, letter in enumerate(odd)] + ['""', "$app/x", "/", "//a", "y y/+/z"]
    now = Situation(["a", "b"], [(0, 1)], {"c": 0, "d": 1}, {"c": filters, "d": filters})
    _, run = make_run(tmp_path, now)
    deployment = write_network(tmp_path / "net", "mosquitto", ["a", "b"])
    options = ExportOptions(network=str(deployment.path), filters="exact", colour="BLUE")
    export(make_plan(run), "mosquitto", tmp_path / "out", options)
    started = start_all(deployment, tmp_path / "out", 0, links_of([("a", "b")]))
    try:
        assert all(is_free(int(deployment.client_address(name, 1).rpartition(":")[2])) for name in ("a", "b"))

        async def story():
            adapter = adapter_for(deployment)
            try:
                return await asyncio.wait_for(wired(adapter, 0, 1), PATIENCE)
            finally:
                await adapter.close()

        assert asyncio.run(story()).links[0] == {("a", "b")}
    finally:
        end(started)
