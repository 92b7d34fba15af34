"""The traffic of a window with its receivers, ready for batch functions.

Receivers that were not logged follow from the subscriptions that were open in the bucket, after
messages were added up by client and topic, never before. Messages to a group are dealt in turn over
its members, lowest id first. A window that cuts a bucket reads that bucket's messages.
"""

from __future__ import annotations

from math import lcm
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from overlace.arrays.csr import take_groups
from overlace.arrays.jit import Ints
from overlace.errors import BadTrace
from overlace.matching.topics import match
from overlace.observe.reduction import NONE, UNLOGGED, Reduction, merge, receivers_of
from overlace.tables import TIME, schema_of
from overlace.trace import Trace

TRAFFIC = schema_of("traffic").append(pa.field("receivers", pa.list_(pa.int32()), nullable=False))
"""Rows of traffic with their receivers: what observing and replaying take."""


def traffic_of(trace: Trace, window: tuple[int, int] | None = None) -> pa.Table:
    """Rows of TRAFFIC of a window (default: all), in a fixed order."""
    traffic = _within(trace, window)
    if len(trace.parts.get("traffic", ())) > 1:
        none = trace.read("audiences").slice(0, 0)
        traffic = merge([Reduction(traffic, none), Reduction(traffic.slice(0, 0), none)]).traffic
    audiences = trace.read("audiences").combine_chunks()
    start, members = receivers_of(audiences)
    hashes = audiences["audience"].to_numpy()
    order = np.argsort(hashes, kind="stable")
    wanted = traffic["audience"].to_numpy()
    logged = wanted != UNLOGGED
    at = np.searchsorted(hashes[order], wanted[logged])
    bounds, taken = take_groups(start, members, order[at])
    known = _with_receivers(traffic.filter(pa.array(logged)), bounds, taken)
    if logged.all():
        return known
    return pa.concat_tables([known, _by_subscription(trace, traffic.filter(pa.array(~logged)))]).combine_chunks()


def _with_receivers(traffic: pa.Table, bounds: Ints, taken: Ints) -> pa.Table:
    lists = pa.ListArray.from_arrays(pa.array(bounds.astype(np.int32)), pa.array(taken.astype(np.int32)))
    return pa.table([*traffic.columns, lists], schema=TRAFFIC)


