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

`reason` of the lines that follow another: send, queued (the message came in while the receiver was away),
double (one client, one message, once more), retained, redelivery (d1), bridge, unmatched (no receive in
this log), or the kind of packet. Their `client` is the receiver. A receive from a bridge has its receivers
here; a send to a bridge has as `key` the offset of the message that it carries. A `bridge` event has the
address of the far end as `reason`. A will is the event of its first send.

Written against Mosquitto 2.0. Not exact, as the log does not tell: the first sends of a log that begins while
messages wait; what 1.x, which sends in later turns, sends at QoS 0 when messages of one topic and size meet;
members of a shared subscription while they queue; a client's queue after it lost a retained message to a full
queue, or after a publisher went beyond its own limits (its messages are logged and thrown away), until the
client has nothing in flight. A listener with a mount_point logs other topics in than out: unmatched.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from overlace.arrays.csr import group
from overlace.arrays.jit import Bools, Ints, kernel
from overlace.formats.events import TIME, Format, events
from overlace.formats.lines import split, text_of

Numbers = NDArray[Any]  # of whatever width
Int = int | np.int64

ROWS = 1 << 17  # of a batch that goes out
MIDS = 65535  # packet ids run from 1 to this and begin again
LOOK = 2_000  # messages that a send without a counterpart is compared with: twice Mosquitto's queue
MOST = 10_000_000  # pairs of topic and filter that are compared for one session

# What a line is. The first are those that the kernels tell apart.
(
    OTHER,
    RECEIVE,  # Received PUBLISH
    SEND,  # Sending PUBLISH
    RELEASE,  # Received PUBREL: a QoS 2 message enters
    ACK,  # Received PUBACK or PUBCOMP: one less in flight
    CONNACK,
    CONNECT,
    GONE,  # a connection that broke: its will is due
    LEFT,  # Client X disconnected.
    DISCONNECT,
    SUBSCRIBE,
    UNSUBSCRIBE,
    WILL,
    TAB,  # belongs to a SUBSCRIBE, UNSUBSCRIBE or WILL above and becomes one of the next three
    FILTER,
    FILTER_OFF,
    WILL_TOPIC,
    ECHO,  # the line of log_type subscribe, which says a FILTER again
    PACKET,
    LINK,  # Connecting bridge: the broker dials
    LINK_IN,  # New bridge connected
    LINK_TEXT,
    BAD,
) = range(23)

NO_TIME, NO_UTF8, CUT_SHORT, ORPHAN = "no time", "not UTF-8", "cut short", "nothing above it that it continues"


@dataclass(frozen=True)
class Shape:
    """A kind of line: how it begins, what it is, its reason, and its fields (none: nothing in it is used)."""

    begins: str
    code: int
    reason: str | None = None
    fields: str = ""
    optional: bool = False  # a line that begins so and has not the fields is no bad line


_PUBLISH = (
    r"(?P<client>.+) \(d(?P<dup>[01]), q(?P<qos>[012]), r(?P<retain>[01]), m(?P<mid>\d{1,5}), "
    r"'(?P<topic>.+)', \.\.\. \((?P<size>\d{1,9}) bytes\)\)"
)
_MID = r"(?P<client>.+) \(Mid: (?P<mid>\d{1,5})(?:, RC:-?\d+)?\)"
_CONNECTED = r"(?P<address>.+?) as (?P<client>.+) \((?:p(?P<version>\d{1,2}), )?c(?P<clean>[01]), k\d+(?:, u'.*')?\)\."
_BROKE = (
    r"(?P<client>.+?)(?: \[[0-9A-Fa-f.:]*\])? (?:disconnected\.|closed its connection\.|"
    r"has exceeded timeout, disconnecting\.|already connected, closing old connection\.|"
    r"disconnected, not authorised\.|been disconnected by administrative action\.|disconnected(?: due to |: ).*)"
)

SHAPES = (
    Shape("", OTHER, "notice"),
    Shape("Received PUBLISH from ", RECEIVE, None, _PUBLISH),
    Shape("Sending PUBLISH to ", SEND, None, _PUBLISH),
    Shape("Received PUBACK from ", ACK, "PUBACK", _MID),
    Shape("Received PUBCOMP from ", ACK, "PUBCOMP", _MID),
    Shape("Received PUBREL from ", RELEASE, "PUBREL", _MID),
    Shape("Sending CONNACK to ", CONNACK, "CONNACK", r"(?P<client>.+) \((?P<present>[01]), (?P<size>\d{1,3})\)"),
    *(
        Shape(f"{verb} {packet} {'from' if verb == 'Received' else 'to'} ", PACKET, packet)
        for verb in ("Received", "Sending")
        for packet in "PUBREC PUBREL PUBACK PUBCOMP SUBACK UNSUBACK AUTH DISCONNECT".split()
        if (verb, packet) not in {("Received", each) for each in ("PUBREL", "PUBACK", "PUBCOMP", "DISCONNECT")}
    ),
    Shape("Received PINGREQ from ", OTHER, "PINGREQ"),
    Shape("Sending PINGRESP to ", OTHER, "PINGRESP"),
    Shape("Sending PINGREQ to ", OTHER, "PINGREQ"),
    Shape("Received PINGRESP from ", OTHER, "PINGRESP"),
    Shape("Received SUBSCRIBE from ", SUBSCRIBE, "SUBSCRIBE", r"(?P<client>.+)"),
    Shape("Received UNSUBSCRIBE from ", UNSUBSCRIBE, "UNSUBSCRIBE", r"(?P<client>.+)"),
    Shape("Received DISCONNECT from ", DISCONNECT, "DISCONNECT", r"(?P<client>.+)"),
    Shape("New connection from ", OTHER, "connection"),
    Shape("New client connected from ", CONNECT, None, _CONNECTED),
    Shape("New bridge connected from ", LINK_IN, None, _CONNECTED),
    Shape("Client ", GONE, None, _BROKE, optional=True),
    Shape("Client <unknown> ", OTHER, "unknown client"),
    Shape("Bad socket read/write on client ", GONE, None, r"(?P<client>.+): .*"),
    Shape("Socket error on client ", GONE, None, r"(?P<client>.+), disconnecting\."),
    Shape(
        "Will message specified (", WILL, "will", r"(?P<size>\d{1,9}) bytes\) \(r(?P<retain>[01]), q(?P<qos>[012])\)\."
    ),
    Shape("No will message specified", OTHER, "no will"),
    Shape("\t", TAB, None, r"(?P<topic>.+)"),
    Shape("Connecting bridge ", LINK, None, r"(?:\(step (?P<step>\d)\) )?(?P<topic>.+) \((?P<address>.*:\d+)\)"),
    Shape(
        "Bridge ",
        LINK_TEXT,
        "bridge",
        r"(?P<client>.+?) (?:doing local SUBSCRIBE on topic (?P<topic>.*)|sending .*)",
        True,
    ),
    Shape("Received CONNACK on connection ", LINK_TEXT, "bridge", r"(?P<client>.+)\."),
    Shape("Outgoing messages are being dropped for client ", OTHER, "dropped"),
    Shape("Dropping too large outgoing PUBLISH for ", OTHER, "dropped"),
    Shape("Denied PUBLISH from ", OTHER, "Denied PUBLISH"),
    Shape("Dropped too large PUBLISH from ", OTHER, "Dropped PUBLISH"),
    Shape("Expiring client ", OTHER, "session expired"),
    Shape("Saving in-memory database", OTHER, "persistence"),
    Shape("mosquitto version ", OTHER, "version"),
    Shape("Config loaded from ", OTHER, "config"),
    Shape("Loading config file ", OTHER, "config"),
    Shape("Reloading config", OTHER, "config"),
    Shape("Opening ", OTHER, "config"),
    Shape("Warning", OTHER, "warning"),
    Shape("Error", OTHER, "error"),
)

