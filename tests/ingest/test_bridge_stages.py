"""Messages over bridges: the stages against one line after the other, many examples with their own links a frame."""

import numpy as np
import pyarrow as pa
import pytest
import xxhash
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.pandas.types import from_arrow_schema

from overlace.ingest.bridges import (
    SLACK_US,
    counts_of,
    crossings_of,
    dialled_links_of,
    pair_up,
    receivers_of,
    receives_of,
)
from overlace.ingest.options import Options
from overlace.ingest.topologies import Bridge, Pattern
from tests.engine import ingest_sources
from tests.ingest.test_history_stages import rows
from tests.oracles import bridges as oracle

TIME = pa.timestamp("us", "UTC")
LIFE = pa.schema(
    [
        *((name, pa.int64()) for name in ("source", "log", "offset", "broker", "bytes", "message")),
        *((name, pa.string()) for name in ("what", "name", "filter")),
        ("at", TIME),
        ("members", pa.list_(pa.int64())),
    ]
)


def line(log, offset, name, at, topic="t", size=1, message=None, members=None, what="crossing"):
    """A send carries a message; a receive has members, and is one itself."""
    return {"source": log, "log": log, "broker": log + 100, "offset": offset, "name": name, "at": at, "filter": topic,
            "bytes": size, "message": message, "members": members, "what": what}  # fmt: skip


def id_of(log, offset):
    return 1000 * log + offset


def follow(sail, lines, bridges=(), hops=2):
    """({message: receivers that come to it}, counts, links)."""
    life = sail.createDataFrame(pa.Table.from_pylist(lines, LIFE), from_arrow_schema(LIFE))
    crossings = crossings_of(life, bridges)
    received, links = receives_of(crossings), dialled_links_of(crossings)
    received = sail.createDataFrame(received.toArrow(), received.schema)  # as if written
    added = {}
    for row in receivers_of(received, hops).toArrow().to_pylist():
        added.setdefault(row["message"], set()).update(row["members"])
    (counts,) = counts_of(received, links).toArrow().to_pylist()
    return added, (counts["matched"], counts["lost"], counts["links"]), links


def ends(links):
    return sorted((row["dials"] - 100, row["far"] - 100) for row in links.toArrow().to_pylist())


@settings(max_examples=10)
@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), max_size=20), st.randoms(use_true_random=False))
def test_each_receive_belongs_to_the_send_of_its_turn(sail, messages, random):
    """Whatever the interleaving of topics and sizes, and the order of the lines."""
    lines, expected = [line(0, 0, "local.x", 0, what="bridge"), line(1, 0, "x", 0, what="bridge")], {}
    for i, (topic, size) in enumerate(messages):
        at = i * 1_000_000
        lines.append(line(0, 10 * i + 5, "local.x", at, f"t{topic}", size, message=id_of(0, 10 * i)))
        lines.append(line(1, 10 * i + 7, "x", at + 1_000_000, f"t{topic}", size, id_of(1, 10 * i + 7), [i]))
        expected[id_of(0, 10 * i)] = {i}
    random.shuffle(lines)
    added, counts, links = follow(sail, lines)
    assert (added, counts, ends(links)) == (expected, (len(messages), 0, 1), [(0, 1)])


@pytest.mark.parametrize("hops", [2, 3])
def test_a_message_is_followed_through_as_many_bridges_as_it_took(sail, hops):
    lines = [
        line(0, 5, "local.x", 1, message=id_of(0, 3)),  # message 3 of broker 0 goes out
        line(1, 8, "x", 2, message=id_of(1, 8), members=[11]),  # comes to broker 1, where 11 has it
        line(1, 9, "y", 2, message=id_of(1, 8)),  # and goes on
        line(2, 4, "local.y", 3, message=id_of(2, 4), members=[12]),  # to broker 2
    ]
    added, counts, links = follow(sail, lines, hops=hops)
    assert (added, counts, ends(links)) == ({id_of(0, 3): {11, 12}}, (2, 0, 2), [(0, 1), (2, 1)])


