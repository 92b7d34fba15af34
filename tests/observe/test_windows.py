"""What a window's end, a bucket of messages to a group, and a cut come to, counted in plain Python."""

import json
import random
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overlace.errors import BadTrace
from overlace.ingest.options import Options
from overlace.observe.cut import WEEK_US, cut, cut_at
from overlace.observe.observation import observe_with_names
from overlace.observe.traffic import IN_PROCESS, traffic_of
from overlace.spark.reduction import OnEngine
from overlace.trace.store import DAY_US, HOUR_US, Trace
from tests.engine import ingest_sources
from tests.observe.brute import observed as observed_by_hand
from tests.observe.brute import of_observation
from tests.observe.test_observation import times
from tests.traces import observe, trace_of

HOP = (5, 0, 0, 1, [1])
NAMES = {"client": list("abcdef"), "broker": list("uvwxyz"), "attribute": ["p", "q"]}


@st.composite
def lives(draw, left, right, most=6):
    """Pairs, each with a life or without a beginning or end, and the end of a window: often the very same time."""
    end = draw(st.integers(2, 6)) * HOUR_US
    near = st.sampled_from([None, end - 1, end, end + 1, 1, 9 * HOUR_US])
    drawn = st.tuples(st.integers(0, left), st.integers(0, right), near, near)
    rows = draw(st.lists(drawn, max_size=most, unique_by=lambda row: row[:2]))
    return end, rows


def held(end, rows):
    """The pairs that hold at the end of a window: begun before it, and ended with it or later."""
    return sorted([a, b] for a, b, since, until in rows
                  if (since is None or since < end) and (until is None or until >= end))  # fmt: skip


def table(rows, left, right, **more):
    """A table of pairs with their lives."""
    columns = list(zip(*rows, strict=True)) or [()] * 4
    return {
        left: pa.array(columns[0], pa.int64()),
        right: pa.array(columns[1], pa.int64()),
        "since": times(columns[2]),
        "until": times(columns[3]),
        **{name: pa.array([value] * len(rows)) for name, value in more.items()},
    }


def observed(folder, end, **tables):
    names = {**NAMES, "topic": list("mno")}
    return observe(trace_of(folder.mktemp("t") / "trace", [HOP], names, **tables), (0, end))


@settings(max_examples=40)
@given(lives(5, 2))
def test_interests_are_the_subscriptions_that_hold_at_the_end(tmp_path_factory, drawn):
    end, rows = drawn
    found = observed(tmp_path_factory, end, subscriptions=table(rows, "client", "topic"))
    assert found.interests.tolist() == held(end, rows)
    begun = [topic for _, topic, since, _ in rows if since is None or since < end]
    assert found.topics == max([0, *begun]) + 1  # the message is of topic 0


@settings(max_examples=40)
@given(lives(5, 2))
def test_filters_hold_as_long_as_their_subscriptions(tmp_path_factory, drawn):
    end, rows = drawn
    by_filter = table([(a, 0, c, d) for a, _, c, d in rows], "client", "topic", filter="+")
    by_filter.pop("topic")
    found = observed(tmp_path_factory, end, subscriptions=by_filter)
    assert sorted(set(found.interests[:, 0].tolist())) == sorted({client for client, _ in held(end, rows)})


@settings(max_examples=40)
@given(lives(5, 3), lives(7, 3))
def test_channels_and_requests_are_those_that_hold_at_the_end(tmp_path_factory, drawn, asked):
    (end, rows), wanted = drawn, [(a % 6, b + 1, c, d) for a, b, c, d in asked[1]]
    tables = {"channels": table(rows, "combination", "channel"), "subscriptions": table(wanted, "client", "attributes")}
    found = observed(tmp_path_factory, end, **tables)
    assert found.overlay.channels.tolist() == held(end, rows)
    requests = np.column_stack([found.requests.client, found.requests.attributes])
    assert requests.tolist() == held(end, wanted)


@settings(max_examples=40)
@given(lives(2, 2))
def test_links_and_peers_are_those_that_hold_at_the_end(tmp_path_factory, drawn):
    end, rows = drawn
    rows = [(a, b + 3, *life) for a, b, *life in rows]
    tables = {"links": table(rows, "left", "right", cost=2.0, wired=False), "peers": table(rows, "left", "right")}
    found = observed(tmp_path_factory, end, **tables)
    number = {broker: i for i, broker in enumerate(sorted({end for link in held(end, rows) for end in link}))}
    assert found.network.links.tolist() == [[number[left], number[right]] for left, right in held(end, rows)]
    assert found.overlay.mesh.tolist() == held(end, rows)


