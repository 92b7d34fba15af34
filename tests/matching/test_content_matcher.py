"""The matcher gives what the definition gives, however filters are laid out and whenever they come and go."""

import pickle

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overlace.errors import Unknown
from overlace.matching.content import matcher as matching
from overlace.matching.content import segment
from overlace.matching.content.columns import Columns
from overlace.matching.content.filters import parse_filter
from overlace.matching.content.matcher import Matcher
from tests.matching.test_content_filters import filters
from tests.oracles.content import matched

LAYOUTS = {
    "one by one": {"FEW": 1000},
    "bitmaps": {"FEW": 0, "ENDS": 1, "HEAVY": 0},
    "lists": {"FEW": 0, "ENDS": 1, "HEAVY": 1000},
    "one bucket": {"FEW": 2, "BITS": 1},
}
KINDS = {
    "number": st.integers(-1, 5) | st.sampled_from([0.5, 2.5, np.inf, -np.inf]),
    "text": st.text("ab\0", max_size=4),
    "flag": st.booleans(),
}


@st.composite
def batches(draw, most=6):
    """Messages in which an attribute has one type, now and then absent."""
    kinds = {name: KINDS[draw(st.sampled_from(list(KINDS)))] for name in "xyz"}
    return draw(st.lists(st.fixed_dictionaries({}, optional=kinds), min_size=1, max_size=most))


def literal_match(numbered, messages):
    numbered = list(numbered)
    return [[number for number, each in numbered if matched(message, each)] for message in messages]


def lists(found):
    return [found.ids[a:b].tolist() for a, b in zip(found.start, found.start[1:], strict=False)]


@pytest.fixture(params=LAYOUTS)
def layout(request, monkeypatch):
    for name, value in LAYOUTS[request.param].items():
        monkeypatch.setattr(segment, name, value)


@pytest.mark.usefixtures("layout")
def test_the_matcher_matches_as_the_definition_does():
    @given(st.lists(filters(3), max_size=12), batches())
    def law(some, messages):
        found = Matcher(some).match(Columns.from_messages(messages))
        assert lists(found) == literal_match(enumerate(some), messages)
        assert found.ids.dtype == np.int32

    law()


def words(most=3):
    """Filters that ask for words, so that they are parted."""
    word = st.sampled_from(["a", "b", "ab"]).map(lambda text: f"x = '{text}'")
    number = st.builds("{} {} {}".format, st.just("y"), st.sampled_from(["<", ">=", "!=", "="]), st.integers(0, 4))
    other = st.sampled_from(["z = 'a'", "z prefix 'a'", "z != 'b'", "z exists", "x contains 'b'"])
    return st.lists(word | number | other, min_size=1, max_size=most).map(" and ".join).map(parse_filter)


parted = st.lists(
    st.fixed_dictionaries({}, optional={"x": KINDS["text"], "y": KINDS["number"], "z": KINDS["text"]}),
    min_size=1,
    max_size=6,
)


@pytest.mark.usefixtures("layout")
def test_filters_parted_by_words_match_as_the_definition_does():
    @given(st.lists(words(), max_size=16), parted)
    def law(some, messages):
        found = Matcher(some).match(Columns.from_messages(messages))
        assert lists(found) == literal_match(enumerate(some), messages)

    law()


@pytest.mark.usefixtures("layout")
def test_filters_come_and_go_without_a_trace(monkeypatch):
    monkeypatch.setattr(matching, "TAIL", 2)

    @settings(max_examples=40)
    @given(st.lists(words(), max_size=6), st.lists(words() | st.integers(0, 20), max_size=20), parted)
    def law(first, changes, messages):
        held, columns = dict(enumerate(first)), Columns.from_messages(messages)
        index = Matcher(first)
        for change in changes:
            if isinstance(change, int):
                if held:
                    gone = sorted(held)[change % len(held)]
                    index.remove(gone)
                    del held[gone]
            else:
                number = index.insert(change)
                assert number not in held
                held[number] = change
            assert lists(index.match(columns)) == literal_match(sorted(held.items()), messages)
            assert len(index) == len(held)
        shipped = pickle.loads(pickle.dumps(index))
        assert lists(shipped.match(columns)) == literal_match(sorted(held.items()), messages)
        assert shipped.insert(()) == index.insert(())

    law()


def quotes(rows, seed):
    draw = np.random.default_rng(seed)
    return pa.record_batch({
        "symbol": pa.array([f"S{k}" for k in draw.integers(0, 20, rows)]).dictionary_encode(),
        "close": np.round(draw.lognormal(3, 1, rows), 2),
        "volume": draw.integers(0, 1000, rows),
        "open": pa.array(np.round(draw.lognormal(3, 1, rows), 2), mask=draw.random(rows) < 0.1),
    })  # fmt: skip


def test_thousands_of_filters_as_they_are_laid_out_by_default():
    draw = np.random.default_rng(0)
    some = []
    for _ in range(3000):
        low, high = np.sort(np.round(draw.lognormal(3, 1, 2), 2))
        texts = [
            f"symbol = 'S{draw.integers(0, 25)}'", f"close >= {low} and close <= {high}", f"open < {high}",
            f"volume != {draw.integers(0, 1000)}", f"symbol prefix 'S{draw.integers(0, 3)}'", f"close > {low}",
        ]  # fmt: skip
        chosen = draw.choice(len(texts), draw.integers(1, 4), replace=False)
        some.append(parse_filter(" and ".join(texts[k] for k in chosen)))
    columns = Columns.from_batch(quotes(40, 1))
    assert lists(Matcher(some).match(columns)) == literal_match(enumerate(some), list(columns.messages()))


def test_many_messages_are_read_in_pieces(monkeypatch):
    monkeypatch.setattr("overlace.matching.content.rows.CELLS", 1)
    some = [
        parse_filter(text) for text in ("close > 20", "symbol prefix 'S1'", "open exists", "true", "x < 1 and x > 2")
    ]
    columns = Columns.from_batch(quotes(300, 2))
    assert lists(Matcher(some).match(columns)) == literal_match(enumerate(some), list(columns.messages()))


def test_nothing_is_matched_where_there_is_nothing():
    empty = Columns.from_messages([])
    assert lists(Matcher().match(empty)) == []
    assert lists(Matcher([()]).match(empty)) == []
    assert lists(Matcher([()]).match(Columns.from_messages([{}, {"x": 1}]))) == [[0], [0]]
    assert lists(Matcher().match(Columns.from_messages([{"x": 1}]))) == [[]]


def test_a_filter_is_removed_once():
    index = Matcher([parse_filter("x = 1"), parse_filter("x < 1 and x > 2")])
    index.remove(0)
    index.remove(1)
    for gone in (0, 1, 7):
        with pytest.raises(Unknown, match=f"no filter is called '{gone}'"):
            index.remove(gone)
    assert len(index) == 0


def test_what_a_matcher_says_of_itself():
    index = Matcher([parse_filter("x = 1 and y exists"), parse_filter("z = 'a'")])
    assert index.attributes == ["x", "y", "z"]
    assert 0 < index.nbytes < 10_000
    assert len(pickle.dumps(Matcher([parse_filter(f"x > {k} and x < {k + 9}") for k in range(2000)]))) < 200 * 2000


def test_a_matcher_shrinks_when_filters_go():
    index = Matcher([parse_filter(f"x > {k} and x < {k + 9}") for k in range(2000)])
    before = index.nbytes
    for k in range(1900):
        index.remove(k)
    assert index.nbytes < before / 4
    assert len(index) == 100
