"""Topology files as rows for the tables brokers and links, by name: ids are given by ingest.

- `graphml`: Internet Topology Zoo. Latency is the great-circle distance at 200,000 km/s, cost is latency in
  ms, or 1 where an end has no coordinates.
- `repetita`: NODES and EDGES in text. Cost is the weight, latency the delay; the two directions of a link
  are one link.
- `mosquitto`: mosquitto.conf files. Every bridge is a wired link that its file's broker dials.
- `nats`: nats-server configuration. Every leafnode remote is a wired link that its file's server dials.

Keeps: broker names are distinct; a link joins two different brokers, left < right by name, each pair once,
the cheapest of parallel ones; what was dropped or guessed is said in `notes`. No credential of a file
enters a name, a note or an error. XML entities are refused, so nothing outside the file is read.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from math import asin, cos, inf, isfinite, nan, radians, sin, sqrt
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, cast
from xml.etree import ElementTree
from xml.parsers import expat

import pyarrow as pa

from overlace.errors import BadTrace, Unknown

LINKS = pa.schema(
    [
        pa.field("left", pa.string(), nullable=False),
        pa.field("right", pa.string(), nullable=False),
        pa.field("cost", pa.float64(), nullable=False),
        pa.field("latency_us", pa.int32()),
        pa.field("wired", pa.bool_(), nullable=False),
        pa.field("dials", pa.string()),  # the end that connects
    ]
)
"""The links of a topology: those of the table links, with names for ids."""

EARTH_KM = 6371.0
US_PER_KM = 5.0  # 200,000 km/s, light in fibre
MOST_US = 2**31 - 1
MQTT_PORT, LEAF_PORT = 1883, 7422


class Pattern(NamedTuple):
    """One `topic` line of a bridge: which topics cross it, which way, and how they are renamed."""

    pattern: str
    direction: str = "out"  # out, in or both, seen from the broker that dials
    qos: int = 0
    local_prefix: str = ""
    remote_prefix: str = ""


@dataclass(frozen=True)
class Bridge:
    """A connection of a mosquitto.conf.

    Without a remote_clientid Mosquitto 2.0 calls itself HOSTNAME.CONNECTION at the far end (its manual has it
    the other way round); without a local_clientid it is `local.` and the remote one at home.
    """

    broker: str  # that has it in its file, and dials
    connection: str
    remote: str  # the broker at the far end
    addresses: tuple[str, ...]  # host:port; the first is the one in use
    remote_clientid: str | None = None
    local_clientid: str | None = None
    topics: tuple[Pattern, ...] = ()


@dataclass(frozen=True)
class Topology:
    """Brokers and links by name, as one file or one set of files has them."""

    kind: str
    brokers: list[str]  # in the order of the file
    links: pa.Table  # LINKS, sorted by left and right
    bridges: list[Bridge] = field(default_factory=list)  # of mosquitto.conf
    groups: dict[str, str] = field(default_factory=dict)  # broker -> the NATS cluster it is part of
    loops: int = 0  # links from a broker to itself, dropped
    parallel: int = 0  # further links of a pair, merged
    notes: list[str] = field(default_factory=list)  # what a user should know


class Link(NamedTuple):
    """One row of LINKS, as a file has it: either end first, any number of times."""

    left: str
    right: str
    cost: float = 1.0
    latency_us: int | None = None
    wired: bool = False
    dials: str | None = None


def read_topology(path: Path | Sequence[Path], kind: str | None = None) -> Topology:
    """The brokers and links of a topology file, or of a set or a folder of broker configurations.

    Kinds are graphml, repetita, mosquitto and nats; without one it is told by the file's ending and content.
    """
    if kind is not None and kind not in KINDS:
        raise Unknown("kind of topology", kind, KINDS)
    files = _files([path] if isinstance(path, Path) else list(path))
    texts = {file: _bytes(file) for file in files}
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


def _bytes(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise BadTrace(f"{file}: {error.strerror}. Expected a topology file that can be read.") from None


def _text(text: bytes) -> str:
    return text.decode("utf-8-sig", errors="replace")


ENDINGS = {".graphml": "graphml", ".graph": "repetita"}

TELLING = {
    "mosquitto": rb"^\s*(listener|connection|allow_anonymous|log_type|log_dest|include_dir|per_listener_settings)\s+\w",
    "nats": rb"^\s*(\{|\"|[\w-]+\s*[:={]|(server_name|listen|leafnodes|jetstream)\b)",
    "mosquitto, perhaps": rb"^\s*(port|bind_address|address(es)?|topic|persistence|password_file|max_\w+)\s+\S",
}
"""Lines that tell a broker's configuration, the surest first."""


