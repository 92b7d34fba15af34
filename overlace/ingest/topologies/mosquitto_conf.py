"""mosquitto.conf files: every bridge is a wired link that its file's broker dials."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from overlace.errors import BadTrace
from overlace.ingest.topologies.dialling import (
    Includes,
    Listener,
    Remote,
    dialled_topology,
    host_of,
    listener,
    port_of,
    read_parts,
    stems,
)
from overlace.ingest.topologies.topology import Bridge, Pattern, Topology, text_of

MQTT_PORT = 1883

WRITTEN = re.compile(
    r"# Written by Overlace for broker (.+)\. Changes here are lost when it is written again\.\r?(?:\n|\Z)"
)
"""How a file that Overlace has written begins: mosquitto.conf itself has no name for its broker."""


@dataclass
class BridgeSection:
    """A bridge as it is being read."""

    name: str
    where: str
    remotes: list[Remote] = field(default_factory=list)
    ids: dict[str, str] = field(default_factory=dict)
    topics: list[Pattern] = field(default_factory=list)


def mosquitto(texts: dict[Path, bytes]) -> Topology:
    """A broker a file, a wired link a bridge."""
    parts, notes = read_parts(texts, _read_file)
    names = _names({file: texts[file] for file in parts})
    listeners = {name: parts[file][0] for file, name in names.items()}
    connections = [(name, each) for file, name in names.items() for each in parts[file][1]]
    for _, each in connections:
        if not each.remotes:
            raise BadTrace(f"{each.where}: connection {each.name} has no address. Expected `address host[:port]`.")
    dialled = [(name, each.remotes) for name, each in connections]
    topology, far_ends = dialled_topology(
        "mosquitto", listeners, {name: name for name in listeners}, dialled, notes, first=True
    )
    bridges = []
    for (name, each), far in zip(connections, far_ends, strict=True):
        ids = each.ids.get("remote_clientid", each.ids.get("clientid")), each.ids.get("local_clientid")
        bridges.append(Bridge(name, each.name, far, tuple(map(str, each.remotes)), *ids, tuple(each.topics)))
    return replace(topology, bridges=bridges)


def _names(texts: dict[Path, bytes]) -> dict[Path, str]:
    """A name for each broker: the one that Overlace wrote into its file, else that of the file."""
    by_file = stems(texts)
    written = {file: WRITTEN.match(text_of(text[:4096])) for file, text in texts.items()}
    names = {file: found[1] if (found := written[file]) else name for file, name in by_file.items()}
    times = Counter(names.values())
    return {file: name if times[name] == 1 else by_file[file] for file, name in names.items()}


def _read_file(
    file: Path, text: str, notes: list[str], includes: Includes
) -> tuple[list[Listener], list[BridgeSection]]:
    """(listeners, connections) of one mosquitto.conf: a word, then its values, a line each."""
    listeners: list[Listener] = []
    default: dict[str, str] = {}
    connections: list[BridgeSection] = []
    for where, word, value in _lines(file, text, notes, includes):
        if word == "listener":
            port, host = (*value.split(maxsplit=1), "", "")[:2]
            if port_of(port, where):  # 0 is a Unix socket
                listeners.append(listener(int(port), host))
        elif word in ("port", "bind_address"):
            default[word] = str(port_of(value, where)) if word == "port" else value
        elif word == "connection":
            connections.append(BridgeSection((*value.split(), "")[0], where))  # Mosquitto takes the first word
        elif connections and word in ("address", "addresses"):
            connections[-1].remotes += [_address(each, where) for each in value.split()]
        elif connections and word in ("remote_clientid", "clientid", "local_clientid"):
            connections[-1].ids[word] = value
        elif connections and word == "topic":
            connections[-1].topics.append(_pattern(value, where))
    if default or not listeners:
        listeners.append(listener(int(default.get("port", MQTT_PORT)), default.get("bind_address", "")))
    return listeners, connections


def _lines(file: Path, text: str, notes: list[str], includes: Includes) -> Iterator[tuple[str, str, str]]:
    """(where, word, value) of each line; the *.conf of an include_dir stand in its place, in order of their names."""
    for number, line in enumerate(text.splitlines(), 1):
        where = f"{file}:{number}"
        word, value = (*line.strip().split(maxsplit=1), "", "")[:2]
        if word != "include_dir":
            yield where, word, value
            continue
        folder, why_not = includes.find(value, file) if not includes.outer else (None, "only the main file may")
        if folder is None or not folder.is_dir():
            because = why_not or "no such folder"
            notes.append(f"{where}: include_dir {value} was not followed ({because}): what it holds is missing")
            continue
        for each in sorted(folder.glob("*.conf")):
            if included := includes.open(str(each), file, notes, f"{where}: {each}"):
                path, part, inner = included
                yield from _lines(path, part, notes, inner)


def _address(text: str, where: str) -> Remote:
    """host[:port]; an IPv6 host always has its port, as Mosquitto wants it."""
    host, colon, port = text.rpartition(":")
    return Remote(host_of(host), port_of(port, where)) if colon else Remote(host_of(text), MQTT_PORT)


def _pattern(value: str, where: str) -> Pattern:
    """`pattern [out|in|both] [qos] [local-prefix] [remote-prefix]`, with "" for nothing."""
    words = ["" if word == '""' else word for word in value.split()]
    pattern, direction, qos, local, remote = (words + ["", "out", "0", "", ""][len(words) :])[:5]
    if not words or direction not in ("out", "in", "both") or qos not in ("0", "1", "2"):
        raise BadTrace(f"{where}: topic {value!r}. Expected: topic PATTERN [out|in|both] [0|1|2] [LOCAL] [REMOTE].")
    return Pattern(pattern, direction, int(qos), local, remote)
