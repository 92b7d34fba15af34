"""What comes after a window changes nothing in it: logs that agree until then give the same observation and plans."""

import json
import tempfile
from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from overlace.errors import BadOverlay, BadTrace
from overlace.ingest.options import Options
from overlace.ingest.tables import add_tables
from overlace.observe.cut import cut_at
from overlace.trace.store import Trace
from tests.engine import ingest_sources
from tests.ingest.logs import START, ingested
from tests.traces import names_in, observe

HALF = START + 1800  # the end of the training window: whole minutes
END = START + 3600

CLIENTS = ["a", "bb", "c", "dora", "e5", "f"]
BROKERS = ["oslo", "rome", "paris", "x"]
TOPICS = ["fab/1", "fab/2", "lab/1", "t"]
REGIONS = ["eu", "us", "asia"]
FILTERS = ["fab/+", "#", "lab/#", "+/1"]


def messages(first, last):
    """Lines of a log between two times, some with the broker or the receivers."""
    line = st.fixed_dictionaries(
        {"at": st.integers(first, last - 1), "client": st.sampled_from(CLIENTS), "bytes": st.integers(0, 9)},
        optional={
            "topic": st.sampled_from(TOPICS),
            "broker": st.sampled_from(BROKERS),
            "receivers": st.lists(st.sampled_from(CLIENTS), max_size=3),
            "attributes": st.lists(st.sampled_from("UVW"), max_size=2, unique=True),
        },
    )
    return st.lists(line, min_size=1, max_size=12)


def life(first, last):
    """Times of a row: begun by then or always, over by then or not."""
    time = st.just("") | st.integers(first, last - 1)
    return st.tuples(time, time).map(lambda ends: sorted(ends) if "" not in ends else ends).map(tuple)


def later_life(first, last):
    """Times of a row that begins later."""
    return st.tuples(st.integers(first, last - 1), st.just("") | st.integers(last, last + 9))


TABLES = {
    "brokers": ("broker,region,since,until", st.tuples(st.sampled_from(BROKERS), st.sampled_from(REGIONS))),
    "clients": ("client,region,since,until", st.tuples(st.sampled_from(CLIENTS), st.sampled_from(REGIONS))),
    "sessions": ("client,broker,since,until", st.tuples(st.sampled_from(CLIENTS), st.sampled_from(BROKERS))),
    "subscriptions": (
        "client,filter,group,since,until",
        st.tuples(st.sampled_from(CLIENTS), st.sampled_from(FILTERS), st.sampled_from(["", "g"])),
    ),
    "links": (
        "left,right,cost,since,until",
        st.tuples(st.sampled_from(["oslo,rome", "rome,paris", "paris,x"]), st.sampled_from("12")),
    ),
    "access": (
        "region,broker,cost",
        st.tuples(st.sampled_from(REGIONS), st.sampled_from(BROKERS), st.sampled_from("12")),
    ),
    "interests": ("client,topic", st.tuples(st.sampled_from(CLIENTS), st.sampled_from(TOPICS))),
    "advertisements": (
        "client,attributes,since,until",
        st.tuples(st.sampled_from(CLIENTS), st.sampled_from(["U", "V"])),
    ),
}
"""Columns of tables, and what tells their rows."""


KEYED = {"brokers": 1, "clients": 1, "links": 1, "access": 2}
"""Tables in which a key stands once, and how many columns tell it."""


def key_of(table, row):
    return row[: KEYED.get(table, 9)]


@st.composite
def histories(draw, first, last):
    """Lines of a log, and rows of tables that begin and end in that time."""
    found = {}
    for table, (columns, values) in TABLES.items():
        later, timed = first >= HALF, "since" in columns
        times = st.just(()) if not timed else later_life(first, last) if later else life(first, last)
        most = 4 if timed or not later else 0  # a row without times is none that comes later
        rows = st.lists(st.tuples(values, times), max_size=most, unique_by=lambda row, of=table: key_of(of, row[0]))
        found[table] = [(*value, *ends) for value, ends in draw(rows)]
    return draw(messages(first, last)), found


