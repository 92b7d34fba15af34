"""A log as a list of turns: messages as they enter, and what is known of each send without looking further."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from overlace.arrays.csr import group
from overlace.arrays.jit import Bools, Ints, kernel
from overlace.ingest.formats.mosquitto import kinds
from overlace.ingest.formats.mosquitto.lines import Log, Numbers, is_any, last_marked

MIDS = 65535  # packet ids run from 1 to this and begin again
OPEN = 0
UNSEEN, NONE = -2, -1


class Entries(NamedTuple):
    """Messages as they enter, in that order; a will has no line until its first send is known."""

    line: Ints  # of the message: a redelivered one has the line of the first
    enter: Ints  # the line at which it enters
    publisher: Ints
    topic: Ints
    size: Ints
    qos: Ints
    retain: Ints
    of_topic: Ints  # CSR by topic into places
    places: Ints


class Sends(NamedTuple):
    """Sends in the order of the log."""

    line: Ints
    client: Numbers
    topic: Ints
    size: Numbers
    qos: Numbers
    turn: Ints  # the message that enters in this turn, if the send can be of it, else -1
    label: Ints  # OPEN, or the reason why it carries no message of its own
    number: Ints  # its packet id, counted on where ids begin again
    base: Ints  # the line at which the client's session began; at QoS 0 the line at which it last went away
    since: Ints  # the line at which its connection began
    idle: Bools  # nothing was in flight to the client
    behind: Bools  # a later number was sent before
    crowded: Bools  # it is not the client's first in this turn
    returned: Bools  # this turn is the client's return to its session


class LineColumns(NamedTuple):
    """What the turns are read from, a row a line."""

    code: Numbers
    client: Numbers
    topic: Numbers
    size: Numbers
    mid: Numbers
    dup: Numbers
    qos: Numbers
    retain: Numbers
    present: Numbers
    enters: Ints  # the line of the message that enters here, -1: none does
    durable31: Bools  # a session that MQTT 3.1 keeps: it has no "session present"


class Clients(NamedTuple):
    """What is known of each client so far."""

    flight: Ints  # sends that it has not acknowledged
    number: Ints  # the largest of its sends
    session: Ints  # the line at which it began
    connected: Ints  # the line at which its connection began
    away: Ints  # the line at which it last went away
    will: Ints  # the line of its will
    served: Ints  # the last entry that it was sent
    durable31: Bools
    keeps_retain: Bools  # it asked to see that a message is to be retained
    goodbye: Bools  # it has said that it leaves


def turns_of(log: Log, owned: Bools) -> tuple[Entries, Sends, Bools]:
    """(entries, sends, repeated): a repeated line is a receive that comes again; topics `owned` are the broker's."""
    first, enters = _entering(log)
    durable31 = (log.version == 1) & (log.clean == 0)
    lines = LineColumns(
        log.code, log.client, log.topic, log.size, log.mid, log.dup, log.qos, log.retain, log.present, enters, durable31
    )
    columns, none = (
        np.empty((7, np.count_nonzero((enters >= 0) | is_any(log.code, kinds.GONE, kinds.LEFT))), np.int64),
        first[:0],
    )
    sent, clients = np.flatnonzero(log.code == kinds.SEND), len(log.bridge)
    turn, base, since = np.full((3, len(sent)), -1)
    label, number = np.zeros((2, len(sent)), np.int64)
    marks, client, topic = np.zeros((4, len(sent)), bool), log.client[sent], log.topic[sent].astype(np.int64)
    sends = Sends._make([sent, client, topic, log.size[sent], log.qos[sent], turn, label, number, base, since, *marks])
    flight, places = np.zeros(clients, np.int64), np.full((6, clients), -1)
    known = Clients._make([flight, *places, *np.zeros((3, clients), bool)])
    known.will[:] = UNSEEN
    rows = take_turns(lines, Entries._make([*columns, none, none]), sends, known, log.bridge, owned)
    columns = columns[:, :rows]
    entries = Entries._make([*columns, *group(columns[3], len(log.topics))])
    return entries, sends, (first >= 0) & (first != np.arange(len(first)))


def _entering(log: Log) -> tuple[Ints, Ints]:
    """(first, enters): of a receive the line at which its message first came; of a line the message that enters there.

    Below QoS 2 a message enters as it is received, at QoS 2 at its PUBREL; one that the broker refuses, as its
    publisher has too many under way, does not. A receive with the dup flag is the one before it of that client and
    packet id, if topic and size agree.
    """
    received = log.code == kinds.RECEIVE
    refused = np.flatnonzero(log.code[1:] == kinds.REFUSED)  # the lines above
    refused = refused[received[refused] & (log.client[refused] == log.client[refused + 1])]
    refused = refused[log.mid[refused] == log.mid[refused + 1]]
    first = np.where(received, np.arange(len(received)), -1)
    twice = received & (log.qos == 2)
    pending = twice.copy()
    pending[refused] = False
    known = twice | (log.code == kinds.RELEASE)
    if (log.dup[received] == 1).any():
        known |= received & (log.qos > 0)
    at = np.flatnonzero(known)
    name = log.client[at].astype(np.int64) << 17 | log.mid[at]
    order = np.argsort(name, kind="stable")
    at, name = at[order], name[order]
    comes = received[at]

    # A receive that comes again has the line of the first.
    before = np.append(-1, last_marked(comes))[:-1]
    again = comes & (before >= 0) & (name == name[before]) & (log.dup[at] == 1)
    again &= (log.topic[at] == log.topic[at[before]]) & (log.size[at] == log.size[at[before]])
    first[at[comes]] = at[last_marked(comes & ~again)[comes]]
    enters = np.where(twice, -1, first)
    enters[refused] = -1

    # A PUBREL releases the last QoS 2 receive of its name, unless another PUBREL has.
    second, other = (np.append(-1, last_marked(each))[:-1] for each in (pending[at], ~comes))
    frees = ~comes & (second >= 0) & (second > other) & (name == name[second])
    enters[at[frees]] = first[at[second[frees]]]
    return first, enters


