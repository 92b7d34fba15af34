"""Real NATS servers and Mosquittos on loopback, with two colours, users and permissions, and their network file."""

import asyncio
import getpass
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from contextlib import suppress
from pathlib import Path

NATS = shutil.which("nats-server") or shutil.which("nats-server", path=str(Path(sys.executable).parent))
MOSQUITTO = shutil.which("mosquitto") or shutil.which("mosquitto", path="/usr/sbin:/usr/local/sbin")
PATIENCE = 60  # seconds
COLOURS = ("BLUE", "GREEN")


def _ports():
    """Ports below the ephemeral ones and beside those of `live up`, each once, and each in one worker of the tests."""
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % 2
    first = 10_000 + 2000 * worker
    start = random.SystemRandom().randrange(2000)
    for i in range(2000):
        yield first + (start + i) % 2000


_UNUSED = _ports()


def free_port():
    """A port that nobody listens on, and that nobody else is given."""
    for port in _UNUSED:
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise OSError("no free port found")


def wait_until(condition, what):
    deadline = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what}: not within {PATIENCE} s")
        time.sleep(0.01)


async def until(condition, what="it comes true"):
    """The same for a condition that the event loop brings about."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what}: not within {PATIENCE} s")
        await asyncio.sleep(0.005)


def listens(port):
    with suppress(OSError), socket.create_connection(("127.0.0.1", port)):
        return True
    return False


def stop(process):
    """End a process, by its id."""
    process.terminate()
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


class Servers:
    """Brokers by name, and their network file; what both kinds have in common."""

    substrate = ""

    def __init__(self, folder, names, tls=None):
        self.folder, self.names, self.tls = Path(folder), list(names), tls
        self.processes = {}
        self.passwords = {role: f"{role} secret" for role in ("clients", "control", "links")}
        for role, password in self.passwords.items():
            (self.folder / f"{role}.password").write_text(password + "\n")

    @property
    def network(self):
        return self.folder / "network.toml"

    def write_network(self, clients, more=""):
        """The network file; `clients` has the addresses of a broker as TOML."""
        lines = [f'substrate = "{self.substrate}"']
        lines += [more] if more else []
        lines += ["[tls]", *(f'{key} = "{value}"' for key, value in self.tls.items())] if self.tls else []
        lines += ["[credentials]"]
        lines += [f'{role} = {{ user = "{role}", password_file = "{role}.password" }}' for role in self.passwords]
        for name in self.names:
            lines += [f"[brokers.{name}]", f"client = {clients(name)}"]
        self.network.write_text("\n".join(lines) + "\n")

    def start(self, key, words):
        self.processes[key] = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def wait_for_port(self, key, port):
        def ready():
            assert self.processes[key].poll() is None, f"{key} does not start"
            return listens(port)

        wait_until(ready, f"{key} listens")

    def kill(self, key):
        stop(self.processes.pop(key))

    def close(self):
        for key in list(self.processes):
            self.kill(key)

    def __enter__(self):
        try:
            self.start_all()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_):
        self.close()


class NatsServers(Servers):
    """NATS servers with an account for each colour."""

    substrate = "nats"

    def __init__(self, folder, names, links, tls=None, server_tls=None, nkeys=None):
        super().__init__(folder, names, tls)
        self.links = [list(links), []]
        self.open = [True, False]
        self.server_tls, self.nkeys = server_tls, nkeys
        self.ports = {name: {what: free_port() for what in ("client", "links", "monitor")} for name in names}
        self.write_network(lambda name: f'"127.0.0.1:{self.ports[name]["client"]}"')

    def start_all(self):
        for name in self.names:
            self.write(name)
            self.run(name)
        self.wait_for_links(0)

    def run(self, name):
        self.start(name, [NATS, "-c", str(self.folder / f"{name}.conf"), "-l", str(self.folder / f"{name}.log")])
        self.wait_for_port(name, self.ports[name]["client"])

    def write(self, name):
        ports = self.ports[name]
        remotes = [
            f'{{ url: "nats-leaf://links-{COLOURS[colour]}:{self.passwords["links"].replace(" ", "%20")}@127.0.0.1:'
            f'{self.ports[far]["links"]}", account: {COLOURS[colour]} }}'
            for colour in (0, 1)
            for near, far in self.links[colour]
            if near == name
        ]
        tls = (
            f"tls {{ cert_file: {self.server_tls[0]!r}, key_file: {self.server_tls[1]!r} }}" if self.server_tls else ""
        )
        lines = [
            f'server_name: "{name}"',
            f'listen: "127.0.0.1:{ports["client"]}"',
            f'http: "127.0.0.1:{ports["monitor"]}"',
            tls,
            f'leafnodes {{ listen: "127.0.0.1:{ports["links"]}", no_advertise: true, reconnect: "1s"',
            f"  remotes: [{', '.join(remotes)}] }}",
            f"accounts {{ {', '.join(self.account(colour) for colour in (0, 1))} }}",
        ]
        (self.folder / f"{name}.conf").write_text("\n".join(lines) + "\n")

    def account(self, colour):
        name = COLOURS[colour]
        users = [
            f'{{ user: "{role}-{name}", password: "{self.passwords[role]}" }}' for role in ("control", "links")
        ]  # fmt: skip
        limits = 'permissions: { publish: { deny: "_OVERLACE.ctl.>" } }'
        if self.open[colour]:
            users.append(f'{{ user: "clients-{name}", password: "{self.passwords["clients"]}", {limits} }}')
            if self.nkeys:
                users.append(f"{{ nkey: {self.nkeys[colour]}, {limits} }}")
        return f"{name} {{ users: [ {', '.join(users)} ] }}"

    def look(self, name, path):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.ports[name]['monitor']}/{path}", timeout=10) as page:
            return json.load(page)

    def reload(self):
        """Write all files, and have the servers read them."""
        for name in self.processes:
            before = self.look(name, "varz")["config_load_time"]
            self.write(name)
            os.kill(self.processes[name].pid, signal.SIGHUP)
            wait_until(lambda name=name, before=before: self.look(name, "varz")["config_load_time"] != before, "reload")

    def wire(self, colour, links, is_open=True):
        """Wire a colour, and let clients in or not."""
        self.links[colour], self.open[colour] = list(links), is_open
        self.reload()
        self.wait_for_links(colour)

    def unwire(self, colour):
        """Take a colour's links and clients out."""
        self.wire(colour, [], is_open=False)

    def wait_for_links(self, colour):
        def wired():
            found = [leaf for name in self.names for leaf in self.look(name, "leafz").get("leafs") or []]
            return sum(leaf["account"] == COLOURS[colour] for leaf in found) == 2 * len(self.links[colour])

        wait_until(wired, f"the links of {COLOURS[colour]}")