REASONS = [
    None,
    *"send queued double retained redelivery bridge unmatched $SYS will blank".split(),
    *(NO_TIME, NO_UTF8, CUT_SHORT, ORPHAN),
    *dict.fromkeys(shape.reason for shape in SHAPES if shape.reason not in (None, "bridge", "will")),
]
_REASON = {reason: code for code, reason in enumerate(REASONS)}
_SEND, _QUEUED, _DOUBLE, _RETAINED, _REDELIVERY, _BRIDGE, _UNMATCHED, _SYS = range(1, 9)

_LINE = r"^(?P<at>\d{1,11}|\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:Z|[+-]\d\d:?\d\d)?): (?P<rest>.*)$"


def sniff(head: bytes) -> float:
    """The share of whole lines that begin with a time, a colon and one of Mosquitto's phrases."""
    lines = head.decode(errors="replace").splitlines()[: -1 if not head.endswith(b"\n") else None]
    begins = tuple(shape.begins for shape in SHAPES if shape.begins)
    rest = (found[2] for found in map(re.compile(_LINE).match, lines) if found)
    return sum(text.startswith(begins) for text in rest) / len(lines) if lines else 0.0


def read(blocks: Iterator[tuple[int, bytes]], options: Mapping[str, Any]) -> Iterator[pa.RecordBatch]:
    """Events of one broker's log, from its beginning; options as in `FORMAT.options`."""
    parts = [_parse(offset, block, options.get("timezone") or "UTC") for offset, block in blocks if block]
    if parts:
        log = _Log(parts)
        del parts
        log.continue_lines()
        log.find_bridges(_names(options.get("bridges")))
        log.match_sends()
        yield from log.events(options.get("broker"))


def _names(option: str | Sequence[str] | None) -> list[str]:
    return option.split(",") if isinstance(option, str) else list(option or ())


# Reading lines, a block at a time -------------------------------------------------------------------------


@dataclass
class _Part:
    """The lines of one block: numbers, and names as codes into `clients` and `topics` (-1: none)."""

    numbers: dict[str, Numbers]
    clients: pa.Array
    topics: pa.Array
    samples: pa.Array  # of BAD and TAB lines, in order
    addresses: pa.Array  # of CONNECT, LINK and LINK_IN lines, in order


_NUMBERS = {
    **dict.fromkeys("dup qos retain present version clean step".split(), np.int8),
    **dict.fromkeys("mid size".split(), np.int32),
}


def _parse(offset: int, block: bytes, timezone: str) -> _Part:
    lines, offsets = split(offset, block)
    text, broken = text_of(lines)
    head = pc.extract_regex(text, _LINE)
    at = _times(pc.struct_field(head, "at"), timezone)
    rest = pc.fill_null(pc.if_else(pa.array(at != _NO_TIME), pc.struct_field(head, "rest"), ""), "")
    numbers: dict[str, Any] = {name: np.zeros(len(offsets), kind) for name, kind in _NUMBERS.items()}
    numbers |= {"offset": offsets, "at": at}
    code, reason = np.zeros(len(offsets), np.int8), np.zeros(len(offsets), np.int16)
    none = (np.empty(0, np.int64), pa.array([], pa.large_string()))
    found: dict[str, list[tuple[Ints, pa.Array]]] = {name: [none] for name in ("client", "topic", "address")}
    for shape in SHAPES:
        where = np.flatnonzero(_mask(pc.starts_with(rest, shape.begins)))
        if not len(where):
            continue
        if shape.fields:
            fields = pc.extract_regex(rest.take(pa.array(where)), "^" + re.escape(shape.begins) + shape.fields + "$")
            whole = _mask(pc.is_valid(fields))
            if not shape.optional:
                code[where[~whole]], reason[where[~whole]] = BAD, _REASON[CUT_SHORT]
            where, fields = where[whole], fields.filter(pa.array(whole))
            for field in fields.type:
                values = fields.field(field.name)
                if field.name in numbers:
                    numbers[field.name][where] = pc.if_else(pc.equal(values, ""), "0", values).cast(pa.int32())
                else:
                    named = _mask(pc.not_equal(values, ""))
                    found[field.name].append((where[named], values.filter(pa.array(named))))
        code[where], reason[where] = shape.code, _REASON[shape.reason]
    code[_mask(pc.ends_with(rest, " disconnected.")) & (code == GONE)] = LEFT
    code[at == _NO_TIME], reason[at == _NO_TIME] = BAD, _REASON[NO_TIME]
    blank = _mask(pc.equal(text, ""))
    code[blank], reason[blank] = OTHER, _REASON["blank"]
    code[broken], reason[broken] = BAD, _REASON[NO_UTF8]
    # A line that no shape knows may be the echo of a filter above it: only then its text is kept.
    echo = np.flatnonzero((reason == _REASON["notice"]) & np.append(True, code[:-1] == TAB))
    found["topic"].append((echo, rest.take(pa.array(echo))))
    numbers["client"], clients = _coded(found["client"], len(offsets))
    numbers["topic"], topics = _coded(found["topic"], len(offsets))
    bad = np.flatnonzero(_is(code, BAD, TAB))
    samples = pc.utf8_slice_codeunits(text.take(pa.array(bad)), 0, 200)
    if len(broken):
        samples = _replaced(samples, np.searchsorted(bad, broken), lines.take(pa.array(broken)))
    order = np.argsort(np.concatenate([where for where, _ in found["address"]]))
    addresses = pa.concat_arrays([values for _, values in found["address"]]).take(pa.array(order))
    numbers |= {"code": code, "reason": reason}
    return _Part(numbers, clients, topics, samples, addresses)


