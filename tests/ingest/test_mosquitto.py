"""Mosquitto's log. LOG and BRIDGED are logs of Mosquitto 2.0.11, shortened."""

import io
import random
import re
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime
from operator import itemgetter
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from overlace.ingest.events import EVENT, KINDS
from overlace.ingest.formats.mosquitto import FORMAT
from overlace.ingest.lines import blocks
from overlace.ingest.options import Options
from tests.engine import ingest_sources

LOG = """\
1794737265: mosquitto version 2.0.11 starting
1794737265: Config loaded from /tmp/one.conf.
1794737265: Opening ipv4 listen socket on port 45609.
1794737265: New connection from 127.0.0.1:48860 on port 45609.
1794737265: Client <unknown> closed its connection.
1794737265: New client connected from 127.0.0.1:53979 as hmi 7 (line 3) (p2, c1, k60).
1794737265: No will message specified.
1794737265: Sending CONNACK to hmi 7 (line 3) (0, 0)
1794737265: Received SUBSCRIBE from hmi 7 (line 3)
1794737265: \tfab/# (QoS 1)
1794737265: hmi 7 (line 3) 1 fab/#
1794737265: \tfab/4/temp (QoS 2)
1794737265: hmi 7 (line 3) 2 fab/4/temp
1794737265: Sending SUBACK to hmi 7 (line 3)
1794737265: New client connected from 127.0.0.1:56599 as dur (p2, c0, k60, u'bob u'x'').
1794737265: No will message specified.
1794737265: Sending CONNACK to dur (0, 0)
1794737265: Received SUBSCRIBE from dur
1794737265: \tfab/+/temp (QoS 1)
1794737265: dur 1 fab/+/temp
1794737265: \twith 'quote', x (QoS 0)
1794737265: dur 0 with 'quote', x
1794737265: Sending SUBACK to dur
1794737265: New client connected from 127.0.0.1:59377 as plc1 (p2, c1, k60).
1794737265: Will message specified (5 bytes) (r0, q1).
1794737265: \tfab/dead/temp
1794737265: Sending CONNACK to plc1 (0, 0)
1794737265: Received PUBLISH from plc1 (d0, q1, r0, m2, 'fab/4/temp', ... (5 bytes))
1794737265: Sending PUBLISH to hmi 7 (line 3) (d0, q1, r0, m1, 'fab/4/temp', ... (5 bytes))
1794737265: Sending PUBLISH to dur (d0, q1, r0, m1, 'fab/4/temp', ... (5 bytes))
1794737265: Sending PUBACK to plc1 (m2, rc0)
1794737265: Received PUBACK from dur (Mid: 1, RC:0)
1794737265: Received PUBLISH from plc1 (d0, q2, r0, m3, 'fab/4/temp', ... (5 bytes))
1794737265: Sending PUBREC to plc1 (m3, rc0)
1794737265: Received PUBACK from hmi 7 (line 3) (Mid: 1, RC:0)
1794737265: Received PUBREL from plc1 (Mid: 3)
1794737265: Sending PUBLISH to hmi 7 (line 3) (d0, q2, r0, m3, 'fab/4/temp', ... (5 bytes))
1794737265: Sending PUBLISH to dur (d0, q1, r0, m2, 'fab/4/temp', ... (5 bytes))
1794737265: Sending PUBCOMP to plc1 (m3)
1794737265: Received PUBACK from dur (Mid: 2, RC:0)
1794737265: Received PUBLISH from plc2 (d0, q0, r0, m0, 'with 'quote', x', ... (0 bytes))
1794737265: Sending PUBLISH to dur (d0, q0, r0, m0, 'with 'quote', x', ... (0 bytes))
1794737265: Received PUBREC from hmi 7 (line 3) (Mid: 3)
1794737265: Sending PUBREL to hmi 7 (line 3) (m3)
1794737265: Received PUBCOMP from hmi 7 (line 3) (Mid: 3, RC:0)
1794737265: Received PUBLISH from plc2 (d0, q1, r1, m2, 'fab/ret', ... (2 bytes))
1794737265: Sending PUBLISH to hmi 7 (line 3) (d0, q1, r0, m5, 'fab/ret', ... (2 bytes))
1794737265: Sending PUBACK to plc2 (m2, rc0)
1794737265: Received PUBACK from hmi 7 (line 3) (Mid: 5, RC:0)
1794737265: Received DISCONNECT from dur
1794737265: Client dur disconnected.
1794737265: Received PUBLISH from plc2 (d0, q1, r0, m4, 'fab/5/temp', ... (8 bytes))
1794737265: Sending PUBLISH to hmi 7 (line 3) (d0, q1, r0, m6, 'fab/5/temp', ... (8 bytes))
1794737265: Sending PUBACK to plc2 (m4, rc0)
1794737265: Received PUBACK from hmi 7 (line 3) (Mid: 6, RC:0)
1794737265: Client plc1 closed its connection.
1794737265: Sending PUBLISH to hmi 7 (line 3) (d0, q1, r0, m8, 'fab/dead/temp', ... (5 bytes))
1794737265: Received PUBACK from hmi 7 (line 3) (Mid: 8, RC:0)
1794737265: New client connected from 127.0.0.1:52283 as dur (p2, c0, k60).
1794737265: No will message specified.
1794737265: Sending CONNACK to dur (1, 0)
1794737265: Sending PUBLISH to dur (d0, q1, r0, m3, 'fab/5/temp', ... (8 bytes))
1794737265: Sending PUBLISH to dur (d0, q1, r0, m4, 'fab/dead/temp', ... (5 bytes))
1794737265: Received PUBACK from dur (Mid: 3, RC:0)
1794737265: Received PUBACK from dur (Mid: 4, RC:0)
1794737265: New client connected from 127.0.0.1:57889 as late (p2, c1, k60).
1794737265: No will message specified.
1794737265: Sending CONNACK to late (0, 0)
1794737265: Received SUBSCRIBE from late
1794737265: \t$share/g/fab/ret (QoS 1)
1794737265: late 1 $share/g/fab/ret
1794737265: \tfab/ret (QoS 1)
1794737265: late 1 fab/ret
1794737265: Sending SUBACK to late
1794737265: Sending PUBLISH to late (d0, q1, r1, m1, 'fab/ret', ... (2 bytes))
1794737266: Received PUBACK from late (Mid: 1, RC:0)
1794737266: Received UNSUBSCRIBE from late
1794737266: \tfab/ret
1794737266: late fab/ret
1794737266: \tnix (QoS 1)
1794737266: late nix (QoS 1)
1794737266: Sending UNSUBACK to late
1794737266: Client late already connected, closing old connection.
1794737266: New client connected from 127.0.0.1:37147 as late (p2, c1, k60).
1794737266: No will message specified.
1794737266: Sending CONNACK to late (0, 0)
1794737266: Received PINGREQ from late
1794737266: Sending PINGRESP to late
1794737266: Outgoing messages are being dropped for client late.
1794737267: mosquitto version 2.0.11 terminating
"""

