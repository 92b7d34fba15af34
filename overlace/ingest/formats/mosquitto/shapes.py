"""The kinds of lines that Mosquitto writes: how each begins, what it is, and which fields are in it."""

from __future__ import annotations

from dataclasses import dataclass

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
CODES = 25

NO_TIME, CUT_SHORT, ORPHAN = "no time", "cut short", "nothing above it that it continues"


@dataclass(frozen=True)
class Shape:
    """A kind of line: how it begins, what it is, its reason, and its fields (none: nothing in it is used)."""

    begins: str
    code: int
    reason: str | None = None
    fields: str = ""
    optional: bool = False  # a line that begins so and has not the fields is no bad line
    unless: str = ""  # how lines end that are not meant


_PUBLISH = (
    r"(?P<client>.+) \(d(?P<dup>[01]), q(?P<qos>[012]), r(?P<retain>[01]), m(?P<mid>\d{1,5}), "
    r"'(?P<topic>.+)', \.\.\. \((?P<size>\d{1,9}) bytes\)\)"
)
_MID = r"(?P<client>.+) \(Mid: (?P<mid>\d{1,5})(?:, RC:-?\d+)?\)"
_ERROR = r"(?P<client>.+) \(m(?P<mid>\d{1,5}), rc(?:12[89]|1[3-9]\d|2\d\d)\)"  # 128 and more are errors
_CONNECTED = (
    r"(?P<address>.+?) as (?P<client>.+) \((?:p(?P<version>\d{1,2}), )?c(?P<clean>[01]), k\d+(?:, u'(?P<user>.*)')?\)\."
)
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
    Shape("Sending PUBACK to ", REFUSED, "PUBACK", _ERROR, optional=True, unless=", rc0)"),
    Shape("Sending PUBREC to ", REFUSED, "PUBREC", _ERROR, optional=True, unless=", rc0)"),
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
    Shape("Expiring client ", EXPIRED, None, r"(?P<client>.+) due to timeout\.", optional=True),
    Shape("Saving in-memory database", OTHER, "persistence"),
    Shape("mosquitto version ", OTHER, "version"),
    Shape("Config loaded from ", OTHER, "config"),
    Shape("Loading config file ", OTHER, "config"),
    Shape("Reloading config", OTHER, "config"),
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
