import pickle
from dataclasses import FrozenInstanceError, fields

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from overlace.errors import BadObservation, BadOverlay, BadPlan
from overlace.metrics import Metrics
from overlace.model import (
    FACETS,
    UNLIMITED,
    Changes,
    Classes,
    Flows,
    Network,
    Observation,
    Offers,
    Overlay,
    Plan,
    Requests,
    Steps,
    check_tree,
    name_of,
)
from overlace.planners.placement.baselines import Stay
from overlace.planners.tree.baselines import Mst
from tests.strategies import observations, overlays, trees

RECORDS = (Overlay, Changes, Network, Flows, Classes, Offers, Requests, Observation, Metrics, Steps)


@given(overlays(), overlays())
def test_the_difference_leads_from_one_overlay_to_the_other(a, b):
    assert a.apply(a.changes_to(b)) == b


@given(overlays(), overlays())
def test_the_way_there_and_back_is_nothing(a, b):
    there = a.changes_to(b)
    assert a.apply(there).apply(there.inverse()) == a
    assert there.inverse().sorted() == b.changes_to(a).sorted()
    assert there.inverse().inverse() == there


@given(overlays())
def test_an_overlay_differs_from_itself_by_nothing(a):
    assert len(a.changes_to(a)) == 0
    assert a.apply(Changes()) == a


@given(overlays(), overlays())
def test_the_difference_is_the_least_there_is(a, b):
    changes = a.changes_to(b)
    for facet in FACETS:
        ours, theirs = ({tuple(r) for r in each.relation(facet).tolist()} for each in (a, b))
        assert {tuple(r) for r in changes.pairs(facet, -1).tolist()} == ours - theirs
        assert {tuple(r) for r in changes.pairs(facet, +1).tolist()} == theirs - ours


@given(overlays(), overlays())
def test_changes_that_do_not_fit_are_refused(a, b):
    changes = a.changes_to(b)
    if len(changes):
        with pytest.raises(BadPlan, match="do not fit"):
            b.apply(changes)
        with pytest.raises(BadPlan, match="stand twice"):
            a.apply(Changes.joined([changes, changes]))


@given(overlays(), st.randoms(use_true_random=False))
def test_rows_and_ends_may_be_given_in_any_order(a, random):
    def shuffled(rows, turn):
        listed = [row[::-1] if turn and random.random() < 0.5 else row for row in rows.tolist() * 2]
        return random.sample(listed, len(listed))

    assert a == Overlay(*(shuffled(a.relation(facet), facet in ("tree", "mesh")) for facet in FACETS))


@given(observations(), observations())
def test_records_are_equal_exactly_when_their_digests_are(a, b):
    assert (a == b) == (a.digest() == b.digest())
    again = pickle.loads(pickle.dumps(a))
    assert again == a
    assert again.digest() == a.digest()
    assert not again.overlay.placement.flags.writeable


def test_equal_content_has_equal_digests_however_it_was_given():
    pairs = [
        (Network(region=[0], broker_cost=[-0.0]), Network(region=[0], broker_cost=[0])),
        (
            Metrics(["a", "bb"], ["x"] * 2, [0, 0], value=[1, 2]),
            Metrics(np.array(["a", "bb"], "U20"), ["x"] * 2, [0, 0], value=[1, 2]),
        ),
        (Steps([0, 1], [1], [0], {"n": np.array([3], np.int32)}), Steps([0, 1], [1], [0], {"n": np.array([3])})),
        (Observation(window=np.array([0, 5])), Observation(window=(0, 5))),
        (Network(region=[0], capacity=[np.nan]), Network(region=[0], capacity=[np.nan])),
        (Classes.of([[1, 0, 1]]), Classes.of([[0, 1]])),
    ]
    for a, b in pairs:
        assert a == b
        assert a.digest() == b.digest()


def test_nobody_can_write_through_a_view_or_into_the_arguments():
    base = np.arange(3)
    view = base[:]
    view.setflags(write=False)
    observation = Observation(clients=3, sent=view)
    base[0] = 9
    assert observation.sent.tolist() == [0, 1, 2]
    with pytest.raises(TypeError):
        Steps().args["x"] = 1
    with pytest.raises(BadPlan, match="names are shown for ids"):
        Steps([0, 1], [1], [0], {"who": np.array(["x"])})


