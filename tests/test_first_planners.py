"""What people get wrong when they write their first planner: check_planner says it in a sentence."""

from dataclasses import dataclass, field, make_dataclass, replace
from functools import cached_property
from typing import ClassVar

import numpy as np
import pytest

from overlace.errors import BadOverlay, NotObserved, Unknown
from overlace.model import Changes, Observation, Overlay, Plan, Steps
from overlace.planners.placement.planner import PlacementPlanner
from overlace.planners.tree.planner import TreePlanner
from overlace.testing import Broken, check_planner, small_observations, three_in_a_row


@dataclass(frozen=True)
class Nearer:
    """Client 0 goes to where client 1 is: a planner without a fault."""

    most: int = 1
    facets: ClassVar[tuple[str, ...]] = ("placement",)
    REASONS: ClassVar[tuple[str, ...]] = ("{client} to {to_broker}", "{client} back from {from_broker}")

    def cost(self, observation, overlay):
        """Ten a client that is apart from client 1."""
        homes = overlay.homes(observation.clients)
        return 10.0 * (homes[0] != homes[1])

    def parts(self, observation):
        """The columns of its plan."""
        changes = Changes([0, 0], [-1, 1], [0, 0], [0, 2])
        return changes, {"start": [0, 2], "gain": [10.0], "reason": [0], "args": {"client": [0], "to_broker": [2]}}

    def solve(self, observation, seed=0, *, progress=None):
        """One step."""
        changes, columns = self.parts(observation)
        before = observation.overlay
        return Plan(self, seed, before, before.apply(changes), changes, Steps(**columns))


def having(name="Odd", **members):
    """A frozen dataclass like Nearer but for these members."""
    return dataclass(frozen=True)(type(name, (Nearer,), members))()


def stepping(**columns):
    """Nearer with other columns in its steps."""

    def parts(self, observation):
        changes, given = Nearer.parts(self, observation)
        return changes, given | columns

    return having(parts=parts)


def returning(value):
    """Nearer whose solve gives something else; a function is given the right plan."""

    def solve(self, observation, seed=0, *, progress=None):
        plan = Nearer.solve(self, observation, seed)
        return value(plan, observation) if callable(value) else value

    return having(solve=solve)


def test_the_planner_without_a_fault_passes():
    plan = check_planner(Nearer(), three_in_a_row())
    assert plan.why(0) == "c0 to b2"


# --- the class


class Plain:
    """No dataclass."""

    facets = ("placement",)


@dataclass
class Thawed:
    """Not frozen."""

    facets: ClassVar[tuple[str, ...]] = ("placement",)


class Forgotten(Nearer):
    """A field in a class without a decorator."""

    least: int = 3


@dataclass(frozen=True)
class Needy(Nearer):
    """A field without a default."""

    least: int = field(kw_only=True)


@dataclass(frozen=True)
class Listing(Nearer):
    """A parameter that can change."""

    only: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class Filled(Nearer):
    """A list where a tuple is declared."""

    only: tuple[int, ...] = field(default_factory=list)


@dataclass(frozen=True)
class Misread(Nearer):
    """An annotation that names nothing."""

    only: "Tuple[int, ...]" = ()  # noqa: F821


@dataclass(frozen=True)
class Facetted:
    """Facets as a parameter."""

    facets: tuple[str, ...] = ("placement",)
    REASONS: ClassVar[tuple[str, ...]] = ()
    solve, cost = Nearer.solve, Nearer.cost


@dataclass(frozen=True)
class Choosy(Nearer):
    """Refuses its own default."""

    def __post_init__(self):
        if self.most < 2:
            raise ValueError("most must be 2 or more")


@dataclass(frozen=True)
class Own(Nearer):
    """A constructor of its own."""

    def __init__(self, what):
        object.__setattr__(self, "most", what)


@dataclass(frozen=True, eq=False)
class Unequal(Nearer):
    """Equal to itself only."""


def without(name):
    """A frozen dataclass that lacks a member of a planner."""
    members = {each: getattr(Nearer, each) for each in ("facets", "REASONS", "solve", "cost") if each != name}
    return make_dataclass("Lacking", [], namespace=members, frozen=True)()


