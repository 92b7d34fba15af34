"""Who receives, by wildcard subscriptions: filters of MQTT and NATS against topic names.

MQTT 5 §4.7: levels between '/', `+` is one level, `#` the rest and also its parent; a filter that begins
with a wildcard leaves out topics that begin with `$`. NATS: tokens between '.', `*` is one token, `>` at
least one; a subject with an empty token reaches nobody.

The filters of a dialect become one trie, every topic walks down it once, and what is found is written
straight to its place, so that the cost follows topics and matches, not topics x filters.

Keeps: pairs are sorted and distinct; a malformed filter and an empty topic match nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from overlace.arrays.csr import group
from overlace.arrays.jit import Bools, Ints, Pairs, kernel
from overlace.arrays.pairs import NO_PAIRS
from overlace.errors import Unknown

Texts: TypeAlias = Sequence[str] | NDArray[np.str_] | pa.Array
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
    in_dialect = _dialect_rows(dialects, len(filter_text))
    good = _valid(filter_text, in_dialect)
    walks = []
    for name, dialect in DIALECTS.items():
        chosen = np.flatnonzero(good & in_dialect[name])
        if len(chosen):
            words, trie = _trie(filter_text.take(pa.array(chosen)), chosen, dialect)
            walks.append((trie, _topics(topic_text, words, dialect), name == "mqtt"))
    count = np.zeros(len(filter_text), dtype=np.int64)
    for trie, levels, parent_too in walks:
        deliver(trie, levels, parent_too, count, np.empty((0, 2), dtype=np.int64))
    if not count.any():
        return NO_PAIRS
    pairs = np.empty((int(count.sum()), 2), dtype=np.int64)
    place = np.cumsum(count) - count
    for trie, levels, parent_too in walks:
        deliver(trie, levels, parent_too, place, pairs)
    return pairs


def valid(filters: Texts, dialects: str | Texts) -> Bools:
    """Which filters are well-formed in their dialect; one dialect may be given for all."""
    text = _text(filters)
    return _valid(text, _dialect_rows(dialects, len(text)))


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


def _dialect_rows(dialects: str | Texts, rows: int) -> dict[str, Bools]:
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


def _valid(text: pa.Array, in_dialect: dict[str, Bools]) -> Bools:
    good = np.zeros(len(text), dtype=np.bool_)
    for name, dialect in DIALECTS.items():
        if in_dialect[name].any():
            good |= in_dialect[name] & _flags(pc.match_substring_regex(text, dialect.valid))
    good &= _flags(pc.greater(pc.binary_length(text), 0))
    unshared = pc.and_not(pc.starts_with(text, "$share/"), pc.match_substring_regex(text, SHARED))
    good &= ~(in_dialect["mqtt"] & _flags(unshared))
    return good


def _flags(values: pa.Array) -> Bools:
    return np.asarray(values.to_numpy(zero_copy_only=False), dtype=np.bool_)


def _split(text: pa.Array, separator: str) -> tuple[Ints, pa.Array]:
    """(start, levels): the levels of text[i] are levels[start[i]:start[i + 1]]."""
    parts = pc.split_pattern(text, separator)
    return parts.offsets.to_numpy().astype(np.int64), parts.flatten()


class Trie(NamedTuple):
    """Filters by their levels. Node 0 is the root."""

    child_start: Ints  # child_start[v]:child_start[v + 1] are the edges of node v, in order of level
    child_level: Ints  # of each edge; edge k leads to node k + 1
    end_start: Ints  # end_filter[end_start[v]:end_start[v + 1]] are the filters that end at node v
    end_filter: Ints


class Topics(NamedTuple):
    """Topics in the words of filters."""

    start: Ints  # level[start[t]:start[t + 1]] are the levels of topic t
    level: Ints  # -1 where no filter has the word
    hidden: Bools  # no wildcard matches the first level
    alive: Bools  # whether the topic reaches anybody


def _trie(text: pa.Array, ids: Ints, dialect: Dialect) -> tuple[pa.Array, Trie]:
    """(words, trie): the words of the filters, numbered, and the trie over their levels."""
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
    return words, Trie(child_start, edge % len(words), end_start, ids[order])


def _topics(text: pa.Array, words: pa.Array, dialect: Dialect) -> Topics:
    """The topics in the filters' words."""
    start, levels = _split(text, dialect.separator)
    level = pc.index_in(levels, value_set=words).fill_null(-1).to_numpy().astype(np.int64)
    alive = np.diff(start) > 0
    empty = _flags(pc.equal(pc.binary_length(levels), 0))
    if dialect is DIALECTS["nats"]:
        alive[np.repeat(np.arange(len(text)), np.diff(start))[empty]] = False
        return Topics(start, level, np.zeros(len(text), dtype=np.bool_), alive)
    alive &= _flags(pc.greater(pc.binary_length(text), 0))
    return Topics(start, level, _flags(pc.starts_with(text, "$")), alive)


@kernel
def deliver(trie: Trie, topics: Topics, parent_too: bool, place: Ints, pairs: Pairs) -> None:
    """Walk every topic down the trie; each filter f met adds 1 to place[f].

    With pairs, (f, topic) is first written to row place[f]: topics come in order, so a filter's rows do.
    `parent_too`: the rest may be no level at all.
    """
    child_level, start, hidden = trie.child_level, topics.start, topics.hidden
    longest = 0
    for t in range(len(start) - 1):
        longest = max(longest, start[t + 1] - start[t])
    nodes = np.empty(longest + 2, dtype=np.int64)
    depths = np.empty(longest + 2, dtype=np.int64)
    for t in range(len(start) - 1):
        if not topics.alive[t]:
            continue
        length = start[t + 1] - start[t]
        nodes[0] = depths[0] = 0
        top = 1
        while top > 0:
            top -= 1
            node, depth = nodes[top], depths[top]
            low, high = trie.child_start[node], trie.child_start[node + 1]

            wild = depth > 0 or not hidden[t]
            if low < high and child_level[low] == ONE:
                if wild and depth < length:
                    nodes[top], depths[top] = low + 1, depth + 1
                    top += 1
                low += 1
            if low < high and child_level[low] == REST:
                if wild and (depth < length or parent_too):
                    hand_over(trie, low + 1, t, place, pairs)
                low += 1
            if depth == length:
                hand_over(trie, node, t, place, pairs)
                continue

            # both wildcards lie below low, so that a `+` in a topic's own name meets only wildcards
            level = topics.level[start[t] + depth]
            child = low + np.searchsorted(child_level[low:high], level)
            if child < high and child_level[child] == level:
                nodes[top], depths[top] = child + 1, depth + 1
                top += 1


@kernel
def hand_over(trie: Trie, node: int, topic: int, place: Ints, pairs: Pairs) -> None:
    """Count, and with pairs write, the topic for every filter that ends at a node."""
    for k in range(trie.end_start[node], trie.end_start[node + 1]):
        f = trie.end_filter[k]
        if len(pairs) > 0:
            pairs[place[f], 0] = f
            pairs[place[f], 1] = topic
        place[f] += 1
