"""Links that logs show: which brokers they join, who dials, since when until when."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from overlace.ingest.bridges import LATER, Followed, logs_of
from overlace.ingest.history import EVER, ids_of, times_of, with_times
from overlace.ingest.notes import rows_from
from overlace.ingest.staging import Job
from overlace.trace.writer import Writer

Pair = tuple[int, int]
Since = dict[Pair, int]
"""Pairs of brokers with a time each."""

BRIDGES = "bridges"
"""The source of links that the logs themselves show."""


class Wired(NamedTuple):
    """The links that logs show, with when each was first shown; EVER: not known."""

    dialled: Since  # of bridges: (broker that dials, broker at the far end)
    undirected: Since  # of which only the ends are known, the lower first
    over: Since  # when a bridge's name no longer stood for its ends


def links_in(events: pa.Table, ids: Mapping[str, pa.Array]) -> Since:
    """The links that events show, as pairs of brokers, the lower first, and when each was first shown."""
    shown = events.filter(pc.equal(events["kind"], "link"))
    near, far = ids_of(shown["broker"], ids["broker"]), ids_of(shown["key"], ids["broker"])
    apart = (near >= 0) & (far >= 0) & (near != far)
    ends = np.column_stack([np.minimum(near, far), np.maximum(near, far)])[apart]
    return keep_earliest({}, zip(map(tuple, ends.tolist()), times_of(shown)[apart].tolist(), strict=True))


def keep_earliest(known: Mapping[Pair, int], more: Iterable[tuple[Pair, int]]) -> Since:
    """Pairs of brokers with when each was first shown, more of them taken in."""
    found = dict(known)
    for pair, at in more:
        found[pair] = min(at, found.get(pair, at))
    return found


def with_earlier(wired: Wired, links: pa.Table) -> Wired:
    """The links that logs show, with those that earlier ones have shown."""
    dialled, undirected, over = dict(wired.dialled), dict(wired.undirected), dict(wired.over)
    times = (links[name].cast(pa.int64()).fill_null(EVER).to_pylist() for name in ("since", "until"))
    ends = (links[name].to_pylist() for name in ("left", "right", "dials"))
    for left, right, dials, since, until in zip(*ends, *times, strict=True):
        if dials is None:
            undirected = keep_earliest(undirected, [((left, right), since)])
            continue
        pair = (dials, left + right - dials)
        dialled = keep_earliest(dialled, [(pair, since)])
        if until != EVER:
            over[pair] = min(until, over.get(pair, until))
    return Wired(dialled, undirected, over)


def links_of(
    dialled: Mapping[Pair, int] | Iterable[Pair],
    undirected: Mapping[Pair, int] | Iterable[Pair] = (),
    over: Mapping[Pair, int] | None = None,
) -> pa.Table:
    """Wired links since they were first shown, or always if that is not given; what they cost is not known.

    `dialled` are those of bridges, as (broker that dials, broker at the far end); of those that are `undirected` only
    the ends are known. Links that are `over` were wired until then.
    """
    since, bare_since = (
        {**each} if isinstance(each, Mapping) else dict.fromkeys(each, EVER) for each in (dialled, undirected)
    )
    pairs = sorted(since)
    both = {(min(pair), max(pair)) for pair in pairs}
    bare = sorted(bare_since.keys() - both)
    first = [min(since[pair], bare_since.get((min(pair), max(pair)), since[pair])) for pair in pairs]
    ends = np.array([(min(pair), max(pair)) for pair in pairs] + bare, np.int64).reshape(-1, 2)
    last = [(over or {}).get(pair, EVER) for pair in pairs] + [EVER] * len(bare)
    columns = {
        "left": ends[:, 0],
        "right": ends[:, 1],
        "dials": pa.array([pair[0] for pair in pairs] + [None] * len(bare), pa.int32()),
        "wired": np.ones(len(ends), bool),
    }
    shown = np.array(first + [bare_since[pair] for pair in bare], np.int64)
    return with_times(columns, shown, np.array(last, np.int64), "links")


def write_links(
    writer: Writer, job: Job, lives: Sequence[pa.Table], names: Mapping[str, pa.Array], crossed: Followed | None
) -> None:
    """Write the links that the logs show, unless the trace has links from elsewhere."""
    shown: Since = {}
    for life in lives:
        shown = keep_earliest(shown, links_in(life, names).items())
    wired = Wired({}, shown, {})
    if crossed and crossed.links and not job.key:
        place_of = {name: i for i, name in enumerate(names["broker"].to_pylist())}
        number = {log: place_of[job.sources[i].options["broker"]] for i, log in enumerate(logs_of(job.sources))}
        ends = [(number[a], number[b]) for a, b in crossed.links]
        over = {pair: at for pair, at in zip(ends, crossed.until, strict=True) if at != LATER}
        wired = Wired(keep_earliest({}, zip(ends, crossed.since, strict=True)), shown, over)
    parts = writer.parts.get("links", [])
    earlier = [part for part in parts if part.source == BRIDGES]
    if not (wired.dialled or wired.undirected) or len(earlier) < len(parts):
        return
    if writer.base and earlier:
        wired = with_earlier(wired, rows_from(writer.base, "links", BRIDGES))
        writer.drop("links", BRIDGES)
    writer.write("links", links_of(*wired), source=BRIDGES, name="-bridges")
