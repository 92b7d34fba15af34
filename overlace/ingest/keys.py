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


@kernel(work=size)
def group_keys(high: Ints, low: Ints, there: Bools) -> tuple[Ints, Ints]:
    """(group, first): rows of one key are one group, numbered as they come up, a row without a key is its own."""
    n = len(high)
    group = np.empty(n, dtype=np.int64)
    first = np.empty(n, dtype=np.int64)
    size = 1024
    slot = np.full(size, -1, dtype=np.int64)
    groups = 0
    held = 0  # groups with a key
    for i in range(n):
        if i and there[i] and there[i - 1] and high[i] == high[i - 1] and low[i] == low[i - 1]:
            group[i] = group[i - 1]
            continue
        if not there[i]:
            first[groups] = i
            group[i] = groups
            groups += 1
            continue

        if 2 * held >= size:  # a larger table, all groups put in anew
            size *= 4
            slot = np.full(size, -1, dtype=np.int64)
            for g in range(groups):
                if there[first[g]]:
                    at = np.int64(mix(np.uint64(high[first[g]])) & np.uint64(size - 1))
                    while slot[at] >= 0:
                        at = (at + 1) & (size - 1)
                    slot[at] = g

        at = np.int64(mix(np.uint64(high[i])) & np.uint64(size - 1))
        found = -1
        while slot[at] >= 0:
            g = slot[at]
            if high[first[g]] == high[i] and low[first[g]] == low[i]:
                found = g
                break
            at = (at + 1) & (size - 1)
        if found < 0:
            found = groups
            slot[at] = groups
            first[groups] = i
            groups += 1
            held += 1
        group[i] = found
    return group, first[:groups].copy()