BRIDGED = """\
1794737305: mosquitto version 2.0.11 starting
1794737305: Bridge local.vm.plant-b doing local SUBSCRIBE on topic #
1794737305: Connecting bridge (step 1) plant-b (127.0.0.1:50965)
1794737305: mosquitto version 2.0.11 running
1794737305: Connecting bridge (step 2) plant-b (127.0.0.1:50965)
1794737305: Bridge vm.plant-b sending CONNECT
1794737305: Received CONNACK on connection local.vm.plant-b.
1794737305: Bridge local.vm.plant-b sending SUBSCRIBE (Mid: 2, Topic: #, QoS: 1, Options: 0x00)
1794737305: Received PUBACK from local.vm.plant-b (Mid: 1, RC:0)
1794737305: Received SUBACK from local.vm.plant-b
1794737306: Received PUBLISH from puba (d0, q1, r0, m1, 'x/1', ... (1 bytes))
1794737306: Sending PUBLISH to local.vm.plant-b (d0, q1, r0, m3, 'x/1', ... (1 bytes))
1794737306: Sending PUBLISH to suba (d0, q1, r0, m1, 'x/1', ... (1 bytes))
1794737306: Sending PUBACK to puba (m1, rc0)
1794737306: Received PUBACK from local.vm.plant-b (Mid: 3, RC:0)
1794737306: Received PUBACK from suba (Mid: 1, RC:0)
1794737306: Received PUBLISH from local.vm.plant-b (d0, q1, r0, m1, 'x/1', ... (2 bytes))
1794737306: Sending PUBLISH to suba (d0, q1, r0, m2, 'x/1', ... (2 bytes))
1794737306: Sending PUBACK to local.vm.plant-b (m1, rc0)
1794737307: Client w already connected, closing old connection.
1794737307: Sending PUBLISH to local.vm.plant-b (d0, q0, r0, m0, 'will/w', ... (4 bytes))
1794737307: Sending PUBLISH to suba (d0, q0, r0, m0, 'will/w', ... (4 bytes))
1794737307: New client connected from 127.0.0.1:41639 as w (p2, c1, k60).
1794737308: Client local.vm.plant-b closed its connection.
1794737308: New bridge connected from 127.0.0.1:35178 as vm.plant-c (p2, c0, k60).
1794737308: Received SUBSCRIBE from vm.plant-c
1794737308: \t# (QoS 1)
1794737308: vm.plant-c 1 #
1794737308: Sending SUBACK to vm.plant-c
1794737308: Received PUBLISH from puba (d0, q0, r0, m0, 'x/2', ... (3 bytes))
1794737308: Sending PUBLISH to vm.plant-c (d0, q0, r0, m0, 'x/2', ... (3 bytes))
"""


def parsed(log, size=1 << 20, **options):
    """The events of a log, as rows."""
    log = log if isinstance(log, bytes) else log.encode()
    batches = list(FORMAT.read(blocks(io.BytesIO(log), size=size), options))
    assert all(batch.schema.equals(EVENT) for batch in batches)
    return pa.Table.from_batches(batches, EVENT).to_pylist()


def rows(log, phrase, **options):
    """The events of the lines that hold a phrase."""
    return [row for row, line in zip(parsed(log, **options), log.splitlines(), strict=True) if phrase in line]


def published(log, **options):
    """(client, topic, bytes, receivers) of every message."""
    wanted = ("client", "topic", "bytes", "receivers")
    return [tuple(row[name] for name in wanted) for row in parsed(log, **options) if row["kind"] == "message"]


# Real lines


