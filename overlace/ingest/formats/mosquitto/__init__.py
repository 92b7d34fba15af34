"""Mosquitto's own log (`log_type all`): who published, who connected, and who received each message.

A log of one broker is a list of turns: the broker handles one packet and writes what it sends because
of it. Keeps: every line is one event; a send belongs to one message; a message names each receiver once;
cutting the file into other blocks changes nothing.

Which message a send carries is not in its line. At QoS 0 it is the one of the turn. At QoS 1 and 2 it
may have waited in the receiver's queue, and later ones may have overtaken it, but Mosquitto numbers what
it queues for a client (m1, m2, ...) as it queues it, also what it then drops. So the sends to a client in
the order of their numbers go through the messages on its topics in the order in which these entered (a
QoS 2 message at its PUBREL), first in, first out, a missing number for a missing message. Where a client
has nothing in flight its queue is empty, and what it is sent is the turn's: there the count starts anew.

A message that the broker refuses (PUBACK or PUBREC with an error: its publisher is beyond its limits) enters
nowhere: it has no receivers.

`reason` of the lines that follow another: send, queued (the message came in while the receiver was away),
double (one client, one message, once more), retained, redelivery (d1), bridge, unmatched (no receive in
this log), or the kind of packet. Their `client` is the receiver. A receive from a bridge has its receivers
here; a send to a bridge has as `key` the offset of the message that it carries. A `bridge` event has the
address of the far end as `reason`. A will is the event of its first send. A connect has the `user` that
logged in; connects and disconnects say whether a session `ends` there.

A double send is one flow, as the message names its receiver once, and a second load on the last hop only: a bridge is
sent a message once, however often a client asked for it. So it must not count in `traffic`, which sums over every link
on the way; ingest sums it by receiver in `doubles`.

Written against Mosquitto 2.0. Not exact, as the log does not tell: the first sends of a log that begins while
messages wait; what 1.x, which sends in later turns, sends at QoS 0 when messages of one topic and size meet;
members of a shared subscription while they queue; a client's queue after it lost a retained message to a full
queue, until the client has nothing in flight. A listener with a mount_point logs other topics in than out:
unmatched. `benchmarks/mosquitto.py` counts what is wrong in bursts against real brokers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from overlace.arrays.csr import group
from overlace.arrays.jit import Bools, Ints
from overlace.ingest.events import TIME, Blocks, Format, Settled, events
from overlace.ingest.formats.mosquitto import kinds
from overlace.ingest.formats.mosquitto.lines import (
    Log,
    Numbers,
    continue_lines,
    find_bridges,
    is_any,
    last_marked,
    parse_lines,
)
from overlace.ingest.formats.mosquitto.queues import carry_over_bridges, filters_of, find_carried
from overlace.ingest.formats.mosquitto.state import OPEN, Entries, Sends, turns_of
from overlace.ingest.values import NONE, mask_of

ROWS = 1 << 17  # of a batch that goes out

KINDS = pa.array("message connect disconnect subscribe unsubscribe bridge follows ignored bad".split())
MESSAGE, OPENED, CLOSED, ASKED, ASKED_OFF, CROSSED, FOLLOWS, IGNORED, UNREAD = range(len(KINDS))
KIND_OF = np.full(kinds.BAD + 1, FOLLOWS)
KIND_OF[[kinds.RECEIVE, kinds.CONNECT, kinds.GONE, kinds.LEFT, kinds.FILTER]] = MESSAGE, OPENED, CLOSED, CLOSED, ASKED
KIND_OF[[kinds.FILTER_OFF, kinds.EXPIRED, kinds.LINK, kinds.LINK_IN]] = ASKED_OFF, ASKED_OFF, CROSSED, CROSSED
KIND_OF[[kinds.OTHER, kinds.BAD]] = IGNORED, UNREAD


def sniff(head: bytes) -> float:
    """The share of whole lines that begin with a time, a colon and one of Mosquitto's phrases."""
    lines = head.decode(errors="replace").splitlines()[: -1 if not head.endswith(b"\n") else None]
    begins = tuple(shape.begins for shape in kinds.SHAPES if shape.begins)
    rest = (found[2] for found in map(re.compile(kinds.TIMED).match, lines) if found)
    return sum(text.startswith(begins) for text in rest) / len(lines) if lines else 0.0


def read(blocks: Blocks, options: Settled) -> Iterator[pa.RecordBatch]:
    """Events of one broker's log, from its beginning.

    Options are the `broker`, and names or client ids of `bridges` that the log does not show as such.
    """
    parts = [parse_lines(offset, block) for offset, block in blocks if block]
    if parts:
        log = Log(parts)
        del parts
        continue_lines(log)
        find_bridges(log, options.get("bridges") or ())
        yield from _events(log, *match_sends(log), options.get("broker"))


