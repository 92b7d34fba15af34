"""A log as a list of turns: messages as they enter, and what is known of each send without looking further."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from overlace.arrays.csr import group
from overlace.arrays.jit import Bools, Ints, kernel
from overlace.ingest.formats.mosquitto.lines import (
    ACK,
    BRIDGE,
    CONNACK,
    CONNECT,
    DISCONNECT,
    GONE,
    LEFT,
    LINK_IN,
    RECEIVE,
    REDELIVERY,
    REFUSED,
    RELEASE,
    RETAINED,
    SEND,
    UNSUBSCRIBE,
    WILL_TOPIC,
    Log,
    Numbers,
    is_any,
    last_marked,
)

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


LINE, ENTER, PUBLISHER, TOPIC, SIZE, QOS, RETAIN = range(7)
"""The first columns of Entries while they are filled."""


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


class Lines(NamedTuple):
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


def turns_of(log: Log, owned: Bools) -> tuple[Entries, Sends, Bools]:
    """(entries, sends, repeated): a repeated line is a receive that comes again; topics `owned` are the broker's."""
    first, enters = _entering(log)
    durable31 = (log.version == 1) & (log.clean == 0)
    lines = Lines(
        log.code, log.client, log.topic, log.size, log.mid, log.dup, log.qos, log.retain, log.present, enters, durable31
    )
    most = int(np.count_nonzero((enters >= 0) | is_any(log.code, GONE, LEFT)))
    sent = np.flatnonzero(log.code == SEND)
    entry, known, marks = take_turns(lines, sent, most, log.bridge, owned)
    line, enter, publisher, topic, size, qos, retain = (np.ascontiguousarray(column) for column in entry.T)
    entries = Entries(line, enter, publisher, topic, size, qos, retain, *group(topic, len(log.topics)))
    sent_on = log.topic[sent].astype(np.int64)
    sends = Sends(sent, log.client[sent], sent_on, log.size[sent], log.qos[sent], *known, *marks)
    return entries, sends, (first >= 0) & (first != np.arange(len(first)))


