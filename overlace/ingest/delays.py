"""Delays between clients from a plain file, and numbers for each client: what `overlace trees` is given.

A file is a square matrix, with or without names in its first row and column, or rows of from, to, milliseconds, with or
without a header; columns between commas, semicolons, tabs or blanks; UTF-8, gzipped or not. Lines that begin with # are
left out, as is the diagonal. Empty, nan, - and inf are delays that are not known.
"""

from __future__ import annotations

import csv
import itertools
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from overlace.arrays.jit import Floats
from overlace.errors import BadTrace, Unknown
from overlace.ingest.files import read_unpacked

UNKNOWN = {"", "-", "nan", "na", "none", "null", "inf", "?"}
FROM, TO = ("from", "source", "src", "left"), ("to", "target", "dst", "right")
MS = ("delay_ms", "delay", "latency_ms", "ms")
REST = "*"
"""In a file of bounds or degrees: all clients that it does not name."""


class Delays(NamedTuple):
    """Clients and the milliseconds from each (row) to each (column), and what was done to get them."""

    clients: tuple[str, ...]
    delay: Floats
    notes: tuple[str, ...] = ()


def read_delays(path: str | Path) -> Delays:
    """The delays of a file, all of them known: where one is missing, by the shortest way over those that are known."""
    rows = _read_rows(path)
    head = [cell.lower() for cell in rows[0]]
    columns = [next((head.index(name) for name in names if name in head), -1) for names in (FROM, TO, MS)]
    named, threes = min(columns) >= 0, {len(row) for row in rows} == {3}
    listed = threes and (len(rows) not in (2, 3, 4) or not _is_number(rows[-1][1]))
    unclear = threes and len(rows) == 3 and not (named or listed) and all(map(_is_number, itertools.chain(*rows)))
    if unclear and any(abs(_number(row[i]) or 0) > 0 for i, row in enumerate(rows)):
        raise BadTrace(
            f"{path}: three rows of three numbers: a matrix would have 0 from each to itself. "
            "For rows of from, to, milliseconds put from,to,delay_ms on top."
        )
    if named or listed:
        read = _read_pairs(path, rows[named:], columns if named else [0, 1, 2])
    else:
        read = _read_matrix(path, rows)
    for i, j in np.argwhere(read.delay < 0)[:1].tolist():
        raise BadTrace(
            f"{path}: the delay from {read.clients[i]} to {read.clients[j]} is {read.delay[i, j]:g}. "
            "Expected milliseconds, 0 or more."
        )
    return go_around(path, read)


def _read_rows(
    path: str | Path, expected: str = "a matrix of delays, or rows of from, to, delay_ms"
) -> list[list[str]]:
    try:
        text = read_unpacked(path, expected).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise BadTrace(f"{path}: is no text in UTF-8. Expected {expected}.") from None
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    if not lines:
        raise BadTrace(f"{path}: is empty. Expected {expected}.")
    mark = next((each for each in "\t;," if each in lines[0]), None)
    cells: Iterable[list[str]] = csv.reader(lines, delimiter=mark) if mark else map(str.split, lines)
    return [[cell.strip() for cell in row] for row in cells]


def _number(cell: str) -> float | None:
    """A cell as a number, nan where it says that there is none; None where it is neither."""
    try:
        return math.nan if cell.lower() in UNKNOWN else float(cell)
    except ValueError:
        return None


def _is_number(cell: str) -> bool:
    return _number(cell) is not None


def _read_number(where: str, cell: str) -> float:
    value = _number(cell)
    if value is None:
        raise BadTrace(f"{where}: {cell!r} is no number. Expected milliseconds.")
    return value


def _read_matrix(path: str | Path, rows: Sequence[Sequence[str]]) -> Delays:
    header, labelled = find_names(rows)
    body = rows[header:]
    values = [row[labelled:] for row in body]
    odd = next((f"row {i + 1} has {len(row)}" for i, row in enumerate(values) if len(row) != len(values)), "")
    if header and len(rows[0]) < len(values):
        odd = odd or f"{len(rows[0])} names of columns"
    if odd or not values:
        raise BadTrace(
            f"{path}: {len(values)} rows of delays, and {odd or 'no columns'}. "
            "Expected a square matrix, or rows of from, to, delay_ms."
        )
    labels = [row[0] for row in body] if labelled else []
    columns = list(rows[0][-len(values) :]) if header else labels or [str(i) for i in range(len(values))]
    names = labels or columns
    for name, times in Counter(names).items():
        if times > 1:
            raise BadTrace(f"{path}: client {name!r} stands there twice. Expected each once.")
    for name in sorted(set(names) ^ set(columns)):
        raise BadTrace(f"{path}: {name!r} names a row or a column, not both. Expected the same names in both.")
    where = [f"{path}: row {name}" for name in names]
    delay = np.array([[_read_number(w, cell) for cell in row] for w, row in zip(where, values, strict=True)])
    place = {name: i for i, name in enumerate(columns)}
    return Delays(tuple(names), delay[:, [place[name] for name in names]])


