r"""The log of PADRES brokers (logger MessagePath, level INFO): who published, and who was sent each publication.

PADRES is the content-based publish/subscribe broker of the University of Toronto, on which CC12 measured; CC12
reads the logs of all brokers. What follows is taken from its source, not from a log of a running broker:

- The appender's layout is `%d %-5p %l %m%n`: a time such as `2011-03-01 12:00:00,123` without a zone, the level, and
  the place in the source. Level and place may be missing or be others, up to five words; the time must come first.
- A broker writes `B1 got message from INPUTQUEUE:MESSAGE` when it has matched a message, then one line
  `B1 is sending message: MESSAGE` for each next hop, a next hop once per message.
- MESSAGE is `TYPE(ID):lasthop=HOP,nexthop=HOP,TTL=N,time='DATE',...`, for publications followed by
  `,expiry='DATE':[class,CLASS],[attribute,value],...;DATE`. The class comes first; a payload is not shown.
- The id is the name of the broker that took the message from a client, `-M` and a number that begins at 0 when the
  broker starts. The date is when the client made the message, it stays the same on the way, and tells apart what a
  broker numbers alike after a restart. Both together are the key of a message, in all logs that are read together.
- A hop is a broker (`B1`, or `rmi://host:1100/B1`), a client (its broker's name, `-`, its own), or a place inside the
  broker: INPUTQUEUE, CONTROLLER, SYSTEM_MONITOR, HEARTBEAT_MANAGER, none, a database (`B1-DB`). PADRES itself tells
  clients from brokers by the hyphen, so a broker's name has none; a host's may.
- Classes of publications that brokers exchange among themselves: HEARTBEAT_MANAGER, and those in CONTROL.

Keeps: each line stands alone, so the order of lines and files, and where they are cut, change nothing. A publication
that a broker got from a client is a message, one that it sends to a client a delivery of that message. Every other
line of these two shapes whose hop is another broker tells a link, be it of a heartbeat or of an advertisement: brokers
send to neighbours only. Control, heartbeats, advertisements and subscriptions are ignored, each counted apart.
Not a message either: what the broker publishes itself (its console, its monitor; lasthop none) and its database.

Uncertain, as no log of a running broker was at hand: the level and place before the text, quotes around the class,
and the exact names of databases. A line without a time is bad, unless it goes on with an exception above it. Not told
by the log: sizes in bytes; when sessions begin and end; whether a client that had left was reached (the line is
written before the send).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from overlace.arrays.jit import Bools, Ints
from overlace.ingest.events import TIME, Blocks, Format, Settled, events
from overlace.ingest.lines import TextLines, bad, ignored, read_lines, text_between
from overlace.ingest.values import EARLIEST, LATEST, keys_in, list_column, mask_of, times_in

AT = r"(?P<at>\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?) "
GOT, SENDING = " got message from INPUTQUEUE:", " is sending message: "
BEFORE = r"^(?:\S+ +){0,5}?(?P<broker>\S+)$"
"""What stands between the time and these words. The date in a message is more words than that, so that no text in a
message can be taken for a line of its own."""

HEAD = r"^(?P<type>[A-Za-z]+)\((?P<id>[^()]+)\):lasthop=(?P<last>.+?),nexthop=(?P<next>.+)$"
TTL = ",TTL="
CONTENT = r"^,TTL=-?\d+,time='(?P<time>[^']*)',.*?:\[class,['\"]?(?P<class>[^\]'\"]+)['\"]?\]"
AGAIN = "):lasthop="
TRACE = r"^(?:\s+at |\s*\.\.\. \d+ more|Caused by: |[\w$]+(?:\.[\w$]+)+(?:: .*)?$)"
"""How an exception goes on below the line that tells of it."""

CLIENT = r"^(?:\w+://[^/]*/[^-]*|[^-/]*)-."
DATABASE = r"-DB\d*$"
INSIDE = ("INPUTQUEUE", "CONTROLLER", "SYSTEM_MONITOR", "HEARTBEAT_MANAGER", "none", "null")
CONTROL = ("BROKER_CONTROL", "BROKER_MONITOR", "BROKER_INFO", "NETWORK_DISCOVERY", "GLOBAL_FD", "TRACEROUTE_MESSAGE")
HEARTBEAT = "HEARTBEAT_MANAGER"
TYPES = tuple(each + kind for kind in ("advertisement", "subscription", "compositesubscription") for each in ("", "un"))

BAD = {1: "no time", 2: "not a time", 3: "a message that is cut short", 4: "a publication without a class"}


def read(blocks: Blocks, options: Settled) -> Iterator[pa.RecordBatch]:
    """Events of the logs of any number of brokers, a line each."""
    yield from read_lines(blocks, _read)


def _read(lines: TextLines) -> Iterator[pa.RecordBatch]:
    """Find the two shapes among the lines; the others are ignored or bad by how they begin."""
    text = lines.text()
    times = pc.struct_field(pc.extract_regex(text, f"^{AT}"), "at")
    got, sending, ttl = (pc.find_substring(text, each).to_numpy() for each in (GOT, SENDING, TTL))
    came = (got >= 0) & ((sending < 0) | (got < sending))
    verb = lines.first + np.where(came, got, sending)
    begin = lines.first + pc.fill_null(pc.binary_length(times), 0).to_numpy()
    shaped = mask_of(pc.is_valid(times)) & (verb > begin)
    span = np.where(shaped, begin + 1, lines.first), np.where(shaped, verb, lines.first)
    before = text_between(lines.block, *span).dictionary_encode()
    broker = pc.struct_field(pc.extract_regex(before.dictionary, BEFORE), "broker").take(before.indices)
    shaped &= mask_of(pc.is_valid(broker))
    wrong = np.zeros(len(text), np.int64)
    if not shaped.all():
        others = np.flatnonzero(~shaped)
        yield from _others(text.take(pa.array(others)), others, lines.offsets, wrong)
    at = times_in(times, None)
    timed = (at >= EARLIEST) & (at < LATEST)
    start, end = verb + np.where(came, len(GOT), len(SENDING)), lines.first + ttl
    whole = shaped & (end > start)
    shown = text_between(lines.block, np.where(whole, start, lines.first), np.where(whole, end, lines.first))
    head = pc.extract_regex(shown, HEAD)
    use = whole & mask_of(pc.is_valid(head)) & timed
    wrong[shaped & ~use] = 3
    wrong[shaped & ~timed] = 2
    rows, keep = np.flatnonzero(use), pa.array(use)
    table = {name: head.field(name).filter(keep) for name in ("type", "id", "last", "next")}
    table |= {"broker": broker.filter(keep), "rest": text_between(lines.block, end[rows], lines.last[rows])}
    yield from _messages(table, came[rows], pa.array(at[rows]).cast(TIME), rows, lines.offsets, wrong)
    if wrong.any():
        yield from bad(lines, {code: wrong == code for code in BAD}, BAD)


def _others(text: pa.Array, rows: Ints, offsets: Ints, wrong: Ints) -> Iterator[pa.RecordBatch]:
    """Lines of no shape that is looked for: other lines about a message, anything else, exceptions, no time."""
    timed = mask_of(pc.match_substring_regex(text, "^" + AT))
    again = timed & mask_of(pc.match_substring(text, AGAIN))
    trace = ~timed & mask_of(pc.match_substring_regex(text, TRACE))
    yield from ignored(offsets[rows[again]], "the same message again")
    yield from ignored(offsets[rows[timed & ~again]], "other")
    yield from ignored(offsets[rows[trace]], "exception")
    wrong[rows[~timed & ~trace]] = 1


def _messages(
    table: Mapping[str, pa.Array], came: Bools, at: pa.Array, rows: Ints, offsets: Ints, wrong: Ints
) -> Iterator[pa.RecordBatch]:
    """Lines with a message, by what it is and where it comes from or goes to."""
    hop = pc.if_else(pa.array(came), table["last"], table["next"])
    client, inside = _hops(hop)
    inside |= mask_of(pc.equal(hop, table["broker"]))
    kind = pc.utf8_lower(table["type"])
    published = mask_of(pc.equal(kind, "publication"))
    content = pc.extract_regex(pc.if_else(pa.array(published), table["rest"], None), CONTENT)
    topic = pc.utf8_trim_whitespace(pc.struct_field(content, "class"))
    bare = published & ~mask_of(pc.is_valid(content))
    wrong[rows[bare]] = 4
    reason = pc.if_else(pc.is_in(kind, pa.array(TYPES)), kind, "other kinds of messages")
    reason = pc.if_else(pa.array(published), None, reason)
    reason = pc.if_else(pc.is_in(topic, pa.array(CONTROL)), "control", reason)
    reason = pc.if_else(pc.fill_null(pc.equal(topic, HEARTBEAT), False), "heartbeat", reason)
    links = ~bare & ~client & ~inside
    reason = pc.if_else(pa.array(inside & mask_of(pc.is_null(reason))), "inside the broker", reason)
    plain = mask_of(pc.is_null(reason)) & ~bare & ~links
    own = {"broker": table["broker"].dictionary_encode(), "at": at}

    def some(chosen: Bools, kind: str, **columns: pa.Array) -> Iterator[pa.RecordBatch]:
        if chosen.any():
            picked = {name: values.filter(pa.array(chosen)) for name, values in {**own, **columns}.items()}
            yield events(offset=offsets[rows[chosen]], kind=kind, **picked)

    yield from some(links, "link", key=hop, reason=reason)
    yield from some(~plain & ~bare & ~links, "ignored", reason=reason)
    keys = keys_in(pc.binary_join_element_wise(table["id"], pc.fill_null(pc.struct_field(content, "time"), ""), "\x1f"))
    named = hop.dictionary_encode()
    nobody = list_column(np.zeros(len(rows) + 1, np.int64), named.slice(0, 0))
    alone = list_column(np.arange(len(rows) + 1), named)
    yield from some(plain & came, "message", client=named, topic=topic, receivers=nobody, message=keys)
    yield from some(plain & ~came, "delivery", receivers=alone, message=keys)


def _hops(hop: pa.Array) -> tuple[Bools, Bools]:
    """(clients, places inside the broker): what each hop is; all others are brokers."""
    coded = hop.dictionary_encode()
    names, codes = coded.dictionary, coded.indices.to_numpy(zero_copy_only=False)
    client, stored = (mask_of(pc.match_substring_regex(names, each)) for each in (CLIENT, DATABASE))
    inside = mask_of(pc.is_in(names, pa.array(INSIDE))) | (client & stored)
    return (client & ~stored)[codes], inside[codes]


def sniff(head: bytes) -> float:
    """Whether some line begins with a time and holds a message with its hops, as no other log does."""
    lines = head.decode(errors="replace").splitlines()
    return 0.95 if any(re.match(AT, line) and AGAIN in line and ",nexthop=" in line for line in lines) else 0.0


FORMAT = Format(name="padres", scope="line", sniff=sniff, read=read, one_log=True, at_home=True)
