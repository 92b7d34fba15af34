"""The traffic of a window with its receivers, ready for batch functions.

Receivers that were not logged follow from the subscriptions that were open in the bucket, after
messages were added up by client and topic, never before. Messages to a group are dealt in turn over
its members, lowest id first. A window that cuts a bucket reads that bucket's messages.
"""

from __future__ import annotations

from math import lcm
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from overlace.arrays.csr import sort_groups, take_groups
from overlace.arrays.jit import Ints
from overlace.errors import BadTrace
from overlace.observe.tables import ALWAYS, STILL, within_lifetimes
from overlace.trace.store import Trace
from overlace.trace.tables import arrow, groups, lists, numbers
from overlace.trace.traffic import NONE, UNLOGGED, add_up

if TYPE_CHECKING:
    from overlace.observe.known import Known

TRAFFIC = pa.schema(
    [
        pa.field("client", pa.int32(), nullable=False),
        pa.field("topic", pa.int32()),
        pa.field("messages", pa.int64(), nullable=False),
        pa.field("bytes", pa.int64(), nullable=False),
        pa.field("receivers", pa.list_(pa.int32()), nullable=False),
    ]
)
"""Traffic added up over a window, with its receivers: what observing and replaying take."""

FEW = 1 << 14
"""Audiences that a processor's cache holds; among more it is faster to look for them in their order."""


class Rows(NamedTuple):
    """Rows of traffic as columns."""

    bucket: Ints
    client: Ints
    topic: Ints  # NONE: no topic
    attributes: Ints  # NONE: none
    audience: Ints
    messages: Ints
    bytes: Ints


class Heard(NamedTuple):
    """Messages and bytes by when they were sent, who sent them and who heard them: a place among some audiences."""

    bucket: Ints
    client: Ints
    topic: Ints
    place: Ints
    messages: Ints
    bytes: Ints


class Logged(NamedTuple):
    """The traffic of a window as it was logged, and all audiences of the trace."""

    rows: Rows
    hashes: Ints
    start: Ints  # receivers[start[i]:start[i + 1]] are those of hashes[i]
    receivers: Ints


def read_traffic(trace: Trace, window: tuple[int, int] | None = None) -> Logged:
    """The traffic of a window (default: all)."""
    if "audiences" not in trace.kept:
        audiences = trace.read("audiences")
        found = numbers(audiences["audience"]), *groups(audiences["receivers"])
        for each in found:
            each.setflags(write=False)
        trace.kept["audiences"] = found
    return Logged(_within(trace, window), *trace.kept["audiences"])


def traffic_of(
    trace: Trace, window: tuple[int, int] | None = None, known: Known | None = None, logged: Logged | None = None
) -> pa.Table:
    """Rows of TRAFFIC of a window (default: all), in a fixed order.

    Those of one client and topic with one audience are one row, unless most audiences are heard but once. Clients
    and topics are the trace's, or have the numbers under which an observation knows them. `logged` is the traffic of
    the window, if it has been read.
    """
    heard, start, receivers, several = heard_in(trace, window, known, logged)
    return table_of(heard, start, receivers, several)


def heard_in(
    trace: Trace, window: tuple[int, int] | None = None, known: Known | None = None, logged: Logged | None = None
) -> tuple[Heard, Ints, Ints, bool]:
    """(heard, start, receivers, several): who heard what when; audience i is receivers[start[i]:start[i + 1]].

    `several` says whether most audiences are heard more than once.
    """
    rows, hashes, start, receivers = logged or read_traffic(trace, window)
    if known is not None:
        rows, receivers = _renumbered(rows, known), known.number("client", receivers)
    logs = rows.audience != UNLOGGED
    heard = _logged(rows if logs.all() else Rows(*(each[logs] for each in rows)), hashes)
    several = 2 * int(np.count_nonzero(np.bincount(heard.place))) < len(heard.place)  # else there is little to gain
    if not logs.all():
        asked = _known_subscribers(trace, window, known)
        unlogged, bounds, others = _by_subscription(trace, Rows(*(each[~logs] for each in rows)), asked)
        several = several or len(bounds) - 1 < len(unlogged.place)
        unlogged = unlogged._replace(place=unlogged.place + len(hashes))
        heard = Heard(*map(np.concatenate, zip(heard, unlogged, strict=True)))
        start, receivers = np.append(start, start[-1] + bounds[1:]), np.append(receivers, others)
    return heard, start, receivers, several