def test_who_published_what_to_whom_in_a_real_log():
    hmi = "hmi 7 (line 3)"
    assert published(LOG) == [
        ("plc1", "fab/4/temp", 5, ["dur", hmi]),
        ("plc1", "fab/4/temp", 5, ["dur", hmi]),  # QoS 2
        ("plc2", "with 'quote', x", 0, ["dur"]),
        ("plc2", "fab/ret", 2, [hmi]),
        ("plc2", "fab/5/temp", 8, ["dur", hmi]),  # dur was away
        ("plc1", "fab/dead/temp", 5, ["dur", hmi]),  # its will
    ]


def test_a_send_says_why_it_was_sent():
    sends = Counter((row["client"], row["reason"]) for row in rows(LOG, "Sending PUBLISH") if row["kind"] == "follows")
    hmi = "hmi 7 (line 3)"
    assert sends == {(hmi, "send"): 4, ("dur", "send"): 3, ("dur", "queued"): 2, ("late", "retained"): 1}


def test_sessions_and_subscriptions_of_a_real_log():
    life = [
        (row["kind"], row["client"], row["topic"], row["filter"], row["group"])
        for row in parsed(LOG)
        if row["kind"] in ("connect", "disconnect", "subscribe", "unsubscribe")
    ]
    assert life == [
        ("connect", "hmi 7 (line 3)", None, None, None),
        ("subscribe", "hmi 7 (line 3)", None, "fab/#", None),
        ("subscribe", "hmi 7 (line 3)", "fab/4/temp", None, None),
        ("connect", "dur", None, None, None),
        ("subscribe", "dur", None, "fab/+/temp", None),
        ("subscribe", "dur", "with 'quote', x", None, None),
        ("connect", "plc1", None, None, None),
        ("disconnect", "dur", None, None, None),
        ("disconnect", "plc1", None, None, None),
        ("connect", "dur", None, None, None),
        ("connect", "late", None, None, None),
        ("subscribe", "late", "fab/ret", None, "g"),
        ("subscribe", "late", "fab/ret", None, None),
        ("unsubscribe", "late", "fab/ret", None, None),
        ("unsubscribe", "late", "nix (QoS 1)", None, None),
        ("disconnect", "late", None, None, None),
        ("connect", "late", None, None, None),
    ]


def test_what_a_real_log_says_besides_is_ignored_by_kind():
    ignored = Counter(row["reason"] for row in parsed(LOG) if row["kind"] == "ignored")
    assert ignored == {
        **{"version": 2, "config": 2, "connection": 1, "unknown client": 1, "no will": 5},
        **{"PINGREQ": 1, "PINGRESP": 1, "dropped": 1},
    }
    assert not [row for row in parsed(LOG) if row["kind"] == "bad"]


def test_every_line_has_its_own_offset_time_and_broker():
    found = parsed(LOG, broker="plant-a")
    log = LOG.encode()
    assert [row["offset"] for row in found] == [0, *(m.end() for m in re.finditer(b"\n", log))][:-1]
    assert {row["broker"] for row in found} == {"plant-a"}
    assert found[0]["at"] == datetime.fromtimestamp(1794737265, UTC)


def test_a_bridge_is_no_client():
    found = parsed(BRIDGED, broker="a")
    bridges = [(row["client"], row["topic"], row["reason"]) for row in found if row["kind"] == "bridge"]
    assert bridges == [
        ("local.vm.plant-b", "plant-b", "127.0.0.1:50965"),
        ("vm.plant-c", "vm.plant-c", "127.0.0.1:35178"),
    ]
    clients = {row["client"] for row in found if row["kind"] not in ("bridge", "follows")}
    assert clients == {None, "puba", "w"}
    assert published(BRIDGED) == [
        ("puba", "x/1", 1, ["suba"]),
        ("w", "will/w", 4, ["suba"]),
        ("puba", "x/2", 3, []),
    ]


def test_what_comes_and_goes_over_a_bridge_can_be_joined_with_the_far_log():
    (into,) = rows(BRIDGED, "Received PUBLISH from local.vm.plant-b")
    assert (into["kind"], into["reason"], into["receivers"]) == ("follows", "bridge", ["suba"])
    first, will, second = [row for row in rows(BRIDGED, "Sending PUBLISH to") if "plant" in row["client"]]
    messages = {row["topic"]: row["offset"] for row in parsed(BRIDGED) if row["kind"] == "message"}
    assert [int(row["key"]) for row in (first, will, second)] == [messages[t] for t in ("x/1", "will/w", "x/2")]


RETAINED_OVER_A_BRIDGE = """1794737305: Received PUBLISH from p (d0, q1, r1, m1, 't', ... (5 bytes))
1794737305: Received PUBLISH from p (d0, q1, r1, m2, 't', ... (5 bytes))
1794737306: New bridge connected from 127.0.0.1:35178 as vm.b (p2, c1, k60).
1794737306: Sending CONNACK to vm.b (0, 0)
1794737306: Received SUBSCRIBE from vm.b
1794737306: \t# (QoS 1)
1794737306: Sending SUBACK to vm.b
1794737306: Sending PUBLISH to vm.b (d0, q1, r1, m1, 't', ... (5 bytes))
1794737307: Received PUBLISH from p (d0, q1, r0, m3, 't', ... (5 bytes))
1794737307: Received PUBLISH from p (d0, q1, r0, m4, 't', ... (5 bytes))
1794737308: Received PUBACK from vm.b (Mid: 1, RC:0)
1794737308: Sending PUBLISH to vm.b (d0, q1, r0, m2, 't', ... (5 bytes))
1794737308: Received PUBACK from vm.b (Mid: 2, RC:0)
1794737308: Sending PUBLISH to vm.b (d0, q1, r0, m3, 't', ... (5 bytes))
"""


