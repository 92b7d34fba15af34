"""Events of a split as columns, names as codes into dictionaries; keys of messages as two words a row."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from overlace.arrays.hashing import hash_groups, mix
from overlace.arrays.jit import Bools, Ints, kernel, size
from overlace.ingest.events import EVENT, NAME
from overlace.ingest.job import ABSENT

Codes = NDArray[np.int32]


class Coded(NamedTuple):
    """A column of names: codes into `names`, -1 for none."""

    codes: Codes
    names: pa.Array


def unite_dictionaries(chunks: Sequence[pa.Array]) -> Coded:
    """Chunks of a dictionary-encoded column under one dictionary."""
    if not chunks:
        return Coded(np.empty(0, np.int32), pa.array([], pa.string()))
    names = pc.unique(pa.concat_arrays([chunk.dictionary.cast(pa.string()) for chunk in chunks])).drop_null()
    parts = []
    for chunk in chunks:
        to = pc.index_in(chunk.dictionary.cast(pa.string()), value_set=names).fill_null(-1)
        to = np.append(to.to_numpy(zero_copy_only=False), -1).astype(np.int32)
        indices = chunk.indices
        codes = indices.fill_null(len(to) - 1) if indices.null_count else indices
        parts.append(to[codes.to_numpy(zero_copy_only=False)])
    return Coded(np.concatenate(parts), names)


def rename(column: Coded, change: Callable[[pa.Array], pa.Array]) -> Coded:
    """The same column with names changed by a rule; names that become equal are one."""
    changed = change(column.names)
    names = pc.unique(changed).drop_null()
    to = pc.index_in(changed, value_set=names).fill_null(-1).to_numpy(zero_copy_only=False)
    return Coded(np.append(to, -1).astype(np.int32)[column.codes], names)


def decode(column: Coded) -> pa.Array:
    """The names of the codes, null for -1."""
    mask = column.codes < 0
    indices = pa.array(column.codes, mask=mask) if mask.any() else pa.array(column.codes)
    return pa.DictionaryArray.from_arrays(indices, column.names).cast(pa.string())


class Events:
    """The events of a split as columns, names as codes."""

    def __init__(self, batches: Sequence[pa.RecordBatch]) -> None:
        self.batches = batches
        self.rows = sum(batch.num_rows for batch in batches)
        self.offset, self.at, self.bytes = (self.integers(name) for name in ("offset", "at", "bytes"))
        self.balance = self.integers("balance")
        self.weight, self.lines = (self.integers(name, 1) for name in ("weight", "rows"))
        self.kind, self.topic, self.broker = (
            unite_dictionaries(self._chunks(name)) for name in ("kind", "topic", "broker")
        )
        lists = self._chunks("receivers")
        both = unite_dictionaries([*self._chunks("client"), *(each.flatten() for each in lists)])
        self.client = Coded(both.codes[: self.rows], both.names)
        self.receivers = Coded(both.codes[self.rows :], both.names)
        self.logged, self.start = self._lists(lists)
        sets = self._chunks("attributes")
        self.attribute = unite_dictionaries([each.flatten() for each in sets])
        self.described, self.sets_start = self._lists(sets)

    def _chunks(self, name: str) -> list[pa.Array]:
        return [batch[name] for batch in self.batches]

    def integers(self, name: str, default: int = 0) -> Ints:
        """A column of integers; what is null has the default."""
        parts = []
        for batch in self.batches:
            values = batch[name]
            if values.null_count == len(values):
                parts.append(np.full(len(values), default, np.int64))
                continue
            values = values.cast(pa.int64()) if values.type != pa.int64() else values
            parts.append((values.fill_null(default) if values.null_count else values).to_numpy(zero_copy_only=False))
        return np.concatenate(parts) if parts else np.empty(0, np.int64)

    def _lists(self, lists: Sequence[pa.Array]) -> tuple[Bools, Ints]:
        """(there, start) of lists, one after the other."""
        there = [~np.asarray(each.is_null().to_numpy(zero_copy_only=False), bool) for each in lists]
        sizes = [pc.fill_null(pc.list_value_length(each), 0).to_numpy(zero_copy_only=False) for each in lists]
        start = np.zeros(self.rows + 1, np.int64)
        if sizes:
            np.cumsum(np.concatenate(sizes), out=start[1:])
        return (np.concatenate(there) if there else np.empty(0, bool)), start

    def is_kind(self, *kinds: str) -> Bools:
        """Which rows are of one of these kinds."""
        wanted = np.array([name in kinds for name in self.kind.names.to_pylist()], bool)
        if wanted.all() or not wanted.any():
            return np.full(self.rows, bool(len(wanted) and wanted[0]))
        found: Bools = wanted[self.kind.codes]
        return found

    def keys(self) -> tuple[Ints, Bools]:
        """(words, there): the keys of messages, two words a row."""
        words, there = np.zeros((self.rows, 2), np.int64), np.zeros(self.rows, bool)
        at = 0
        for batch in self.batches:
            column = batch["message"]
            if column.null_count < len(column):
                there[at : at + len(column)] = ~np.asarray(column.is_null().to_numpy(zero_copy_only=False), bool)
                raw = np.frombuffer(column.buffers()[1], np.int64).reshape(-1, 2)
                words[at : at + len(column)] = raw[column.offset : column.offset + len(column)]
            at += len(column)
        return words, there

    def crossing(self) -> Bools:
        """Rows about bridges: a bridge is no client, its ends are joined by its name."""
        flags = self.is_kind("bridge")
        at = 0
        for batch in self.batches:
            reason = batch["reason"]
            if reason.null_count < len(reason):
                about = pc.fill_null(pc.equal(reason, "bridge"), False).to_numpy(zero_copy_only=False)
                flags[at : at + len(reason)] |= about
            at += len(reason)
        return flags

    def table(self, rows: Ints) -> pa.Table:
        """Some rows as a table, as they came."""
        whole = pa.Table.from_batches([batch.select(_TEXT) for batch in self.batches]) if self.batches else None
        return whole.take(pa.array(rows)) if whole is not None else EVENT.empty_table().select(_TEXT)


_TEXT = [each.name for each in EVENT if each.type != NAME and each.type != pa.list_(NAME)]


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


class Once:
    """What a split has listed, with when each first came up.

    It is known by another hash than its id: two things of one id are both listed, for the engine to refuse.
    """

    def __init__(self) -> None:
        self.listed, self.first = np.empty(0, np.int64), np.empty(0, np.int64)

    def fresh(self, hashes: Ints, first: Ints) -> Ints:
        """Places of the hashes, each given once, that were not listed yet, or only with a later time."""
        place = np.searchsorted(self.listed, hashes)
        known = (np.append(self.listed, 0)[place] == hashes) & (place < len(self.listed))
        earlier = known & (first < np.append(self.first, 0)[place])
        self.first[place[earlier]] = first[earlier]
        if not known.all():
            every = np.concatenate([self.listed, hashes[~known]])
            order = np.argsort(every, kind="stable")
            self.listed, self.first = every[order], np.concatenate([self.first, first[~known]])[order]
        found: Ints = np.flatnonzero(~known | earlier)
        return found


def runs_of(*columns: Ints) -> Ints:
    """Where a row differs from the one before it."""
    differs = np.zeros(len(columns[0]), bool)
    differs[:1] = True
    for each in columns:
        differs[1:] |= each[1:] != each[:-1]
    return np.flatnonzero(differs)


def first_of(codes: Ints | Codes, at: Ints, names: int) -> Ints:
    """The least time of each code; ABSENT where it has none."""
    first = np.full(names + 1, ABSENT)
    np.minimum.at(first, codes, at)
    return first[:-1]
