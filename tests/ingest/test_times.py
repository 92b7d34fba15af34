"""Since when a log shows what it shows: sessions, bridges and links, and what that leaves for a window before."""

import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from overlace.errors import BadOverlay
from overlace.ingest.bridges import SLACK_US, pair_up
from overlace.ingest.options import Options
from overlace.ingest.tables import add_tables
from tests.engine import ingest_sources
from tests.ingest.logs import START, ingested
from tests.ingest.test_padres import got, sending
from tests.ingest.test_padres import write as write_padres
from tests.traces import names_in, observe

MICRO = 10**6
UNTIL = START + 1800


def connect(client):
    return [f"New client connected from 127.0.0.1:48860 as {client} (p2, c1, k60)."]


def disconnect(client):
    return [f"Received DISCONNECT from {client}", f"Client {client} disconnected."]


def subscribe(client, topic):
    return [
        f"Received SUBSCRIBE from {client}",
        f"\t{topic} (QoS 0)",
        f"{client} 0 {topic}",
        f"Sending SUBACK to {client}",
    ]


def publish(client, topic, *receivers, size=1):
    what = f"(d0, q0, r0, m0, '{topic}', ... ({size} bytes))"
    return [f"Received PUBLISH from {client} {what}", *(f"Sending PUBLISH to {each} {what}" for each in receivers)]


def dial(bridge):
    return [
        f"Bridge local.vm.{bridge} doing local SUBSCRIBE on topic #",
        f"Connecting bridge (step 1) {bridge} (127.0.0.1:50965)",
        f"Bridge vm.{bridge} sending CONNECT",
        f"Received CONNACK on connection local.vm.{bridge}.",
    ]


def answer(bridge):
    return [f"New bridge connected from 127.0.0.1:35178 as vm.{bridge} (p2, c0, k60)."]


def bridged(at, one, other):
    """What two brokers log of a bridge that the first dials."""
    name = f"{one}-{other}"
    return [(at, one, dial(name)), (at, other, answer(name))]


def sent(at, one, other, client, receiver, topic="t", size=1):
    """A message that goes over the bridge from one broker to another."""
    name = f"{one}-{other}"
    return [
        (at, one, publish(client, topic, f"local.vm.{name}", size=size)),
        (at, other, publish(f"vm.{name}", topic, receiver, size=size)),
    ]


def ingest(folder, events):
    """The trace of what brokers log: events are (second, broker, lines)."""
    logs = {}
    for at, broker, lines in sorted(events, key=lambda event: event[0]):
        logs.setdefault(broker, []).extend(f"{at}: {line}\n" for line in lines)
    for broker, lines in logs.items():
        (folder / f"{broker}.log").write_text("".join(lines))
    paths = [str(folder / f"{broker}.log") for broker in sorted(logs)]
    return ingest_sources(paths, str(folder / "trace"), options=Options(bucket="minute", format="mosquitto")).trace


def seen(trace, until=UNTIL):
    """The observation up to a time, homes and links by name; or why there is none."""
    window = (START * MICRO, until * MICRO)
    names = names_in(trace, window)
    try:
        found = observe(trace, window)
    except BadOverlay as error:
        return str(error)
    homes = {names["client"][c]: names["broker"][b] for c, b in found.overlay.placement.tolist()}
    links = {f"{names['broker'][a]}-{names['broker'][b]}" for a, b in found.overlay.tree.tolist()}
    return homes, links, names.get("broker", []), found.clients, found.digest(), names


AGAIN = [(UNTIL + 60, "a", publish("p", "t", "s"))]


def test_a_client_whose_first_logged_connect_comes_later_has_its_home_before(tmp_path):
    events = [
        (START, "a", publish("p", "t", "s")),
        (UNTIL + 5, "a", connect("p")),
        (UNTIL + 9, "a", disconnect("s")),
        *AGAIN,
    ]
    homes, *_ = seen(ingest(tmp_path, events))
    assert homes == {"a/p": "a", "a/s": "a"}


