"""Predicates as attributes: nothing that is wanted is lost, and what comes first takes most false positives away."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from overlace.matching.content.attributes import (
    EVERYTHING,
    candidates,
    choose_attributes,
    implied_by,
    mask_filters,
    rank_predicates,
    satisfied_by,
)
from overlace.matching.content.columns import Columns
from overlace.matching.content.filters import covers, matches, parse_filter
from reproductions.part10.predicates import mask_messages
from reproductions.workloads.content import content_filters, quote_columns, quotes
from tests.ingest.logs import often

constraints = st.sampled_from(
    ["symbol = 'AA'", "symbol = 'AB'", "symbol prefix 'A'", "x >= 1", "x >= 2", "x <= 2", "x <= 3", "y = 1", "y exists"]
)
filters = st.lists(constraints, min_size=1, max_size=3, unique=True).map(" and ".join).map(parse_filter)
messages = st.fixed_dictionaries(
    {"symbol": st.sampled_from(["AA", "AB", "B"]), "x": st.integers(0, 4)}, optional={"y": st.integers(0, 2)}
)
systems = st.tuples(st.lists(filters, min_size=1, max_size=8), st.lists(messages, min_size=1, max_size=12))


def false_positives(asked, content, predicates):
    """Messages that have all that a filter asks for and do not match it, over all filters: by definition."""
    total = 0
    for filter in asked:
        wanted = [each for each in predicates if covers(each, filter)]
        got = [message for message in content if all(matches(message, each) for each in wanted)]
        total += sum(not matches(message, filter) for message in got)
    return total


@often(80)
@given(systems, st.integers(1, 6), st.integers(2, 5))
def test_a_message_that_matches_has_all_that_the_filter_asks_for(system, most, widest):
    asked, content = system
    columns = Columns.from_messages(content)
    chosen = rank_predicates(asked, columns, candidates(asked, columns, least=1), most, widest)
    requests, masks = mask_filters(asked, chosen), mask_messages(columns, chosen)
    assert len(chosen) <= most
    assert (requests > 0).all()
    for filter, request in zip(asked, requests.tolist(), strict=True):
        for message, mask in zip(content, masks.tolist(), strict=True):
            assert request & ~mask == 0 or not matches(message, filter)
    assert max(int(mask).bit_count() for mask in masks.tolist()) <= widest
    bits = [sum(1 << i for i, each in enumerate(chosen) if matches(message, each)) for message in content]
    assert masks.tolist() == bits


@often(60)
@given(systems)
def test_each_predicate_is_the_one_that_takes_most_false_positives_away(system):
    asked, content = system
    columns = Columns.from_messages(content)
    listed = candidates(asked, columns, least=1)
    ranked = [each for each in rank_predicates(asked, columns, listed, widest=63) if each != EVERYTHING]
    before = false_positives(asked, content, [])
    for i, each in enumerate(ranked):
        left = {other: false_positives(asked, content, [*ranked[:i], other]) for other in listed}
        assert left[each] == min(left.values()) < before
        assert next(other for other in listed if left[other] == left[each]) == each  # ties go to the first
        before = left[each]
    assert all(false_positives(asked, content, [*ranked, other]) == before for other in listed)


@often(60)
@given(systems)
def test_what_filters_imply_and_messages_satisfy_is_what_covering_and_matching_say(system):
    asked, content = system
    columns = Columns.from_messages(content)
    listed = candidates(asked, columns, least=1, quantiles=4)
    assert implied_by(asked, listed).tolist() == [[covers(each, filter) for each in listed] for filter in asked]
    assert satisfied_by(columns, listed).tolist() == [
        [matches(message, each) for each in listed] for message in content
    ]
    count = implied_by(asked, listed).sum(axis=0)
    assert (np.diff(count) <= 0).all()
    assert (count >= 1).all()


def test_the_choice_depends_on_the_seed_alone_and_asks_of_everybody_something():
    columns = quote_columns(quotes(20, 60, seed=3))
    asked = content_filters(columns, 80, selective=0.6, seed=4)
    first, again = (choose_attributes(asked, columns, 20, seed=1) for _ in range(2))
    assert first == again
    assert len(first) <= 20
    assert (mask_filters(asked, first) > 0).all()


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_selective_filters_name_a_symbol_and_broad_ones_do_not(share):
    columns = quote_columns(quotes(5, 30, seed=1))
    asked = content_filters(columns, 200, selective=share, seed=2)
    assert {any(each.attribute == "symbol" for each in filter) for filter in asked} == {share == 1.0}
    assert all(len(filter) >= 1 for filter in asked)
    assert asked == content_filters(columns, 200, selective=share, seed=2)
    assert asked != content_filters(columns, 200, selective=share, seed=3)
