from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overlace.errors import BadObservation, BadOverlay, NotObserved
from overlace.model import Observation, Offers, Overlay, Requests
from overlace.planners.channels.cost import cost
from overlace.replay.delivery import delivery, inside
from overlace.testing import three_publishers
from reproductions.part10.sampling import sample


def sub(mask):
    return {s for s in range(1, mask + 1) if s & mask == s}


@st.composite
def cuts(draw, least: int = 0):
    """Publishers, some with two advertisements, perhaps requests, and combinations in channels."""
    rows = draw(
        st.lists(st.tuples(st.integers(0, 4), st.integers(1, 31), st.integers(1, 5)), min_size=least, max_size=6)
    )
    publisher, masks, messages = zip(*rows, strict=True) if rows else ([], [], [])
    wanted = draw(st.lists(st.integers(1, 31), max_size=6))
    channels = draw(st.dictionaries(st.integers(1, 31), st.integers(0, 4)))
    observation = Observation(
        offers=Offers(publisher, masks, messages=messages), requests=Requests(range(len(wanted)), wanted)
    )
    return observation, Overlay(channels=sorted(channels.items()))


@given(cuts())
def test_everything_is_what_publishing_each_message_by_hand_counts(drawn):
    observation, overlay = drawn
    channels = dict(overlay.channels.tolist())
    offers = list(zip(*(getattr(observation.offers, c).tolist() for c in ("publisher", "attributes", "messages")),
                      strict=True))  # fmt: skip
    offered = set().union(*(sub(mask) for _, mask, _ in offers)) if offers else set()
    wanted = observation.requests.attributes.tolist() or sorted(offered)
    received = true = 0
    connected = {}
    load = dict.fromkeys([*channels.values(), -1], 0)
    for publisher, mask, messages in offers:
        reached = {channels.get(c, -1) for c in sub(mask)}
        connected.setdefault(publisher, set()).update(reached)
        for channel in reached:
            load[channel] += messages
        for combination in wanted:
            if channels.get(combination, -1) in reached:
                received += messages
                true += messages * (combination & ~mask == 0)
    metrics = delivery(observation, overlay)
    assert metrics.of("received") == received
    assert metrics.of("true_positives") == true
    assert metrics.of("false_positives") == received - true
    assert metrics.of("false_positive_rate") == pytest.approx(1 - true / received if received else 0)
    assert metrics.of("publishers") == len(connected)
    for publisher, reached in connected.items():
        assert metrics.of("connections", "client", publisher) == len(reached)
    assert metrics.of("max_connections") == max(map(len, connected.values()), default=0)
    listens = [channels.get(combination, -1) for combination in wanted]
    used = set(channels.values()) | ({-1} if load[-1] or -1 in listens else set())
    assert metrics.of("channels") == len(used)
    for channel in used:
        assert metrics.of("messages", "channel", channel) == load[channel]
        assert metrics.of("subscribers", "channel", channel) == listens.count(channel)
    for channel in set(channels.values()):
        assert metrics.of("combinations", "channel", channel) == list(channels.values()).count(channel)


@given(cuts())
def test_what_is_received_is_the_channel_facet_s_cost(drawn):
    observation, overlay = drawn
    assert delivery(observation, overlay).of("received") == cost(observation, overlay)


@given(cuts(), st.dictionaries(st.integers(1, 31), st.integers(0, 4)))
def test_true_positives_are_the_same_for_every_cut(drawn, other):
    observation, overlay = drawn
    moved = Overlay(channels=sorted(other.items()))
    assert delivery(observation, overlay).of("true_positives") == delivery(observation, moved).of("true_positives")


@given(st.lists(st.integers(1, 127), max_size=8), st.sets(st.integers(1, 127)))
def test_combinations_inside_a_mask_are_found_either_way(masks, combinations):
    """By the sub-masks of a small mask, by all combinations for a large one."""
    ordered = np.array(sorted(combinations), np.int64)
    start, at = inside(np.array(masks, np.int64), ordered)
    for i, mask in enumerate(masks):
        assert sorted(ordered[at[start[i] : start[i + 1]]].tolist()) == sorted(sub(mask) & combinations)


