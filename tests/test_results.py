"""Results of all planners on small problems by seed are those that are written down."""

import pytest

from overlace.catalog import PLANNERS
from tests import results


@pytest.mark.long
def test_every_planner_comes_to_what_is_written():
    """Where a change of results is meant: `python tests/results.py --write`, and say in the commit what got better."""
    written = results.WRITTEN.read_text().splitlines()
    assert {line.partition(" on ")[0] for line in written if " on " in line} == set(PLANNERS)
    assert results.lines() == written


def test_a_number_in_the_tenth_digit_does_not_count_and_one_in_the_ninth_does():
    assert results.hash_of([1.0]) == results.hash_of([1 + 1e-10])
    assert results.hash_of([1.0]) != results.hash_of([1 + 1e-8])
