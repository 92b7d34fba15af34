"""nats-server configuration: every leafnode remote is a wired link that its file's server dials."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import TypeAlias, TypeVar, cast

from overlace.errors import BadTrace
from overlace.ingest.files import read_unpacked
from overlace.ingest.topologies.dialling import (
    Directory,
    Listener,
    Remote,
    dialled_links,
    dialled_topology,
    host_of,
    listener,
    port_of,
    stems,
)
from overlace.ingest.topologies.includes import Includes
from overlace.ingest.topologies.topology import Topology, text_of

LEAF_PORT = 7422

Value: TypeAlias = "str | list[Value] | Block"
Block: TypeAlias = "dict[str, Value]"
"""A configuration as it is read: keys in lower case, values as text."""

T = TypeVar("T")


class Variable(str):
    """A value that comes from the server's environment, by its name."""


def nats(texts: dict[Path, bytes]) -> Topology:
    """A broker a server, a wired link a leafnode remote; what another file includes is a part of that one."""
    includes = Includes()
    noted: dict[Path, list[str]] = {file: [] for file in texts}
    blocks = {file: NatsReader(file, text_of(text), noted[file], includes).read() for file, text in texts.items()}
    own = [file for file in texts if file.resolve() not in includes.files]
    notes = [note for file in own for note in noted[file]]
    servers: dict[str, Block] = {}
    files: dict[str, str] = {}
    for file, stem in stems(own).items():
        found = blocks[file]
        called = found.get("server_name")
        name = stem if not called or isinstance(called, Variable) else str(called)
        if name in servers:
            raise BadTrace(f"{file}: server_name {name} is also in {files[name]}. Give every server a name of its own.")
        servers[name], files[name] = found, stem
    dialled = [(name, _remotes(name, each)) for name, found in servers.items() for each in _leaf_remotes(found)]
    listeners = {name: _leaf_listeners(name, found) for name, found in servers.items()}
    directory = Directory(listeners, files, [each for _, remotes in dialled for each in remotes])
    links = [link for name, remotes in dialled for link in dialled_links(directory, name, remotes, first=False)[1]]
    groups = {}
    for name, found in servers.items():
        cluster = _block(found, "cluster")
        if cluster.get("name"):
            groups[name] = str(cluster["name"])
        if cluster.get("routes"):
            notes.append(f"{name}: routes of a NATS cluster are a full mesh, not links; take a cluster as one broker")
    return replace(dialled_topology("nats", directory, links, notes), groups=groups)


def _block(server: Block, *names: str) -> Block:
    """The first of the blocks that is there, or an empty one."""
    return next((value for value in map(server.get, names) if isinstance(value, dict)), {})


def _all_of(value: Value | None, kind: type[T]) -> list[T]:
    """One value or a list of them, those of a kind."""
    return [each for each in (value if isinstance(value, list) else [value]) if isinstance(each, kind) and each]


def _leaf_remotes(server: Block) -> list[Block]:
    return _all_of(_block(server, "leafnodes", "leaf").get("remotes"), dict)


def _remotes(name: str, remote: Block) -> list[Remote]:
    """The addresses of one leafnode remote."""
    urls = [*_all_of(remote.get("url"), str), *_all_of(remote.get("urls"), str)]
    if not urls:
        raise BadTrace(f"{name}: a leafnode remote has no url. Expected url: or urls: in each of remotes.")
    return [_url(url, name) for url in urls]


def _leaf_listeners(name: str, server: Block) -> list[Listener]:
    """Where leafnodes are taken: there is no default port. Websocket remotes go to the websocket's."""
    found = []
    for block in (_block(server, "leafnodes", "leaf"), _block(server, "websocket")):
        host, _, port = str(block.get("listen", "")).rpartition(":")
        port = port or str(block.get("port", ""))
        if port.isdecimal() and int(port):  # -1: any port, so that no file can name it
            found.append(listener(port_of(port, name), host or str(block.get("host") or block.get("net") or "")))
    return found


def _url(text: str, name: str) -> Remote:
    """The host and port of a URL, without its user and password."""
    rest = text.rpartition("@")[2].rpartition("//")[2].partition("/")[0]
    found = re.fullmatch(r"(\[[^\]]+\]|[^:\[\]]+)(?::(\d+))?", rest)
    if found is None:  # not shown: what cannot be taken apart may hold a password
        raise BadTrace(f"{name}: the url of a leafnode remote cannot be read. Expected scheme://host:port.")
    return Remote(host_of(found[1]), port_of(found[2], name) if found[2] else LEAF_PORT)


