"""The index of covering against every pair of filters."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overlace.errors import Unknown
from overlace.matching.content.covering import CoverIndex
from overlace.matching.content.filters import covers, parse_filter
from tests.matching.test_content_filters import filters
from tests.matching.test_content_matcher import words


def literal_roots(held):
    """Filters that no other covers; of equal ones the first."""
    return [
        i for i, own in sorted(held.items())
        if not any(covers(other, own) and (k < i or not covers(own, other)) for k, other in held.items() if k != i)
    ]  # fmt: skip


some_filters = filters(3) | filters(2, names=("x",)) | words(2)


@given(st.lists(some_filters, max_size=10), some_filters)
def test_a_query_finds_what_every_pair_would(some, asked):
    index = CoverIndex(some)
    assert index.covers_of(asked).tolist() == [i for i, own in enumerate(some) if covers(own, asked)]
    assert index.covered_by(asked).tolist() == [i for i, own in enumerate(some) if covers(asked, own)]
    assert index.roots == literal_roots(dict(enumerate(some)))


@settings(max_examples=150)
@given(st.lists(some_filters | st.integers(0, 20), max_size=24))
def test_roots_are_kept_while_filters_come_and_go(changes):
    """A removed filter brings back those that it alone covered; nothing else becomes a root."""
    index, held = CoverIndex(), {}
    for change in changes:
        before = set(index.roots)
        if isinstance(change, int):
            if not held:
                continue
            gone = sorted(held)[change % len(held)]
            del held[gone]
            brought = index.remove(gone)
            assert set(brought) == set(index.roots) - before
        else:
            id, replaced = index.insert(change)
            held[id] = change
            assert set(replaced) == before - set(index.roots)
        assert index.roots == literal_roots(held)
        assert [index.is_root(id) for id in held] == [id in index.roots for id in held]
        assert len(index) == len(held)
        for id, own in held.items():
            assert index[id] == own
            assert any(covers(index[root], own) for root in index.roots)


def test_removing_a_covering_filter_brings_back_the_covered():
    index = CoverIndex(map(parse_filter, ["x > 5", "x > 3 and x < 9", "x > 7 and x < 8"]))
    assert index.roots == [0, 1]
    assert index.insert(parse_filter("x > 1")) == (3, [0, 1])
    assert index.roots == [3]
    assert index.remove(3) == [0, 1]
    assert index.remove(0) == []
    assert index.remove(1) == [2]
    assert index.roots == [2]


def test_of_equal_filters_the_first_is_the_root():
    index = CoverIndex(map(parse_filter, ["x >= 3 and x != 3", "x > 3", "x > 3"]))
    assert index.roots == [0]
    assert index.remove(0) == [1]
    assert index.remove(1) == [2]


def test_a_filter_that_is_not_there_is_refused():
    index = CoverIndex([()])
    index.remove(0)
    with pytest.raises(Unknown, match="no filter is called '0'"):
        index.remove(0)
    assert not index.is_root(0)


def test_attributes_that_share_a_bit_of_the_mask_are_told_apart():
    """Masks have 63 bits, so attribute 63 has that of attribute 0."""
    some = [parse_filter(f"a{k} > 0") for k in range(130)]
    index = CoverIndex(some)
    for k in (0, 63, 126):
        assert index.covers_of(some[k]).tolist() == index.covered_by(some[k]).tolist() == [k]


def test_entries_of_removed_filters_are_let_go():
    index = CoverIndex()
    for k in range(2000):
        index.insert(parse_filter(f"x > {k}"))
        if k >= 10:
            index.remove(k - 10)
    assert len(index) == 10
    assert len(index._entries.held.word) < 200
