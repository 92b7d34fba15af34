"""A dissemination tree for each channel, where a trace has latency bounds and delays (PART10 §3.2).

The channels are those of the plan, or today's. A client that is in several shares its degree limit over them, by the
messages that are published in each.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from overlace.arrays.jit import Ints, Pairs
from overlace.errors import BadParameter
from overlace.model import Names, Progress, name_of
from overlace.observe.bounds import Bounds, bounds_of
from overlace.optimize.case import Case
from overlace.optimize.peers import (
    MOST_PEERS,
    ChannelPeers,
    Delays,
    LeftOut,
    delays_of_links,
    peers_of,
    read_client_delays,
)
from overlace.planners.dissemination.comparison import ARRANGED, compare
from overlace.planners.dissemination.measures import count_children, is_met
from overlace.planners.dissemination.problem import TINY, Problem, find_arrivals, make_problem
from overlace.planners.dissemination.sharing import share_degrees
from overlace.trace.tables import RUN
from overlace.wording import counted

TREES = "trees per channel"


class Kind(NamedTuple):
    """One kind of tree over all channels, in figures."""

    label: str
    met: int  # bounds
    mean_ms: float
    p95_ms: float
    max_degree: int  # children
    over_degree: int  # clients with more children than their limit


class Trees(NamedTuple):
    """A tree for each channel, and what it is worth."""

    rows: pa.Table
    kinds: list[Kind]  # ours first
    channels: int
    subscribers: int
    bounds: int  # subscribers of a channel that have one
    most_met: int  # proven: no trees within these limits meet more
    notes: list[str]

    def share(self, met: int) -> float:
        """So many of the bounds."""
        return met / self.bounds if self.bounds else 1.0


def arrange_trees(case: Case, channels: Pairs, progress: Progress | None = None) -> Trees | str:
    """A tree for each channel; or why there is none."""
    asked = bounds_of(case.trace, case.cut.train, case.known)
    if not asked.given:
        return "no subscription has a latency bound: ingest subscriptions with attributes and bound_ms"
    delays, notes = find_delays(case)
    if delays is None:
        return "delays between clients are not known: ingest sessions, and links with latency_us; or give --delays FILE"
    peers, left_out = peers_of(case.observation, channels, asked, delays)
    notes += _notes(left_out)
    problems, kept = [], []
    for each, degree in zip(peers, _shared_degrees(peers, asked) if peers else (), strict=True):
        try:
            problems.append(make_problem(each.delay, each.bound, degree))
            kept.append(each)
        except BadParameter as error:
            notes.append(f"{name_of('channel', each.channel, case.names)} has no tree: {error}")
    if not problems:
        return "; ".join(notes) or "no channel has a subscriber beside its publisher"
    tell, compared = progress or (lambda share, what: None), []
    for i, problem in enumerate(problems):
        tell(i / len(problems), f"channel {i + 1:,} of {len(problems):,}")
        compared.append(compare(problem, case.goal.seed))
    trees = {label: [each.trees[label] for each in compared] for label in compared[0].trees}
    return Trees(
        _rows(kept, problems, trees[ARRANGED], case.names),
        [_measure(label, kept, problems, made) for label, made in trees.items()],
        len(kept),
        sum(len(each.client) - 1 for each in kept),
        sum(int(np.isfinite(each.bound).sum()) for each in problems),
        sum(each.ceiling.most + root_met(p) for each, p in zip(compared, problems, strict=True)),
        notes,
    )


def find_delays(case: Case) -> tuple[Delays | None, list[str]]:
    """(delays, notes): those of the file that was given, or those of the links."""
    if case.goal.delays is None:
        return delays_of_links(case.observation), []
    return read_client_delays(case.goal.delays, case.names)


def root_met(problem: Problem) -> int:
    """Whether the root has a bound of its own and messages reach it in time; a problem counts only those below it."""
    return int(-TINY <= problem.bound[problem.root] < np.inf)


def _shared_degrees(peers: Sequence[ChannelPeers], asked: Bounds) -> list[Ints]:
    """The degree limit of every peer in each channel, its own shared over the channels that it is in.

    Where the root is the only one who has asked, it sends to nobody.
    """
    several = [each for each in peers if len(each.client) > 1]
    shared = iter(_share(several, asked) if several else ())
    return [next(shared) if len(each.client) > 1 else np.zeros(1, dtype=np.int64) for each in peers]


def _share(peers: Sequence[ChannelPeers], asked: Bounds) -> list[Ints]:
    """The same for channels of several."""
    size = np.array([len(each.client) for each in peers])
    start, client = np.append(0, np.cumsum(size)), np.concatenate([each.client for each in peers])
    rate, root = np.array([each.messages for each in peers]), client[start[:-1]]
    shared = share_degrees(np.minimum(asked.degree, len(client)), (start, client), rate, root)
    unlimited = asked.degree[client] >= len(client)
    return np.split(np.where(unlimited, np.repeat(size, size), shared), start[1:-1])


def _measure(label: str, peers: Sequence[ChannelPeers], problems: Sequence[Problem], trees: Sequence[Ints]) -> Kind:
    """Trees of one kind over all channels, in figures; delays are those from the publisher farthest away."""
    arrivals = [find_arrivals(problem, tree) for problem, tree in zip(problems, trees, strict=True)]
    delays = np.concatenate([each[1:] + peer.entry for each, peer in zip(arrivals, peers, strict=True)])
    children = [count_children(tree) for tree in trees]
    return Kind(
        label,
        sum(int((is_met(p, at) & np.isfinite(p.bound)).sum()) for p, at in zip(problems, arrivals, strict=True)),
        float(delays.mean()) if len(delays) else 0.0,
        float(np.quantile(delays, 0.95)) if len(delays) else 0.0,
        max(int(each.max()) for each in children),
        sum(int((each > p.degree).sum()) for each, p in zip(children, problems, strict=True)),
    )


def _rows(peers: Sequence[ChannelPeers], problems: Sequence[Problem], trees: Sequence[Ints], names: Names) -> pa.Table:
    """Who hangs where, channel by channel; the root has no parent."""
    found: dict[str, list[Any]] = {name: [] for name in RUN["trees"].names}
    for peer, problem, tree in zip(peers, problems, trees, strict=True):
        arrival = find_arrivals(problem, tree)
        bound = (peer.bound + peer.entry).tolist()
        bounded = np.isfinite(problem.bound)
        found["channel"] += [peer.channel] * len(tree)
        called = [name_of("client", each, names) for each in peer.client.tolist()]
        found["client"] += called
        found["parent"] += [None, *(called[up] for up in tree.tolist()[1:])]
        found["delay_ms"] += (arrival + peer.entry).tolist()
        found["bound_ms"] += [each if there else None for each, there in zip(bound, bounded.tolist(), strict=True)]
        met = is_met(problem, arrival).tolist()
        found["met"] += [each if there else None for each, there in zip(met, bounded.tolist(), strict=True)]
    return pa.table(found, schema=RUN["trees"])


def _notes(left_out: LeftOut) -> Sequence[str]:
    """Who has no tree, and why."""
    why = {
        "unpublished": "nobody publishes what they ask for",
        "unknown": "their delays, or those of all their publishers, are not known",
        "unserved": "nobody there may send on messages (max_degree)",
        "large": f"their channels have more than {MOST_PEERS:,}",
    }
    found = [
        f"{counted(many, 'subscriber is', 'subscribers are')} in no tree: {text}"
        for name, text in why.items()
        if (many := getattr(left_out, name))
    ]
    if left_out.publishers:
        many = counted(left_out.publishers, "publisher's delay is", "publishers' delays are")
        found.append(f"{many} not known: bounds are not judged for their messages")
    return found


def trees_lines(trees: Trees) -> list[tuple[str, str]]:
    """Trees in a few lines."""
    ours, *rivals = trees.kinds
    lines = [
        (
            "latency bounds met",
            f"{trees.share(ours.met):.1%} of {trees.bounds:,}; no trees within the degree limits meet more than "
            f"{trees.share(trees.most_met):.1%}",
        ),
        ("delay", f"mean {ours.mean_ms:.4g} ms, 95th percentile {ours.p95_ms:.4g} ms"),
        ("children of a client", f"{ours.max_degree:,} at most, {counted(ours.over_degree, 'limit', 'limits')} broken"),
    ]
    for each in rivals:
        broken = f"; breaks {counted(each.over_degree, 'limit', 'limits')}" if each.over_degree else ""
        lines.append((each.label, f"{trees.share(each.met):.1%} met, mean {each.mean_ms:.4g} ms{broken}"))
    return lines


def trees_document(trees: Trees) -> dict[str, Any]:
    """Trees as JSON; who hangs where is in trees.parquet."""
    return {
        "channels": trees.channels,
        "subscribers": trees.subscribers,
        "bounds": trees.bounds,
        "share_met": trees.share(trees.kinds[0].met),
        "share_met_at_most": trees.share(trees.most_met),
        "kinds": [each._asdict() | {"share_met": trees.share(each.met)} for each in trees.kinds],
        "lines": dict(trees_lines(trees)),
        "notes": trees.notes,
    }


def write_trees(trees: Trees | None, run: Path) -> None:
    """RUN/trees.parquet; where there are none, none from an earlier time either."""
    path = run / "trees.parquet"
    path.unlink(missing_ok=True)
    if trees is not None:
        pq.write_table(trees.rows, path)