_NO_TIME = np.iinfo(np.int64).min


def _times(text: pa.Array, timezone: str) -> Ints:
    """Microseconds since 1970 of epoch seconds and ISO times; `_NO_TIME` where there is none."""
    coded = text.dictionary_encode()  # a second holds many lines
    distinct = coded.dictionary
    plain = pc.match_substring_regex(distinct, r"^\d+$")
    epoch = pc.multiply(pc.if_else(plain, distinct, None).cast(pa.int64()), 1_000_000)
    day = pc.replace_substring(pc.utf8_slice_codeunits(distinct, 0, 19), " ", "T")
    local = pc.strptime(day, format="%Y-%m-%dT%H:%M:%S", unit="us", error_is_null=True)
    zone = pc.replace_substring(pc.utf8_slice_codeunits(distinct, 19), ":", "")
    there = pc.assume_timezone(local, timezone, ambiguous="earliest", nonexistent="earliest").cast(pa.int64())
    iso = pc.if_else(pc.equal(zone, ""), there, pc.subtract(local.cast(pa.int64()), _offsets(zone)))
    times = pc.fill_null(pc.coalesce(epoch, iso), _NO_TIME).to_numpy(zero_copy_only=False)
    codes = pc.fill_null(coded.indices, len(times)).to_numpy(zero_copy_only=False)
    return cast(Ints, np.append(times, _NO_TIME)[codes])


def _offsets(zone: pa.Array) -> pa.Array:
    """Microseconds east of Greenwich of +0100 and the like; of anything else 0."""
    parts = pc.extract_regex(zone, r"^(?P<sign>[+-])(?P<hours>\d\d)(?P<minutes>\d\d)$")
    hours, minutes = (pc.struct_field(parts, each).cast(pa.int64()) for each in ("hours", "minutes"))
    size = pc.multiply(pc.add(pc.multiply(hours, 60), minutes), 60_000_000)
    west = pc.equal(pc.struct_field(parts, "sign"), "-")
    return pc.fill_null(pc.if_else(west, pc.negate(size), size), 0)


def _mask(values: pa.Array) -> Bools:
    return cast(Bools, pc.fill_null(values, False).to_numpy(zero_copy_only=False))


def _coded(found: list[tuple[Ints, pa.Array]], lines: int) -> tuple[Numbers, pa.Array]:
    """(codes, names): each line's name as its place in the distinct names, -1 where it has none."""
    codes = np.full(lines, -1, np.int32)
    coded = pa.concat_arrays([values for _, values in found]).dictionary_encode()
    codes[np.concatenate([where for where, _ in found])] = coded.indices.to_numpy()
    return codes, coded.dictionary


def _replaced(samples: pa.Array, where: Ints, lines: pa.Array) -> pa.Array:
    """Samples with those of lines that are not UTF-8 put in."""
    texts = [line.decode(errors="replace").rstrip("\r\n")[:200] for line in lines.to_pylist()]
    places = np.arange(len(samples))
    places[where] = len(samples) + np.arange(len(where))
    return pa.concat_arrays([samples, pa.array(texts, pa.large_string())]).take(pa.array(places))


# The whole log ------------------------------------------------------------------------------------------------


