"""Digests of tables: the same for the same rows in any order, in this process and in an engine.

The hash of a row is xxhash64 over the xxhash64 of each of its columns, as Spark has it (null is its seed); the digest
of a table is the sum of its rows' hashes modulo 2**64, so digests of parts add up.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from overlace.arrays.hashing import Words, fold, fold_groups
from overlace.trace.ids import SEED, hash_texts
from overlace.trace.tables import groups, numbers, schema_of


def digest(rows: pa.Table) -> tuple[int, int]:
    """(rows, hash) of a table whose columns are in the order of its schema."""
    state = np.full(rows.num_rows, SEED, np.uint64)
    for column in rows.columns if rows.num_rows else ():
        fold(state, _words(column.combine_chunks()))
    return rows.num_rows, int(state.sum(dtype=np.uint64))


def digest_columns(table: str) -> list[str]:
    """What Spark SQL computes the same of: count, and the sums of the low and the high half of each row's hash."""
    columns = []
    for each in schema_of(table):
        whole = pa.types.is_integer(each.type) or pa.types.is_boolean(each.type)
        columns.append(f"xxhash64(cast(`{each.name}` AS bigint))" if whole else f"xxhash64(`{each.name}`)")
    row = f"xxhash64({', '.join(columns)})"
    return ["count(*)", f"sum({row} & 4294967295L)", f"sum(shiftrightunsigned({row}, 32))"]


def digest_of(rows: int, low: int | None, high: int | None) -> tuple[int, int]:
    """(rows, hash) from the sums that digest_columns asks for."""
    return rows, ((low or 0) + ((high or 0) << 32)) % 2**64


def _words(values: pa.Array) -> Words:
    """The xxhash64 of each value; null is the seed."""
    if pa.types.is_string(values.type):
        return hash_texts(values)
    if pa.types.is_list(values.type):
        start, members = groups(values)
        return fold_groups(start, members.astype(np.int64, copy=False).view(np.uint64), np.uint64(SEED))
    if pa.types.is_floating(values.type):
        plain = numbers(values, 0).astype(np.float64) + 0.0  # no negative zero
        plain = np.where(np.isnan(plain), np.nan, plain)
    else:
        plain = numbers(values, 0).astype(np.int64)
    words = np.full(len(values), SEED, np.uint64)
    fold(words, plain.view(np.uint64))
    return np.where(numbers(values.is_null()), np.uint64(SEED), words) if values.null_count else words
