"""Who receives, by wildcard subscriptions: filters of MQTT and NATS against topic names.

MQTT 5 §4.7: levels between '/', `+` is one level, `#` the rest and also its parent; a filter that begins
with a wildcard leaves out topics that begin with `$`. NATS: tokens between '.', `*` is one token, `>` at
least one; a subject with an empty token reaches nobody.

The filters of a dialect become one trie, every topic walks down it once, and what is found is written
straight to its place, so that the cost follows topics and matches, not topics x filters.

Keeps: pairs are sorted and distinct; a malformed filter and an empty topic match nothing; `collapse` twice
is `collapse` once; filters and topics that are pseudonymised alike match as they did before.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from overlace.arrays.csr import group
from overlace.arrays.jit import Bools, Ints, Pairs, kernel
from overlace.arrays.pairs import NO_PAIRS
from overlace.errors import OverlaceError, Unknown

Texts: TypeAlias = Sequence[str] | NDArray[Any] | pa.Array
"""Strings in a list, a numpy array or an Arrow array."""


class Dialect(NamedTuple):
    """How a broker writes its filters."""

    separator: str
    one: str  # the wildcard for one level
    rest: str  # the wildcard for all that follow
    valid: str  # what a filter must look like (RE2)


DIALECTS = {
    "mqtt": Dialect("/", "+", "#", r"^(?:(?:\+|[^+#/\x00]*)/)*(?:\+|#|[^+#/\x00]*)\z"),
    "nats": Dialect(".", "*", ">", r"^(?:(?:[^.>\s][^.\s]*|>[^.\s]+)\.)*[^.\s]+\z"),
}
"""The dialects by the name that subscriptions.dialect has."""

SHARED = r"^\$share/(?P<group>[^/+#]+)/(?P<filter>(?s:.+))\z"

ONE, REST = 0, 1
"""The wildcards as levels; words are numbered from 2, so wildcards come first among a node's children."""


def match(filters: Texts, dialects: str | Texts, topics: Texts) -> Pairs:
    """(filter, topic) for each filter and every topic that it matches, as sorted pairs of their positions.

    One dialect may be given for all filters. `$share/...` is taken literally: split it off with `shared`.
    """
    filter_text, topic_text = _text(filters), _text(topics)
    spoken = _spoken(dialects, len(filter_text))
    good = _valid(filter_text, spoken)
    walks = []
    for name, dialect in DIALECTS.items():
        chosen = np.flatnonzero(good & spoken[name])
        if len(chosen):
            words, trie = _trie(filter_text.take(pa.array(chosen)), chosen, dialect)
            walks.append((*trie, *_topics(topic_text, words, dialect), dialect is DIALECTS["mqtt"]))
    count = np.zeros(len(filter_text), dtype=np.int64)
    for walk in walks:
        deliver(*walk, count, np.empty((0, 2), dtype=np.int64))
    if not count.any():
        return NO_PAIRS
    pairs = np.empty((int(count.sum()), 2), dtype=np.int64)
    place = np.cumsum(count) - count
    for walk in walks:
        deliver(*walk, place, pairs)
    return pairs


def valid(filters: Texts, dialects: str | Texts) -> Bools:
    """Which filters are well-formed in their dialect; one dialect may be given for all."""
    text = _text(filters)
    return _valid(text, _spoken(dialects, len(text)))


def shared(filters: Texts) -> tuple[pa.Array, pa.Array]:
    """(groups, filters): MQTT's `$share/GROUP/FILTER` taken apart; group is null where there is none."""
    text = _text(filters, missing=None)
    parts = pc.extract_regex(text, SHARED)
    found = parts.is_valid()
    group_names, inner = (pc.struct_field(parts, name) for name in ("group", "filter"))
    return pc.if_else(found, group_names, pa.scalar(None, text.type)), pc.if_else(found, inner, text)


def _text(values: Texts, missing: str | None = "") -> pa.Array:
    """The values as one Arrow array of strings, with missing ones filled in."""
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    plain = values if isinstance(values, pa.Array) else pa.array(list(values), pa.large_string())
    text = plain.cast(pa.large_string())
    return text if missing is None else text.fill_null(missing)


def _spoken(dialects: str | Texts, rows: int) -> dict[str, Bools]:
    """Per dialect which filters are in it."""
    if isinstance(dialects, str):
        names = pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int32)), pa.array([dialects]))
        used = {dialects}
    else:
        names = _text(dialects)
        used = set(pc.unique(names).to_pylist())
    if len(names) != rows:
        raise ValueError(f"expected a dialect for each of {rows:,} filters, found {len(names):,}")
    for name in sorted(used - DIALECTS.keys()):
        raise Unknown("dialect", name, DIALECTS)
    return {name: _flags(pc.equal(names, name)) for name in DIALECTS}


