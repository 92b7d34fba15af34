"""What was measured, and numbers as people read them."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from overlace.arrays.jit import Floats, Ints
from overlace.metrics import Metrics
from overlace.replay.definitions import METRICS


class MetricColumn(NamedTuple):
    """One metric in one scope; `other` is -1 where there is no second key (or it is the backbone)."""

    key: Ints
    other: Ints
    value: Floats


_NOTHING = MetricColumn(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0))


@dataclass(frozen=True)
class Sheet:
    """What one replay measured, by metric and scope."""

    columns: Mapping[tuple[str, str], MetricColumn] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.columns)

    def of(self, metric: str) -> float | None:
        """A metric overall, None if it was not measured."""
        value = self.column(metric, "overall").value
        return float(value[0]) if len(value) else None

    def column(self, metric: str, scope: str) -> MetricColumn:
        """A metric in a scope, empty if it was not measured."""
        return self.columns.get((metric, scope), _NOTHING)

    def by(self, metric: str, scope: str) -> dict[int, float]:
        """Values by key."""
        key, _, value = self.column(metric, scope)
        return dict(zip(key.tolist(), value.tolist(), strict=True))

    def by_pair(self, metric: str, scope: str) -> dict[tuple[int, int], float]:
        """Values by both keys."""
        key, other, value = self.column(metric, scope)
        return dict(zip(zip(key.tolist(), other.tolist(), strict=True), value.tolist(), strict=True))


Sheets = Sequence[tuple[str, Sheet]]
"""What is compared: (heading, sheet), today first."""


def sheet_of(metrics: Metrics) -> Sheet:
    """What one replay measured, still in memory."""
    (named, which), (scopes, where) = (np.unique(each, return_inverse=True) for each in (metrics.metric, metrics.scope))
    code = which * len(scopes) + where
    order = np.argsort(code, kind="stable")
    found = {}
    for rows in np.split(order, np.flatnonzero(np.diff(code[order])) + 1) if len(order) else ():
        metric, scope = divmod(int(code[rows[0]]), len(scopes))
        column = MetricColumn(metrics.key[rows], metrics.other[rows], metrics.value[rows])
        found[str(named[metric]), str(scopes[scope])] = column
    return Sheet(found)


class Amount(NamedTuple):
    """A number and its unit; as text it is rounded, its value is not."""

    value: float | None
    unit: str = ""

    def __str__(self) -> str:
        return shown(self.value, self.unit)

    @property
    def raw(self) -> str:
        """The value in full."""
        if self.value is None:
            return ""
        return str(int(self.value)) if float(self.value).is_integer() else repr(float(self.value))


def amount(metric: str, value: float | None) -> Amount:
    """A value of a metric."""
    return Amount(value, METRICS[metric].unit)


def shown(value: float | None, unit: str = "") -> str:
    """A value as people read it: 26.5 ms, 49.3 MB, 5.8 %, 504,984."""
    if value is None or not math.isfinite(value):
        return "–"
    if unit == "share":
        return f"{_digits(100 * value, 1)} %"
    if unit == "bytes":
        return _scaled(value, 1000, ("B", "kB", "MB", "GB", "TB", "PB"))
    if unit == "microseconds":
        return _scaled(value, 1000, ("µs", "ms")) if value < 1e6 else f"{_digits(value / 1e6, 2)} s"
    if unit == "short":
        return _scaled(value, 1000, ("", "k", "M", "G", "T")).replace(" ", "")
    return f"{value:,.0f}" if float(value).is_integer() else _digits(value, 2)


def _digits(value: float, places: int) -> str:
    """Fewer places for large numbers, more for very small ones."""
    if value and abs(value) < 10**-places:
        return f"{value:.1g}" if abs(value) >= 1e-4 else f"{value:.0e}"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:,.{places}f}"


def _scaled(value: float, by: int, units: Sequence[str]) -> str:
    step = 0
    while abs(value) >= 0.9995 * by and step < len(units) - 1:
        value, step = value / by, step + 1
    whole = step == 0 and float(value).is_integer()
    text = f"{value:,.{0 if whole or abs(value) >= 99.95 else 1 if abs(value) >= 9.995 else 2}f}"
    return f"{text} {units[step]}".strip()


class Change(NamedTuple):
    """From before to after: as text, and whether it is better, worse or neither."""

    text: str
    verdict: str


def change(metric: str, before: float | None, after: float | None) -> Change:
    """How a metric has changed: in percent, shares in points."""
    if before is None or after is None:
        return Change("", "")
    difference, unit = after - before, METRICS[metric].unit
    if unit == "share":
        text = f"{100 * difference:+.1f} points"
    elif unit == "1 or 0":
        text = f"{difference:+.0f}" if difference else ""
    elif before:
        text = f"{100 * difference / before:+.1f} %"
    else:
        text = "from 0" if difference else "±0"
    if not difference:
        return Change(text and "unchanged", "")
    direction = METRICS[metric].direction
    better = difference < 0 if direction == "lower" else difference > 0
    return Change(text.replace("-", "−"), "" if direction == "neither" else "better" if better else "worse")


def visible(text: str, most: int = 300) -> str:
    """Text that somebody else wrote, not too long, its control characters made visible."""
    clipped = text if len(text) <= most else text[: most - 1] + "…"
    return clipped if clipped.isprintable() else "".join(map(_reveal, clipped))


def _reveal(letter: str) -> str:
    if ord(letter) < 0x20:
        return chr(0x2400 + ord(letter))
    turns = unicodedata.bidirectional(letter) in ("LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI")
    return "\ufffd" if turns or unicodedata.category(letter) == "Cc" else letter