def _guess(texts: dict[Path, bytes]) -> str:
    """The kind by the first file's ending, else by what the files hold."""
    first = next(iter(texts))
    if first.suffix.lower() in ENDINGS:
        return ENDINGS[first.suffix.lower()]
    text = b"\n".join(re.sub(rb"(?m)^\s*(#|//).*$", b"", each) for each in texts.values())
    if re.search(rb"<(\w+:)?graphml\b", text):
        return "graphml"
    if re.match(rb"\s*NODES\s+\d+", text):
        return "repetita"
    for kind, pattern in TELLING.items():
        if re.search(pattern, text, re.MULTILINE):
            return kind.partition(",")[0]
    raise BadTrace(f"{first}: not a topology that is known here. Say which it is: {', '.join(KINDS)}.")


def _merge(links: Iterable[Link]) -> tuple[pa.Table, int, int]:
    """(table, loops, parallel): each pair of brokers once, wired if any is, else as the cheapest of them."""
    best: dict[tuple[str, str], Link] = {}
    loops = parallel = 0
    for link in links:
        if link.left == link.right:
            loops += 1
            continue
        pair = (min(link.left, link.right), max(link.left, link.right))
        parallel += pair in best
        best[pair] = min(best.get(pair, link), link, key=_rank)
    rows = [best[pair]._replace(left=pair[0], right=pair[1]) for pair in sorted(best)]
    columns = [pa.array([row[i] for row in rows], each.type) for i, each in enumerate(LINKS)]
    return pa.table(columns, schema=LINKS), loops, parallel


def _rank(link: Link) -> tuple[bool, float, float]:
    return not link.wired, link.cost, inf if link.latency_us is None else link.latency_us


def _distinct(names: list[str], ids: list[str]) -> list[str]:
    """The names, with the id behind each one that several have."""
    while len(set(names)) < len(names):
        times = Counter(names)
        names = [f"{name} ({each})" if times[name] > 1 else name for name, each in zip(names, ids, strict=True)]
    return names


def _number(text: str, where: str, what: str, most: float = inf) -> float:
    """A finite number from 0 to most, or an error that says where it is not."""
    try:
        value = float(text)
    except ValueError:
        value = nan
    if not (isfinite(value) and 0 <= value <= most):
        limit = f" to {most:,.0f}" if isfinite(most) else ""
        raise BadTrace(f"{where}: {what} is {text!r}. Expected a number from 0{limit}.")
    return value


def _plain(kind: str, brokers: list[str], links: list[Link]) -> Topology:
    """A topology of links that could be wired."""
    table, loops, parallel = _merge(links)
    notes = [f"{loops} links from a broker to itself dropped"] if loops else []
    unknown = table["latency_us"].null_count
    if unknown:
        notes.append(f"{unknown} of {table.num_rows} links have an end without coordinates: no latency, cost 1")
    return Topology(kind, brokers, table, loops=loops, parallel=parallel, notes=notes)


# GraphML


def _graphml(texts: dict[Path, bytes]) -> Topology:
    file, text = next(iter(texts.items()))
    root = _xml(file, text)
    if root.tag != "graphml":
        raise BadTrace(f"{file}: the outermost element is <{root.tag}>. Expected <graphml>.")
    keys = {key.get("id"): (key.get("attr.name") or "").lower() for key in root.iter("key")}
    nodes: dict[str, dict[str, str]] = {}
    for node in root.iter("node"):
        name = node.get("id")
        if name is None or name in nodes:
            raise BadTrace(f"{file}: a node has the id {name!r}. Expected one id for each node, each its own.")
        nodes[name] = {keys.get(data.get("key"), ""): (data.text or "").strip() for data in node.findall("data")}
    if not nodes:
        raise BadTrace(f"{file}: no <node> in it. Expected a graph with at least one.")
    brokers = _distinct([values.get("label") or name for name, values in nodes.items()], list(nodes))
    name_of = dict(zip(nodes, brokers, strict=True))
    place = {name: _place(file, name, values) for name, values in nodes.items()}
    links = []
    for edge in root.iter("edge"):
        source, target = edge.get("source", ""), edge.get("target", "")
        if source not in nodes or target not in nodes:
            raise BadTrace(f"{file}: an edge joins {source!r} and {target!r}. Expected ids of nodes in the same file.")
        latency = _latency(place[source], place[target])
        links.append(Link(name_of[source], name_of[target], 1.0 if latency is None else latency / 1000, latency))
    return _plain("graphml", brokers, links)


