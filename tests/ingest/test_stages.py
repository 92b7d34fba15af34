"""Events to messages to traffic: the stages against plain Python, many examples a frame."""

from collections import defaultdict
from itertools import chain

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.pandas.types import from_arrow_schema

from overlace.ingest import stages
from overlace.ingest.events import WHOLE
from overlace.trace.ids import audience_of
from overlace.trace.traffic import UNLOGGED

TIME = pa.timestamp("us", "UTC")
randoms = st.randoms(use_true_random=True)  # seeded by hypothesis: many rows from one draw
often = settings(max_examples=10)

FRAGMENT = pa.schema(
    [(name, TIME if name == "at" else pa.int64()) for name in stages.FRAGMENT] + [("keyed", pa.bool_())]
)
MESSAGE = pa.schema(
    [*FRAGMENT, *((name, pa.int64()) for name in ("widest", "last", "repeats")), ("period", pa.string())]
)
EVENT = pa.schema(
    [
        *((name, pa.string()) for name in ("kind", "what", "name", "reason")),
        *((name, pa.int64()) for name in ("source", "offset", "client", "topic", "attributes", "audience", "other")),
        *((name, pa.int64()) for name in ("bytes", "weight", "rows")),
        ("at", TIME),
        ("members", pa.list_(pa.int64())),
        ("period", pa.string()),
    ]
)
HALF = 0x7000_0000_0000_0000  # two of these are more than 63 bits


def frame(sail, rows, schema):
    return sail.createDataFrame(pa.Table.from_pylist(rows, schema), from_arrow_schema(schema))


def rows_of(found, *names):
    """The rows of a frame as sorted tuples, times in microseconds."""
    table = found.toArrow()
    table = table.cast(pa.schema([pa.field(f.name, pa.int64()) if f.type == TIME else f for f in table.schema]))
    return sorted((tuple(row[name] for name in names) for row in table.to_pylist()), key=repr)


def least(rows, name):
    return min((row[name] for row in rows if row[name] is not None), default=None)


def audience_hash(members):
    return audience_of(np.array([0, len(members)]), np.array(members, np.int64)).item()


def signed(number):
    return (number + 2**63) % 2**64 - 2**63


def fragments(random, message):
    """Some fragments of one message; one more row, or one less, breaks what must add up."""
    found = []
    balances = random.choice([[0], [0], [HALF, signed(WHOLE - HALF)], [1]])
    for i in range(random.randint(1, 4)):
        small = {name: random.choice([None, 0, 1, 2]) for name in ("client", "topic", "attributes", "bytes", "weight")}
        counts = {name: random.randint(0, 2) for name in ("heard", "publishes", "most", "new", "extra", "rows")}
        places = {"message": message, "source": random.randint(0, 2), "offset": random.randint(0, 9), "at": i}
        audience = random.choice([None, 10, 10, 20])
        balance = balances[i] if i < len(balances) else 0
        found.append({**places, **small, **counts, "audience": audience, "balance": balance, "keyed": True})
    return found


def joined(parts):
    """The fields of a message of some fragments."""
    found = {name: least(parts, name) for name in "source offset at client topic attributes audience".split()}
    found |= {name: least(parts, name) or 0 for name in ("bytes",)}
    found["weight"] = 1 if (weight := least(parts, "weight")) is None else weight
    found |= {name: sum(row[name] for row in parts) for name in ("rows", "publishes", "new")}
    found |= {name: max(row[name] for row in parts) for name in ("heard", "most", "extra")}
    found["balance"] = signed(sum(row["balance"] for row in parts))
    several = len({row["audience"] for row in parts} - {None}) > 1
    proven = found["balance"] == WHOLE
    pending = found["client"] is None or not (proven or found["balance"] == 0)
    found["state"] = "pending" if pending else "cut" if several else "whole"
    listed = found["audience"] is not None and found["most"] <= 1
    there = max(found["heard"], 1) if listed else 1
    again = 0 if proven else max(found["publishes"] - there, 0)
    found["repeats"] = max(min(again - found["extra"], found["new"]), 0)
    return found