def test_a_disconnect_tells_nothing_of_the_time_before_it(tmp_path):
    """Nobody saw when the session began: from its end on the client is known to have been there."""
    trace = ingest(tmp_path, [(START, "a", publish("p", "t")), (START + 600, "a", disconnect("q")), *AGAIN])
    assert seen(trace)[0] == {"a/p": "a", "a/q": "a"}
    assert seen(trace, START + 600)[0] == {"a/p": "a"}


def test_a_sighting_lasts_until_the_first_logged_connect(tmp_path):
    trace = ingest(tmp_path, [(START, "a", publish("p", "t")), (START + 600, "a", connect("p")), *AGAIN])
    rows = [(row["since"], row["until"]) for row in trace.read("sessions").to_pylist() if row["client"] == 0]
    first, then = (int(at.timestamp()) for at in sorted(row[0] for row in rows))
    assert (first, then) == (START, START + 600)
    assert sorted(until is None for _, until in rows) == [False, True]


TWO = [*bridged(START, "a", "b"), *sent(START + 60, "a", "b", "p", "s")]
THIRD = [*bridged(UNTIL + 60, "c", "b"), *sent(UNTIL + 120, "c", "b", "z", "s")]


def test_a_bridge_and_a_broker_that_appear_later_are_not_there_before(tmp_path):
    trace = ingest(tmp_path, [*TWO, *AGAIN, *THIRD])
    homes, links, brokers, clients, *_ = seen(trace)
    assert (links, brokers, clients) == ({"a-b"}, ["a", "b"], 2)
    assert homes == {"a/p": "a", "b/s": "b"}
    assert seen(trace, UNTIL + 600)[1] == {"a-b", "b-c"}


def test_a_bridge_that_appears_later_between_brokers_that_are_there_is_not_wired_before(tmp_path):
    trace = ingest(tmp_path, [*TWO, (START + 30, "c", publish("z", "t")), *AGAIN, *THIRD])
    assert "2 parts" in seen(trace)  # nothing had joined them by then
    assert seen(trace, UNTIL + 600)[1] == {"a-b", "b-c"}


def test_links_that_later_logs_show_come_after_those_that_were_shown(tmp_path):
    for name, events in (("one", [*TWO, *AGAIN]), ("two", THIRD)):
        (tmp_path / name).mkdir()
        trace = ingest(tmp_path / name, events)
    out = str(tmp_path / "trace")
    for folder in ("one", "two"):
        paths = sorted(map(str, (tmp_path / folder).glob("*.log")))
        trace = ingest_sources(paths, out, options=Options(bucket="minute", format="mosquitto")).trace
    assert seen(trace)[1:3] == ({"a-b"}, ["a", "b"])


def test_a_table_of_links_says_itself_since_when_they_are(tmp_path):
    """Logs that show a link early, late or never: with a table that names it, it is the table's."""
    found = []
    for name, events in (("early", []), ("late", THIRD)):
        (tmp_path / name).mkdir()
        trace = ingest(tmp_path / name, [*TWO, *AGAIN, *events])
        (tmp_path / "links.csv").write_text("left,right,cost\na,b,1\nc,b,2\n")
        trace, _ = add_tables([str(tmp_path / "links.csv")], "links", trace.path, {})
        found.append(seen(trace))
    assert found[0] == found[1]
    assert found[0][1] == {"a-b", "b-c"}


def test_a_link_of_padres_is_wired_from_when_a_message_takes_it(tmp_path):
    second = [got("B1", "B1-M1", "B1-C1", second=2), sending("B1", "B1-M1", "B2", second=2)]
    second += [got("B2", "B1-M1", "B1", second=2), sending("B2", "B1-M1", "B2-C2", second=2)]
    third = [got("B2", "B2-M5", "B2-C2", second=70), sending("B2", "B2-M5", "B3", second=70)]
    third += [got("B3", "B2-M5", "B2", second=70), sending("B3", "B2-M5", "B3-C3", second=70)]
    trace = ingest_sources(write_padres(tmp_path, {"all": second + third}), str(tmp_path / "trace")).trace
    begin = trace.span()[0]
    found, names = observe(trace, (begin, begin + 60 * MICRO)), names_in(trace, (begin, begin + 60 * MICRO))
    assert names["broker"] == ["B1", "B2"]
    assert found.overlay.tree.tolist() == [[0, 1]]
    assert len(observe(trace).overlay.tree) == 2


