"""MQTT's wildcards in a Mosquitto log, against the rules level by level."""

from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from overlace.ingest.formats.mosquitto import filter_columns
from overlace.ingest.formats.mosquitto.kinds import FILTER
from overlace.ingest.formats.mosquitto.queues import filters_of, matches
from tests.matching.test_topics import is_valid, names
from tests.matching.test_topics import matches as by_the_rules

topics = st.lists(names(["", "a", "b", "$a", "g", "g2"], "/"), min_size=1, max_size=6, unique=True)
asked = names(["", "a", "b", "$a", "g", "+", "#"], "/").filter(lambda text: is_valid(text, "mqtt"))
groups = st.sampled_from(["", "$share/g/", "$share/a/", "$share/g 2/"])
filters = st.lists(st.tuples(groups, asked), min_size=1, max_size=6, unique=True)


def logged(filters, topics):
    """A log in which one client asks for these filters, and these topics are told of."""
    every = list(dict.fromkeys([*filters, *topics]))
    lines = len(filters)
    return every, SimpleNamespace(
        code=np.full(lines, FILTER),
        client=np.zeros(lines, np.int64),
        clients=pa.array(["c"]),
        topic=np.array([every.index(each) for each in filters]),
        qos=np.zeros(lines, np.int64),
        topics=pa.array(every, pa.large_string()),
    )


@given(filters, topics)
def test_a_filter_asks_for_what_the_rules_say_whoever_shares_it(rows, found):
    """MQTT 5 §4.8.2: of `$share/GROUP/FILTER` only the filter is held against a topic."""
    every, log = logged([prefix + text for prefix, text in rows], [each for each in found if each])
    coded = filters_of(log)
    for prefix, text in rows:
        for topic in filter(None, found):
            got = matches(coded, every.index(prefix + text), every.index(topic))
            assert got == by_the_rules(text, "mqtt", topic), (prefix + text, topic)


@given(filters)
def test_a_subscription_is_told_apart_into_topic_or_filter_and_group(rows):
    text = pa.array([prefix + name for prefix, name in rows], pa.large_string())
    topic, wild, group = (each.to_pylist() for each in filter_columns(text))
    for i, (prefix, name) in enumerate(rows):
        is_wild = bool({"+", "#"} & set(name.split("/")))
        assert (topic[i], wild[i]) == ((None, name) if is_wild else (name, None))
        assert (group[i] or "") == prefix.removeprefix("$share/").rstrip("/")


@pytest.mark.parametrize(("text", "topic"), [("$share/g/a/b", "a/b"), ("$share/g/+/b", "a/b"), ("$share/g/#", "a")])
def test_a_shared_filter_asks_for_what_it_would_ask_for_alone(text, topic):
    every, log = logged([text], [topic, f"g/{topic}"])
    assert matches(filters_of(log), 0, every.index(topic))
