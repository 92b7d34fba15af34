"""What an item of `python -m reproductions` is, and the papers' numbers that ours are compared with.

An item measures rows and charts. What its page says about them stands in KEY/NAME.notes.md, where a figure of ours is
written as {name} and computed from the rows, so that no changed search makes a sentence false in silence.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from typing import NamedTuple, Protocol

import numpy as np

from overlace.model import Planner, Progress
from overlace.report.charts import Chart, Row


class FrozenPlanner(Planner, Hashable, Protocol):
    """A planner by which results can be kept: the same parameters, the same planner."""


class Measured(NamedTuple):
    """What a run gives: rows to read, charts to look at, and facts for the notes that stand in no row."""

    rows: Sequence[Row]  # all with the same columns, in the order in which they are shown
    charts: Sequence[Chart] = ()
    facts: Mapping[str, str] = {}


@dataclass(frozen=True)
class Result:
    """A table or figure made again, with what its page says about it."""

    title: str
    rows: Sequence[Row]
    notes: Sequence[str] = ()
    charts: Sequence[Chart] = ()
    facts: Mapping[str, str] = field(default_factory=dict)


Figures = Callable[[Measured, int], Mapping[str, object]]
"""What the {names} in an item's notes stand for: computed from what was measured, and the number of seeds."""


@dataclass(frozen=True)
class Item:
    """A table or figure that can be made again."""

    path: str  # KEY/NAME
    title: str
    measure: Callable[[int, Progress], Measured]
    seeds: int  # as published; 0: each row has its own number
    figures: Figures
    template: str  # KEY/NAME of its notes

    def __call__(self, *, seeds: int | None = None, progress: Progress | None = None) -> Result:
        """Run it with seeds 0 to seeds - 1; None is what the published pages use."""
        count = seeds or self.seeds
        measured = self.measure(count, progress or (lambda share, what: None))
        return self.result(measured, count)

    def result(self, measured: Measured, seeds: int) -> Result:
        """What was measured, with the notes that follow from it."""
        return Result(self.title, measured.rows, self.notes(measured, seeds), measured.charts, measured.facts)

    def notes(self, measured: Measured, seeds: int) -> list[str]:
        """The notes, with the figures filled in; a note that is one {name} may become several, or none."""
        key = self.path.partition("/")[0]
        shared = dict(note.split(": ", 1) for note in read_notes(f"{key}/shared"))
        values = {"seeds": seeds, "last": seeds - 1, **shared, **measured.facts, **self.figures(measured, seeds)}
        notes: list[str] = []
        for note in read_notes(self.template):
            value = values.get(note[1:-1])
            notes += value if isinstance(value, list) else [note.format_map(values)]
        return notes


def item(
    path: str, title: str, *, seeds: int = 0, figures: Figures = lambda measured, seeds: {}, template: str = ""
) -> Callable[[Callable[[int, Progress], Measured]], Item]:
    """Make an item of a function that measures."""
    return lambda measure: Item(path, title, measure, seeds, figures, template or path)


def by_name(*items: Item) -> dict[str, Item]:
    """Items by their names, without the paper's key."""
    return {each.path.partition("/")[2]: each for each in items}


def read_notes(path: str) -> list[str]:
    """The notes in KEY/NAME.notes.md: what follows each `- `, on one line or several."""
    file = files("reproductions").joinpath(f"{path}.notes.md")
    if not file.is_file():
        return []
    _, *notes = f"\n{file.read_text(encoding='utf-8')}".split("\n- ")
    return [" ".join(note.split()) for note in notes]


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


def mean_in(text: object) -> float:
    """The mean in a cell that holds a spread: 12.3 ± 4."""
    return float(str(text).partition(" ±")[0].replace(",", ""))


def words(names: Sequence[str], none: str = "none") -> str:
    """A list in words: a, b and c."""
    *most, last = names or [none]
    return f"{', '.join(most)} and {last}" if most else last


def expected(key: str) -> dict[tuple[str, str, str], float]:
    """The numbers that a paper prints, by (table, row, column), from expected.csv in the folder of its key."""
    text = files("reproductions").joinpath(key, "expected.csv").read_text(encoding="utf-8")
    lines = (line for line in text.splitlines() if not line.startswith("#"))
    return {(row["table"], row["row"], row["column"]): float(row["value"]) for row in csv.DictReader(lines)}