class _Log:
    """All lines of a log as columns, and what they turn out to be."""

    def __init__(self, parts: list[_Part]) -> None:
        column = {name: np.concatenate([part.numbers[name] for part in parts]) for name in parts[0].numbers}
        self.offset, self.at, self.code, self.reason = (column[name] for name in ("offset", "at", "code", "reason"))
        self.dup, self.qos, self.retain, self.mid = (column[name] for name in ("dup", "qos", "retain", "mid"))
        self.size, self.present, self.step = column["size"], column["present"], column["step"]
        self.durable31 = (column["version"] == 1) & (column["clean"] == 0)  # MQTT 3.1 has no "session present"
        clients = pc.unique(pa.concat_arrays([part.clients for part in parts]))
        self.clients = clients.take(pc.sort_indices(clients))  # codes in the order of the names
        self.topics = pc.unique(pa.concat_arrays([part.topics for part in parts]))
        self.client = _recoded([(part.numbers["client"], part.clients) for part in parts], self.clients)
        self.topic = _recoded([(part.numbers["topic"], part.topics) for part in parts], self.topics)
        self.sampled = np.flatnonzero(_is(self.code, BAD, TAB))
        self.samples = pa.concat_arrays([part.samples for part in parts])
        self.addressed = np.flatnonzero(_is(self.code, CONNECT, LINK, LINK_IN))
        self.addresses = pa.concat_arrays([part.addresses for part in parts])

    def continue_lines(self) -> None:
        """Lines that begin with a tab become filters and topics of wills; the echoes of filters are found."""
        code, client = self.code, self.client
        unknown = (code == OTHER) & (self.topic >= 0) & np.append(False, code[:-1] == TAB)
        here = np.arange(len(code))
        above = np.maximum.accumulate(np.where((code == TAB) | unknown, -1, here))
        tabs = np.flatnonzero(code == TAB)
        over = np.where(above[tabs] >= 0, code[above[tabs]], OTHER)
        code[tabs], self.reason[tabs] = BAD, _REASON[ORPHAN]

        text = self.topics.take(pa.array(self.topic[tabs]))
        asked = pc.extract_regex(text, r"^(?P<filter>.*) \(QoS (?P<qos>[012])\)$")
        is_filter = (over == SUBSCRIBE) & _mask(pc.is_valid(asked))
        for which, what in ((is_filter, FILTER), (over == UNSUBSCRIBE, FILTER_OFF)):
            lines = tabs[which]
            code[lines], self.reason[lines], client[lines] = what, 0, client[above[lines]]
        asked = asked.filter(pa.array(is_filter))
        self.topic[tabs[is_filter]] = self._topic_codes(pc.struct_field(asked, "filter"))
        self.qos[tabs[is_filter]] = pc.struct_field(asked, "qos").cast(pa.int32())

        wills = tabs[(over == WILL) & (above[tabs] == tabs - 1) & (tabs > 1)]
        wills = wills[_is(code[wills - 2], CONNECT, LINK_IN)]
        code[wills], self.reason[wills], client[wills] = WILL_TOPIC, _REASON["will"], client[wills - 2]
        for column in (self.size, self.qos, self.retain):
            column[wills] = column[wills - 1]

        for what, reason in ((FILTER, "SUBSCRIBE"), (FILTER_OFF, "UNSUBSCRIBE")):
            lines = np.flatnonzero(unknown & (np.append(-1, code[:-1]) == what))
            names = [self.clients.take(pa.array(client[lines - 1])), self.topics.take(pa.array(self.topic[lines - 1]))]
            if what == FILTER:
                names.insert(1, pa.array(self.qos[lines - 1]).cast(pa.large_string()))
            said = pc.binary_join_element_wise(*names, pa.scalar(" ", pa.large_string()))
            same = lines[_mask(pc.equal(said, self.topics.take(pa.array(self.topic[lines]))))]
            code[same], self.reason[same], client[same], self.topic[same] = ECHO, _REASON[reason], client[same - 1], -1
        self.topic[code == OTHER] = -1

    def find_bridges(self, names: list[str]) -> None:
        """Which clients are bridges, and of which link: by their lines, or by the names that the caller knows."""
        ids = self.clients.to_pylist() if names else []
        own = np.unique(self.client[_is(self.code, LINK_TEXT, LINK_IN) & (self.client >= 0)])
        told = [i for i, each in enumerate(ids) if any(each == name or each.endswith("." + name) for name in names)]
        found = np.union1d(own, np.array(told, np.int64)).astype(np.int64)
        self.bridge = np.zeros(len(self.clients) + 1, bool)  # the last is for -1
        self.bridge[found] = True
        dials = np.flatnonzero((self.code == LINK) & (self.step < 2))
        known = {*names, *self.topics.take(pa.array(self.topic[dials])).to_pylist()}
        link, dialler = np.full(len(self.clients), -1, np.int64), {}
        for i, each in zip(found, self.clients.take(pa.array(found)).to_pylist(), strict=True):
            fits = [name for name in known if each == name or each.endswith("." + name)]
            name = max(fits, key=len) if fits else each.removeprefix("local.")
            link[i] = self._topic_codes(pa.array([name], pa.large_string()))[0]
            if each.startswith("local.") or link[i] not in dialler:
                dialler[link[i]] = i
        steps = (self.code == LINK) & (self.step > 1)
        self.code[steps], self.reason[steps], self.topic[steps] = LINK_TEXT, _BRIDGE, -1
        self.code[(self.code == CONNECT) & self.bridge[self.client]] = LINK_IN
        self.client[dials] = [dialler.get(each, -1) for each in self.topic[dials]]
        arrived = self.code == LINK_IN
        self.topic[arrived] = link[self.client[arrived]]

    def match_sends(self) -> None:
        """Which message each send carries, and so who received each message."""
        owned = _starts(self.topics, "$SYS/")
        lines = Lines(self.code, self.client, self.topic, self.size, self.mid, self.dup, self.qos, self.retain)
        entered, sends, self.again = take_turns(lines, self.present, self.durable31, self.bridge, owned)
        order = group(sends.client, len(self.clients))[1]
        at_zero = (sends.turn >= 0) & (sends.label == OPEN)
        at_zero[at_zero] &= entered.qos[sends.turn[at_zero]] == 0
        raised = bool(at_zero.any() and (sends.qos[at_zero] > 0).mean() > 0.5)  # upgrade_outgoing_qos
        carried = settle(sends, order, entered, self._filters(), group(entered.topic, len(self.topics)), raised)

        take_late_wills(sends, entered, len(self.topics), carried)
        message = name_wills(entered.line, sends.line, carried, self.bridge[sends.client])
        self.wills = np.flatnonzero(np.isin(sends.line, message) & (carried >= 0))
        whose = sends.line[self.wills]
        self.publisher = self.client.copy()
        self.publisher[whose] = entered.publisher[carried[self.wills]]
        self.topic[whose] = entered.topic[carried[self.wills]]
        root = np.append(message, -1)[carried]
        counted = (root >= 0) & ~self.bridge[sends.client] & (sends.label == OPEN)
        self.start, self.receivers, double = receivers_of(order, sends.client, root, counted, len(self.code))
        away = np.append(entered.enter, len(self.code))[carried] < sends.since
        reason = np.select(
            [sends.label != OPEN, double, carried >= 0, sends.returned, owned[sends.topic]],
            [sends.label, _DOUBLE, np.where(away, _QUEUED, _SEND), _QUEUED, _SYS],
            _UNMATCHED,
        )
        self.reason[sends.line] = reason
        self.key = np.full(len(self.code), -1, np.int64)
        over = (reason == _BRIDGE) & (root >= 0)
        self.key[sends.line[over]] = self.offset[root[over]]

    def events(self, broker: str | None) -> Iterator[pa.RecordBatch]:
        """One event a line, in batches."""
        kind, reason = self._kinds()
        self.publisher[_is(self.code, OTHER, BAD)] = -1
        bad = np.full(len(kind), -1, np.int64)
        bad[self.sampled] = np.arange(len(self.sampled))
        bad[self.code != BAD] = -1
        address = np.full(len(kind), -1, np.int64)
        address[self.addressed] = np.arange(len(self.addressed))
        address[kind != _KIND["bridge"]] = -1
        asked = _is(self.code, FILTER, FILTER_OFF, LINK_TEXT) & (self.topic >= 0)
        sized = _is(self.code, RECEIVE, SEND)
        plain, wild, sharing = _filter_columns(self.topics)
        listed = (self.code == RECEIVE) & (self.again == 0)
        listed |= (self.start[1:] > self.start[:-1]) | (kind == _KIND["message"])
        for first in range(0, len(kind), ROWS):
            part = slice(first, first + ROWS)
            topic, of_filter = self.topic[part], asked[part]
            rows = len(topic)
            start = self.start[first : first + rows + 1]
            values = _taken(self.clients, self.receivers[start[0] : start[-1]])
            yield events(
                offset=self.offset[part],
                kind=_taken(_KINDS, kind[part]),
                reason=pc.coalesce(_taken(self.addresses, address[part]), _taken(_REASON_NAMES, reason[part])),
                sample=_taken(self.samples, bad[part]),
                at=pa.array(self.at[part], pa.int64(), mask=self.at[part] == _NO_TIME).cast(TIME),
                client=_taken(self.clients, self.publisher[part]),
                broker=pa.repeat(pa.scalar(broker, pa.string()), rows),
                topic=pc.coalesce(
                    _taken(plain, np.where(of_filter, topic, -1)),
                    _taken(self.topics, np.where(of_filter | (kind[part] == _KIND["bad"]), -1, topic)),
                ),
                bytes=pa.array(self.size[part], mask=~sized[part]),
                receivers=pa.ListArray.from_arrays(
                    pa.array(start - start[0], pa.int32()), values, mask=pa.array(~listed[part])
                ),
                key=pa.array(self.key[part], mask=self.key[part] < 0).cast(pa.string()),
                filter=_taken(wild, np.where(of_filter, topic, -1)),
                dialect=_taken(pa.array(["mqtt"]), np.where(of_filter, 0, -1)),
                group=_taken(sharing, np.where(of_filter, topic, -1)),
            )

    def _kinds(self) -> tuple[Ints, Ints]:
        """(kind, reason) of each line, as codes."""
        kind = _KIND_OF[self.code].copy()
        reason = self.reason.astype(np.int64)
        kind[(self.code == SEND) & (reason == _SYS)] = _KIND["ignored"]
        sends = np.flatnonzero(self.code == SEND)
        whose = sends[self.wills]
        kind[whose], reason[whose] = _KIND["message"], 0
        again = (self.code == RECEIVE) & (self.again > 0)
        kind[again], reason[again] = _KIND["follows"], _REDELIVERY
        theirs = self.bridge[self.publisher]
        theirs &= (kind == _KIND["message"]) | _is(self.code, GONE, LEFT, FILTER, FILTER_OFF)
        kind[theirs], reason[theirs] = _KIND["follows"], _BRIDGE
        return kind, reason

    def _topic_codes(self, names: pa.Array) -> Ints:
        """Codes of names as topics; new ones are added."""
        before = len(self.topics)
        coded = pa.concat_arrays([self.topics, names]).dictionary_encode()
        self.topics = coded.dictionary
        return cast(Ints, coded.indices.to_numpy()[before:].astype(np.int64))

    def _filters(self) -> Filters:
        """Subscriptions of each client in the order of the log, and the levels of every topic and filter."""
        lines = np.flatnonzero(_is(self.code, FILTER, FILTER_OFF))
        lines = lines[np.argsort(self.client[lines], kind="stable")]
        levels = pc.split_pattern(self.topics, "/")
        words = levels.values.dictionary_encode()
        plus, many = (pc.index(words.dictionary, pa.scalar(each, pa.large_string())).as_py() for each in "+#")
        shared = _starts(self.topics, "$share/")
        start = levels.offsets.to_numpy().astype(np.int64)
        return Filters(
            np.searchsorted(self.client[lines], np.arange(len(self.clients) + 1)),
            *span_filters(lines, self.code[lines] == FILTER, self.client[lines], self.topic[lines]),
            self.topic[lines].astype(np.int64),
            self.qos[lines].astype(np.int64),
            shared,
            start,
            words.indices.to_numpy().astype(np.int64),
            plus,
            many,
            _starts(self.topics, "$"),
        )


