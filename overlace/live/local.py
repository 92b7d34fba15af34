"""A broker network on this machine: started, recorded, ended by its process ids.

Everything lies in one folder of this user alone: network.toml, secrets/ (generated passwords), files/ (configuration)
and run/ (logs, and the ids of processes). Servers listen on loopback only.
"""

from __future__ import annotations

import csv
import getpass
import json
import os
import random
import secrets
import shutil
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from overlace.errors import BadNetwork
from overlace.live import mosquitto_files, nats_files
from overlace.live.deployment import NAME, Deployment, check_deployment, read_deployment
from overlace.live.files import write_files
from overlace.live.options import LocalOptions
from overlace.live.servers import (
    HOST,
    PATIENCE,
    Process,
    Program,
    describe,
    end,
    free_ports,
    listens,
    read_processes,
    require_program,
    start,
)
from overlace.live.wiring import Links, is_tree, links_of, parents_first
from overlace.trace.address import local

ROLES = ("clients", "control", "links", "system", "plain")


def up(folder: Path, options: LocalOptions, *, bound: bool = False, more: str = "") -> Deployment:
    """Start a network in a folder that is made; `bound`: it ends with this process. Nothing is left if it fails."""
    program = require_program(options.substrate)
    names = [f"hub-{i + 1}" for i in range(options.brokers)]
    links = read_tree(Path(options.tree), names) if options.tree else draw_tree(names, options.seed)
    there = folder.exists()
    _claim(folder)
    try:
        for left in reversed(range(TRIES if options.port is None else 1)):
            deployment = _write(folder, options, names)
            beside = f"user {getpass.getuser()}\n{more or QUIET}"
            kept = {"more.conf": beside} | ({"bound": str(os.getpid())} if bound else {})
            write_files(deployment.folder / "run", kept)
            write_files(deployment.files_folder, _texts(deployment, links))
            try:
                _start(deployment, program, links, options.delay, bound)
                break
            except PortTaken:
                if not left:
                    raise
    except BaseException:
        _clear(folder)
        if not there:
            shutil.rmtree(folder, ignore_errors=True)
        raise
    return deployment


OURS = (NAME, "secrets", "files", "run")
"""What a network on this machine has in its folder."""


def _claim(folder: Path) -> None:
    """Make the folder ours, as one of several that try at once; a network there that is down is taken away."""
    held = sorted(each.name for each in folder.iterdir()) if folder.exists() else []
    run = folder / "run"
    if held:
        ours = (run / "processes.json").exists() and set(held) <= set(OURS)
        if any(each.runs for each in read_processes(run / "processes.json")):
            state = f"a network that is up: `overlace live down --network {folder}`"
        elif not ours:
            state = "other things"
        else:
            _clear(folder)
            state = ""
        if state:
            raise BadNetwork(f"{folder} holds {state}. Take that away, or choose another folder with --out.")
    local(folder).mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        run.mkdir(mode=0o700)
    except FileExistsError:
        raise BadNetwork(f"{folder}: another `overlace live up` is at work there. Choose another --out.") from None


def _clear(folder: Path) -> None:
    """Take what is ours out of a folder."""
    for name in OURS:
        if (folder / name).is_dir() and not (folder / name).is_symlink():
            shutil.rmtree(folder / name, ignore_errors=True)
        else:
            (folder / name).unlink(missing_ok=True)


TRIES = 3
"""How often other ports are tried, where somebody took one between our look and our use."""


class PortTaken(BadNetwork):
    """A server that did not start since somebody else listens where it should."""


def _texts(deployment: Deployment, links: Links) -> dict[str, str]:
    """The configuration of all brokers."""
    if deployment.substrate == "mosquitto":
        return mosquitto_files.broker_files(deployment, 0, links, more=more_lines(deployment), proxied=True)
    return nats_files.broker_files(deployment, {0: links}, {0}, own_listens(deployment))


QUIET = "log_type error\nlog_type warning\nlog_type notice\n"


def draw_tree(names: list[str], seed: int) -> Links:
    """A random tree: each broker is linked to one before it."""
    chosen = random.Random(seed)
    return links_of((name, names[chosen.randrange(i + 1)]) for i, name in enumerate(names[1:]))


