"""Broker configurations: what they include, where brokers listen, and which broker dials which."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, TypeVar

from overlace.errors import BadTrace
from overlace.ingest.files import read_unpacked
from overlace.ingest.topologies.topology import Link, Topology, merge_links, text_of

T = TypeVar("T")

DEEPEST = 8
"""How many files deep includes may go."""


@dataclass
class Includes:
    """What was included so far, and by which files the one that is being read was included."""

    files: set[Path] = field(default_factory=set)
    outer: tuple[Path, ...] = ()

    def find(self, name: str, file: Path) -> tuple[Path | None, str]:
        """(path, why not) of what a file includes: in its folder or below; refused if that leads back to the file."""
        folder = file.parent.resolve()
        try:
            path = (folder / name).resolve()
            if not path.is_relative_to(folder):
                return None, "it lies outside of the folder"
            if not path.exists():
                return None, "no such file"
        except (OSError, ValueError, RuntimeError):  # too long, a NUL, links in a ring
            return None, "no such file"
        if path in (*self.outer, file.resolve()):
            raise BadTrace(f"{file}: include {name} leads back to a file that includes it. Take one of them out.")
        if len(self.outer) >= DEEPEST:
            raise BadTrace(f"{file}: include {name}: expected files at most {DEEPEST} deep.")
        return path, ""

    def open(self, name: str, file: Path, notes: list[str], what: str) -> tuple[Path, str, Includes] | None:
        """(path, text, includes of its own) of what a file includes; noted where it is not followed."""
        path, why_not = self.find(name, file)
        if path is None:
            notes.append(f"{what} was not followed ({why_not}): what it holds is missing")
            return None
        self.files.add(path)
        text = text_of(read_unpacked(path, "a file that is included"))
        return path, text, Includes(self.files, (*self.outer, file.resolve()))


class Remote(NamedTuple):
    """An address that a broker dials."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class Listener(NamedTuple):
    """A port that a broker opens, on one host or on all of its own (None)."""

    port: int
    host: str | None


def host_of(text: str) -> str:
    """A host without brackets, in lower case."""
    return text.strip("[]").lower()


def listener(port: int, host: str) -> Listener:
    """A port on a host, or on all where none is meant."""
    return Listener(port, None if host_of(host) in ("", "*", "0.0.0.0", "::") else host_of(host))


def port_of(text: str, where: str) -> int:
    """A port, or an error that says where it is not one."""
    if not (text.isdecimal() and int(text) < 65536):
        raise BadTrace(f"{where}: the port is {text!r}. Expected a number from 0 to 65535.")
    return int(text)


def _loopback(host: str) -> bool:
    return host == "localhost" or host.startswith("127.") or host == "::1"


class Directory:
    """Which broker is meant by an address.

    A host that is a broker's name, or that its listener is bound to, decides it, and so does the port alone on
    the loopback. Elsewhere the port decides where only one broker has it, only one host is dialled there, and
    that broker is called by name nowhere. Any other address is a broker of its own.
    """

    def __init__(
        self, listeners: Mapping[str, Sequence[Listener]], files: Mapping[str, str], dialled: Iterable[Remote]
    ) -> None:
        self.listeners = listeners  # of each broker
        self.files = files  # the name of each broker's file, by which it may be called too
        self.notes: list[str] = []
        named = {remote: self._named(remote) for remote in dialled}
        self.called = {name for names in named.values() for name in names}
        self.unnamed = Counter(each.port for each, names in named.items() if not names and not _loopback(each.host))

    def find(self, remote: Remote, dialler: str) -> str | None:
        """The broker at an address; None if no file is its."""
        named = self._named(remote)
        if len(named) == 1:
            return named[0]
        local = _loopback(remote.host)
        free = [
            name
            for name in self.listeners
            if any(host is None or (local and _loopback(host)) for host in self._hosts(name, remote))
        ]
        others = [name for name in free if name != dialler]
        if local and len(free) > 1:  # brokers of one machine share no port: the dialler means another
            free = others
        if local and len(free) == 1:
            return free[0]
        if len(free) == 1 and free[0] not in {*self.called, dialler} and self.unnamed[remote.port] == 1:
            self.notes.append(f"{dialler}: {remote} taken for {free[0]}, the only broker with that port")
            return free[0]
        if others:
            self.notes.append(
                f"{dialler}: {remote} could be {' or '.join(others[:5])}, but nothing tells: not taken for it. "
                "Name the files after their hosts."
            )
        return None

    def _hosts(self, broker: str, remote: Remote) -> list[str | None]:
        """The hosts to which a broker's listeners on that port are bound."""
        return [each.host for each in self.listeners[broker] if each.port == remote.port]

    def _named(self, remote: Remote) -> list[str]:
        """The brokers that the host of an address names."""
        host = remote.host
        short = host if host[-1:].isdigit() else host.partition(".")[0]  # 10 is no name for 10.0.0.1
        found = []
        for name in self.listeners:
            bound = self._hosts(name, remote)
            called = not {name.lower(), self.files[name].lower()}.isdisjoint((host, short))
            if bound and (called or (host in bound and not _loopback(host))):
                found.append(name)
        return found


def dialled_topology(
    kind: str,
    listeners: Mapping[str, Sequence[Listener]],
    files: Mapping[str, str],
    dialled: Sequence[tuple[str, Sequence[Remote]]],
    notes: Sequence[str],
    *,
    first: bool,
) -> tuple[Topology, list[str]]:
    """(topology, far ends): a wired link a connection, and links that could be wired to its known spare addresses.

    `dialled` is a broker and the addresses of one connection. The address in use is the first, or with first=False
    the first that belongs to a known broker.
    """
    directory = Directory(listeners, files, [remote for _, remotes in dialled for remote in remotes])
    links: list[Link] = []
    far_ends = []
    for broker, remotes in dialled:
        known = [directory.find(remote, broker) for remote in remotes]
        used = 0 if first else next((i for i, name in enumerate(known) if name), 0)
        far = known[used] or str(remotes[used])
        far_ends.append(far)
        links.append(Link(broker, far, wired=True, dials=broker))
        links += [Link(broker, name) for name in known if name and name not in (far, broker)]
    table, dropped = merge_links(links)
    ends = {(link.left, link.right) for link in links if link.wired}
    both = [f"{a} and {b} dial each other: one link" for a, b in sorted(ends) if a < b and (b, a) in ends]
    all_notes = list(dict.fromkeys([*notes, *directory.notes, *both, *dropped]))
    return Topology(kind, list(dict.fromkeys([*listeners, *far_ends])), table, notes=all_notes), far_ends


def read_parts(
    texts: Mapping[Path, bytes], read: Callable[[Path, str, list[str], Includes], T]
) -> tuple[dict[Path, T], list[str]]:
    """(what was read of each file, notes), but for files that another one includes: they are a part of that one."""
    includes = Includes()
    noted: dict[Path, list[str]] = {file: [] for file in texts}
    parts = {file: read(file, text_of(text), noted[file], includes) for file, text in texts.items()}
    own = {file: part for file, part in parts.items() if file.resolve() not in includes.files}
    return own, [note for file in own for note in noted[file]]


def stems(files: Iterable[Path]) -> dict[Path, str]:
    """A name for each file: its stem, or its folder where files share a stem, or else its path."""
    paths = list(files)
    times = Counter(path.stem for path in paths)
    names = [path.stem if times[path.stem] == 1 else path.absolute().parent.name for path in paths]
    times = Counter(names)
    return {path: name if times[name] == 1 else str(path) for path, name in zip(paths, names, strict=True)}