def test_what_was_sent_before_the_other_log_begins_is_not_taken_for_what_came_later(sail):
    minute = 60_000_000
    lines = [line(0, 10 * i + 5, "local.x", i * minute, message=i) for i in range(5)]
    lines += [line(1, 10 * i, "x", i * minute, message=100 + i, members=[i]) for i in (3, 4)]
    assert follow(sail, lines)[0] == {3: {3}, 4: {4}}


@pytest.mark.parametrize("name", ["x", "z"])
def test_a_receive_without_a_send_is_counted_and_not_guessed(sail, name):
    lines = [line(1, 10, name, 0, message=1, members=[7]), line(0, 0, "local.x", 0, what="bridge")]
    assert follow(sail, lines)[:2] == ({}, (0, 1, int(name == "x")))


def test_notices_of_a_bridge_itself_are_no_messages(sail):
    assert follow(sail, [line(0, 1, "x", 0, "$SYS/#", members=[1])])[:2] == ({}, (0, 0, 0))


@pytest.mark.parametrize(("name", "remote_clientid"), [("x", "x"), ("vm.x", None)])
@pytest.mark.parametrize(
    ("patterns", "far", "near"),
    [
        ([Pattern("#", "both", 0, "site/", "hq/")], "hq/a/b", "site/a/b"),
        ([Pattern("#", "in", 0, "site/", "")], "a", "site/a"),
        ([Pattern("+/x", "in", 0, "", "hq/")], "hq/a/x", "a/x"),
        ([Pattern("", "in", 0, "one", "hq/another")], "hq/another", "one"),
        ([Pattern("a/#", "in", 0, "1/", "hq/"), Pattern("#", "in", 0, "2/", "hq/")], "hq/a/b", "1/a/b"),
        ([Pattern("a.c/#", "in", 0, "1/", "hq/"), Pattern("#", "in", 0, "2/", "hq/")], "hq/abc/b", "2/abc/b"),
        ([Pattern("ä b-c&d~/#", "in", 0, "ö/", "hq/")], "hq/ä b-c&d~", "ö/ä b-c&d~"),
        ([Pattern("#", "out", 0, "site/", "hq/"), Pattern("#", "in")], "hq/a", "hq/a"),
    ],
)
def test_a_topic_that_a_bridge_renames_is_followed(sail, patterns, far, near, name, remote_clientid):
    bridge = Bridge("site", "x", "hq", ("hq:1883",), remote_clientid, None, tuple(patterns))
    elsewhere = Bridge("site", "x", "elsewhere", ("e:1883",), None, None, (Pattern("#", "in", 0, "wrong/", ""),))
    lines = [
        line(0, 5, name, 1, far, message=3),  # hq sends
        line(1, 8, "local." + name, 2, near, message=8, members=[12]),  # the site receives
        line(1, 9, "local." + name, 2, far, message=7),  # what the site sends has its new name already
        line(0, 9, name, 3, far, message=9, members=[13]),
    ]
    hq = np.array(xxhash.xxh64_intdigest(b"hq", 42), np.uint64).astype(np.int64).item()
    lines = [{**each, "broker": hq if each["log"] == 0 else 1} for each in lines]
    assert follow(sail, lines, [elsewhere, bridge])[0] == {3: {12}, 7: {13}}
    assert (follow(sail, lines)[1][0] == 2) == (near == far)


NEAR = """\
1: Bridge local.x doing local SUBSCRIBE on topic #
1: Connecting bridge (step 1) x (127.0.0.1:1883)
2: Received PUBLISH from p (d0, q0, r0, m0, 't', ... (1 bytes))
2: Sending PUBLISH to local.x (d0, q0, r0, m0, 't', ... (1 bytes))
"""
FAR = """\
1: New bridge connected from 127.0.0.1:35178 as x (p2, c0, k60).
2: Received PUBLISH from x (d0, q0, r0, m0, 't', ... (1 bytes))
2: Sending PUBLISH to b (d0, q0, r0, m0, 't', ... (1 bytes))
"""


