"""Events of a split as columns, names as codes: who is one client, pseudonyms, and keys as two words a row."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from overlace.arrays.csr import take_groups
from overlace.arrays.hashing import hash_groups, mix
from overlace.arrays.jit import Bools, Ints, kernel, size
from overlace.ingest.events import EVENT, NAME, in_one_piece
from overlace.ingest.job import ABSENT
from overlace.matching.names import pseudonyms

Codes = NDArray[np.int32]


class Coded(NamedTuple):
    """A column of names: codes into `names`, -1 for none."""

    codes: Codes
    names: pa.Array

    def at(self, rows: Ints | slice) -> Coded:
        """Those of some rows."""
        return Coded(self.codes[rows], self.names)

    def text(self) -> pa.Array:
        """The names of the codes, null for -1."""
        missing = self.codes < 0
        return self.names.take(pa.array(self.codes, mask=missing) if missing.any() else pa.array(self.codes))


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


def rename(column: Coded, change: Callable[[pa.Array], pa.Array] = lambda names: names) -> Coded:
    """The same column with names changed by a rule; names that are then equal are one."""
    changed = change(column.names)
    names = pc.unique(changed).drop_null()
    to = pc.index_in(changed, value_set=names).fill_null(-1).to_numpy(zero_copy_only=False)
    return Coded(np.append(to, -1).astype(np.int32)[column.codes], names)


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
        self.clients = unite_dictionaries([*self._chunks("client"), *(each.flatten() for each in lists)])
        self.logged, self.start = self._lists(lists)
        sets = self._chunks("attributes")
        self.attribute = unite_dictionaries([each.flatten() for each in sets])
        self.described, self.sets_start = self._lists(sets)

    @property
    def client(self) -> Coded:
        """Of `clients`, who are the senders and then all receivers, the senders."""
        return self.clients.at(slice(self.rows))

    @property
    def receivers(self) -> Coded:
        """Those of row i are at start[i]:start[i + 1]."""
        return self.clients.at(slice(self.rows, None))

    def receivers_of(self, rows: Ints) -> tuple[Ints, Ints]:
        """(start, codes) of the receivers of some rows."""
        return take_groups(self.start, self.receivers.codes.astype(np.int64), rows)

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

    def table(self, rows: Ints) -> dict[str, pa.Array]:
        """The columns of some rows that are no names, as they came."""
        batches = [batch.select(_TEXT.names) for batch in self.batches]
        whole = pa.Table.from_batches(batches, _TEXT).take(pa.array(rows))
        return {name: in_one_piece(whole[name]) for name in _TEXT.names}


_TEXT = pa.schema([each for each in EVENT if each.type not in (NAME, pa.list_(NAME))])


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


# --- who is one client -------------------------------------------------------------------------------------


def identify(events: Events, identity: str, crossing: Bools) -> Coded | None:
    """Settle who is one client; the connections that the rows are of, where several may be one client."""
    if identity == "client":
        return None
    rows = np.concatenate([np.arange(events.rows), np.repeat(np.arange(events.rows), np.diff(events.start))])
    at_broker = _at_broker(events.clients, events.broker, rows)
    if identity == "broker/client":
        found = at_broker
    elif identity == "user":
        found = _users(events, at_broker, rows)
    else:
        found = rename(events.clients, lambda names: extract_client(names, identity))
    _set_clients(events, found, crossing)
    return None if identity == "broker/client" else at_broker.at(slice(events.rows))


def _set_clients(events: Events, found: Coded, crossing: Bools) -> None:
    """Put senders and receivers in their places; those of rows about bridges keep their names."""
    kept = np.append(crossing, np.zeros(len(events.receivers.codes), bool))
    events.clients = _choose(kept, events.clients, found)


def _at_broker(clients: Coded, broker: Coded, rows: Ints) -> Coded:
    """Names of clients that are their own only at the broker of their row."""
    if len(clients.names) == 0:
        return clients
    where = broker.codes[rows].astype(np.int64)
    pair = np.where(clients.codes < 0, -1, (where + 1) * len(clients.names) + clients.codes)
    used, codes = np.unique(pair, return_inverse=True)
    at, client = np.divmod(np.maximum(used, 0), len(clients.names))
    names = clients.names.take(pa.array(client))
    brokers = broker.names.take(pa.array(at - 1, mask=at < 1))
    joined = pc.coalesce(pc.binary_join_element_wise(brokers, names, "/"), names).cast(pa.string())
    return rename(Coded(np.where(clients.codes < 0, -1, codes).astype(np.int32), joined))


def _choose(kept: Bools, left: Coded, right: Coded) -> Coded:
    """Of some rows the names in one column, of the others those in another."""
    codes = np.where(kept, left.codes, np.where(right.codes < 0, -1, right.codes + len(left.names)))
    return rename(Coded(codes.astype(np.int32), pa.concat_arrays([left.names, right.names])))


def _users(events: Events, otherwise: Coded, rows: Ints) -> Coded:
    """The users that clients were in some rows: as of their last connect, before the first as of that one.

    A client of whom no user is logged stays the client that it is at its broker.
    """
    connects = np.flatnonzero(events.is_kind("connect"))
    user = unite_dictionaries([events.table(connects)["user"].dictionary_encode()])
    keys = (events.client.codes[connects].astype(np.int64) << 40) | events.offset[connects]
    order = np.argsort(keys, kind="stable")
    keys, named = keys[order], user.codes[order]
    client = events.clients.codes.astype(np.int64)
    last = np.searchsorted(keys, (client << 40) | events.offset[rows], side="right") - 1
    owner = np.append(keys >> 40, -2)
    place = np.where(owner[last] == client, last, last + 1)
    codes = np.where(owner[place] == client, np.append(named, -1)[place], -1).astype(np.int32)
    return _choose(codes >= 0, Coded(codes, user.names), otherwise)


def extract_client(names: pa.Array, pattern: str) -> pa.Array:
    """The part of each name that the pattern names `client`, or the whole name where it does not match."""
    found = pc.extract_regex(names, pattern if "(?P<" in pattern else f"(?P<client>{pattern})")
    part = found.field("client") if found.type.get_field_index("client") >= 0 else found.field(0)
    return pc.if_else(found.is_valid(), part, names)


def hide_names(events: Events, key: bytes, crossing: Bools) -> None:
    """Put pseudonyms in the place of names."""
    _set_clients(events, rename(events.clients, lambda names: pseudonyms(names, key)), crossing)
    events.broker = rename(events.broker, lambda names: pseudonyms(names, key))
    events.attribute = rename(events.attribute, lambda names: pseudonyms(names, key))
    events.topic = rename(events.topic, lambda names: pseudonyms(names, key, "/."))


# --- what was listed ---------------------------------------------------------------------------------------


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
