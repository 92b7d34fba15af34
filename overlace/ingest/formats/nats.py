"""Raw trace events of nats-server, one JSON object a line, as `nats sub --raw` writes them: who received what.

    nats sub --raw '_OVERLACE.trace.>' > events.jsonl

    {"server": {"name": "hub-2", ...}, "request": {"header": {"Nats-Trace-Dest": ["..."]}, "msgsize": 55}, "hops": 1,
     "events": [{"type": "in", "ts": "...Z", "kind": 0, "cid": 10, "name": "plc2", "acc": "BLUE", "subj": "fab.4"},
                {"type": "eg", "ts": "...Z", "kind": 0, "cid": 11, "name": "hmi7", "sub": "fab.>", "queue": "desk"},
                {"type": "eg", "ts": "...Z", "kind": 4, "cid": 6, "name": "hub-1", "hop": "1"}]}

As nats-server 2.15.1 writes them (tests/ingest/capture_nats.py). Every server that a traced message passes publishes
an event. The one that took it from a client has no hop and gives a message, the others give deliveries of it: each
onward server is an egress with a hop, and that server's event has the hop in its header Nats-Trace-Hop. Which events
are one message is told by the destination in the header `Nats-Trace-Dest`, by `traceparent`, by the subject, and by a
header that is named (`--map id=HEADER`). A client that answers may copy the headers into its reply (nats-py does): so
the subject counts, and an ingress from a client is a first event whatever its headers say.

Keeps: balances of a message's events add up to WHOLE if and only if there is one first event, and one event for each
hop that an event of it names (but for a chance of 2 ** -64). The events of an incomplete message are in quarantine, and
it is not taken: an event more or less never makes a wrong one. A server that sends it on to one that traces nothing
proves nothing: then they do not add up.

All files that are ever ingested into a trace are one log: events of one message may lie in several of them, as
collectors at several servers write them, in any order.

A client is its name; one without a name is its server and connection, `hub-3:12`. Events tell no addresses: where two
clients have one name, --identity broker/client tells them apart by their servers. Sessions are where a client was seen
to send or receive, subscriptions what deliveries name, links the pairs of servers that hand messages on. These are told
by each event alone, also by those of an incomplete trace.

Not told: who has subscribed and is never sent anything; sends to a client beyond the first for one message
(overlapping subscriptions). Left out: probes (`Nats-Trace-Only`), messages that the server refused, subjects and
subscriptions of Overlace itself (`_OVERLACE.>`), what a server sends of its own. Where a server maps subjects of what
another server sends it, or imports it into another account, traces are incomplete.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from overlace.errors import BadParameter
from overlace.ingest.events import TIME, WHOLE, Blocks, Column, Format, Settled, events
from overlace.ingest.formats import jsonl
from overlace.ingest.lines import TextLines, bad, ignored, read_lines
from overlace.ingest.values import EARLIEST, EPOCH, LATEST, MICROSECOND

OURS = "_OVERLACE."
"""Where subjects of Overlace itself begin."""

CLIENT, SERVERS = 0, (1, 2, 4)
"""Kinds of connections: clients; other servers of a cluster, behind a gateway, at a leafnode link."""

NO_EVENT, NO_ID = "not a trace event of nats-server", "no header that says which message it is"
BAD = {1: NO_EVENT, 2: NO_ID}
ID_HEADERS = ("Nats-Trace-Dest", "traceparent")
"""Headers that tell which message an event is of."""

BEGINS = re.compile(rb'^\s*\{\s*"server"\s*:\s*\{\s*"name"\s*:.*"request"\s*:\s*\{', re.MULTILINE)
MISMATCH = 0x1B87_3593_CC9E_2D51
SPAN = 1 << 64
LARGEST = 1 << 40
"""Bytes that no message has."""


class Delivery(NamedTuple):
    """A client that was sent the message, and for which of its subscriptions."""

    client: str
    filter: str
    group: str | None


class Hop(NamedTuple):
    """What one server tells of one message."""

    key: bytes  # which message it is
    at: int  # when it came in: microseconds since 1970
    server: str
    client: str | None  # who published it; none: it came from another server
    topic: str
    bytes: int  # of the payload, where it was published
    balance: int  # a signed word of 64 bits
    deliveries: Sequence[Delivery]
    neighbours: Sequence[str]  # servers that it came from or was sent to


# --- an event ---------------------------------------------------------------------------------------------


def read_event(line: bytes | str, headers: Sequence[str] = ()) -> Hop | str:
    """What an event tells, or why it tells nothing; `headers` further tell messages apart, in lower case."""
    try:
        return _read(json.loads(line), headers)
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError, OverflowError):
        return NO_EVENT


def _read(event: Mapping[str, Any], headers: Sequence[str]) -> Hop | str:
    server, request, (came, *steps) = _text(event["server"]["name"]), event["request"], event["events"]
    given = {name.lower(): values for name, values in request.get("header", {}).items()}
    kind, topic = came["kind"], _text(came["subj"])
    at = (datetime.fromisoformat(came["ts"]) - EPOCH) // MICROSECOND
    if came["type"] != "in" or not EARLIEST <= at < LATEST:
        return NO_EVENT
    first = kind not in SERVERS
    balance = WHOLE if first else word(_text(given["nats-trace-hop"][0]))
    balance += int(event.get("hops", 0)) * MISMATCH
    subject, deliveries, neighbours = topic, [], [] if first else [_name(came, server)]
    for step in steps:
        if step["type"] == "sm" and first:
            subject = _text(step["to"])  # what the next servers get
        if step["type"] != "eg":
            continue
        hop = step.get("hop")
        if hop is not None:
            balance -= word(hop) + MISMATCH
        failed = step.get("error") is not None
        if step["kind"] in SERVERS and not failed:
            neighbours.append(_name(step, server))
            balance += 0 if hop is not None else MISMATCH  # who received it there is not told
        elif step["kind"] == CLIENT and not failed and not _text(step["sub"]).startswith(OURS):
            group = step.get("queue")
            deliveries.append(Delivery(_name(step, server), step["sub"], None if group is None else _text(group)))
    if given.get("nats-trace-only", ["false"])[0] in ("1", "true", "on"):
        return "probe"
    if topic.startswith(OURS):
        return "of Overlace itself"
    if first and came.get("error") is not None:
        return "refused by the server"
    if first and kind != CLIENT:
        return "sent by a server"
    ids = [given[name][0] if name in given else "" for name in (*map(str.lower, ID_HEADERS), *headers)]
    if not any(ids):
        return NO_ID
    key = blake2b("\x1f".join([*ids, subject]).encode(), digest_size=16).digest()
    size = 0
    if first:  # of the payload, without headers
        lines = sum(len(name.encode()) + len(value.encode()) + 4 for name, values in given.items() for value in values)
        size = int(request["msgsize"]) - (lines + len(b"NATS/1.0\r\n\r\n") if given else 0)
    if size >= LARGEST:
        return NO_EVENT
    signed = (balance + (SPAN >> 1)) % SPAN - (SPAN >> 1)
    name = _name(came, server) if first else None
    return Hop(key, at, server, name, topic, max(size, 0), signed, deliveries, neighbours)


def _name(step: Mapping[str, Any], server: str) -> str:
    """A client or server by its name, a client without one by its connection."""
    name = step.get("name")
    return _text(name) if name else f"{server}:{int(step['cid'])}"


def _text(value: object) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError("expected a text")
    value.encode()  # half of a surrogate pair is no text
    return value


@lru_cache(1 << 16)
def word(hop: str) -> int:
    """The word that stands for a hop."""
    return int.from_bytes(blake2b(_text(hop).encode(), digest_size=8).digest(), "little")


def adds_up(balances: int) -> bool:
    """Whether a sum of balances is that of a whole message."""
    return balances % SPAN == WHOLE


# --- a log ------------------------------------------------------------------------------------------------


def read(blocks: Blocks, options: Settled) -> Iterator[pa.RecordBatch]:
    """Events of any number of servers, a line each; options as `settle` gives them."""
    headers = [name.lower() for name in options.get("map", {}).get("key", ())]

    def rows(lines: TextLines) -> Iterator[pa.RecordBatch]:
        found = [read_event(line, headers) for line in lines.each()]
        why = np.array([each if isinstance(each, str) else "" for each in found], object)
        yield from bad(lines, {code: why == reason for code, reason in BAD.items()}, BAD)
        for reason in sorted({*why} - {"", *BAD.values()}):
            yield from ignored(lines.offsets[why == reason], reason)
        hops = [each for each in found if isinstance(each, Hop)]
        if hops:
            yield from _events(hops, lines.offsets[why == ""].tolist())

    yield from read_lines(blocks, rows)


def _events(hops: Sequence[Hop], offsets: Sequence[int]) -> Iterator[pa.RecordBatch]:
    """A row for each line, the message or receivers of one; then subscriptions and links, which stand for no line."""
    first = [hop.client is not None for hop in hops]
    yield events(
        offset=np.array(offsets, np.int64),
        kind=pa.array(["message" if own else "delivery" for own in first], pa.string()),
        at=pa.array([hop.at for hop in hops], pa.int64()).cast(TIME),
        client=pa.array([hop.client for hop in hops], pa.string()),
        broker=pa.array([hop.server for hop in hops], pa.string()),
        topic=pa.array([hop.topic if own else None for hop, own in zip(hops, first, strict=True)], pa.string()),
        bytes=pa.array([hop.bytes if own else None for hop, own in zip(hops, first, strict=True)], pa.int64()),
        receivers=pa.array(
            [list(dict.fromkeys(each.client for each in hop.deliveries)) for hop in hops], pa.list_(pa.string())
        ),
        message=pa.array([hop.key for hop in hops], pa.binary(16)),
        balance=pa.array([hop.balance for hop in hops], pa.int64()),
    )
    seen = list(zip(hops, offsets, strict=True))
    subscriptions = [((hop.server, *each), (hop.at, offset)) for hop, offset in seen for each in hop.deliveries]
    if subscriptions:
        (server, client, asked, group), columns = _earliest(subscriptions)
        wild = [bool({"*", ">"} & {*each.split(".")}) for each in asked]
        yield events(
            **columns,
            kind="subscribe",
            client=pa.array(client, pa.string()),
            broker=pa.array(server, pa.string()),
            topic=pa.array(asked, pa.string(), mask=np.array(wild)),
            filter=pa.array(asked, pa.string(), mask=~np.array(wild)),
            dialect=pa.array(["nats" if own else None for own in wild], pa.string()),
            group=pa.array(group, pa.string()),
        )
    links = [((hop.server, each), (hop.at, offset)) for hop, offset in seen for each in hop.neighbours]
    if links:
        (near, far), columns = _earliest(links)
        yield events(**columns, kind="link", broker=pa.array(near, pa.string()), key=pa.array(far, pa.string()))


def _earliest(seen: Iterable[tuple[tuple[str | None, ...], tuple[int, int]]]) -> tuple[Any, dict[str, Column]]:
    """(parts of names, columns): what was seen at (time, offset), each once, and the columns of when it was first."""
    first: dict[tuple[str | None, ...], tuple[int, int]] = {}
    for name, when in seen:
        if name not in first or when[0] < first[name][0]:
            first[name] = when
    at, offset = np.array(list(first.values()), np.int64).T
    columns = {"offset": np.ascontiguousarray(offset), "at": pa.array(at).cast(TIME), "rows": np.zeros_like(at)}
    return zip(*first, strict=True), columns


def settle(sample: bytes, options: Settled) -> Settled:
    """Which headers tell messages apart."""
    asked = options["map"]
    other = sorted(set(asked) - {"key"})
    if other:
        raise BadParameter(f"--map {other[0]}=...: trace events have their own fields. Only a header: --map id=HEADER")
    return {**options, "mapping": {"key": (*asked.get("key", ()), *ID_HEADERS)}}


FORMAT = Format(
    name="nats",
    scope="line",
    sniff=lambda head: 0.99 if BEGINS.search(head) else 0.0,
    read=read,
    settle=settle,
    at_home=True,
    finished=jsonl.is_finished,
    one_log=True,
    options=frozenset({"map"}),
)
