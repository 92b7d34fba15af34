"""Filters on content: PART10 §2.1 as laws."""

import math
import re
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from overlace.errors import BadFilter, BadTrace, Unknown
from overlace.matching.content.columns import Columns
from overlace.matching.content.filters import (
    Constraint,
    advertised,
    check_types,
    covers,
    format_filter,
    intersects,
    is_satisfiable,
    matches,
    parse_filter,
)
from tests.oracles.content import matched, promised, telling_numbers, texts_over

NAMES = ("x", "y", "z")
order = ["<", "<=", ">", ">="]
parts = ["prefix", "suffix", "contains"]


def constraints(names=NAMES, text="ab\0", text_order=True):
    """Few names, few values, so that filters often have to do with each other."""
    name = st.sampled_from(names)
    texts = st.text(text, max_size=2)
    operators = ["=", "!=", *parts, *(order if text_order else [])]
    return st.one_of(
        st.builds(Constraint, name, st.sampled_from(["=", "!=", *order]), st.integers(0, 4)),
        st.builds(Constraint, name, st.sampled_from(operators), texts),
        st.builds(Constraint, name, st.sampled_from(["=", "!="]), st.booleans()),
        st.builds(Constraint, name, st.just("exists")),
    )


def filters(most=4, **given):
    return st.lists(constraints(**given), max_size=most).map(tuple)


values = st.one_of(st.integers(-1, 5), st.sampled_from([0.5, 2.5]), st.text("ab\0", max_size=4), st.booleans())
messages = st.dictionaries(st.sampled_from(NAMES), values, max_size=3)
one_name = {"names": ("x",)}


@given(messages, filters())
def test_matching_and_advertising_are_what_the_thesis_defines(message, filter):
    assert matches(message, filter) == matched(message, filter)
    assert advertised(message, filter) == promised(message, filter)


@given(filters(), filters(), st.lists(messages, max_size=8))
def test_a_covering_filter_matches_whatever_the_covered_one_does(wide, narrow, found):
    if covers(wide, narrow):
        assert all(matches(message, wide) for message in found if matches(message, narrow))


@given(filters(), filters(), st.lists(messages, min_size=1, max_size=8))
def test_a_part_of_a_filter_covers_it(some, more, found):
    assert covers(some, some + more)
    assert covers(some, more + some)
    assert all(matches(message, some) for message in found if matches(message, some + more))


@given(filters(3, **one_name), filters(3, **one_name), filters(3, **one_name))
def test_covering_is_a_preorder(a, b, c):
    assert covers(a, a)
    if covers(a, b) and covers(b, c):
        assert covers(a, c)


@given(filters(2, **one_name), filters(2, **one_name), filters(2, **one_name), filters(2, **one_name))
def test_covering_is_transitive_along_chains_that_are_made(a, b, c, d):
    """Drawn filters seldom cover each other: conjunctions do."""
    wide, middle, narrow = a, a + b, a + b + c
    assert covers(wide, middle)
    assert covers(middle, narrow)
    assert covers(wide, narrow)
    if covers(d, middle):
        assert covers(d, narrow)
    if covers(middle, d):
        assert covers(wide, d)


def number_filters(most):
    each = st.builds(Constraint, st.just("x"), st.sampled_from(["=", "!=", *order]), st.integers(0, 4))
    return st.lists(each, max_size=most).map(tuple)


@given(number_filters(3), number_filters(4))
def test_covering_misses_nothing_on_numbers(wide, narrow):
    tried = [{"x": x} for x in telling_numbers(wide + narrow)] + [{}]
    assert covers(wide, narrow) == all(matched(m, wide) for m in tried if matched(m, narrow))
    assert is_satisfiable(narrow) == any(matched(m, narrow) for m in tried)


@given(st.lists(st.sampled_from([1.0, math.nextafter(1, 2), math.nextafter(1, 0)]), max_size=3, unique=True))
def test_holes_can_use_up_a_range_of_numbers(holes):
    near = tuple(Constraint("x", "!=", hole) for hole in holes)
    span = (Constraint("x", ">", math.nextafter(math.nextafter(1, 0), 0)), Constraint("x", "<=", math.nextafter(1, 2)))
    assert is_satisfiable(near + span) == (len(holes) < 3)


TEXTS = [{"x": text} for text in texts_over("abc", 6)] + [{}]
ZEROS = [{"x": text} for text in texts_over("\0ab", 6)] + [{}]


def text_filters(most, operators, letters="ab"):
    each = st.builds(Constraint, st.just("x"), st.sampled_from(operators), st.text(letters, max_size=2))
    return st.lists(each, max_size=most).map(tuple)


@given(text_filters(3, ["=", "!=", *parts]), text_filters(2, ["=", *parts]), text_filters(1, ["!="]))
def test_covering_misses_nothing_on_texts_without_order(wide, narrow, hole):
    """A letter that no constraint has (c) tells apart what only seems to follow."""
    narrow += hole
    assert covers(wide, narrow) == all(matched(m, wide) for m in TEXTS if matched(m, narrow))


