"""Lines of a log as columns: what each is, its numbers, and its names as codes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from overlace.arrays.jit import Bools, Ints
from overlace.ingest.lines import BLANK, SAMPLE, text_lines
from overlace.ingest.lines import REASONS as UNREADABLE
from overlace.ingest.values import NONE, mask_of, times_in

Numbers = NDArray[Any]  # of whatever width

# --- kinds of lines ---------------------------------------------------------------------------------------

# What a line is. From RECEIVE to UNSUBSCRIBE each begins a turn of the broker, but for SEND; so does LINK_IN.
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
    EXPIRED,  # the broker gives a session up
    REFUSED,  # Sending PUBACK or PUBREC with an error: what was received above is thrown away
    BAD,
) = range(25)

NO_TIME, CUT_SHORT, ORPHAN = "no time", "cut short", "nothing above it that it continues"
TIMED = r"^(?P<at>\d{1,11}|\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:Z|[+-]\d\d:?\d\d)?): (?P<rest>.*)$"


class Shape(NamedTuple):
    """A kind of line: how it begins, what it is, its reason, and its fields (none: nothing in it is used)."""

    begins: str
    code: int
    reason: str | None = None
    fields: str = ""
    optional: bool = False  # a line that begins so and has not the fields is no bad line
    unless: str = ""  # how lines end that are not meant


_CLIENT = "(?P<client>.+)"
_PUBLISH = (
    rf"{_CLIENT} \(d(?P<dup>[01]), q(?P<qos>[012]), r(?P<retain>[01]), m(?P<mid>\d{{1,5}}), "
    r"'(?P<topic>.+)', \.\.\. \((?P<size>\d{1,9}) bytes\)\)"
)
_MID = _CLIENT + r" \(Mid: (?P<mid>\d{1,5})(?:, RC:-?\d+)?\)"
_ERROR = _CLIENT + r" \(m(?P<mid>\d{1,5}), rc(?:12[89]|1[3-9]\d|2\d\d)\)"  # 128 and more are errors
_CONNECTED = (
    r"(?P<address>.+?) as (?P<client>.+) \((?:p(?P<version>\d{1,2}), )?c(?P<clean>[01]), k\d+(?:, u'(?P<user>.*)')?\)\."
)
_BROKE = (
    r"(?P<client>.+?)(?: \[[0-9A-Fa-f.:]*\])? (?:disconnected\.|closed its connection\.|"
    r"has exceeded timeout, disconnecting\.|already connected, closing old connection\.|"
    r"disconnected, not authorised\.|been disconnected by administrative action\.|disconnected(?: due to |: ).*)"
)
_WILL = r"(?P<size>\d{1,9}) bytes\) \(r(?P<retain>[01]), q(?P<qos>[012])\)\."
_DIALS = r"(?:\(step (?P<step>\d)\) )?(?P<topic>.+) \((?P<address>.*:\d+)\)"
_BRIDGE = r"(?P<client>.+?) (?:doing local SUBSCRIBE on topic (?P<topic>.*)|sending .*)"

SHAPES = (  # of several that a line has, the last
    Shape("", OTHER, "notice"),
    *(
        Shape(f"{verb} {packet} {way} ", OTHER if packet.startswith("PING") else PACKET, packet)
        for verb, way in (("Received", "from"), ("Sending", "to"))
        for packet in "PUBREC PUBREL PUBACK PUBCOMP SUBACK UNSUBACK AUTH DISCONNECT PINGREQ PINGRESP".split()
    ),
    Shape("Received PUBLISH from ", RECEIVE, None, _PUBLISH),
    Shape("Sending PUBLISH to ", SEND, None, _PUBLISH),
    Shape("Received PUBACK from ", ACK, "PUBACK", _MID),
    Shape("Received PUBCOMP from ", ACK, "PUBCOMP", _MID),
    Shape("Received PUBREL from ", RELEASE, "PUBREL", _MID),
    Shape("Sending PUBACK to ", REFUSED, "PUBACK", _ERROR, optional=True, unless=", rc0)"),
    Shape("Sending PUBREC to ", REFUSED, "PUBREC", _ERROR, optional=True, unless=", rc0)"),
    Shape("Sending CONNACK to ", CONNACK, "CONNACK", _CLIENT + r" \((?P<present>[01]), (?P<size>\d{1,3})\)"),
    Shape("Received SUBSCRIBE from ", SUBSCRIBE, "SUBSCRIBE", _CLIENT),
    Shape("Received UNSUBSCRIBE from ", UNSUBSCRIBE, "UNSUBSCRIBE", _CLIENT),
    Shape("Received DISCONNECT from ", DISCONNECT, "DISCONNECT", _CLIENT),
    Shape("New client connected from ", CONNECT, None, _CONNECTED),
    Shape("New bridge connected from ", LINK_IN, None, _CONNECTED),
    Shape("Client ", GONE, None, _BROKE, optional=True),
    Shape("Client <unknown> ", OTHER, "unknown client"),
    Shape("Bad socket read/write on client ", GONE, None, _CLIENT + ": .*"),
    Shape("Socket error on client ", GONE, None, _CLIENT + r", disconnecting\."),
    Shape("Will message specified (", WILL, "will", _WILL),
    Shape("\t", TAB, None, "(?P<topic>.+)"),
    Shape("Connecting bridge ", LINK, None, _DIALS),
    Shape("Bridge ", LINK_TEXT, "bridge", _BRIDGE, optional=True),
    Shape("Received CONNACK on connection ", LINK_TEXT, "bridge", _CLIENT + r"\."),
    Shape("Expiring client ", OTHER, "session expired"),
    Shape("Expiring client ", EXPIRED, None, _CLIENT + r" due to timeout\.", optional=True),
    Shape("New connection from ", OTHER, "connection"),
    Shape("No will message specified", OTHER, "no will"),
    Shape("Outgoing messages are being dropped for client ", OTHER, "dropped"),
    Shape("Dropping too large outgoing PUBLISH for ", OTHER, "dropped"),
    Shape("Denied PUBLISH from ", OTHER, "Denied PUBLISH"),
    Shape("Dropped too large PUBLISH from ", OTHER, "Dropped PUBLISH"),
    Shape("Saving in-memory database", OTHER, "persistence"),
    Shape("mosquitto version ", OTHER, "version"),
    *(Shape(each, OTHER, "config") for each in ("Config loaded from ", "Loading config file ", "Reloading config")),
    Shape("Opening ", OTHER, "config"),
    Shape("Warning", OTHER, "warning"),
    Shape("Error", OTHER, "error"),
)

SENT, QUEUED, DOUBLE, RETAINED, REDELIVERY, BRIDGE, UNMATCHED, SYS = range(1, 9)
"""Reasons of sends, by their place in REASONS."""

REASONS = (
    None,
    *"send queued double retained redelivery bridge unmatched $SYS will blank".split(),
    *(NO_TIME, CUT_SHORT, ORPHAN),
    *UNREADABLE.values(),
    *dict.fromkeys(shape.reason for shape in SHAPES if shape.reason not in (None, "bridge", "will")),
)
REASON = {reason: code for code, reason in enumerate(REASONS)}


def is_any(code: Numbers, *codes: int) -> Bools:
    """Where a code is one of several."""
    return np.isin(code, codes)


def last_marked(marked: Bools) -> Ints:
    """For each place the last marked one up to it, or -1."""
    return np.maximum.accumulate(np.where(marked, np.arange(len(marked)), -1))


# --- a block ----------------------------------------------------------------------------------------------

_NUMBERS = {
    **dict.fromkeys("code dup qos retain present version clean step".split(), np.int8),
    **dict.fromkeys("mid size reason".split(), np.int32),
}
_NAMES = ("client", "topic", "user", "address", "sample")


def parse_lines(offset: int, block: bytes, timezone: str) -> pa.RecordBatch:
    """The lines of a block that begins at an offset: numbers, and names as dictionaries, null where there is none."""
    text, offsets, state = text_lines(offset, block)
    head = pc.extract_regex(text, TIMED)
    at = _times(pc.struct_field(head, "at"), timezone)
    rest = pc.fill_null(pc.if_else(pa.array(at != NONE), pc.struct_field(head, "rest"), ""), "")
    numbers: dict[str, Numbers] = {name: np.zeros(len(offsets), kind) for name, kind in _NUMBERS.items()}
    names: dict[str, list[tuple[Ints, pa.Array]]] = {name: [] for name in _NAMES}
    for shape in SHAPES:
        _find(shape, rest, numbers, names)
    code, reason = numbers["code"], numbers["reason"]
    code[mask_of(pc.ends_with(rest, " disconnected.")) & (code == GONE)] = LEFT
    code[at == NONE], reason[at == NONE] = BAD, REASON[NO_TIME]
    blank = state == BLANK
    code[blank], reason[blank] = OTHER, REASON["blank"]
    for wrong, why in UNREADABLE.items():
        code[state == wrong], reason[state == wrong] = BAD, REASON[why]
    # A line that no shape knows may be the echo of a filter above it: only then its text is kept.
    echo = np.flatnonzero((reason == REASON["notice"]) & np.append(True, code[:-1] == TAB))
    names["topic"].append((echo, rest.take(pa.array(echo))))
    bad, broken = np.flatnonzero(is_any(code, BAD, TAB)), np.flatnonzero(is_any(state, *UNREADABLE))
    names["sample"].append((bad, pc.utf8_slice_codeunits(text.take(pa.array(bad)), 0, SAMPLE)))
    shown = [block[i : i + 4 * SAMPLE].partition(b"\n")[0] for i in (offsets[broken] - offset).tolist()]
    samples = [each.decode(errors="replace")[:SAMPLE] for each in shown]
    names["sample"].append((broken, pa.array(samples, pa.string())))
    columns = {"offset": pa.array(offsets), "at": pa.array(at)} | {name: pa.array(n) for name, n in numbers.items()}
    return pa.record_batch(columns | {name: _encode(found, len(offsets)) for name, found in names.items()})


def _find(
    shape: Shape, rest: pa.Array, numbers: dict[str, Numbers], names: dict[str, list[tuple[Ints, pa.Array]]]
) -> None:
    """Fill in what the lines of a shape are and hold, given the texts behind their times."""
    where = np.flatnonzero(mask_of(pc.starts_with(rest, shape.begins)))
    if shape.unless and len(where):
        where = where[~mask_of(pc.ends_with(rest.take(pa.array(where)), shape.unless))]
    if shape.fields and len(where):
        fields = pc.extract_regex(rest.take(pa.array(where)), "^" + re.escape(shape.begins) + shape.fields + "$")
        whole = mask_of(pc.is_valid(fields))
        if not shape.optional:
            numbers["code"][where[~whole]], numbers["reason"][where[~whole]] = BAD, REASON[CUT_SHORT]
        where, fields = where[whole], fields.filter(pa.array(whole))
        for field in fields.type:
            values = fields.field(field.name)
            there = mask_of(pc.not_equal(values, ""))
            if field.name in numbers:
                numbers[field.name][where] = pc.if_else(pa.array(there), values, "0").cast(pa.int32())
            else:
                names[field.name].append((where[there], values.filter(pa.array(there))))
    numbers["code"][where], numbers["reason"][where] = shape.code, REASON[shape.reason]


def _times(text: pa.Array, timezone: str) -> Ints:
    """Microseconds since 1970 of epoch seconds and ISO times; NONE where there is none."""
    coded = text.dictionary_encode()  # a second holds many lines
    at = np.array(times_in(coded.dictionary, "s"))
    local = (at > NONE + 1) & mask_of(pc.equal(pc.binary_length(coded.dictionary), len("2000-01-01T00:00:00")))
    naive = pa.array(at[local]).cast(pa.timestamp("us"))
    at[local] = pc.assume_timezone(naive, timezone, ambiguous="earliest", nonexistent="earliest").cast(pa.int64())
    codes = pc.fill_null(coded.indices, len(at)).to_numpy(zero_copy_only=False)
    return cast(Ints, np.append(np.where(at > NONE + 1, at, NONE), NONE)[codes])


def _encode(found: Sequence[tuple[Ints, pa.Array]], lines: int) -> pa.Array:
    """A column of names from those of some lines."""
    coded = pa.concat_arrays([pa.array([], pa.string()), *(values for _, values in found)]).dictionary_encode()
    codes = np.full(lines, -1, np.int32)
    codes[np.concatenate([np.empty(0, np.int64), *(where for where, _ in found)])] = coded.indices.to_numpy()
    return pa.DictionaryArray.from_arrays(pa.array(codes, mask=codes < 0), coded.dictionary)


# --- a log ------------------------------------------------------------------------------------------------


class Log:
    """A row a line. Names are codes, -1 for none: of clients in the order of the names, of others in any."""

    def __init__(self, parts: Sequence[pa.RecordBatch]) -> None:
        table = pa.Table.from_batches(parts).unify_dictionaries().combine_chunks()
        column: dict[str, Numbers] = {name: table[name].to_numpy().copy() for name in ("offset", "at", *_NUMBERS)}
        self.offset, self.at, self.code, self.reason = (column[name] for name in ("offset", "at", "code", "reason"))
        self.dup, self.qos, self.retain, self.mid = (column[name] for name in ("dup", "qos", "retain", "mid"))
        self.size, self.present, self.step = column["size"], column["present"], column["step"]
        self.version, self.clean = column["version"], column["clean"]
        coded = {name: table[name].chunk(0) for name in _NAMES}
        names = {name: each.dictionary for name, each in coded.items()}
        codes = {name: each.indices.fill_null(-1).to_numpy().copy() for name, each in coded.items()}
        order = pc.sort_indices(names["client"])
        self.clients, place = names["client"].take(order), np.full(len(order) + 1, -1, np.int32)
        place[order] = np.arange(len(order))
        self.client, self.topic, self.topics = place[codes["client"]], codes["topic"], names["topic"]
        self.user, self.users = codes["user"], names["user"]
        self.sample, self.samples = codes["sample"], names["sample"]
        self.address, self.addresses = codes["address"], names["address"]
        self.bridge = np.zeros(len(self.clients) + 1, bool)  # the last is for -1

    def topic_codes(self, names: pa.Array) -> Ints:
        """Codes of names as topics; new ones are added."""
        before = len(self.topics)
        coded = pa.concat_arrays([self.topics, names]).dictionary_encode()
        self.topics = coded.dictionary
        return cast(Ints, coded.indices.to_numpy()[before:].astype(np.int64))


def continue_lines(log: Log) -> None:
    """Lines that begin with a tab become filters and topics of wills; the echoes of filters are found."""
    code, client = log.code, log.client
    unknown = (code == OTHER) & (log.topic >= 0) & np.append(False, code[:-1] == TAB)
    above = last_marked(~((code == TAB) | unknown))
    tabs = np.flatnonzero(code == TAB)
    over = np.where(above[tabs] >= 0, code[above[tabs]], OTHER)
    code[tabs], log.reason[tabs] = BAD, REASON[ORPHAN]

    asked = pc.extract_regex(log.topics.take(pa.array(log.topic[tabs])), r"^(?P<filter>.*) \(QoS (?P<qos>[012])\)$")
    is_filter = (over == SUBSCRIBE) & mask_of(pc.is_valid(asked))
    for which, what in ((is_filter, FILTER), (over == UNSUBSCRIBE, FILTER_OFF)):
        lines = tabs[which]
        code[lines], log.reason[lines], client[lines] = what, 0, client[above[lines]]
    asked = asked.filter(pa.array(is_filter))
    log.topic[tabs[is_filter]] = log.topic_codes(pc.struct_field(asked, "filter"))
    log.qos[tabs[is_filter]] = pc.struct_field(asked, "qos").cast(pa.int32())

    wills = tabs[(over == WILL) & (above[tabs] == tabs - 1) & (tabs > 1)]
    wills = wills[is_any(code[wills - 2], CONNECT, LINK_IN)]
    code[wills], log.reason[wills], client[wills] = WILL_TOPIC, REASON["will"], client[wills - 2]
    for column in (log.size, log.qos, log.retain):
        column[wills] = column[wills - 1]
    _find_echoes(log, unknown)
    log.topic[code == OTHER] = -1


def _find_echoes(log: Log, unknown: Bools) -> None:
    """Lines that say the filter above them once more, with the client's name before it."""
    code, client = log.code, log.client
    for what, reason in ((FILTER, "SUBSCRIBE"), (FILTER_OFF, "UNSUBSCRIBE")):
        lines = np.flatnonzero(unknown & (np.append(-1, code[:-1]) == what))
        names = [log.clients.take(pa.array(client[lines - 1])), log.topics.take(pa.array(log.topic[lines - 1]))]
        if what == FILTER:
            names.insert(1, pa.array(log.qos[lines - 1]).cast(pa.string()))
        echoed = pc.binary_join_element_wise(*names, pa.scalar(" ", pa.string()))
        same = lines[mask_of(pc.equal(echoed, log.topics.take(pa.array(log.topic[lines]))))]
        code[same], log.reason[same], client[same], log.topic[same] = ECHO, REASON[reason], client[same - 1], -1


