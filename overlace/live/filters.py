"""Per-link topic filters for Mosquitto bridges: what crosses a link is what is subscribed beyond it.

A bridge subscribes at both of its brokers, and Mosquitto sends a message once for each of its filters that matches. So
the filters of one side are pairwise disjoint: what another covers is dropped, two that overlap in part become the least
filter that covers both. `#` does not match topics that begin with `$`, and no filter made here does by accident.

Keeps: every topic that some filter of a side matches is matched by exactly one of what is made of them; of all
families of disjoint filters that cover a side, it is the smallest.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Literal, TypeAlias

from overlace.live.mosquitto_files import Bridged, Direction, bridge_filter
from overlace.live.wiring import Pair

Levels: TypeAlias = tuple[str, ...]
Filters: TypeAlias = Mapping[Pair, tuple[str, ...]]
"""Filters of the topics that cross a link from its first to its second broker, both ways of every link."""

How = Literal["prefix", "exact", "all"]
"""How wide filters are: the next subscriber under a known prefix is served, only those known, or everything crosses."""

ONE, REST = "+", "#"
OWN = ("$SYS", "$CONTROL", "$overlace")
"""First levels of topics that each broker keeps to itself."""


def generalise(left: Levels, right: Levels) -> Levels:
    """The least filter that covers two that overlap."""
    made: list[str] = []
    for mine, theirs in zip(left, right, strict=False):
        if REST in (mine, theirs):
            return normal((*made, REST))
        made.append(mine if mine == theirs else ONE)
    return normal((*made, REST) if len(left) != len(right) else tuple(made))


def normal(levels: Levels) -> Levels:
    """The same filter in the one way in which it is written: +/# is #, since # alone wants a level too."""
    return (REST,) if levels == (ONE, REST) else levels


class Node(dict[str, "Node"]):
    """What follows a level; END where a filter ends."""


END = "\0"  # no level holds it


class Disjoint:
    """Filters of which no two overlap, as a trie over their levels."""

    def __init__(self) -> None:
        self._root = Node()

    def add(self, levels: Levels) -> None:
        """Take up a filter, merged with all that it overlaps."""
        new = normal(levels)
        while (found := next(_overlapping(self._root, new, ()), None)) is not None:
            self._remove(found)
            new = generalise(new, found)
        node = self._root
        for level in (*new, END):
            node = node.setdefault(level, Node())

    def _remove(self, levels: Levels) -> None:
        path = [self._root]
        for level in levels:
            path.append(path[-1][level])
        for node, level in zip(reversed(path), (END, *reversed(levels)), strict=True):
            if not node[level]:
                del node[level]

    def __iter__(self) -> Iterator[Levels]:
        return _ends(self._root, ())


def _ends(node: Node, above: Levels) -> Iterator[Levels]:
    """All filters below a node."""
    for level, below in node.items():
        if level == END:
            yield above
        else:
            yield from _ends(below, (*above, level))


def _overlapping(node: Node, wanted: Levels, above: Levels) -> Iterator[Levels]:
    """The filters below a node that overlap with a filter whose first levels led here."""
    at = len(above)
    if REST in node and (at or not wanted[0].startswith("$")):
        yield (*above, REST)
    if END in node and (at == len(wanted) or wanted[at] == REST):
        yield above
    for each in _steps(node, wanted[at], first=not at) if at < len(wanted) else ():
        if wanted[at] == REST:
            yield from _ends(node[each], (*above, each))
        else:
            yield from _overlapping(node[each], wanted, (*above, each))


def _steps(node: Node, level: str, first: bool) -> list[str]:
    """The levels below a node that meet a level, but # and the end."""
    if level in (ONE, REST):
        return [each for each in node if each not in (END, REST) and not (first and each.startswith("$"))]
    meets = (level,) if first and level.startswith("$") else (level, ONE)
    return [each for each in meets if each in node]


def make_disjoint(filters: Iterable[str]) -> tuple[str, ...]:
    """The smallest set of filters that covers these, and of which no two match the same topic; sorted."""
    distinct = sorted(set(filters))
    if not any(level in (ONE, REST) for each in distinct for level in each.split("/")):
        return tuple(distinct)
    made = Disjoint()
    for each in distinct:
        made.add(tuple(each.split("/")))
    return tuple(sorted("/".join(levels) for levels in made))


def widen(filter_: str) -> str:
    """A filter by its prefix: the levels before its first wildcard, else all but its last one, then everything."""
    levels = filter_.split("/")
    wild = next((i for i, level in enumerate(levels) if level in (ONE, REST)), None)
    prefix = levels[:wild] if wild is not None else levels[: max(1, len(levels) - 1)]
    return "/".join([*prefix, REST])


def link_filters(links: Collection[Pair], wanted: Mapping[str, Collection[str]], how: How = "prefix") -> Filters:
    """The filters of each link, both ways, from what is subscribed at each broker; the links are a tree."""
    if how == "all":
        return {pair: (REST,) for a, b in links for pair in ((a, b), (b, a))}
    spelled = {broker: _spell_all(filters, how) for broker, filters in wanted.items()}
    beyond = subscribed_beyond(links, spelled)
    return {pair: make_disjoint(filters) for pair, filters in beyond.items()}


def _spell_all(filters: Collection[str], how: How) -> set[str]:
    """Filters as they are written, wide enough; those that each broker keeps to itself are left out."""
    crossing = [each for each in filters if each.split("/", 1)[0] not in OWN]
    wide = {widen(each) for each in crossing} if how == "prefix" else set(crossing)
    return {bridge_filter(each) for each in wide if not is_lost(each)}


def is_lost(filter_: str) -> bool:
    """Whether a filter cannot be written: one with a space in a first level that begins with $, which + leaves out."""
    return filter_.startswith("$") and bridge_filter(filter_).startswith(ONE)


def bridge_lines(across: Filters, parents: Mapping[str, str]) -> dict[Pair, list[Bridged]]:
    """What each bridge carries as its configuration has it, from whom each broker dials."""
    made = {}
    for near, far in parents.items():
        out, back = set(across.get((near, far), ())), set(across.get((far, near), ()))
        ways: tuple[tuple[Direction, set[str]], ...] = (("both", out & back), ("out", out - back), ("in", back - out))
        made[near, far] = [Bridged(each, way) for way, some in ways for each in sorted(some)]
    return made


def subscribed_beyond(links: Collection[Pair], wanted: Mapping[str, Collection[str]]) -> dict[Pair, set[str]]:
    """What is subscribed on the far side of each link, both ways: at its second broker and all behind it."""
    order = _walk(links)
    brokers = dict.fromkeys(broker for pair in links for broker in pair)
    everywhere = Counter(each for broker in brokers for each in set(wanted.get(broker, ())))
    below = {broker: Counter(set(wanted.get(broker, ()))) for broker in brokers}
    found: dict[Pair, set[str]] = {}
    for parent, child in reversed(order):  # leaves first
        mine = below.pop(child)
        below[parent].update(mine)
        found[parent, child] = set(mine)
        found[child, parent] = {each for each, brokers in everywhere.items() if brokers > mine[each]}
    return found


def _walk(links: Collection[Pair]) -> list[Pair]:
    """(parent, child) of every link of a tree, a parent before its children."""
    near: dict[str, list[str]] = {}
    for a, b in links:
        near.setdefault(a, []).append(b)
        near.setdefault(b, []).append(a)
    stack, known = list(near)[:1], set(list(near)[:1])
    order: list[Pair] = []
    while stack:
        at = stack.pop()
        new = [each for each in near[at] if each not in known]
        order += [(at, each) for each in new]
        known.update(new)
        stack += new
    return order
