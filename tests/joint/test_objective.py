"""What each objective pays for, counted in plain Python."""

from collections import Counter
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from overlace.model import Overlay
from overlace.planners.joint.objective import apply_objective, drop_homeless, pairwise
from tests.strategies import observations


@st.composite
def with_homeless(draw):
    """An observation in which some clients have no home."""
    given = draw(observations())
    kept = [row for row in given.overlay.placement.tolist() if draw(st.booleans())]
    return replace(given, overlay=Overlay(placement=kept, tree=given.overlay.tree))


def talk(flows):
    return list(zip(flows.sender.tolist(), flows.receiver.tolist(), flows.messages.tolist(), strict=True))


def by_members(classes):
    found = Counter()
    for k in range(len(classes)):
        found[tuple(classes.members[classes.start[k] : classes.start[k + 1]].tolist())] += int(classes.demand[k])
    return +found


@given(with_homeless())
def test_only_what_is_between_clients_with_a_home_counts(observation):
    home = {client for client, _ in observation.overlay.placement.tolist()}
    found = drop_homeless(observation)
    assert talk(found.flows) == [row for row in talk(observation.flows) if {row[0], row[1]} <= home]
    expected = Counter()
    for members, demand in by_members(observation.classes).items():
        expected[tuple(each for each in members if each in home)] += demand
    assert by_members(found.classes) == expected


@given(observations())
def test_two_clients_that_talk_are_a_class_of_both_directions(observation):
    expected = Counter()
    for sender, receiver, messages in talk(observation.flows):
        if sender != receiver:
            expected[min(sender, receiver), max(sender, receiver)] += messages
    assert by_members(pairwise(observation)) == expected


@given(with_homeless())
def test_hops_and_latency_are_paid_by_pairs_and_cost_and_messages_by_classes(observation):
    home = drop_homeless(observation)
    for objective, classes in (
        ("cost", home.classes),
        ("messages", home.classes),
        ("hops", pairwise(home)),
        ("latency", pairwise(home)),
    ):
        assert apply_objective(observation, objective).classes == classes
    assert set(apply_objective(observation, "hops").network.link_cost.tolist()) <= {1.0}
    assert set(apply_objective(observation, "messages").network.link_cost.tolist()) <= {1.0}
    latency = apply_objective(observation, "latency").network
    assert latency.link_cost.tolist() == observation.network.latency_us.tolist()
