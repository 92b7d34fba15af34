"""Seeded observations and traces after each paper's setup, and at any size."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa

from overlace.arrays.jit import Ints
from overlace.errors import Unknown

if TYPE_CHECKING:
    from overlace.workloads.services import Services
    from overlace.workloads.sites import Sites


class Workload(Protocol):
    """A frozen dataclass from which a trace of any size can be made, piece by piece."""

    @property
    def messages(self) -> int:
        """How many messages there are."""

    @property
    def days(self) -> int:
        """How many days they span."""

    @property
    def seed(self) -> int:
        """What its draws depend on."""

    def part(self, first: int, count: int) -> dict[str, Ints]:
        """Some of the messages as columns, the same however the work is cut."""

    def names(self) -> dict[str, list[str]]:
        """The names of all things, by kind in order of their numbers."""

    def tables(self) -> dict[str, pa.Table]:
        """The tables beside messages and names, with numbers for ids."""


CLASSES = {
    "composition": "composition.Composition",
    "random": "random_clients.RandomClients",
    "sites": "sites.Sites",
    "small-world": "small_world.SmallWorld",
}
NAMES = tuple(CLASSES)


def workload_class(name: str) -> type[Sites] | type[Services]:
    """The workload of that name; the nearest names if there is none."""
    if name not in CLASSES:
        raise Unknown("workload", name, NAMES)
    module, kind = CLASSES[name].split(".")
    found: type[Sites] | type[Services] = getattr(import_module(f"{__name__}.{module}"), kind)
    return found
