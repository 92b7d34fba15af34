"""What the batch function of routing hands on: integers that add up.

A partial row is (metric, scope, key, other, amount). The amounts of rows that agree in the first four
may be added in any order, by Spark's `groupBy`, by `add_up` or by both: the result is the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa

from overlace.arrays.csr import group
from overlace.arrays.jit import Ints
from overlace.trace.tables import arrow, numbers
from overlace.trace.traffic import add_up as add_rows

PARTIAL: pa.Schema = pa.schema(
    [
        pa.field("metric", pa.string(), nullable=False),
        pa.field("scope", pa.string(), nullable=False),
        pa.field("key", pa.int64(), nullable=False),
        pa.field("other", pa.int64(), nullable=False),
        pa.field("amount", pa.int64(), nullable=False),
    ]
)
"""What `Routing.partial` yields; `other` is -1 where a scope has one key."""


def _repeated(word: str, times: int) -> pa.Array:
    """One word, again and again."""
    text = word.encode()
    start = np.arange(times + 1, dtype=np.int32) * len(text)
    return pa.StringArray.from_buffers(times, pa.py_buffer(start), pa.py_buffer(text * times))


class Partials:
    """Sums under way to becoming one record batch; what is zero is left out."""

    def __init__(self) -> None:
        self._columns: list[list[pa.Array]] = [[] for _ in PARTIAL]

    def add(self, metric: str, scope: str, amount: Ints, key: Ints | None = None, other: Ints | None = None) -> None:
        """The amounts of keys 0, 1, ... unless the keys are given."""
        kept = np.flatnonzero(amount)
        keys = kept if key is None else key[kept]
        others = np.full(len(kept), -1) if other is None else other[kept]
        names = (_repeated(metric, len(kept)), _repeated(scope, len(kept)))
        numbers = (arrow(each, pa.int64()) for each in (keys, others, amount[kept]))
        for column, values in zip(self._columns, (*names, *numbers), strict=True):
            column.append(values)

    def batch(self) -> pa.RecordBatch:
        """All rows so far."""
        return pa.RecordBatch.from_arrays([pa.concat_arrays(parts) for parts in self._columns], schema=PARTIAL)


class Sums:
    """Partial rows added up, asked for by metric and scope."""

    def __init__(self, table: pa.Table) -> None:
        columns = {name: table[name].combine_chunks() for name in PARTIAL.names}
        self._numbers = tuple(numbers(columns[name]) for name in ("key", "other", "amount"))
        metric, scope = (columns[name].dictionary_encode() for name in ("metric", "scope"))
        self._metrics, self._scopes = metric.dictionary.to_pylist(), scope.dictionary.to_pylist()
        family = numbers(metric.indices).astype(np.int64) * len(self._scopes) + numbers(scope.indices)
        self._start, self._order = group(family, len(self._metrics) * len(self._scopes))

    def of(self, metric: str, scope: str) -> tuple[Ints, Ints, Ints]:
        """(key, other, amount), in order of the keys, each pair of keys once."""
        rows = self._order[:0]
        if metric in self._metrics and scope in self._scopes:
            family = self._metrics.index(metric) * len(self._scopes) + self._scopes.index(scope)
            rows = self._order[self._start[family] : self._start[family + 1]]
        key, other, amount = (column[rows] for column in self._numbers)
        (key, other), (amount,) = add_rows([key, other], [amount])
        return key, other, amount

    def dense(self, metric: str, scope: str, size: int) -> Ints:
        """The amounts of keys 0 to size - 1."""
        key, _, amount = self.of(metric, scope)
        values = np.zeros(size, dtype=np.int64)
        values[key] = amount
        return values

    def overall(self, metric: str) -> int:
        """The one amount of the whole trace."""
        return int(self.dense(metric, "overall", 1)[0])


def add_up(partials: Iterable[pa.RecordBatch]) -> Sums:
    """Add the amounts of rows that agree in metric, scope, key and other."""
    return Sums(pa.Table.from_batches(_conform(partials), schema=PARTIAL))


def _conform(partials: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same rows under exactly PARTIAL, whatever an engine in between made of their types."""
    for batch in partials:
        yield batch if batch.schema.equals(PARTIAL) else batch.select(PARTIAL.names).cast(PARTIAL)
