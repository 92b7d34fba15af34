"""What `keep` and `only` hold in place: patterns of clients, brokers and links as ids."""

import numpy as np
import pytest

from overlace.arrays.pairs import difference
from overlace.errors import BadParameter, Unknown
from overlace.limits import Limits
from overlace.model import Classes, Network, Observation, Overlay
from overlace.optimize.plan import joint_planner
from overlace.optimize.scope import Scope, check_names, scope_of
from overlace.planners.joint.joint import Joint
from overlace.verbs import optimize
from tests.optimize.asking import options_of
from tests.traces import trace_of

NAMES = {"broker": ["plant-0", "plant-1", "plant-2", "hub"], "client": ["a0", "a1", "b0", "b1"]}
NETWORK = Network(region=[0, 0, 0, 0], links=[[0, 1], [0, 2], [0, 3], [1, 2], [1, 3], [2, 3]])
TREE = Overlay(tree=[[0, 3], [1, 3], [2, 3]]).tree  # rows 2, 4 and 5


def kept(**options):
    return scope_of(Limits(**options), NETWORK, TREE, 4, NAMES)


def test_without_keep_and_only_nothing_is_held():
    assert kept() == Scope((), (), (), ())


def test_of_clients_that_are_named_nobody_else_may_move_and_the_rest_is_free():
    assert kept(only=("a*",)) == Scope((), (), (), (0, 1))
    assert kept(only=("client:a0", "b1")) == Scope((), (), (), (0, 3))


def test_every_broker_that_is_not_named_keeps_its_clients_and_links():
    assert kept(only=("broker:plant-[01]",)) == Scope((), (2, 3), (), ())
    assert kept(only=("broker:*",)) == Scope((), (), (), ())


def test_every_wired_link_that_is_not_named_stays():
    assert kept(only=("link:hub:plant-0",)).links == (4, 5)
    assert kept(only=("link:plant-0:*",)).links == (4, 5)  # also names links that are not wired: they bind nothing
    assert kept(only=("link:hub:*",)) == Scope((), (), (), ())


def test_keep_wins_over_only_and_both_add_up():
    found = kept(keep=("a0", "broker:hub", "link:hub:plant-0"), only=("a*", "broker:plant-*", "link:hub:plant-[01]"))
    assert found == Scope((0,), (3,), (2, 5), (0, 1))


def test_a_client_that_may_move_but_was_not_seen_yet_moves_nobody_else():
    late = {**NAMES, "client": [*NAMES["client"], "late"]}
    assert scope_of(Limits(only=("late",)), NETWORK, TREE, 4, late).clients == (0, 1, 2, 3)


def test_patterns_that_match_nothing_are_refused_with_the_nearest_names():
    for pattern, hint in (("a9", "client .*Nearest: a"), ("broker:plant-9", "broker .*Nearest: plant")):
        with pytest.raises(Unknown, match=hint):
            check_names(Limits(only=(pattern,)), NAMES)
        with pytest.raises(Unknown, match=hint):
            check_names(Limits(keep=(pattern,)), NAMES)
    check_names(Limits(only=("a*", "broker:plant-?", "link:hub:*")), NAMES)
    with pytest.raises(Unknown, match="no link that the trace names is called 'hub:nosuch'"):
        kept(only=("link:hub:nosuch",))
    with pytest.raises(Unknown, match="no wired link is called 'plant-0:plant-1'.*plant-0:hub"):
        kept(only=("link:plant-0:plant-1",))
    with pytest.raises(BadParameter, match="expected two patterns of brokers"):
        kept(only=("link:hub",))


def test_a_single_broker_that_may_change_is_refused_for_nothing_could():
    with pytest.raises(BadParameter, match="of 4 brokers just hub may change.*Name two brokers or more"):
        kept(only=("broker:hub",))


