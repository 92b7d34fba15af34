"""Messages that crossed bridges, followed from one broker's log to the next.

A bridge is a client at both its ends: `local.NAME` where it dials, `NAME` at the far broker. What one log
sends to it, the other receives from it; the k-th send of a topic and size is the k-th receive, where one
log begins or ends earlier the times decide. A message may cross several bridges: its receivers are those
at every broker it came to.

A bridge may rename topics by prefix (`topic PATTERN DIRECTION QOS LOCAL REMOTE` in mosquitto.conf). What the
dialling broker sends is logged by its new name, so both ends agree; what it receives is renamed before it is
logged, so the far end's sends are renamed here, by the same rule: the first pattern that fits.

Keeps: a receive belongs to one send at most; what cannot be matched is counted, never guessed. What a line is
matched with depends on no line that is later by more than SLACK_US.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from overlace.arrays.hashing import group_rows
from overlace.arrays.jit import Bools, Ints, kernel
from overlace.ingest.events import Settled, in_one_piece
from overlace.ingest.history import read_life
from overlace.ingest.notes import Note, bridges_of
from overlace.ingest.sources import Source
from overlace.ingest.staging import Job, Parsed, by_source, stage
from overlace.ingest.topologies import Bridge

SLACK_US = 5_000_000
"""How far the clocks of two brokers may be apart."""


OFFSETS = 40
"""Bits of an offset in a log."""

LATER = np.iinfo(np.int64).max


class Followed(NamedTuple):
    """Receivers beyond the first broker, by message, and the links that the bridges are."""

    receivers: pa.Table  # source, offset, receivers: to be added to that message
    matched: int  # receives that were found again as sends
    lost: int  # receives whose send is in no log
    links: list[tuple[int, int]]  # (dials, far end) by log
    since: Sequence[int] = ()  # when each link was first shown at both its ends
    until: Sequence[int] = ()  # when its name came up in a third log and no longer told its ends; LATER: never


def bridge_lines(events: pa.Table) -> pa.Table:
    """The lines of staged events that are about bridges."""
    follows = pc.and_(pc.equal(events["kind"], "follows"), pc.fill_null(pc.equal(events["reason"], "bridge"), False))
    about = pc.or_(follows, pc.equal(events["kind"], "bridge"))
    state = pc.fill_null(pc.starts_with(events["topic"], "$"), False)  # a bridge's own notices
    return events.filter(pc.and_(pc.and_(about, pc.invert(state)), events["client"].is_valid()))


def follow(lines: pa.Table, bridges: Sequence[Bridge] = ()) -> Followed:
    """Join the logs of several brokers at their bridges; `bridges` are those that rename topics, if any do.

    Each line says its source and the log that this is a file of.
    """
    names = pc.replace_substring_regex(lines["client"], r"^local\.", "").combine_chunks().dictionary_encode()
    link = names.indices.to_numpy(zero_copy_only=False).astype(np.int64) if len(names) else np.empty(0, np.int64)
    source, log = (lines[name].to_numpy().astype(np.int64) for name in ("source", "log"))
    at = lines["at"].cast(pa.int64()).fill_null(0).to_numpy()
    ends = _far_ends(link, log, at, pc.starts_with(lines["client"], "local.").to_numpy(), len(names.dictionary))
    other = ends.other
    received = lines["receivers"].is_valid().to_numpy()
    sent = lines["key"].is_valid().to_numpy() & ~received
    topic = _rename_topics(lines, sent, bridges).dictionary_encode().indices.to_numpy(zero_copy_only=False)
    size = lines["bytes"].cast(pa.int64()).fill_null(-1).to_numpy()
    to = np.where(received, log, other)  # the broker that the message comes to
    group, _ = group_rows(np.column_stack([link, to, topic.astype(np.int64), size]))
    offset = lines["offset"].to_numpy()
    order = np.lexsort((offset, at, group))
    usable = (received | sent) & (other >= 0)
    match = pair_up(group[order], at[order], received[order], usable[order], SLACK_US)
    pairs = np.flatnonzero(match >= 0)
    into, out_of = order[pairs], order[match[pairs]]
    roots = _roots(source, offset, into, out_of, lines["key"])
    lost = int(received.sum()) - len(into)
    return Followed(
        _list_receivers(lines["receivers"], into, *roots), len(into), lost, ends.links, ends.since, ends.until
    )


def _rename_topics(lines: pa.Table, sent: Bools, bridges: Sequence[Bridge]) -> pa.Array:
    """The topic of each line by the name that the broker that dials logs."""
    topic = pc.fill_null(lines["topic"], "").combine_chunks()
    client, broker = lines["client"].combine_chunks(), lines["broker"].combine_chunks()
    for bridge in bridges:
        mine = pc.equal(client, bridge.remote_clientid or "")
        if bridge.remote_clientid is None:  # HOST.CONNECTION; several brokers may call a connection alike
            named = pc.or_(pc.equal(client, bridge.connection), pc.ends_with(client, "." + bridge.connection))
            mine = pc.and_(named, pc.fill_null(pc.equal(broker, bridge.remote), True))
        local = pc.starts_with(client, "local.")
        open_still = pc.and_(pc.and_not(mine, local), pa.array(sent))
        for pattern in bridge.topics:
            if pattern.direction == "out":
                continue
            fits = pc.and_(open_still, pc.match_substring_regex(topic, _regex(pattern.remote_prefix + pattern.pattern)))
            rest = pc.utf8_slice_codeunits(topic, len(pattern.remote_prefix))
            topic = pc.if_else(fits, pc.binary_join_element_wise(pattern.local_prefix, rest, ""), topic)
            open_still = pc.and_not(open_still, fits)
    return topic


def _regex(pattern: str) -> str:
    """What an MQTT filter matches, as a regular expression."""
    levels = ["[^/]*" if level == "+" else re.escape(level) for level in pattern.split("/")]
    if levels[-1] == re.escape("#"):
        return "^" + "/".join(levels[:-1]) + "(/.*)?$" if len(levels) > 1 else ""
    return "^" + "/".join(levels) + "$"


class Ends(NamedTuple):
    """For each line the log at the other end of its link, and the links as (dials, far end)."""

    other: Ints  # -1: not known
    links: list[tuple[int, int]]
    since: list[int]
    until: list[int]


def _far_ends(link: Ints, log: Ints, at: Ints, local: Bools, count: int) -> Ends:
    """The far ends of links: of two logs that name one, the other; from when a third one names it, none is known."""
    logs = int(log.max(initial=0)) + 1
    pairs, row = np.unique(link * logs + log, return_inverse=True)
    first = np.full(len(pairs), LATER)
    np.minimum.at(first, row, at)
    order = np.lexsort((pairs, first, pairs // logs))
    owner, named, when = pairs[order] // logs, pairs[order] % logs, first[order]
    begin = np.searchsorted(owner, np.arange(count + 1))
    several = np.diff(begin)
    padded, times = np.append(named, [-1, -1, -1]), np.append(when, [LATER, LATER, LATER])
    one, two = (np.where(several > 1, padded[begin[:-1] + i], -1) for i in range(2))
    since = np.where(several > 1, times[begin[:-1] + 1], LATER)
    until = np.where(several > 2, times[begin[:-1] + 2], LATER)
    other = np.where(log == one[link], two[link], np.where(log == two[link], one[link], -1))
    other = np.where(at < until[link], other, -1)
    dials = np.flatnonzero(local & (other >= 0))
    dialled, place = np.unique(log[dials] * logs + other[dials], return_inverse=True)
    shown, over = np.full(len(dialled), LATER), np.full(len(dialled), -LATER)
    np.minimum.at(shown, place, np.maximum(at[dials], since[link[dials]]))
    np.maximum.at(over, place, until[link[dials]])
    return Ends(other, [divmod(each, logs) for each in dialled.tolist()], shown.tolist(), over.tolist())


@kernel
def pair_up(group: Ints, at: Ints, received: Bools, usable: Bools, slack: int) -> Ints:
    """For each receive the row of its send, or -1; rows are sorted by group, then time.

    Sends that are older than the slack are given up where as many newer ones wait as there are receives about then.
    """
    match = np.full(len(group), -1, dtype=np.int64)
    sends = np.zeros(len(group) + 1, dtype=np.int64)
    receives = np.zeros(len(group) + 1, dtype=np.int64)
    for i in range(len(group)):
        sends[i + 1] = sends[i] + (usable[i] and not received[i])
        receives[i + 1] = receives[i] + (usable[i] and received[i])
    first = 0
    while first < len(group):
        last = first
        while last < len(group) and group[last] == group[first]:
            last += 1
        s = fresh = ahead = first
        for i in range(first, last):
            if not (usable[i] and received[i]):
                continue
            while fresh < last and at[fresh] < at[i] - slack:
                fresh += 1
            while ahead < last and at[ahead] <= at[i] + slack:
                ahead += 1
            while s < last and (not usable[s] or received[s]):
                s += 1
            if s < fresh and sends[ahead] - sends[fresh] >= receives[ahead] - receives[i]:
                s = fresh  # lost on the way, or sent before the other log begins
                while s < last and (not usable[s] or received[s]):
                    s += 1
            if s < last and at[s] <= at[i] + slack:
                match[i] = s
                s += 1
        first = last
    return match


def _roots(source: Ints, offset: Ints, into: Ints, out_of: Ints, key: pa.ChunkedArray) -> tuple[Ints, Ints]:
    """(source, offset) of the message that each matched receive carries, through as many bridges as it took."""
    carried = key.take(pa.array(out_of)).cast(pa.int64()).to_numpy()
    at_source = source[out_of]
    came, goes = source[into] << OFFSETS | offset[into], at_source << OFFSETS | carried
    order = np.argsort(came)
    place = np.searchsorted(came[order], goes)
    parent = np.append(order, -1)[place]  # the receive whose message the send passes on, if it is one
    parent[np.append(came, -1)[parent] != goes] = -1
    root = np.arange(len(into))
    for _ in range(64):  # a message crosses each link of a tree once
        up = parent[root]
        if not (up >= 0).any():
            break
        root = np.where(up >= 0, up, root)
    return at_source[root], carried[root]


def _list_receivers(lists: pa.ChunkedArray, into: Ints, source: Ints, offset: Ints) -> pa.Table:
    """Receivers by message, each once."""
    own = lists.take(pa.array(into)).combine_chunks()
    parents = pc.list_parent_indices(own).to_numpy(zero_copy_only=False)
    rows = pa.table({"source": source[parents], "offset": offset[parents], "receiver": own.flatten()})
    return rows.group_by(["source", "offset"]).aggregate([("receiver", "distinct")])


def bridge_notes(crossed: Followed | None) -> list[str]:
    """What became of messages that crossed bridges."""
    if crossed is None:
        return []
    notes = [f"{crossed.matched:,} receives over {len(crossed.links)} bridges were followed back to their publishers"]
    if crossed.lost:
        notes.append(
            f"{crossed.lost:,} receives over bridges have no send in any of these logs: ingest all brokers' logs "
            "together, or flows between brokers are missing"
        )
    if not crossed.links:
        notes.append("no bridge has both its ends in these logs: ingest all brokers' logs together, or use --topology")
    return notes


# --- in an ingest --------------------------------------------------------------------------------------


def logs_of(sources: Sequence[Source]) -> list[int]:
    """For each source the first that is of the same broker's log."""
    first: dict[str, int] = {}
    return [first.setdefault(s.options.get("broker") or s.digest, i) for i, s in enumerate(sources)]