_KIND_NAMES = "message connect disconnect subscribe unsubscribe bridge follows ignored bad".split()
_KINDS = pa.array(_KIND_NAMES)
_KIND = {name: code for code, name in enumerate(_KIND_NAMES)}
_REASON_NAMES = pa.array(REASONS, pa.large_string())
_KIND_OF = np.full(23, _KIND["follows"], np.int64)
_KIND_OF[[OTHER, RECEIVE, CONNECT, BAD]] = [_KIND[each] for each in ("ignored", "message", "connect", "bad")]
_KIND_OF[[GONE, LEFT, FILTER, FILTER_OFF]] = [
    _KIND[each] for each in ("disconnect", "disconnect", "subscribe", "unsubscribe")
]
_KIND_OF[[LINK, LINK_IN]] = _KIND["bridge"]


def _is(code: Any, *codes: int) -> Bools:
    return np.isin(code, codes)


def _starts(names: pa.Array, with_: str) -> Bools:
    return _mask(pc.starts_with(names, with_))


def _recoded(parts: list[tuple[Numbers, pa.Array]], names: pa.Array) -> Numbers:
    """Codes into each part's names as codes into all names."""
    places = [np.append(pc.index_in(own, value_set=names).to_numpy(), -1).astype(np.int32) for _, own in parts]
    return np.concatenate([place[codes] for place, (codes, _) in zip(places, parts, strict=True)])


def _taken(names: pa.Array, codes: Any) -> pa.Array:
    """The names of codes, null for -1."""
    return names.take(pa.array(codes, pa.int64(), mask=np.asarray(codes) < 0)).cast(pa.string())


def _filter_columns(names: pa.Array) -> tuple[pa.Array, pa.Array, pa.Array]:
    """(topic, filter, group) of subscriptions to these names: a filter only where it has wildcards."""
    parts = pc.extract_regex(names, r"^\$share/(?P<group>[^/]*)/(?P<rest>.*)$")
    inner = pc.coalesce(pc.struct_field(parts, "rest"), names)
    wild = pc.match_substring_regex(inner, r"(^|/)(\+|#)(/|$)")
    return pc.if_else(wild, None, inner), pc.if_else(wild, inner, None), pc.struct_field(parts, "group")


# Turns and queues ----------------------------------------------------------------------------------------------


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


class Entries(NamedTuple):
    """Messages as they enter, in that order; a will has no line until its first send is known."""

    line: Ints  # of the message: a redelivered one has the line of the first
    enter: Ints  # the line at which it enters
    publisher: Ints
    topic: Ints
    size: Ints
    qos: Ints
    retain: Ints


