"""Sessions, subscriptions, second sends and links: the stages against numpy on one log at a time.

A frame holds many logs, each a source: one job tries as many examples.
"""

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.pandas.types import from_arrow_schema

from overlace.ingest.history import doubles_of, first_seen_only, links_of, sessions_of, subscriptions_of
from tests.oracles import history as oracle

TIME = pa.timestamp("us", "UTC")
NUMBERS = ("source", "offset", "client", "broker", "topic", "bytes", "other")
LIFE = pa.schema(
    [
        *((name, pa.int64()) for name in NUMBERS),
        ("at", TIME),
        ("ends", pa.bool_()),
        *((name, pa.string()) for name in ("what", "filter", "dialect", "group")),
    ]
)
SEEN = pa.schema([("source", pa.int64()), ("client", pa.int64()), ("broker", pa.int64()), ("at", TIME)])

few, times = range(3), range(0, 13_000_000_000, 1_000_000_000)
CONNECTS = {
    "what": ["connect", "disconnect", "subscribe"],
    "client": few,
    "broker": few,
    "other": [None, None, *few],
    "at": times,
}
SUBSCRIBES = {
    "what": ["subscribe", "subscribe", "unsubscribe", "connect", "disconnect"],
    "client": few,
    "other": [None, None, *few],
    "at": times,
    "topic": [None, 0, 1],
    "filter": [None, None, "a/#", "+/b"],
    "group": [None, None, "g"],
    "ends": [None, False, False, True],
}
randoms = st.randoms(use_true_random=True)  # seeded by hypothesis: many rows from one draw


def rows(random, **choices):
    return [{name: random.choice(each) for name, each in choices.items()} for _ in range(random.randint(0, 20))]


def frame(sail, logs, schema):
    """The rows of some logs, each a source."""
    table = [{**row, "source": i, "offset": k} for i, log in enumerate(logs) for k, row in enumerate(log)]
    return sail.createDataFrame(pa.Table.from_pylist(table, schema), from_arrow_schema(schema))


def by_source(found, logs, *names):
    """For each log its rows of a frame, as sorted tuples with times in microseconds."""
    table = found.toArrow()
    table = table.cast(pa.schema([pa.field(f.name, pa.int64()) if f.type == TIME else f for f in table.schema]))
    lists = [[] for _ in logs]
    for row in table.to_pylist():
        lists[row["source"]].append(tuple(row[name] for name in names))
    return [sorted(each, key=repr) for each in lists]


def numbered(log, schema):
    return pa.Table.from_pylist([{**row, "offset": k} for k, row in enumerate(log)], schema)


@settings(max_examples=10)
@given(randoms)
def test_sessions_are_those_of_each_log_by_itself(sail, random):
    lives = [rows(random, **CONNECTS) for _ in range(50)]
    sightings = [rows(random, client=few, broker=few, at=times) for _ in lives]
    found = sessions_of(frame(sail, lives, LIFE), frame(sail, sightings, SEEN))
    logs = zip(lives, sightings, strict=True)
    expected = [oracle.sessions_of(numbered(life, LIFE), numbered(seen, SEEN)) for life, seen in logs]
    assert by_source(found, lives, "client", "broker", "since", "until") == expected


@settings(max_examples=10)
@given(randoms)
def test_subscriptions_are_those_of_each_log_by_itself(sail, random):
    logs = [rows(random, **SUBSCRIBES) for _ in range(50)]
    found = subscriptions_of(frame(sail, logs, LIFE))
    expected = [oracle.subscriptions_of(numbered(log, LIFE)) for log in logs]
    assert by_source(found, logs, "client", "topic", "filter", "dialect", "group", "since", "until") == expected


STEPS = {
    "what": ["subscribe", "unsubscribe", "connect", "disconnect", "all"],
    "client": range(2),
    "connection": [None, 2, 4],
    "topic": range(2),
    "ends": [True, False],
}


def as_events(steps):
    """Each step a second after the one before, in any order; taking back all is to name no topic."""
    return [
        {"what": "unsubscribe" if step["what"] == "all" else step["what"], "client": step["client"],
         "at": 1_000_000 * at, "other": step["connection"] and step["connection"] + step["client"],
         "topic": step["topic"] if step["what"] in ("subscribe", "unsubscribe") else None,
         "ends": step["ends"] if step["what"] in ("connect", "disconnect") else None}
        for at, step in enumerate(steps)
    ]  # fmt: skip


def asked(steps):
    """(client, topic, since, until) by a loop."""
    open_since, found = {}, []
    for at, step in enumerate(steps):
        whose, plain = (step["client"], step["connection"]), step["what"] in ("subscribe", "unsubscribe")
        if step["what"] == "subscribe":
            open_since.setdefault((*whose, step["topic"]), 1_000_000 * at)
        elif plain or step["ends"] or step["what"] == "all":
            over = [each for each in open_since if each[:2] == whose and (not plain or each[2] == step["topic"])]
            found += [(each[0], each[2], open_since.pop(each), 1_000_000 * at) for each in over]
    return sorted([*found, *((each[0], each[2], at, None) for each, at in open_since.items())], key=repr)


