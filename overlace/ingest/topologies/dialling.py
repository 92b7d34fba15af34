"""Broker configurations: who listens where, and who dials whom."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from overlace.errors import BadTrace
from overlace.ingest.topologies.topology import Link, Topology, merge_links


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


def _loopback(host: str) -> bool:
    return host == "localhost" or host.startswith("127.") or host == "::1"


def port_of(text: str, where: str) -> int:
    """A port, or an error that says where it is not one."""
    if not (text.isdecimal() and int(text) < 65536):
        raise BadTrace(f"{where}: the port is {text!r}. Expected a number from 0 to 65535.")
    return int(text)


class Directory:
    """Which broker is meant by an address.

    A host that is a broker's name, or that its listener is bound to, tells it, and so does the port alone on
    the loopback. Elsewhere the port tells where only one broker has it, only one host is dialled there, and
    nobody calls that broker by name. Any other address is a broker of its own.
    """

    def __init__(self, listeners: dict[str, list[Listener]], files: dict[str, str], dialled: list[Remote]) -> None:
        self.listeners = listeners  # of each broker
        self.files = files  # the name of each broker's file, by which it may be called too
        self.others: list[str] = []  # brokers known only by address
        self.notes: list[str] = []
        named = {remote: self._named(remote) for remote in dialled}
        self.called = {name for names in named.values() for name in names}
        self.strangers = Counter(each.port for each, names in named.items() if not names and not _loopback(each.host))

    def find(self, remote: Remote, dialler: str) -> str | None:
        """The broker at an address; None if no file is its."""
        named = self._named(remote)
        if len(named) == 1:
            return named[0]
        local = _loopback(remote.host)
        free = [
            name
            for name in self.listeners
            if any(h is None or (local and _loopback(h)) for h in self._at(name, remote))
        ]
        if local and len(free) > 1:  # brokers of one machine share no port: the dialler means another
            free = [name for name in free if name != dialler]
        if local and len(free) == 1:
            return free[0]
        if len(free) == 1 and free[0] not in {*self.called, dialler} and self.strangers[remote.port] == 1:
            self.notes.append(f"{dialler}: {remote} taken for {free[0]}, the only broker with that port")
            return free[0]
        perhaps = [name for name in free if name != dialler]
        if perhaps:
            self.notes.append(
                f"{dialler}: {remote} could be {' or '.join(perhaps[:5])}, but nothing tells: not taken for it. "
                "Name the files after their hosts."
            )
        return None

    def _at(self, broker: str, remote: Remote) -> list[str | None]:
        """The hosts to which a broker's listeners on that port are bound."""
        return [each.host for each in self.listeners[broker] if each.port == remote.port]

    def _named(self, remote: Remote) -> list[str]:
        """The brokers that the host of an address names."""
        host = remote.host
        short = host if host[-1:].isdigit() else host.partition(".")[0]  # 10 is no name for 10.0.0.1
        found = []
        for name in self.listeners:
            bound = self._at(name, remote)
            called = not {name.lower(), self.files[name].lower()}.isdisjoint((host, short))
            if bound and (called or (host in bound and not _loopback(host))):
                found.append(name)
        return found

    def add(self, remote: Remote) -> str:
        """A broker of its own for an address."""
        if str(remote) not in self.others:
            self.others.append(str(remote))
        return str(remote)


def dialled_links(directory: Directory, broker: str, remotes: list[Remote], *, first: bool) -> tuple[str, list[Link]]:
    """(far end, links): a wired link to the address in use, and links that could be to the known spare ones.

    The address in use is the first, or with first=False the first that belongs to a known broker.
    """
    known = [directory.find(remote, broker) for remote in remotes]
    used = 0 if first else next((i for i, name in enumerate(known) if name), 0)
    far = known[used] or directory.add(remotes[used])
    spare = [name for name in known if name and name not in (far, broker)]
    return far, [Link(broker, far, wired=True, dials=broker), *(Link(broker, name) for name in spare)]


def dialled_topology(kind: str, directory: Directory, links: list[Link], notes: list[str]) -> Topology:
    """A topology of links that are there."""
    table, loops, parallel = merge_links(links)
    dialled = {(link.left, link.right) for link in links if link.wired}
    both = sorted((a, b) for a, b in dialled if a < b and (b, a) in dialled)
    notes = [*notes, *directory.notes, *(f"{a} and {b} dial each other: one link" for a, b in both)]
    if loops:
        notes.append(f"{loops} links from a broker to itself dropped")
    brokers = [*directory.listeners, *(name for name in directory.others if name not in directory.listeners)]
    return Topology(kind, brokers, table, loops=loops, parallel=parallel, notes=list(dict.fromkeys(notes)))


def stems(files: Iterable[Path]) -> dict[Path, str]:
    """A name for each file: its stem, or its folder where files share a stem, or else its path."""
    paths = list(files)
    stems = Counter(path.stem for path in paths)
    names = [path.stem if stems[path.stem] == 1 else path.absolute().parent.name for path in paths]
    times = Counter(names)
    return {path: name if times[name] == 1 else str(path) for path, name in zip(paths, names, strict=True)}
