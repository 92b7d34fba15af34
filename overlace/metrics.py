"""Metrics: what a replay measured, as columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np

from overlace.arrays.records import FloatColumn, IntColumn, Record, TextColumn, column


@dataclass(frozen=True, eq=False, repr=False)
class Metrics(Record):
    """What a replay measured; every table and figure is a filter and a pivot of these columns."""

    metric: TextColumn = column(np.str_)
    scope: TextColumn = column(np.str_)  # overall, broker, link, region, ... , bin
    key: IntColumn = column(np.int64)
    other: IntColumn = column(np.int64)  # the second key of a pair; -1: none
    value: FloatColumn = column(np.float64)

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.other) == 0:
            self._put("other", np.full(len(self.key), -1), np.int64)
        self._lengths("metric", "scope", "key", "other", "value")

    @classmethod
    def join(cls, parts: Sequence[Metrics]) -> Metrics:
        """Several metrics as one, in their order."""
        if not parts:
            return cls()
        return cls(*(np.concatenate([getattr(part, each.name) for part in parts]) for each in fields(cls)))

    def of(self, metric: str, scope: str = "overall", key: int = 0, other: int = -1) -> float:
        """One value; KeyError if it was not measured."""
        mine = (self.metric == metric) & (self.scope == scope) & (self.key == key) & (self.other == other)
        rows = np.flatnonzero(mine)
        if len(rows) == 0:
            raise KeyError(f"{metric} ({scope} {key}) was not measured")
        return float(self.value[rows[0]])

    def get(self, metric: str, default: float = 0.0) -> float:
        """One value over all, or a default where it was not measured."""
        return self.of(metric) if metric in self else default

    def __contains__(self, metric: object) -> bool:
        return bool(((self.metric == metric) & (self.scope == "overall")).any())