@pytest.mark.parametrize(
    ("planner", "says"),
    [
        (lambda: Nearer, r"found the class Nearer; expected a planner made of it: Nearer\(\)"),
        (Plain, r"Plain is no dataclass; expected @dataclass\(frozen=True\)"),
        (Thawed, r"Thawed is a dataclass that is not frozen; expected @dataclass\(frozen=True\)"),
        (Forgotten, "Forgotten declares least but is no dataclass itself; expected @dataclass"),
        (lambda: Needy(least=1), r"Needy.least has no default; expected one for every field, so that Needy\(\) is"),
        (Listing, r"Listing.only is declared as list\[int\]; expected bool, int, float, str, Literal, tuple"),
        (Filled, "Filled.only holds a list, which can change; expected a plain value or a tuple"),
        (Misread, "get_type_hints raised NameError .*'Tuple'.*; expected annotations whose names the module knows"),
        (Facetted, "Facetted.facets is a field, that is, a parameter; expected a constant of the class: facets"),
        (
            lambda: Choosy(3),
            r"Choosy\(\) raised ValueError .*most must be 2 or more; expected a planner with the default",
        ),
        (lambda: Own(3), r"Own\(\) raised TypeError .*'what'; expected a planner with the default of every field"),
        (Unequal, "Unequal is a dataclass with eq=False; expected planners with the same parameters to be equal"),
        (
            lambda: without("solve"),
            r"Lacking has no method solve; expected def solve\(self, observation, seed=0, \*, prog",
        ),
        (lambda: without("cost"), r"Lacking has no method cost; expected def cost\(self, observation, overlay\)"),
        (lambda: without("facets"), "Lacking has no facets; expected such as facets: ClassVar"),
        (lambda: without("REASONS"), "Lacking has no REASONS; expected such as REASONS: ClassVar"),
        (
            lambda: having(facets="placement"),
            r"Odd.facets is 'placement'; expected a tuple of strings such as \(\"tree\",\)",
        ),
        (lambda: having(facets=["placement"]), r"Odd.facets is \['placement'\]; expected a tuple of strings"),
        (
            lambda: having(facets=("homes",)),
            r"Odd.facets is \('homes',\); expected some of placement, tree, channels, mesh",
        ),
        (lambda: having(facets=()), r"Odd.facets is \(\); expected some of placement"),
        (lambda: having(REASONS="{client} moves"), "Odd.REASONS is '{client} moves'; expected a tuple of strings"),
        (lambda: having(REASONS=(None,)), r"Odd.REASONS is \(None,\); expected a tuple of strings"),
        (
            lambda: having(REASONS=("{client moves",)),
            r"REASONS\[0\] '{client moves' cannot be read \(.*\); expected places",
        ),
        (
            lambda: having(REASONS=("{} moves",)),
            r"REASONS\[0\] '{} moves' has a place without a name; expected such as",
        ),
        (lambda: having(solve=None), "Odd has no method solve"),
        (
            lambda: having(solve=lambda self, observation: None),
            r"Odd has solve\(self, observation\) \(.*\); expected solve\(self, observation, seed=0, \*, progress",
        ),
        (
            lambda: having(solve=lambda self, observation, seed: None),
            r"Odd has solve\(self, observation, seed\) \(missing a required argument: 'seed'\); expected solve\(self",
        ),
        (
            lambda: having(solve=lambda self, observation, seed=0: None),
            r"Odd has solve\(self, observation, seed=0\) \(.*'progress'\); expected solve\(self",
        ),
        (
            lambda: having(cost=lambda self, overlay: 0.0),
            r"Odd has cost\(self, overlay\) \(too many .*\); expected cost\(self, observation, overlay\)",
        ),
        (lambda: having(solve=lambda: None), r"Odd has solve\(\) .*; expected solve\(self, observation"),
        (
            lambda: having(__repr__=lambda self: "<a planner>"),
            r"its repr is <a planner>, which Python cannot read \(.*\); expected Odd\(field=value, ...\)",
        ),
        (
            lambda: replace(having(__repr__=lambda self: "Odd()"), most=4),
            r"its repr does not make it again: Odd\(\) makes",
        ),
    ],
)
def test_what_is_wrong_with_a_class_is_said(planner, says):
    with pytest.raises(Broken, match=says) as raised:
        check_planner(planner(), three_in_a_row())
    assert "\n" not in str(raised.value)


