"""Fields of a log and the columns that they are read from, settled once per source.

Fields are mapped by name (`--map client=src`) or by the names that logs commonly use, each to a list of columns of
which every row takes the first that it has.
"""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Callable, Mapping, Sequence
from string import ascii_lowercase, ascii_uppercase
from typing import NamedTuple

from overlace.errors import BadParameter, BadTrace, Unknown
from overlace.ingest.events import Settled

COMMON: Mapping[str, tuple[str, ...]] = {
    "key": ("id", "key", "message", "message_id", "mid", "uuid"),
    "at": ("at", "time", "timestamp", "ts", "t", "hour", "date", "epoch"),
    "client": ("client", "sender", "publisher", "from", "src", "source", "client_id", "clientid"),
    "receiver": ("receiver", "subscriber", "to", "dst", "target", "recipient"),
    "receivers": ("receivers", "subscribers", "recipients", "audience"),
    "topic": ("topic", "subject", "channel", "routing_key"),
    "bytes": ("bytes", "size", "length", "payload_bytes"),
    "broker": ("broker", "server", "node", "host"),
    "weight": ("weight", "messages", "count"),
    "attributes": ("attributes",),
}
"""The fields of a log and what people call them, the best name first."""

FIELDS = tuple(COMMON)
BY_NAME = {name: (field, rank) for field, names in COMMON.items() for rank, name in enumerate(names)}
ASCII_LOWER = str.maketrans(ascii_uppercase, ascii_lowercase)

OPTIONS = frozenset({"map", "group", "list_separator", "broker", "content", "unit", "where", "deliveries_where"})
"""What every format with columns honours."""

UNITS = {"s": 0, "ms": 3, "us": 6, "ns": 9}
"""Units of times that are numbers, as digits after the point of a second."""

UNIT_WORDS = {"s": "seconds", "ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds"}

ZONELESS = re.compile(r"\s*(\d{4}-\d\d-\d\d([T ][\d:.,]+)?|\d{1,2}-[A-Za-z]{3}-(\d\d){1,2})\s*$")

PARTS_OF_SECOND = re.compile(r":\d\d:\d\d[.,:]\d*[1-9]|^\s*[+-]?\d*\.\d*[1-9]")

KEY = ("client", "at", "topic", "bytes")
"""What makes rows one message where no id is mapped."""


class FieldColumn(NamedTuple):
    """A column of a log that a field is read from: its name, the field, and its place among the field's columns."""

    name: str
    field: str
    rank: int


def field_called(name: str) -> str:
    """A field by any of its common names: sender is client."""
    field = name if name in COMMON else BY_NAME.get(name.lower(), ("", 0))[0]
    if not field:
        raise Unknown("field", name, COMMON)
    return field


def asked_columns(given: Mapping[str, str | Sequence[str]]) -> dict[str, tuple[str, ...]]:
    """What was asked for: field -> the columns it is read from, the first that a row has."""
    found: dict[str, tuple[str, ...]] = {}
    for name, columns in given.items():
        listed = (columns,) if isinstance(columns, str) else tuple(columns)
        found[field_called(name)] = (*found.get(field_called(name), ()), *listed)
    every = [each for listed in found.values() for each in listed]
    if twice := [name for name in every if every.count(name) > 1]:
        raise BadParameter(f"--map names the column {twice[0]!r} twice; a column is read into one field")
    return found


def in_lower_case(name: str) -> str:
    """A name in lower case as the reader of JSON has it: letters of ASCII, and blanks count."""
    return name.translate(ASCII_LOWER)


def match_columns(
    columns: Sequence[str],
    asked: Mapping[str, Sequence[str]],
    fold: Callable[[str], str] = lambda name: name.strip().lower(),
) -> list[FieldColumn | None]:
    """For each column of a table the field that it is read into, if any; of two of one name the left is first."""
    taken = {name: (field, rank) for field, names in asked.items() for rank, name in enumerate(names)}
    for name in taken:
        if name not in columns:
            raise Unknown("column", name, columns)
    found: list[FieldColumn | None] = []
    for place, name in enumerate(columns):
        folded = fold(name)
        field, rank = taken.get(name) or BY_NAME.get(folded, ("", 0))
        if name not in taken:
            field, rank = "" if field in asked else field, 2 * rank + (name != folded)
        found.append(FieldColumn(name, field, rank * len(columns) + place) if field else None)
    return found


