"""The star algorithms of TDCD17 and greedy merge: laws, and the kernels against the algorithms word by word."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overlace.errors import BadOverlay, BadParameter, NotObserved
from overlace.model import Observation, Overlay
from overlace.planners.mesh.baselines import CdOda, CdOda1, CdOda2, MmOda, TwoDOda
from overlace.planners.mesh.greedy_merge import GreedyMerge
from overlace.planners.mesh.td_cd_oda import TdCdOda
from overlace.testing import check_planner
from tests.mesh.meshes import diameters, graph_of, interests, links_of, observed, uniform, useful
from tests.oracles import mesh as oracle
from tests.strategies import links

WHOLE = {
    TdCdOda(): oracle.td_cd_oda,
    TdCdOda(size="left"): lambda wants: oracle.td_cd_oda(wants, "left"),
    CdOda(): oracle.cd_oda,
    CdOda1(): oracle.cd_oda_1,
    CdOda2(): oracle.cd_oda_2,
    CdOda2(itself=False): lambda wants: oracle.cd_oda_2(wants, False),
}
STARS = [*WHOLE, TwoDOda(), TwoDOda(weight="all")]
MERGES = [GreedyMerge(), MmOda()]
RANDOM = [TdCdOda(ties="random"), CdOda2(ties="random"), TwoDOda(ties="random"), GreedyMerge(ties="random"),
          MmOda(ties="random")]  # fmt: skip


def stars_of(plan):
    """[(centre, leaves)] of the steps that add."""
    found = []
    for i in range(len(plan.steps)):
        step = plan.step(i)
        ends = np.column_stack([step.changes.left, step.changes.right])
        centre = int(step.args["client"])
        found.append((centre, {int(a + b - centre) for a, b in ends}))
    return found


@pytest.mark.parametrize("planner", WHOLE, ids=repr)
@given(interests())
def test_whole_stars_are_the_algorithm_s_star_by_star(planner, wants):
    plan = planner.solve(observed(wants))
    assert stars_of(plan) == [star for star in WHOLE[planner](wants) if star[1]]


@pytest.mark.parametrize("weight", ["left", "all"])
@given(interests())
def test_2d_oda_is_the_algorithm_s_topic_by_topic(weight, wants):
    plan = TwoDOda(weight=weight).solve(observed(wants))
    expected = [(v, t, leaves) for v, t, leaves in oracle.two_d_oda(wants, weight) if leaves]
    topics = plan.steps.args["topic"].tolist()
    assert [(v, t, leaves) for (v, leaves), t in zip(stars_of(plan), topics, strict=True)] == expected


@pytest.mark.parametrize(("planner", "literal"), [(GreedyMerge(), oracle.greedy_merge), (MmOda(), oracle.mm_oda)])
@settings(max_examples=60)
@given(wants=interests())
def test_merges_are_the_algorithm_s_link_by_link(planner, literal, wants):
    plan = planner.solve(observed(wants))
    assert list(zip(plan.changes.left.tolist(), plan.changes.right.tolist(), strict=True)) == literal(wants)


@pytest.mark.parametrize("planner", WHOLE, ids=repr)
def test_larger_instances_agree_with_the_algorithm(planner):
    observation = uniform(70, 40, 6, seed=3)  # more than one block of 64 clients
    wants = {v: set(observation.interests[observation.interests[:, 0] == v, 1].tolist()) for v in range(70)}
    assert stars_of(planner.solve(observation)) == [star for star in WHOLE[planner](wants) if star[1]]


@pytest.mark.parametrize("planner", [*STARS, *MERGES, *RANDOM], ids=repr)
@settings(max_examples=25)
@given(wants=interests(), data=st.data())
def test_the_laws_hold_whatever_mesh_was_there(planner, wants, data):
    observation = observed(wants, data.draw(links(len(wants))))
    plan = check_planner(planner, observation, seed=data.draw(st.integers(0, 3)))
    most = 2 if planner in STARS or isinstance(planner, TdCdOda | CdOda2 | TwoDOda) else len(wants)
    assert all(d <= most for d in diameters(observation, plan.after.mesh))
    assert useful(observation, plan.after.mesh)
    sizes = np.bincount(observation.interests[:, 1])
    assert len(plan.after.mesh) <= np.maximum(sizes - 1, 0).sum()


@pytest.mark.parametrize("planner", [TdCdOda(), TwoDOda(), GreedyMerge()], ids=repr)
@settings(max_examples=25)
@given(wants=interests(), data=st.data())
def test_a_topic_that_was_connected_never_falls_apart_on_the_way(planner, wants, data):
    observation = observed(wants, data.draw(links(len(wants), 30)))
    plan = planner.solve(observation)
    whole = [d < np.inf for d in diameters(observation, plan.before.mesh)]
    for k in range(len(plan.steps) + 1):
        here = diameters(observation, plan.first(k).after.mesh)
        assert all(d < np.inf for d, was in zip(here, whole, strict=True) if was)
    signs = np.sign(np.diff(plan.changes.action))
    assert (signs <= 0).all()  # add before remove


@pytest.mark.parametrize("planner", [*WHOLE, *MERGES], ids=repr)
@given(wants=interests(), data=st.data())
@settings(max_examples=25)
def test_other_names_for_the_topics_change_nothing(planner, wants, data):
    name = data.draw(st.permutations(range(10)))
    renamed = {v: {name[t] for t in own} for v, own in wants.items()}
    assert links_of(planner.solve(observed(renamed))) == links_of(planner.solve(observed(wants)))


@pytest.mark.parametrize("planner", WHOLE, ids=repr)
@given(wants=interests())
@settings(max_examples=25)
def test_every_topic_twice_gives_the_same_stars(planner, wants):
    twice = {v: own | {t + 10 for t in own} for v, own in wants.items()}
    assert stars_of(planner.solve(observed(twice))) == stars_of(planner.solve(observed(wants)))


@pytest.mark.parametrize("planner", WHOLE, ids=repr)
@given(wants=interests())
@settings(max_examples=25)
def test_a_client_is_the_centre_at_most_once(planner, wants):
    centres = [centre for centre, _ in stars_of(planner.solve(observed(wants)))]
    assert len(centres) == len(set(centres))


def test_random_ties_keep_the_average_of_gm_and_lower_its_maximum():
    """TDCD17 R3: the printed maximum comes from the order of the scan."""
    observation = uniform(120, 60, 8, seed=1)
    by_id, at_random = (GreedyMerge(ties=t).solve(observation) for t in ("lowest", "random"))
    assert len(by_id.after.mesh) == pytest.approx(len(at_random.after.mesh), rel=0.05)
    degree = [max(d for _, d in graph_of(observation, p.after.mesh).degree) for p in (by_id, at_random)]
    assert degree[1] < degree[0]


def test_seeds_matter_only_where_ties_are_random():
    observation = uniform(40, 20, 4)
    assert TdCdOda().solve(observation, 1).after == TdCdOda().solve(observation, 2).after
    assert TdCdOda(ties="random").solve(observation, 1).after != TdCdOda(ties="random").solve(observation, 2).after


@pytest.mark.parametrize("planner", [*STARS, *MERGES], ids=repr)
def test_nothing_observed_is_refused_by_name_of_the_table(planner):
    with pytest.raises(NotObserved, match="subscriptions"):
        planner.solve(Observation())


@pytest.mark.parametrize("planner", [*STARS, *MERGES], ids=repr)
def test_clients_without_topics_and_lonely_topics_are_no_error(planner):
    observation = observed({0: {0}, 1: set(), 2: {3}, 3: {0, 5}}, mesh=[(1, 2)], topics=9)
    plan = check_planner(planner, observation)
    assert plan.after.mesh.tolist() == [[0, 3]]
    assert "c1" in plan.why(len(plan.steps) - 1)


def test_bad_parameters_and_links_to_nobody_are_refused():
    for wrong in (lambda: TdCdOda(ties="first"), lambda: TdCdOda(size="own"), lambda: TwoDOda(weight="none")):
        with pytest.raises(BadParameter, match="expected"):
            wrong()
    with pytest.raises(BadOverlay, match="c7"):
        observation = observed({0: {0}, 1: {0}})
        object.__setattr__(observation, "overlay", Overlay(mesh=[(0, 7)]))
        TdCdOda().solve(observation)


@pytest.mark.parametrize("planner", [TdCdOda(), TwoDOda(), GreedyMerge(), MmOda()], ids=repr)
def test_progress_is_told(planner):
    told = []
    planner.solve(uniform(20, 10, 3), progress=lambda share, what: told.append(share))
    assert told
    assert all(0 <= share <= 1 for share in told)