class Sends(NamedTuple):
    """Sends in the order of the log."""

    line: Ints
    client: Numbers
    topic: Numbers
    size: Numbers
    qos: Numbers
    turn: Ints  # the message that enters in this turn, if the send can be of it, else -1
    label: Ints  # OPEN, or the reason why it carries no message of its own
    idle: Bools  # nothing was in flight to the client
    behind: Bools  # a later number was sent before
    crowded: Bools  # it is not the client's first in this turn
    number: Ints  # its packet id, counted on where ids begin again
    base: Ints  # the line at which the client's session began; at QoS 0 the line at which it last went away
    since: Ints  # the line at which its connection began
    returned: Bools  # this turn is the client's return to its session


class Filters(NamedTuple):
    """Subscriptions by client, and topics and filters as levels."""

    of_client: Ints  # CSR into the next five
    line: Ints
    end: Ints  # until which line it holds
    first: Bools  # the first line about this filter of this client; of an unsubscribe false
    topic: Ints
    qos: Ints
    shared: Bools  # of a topic
    of_topic: Ints  # CSR into level
    level: Ints
    plus: int
    many: int
    dollar: Bools  # of a topic


OPEN = 0
_UNSEEN, _NONE = -2, -1


@kernel
def take_turns(
    lines: Lines, present: Numbers, durable31: Bools, bridge: Bools, owned: Bools
) -> tuple[Entries, Sends, Numbers]:
    """Go through a log once: messages as they enter, what is known of each send, and 1 per line that comes again."""
    code, client, topic, size = lines.code, lines.client, lines.topic, lines.size
    sent = np.flatnonzero(code == SEND)
    sends, many, dups = len(sent), 1, False
    for i in range(len(code)):
        many += code[i] == RECEIVE or code[i] == RELEASE or code[i] == GONE or code[i] == LEFT
        dups |= code[i] == RECEIVE and lines.dup[i] == 1
    entry, entries = np.empty((many, 7), np.int64), 0
    turn, number = np.full(sends, -1, np.int64), np.zeros(sends, np.int64)
    base, since = np.full(sends, -1, np.int64), np.full(sends, -1, np.int64)
    label = np.zeros(sends, np.int64)
    idle, behind = np.zeros(sends, np.bool_), np.zeros(sends, np.bool_)
    crowded, returned = np.zeros(sends, np.bool_), np.zeros(sends, np.bool_)
    again = np.zeros(len(code), np.int8)

    clients = len(bridge)
    flight, last = np.zeros(clients, np.int64), np.full(clients, -1, np.int64)
    session, connected = np.full(clients, -1, np.int64), np.full(clients, -1, np.int64)
    away, old = np.full(clients, -1, np.int64), np.zeros(clients, np.bool_)
    keeps_retain, goodbye = np.zeros(clients, np.bool_), np.zeros(clients, np.bool_)
    will, served = np.full(clients, _UNSEEN, np.int64), np.full(clients, -1, np.int64)  # line of its will, last turn
    pending = {np.int64(-1): np.int64(-1)}  # QoS 2, by client and packet id: the line to be released
    recent = {np.int64(-1): np.int64(-1)}  # by client and packet id: the line of the first receive

    now, dead, returning, send = -1, -1, -1, -1
    for i in range(len(code)):
        what, who = code[i], client[i]
        new = np.int64(-1)  # the line of a message that enters here
        if what == SEND:
            send += 1
            since[send], returned[send] = connected[who], returning == who
            if lines.dup[i] == 1:
                label[send] = _REDELIVERY
                continue
            if dead >= 0 and now < 0:  # a will that was not expected: none was seen to be given, or a late goodbye
                mine = will[dead]
                unseen = mine == _UNSEEN and not goodbye[dead] and not owned[topic[i]]
                if unseen or (mine >= 0 and topic[mine] == topic[i] and size[mine] == size[i]):
                    put(entry[entries], -1, i - 1, dead, topic[i], size[i], 2, lines.retain[i])
                    now, entries = entries, entries + 1
            fits = now >= 0 and size[i] == entry[now, 4] and (topic[i] == entry[now, 3] or bridge[who])
            if lines.retain[i] == 1:  # only a client that asked for it sees that a message is to be retained
                fits &= entry[now, 6] == 1 and lines.qos[i] <= entry[now, 5] and served[who] != now
            if fits:
                turn[send], crowded[send], served[who] = now, served[who] == now, now
                keeps_retain[who] |= lines.retain[i] == 1
            if bridge[who]:
                label[send] = _BRIDGE
                continue
            if lines.retain[i] == 1 and turn[send] < 0 and not keeps_retain[who]:
                label[send] = _RETAINED
            if lines.qos[i] == 0:
                base[send] = away[who] if returned[send] else _UNSEEN
                continue
            idle[send], base[send] = flight[who] == 0, session[who]
            flight[who] += 1
            if last[who] < 0:  # a session from before this log
                last[who] = lines.mid[i]
            step = (lines.mid[i] - last[who] + MIDS // 2) % MIDS - MIDS // 2
            number[send], behind[send] = last[who] + step, step < 0
            last[who] = max(last[who], number[send])
        elif what == RECEIVE:
            now, dead, returning = -1, -1, -1
            name = np.int64(who) << 16 | lines.mid[i]
            first = np.int64(i)
            if lines.dup[i] == 1 and lines.qos[i] > 0 and name in recent:
                before = recent[name]
                if topic[before] == topic[i] and size[before] == size[i]:
                    first, again[i] = before, 1
            if dups and lines.qos[i] > 0:
                recent[name] = first
            if lines.qos[i] == 2:
                pending[name] = first
            else:
                new = first
        elif what == RELEASE:
            now, dead, returning = -1, -1, -1
            name = np.int64(who) << 16 | lines.mid[i]
            if name in pending:
                new = pending[name]
                del pending[name]
        elif what == ACK:
            now, dead, returning = -1, -1, -1
            flight[who] = max(0, flight[who] - 1)
        elif what == CONNACK:
            now, dead, returning = -1, -1, -1
            if size[i] == 0:  # accepted
                connected[who] = i
                if present[i] == 1 or old[who]:
                    returning = who
                else:
                    session[who], flight[who], last[who] = i, 0, 0
        elif what in (CONNECT, LINK_IN):
            now, dead, returning = -1, -1, -1
            will[who], goodbye[who], old[who] = _NONE, False, durable31[i]
        elif what == WILL_TOPIC:
            will[who] = i
        elif what == DISCONNECT:
            now, dead, returning = -1, -1, -1
            goodbye[who] = True
        elif what in (GONE, LEFT):
            now, dead, returning = -1, who, -1
            away[who] = i
            mine = will[who]
            if mine >= 0 and not goodbye[who]:
                put(entry[entries], -1, i, who, topic[mine], size[mine], lines.qos[mine], lines.retain[mine])
                now, entries = entries, entries + 1
                will[who] = _NONE
        elif what in (SUBSCRIBE, UNSUBSCRIBE):
            now, dead, returning = -1, -1, -1
        if new >= 0:
            put(entry[entries], new, i, who, topic[new], size[new], lines.qos[new], lines.retain[new])
            now, entries = entries, entries + 1
    made = Entries(
        entry[:entries, 0].copy(),
        entry[:entries, 1].copy(),
        entry[:entries, 2].copy(),
        entry[:entries, 3].copy(),
        entry[:entries, 4].copy(),
        entry[:entries, 5].copy(),
        entry[:entries, 6].copy(),
    )
    known = Sends(
        sent,
        client[sent],
        topic[sent],
        size[sent],
        lines.qos[sent],
        turn,
        label,
        idle,
        behind,
        crowded,
        number,
        base,
        since,
        returned,
    )
    return made, known, again


@kernel
def put(row: Ints, line: Int, enter: Int, publisher: Int, topic: Int, size: Int, qos: Int, retain: Int) -> None:
    """Fill a row that becomes one of Entries."""
    row[0], row[1], row[2], row[3], row[4], row[5], row[6] = line, enter, publisher, topic, size, qos, retain


@kernel
def settle(
    sends: Sends, order: Ints, entries: Entries, filters: Filters, by_topic: tuple[Ints, Ints], raised: bool
) -> Ints:
    """The message that each send carries, -1 where none is found; `order` is by client, then line."""
    carried = np.where(sends.label == OPEN, sends.turn, -1)
    carried = np.where(sends.label == _BRIDGE, sends.turn, carried)
    echoed = np.zeros(len(filters.of_client), np.bool_)  # no-local clients never get their own
    for j in range(len(order)):
        if carried[j] >= 0:
            who = sends.client[j]
            echoed[who] |= entries.publisher[carried[j]] == who
    first = 0
    while first < len(order):
        who = sends.client[order[first]]
        last = first
        while last < len(order) and sends.client[order[last]] == who:
            last += 1
        mine = order[first:last]
        first = last
        take_waiting_at_zero(sends, mine, entries, by_topic, carried)
        mine = mine[(sends.qos[mine] > 0) & ((sends.label[mine] == OPEN) | (sends.label[mine] == _RETAINED))]
        a = 0
        while a < len(mine):  # one session after the other
            b = a
            while b < len(mine) and sends.base[mine[b]] == sends.base[mine[a]]:
                b += 1
            over = sends.base[mine[b]] if b < len(mine) else np.int64(1) << 62
            if not at_once(sends, mine[a:b]):
                ranked = mine[a:b][np.argsort(sends.number[mine[a:b]], kind="mergesort")]
                queue, loose = destined(who, sends, ranked, over, entries, filters, by_topic, echoed, raised)
                walk(sends, ranked, queue, loose, entries, raised, carried)
            a = b
    return carried


@kernel
def at_once(sends: Sends, mine: Ints) -> bool:
    """Whether a session never queued: every send is the only one in a turn that it fits, by ascending number."""
    waited = (sends.turn[mine] < 0) & (sends.label[mine] == OPEN)
    return not np.any(waited | sends.behind[mine] | sends.crowded[mine])


@kernel
def take_waiting_at_zero(
    sends: Sends, mine: Ints, entries: Entries, by_topic: tuple[Ints, Ints], carried: Ints
) -> None:
    """QoS 0 waits only for an absent client (queue_qos0_messages): first in, first out, since it went."""
    start, places = by_topic
    least = 0
    for j in mine:
        if sends.qos[j] == 0 and sends.label[j] == OPEN and carried[j] < 0 and sends.base[j] != _UNSEEN:
            least = max(least, np.searchsorted(entries.enter, sends.base[j]))
            on = places[start[sends.topic[j]] : start[sends.topic[j] + 1]]
            begin = np.searchsorted(on, least)
            for each in on[begin : begin + LOOK]:
                if entries.enter[each] > sends.line[j]:
                    break
                if entries.size[each] == sends.size[j]:
                    carried[j], least = each, each + 1
                    break


@kernel
def destined(
    who: int,
    sends: Sends,
    mine: Ints,
    over: Int,
    entries: Entries,
    filters: Filters,
    by_topic: tuple[Ints, Ints],
    echoed: Bools,
    raised: bool,
) -> tuple[Ints, bool]:
    """(queue, loose): what was queued for a client in a session, sent or dropped, once per subscription that asks.

    Loose says that a subscription is shared, so that the queue holds more than the client's part.
    """
    start, places = by_topic
    begin, until = sends.base[mine[0]], sends.line[mine].max()
    before = 0 if begin >= 0 else sends.number[mine[0]] - 1
    gaps = sends.number[mine[-1]] - before - len(mine)  # numbers that were never sent
    a, b = filters.of_client[who], filters.of_client[who + 1]
    a, b = a + np.searchsorted(filters.line[a:b], begin), a + np.searchsorted(filters.line[a:b], over)
    seen = np.unique(sends.topic[mine[sends.label[mine] == OPEN]]).astype(np.int64)
    all_topics = gaps > 0 and (b - a) * (len(start) - 1) < MOST  # what was dropped may be on a topic never sent
    topics = np.arange(len(start) - 1) if all_topics else seen
    queue, loose = np.empty(len(mine) + 16, np.int64), False
    held = 0
    for topic in topics:
        on = places[start[topic] : start[topic + 1]]
        if len(on) == 0:
            continue
        entered = entries.enter[on]
        asked = False
        for k in range(a, b + 1):
            since, end = begin, until
            if k < b:
                if filters.end[k] < 0 or not matches(filters, filters.topic[k], topic):
                    continue
                asked = True
                loose |= filters.shared[filters.topic[k]]
                if filters.qos[k] == 0:
                    continue
                since = begin if begin < 0 and filters.first[k] else filters.line[k]
                end = min(until, filters.end[k])
            elif asked or len(seen) == 0 or seen[min(np.searchsorted(seen, topic), len(seen) - 1)] != topic:
                continue  # what remains is a topic whose subscription is not in the log: all of it
            for each in on[np.searchsorted(entered, since) : np.searchsorted(entered, end)]:
                if (entries.qos[each] > 0 or raised) and (echoed[who] or entries.publisher[each] != who):
                    if held == len(queue):
                        queue = np.append(queue, np.empty(held, np.int64))
                    queue[held] = each
                    held += 1
    return np.sort(queue[:held]), loose


@kernel
def matches(filters: Filters, wanted: int, topic: int) -> bool:
    """Whether a filter asks for a topic, by MQTT's rules."""
    f, f_end = filters.of_topic[wanted], filters.of_topic[wanted + 1]
    t, t_end = filters.of_topic[topic], filters.of_topic[topic + 1]
    if filters.shared[wanted]:
        f += 2
    if f < f_end and filters.dollar[topic] and filters.level[f] in (filters.plus, filters.many):
        return False
    while f < f_end:
        if filters.level[f] == filters.many:
            return True
        if t == t_end or (filters.level[f] != filters.plus and filters.level[f] != filters.level[t]):
            return False
        f, t = f + 1, t + 1
    return bool(t == t_end)


@kernel
def walk(sends: Sends, ranked: Ints, queue: Ints, loose: bool, entries: Entries, raised: bool, carried: Ints) -> None:
    """Go through a client's sends by number and through its queue side by side."""
    at, number = 0, np.int64(0)  # the next place in the queue, the number before it
    known = sends.base[ranked[0]] >= 0  # a session that began before this log has numbers before it
    for j in ranked:
        gap = sends.number[j] - number - 1 if known else 0
        known, number = True, sends.number[j]
        if sends.label[j] != OPEN:
            at += max(gap, 0)
            continue
        place = -1
        if sends.turn[j] >= 0 and (sends.idle[j] or (loose and not sends.behind[j])):
            carried[j] = sends.turn[j]
            at = np.searchsorted(queue, sends.turn[j])
            if at < len(queue) and queue[at] == sends.turn[j]:
                at += 1
            continue
        if 0 <= at + gap < len(queue) and fits(sends, j, entries, queue[at + gap], raised):
            place = at + gap
        elif sends.turn[j] >= 0 and not sends.behind[j]:
            carried[j] = sends.turn[j]
            at = np.searchsorted(queue, sends.turn[j], side="right")
            continue
        else:
            for each in range(at, min(len(queue), at + LOOK)):
                if fits(sends, j, entries, queue[each], raised):
                    place = each
                    break
        carried[j] = -1
        if place >= 0:
            carried[j] = queue[place]
            at = place + 1


@kernel
def fits(sends: Sends, j: int, entries: Entries, each: int, raised: bool) -> bool:
    """Whether a send can carry a message."""
    return bool(
        entries.enter[each] < sends.line[j]
        and entries.topic[each] == sends.topic[j]
        and entries.size[each] == sends.size[j]
        and (entries.qos[each] >= sends.qos[j] or raised)
    )


@kernel
def take_late_wills(sends: Sends, entries: Entries, topics: int, carried: Ints) -> None:
    """Sends that nothing else explains carry the last will on their topic: a will may be sent with delay."""
    latest = np.full(topics, -1, np.int64)
    each = 0
    for j in range(len(sends.line)):
        while each < len(entries.enter) and entries.enter[each] < sends.line[j]:
            if entries.line[each] < 0:
                latest[entries.topic[each]] = each
            each += 1
        will = latest[sends.topic[j]]
        if sends.label[j] == OPEN and carried[j] < 0 and will >= 0 and entries.size[will] == sends.size[j]:
            carried[j] = will


@kernel
def span_filters(line: Ints, on: Bools, client: Numbers, topic: Numbers) -> tuple[Ints, Ints, Bools]:
    """(line, end, first) of subscriptions by client: until the next line about the same filter; -1: it ends one."""
    end = np.where(on, np.int64(1) << 62, np.int64(-1))
    first = np.zeros(len(line), np.bool_)
    latest = {np.int64(-1): np.int64(-1)}
    for k in range(len(line)):
        name = np.int64(client[k]) << 32 | np.int64(topic[k])
        first[k] = on[k]
        if name in latest:
            before = latest[name]
            first[k] = False
            if on[before]:
                end[before] = line[k]
        latest[name] = np.int64(k)
    return line, end, first


@kernel
def name_wills(line: Ints, sent: Ints, carried: Ints, bridge: Bools) -> Ints:
    """The lines of all messages: a will's is its first send, to a client if there is one."""
    named = line.copy()
    for to_bridges in (False, True):
        for j in range(len(sent)):
            if carried[j] >= 0 and named[carried[j]] < 0 and bridge[j] == to_bridges:
                named[carried[j]] = sent[j]
    return named


@kernel
def receivers_of(order: Ints, client: Numbers, root: Ints, counted: Bools, lines: int) -> tuple[Ints, Ints, Bools]:
    """(start, receivers, double): per line the distinct clients it was sent to, in order, as CSR."""
    double = np.zeros(len(order), np.bool_)
    latest = np.full(lines, -1, np.int64)
    start = np.zeros(lines + 1, np.int64)
    for j in order:
        if counted[j]:
            double[j] = latest[root[j]] == client[j]
            latest[root[j]] = client[j]
            start[root[j] + 1] += not double[j]
    start = np.cumsum(start)
    filled = start[:-1].copy()
    receivers = np.empty(start[-1], np.int64)
    for j in order:
        if counted[j] and not double[j]:
            receivers[filled[root[j]]] = client[j]
            filled[root[j]] += 1
    return start, receivers, double


FORMAT = Format(
    name="mosquitto",
    scope="file",
    sniff=sniff,
    read=read,
    options={
        "broker": "the broker whose log it is; its lines do not say",
        "bridges": "names or client ids of bridges that the log does not show as such (connection in mosquitto.conf)",
        "timezone": "of ISO times without an offset (log_timestamp_format); UTC unless given",
    },
)