def mapping_of(found: Sequence[FieldColumn | None]) -> dict[str, list[str]]:
    """Field -> its columns, first choice first."""
    mapped: dict[str, dict[str, None]] = {}
    for each in sorted((each for each in found if each), key=lambda each: (FIELDS.index(each.field), each.rank)):
        mapped.setdefault(each.field, {})[each.name] = None
    return {field: [*names] for field, names in mapped.items()}


def settle_mapping(
    options: Settled,
    columns: Sequence[str],
    samples: Sequence[object],
    found: Sequence[FieldColumn | None],
    *,
    table: bool,
) -> Settled:
    """Options with what holds for the whole source: the mapping, unused columns, and the unit of numeric times.

    Of a table rows that agree in KEY are one message where nothing was asked; with content and no receiver each is one.
    """
    used = mapping_of(found)
    group = tuple(options.get("group") or ())
    for name in group:
        if name not in (*used, *used.get(name, ())):
            raise Unknown("field of this log", name, used)
    if options.get("deliveries_where") and (
        not (group or "key" in used) or {"client", "receiver", "receivers"} & {*group}
    ):
        raise BadParameter(
            "--deliveries-where: name what a message and its deliveries have in common: --map key=COLUMN, "
            "such as an id, or --group FIELDS without clients"
        )
    unused = list(dict.fromkeys(name for name, each in zip(columns, found, strict=True) if each is None))
    unit = options.get("unit") or unit_of(samples)
    zoneless = any(ZONELESS.match(each) for each in samples if isinstance(each, str))
    if table and "key" not in used and (not options.get("content") or {"receiver", "receivers"} & set(used)):
        group = group or tuple(name for name in KEY if name in used)
    settled: Settled = {**options, "mapping": used, "unused": unused, "unit": unit, "zoneless": zoneless}
    return {**settled, "group": group, "whole_seconds": unit in (None, "s") and are_whole_seconds(samples)}


def are_whole_seconds(times: Sequence[object]) -> bool:
    """Whether no time in a sample has parts of a second."""
    texts = [str(each) for each in times if each not in (None, "")]
    return bool(texts) and not any(PARTS_OF_SECOND.search(each) for each in texts)


def refuse_missing(name: str, settled: Settled) -> None:
    """Refuse a table without a column that each of its rows needs."""
    found = settled["mapping"]
    for field, what in (("at", "time"), ("client", "sender")):
        if field not in found:
            listed = ", ".join(
                dict.fromkeys([*(each for names in found.values() for each in names), *settled["unused"]])
            )
            raise BadTrace(
                f"{name}: no column is the {what} of a message. "
                f"Name one: --map {field}=COLUMN (found: {listed or 'none'})."
            )


def unit_of(samples: Sequence[object]) -> str | None:
    """The unit of most of the numbers among some times, by their size; None where none is a number."""
    sizes = []
    for each in samples:
        if isinstance(each, str | int | float) and not isinstance(each, bool):
            with contextlib.suppress(ValueError, OverflowError):
                sizes.append(abs(float(each)))
    sizes = sorted(size for size in sizes if size < math.inf)
    if not sizes:
        return None
    middle = sizes[len(sizes) // 2]
    return "s" if middle < 1e11 else "ms" if middle < 1e14 else "us" if middle < 1e17 else "ns"


def separator_of(options: Settled) -> tuple[str, str, str]:
    """(separator, suspects in a list, suspects in one name): what splits a cell, or what makes it look like a list."""
    given = options.get("list_separator")
    if not given or given == "none":  # a cell is one name, whatever it holds
        return ("", "", "") if given else ("", ",;| \t", ",;|")
    if len(given.encode()) > 8:
        raise BadParameter(f"--list-separator {given!r}: expected a few characters, such as ';'")
    return given, "", ""
