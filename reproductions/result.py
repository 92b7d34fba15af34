"""What an item of `python -m reproductions` returns, and the papers' numbers that it stands beside."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import NamedTuple, Protocol

import numpy as np

from overlace.model import Progress
from overlace.report.charts import Chart, Row


@dataclass(frozen=True)
class Result:
    """A table or figure made again: rows to read, charts to look at, and what comes out and what does not."""

    title: str
    rows: Sequence[Row]  # all with the same columns, in the order in which they are shown
    notes: Sequence[str] = ()
    charts: Sequence[Chart] = ()


class Item(Protocol):
    """A table or figure that can be made again."""

    def __call__(self, *, seeds: int | None = None, progress: Progress | None = None) -> Result:
        """Run it with seeds 0 to seeds - 1; None is what the published pages use."""


class Spread(NamedTuple):
    """Mean, least and greatest of one figure over its seeds, and its standard deviation."""

    mean: float
    low: float
    high: float
    deviation: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        """The spread of some values."""
        given = np.asarray(values, dtype=np.float64)
        deviation = float(given.std(ddof=1)) if len(given) > 1 else 0.0
        return cls(float(given.mean()), float(given.min()), float(given.max()), deviation)

    def __str__(self) -> str:
        return f"{self.mean:.4g} ± {self.deviation:.2g}"


def expected(key: str) -> dict[tuple[str, str, str], float]:
    """The numbers that a paper prints, by (table, row, column), from expected.csv in the folder of its key."""
    text = files("reproductions").joinpath(key, "expected.csv").read_text(encoding="utf-8")
    lines = (line for line in text.splitlines() if not line.startswith("#"))
    return {(row["table"], row["row"], row["column"]): float(row["value"]) for row in csv.DictReader(lines)}
