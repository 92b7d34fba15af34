"""GraphML (Internet Topology Zoo) and Repetita: graphs of what could be wired.

XML entities are refused, so nothing outside the file is read.
"""

from __future__ import annotations

import re
from math import asin, cos, nan, radians, sin, sqrt
from pathlib import Path
from xml.etree import ElementTree
from xml.parsers import expat

from overlace.errors import BadTrace
from overlace.ingest.topologies.topology import Link, Topology, amount_of, graph_topology, make_distinct, text_of

EARTH_KM = 6371.0
US_PER_KM = 5.0  # 200,000 km/s, light in fibre
MOST_US = 2**31 - 1
COSTS = ("cost", "weight")
"""Attributes of an edge that say what it costs."""


def graphml(texts: dict[Path, bytes]) -> Topology:
    """Nodes and edges; latency by great-circle distance where both ends have coordinates.

    The cost of an edge is its `cost` or `weight`; where no edge has one, its latency in milliseconds.
    """
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
    brokers = make_distinct([values.get("label") or name for name, values in nodes.items()], list(nodes))
    name_of = dict(zip(nodes, brokers, strict=True))
    place = {name: _place(file, name, values) for name, values in nodes.items()}
    links: list[Link] = []
    costs: list[float | None] = []
    for edge in root.iter("edge"):
        source, target = edge.get("source", ""), edge.get("target", "")
        if source not in nodes or target not in nodes:
            raise BadTrace(f"{file}: an edge joins {source!r} and {target!r}. Expected ids of nodes in the same file.")
        latency = _latency(place[source], place[target])
        values = {keys.get(data.get("key"), ""): (data.text or "").strip() for data in edge.findall("data")}
        given = next((values[name] for name in COSTS if values.get(name)), None)
        where = f"{file}: edge {source} - {target}"
        costs.append(None if given is None else amount_of(given, where, "its cost"))
        links.append(Link(name_of[source], name_of[target], None if latency is None else latency / 1000, latency))
    if any(cost is not None for cost in costs):
        links = [link._replace(cost=cost) for link, cost in zip(links, costs, strict=True)]
    return graph_topology("graphml", brokers, links)


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


def repetita(texts: dict[Path, bytes]) -> Topology:
    """NODES and EDGES: cost is the weight, latency the delay."""
    file, text = next(iter(texts.items()))
    lines = [(i, line.strip()) for i, line in enumerate(text_of(text).splitlines(), 1) if line.strip()]
    nodes, rest = _section(file, lines, "NODES", 3)
    edges, rest = _section(file, rest, "EDGES", 6)
    if rest:
        raise BadTrace(f"{file}:{rest[0][0]}: {rest[0][1]!r} after the last edge. Expected the end of the file.")
    brokers = make_distinct([node[0] for _, node in nodes], [str(i) for i in range(len(nodes))])
    links = []
    for number, (_, source, target, weight, _, delay) in edges:
        where = f"{file}:{number}"
        for end in (source, target):
            if not (end.isdecimal() and int(end) < len(brokers)):
                raise BadTrace(f"{where}: an edge ends at {end!r}. Expected a node's number, below {len(brokers)}.")
        latency = round(amount_of(delay, where, "the delay", MOST_US))
        links.append(Link(brokers[int(source)], brokers[int(target)], amount_of(weight, where, "the weight"), latency))
    return graph_topology("repetita", brokers, links)


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
