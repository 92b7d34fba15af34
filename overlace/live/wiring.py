"""Links between brokers by name: a tree, who dials whom in it, and names of files."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterable, Sequence
from typing import TypeAlias

from overlace.errors import BadNetwork

Pair: TypeAlias = tuple[str, str]
"""A link: two brokers by name, in the order of their names."""

Links: TypeAlias = frozenset[Pair]


def pair(left: str, right: str) -> Pair:
    """The link between two brokers."""
    return (left, right) if left < right else (right, left)


def links_of(pairs: Iterable[Sequence[str]]) -> Links:
    """Links from pairs of names in any order."""
    return frozenset(pair(*each) for each in pairs)


def dials(brokers: Collection[str], links: Collection[Pair]) -> dict[str, str]:
    """Whom each broker dials: its neighbour on the way to the first of its part; refused if there is a cycle.

    Nobody dials two. A NATS server that does so passes nothing on between the two, and a parent that is started first
    is there when its children dial.
    """
    near: dict[str, list[str]] = {name: [] for name in brokers}
    for left, right in sorted(links):
        for end in (left, right):
            if end not in near:
                raise BadNetwork(f"link {left} - {right}: the network file has no broker {end}. Add it there.")
        near[left].append(right)
        near[right].append(left)
    parents: dict[str, str] = {}
    reached: set[str] = set()
    for root in near:
        if root in reached:
            continue
        reached.add(root)
        ahead = [root]
        for here in ahead:
            for other in near[here]:
                if other == parents.get(here):
                    continue
                if other in reached:
                    raise BadNetwork(
                        f"link {here} - {other} closes a cycle: messages would go round. Links form a tree."
                    )
                reached.add(other)
                parents[other] = here
                ahead.append(other)
    return parents


def parents_first(brokers: Collection[str], links: Collection[Pair]) -> list[str]:
    """The brokers in an order in which each comes after the one that it dials."""
    parents = dials(brokers, links)
    order = [name for name in brokers if name not in parents]
    for name in order:
        order += [child for child, parent in parents.items() if parent == name]
    return order


def is_tree(brokers: Collection[str], links: Collection[Pair]) -> bool:
    """Whether the links join all brokers without a cycle."""
    return len(links) == len(brokers) - 1 and len(dials(brokers, links)) == len(links)


def slug(name: str, most: int = 40) -> str:
    """A name of a file for a broker, of harmless characters; two brokers never share one.

    It is the name itself where that is plain, else what is plain of it and 12 hex digits; a plain name that ends like
    that gets digits of its own.
    """
    plain = re.sub(r"[^A-Za-z0-9_-]+", "-", name).strip("-_")[:most].strip("-_")
    if plain and plain == name and not re.search(r"-[0-9a-f]{12}$", name):
        return plain
    return f"{plain or 'x'}-{hashlib.blake2b(name.encode('utf-8', 'replace'), digest_size=6).hexdigest()}"