def read_tree(file: Path, names: Iterable[str]) -> Links:
    """A tree from a table of links."""
    known = list(names)
    try:
        with file.open(newline="", encoding="utf-8-sig") as rows:
            pairs = [tuple(cell.strip() for cell in row) for row in csv.reader(rows) if row]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise BadNetwork(f"{file}: cannot be read: {error}. Expected rows left,right.") from None
    if pairs and pairs[0][:2] == ("left", "right"):
        pairs = pairs[1:]
    for row in pairs:
        if len(row) != 2 or row[0] == row[1] or not set(row) <= set(known):
            raise BadNetwork(f"{file}: row {','.join(row)!r}; expected two of {known[0]} to {known[-1]}")
    links = links_of(pairs)
    if not is_tree(known, links):
        raise BadNetwork(f"{file}: {len(links)} links do not join all {len(known)} brokers. Expected a tree.")
    return links


def _write(folder: Path, options: LocalOptions, names: list[str]) -> Deployment:
    """The folder with its secrets and network file."""
    nats, proxied = options.substrate == "nats", options.delay > 0
    each = (3 if nats else 2) + (0 if not proxied else 1 if nats else 2)
    ports = iter(free_ports(each * len(names), options.port))
    brokers: dict[str, dict[str, Any]] = {}
    own: dict[str, list[int]] = {}
    for name in names:
        mine = [next(ports) for _ in range(each)]
        at = [f"{HOST}:{port}" for port in mine]
        if nats:
            brokers[name] = {"client": at[0], "links": at[-1] if proxied else at[1], "monitor": f"http://{at[2]}"}
        else:
            brokers[name] = {"client": at[:2], **({"links": at[2:4]} if proxied else {})}
        own[name] = mine
    roles = ROLES if nats else ROLES[:3]
    credentials = {role: {"user": role, "password_file": f"secrets/{role}"} for role in roles}
    document = {"substrate": options.substrate, "files": "files", "credentials": credentials, "brokers": brokers}
    for part in (folder, folder / "secrets", folder / "files", folder / "run"):
        part.mkdir(mode=0o700, parents=True, exist_ok=True)
        part.chmod(0o700)
    write_files(folder / "secrets", {role: secrets.token_urlsafe(24) + "\n" for role in roles})
    write_files(folder, {NAME: network_text(document)})
    write_files(folder / "run", {"ports.json": json.dumps(own)})
    return read_deployment(folder)


def network_text(document: dict[str, Any]) -> str:
    """A network file as TOML; JSON's strings and lists are TOML's."""

    def value(each: Any) -> str:
        if isinstance(each, dict):
            return "{ " + ", ".join(f"{json.dumps(k)} = {value(v)}" for k, v in each.items()) + " }"
        return json.dumps(each, ensure_ascii=False)

    lines = ["# A network that `overlace live up` has started; docs/live.md explains every key."]
    tables = {key: each for key, each in document.items() if key in ("credentials", "brokers")}
    lines += [f"{key} = {value(each)}" for key, each in document.items() if key not in tables]
    lines += ["", "[credentials]"]
    lines += [f"{role} = {value(each)}".replace('"user"', "user").replace('"password_file"', "password_file")
              for role, each in document["credentials"].items()]  # fmt: skip
    for name, entry in document["brokers"].items():
        lines += ["", f"[brokers.{json.dumps(name)}]", *(f"{key} = {value(each)}" for key, each in entry.items())]
    text = "\n".join(lines) + "\n"
    import tomllib

    check_deployment(tomllib.loads(text), Path(NAME))
    return text


def own_listens(deployment: Deployment) -> dict[str, nats_files.Listens]:
    """Where the brokers of a network on this machine listen themselves, maybe behind a proxy; nothing of others."""
    file = deployment.folder / "run" / "ports.json"
    if not file.exists():
        return {}
    ports = json.loads(file.read_text())
    return {name: nats_files.Listens(*(f"{HOST}:{port}" for port in (*mine, 0)[:3])) for name, mine in ports.items()}