def find_bridges(log: Log, names: Sequence[str]) -> None:
    """Which clients are bridges, and of which link: by their lines, or by the names that the caller knows."""

    def fitting(client: str, connections: Sequence[str]) -> list[str]:
        """The connections whose bridge may go by this client id: the connection's name, or HOST.CONNECTION."""
        return [each for each in connections if f".{client}".endswith(f".{each}")]

    own = np.unique(log.client[is_any(log.code, LINK_TEXT, LINK_IN) & (log.client >= 0)])
    listed = [i for i, each in enumerate(log.clients.to_pylist()) if fitting(each, names)] if names else []
    found = np.union1d(own, np.array(listed, np.int64)).astype(np.int64)
    log.bridge[found] = True
    dials = np.flatnonzero((log.code == LINK) & (log.step < 2))
    dialled = log.topics.take(pa.array(log.topic[dials])).to_pylist()
    diallers: dict[str, int] = {}
    links = []
    for i, each in zip(found.tolist(), log.clients.take(pa.array(found)).to_pylist(), strict=True):
        fits = fitting(each, list(dict.fromkeys(dialled))) or fitting(each, names)
        links.append(max(fits, key=len) if fits else each.removeprefix("local."))
        if each.startswith("local.") or links[-1] not in diallers:
            diallers[links[-1]] = i
    link = np.full(len(log.clients), -1, np.int64)
    link[found] = log.topic_codes(pa.array(links, pa.string()))
    steps = (log.code == LINK) & (log.step > 1)
    log.code[steps], log.reason[steps], log.topic[steps] = LINK_TEXT, BRIDGE, -1
    log.code[(log.code == CONNECT) & log.bridge[log.client]] = LINK_IN
    log.client[dials] = [diallers.get(each, -1) for each in dialled]
    arrived = log.code == LINK_IN
    log.topic[arrived] = link[log.client[arrived]]
