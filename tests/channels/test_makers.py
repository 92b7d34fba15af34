"""The other channel makers of PART10 §2.2 and §2.3, by their laws."""

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overlace.errors import BadObservation, BadParameter
from overlace.model import Overlay, Requests
from overlace.planners.channels import cells
from overlace.planners.channels.baselines import KMeans, NoLoss, Pairwise, SpanningTree, grow_tree
from overlace.planners.channels.cost import channel_loads, cost
from overlace.planners.channels.semcast import SemCast, hang
from overlace.planners.channels.strategies import Strategy1
from overlace.replay.delivery import delivery
from overlace.testing import check_planner, three_publishers
from reproductions.workloads.publishers import publishers as publishers_of
from tests.channels.common import connections, observed, partition, publishers
from tests.oracles.channels import offer

GROUPING = (Pairwise, KMeans, SpanningTree)
MAKERS = (Pairwise(), KMeans(), SpanningTree(), NoLoss(), SemCast())


@st.composite
def observations(draw):
    joins = draw(publishers)
    messages = draw(st.lists(st.integers(0, 9), min_size=len(joins), max_size=len(joins)))
    wanted = draw(st.lists(st.integers(1, 31), max_size=12))
    return observed(joins, messages, requests=Requests(range(len(wanted)), wanted))


def held_in(overlay):
    return sorted(map(sorted, partition(overlay.channels)))


def offered_by(observation):
    return set().union(*map(offer, observation.offers.attributes.tolist()))


@pytest.mark.parametrize("planner", MAKERS, ids=repr)
class TestEveryMaker:
    @settings(max_examples=25, deadline=None)
    @given(observations())
    def test_everything_on_offer_is_in_one_channel_and_the_cost_is_what_replay_counts(self, planner, observation):
        after = planner.solve(observation).after
        assert set(after.channels[:, 0].tolist()) == offered_by(observation)
        metrics = delivery(observation, after)
        assert planner.cost(observation, after) == metrics.of("received")
        assert metrics.of("over_limit") == 0 or isinstance(planner, NoLoss)

    @settings(max_examples=8, deadline=None)
    @given(observations(), st.data())
    def test_the_laws_of_planners_hold_with_and_without_channels(self, planner, observation, data):
        check_planner(planner, observation)
        offered = sorted(offered_by(observation))
        labels = data.draw(st.lists(st.integers(0, 4), min_size=len(offered), max_size=len(offered)))
        cut = Overlay(channels=np.column_stack([offered, labels]))
        check_planner(planner, replace(observation, overlay=cut))


@pytest.mark.parametrize("maker", GROUPING)
@settings(max_examples=25, deadline=None)
@given(observations(), st.integers(1, 12), st.sampled_from(["keep", "ignore"]))
def test_there_are_no_more_channels_than_asked_for(maker, observation, most, limits):
    found = len(partition(maker(most, limits).solve(observation).after.channels))
    if limits == "ignore":
        assert found == min(most, len(offered_by(observation)))
    assert found <= most


@pytest.mark.parametrize("maker", GROUPING)
@settings(max_examples=20, deadline=None)
@given(publishers)
def test_with_room_for_all_and_no_limits_nobody_gets_what_they_did_not_ask_for(maker, joins):
    observation = observed(joins)
    after = maker(0, "ignore").solve(observation).after
    assert delivery(observation, after).of("false_positives") == 0


def waste(observation, held):
    """Messages that members of a channel receive and did not ask for."""
    offers = list(zip(observation.offers.attributes.tolist(), observation.offers.messages.tolist(), strict=True))
    wanted = observation.requests.attributes.tolist() or sorted(offered_by(observation))
    members = [want for want in wanted if want in held]
    sent = [(mask, count) for mask, count in offers if offer(mask) & held]
    return sum(count for want in members for mask, count in sent if want & mask != want)


