"""Seeded observations and traces after each paper's setup, and at any size."""

from __future__ import annotations

from typing import Any, Protocol

import pyarrow as pa

from overlace.errors import Unknown


class Workload(Protocol):
    """A frozen dataclass from which a trace of any size can be made, piece by piece."""

    @property
    def messages(self) -> int:
        """How many messages there are."""

    @property
    def days(self) -> int:
        """How many days they span."""

    def part(self, first: int, count: int) -> dict[str, Any]:
        """Some of the messages as columns, the same however the work is cut."""

    def tables(self) -> dict[str, pa.Table]:
        """The tables beside the messages."""


NAMES = ("composition", "random", "sites", "small-world")


def workload_class(name: str) -> Any:
    """The workload of that name; the nearest names if there is none."""
    if name == "sites":
        from overlace.workloads.sites import Sites

        return Sites
    if name == "composition":
        from overlace.workloads.composition import Composition

        return Composition
    if name == "small-world":
        from overlace.workloads.small_world import SmallWorld

        return SmallWorld
    if name == "random":
        from overlace.workloads.random_clients import RandomClients

        return RandomClients
    raise Unknown("workload", name, NAMES)