def table_of(heard: Heard, start: Ints, receivers: Ints, several: bool = True) -> pa.Table:
    """Rows of TRAFFIC of what was heard, whenever that was; added up where that makes them fewer."""
    client, topic, place, messages, size = heard[1:]
    if several:
        (client, topic, place), (messages, size) = add_up([client, topic, place], [messages, size])
    bounds, taken = sort_groups(*take_groups(start, receivers, place))
    made = [
        arrow(v, f.type, v == NONE if f.nullable else None)
        for v, f in zip((client, topic, messages, size), TRAFFIC, strict=False)
    ]
    return pa.table([*made, lists(bounds, taken, TRAFFIC.field("receivers").type)], schema=TRAFFIC)


def _renumbered(rows: Rows, known: Known) -> Rows:
    """The rows with clients, topics and attributes as an observation numbers them, in the order of those."""
    client, topic = known.number("client", rows.client), known.number("topic", rows.topic)
    attributes = known.masks(rows.attributes)
    if client is rows.client and topic is rows.topic and attributes is rows.attributes:
        return rows
    return _added(rows._replace(client=client, topic=topic, attributes=attributes))


def _known_subscribers(trace: Trace, window: tuple[int, int] | None, known: Known | None) -> Subscribers:
    """Who had subscribed by the end of a window, as an observation numbers them."""
    found = subscribers(trace)
    if window is not None:
        open_then = (found.since < window[1]) & (found.until > window[0])
        found = Subscribers(*(each[open_then] for each in found))
    if known is not None:
        client, topic = known.number("client", found.client), known.number("topic", found.topic)
        found = found._replace(client=client, topic=topic)
    return found


def _logged(rows: Rows, hashes: Ints) -> Heard:
    """Rows whose audience was logged, by its place in the trace."""
    if len(hashes) > FEW:
        order = np.argsort(rows.audience)
        rows = Rows(*(each[order] for each in rows))
    if (hashes[1:] > hashes[:-1]).all():
        place = np.searchsorted(hashes, rows.audience)
    else:
        order = np.argsort(hashes, kind="stable")
        place = order[np.searchsorted(hashes, rows.audience, sorter=order)]
    return Heard(rows.bucket, rows.client, rows.topic, place, rows.messages, rows.bytes)


