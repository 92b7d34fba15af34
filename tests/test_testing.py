"""check_planner must catch every law that a planner can break."""

from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np
import pytest

from overlace.catalog import PLANNERS
from overlace.errors import BadOverlay
from overlace.model import Changes, Observation, Overlay, Steps
from overlace.planners.tree.baselines import Mst
from overlace.testing import Broken, check_overlay, check_planner, small_observations, three_in_a_row
from overlace.workloads.square import square


@pytest.mark.parametrize("name", PLANNERS)
@pytest.mark.parametrize("seed", [0, 7])
def test_every_planner_of_the_catalog_keeps_the_laws(name, seed):
    facets = PLANNERS[name].facets
    cases = [set(small_observations(facet)) for facet in facets]
    assert set.intersection(*cases)
    for case in sorted(set.intersection(*cases)):
        check_planner(PLANNERS[name](), small_observations()[case], seed)


@pytest.mark.parametrize("name", small_observations())
def test_small_observations_are_valid(name):
    observation = small_observations()[name]
    check_overlay(observation.overlay, observation)


def rebuilt(plan, **columns):
    """The plan with some columns of its steps replaced, whatever that breaks."""
    return replace(plan, steps=replace(plan.steps, **columns))


@dataclass(frozen=True)
class Twisted:
    """Mst with one law broken."""

    fault: str = field(default="")
    calls: ClassVar[list[int]] = []
    facets: ClassVar[tuple[str, ...]] = ("tree",)
    REASONS: ClassVar[tuple[str, ...]] = Mst.REASONS

    def __repr__(self):
        return "Twisted()" if self.fault == "repr" else f"Twisted(fault={self.fault!r})"

    def __reduce__(self):
        return (Twisted, ("" if self.fault == "pickle" else self.fault,))

    def cost(self, observation, overlay):
        return Mst().cost(observation, overlay)

    def solve(self, observation, seed=0, *, progress=None):
        self.calls.append(1)
        plan = replace(Mst().solve(observation, seed), planner=self)
        after, changes, start = plan.after, plan.changes, plan.steps.start
        match self.fault:
            case "seed":
                return replace(plan, seed=seed + 1)
            case "unstable":
                return rebuilt(plan, gain=plan.steps.gain + len(self.calls))
            case "gain":
                return rebuilt(plan, gain=plan.steps.gain + 1)
            case "writes":
                observation.classes.demand.setflags(write=True)
                observation.classes.demand[0] += 1
            case "elsewhere":
                return replace(plan, before=Overlay())
            case "facet":
                extra = Changes.of("mesh", 1, [[0, 1]])
                joined = Changes.joined([changes, extra])
                return replace(
                    plan, after=plan.before.apply(joined), changes=joined,
                    steps=replace(plan.steps, start=[*start[:-1], len(joined)]),
                )  # fmt: skip
            case "detour":
                there_and_back = Changes.joined([Changes.of("tree", 1, [[0, 8]]), Changes.of("tree", -1, [[0, 8]])])
                joined = Changes.joined([changes, there_and_back])
                return replace(plan, changes=joined, steps=replace(plan.steps, start=[*start[:-1], len(joined)]))
            case "cycle":
                order = np.arange(len(changes)).reshape(-1, 2)[:, ::-1].reshape(-1)
                turned = Changes(*(getattr(changes, f)[order] for f in ("facet", "action", "left", "right")))
                one_by_one = np.arange(len(changes) + 1)
                twice = {k: np.repeat(v, 2) for k, v in plan.steps.args.items()}
                gain = np.zeros(len(changes))
                steps = Steps(one_by_one, gain, np.ones(len(changes)), twice)
                return replace(plan, changes=turned, steps=steps)
            case "empty step":
                args = {k: np.append(v, v[-1:]) for k, v in plan.steps.args.items()}
                steps = Steps([*start, start[-1]], [*plan.steps.gain, 0], [*plan.steps.reason, 1], args)
                return replace(plan, steps=steps)
        return replace(plan, after=after)


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        ("repr", "repr"),
        ("pickle", "pickling"),
        ("seed", "another planner or seed"),
        ("unstable", "two different plans"),
        ("gain", "the gains add up"),
        ("writes", "changed its observation"),
        ("elsewhere", "does not start at the observed overlay"),
        ("facet", "changed mesh"),
        ("detour", "not the whole difference"),
        ("empty step", "a step has no change"),
    ],
)
def test_a_planner_that_breaks_a_law_is_found_out(fault, says):
    with pytest.raises(Broken, match=says):
        check_planner(Twisted(fault), square(9, 20, 30, seed=1))


def test_a_step_that_leaves_no_tree_is_found_out():
    with pytest.raises(BadOverlay, match="close a cycle"):
        check_planner(Twisted("cycle"), square(9, 20, 30, seed=1))


def test_the_same_planner_without_a_fault_passes():
    plan = check_planner(Twisted(), square(9, 20, 30, seed=1))
    assert len(plan.steps) == 6


@pytest.mark.parametrize(
    ("overlay", "says"),
    [
        (Overlay(placement=[[0, 0], [0, 1]]), "placement: c0 stands in two rows"),
        (Overlay(placement=[[0, 5]]), "placement: broker 5 does not exist; there are 3"),
        (Overlay(placement=[[9, 0]]), "placement: client 9 does not exist; there are 2"),
        (Overlay(channels=[[3, 0], [3, 1]]), "channels: a0\\+a1 stands in two rows"),
        (Overlay(channels=[[0, 0]]), "empty combination"),
        (Overlay(mesh=[[0, 7]]), "mesh: client 7 does not exist"),
        (Overlay(tree=[[0, 1]]), "2 parts"),
    ],
)
def test_check_overlay_names_what_is_wrong(overlay, says):
    with pytest.raises(BadOverlay, match=says):
        check_overlay(overlay, three_in_a_row())


def test_an_observation_without_anything_is_valid():
    check_overlay(Overlay(), Observation())


@dataclass(frozen=True)
class Limited(Mst):
    """Mst with limits of its own making."""

    fault: str = ""

    @property
    def limits(self):
        return {"names": "max_degree", "nothing": ()}.get(self.fault, ("max_degree", "max_swaps"))

    def relax(self, limit):
        if self.fault == "any" or (limit in self.limits and self.fault == "kept"):
            return self
        return Mst() if self.fault == "kind" else super().relax(limit)


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("names", "expected a tuple of names"),
        ("kept", "left the limits max_degree, max_swaps; expected max_swaps"),
        ("kind", "made a Mst; expected a Limited"),
        ("nothing", ""),
    ],
)
def test_limits_are_lifted_one_by_one(fault, said):
    if not said:
        assert check_planner(Limited(fault=fault), three_in_a_row()).planner.limits == ()
        return
    with pytest.raises(Broken, match=said):
        check_planner(Limited(fault=fault), three_in_a_row())


@pytest.mark.parametrize("name", PLANNERS)
def test_what_is_optional_in_a_planner_is_a_limit_that_can_be_lifted(name):
    planner = PLANNERS[name]()
    for limit in planner.limits:
        assert limit not in planner.relax(limit).limits
    assert PLANNERS["mesh.hub-tree"](cap=5).limits == ("cap",)
    assert PLANNERS["mesh.hub-tree"](cap=5).relax("cap") == PLANNERS["mesh.hub-tree"]()
