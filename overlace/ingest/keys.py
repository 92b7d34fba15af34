"""Keys: two words a row that say which rows are one message."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from overlace.arrays.hashing import hash_groups, mix
from overlace.arrays.jit import Bools, Ints, kernel, size
from overlace.ingest.coded import Coded, Events


def keys_of(events: Events, fields: Sequence[str]) -> tuple[Ints, Bools]:
    """(words, there): keys made of some columns."""
    words = np.empty((events.rows, 2), np.int64)
    columns: list[Ints] = []
    for name in fields:
        if name in ("client", "topic", "broker"):
            column: Coded = getattr(events, name)
            hashes = np.append(_name_hashes(column.names), 0)
            columns.append(hashes[column.codes])
        elif name in ("at", "bytes", "weight"):
            columns.append(getattr(events, name))
        elif name == "key":
            own, _ = events.keys()
            columns += [own[:, 0], own[:, 1]]
        else:
            start, codes = events.start, np.append(_name_hashes(events.receivers.names), 0)[events.receivers.codes]
            columns.append(hash_groups(start, codes))
    for seed in range(2):
        state = np.full(events.rows, seed + 1, np.int64)
        for each in columns:
            fold(state, np.ascontiguousarray(each, np.int64))
        words[:, seed] = state
    return words, np.ones(events.rows, bool)


@kernel(work=size)
def fold(state: Ints, words: Ints) -> None:
    """Fold one column into the running hash of each row, in place."""
    for i in range(len(state)):
        state[i] = np.int64(mix(np.uint64(state[i]) ^ np.uint64(words[i])))


def _name_hashes(names: pa.Array) -> Ints:
    each = [hashlib.blake2b(name.encode(), digest_size=8).digest() for name in names.to_pylist()]
    return np.frombuffer(b"".join(each), dtype=np.int64)