def _xml(file: Path, text: bytes) -> ElementTree.Element:
    """The tree of an XML file, names without their namespace."""

    def refuse(name: str, *_: object) -> None:
        raise BadTrace(f"{file}: declares the entity {name!r}. Expected plain GraphML: take the declaration out.")

    builder = ElementTree.TreeBuilder()
    parser = expat.ParserCreate(namespace_separator=" ")
    parser.buffer_text = True
    parser.EntityDeclHandler = refuse
    parser.StartElementHandler = lambda tag, attributes: builder.start(tag.rpartition(" ")[2], attributes)
    parser.EndElementHandler = lambda tag: builder.end(tag.rpartition(" ")[2])
    parser.CharacterDataHandler = builder.data
    try:
        parser.Parse(text, True)
    except expat.ExpatError as error:
        raise BadTrace(f"{file}: not XML: {error}. Expected GraphML.") from None
    return builder.close()


def _place(file: Path, name: str, values: dict[str, str]) -> tuple[float, float] | None:
    """(latitude, longitude) of a node, where it has both."""
    north, east = values.get("latitude"), values.get("longitude")
    if not (north and east):
        return None
    try:
        found = float(north), float(east)
    except ValueError:
        found = nan, nan
    if not (abs(found[0]) <= 90 and abs(found[1]) <= 360):
        raise BadTrace(f"{file}: node {name} is at latitude {north!r}, longitude {east!r}. Expected degrees.")
    return found


def _latency(here: tuple[float, float] | None, there: tuple[float, float] | None) -> int | None:
    """Microseconds along the great circle (haversine)."""
    if here is None or there is None:
        return None
    (south, west), (north, east) = ([radians(angle) for angle in place] for place in (here, there))
    half = sin((north - south) / 2) ** 2 + cos(south) * cos(north) * sin((east - west) / 2) ** 2
    return round(2 * EARTH_KM * asin(min(1.0, sqrt(half))) * US_PER_KM)


# Repetita

Lines = list[tuple[int, str]]


def _repetita(texts: dict[Path, bytes]) -> Topology:
    file, text = next(iter(texts.items()))
    lines = [(i, line.strip()) for i, line in enumerate(_text(text).splitlines(), 1) if line.strip()]
    nodes, rest = _section(file, lines, "NODES", 3)
    edges, rest = _section(file, rest, "EDGES", 6)
    if rest:
        raise BadTrace(f"{file}:{rest[0][0]}: {rest[0][1]!r} after the last edge. Expected the end of the file.")
    brokers = _distinct([node[0] for _, node in nodes], [str(i) for i in range(len(nodes))])
    links = []
    for number, (_, source, target, weight, _, delay) in edges:
        where = f"{file}:{number}"
        for end in (source, target):
            if not (end.isdecimal() and int(end) < len(brokers)):
                raise BadTrace(f"{where}: an edge ends at {end!r}. Expected a node's number, below {len(brokers)}.")
        latency = round(_number(delay, where, "the delay", MOST_US))
        links.append(Link(brokers[int(source)], brokers[int(target)], _number(weight, where, "the weight"), latency))
    return _plain("repetita", brokers, links)


def _section(file: Path, lines: Lines, title: str, width: int) -> tuple[list[tuple[int, list[str]]], Lines]:
    """(rows, what follows): `TITLE count`, a line of column names, and count rows of so many words."""
    opening = re.fullmatch(rf"{title}\s+(\d+)", lines[0][1]) if lines else None
    if opening is None:
        found = f":{lines[0][0]}: {lines[0][1]!r}" if lines else ": the end of the file"
        raise BadTrace(f"{file}{found}. Expected a line `{title} <count>`.")
    count = int(opening[1])
    rows = [(number, line.rsplit(maxsplit=width - 1)) for number, line in lines[2 : 2 + count]]
    if len(rows) < count:
        raise BadTrace(f"{file}: {title} says {count} rows, found {len(rows)}. The file was cut: fetch it again.")
    for number, row in rows:
        if len(row) != width:
            raise BadTrace(f"{file}:{number}: {len(row)} words in a row of {title}. Expected {width}.")
    return rows, lines[2 + count :]