@pytest.mark.parametrize("hidden", [False, True])
def test_names_that_are_hidden_do_not_keep_messages_from_being_followed(tmp_path, monkeypatch, hidden):
    monkeypatch.setenv("OVERLACE_KEY", "a key of sixteen bytes or more")
    logs = {"near.log": NEAR, "far.log": FAR}
    for name, text in logs.items():
        (tmp_path / name).write_text(text)
    options = Options(format="mosquitto", pseudonymise=hidden)
    trace = ingest_sources([str(tmp_path / name) for name in logs], str(tmp_path / "trace"), options).trace
    ((receiver,),) = trace.read("audiences")["receivers"].to_pylist()
    (sender,) = trace.read("messages")["client"].to_pylist()
    clients = trace.names["client"]
    assert len(clients) == 2
    assert ([clients[sender], clients[receiver]] == ["near/p", "far/b"]) == (not hidden)
    (link,) = trace.read("links").to_pylist()
    assert (trace.names["broker"][link["dials"]] == "near") == (not hidden)


@given(*[st.lists(st.integers(0, 40).map(lambda n: n * SLACK_US // 3), max_size=12).map(sorted)] * 2)
def test_sends_are_given_up_as_by_a_loop(sends, receives):
    rows = sorted([(at, False) for at in sends] + [(at, True) for at in receives])
    at, received = np.array(rows, np.int64).reshape(-1, 2).T
    match = oracle.pair_up(np.zeros(len(at)), at, received, np.ones(len(at), bool), SLACK_US)
    expected = [int((received[: match[i]] == 0).sum()) if match[i] >= 0 else -1 for i in np.flatnonzero(received)]
    assert pair_up(np.array(sends, np.int64), np.array(receives, np.int64)).tolist() == expected


CROSSED = {
    "end": [(0, "local.x"), (1, "x"), (1, "local.y"), (2, "y")] * 20 + [(3, "x"), (3, "local.y")],
    "part": range(2),
    "at": range(0, 12 * SLACK_US, SLACK_US // 2),
    "topic": "ttu",
    "bytes": [1, 1, 2, None],
    "way": ["send", "send", "receive", "receive", "bridge"],
    "carried": range(30),
}


def example(drawn, number):
    """Lines with names, logs and messages of their own; what goes on came well before: no circles."""
    lines, came = [], []
    for offset, row in enumerate(sorted(drawn, key=lambda row: row["at"])):
        own = 1000 * number + 100 + offset
        before = [message for message, at in came if at + SLACK_US < row["at"]]
        carried = before[row["carried"] % len(before)] if before and row["carried"] < 20 else own
        line = {name: row[name] for name in ("at", "topic", "bytes")}
        log, name = row["end"]
        line |= {"offset": offset, "log": 4 * number + log, "name": f"{name}{number}"}
        line |= {"source": 2 * line["log"] + row["part"], "broker": line["log"] + 100, "what": "crossing"}
        line |= {"filter": row["topic"], "members": None, "message": None}
        if row["way"] == "bridge":
            line["what"] = "bridge"
        if row["way"] == "send":
            line["message"] = carried
        if row["way"] == "receive":
            line |= {"message": own, "members": [own, offset % 3]}
            came.append((own, row["at"]))
        lines.append(line)
    return lines


@settings(max_examples=10)
@given(st.randoms(use_true_random=True))
def test_messages_are_followed_as_one_line_after_the_other(sail, random):
    examples = [rows(random, **CROSSED) + rows(random, **CROSSED) for _ in range(20)]
    lines, carried, links, expected = [], {}, {}, {}
    for number, drawn in enumerate(examples):
        own = example(drawn, number)
        found, over = oracle.follow(own, SLACK_US)
        lines, carried, links = lines + own, carried | found, links | over
        for row in own:
            if found.get(row["message"]) is not None and row["members"] is not None:
                expected.setdefault(oracle.root_of(row["message"], found), set()).update(row["members"])
    added, counts, shown = follow(sail, lines, hops=16)
    matched = sum(each is not None for each in carried.values())
    assert (added, counts) == (expected, (matched, len(carried) - matched, len(links)))
    table = shown.toArrow()
    times = zip(*(table[name].cast(pa.int64()).to_pylist() for name in ("since", "until")), strict=True)
    pairs = ((row["dials"] - 100, row["far"] - 100) for row in table.to_pylist())
    assert dict(zip(pairs, times, strict=True)) == links