PEOPLE = ["p", "q", "r"]


@st.composite
def turns(draw, first, last):
    """What three brokers log in some time: a turn is whole within its second."""
    found = []
    for at in sorted(draw(st.lists(st.integers(first, last - 1), max_size=10, unique=True))):
        broker, client, other = (
            draw(st.sampled_from("abc")),
            draw(st.sampled_from(PEOPLE)),
            draw(st.sampled_from(PEOPLE)),
        )
        what = draw(st.sampled_from(["publish", "connect", "disconnect", "subscribe", "bridge", "cross"]))
        if what == "bridge":
            found += bridged(at, *draw(st.sampled_from(["ab", "cb"])))
        elif what == "cross":
            found += sent(at, *draw(st.sampled_from(["ab", "cb"])), client, other, size=draw(st.integers(1, 2)))
        else:
            lines = {
                "publish": publish(client, "t", other), "connect": connect(client), "disconnect": disconnect(client),
                "subscribe": subscribe(client, draw(st.sampled_from(["t", "#"]))),
            }  # fmt: skip
            found.append((at, broker, lines[what]))
    return found


@ingested(30)
@given(turns(START, UNTIL), turns(UNTIL, UNTIL + 1800), turns(UNTIL, UNTIL + 7200))
def test_whatever_brokers_log_later_what_they_logged_before_says_the_same(before, after, otherwise):
    always = [*bridged(START, "a", "b"), *bridged(START, "c", "b")]
    found = []
    for later in (after, otherwise):
        with tempfile.TemporaryDirectory() as folder:
            first = [(START, "b", publish("p", "t", "q")), (UNTIL + 7200, "b", publish("p", "t", "q"))]
            found.append(seen(ingest(Path(folder), [*always, *before, *first, *later])))
    assert found[0] == found[1]


def pairs(chosen):
    """(receive, send) by their places among lines of (second, whether it is a receive), in order."""
    at, received = np.array(chosen, np.int64).reshape(-1, 2).T
    sends, receives = np.flatnonzero(received == 0), np.flatnonzero(received)
    match = pair_up(at[sends] * MICRO, at[receives] * MICRO)
    found = match[match >= 0].tolist()
    assert len(set(found)) == len(found)
    return [(int(i), int(sends[s])) for i, s in zip(receives, match, strict=True) if s >= 0]


@given(st.lists(st.tuples(st.integers(0, 100), st.booleans()), max_size=30), st.integers(0, 100))
def test_what_a_receive_is_matched_with_does_not_depend_on_what_is_later(lines, until):
    ordered = sorted(lines)
    early = [each for each in ordered if each[0] < until]
    sure = {i for i, each in enumerate(early) if each[0] + SLACK_US // MICRO < until}
    assert [p for p in pairs(ordered) if p[0] in sure] == [p for p in pairs(early) if p[0] in sure]


@pytest.mark.parametrize(
    ("sends", "receives", "expected"),
    [
        ([0, 60, 120], [60, 120], [(60, 60), (120, 120)]),  # the first was lost, or is from before the log
        ([0, 1, 2], [100, 130, 160], [(100, 0), (130, 1), (160, 2)]),  # a bridge was down and catches up
        ([0, 1, 2, 100], [100, 101, 102, 103], [(100, 0), (101, 1), (102, 2), (103, 100)]),
        ([0, 10], [0, 10, 20], [(0, 0), (10, 10)]),
    ],
)
def test_old_sends_are_given_up_where_newer_ones_wait(sends, receives, expected):
    rows = sorted([(at, False) for at in sends] + [(at, True) for at in receives])
    assert [(rows[i][0], rows[s][0]) for i, s in pairs(rows)] == expected