def test_changes_have_known_codes_and_links_their_lower_end_left():
    assert Changes.of("mesh", 1, [[3, 1]]).left.tolist() == [1]
    assert Changes.of("placement", 1, [[3, 1]]).left.tolist() == [3]
    added = Overlay().apply(Changes.of("mesh", 1, [[3, 1]]))
    with pytest.raises(BadPlan, match="there already"):
        added.apply(Changes.of("mesh", 1, [[3, 1]]))
    for facet, action in ((9, 1), (3, 2)):
        with pytest.raises(BadPlan, match="an action is"):
            Changes([facet], [action], [0], [1])
    with pytest.raises(BadPlan, match="expected int8"):
        Changes([259], [1], [0], [1])


@pytest.mark.parametrize("kind", RECORDS)
def test_every_field_of_every_record_has_a_default_and_nothing_can_be_written(kind):
    record = kind()
    assert record == kind()
    with pytest.raises(FrozenInstanceError):
        setattr(record, fields(kind)[0].name, None)
    for each in fields(kind):
        value = getattr(record, each.name)
        assert not (isinstance(value, np.ndarray) and value.flags.writeable), each.name


def test_what_was_passed_in_stays_the_callers_own():
    mine = np.array([[1, 2], [0, 1]])
    overlay = Overlay(mesh=mine)
    mine[0, 0] = 7
    assert mine.flags.writeable
    assert overlay.mesh.tolist() == [[0, 1], [1, 2]]
    sent = np.array([1, 2])
    observation = Observation(clients=2, sent=sent)
    sent[0] = 9
    assert observation.sent.tolist() == [1, 2]


@given(trees(2))
def test_a_tree_with_a_link_too_many_or_too_few_is_refused(tree):
    n, links = tree
    check_tree(Overlay(tree=links).tree, n)
    with pytest.raises(BadOverlay, match="2 parts"):
        check_tree(Overlay(tree=links[1:]).tree, n)
    present = {tuple(row) for row in Overlay(tree=links).tree.tolist()}
    spare = next(((a, b) for a in range(n) for b in range(a + 1, n) if (a, b) not in present), None)
    if spare:
        with pytest.raises(BadOverlay, match="close a cycle"):
            check_tree(Overlay(tree=[*links.tolist(), spare]).tree, n)


def test_a_cycle_is_named_by_its_links():
    with pytest.raises(BadOverlay, match="links rome-paris close a cycle"):
        check_tree(Overlay(tree=[[0, 1], [1, 2], [0, 2]]).tree, 3, {"broker": ["oslo", "rome", "paris"]})
    with pytest.raises(BadOverlay, match="b1-b9 name brokers that do not exist; there are 3"):
        check_tree(Overlay(tree=[[1, 9]]).tree, 3)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Overlay(mesh=[[3, 3]]), "joins c3 with itself"),
        (lambda: Overlay(tree=[[3, 3]]), "joins b3 with itself"),
        (lambda: Overlay(mesh=[[1, 2, 3]]), "Overlay.mesh: expected rows of two integers"),
        (lambda: Flows([0], [1], [1, 2]), "Flows: columns of unequal length"),
        (lambda: Flows(["x"], [1], [1]), "Flows.sender: expected int64"),
        (lambda: Classes([0, 2], [1], [1]), "Classes.start: expected to begin at 0, never to fall, and to end at 1"),
        (lambda: Classes([0, 9, 2], [0, 1], [1, 1]), "Classes.start: expected to begin at 0"),
        (lambda: Classes([1, 2], [0, 1], [1]), "Classes.start: expected to begin at 0"),
        (lambda: Flows([0.7], [1], [1]), "Flows.sender: expected int64 values, found float64, such as"),
        (lambda: Flows([0], [1], [-1]), "Flows.messages: -1; expected 0 or more"),
        (lambda: Overlay(channels=[[2**63, 1]]), "Overlay.channels: expected int64"),
        (lambda: Overlay(channels=[[2**64, 1]]), "Overlay.channels: expected int64"),
        (lambda: Network(links=[[0, 1, 2], [3, 4, 5]]), "expected rows of two brokers, found shape (2, 3)"),
        (lambda: Network(links=[[-1, 0]]), "names broker -1; there are 1"),
        (lambda: Network(links=[[0, 1]], link_cost=[np.inf]), "row 0 is inf"),
        (lambda: Network(region=[0], client_region=[5], access_cost=[[1.0]]), "clients are in regions up to 5"),
        (lambda: Observation(clients=2, network=Network(client_region=[0])), "client_region: 1 values for 2 clients"),
        (lambda: Network(region=[0, 0], broker_cost=[1, 2, 3]), "Network: columns of unequal length"),
        (
            lambda: Network(links=[[0, 1]], link_cost=[-1]),
            "Network.link_cost: row 0 is -1.0; costs are finite and 0 or more",
        ),
        (lambda: Network(links=[[0, 1]], link_cost=[np.nan]), "row 0 is nan"),
        (lambda: Network(links=[[0, 1], [1, 0]]), "link b0-b1 stands twice"),
        (lambda: Network(links=[[1, 1]]), "joins a broker with itself"),
        (lambda: Network(region=[0], links=[[0, 1]]), "names broker 1; there are 1"),
        (lambda: Network(links=[[0, 1]], link_cost=[1, 2]), "1 links but 2 link_cost"),
        (lambda: Observation(interests=[[-1, 0]]), "id -1; ids are 0 or more"),
        (lambda: Observation(interests=[[5, 0]], clients=3), "id 5, but there are 3 clients"),
        (lambda: Observation(clients=3, sent=[1]), "Observation.sent: 1 values for 3 clients"),
    ],
)
def test_bad_input_is_told_what_was_found_and_what_was_expected(make, says):
    with pytest.raises((BadOverlay, BadObservation)) as caught:
        make()
    assert says in str(caught.value)


