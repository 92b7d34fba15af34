"""Kinds of lines, how each begins and what it holds, and the reasons of those that follow another line."""

from __future__ import annotations

from typing import NamedTuple

from overlace.ingest.lines import REASONS as UNREADABLE

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