@given(text_filters(3, ["=", "!=", *order, *parts], "ab\0"), text_filters(3, ["=", "!=", *order, *parts], "ab\0"))
def test_covering_on_texts_with_order_is_never_wrong(wide, narrow):
    if covers(wide, narrow):
        assert all(matched(m, wide) for m in ZEROS if matched(m, narrow))


@given(text_filters(3, ["=", "!=", *order, *parts], "ab\0"))
def test_whether_a_text_can_match_is_decided_exactly(filter):
    assert is_satisfiable(filter) == any(matched(m, filter) for m in ZEROS)


@given(filters(), filters())
def test_what_nothing_can_match_is_covered_by_all_and_covers_nothing_else(some, other):
    none = (*some, Constraint("x", "<", 1), Constraint("x", ">", 2))
    assert covers(other, none)
    assert covers(none, other) == (not is_satisfiable(other))


@given(filters(3), filters(3), st.lists(messages, max_size=8))
def test_what_is_advertised_and_matched_intersects(advertisement, filter, found):
    if any(promised(m, advertisement) and matched(m, filter) for m in found):
        assert intersects(advertisement, filter)


@given(number_filters(3), number_filters(3))
def test_an_intersection_has_a_message(advertisement, filter):
    tried = [{"x": x} for x in telling_numbers(advertisement + filter)] + [{}]
    assert intersects(advertisement, filter) == any(promised(m, advertisement) and matched(m, filter) for m in tried)


@given(text_filters(2, ["=", "!=", *parts]), text_filters(2, ["=", "!=", *parts]))
def test_an_intersection_of_texts_has_a_message(advertisement, filter):
    found = any(promised(m, advertisement) and matched(m, filter) for m in TEXTS)
    assert intersects(advertisement, filter) == found


def test_an_intersection_is_no_covering():
    """PART10 §2.1 says that the advertisement covers the filter; neither covers the other here."""
    offer, wanted = parse_filter("close >= 10 and symbol exists"), parse_filter("close < 20")
    assert intersects(offer, wanted)
    assert not covers(offer, wanted)
    assert not covers(wanted, offer)


def test_constraints_on_one_attribute_are_alternatives_in_an_advertisement():
    offer = parse_filter("close < 1 and close > 9")
    assert not is_satisfiable(offer)
    assert advertised({"close": 0.5}, offer)
    assert intersects(offer, parse_filter("close > 5"))
    assert not intersects(offer, parse_filter("close >= 1 and close <= 9"))
    assert not intersects(offer, parse_filter("close > 5 and volume exists"))


@pytest.mark.parametrize(
    ("wide", "narrow", "covering"),
    [
        ("s prefix 'A'", "s prefix 'AB'", True),
        ("s prefix 'AB'", "s prefix 'A'", False),
        ("s contains 'B'", "s prefix 'AB'", True),
        ("s contains 'BA'", "s prefix 'AB' and s suffix 'AB'", False),
        ("s prefix 'A'", "s = 'AAPL'", True),
        ("s != 'IBM'", "s prefix 'A'", True),
        ("s != 'AAPL'", "s prefix 'A'", False),
        ("s >= 'A' and s < 'B'", "s prefix 'A'", True),
        ("s prefix 'A'", "s >= 'A' and s < 'B'", True),
        ("s exists", "s = 'A'", True),
        ("s exists", "t = 'A'", False),
        ("x > 1", "x = 2", True),
        ("x != 3", "x > 3", True),
        ("x >= 3 and x != 3", "x > 3", True),
        ("x > 3", "x >= 3 and x != 3", True),
        ("x < 3", "x <= 3 and x != 3", True),
        ("x = 1", "x = true", False),
        ("x = 'a'", "x = 1 and x = 'b'", True),
        ("f exists", "f != true", True),
        ("f = false", "f != true", True),
        ("true", "x = 1", True),
        ("x = 1", "true", False),
    ],
)
def test_covering_by_example(wide, narrow, covering):
    assert covers(parse_filter(wide), parse_filter(narrow)) == covering


odd_names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=6)
odd_values = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=6),
    st.floats(allow_nan=False, allow_infinity=False),
    st.booleans(),
)


@st.composite
def odd_constraints(draw):
    name, value = draw(odd_names | st.sampled_from(["and", "true", "exists", "a.b", "a-b", 'a"b'])), draw(odd_values)
    if draw(st.integers(0, 9)) == 0:
        return Constraint(name, "exists")
    operators = ["=", "!="] if isinstance(value, bool) else ["=", "!=", *order]
    return Constraint(name, draw(st.sampled_from(operators + (parts if isinstance(value, str) else []))), value)


@given(st.lists(odd_constraints(), max_size=4).map(tuple))
def test_a_filter_written_and_read_is_the_same(filter):
    assert parse_filter(format_filter(filter)) == filter