def test_what_waited_for_a_bridge_is_told_from_a_retained_copy():
    _, _, third, fourth = (str(row["offset"]) for row in parsed(RETAINED_OVER_A_BRIDGE) if row["kind"] == "message")
    sent = rows(RETAINED_OVER_A_BRIDGE, "Sending PUBLISH to vm.b")
    assert [row["key"] for row in sent] == [None, third, fourth]


def test_a_bridge_that_the_log_does_not_show_is_told_by_its_connection():
    log = BRIDGED.replace("New bridge", "New client")
    assert ("puba", "x/2", 3, ["vm.plant-c"]) in published(log)
    assert ("puba", "x/2", 3, []) in published(log, bridges=["plant-c"])
    (there,) = rows(log, "as vm.plant-c", bridges=["plant-c"])
    assert (there["kind"], there["topic"]) == ("bridge", "plant-c")


@pytest.mark.parametrize(
    ("stamp", "expected"),
    [
        ("1794731231", datetime(2026, 11, 15, 8, 27, 11, tzinfo=UTC)),
        ("2026-11-15T10:08:31", datetime(2026, 11, 15, 10, 8, 31, tzinfo=UTC)),
        ("2026-11-15T10:08:31+0100", datetime(2026, 11, 15, 9, 8, 31, tzinfo=UTC)),
        ("2026-11-15T10:08:31-02:30", datetime(2026, 11, 15, 12, 38, 31, tzinfo=UTC)),
        ("2026-11-15T10:08:31Z", datetime(2026, 11, 15, 10, 8, 31, tzinfo=UTC)),
    ],
)
def test_times_are_epoch_seconds_or_iso(stamp, expected):
    line = f"{stamp}: Received PUBLISH from plc2 (d0, q0, r0, m1, 'fab/4/temp', ... (4 bytes))\n"
    (row,) = parsed(line)
    assert (row["kind"], row["at"]) == ("message", expected)


def test_names_are_read_from_the_right():
    line = "1794731231: Received PUBLISH from a (d0, q1 (b (d0, q0, r0, m1, 'it's, ... (9 bytes))', ... (4 bytes))\n"
    (row,) = parsed(line)
    assert (row["client"], row["topic"], row["bytes"]) == ("a (d0, q1 (b", "it's, ... (9 bytes))", 4)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"Received PUBLISH from a (d0, q0, r0, m0, 't', ... (4 bytes))", "no time"),
        (b"2026-13-45T10:08:31: mosquitto version 2.0.11 running", "no time"),
        (b"1794731231: Received PUBLISH from plc2 (d0, q2, r0, m1, 'fab/4/te", "cut short"),
        (b"1794731231: Received PUBLISH from \xff (d0, q0, r0, m0, 't', ... (4 bytes))", "not UTF-8"),
        (b"1794731231: \tfab/#", "nothing above it that it continues"),
    ],
)
def test_a_bad_line_says_what_is_wrong_with_it(line, reason):
    (row,) = parsed(line + b" " * 300)
    assert (row["kind"], row["reason"]) == ("bad", reason)
    assert row["sample"] == (line + b" " * 300).decode(errors="replace")[:200]


def test_publishing_again_is_no_new_message():
    log = """\
1: Received PUBLISH from a (d0, q1, r0, m130, 't', ... (33 bytes))
1: Sending PUBLISH to r (d0, q1, r0, m17, 't', ... (33 bytes))
1: Sending PUBACK to a (m130, rc0)
1: Received PUBLISH from a (d1, q1, r0, m130, 't', ... (33 bytes))
1: Sending PUBLISH to r (d0, q1, r0, m18, 't', ... (33 bytes))
1: Sending PUBLISH to s (d0, q1, r0, m1, 't', ... (33 bytes))
1: Received PUBLISH from a (d0, q2, r0, m131, 't', ... (34 bytes))
1: Received PUBLISH from a (d1, q2, r0, m131, 't', ... (34 bytes))
1: Received PUBREL from a (Mid: 131)
1: Sending PUBLISH to r (d0, q1, r0, m19, 't', ... (34 bytes))
1: Received PUBREL from a (Mid: 131)
1: Sending PUBLISH to r (d1, q1, r0, m17, 't', ... (33 bytes))
1: Received PUBLISH from b (d1, q1, r0, m130, 't', ... (33 bytes))
"""
    assert published(log) == [
        ("a", "t", 33, ["r", "s"]),
        ("a", "t", 34, ["r"]),
        ("b", "t", 33, []),  # the first try is not in this log
    ]
    reasons = [row["reason"] for row in parsed(log) if row["kind"] == "follows" and row["topic"]]
    assert reasons == ["send", "redelivery", "double", "send", "redelivery", "send", "redelivery"]


