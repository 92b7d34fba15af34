"""Overlace plans better overlays for distributed publish/subscribe systems, from their traffic.

The nouns are here; the planners are in their facets (`overlace.tree.mst.Mst`, ...) and, by name, in
`overlace.catalog.PLANNERS`. Importing this starts no JVM.
"""

from overlace.model import (
    Changes,
    Classes,
    Flows,
    Metrics,
    Network,
    Observation,
    Offers,
    Overlay,
    Plan,
    Planner,
    Requests,
    Step,
    Steps,
)

__version__ = "0.1.0"

__all__ = [
    "Changes",
    "Classes",
    "Flows",
    "Metrics",
    "Network",
    "Observation",
    "Offers",
    "Overlay",
    "Plan",
    "Planner",
    "Requests",
    "Step",
    "Steps",
]