# Broker configurations: who listens where, and who dials whom


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


def _host(text: str) -> str:
    return text.strip("[]").lower()


def _listener(port: int, host: str) -> Listener:
    return Listener(port, None if _host(host) in ("", "*", "0.0.0.0", "::") else _host(host))


def _loopback(host: str) -> bool:
    return host == "localhost" or host.startswith("127.") or host == "::1"


def _port(text: str, where: str) -> int:
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


def _dialled(directory: Directory, broker: str, remotes: list[Remote], *, first: bool) -> tuple[str, list[Link]]:
    """(far end, links): a wired link to the address in use, and links that could be to the known spare ones.

    The address in use is the first, or with first=False the first that belongs to a known broker.
    """
    known = [directory.find(remote, broker) for remote in remotes]
    used = 0 if first else next((i for i, name in enumerate(known) if name), 0)
    far = known[used] or directory.add(remotes[used])
    spare = [name for name in known if name and name not in (far, broker)]
    return far, [Link(broker, far, wired=True, dials=broker), *(Link(broker, name) for name in spare)]


def _wired(kind: str, directory: Directory, links: list[Link], notes: list[str], **more: Any) -> Topology:
    """A topology of links that are there."""
    table, loops, parallel = _merge(links)
    dialled = {(link.left, link.right) for link in links if link.wired}
    both = sorted((a, b) for a, b in dialled if a < b and (b, a) in dialled)
    notes = [*notes, *directory.notes, *(f"{a} and {b} dial each other: one link" for a, b in both)]
    if loops:
        notes.append(f"{loops} links from a broker to itself dropped")
    brokers = [*directory.listeners, *(name for name in directory.others if name not in directory.listeners)]
    return Topology(kind, brokers, table, loops=loops, parallel=parallel, notes=list(dict.fromkeys(notes)), **more)


def _stems(files: Iterable[Path]) -> dict[Path, str]:
    """A name for each file: its stem, or its folder where files share a stem, or else its path."""
    paths = list(files)
    stems = Counter(path.stem for path in paths)
    names = [path.stem if stems[path.stem] == 1 else path.absolute().parent.name for path in paths]
    times = Counter(names)
    return {path: name if times[name] == 1 else str(path) for path, name in zip(paths, names, strict=True)}


# Mosquitto


@dataclass
class Connection:
    """A bridge as it is being read."""

    name: str
    where: str
    remotes: list[Remote] = field(default_factory=list)
    ids: dict[str, str] = field(default_factory=dict)
    topics: list[Pattern] = field(default_factory=list)


def _mosquitto(texts: dict[Path, bytes]) -> Topology:
    notes: list[str] = []
    listeners: dict[str, list[Listener]] = {}
    connections: list[tuple[str, Connection]] = []
    for file, name in _stems(texts).items():
        listeners[name], found = _mosquitto_file(file, _text(texts[file]), notes)
        connections += [(name, each) for each in found]
    dialled = [remote for _, each in connections for remote in each.remotes]
    directory = Directory(listeners, {name: name for name in listeners}, dialled)
    links: list[Link] = []
    bridges = []
    for name, each in connections:
        if not each.remotes:
            raise BadTrace(f"{each.where}: connection {each.name} has no address. Expected `address host[:port]`.")
        far, new = _dialled(directory, name, each.remotes, first=True)
        links += new
        ids = each.ids.get("remote_clientid", each.ids.get("clientid")), each.ids.get("local_clientid")
        bridges.append(Bridge(name, each.name, far, tuple(map(str, each.remotes)), *ids, tuple(each.topics)))
    return _wired("mosquitto", directory, links, notes, bridges=bridges)


