"""Links that logs show: which brokers they join, who dials, since when until when."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from overlace.ingest.history import EVER, _ids, _lived, _times

BRIDGES = "bridges"
"""The source of links that the logs themselves show."""


def links_told(events: pa.Table, ids: Mapping[str, pa.Array]) -> dict[tuple[int, int], int]:
    """The links that events tell, as pairs of brokers, the lower first, and when each was first told."""
    told = events.filter(pc.equal(events["kind"], "link"))
    near, far = _ids(told["broker"], ids["broker"]), _ids(told["key"], ids["broker"])
    apart = (near >= 0) & (far >= 0) & (near != far)
    ends = np.column_stack([np.minimum(near, far), np.maximum(near, far)])[apart]
    return first_told({}, zip(map(tuple, ends.tolist()), _times(told)[apart].tolist(), strict=True))


def first_told(
    known: Mapping[tuple[int, int], int], more: Iterable[tuple[tuple[int, int], int]]
) -> dict[tuple[int, int], int]:
    """Pairs of brokers with when each was first told, more of them taken in."""
    found = dict(known)
    for pair, at in more:
        found[pair] = min(at, found.get(pair, at))
    return found


class Wired(NamedTuple):
    """The links that logs show, with when each was first shown; EVER: not known."""

    dialled: dict[tuple[int, int], int]  # of bridges: (broker that dials, broker at the far end)
    told: dict[tuple[int, int], int]  # of which only the ends are known, the lower first
    over: dict[tuple[int, int], int]  # when a bridge's name no longer told its ends


def with_earlier(wired: Wired, links: pa.Table) -> Wired:
    """The links that logs show, with those that earlier ones have shown."""
    dialled, told, over = dict(wired.dialled), dict(wired.told), dict(wired.over)
    times = (links[name].cast(pa.int64()).fill_null(EVER).to_pylist() for name in ("since", "until"))
    ends = (links[name].to_pylist() for name in ("left", "right", "dials"))
    for left, right, dials, since, until in zip(*ends, *times, strict=True):
        if dials is None:
            told = first_told(told, [((left, right), since)])
            continue
        pair = (dials, left + right - dials)
        dialled = first_told(dialled, [(pair, since)])
        if until != EVER:
            over[pair] = min(until, over.get(pair, until))
    return Wired(dialled, told, over)


def links_of(
    dialled: Mapping[tuple[int, int], int] | Iterable[tuple[int, int]],
    told: Mapping[tuple[int, int], int] | Iterable[tuple[int, int]] = (),
    over: Mapping[tuple[int, int], int] | None = None,
) -> pa.Table:
    """Wired links since they were first shown, or always if that is not given; what they cost is not known.

    `dialled` are those of bridges, as (broker that dials, broker at the far end); of those that are `told` only the
    ends are known. Links that are `over` were wired until then.
    """
    since, bare_since = (
        {**each} if isinstance(each, Mapping) else dict.fromkeys(each, EVER) for each in (dialled, told)
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
    return _lived(columns, shown, np.array(last, np.int64), "links")