@settings(max_examples=10)
@given(randoms)
def test_subscriptions_are_those_of_a_loop_over_the_events(sail, random):
    """Connections of one client, or the client itself, ask and take back on their own."""
    logs = [rows(random, **STEPS) for _ in range(50)]
    events = [as_events(log) for log in logs]
    for each in events:
        random.shuffle(each)
    found = subscriptions_of(frame(sail, events, LIFE))
    assert by_source(found, logs, "client", "topic", "since", "until") == [asked(log) for log in logs]


def test_sessions_of_an_earlier_part_are_sightings_at_their_beginnings(sail):
    """Also of one whose beginning is not known: before all others."""
    earlier = [{"client": 0, "broker": 1, "at": None}, {"client": 1, "broker": 1, "at": 5}]
    later = [{"client": 0, "broker": 2, "at": 7}, {"client": 1, "broker": 1, "at": 8}]
    life = [{"what": "connect", "client": 1, "broker": 0, "at": 9}]
    found = sessions_of(frame(sail, [life], LIFE), frame(sail, [earlier + later], SEEN))
    assert by_source(found, [life], "client", "broker", "since", "until") == [
        [(0, 1, None, 7), (0, 2, 7, None), (1, 0, 9, None), (1, 1, 5, 9)]
    ]


@settings(max_examples=5)
@given(randoms)
def test_second_sends_are_summed_by_bucket_and_client(sail, random):
    sends = {"what": ["double", "connect"], "client": few, "bytes": [None, 1, 2], "at": times}
    logs = [rows(random, **sends) for _ in range(20)]
    bucket_us = 7_000_000_000
    expected = []
    for log in logs:
        sums = {}
        for row in (row for row in log if row["what"] == "double"):
            messages, size = sums.get(place := (row["at"] // bucket_us * bucket_us, row["client"]), (0, 0))
            sums[place] = messages + 1, size + (row["bytes"] or 0)
        expected.append(sorted(((*place, *sums[place]) for place in sums), key=repr))
    found = doubles_of(frame(sail, logs, LIFE), bucket_us)
    assert by_source(found, logs, "bucket", "client", "messages", "bytes") == expected


def test_a_subscription_that_deliveries_show_is_since_the_first_of_all_parts(sail):
    wish = {"what": "subscribe", "client": 1, "topic": 2}
    parts = [{**wish, "at": 9}, {**wish, "at": 5}, {**wish, "at": 7, "group": "g"}, {"what": "disconnect", "at": 99}]
    found = [subscriptions_of(frame(sail, [[part]], LIFE)) for part in parts]
    once = first_seen_only(found[0].unionByName(found[1]).unionByName(found[2]))
    assert by_source(once, [parts], "client", "topic", "group", "since", "until") == [
        [(1, 2, "g", 7, None), (1, 2, None, 5, None)]
    ]


LINKS = pa.schema([(name, pa.int64()) for name in ("dials", "far")] + [("since", TIME), ("until", TIME)])


@settings(max_examples=20)
@given(randoms)
def test_links_are_wired_since_they_were_first_shown(sail, random):
    """However many ingests they were shown in."""
    shown = rows(random, what=["link", "connect"], broker=range(6), other=range(6), at=times)
    dialled = rows(random, dials=range(6), far=range(6), since=times, until=[None, *times])
    dialled = [row for row in dialled if row["dials"] != row["far"]]
    over = {}
    for row in dialled:
        if row["until"] is not None:
            pair = row["dials"], row["far"]
            over[pair] = min(row["until"], over.get(pair, row["until"]))
    pairs = [((row["broker"], row["other"]), row["at"]) for row in shown if row["what"] == "link"]
    expected = oracle.links_of([((row["dials"], row["far"]), row["since"]) for row in dialled], pairs, over)

    def links(shown, dialled, earlier=None):
        table = sail.createDataFrame(pa.Table.from_pylist(dialled, LINKS), from_arrow_schema(LINKS))
        return links_of(frame(sail, [shown], LIFE), table, earlier)

    names = ("left", "right", "dials", "since", "until")
    i, k = random.randint(0, len(shown)), random.randint(0, len(dialled))
    for found in (links(shown, dialled), links(shown[i:], dialled[k:], links(shown[:i], dialled[:k]))):
        table = found.toArrow()
        assert table["wired"].to_pylist() == [True] * len(table)
        columns = [table[name].cast(pa.int64()).to_pylist() for name in names]
        assert sorted(zip(*columns, strict=True), key=repr) == sorted(expected, key=repr)
