"""Which links of a topology are wired: a minimum spanning tree, all of them, or those that a table names.

What is wired is the whole tree: any other link of the trace is not wired any more. Links are compared by
cost; where no link has one by latency, and where no latency is known either each link counts 1. A link of which
nothing is known is taken only where no other leads, and of equal ones that with the lowest ids is taken.

Keeps: the wired links close no cycle; a link that has ended stays as it was; the same links give the same tree.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Mapping, Sequence, Sized
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from overlace.arrays.components import components, spanning_forest
from overlace.arrays.jit import Bools, Floats, Pairs
from overlace.errors import BadTrace, Unknown
from overlace.ingest.table_rows import encode_rows, read_table_file
from overlace.trace.tables import arrow, numbers

MST, ALL = "mst", "all"
BY_COST, BY_LATENCY, ALIKE = "by cost", "by latency, as no link has a cost", "each link counting 1"
SHOWN = 5
"""Links or brokers that a note names."""


@dataclass(frozen=True)
class Wanted:
    """What is to be wired: mst, all, or a file with a table of links; the options say how that is read."""

    how: str
    options: Mapping[str, Any] = field(default_factory=dict)


class Wiring(NamedTuple):
    """Links with what is wired, and what a user should know of it."""

    links: pa.Table
    notes: list[str]


def wire(links: pa.Table, brokers: Sequence[str], topology: Pairs, wanted: Wanted) -> Wiring:
    """The links of a trace as they are after `--wired`: of those that the topology names some are, no other is."""
    pairs = np.column_stack([numbers(links[end]) for end in ("left", "right")]).astype(np.int64).reshape(-1, 2)
    lasts = numbers(links["until"].is_null())
    rows = np.flatnonzero(lasts & _among(pairs, topology))
    values, measure = _values(links.take(arrow(rows, pa.int64())))
    candidates = _Candidates(brokers, pairs[rows])
    if wanted.how == MST:
        order = np.lexsort((candidates.pairs[:, 1], candidates.pairs[:, 0], values))
        chosen = spanning_forest(len(brokers), candidates.pairs, order)
    elif wanted.how == ALL:
        chosen = np.ones(len(rows), dtype=bool)
        candidates.refuse_cycle("--wired all", chosen)
    else:
        chosen = candidates.named_by(wanted)
        candidates.refuse_cycle(wanted.how, chosen)
    before = numbers(links["wired"])
    after = before & ~lasts
    after[rows[chosen]] = True
    tree = f": a minimum spanning tree, {measure}" if wanted.how == MST else ""
    notes = [f"{int(chosen.sum())} of {len(rows)} links are wired{tree}"]
    notes += candidates.notes(chosen, pairs[before & ~after])
    unknown = candidates.pairs[chosen & ~np.isfinite(values)]
    if len(unknown) and measure == BY_COST:
        notes.append(
            f"{candidates.shown(unknown)} {_are(unknown)} wired and without a cost, where other links have one: "
            "optimize will ask for it. Give it with --table links (left, right, cost)."
        )
    place = links.column_names.index("wired")
    return Wiring(links.set_column(place, links.schema.field(place), arrow(after, pa.bool_())), notes)


def _values(links: pa.Table) -> tuple[Floats, str]:
    """(value of each link, what it is): infinite where it is not known."""
    for name, measure in (("cost", BY_COST), ("latency_us", BY_LATENCY)):
        if links[name].null_count < links.num_rows:
            known = numbers(pc.fill_null(links[name].cast(pa.float64()), np.inf))
            return known, measure
    return np.ones(links.num_rows), ALIKE


def _among(pairs: Pairs, named: Pairs) -> Bools:
    known = set(map(tuple, named.tolist()))
    return np.array([tuple(pair) in known for pair in pairs.tolist()], dtype=bool)


def _are(things: Sized) -> str:
    return "is" if len(things) == 1 else "are"


class _Candidates:
    """The links that could be wired, with the names of brokers."""

    def __init__(self, brokers: Sequence[str], pairs: Pairs) -> None:
        self.brokers, self.pairs = brokers, pairs

    def shown(self, pairs: Pairs) -> str:
        """Some links by the names of their ends."""
        named = [f"{self.brokers[left]} - {self.brokers[right]}" for left, right in pairs[:SHOWN].tolist()]
        return ", ".join(named) + (f" and {len(pairs) - SHOWN} more" if len(pairs) > SHOWN else "")

    def named_by(self, wanted: Wanted) -> Bools:
        """The links that a table names; refused where one is no link of the topology."""
        known = sorted({self.brokers[i] for i in np.unique(self.pairs).tolist()})
        given = read_table_file(wanted.how, "links", wanted.options)
        _, rows, names = encode_rows(given, "links", {"broker": self.brokers}, where=wanted.how)
        ends = np.column_stack([numbers(rows[end]) for end in ("left", "right")]).astype(np.int64).reshape(-1, 2)
        linked = np.isin(ends, self.pairs)
        if not linked.all():
            stranger = names["broker"][int(ends[~linked][0])]
            raise BadTrace(f"{wanted.how}: {Unknown('broker with a link in the topology', stranger, known)}")
        if "wired" in rows.column_names:
            ends = ends[numbers(rows["wired"].fill_null(True))]
        missing = ends[~_among(ends, self.pairs)]
        if len(missing):
            left = int(missing[0, 0])
            own = self.pairs[(self.pairs == left).any(axis=1)]
            raise BadTrace(
                f"{wanted.how}: {self.shown(missing[:1])} is no link of the topology; {self.brokers[left]} has "
                f"{self.shown(own)}. Take it out, or add it first with --table links."
            )
        return _among(self.pairs, ends)

    def refuse_cycle(self, where: str, chosen: Bools) -> None:
        """Refuse links that close a cycle, naming those of one."""
        pairs = self.pairs[chosen]
        kept = spanning_forest(len(self.brokers), pairs, np.lexsort((pairs[:, 1], pairs[:, 0])))
        if kept.all():
            return
        closing = pairs[~kept][0]
        path = _path(pairs[kept], int(closing[0]), int(closing[1]))
        cycle = np.array([*pairwise(path), (path[-1], path[0])])
        named = ", ".join(f"{self.brokers[left]} - {self.brokers[right]}" for left, right in cycle.tolist())
        raise BadTrace(
            f"{where}: these links form a cycle: {named}. Brokers form a tree: leave one of them out with a table of "
            "the wired links (--wired FILE), or wire a minimum spanning tree (--wired mst)."
        )

    def notes(self, chosen: Bools, lost: Pairs) -> list[str]:
        """Which links are not wired any more, and which brokers no wired link reaches."""
        notes = []
        if len(lost):
            notes.append(f"no longer wired, as --wired names the whole tree: {self.shown(lost)}")
        leader = components(len(self.brokers), self.pairs[chosen])
        _, part, sizes = np.unique(leader, return_inverse=True, return_counts=True)
        apart = np.flatnonzero(part != np.argmax(sizes))
        if len(apart):
            named = ", ".join(self.brokers[i] for i in apart[:SHOWN].tolist())
            more = f" and {len(apart) - SHOWN} more" if len(apart) > SHOWN else ""
            notes.append(
                f"{len(apart)} of {len(self.brokers)} brokers are not joined to the others: {named}{more}. Planners "
                "need one tree: add links that lead there with --table links, and wire again."
            )
        return notes


def _path(links: Pairs, begin: int, end: int) -> list[int]:
    """The brokers on the way from one to another in a forest."""
    near: dict[int, list[int]] = defaultdict(list)
    for left, right in links.tolist():
        near[left].append(right)
        near[right].append(left)
    came, waiting = {begin: begin}, deque([begin])
    while waiting:
        here = waiting.popleft()
        for there in near[here]:
            if there not in came:
                came[there] = here
                waiting.append(there)
    path = [end]
    while path[-1] != begin:
        path.append(came[path[-1]])
    return path
