import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from overlace.ingest.bridges import _roots, bridge_lines, follow
from overlace.ingest.encode import encode
from overlace.ingest.events import PLAIN, events
from overlace.ingest.sources import Source
from overlace.ingest.staging import Job
from overlace.ingest.topologies import Bridge, Pattern

STAGED = PLAIN.append(pa.field("source", pa.int32())).append(pa.field("log", pa.int32()))


def line(source, offset, client, at, topic="t", size=1, key=None, receivers=None, kind="follows"):
    reason = "bridge" if kind == "follows" else None
    return {"source": source, "log": source, "offset": offset, "client": client, "at": at, "topic": topic,
            "bytes": size, "key": key, "receivers": receivers, "kind": kind, "reason": reason}  # fmt: skip


def staged(lines):
    return bridge_lines(pa.Table.from_pylist(lines, STAGED))


def added(found):
    rows = found.receivers.to_pylist()
    return {(r["source"], r["offset"]): sorted(r["receiver_distinct"]) for r in rows}


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), max_size=20), st.randoms(use_true_random=False))
def test_each_receive_belongs_to_the_send_of_its_turn(messages, random):
    """Whatever the interleaving of topics and sizes, and the order of the lines."""
    lines, expected = [line(0, 0, "local.x", 0, kind="bridge"), line(1, 0, "x", 0, kind="bridge")], {}
    for i, (topic, size) in enumerate(messages):
        at = i * 1_000_000
        lines.append(line(0, 10 * i + 5, "local.x", at, f"t{topic}", size, key=str(10 * i)))
        lines.append(line(1, 10 * i + 7, "x", at + 1_000_000, f"t{topic}", size, receivers=[f"r{i}"]))
        expected[0, 10 * i] = [f"r{i}"]
    random.shuffle(lines)
    found = follow(staged(lines))
    assert added(found) == expected
    assert (found.matched, found.lost, found.links) == (len(messages), 0, [(0, 1)])


def test_a_message_is_followed_through_as_many_bridges_as_it_took():
    lines = [
        line(0, 5, "local.x", 1, key="3"),  # message 3 of broker 0 goes out
        line(1, 8, "x", 2, receivers=["b"]),  # comes to broker 1, where b has it
        line(1, 9, "y", 2, key="8"),  # and goes on
        line(2, 4, "local.y", 3, receivers=["c"]),  # to broker 2
    ]
    found = follow(staged(lines))
    assert added(found) == {(0, 3): ["b", "c"]}
    assert found.links == [(0, 1), (2, 1)]


def test_what_was_sent_before_the_other_log_begins_is_not_taken_for_what_came_later():
    minute = 60_000_000
    lines = [line(0, 10 * i + 5, "local.x", i * minute, key=str(10 * i)) for i in range(5)]
    lines += [line(1, 10 * i, "x", i * minute, receivers=[f"r{i}"]) for i in (3, 4)]
    assert added(follow(staged(lines))) == {(0, 30): ["r3"], (0, 40): ["r4"]}


@pytest.mark.parametrize("client", ["x", "z"])
def test_a_receive_without_a_send_is_counted_and_not_guessed(client):
    lines = [line(1, 10, client, 0, receivers=["r"]), line(0, 0, "local.x", 0, kind="bridge")]
    found = follow(staged(lines))
    assert (found.matched, found.lost) == (0, 1)
    assert found.receivers.num_rows == 0


def test_names_that_are_hidden_do_not_keep_messages_from_being_followed():
    lines = [
        line(0, 3, "p", 1, kind="message", receivers=[]),
        line(0, 5, "local.x", 1, key="3"),
        line(1, 8, "x", 2, receivers=["b"]),
    ]
    job = Job("trace", "staging", (), key=b"secret")
    tables = []
    for source in (0, 1):
        own = pa.Table.from_pylist([each for each in lines if each["source"] == source], STAGED)
        batch = events(**{name: own[name] for name in PLAIN.names})
        life = encode([batch], job, Source("", "", "", 0, 0, "mosquitto", {})).life
        numbers = pa.array([source] * life.num_rows, pa.int32())
        tables.append(life.append_column("source", numbers).append_column("log", numbers))
    found = follow(bridge_lines(pa.concat_tables(tables)))
    ((place, names),) = added(found).items()
    assert place == (0, 3)
    assert names != ["b"]


