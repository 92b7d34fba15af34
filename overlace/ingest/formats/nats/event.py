"""One trace event of nats-server: what a server tells of a message that passed it.

    {"server": {"name": "hub-2", ...}, "request": {"header": {"Nats-Trace-Dest": ["..."]}, "msgsize": 55}, "hops": 1,
     "events": [{"type": "in", "ts": "...Z", "kind": 0, "cid": 10, "name": "plc2", "acc": "BLUE", "subj": "fab.4"},
                {"type": "eg", "ts": "...Z", "kind": 0, "cid": 11, "name": "hmi7", "sub": "fab.>", "queue": "desk"},
                {"type": "eg", "ts": "...Z", "kind": 4, "cid": 6, "name": "hub-1", "hop": "1"}]}

As nats-server 2.15.1 writes them (tests/ingest/capture_nats.py): the first server has no hop; each onward server that
it sent the message to is an egress with a hop, and that server's event has the hop in its header Nats-Trace-Hop. A
client that answers may copy both headers into its reply (nats-py does), which is then traced under the same
destination: so a message is told by its destination, its traceparent and its subject, and an ingress from a client is a
first event whatever its headers say.

Keeps: balances of a message's events add up to WHOLE if and only if there is one first event, and one event for each
hop that an event of it names (but for a chance of 2 ** -64). A server that sends the message to one that traces nothing
proves nothing: then they do not add up.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from hashlib import blake2b
from typing import Any, NamedTuple

from overlace.ingest.events import WHOLE

OURS = "_OVERLACE."
"""Where subjects of Overlace itself begin."""

CLIENT, SERVERS = 0, (1, 2, 4)
"""Kinds of connections: clients; other servers of a cluster, behind a gateway, at a leafnode link."""

PROBE, REFUSED, OWN, INSIDE = "probe", "refused by the server", "of Overlace itself", "sent by a server"
NO_EVENT, NO_ID = "not a trace event of nats-server", "no header that says which message it is"

EPOCH, MICROSECOND = datetime(1970, 1, 1, tzinfo=UTC), timedelta(microseconds=1)
EARLIEST, LATEST = ((datetime(year, 1, 1, tzinfo=UTC) - EPOCH) // MICROSECOND for year in (1900, 2200))
"""Times as in every log."""

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


def read_event(line: bytes | str, headers: Sequence[str] = ()) -> Hop | str:
    """What an event tells, or why it tells nothing; `headers` further tell messages apart, in lower case."""
    try:
        return _read(json.loads(line), headers)
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError, OverflowError):
        return NO_EVENT


def _read(event: Mapping[str, Any], headers: Sequence[str]) -> Hop | str:
    server, request, steps = _text(event["server"]["name"]), event["request"], event["events"]
    given = {name.lower(): values for name, values in request.get("header", {}).items()}
    came = steps[0]
    if came["type"] != "in":
        return NO_EVENT
    kind, topic = came["kind"], _text(came["subj"])
    at = (datetime.fromisoformat(came["ts"]) - EPOCH) // MICROSECOND
    if not EARLIEST <= at < LATEST:
        return NO_EVENT
    first = kind not in SERVERS
    subject = topic
    own = "" if first else _text(given["nats-trace-hop"][0])
    hops = 0
    balance = WHOLE if first else word(own)
    deliveries, neighbours = [], [] if first else [_name(came, server)]
    for step in steps[1:]:
        if step["type"] == "sm" and first:
            subject = _text(step["to"])  # what the next servers get
        if step["type"] != "eg":
            continue
        hop = step.get("hop")
        if hop is not None:
            hops += 1
            balance -= word(hop)
        failed = step.get("error") is not None
        if step["kind"] in SERVERS:
            if not failed:
                neighbours.append(_name(step, server))
                balance += 0 if hop is not None else MISMATCH  # who received it there is not told
        elif step["kind"] == CLIENT and not failed and not _text(step["sub"]).startswith(OURS):
            deliveries.append(Delivery(_name(step, server), step["sub"], _maybe_text(step.get("queue"))))
    balance += (int(event.get("hops", 0)) - hops) * MISMATCH
    if given.get("nats-trace-only", ["false"])[0] in ("1", "true", "on"):
        return PROBE
    if topic.startswith(OURS):
        return OWN
    if first and came.get("error") is not None:
        return REFUSED
    if first and kind != CLIENT:
        return INSIDE
    key = _key(given, headers, subject)
    if key is None:
        return NO_ID
    size, name = 0, None
    if first:
        size, name = int(request["msgsize"]) - _size(given), _name(came, server)
        if size >= LARGEST:
            return NO_EVENT
    return Hop(key, at, server, name, topic, max(size, 0), _signed(balance), deliveries, neighbours)


def _key(given: Mapping[str, Sequence[str]], headers: Sequence[str], subject: str) -> bytes | None:
    """Which message it is: every header that may tell, and the subject; none where no header does."""
    told = [given[name][0] if name in given else "" for name in ("nats-trace-dest", "traceparent", *headers)]
    if not any(told):
        return None
    return blake2b("\x1f".join([*told, subject]).encode(), digest_size=16).digest()


def _size(given: Mapping[str, Sequence[str]]) -> int:
    """Bytes of headers as they are sent."""
    lines = sum(len(name.encode()) + len(value.encode()) + 4 for name, values in given.items() for value in values)
    return lines + len(b"NATS/1.0\r\n\r\n") if given else 0


def _name(step: Mapping[str, Any], server: str) -> str:
    """A client or server by its name, a client without one by its connection."""
    name = step.get("name")
    return _text(name) if name else f"{server}:{int(step['cid'])}"


def _text(value: object) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError("expected a text")
    value.encode()  # half of a surrogate pair is no text
    return value


def _maybe_text(value: object) -> str | None:
    return None if value is None else _text(value)


@lru_cache(1 << 16)
def word(hop: str) -> int:
    """The word that stands for a hop."""
    return int.from_bytes(blake2b(_text(hop).encode(), digest_size=8).digest(), "little")


def _signed(balance: int) -> int:
    """A sum modulo 2 ** 64, as a signed word."""
    return (balance + (SPAN >> 1)) % SPAN - (SPAN >> 1)


def adds_up(balances: int) -> bool:
    """Whether a sum of balances is that of a whole message."""
    return balances % SPAN == WHOLE