@often
@given(randoms)
def test_fragments_of_one_message_have_its_least_values_and_add_up(sail, random):
    groups = [fragments(random, message) for message in range(200)]
    made = stages.messages_of(frame(sail, list(chain(*groups)), FRAGMENT))
    expected = [{"message": parts[0]["message"], **joined(parts)} for parts in groups]
    names = list(expected[0])
    assert rows_of(made, *names) == sorted((tuple(row[name] for name in names) for row in expected), key=repr)


@often
@given(randoms)
def test_a_fragment_of_its_own_is_the_message_that_it_alone_makes(sail, random):
    rows = [fragments(random, message)[0] for message in range(200)]
    names = [*stages.FRAGMENT, "widest", "state", "repeats"]
    alone, made = (stage(frame(sail, rows, FRAGMENT)) for stage in (stages.alone_of, stages.messages_of))
    assert rows_of(alone, *names) == rows_of(made, *names)


@often
@given(randoms)
def test_messages_whose_fragments_name_several_sets_have_all_that_they_name(sail, random):
    sets = [sorted(random.sample(range(9), random.randint(0, 4))) for _ in range(20)]
    sets = {audience_hash(each): each for each in sets}
    parts = [(random.randint(0, 30), random.choice(list(sets))) for _ in range(90)]
    cut = random.sample(range(31), 20)
    rows = [{"message": message, "audience": audience} for message, audience in parts]
    listed = frame(sail, [{"audience": key, "members": each} for key, each in sets.items()], EVENT)
    found = stages.joined_of(
        frame(sail, [{"message": message} for message in cut], FRAGMENT),
        frame(sail, rows, FRAGMENT),
        listed.select("audience", "members"),
    )
    heard = defaultdict(set)
    for message, audience in parts:
        heard[message].update(sets[audience])
    expected = [(m, audience_hash(sorted(heard[m])), len(heard[m]), sorted(heard[m])) for m in cut if heard[m]]
    assert rows_of(found, "message", "audience", "heard", "members") == sorted(expected, key=repr)


def test_sets_of_receivers_are_there_once_and_two_of_one_hash_are_refused(sail):
    sets = [{"kind": kind, "audience": i % 3, "members": [i % 3, 9]} for i in range(9) for kind in ("audience", "set")]
    other = {"kind": "set", "audience": 0, "members": [7]}
    made = frame(sail, [*sets, other], EVENT)
    expected = [(i, [i, 9]) for i in range(3)]
    assert rows_of(stages.audiences_of(made), "audience", "members") == expected
    with pytest.raises(
        Exception, match=r"two sets of receivers have the hash 0: those with the ids \[0, 9\] and \[7\]"
    ):
        rows_of(stages.audiences_of(made, "set"), "audience", "members")


@often
@given(randoms)
def test_names_are_there_once_since_they_first_came_up(sail, random):
    """Those of attributes and of lines without a time since ever."""
    shown = [
        {"kind": "name", "what": random.choice(["client", "topic"]), "other": i, "name": f"n{i}", "at": at}
        for i in (random.randint(0, 20) for _ in range(100))
        for at in [random.choice([None, *range(50)])]
    ]
    since = defaultdict(list)
    for row in shown:
        since[row["what"], row["other"], row["name"]].append(row["at"])
    expected = [(*name, None if None in times else min(times)) for name, times in since.items()]
    found = stages.names_of(frame(sail, [*shown, {"kind": "seen", "name": "x"}], EVENT))
    assert rows_of(found, "kind", "id", "name", "since") == sorted(expected, key=repr)


def test_two_names_of_one_id_are_refused(sail):
    rows = [{"kind": "name", "what": "client", "other": 5, "name": name, "at": 1} for name in ("b", "a", "b")]
    apart = [{**row, "what": row["name"]} for row in rows]
    assert len(rows_of(stages.names_of(frame(sail, apart, EVENT)), "kind", "name")) == 2
    with pytest.raises(Exception, match="overlace: two names of kind client have one id: a and b"):
        rows_of(stages.names_of(frame(sail, rows, EVENT)), "name")