def learn_bridges(job: Job, parsed: Sequence[Parsed], noted: Mapping[str, Note]) -> tuple[Source, ...]:
    """The sources, each with the bridges that other files of its broker's log show."""
    if job.key:
        return job.sources
    shown: dict[str, set[str]] = {}
    for note in noted.values():
        shown.setdefault(note["broker"] or "", set()).update(note.get("bridges") or ())
    pairs = [(s, bridges_of(job, own)) for s, own in zip(job.sources, by_source(parsed, len(job.sources)), strict=True)]
    for source, own in pairs:
        shown.setdefault(source.options.get("broker") or "", set()).update(own)
    found = []
    for source, own in pairs:
        new = shown[source.options.get("broker") or ""] - {*own} - {""}
        bridges = sorted({*(source.options.get("bridges") or ()), *new})
        options: Settled = {**source.options, "bridges": bridges}
        found.append(replace(source, options=options) if new and source.form.one_broker else source)
    return tuple(found)


def follow_bridges(
    job: Job, parsed: Sequence[Parsed], names: Mapping[str, pa.Array], known: Sequence[Mapping[str, Any]]
) -> Followed | None:
    """Join the logs of several brokers at their bridges; what was found is staged for the next job.

    `known` are the bridges that configurations name; under pseudonyms their topics no longer match.
    """
    if not any(each.read.bridges for each in parsed):
        return None
    tables, logs = [], logs_of(job.sources)
    for each in parsed:
        life, source = read_life(job, [each]), each.read.source
        for name, value in (("source", source), ("log", logs[source])):
            life = life.append_column(name, pa.array(np.full(life.num_rows, value, np.int32)))
        tables.append(life)
    crossed = follow(bridge_lines(pa.concat_tables(tables)), [] if job.key else [Bridge.of(each) for each in known])
    lists = in_one_piece(crossed.receivers["receiver_distinct"])
    ids = pc.index_in(lists.flatten(), value_set=names["client"]).cast(pa.int32())
    sizes = pc.list_value_length(lists).to_numpy(zero_copy_only=False)
    bounds = pa.array(np.append(0, np.cumsum(sizes)).astype(np.int64))
    receivers = pa.LargeListArray.from_arrays(bounds, ids)
    columns = {"source": crossed.receivers["source"], "offset": crossed.receivers["offset"], "receivers": receivers}
    stage(job, "bridged", pa.table(columns))
    return crossed
