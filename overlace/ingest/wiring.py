"""Which links of a topology are wired: a minimum spanning tree, all of them, or those that a table names.

What is wired is the whole tree: any other link of the trace is not wired any more. Links are compared by
cost; where no link has one by latency, and where no latency is known either each link counts 1. A link of which
nothing is known is taken only where no other leads, and of equal ones that with the lowest ids is taken.

Keeps: the wired links close no cycle; a link that has ended stays as it was; the same links give the same tree.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from overlace.arrays.components import components, spanning_forest
from overlace.arrays.jit import Bools, Floats, Pairs
from overlace.errors import BadTrace, Unknown
from overlace.ingest.table_rows import encode_rows, read_table_file
from overlace.trace.tables import arrow, numbers

MST, ALL = "mst", "all"
SHOWN = 5
"""Links or brokers that a note names."""


@dataclass(frozen=True)
class WiringRequest:
    """What is to be wired: mst, all, or a file with a table of links; the options say how that is read."""

    how: str
    options: Mapping[str, Any] = field(default_factory=dict)


def wire(links: pa.Table, brokers: Sequence[str], topology: Pairs, wanted: WiringRequest) -> tuple[pa.Table, list[str]]:
    """(links, notes) of a trace after `--wired`: of those that the topology names some are wired, no other is."""
    ends = pairs_of(links)
    open_ended = numbers(links["until"].is_null())
    rows = np.flatnonzero(open_ended & among(ends, topology))
    pairs = ends[rows]
    values, measure = _values(links.take(arrow(rows, pa.int64())))
    if wanted.how == MST:
        chosen = spanning_forest(len(brokers), pairs, np.lexsort((pairs[:, 1], pairs[:, 0], values)))
    else:
        chosen = np.ones(len(rows), bool) if wanted.how == ALL else _named(pairs, brokers, wanted)
        where = "--wired all" if wanted.how == ALL else wanted.how
        _refuse_cycle(pairs[chosen], brokers, where)
    before = numbers(links["wired"])
    after = before & ~open_ended
    after[rows[chosen]] = True
    tree = f": a minimum spanning tree, {measure}" if wanted.how == MST else ""
    notes = [f"{int(chosen.sum())} of {len(rows)} links are wired{tree}"]
    removed, unknown = ends[before & ~after], pairs[chosen & ~np.isfinite(values)]
    if len(removed):
        notes.append(f"no longer wired, as --wired names the whole tree: {_shown(_named_links(removed, brokers))}")
    _, part, sizes = np.unique(components(len(brokers), pairs[chosen]), return_inverse=True, return_counts=True)
    apart = [brokers[i] for i in np.flatnonzero(part != np.argmax(sizes)).tolist()]
    if apart:
        notes.append(
            f"{len(apart)} of {len(brokers)} brokers are not joined to the others: {_shown(apart)}. Planners "
            "need one tree: add links that lead there with --table links, and wire again."
        )
    if len(unknown) and measure == "by cost":
        them = f"{_shown(_named_links(unknown, brokers))} {'is' if len(unknown) == 1 else 'are'}"
        notes.append(
            f"{them} wired and without a cost, where other links have one: optimize will ask for it. Give it with "
            "--table links (left, right, cost)."
        )
    place = links.column_names.index("wired")
    return links.set_column(place, links.schema.field(place), arrow(after, pa.bool_())), notes


def pairs_of(links: pa.Table) -> Pairs:
    """The ends of links."""
    return np.column_stack([numbers(links[end]) for end in ("left", "right")]).astype(np.int64)


def among(pairs: Pairs, named: Pairs) -> Bools:
    """Which of the pairs are among those that are named."""
    known = set(map(tuple, named.tolist()))
    return np.array([tuple(pair) in known for pair in pairs.tolist()], dtype=bool)


def _values(links: pa.Table) -> tuple[Floats, str]:
    """(value of each link, what it is): infinite where it is not known."""
    for name, measure in (("cost", "by cost"), ("latency_us", "by latency, as no link has a cost")):
        if links[name].null_count < links.num_rows:
            return numbers(links[name].cast(pa.float64()), np.inf), measure
    return np.ones(links.num_rows), "each link counting 1"


def _named_links(pairs: Pairs, brokers: Sequence[str]) -> list[str]:
    return [f"{brokers[left]} - {brokers[right]}" for left, right in pairs.tolist()]


def _shown(names: Sequence[str]) -> str:
    return ", ".join(names[:SHOWN]) + (f" and {len(names) - SHOWN} more" if len(names) > SHOWN else "")


def _named(pairs: Pairs, brokers: Sequence[str], wanted: WiringRequest) -> Bools:
    """Which links a table names; refused where it names one that is none of them."""
    given = read_table_file(wanted.how, "links", wanted.options)
    _, rows, names = encode_rows(given, "links", {"broker": brokers}, where=wanted.how)
    ends = pairs_of(rows)
    for i in ends[~np.isin(ends, pairs)][:1].tolist():
        known = sorted({brokers[i] for i in np.unique(pairs).tolist()})
        raise BadTrace(f"{wanted.how}: {Unknown('broker with a link in the topology', names['broker'][i], known)}")
    if "wired" in rows.column_names:
        ends = ends[numbers(rows["wired"], True)]
    missing = ends[~among(ends, pairs)]
    if len(missing):
        left = missing[0, 0]
        own = _named_links(pairs[(pairs == left).any(axis=1)], brokers)
        raise BadTrace(
            f"{wanted.how}: {_named_links(missing, brokers)[0]} is no link of the topology; {brokers[left]} has "
            f"{_shown(own)}. Take it out, or add it first with --table links."
        )
    return among(pairs, ends)


def _refuse_cycle(pairs: Pairs, brokers: Sequence[str], where: str) -> None:
    """Refuse links that close a cycle, naming those of one."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import breadth_first_order

    n = len(brokers)
    kept = spanning_forest(n, pairs, np.lexsort((pairs[:, 1], pairs[:, 0])))
    if kept.all():
        return
    begin, end = pairs[~kept][0].tolist()
    forest = coo_array((np.ones(kept.sum()), tuple(pairs[kept].T)), shape=(n, n)).tocsr()
    _, previous = breadth_first_order(forest, begin, directed=False)
    path = [end]
    while path[-1] != begin:
        path.append(int(previous[path[-1]]))
    cycle = _named_links(np.array([*pairwise(path), (begin, end)]), brokers)
    raise BadTrace(
        f"{where}: these links form a cycle: {', '.join(cycle)}. Brokers form a tree: leave one of them out with a "
        "table of the wired links (--wired FILE), or wire a minimum spanning tree (--wired mst)."
    )
