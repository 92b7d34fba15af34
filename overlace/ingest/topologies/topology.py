"""Brokers and links by name: what every reader of topologies returns, and what they share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import inf
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa

LINKS = pa.schema(
    {
        "left": pa.string(),
        "right": pa.string(),
        "cost": pa.float64(),
        "latency_us": pa.int32(),
        "wired": pa.bool_(),
        "dials": pa.string(),  # the end that connects
    }
)
"""The links of a topology: those of the table links, with names for ids."""


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

    @classmethod
    def of(cls, noted: Mapping[str, Any]) -> Bridge:
        """A bridge as `asdict` wrote it into the notes of a trace."""
        return msgspec.convert(noted, cls)


@dataclass(frozen=True)
class Topology:
    """Brokers and links by name, as one file or one set of files has them."""

    kind: str
    brokers: list[str]  # in the order of the file
    links: pa.Table  # LINKS, sorted by left and right
    bridges: list[Bridge] = field(default_factory=list)  # of mosquitto.conf
    notes: list[str] = field(default_factory=list)  # what a user should know


class Link(NamedTuple):
    """One row of LINKS, as a file has it: either end first, any number of times."""

    left: str
    right: str
    cost: float | None = None  # not known
    latency_us: int | None = None
    wired: bool = False
    dials: str | None = None


def text_of(text: bytes) -> str:
    """A file as text, whatever its bytes."""
    return text.decode("utf-8-sig", errors="replace")


def merge_links(links: Iterable[Link]) -> tuple[pa.Table, list[str]]:
    """(table, notes): each pair of brokers once, wired if any of its links is, else as the cheapest of them."""

    def rank(link: Link) -> tuple[bool, float, float]:
        cost, latency = (inf if each is None else each for each in (link.cost, link.latency_us))
        return not link.wired, cost, latency

    best: dict[tuple[str, str], Link] = {}
    loops = 0
    for link in links:
        left, right = sorted((link.left, link.right))
        loops += left == right
        if left != right:
            best[left, right] = min(best.get((left, right), link), link, key=rank)
    rows = [best[left, right]._replace(left=left, right=right)._asdict() for left, right in sorted(best)]
    notes = [f"{loops} links from a broker to itself dropped"] if loops else []
    return pa.Table.from_pylist(rows, LINKS), notes
