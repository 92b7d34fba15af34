import os
from typing import NamedTuple

import numpy as np
import pytest

from overlace.arrays.jit import Floats, Ints, by_address, kernel


class Inner(NamedTuple):
    rows: Floats
    few: tuple[int, int]


class Outer(NamedTuple):
    counts: Ints
    inner: Inner
    rate: float
    on: bool
    last: int


by_address(Inner)
by_address(Outer)


@kernel
def total(outer: Outer) -> float:
    """Everything in it, added up; the counts are doubled in place."""
    rows, found = outer.inner.rows, 0.0
    for i in range(rows.shape[0]):
        for j in range(rows.shape[1]):
            found += rows[i, j]
    for i in range(len(outer.counts)):
        found += outer.counts[i]
        outer.counts[i] *= 2
    return found + outer.rate + (1000.0 if outer.on else 0.0) + outer.last + outer.inner.few[0] - outer.inner.few[1]


@kernel
def through(outer: Outer) -> float:
    """The same, by another kernel, and that of the inner tuple alone."""
    return total(outer) + first(outer.inner)


@kernel
def first(inner: Inner) -> float:
    """Its first number."""
    return float(inner.rows[0, 0])


def outer(on=True):
    return Outer(np.array([1, 2, 3]), Inner(np.arange(6.0).reshape(2, 3), (70, 7)), 0.5, on, -4)


@pytest.mark.parametrize("on", [True, False])
def test_every_kind_of_field_is_read_as_it_is_in_python(on):
    given = outer(on)
    plain, compiled = total.plain(outer(on)), total(given)
    assert compiled == plain == 15 + 6 + 0.5 + 1000 * on - 4 + 63
    assert given.counts.tolist() == [2, 4, 6]
    assert total(given) == plain + 6  # the same tuple again, as it is now
    assert through(outer(on)) == plain


def test_a_tuple_is_read_anew_when_it_is_another_one():
    for n in range(12):
        assert first(Inner(np.full((1, 1), float(n)), (0, 0))) == n


@pytest.mark.skipif(os.environ.get("NUMBA_DISABLE_JIT") == "1", reason="plain Python takes any array")
def test_an_array_that_is_not_contiguous_is_refused():
    with pytest.raises(TypeError, match="Inner: an array is not contiguous"):
        first(Inner(np.zeros((4, 4))[:, ::2], (0, 0)))