class NatsReader:
    """nats-server's configuration as nested dicts, lists and strings; keys in lower case.

    Comments are # and //; a key is followed by = or : or nothing; values are quoted, bare, { }, [ ] or a
    block ( ); $NAME is the value of that key further up; `include` is followed where includes are given. Errors
    give a line's number, not the line: it may hold a secret.
    """

    BLANK = re.compile(r"(?:[\s,;]|#[^\n]*|//[^\n]*)*")
    KEY = re.compile(r"\"([^\"\n]*)\"|'([^'\n]*)'|([^\s:={}\[\],;]+)")
    SIGN = re.compile(r"\s*[:=]?\s*")
    GAP = re.compile(r"[ \t]+")
    SCALAR = re.compile(
        r"\"((?:[^\"\\]|\\.)*)\"|'([^']*)'|\((.*?)\n\s*\)(?=\s|\Z)|([^\s,;\]}\"'(][^\s,;\]}]*)", re.DOTALL
    )
    END = re.compile(r"[ \t]*(?=[\r\n,;\]}#]|//|\Z)")
    ESCAPES = MappingProxyType({"t": "\t", "n": "\n", "r": "\r"})
    DEEPEST = 50

    def __init__(self, file: Path, text: str, notes: list[str], includes: Includes | None = None) -> None:
        self.file, self.text, self.notes, self.includes = file, text, notes, includes
        self.at = 0

    def read(self) -> Block:
        """The whole file."""
        self._skip(self.BLANK)
        braces = self._next() == "{"  # JSON is a configuration too
        self.at += braces
        found = self._map([], closed=braces)
        self._skip(self.BLANK)
        if self.at < len(self.text):
            raise self._bad("something follows the end of the configuration", "nothing after the last }")
        return found

    def _bad(self, found: str, expected: str) -> BadTrace:
        line = self.text.count("\n", 0, self.at) + 1
        return BadTrace(f"{self.file}:{line}: {found}. Expected {expected}; `nats-server -t -c FILE` checks a file.")

    def _skip(self, pattern: re.Pattern[str]) -> None:
        self.at = cast(re.Match[str], pattern.match(self.text, self.at)).end()

    def _next(self) -> str:
        """The next character; empty at the end of the file."""
        return self.text[self.at : self.at + 1]

    def _map(self, outer: list[Block], closed: bool) -> Block:
        """Keys and values up to the closing brace, or up to the end of the file."""
        values: Block = {}
        scopes = [*outer, values]  # keys as written, for variables
        self._check_depth(scopes)
        while True:
            self._skip(self.BLANK)
            if closed and not self._next():
                raise self._bad("the file ends inside a block", "a closing brace")
            if not self._next() or (closed and self._next() == "}"):
                self.at += closed
                return {key.lower(): value for key, value in values.items()}
            key = self._key()
            if key.lower() == "include" and self._next() in (" ", "\t"):
                self._skip(self.GAP)
                values.update(self._include(str(self._scalar(scopes))))
                continue
            self._skip(self.SIGN)
            values[key] = self._value(scopes)

    def _include(self, name: str) -> Block:
        """What an included file holds."""
        path, why_not = self.includes.find(name, self.file) if self.includes else (None, "")
        if self.includes is None or path is None:
            because = f" ({why_not})" if why_not else ""
            self.notes.append(f"{self.file}: include {name} was not followed{because}: what it holds is missing")
            return {}
        text = text_of(read_unpacked(path, "a file that is included"))
        return NatsReader(path, text, self.notes, self.includes.enter(path, self.file)).read()

    def _check_depth(self, scopes: list[Block]) -> None:
        if len(scopes) > self.DEEPEST:
            raise self._bad("blocks within blocks within blocks", f"at most {self.DEEPEST}")

    def _key(self) -> str:
        found = self.KEY.match(self.text, self.at)
        if found is None:
            raise self._bad(f"{self._next()!r} where a key should be", "key: value")
        self.at = found.end()
        return next(part for part in found.groups() if part is not None)

    def _value(self, scopes: list[Block]) -> Value:
        opening = self._next()
        if opening in ("{", "["):
            self.at += 1
            return self._map(scopes, closed=True) if opening == "{" else self._array(scopes)
        return self._scalar(scopes)

    def _array(self, scopes: list[Block]) -> list[Value]:
        values: list[Value] = []
        scopes = [*scopes, {}]
        self._check_depth(scopes)
        while True:
            self._skip(self.BLANK)
            if not self._next():
                raise self._bad("the file ends inside an array", "a closing bracket")
            if self._next() == "]":
                self.at += 1
                return values
            values.append(self._value(scopes))

    def _scalar(self, scopes: list[Block]) -> Value:
        found = self.SCALAR.match(self.text, self.at)
        if found is None:
            raise self._bad("a key without a value that can be read", "key: value")
        self.at = found.end()
        if self.END.match(self.text, self.at) is None:
            raise self._bad("something follows a value", "a new line or a comma; quote values that hold spaces")
        double, single, block, bare = found.groups()
        if double is not None:
            return re.sub(r"\\(.)", lambda escape: self.ESCAPES.get(escape[1], escape[1]), double)
        if bare is None or not re.match(r"\$(?!2[abxy]\$)", bare):  # $2a$ begins a bcrypt hash
            return next(part for part in (single, block, bare) if part is not None)
        for scope in reversed(scopes):
            if bare[1:] in scope:
                return scope[bare[1:]]
        self.notes.append(f"{self.file}: {bare} comes from the server's environment and is not known here")
        return Variable(bare)