def _valid(text: pa.Array, spoken: dict[str, Bools]) -> Bools:
    good = np.zeros(len(text), dtype=np.bool_)
    for name, dialect in DIALECTS.items():
        if spoken[name].any():
            good |= spoken[name] & _flags(pc.match_substring_regex(text, dialect.valid))
    good &= _flags(pc.greater(pc.binary_length(text), 0))
    unshared = pc.and_not(pc.starts_with(text, "$share/"), pc.match_substring_regex(text, SHARED))
    good &= ~(spoken["mqtt"] & _flags(unshared))
    return good


def _flags(values: pa.Array) -> Bools:
    return np.asarray(values.to_numpy(zero_copy_only=False), dtype=np.bool_)


def _split(text: pa.Array, separator: str) -> tuple[Ints, pa.Array]:
    """(start, levels): the levels of text[i] are levels[start[i]:start[i + 1]]."""
    parts = pc.split_pattern(text, separator)
    return parts.offsets.to_numpy().astype(np.int64), parts.flatten()


def _trie(text: pa.Array, ids: Ints, dialect: Dialect) -> tuple[pa.Array, tuple[Ints, Ints, Ints, Ints]]:
    """(words, trie): the words of the filters, numbered, and the trie over their levels.

    Node 0 is the root. The children of node v are its edges child_start[v]:child_start[v + 1], in order
    of level, and edge k leads to node k + 1. The filters end_filter[end_start[v]:end_start[v + 1]] end at v.
    """
    start, levels = _split(text, dialect.separator)
    wildcards = pa.array([dialect.one, dialect.rest], levels.type)
    distinct = pc.unique(levels)
    words = pa.concat_arrays([wildcards, distinct.filter(pc.invert(pc.is_in(distinct, wildcards)))])
    level = pc.index_in(levels, value_set=words).to_numpy().astype(np.int64)

    node = np.zeros(len(text), dtype=np.int64)
    length = np.diff(start)
    edges: list[Ints] = []
    nodes, depth, on = 1, 0, np.arange(len(text))
    while len(on):  # nodes are numbered by depth, then parent, then level: edges come out sorted
        keys, which = np.unique(node[on] * len(words) + level[start[on] + depth], return_inverse=True)
        edges.append(keys)
        node[on] = nodes + which
        nodes += len(keys)
        depth += 1
        on = on[length[on] > depth]
    edge = np.concatenate(edges)
    child_start = np.searchsorted(edge // len(words), np.arange(nodes + 1)).astype(np.int64)
    end_start, order = group(node, nodes)
    return words, (child_start, edge % len(words), end_start, ids[order])


def _topics(text: pa.Array, words: pa.Array, dialect: Dialect) -> tuple[Ints, Ints, Bools, Bools]:
    """(start, level, hidden, alive): the topics in the filters' words, -1 where no filter has the word."""
    start, levels = _split(text, dialect.separator)
    level = pc.index_in(levels, value_set=words).fill_null(-1).to_numpy().astype(np.int64)
    alive = np.diff(start) > 0
    empty = _flags(pc.equal(pc.binary_length(levels), 0))
    if dialect is DIALECTS["nats"]:
        alive[np.repeat(np.arange(len(text)), np.diff(start))[empty]] = False
        return start, level, np.zeros(len(text), dtype=np.bool_), alive
    alive &= _flags(pc.greater(pc.binary_length(text), 0))
    return start, level, _flags(pc.starts_with(text, "$")), alive


@kernel
def deliver(
    child_start: Ints,
    child_level: Ints,
    end_start: Ints,
    end_filter: Ints,
    start: Ints,
    level: Ints,
    hidden: Bools,
    alive: Bools,
    parent_too: bool,
    place: Ints,
    pairs: Pairs,
) -> None:
    """Walk every topic down the trie; each filter f met adds 1 to place[f].

    With pairs, (f, topic) is first written to row place[f]: topics come in order, so a filter's rows do.
    A hidden topic meets no wildcard at its first level; `parent_too`: the rest may be no level at all.
    """
    longest = 0
    for t in range(len(start) - 1):
        longest = max(longest, start[t + 1] - start[t])
    nodes = np.empty(longest + 2, dtype=np.int64)
    depths = np.empty(longest + 2, dtype=np.int64)
    for t in range(len(start) - 1):
        if not alive[t]:
            continue
        length = start[t + 1] - start[t]
        nodes[0] = depths[0] = 0
        top = 1
        while top > 0:
            top -= 1
            node, depth = nodes[top], depths[top]
            low, high = child_start[node], child_start[node + 1]
            wild = depth > 0 or not hidden[t]
            if low < high and child_level[low] == ONE:
                if wild and depth < length:
                    nodes[top], depths[top] = low + 1, depth + 1
                    top += 1
                low += 1
            if low < high and child_level[low] == REST:
                if wild and (depth < length or parent_too):
                    hand_over(end_start, end_filter, low + 1, t, place, pairs)
                low += 1
            if depth == length:
                hand_over(end_start, end_filter, node, t, place, pairs)
                continue
            # both wildcards lie below low, so that a `+` in a topic's own name meets only wildcards
            child = low + np.searchsorted(child_level[low:high], level[start[t] + depth])
            if child < high and child_level[child] == level[start[t] + depth]:
                nodes[top], depths[top] = child + 1, depth + 1
                top += 1


@kernel
def hand_over(end_start: Ints, end_filter: Ints, node: int, topic: int, place: Ints, pairs: Pairs) -> None:
    """Count, and with pairs write, the topic for every filter that ends at a node."""
    for k in range(end_start[node], end_start[node + 1]):
        f = end_filter[k]
        if len(pairs) > 0:
            pairs[place[f], 0] = f
            pairs[place[f], 1] = topic
        place[f] += 1


UUID = r"(?i:[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|[0-9a-f]{32})"

FOLDS = (
    (r"^_INBOX\.(?s:.*)\z", "_INBOX.>"),
    (r"^\$JS\.(?s:.*)\z", "$JS.>"),
    (r"^\$SYS/(?s:.*)\z", "$SYS/#"),
    *2 * ((rf"(^|[/.]){UUID}([/.]|\z)", r"\1{uuid}\2"),),  # twice: two neighbours share a separator
)
"""Names that would make a topic each, and what they become (RE2)."""


def collapse(topics: pa.Array) -> pa.Array:
    """Topic names with reply inboxes, JetStream and $SYS names and UUID levels folded into one each.

    Filters go through it too, where they are matched against collapsed topics.
    """
    folded = _flat(topics)
    for pattern, name in FOLDS:
        folded = pc.replace_substring_regex(folded, pattern=pattern, replacement=name)
    return folded


DIGITS = 16
"""Hex digits of a pseudonym: 64 bits, so that ten million names collide with a chance of 3 in a million."""

KEPT = ("", "+", "#", "*", ">", "{uuid}")
"""Levels that say nothing about anybody, and that matching needs."""


def pseudonyms(names: pa.Array, key: bytes, separators: str = "") -> pa.Array:
    """A keyed hash of each name, or, with separators, of each of its levels.

    By level, separators, wildcards and a leading `$` stay, so that filters match the topics they matched
    before; `/.` does for both dialects. Filters must be split by `shared` and names collapsed first.
    """
    if not key:
        raise OverlaceError("pseudonyms need a key, found an empty one. Put a long random one into the environment.")
    secret = key if len(key) <= hashlib.blake2b.MAX_KEY_SIZE else hashlib.blake2b(key).digest()
    return _distinct(_flat(names), lambda each: _veil(each, secret, separators))


def _flat(names: pa.Array) -> pa.Array:
    """One array of strings, of the type it had."""
    if isinstance(names, pa.ChunkedArray):
        names = names.combine_chunks()
    if pa.types.is_dictionary(names.type):
        return names.cast(names.type.value_type)
    return names.cast(pa.string()) if pa.types.is_null(names.type) else names


def _distinct(values: pa.Array, change: Callable[[pa.Array], pa.Array]) -> pa.Array:
    """What change makes of the values, worked out once for each distinct one."""
    encoded = values.dictionary_encode()
    return change(encoded.dictionary).take(encoded.indices)


def _veil(names: pa.Array, key: bytes, separators: str) -> pa.Array:
    if not separators:
        return _hashes(names, key)
    bare = pc.replace_substring_regex(names, pattern=r"^\$", replacement="")
    veiled = _veil_levels(bare, key, separators)
    marked = pc.binary_join_element_wise(pa.scalar("$", names.type), veiled, pa.scalar("", names.type))
    return pc.if_else(pc.starts_with(names, "$"), marked, veiled)


def _veil_levels(names: pa.Array, key: bytes, separators: str) -> pa.Array:
    """Split by one separator, veil the parts by the others, join again."""
    if not separators:
        return pc.if_else(pc.is_in(names, pa.array(KEPT, names.type)), names, _hashes(names, key))
    parts = pc.split_pattern(names, separators[0])
    veiled = _distinct(parts.flatten(), lambda each: _veil_levels(each, key, separators[1:]))
    return pc.binary_join(pa.ListArray.from_arrays(parts.offsets, veiled), separators[0])


def _hashes(names: pa.Array, key: bytes) -> pa.Array:
    size = DIGITS // 2
    return pa.array(
        [hashlib.blake2b(name.encode(), digest_size=size, key=key).hexdigest() for name in names.to_pylist()],
        names.type,
    )
