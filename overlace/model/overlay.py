"""Overlay: four relations, each a sorted array of integer pairs; Changes: the difference of two."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Literal, cast, get_args

import numpy as np
from numpy.typing import ArrayLike

from overlace.arrays.components import components, spanning_forest
from overlace.arrays.jit import Ints, Pairs
from overlace.arrays.pairs import difference, patch, sort_pairs, undirected
from overlace.arrays.records import IntColumn, Record, column
from overlace.arrays.trees import Rooted, root_at
from overlace.errors import BadOverlay, BadPlan
from overlace.model.names import Names, name_of

Facet = Literal["placement", "tree", "channels", "mesh"]
FACETS: tuple[Facet, ...] = get_args(Facet)

ENDS: Mapping[Facet, tuple[str, str]] = {
    "placement": ("client", "broker"),
    "tree": ("broker", "broker"),
    "channels": ("combination", "channel"),
    "mesh": ("client", "client"),
}
"""What the left and the right of each relation's pairs are."""


@dataclass(frozen=True, eq=False, repr=False)
class Changes(Record):
    """Rows of the difference of two overlays, in the order in which they are carried out."""

    facet: IntColumn = column(np.int8)  # index into FACETS
    action: IntColumn = column(np.int8)  # +1 add, -1 remove
    left: IntColumn = column(np.int64)
    right: IntColumn = column(np.int64)

    fault = BadPlan

    def __post_init__(self) -> None:
        super().__post_init__()
        self._lengths("facet", "action", "left", "right")
        known = (self.facet >= 0) & (self.facet < len(FACETS)) & (np.abs(self.action) == 1)
        if not known.all():
            raise BadPlan("Changes: an action is +1 or -1, a relation 0 to 3 (placement, tree, channels, mesh)")
        turned = self.left > self.right
        if turned.any():  # links are kept with the lower end left
            turned &= (self.facet == FACETS.index("tree")) | (self.facet == FACETS.index("mesh"))
            left, right = np.where(turned, self.right, self.left), np.where(turned, self.left, self.right)
            self._put("left", left, np.int64)
            self._put("right", right, np.int64)

    def __len__(self) -> int:
        return len(self.left)

    @classmethod
    def of(cls, facet: Facet, action: int, pairs: ArrayLike) -> Changes:
        """The addition (+1) or removal (-1) of some pairs of one facet."""
        rows = np.asarray(pairs, dtype=np.int64).reshape(-1, 2)
        n = len(rows)
        return cls(np.full(n, FACETS.index(facet)), np.full(n, action), rows[:, 0], rows[:, 1])

    @classmethod
    def joined(cls, parts: Sequence[Changes]) -> Changes:
        """Several changes, one after the other."""
        if not parts:
            return cls()
        return cls(*(np.concatenate([getattr(p, f.name) for p in parts]) for f in fields(cls)))

    def pairs(self, facet: Facet, action: int) -> Pairs:
        """The pairs of one facet that are added (+1) or removed (-1), in order of the changes."""
        mine = (self.facet == FACETS.index(facet)) & (self.action == action)
        return np.column_stack([self.left[mine], self.right[mine]])

    def between(self, start: int, stop: int) -> Changes:
        """Rows start to stop."""
        return Changes(*(value[start:stop] for _, value in self._values()))

    def rows(self) -> Iterator[tuple[int, int, int, int]]:
        """(facet, action, left, right) of each row."""
        columns = (self.facet, self.action, self.left, self.right)
        return zip(*(each.tolist() for each in columns), strict=True)

    def inverse(self) -> Changes:
        """What takes these changes back, last one first."""
        return Changes(self.facet[::-1], -self.action[::-1], self.left[::-1], self.right[::-1])

    def sorted(self) -> Changes:
        """The same rows by facet, removals first, then left and right."""
        order = np.lexsort((self.right, self.left, self.action, self.facet))
        return Changes(*(value[order] for _, value in self._values()))


