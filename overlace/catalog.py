"""Every planner by name. To add one: its file in its facet, its line here."""

from __future__ import annotations

from overlace.errors import Unknown
from overlace.model import Planner
from overlace.placement.stay import Stay
from overlace.tree.mst import Mst

PLANNERS: dict[str, type[Planner]] = {
    "placement.stay": Stay,
    "tree.mst": Mst,
}


def planner_class(name: str) -> type[Planner]:
    """The planner of that name; the nearest names if there is none."""
    if name not in PLANNERS:
        raise Unknown("planner", name, PLANNERS)
    return PLANNERS[name]


def planner_name(planner: Planner) -> str:
    """The name of a planner in the catalog, or its class for one that is not there."""
    kind = type(planner)
    return next((name for name, each in PLANNERS.items() if each is kind), f"{kind.__module__}.{kind.__qualname__}")