def test_a_wired_link_whose_row_is_not_known_is_held_by_no_row():
    """Without a table of links there are no rows to keep; a link beside the table is refused by the planner."""
    with pytest.raises(Unknown, match="There are: none"):
        scope_of(Limits(only=("link:hub:*",)), Network(region=[0] * 4), TREE, 4, NAMES)
    fewer = Network(region=[0] * 4, links=[[0, 3], [1, 3]])
    assert scope_of(Limits(only=("link:hub:plant-0",)), fewer, TREE, 4, NAMES).links == (1,)


def crossing():
    """Two pairs that talk across the brokers: a0 with b1, a1 with b0; plant to plant costs 1, plant to hub 10."""
    network = Network(region=[0] * 4, links=NETWORK.links, link_cost=[1, 1, 10, 1, 10, 10])
    return Observation(
        overlay=Overlay(placement=[[0, 0], [1, 1], [2, 1], [3, 2]], tree=TREE), network=network,
        classes=Classes.of([[0, 3], [1, 3], [0, 2]], [50, 30, 20]), sent=[25, 25, 25, 25],
    )  # fmt: skip


ALL = {0, 1, 2, 3}


@pytest.mark.parametrize(
    ("only", "clients", "brokers", "links"),
    [
        (("a0",), {0}, ALL, {(0, 3), (1, 3), (2, 3)}),
        (("broker:plant-[01]",), ALL, {0, 1}, set()),  # every wired link has an end that stays
        (("broker:plant-*",), ALL, {0, 1, 2}, set()),
        (("link:hub:plant-1",), ALL, ALL, {(1, 3)}),
        (("b*", "link:hub:plant-[02]"), {2, 3}, ALL, {(0, 3), (2, 3)}),
    ],
)
def test_a_plan_changes_nothing_else_of_a_kind_that_only_names(only, clients, brokers, links):
    observation = crossing()
    options = options_of(only=only, placement="anywhere", allow_link=("*:*",), sent_cap=0, handled_cap=0, effort=5)
    plan = joint_planner(observation, NAMES, *options, "message").solve(observation)
    assert plan.gain > 0
    homes = [overlay.homes(4) for overlay in (observation.overlay, plan.after)]
    moved = np.flatnonzero(homes[0] != homes[1])
    gone, new = (set(map(tuple, each.tolist())) for each in difference(observation.overlay.tree, plan.after.tree))
    assert set(moved.tolist()) <= clients
    assert gone <= links
    assert {int(b) for each in homes for b in each[moved]} | {b for link in gone | new for b in link} <= brokers


def test_a_kind_is_shut_off_by_its_own_limit():
    observation = crossing()
    options = options_of(
        only=("link:hub:plant-*",), max_moves=0, placement="anywhere", allow_link=("*:*",), sent_cap=0, handled_cap=0
    )
    plan = joint_planner(observation, NAMES, *options, "message").solve(observation)
    assert (plan.after.placement == observation.overlay.placement).all()
    assert len(plan.steps) > 0


def test_optimize_takes_only_by_brokers_and_links(tmp_path):
    messages = [(hour * 3_600_000_000, hour % 2, 0, 100, [2 + hour % 2]) for hour in range(60)] * 2
    tables = {
        "links": {"left": [0, 1, 2, 0], "right": [3, 3, 3, 1], "cost": [9.0] * 4, "wired": [True] * 3 + [False]},
        "sessions": {"client": range(4), "broker": [0, 1, 1, 2]},
        "brokers": {"broker": range(4), "region": [0] * 4, "cost": [1.0] * 4},
    }  # fmt: skip
    trace_of(tmp_path / "trace", messages, NAMES, **tables)
    options = options_of(
        only=("broker:plant-[01]", "link:plant-0:hub"), placement="anywhere", sent_cap=0, handled_cap=0, effort=1
    )
    (part,) = optimize(str(tmp_path / "trace"), tmp_path / "run", *options).verdicts
    document = part.document
    planner = Joint(**{k: tuple(v) if isinstance(v, list) else v for k, v in document.parameters.items()})
    assert planner.keep_brokers == (2, 3)
    assert planner.keep_links == (2, 3)  # rows of (0,1) (0,3) (1,3) (2,3)
    assert (document.counts.moves, document.counts.links) == (1, 0)