def _events(log: Log, start: Ints, receivers: Ints, key: Ints, broker: str | None) -> Iterator[pa.RecordBatch]:
    kind, reason = KIND_OF[log.code], log.reason
    kind[(log.code == kinds.SEND) & (reason == kinds.SYS)] = IGNORED
    of_bridge = log.bridge[log.client] & is_any(
        log.code, kinds.RECEIVE, kinds.GONE, kinds.LEFT, kinds.FILTER, kinds.FILTER_OFF, kinds.EXPIRED
    )
    kind[of_bridge], reason[of_bridge] = FOLLOWS, kinds.BRIDGE
    ends, ending = _sessions_that_end(log)
    ending &= is_any(kind, OPENED, CLOSED)
    listed = (log.code == kinds.RECEIVE) | (start[1:] > start[:-1])
    plain, wild, sharing = filter_columns(log.topics)
    topics, size = pa.concat_arrays([log.topics, plain]), len(plain)
    for first in range(0, len(kind), ROWS):
        part = slice(first, first + ROWS)
        code, topic, own = log.code[part], log.topic[part], kind[part]
        bounds = start[first : first + len(own) + 1]
        asked = is_any(code, kinds.FILTER, kinds.FILTER_OFF, kinds.LINK_TEXT) & (topic >= 0)
        filters = np.where(asked, topic, -1)
        address = _take_names(log.addresses, np.where(own == CROSSED, log.address[part], -1))
        yield events(
            offset=log.offset[part],
            kind=_take_names(KINDS, own),
            reason=pc.coalesce(address, _take_names(pa.array(kinds.REASONS), reason[part])),
            sample=_take_names(log.samples, np.where(code == kinds.BAD, log.sample[part], -1)),
            at=pa.array(log.at[part], pa.int64(), mask=log.at[part] == NONE).cast(TIME),
            client=_take_names(log.clients, np.where(is_any(code, kinds.OTHER, kinds.BAD), -1, log.client[part])),
            broker=pa.repeat(pa.scalar(broker, pa.string()), len(own)),
            topic=_take_names(topics, np.where(code == kinds.BAD, -1, topic + size * asked)),
            bytes=pa.array(log.size[part], mask=~is_any(code, kinds.RECEIVE, kinds.SEND)),
            receivers=pa.ListArray.from_arrays(
                pa.array(bounds - bounds[0], pa.int32()),
                _take_names(log.clients, receivers[bounds[0] : bounds[-1]]),
                mask=pa.array(~listed[part]),
            ),
            key=pa.array(key[part], mask=key[part] < 0).cast(pa.string()),
            filter=_take_names(wild, filters),
            dialect=_take_names(pa.array(["mqtt"]), np.where(asked, 0, -1)),
            group=_take_names(sharing, filters),
            user=_take_names(log.users, np.where(own == OPENED, log.user[part], -1)),
            ends=pa.array(ends[part], mask=~ending[part]),
        )


def _take_names(names: pa.Array, codes: Numbers) -> pa.Array:
    """The names of codes, null for -1."""
    return names.take(pa.array(codes, pa.int64(), mask=codes < 0)).cast(pa.string())


def filter_columns(names: pa.Array) -> tuple[pa.Array, pa.Array, pa.Array]:
    """(topic, filter, group) of subscriptions to these names: a filter only where it has wildcards."""
    parts = pc.extract_regex(names, r"^\$share/(?P<group>[^/]*)/(?P<rest>.*)$")
    inner = pc.coalesce(pc.struct_field(parts, "rest"), names)
    wild = pc.match_substring_regex(inner, r"(^|/)(\+|#)(/|$)")
    return pc.if_else(wild, None, inner), pc.if_else(wild, inner, None), pc.struct_field(parts, "group")


def _sessions_that_end(log: Log) -> tuple[Bools, Bools]:
    """(over, known): of lines that open or close a connection whether the session from before is over there.

    A connect line says `c1`: the client wants no session from before and, before MQTT 5, leaves none behind. What the
    broker answers when the client returns (CONNACK, "session present") says how it was; it counts for more. In MQTT 5
    how long a session outlives its connection is not logged: until a return shows otherwise, `c1` is taken to mean not
    at all, which is what clients do unless they ask for more.
    """
    lines = np.flatnonzero(
        is_any(log.code, kinds.CONNECT, kinds.CONNACK, kinds.GONE, kinds.LEFT, kinds.EXPIRED) & (log.client >= 0)
    )
    lines = lines[(log.code[lines] != kinds.CONNACK) | (log.size[lines] == 0)]  # those that were accepted
    lines = lines[np.argsort(log.client[lines], kind="stable")]
    code, client = log.code[lines], log.client[lines]
    opens, closes = code == kinds.CONNECT, is_any(code, kinds.GONE, kinds.LEFT)
    before, after = _previous(opens, client), _next(opens | (code == kinds.EXPIRED), client)
    answer = _next((code == kinds.CONNACK) | opens, client)
    answered = opens & (answer >= 0) & (code[answer] == kinds.CONNACK) & (log.version[lines] != 1)  # 3.1 does not say
    absent = answered & (log.present[lines[answer]] == 0)
    clean = log.clean[lines] == 1
    came_back = (after >= 0) & answered[after] & ~clean[after]
    kept_on = (after >= 0) & (code[after] == kinds.EXPIRED)
    left = np.where(came_back, absent[after], (before >= 0) & clean[before] & ~kept_on)
    over, known = np.zeros(len(log.code), bool), np.zeros(len(log.code), bool)
    over[lines], known[lines] = np.where(closes, left, clean | absent), opens | closes
    return over, known


