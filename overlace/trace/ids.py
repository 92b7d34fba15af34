"""Ids in the stored tables of a trace: 64-bit hashes of names, the same in every trace and for every order of logs.

`identity` is bit for bit Spark's `xxhash64(name)`, `xxhash64` its hash of longs; so an engine and this process give
the same ids, audiences and digests.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa
from xxhash import xxh64_intdigest

from overlace.arrays.hashing import Words, fold, xor_groups
from overlace.arrays.jit import Ints
from overlace.trace.tables import numbers

SEED = 42
"""Spark's."""

BITS = 64
"""Bits of an id that count; tests take fewer to make names collide."""

AUDIENCE_SALT = -0x61C8864680B583EB
"""The audience of no receivers; not 0, which marks receivers that were not logged."""


def identities(names: Iterable[str]) -> Ints:
    """The ids of names."""
    return (hashed(names, SEED) >> np.uint64(64 - BITS)).view(np.int64)


def hashed(names: Iterable[str], seed: int) -> Words:
    """A hash of each name."""
    return np.fromiter((xxh64_intdigest(name.encode(), seed) for name in names), np.uint64)


def xxhash64(values: Ints) -> Ints:
    """Spark's `xxhash64` of longs."""
    state = np.full(len(values), SEED, dtype=np.uint64)
    fold(state, np.ascontiguousarray(values, np.int64).view(np.uint64))
    return state.view(np.int64)


def audience_of(start: Ints, members: Ints) -> Ints:
    """The audience of each set of receivers members[start[i]:start[i + 1]], given by their ids in any order."""
    words = np.ascontiguousarray(members, np.int64).view(np.uint64)
    salt = np.uint64(AUDIENCE_SALT % 2**64)
    return xor_groups(np.asarray(start, np.int64), words, salt, np.uint64(SEED)).view(np.int64)


def hash_texts(words: pa.Array) -> Words:
    """Spark's `xxhash64` of strings; null is the seed."""
    coded = words.dictionary_encode()
    each = (xxh64_intdigest(word.encode(), SEED) for word in coded.dictionary.to_pylist())
    hashes = np.append(np.fromiter(each, np.uint64), np.uint64(SEED))
    return hashes[numbers(coded.indices, -1)]
