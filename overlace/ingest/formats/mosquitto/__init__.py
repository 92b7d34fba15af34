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
logged in; connects and disconnects say whether a session `ends` there (sessions.py).

A double send is one flow: the message names its receiver once. It is a second load on the last hop only, from
the receiver's home to the receiver: a bridge is sent a message once, however often a client asked for it. So it
must not count in `traffic`, which sums messages to a whole audience over every link on the way; ingest sums it by
receiver in a table of its own, `doubles`.

Written against Mosquitto 2.0. Not exact, as the log does not tell: the first sends of a log that begins while
messages wait; what 1.x, which sends in later turns, sends at QoS 0 when messages of one topic and size meet;
members of a shared subscription while they queue; a client's queue after it lost a retained message to a full
queue, until the client has nothing in flight. A listener with a mount_point logs other topics in than out:
unmatched. `benchmarks/mosquitto.py` counts what is wrong in bursts against real brokers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import pyarrow as pa

from overlace.ingest.events import Format, Settled
from overlace.ingest.formats.mosquitto.lines import LINE, parse_lines
from overlace.ingest.formats.mosquitto.log import Log, continue_lines, find_bridges
from overlace.ingest.formats.mosquitto.rows import rows_of
from overlace.ingest.formats.mosquitto.sends import match_sends
from overlace.ingest.formats.mosquitto.shapes import SHAPES


def sniff(head: bytes) -> float:
    """The share of whole lines that begin with a time, a colon and one of Mosquitto's phrases."""
    lines = head.decode(errors="replace").splitlines()[: -1 if not head.endswith(b"\n") else None]
    begins = tuple(shape.begins for shape in SHAPES if shape.begins)
    rest = (found[2] for found in map(re.compile(LINE).match, lines) if found)
    return sum(text.startswith(begins) for text in rest) / len(lines) if lines else 0.0


def read(blocks: Iterator[tuple[int, bytes]], options: Settled) -> Iterator[pa.RecordBatch]:
    """Events of one broker's log, from its beginning; options as in `FORMAT.options`."""
    parts = [parse_lines(offset, block, options.get("timezone") or "UTC") for offset, block in blocks if block]
    if parts:
        log = Log(parts)
        del parts
        continue_lines(log)
        find_bridges(log, _names(options.get("bridges")))
        yield from rows_of(log, match_sends(log), options.get("broker"))


def _names(option: str | Sequence[str] | None) -> list[str]:
    return option.split(",") if isinstance(option, str) else list(option or ())


FORMAT = Format(
    name="mosquitto",
    scope="file",
    identity="broker/client",
    at_home=True,
    one_broker=True,
    sniff=sniff,
    read=read,
    options={
        "broker": "the broker whose log it is; its lines do not say",
        "bridges": "names or client ids of bridges that the log does not show as such (connection in mosquitto.conf)",
        "timezone": "of ISO times without an offset (log_timestamp_format); UTC unless given",
    },
)