@settings(max_examples=25, deadline=None)
@given(observations(), st.integers(1, 8))
def test_pairwise_merges_what_adds_least_waste(observation, most):
    groups = [frozenset([a]) for a in sorted(offered_by(observation))]
    while len(groups) > most:

        def added(pair):
            one, other = groups[pair[0]], groups[pair[1]]
            return waste(observation, one | other) - waste(observation, one) - waste(observation, other)

        c, d = min(combinations(range(len(groups)), 2), key=lambda pair: (added(pair), pair))
        groups[c] |= groups.pop(d)
    found = Pairwise(most, "ignore").solve(observation).after
    assert partition(found.channels) == set(groups)


@settings(max_examples=25, deadline=None)
@given(observations(), st.integers(1, 8))
def test_after_k_means_no_combination_would_waste_less_elsewhere(observation, most):
    after = KMeans(most, "ignore").solve(observation).after
    channels, best = dict(after.channels.tolist()), cost(observation, after)
    for a, home in channels.items():
        if list(channels.values()).count(home) > 1:
            for other in set(channels.values()):
                moved = Overlay(channels=sorted({**channels, a: other}.items()))
                assert cost(observation, moved) >= best


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 31), st.integers(0, 9)), min_size=1, max_size=6), st.data())
def test_the_tree_is_as_short_as_one_grown_edge_by_edge(types, data):
    offered = sorted(set().union(*(offer(mask) for mask, _ in types)))
    weight = data.draw(st.lists(st.integers(1, 5), min_size=len(offered), max_size=len(offered)))

    def matched(mask):
        return sum(count for other, count in types if other & mask == mask)

    def distance(i, j):
        both = matched(offered[i] | offered[j])
        return weight[i] * (matched(offered[j]) - both) + weight[j] * (matched(offered[i]) - both)

    part, total = list(range(len(offered))), 0
    for i, j in sorted(combinations(range(len(offered)), 2), key=lambda pair: distance(*pair)):
        if part[i] != part[j]:
            total += distance(i, j)
            part = [part[j] if each == part[i] else each for each in part]
    parent, length = grow_tree(np.array(offered), np.array(weight), np.array(list(map(matched, offered))))
    assert length.sum() == total
    assert [distance(i, parent[i]) for i in range(1, len(offered))] == length[1:].tolist()


class TestNoLoss:
    @settings(max_examples=25, deadline=None)
    @given(observations())
    def test_nobody_gets_what_they_did_not_ask_for_and_no_merge_is_left(self, observation):
        after = NoLoss().solve(observation).after
        assert delivery(observation, after).of("false_positives") == 0
        masks = observation.offers.attributes.tolist()
        for one, other in combinations(partition(after.channels), 2):
            shared = any(offer(mask) & one and offer(mask) & other for mask in masks)
            assert not shared or waste(observation, one | other) > 0

    @settings(max_examples=25, deadline=None)
    @given(publishers)
    def test_where_everybody_sends_and_everything_is_asked_for_it_is_strategy_1(self, joins):
        one, other = (planner.solve(observed(joins)).after for planner in (NoLoss(), Strategy1()))
        assert held_in(one) == held_in(other)


