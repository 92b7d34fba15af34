"""Matching and covering of content filters (§2.1), on quotes by chance.

The thesis takes the definitions from SIENA and prints no figures. Filters are drawn as for benchmarks/matching.md,
which has real quotes and more rivals.
"""

from __future__ import annotations

import time
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from overlace.arrays.jit import Floats
from overlace.matching.content.boxes import Vocabulary, encode
from overlace.matching.content.columns import Columns
from overlace.matching.content.covering import CoverIndex
from overlace.matching.content.filters import Constraint, Filter
from overlace.matching.content.lookup import MatchedFilters, scan
from overlace.matching.content.matcher import Matcher
from overlace.matching.content.rows import Reader
from overlace.model import Progress
from overlace.report.charts import Row
from reproductions.result import Measured, item

NUMBERS = ("open", "high", "low", "close", "volume")
SIZES = (1_000, 10_000, 100_000)
SYMBOLS, DAYS, MESSAGES = 100, 500, 400
OURS, LOOP, COUNT, KIND = "matcher, us a message", "one by one, us a message", "filters", "filters are"


class Drawn(NamedTuple):
    """How filters are drawn: whether each names a symbol, how many ranges, how wide (share of the values)."""

    named: bool
    ranges: tuple[int, int]
    width: tuple[float, float]


WORKLOADS = {
    "selective, few matches": Drawn(True, (1, 4), (0.0, 0.1)),
    "selective, many matches": Drawn(True, (0, 4), (0.0, 0.3)),
    "broad": Drawn(False, (1, 3), (0.1, 0.35)),
}


def draw_quotes(symbols: int, days: int, seed: int) -> pa.Table:
    """Quotes of each symbol for each day: prices that walk at random."""
    draw = np.random.default_rng(seed)
    close = draw.lognormal(3, 1, symbols) * np.exp(np.cumsum(draw.normal(0, 0.03, (days, symbols)), axis=0))
    prices = [np.round(close * np.exp(draw.normal(0, 0.02, close.shape)), 2).ravel() for _ in range(3)]
    volume = np.round(draw.lognormal(12, 1, symbols) * draw.lognormal(0, 0.5, (days, symbols)), -2)
    names = [f"S{each:03}" for each in range(symbols)] * days
    columns = (*prices, np.round(close, 2).ravel(), volume.ravel())
    return pa.table({"symbol": names, **dict(zip(NUMBERS, columns, strict=True))})


def draw_filters(quotes: pa.Table, drawn: Drawn, count: int, seed: int) -> list[Filter]:
    """Random conjunctions whose ranges lie between quantiles of the values of their symbol, or of all."""
    draw = np.random.default_rng(seed)
    symbol = np.array(quotes["symbol"].to_pylist())
    symbols = np.unique(symbol).tolist()
    sorted_values: dict[tuple[str, str], Floats] = {}
    made: list[Filter] = []
    for _ in range(count):
        own = symbols[draw.integers(len(symbols))] if drawn.named else ""
        constraints = [Constraint("symbol", "=", own)] if own else []
        for name in draw.permutation(NUMBERS)[: draw.integers(drawn.ranges[0], drawn.ranges[1] + 1)].tolist():
            if (own, name) not in sorted_values:
                values = quotes[name].to_numpy()
                sorted_values[own, name] = np.sort(values[symbol == own] if own else values)
            values = sorted_values[own, name]
            width = draw.uniform(*drawn.width)
            low = draw.uniform(0, 1 - width) * (len(values) - 1)
            constraints.append(Constraint(name, ">=", values[int(low)]))
            constraints.append(Constraint(name, "<=", values[int(low + width * (len(values) - 1))]))
        made.append(tuple(constraints))
    return made


def match_one_by_one(filters: list[Filter], columns: Columns) -> tuple[MatchedFilters, float]:
    """(what each message matches, microseconds a message), by a compiled loop over all filters."""
    vocabulary = Vocabulary()
    boxes = encode(enumerate(filters), vocabulary)
    reader = Reader(vocabulary)
    kept = np.ones(len(boxes.ids), np.bool_)
    (rows,) = reader.read(columns, reader.distinct(columns))
    scan(boxes, kept, rows)
    start = time.process_time()
    found = scan(boxes, kept, rows)
    return found, 1e6 * (time.process_time() - start) / columns.rows


def match_together(matcher: Matcher, columns: Columns) -> tuple[MatchedFilters, float]:
    """The same by the matcher; the least of several runs."""
    taken = []
    for _ in range(5):
        start = time.process_time()
        found = matcher.match(columns)
        taken.append(time.process_time() - start)
    return found, 1e6 * min(taken) / columns.rows


def _figures(measured: Measured, _: int) -> dict[str, object]:
    largest = max(int(str(row[COUNT])) for row in measured.rows)
    rows = [row for row in measured.rows if int(str(row[COUNT])) == largest]
    selective = [row for row in rows if row[KIND] != "broad"]
    (broad,) = (row for row in rows if row[KIND] == "broad")
    return {
        "selective": f"{min(_ratio(row) for row in selective):.0f}",
        "broad": f"{_ratio(broad):.0f}",
        "memory": f"{max(float(str(row['MB'])) for row in rows):.0f}",
        "roots": f"{min(int(str(row['not covered'])) for row in selective):,}",
        "most_roots": f"{max(int(str(row['not covered'])) for row in selective):,}",
        "largest": f"{largest:,}",
    }


def _ratio(row: Row) -> float:
    return float(str(row[LOOP])) / float(str(row[OURS]))


def measure(sizes: tuple[int, ...], messages: int, progress: Progress) -> list[Row]:
    """A row for each workload and size. Answers of both ways are compared before anything is said about time."""
    quotes = draw_quotes(SYMBOLS, DAYS, 0)
    columns = Columns.from_batch(quotes.take(np.random.default_rng(0).permutation(len(quotes))[:messages]))
    rows: list[Row] = []
    for name, drawn in WORKLOADS.items():
        for count in sizes:
            progress(len(rows) / (len(WORKLOADS) * len(sizes)), f"{name}, {count:,} filters")
            filters = draw_filters(quotes, drawn, count, 0)
            matcher = Matcher(filters)
            expected, loop = match_one_by_one(filters, columns)
            found, ours = match_together(matcher, columns)
            same = np.array_equal(found.start, expected.start) and np.array_equal(found.ids, expected.ids)
            rows.append(
                {
                    KIND: name,
                    COUNT: count,
                    "matches a message": len(found.ids) / messages,
                    LOOP: round(loop, 2),
                    OURS: round(ours, 2),
                    "same answers": same,
                    "MB": round(matcher.nbytes / 1e6, 2),
                    "not covered": len(CoverIndex(filters).roots) if drawn.named else None,
                }
            )
    return rows


@item("part10/matching", "Content filters: matching and covering", figures=_figures)
def matching(_: int, progress: Progress) -> Measured:
    """Match quotes against up to 100,000 filters, one by one and together."""
    return Measured(measure(SIZES, MESSAGES, progress))