def find_names(rows: Sequence[Sequence[str]]) -> tuple[int, int]:
    """(1 if the first row is names, 1 if the first column is): whatever makes the rest square and numbers."""
    counted = [[str(i + least) for i in range(len(rows) - 1)] for least in (0, 1)]
    square = len(rows) > 1 and {len(row) for row in rows} == {len(rows)}
    filled = square and any(row[i] for i, row in enumerate(rows))  # else the diagonal is left empty
    if rows[0][0] == "" and (filled or list(rows[0][1:]) in counted):
        return 1, 1
    for header, labelled in ((0, 0), (1, 1), (1, 0), (0, 1)):
        body = rows[header:]
        if not body or len(body) != len(body[-1]) - labelled:
            continue
        firsts = labelled or all(_is_number(row[0]) for row in body)
        if firsts and all(all(map(_is_number, row[labelled:])) for row in (body[0], body[-1])):
            return header, labelled
    header = int(not all(map(_is_number, rows[0][1:])))
    return header, int(not any(_is_number(row[0]) for row in rows[header:]))


def _read_pairs(path: str | Path, rows: Sequence[Sequence[str]], columns: Sequence[int]) -> Delays:
    found: dict[tuple[str, str], float] = {}
    for i, row in enumerate(rows):
        if len(row) <= max(columns):
            raise BadTrace(f"{path}: row {i + 1} has {len(row)} columns. Expected from, to, delay_ms.")
        one, other, cell = (row[k] for k in columns)
        value = _read_number(f"{path}: row {i + 1}", cell)
        if (one, other) in found:
            raise BadTrace(
                f"{path}: row {i + 1}: the delay from {one} to {other} is given twice, as {found[one, other]:g} and "
                f"{value:g}. Expected each pair once."
            )
        found[one, other] = value
    place = {name: i for i, name in enumerate(dict.fromkeys(name for pair in found for name in pair))}
    delay = np.full((len(place), len(place)), np.nan)
    for (one, other), value in found.items():
        delay[place[one], place[other]] = value
    back = np.isnan(delay) & ~np.isnan(delay.T)
    note = f"{int(back.sum()):,} delays are given one way only: taken for both"
    return Delays(tuple(place), np.where(back, delay.T, delay), (note,) if back.any() else ())


def go_around(path: str | Path, read: Delays) -> Delays:
    """Delays in which every pair is known, where some way over known pairs leads."""
    from scipy.sparse.csgraph import shortest_path

    delay = np.where(np.eye(len(read.clients), dtype=np.bool_), 0.0, read.delay)
    missing = ~np.isfinite(delay)
    if not missing.any():
        return read._replace(delay=delay)
    ways = shortest_path(np.ma.masked_invalid(delay), method="D")
    for i, j in np.argwhere(missing & ~np.isfinite(ways))[:1].tolist():
        raise BadTrace(
            f"{path}: no delay is known from {read.clients[i]} to {read.clients[j]}, nor a way over others. "
            "Measure it, or take one of them out."
        )
    note = f"{int(missing.sum()):,} delays are missing: the shortest way over those that are known stands in for each"
    return Delays(read.clients, np.where(missing, ways, delay), (*read.notes, note))


def read_values(text: str, column: str, clients: Sequence[str], default: float | None) -> Floats:
    """A number for each client: one for all, or from a file of client and number, where `*` stands for all others.

    Whoever is not named has the default; without one it is refused.
    """
    try:
        return np.full(len(clients), math.inf if text.lower() in ("none", "inf") else float(text))
    except ValueError:
        pass
    rows = _read_rows(text, f"a number, or a file of client and {column}")
    known = {*clients, REST}
    if rows[0][-1].lower() == column or not (rows[0][0] in known or _is_number(rows[0][-1])):
        rows = rows[1:]
    found: dict[str, float] = {}
    for i, row in enumerate(rows):
        if len(row) != 2:
            raise BadTrace(f"{text}: row {i + 1} has {len(row)} columns. Expected client and {column}.")
        if row[0] not in known:
            raise Unknown("client", row[0], clients)
        if row[0] in found:
            raise BadTrace(f"{text}: client {row[0]!r} stands there twice. Expected each once.")
        value = math.inf if row[1].lower() in ("none", "inf") else _read_number(f"{text}: row {i + 1}", row[1])
        if math.isnan(value):
            raise BadTrace(f"{text}: the {column} of {row[0]} is missing. Expected a number.")
        found[row[0]] = value
    rest = found.get(REST, default)
    absent = [name for name in clients if name not in found]
    if absent and rest is None:
        raise BadTrace(
            f"{text}: {len(absent)} of {len(clients)} clients have no {column} (first: {absent[0]}). "
            f"Name them, or all others by a row `{REST},2`."
        )
    return np.array([found.get(name, rest if rest is not None else 0.0) for name in clients])
