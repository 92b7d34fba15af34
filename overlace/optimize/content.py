"""Who asked for which content in a window of a trace, for what it takes to route by it."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from overlace.observe.known import Known
from overlace.observe.tables import ALWAYS, STILL, Window, bounds
from overlace.replay.forwarding import ContentRequests
from overlace.trace.store import Trace
from overlace.trace.tables import arrow, is_content, numbers


def read_requests(trace: Trace, window: Window, known: Known) -> ContentRequests | None:
    """Content subscriptions and advertisements at the end of a window, in order of arrival; none if nobody has any."""
    rows = trace.read("subscriptions", ["client", "filter", "dialect", "since", "until"])
    asked = _at_end(rows.filter(arrow(is_content(rows["dialect"]), pa.bool_())), window)
    if asked.num_rows == 0:
        return None
    from overlace.matching.content.syntax import parse_filter

    offers = trace.read("advertisements", ["client", "filter", "since", "until"])
    offered = _at_end(offers.filter(offers["filter"].is_valid()), window)
    return ContentRequests(
        known.number("client", numbers(asked["client"]).astype(np.int64)),
        [parse_filter(text) for text in asked["filter"].to_pylist()],
        known.number("client", numbers(offered["client"]).astype(np.int64)),
        [parse_filter(text) for text in offered["filter"].to_pylist()],
    )


def _at_end(rows: pa.Table, window: Window) -> pa.Table:
    """The rows that hold at the end of a window, those that came first in front."""
    _, end = bounds(window)
    since, until = numbers(rows["since"], ALWAYS), numbers(rows["until"], STILL)
    kept = np.flatnonzero((since < end) & (until >= end))
    return rows.take(arrow(kept[np.argsort(since[kept], kind="stable")], pa.int64()))