def test_a_channel_for_each_combination_brings_no_false_positive():
    """PART10 §4.1: what strategy 1 is after."""
    apart = Overlay(channels=[(c, i) for i, c in enumerate([1, 2, 3, 4, 5, 8, 10])])
    metrics = delivery(three_publishers(), apart)
    assert metrics.of("false_positive_rate") == 0
    assert metrics.of("mean_connections") == 3
    assert metrics.of("channels") == 7


def test_without_channels_everybody_shares_the_rest():
    metrics = delivery(three_publishers(), Overlay())
    assert metrics.of("channels") == 1
    assert metrics.of("received", "channel", -1) == 21
    assert metrics.of("false_positive_rate", "channel", -1) == pytest.approx(12 / 21)


def test_advertisements_over_their_limit_are_counted():
    observation = Observation(offers=Offers([0, 1], [3, 1], [2, 1]))
    assert delivery(observation, Overlay(channels=[[1, 0], [2, 1], [3, 2]])).of("over_limit") == 1


def test_requests_need_no_list_of_all_combinations():
    wide = Observation(offers=Offers([0], [(1 << 63) - 1]), requests=Requests([1, 2], [1, 1 << 62]))
    metrics = delivery(wide, Overlay(channels=[[1, 0]]))
    assert (metrics.of("received"), metrics.of("true_positives")) == (2, 2)


@settings(max_examples=25)
@given(cuts(least=1), st.integers(0, 99))
def test_the_sampled_rate_agrees_with_the_exact_one(drawn, seed):
    """PART10 §5.1 against R6: within five standard errors, and a little for rates near 0 and 1."""
    observation, overlay = drawn
    exact = delivery(observation, overlay).of("false_positive_rate")
    seen = sample(observation, overlay, subscribers=3000, messages=3000, seed=seed)
    assert abs(seen.rate - exact) <= 5 * seen.standard_error + 0.005
    assert seen == sample(observation, overlay, subscribers=3000, messages=3000, seed=seed)


def test_the_standard_error_is_the_spread_over_seeds():
    draw = np.random.default_rng(5)
    observation = Observation(offers=Offers(range(30), draw.integers(1, 255, 30), messages=draw.integers(1, 9, 30)))
    overlay = Overlay(channels=[(c, c % 7) for c in range(1, 200)])
    exact = delivery(observation, overlay).of("false_positive_rate")
    runs = [sample(observation, overlay, 200, 100, seed) for seed in range(300)]
    rates = np.array([run.rate for run in runs])
    errors = np.array([run.standard_error for run in runs])
    assert rates.mean() == pytest.approx(exact, abs=0.005)
    assert errors.mean() == pytest.approx(rates.std(), rel=0.15)
    assert np.mean(abs(rates - exact) < 2 * errors) > 0.9


def test_what_cannot_be_delivered_is_said():
    with pytest.raises(BadOverlay, match="is in two channels"):
        delivery(three_publishers(), Overlay(channels=[[1, 0], [1, 1]]))
    with pytest.raises(BadOverlay, match="masks above 0"):
        delivery(three_publishers(), Overlay(channels=[[0, 0]]))
    with pytest.raises(BadObservation, match="c7 \\(row 0\\) advertises mask 0"):
        delivery(Observation(offers=Offers([7], [0])), Overlay())
    with pytest.raises(BadObservation, match="40 attributes, too many"):
        delivery(Observation(offers=Offers([7], [(1 << 40) - 1])), Overlay())
    with pytest.raises(NotObserved, match="advertisements"):
        sample(Observation(), Overlay())
    silent = replace(three_publishers(), offers=replace(three_publishers().offers, messages=[0, 0, 0]))
    with pytest.raises(NotObserved, match="messages out of 0"):
        sample(silent, Overlay())