def added(table, before, later):
    """The rows of a table with those that come later; what was known has no second beginning."""
    known = {key_of(table, row[: len(row) - 2 * ("since" in TABLES[table][0])]) for row in before[table]}
    if table in ("brokers", "clients"):
        known = {(name,) for rows in before.values() for row in rows for each in row for name in str(each).split(",")}
    return before[table] + [row for row in later[table] if key_of(table, row[:-2]) not in known]


@st.composite
def ingests(draw):
    """The order in which a log and its tables are ingested, and whether the log comes in one piece."""
    return draw(st.permutations(["log", *TABLES])), draw(st.booleans())


def written(folder, before, after, order, together):
    """A trace of what was and what came after."""
    folder.mkdir()
    out = str(folder / "trace")
    for step in order:
        if step == "log":
            logs = [before[0] + after[0]] if together else [before[0], after[0]]
            for i, lines in enumerate(logs):
                path = folder / f"{i}.jsonl"
                path.write_text("".join(json.dumps(line) + "\n" for line in lines))
                ingest_sources([str(path)], out, options=Options(unit="s", bucket="minute", format="jsonl"))
            continue
        listed = added(step, before[1], after[1])
        path = folder / f"{step}.csv"
        path.write_text("\n".join([TABLES[step][0], *(",".join(map(str, row)) for row in listed)]) + "\n")
        if listed:
            add_tables([str(path)], step, out, {})
    return Trace.open(out)


def seen(trace):
    """The observation of the first half and its names; or why there is none."""
    window = cut_at(trace, HALF * 10**6).train
    window = (min(window[0], START * 10**6), window[1])
    try:
        return observe(trace, window), names_in(trace, window)
    except (BadOverlay, BadTrace) as error:
        return str(error).partition(": ")[2], None


@ingested(30)
@given(histories(START, HALF), histories(HALF, END), histories(HALF, END + 7200), ingests())
def test_whatever_follows_the_observation_is_the_same(before, after, otherwise, ingested):
    with tempfile.TemporaryDirectory() as folder:
        one, other = (
            seen(written(Path(folder) / name, before, later, *ingested))
            for name, later in (("one", after), ("other", otherwise))
        )
    assert one[1] == other[1]
    if one[1] is None:
        assert one[0] == other[0]
        return
    for name in ("overlay", "network", "flows", "classes", "interests", "offers", "requests", "sent", "sent_bytes"):
        mine, theirs = (getattr(each, name) for each in (one[0], other[0]))
        assert np.array_equal(mine, theirs) if isinstance(mine, np.ndarray) else mine == theirs, name
    assert one[0].digest() == other[0].digest()


def test_a_client_that_had_left_by_its_table_is_gone_whatever_its_log_shows_later():
    """What its open session is worth must not depend on whether a later line ends it."""
    none = {table: [] for table in TABLES}
    first = {"at": START + 300, "client": "a", "topic": "fab/1", "broker": "oslo", "receivers": ["a"], "bytes": 0}
    gone = {"at": START + 1100, "client": "dora", "topic": "fab/1", "broker": "rome", "receivers": [], "bytes": 0}
    before = [first, gone], {**none, "clients": [("dora", "eu", "", START)]}
    back = [{"at": HALF + 850, "broker": "oslo", "client": "dora", "bytes": 0}], none
    away = [{"at": HALF, "broker": "rome", "client": "a", "bytes": 0}], none
    with tempfile.TemporaryDirectory() as folder:
        one, other = (
            seen(written(Path(folder) / str(i), before, later, ["log", *TABLES], True))
            for i, later in enumerate((back, away))
        )
    assert one[1] == other[1]
    assert one[0].digest() == other[0].digest()
