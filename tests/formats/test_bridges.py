import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from overlace.formats.bridges import bridge_lines, follow
from overlace.formats.events import EVENT

STAGED = EVENT.append(pa.field("source", pa.int32()))


def line(source, offset, client, at, topic="t", size=1, key=None, receivers=None, kind="follows"):
    reason = "bridge" if kind == "follows" else None
    return {"source": source, "offset": offset, "client": client, "at": at, "topic": topic, "bytes": size,
            "key": key, "receivers": receivers, "kind": kind, "reason": reason}  # fmt: skip


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


def test_notices_of_a_bridge_itself_are_no_messages():
    assert staged([line(0, 1, "x", 0, "$SYS/#", receivers=["r"])]).num_rows == 0
    assert follow(staged([])).links == []
