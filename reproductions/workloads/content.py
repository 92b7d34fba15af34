"""Content to try things on: stock quotes by chance, and filters on what messages say.

Filters are conjunctions. A selective one names a symbol, popular ones more often (Zipf), and up to four ranges between
quantiles of that symbol's own values; a broad one has one to three ranges between quantiles of all values. Bounds are
deciles, as people choose round numbers: so filters have constraints in common.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from overlace.matching.content.columns import Columns
from overlace.matching.content.constraints import Constraint, Filter

NUMBERS = ("open", "high", "low", "close", "volume")
"""The attributes of a quote that are numbers."""

DECILES = np.arange(1, 10) / 10


def quotes(symbols: int = 10, days: int = 50, seed: int = 0) -> pa.Table:
    """Quotes of each symbol for each day, in order of time: prices that walk at random, and volumes."""
    rng = np.random.default_rng(seed)
    start = rng.lognormal(2.5, 1.0, symbols)
    close = start * np.exp(np.cumsum(rng.normal(0, 0.03, (days, symbols)), axis=0))
    spread = np.exp(np.abs(rng.normal(0, 0.02, (2, days, symbols))))
    opened = close * np.exp(rng.normal(0, 0.02, (days, symbols)))
    volume = rng.lognormal(12, 1.0, symbols) * rng.lognormal(0, 0.5, (days, symbols))
    first = datetime.date(2004, 1, 1)
    dates = [(first + datetime.timedelta(days=day)).strftime("%d-%b-%y") for day in range(days)]
    return pa.table(
        {
            "symbol": [f"S{i:03}" for i in range(symbols)] * days,
            "open": np.round(opened, 2).ravel(),
            "high": np.round(np.maximum(opened, close) * spread[0], 2).ravel(),
            "low": np.round(np.minimum(opened, close) / spread[1], 2).ravel(),
            "close": np.round(close, 2).ravel(),
            "volume": np.round(volume, -2).ravel(),
            "date": np.repeat(dates, symbols).tolist(),
        }
    )


def content_filters(
    columns: Columns, count: int, selective: float = 1.0, zipf: float = 1.0, seed: int = 0
) -> list[Filter]:
    """So many filters on quotes, a share of them selective; popularity falls as rank to the power of -zipf."""
    rng = np.random.default_rng(seed)
    symbol = columns.columns["symbol"]
    used = np.unique(symbol.codes)
    popular = rng.permutation(used[used >= 0])
    weight = np.arange(1, len(popular) + 1) ** -zipf
    own = {int(code): _deciles(columns, np.flatnonzero(symbol.codes == code)) for code in popular}
    every = _deciles(columns, np.arange(columns.rows))
    found: list[Filter] = []
    for narrow in rng.random(count) < selective:
        if narrow:
            code = int(rng.choice(popular, p=weight / weight.sum()))
            named = Constraint("symbol", "=", symbol.words[code].as_py())
            found.append((named, *_ranges(rng, own[code], int(rng.integers(0, 5)))))
        else:
            found.append(_ranges(rng, every, int(rng.integers(1, 4))))
    return found


def _deciles(columns: Columns, rows: np.ndarray[tuple[int], np.dtype[np.int64]]) -> dict[str, list[float]]:
    """The deciles of each number among some messages."""
    values = {name: columns.columns[name].numbers[rows] for name in NUMBERS if name in columns.columns}
    return {name: np.nanquantile(each, DECILES, method="nearest").tolist() for name, each in values.items()}


def _ranges(rng: np.random.Generator, deciles: dict[str, list[float]], count: int) -> Filter:
    """Ranges on so many attributes, each from one decile to another or open on one side."""
    found: list[Constraint] = []
    for name in rng.permutation(sorted(deciles))[:count].tolist():
        low, high = np.sort(rng.choice(11, 2, replace=False)).tolist()  # 0 and 10: open
        if low > 0 or high == 10:
            found.append(Constraint(name, ">=", deciles[name][max(low, 1) - 1]))
        if high < 10:
            found.append(Constraint(name, "<=", deciles[name][high - 1]))
    return tuple(found)


def quote_columns(table: pa.Table, names: Sequence[str] = ("symbol", *NUMBERS)) -> Columns:
    """Quotes as messages with the attributes that filters name."""
    return Columns.from_batch(table, [name for name in names if name in table.column_names])