def test_what_the_broker_refuses_is_sent_to_nobody():
    """Two messages of one publisher are thrown away (rc151: it has too many under way); their PUBREL frees nothing."""
    log = """\
1: Sending CONNACK to r (0, 0)
1: Received SUBSCRIBE from r
1: \tt (QoS 2)
1: Received PUBLISH from a (d0, q2, r0, m1, 't', ... (4 bytes))
1: Sending PUBREC to a (m1, rc0)
1: Received PUBLISH from a (d0, q2, r0, m2, 't', ... (4 bytes))
1: Sending PUBREC to a (m2, rc151)
1: Received PUBLISH from a (d0, q1, r0, m3, 't', ... (4 bytes))
1: Sending PUBACK to a (m3, rc151)
1: Received PUBLISH from b (d0, q1, r0, m9, 't', ... (4 bytes))
1: Sending PUBLISH to r (d0, q1, r0, m1, 't', ... (4 bytes))
1: Sending PUBACK to b (m9, rc0)
1: Denied PUBLISH from b (d0, q1, r0, m9, 'u', ... (4 bytes))
1: Sending PUBACK to b (m9, rc135)
1: Received PUBREL from a (Mid: 2)
1: Received PUBREL from a (Mid: 1)
1: Sending PUBLISH to r (d0, q2, r0, m2, 't', ... (4 bytes))
"""
    assert [(row[0], row[3]) for row in published(log)] == [("a", ["r"]), ("a", []), ("a", []), ("b", ["r"])]


def test_a_will_may_be_late_unseen_or_sent_at_a_goodbye():
    log = """\
1: New client connected from 127.0.0.1:1 as a (p5, c1, k60).
1: Will message specified (5 bytes) (r1, q1).
1: \tw/a
1: Sending CONNACK to a (0, 0)
1: Client b closed its connection.
1: Sending PUBLISH to r (d0, q0, r0, m0, 'w/b', ... (4 bytes))
1: Client a has exceeded timeout, disconnecting.
1: Received PUBLISH from c (d0, q0, r0, m0, 't', ... (5 bytes))
1: Sending PUBLISH to r (d0, q0, r0, m0, 't', ... (5 bytes))
9: Sending PUBLISH to r (d0, q0, r0, m0, 'w/a', ... (5 bytes))
9: Sending PUBLISH to s (d0, q1, r0, m1, 'w/a', ... (5 bytes))
9: New client connected from 127.0.0.1:1 as a (p5, c1, k60).
9: Will message specified (6 bytes) (r0, q0).
9: \tw/a
9: Received DISCONNECT from a
9: Client a disconnected.
9: Sending PUBLISH to r (d0, q0, r0, m0, '$SYS/broker/uptime', ... (6 bytes))
9: Sending PUBLISH to r (d0, q0, r0, m0, 'w/a', ... (6 bytes))
"""
    assert published(log) == [
        ("b", "w/b", 4, ["r"]),
        ("c", "t", 5, ["r"]),
        ("a", "w/a", 5, ["r", "s"]),
        ("a", "w/a", 6, ["r"]),
    ]
    (own,) = rows(log, "$SYS")
    assert (own["kind"], own["reason"]) == ("ignored", "$SYS")


def test_overtaken_messages_are_told_by_their_numbers():
    """As 2.0.11 does it: m3 goes out at once although m2 waits, and m2 goes out in the turn of another message."""
    log = """\
1: Sending CONNACK to r (0, 0)
1: Received SUBSCRIBE from r
1: \tt (QoS 1)
1: Received PUBLISH from a (d0, q1, r0, m1, 't', ... (4 bytes))
1: Sending PUBLISH to r (d0, q1, r0, m1, 't', ... (4 bytes))
1: Received PUBLISH from b (d0, q1, r0, m1, 't', ... (4 bytes))
1: Received PUBLISH from c (d0, q1, r0, m1, 't', ... (4 bytes))
1: Sending PUBLISH to r (d0, q1, r0, m3, 't', ... (4 bytes))
1: Received PUBLISH from d (d0, q0, r0, m0, 't', ... (4 bytes))
1: Sending PUBLISH to r (d0, q0, r0, m0, 't', ... (4 bytes))
1: Received PUBLISH from e (d0, q1, r0, m1, 't', ... (4 bytes))
1: Sending PUBLISH to r (d0, q1, r0, m2, 't', ... (4 bytes))
1: Received PUBACK from r (Mid: 1, RC:0)
1: Sending PUBLISH to r (d0, q1, r0, m4, 't', ... (4 bytes))
"""
    assert [(row[0], row[3]) for row in published(log)] == [(who, ["r"]) for who in "abcde"]


def test_numbers_begin_again_after_65535():
    numbers = [65533, 65534, 65535, 1, 2, 3]
    log = "".join(f"1: Received PUBLISH from p{i} (d0, q1, r0, m1, 't', ... (4 bytes))\n" for i in range(6))
    for i in (0, 2, 1, 3, 5, 4):
        log += "1: Received PUBACK from r (Mid: 9, RC:0)\n"
        log += f"1: Sending PUBLISH to r (d0, q1, r0, m{numbers[i]}, 't', ... (4 bytes))\n"
    assert [row[3] for row in published(log)] == [["r"]] * 6


