"""Latency bounds of subscribers and degree limits of peers at the end of a window (PART10 §3.2)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from overlace.arrays.jit import Floats, Ints
from overlace.observe.known import Known
from overlace.observe.tables import STILL, Window, at_end, at_some_time, columns, pick
from overlace.trace.store import Trace


class Bounds(NamedTuple):
    """Who asks for which combination within what time, and how many others each client can serve."""

    client: Ints  # one row a subscription with a combination
    attributes: Ints
    bound_ms: Floats  # inf: none
    degree: Ints  # per client: the most links on which it sends; a very high number where nothing is said

    @property
    def given(self) -> bool:
        """Whether some subscription has a bound."""
        return bool(np.isfinite(self.bound_ms).any())


def bounds_of(trace: Trace, window: Window, known: Known) -> Bounds:
    """The bounds that hold at the end of a window; a client that the log has not shown by then is left out."""
    rows = at_end(columns(trace, "subscriptions", "client attributes bound_ms since until"), window)
    client, attributes = known.number("client", rows["client"]), known.masks(rows["attributes"])
    asked = (attributes > 0) & (client < known.counts["client"])
    found = np.column_stack([client[asked], attributes[asked]])
    order = np.lexsort((found[:, 1], found[:, 0]))
    return Bounds(found[order, 0], found[order, 1], rows["bound_ms"][asked][order], _degrees(trace, window, known))


def _degrees(trace: Trace, window: Window, known: Known) -> Ints:
    rows = at_some_time(columns(trace, "clients", "client max_degree since until"), window)
    rows = pick(rows, np.argsort(rows["since"], kind="stable"))  # the last is what holds
    degree = np.full(known.counts["client"], STILL)
    client = known.number("client", rows["client"])
    said = (rows["max_degree"] >= 0) & (client < len(degree))
    degree[client[said]] = rows["max_degree"][said]
    return degree