class TestSemCast:
    @settings(max_examples=25, deadline=None)
    @given(observations(), st.data())
    def test_with_full_hysteresis_nothing_changes(self, observation, data):
        offered = sorted(offered_by(observation))
        labels = data.draw(st.lists(st.integers(0, 4), min_size=len(offered), max_size=len(offered)))
        cut = Overlay(channels=np.column_stack([offered, labels]))
        plan = SemCast(hysteresis=1.0).solve(replace(observation, overlay=cut))
        assert plan.after == cut
        assert len(plan.steps) == 0

    @settings(max_examples=25, deadline=None)
    @given(observations(), st.sampled_from([0.0, 0.5, 2.0, 8.0]), st.sampled_from([0.0, 0.1, 0.5]), st.data())
    def test_channels_are_replaced_only_by_cheaper_ones(self, observation, sending, share, data):
        offered = sorted(offered_by(observation))
        labels = data.draw(st.lists(st.integers(0, 4), min_size=len(offered), max_size=len(offered)))
        cut = Overlay(channels=np.column_stack([offered, labels]))
        plan = SemCast(sending, hysteresis=share, connections="ignore").solve(replace(observation, overlay=cut))

        def costs(overlay):
            return cost(observation, overlay) + sending * channel_loads(observation, overlay)[1].sum()

        assert plan.after == cut or costs(plan.after) < (1 - share) * costs(cut)

    @settings(max_examples=25, deadline=None)
    @given(observations(), st.sampled_from([0.0, 1.0, 3.0, 50.0]))
    def test_the_merging_only_saves_and_without_cost_of_sending_wastes_nothing(self, observation, sending):
        offered = sorted(offered_by(observation))
        apart = Overlay(channels=np.column_stack([offered, np.arange(len(offered))]))
        after = SemCast(sending, connections="ignore").solve(observation).after

        def costs(overlay):
            return cost(observation, overlay) + sending * channel_loads(observation, overlay)[1].sum()

        assert costs(after) <= costs(apart)
        if sending == 0:
            assert delivery(observation, after).of("false_positives") == 0

    @settings(max_examples=25, deadline=None)
    @given(observations(), st.integers(1, 40))
    def test_only_the_latest_messages_count_in_a_window(self, observation, window):
        left, counted = window, []
        for messages in reversed(observation.offers.messages.tolist()):
            counted.append(min(left, messages))
            left -= counted[-1]
        later = replace(observation, offers=replace(observation.offers, messages=np.array(counted[::-1])), sent=())
        one = SemCast(window=window, connections="ignore").solve(observation).after
        assert held_in(one) == held_in(SemCast(connections="ignore").solve(later).after)

    def test_each_combination_hangs_below_the_one_that_fewest_messages_match(self):
        combination, matched = np.array([1, 2, 3, 4, 7]), np.array([9.0, 5.0, 4.0, 4.0, 1.0])
        assert hang(combination, matched).tolist() == [-1, -1, 1, -1, 2]

    def test_dear_sending_makes_one_channel_and_cheap_sending_one_each(self):
        observation = three_publishers()
        counts = [len(partition(SemCast(cost_of).solve(observation).after.channels)) for cost_of in (0.0, 100.0)]
        assert counts[0] > counts[1] == 1


def test_by_limits_pairwise_is_nearer_to_the_bound_than_k_means_and_the_tree():
    observation = publishers_of(300, 8, (3, 4), (9, 12), seed=100)
    found = [cost(observation, maker().solve(observation).after) for maker in GROUPING]
    assert found[0] < found[1] < found[2]


def test_more_combinations_than_pairs_can_be_looked_at_are_refused_in_one_line(monkeypatch):
    monkeypatch.setattr(cells, "MOST_CELLS", 5)
    for planner in (Pairwise(3), NoLoss(), SemCast()):
        with pytest.raises(BadObservation, match="7 combinations are on offer, more than the 5"):
            planner.solve(three_publishers())


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Pairwise(channels=-1), "channels is -1"),
        (lambda: KMeans(connections="some"), 'connections is "some"'),
        (lambda: SemCast(sending=-1.0), "sending is -1"),
        (lambda: SemCast(window=-1), "window is -1"),
        (lambda: SemCast(hysteresis=-0.5), "hysteresis is -0.5"),
    ],
)
def test_parameters_out_of_range_are_refused(make, says):
    with pytest.raises(BadParameter, match=says):
        make()


@settings(max_examples=20, deadline=None)
@given(publishers)
def test_limits_hold_for_every_publisher(joins):
    for planner in (*(maker(3) for maker in GROUPING), *(maker() for maker in GROUPING), SemCast()):
        channels = dict(planner.solve(observed(joins)).after.channels.tolist())
        for met, (_, limit) in zip(connections(joins, channels), joins, strict=True):
            assert met <= limit