def _mosquitto_file(file: Path, text: str, notes: list[str]) -> tuple[list[Listener], list[Connection]]:
    """(listeners, connections) of one mosquitto.conf: a word, then its values, a line each."""
    listeners: list[Listener] = []
    default: dict[str, str] = {}
    connections: list[Connection] = []
    for number, line in enumerate(text.splitlines(), 1):
        where = f"{file}:{number}"
        word, value = (*line.strip().split(maxsplit=1), "", "")[:2]
        if word == "listener":
            port, host = (*value.split(maxsplit=1), "", "")[:2]
            if _port(port, where):  # 0 is a Unix socket
                listeners.append(_listener(int(port), host))
        elif word in ("port", "bind_address"):
            default[word] = str(_port(value, where)) if word == "port" else value
        elif word == "include_dir":
            notes.append(f"{where}: include_dir {value} was not followed: its bridges and listeners are missing")
        elif word == "connection":
            connections.append(Connection((*value.split(), "")[0], where))  # Mosquitto takes the first word
        elif connections and word in ("address", "addresses"):
            connections[-1].remotes += [_mqtt_address(each, where) for each in value.split()]
        elif connections and word in ("remote_clientid", "clientid", "local_clientid"):
            connections[-1].ids[word] = value
        elif connections and word == "topic":
            connections[-1].topics.append(_pattern(value, where))
    if default or not listeners:
        listeners.append(_listener(int(default.get("port", MQTT_PORT)), default.get("bind_address", "")))
    return listeners, connections


def _mqtt_address(text: str, where: str) -> Remote:
    """host[:port]; an IPv6 host always has its port, as Mosquitto wants it."""
    host, colon, port = text.rpartition(":")
    return Remote(_host(host), _port(port, where)) if colon else Remote(_host(text), MQTT_PORT)


def _pattern(value: str, where: str) -> Pattern:
    """`pattern [out|in|both] [qos] [local-prefix] [remote-prefix]`, with "" for nothing."""
    words = ["" if word == '""' else word for word in value.split()]
    pattern, direction, qos, local, remote = (words + ["", "out", "0", "", ""][len(words) :])[:5]
    if not words or direction not in ("out", "in", "both") or qos not in ("0", "1", "2"):
        raise BadTrace(f"{where}: topic {value!r}. Expected: topic PATTERN [out|in|both] [0|1|2] [LOCAL] [REMOTE].")
    return Pattern(pattern, direction, int(qos), local, remote)


# NATS


def _nats(texts: dict[Path, bytes]) -> Topology:
    notes: list[str] = []
    servers: dict[str, dict[str, Any]] = {}
    files: dict[str, str] = {}
    for file, stem in _stems(texts).items():
        found = NatsReader(file, _text(texts[file]), notes).read()
        name = str(found.get("server_name") or stem)
        name = stem if name.startswith("$") else name  # from the server's environment
        if name in servers:
            raise BadTrace(f"{file}: server_name {name} is also in {files[name]}. Give every server a name of its own.")
        servers[name], files[name] = found, stem
    dialled = [(name, _remotes(name, each)) for name, found in servers.items() for each in _leaf_remotes(found)]
    listeners = {name: _leaf_listeners(name, found) for name, found in servers.items()}
    directory = Directory(listeners, files, [each for _, remotes in dialled for each in remotes])
    links = [link for name, remotes in dialled for link in _dialled(directory, name, remotes, first=False)[1]]
    groups = {}
    for name, found in servers.items():
        cluster = _block(found, "cluster")
        if cluster.get("name"):
            groups[name] = str(cluster["name"])
        if cluster.get("routes"):
            notes.append(f"{name}: routes of a NATS cluster are a full mesh, not links; take a cluster as one broker")
    return _wired("nats", directory, links, notes, groups=groups)


def _block(server: dict[str, Any], *names: str) -> dict[str, Any]:
    """The first of the blocks that is there, or an empty one."""
    return next((server[name] for name in names if isinstance(server.get(name), dict)), {})


def _all_of(value: Any, kind: type) -> list[Any]:
    """One value or a list of them, those of a kind."""
    return [each for each in (value if isinstance(value, list) else [value]) if isinstance(each, kind) and each]


def _leaf_remotes(server: dict[str, Any]) -> list[dict[str, Any]]:
    return _all_of(_block(server, "leafnodes", "leaf").get("remotes"), dict)