def test_links_are_kept_in_order_with_their_costs():
    network = Network(links=[[2, 1], [1, 0]], link_cost=[7, 3], latency_us=[70, 30])
    assert network.links.tolist() == [[0, 1], [1, 2]]
    assert network.link_cost.tolist() == [3, 7]
    assert network.latency_us.tolist() == [30, 70]
    assert network.brokers == 3
    assert network.region.tolist() == [0, 1, 2]
    assert network.max_degree.tolist() == [UNLIMITED] * 3
    with pytest.raises(BadOverlay, match="link b0-b2 is not among the network's 2 links"):
        network.costs_of(np.array([[0, 2]]))


def test_counts_and_sums_default_to_what_the_other_fields_say():
    observation = Observation(flows=Flows([0, 0, 2], [1, 2, 0], [5, 1, 2], [50, 10, 20]), interests=[[4, 6]])
    assert (observation.clients, observation.topics) == (5, 7)
    assert observation.sent.tolist() == [6, 0, 2, 0, 0]
    assert observation.sent_bytes.tolist() == [60, 0, 20, 0, 0]
    assert Observation(offers=Offers([1], [3], messages=[9])).sent.tolist() == [0, 9]


def test_names_are_used_where_they_are_known():
    names = {"broker": ["oslo"], "attribute": ["price", "size"]}
    assert [name_of("broker", i, names) for i in (0, 1)] == ["oslo", "b1"]
    assert name_of("client", 17) == "c17"
    assert name_of("combination", 0b101, names) == "price+a2"


def swap_plan():
    before = Overlay(tree=[[0, 1], [1, 2]])
    changes = Changes([1, 1], [-1, 1], [1, 0], [2, 2])
    args = {"left_broker": [0], "right_broker": [2], "new": [1.0], "from_broker": [1], "to_broker": [2], "old": [5.0],
            "links": [0], "total": [0.0]}  # fmt: skip
    steps = Steps([0, 2], [3.5], [1], {k: np.array(v) for k, v in args.items()})
    return Plan(Mst(), 4, before, before.apply(changes), changes, steps)


def test_a_plan_says_why_with_names_and_undoes_itself():
    plan = swap_plan()
    assert plan.why(0) == "b0-b2 costs 1 and joins what b1-b2 joined for 5"
    assert plan.why(0, {"broker": ["oslo", "rome", "paris"]}).startswith("oslo-paris costs 1")
    back = plan.inverse()
    assert back.why(0).startswith("undo: b0-b2 costs 1")
    assert back.step(0).gain == -3.5
    assert back.before.apply(back.changes) == plan.before
    assert back.inverse() == plan
    assert plan.first(0).after == plan.before
    assert plan.first(1) == plan
    assert plan.gain == 3.5
    assert pickle.loads(pickle.dumps(plan)) == plan


def test_a_plan_refuses_steps_that_are_not_there():
    for ask in (lambda: swap_plan().step(1), lambda: swap_plan().first(2), lambda: swap_plan().first(-1)):
        with pytest.raises(BadPlan, match="the plan has 1"):
            ask()
    with pytest.raises(BadPlan, match="steps end at change 0 of 2"):
        Plan(Stay(), 0, Overlay(), Overlay(), swap_plan().changes, Steps())