def test_notices_of_a_bridge_itself_are_no_messages():
    assert staged([line(0, 1, "x", 0, "$SYS/#", receivers=["r"])]).num_rows == 0
    assert follow(staged([])).links == []


@pytest.mark.parametrize(
    ("patterns", "far", "near"),
    [
        ([Pattern("#", "both", 0, "site/", "hq/")], "hq/a/b", "site/a/b"),
        ([Pattern("#", "in", 0, "site/", "")], "a", "site/a"),
        ([Pattern("+/x", "in", 0, "", "hq/")], "hq/a/x", "a/x"),
        ([Pattern("", "in", 0, "one", "hq/another")], "hq/another", "one"),
        ([Pattern("a/#", "in", 0, "1/", "hq/"), Pattern("#", "in", 0, "2/", "hq/")], "hq/a/b", "1/a/b"),
        ([Pattern("a.c/#", "in", 0, "1/", "hq/"), Pattern("#", "in", 0, "2/", "hq/")], "hq/abc/b", "2/abc/b"),
        ([Pattern("#", "out", 0, "site/", "hq/"), Pattern("#", "in")], "hq/a", "hq/a"),
    ],
)
@pytest.mark.parametrize(("client", "remote_clientid"), [("x", "x"), ("vm.x", None)])
def test_a_topic_that_a_bridge_renames_is_followed(patterns, far, near, client, remote_clientid):
    bridge = Bridge("site", "x", "hq", ("hq:1883",), remote_clientid, None, tuple(patterns))
    lines = [
        line(0, 5, client, 1, far, key="3"),  # hq sends
        line(1, 8, "local." + client, 2, near, receivers=["b"]),  # the site receives
        line(1, 9, "local." + client, 2, far, key="7"),  # what the site sends has its new name already
        line(0, 9, client, 3, far, receivers=["c"]),
    ]
    found = follow(staged(lines), [bridge])
    assert added(found) == {(0, 3): ["b"], (1, 7): ["c"]}
    assert (follow(staged(lines)).matched == 2) == (near == far)


# Columns against the loops that they replace


def roots_by_loop(source, offset, into, out_of, key):
    """Follow each receive up, one send at a time."""
    place = {(s, o): i for i, (s, o) in enumerate(zip(source[into].tolist(), offset[into].tolist(), strict=True))}
    found = []
    for i in range(len(into)):
        for _ in range(65):
            carried = (int(source[out_of[i]]), int(key[out_of[i]]))
            if carried not in place:
                break
            i = place[carried]
        found.append(carried)
    return found


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 10), st.booleans()), max_size=40), st.data())
def test_messages_are_followed_up_as_by_a_loop(chain, data):
    """Each receive is of a send that passes on a message of its log, or a receive that came earlier."""
    source, offset, key, into, out_of, came = [], [], [], [], [], []
    for i, (at, to, again) in enumerate(chain):
        before = data.draw(st.sampled_from(came)) if again and came else (at, 1000 + i)
        source += [before[0], to]
        offset += [2000 + i, 3000 + i]
        key += [str(before[1]), None]
        out_of.append(2 * i)
        into.append(2 * i + 1)
        came.append((to, 3000 + i))
    columns = (np.array(each, dtype=np.int64) for each in (source, offset, into, out_of))
    source, offset, into, out_of = columns
    found = _roots(source, offset, into, out_of, pa.chunked_array([pa.array(key, pa.string())]))
    assert list(zip(*(each.tolist() for each in found), strict=True)) == roots_by_loop(
        source, offset, into, out_of, [None if each is None else int(each) for each in key]
    )