# --- what it returns


def shifting(self, observation, seed=0, *, progress=None):
    """Another gain at every call."""
    shifting.calls += 1
    plan = Nearer.solve(self, observation, seed)
    return replace(plan, steps=replace(plan.steps, gain=[shifting.calls]))


shifting.calls = 0


def writes(plan, observation):
    observation.sent[0] = 5


def forces(plan, observation):
    observation.sent.setflags(write=True)
    observation.sent[0] = 5
    return plan


def sets(self, observation, seed=0, *, progress=None):
    self.most = 3


def sets_by_force(self, observation, seed=0, *, progress=None):
    object.__setattr__(self, "most", 3)
    return Nearer.solve(self, observation, seed)


def remembers(self, observation, seed=0, *, progress=None):
    object.__setattr__(self, "found", 3)
    return Nearer.solve(self, observation, seed)


def counts_wrong(self, observation, seed=0, *, progress=None):
    if progress:
        progress(37, "clients")
    return Nearer.solve(self, observation, seed)


def renamed(plan, observation):
    return replace(plan, planner="nearer")


def elsewhere(plan, observation):
    return replace(plan, after=Overlay(placement=[[0, 1], [1, 2]], tree=plan.before.tree))


def nobody(plan, observation):
    """A broker that is not there."""
    changes = Changes([0, 0], [-1, 1], [0, 0], [0, 7])
    return replace(plan, after=plan.before.apply(changes), changes=changes)


def two_homes(plan, observation):
    """The old home is kept."""
    changes = Changes([0], [1], [0], [2])
    steps = replace(plan.steps, start=[0, 1])
    return replace(plan, after=plan.before.apply(changes), changes=changes, steps=steps)


def half_way(plan, observation):
    """The client is nowhere after the first step, and what is added in the second is there already."""
    changes = Changes([0, 0, 0, 0], [1, -1, -1, 1], [0, 0, 0, 0], [2, 0, 2, 2])
    args = {name: np.repeat(values, 4) for name, values in plan.steps.args.items()}
    return replace(plan, changes=changes, steps=Steps([0, 1, 2, 3, 4], [0, 10.0, 0, 0], [0, 0, 0, 0], args))


