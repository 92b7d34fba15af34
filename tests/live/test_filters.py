from itertools import product

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from overlace.errors import BadNetwork
from overlace.live.filters import (
    ONE,
    REST,
    generalise,
    is_lost,
    link_filters,
    make_disjoint,
    normal,
    subscribed_beyond,
    widen,
)
from overlace.live.mosquitto_files import bridge_filter
from overlace.matching.topics import match
from tests.strategies import trees

WORDS = ["a", "b", "", "$x", "c d"]
levels = st.lists(st.sampled_from([*WORDS, "+"]), min_size=1, max_size=4)
filters = st.builds(lambda some, rest: "/".join([*some, *rest]), levels, st.sampled_from([[], ["#"]])).filter(bool)
filters = filters | st.just("#")
TOPICS = ["/".join(each) for n in range(1, 6) for each in product(WORDS, repeat=n) if any(each) or n > 1]


def topics_of(filter_):
    """Which of many topics a filter matches, by the matcher that observations use."""
    return {TOPICS[topic] for _, topic in match([filter_], "mqtt", TOPICS).tolist()}


def split(filter_):
    return tuple(filter_.split("/"))


def overlap(left, right):
    """Whether some topic is matched by both."""
    if hides(left, right) or hides(right, left):
        return False
    for mine, theirs in zip(left, right, strict=False):
        if REST in (mine, theirs):
            return True
        if mine != theirs and ONE not in (mine, theirs):
            return False
    rest = left[len(right) :] or right[len(left) :]
    return not rest or rest[0] == REST  # a/# matches a, too


def hides(wild, topic):
    """Whether a first wildcard leaves out the topics of another filter, since they begin with $."""
    return wild[0] in (ONE, REST) and topic[0].startswith("$")


def covers(wide, narrow):
    """Whether every topic that the narrow one matches is matched by the wide one."""
    return overlap(wide, narrow) and generalise(wide, narrow) == normal(wide)


# Laws


@given(filters, filters)
def test_filters_overlap_where_one_topic_is_matched_by_both(left, right):
    assume({left, right} != {"/#", "+"})  # they share the empty topic, which nobody can publish
    assert overlap(split(left), split(right)) == bool(topics_of(left) & topics_of(right))
    assert overlap(split(right), split(left)) == overlap(split(left), split(right))


@given(filters, filters)
def test_a_filter_covers_another_where_it_matches_all_its_topics(wide, narrow):
    assert covers(split(wide), split(narrow)) == (topics_of(wide) >= topics_of(narrow))


@given(filters, filters, filters)
def test_the_generalisation_of_two_that_overlap_is_the_least_filter_that_covers_both(left, right, other):
    if overlap(split(left), split(right)):
        made = generalise(split(left), split(right))
        assert covers(made, split(left))
        assert covers(made, split(right))
        if covers(split(other), split(left)) and covers(split(other), split(right)):
            assert covers(split(other), made)


@given(st.lists(filters, max_size=8), st.randoms(use_true_random=False))
def test_every_topic_is_matched_by_exactly_one_of_what_is_made_of_filters(some, random):
    made = make_disjoint(some)
    matched = [topic for each in made for topic in topics_of(each)]
    assert len(matched) == len(set(matched))
    assert set(matched) >= set().union(*map(topics_of, some))
    random.shuffle(some)
    assert make_disjoint(some) == made
    assert make_disjoint(made) == made


@given(st.lists(filters, max_size=6), st.lists(filters, max_size=6))
def test_of_all_disjoint_filters_that_cover_some_the_smallest_are_made(some, others):
    """What is matched beyond is what the merge needs: every other way to cover them matches it too, by one filter."""
    other = make_disjoint([*some, *others])
    for each in make_disjoint(some):
        assert sum(covers(split(wide), split(each)) for wide in other) == 1


@given(st.lists(filters, max_size=8))
def test_filters_of_which_no_two_overlap_stay_as_they_are(some):
    alone = []
    for each in some:
        if not any(overlap(split(each), split(other)) for other in alone):
            alone.append(each)
    assert set(make_disjoint(alone)) == {"#" if each == "+/#" else each for each in alone}


@given(filters)
def test_a_prefix_covers_its_filter_and_its_own_prefix_is_itself(filter_):
    assert covers(split(widen(filter_)), split(filter_))
    assert widen(widen(filter_)) == widen(filter_)


