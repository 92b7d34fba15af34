"""Who is one client, and pseudonyms: by rule, on dictionaries."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from overlace.arrays.jit import Bools, Ints
from overlace.ingest.columns import Coded, Events, rename, unite_dictionaries
from overlace.matching.names import pseudonyms


def identify(events: Events, identity: str, crossing: Bools) -> Coded | None:
    """Settle who is one client; the connections that the rows are of, where several may be one client."""
    if identity == "client":
        return None
    rows = np.concatenate([np.arange(events.rows), np.repeat(np.arange(events.rows), np.diff(events.start))])
    before = _clients(events)
    at_broker = _at_broker(before, events.broker, rows)
    if identity == "broker/client":
        found = at_broker
    elif identity == "user":
        found = _users(events, before, at_broker, rows)
    else:
        found = rename(before, lambda names: extract_client(names, identity))
    _set_clients(events, found, crossing)
    return None if identity == "broker/client" else Coded(at_broker.codes[: events.rows], at_broker.names)


def _clients(events: Events) -> Coded:
    """Senders and receivers, one after the other."""
    return Coded(np.concatenate([events.client.codes, events.receivers.codes]), events.client.names)


def _set_clients(events: Events, found: Coded, crossing: Bools) -> None:
    """Put senders and receivers in their places; those of rows about bridges keep their names."""
    kept = np.append(crossing, np.zeros(len(events.receivers.codes), bool))
    both = _choose(kept, _clients(events), found)
    events.client = Coded(both.codes[: events.rows], both.names)
    events.receivers = Coded(both.codes[events.rows :], both.names)


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
    return rename(Coded(np.where(clients.codes < 0, -1, codes).astype(np.int32), joined), lambda each: each)


def _choose(kept: Bools, left: Coded, right: Coded) -> Coded:
    """Of some rows the names in one column, of the others those in another."""
    codes = np.where(kept, left.codes, np.where(right.codes < 0, -1, right.codes + len(left.names)))
    names = pa.concat_arrays([left.names, right.names])
    return rename(Coded(codes.astype(np.int32), names), lambda each: each)


def _users(events: Events, clients: Coded, otherwise: Coded, rows: Ints) -> Coded:
    """The users that clients were in some rows: as of their last connect, before the first as of that one.

    A client of whom no user is logged stays the client that it is at its broker.
    """
    connects = np.flatnonzero(events.is_kind("connect"))
    user = unite_dictionaries([events.table(connects)["user"].combine_chunks().dictionary_encode()])
    keys = (events.client.codes[connects].astype(np.int64) << 40) | events.offset[connects]
    order = np.argsort(keys, kind="stable")
    keys, named = keys[order], user.codes[order]
    client = clients.codes.astype(np.int64)
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
    _set_clients(events, rename(_clients(events), lambda names: pseudonyms(names, key)), crossing)
    events.broker = rename(events.broker, lambda names: pseudonyms(names, key))
    events.attribute = rename(events.attribute, lambda names: pseudonyms(names, key))
    events.topic = rename(events.topic, lambda names: pseudonyms(names, key, "/."))
