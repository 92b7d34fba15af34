"""Logs of real Mosquitto brokers, against what the clients themselves say they received."""

import random
import re
import threading
from collections import Counter

import pyarrow as pa
import pytest

pytest.importorskip("paho.mqtt.client", reason="needs paho-mqtt")

from overlace.ingest.formats.mosquitto import FORMAT
from overlace.ingest.lines import blocks
from overlace.ingest.options import Options
from overlace.ingest.tables import add_topology
from tests.engine import ingest_sources
from tests.live.broker import MOSQUITTO, Broker, wait_until

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(MOSQUITTO is None, reason="no mosquitto on this machine (apt install mosquitto)"),
]

EACH = 250  # messages of each publisher in a burst


@pytest.fixture
def start(tmp_path):
    """Start a broker; all of them are stopped at the end, whatever happens."""
    started = []

    def one(name="b", settings=""):
        broker = Broker(tmp_path, name, settings)
        started.append(broker)
        wait_until(broker.listens, f"broker {name} listens")
        return broker

    try:
        yield one
    finally:
        for broker in started:
            broker.stop()


def parsed(broker, log=None):
    """The events of a broker's log, one a line."""
    log = broker.log.read_bytes() if log is None else log
    batches = list(FORMAT.read(iter([(0, log)]), {"broker": broker.name}))
    assert sum(batch.num_rows for batch in batches) == log.count(b"\n")
    found = pa.Table.from_batches(batches).to_pylist()
    assert [row for row in found if row["kind"] == "bad"] == []
    return found


def messages(found):
    return [row for row in found if row["kind"] == "message"]


def reasons(found, client):
    """Why a client was sent what it was sent."""
    return Counter(
        row["reason"] for row in found if row["client"] == client and row["kind"] == "follows" and row["bytes"]
    )


def ingested(brokers, out):
    """The trace of the logs of some brokers."""
    return ingest_sources([str(broker.log) for broker in brokers], str(out), Options(format="mosquitto")).trace


def subscriptions(broker, out):
    """(client, topic, whether it goes on) of subscriptions, sorted."""
    trace = ingested([broker], out)
    name, topics = trace.names["client"], trace.names["topic"]
    return sorted(
        (name[row["client"]].removeprefix(f"{broker.name}/"), row["filter"] or topics[row["topic"]], not row["until"])
        for row in trace.read("subscriptions").to_pylist()
    )


def audiences(broker, found, sent):
    """By payload: the receivers. A receive is known by its packet id, at QoS 0 by its place among its publisher's."""
    at_zero = Counter()
    audience = {}
    for row, line in zip(found, broker.text().splitlines(), strict=True):
        if row["kind"] == "message":
            who, qos, mid = re.search(r"from (p\d) \(d0, q(\d), r0, m(\d+),", line).groups()
            audience[sent[who, mid if qos != "0" else ("at zero", at_zero[who])]] = row["receivers"]
            at_zero[who] += qos == "0"
    return audience


