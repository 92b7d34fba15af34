"""nats-server configuration: every leafnode remote is a wired link that its file's server dials."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TypeAlias, TypeVar

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
from overlace.ingest.topologies.topology import Topology

LEAF_PORT = 7422

Value: TypeAlias = "str | list[Value] | Block"
Block: TypeAlias = "dict[str, Value]"
"""A configuration as it is read: keys in lower case, values as text."""

T = TypeVar("T")


class Variable(str):
    """A value that comes from the server's environment, by its name."""


def nats(texts: dict[Path, bytes]) -> Topology:
    """A broker a server, a wired link a leafnode remote."""
    servers, notes = read_parts(texts, lambda *each: NatsReader(*each).read())
    files: dict[str, str] = {}
    listeners: dict[str, list[Listener]] = {}
    dialled: list[tuple[str, list[Remote]]] = []
    for file, stem in stems(servers).items():
        server = servers[file]
        called = server.get("server_name")
        name = stem if not called or isinstance(called, Variable) else str(called)
        if name in files:
            raise BadTrace(f"{file}: server_name {name} is also in {files[name]}. Give every server a name of its own.")
        files[name] = stem
        leafnodes = _block(server, "leafnodes", "leaf")
        listeners[name] = _listeners(name, [leafnodes, _block(server, "websocket")])
        dialled += [(name, _remotes(name, each)) for each in _all_of(leafnodes.get("remotes"), dict)]
        if _block(server, "cluster").get("routes"):
            notes.append(f"{name}: routes of a NATS cluster are a full mesh, not links; take a cluster as one broker")
    return dialled_topology("nats", listeners, files, dialled, notes, first=False)[0]


def _block(server: Block, *names: str) -> Block:
    return next((value for value in map(server.get, names) if isinstance(value, dict)), {})


def _all_of(value: Value | None, kind: type[T]) -> list[T]:
    """One value or a list of them, those of a kind."""
    return [each for each in (value if isinstance(value, list) else [value]) if isinstance(each, kind) and each]


def _listeners(name: str, blocks: list[Block]) -> list[Listener]:
    """Where leafnodes are taken, also through the websocket: there is no default port."""
    found = []
    for block in blocks:
        host, _, port = str(block.get("listen", "")).rpartition(":")
        port = port or str(block.get("port", ""))
        if port.isdecimal() and int(port):  # -1: any port, so that no file can name it
            found.append(listener(port_of(port, name), host or str(block.get("host") or block.get("net") or "")))
    return found


def _remotes(name: str, remote: Block) -> list[Remote]:
    """The addresses of one leafnode remote, without users and passwords."""
    found = []
    for url in [*_all_of(remote.get("url"), str), *_all_of(remote.get("urls"), str)]:
        rest = url.rpartition("@")[2].rpartition("//")[2].partition("/")[0]
        address = re.fullmatch(r"(\[[^\]]+\]|[^:\[\]]+)(?::(\d+))?", rest)
        if address is None:  # not shown: what cannot be taken apart may hold a password
            raise BadTrace(f"{name}: the url of a leafnode remote cannot be read. Expected scheme://host:port.")
        found.append(Remote(host_of(address[1]), port_of(address[2], name) if address[2] else LEAF_PORT))
    if not found:
        raise BadTrace(f"{name}: a leafnode remote has no url. Expected url: or urls: in each of remotes.")
    return found


BLANK = re.compile(r"(?:[\s,;]|#[^\n]*|//[^\n]*)*")
KEY = re.compile(r"\"([^\"\n]*)\"|'([^'\n]*)'|([^\s:={}\[\],;]+)")
GAP = re.compile(r"[ \t]+")
SIGN = re.compile(r"\s*[:=]?\s*")
SCALAR = re.compile(r"\"((?:[^\"\\]|\\.)*)\"|'([^']*)'|\((.*?)\n\s*\)(?=\s|\Z)|([^\s,;\]}\"'(][^\s,;\]}]*)", re.DOTALL)
END = re.compile(r"[ \t]*(?=[\r\n,;\]}#]|//|\Z)")
ESCAPES = {"t": "\t", "n": "\n", "r": "\r"}
DEEPEST = 50
"""How many blocks and arrays deep a value may stand."""


