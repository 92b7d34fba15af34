"""Channels for content: offers and requests follow from messages and filters, and the best number of them is taken."""

import numpy as np
import pytest

from overlace.matching.content.attributes import choose_attributes
from overlace.matching.content.filters import matches, parse_filter
from overlace.planners.channels.cost import cost
from overlace.planners.channels.strategies import Strategy1
from overlace.planners.channels.strategy4 import Strategy4
from overlace.replay.delivery import delivery
from reproductions.part10.predicates import describe, fit_predicates
from reproductions.workloads.content import content_filters, quote_columns, quotes


@pytest.fixture(scope="module")
def market():
    """(columns, publishers, filters, ranked predicates)."""
    columns = quote_columns(quotes(15, 40, seed=5))
    asked = content_filters(columns, 60, selective=0.6, seed=6)
    return columns, columns.columns["symbol"].codes.astype(np.int64), asked, choose_attributes(asked, columns, 24, 5)


def test_offers_are_publishers_with_what_their_messages_have_and_every_message_counts_once(market):
    columns, publisher, asked, ranked = market
    predicates = [each for each in ranked if each] or ranked
    observation = describe(columns, publisher, asked, predicates)
    expected = {}
    for who, message in zip(publisher.tolist(), columns.messages(), strict=True):
        mask = sum(1 << i for i, each in enumerate(predicates) if matches(message, each))
        expected[who, mask] = expected.get((who, mask), 0) + 1
    offers = observation.offers
    rows = zip(offers.publisher.tolist(), offers.attributes.tolist(), offers.messages.tolist(), strict=True)
    assert {(who, mask): count for who, mask, count in rows} == {key: n for key, n in expected.items() if key[1]}


def test_with_a_channel_for_every_combination_all_that_is_received_has_what_was_asked_for(market):
    columns, publisher, asked, ranked = market
    observation = describe(columns, publisher, asked, ranked)
    after = Strategy1().solve(observation).after
    metrics = delivery(observation, after)
    assert metrics.of("false_positives") == 0
    wanted = sum(matches(message, filter) for filter in asked for message in columns.messages())
    assert wanted <= metrics.of("true_positives") < columns.rows * len(asked)


def test_the_number_of_predicates_is_the_best_of_those_tried(market):
    columns, publisher, asked, ranked = market
    steps = (1, 4, 12, 24)
    fitted = fit_predicates(Strategy4(effort=20), columns, publisher, asked, ranked, 4, steps)
    tried = []
    for number in steps:
        observation = describe(columns, publisher, asked, ranked[:number], 4)
        if (observation.requests.attributes > 0).all():
            tried.append(cost(observation, Strategy4(effort=20).solve(observation).after))
    assert fitted.received == min(tried)
    assert fitted.predicates == ranked[: len(fitted.predicates)]


def test_predicates_that_nobody_can_ask_for_are_no_choice():
    columns = quote_columns(quotes(3, 5))
    publisher = columns.columns["symbol"].codes.astype(np.int64)
    with pytest.raises(ValueError, match="something to ask for"):
        fit_predicates(Strategy1(), columns, publisher, [parse_filter("close > 1")], [parse_filter("symbol = 'S001'")])
