"""Raw trace events of nats-server, one JSON object a line, as `nats sub --raw` writes them: who received what.

    nats sub --raw '_OVERLACE.trace.>' > events.jsonl

Every server that a traced message passes publishes an event (event.py). A server that took it from a client gives a
message, the others deliveries of it; which events are one message is told by the destination in the header
`Nats-Trace-Dest`, by `traceparent`, by the subject, and by a header that is named (`--map id=HEADER`). A message counts
when its trace is complete: one first event, and one event for each hop that an event names. The events of an
incomplete one are in quarantine, and the message is not taken: an event more or less never makes a wrong one.

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

import re
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from overlace.arrays.jit import Ints
from overlace.errors import BadParameter
from overlace.ingest.events import TIME, Blocks, Format, Settled, events
from overlace.ingest.formats import jsonl
from overlace.ingest.formats.nats.event import NO_EVENT, NO_ID, Hop, read_event
from overlace.ingest.lines import TextLines, bad, ignored, read_lines

BAD = {1: NO_EVENT, 2: NO_ID}
TELLS = ("Nats-Trace-Dest", "traceparent")
"""Headers that tell which message an event is of."""

BEGINS = re.compile(rb'^\s*\{\s*"server"\s*:\s*\{\s*"name"\s*:.*"request"\s*:\s*\{', re.MULTILINE)


def read(blocks: Blocks, options: Settled) -> Iterator[pa.RecordBatch]:
    """Events of any number of servers, a line each; options as `settle` gives them."""
    headers = [name.lower() for name in options.get("map", {}).get("key", ())]

    def rows(lines: TextLines) -> Iterator[pa.RecordBatch]:
        found = [read_event(line, headers) for line in lines.each()]
        why = np.array([each if isinstance(each, str) else "" for each in found], object)
        yield from bad(lines, {code: why == reason for code, reason in BAD.items()}, BAD)
        for reason in sorted({*why} - {"", *BAD.values()}):
            yield from ignored(lines.offsets[why == reason], reason)
        told = [(offset, each) for offset, each in zip(lines.offsets, found, strict=True) if isinstance(each, Hop)]
        yield from _messages(told)
        yield from _subscriptions(told)
        yield from _links(told)

    yield from read_lines(blocks, rows)


def _messages(told: Sequence[tuple[int, Hop]]) -> Iterator[pa.RecordBatch]:
    """A row for each line, in their order: the message, or receivers of one."""
    if not told:
        return
    offset, hops = zip(*told, strict=True)
    first = [hop.client is not None for hop in hops]
    yield events(
        offset=np.array(offset, np.int64),
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


def _subscriptions(told: Sequence[tuple[int, Hop]]) -> Iterator[pa.RecordBatch]:
    """What deliveries tell of subscriptions, each at its first delivery; these rows stand for no line."""
    first: dict[tuple[str, str, str, str | None], tuple[int, int]] = {}
    for offset, hop in told:
        for each in hop.deliveries:
            name = (hop.server, *each)
            if name not in first or hop.at < first[name][0]:
                first[name] = (hop.at, offset)
    if not first:
        return
    server, client, asked, group = zip(*first, strict=True)
    wild = [has_wildcards(each) for each in asked]
    yield events(
        **_when(list(first.values())),
        kind="subscribe",
        client=pa.array(client, pa.string()),
        broker=pa.array(server, pa.string()),
        topic=pa.array([None if w else each for each, w in zip(asked, wild, strict=True)], pa.string()),
        filter=pa.array([each if w else None for each, w in zip(asked, wild, strict=True)], pa.string()),
        dialect=pa.array(["nats" if w else None for w in wild], pa.string()),
        group=pa.array(group, pa.string()),
    )


def has_wildcards(subject: str) -> bool:
    """Whether a subscription is for more than one subject."""
    return any(token in ("*", ">") for token in subject.split("."))


def _links(told: Sequence[tuple[int, Hop]]) -> Iterator[pa.RecordBatch]:
    """The links that messages came by and went; these rows stand for no line."""
    first: dict[tuple[str, str], tuple[int, int]] = {}
    for offset, hop in told:
        for each in hop.neighbours:
            name = (hop.server, each)
            if name not in first or hop.at < first[name][0]:
                first[name] = (hop.at, offset)
    if first:
        near, far = zip(*first, strict=True)
        key, broker = pa.array(far, pa.string()), pa.array(near, pa.string())
        yield events(**_when(list(first.values())), kind="link", broker=broker, key=key)


def _when(sightings: Sequence[tuple[int, int]]) -> dict[str, pa.Array | Ints]:
    """Columns that rows without a line of their own have in common."""
    at, offset = (np.array(each, np.int64) for each in zip(*sightings, strict=True))
    return {"offset": offset, "at": pa.array(at).cast(TIME), "rows": np.zeros(len(at), np.int64)}


def settle(sample: bytes, options: Settled) -> Settled:
    """Which headers tell messages apart."""
    asked = options["map"]
    other = sorted(set(asked) - {"key"})
    if other:
        raise BadParameter(f"--map {other[0]}=...: trace events have their own fields. Only a header: --map id=HEADER")
    return {**options, "mapping": {"key": (*asked.get("key", ()), *TELLS)}}


def sniff(head: bytes) -> float:
    """Whether some line begins as trace events do, and no other log does."""
    return 0.99 if BEGINS.search(head) else 0.0


FORMAT = Format(
    name="nats",
    scope="line",
    sniff=sniff,
    read=read,
    settle=settle,
    at_home=True,
    finished=jsonl.is_finished,
    one_log=True,
    options={"map": "id=HEADER: a header that tells which message an event is of, beside " + " and ".join(TELLS)},
)
