"""Topology files as rows for the tables brokers and links, by name: ids are given by ingest.

GraphML (Internet Topology Zoo) and Repetita are links that could be wired; every bridge of a mosquitto.conf and
every leafnode remote of a nats-server configuration is a wired link that its file's broker dials.

Keeps: broker names are distinct; a link joins two different brokers, left < right by name, each pair once, the
cheapest of parallel ones; what was dropped or guessed is in `notes`. No credential of a file enters a name, a note or
an error.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path

from overlace.errors import BadTrace, Unknown
from overlace.ingest.files import read_unpacked
from overlace.ingest.topologies.graphs import graphml, repetita
from overlace.ingest.topologies.mosquitto_conf import mosquitto
from overlace.ingest.topologies.nats_conf import nats
from overlace.ingest.topologies.topology import Bridge, Pattern, Topology

__all__ = ["Bridge", "Pattern", "Topology", "read_topology", "seems_configuration", "seems_topology"]

KINDS: dict[str, Callable[[dict[Path, bytes]], Topology]] = {
    "graphml": graphml, "repetita": repetita, "mosquitto": mosquitto, "nats": nats,
}  # fmt: skip
ENDINGS = {".graphml": "graphml", ".graph": "repetita"}


def read_topology(path: Path | Sequence[Path], kind: str | None = None) -> Topology:
    """The brokers and links of a topology file, or of a set or a folder of broker configurations.

    The kind is one of KINDS; without one it is guessed from the file's ending and content.
    """
    if kind is not None and kind not in KINDS:
        raise Unknown("kind of topology", kind, KINDS)
    files = _files([path] if isinstance(path, Path) else list(path))
    texts = {file: read_unpacked(file, "a topology file that can be read") for file in files}
    kind = kind or _guess(texts)
    if kind in ("graphml", "repetita") and len(files) > 1:
        raise BadTrace(f"{files[0]} and {len(files) - 1} more: {kind} is one file for one topology. Give one of them.")
    return KINDS[kind](texts)


def _files(paths: list[Path]) -> list[Path]:
    """The files meant by paths: a folder means its *.conf, or those one level below it."""
    files: list[Path] = []
    for path in paths:
        found = sorted(path.glob("*.conf")) or sorted(path.glob("*/*.conf")) if path.is_dir() else [path]
        if not found:
            raise BadTrace(f"{path}: no *.conf in this folder or one level below. Give the files themselves.")
        files += found
    if not files:
        raise BadTrace("no topology file given. Give a file, several, or a folder of *.conf.")
    return list(dict.fromkeys(files))


HINTS = {
    "graphml": rb"<(\w+:)?graphml\b",
    "repetita": rb"\A\s*NODES\s+\d+",
    "mosquitto": rb"^\s*(listener|connection|allow_anonymous|log_type|log_dest|include_dir|per_listener_settings)\s+\w",
    "nats": rb"^\s*(\{|\"|[\w-]+\s*[:={]|(server_name|listen|leafnodes|jetstream)\b)",
    "mosquitto, perhaps": rb"^\s*(port|bind_address|address(es)?|topic|persistence|password_file|max_\w+)\s+\S",
}
"""What files of a kind hold, the surest first."""

ONLY_TOPOLOGIES = re.compile(
    rb"<(\w+:)?graphml\b|\A\s*NODES\s+\d+\s*\n|"
    rb"^\s*(listener\s+\d+|allow_anonymous\s+(true|false)|connection\s+[\w.-]+|leafnodes\s*[:={]|jetstream\s*[:={])\s*",
    re.MULTILINE,
)
"""What only topologies hold."""


def _ending(path: str) -> str:
    return Path(path.removesuffix(".gz")).suffix.lower()


def seems_topology(path: str, data: bytes) -> bool:
    """Whether a file is surely meant as a topology, by its ending or its first bytes."""
    return _ending(path) in ENDINGS or bool(ONLY_TOPOLOGIES.search(data[:16384]))


def seems_configuration(path: str) -> bool:
    """Whether a file could be a broker's configuration, by its ending."""
    return _ending(path) in (".conf", ".cfg")


def _guess(texts: dict[Path, bytes]) -> str:
    """The kind by the first file's ending, else by what the files hold."""
    first = next(iter(texts))
    if kind := ENDINGS.get(_ending(str(first))):
        return kind
    text = b"\n".join(re.sub(rb"(?m)^\s*(#|//).*$", b"", each) for each in texts.values())
    for kind, pattern in HINTS.items():
        if re.search(pattern, text, re.MULTILINE):
            return kind.partition(",")[0]
    raise BadTrace(f"{first}: not a topology that is known here. Say which it is: {', '.join(KINDS)}.")
