"""What follows an observed window, message by message and by hand: who is new, where, and what that costs."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overlace.observe.cut import cut
from overlace.observe.known import known_as, known_in
from overlace.observe.later import had_traffic, later, strangers
from overlace.observe.observation import observe_with_names
from overlace.observe.traffic import IN_PROCESS
from overlace.replay.measure import measure
from overlace.spark.reduction import OnEngine
from overlace.trace.store import HOUR_US, Trace
from overlace.trace.tables import TIME
from tests.traces import trace_of

CLIENTS, BROKERS, CUT = 7, 4, 10 * HOUR_US
LINKS = {"left": [0, 1, 2], "right": [1, 2, 3], "cost": [1.0, 2.0, 4.0], "wired": [True] * 3}
NAMES = {"client": [f"c{i}" for i in range(CLIENTS)], "broker": [f"b{i}" for i in range(BROKERS)]}

one = st.tuples(
    st.integers(0, 20), st.integers(0, CLIENTS - 1), st.sets(st.integers(0, CLIENTS - 1), min_size=1, max_size=3)
)
logs = st.lists(one, min_size=1, max_size=25)
homes = st.lists(st.integers(0, BROKERS - 1), min_size=CLIENTS, max_size=CLIENTS)


def written(folder, log, home, keep_messages):
    """A trace of (hour, sender, receivers); each message has a second of its own."""
    messages = [(CUT - HOUR_US, 0, 0, 1, [1])]  # so that something is known
    messages += [(h * HOUR_US + i, c, 0, 1, sorted(to)) for i, (h, c, to) in enumerate(sorted(log, key=lambda m: m[0]))]
    sessions = {"client": range(CLIENTS), "broker": home}
    trace = trace_of(folder, messages, NAMES, links=LINKS, sessions=sessions)
    if not keep_messages:
        trace.parts.pop("messages")
    return trace, messages


def cost_by_hand(messages, home, moved, keep_messages):
    """What messages after the cut cost with newcomers at `moved` after their first message, or after its hour."""
    price = [1.0, 2.0, 4.0]
    early = {c for at, who, _, _, to in messages if at < CUT for c in (who, *to)}
    first, total, known_total = {}, 0.0, 0.0
    for at, who, _, _, to in messages:
        if at >= CUT:
            for c in (who, *to):
                if c not in early:
                    first.setdefault(c, at if keep_messages else at // HOUR_US)
    for at, who, _, _, to in messages:
        if at < CUT:
            continue
        now = at if keep_messages else at // HOUR_US
        members = {who, *to}
        where = [home[c] if c in early or first[c] == now else moved[c] for c in members]
        paid = sum(price[min(where) : max(where)]) if set(to) - {who} else 0.0
        total += paid
        known_total += paid if members <= early else 0.0
    return total, known_total


@given(logs, homes, homes, st.booleans())
def test_newcomers_are_where_the_log_has_them_until_they_have_said_something(tmp_path_factory, log, home, moved, keep):
    trace, messages = written(tmp_path_factory.mktemp("t") / "t", log, home, keep)
    observation, _ = observe_with_names(trace, (0, CUT))
    known = known_in(trace, (0, CUT))
    follows = later(trace, (CUT, 30 * HOUR_US), known, observation)
    new = [known.place["client"].tolist().index(c) for c in follows.arrivals.client.tolist()]
    early = {c for at, who, _, _, to in messages if at < CUT for c in (who, *to)}
    late = {c for at, who, _, _, to in messages if at >= CUT for c in (who, *to)}
    assert set(new) == late - early
    assert follows.arrivals.at.tolist() == sorted(follows.arrivals.at.tolist())
    assert [home[c] for c in new] == follows.arrivals.home.tolist()
    rows = follows.rows()
    if not rows.num_rows:
        return
    today, there = (
        measure(follows.stage, follows.overlay(observation.overlay, at), rows, "message").of("cost")
        for at in (None, np.array([moved[c] for c in new], dtype=np.int64))
    )
    assert today == cost_by_hand(messages, home, home, keep)[0]
    assert there == cost_by_hand(messages, home, moved, keep)[0]
    known_rows = follows.rows(np.flatnonzero(~follows.fresh))
    paid = measure(follows.stage, follows.overlay(observation.overlay), known_rows, "message")
    assert (paid.of("cost") if known_rows.num_rows else 0) == cost_by_hand(messages, home, home, keep)[1]


@settings(max_examples=10)
@given(logs, homes, st.booleans(), st.integers(CUT - HOUR_US, CUT))
def test_an_engine_that_adds_up_over_time_gives_what_this_process_gives(sail, tmp_path_factory, log, home, keep, end):
    end = end if keep else CUT
    trace, _ = written(tmp_path_factory.mktemp("t") / "t", log, home, keep)
    found = []
    for reader in (IN_PROCESS, OnEngine(sail)):
        observation, names = observe_with_names(trace, (0, end), reader)
        follows = later(trace, (end, 30 * HOUR_US), known_as(trace, names), observation, reader=reader)
        bucket, messages = reader.buckets(trace)
        sent = np.bincount(bucket // HOUR_US, messages).tolist()
        measured = measure(follows.stage, follows.overlay(observation.overlay), follows.rows(), "message").digest()
        new = [each.tolist() for each in follows.arrivals]
        found.append((observation.digest(), names, cut(trace, 0.7, reader), sent, new, follows.called, measured))
    assert found[0] == found[1]


@given(logs, homes)
def test_whom_a_newcomer_met_first_was_there_before_it(tmp_path_factory, log, home):
    trace, messages = written(tmp_path_factory.mktemp("t") / "t", log, home, True)
    observation, _ = observe_with_names(trace, (0, CUT))
    known = known_in(trace, (0, CUT))
    new = later(trace, (CUT, 30 * HOUR_US), known, observation).arrivals
    ids = known.place["client"].tolist()
    first = {ids.index(c): at for c, at in zip(new.client.tolist(), new.at.tolist(), strict=True)}
    for c, at, contact in zip(new.client.tolist(), new.at.tolist(), new.contact.tolist(), strict=True):
        me = ids.index(c)
        (_, who, _, _, to) = next(m for m in messages if m[0] == at)
        there = {x for x in (who, *to) if x != me and first.get(x, -1) < at}
        direct = there & (set(to) if who == me else {who})
        if not there:
            assert contact == -1
        else:
            met = ids.index(contact)
            assert met in (direct or there)


def test_a_client_that_was_connected_and_silent_is_new_and_one_without_a_session_is_nowhere(tmp_path):
    log = [(0, 0, 0, 1, [1]), (CUT, 2, 0, 1, [0]), (CUT + 5, 3, 0, 1, [0]), (CUT + 9, 2, 0, 1, [3, 0])]
    sessions = {"client": [0, 1, 2], "broker": [0, 1, 3]}
    trace = trace_of(tmp_path / "t", log, NAMES, links=LINKS, sessions=sessions)
    observation, names = observe_with_names(trace, (0, CUT))
    assert had_traffic(observation)[[names["client"].index(c) for c in ("c0", "c1", "c2")]].tolist() == [1, 1, 0]
    follows = later(trace, (CUT, 30 * HOUR_US), known_in(trace, (0, CUT)), observation)
    assert follows.arrivals.home.tolist() == [3, -1]
    moved = follows.overlay(observation.overlay, np.array([0, 0]))
    paid = measure(follows.stage, moved, follows.rows(), "message")
    assert paid.of("cost") == 7  # the first message of c2; its second is at c0's broker, where c3 is not counted
    assert paid.of("homeless") == 2  # to and from c3


def test_subscriptions_that_say_who_receives_make_the_first_hour_count(sail, tmp_path):
    log = [(0, 0, 0, 1, [1]), *((CUT + i * HOUR_US // 2, 2, 1, 1, None) for i in range(4))]
    sessions = {"client": [0, 1, 2], "broker": [0, 1, 3]}
    asked = {"client": [0], "topic": [1]}
    trace = trace_of(tmp_path / "t", log, NAMES, links=LINKS, sessions=sessions, subscriptions=asked)
    observation, _ = observe_with_names(trace, (0, CUT))
    for reader in (IN_PROCESS, OnEngine(sail)):
        follows = later(trace, (CUT, 30 * HOUR_US), known_in(trace, (0, CUT)), observation, reader=reader)
        moved = follows.overlay(observation.overlay, np.array([0]))
        assert measure(follows.stage, moved, follows.rows(), "message").of("cost") == 2 * 7


def test_the_share_of_deliveries_between_two_that_had_not_talked(tmp_path):
    log = [(0, 0, 0, 1, [1, 2]), (CUT, 1, 0, 1, [0]), (CUT + 1, 1, 0, 1, [2]), (CUT + 2, 5, 0, 1, [0])]
    sessions = {"client": range(CLIENTS), "broker": [0] * CLIENTS}
    trace = trace_of(tmp_path / "t", log, NAMES, links=LINKS, sessions=sessions)
    observation, _ = observe_with_names(trace, (0, CUT))
    follows = later(trace, (CUT, 30 * HOUR_US), known_in(trace, (0, CUT)), observation)
    assert strangers(follows) == 0.5  # of the two between 0, 1 and 2; 5 is new


def test_a_newcomer_is_in_the_session_of_its_first_message_and_in_its_last_region(tmp_path):
    """c2 writes while at b1 and goes to b3 later that hour; c3, silent, was at b1 long ago and comes back at b3."""
    half = HOUR_US // 2
    log = [(0, 0, 0, 1, [1]), (CUT + 5, 2, 0, 1, [0]), (CUT + 9, 3, 0, 1, [0])]
    times = [
        (0, 0, None),
        (0, 0, None),
        (CUT, 1, CUT + half),
        (CUT + half, 3, None),
        (0, 1, HOUR_US),
        (CUT + 6, 3, None),
    ]
    since, broker, until = zip(*times, strict=True)
    sessions = {
        "client": [0, 1, 2, 2, 3, 3], "broker": list(broker), "since": pa.array(since, pa.int64()).cast(TIME),
        "until": pa.array(until, pa.int64()).cast(TIME),
    }  # fmt: skip
    trace = trace_of(tmp_path / "t", log, NAMES, links=LINKS, sessions=sessions)
    observation, _ = observe_with_names(trace, (0, CUT))
    follows = later(trace, (CUT, 30 * HOUR_US), known_in(trace, (0, CUT)), observation)
    assert dict(zip(follows.called, follows.arrivals.home.tolist(), strict=True)) == {"c2": 1, "c3": 3}


@pytest.mark.parametrize("seed", range(4))
def test_shared_subscriptions_are_dealt_alike_however_rows_are_read(sail, tmp_path, seed):
    """Messages are dealt in the order of their buckets, not in that of the rows of a file."""
    rng = np.random.default_rng(seed)
    log = [(int(rng.integers(0, 20)) * HOUR_US + i, int(rng.integers(0, 4)), 0, 3, None) for i in range(40)]
    asked = {"client": [4, 5, 6], "topic": [0, 0, 0], "group": ["g", "g", "g"]}
    trace = trace_of(tmp_path / "t", sorted(log), NAMES, links=LINKS, subscriptions=asked)
    first = observe_with_names(trace)[0].digest()
    for part in trace.parts["traffic"]:
        rows = pq.read_table(f"{trace.path}/{part.path}")
        pq.write_table(rows.take(rng.permutation(rows.num_rows)), f"{trace.path}/{part.path}")
    for reader in (IN_PROCESS, OnEngine(sail)):
        assert observe_with_names(Trace.open(trace.path), None, reader)[0].digest() == first