@pytest.mark.parametrize(
    "line",
    [
        "Client a b closed its connection.",
        "Client a b [127.0.0.1:50123] closed its connection.",
        "Client a b [::1:50123] disconnected: Connection reset by peer.",
        "Client a b disconnected.",
        "Client a b has exceeded timeout, disconnecting.",
        "Client a b disconnected due to protocol error.",
        "Client a b disconnected, not authorised.",
        "Client a b been disconnected by administrative action.",
        "Client a b already connected, closing old connection.",
        "Bad socket read/write on client a b: Success",
        "Socket error on client a b, disconnecting.",
    ],
)
def test_a_client_goes_in_many_words(line):
    (row,) = parsed(f"1794731231: {line}\n")
    assert (row["kind"], row["client"]) == ("disconnect", "a b")


# Sessions and what they asked for


def ingested(log, **options):
    """The trace of the log of broker b."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "b.log")
        path.write_text(log)
        options = Options(format="mosquitto", broker="b", **options)
        trace = ingest_sources([str(path)], f"{folder}/trace", options).trace
        return {table: trace.read(table).to_pylist() for table in TABLES}, trace.names


TABLES = ("messages", "audiences", "sessions", "subscriptions")


def asked(log, **options):
    """(client, topic or filter, since, until) of subscriptions."""
    tables, names = ingested(log, **options)
    found = [
        (names["client"][row["client"]].removeprefix("b/"), row["filter"] or names["topic"][row["topic"]],
         *(row[end] and int(row[end].timestamp()) for end in ("since", "until")))
        for row in tables["subscriptions"]
    ]  # fmt: skip
    return sorted(found, key=lambda row: row[:3])


def life(client, at, *, version=2, clean=1, present=0, ask="t", word="closed its connection"):
    """Lines of a client that connects at a time, asks for a topic if it is to, and leaves a second later."""
    lines = [
        f"{at}: New client connected from 127.0.0.1:1 as {client} (p{version}, c{clean}, k60).",
        f"{at}: Sending CONNACK to {client} ({present}, 0)",
        *([f"{at}: Received SUBSCRIBE from {client}", f"{at}: \t{ask} (QoS 1)"] if ask else []),
        f"{at + 1}: Client {client} {word}.",
    ]
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("version", [1, 2, 5])
def test_a_clean_session_ends_with_its_connection(version):
    assert asked(life("a", 10, version=version) + life("a", 20, version=version)) == [
        ("a", "t", 10, 11),
        ("a", "t", 20, 21),
    ]


@pytest.mark.parametrize("version", [1, 2, 5])
def test_a_kept_session_keeps_its_subscriptions(version):
    present = int(version != 1)  # MQTT 3.1 does not say
    log = life("a", 10, version=version, clean=0)
    log += life("a", 20, version=version, clean=0, present=present, ask=None)
    log += life("a", 30, version=version, clean=0, present=present, ask="t", word="has exceeded timeout, disconnecting")
    assert asked(log) == [("a", "t", 10, None)]
    assert asked(log + life("a", 40, version=version, ask="u")) == [("a", "t", 10, 40), ("a", "u", 40, 41)]


def test_what_the_broker_answers_counts_for_more_than_what_the_client_wanted():
    kept = life("a", 10, version=5, clean=1) + life("a", 20, version=5, clean=0, present=1, ask=None)
    assert asked(kept) == [("a", "t", 10, None)]
    lost = life("a", 10, version=5, clean=0) + life("a", 20, version=5, clean=0, present=0, ask=None)
    assert asked(lost) == [("a", "t", 10, 11)]


def test_a_session_that_expires_ends_then():
    expires = "15: Expiring client a due to timeout.\n"
    for clean in (0, 1):
        assert asked(life("a", 10, version=5, clean=clean) + expires) == [("a", "t", 10, 15)]
    assert rows(expires, "Expiring")[0]["kind"] == "unsubscribe"


def test_a_session_that_nobody_saw_begin_is_not_said_to_end():
    log = "9: Received SUBSCRIBE from a\n9: \tt (QoS 1)\n10: Client a disconnected.\n"
    assert asked(log) == [("a", "t", 9, None)]
    assert asked(log + life("a", 20)) == [("a", "t", 9, 20), ("a", "t", 20, 21)]


def test_a_connect_tells_its_user():
    users = [(row["client"], row["user"]) for row in parsed(LOG) if row["kind"] == "connect"]
    assert users[1] == ("dur", "bob u'x'")
    assert all(user is None for _, user in [users[0], *users[2:]])
    assert {row["user"] for row in parsed(LOG) if row["kind"] != "connect"} == {None}


def test_one_user_may_be_several_clients():
    log = """\