def _remotes(name: str, remote: dict[str, Any]) -> list[Remote]:
    """The addresses of one leafnode remote."""
    urls = [*_all_of(remote.get("url"), str), *_all_of(remote.get("urls"), str)]
    if not urls:
        raise BadTrace(f"{name}: a leafnode remote has no url. Expected url: or urls: in each of remotes.")
    return [_url(url, name) for url in urls]


def _leaf_listeners(name: str, server: dict[str, Any]) -> list[Listener]:
    """Where leafnodes are taken: there is no default port. Websocket remotes go to the websocket's."""
    found = []
    for block in (_block(server, "leafnodes", "leaf"), _block(server, "websocket")):
        host, _, port = str(block.get("listen", "")).rpartition(":")
        port = port or str(block.get("port", ""))
        if port.isdecimal() and int(port):  # -1: any port, so that no file can name it
            found.append(_listener(_port(port, name), host or str(block.get("host") or block.get("net") or "")))
    return found


def _url(text: str, name: str) -> Remote:
    """The host and port of a URL, without its user and password."""
    rest = text.rpartition("@")[2].rpartition("//")[2].partition("/")[0]
    found = re.fullmatch(r"(\[[^\]]+\]|[^:\[\]]+)(?::(\d+))?", rest)
    if found is None:  # not shown: what cannot be taken apart may hold a password
        raise BadTrace(f"{name}: the url of a leafnode remote cannot be read. Expected scheme://host:port.")
    return Remote(_host(found[1]), _port(found[2], name) if found[2] else LEAF_PORT)


class NatsReader:
    """nats-server's configuration as nested dicts, lists and strings; keys in lower case.

    Comments are # and //; a key is followed by = or : or nothing; values are quoted, bare, { }, [ ] or a
    block ( ); $NAME is the value of that key further up. Errors give a line's number, not the line: it may
    hold a secret.
    """

    BLANK = re.compile(r"(?:[\s,;]|#[^\n]*|//[^\n]*)*")
    KEY = re.compile(r"\"([^\"\n]*)\"|'([^'\n]*)'|([^\s:={}\[\],;]+)")
    SIGN = re.compile(r"\s*[:=]?\s*")
    SCALAR = re.compile(
        r"\"((?:[^\"\\]|\\.)*)\"|'([^']*)'|\((.*?)\n\s*\)(?=\s|\Z)|([^\s,;\]}\"'(][^\s,;\]}]*)", re.DOTALL
    )
    END = re.compile(r"[ \t]*(?=[\r\n,;\]}#]|//|\Z)")
    ESCAPES = MappingProxyType({"t": "\t", "n": "\n", "r": "\r"})
    DEEPEST = 50

    def __init__(self, file: Path, text: str, notes: list[str]) -> None:
        self.file, self.text, self.notes = file, text, notes
        self.at = 0

    def read(self) -> dict[str, Any]:
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

    def _map(self, outer: list[dict[str, Any]], closed: bool) -> dict[str, Any]:
        """Keys and values up to the closing brace, or up to the end of the file."""
        values: dict[str, Any] = {}
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
                self.at += 1
                name = self._scalar(scopes)
                self.notes.append(f"{self.file}: include {name} was not followed: what it holds is missing")
                continue
            self._skip(self.SIGN)
            values[key] = self._value(scopes)

    def _check_depth(self, scopes: list[dict[str, Any]]) -> None:
        if len(scopes) > self.DEEPEST:
            raise self._bad("blocks within blocks within blocks", f"at most {self.DEEPEST}")

    def _key(self) -> str:
        found = self.KEY.match(self.text, self.at)
        if found is None:
            raise self._bad(f"{self._next()!r} where a key should be", "key: value")
        self.at = found.end()
        return next(part for part in found.groups() if part is not None)

    def _value(self, scopes: list[dict[str, Any]]) -> Any:
        opening = self._next()
        if opening in ("{", "["):
            self.at += 1
            return self._map(scopes, closed=True) if opening == "{" else self._array(scopes)
        return self._scalar(scopes)

    def _array(self, scopes: list[dict[str, Any]]) -> list[Any]:
        values: list[Any] = []
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

    def _scalar(self, scopes: list[dict[str, Any]]) -> Any:
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
        return bare


KINDS: dict[str, Callable[[dict[Path, bytes]], Topology]] = {
    "graphml": _graphml,
    "repetita": _repetita,
    "mosquitto": _mosquitto,
    "nats": _nats,
}
"""The readers by kind."""