def _entering(log: Log) -> tuple[Ints, Ints]:
    """(first, enters): of a receive the line at which its message first came; of a line the message that enters there.

    Below QoS 2 a message enters as it is received, at QoS 2 at its PUBREL; one that the broker refuses, as its
    publisher has too many under way, does not. A receive with the dup flag is the one before it of that client and
    packet id, if topic and size agree.
    """
    received = log.code == RECEIVE
    refused = np.flatnonzero(log.code[1:] == REFUSED)  # the lines above
    refused = refused[received[refused] & (log.client[refused] == log.client[refused + 1])]
    refused = refused[log.mid[refused] == log.mid[refused + 1]]
    first = np.where(received, np.arange(len(received)), -1)
    twice = received & (log.qos == 2)
    pending = twice.copy()
    pending[refused] = False
    known = twice | (log.code == RELEASE)
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
def take_turns(
    lines: Lines, sent: Ints, most: int, bridge: Bools, owned: Bools
) -> tuple[Ints, tuple[Ints, Ints, Ints, Ints, Ints], tuple[Bools, Bools, Bools, Bools]]:
    """(entries, known, marks) of a log, in the order of the columns of Entries and, from `turn` on, of Sends."""
    code, client, topic, size = lines.code, lines.client, lines.topic, lines.size

    # what is found: an entry a row, and of each send what Sends holds
    entry, entries = np.empty((most, RETAIN + 1), np.int64), 0
    turn, number = np.full(len(sent), -1, np.int64), np.zeros(len(sent), np.int64)
    base, since = np.full(len(sent), -1, np.int64), np.full(len(sent), -1, np.int64)
    label = np.zeros(len(sent), np.int64)
    idle, behind = np.zeros(len(sent), np.bool_), np.zeros(len(sent), np.bool_)
    crowded, returned = np.zeros(len(sent), np.bool_), np.zeros(len(sent), np.bool_)

    # what is known of each client so far
    clients = len(bridge)
    flight, last = np.zeros(clients, np.int64), np.full(clients, -1, np.int64)
    session, connected = np.full(clients, -1, np.int64), np.full(clients, -1, np.int64)
    away, old = np.full(clients, -1, np.int64), np.zeros(clients, np.bool_)
    keeps_retain, goodbye = np.zeros(clients, np.bool_), np.zeros(clients, np.bool_)
    will, served = np.full(clients, UNSEEN, np.int64), np.full(clients, -1, np.int64)  # line of its will, last turn

    # the entry of this turn, who went away in it, who came back in it, and the last send
    now, dead, returning, send = -1, -1, -1, -1
    for i in range(len(code)):
        what, who = code[i], client[i]
        if what == SEND:
            send += 1
            since[send], returned[send] = connected[who], returning == who
            if lines.dup[i] == 1:
                label[send] = REDELIVERY
                continue

            if dead >= 0 and now < 0:  # a will that was not expected: none was seen to be given, or a late goodbye
                mine = will[dead]
                unseen = mine == UNSEEN and not goodbye[dead] and not owned[topic[i]]
                if unseen or (mine >= 0 and topic[mine] == topic[i] and size[mine] == size[i]):
                    put(entry[entries], -1, i - 1, dead, lines, i)
                    entry[entries, QOS] = 2
                    now, entries = entries, entries + 1

            # is it a send of the message that enters in this turn?
            fits = now >= 0 and size[i] == entry[now, SIZE] and (topic[i] == entry[now, TOPIC] or bridge[who])
            if lines.retain[i] == 1:  # only a client that asked for it sees that a message is to be retained
                fits = fits and entry[now, RETAIN] == 1 and lines.qos[i] <= entry[now, QOS] and served[who] != now
            if fits:
                turn[send], crowded[send], served[who] = now, served[who] == now, now
                keeps_retain[who] |= lines.retain[i] == 1
            if bridge[who]:
                label[send] = BRIDGE
            elif lines.retain[i] == 1 and turn[send] < 0 and not keeps_retain[who]:
                label[send] = RETAINED

            # above QoS 0 it has a number, and counts as in flight until it is acknowledged
            if lines.qos[i] == 0:
                base[send] = away[who] if returned[send] else UNSEEN
                continue
            idle[send], base[send] = flight[who] == 0, session[who]
            flight[who] += 1
            if last[who] < 0:  # a session from before this log
                last[who] = lines.mid[i]
            step = (lines.mid[i] - last[who] + MIDS // 2) % MIDS - MIDS // 2
            number[send], behind[send] = last[who] + step, step < 0
            last[who] = max(last[who], number[send])
        elif what == WILL_TOPIC:
            will[who] = i
        elif RECEIVE <= what <= UNSUBSCRIBE or what == LINK_IN:
            now, dead, returning = -1, -1, -1  # another turn
            if what == ACK:
                flight[who] = max(0, flight[who] - 1)
            elif what == CONNACK:
                if size[i] == 0:  # accepted
                    connected[who] = i
                    if lines.present[i] == 1 or old[who]:
                        returning = who
                    else:
                        session[who], flight[who], last[who] = i, 0, 0
            elif what in (CONNECT, LINK_IN):
                will[who], goodbye[who], old[who] = NONE, False, lines.durable31[i]
            elif what == DISCONNECT:
                goodbye[who] = True
            elif what in (GONE, LEFT):
                dead, away[who] = who, i
                mine = will[who]
                if mine >= 0 and not goodbye[who]:
                    put(entry[entries], -1, i, who, lines, mine)
                    now, entries = entries, entries + 1
                    will[who] = NONE

            new = lines.enters[i]
            if new >= 0:
                put(entry[entries], new, i, who, lines, new)
                now, entries = entries, entries + 1
    return entry[:entries], (turn, label, number, base, since), (idle, behind, crowded, returned)


@kernel
def put(row: Ints, line: int, enter: int, publisher: int, lines: Lines, at: int) -> None:
    """Fill a row that becomes one of Entries; what the message is stands in the line `at`."""
    row[LINE], row[ENTER], row[PUBLISHER] = line, enter, publisher
    row[TOPIC], row[SIZE], row[QOS], row[RETAIN] = lines.topic[at], lines.size[at], lines.qos[at], lines.retain[at]
