"""The traffic of a window with its receivers, ready for batch functions.

Receivers that were not logged follow from subscriptions (subscribers.py), after messages were added up by client and
topic, never before. A window that cuts a bucket reads that bucket's messages.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from overlace.arrays.csr import sort_groups, take_groups
from overlace.arrays.jit import Bools, Ints
from overlace.errors import BadTrace
from overlace.observe.subscribers import derive_receivers
from overlace.observe.tables import Window
from overlace.trace.store import Trace
from overlace.trace.tables import arrow, groups, lists, numbers
from overlace.trace.traffic import NONE, TRAFFIC, UNLOGGED, Traffic, add_up

if TYPE_CHECKING:
    from overlace.observe.known import Known

FEW = 1 << 14
"""Audiences that a processor's cache holds; among more it is faster to look for them in their order."""

NULL = {"topic": NONE, "attributes": NONE, "audience": UNLOGGED, "bytes": 0}
"""What stands for null in columns of traffic and messages."""


def traffic_of(
    trace: Trace, window: Window | None = None, known: Known | None = None, logged: Traffic | None = None
) -> pa.Table:
    """Rows of TRAFFIC of a window (default: all), in a fixed order.

    Those of one client and topic with one audience are one row, unless most audiences are heard but once. Clients
    and topics are the trace's, or have the numbers under which an observation knows them. `logged` is the traffic of
    the window, if it has been read.
    """
    traffic = complete_traffic(trace, window, known, logged)
    audiences = int(np.count_nonzero(np.bincount(traffic.audience)))
    return table_of(traffic, merge=2 * audiences < len(traffic.audience))  # else there is little to gain


def complete_traffic(
    trace: Trace, window: Window | None = None, known: Known | None = None, logged: Traffic | None = None
) -> Traffic:
    """The traffic of a window with the receivers of every row, as an observation numbers all of them."""
    traffic = logged or read_traffic(trace, window)
    if known is not None:
        traffic = _renumber(traffic, known)
    is_logged = traffic.audience >= 0
    if is_logged.all():
        return traffic
    return traffic.pick(is_logged).join(derive_receivers(trace, window, known, traffic.pick(~is_logged)))


def table_of(traffic: Traffic, merge: bool = True) -> pa.Table:
    """Rows of TRAFFIC, whenever they were sent; those alike are one if they are to be merged."""
    client, topic, audience, messages, size = traffic.client, traffic.topic, *traffic[4:7]
    if merge:
        (client, topic, audience), (messages, size) = add_up([client, topic, audience], [messages, size])
    elif len(traffic.start) > FEW:
        order = np.argsort(audience)
        client, topic, audience, messages, size = (e[order] for e in (client, topic, audience, messages, size))
    start, receivers = sort_groups(*take_groups(traffic.start, traffic.receivers, audience))
    columns = [
        arrow(values, each.type, values == NONE if each.nullable else None)
        for values, each in zip((client, topic, messages, size), TRAFFIC, strict=False)
    ]
    return pa.table([*columns, lists(start, receivers, TRAFFIC.field("receivers").type)], schema=TRAFFIC)


def _renumber(traffic: Traffic, known: Known) -> Traffic:
    """Clients, topics and attributes as an observation numbers them, rows in the order of those."""
    receivers = known.number("client", traffic.receivers)
    client, topic = known.number("client", traffic.client), known.number("topic", traffic.topic)
    attributes = known.masks(traffic.attributes)
    same = client is traffic.client and topic is traffic.topic and attributes is traffic.attributes
    renumbered = traffic._replace(client=client, topic=topic, attributes=attributes, receivers=receivers)
    return renumbered if same else renumbered.add_up()


def read_traffic(trace: Trace, window: Window | None = None) -> Traffic:
    """The traffic of a window (default: all) as it was logged; of a bucket that the window cuts, its messages."""
    traffic, rising = _all_traffic(trace)
    if window is not None:
        since, until = window
        width = trace.bucket_us
        inner = (-(-since // width) * width, until // width * width)
        whole: slice | Bools = (traffic.bucket >= inner[0]) & (traffic.bucket < inner[1])
        if rising:
            whole = slice(*np.searchsorted(traffic.bucket, (inner[0], max(inner))))
        edges = [(since, min(inner[0], until))] if since < inner[0] else []
        edges += [(max(inner[1], since), until)] if inner[1] < until and inner[1] >= inner[0] else []
        traffic = traffic.pick(whole)
        for edge in edges:
            traffic = traffic.append(_from_messages(trace, edge)) if edge[0] < edge[1] else traffic
    return traffic.add_up() if len(trace.parts.get("traffic", ())) > 1 else traffic


def _all_traffic(trace: Trace) -> tuple[Traffic, bool]:
    """(all traffic, whether its rows come in the order of their buckets); read once."""
    if "traffic" not in trace.kept:
        audiences = trace.read("audiences")
        trace.kept["hashes"] = numbers(audiences["audience"])
        read = trace.read("traffic", Traffic._fields[:7])
        columns = {name: numbers(read[name], NULL.get(name)).astype(np.int64) for name in read.column_names}
        columns["audience"] = _places(trace.kept["hashes"], columns["audience"])
        traffic = Traffic(**columns, **dict(zip(("start", "receivers"), groups(audiences["receivers"]), strict=True)))
        for each in traffic:
            each.setflags(write=False)
        trace.kept["traffic"] = traffic, bool((traffic.bucket[1:] >= traffic.bucket[:-1]).all())
    found: tuple[Traffic, bool] = trace.kept["traffic"]
    return found


def _places(hashes: Ints, audience: Ints) -> Ints:
    """The place of each audience among those with these hashes; -1 for one that was not logged."""
    sorter = None if (hashes[1:] > hashes[:-1]).all() else np.argsort(hashes, kind="stable")
    if len(hashes) > FEW:
        order = np.argsort(audience)
        place = np.empty(len(audience), dtype=np.int64)
        place[order] = np.searchsorted(hashes, audience[order], sorter=sorter)
    else:
        place = np.searchsorted(hashes, audience, sorter=sorter)
    is_logged = audience != UNLOGGED
    if sorter is not None:
        place[is_logged] = sorter[place[is_logged]]
    return np.where(is_logged, place, -1)


def _from_messages(trace: Trace, window: Window) -> Traffic:
    """Traffic of a part of a bucket."""
    if trace.rows("messages") == 0 and trace.rows("traffic"):
        raise BadTrace(
            f"{trace.path} keeps no messages, so a window must be whole buckets of {trace.bucket_us // 10**6} s"
        )
    messages = messages_in(trace, window)
    return messages._replace(bucket=messages.bucket // trace.bucket_us * trace.bucket_us).add_up()


def messages_in(trace: Trace, window: Window) -> Traffic:
    """The messages of a window that the trace keeps, in their order; in place of a bucket each has its own time."""
    traffic, _ = _all_traffic(trace)
    read = trace.read("messages", ["at", "client", "topic", "attributes", "audience", "weight", "bytes"])
    at = numbers(read["at"])
    mine = (at >= window[0]) & (at < window[1])
    columns = [numbers(read[name], NULL.get(name)).astype(np.int64)[mine] for name in read.column_names]
    at, client, topic, attributes, audience, weight, size = columns
    place = _places(trace.kept["hashes"], audience)
    return Traffic(at, client, topic, attributes, place, weight, size * weight, traffic.start, traffic.receivers)


def messages_of(trace: Trace, window: Window) -> int:
    """How many messages a part of a bucket holds."""
    return int(_from_messages(trace, window).messages.sum())
