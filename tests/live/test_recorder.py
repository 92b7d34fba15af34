"""Counted recording in a network without processes: the trace is the tally, whatever is lost or comes twice."""

import asyncio
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overlace.errors import BadNetwork
from overlace.live import recorder
from overlace.live.deployment import check_deployment
from overlace.live.recorder import Spans, begin_recording, watch
from overlace.live.recording_tables import Published, RecordedRows, tables_of
from overlace.live.wiring import links_of
from tests.live.memory import MemoryClient, MemoryNetwork

LINKS = (links_of([("a", "b"), ("b", "c")]), frozenset())


def deployment(tmp_path, brokers=("a", "b", "c")):
    entries = {name: {"client": f"127.0.0.1:{4222 + i}"} for i, name in enumerate(brokers)}
    return check_deployment({"substrate": "nats", "brokers": entries}, tmp_path / "network.toml")


class Clock:
    """Time that passes only while somebody waits."""

    def __init__(self, monkeypatch):
        self.now = 1_000_000.25
        monkeypatch.setattr(recorder.time, "time", lambda: self.now)
        monkeypatch.setattr(recorder.asyncio, "sleep", self.sleep)

    async def sleep(self, seconds):
        self.now += seconds


@pytest.fixture
def clock(monkeypatch):
    return Clock(monkeypatch)


def run(network, seconds=5.0):
    async def story():
        recording, shown = await begin_recording(network, "counted")
        await watch(network, recording, shown, seconds, lambda share, text: None)
        return recording

    return asyncio.run(story())


def test_what_is_counted_is_what_was_published(tmp_path, clock):
    @settings(max_examples=60, deadline=None)
    @given(st.data())
    def law(data):
        network = MemoryNetwork(deployment(tmp_path), LINKS)
        names = [f"c{i}" for i in range(data.draw(st.integers(1, 4)))]
        network.clients = [MemoryClient(name, data.draw(st.sampled_from("abc")), [("t.>", None)]) for name in names]
        for each in network.clients:
            each.publish("t.before", messages=data.draw(st.integers(1, 9)))
        tally = {}

        def step(turn):
            network.mute = set()
            if turn == 0:
                return
            for each in list(network.clients):
                if data.draw(st.booleans()):
                    topic, count = data.draw(st.sampled_from(["t.1", "t.2"])), data.draw(st.integers(1, 5))
                    each.publish(topic, 7, count)
                    tally[each.name, topic] = tally.get((each.name, topic), 0) + count
                what = data.draw(st.sampled_from(["stay", "stay", "leave", "mute"]))
                if what == "leave" and turn < 5:
                    network.farewells.append(json.dumps(each.answer()).encode())
                    network.clients.remove(each)
                elif what == "mute" and turn < 5:
                    network.mute.add(each.name)

        network.step = step
        recording = run(network)
        counted = {}
        for (_, client, topic), (messages, size) in recording.sent.items():
            assert size == 7 * messages
            counted[client, topic] = counted.get((client, topic), 0) + messages
        assert counted == tally

    law()


def test_seconds_are_whole_and_in_order(tmp_path, clock):
    network = MemoryNetwork(deployment(tmp_path), LINKS)
    network.clients = [MemoryClient("c", "a")]
    network.step = lambda turn: network.clients[0].publish(f"t{turn}") if turn else None
    recording = run(network, 3.0)
    seconds = [at for at, _, _ in sorted(recording.sent)]
    assert all(at % 1_000_000 == 0 for at in seconds)
    assert seconds == sorted(set(seconds))
    assert recording.end_us - recording.begin_us == 3_000_000


def test_who_comes_later_and_who_moves_has_spans(tmp_path, clock):
    network = MemoryNetwork(deployment(tmp_path), LINKS)
    network.clients = [MemoryClient("early", "a", [("x", None)])]

    def step(turn):
        if turn == 2:
            network.clients.append(MemoryClient("late", "b", [("y", "group")]))
            network.clients[-1].publish("x")
        if turn == 3:
            network.clients[0].home = "c"

    network.step = step
    recording = run(network)
    sessions = {each.what: (each.since, each.until) for each in recording.sessions.rows()}
    assert sessions["early", "a"][0] is None
    assert sessions["early", "a"][1] == sessions["early", "c"][0]
    assert sessions["early", "c"][1] is None
    assert sessions["late", "b"][0] is not None
    assert [each.what for each in recording.subscriptions.rows()] == [("early", "x", None), ("late", "y", "group")]
    assert sum(row[0] for row in recording.sent.values()) == 1  # all that a newcomer published


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda n: n.silent.add("b"), "b at 127.0.0.1:4223 does not answer"),
        (lambda n: n.clients.append(MemoryClient("c", "b", instance="2")), "2 clients are called 'c'"),
        (lambda n: setattr(n, "nameless", 2), "2 clients have no name"),
        (lambda n: n.mute.add("c"), "client 'c' follows orders but does not answer"),
        (lambda n: setattr(n.clients[0], "wrapped", False), "no client follows orders"),
    ],
)
def test_what_cannot_be_recorded_is_refused(tmp_path, clock, change, words):
    network = MemoryNetwork(deployment(tmp_path), LINKS)
    network.clients = [MemoryClient("c", "a")]
    change(network)
    with pytest.raises(BadNetwork, match=words):
        run(network)