@pytest.mark.parametrize(
    ("planner", "says"),
    [
        (returning(None), "solve returned None; expected a Plan"),
        (returning(Overlay()), "solve returned a Overlay; expected a Plan"),
        (returning(lambda plan, _: (plan, 3)), "solve returned a tuple; expected a Plan"),
        (
            returning(lambda plan, _: 1 / 0),
            "solve raised ZeroDivisionError at test_.*: division by zero; expected a Plan",
        ),
        (returning(lambda plan, _: plan.steps.nothing), "solve raised AttributeError at .*'nothing'; expected a Plan"),
        (returning(lambda plan, _: Plan(1, 2)), "solve raised TypeError at .*missing 4 .*; expected a Plan"),
        (
            returning(lambda plan, _: replace(plan, after=plan.before.placement)),
            "the plan's after is a ndarray; expected Over",
        ),
        (returning(lambda plan, _: replace(plan, before=None)), "the plan's before is a NoneType; expected Overlay"),
        (returning(writes), "solve raised ValueError .*read-only .*: copy them first.*; expected a Plan"),
        (returning(forces), "solve changed its observation; expected to find it as it was"),
        (having(solve=sets), r"solve sets a field of the planner \(cannot assign to field 'most'\); expected no state"),
        (having(solve=sets_by_force), r"solve turned Odd\(most=1\) into Odd\(most=3\); expected its fields unchanged"),
        (having(solve=remembers), "solve left found on the planner; expected no state"),
        (having(solve=counts_wrong), r"solve called progress\(37, 'clients'\); expected a share from 0 to 1"),
        (having(solve=shifting), r"seed 0 gave two different plans \(steps differ\); expected the same seed to decide"),
        (returning(renamed), r"the plan names another planner or seed: 'nearer' and 0; expected Odd\(most=1\) and 0"),
        (
            returning(lambda plan, _: replace(plan, seed=None)),
            "another planner or seed: .* and None; expected .* and 0",
        ),
        (
            returning(lambda plan, _: replace(plan, before=Overlay())),
            "not start at the observed overlay: found 0 rows of pl",
        ),
        (
            returning(elsewhere),
            r"not the whole difference .*: too many 1 \(first: add placement 0-2\), lacking 1 \(first: add pl",
        ),
        (returning(nobody), "the overlay after is not valid: placement: broker 7 does not exist; there are 3"),
        (returning(two_homes), "the overlay after is not valid: placement: c0 stands in two rows; once is the rule"),
        (returning(half_way), "the changes are not the whole difference"),
        (stepping(gain=[10.0, 3.0]), "solve raised BadPlan at .*columns of unequal length.*; expected a Plan"),
        (
            stepping(gain=[[10.0]]),
            r"solve raised BadPlan at .*Steps.gain: expected 1 dimension\(s\), found shape \(1, 1\)",
        ),
        (stepping(gain=["much"]), "solve raised BadPlan at .*Steps.gain: expected float64 values"),
        (stepping(start=[0, 1]), "solve raised BadPlan at .*the steps end at change 1 of 2"),
        (stepping(start=[2, 0]), "solve raised BadPlan at .*expected to begin at 0"),
        (stepping(gain=[np.nan]), r"step \[0\] has gain \[nan\]; expected a finite number"),
        (stepping(gain=[-10.0]), "after step 0 the cost fell by 10.0, the gains add up to -10.0; expected the same"),
        (stepping(reason=[2]), "step 0 has reason 2; expected 0 to 1, an index into REASONS"),
        (stepping(reason=[-1]), "step 0 has reason -1; expected 0 to 1, an index into REASONS"),
        (stepping(reason=[0.5]), "solve raised BadPlan at .*Steps.reason: expected int64 values"),
        (
            stepping(reason=[1]),
            r"REASONS\[1\] names from_broker, expected among the args of the steps; found client, to_br",
        ),
        (stepping(args={}), r"REASONS\[0\] names client, to_broker, expected among the args of the steps; found none"),
        (
            stepping(args={"client": [0], "to_broker": [np.inf]}),
            r"step \[0\] has to_broker \[inf\]; expected a finite number",
        ),
        (stepping(args={"client": ["c0"], "to_broker": [2]}), "solve raised BadPlan at .*Steps.args"),
        (stepping(args={"client": [0, 1], "to_broker": [2, 2]}), "solve raised BadPlan at .*columns of unequal length"),
        (having(REASONS=()), "step 0 has reason 0; expected no step, since REASONS is empty"),
        (having(REASONS=("",)), "step 0 has no reason: found an empty text, expected a sentence"),
        (having(REASONS=("{client:.1f}",)), r"why\(0\) raised ValueError .*; expected '{client:.1f}' to fit the args"),
        (having(facets=("tree",)), r"changed placement, but its facets are \('tree',\)"),
        (having(cost=lambda self, observation, overlay: None), "cost returned None; expected a finite number"),
        (
            having(cost=lambda self, observation, overlay: np.zeros(2)),
            "cost returned array.*; expected a finite number",
        ),
        (having(cost=lambda self, observation, overlay: np.nan), "cost returned nan; expected a finite number"),
        (
            having(cost=lambda self, observation, overlay: {}[1]),
            "cost raised KeyError at test_.*: 1; expected a number",
        ),
        (
            having(cost=lambda self, observation, overlay: shifting.calls),
            "the cost fell by 0.0, the gains add up to 10.0",
        ),
        (having(), "pickle.dumps raised .*; expected a class at the top level of a module"),
    ],
)
def test_what_is_wrong_with_a_plan_is_said(planner, says):
    with pytest.raises(Broken, match=says) as raised:
        check_planner(planner, three_in_a_row())
    assert "\n" not in str(raised.value)


def test_an_overlay_that_is_none_is_a_broken_law_and_a_bad_overlay():
    with pytest.raises(BadOverlay, match="stands in two rows") as raised:
        check_planner(returning(two_homes), three_in_a_row())
    assert isinstance(raised.value, Broken | AssertionError)


def test_what_a_planner_says_about_the_data_passes_as_it_is():
    def refuse(plan, observation):
        raise NotObserved("no sessions were observed")

    with pytest.raises(NotObserved, match="no sessions were observed"):
        check_planner(returning(refuse), three_in_a_row())


