"""GraphML (Internet Topology Zoo) and Repetita: graphs of what could be wired."""

from __future__ import annotations

import re
from collections import Counter
from math import asin, cos, inf, isfinite, nan, radians, sin, sqrt
from pathlib import Path
from xml.etree import ElementTree
from xml.parsers import expat

from overlace.errors import BadTrace
from overlace.ingest.topologies.topology import Link, Topology, merge_links, text_of

EARTH_KM = 6371.0
US_PER_KM = 5.0  # 200,000 km/s, light in fibre
MAX_US = 2**31 - 1

Place = tuple[float, float]
Lines = list[tuple[int, str]]


def graphml(texts: dict[Path, bytes]) -> Topology:
    """Nodes and edges; latency by great-circle distance where both ends have coordinates.

    The cost of an edge is its `cost` or `weight`; where no edge has one, its latency in milliseconds.
    """
    file, text = next(iter(texts.items()))
    root = _xml(file, text)
    if root.tag != "graphml":
        raise BadTrace(f"{file}: the outermost element is <{root.tag}>. Expected <graphml>.")
    keys = {key.get("id"): (key.get("attr.name") or "").lower() for key in root.iter("key")}

    def values_of(element: ElementTree.Element) -> dict[str, str]:
        return {keys.get(data.get("key"), ""): (data.text or "").strip() for data in element.findall("data")}

    labels: dict[str, str] = {}
    places: dict[str, Place | None] = {}
    for node in root.iter("node"):
        name, values = node.get("id"), values_of(node)
        if name is None or name in labels:
            raise BadTrace(f"{file}: a node has the id {name!r}. Expected one id for each node, each its own.")
        labels[name] = values.get("label") or name
        places[name] = _place(f"{file}: node {name}", values.get("latitude"), values.get("longitude"))
    if not labels:
        raise BadTrace(f"{file}: no <node> in it. Expected a graph with at least one.")
    brokers = _distinct(list(labels.values()), list(labels))
    name_of = dict(zip(labels, brokers, strict=True))
    links: list[Link] = []
    for edge in root.iter("edge"):
        source, target, values = edge.get("source", ""), edge.get("target", ""), values_of(edge)
        if source not in labels or target not in labels:
            raise BadTrace(f"{file}: an edge joins {source!r} and {target!r}. Expected ids of nodes in the same file.")
        given = values.get("cost") or values.get("weight")
        cost = _amount(given, f"{file}: edge {source} - {target}: its cost") if given else None
        links.append(Link(name_of[source], name_of[target], cost, _latency(places[source], places[target])))
    if all(link.cost is None for link in links):
        links = [link._replace(cost=None if (us := link.latency_us) is None else us / 1000) for link in links]
    return _topology("graphml", brokers, links)


def _xml(file: Path, text: bytes) -> ElementTree.Element:
    """The tree of an XML file, names without their namespace; entities are refused, so nothing outside is read."""

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


def _place(where: str, north: str | None, east: str | None) -> Place | None:
    """(latitude, longitude) of a node, where it has both."""
    if not (north and east):
        return None
    try:
        found = float(north), float(east)
    except ValueError:
        found = nan, nan
    if not (abs(found[0]) <= 90 and abs(found[1]) <= 360):
        raise BadTrace(f"{where} is at latitude {north!r}, longitude {east!r}. Expected degrees.")
    return found


def _latency(one: Place | None, other: Place | None) -> int | None:
    """Microseconds along the great circle (haversine)."""
    if one is None or other is None:
        return None
    south, west, north, east = map(radians, (*one, *other))
    half = sin((north - south) / 2) ** 2 + cos(south) * cos(north) * sin((east - west) / 2) ** 2
    return round(2 * EARTH_KM * asin(min(1.0, sqrt(half))) * US_PER_KM)


def repetita(texts: dict[Path, bytes]) -> Topology:
    """NODES and EDGES: cost is the weight, latency the delay."""
    file, text = next(iter(texts.items()))
    lines = [(i, line.strip()) for i, line in enumerate(text_of(text).splitlines(), 1) if line.strip()]
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
        latency = round(_amount(delay, f"{where}: the delay", MAX_US))
        links.append(Link(brokers[int(source)], brokers[int(target)], _amount(weight, f"{where}: the weight"), latency))
    return _topology("repetita", brokers, links)


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


def _distinct(names: list[str], ids: list[str]) -> list[str]:
    """The names, with the id behind each one that several have."""
    while len(set(names)) < len(names):
        times = Counter(names)
        names = [f"{name} ({each})" if times[name] > 1 else name for name, each in zip(names, ids, strict=True)]
    return names


def _amount(text: str, what: str, most: float = inf) -> float:
    try:
        value = float(text)
    except ValueError:
        value = nan
    if not (isfinite(value) and 0 <= value <= most):
        limit = f" to {most:,.0f}" if isfinite(most) else ""
        raise BadTrace(f"{what} is {text!r}. Expected a number from 0{limit}.")
    return value


def _topology(kind: str, brokers: list[str], links: list[Link]) -> Topology:
    table, notes = merge_links(links)
    unknown, unpriced = table["latency_us"].null_count, table["cost"].null_count
    if unknown:
        lacking = "no latency, no cost" if unpriced == unknown else "no latency"
        notes.append(f"{unknown} of {table.num_rows} links have an end without coordinates: {lacking}")
    if unpriced and unpriced != unknown:
        notes.append(f"{unpriced} of {table.num_rows} links have no cost, where others have one")
    return Topology(kind, brokers, table, notes=notes)