def test_clients_that_follow_no_orders_receive_and_are_named(tmp_path, clock):
    network = MemoryNetwork(deployment(tmp_path), LINKS)
    network.clients = [MemoryClient("c", "a"), MemoryClient("plain", "b", [("t.*", None)], wrapped=False)]
    recording = run(network)
    assert recording.silent_clients == ["plain"]
    assert ("plain", "b") in [each.what for each in recording.sessions.rows()]
    assert ("plain", "t.*", None) in [each.what for each in recording.subscriptions.rows()]


@pytest.mark.parametrize("back", [True, False])
def test_clients_that_are_not_heard_to_the_end_are_named_and_stay_at_home(tmp_path, clock, back):
    network = MemoryNetwork(deployment(tmp_path), LINKS)
    network.clients = [MemoryClient("c", "a"), MemoryClient("cut off", "b", [("t", None)])]

    def step(turn):
        network.clients[1].publish("t")
        if turn == 2:
            network.mute.add("cut off")
        if turn == 4 and back:
            network.mute.clear()

    network.step = step
    recording = run(network)
    assert [each for each in recording.sessions.rows() if each.what[0] == "cut off"] == [(("cut off", "b"), None, None)]
    assert [each.until for each in recording.subscriptions.rows()] == [None]
    if back:
        assert recording.notes == []
        assert sum(row[0] for row in recording.sent.values()) == network.clients[1].counts["t"][0] - 1
    else:
        (note,) = recording.notes
        assert "1 client was not heard to the end" in note
        assert "'cut off'" in note


def test_a_client_that_is_gone_without_a_word_is_named_and_leaves(tmp_path, clock):
    network = MemoryNetwork(deployment(tmp_path), LINKS)
    network.clients = [MemoryClient("c", "a"), MemoryClient("killed", "b")]

    def step(turn):
        if turn == 2:
            del network.clients[1:]

    network.step = step
    recording = run(network)
    assert "'killed'" in recording.notes[0]
    (session,) = [each for each in recording.sessions.rows() if each.what[0] == "killed"]
    assert session.until is not None


def test_spans_close_and_open_again():
    spans = Spans()
    for at, now in ((1, "ab"), (2, "a"), (3, "ab")):
        spans.look([(each,) for each in now], at)
    assert [tuple(each) for each in spans.rows()] == [(("a",), None, None), (("b",), None, 1), (("b",), 2, None)]


def test_pseudonyms_hide_every_name_and_filters_still_match(tmp_path):
    network = deployment(tmp_path)
    rows = RecordedRows(
        [Published(1_000_000, "press", "fab.4.temp", 3, 30), Published(2_000_000, "press", "fab.4.x", 1, 1, ("hmi",))],
        [recorder.Span(("press", "a"), None, None), recorder.Span(("hmi", "b"), None, None)],
        [recorder.Span(("hmi", "fab.*.temp", "line"), None, None)],
    )
    recording = recorder.Recording("counted", 0, 1, links=LINKS[0])
    plain = tables_of(rows, recording, network, 1)
    hidden = tables_of(rows, recording, network, 1, b"key")
    text = json.dumps(
        {name: table.to_pylist() for name, table in hidden.rows.items()} | dict(hidden.names), default=str
    )
    assert not [word for word in ("press", "hmi", "fab", "temp", "line") if f'"{word}' in text or f"{word}." in text]
    asked = hidden.rows["subscriptions"]["filter"][0].as_py().split(".")
    topic = hidden.names["topic"][0].split(".")
    assert asked[1] == "*"
    assert (asked[0], asked[2]) == (topic[0], topic[2])
    for table in ("links", "brokers"):
        assert hidden.rows[table] == plain.rows[table]


def test_links_that_nobody_measured_have_no_latency(tmp_path):
    recording = recorder.Recording("counted", 0, 1, links=LINKS[0], latency_us={("a", "b"): 7})
    links = tables_of(RecordedRows([], [], []), recording, deployment(tmp_path), 1).rows["links"].to_pylist()
    found = {(each["left"], each["right"]): (each["wired"], each["latency_us"], each["dials"]) for each in links}
    assert found == {(0, 1): (True, 7, 1), (1, 2): (True, None, 2), (0, 2): (False, None, None)}