@dataclass(frozen=True, eq=False, repr=False)
class Overlay(Record):
    """Who connects where, how brokers are wired, what goes in which channel, which peers are linked.

    Rows may be given in any order and links in either direction; they are kept sorted. An empty
    relation means that it is not there yet.
    """

    placement: IntColumn = column(np.int64, pairs=True)  # (client, broker)
    tree: IntColumn = column(np.int64, pairs=True)  # (broker, broker)
    channels: IntColumn = column(np.int64, pairs=True)  # (combination, channel)
    mesh: IntColumn = column(np.int64, pairs=True)  # (client, client)
    fault = BadOverlay

    def __post_init__(self) -> None:
        super().__post_init__()
        for facet in ("tree", "mesh"):
            links = undirected(getattr(self, facet))
            loops = links[links[:, 0] == links[:, 1]]
            if len(loops):
                end = name_of(ENDS[facet][0], int(loops[0, 0]))
                raise BadOverlay(f"{facet}: a link joins {end} with itself; a link needs two different ends")
            self._put(facet, links, np.int64, 2)

    def relation(self, facet: Facet) -> Pairs:
        """The pairs of one facet."""
        return cast(Pairs, getattr(self, facet))

    def changes_to(self, other: Overlay) -> Changes:
        """What must be removed and added to get from here to there."""
        parts = []
        for facet in FACETS:
            removed, added = difference(self.relation(facet), other.relation(facet))
            parts += [Changes.of(facet, -1, removed), Changes.of(facet, +1, added)]
        return Changes.joined(parts)

    def apply(self, changes: Changes) -> Overlay:
        """This overlay after the changes. Refused unless they fit: removed pairs there, added ones not."""
        after = {}
        for facet in FACETS:
            base = self.relation(facet)
            removed, added = (changes.pairs(facet, action) for action in (-1, +1))
            if len(removed) == 0 and len(added) == 0:
                after[facet] = base
                continue
            gone, new = sort_pairs(removed), sort_pairs(added)
            rows, missing, present = patch(base, gone, new)
            twice = len(removed) + len(added) - len(gone) - len(new)
            if missing or present or twice:
                raise BadPlan(
                    f"{facet}: the changes do not fit this overlay: {missing} removed pairs are not there, "
                    f"{present} added ones are there already, {twice} rows stand twice. "
                    "Was the plan made for another network, or has this one been changed since?"
                )
            after[facet] = rows
        return Overlay(**after)

    def homes(self, clients: int) -> Ints:
        """The broker of each client, -1 for a client that has none."""
        homes = np.full(clients, -1, dtype=np.int64)
        known = self.placement[(self.placement[:, 0] >= 0) & (self.placement[:, 0] < clients)]
        homes[known[:, 0]] = known[:, 1]
        return homes

    def rooted(self, brokers: int) -> Rooted:
        """The tree, rooted at broker 0. Refused, naming the links, unless it is one."""
        if brokers == 0:
            raise BadOverlay("tree: there are no brokers")
        check_tree(self.tree, brokers)
        return root_at(brokers, self.tree, 0)


def check_tree(links: Pairs, brokers: int, names: Names | None = None) -> None:
    """Refuse links that are not a tree over all brokers, naming what is wrong."""
    if len(links) and (links.min() < 0 or links.max() >= brokers):
        bad = links[(links < 0).any(axis=1) | (links >= brokers).any(axis=1)]
        raise BadOverlay(f"tree: {_listed(bad, names)} name brokers that do not exist; there are {brokers}")
    kept = spanning_forest(brokers, links, np.arange(len(links)))
    if not kept.all():
        raise BadOverlay(f"tree: {_listed(links[~kept], names)} close a cycle; a tree has none. Take them out.")
    apart = np.unique(components(brokers, links))
    if len(apart) > 1:
        parts = ", ".join(name_of("broker", int(b), names) for b in apart[:5])
        raise BadOverlay(
            f"tree: {len(links)} links leave {brokers} brokers in {len(apart)} parts (at {parts}"
            f"{', ...' if len(apart) > 5 else ''}); a tree joins them all. Add links between the parts."
        )


def _listed(links: Pairs, names: Names | None) -> str:
    shown = [f"{name_of('broker', int(a), names)}-{name_of('broker', int(b), names)}" for a, b in links[:5]]
    return f"links {', '.join(shown)}{', ...' if len(links) > 5 else ''}"