def _start(deployment: Deployment, program: Program, links: Links, delay: float, bound: bool) -> None:
    """Start proxies and brokers, parents before children, and wait for all; all are ended if one does not come."""
    started: list[Process] = []
    run = deployment.folder / "run"
    try:
        if delay:
            ports = json.loads((run / "ports.json").read_text())
            if deployment.substrate == "nats":
                proxies = [(mine[3], mine[1], delay / 1000) for mine in ports.values()]
            else:
                proxies = [(mine[2 + c], mine[c], delay / 1000) for mine in ports.values() for c in (0, 1)]
            words = [sys.executable, "-m", "overlace.live.delay"]
            started.append(start("delay", words, run / "delay.log", given=json.dumps(proxies), bound=bound))
            _keep(run, started)
            await_all([f"{HOST}:{port}" for port, _, _ in proxies], started, run)
        for name in parents_first(deployment.brokers, links):
            started.append(start_broker(deployment, program, name, 0, bound))
            _keep(run, started)
            await_all([deployment.client_address(name)], started, run)
    except BaseException:
        end(started)
        raise


def start_broker(deployment: Deployment, program: Program, broker: str, colour: int, bound: bool) -> Process:
    """Start one broker from its files."""
    if deployment.substrate == "nats":
        file = nats_files.names_of(broker)["main"]
    else:
        file = mosquitto_files.names_of(broker, colour)["main"]
    name = file.removesuffix(".conf")
    words = [program.path, "-c", str(deployment.files_folder / file)]
    return start(name, words, deployment.folder / "run" / f"{name}.log", bound=bound)


def await_all(addresses: Iterable[str], processes: list[Process], run: Path) -> None:
    """Wait until somebody listens at every address; refused if a process ends or the patience does."""
    deadline = time.monotonic() + PATIENCE
    left = list(addresses)
    while left := [each for each in left if not listens(each)]:
        gone = [each for each in processes if not each.runs]
        if gone or time.monotonic() > deadline:
            who = gone[0].name if gone else processes[-1].name
            said = last_line(run / f"{who}.log")
            kind = PortTaken if "in use" in said.lower() else BadNetwork
            raise kind(f"{who} did not start: {said}")
        time.sleep(0.01)


def last_line(log: Path) -> str:
    """The last line that a server has said."""
    try:
        lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
    except OSError:
        lines = []
    return lines[-1] if lines else "it said nothing"


def start_beside(deployment: Deployment, broker: str, colour: int) -> None:
    """Start a broker of a network on this machine, unless it runs, and remember it among the others."""
    run = deployment.folder / "run"
    run.mkdir(mode=0o700, exist_ok=True)
    known = read_processes(run / "processes.json")
    name = mosquitto_files.names_of(broker, colour)["main"].removesuffix(".conf")
    if any(each.name == name and each.runs for each in known):
        return
    mine = run / "bound"
    bound = mine.exists() and mine.read_text() == str(os.getpid())  # the network ends with this process
    started = start_broker(deployment, require_program(deployment.substrate), broker, colour, bound)
    _keep(run, [*(each for each in known if each.name != name), started])
    await_all([deployment.client_address(broker, colour)], [started], run)


def end_beside(deployment: Deployment, broker: str, colour: int) -> None:
    """End a broker of a network on this machine, if it runs."""
    run = deployment.folder / "run"
    known = read_processes(run / "processes.json")
    name = mosquitto_files.names_of(broker, colour)["main"].removesuffix(".conf")
    end([each for each in known if each.name == name])
    _keep(run, [each for each in known if each.name != name])


def more_lines(deployment: Deployment) -> str:
    """What stands beside in the configuration of every Mosquitto of a network on this machine."""
    file = deployment.folder / "run" / "more.conf"
    return file.read_text() if file.exists() else ""


def _keep(run: Path, processes: list[Process]) -> None:
    write_files(run, {"processes.json": json.dumps(describe(processes))})


def down(deployment: Deployment) -> list[Process]:
    """End the processes of a network that `up` has started; those that were still there."""
    file = deployment.folder / "run" / "processes.json"
    if not file.exists():
        raise BadNetwork(f"{deployment.path} was not started by `overlace live up`: its brokers are not ours to end.")
    ended = end(read_processes(file))
    _keep(file.parent, [])  # still ours: to end once more, or to start anew
    return ended