def _within(trace: Trace, window: tuple[int, int] | None) -> pa.Table:
    """Rows of traffic in the window; of a bucket that it cuts, its messages."""
    traffic = trace.read("traffic")
    if window is None:
        return traffic
    since, until = window
    width = trace.bucket_us
    inner = (-(-since // width) * width, until // width * width)
    bucket = traffic["bucket"].cast(pa.int64())
    whole = traffic.filter(pc.and_(pc.greater_equal(bucket, inner[0]), pc.less(bucket, inner[1])))
    edges = [(since, min(inner[0], until))] if since < inner[0] else []
    edges += [(max(inner[1], since), until)] if inner[1] < until and inner[1] >= inner[0] else []
    parts = [whole, *(_from_messages(trace, edge) for edge in edges if edge[0] < edge[1])]
    return pa.concat_tables(parts)


def _from_messages(trace: Trace, window: tuple[int, int]) -> pa.Table:
    """Traffic of a part of a bucket."""
    if trace.rows("messages") == 0 and trace.rows("traffic"):
        raise BadTrace(
            f"{trace.path} keeps no messages, so a window must be whole buckets of {trace.bucket_us // 10**6} s"
        )
    messages = trace.read("messages")
    at = messages["at"].cast(pa.int64())
    mine = messages.filter(pc.and_(pc.greater_equal(at, window[0]), pc.less(at, window[1])))
    bucket = np.asarray(mine["at"].cast(pa.int64()).to_numpy()) // trace.bucket_us * trace.bucket_us
    weight = mine["weight"].cast(pa.int64())
    rows = pa.table(
        [
            pa.array(bucket).cast(TIME), mine["client"], mine["topic"], mine["attributes"],
            pc.fill_null(mine["audience"], UNLOGGED), weight, pa.array(np.ones(len(bucket), np.int64)),
            pc.multiply(pc.fill_null(mine["bytes"].cast(pa.int64()), 0), weight),
        ],
        schema=schema_of("traffic"),
    )  # fmt: skip
    none = trace.read("audiences").slice(0, 0)
    return merge([Reduction(rows, none), Reduction(rows.slice(0, 0), none)]).traffic


def subscribers(trace: Trace) -> dict[str, Any]:
    """Who subscribed to which topic: (client, topic, since, until, group), filters matched against all topics."""
    rows = trace.read("subscriptions")
    names = list(trace.names.get("topic", ()))
    client, since, until = (rows[c].cast(pa.int64()).fill_null(d).to_numpy() for c, d in _ENDS)
    topic = rows["topic"].cast(pa.int64()).fill_null(NONE).to_numpy()
    group = rows["group"].to_numpy()
    by_filter = np.flatnonzero(rows["filter"].is_valid().to_numpy())
    plain = np.flatnonzero(topic != NONE)
    picked, matched = [plain], [topic[plain]]
    if len(by_filter):
        filters = rows["filter"].take(pa.array(by_filter)).to_pylist()
        dialects = rows["dialect"].fill_null("mqtt").take(pa.array(by_filter)).to_pylist()
        pairs = match(filters, dialects, names)
        picked.append(by_filter[pairs[:, 0]])
        matched.append(pairs[:, 1])
    at = np.concatenate(picked)
    return {
        "client": client[at], "topic": np.concatenate(matched), "since": since[at], "until": until[at],
        "group": group[at],
    }  # fmt: skip


_ENDS = (("client", 0), ("since", np.iinfo(np.int64).min), ("until", np.iinfo(np.int64).max))


def _by_subscription(trace: Trace, traffic: pa.Table) -> pa.Table:
    """Receivers of unlogged messages, from who was subscribed during their bucket."""
    known = subscribers(trace)
    order = np.argsort(known["topic"], kind="stable")
    known = {name: values[order] for name, values in known.items()}
    bucket = traffic["bucket"].cast(pa.int64()).to_numpy()
    topic = traffic["topic"].cast(pa.int64()).fill_null(NONE).to_numpy()
    made = []
    columns = traffic.to_pydict()
    turn: dict[int, int] = {}  # messages of each topic so far: groups go on where they were
    cache: dict[tuple[int, ...], tuple[Any, list[Any]]] = {}
    first, last = np.searchsorted(known["topic"], topic), np.searchsorted(known["topic"], topic, side="right")
    for i in range(len(bucket)):  # rows that are added up already, not messages
        here = slice(first[i], last[i])
        open_ = (known["since"][here] < bucket[i] + trace.bucket_us) & (known["until"][here] > bucket[i])
        key = (int(topic[i]), *np.packbits(open_).tolist())
        if key not in cache:
            cache[key] = _audience(known["client"][here][open_], known["group"][here][open_])
        everyone, groups = cache[key]
        messages = columns["messages"][i]
        made += [(i, receivers, share) for receivers, share in _dealt(everyone, groups, messages, turn.get(key[0], 0))]
        turn[key[0]] = turn.get(key[0], 0) + messages
    return _split(traffic, made)


def _audience(client: Ints, group: Any) -> tuple[Ints, list[Ints]]:
    """(everyone, groups): who receives every message, and the members of each group that takes turns."""
    alone = np.array([name is None for name in group], dtype=bool)
    names = sorted({name for name in group if name is not None})
    return np.unique(client[alone]), [np.unique(client[np.array([n == name for n in group])]) for name in names]


def _dealt(everyone: Ints, groups: list[Ints], messages: int, before: int) -> list[tuple[Ints, int]]:
    """(receivers, messages) for each turn that the groups take, after so many messages before."""
    if not groups:
        return [(everyone, messages)]
    turns = min(lcm(*(len(members) for members in groups)), messages)
    shares = []
    for turn in range(turns):
        chosen = [members[(before + turn) % len(members)] for members in groups]
        count = messages // turns + (turn < messages % turns)
        shares.append((np.unique(np.append(everyone, chosen)), count))
    return shares


def _split(traffic: pa.Table, made: list[tuple[int, Ints, int]]) -> pa.Table:
    """Rows of traffic for each part, bytes and rows shared out in proportion, the remainder to the first."""
    at = np.array([i for i, _, _ in made], dtype=np.int64)
    part = np.array([share for _, _, share in made], dtype=np.int64)
    bounds = np.append(0, np.cumsum([len(r) for _, r, _ in made])).astype(np.int64)
    taken = np.concatenate([*(r for _, r, _ in made), np.empty(0, np.int64)])
    rows = traffic.take(pa.array(at))
    whole = rows["messages"].to_numpy()
    head = np.append(True, at[1:] != at[:-1]) if len(at) else np.empty(0, bool)
    columns = {}
    for name in ("rows", "bytes"):
        total = rows[name].to_numpy()
        share = total * part // np.maximum(whole, 1)
        left = np.bincount(at, weights=share, minlength=traffic.num_rows)[at]
        columns[name] = share + np.where(head, total - left.astype(np.int64), 0)
    columns["messages"] = part
    for name, values in columns.items():
        rows = rows.set_column(rows.schema.get_field_index(name), rows.schema.field(name), pa.array(values))
    return _with_receivers(rows, bounds, taken)