ACL = """
user clients
topic readwrite #
topic read $overlace/ctl/#
topic write $overlace/answers/#
topic write $overlace/left
topic readwrite $overlace/probe/#
user control
topic readwrite #
topic readwrite $overlace/#
user links
topic readwrite #
topic readwrite $overlace/#
"""
CARRIED = ("#", "$overlace/ctl/#", "$overlace/answers/#", "$overlace/left", "$overlace/probe/#")


class Mosquittos(Servers):
    """Mosquittos with a port for each colour: a colour is a set of processes of its own."""

    substrate = "mosquitto"

    def __init__(self, folder, names, links, tls=None, server_tls=None):
        super().__init__(folder, names, tls)
        self.links, self.server_tls = list(links), server_tls
        self.ports = {(name, colour): free_port() for name in names for colour in (0, 1)}
        self.write_network(lambda name: [f"127.0.0.1:{self.ports[name, colour]}" for colour in (0, 1)])
        (self.folder / "acl").write_text(ACL)
        (self.folder / "passwords").write_text("".join(f"{key}:{value}\n" for key, value in self.passwords.items()))
        for file in ("acl", "passwords"):
            (self.folder / file).chmod(0o600)
        subprocess.run([shutil.which("mosquitto_passwd"), "-U", self.folder / "passwords"], check=True)

    def start_all(self):
        self.wire(0, self.links)

    def wire(self, colour, links):
        """Start a set: whoever is dialled first, so that nobody waits to dial again."""
        dials = {name: [far for near, far in links if near == name] for name in self.names}
        ready = set()
        while len(ready) < len(self.names):
            name = next(each for each in self.names if each not in ready and ready.issuperset(dials[each]))
            self.run(name, colour, dials[name])
            ready.add(name)
        for name in self.names:
            text, wanted = (self.folder / f"{name}-{colour}.log").read_text, len(dials[name]) * len(CARRIED)
            wait_until(lambda text=text, wanted=wanted: text().count("Received SUBACK") >= wanted, "bridges")

    def run(self, name, colour, dials):
        folder, port = self.folder, self.ports[name, colour]
        (folder / f"{name}-{colour}.log").unlink(missing_ok=True)
        lines = [f"user {getpass.getuser()}", f"listener {port} 127.0.0.1"]
        if self.server_tls:
            lines += [f"certfile {self.server_tls[0]}", f"keyfile {self.server_tls[1]}"]
        lines += [f"password_file {folder}/passwords", f"acl_file {folder}/acl", "allow_anonymous false"]
        lines += ["log_type all", f"log_dest file {folder}/{name}-{colour}.log", "max_queued_messages 100000"]
        lines += ["set_tcp_nodelay true"]
        for far in dials:
            lines += [f"connection {name}-{far}", f"address 127.0.0.1:{self.ports[far, colour]}"]
            lines += ["bridge_protocol_version mqttv50", "notifications false", "try_private true"]
            lines += ["cleansession true", "restart_timeout 1", "remote_username links"]
            lines += [f"remote_password {self.passwords['links']}", *(f"topic {each} both 2" for each in CARRIED)]
        file = folder / f"{name}-{colour}.conf"
        file.write_text("\n".join(lines) + "\n")
        self.start((name, colour), [MOSQUITTO, "-c", str(file)])
        self.wait_for_port((name, colour), port)

    def unwire(self, colour):
        """Stop a set."""
        for name in self.names:
            self.kill((name, colour))