@dataclass(frozen=True)
class Costly(Nearer):
    """Another cost at every call."""

    calls: ClassVar[list[int]] = []

    def cost(self, observation, overlay):
        """One more each time."""
        self.calls.append(1)
        return len(self.calls)


def test_a_cost_that_changes_is_found():
    with pytest.raises(Broken, match="cost returned 1.0, then 2.0 for the same overlay; expected the same"):
        check_planner(Costly(), three_in_a_row())


def test_a_cached_property_is_state():
    class Cached(Nearer):
        @cached_property
        def weight(self):
            return 3

        def solve(self, observation, seed=0, *, progress=None):
            assert self.weight
            return Nearer.solve(self, observation, seed)

    with pytest.raises(Broken, match="solve left weight on the planner"):
        check_planner(Cached(), three_in_a_row())


# --- the tree that a planner wants


def wanting(links):
    """A tree planner that wants these links."""

    def wanted(self, observation, setting, seed, progress=None):
        return links

    return dataclass(frozen=True)(type("Wanting", (TreePlanner,), {"wanted": wanted}))()


@pytest.mark.parametrize(
    ("links", "says"),
    [
        (None, "wanted returned None; expected links, rows of two brokers"),
        ([0, 1, 2], r"wanted returned shape \(3,\); expected links, rows of two brokers"),
        ([[0, 1, 2]], r"wanted returned shape \(1, 3\); expected links, rows of two brokers"),
        ([[0.5, 1], [1, 2]], "wanted returned float64 values; expected links, rows of two brokers"),
        ([[0, 1], [1, 7]], "wanted returned .*b1-b7 name brokers that do not exist; there are 3"),
        ([[0, 1]], "wanted returned .*1 links leave 3 brokers in 2 parts"),
        ([[0, 1], [1, 2], [0, 2]], "wanted returned .*close a cycle"),
        ([[0, 1], [0, 1]], "wanted returned .*close a cycle"),
    ],
)
def test_what_is_wrong_with_a_wanted_tree_is_said(links, says):
    with pytest.raises(Broken, match=says):
        check_planner(wanting(links), three_in_a_row())


def test_wanted_links_may_stand_in_any_order_and_direction():
    with pytest.raises(Broken, match="expected a class at the top level of a module"):  # all other laws hold
        check_planner(wanting([[2, 0], [1, 0]]), three_in_a_row())


# --- the homes that a planner wants


@pytest.mark.parametrize(
    ("homes", "says"),
    [
        (None, "wanted returned None; expected the broker of each of 2 clients"),
        ([0], r"wanted returned int64 values of shape \(1,\); expected the broker of each of 2 clients"),
        ([[0, 2], [1, 2]], r"wanted returned int64 values of shape \(2, 2\); expected the broker of each of 2 clients"),
        ([0.5, 2], r"wanted returned float64 values of shape \(2,\); expected the broker of each of 2 clients"),
        ([0, 3], "wanted returned broker 3 for client 1; expected 0 to 2"),
        ([-1, 2], "wanted returned broker -1 for client 0; expected 0 to 2"),
    ],
)
def test_what_is_wrong_with_wanted_homes_is_said(homes, says):
    def wanted(self, observation, problem, seed, progress):
        return homes

    planner = dataclass(frozen=True)(type("Wanting", (PlacementPlanner,), {"wanted": wanted}))()
    with pytest.raises(Broken, match=says):
        check_planner(planner, three_in_a_row())


@pytest.mark.parametrize("base", [TreePlanner, PlacementPlanner])
def test_a_planner_that_wants_nothing_is_told_what_to_write(base):
    planner = dataclass(frozen=True)(type("Wantless", (base,), {}))()
    with pytest.raises(Broken, match=r"Wantless has no method wanted; expected def wanted\(self, observation, "):
        check_planner(planner, three_in_a_row())


def test_a_facet_that_does_not_exist_has_no_observations():
    with pytest.raises(Unknown, match="no facet is called 'trees'. Nearest: tree"):
        small_observations("trees")


def test_what_is_no_observation_is_said():
    with pytest.raises(Broken, match="found a dict; expected an Observation"):
        check_planner(Nearer(), {})
    assert isinstance(three_in_a_row(), Observation)