def _within(trace: Trace, window: tuple[int, int] | None) -> Rows:
    """Rows of traffic in the window; of a bucket that it cuts, its messages."""
    rows, rising = _all_rows(trace)
    parts = [rows]
    if window is not None:
        since, until = window
        width = trace.bucket_us
        inner = (-(-since // width) * width, until // width * width)
        whole: Any = (rows.bucket >= inner[0]) & (rows.bucket < inner[1])
        if rising:
            whole = slice(*np.searchsorted(rows.bucket, (inner[0], max(inner))))
        edges = [(since, min(inner[0], until))] if since < inner[0] else []
        edges += [(max(inner[1], since), until)] if inner[1] < until and inner[1] >= inner[0] else []
        parts = [Rows(*(each[whole] for each in rows))]
        parts += [_from_messages(trace, edge) for edge in edges if edge[0] < edge[1]]
    found = Rows(*map(np.concatenate, zip(*parts, strict=True))) if len(parts) > 1 else parts[0]
    return _added(found) if len(trace.parts.get("traffic", ())) > 1 else found


def _all_rows(trace: Trace) -> tuple[Rows, bool]:
    """(all rows of traffic, whether they come in the order of their buckets); read once."""
    if "traffic" not in trace.kept:
        read = trace.read("traffic", Rows._fields)
        each = (numbers(read[name], NONE if name in _OPTIONAL else None).astype(np.int64) for name in Rows._fields)
        rows = Rows(*each)
        for column in rows:
            column.setflags(write=False)
        trace.kept["traffic"] = rows, bool((rows.bucket[1:] >= rows.bucket[:-1]).all())
    found: tuple[Rows, bool] = trace.kept["traffic"]
    return found


_OPTIONAL = ("topic", "attributes")


def _added(rows: Rows) -> Rows:
    """The same traffic with a row for each bucket, client, topic, attributes and audience, in this order."""
    keys, sums = add_up(rows[:5], rows[5:])
    return Rows(*keys, *sums)


def _from_messages(trace: Trace, window: tuple[int, int]) -> Rows:
    """Traffic of a part of a bucket."""
    if trace.rows("messages") == 0 and trace.rows("traffic"):
        raise BadTrace(
            f"{trace.path} keeps no messages, so a window must be whole buckets of {trace.bucket_us // 10**6} s"
        )
    rows = messages_in(trace, window)
    return _added(rows._replace(bucket=rows.bucket // trace.bucket_us * trace.bucket_us))


def messages_in(trace: Trace, window: tuple[int, int]) -> Rows:
    """The messages of a window that the trace keeps, in their order; in place of a bucket each has its own time."""
    read = trace.read("messages", ["at", "client", "topic", "attributes", "audience", "weight", "bytes"])
    at = numbers(read["at"])
    mine = (at >= window[0]) & (at < window[1])
    nulls = {"topic": NONE, "attributes": NONE, "audience": UNLOGGED, "bytes": 0}
    values = [numbers(read[name], nulls.get(name)).astype(np.int64)[mine] for name in read.column_names]
    at, client, topic, attributes, audience, weight, size = values
    return Rows(at, client, topic, attributes, audience, weight, size * weight)


def messages_of(trace: Trace, window: tuple[int, int]) -> int:
    """How many messages a part of a bucket holds."""
    return int(_from_messages(trace, window).messages.sum())


class Subscribers(NamedTuple):
    """Who subscribed to which topic, and when; filters matched against all topics."""

    client: Ints
    topic: Ints
    since: Ints
    until: Ints
    group: Ints  # -1: none; else its place among the groups in order of their names


def subscribers(trace: Trace) -> Subscribers:
    """Who subscribed to which topic."""
    rows = trace.read("subscriptions")
    client = numbers(rows["client"]).astype(np.int64)
    topic = numbers(rows["topic"], -1).astype(np.int64)
    picked = np.flatnonzero(topic >= 0)
    matched = topic[picked]
    if rows["filter"].null_count < rows.num_rows:
        from overlace.matching.topics import match

        by_filter = np.flatnonzero(numbers(rows["filter"].is_valid()))
        chosen = rows.select(["filter", "dialect"]).take(arrow(by_filter, pa.int64()))
        dialects = [each or "mqtt" for each in chosen["dialect"].to_pylist()]
        pairs = match(chosen["filter"].to_pylist(), dialects, trace.names.get("topic", ()))
        picked, matched = np.append(picked, by_filter[pairs[:, 0]]), np.append(matched, pairs[:, 1])
    group = np.full(rows.num_rows, -1)
    if rows["group"].null_count < rows.num_rows:
        named = rows["group"].to_pylist()
        place = {name: i for i, name in enumerate(sorted({name for name in named if name is not None}))}
        group = np.array([place.get(name, -1) for name in named])
    times = {"client": client, "since": numbers(rows["since"], ALWAYS), "until": numbers(rows["until"], STILL)}
    _, since, until = within_lifetimes(trace, "subscriptions", times).values()
    return Subscribers(client[picked], matched, since[picked], until[picked], group[picked])


def _by_subscription(trace: Trace, rows: Rows, asked: Subscribers) -> tuple[Heard, Ints, Ints]:
    """(heard, start, receivers): messages whose receivers were not logged, from who was subscribed in their bucket.

    Message n of a topic, counted from 0 in order of the rows, goes to everyone who subscribed alone, and in
    each group of k members to member n modulo k. Messages of a row that go to the same are one part of it,
    with its share of the bytes; the first part has what is left over.
    """
    moment, cells = _moments(rows, asked, trace.bucket_us)
    period = _periods(cells, int(moment.max(initial=-1)) + 1)[moment]
    turns = np.where(period > 0, np.minimum(period, rows.messages), 1)
    at, turn = np.repeat(np.arange(len(turns)), turns), _counted(turns)
    whole, rounds = rows.messages[at], turns[at]
    messages = whole // rounds + (turn < whole % rounds)
    size = rows.bytes[at] * messages // np.maximum(whole, 1)
    first = np.flatnonzero(turn == 0)
    if len(first):
        size[first] += rows.bytes[at[first]] - np.add.reduceat(size, first)
    phase = np.where(period[at] > 0, (_before(rows)[at] + turn) % np.maximum(period[at], 1), 0)
    place, which, phase = _numbered(moment[at], phase)
    heard = Heard(rows.bucket[at], rows.client[at], rows.topic[at], place, messages, size)
    return heard, *_receivers(which, phase, cells)


def _moments(rows: Rows, known: Subscribers, width: int) -> tuple[Ints, list[Ints]]:
    """(moment, cells): rows of one moment have the same topic and see the same subscriptions open.

    Cells are those: columns of moment, group and client, in this order and each once.
    """
    opens = np.maximum(known.since, ALWAYS + width) - width + 1  # the first bucket, whole or not, that sees it
    times = np.unique(np.concatenate([opens, known.until, rows.bucket]))
    line = np.where(rows.topic == NONE, 0, rows.topic + 1) * len(times)  # each topic has its own
    lines = (known.topic + 1) * len(times)
    events = np.concatenate([line, *(lines + np.searchsorted(times, each) for each in (opens, known.until))])
    epoch = np.searchsorted(np.unique(events), line + np.searchsorted(times, rows.bucket), side="right")
    _, row, moment = np.unique(epoch, return_index=True, return_inverse=True)
    order = np.argsort(known.topic, kind="stable")
    first, last = (np.searchsorted(known.topic[order], rows.topic[row], side=side) for side in ("left", "right"))
    which = np.repeat(np.arange(len(row)), last - first)
    each = order[np.repeat(first, last - first) + _counted(last - first)]
    bucket = rows.bucket[row][which]
    live = (opens[each] <= bucket) & (known.until[each] > bucket)
    which, each = which[live], each[live]
    return moment, add_up([which, known.group[each], known.client[each]], [])[0]


def _periods(cells: list[Ints], moments: int) -> Ints:
    """After how many messages all groups of each moment are where they were; 0 where there is no group."""
    period = [0] * moments
    moment, group, _ = cells
    shared = group >= 0
    (owner, _), (members,) = add_up([moment[shared], group[shared]], [np.ones(int(shared.sum()), np.int64)])
    for i, size in zip(owner.tolist(), members.tolist(), strict=True):
        period[i] = min(lcm(period[i] or 1, size), STILL)  # beyond that no message comes
    return np.array(period, dtype=np.int64)


def _before(rows: Rows) -> Ints:
    """How many messages of its topic come before each row."""
    order = np.argsort(rows.topic, kind="stable")
    topic, messages = rows.topic[order], rows.messages[order]
    total = np.cumsum(messages) - messages
    before = np.empty(len(total), dtype=np.int64)
    before[order] = total - total[np.searchsorted(topic, topic)]
    return before


def _numbered(moment: Ints, phase: Ints) -> tuple[Ints, Ints, Ints]:
    """(number, moment, phase): pairs numbered in their order, and the pair of each number."""
    order = np.lexsort((phase, moment))
    moment, phase = moment[order], phase[order]
    fresh = np.ones(len(order), dtype=np.bool_)
    fresh[1:] = (moment[1:] != moment[:-1]) | (phase[1:] != phase[:-1])
    number = np.empty(len(order), dtype=np.int64)
    number[order] = np.cumsum(fresh) - 1
    return number, moment[fresh], phase[fresh]


def _receivers(moment: Ints, phase: Ints, cells: list[Ints]) -> tuple[Ints, Ints]:
    """(start, receivers) of audiences: everyone who is alone, and of each group whose turn it is."""
    owner, group, client = cells
    fresh = np.ones(len(owner) + 1, dtype=np.bool_)
    fresh[1:-1] = (owner[1:] != owner[:-1]) | (group[1:] != group[:-1])
    members = np.diff(np.flatnonzero(fresh))
    turn, size = _counted(members), np.repeat(members, members)
    first, last = (np.searchsorted(owner, moment, side=side) for side in ("left", "right"))
    which = np.repeat(np.arange(len(moment)), last - first)
    each = np.repeat(first, last - first) + _counted(last - first)
    due = (group[each] < 0) | (turn[each] == phase[which] % size[each])
    which, receivers = add_up([which[due], client[each[due]]], [])[0]
    return np.searchsorted(which, np.arange(len(moment) + 1)), receivers


def _counted(sizes: Ints) -> Ints:
    """0, 1, ... up to each size, one after the other."""
    return np.arange(int(sizes.sum())) - np.repeat(np.cumsum(sizes) - sizes, sizes)
