"""Metrics gathered column by column: no Python object per value."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from overlace.arrays.jit import Ints
from overlace.metrics import Metrics

N = TypeVar("N", np.int64, np.float64)


class Tally:
    """Takes values scope by scope and gives them back as one `Metrics`, in the order they came."""

    def __init__(self) -> None:
        self._blocks: list[tuple[str, str, Ints, Ints, NDArray[np.float64]]] = []

    def overall(self, metric: str, value: float) -> None:
        """One number for the whole trace."""
        self.add(metric, "overall", [0], [value])

    def add(self, metric: str, scope: str, key: ArrayLike, value: ArrayLike, other: ArrayLike | None = None) -> None:
        """One number per key (and per other key, where the scope is a pair)."""
        keys = np.asarray(key, dtype=np.int64)
        others = np.full(len(keys), -1) if other is None else np.asarray(other, dtype=np.int64)
        self._blocks.append((metric, scope, keys, others, np.asarray(value, dtype=np.float64)))

    def metrics(self) -> Metrics:
        """Everything that was added."""
        if not self._blocks:
            return Metrics()
        metric, scope, key, other, value = zip(*self._blocks, strict=True)
        sizes = [len(each) for each in key]
        return Metrics(
            np.repeat(metric, sizes),
            np.repeat(scope, sizes),
            np.concatenate(key),
            np.concatenate(other),
            np.concatenate(value),
        )


def totals(keys: Ints, amounts: NDArray[N]) -> tuple[Ints, NDArray[N]]:
    """(distinct keys, ascending; the sum of the amounts of each, added in their order)."""
    distinct, at = np.unique(keys, return_inverse=True)
    sums = np.zeros(len(distinct), dtype=amounts.dtype)
    np.add.at(sums, at, amounts)
    return distinct, sums


def share(part: float, whole: float) -> float:
    """part / whole; 0 where there is nothing to share."""
    return part / whole if whole else 0.0


def shares(parts: NDArray[np.generic], whole: float) -> NDArray[np.float64]:
    """Each part / whole; 0 where there is nothing to share."""
    found = np.asarray(parts, dtype=np.float64)
    return found / whole if whole else np.zeros_like(found)