@settings(max_examples=40)
@given(lives(5, 3))
def test_offers_are_the_advertisements_that_hold_at_the_end(tmp_path_factory, drawn):
    end, rows = drawn
    found = observed(tmp_path_factory, end, advertisements=table(rows, "client", "attributes"))
    offers = np.column_stack([found.offers.publisher, found.offers.attributes])
    assert sorted(offers.tolist()) == held(end, rows)


# --- bytes of messages to groups ---------------------------------------------------------------------


@st.composite
def dealt(draw):
    """Groups of clients, and messages of any size to them whose receivers were not logged."""
    members = st.sets(st.integers(0, 5), max_size=4)
    subscriptions = [
        (client, topic, group) for topic in (0, 1) for group in (None, "a", "b") for client in sorted(draw(members))
    ] or [(0, 0, None)]
    at, sender, topic = st.integers(0, 3), st.integers(0, 2), st.integers(0, 1)
    log = draw(st.lists(st.tuples(at, sender, topic, st.integers(0, 99)), min_size=1, max_size=40))
    return subscriptions, [(hour * HOUR_US, c, t, size, None) for hour, c, t, size in log]


@settings(max_examples=60)
@given(dealt())
def test_bytes_are_dealt_with_the_messages_and_none_is_lost(tmp_path_factory, drawn):
    """The parts of a bucket have their share of its bytes, rounded down; the first one has what is left over."""
    subscriptions, log = drawn
    client, topic, group = zip(*subscriptions, strict=True)
    asked = {"client": pa.array(client, pa.int32()), "topic": pa.array(topic, pa.int32())}
    asked["group"] = pa.array(group, pa.string())
    trace = trace_of(tmp_path_factory.mktemp("t") / "trace", log, NAMES, subscriptions=asked)
    buckets = Counter()
    for at, sender, topic, size, _ in log:
        buckets[at, sender, topic, "messages"] += 1
        buckets[at, sender, topic, "bytes"] += size
    expected, count = Counter(), Counter()
    for at, sender, topic in sorted({key[:3] for key in buckets}):
        messages, size = (buckets[at, sender, topic, what] for what in ("messages", "bytes"))
        groups = {g: sorted(c for c, t, h in subscriptions if (t, h) == (topic, g)) for _, t, g in subscriptions
                  if t == topic and g}  # fmt: skip
        alone = {c for c, t, g in subscriptions if t == topic and g is None}
        parts, audience = Counter(), {}  # parts in order of their first message
        for _ in range(messages):
            turn = tuple(count[topic] % len(members) for members in groups.values())
            audience[turn] = tuple(sorted(alone | {m[i] for m, i in zip(groups.values(), turn, strict=True)}))
            parts[turn] += 1
            count[topic] += 1
        shares = {turn: size * n // messages for turn, n in parts.items()}
        shares[next(iter(shares))] += size - sum(shares.values())
        for turn, n in parts.items():
            expected[sender, topic, audience[turn], "messages"] += n
            expected[sender, topic, audience[turn], "bytes"] += shares[turn]
    found = Counter()
    for row in traffic_of(trace).to_pylist():
        for what in ("messages", "bytes"):
            found[row["client"], row["topic"], tuple(row["receivers"]), what] += row[what]
    assert +found == +expected


# --- the cut ------------------------------------------------------------------------------------------


def boundary_of(log, share):
    """Where to cut, piece by piece: (boundary, share before it), or none."""
    begin = min(log) // HOUR_US * HOUR_US
    end = max(log) // HOUR_US * HOUR_US + HOUR_US
    unit = WEEK_US if end - begin >= 2 * WEEK_US else DAY_US if end - begin >= 2 * DAY_US else HOUR_US
    at = begin // DAY_US * DAY_US if unit >= DAY_US else begin
    best = None
    while at + unit < end:
        at += unit
        before = sum(each < at for each in log) / len(log)
        if 0 < before < 1:
            best = (at, before)
            if before >= share - 1e-9:
                break
    return best


spans = st.sampled_from([30 * HOUR_US, 6 * DAY_US, 40 * DAY_US])


@settings(max_examples=80)
@given(st.data(), spans, st.sampled_from([0.1, 0.5, 0.7, 0.9, 0.99]), st.integers(0, 40), st.booleans())
def test_the_cut_leaves_traffic_on_both_sides_wherever_two_pieces_have_some(
    tmp_path_factory, data, span, share, late, gap
):
    log = data.draw(st.lists(st.integers(0, span - 1), min_size=1, max_size=12))
    log += [max(log) + (HOUR_US * 50 if gap else 0)] * late  # most of it may come last, after a silence
    trace = trace_of(tmp_path_factory.mktemp("t") / "trace", [(at, 0, 0, 1, [1]) for at in log])
    expected = boundary_of(log, share)
    if expected is None:
        with pytest.raises(BadTrace, match="too short to cut"):
            cut(trace, share)
        return
    found = cut(trace, share)
    assert (found.train[1], found.share) == (expected[0], pytest.approx(expected[1]))
    assert found.train[0] <= min(log) < found.train[1] == found.held_out[0] <= max(log) < found.held_out[1]


@pytest.mark.parametrize("seed", range(3))
def test_a_window_that_cuts_a_bucket_counts_the_bytes_of_weighted_messages(sail, tmp_path, seed):
    rng = random.Random(seed)
    rows = [
        {"at": 1_767_571_200 + rng.randrange(4 * 3600), "client": f"c{rng.randrange(4)}", "bytes": rng.randrange(90),
         "weight": rng.randint(1, 5), "receivers": [f"c{rng.randrange(4)}", "d"]}
        for _ in range(60)
    ]  # fmt: skip
    (tmp_path / "log.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    ingest_sources([str(tmp_path / "log.jsonl")], str(tmp_path / "trace"))
    trace = Trace.open(str(tmp_path / "trace"))
    begin, end = (1_767_571_200 + at for at in (1000, 9000))  # both inside a bucket
    counted = observed_by_hand([row for row in rows if begin <= row["at"] < end])
    for reader in (IN_PROCESS, OnEngine(sail)):
        found = observe_with_names(trace, (begin * 10**6, end * 10**6), reader)
        assert of_observation(*found) == counted
        assert found[0].sent_bytes.sum() == sum(r["weight"] * r["bytes"] for r in rows if begin <= r["at"] < end)


@pytest.mark.parametrize(("first", "weekend"), [(0, False), (4, False), (5, True), (6, True)])
def test_saturday_and_sunday_are_the_weekend(tmp_path, first, weekend):
    """Two days from a Monday on: the second alone has traffic after the cut."""
    monday = 4 * DAY_US  # 1970 began on a Thursday
    log = [(monday + day * DAY_US + k * HOUR_US, 0, 0, 1, [1]) for day in (first, 9) for k in range(3)]
    warning = cut(trace_of(tmp_path / "t", sorted(log)), 0.5).warning
    assert warning == (
        "100% of the messages in the training window and 0% of those held out are from weekends: the two parts may "
        "differ for that reason alone" if weekend else ""
    )  # fmt: skip


def test_a_cut_inside_a_bucket_whose_messages_are_not_all_kept_is_refused(sail, tmp_path):
    """Rows of counts are traffic without messages: such a cut would lose them."""
    rows = [{"at": 1_767_571_200 + 600 * k, "client": "a", "receivers": ["b"]} for k in range(30)]
    (tmp_path / "log.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "counts.csv").write_text("hour,client,topic,messages,bytes\n2026-01-05T01:00:00Z,a,t,70,5\n")
    for name, how in (("log.jsonl", Options(bucket="hour")), ("counts.csv", Options(format="counts"))):
        ingest_sources([str(tmp_path / name)], str(tmp_path / "trace"), how)
    trace, second = Trace.open(str(tmp_path / "trace")), 1_767_571_200 + 3600
    for reader in (IN_PROCESS, OnEngine(sail)):
        with pytest.raises(BadTrace, match="does not keep all messages. Name a time between two buckets"):
            cut_at(trace, (second + 1800) * 10**6, reader)
        assert cut_at(trace, second * 10**6, reader).share == 6 / 100
        assert cut_at(trace, (second + 3600 + 1800) * 10**6, reader).share == (6 + 76 + 3) / 100