@pytest.mark.parametrize(
    ("settings", "at_once"),
    [
        ("", None),
        ("max_queued_messages 30", None),  # most of what waits is dropped: each receiver gets another part
        ("max_inflight_messages 40\nmax_queued_messages 20\nlog_timestamp_format %Y-%m-%dT%H:%M:%S", None),
        ("max_queued_messages 30", 0),  # the broker refuses what publishers send beyond their limit
    ],
    ids=["all delivered", "drops", "short queue, ISO times", "publishers beyond their limits"],
)
def test_no_send_of_a_burst_is_attributed_wrongly(start, settings, at_once):
    """Publishers on one topic at QoS 1, 2 and mixed; the payload's length says who, its text says which."""
    broker = start(settings=settings)
    receivers = [
        *(broker.client(f"at {qos} (v{3 + 2 * v5})", ("t", qos), v5=v5) for qos in (0, 1, 2) for v5 in (False, True)),
        broker.client("all", ("#", 2)),
        broker.client("twice", ("#", 1), ("t", 2), v5=True),
    ]
    publishers = [broker.client(f"p{i}", at_once=at_once) for i in range(4)]
    sent = {}

    def burst(i):
        rng, at_zero = random.Random(i), 0
        for k in range(EACH):
            topic = "t" if rng.random() < 0.8 else f"u/{k % 2}"
            payload = f"{i} {k} ".encode().ljust(20 + i, b".")
            qos = (1, 2, 1, rng.randrange(3))[i]
            mid = publishers[i].publish(topic, payload, qos).mid
            sent[f"p{i}", str(mid) if qos else ("at zero", at_zero)] = payload
            at_zero += qos == 0

    threads = [threading.Thread(target=burst, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    wait_until(broker.settled, "the burst is over")
    broker.stop()

    truth = {payload: [] for payload in sent.values()}
    for receiver in sorted(receivers, key=lambda receiver: receiver.name):
        for payload in set(receiver.got):
            truth[payload].append(receiver.name)
    found = parsed(broker)
    assert len(truth) == 4 * EACH
    assert audiences(broker, found, sent) == truth
    if settings.startswith("max_queued"):
        assert "being dropped" in broker.text()
    assert (at_once == 0) == bool(re.search(r"Sending PUBREC to p\d \(m\d+, rc151\)", broker.text()))
    assert sum(reasons(found, "twice").values()) == len(receivers[-1].got)
    assert reasons(found, "twice")["double"] == len(receivers[-1].got) - len(set(receivers[-1].got))

    one_size = re.sub(rb"\(\d+ bytes\)\)\n", b"(1 bytes))\n", broker.log.read_bytes())
    assert audiences(broker, parsed(broker, one_size), sent) == truth, "the sizes were needed"


def test_a_will_is_a_message_of_the_dead_client(start):
    broker = start()
    broker.client("here", ("will/#", 1))
    away = broker.client("away", ("will/#", 1), durable=True)
    away.leave()
    mortal = broker.client("mortal", will=("will/m", b"gone!", 1, False))
    polite = broker.client("polite", will=("will/p", b"never", 1, False))
    polite.leave()
    mortal.die()
    wait_until(broker.settled, "the will is delivered")
    away.connect()
    wait_until(broker.settled, "the will waits no more")
    broker.stop()
    found = parsed(broker)
    assert [(row["client"], row["topic"], row["bytes"], row["receivers"]) for row in messages(found)] == [
        ("mortal", "will/m", 5, ["away", "here"])
    ]
    assert reasons(found, "away") == {"queued": 1}


def test_a_client_that_takes_over_brings_the_will_of_the_old_one(start):
    broker = start()
    broker.client("here", ("will/#", 0))
    broker.client("twin", will=("will/t", b"old", 0, False)).mqtt.loop_stop()  # so that it does not come back
    broker.client("twin")
    wait_until(lambda: "will/t', ..." in broker.text(), "the will is sent")
    broker.stop()
    (message,) = messages(parsed(broker))
    assert (message["client"], message["receivers"]) == ("twin", ["here"])


def test_retained_and_queued_sends_are_told_apart(start):
    broker = start()
    durable = broker.client("durable", ("t/#", 1), durable=True)
    durable.leave()
    publisher = broker.client("p")
    for k in range(30):
        publisher.publish("t/r", b"%03d" % k, qos=1 + k % 2, retain=True)
    wait_until(broker.settled, "all is published")
    publisher.publish("t/r", b"lost", qos=0)
    wait_until(broker.settled, "the last is published")
    broker.client("late", ("t/r", 1))
    durable.connect()
    wait_until(broker.settled, "all is delivered")
    publisher.publish("t/r", b"now", qos=1)
    wait_until(broker.settled, "the last is delivered")
    broker.stop()
    found = parsed(broker)
    assert [row["receivers"] for row in messages(found)] == [*[["durable"]] * 30, [], ["durable", "late"]]
    assert reasons(found, "durable") == {"queued": 30, "send": 1}
    assert reasons(found, "late") == {"retained": 1, "send": 1}
    assert sorted(durable.got) == [*(b"%03d" % k for k in range(30)), b"now"]


def test_a_clean_session_takes_its_subscriptions_along_and_a_kept_one_keeps_them(start, tmp_path):
    broker = start()
    ways = {"v3": {}, "v5": {"v5": True}, "kept v3": {"durable": True}, "kept v5": {"durable": True, "v5": True}}
    clients = {name: broker.client(name, ("t/#", 1), ("u", 0), **how) for name, how in ways.items()}
    for client in clients.values():
        client.leave()
    text = broker.text
    wait_until(lambda: all(f"Client {name} disconnected" in text() for name in ways), "the broker says that they left")
    for name in ("v3", "kept v3", "kept v5"):
        clients[name].connect()
    broker.client("p").publish("t/1", b"x", qos=1)
    wait_until(broker.settled, "it is delivered")
    broker.stop()
    found = parsed(broker)
    (message,) = messages(found)
    assert message["receivers"] == ["kept v3", "kept v5"]
    asked = subscriptions(broker, tmp_path / "trace")
    assert Counter(name for name, _, still in asked if still) == {"kept v3": 2, "kept v5": 2}
    assert len(asked) == 8
    over = {name: [row["ends"] for row in found if row["client"] == name and row["ends"] is not None] for name in ways}
    assert over == {
        "v3": [True, True, True, True],  # comes, leaves, comes, leaves as the broker stops
        "v5": [True, True],
        "kept v3": [True, False, False, False],  # no session was there when it first came
        "kept v5": [True, False, False, False],
    }


def test_a_client_that_takes_over_keeps_what_was_kept(start, tmp_path):
    broker = start()
    for name, durable in (("kept", True), ("clean", False)):
        first = broker.client(name, ("t", 1), durable=durable)
        first.mqtt.loop_stop()  # so that it does not come back
        broker.client(name, durable=durable)
    text = broker.text
    wait_until(lambda: text().count("already connected, closing old") == 2, "both are taken over")
    broker.stop()
    assert subscriptions(broker, tmp_path / "trace") == [("clean", "t", False), ("kept", "t", True)]


def test_a_connect_tells_its_user(start):
    broker = start()
    broker.client("c1", user="it's bob")
    broker.client("c2")
    broker.stop()
    users = {row["client"]: row["user"] for row in parsed(broker) if row["kind"] == "connect"}
    assert users == {"c1": "it's bob", "c2": None}


def test_overlapping_subscriptions_are_one_flow(start):
    broker = start()
    for v5 in (False, True):
        broker.client(f"v{3 + 2 * v5}", ("o/#", 1), ("o/+", 2), ("o/t", 0), v5=v5)
    publisher = broker.client("p")
    for qos in (0, 1, 2):
        publisher.publish("o/t", b"x", qos)
    wait_until(broker.settled, "all is delivered")
    broker.stop()
    found = parsed(broker)
    assert [row["receivers"] for row in messages(found)] == [["v3", "v5"]] * 3
    assert reasons(found, "v3") == {"send": 3}  # 2.0.11 sends twice only in MQTT 5
    assert reasons(found, "v5") == {"send": 3, "double": 6}


def test_members_of_a_group_share_the_messages(start):
    broker = start()
    members = [broker.client(f"m{i}", ("$share/g/t", 1), v5=True) for i in range(3)]
    publisher = broker.client("p")
    for k in range(30):
        publisher.publish("t", b"%d" % k, qos=1)
        wait_until(broker.settled, "it is delivered")
    broker.stop()
    truth = {k: member.name for member in members for k in map(int, member.got)}
    assert [row["receivers"] for row in messages(parsed(broker))] == [[truth[k]] for k in range(30)]


def test_two_brokers_with_a_bridge(start):
    far = start("far")
    near = start("near", f"connection plant\naddress 127.0.0.1:{far.port}\nremote_clientid vm.plant\ntopic # both 1\n")
    wait_until(lambda: "Received SUBACK from local.vm.plant" in near.text(), "the bridge is up")
    ends = {"near": near.client("here", ("#", 1)), "far": far.client("there", ("#", 1))}
    near.client("a").publish("x", b"aa", qos=1)
    far.client("b").publish("x", b"bbb", qos=2)
    wait_until(lambda: all(len(client.got) == 2 for client in ends.values()), "both are on both sides")
    wait_until(lambda: near.settled() and far.settled(), "all is acknowledged")
    near.stop()
    far.stop()
    for broker, bridge, own, foreign in (
        (near, "local.vm.plant", ("a", 2, ["here"]), (3, ["here"])),
        (far, "vm.plant", ("b", 3, ["there"]), (2, ["there"])),
    ):
        found = parsed(broker)
        (message,) = messages(found)
        assert (message["client"], message["bytes"], message["receivers"]) == own
        into = [row for row in found if row["client"] == bridge and row["receivers"]]
        assert [(row["bytes"], row["receivers"]) for row in into] == [foreign]
        assert {(row["kind"], row["reason"]) for row in into} == {("follows", "bridge")}
        over = [row["key"] for row in found if row["client"] == bridge and row["key"]]
        assert over == [str(message["offset"])]
        seen = {(row["client"], row["topic"]) for row in found if row["kind"] == "bridge"}
        assert seen == {(bridge, "plant" if broker is near else "vm.plant")}
        assert bridge not in {row["client"] for row in found if row["kind"] not in ("bridge", "follows")}
        assert all(bridge not in (row["receivers"] or ()) for row in found)


@pytest.mark.parametrize("flight", [20, 1])
def test_messages_are_followed_over_a_bridge_that_renames_topics(start, tmp_path, flight):
    """With one message in flight nearly all of them wait for the bridge."""
    few = f"max_inflight_messages {flight}\n"
    far = start("far", few)
    bridge = "topic # both 1 near/ far/\ntopic +/own in 1"
    near = start("near", f"{few}connection plant\naddress 127.0.0.1:{far.port}\nremote_clientid vm.plant\n{bridge}\n")
    wait_until(lambda: near.text().count("Received SUBACK from local.vm.plant") == 2, "the bridge is up")
    ends = {"near": near.client("here", ("#", 1)), "far": far.client("there", ("#", 1))}
    a, b = near.client("a"), far.client("b")
    for k in range(20):
        a.publish(f"near/{k % 3}", b"%02d" % k, qos=1)
        b.publish(f"far/{k % 3}", b"%02d" % k, qos=1)  # of the same size
    b.publish("b/own", b"!", qos=1)
    wait_until(lambda: [len(client.got) for client in ends.values()] == [41, 41], "all is on both sides")
    wait_until(lambda: near.settled() and far.settled(), "all is acknowledged")
    near.stop()
    far.stop()
    out = tmp_path / "trace"
    add_topology([str(tmp_path / "near.conf"), str(tmp_path / "far.conf")], str(out))
    trace = ingested([near, far], out)
    who = trace.names["client"]
    heard = {r["audience"]: sorted(who[c] for c in r["receivers"]) for r in trace.read("audiences").to_pylist()}
    found = Counter((who[row["client"]], *heard[row["audience"]]) for row in trace.read("messages").to_pylist())
    assert found == {("near/a", "far/there", "near/here"): 20, ("far/b", "far/there", "near/here"): 21}


def test_a_log_read_while_it_grows_gives_the_same_messages(start):
    """Blocks as they come from a file, whatever the broker has written so far."""
    broker = start()
    broker.client("r", ("t", 1))
    publisher = broker.client("p")
    for _ in range(200):
        publisher.publish("t", b"x", qos=1)
    wait_until(broker.settled, "all is delivered")
    with broker.log.open("rb") as file:
        batches = list(FORMAT.read(blocks(file, size=1000), {"broker": "b"}))
    found = pa.Table.from_batches(batches).to_pylist()
    assert [row["receivers"] for row in messages(found)] == [["r"]] * 200