class NatsReader:
    """nats-server's configuration as nested dicts, lists and strings; keys in lower case.

    Comments are # and //; a key is followed by = or : or nothing; values are quoted, bare, { }, [ ] or a
    block ( ); $NAME is the value of that key further up; `include` is followed. Errors give a line's number, not
    the line: it may hold a secret.
    """

    def __init__(self, file: Path, text: str, notes: list[str], includes: Includes | None = None) -> None:
        self.file, self.text, self.notes, self.includes = file, text, notes, includes or Includes()
        self.at = 0

    def read(self) -> Block:
        """The whole file."""
        self._match(BLANK)
        found = self._map([], "}" if self._take("{") else "")  # JSON is a configuration too
        self._match(BLANK)
        if self.at < len(self.text):
            raise self._bad("something follows the end of the configuration", "nothing after the last }")
        return found

    def _bad(self, found: str, expected: str) -> BadTrace:
        line = self.text.count("\n", 0, self.at) + 1
        return BadTrace(f"{self.file}:{line}: {found}. Expected {expected}; `nats-server -t -c FILE` checks a file.")

    def _match(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        """What stands here, if it is of a pattern, and go on behind it."""
        found = pattern.match(self.text, self.at)
        self.at = found.end() if found else self.at
        return found

    def _take(self, mark: str) -> bool:
        """Whether a mark stands here, and go on behind it."""
        taken = bool(mark) and self.text.startswith(mark, self.at)
        self.at += taken
        return taken

    def _closes(self, mark: str) -> bool:
        """Whether a block or an array ends here; without a mark, the file."""
        self._match(BLANK)
        ended = self.at >= len(self.text)
        if ended and mark:
            what, closing = ("a block", "brace") if mark == "}" else ("an array", "bracket")
            raise self._bad(f"the file ends inside {what}", f"a closing {closing}")
        return ended or self._take(mark)

    def _map(self, outer: list[Block], closing: str) -> Block:
        """Keys and values up to the closing brace, or up to the end of the file."""
        values: Block = {}
        scopes = self._enter(outer, values)
        while not self._closes(closing):
            found = self._match(KEY)
            if found is None:
                raise self._bad(f"{self.text[self.at]!r} where a key should be", "key: value")
            key = next(part for part in found.groups() if part is not None)
            if key.lower() == "include" and self._match(GAP):
                name = str(self._scalar(scopes))
                if included := self.includes.open(name, self.file, self.notes, f"{self.file}: include {name}"):
                    path, text, inner = included
                    values.update(NatsReader(path, text, self.notes, inner).read())
            else:
                self._match(SIGN)
                values[key] = self._value(scopes)
        return {key.lower(): value for key, value in values.items()}

    def _enter(self, outer: list[Block], values: Block) -> list[Block]:
        """The blocks around a value, the innermost last, with keys as written: for variables."""
        if len(outer) >= DEEPEST:
            raise self._bad("blocks within blocks within blocks", f"at most {DEEPEST}")
        return [*outer, values]

    def _value(self, scopes: list[Block]) -> Value:
        if self._take("{"):
            return self._map(scopes, "}")
        if not self._take("["):
            return self._scalar(scopes)
        values: list[Value] = []
        scopes = self._enter(scopes, {})
        while not self._closes("]"):
            values.append(self._value(scopes))
        return values

    def _scalar(self, scopes: list[Block]) -> Value:
        found = self._match(SCALAR)
        if found is None:
            raise self._bad("a key without a value that can be read", "key: value")
        if self._match(END) is None:
            raise self._bad("something follows a value", "a new line or a comma; quote values that hold spaces")
        double, single, block, bare = found.groups()
        if double is not None:
            return re.sub(r"\\(.)", lambda escape: ESCAPES.get(escape[1], escape[1]), double)
        if bare is None or not re.match(r"\$(?!2[abxy]\$)", bare):  # $2a$ begins a bcrypt hash
            return next(part for part in (single, block, bare) if part is not None)
        for scope in reversed(scopes):
            if bare[1:] in scope:
                return scope[bare[1:]]
        self.notes.append(f"{self.file}: {bare} comes from the server's environment and is not known here")
        return Variable(bare)