def test_both_ways_of_writing_are_read():
    ours = "class = 'STOCK' and close > 10 and symbol prefix 'A' and name suffix 'x' and volume exists and low != -1.5"
    theirs = (
        "[class,eq,'STOCK'],[close,>,10], [symbol,str-prefix,'A'],[name,str-postfix,\"x\"],"
        "[volume,isPresent,0],[low,neq,-1.5]"
    )
    assert format_filter(parse_filter(theirs)) == ours
    assert parse_filter("[class,eq,STOCK]") == parse_filter("class == 'STOCK'") == (Constraint("class", "=", "STOCK"),)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "an empty filter"),
        ("a", "found the end at character 2 of 'a', expected an operator"),
        ("a = b", "found 'b' at character 5 of 'a = b', expected a value: 'text' in single quotes"),
        ("a = 'x", "expected the ' that ends the quoted text"),
        ("a prefix 3", "a number can be compared by = != < <= > >= only"),
        ("a < true", "a flag can be compared by = != only"),
        ("a = 1 or b = 2", "expected 'and' or the end"),
        ("a = 1e999", "expected text, a finite number"),
        ("[a,eq]", "found no value"),
        ("[a,like,1]", "found 'like,1]' at character 4"),
        ("[a,eq,1", "expected [attribute,operator,value]"),
        ("= 3", "found '= 3' at character 1"),
    ],
)
def test_what_cannot_be_read_is_refused_in_one_line(text, message):
    with pytest.raises(BadFilter, match=re.escape(message)) as refused:
        parse_filter(text)
    assert "\n" not in str(refused.value)


def test_a_value_of_another_type_than_its_attribute_is_refused():
    types = {"close": "number", "symbol": "text"}
    check_types(parse_filter("close > 1 and symbol prefix 'A' and close exists"), types)
    with pytest.raises(BadFilter, match="close = '1': found a text, but close is a number"):
        check_types(parse_filter("close = '1'"), types)
    with pytest.raises(Unknown, match="no attribute is called 'clos'. Nearest: close"):
        check_types(parse_filter("clos = 1"), types)


@pytest.mark.parametrize("value", [math.nan, math.inf, "\ud800", [1], b"x"])
def test_a_value_that_cannot_be_compared_is_refused(value):
    with pytest.raises(BadFilter, match="^x: found"):
        Constraint("x", "=", value)


def test_one_true_and_yes_are_three_values():
    one, true, text = Constraint("x", "=", 1), Constraint("x", "=", True), Constraint("x", "=", "1")
    assert len({one, true, text}) == 3
    assert Constraint("x", "=", np.int64(1)) == one == Constraint("x", "=", np.float32(1))
    assert [matches({"x": value}, (one,)) for value in (1, 1.0, True, "1", None, math.nan)] == [True, True] + [
        False
    ] * 4


@given(st.lists(st.fixed_dictionaries({}, optional={"x": st.integers(0, 3), "s": st.text("ab"), "f": st.booleans()})))
def test_columns_hold_the_messages(given):
    assert list(Columns.from_messages(given).messages()) == given


def test_columns_come_from_arrow_of_many_kinds():
    table = pa.table({
        "count": pa.array([1, None, 3], pa.int8()),
        "price": pa.array([1.5, math.nan, None], pa.float32()),
        "name": pa.array(["a", None, "a"], pa.large_string()),
        "twice": pa.DictionaryArray.from_arrays(pa.array([0, 1, None], pa.int8()), pa.array(["b", "b"])),
        "view": pa.array(["a", None, "b"], pa.string_view()),
        "exact": pa.array([Decimal("1.5"), None, None]),
        "on": pa.array([True, None, False]),
        "none": pa.nulls(3),
    })  # fmt: skip
    columns = Columns.from_batch(table)
    kinds = ("number", "number", "text", "text", "text", "number", "flag")
    assert columns.types() == dict(zip(table.column_names, kinds, strict=False))
    assert list(columns.messages()) == [
        {"count": 1, "price": 1.5, "name": "a", "twice": "b", "view": "a", "exact": 1.5, "on": True},
        {"twice": "b"},
        {"count": 3, "name": "a", "view": "b", "on": False},
    ]
    assert Columns.from_batch(table.to_batches()[0], ["name"]).types() == {"name": "text"}


def test_a_column_that_can_be_no_attribute_is_refused():
    times = pa.table({"when": pa.array([0], pa.timestamp("s"))})
    with pytest.raises(BadTrace, match=r"column when: found timestamp\[s\], expected text, a number or a flag"):
        Columns.from_batch(times)
    with pytest.raises(Unknown, match="no column is called 'whem'"):
        Columns.from_batch(times, ["whem"])
    with pytest.raises(BadTrace, match="attribute x: found values of types number and text"):
        Columns.from_messages([{"x": 1}, {"x": "1"}])