KEYS = ("period", "source", "client", "topic", "attributes")
SUMS = ("messages", "rows", "bytes", "repeats")


def summed(rows, bucket_us, of_row):
    """Rows of traffic by plain addition."""
    sums = defaultdict(lambda: [0] * len(SUMS))
    for row in rows:
        audience = UNLOGGED if row["audience"] is None else row["audience"]
        place = (*(row[name] for name in KEYS), row["at"] // bucket_us * bucket_us, audience)
        sums[place] = [a + b for a, b in zip(sums[place], of_row(row), strict=True)]
    return sorted(((*place, *each) for place, each in sums.items()), key=repr)


@often
@given(randoms)
def test_traffic_is_messages_summed_up_and_so_are_counts(sail, random):
    few = {name: [None, 1, 2] for name in ("topic", "attributes", "audience")}
    small = {name: range(4) for name in ("source", "last", "client", "bytes", "weight", "repeats")}
    choices = {**few, **small, "at": range(-30, 30), "period": ["a", "b"]}
    rows = [{name: random.choice(each) for name, each in choices.items()} for _ in range(300)]
    names = (*KEYS, "bucket", "audience", *SUMS)

    def of_message(row):
        own = row["repeats"] if row["last"] == row["source"] else 0
        return row["weight"], 1, row["bytes"] * row["weight"], own

    assert rows_of(stages.traffic_of(frame(sail, rows, MESSAGE), 7), *names) == summed(rows, 7, of_message)

    counts = [{**row, "kind": "counts", "weight": random.choice([None, 5])} for row in rows]
    found = stages.counts_of(frame(sail, [*counts, {"kind": "message"}], EVENT), 7)
    assert rows_of(found, *names) == summed(counts, 7, lambda row: (row["weight"] or 1, 1, row["bytes"], 0))


@often
@given(randoms)
def test_accounts_are_lines_by_source_and_reason_with_the_first_sample(sail, random):
    choices = {"what": ["bad", "ignored"], "reason": [None, "x", "y"], "source": range(3), "rows": range(5)}
    rows = [{name: random.choice(each) for name, each in choices.items()} for _ in range(100)]
    rows = [{**r, "kind": "account", "offset": i, "name": random.choice([None, f"s{i}"])} for i, r in enumerate(rows)]
    kinds = defaultdict(list)
    for row in rows:
        kinds[row["source"], row["what"], row["reason"]].append(row)
    random.shuffle(rows)
    expected = [
        (*place, sum(row["rows"] for row in own), next((row["name"] for row in own if row["name"]), None))
        for place, own in kinds.items()
    ]
    found = stages.accounts_of(frame(sail, rows, EVENT))
    assert rows_of(found, "source", "what", "reason", "rows", "sample") == sorted(expected, key=repr)


@often
@given(randoms)
def test_rows_that_repeat_those_of_other_sources_are_the_later_sources_own(sail, random):
    """As many of each as there are, beginning with the last."""
    parts = [{"message": random.randint(0, 40), "source": random.randint(0, 4), "new": random.randint(0, 3)}
             for _ in range(150)]  # fmt: skip
    messages = [
        {"message": m, "source": random.randint(0, 4), "last": random.randint(0, 4), "repeats": random.randint(0, 6)}
        for m in range(41)
    ]
    expected = defaultdict(int)
    for message in messages:
        left = message["repeats"]
        for source in range(4, -1, -1) if message["last"] != message["source"] else ():
            own = sum(p["new"] for p in parts if (p["message"], p["source"]) == (message["message"], source))
            expected[source] += min(own, left)
            left -= min(own, left)
    found = stages.repeats_of(frame(sail, messages, MESSAGE), frame(sail, parts, FRAGMENT))
    assert {row for row in rows_of(found, "source", "repeats") if row[1]} == {row for row in expected.items() if row[1]}
