"""What every task of an ingest needs, and what it yields: a Job, and EVENT, one schema for all kinds of rows.

Names are 64-bit hashes, so that rows of any two tasks, sources and ingests are joined by them.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
from xxhash import xxh64_intdigest

from overlace.arrays.jit import Ints
from overlace.ingest.events import TIME
from overlace.ingest.sources import Source
from overlace.trace.ids import xxhash64

EVENT = pa.schema(
    [
        ("kind", pa.string()),  # message, counts, audience, set, name, seen, life, account
        ("what", pa.string()),  # of life: connect, ..., crossing, double; of a name: its kind; of an account: kept, ...
        ("source", pa.int64()),  # the file, by its fingerprint
        ("log", pa.int64()),  # what the file is a part of: a key names a message in it
        ("offset", pa.int64()),  # of the first line
        ("at", TIME),
        ("client", pa.int64()),
        ("broker", pa.int64()),
        ("topic", pa.int64()),
        ("bytes", pa.int64()),
        ("message", pa.int64()),  # the hash of log and key, or of source and offset where there is no key
        ("keyed", pa.bool_()),  # other fragments may be of the same message
        ("attributes", pa.int64()),  # the hash of a set
        ("audience", pa.int64()),  # the hash of the receivers; null: not logged
        ("members", pa.list_(pa.int64())),  # of an audience, a set or a crossing
        ("weight", pa.int64()),
        ("heard", pa.int64()),  # how many receivers
        ("rows", pa.int64()),  # of the source
        ("publishes", pa.int64()),  # of these, those that are no mere deliveries
        ("most", pa.int64()),  # receivers that one of them names, at most
        ("balance", pa.int64()),
        ("other", pa.int64()),  # the far end of a link; the connection of a session
        ("name", pa.string()),  # text of a name or a sample; a bridge's client as logged
        ("reason", pa.string()),
        ("filter", pa.string()),
        ("dialect", pa.string()),
        ("group", pa.string()),
        ("ends", pa.bool_()),
    ]
)
"""Rows of all kinds; a column that a kind does not have is null."""


@dataclass(frozen=True)
class Job:
    """What every task of one ingest needs."""

    sources: tuple[Source, ...] = ()
    identity: str = "client"
    keep_topics: bool = False
    key: bytes = field(default=b"", repr=False)  # for pseudonyms; none: names stay as they are
    predicates: tuple[str, ...] = ()  # filters that are the attributes of messages with content
    filters: str = ""  # where the content subscriptions are; none: messages are not matched
    meter: str = ""  # where tasks note how far they have read; none: they do not


ABSENT = np.iinfo(np.int64).max
"""Stands for null in a column of integers: the least of several values is one that is there."""


FEW = 64
"""Rows up to which columns of nulls are made once: of many small logs they are most of the work."""

_TYPES = [(each.name, each.type) for each in EVENT]
_few_nulls = lru_cache(maxsize=None)(pa.nulls)


def rows(kind: str, n: int, **columns: Any) -> pa.RecordBatch:
    """A batch of events; a column that is one value has it in every row, one that is not given is null."""
    given: dict[str, Any] = {"kind": kind, **columns}
    arrays = []
    for name, kind_of in _TYPES:
        values = given.get(name)
        if values is None:
            arrays.append(_few_nulls(n, kind_of) if n <= FEW else pa.nulls(n, kind_of))
        elif isinstance(values, pa.Array):
            arrays.append(values if values.type == kind_of else values.cast(kind_of))
        else:
            arrays.append(pa.repeat(pa.scalar(values, kind_of), n))
    return pa.RecordBatch.from_arrays(arrays, schema=EVENT)


def nullable(values: Ints) -> pa.Array:
    """Integers as a column, null where absent."""
    missing = values == ABSENT
    return pa.array(values, mask=missing) if missing.any() else pa.array(values)


def id_of(text: str) -> int:
    """The id of what is no name: a source, a log."""
    return int(np.uint64(xxh64_intdigest(text.encode(), 42)).astype(np.int64))


def place_ids(offset: Ints, source: int) -> Ints:
    """The ids of messages without a key: where they stand."""
    return xxhash64(offset ^ xxhash64(np.array([source]))[0])


def message_ids(words: Ints, log: int, key: bytes) -> Ints:
    """The ids of messages with keys, given as two words each; under a secret key where names are hidden."""
    if key:
        secret = hashlib.blake2b(key).digest()
        each = (hashlib.blake2b(row.tobytes(), digest_size=16, key=secret).digest() for row in words)
        words = np.frombuffer(b"".join(each), np.int64).reshape(-1, 2)
    return xxhash64(words[:, 0] ^ xxhash64(words[:, 1] ^ np.int64(log)))
