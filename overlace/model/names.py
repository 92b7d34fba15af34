"""Names of clients, brokers and all else that has an id."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from overlace.arrays.masks import MOST_BITS

Names = Mapping[str, Sequence[str]]
"""Names by kind (client, broker, topic, attribute, region, channel), at the place of their id."""


def name_of(kind: str, number: int, names: Names | None = None) -> str:
    """The name of a thing, or its letter and id (c17, b5) where no name is known."""
    if kind == "combination":
        held = [bit for bit in range(MOST_BITS) if number >> bit & 1]
        return "+".join(name_of("attribute", bit, names) for bit in held)
    known = (names or {}).get(kind, ())
    if 0 <= number < len(known):
        return known[number]
    return f"{'ch' if kind == 'channel' else kind[0]}{number}"
