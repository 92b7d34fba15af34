"""Topic names made fewer or unreadable, so that filters still match: collapsed, and as keyed hashes.

Keeps: `collapse` twice is `collapse` once; filters and topics that are pseudonymised alike match as they did before.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

from overlace.errors import OverlaceError

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


def check_value(key: bytes) -> str | None:
    """By which a trace recognises the key that its names are hidden with; the key itself enters no file."""
    return hashlib.blake2b(b"overlace", key=hashlib.blake2b(key).digest(), digest_size=16).hexdigest() if key else None


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