def _previous(marked: Bools, client: Ints) -> Ints:
    """For each row the last marked one before it of the same client, or -1; rows are by client."""
    place = np.append(-1, last_marked(marked))[: len(marked)]
    return np.where((place >= 0) & (client[place] == client), place, -1)


def _next(marked: Bools, client: Ints) -> Ints:
    """For each row the next marked one after it of the same client, or -1."""
    place = _previous(marked[::-1], client[::-1])[::-1]
    return np.where(place >= 0, len(marked) - 1 - place, -1)


# --- who received each message ---------------------------------------------------------------------------


def match_sends(log: Log) -> tuple[Ints, Ints, Ints]:
    """(start, receivers, key): who received each message, and what sends to bridges carry.

    Line i was sent to receivers[start[i]:start[i + 1]], each once. A send to a bridge has as key the offset of the
    message that it carries; other lines have -1. Why each send was sent is written into the log, and what the first
    send of a will is: that message.
    """
    owned = mask_of(pc.starts_with(log.topics, "$SYS/"))
    entries, sends, repeated = turns_of(log, owned)
    order = group(sends.client.astype(np.int64), len(log.clients))[1]
    carried = find_carried(sends, order, entries, filters_of(log))
    carry_over_bridges(sends, order, entries, log.topics, carried)
    _carry_late_wills(sends, entries, carried)

    # A message is the line at which it came, a will its first send, to a client if there is one.
    to_bridge, message = log.bridge[sends.client], entries.line.copy()
    of_will = np.flatnonzero((carried >= 0) & (np.append(entries.line, 0)[carried] < 0))[::-1]
    for which in (of_will[to_bridge[of_will]], of_will[~to_bridge[of_will]]):
        message[carried[which]] = sends.line[which]  # of several written to one place the last, so the first, stays
    root = np.append(message, -1)[carried]
    start, receivers, double = _receivers(sends, order, root, (root >= 0) & ~to_bridge & (sends.label == OPEN), log)

    waited = np.append(entries.enter, len(log.code))[carried] < sends.since
    why = np.select(
        [sends.label != OPEN, double, carried >= 0, sends.returned, owned[sends.topic]],
        [sends.label, kinds.DOUBLE, np.where(waited, kinds.QUEUED, kinds.SENT), kinds.QUEUED, kinds.SYS],
        kinds.UNMATCHED,
    )
    log.reason[sends.line], key = why, np.full(len(log.code), -1, np.int64)
    over = (why == kinds.BRIDGE) & (root >= 0)
    key[sends.line[over]] = log.offset[root[over]]
    log.code[repeated], log.reason[repeated] = kinds.SEND, kinds.REDELIVERY

    first = (carried >= 0) & (root == sends.line)
    lines, wills = sends.line[first], carried[first]
    by_bridge = log.bridge[entries.publisher[wills]]
    log.client[lines], log.topic[lines] = entries.publisher[wills], entries.topic[wills]
    log.code[lines], log.reason[lines] = (
        np.where(by_bridge, kinds.SEND, kinds.RECEIVE),
        np.where(by_bridge, kinds.BRIDGE, 0),
    )
    return start, receivers, key


def _receivers(sends: Sends, order: Ints, root: Ints, counted: Bools, log: Log) -> tuple[Ints, Ints, Bools]:
    """(start, receivers, double): per line the distinct clients it was sent to, in order, and sends that repeat one."""
    mine = order[counted[order]]
    mine = mine[group(root[mine], len(log.code))[1]]  # by message, then client, then line
    again = np.append(False, (np.diff(root[mine]) == 0) & (np.diff(sends.client[mine]) == 0))[: len(mine)]
    double = np.zeros(len(order), bool)
    double[mine[again]] = True
    mine = mine[~again]
    start = np.append(0, np.cumsum(np.bincount(root[mine], minlength=len(log.code))))
    return start, sends.client[mine].astype(np.int64), double


def _carry_late_wills(sends: Sends, entries: Entries, carried: Ints) -> None:
    """Have sends that nothing else explains carry the last will on their topic: a will may be sent with delay."""
    lost, wills = np.flatnonzero((sends.label == OPEN) & (carried < 0)), np.flatnonzero(entries.line < 0)
    if len(lost) == 0 or len(wills) == 0:
        return
    key = entries.topic[wills] << 40 | entries.enter[wills]
    wills, key = wills[np.argsort(key, kind="stable")], np.sort(key)
    last = wills[np.searchsorted(key, sends.topic[lost] << 40 | sends.line[lost]) - 1]
    fits = (entries.topic[last] == sends.topic[lost]) & (entries.size[last] == sends.size[lost])
    fits &= entries.enter[last] < sends.line[lost]
    carried[lost[fits]] = last[fits]


FORMAT = Format(
    name="mosquitto",
    scope="file",
    identity="broker/client",
    at_home=True,
    one_broker=True,
    sniff=sniff,
    read=read,
    options=frozenset({"broker", "bridges"}),
)