@kernel(work=lambda lines, *_: 3 * len(lines.code))
def take_turns(lines: LineColumns, entries: Entries, sends: Sends, known: Clients, bridge: Bools, owned: Bools) -> int:
    """Fill in entries and what is known of each send; the number of entries."""
    code, client = lines.code, lines.client
    now, absent, returning = -1, -1, -1  # the entry of this turn, the client that went away in it or came back in it
    entered, send = 0, 0
    for i in range(len(code)):
        what, own = code[i], client[i]
        if what == kinds.SEND:
            if lines.dup[i] != 1 and absent >= 0 and now < 0 and sends_will(lines, i, absent, known, owned):
                put_entry(entries, entered, -1, i - 1, absent, lines, i)
                entries.qos[entered] = 2
                now, entered = entered, entered + 1
            take_send(lines, i, now, returning == own, entries, sends, send, known, bridge)
            send += 1
        elif what == kinds.WILL_TOPIC:
            known.will[own] = i
        elif kinds.RECEIVE <= what <= kinds.UNSUBSCRIBE or what == kinds.LINK_IN:
            now, absent, returning = -1, -1, -1  # another turn
            if what == kinds.ACK:
                known.flight[own] = max(0, known.flight[own] - 1)
            elif what == kinds.CONNACK:
                if lines.size[i] == 0:  # accepted
                    known.connected[own] = i
                    if lines.present[i] == 1 or known.durable31[own]:
                        returning = own
                    else:
                        known.session[own], known.flight[own], known.number[own] = i, 0, 0
            elif what in (kinds.CONNECT, kinds.LINK_IN):
                known.will[own], known.goodbye[own], known.durable31[own] = NONE, False, lines.durable31[i]
            elif what == kinds.DISCONNECT:
                known.goodbye[own] = True
            elif what in (kinds.GONE, kinds.LEFT):
                absent, known.away[own] = own, i
                if known.will[own] >= 0 and not known.goodbye[own]:
                    put_entry(entries, entered, -1, i, own, lines, known.will[own])
                    now, entered = entered, entered + 1
                    known.will[own] = NONE

            if lines.enters[i] >= 0:
                put_entry(entries, entered, lines.enters[i], i, own, lines, lines.enters[i])
                now, entered = entered, entered + 1
    return entered


@kernel
def sends_will(lines: LineColumns, i: int, absent: int, known: Clients, owned: Bools) -> bool:
    """Whether a send is of a will that was not expected: none was seen to be given, or a late goodbye."""
    will, topic = known.will[absent], lines.topic[i]
    if will == UNSEEN:
        return not known.goodbye[absent] and not owned[topic]
    return bool(will >= 0 and lines.topic[will] == topic and lines.size[will] == lines.size[i])


@kernel
def take_send(
    lines: LineColumns,
    i: int,
    now: int,
    returning: bool,
    entries: Entries,
    sends: Sends,
    send: int,
    known: Clients,
    bridge: Bools,
) -> None:
    """Fill in what is known of a send, given the entry of its turn and whether its client came back in it."""
    own, size, retain = lines.client[i], lines.size[i], lines.retain[i] == 1
    sends.since[send], sends.returned[send] = known.connected[own], returning
    if lines.dup[i] == 1:
        sends.label[send] = kinds.REDELIVERY
        return

    # is it a send of the message that enters in this turn?
    fits = now >= 0 and size == entries.size[now] and (lines.topic[i] == entries.topic[now] or bridge[own])
    if retain:  # only a client that asked for it sees that a message is to be retained
        fits = fits and entries.retain[now] == 1 and lines.qos[i] <= entries.qos[now] and known.served[own] != now
    if fits:
        sends.turn[send], sends.crowded[send], known.served[own] = now, known.served[own] == now, now
        known.keeps_retain[own] |= retain
    if bridge[own]:
        sends.label[send] = kinds.BRIDGE
    elif retain and not fits and not known.keeps_retain[own]:
        sends.label[send] = kinds.RETAINED

    # above QoS 0 it has a number, and counts as in flight until it is acknowledged
    if lines.qos[i] == 0:
        sends.base[send] = known.away[own] if returning else UNSEEN
        return
    sends.idle[send], sends.base[send] = known.flight[own] == 0, known.session[own]
    known.flight[own] += 1
    if known.number[own] < 0:  # a session from before this log
        known.number[own] = lines.mid[i]
    step = (lines.mid[i] - known.number[own] + MIDS // 2) % MIDS - MIDS // 2
    sends.number[send], sends.behind[send] = known.number[own] + step, step < 0
    known.number[own] = max(known.number[own], sends.number[send])


@kernel
def put_entry(entries: Entries, row: int, line: int, at: int, publisher: int, lines: LineColumns, like: int) -> None:
    """Fill a row of entries; what the message is stands in the line `like`."""
    entries.line[row], entries.enter[row], entries.publisher[row] = line, at, publisher
    entries.topic[row], entries.size[row] = lines.topic[like], lines.size[like]
    entries.qos[row], entries.retain[row] = lines.qos[like], lines.retain[like]