1: Received PUBLISH from c1 (d0, q0, r0, m0, 't', ... (1 bytes))
1: New client connected from 127.0.0.1:1 as c1 (p2, c1, k60, u'ann').
1: New client connected from 127.0.0.1:1 as c2 (p2, c1, k60, u'ann').
1: New client connected from 127.0.0.1:1 as c3 (p2, c1, k60).
1: Received SUBSCRIBE from c2
1: \tt (QoS 0)
2: Received PUBLISH from c3 (d0, q0, r0, m0, 't', ... (1 bytes))
2: Sending PUBLISH to c2 (d0, q0, r0, m0, 't', ... (1 bytes))
2: Sending PUBLISH to c3 (d0, q0, r0, m0, 't', ... (1 bytes))
3: Client c1 disconnected.
3: New client connected from 127.0.0.1:1 as c1 (p2, c1, k60, u'bob').
4: Received PUBLISH from c1 (d0, q0, r0, m0, 't', ... (1 bytes))
4: Sending PUBLISH to c2 (d0, q0, r0, m0, 't', ... (1 bytes))
"""
    tables, names = ingested(log, identity="user")
    who = names["client"]
    heard = {row["audience"]: sorted(who[one] for one in row["receivers"]) for row in tables["audiences"]}
    sent = [(who[row["client"]], heard[row["audience"]]) for row in sorted(tables["messages"], key=itemgetter("at"))]
    assert sent == [("ann", []), ("b/c3", ["ann", "b/c3"]), ("bob", ["ann"])]
    assert asked(log, identity="user") == [("ann", "t", 1, None)]  # c2's, though c1 has left
    assert Counter(who[row["client"]] for row in tables["sessions"]) == {"ann": 2, "b/c3": 1, "bob": 1}


def test_it_is_told_from_other_logs():
    assert FORMAT.sniff(LOG.encode()[:4096]) > 0.9
    assert FORMAT.sniff(BRIDGED.replace("17947373", "2026-11-15T10:08:").encode()) > 0.9
    assert FORMAT.sniff(b'{"at": 1794731231, "client": "a"}\n') == 0
    assert FORMAT.sniff(b"at,client,topic\n1794731231,a,t\n") == 0
    assert FORMAT.sniff(b"") == 0


# Laws


def law_log(seed=0, copies=3):
    """Real lines, whole and broken: cut short, with bytes changed, in any order."""
    rng = random.Random(seed)
    lines = [line.encode() for line in (LOG + BRIDGED).splitlines()] * copies
    rng.shuffle(lines)
    for i in rng.sample(range(len(lines)), len(lines) // 2):
        line = bytearray(lines[i])
        for _ in range(rng.randrange(1, 4)):
            at = rng.randrange(len(line) + 1)
            line[at : at + rng.choice((0, 0, 1, 9, 99))] = rng.choice(
                (b"", b"\xc3", b"(", b"\t", b" ", b"'", b"9" * 12)
            )
        lines[i] = bytes(line).replace(b"\n", b"")
    return b"\n".join(lines) + rng.choice((b"", b"\n", b"\r\n"))


@example(1, BRIDGED.encode())
@given(st.integers(50, 3000), st.sampled_from([LOG.encode(), BRIDGED.encode(), law_log(1)]))
@settings(max_examples=30)
def test_a_log_cut_into_any_blocks_gives_the_same_events(size, log):
    assert parsed(log, size=size) == parsed(log)


@pytest.mark.parametrize("seed", range(4))
def test_no_line_is_lost_however_broken_the_log(seed):
    log = law_log(seed, copies=20)
    found = parsed(log)
    starts, ends = [row["offset"] for row in found], [*(row["offset"] for row in found[1:]), len(log)]
    assert b"".join(log[a:b] for a, b in zip(starts, ends, strict=True)) == log
    assert all(log[a:b].count(b"\n") == 1 for a, b in list(zip(starts, ends, strict=True))[:-1])
    assert len(found) > 2000
    assert {row["kind"] for row in found} <= set(KINDS)
    for row in found:
        assert (row["reason"] is not None) == (row["kind"] in ("bad", "ignored", "follows", "bridge"))
        assert (row["sample"] is not None) == (row["kind"] == "bad")
        assert row["sample"] is None or len(row["sample"]) <= 200
        assert row["receivers"] is None or row["receivers"] == sorted(set(row["receivers"]))
    assert sum(row["kind"] == "bad" for row in found) > 200


# A small Mosquitto that knows the truth


@dataclass
class Receiver:
    """A client that subscribes: what is in flight to it and what waits."""

    name: str
    v5: bool
    durable: bool
    window: int
    most: int  # that may wait
    filters: dict = field(default_factory=dict)
    flight: list = field(default_factory=list)
    queue: list = field(default_factory=list)
    numbers: int = 0
    here: bool = False


class Broker:
    """Writes a log as Mosquitto 2.0 does. All messages are of one size, so nothing but the order tells them apart."""

    TOPICS = ("t/0", "t/1", "u")
    FILTERS = ("t/0", "t/+", "#", "u", "t/1")

    def __init__(self):
        self.lines, self.truth, self.released, self.retained, self.mids = [], {}, [], {}, 0
        self.receivers = [
            Receiver("r0", False, False, 2, 3),
            Receiver("r1 (x", True, True, 1, 1),
            Receiver("r2", False, True, 3, 100),
            Receiver("r3", True, False, 1, 2),
        ]

    def say(self, text):
        self.lines.append(f"1794731231: {text}")
        return len(self.lines) - 1

    def come(self, which, what):
        r = self.receivers[which % 4]
        if r.here:
            return self.ask(r, what)
        kept = r.durable and r.filters
        self.say(
            f"New client connected from 127.0.0.1:9 as {r.name} (p{5 if r.v5 else 2}, c{int(not r.durable)}, k60)."
        )
        self.say("No will message specified.")
        self.say(f"Sending CONNACK to {r.name} ({int(bool(kept))}, 0)")
        r.here = True
        if not kept:
            r.filters, r.flight, r.queue, r.numbers = {}, [], [], 0
            return self.ask(r, what)
        for message, number, qos, retain in r.flight:
            self.send(r, message, number, qos, retain, dup=1)
        return self.drain(r)

    def ask(self, r, what):
        name, qos = self.FILTERS[what % 5], what // 5 % 3
        r.filters[name] = qos
        self.say(f"Received SUBSCRIBE from {r.name}")
        self.say(f"\t{name} (QoS {qos})")
        self.say(f"{r.name} {qos} {name}")
        self.say(f"Sending SUBACK to {r.name}")
        for topic, level in self.retained.items():
            if self.asks(name, topic) and len(r.queue) < r.most:  # a retained message that is dropped is lost to us
                self.put(r, (None, topic), min(qos, level), retain=1)

    def leave(self, which, _):
        r = self.receivers[which % 4]
        if r.here:
            self.say(f"Client {r.name} closed its connection.")
            r.here = False

    def publish(self, who, what):
        topic, qos, retain = self.TOPICS[what % 3], what // 3 % 3, int(what // 9 % 7 == 0)
        self.mids += 1
        mid = self.mids if qos else 0
        name = f"p{who % 3}"
        line = self.say(f"Received PUBLISH from {name} (d0, q{qos}, r{retain}, m{mid}, '{topic}', ... (4 bytes))")
        self.truth[line] = set()
        if qos == 2:
            self.released.append((line, topic, name, mid, retain))
        else:
            self.enter((line, topic), qos, retain)

    def release(self, which, _):
        if self.released:
            line, topic, name, mid, retain = self.released.pop(which % len(self.released))
            self.say(f"Received PUBREL from {name} (Mid: {mid})")
            self.enter((line, topic), 2, retain)
            self.say(f"Sending PUBCOMP to {name} (m{mid})")

    def die(self, _, what):
        topic, qos = self.TOPICS[what % 3], what // 3 % 3
        self.say("New client connected from 127.0.0.1:9 as mortal (p2, c1, k60).")
        self.say(f"Will message specified (4 bytes) (r0, q{qos}).")
        self.say(f"\t{topic}")
        self.say("Sending CONNACK to mortal (0, 0)")
        line = self.say("Client mortal closed its connection.")
        self.truth[line] = set()  # a will is known by the line of the death until its first send
        self.enter((line, topic), qos, 0)

    def ack(self, which, how):
        r = self.receivers[which % 4]
        if r.here and r.flight:
            _, number, *_ = r.flight.pop(how % len(r.flight))
            self.say(f"Received PUBACK from {r.name} (Mid: {number}, RC:0)")
            if how % 3 or not r.flight:  # else the room is left for others to overtake
                self.drain(r)

    def enter(self, message, qos, retain):
        if retain:
            self.retained[message[1]] = qos
        for r in self.receivers:
            times = [min(qos, level) for name, level in r.filters.items() if self.asks(name, message[1])]
            for i, each in enumerate(times):
                if i and not r.v5:
                    r.numbers += each > 0  # a duplicate has its number, but is not sent
                elif r.here or r.durable:
                    self.put(r, message, each)
            if r.here and len(r.flight) % 2:
                self.drain(r)

    def put(self, r, message, qos, retain=0):
        r.numbers += qos > 0
        item = (message, r.numbers if qos else 0, qos, retain)
        if qos == 0 and r.here:
            self.send(r, *item)
        elif qos and r.here and len(r.flight) < r.window:
            r.flight.append(item)
            self.send(r, *item)
        elif qos and len(r.queue) < r.most:
            r.queue.append(item)
        elif qos:
            self.say(f"Outgoing messages are being dropped for client {r.name}.")

    def drain(self, r):
        while r.queue and len(r.flight) < r.window:
            r.flight.append(r.queue.pop(0))
            self.send(r, *r.flight[-1])

    def send(self, r, message, number, qos, retain, dup=0):
        line, topic = message
        self.say(f"Sending PUBLISH to {r.name} (d{dup}, q{qos}, r{retain}, m{number}, '{topic}', ... (4 bytes))")
        if line is not None and not dup:
            self.truth[line].add((r.name, len(self.lines) - 1))

    @staticmethod
    def asks(name, topic):
        return name in (topic, "#") or (name == "t/+" and topic != "u")

    ACTS = (publish, publish, publish, publish, release, ack, ack, ack, come, come, leave, die)

    def run(self, acts):
        for act, a, b in acts:
            self.ACTS[act](self, a, b)
        return "\n".join(self.lines) + "\n"

    def messages(self):
        """The receivers of each message by its line: a will's is that of its first send."""
        found = {}
        for line, sends in self.truth.items():
            dead = "closed its" in self.lines[line]
            if sends or not dead:
                found[min(at for _, at in sends) if dead else line] = sorted({name for name, _ in sends})
        return found


acts = st.lists(st.tuples(st.integers(0, 11), st.integers(0, 30), st.integers(0, 200)), max_size=120)


@given(acts)
def test_every_send_is_given_to_its_message(acts):
    broker = Broker()
    found = parsed(broker.run(acts))
    assert {i: row["receivers"] for i, row in enumerate(found) if row["kind"] == "message"} == broker.messages()


def test_every_send_of_long_logs_is_given_to_its_message():
    rng = random.Random(5)
    for _ in range(10):
        broker = Broker()
        log = broker.run((rng.randrange(12), rng.randrange(30), rng.randrange(200)) for _ in range(3000))
        found = parsed(log)
        assert {i: row["receivers"] for i, row in enumerate(found) if row["kind"] == "message"} == broker.messages()
        assert Counter(row["reason"] for row in found if row["topic"])["unmatched"] == 0
