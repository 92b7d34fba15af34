from itertools import combinations

import pytest

from overlace.channels.strategy1 import Strategy1
from overlace.channels.strategy2 import Strategy2
from overlace.reproduce import ITEMS
from overlace.reproduce.part10.beat import CASES
from overlace.reproduce.part10.curves import PRINTED, Setup, end, first_offers, grow, points
from overlace.reproduce.part10.formulas import most_1, most_2


@pytest.mark.parametrize(("n", "m"), [(4, 2), (4, 3), (5, 2), (4, 4)])
def test_the_formulas_count_what_all_publishers_of_a_size_can_make(n, m):
    masks = [sum(1 << a for a in chosen) for chosen in combinations(range(n), m)]
    offered = {s for mask in masks for s in range(1, mask + 1) if s & mask == s}
    assert most_1(n, m) == (1 if m == n else len(offered))
    assert most_2(n, m) == len(masks)


def test_the_printed_maxima_count_the_empty_combination_and_ours_do_not():
    """R1."""
    for (table, row, column), value in PRINTED.items():
        if (table, column) == ("4.1", "channels"):
            n, size = row.split(", ")
            m = int(size.split("..")[1])
            assert most_1(int(n), m) == (value if m == int(n) else value - 1)


def test_no_run_goes_above_the_formulas():
    setup = Setup(6, (2, 3), 120)
    for strategy, most in ((Strategy1(), most_1(6, 3)), (Strategy2(), most_2(6, 3))):
        assert all(metrics.of("channels") <= most for _, metrics in grow(strategy, setup, 0, points(120)))


def test_the_end_of_a_curve_is_the_end_and_the_first_publishers_are_the_same():
    setup = Setup(6, (2, 3), 40, (3, 7))
    assert grow(Strategy1(), setup, 1, [10, 40])[-1][1] == end(Strategy1(), setup, 1)
    assert first_offers(setup.draw(1), 10).offers.attributes.tolist() == setup.draw(1).offers.attributes[:10].tolist()


def test_an_item_has_rows_with_the_same_columns_and_charts_that_name_them():
    result = ITEMS["part10"]["joins"](seeds=1)
    assert len({tuple(row) for row in result.rows}) == 1
    assert [row["strategy"] for row in result.rows][:2] == ["strategy 1", "strategy 2"]
    assert result.rows[1]["subscribers re-tuned, last 500"] >= 0


def test_the_cases_to_beat_are_those_that_are_aimed_at():
    aims = {(case.limits, case.zipf > 0): case.aim for case in CASES if case.aim}
    assert aims == {((14, 15), False): 0.16, ((13, 15), False): 0.27, ((11, 15), False): 0.40, ((11, 15), True): 0.15}
