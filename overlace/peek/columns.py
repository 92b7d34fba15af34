"""The columns of a sample, and what one of them could hold: times, numbers, names."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from overlace.ingest.cells import times
from overlace.ingest.fields import UNIT_WORDS, ZONELESS, unit_of

Cells = Sequence[Sequence[str | None]]
"""Rows of a sample, as text; an empty cell is None."""


class Guess(NamedTuple):
    """What a column of a file is taken for: nothing if it is not used."""

    column: str
    field: str
    sample: str
    why: str


class Columns:
    """The columns of a sample, by name."""

    def __init__(self, names: Sequence[str], cells: Cells) -> None:
        self.names = list(dict.fromkeys(names))
        place = {name: i for i, name in reversed(list(enumerate(names)))}
        self.values = {name: [row[place[name]] for row in cells if place[name] < len(row)] for name in self.names}
        self.known = {name: [each for each in values if each] for name, values in self.values.items()}
        self.sets = {name: set(values) for name, values in self.known.items()}
        self.parts = {
            name: {part.strip() for each in own for part in re.split("[;|,]", each)} - {""}
            for name, own in self.sets.items()
        }

    def shared(self, left: str, right: str) -> float:
        """The share of the values of the smaller column that the other has too; a cell may list several."""
        both = [(self.sets[left], self.sets[right]), (self.parts[left], self.parts[right])]
        return max(len(a & b) / min(len(a), len(b)) if min(len(a), len(b)) > 1 else 0.0 for a, b in both)

    def guesses(self, fields: Mapping[str, tuple[str, str]]) -> list[Guess]:
        """Each column with its (field, why)."""
        samples = {name: (self.known[name] or [""])[0] for name in self.names}
        return [Guess(name, *_field(fields.get(name), samples[name])) for name in self.names]


def _field(found: tuple[str, str] | None, sample: str) -> tuple[str, str, str]:
    field, why = found or ("", "")
    return field, sample, why


def is_nested(columns: Columns, name: str) -> bool:
    """Whether a column holds lists or objects."""
    return any(each.startswith(("{", "[")) for each in columns.known[name][:20])


def time_kind(columns: Columns, name: str) -> str:
    """What makes a column look like times; nothing if it does not."""
    values = columns.known[name][:500]
    if not values or np.mean(times(pa.array(values, pa.string()))[1]) < 0.5:
        return ""
    if sum("-" in each[1:] for each in values) > len(values) // 2:
        return "ISO times" + (", without a zone" if ZONELESS.match(values[0]) else "")
    unit = unit_of(values) or "s"
    return f"numbers, taken as {UNIT_WORDS[unit]} since 1970"


def numbers_in(values: Sequence[str]) -> list[float]:
    """Those that are finite numbers."""
    found = []
    for each in values:
        try:
            value = float(each)
        except ValueError:
            continue
        if math.isfinite(value):
            found.append(value)
    return found


def could_be_names(columns: Columns, name: str) -> bool:
    """Whether a column could hold names: neither fractions, nor long texts, nor lists."""
    values = columns.known[name]
    long = sum(len(each) > 80 for each in values) > len(values) // 2
    fractions = sum(bool(re.fullmatch(r"-?\d*\.\d+", each)) for each in values) > len(values) // 2
    return len(values) * 2 > len(columns.values[name]) and not long and not fractions and not is_nested(columns, name)
