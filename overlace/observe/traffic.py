"""The traffic of a window with its receivers, ready for batch functions.

Receivers that were not logged follow from subscriptions (subscribers.py), after messages were added up by client and
topic, never before. A window that cuts a bucket reads that bucket's messages. Traffic is read in this process, or by
an engine that adds it up over time first (spark/reduction.py): both are a `Reader`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

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
    from overlace.observe.known import IdMap

FEW = 1 << 14
"""Audiences that a processor's cache holds; among more it is faster to look for them in their order."""

NULL = {"topic": NONE, "attributes": NONE, "audience": UNLOGGED, "bytes": 0}
"""What stands for null in columns of traffic and messages."""


class Reader(Protocol):
    """How the traffic of a trace comes into arrays."""

    def buckets(self, trace: Trace) -> tuple[Ints, Ints]:
        """(bucket, messages): how much was sent in each bucket; one may come several times."""

    def traffic(self, trace: Trace, window: Window | None = None, after: Window | None = None) -> Traffic:
        """The traffic of a window (default: all) as it was logged; of a bucket that the window cuts, its messages.

        With `after`, rows of clients that had no traffic in that window have their bucket. Rows whose receivers were
        not logged have it always; for others the begin of the window will do.
        """

    def messages(self, trace: Trace, window: Window, after: Window) -> Traffic:
        """Messages of a window, each with its own time; all those of clients that had no traffic in `after`."""


class InProcess:
    """Files read by Arrow: all that a trace has of traffic is in memory."""

    def buckets(self, trace: Trace) -> tuple[Ints, Ints]:
        """(bucket, messages) of every row."""
        rows = trace.read("traffic", ["bucket", "messages"])
        return numbers(rows["bucket"]), numbers(rows["messages"])

    def traffic(self, trace: Trace, window: Window | None = None, after: Window | None = None) -> Traffic:
        """The traffic of a window, by bucket."""
        traffic, rising = _all_traffic(trace)
        if window is not None:
            inner, edges = inside(trace, window)
            whole: slice | Bools = (traffic.bucket >= inner[0]) & (traffic.bucket < inner[1])
            if rising:
                whole = slice(*np.searchsorted(traffic.bucket, (inner[0], max(inner))))
            traffic = traffic.pick(whole)
            for edge in edges:
                messages = self.messages(trace, edge)
                bucket = messages.bucket // trace.bucket_us * trace.bucket_us
                traffic = traffic.append(messages._replace(bucket=bucket).add_up())
        return traffic.add_up() if len(trace.parts.get("traffic", ())) > 1 else traffic

    def messages(self, trace: Trace, window: Window, after: Window | None = None) -> Traffic:
        """The messages of a window that the trace keeps, in their order."""
        traffic, _ = _all_traffic(trace)
        read = trace.read("messages", ["at", "client", "topic", "attributes", "audience", "weight", "bytes"])
        at = numbers(read["at"])
        mine = (at >= window[0]) & (at < window[1])
        columns = [numbers(read[name], NULL.get(name)).astype(np.int64)[mine] for name in read.column_names]
        at, client, topic, attributes, audience, weight, size = columns
        place = places(trace.kept["hashes"], audience)
        return Traffic(at, client, topic, attributes, place, weight, size * weight, traffic.start, traffic.receivers)


IN_PROCESS = InProcess()


def traffic_of(
    trace: Trace, window: Window | None = None, known: IdMap | None = None, logged: Traffic | None = None
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
    trace: Trace, window: Window | None = None, known: IdMap | None = None, logged: Traffic | None = None
) -> Traffic:
    """The traffic of a window with the receivers of every row, as an observation numbers all of them."""
    traffic = logged or IN_PROCESS.traffic(trace, window)
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


def _renumber(traffic: Traffic, known: IdMap) -> Traffic:
    """Clients, topics and attributes as an observation numbers them, rows in the order of those."""
    receivers = known.number("client", traffic.receivers)
    client, topic = known.number("client", traffic.client), known.number("topic", traffic.topic)
    attributes = known.masks(traffic.attributes)
    same = client is traffic.client and topic is traffic.topic and attributes is traffic.attributes
    renumbered = traffic._replace(client=client, topic=topic, attributes=attributes, receivers=receivers)
    return renumbered if same else renumbered.add_up()


def inside(trace: Trace, window: Window) -> tuple[Window, list[Window]]:
    """(the whole buckets of a window, the parts of buckets at its ends); refused where these have no messages."""
    (since, until), width = window, trace.bucket_us
    inner = (-(-since // width) * width, until // width * width)
    edges = [(since, min(inner[0], until))] if since < inner[0] else []
    edges += [(max(inner[1], since), until)] if inner[1] < until and inner[1] >= inner[0] else []
    edges = [edge for edge in edges if edge[0] < edge[1]]
    if edges and trace.rows("messages") == 0 and trace.rows("traffic"):
        raise BadTrace(f"{trace.path} keeps no messages, so a window must be whole buckets of {width // 10**6} s")
    return inner, edges


def _all_traffic(trace: Trace) -> tuple[Traffic, bool]:
    """(all traffic, whether its rows come in the order of their buckets); read once."""
    if "traffic" not in trace.kept:
        audiences = trace.read("audiences")
        trace.kept["hashes"] = numbers(audiences["audience"])
        traffic = as_traffic(trace.read("traffic", Traffic._fields[:7]), audiences)
        for each in traffic:
            each.setflags(write=False)
        trace.kept["traffic"] = traffic, bool((traffic.bucket[1:] >= traffic.bucket[:-1]).all())
    found: tuple[Traffic, bool] = trace.kept["traffic"]
    return found


def as_traffic(rows: pa.Table, audiences: pa.Table) -> Traffic:
    """Rows of the table traffic, with the audiences that they name."""
    columns = {name: numbers(rows[name], NULL.get(name)).astype(np.int64) for name in Traffic._fields[:7]}
    columns["audience"] = places(numbers(audiences["audience"]), columns["audience"])
    return Traffic(**columns, **dict(zip(("start", "receivers"), groups(audiences["receivers"]), strict=True)))


def places(hashes: Ints, audience: Ints) -> Ints:
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
