"""Rows that are read: what their cells say decides which are messages, deliveries of messages, or left out.

A filter is COLUMN=VALUE or COLUMN!=VALUE, of texts as they are written; no value is an empty text. Several values that
a column may have are alternatives, all else has to hold.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from shlex import quote
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from overlace.arrays.jit import Bools
from overlace.errors import BadParameter, Unknown
from overlace.ingest.events import Settled
from overlace.ingest.fields import BY_NAME
from overlace.ingest.lines import Faults
from overlace.ingest.values import mask_of

LEFT_OUT = "left out by --where "
"""Begins the reason of rows that a filter ignores."""

FILTER = re.compile(r"([^=!][^=]*?)(!?=)(.*)", re.DOTALL)


class Filter(NamedTuple):
    """Cells of a column: those that are one of some texts, or all others."""

    column: str
    values: Sequence[str]
    equal: bool

    def __str__(self) -> str:
        return " or ".join(f"{self.column}{'=' if self.equal else '!='}{value}" for value in self.values)

    def holds(self, cells: pa.Array) -> Bools:
        """Whether it holds, for each of some texts; null is no text, and equals none."""
        among = mask_of(pc.is_in(cells, pa.array(self.values, pa.string())))
        return among if self.equal else ~among


def filters_of(words: Sequence[str], flag: str = "--where") -> list[Filter]:
    """What the words say."""
    equal: dict[str, list[str]] = {}
    others = []
    for word in words:
        found = FILTER.fullmatch(word)
        if found is None:
            raise BadParameter(f"{flag} {word!r}: expected COLUMN=VALUE or COLUMN!=VALUE, such as eventType=Publish-In")
        if found[2] == "=":
            equal.setdefault(found[1], []).append(found[3])
        else:
            others.append(Filter(found[1], (found[3],), False))
    return [*(Filter(column, tuple(values), True) for column, values in equal.items()), *others]


def asked_filters(options: Settled) -> list[Filter]:
    """All filters of a source."""
    return [*filters_of(options.get("where") or ()), *filters_of(options.get("deliveries_where") or ())]


def filter_columns(options: Settled) -> list[str]:
    """The columns that filters name."""
    return list(dict.fromkeys(each.column for each in asked_filters(options)))


def check_columns(options: Settled, columns: Collection[str]) -> None:
    """Refuse filters on columns that are not there."""
    for name in filter_columns(options):
        if name not in columns:
            raise Unknown("column", name, columns)


def refuse_names(options: Settled) -> None:
    """Refuse filters on what is hidden: they are kept as they are typed."""
    names = {column for columns in options.get("mapping", {}).values() for column in columns}
    for each in asked_filters(options):
        if each.column in names:
            raise BadParameter(
                f"--pseudonymise: --where {each} would put what it names into the trace. Filter by a column that is no "
                "field of the log, or leave such rows out before."
            )


def select_rows(cells: Mapping[str, pa.Array], options: Settled, faults: Faults) -> None:
    """Find the rows that are deliveries, and of the others leave out those for which a filter does not hold."""
    if delivered := filters_of(options.get("deliveries_where") or ()):
        faults.deliveries[:] = np.logical_and.reduce([each.holds(cells[each.column]) for each in delivered])
    for each in filters_of(options.get("where") or ()):
        faults.note(~faults.deliveries & ~each.holds(cells[each.column]), f"{LEFT_OUT}{each}", ignored=True)


# --- rows of several kinds ----------------------------------------------------------------------------------

SOME = 12
"""Values up to which a column may say of what kind its row is."""

WORDS = re.compile(r"[A-Za-z][A-Za-z .:_-]*")
PARTS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")
KIND_WORDS = {
    "out": "out outbound outgoing egress",
    "in": "in inbound incoming ingress",
    "delivered": "msg deliver delivered delivers delivery deliveries dispatch dispatched consume consumed consumes",
    "published": "pub publish published publishes produce produced produces",
    "received": "received receive receives recv rcv rx",
    "sent": "sent send sends tx",
}
"""Words for what happened to a message, by what they stand for."""


class Kinds(NamedTuple):
    """A column that says of what kind a row is, and its readings: which values are messages, and which deliveries."""

    column: str
    readings: Sequence[tuple[str, Sequence[str], Sequence[str]]]  # (what is read so, messages, deliveries)

    @property
    def short(self) -> str:
        """What has to be known to read such rows."""
        return f"rows are of several kinds by {self.column}. Which are messages, which deliveries of them?"

    @property
    def question(self) -> str:
        """The same with the filters to choose from."""
        filters = [
            " ".join(f"{flag} {quote(f'{self.column}={value}')}"
                     for flag, values in zip(FLAGS, reading[1:], strict=True) for value in values)
            for reading in self.readings
        ]  # fmt: skip
        choice = "; or, ".join(
            f"{what + ': ' if what else ''}{words}" for (what, *_), words in zip(self.readings, filters, strict=True)
        )
        return f"{self.short} {choice}"


FLAGS = ("--where", "--deliveries-where")


def kinds_of(cells: Mapping[str, Sequence[str]], options: Settled) -> Kinds | None:
    """The column that says which rows are messages and which are something else, unless filters were asked for."""
    if asked_filters(options):
        return None
    for column, own in cells.items():
        values = sorted({each for each in own if each})
        if column.strip().lower() in BY_NAME or not 1 < len(values) <= SOME or len(own) == len(values):
            continue
        if all(map(WORDS.fullmatch, values)) and (readings := _readings(values)):
            return Kinds(column, readings)
    return None


def settle_kinds(cells: Mapping[str, Sequence[str]], options: Settled) -> Settled:
    """What has to be known to read rows of several kinds, and what the columns of filters hold in the first rows."""
    found = kinds_of(cells, options)
    seen = {name: sorted({*cells.get(name, ())})[:SOME] for name in filter_columns(options)}
    return {"question": found.question if found else "", "seen": seen}


def unseen_values(options: Settled) -> str:
    """The first filter that no row can be seen to match, with the nearest values; nothing if there is none."""
    for each in asked_filters(options):
        seen = (options.get("seen") or {}).get(each.column, ())
        if each.equal and seen and not {*each.values} & {*seen}:
            return str(Unknown(f"value of {each.column} in the first rows", each.values[0], filter(None, seen)))
    return ""


def _readings(values: Sequence[str]) -> list[tuple[str, Sequence[str], Sequence[str]]]:
    """(what is read so, messages, deliveries) of values that are words for what happened to a message."""
    found: dict[str, list[str]] = {}
    for value in values:
        words = {part.lower() for part in PARTS.findall(value)}
        kinds = {kind for kind, own in KIND_WORDS.items() if words & {*own.split()}}
        if "published" in kinds and kinds & {"in", "out"}:
            kinds = {"published" if "in" in kinds else "delivered"}
        elif kinds & {"received", "sent"} and kinds & {"published", "delivered"}:  # Received PUBLISH
            kinds &= {"received", "sent"}
        if len(kinds) == 1 and len(words) <= 4:
            found.setdefault(kinds.pop(), []).append(value)
    readings: list[tuple[str, Sequence[str], Sequence[str]]] = []
    if "published" in found:
        others = next((found[kind] for kind in ("delivered", "received", "sent", "out") if kind in found), [])
        return [("", found["published"], others)]
    for inwards, outwards in (("in", "out"), ("received", "sent"), ("received", "delivered"), ("in", "delivered")):
        if inwards in found and outwards in found:
            readings.append(("if brokers wrote it", found[inwards], found[outwards]))
            if outwards != "delivered":
                readings.append(("if clients wrote it", found[outwards], found[inwards]))
            break
    return readings
