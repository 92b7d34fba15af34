import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from overlace.planners.placement.majority import balance, fair_shares, place_communities, proportions
from tests.oracles.placement import algorithm_1


@st.composite
def cases(draw):
    communities, regions = draw(st.integers(1, 8)), draw(st.integers(1, 5))
    count = np.array([[draw(st.integers(0, 4)) for _ in range(regions)] for _ in range(communities)])
    count[:, 0] += count.sum(axis=1) == 0
    load = np.array([draw(st.integers(0, 20)) for _ in range(communities)], dtype=np.float64)
    limit = np.array([draw(st.integers(1, 30)) for _ in range(regions)], dtype=np.float64)
    return count, load, limit


@given(cases())
def test_algorithm_1_is_what_a_real_queue_makes_of_it(case):
    count, load, limit = case
    part = proportions(count, False)
    placed = place_communities(part, load, limit, True, True)
    assert (placed.region.tolist(), placed.dequeues) == algorithm_1(part, load, limit)


@given(cases(), st.booleans(), st.booleans())
def test_the_queue_gives_out_at_most_s_plus_i_times_s_less_one_regions(case, of_region, each):
    """R7."""
    count, load, limit = case
    placed = place_communities(proportions(count, of_region), load, limit, each, True)
    communities, regions = count.shape
    assert placed.dequeues <= regions + communities * (regions - 1)
    assert ((placed.region >= 0) & (placed.region < regions)).all()


@given(cases())
def test_with_room_for_all_every_community_gets_its_majority_place(case):
    """(4)."""
    count, load, _ = case
    part = proportions(count, False)
    placed = place_communities(part, load, np.full(count.shape[1], np.inf), True, True)
    assert (part[np.arange(len(part)), placed.region] == part.max(axis=1)).all()
    assert placed.spilled == 0


def test_tested_before_each_placement_a_region_is_at_most_one_community_over():
    """R3: tested at A1:5 only, the first region takes everything."""
    count, load = np.full((6, 2), [2, 1]), np.full(6, 10.0)
    part, limit = proportions(count, False), np.full(2, 30.0)
    each = place_communities(part, load, limit, True, True)
    assert np.bincount(each.region).tolist() == [4, 2]
    printed = place_communities(part, load, limit, False, True)
    assert np.bincount(printed.region, minlength=2).tolist() == [6, 0]


def test_what_finds_no_place_goes_where_most_room_is():
    """R4: the third region holds nobody of any community."""
    count = np.array([[3, 0, 0], [2, 1, 0], [4, 0, 0]])
    placed = place_communities(proportions(count, False), np.array([10.0, 10, 10]), np.array([5.0, 5, 5]), True, True)
    assert sorted(placed.region.tolist()) == [0, 1, 2]
    assert placed.spilled == 1


def test_equation_3_by_community_and_as_printed():
    count = np.array([[1, 3], [1, 0]])
    assert proportions(count, False).tolist() == [[0.25, 0.75], [1.0, 0.0]]
    assert proportions(count, True).tolist() == [[0.5, 1.0], [0.5, 0.0]]


def test_equation_5_divides_all_messages_by_brokers():
    assert fair_shares(90.0, np.array([3, 6])).tolist() == [30.0, 60.0]
    assert fair_shares(90.0, np.array([3, 6]), 18).tolist() == [15.0, 30.0]


def test_who_arrives_goes_to_the_broker_with_the_lowest_load_and_who_is_there_stays():
    home = np.array([0, 1, 3, 3])
    region, may = np.array([0, 0, 0, 1]), np.ones(4, dtype=np.bool_)
    after = balance(home, np.array([0, 0, 0, 0]), region, may, np.array([5.0, 2.0, 4.0, 1.0]))
    assert after.tolist() == [0, 1, 2, 1]
