"""What a search for links looks at: classes as the sets of nodes that they join, and the prices of links and nodes.

OCBR07 (1) asks of a class only at which brokers its clients are, so classes over the same brokers are one, with their
demands added up, and a class at a single broker costs the same in every tree and is left out.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from overlace.arrays.csr import group, sort_groups, take_groups
from overlace.arrays.hashing import distinct_groups, hash_groups
from overlace.arrays.jit import Floats, Ints, by_address
from overlace.planners.search.wires import Wires


@by_address
class Spans(NamedTuple):
    """Classes, prices, tolls and limits of a search; one entry a class, a node or a link."""

    start: Ints  # terminal[start[k]:start[k + 1]] are the nodes of class k, sorted
    terminal: Ints
    weight: Floats
    example: Ints  # per class the one of the given that it stands for, the heaviest of several
    at_start: Ints  # at[at_start[v]:at_start[v + 1]] are the classes with a terminal at v
    at: Ints
    wires: Wires
    toll: Floats  # per node
    cap: Ints  # most links of each broker


def spans_of(start: Ints, ends: Ints, weight: Floats, wires: Wires, toll: Floats, cap: Ints) -> Spans:
    """Classes over these ends."""
    start, terminal, merged, example = merge_classes(start, ends, weight)
    at_start, order = group(terminal, len(toll))
    at = np.repeat(np.arange(len(merged)), np.diff(start))[order]
    return Spans(start, terminal, merged, example, at_start, at, wires, toll, cap)


def merge_classes(start: Ints, terminals: Ints, demand: Floats) -> tuple[Ints, Ints, Floats, Ints]:
    """(start, terminals, weight, example): classes over the same terminals as one; none over fewer than two."""
    start, terminals = sort_groups(start, np.ascontiguousarray(terminals))
    wide = np.flatnonzero((np.diff(start) > 1) & (demand > 0))
    wide = wide[np.argsort(-demand[wide], kind="stable")]
    start, terminals = take_groups(start, terminals, wide)
    chosen, first, clash = distinct_groups(hash_groups(start, terminals), start, terminals)
    if clash >= 0:  # two sets with one hash: leave all classes as they are
        return start, terminals, demand[wide], wide
    weight = np.bincount(chosen, weights=demand[wide], minlength=len(first)).astype(np.float64)
    start, terminals = take_groups(start, terminals, first)
    return start, terminals, weight, wide[first]