@given(st.text(st.characters(codec="utf-8") | st.sampled_from('/ $"'), min_size=1))
def test_a_filter_as_it_is_written_has_no_space_and_is_itself_where_it_had_none(filter_):
    if any(ord(letter) < 0x20 or 0x7F <= ord(letter) < 0xA0 or letter in "\u2028\u2029" for letter in filter_):
        with pytest.raises(BadNetwork, match="control character"):
            bridge_filter(filter_)
        return
    written = bridge_filter(filter_)
    assert written.split() == [written]
    assert written not in ("", '""')
    assert bridge_filter(written) == written
    if filter_.split() == [filter_] and filter_ != '""':
        assert written == filter_
    if is_lost(filter_):
        assert filter_.startswith("$")


@given(trees(2, 7), st.data())
def test_what_is_subscribed_beyond_a_link_is_found_by_cutting_it(tree, data):
    n, links = tree
    pairs = [(f"b{a}", f"b{b}") for a, b in links.tolist()]
    wanted = {f"b{i}": data.draw(st.sets(st.sampled_from("stuvw"))) for i in range(n)}
    found = subscribed_beyond(pairs, wanted)
    assert len(found) == 2 * len(pairs)
    for near, far in found:
        side, grown = {far}, True
        while grown:
            more = {b for p in pairs for a, b in (p, p[::-1]) if a in side and (a, b) not in ((near, far), (far, near))}
            side, grown = side | more, not more <= side
        assert found[near, far] == set().union(*(wanted[broker] for broker in side))


@given(trees(2, 5), st.data(), st.sampled_from(["prefix", "exact", "all"]))
def test_a_message_reaches_every_subscriber_once_and_no_broker_twice(tree, data, how):
    """Bridges as Mosquitto runs them: each filter that matches sends once, and nothing goes back where it came from."""
    n, links = tree
    pairs = [(f"b{a}", f"b{b}") for a, b in links.tolist()]
    wanted = {f"b{i}": data.draw(st.lists(filters, max_size=3)) for i in range(n)}
    across = link_filters(pairs, wanted, how)
    topic = data.draw(st.sampled_from(TOPICS))
    matching = {pair: match(list(each), "mqtt", [topic]) for pair, each in across.items()}
    copies = dict.fromkeys(wanted, 0)
    stack = [("b0", None)]
    while stack:
        at, come = stack.pop()
        copies[at] += 1
        for near, far in across:
            if near == at and far != come:
                stack += [(far, at)] * len(matching[near, far])
    assert max(copies.values()) <= 1
    hears = {broker for broker, some in wanted.items() if len(match(some, "mqtt", [topic]))}
    hidden = topic.startswith("$")  # `all` leaves these out, as `#` does, and a space after $ cannot be written
    if not hidden or (how != "all" and not any(is_lost(each) for some in wanted.values() for each in some)):
        assert all(copies[broker] for broker in hears)
    assert all(" " not in each for some in across.values() for each in some)


# Examples


def test_prefixes():
    assert {each: widen(each) for each in ("fab/1/temp", "fab/+/temp", "fab/#", "alarm", "+/x", "#", "$app/a/b")} == {
        "fab/1/temp": "fab/1/#",
        "fab/+/temp": "fab/#",
        "fab/#": "fab/#",
        "alarm": "alarm/#",
        "+/x": "#",
        "#": "#",
        "$app/a/b": "$app/a/#",
    }


def test_a_space_becomes_a_wildcard_and_topics_of_the_broker_itself_cross_no_link():
    wanted = {"a": ["line 3/temp", "$SYS/broker/uptime", "$overlace/ctl/1", "$my app/x"], "b": ["x"]}
    assert link_filters([("a", "b")], wanted, "exact") == {("b", "a"): ("+/temp",), ("a", "b"): ("x",)}


def test_many_filters_are_made_disjoint_soon():
    some = [f"fab/{i}/{j}/temp" for i in range(100) for j in range(100)]
    assert len(make_disjoint(some)) == 10_000
    assert make_disjoint([*some, "fab/+/7/+"])[-1] == "fab/99/99/temp"
    assert make_disjoint([*some, "+/+/+/temp"]) == ("+/+/+/temp",)
    assert make_disjoint(map(widen, [*some, "#"])) == ("#",)
