"""The nouns: Overlay, Network, Observation, Plan. Frozen, numpy only, arrays read-only.

An overlay is four relations, each a sorted array of integer pairs. A planner turns an observation into
a plan: an overlay before, an overlay after and the ordered steps between. Every field has a default,
so that an observation for one facet is one line:

    Observation(interests=[[0, 0], [0, 1], [1, 1]])
"""

from overlace.model.names import Names, name_of
from overlace.model.network import NOT_MEASURED, UNLIMITED, Network
from overlace.model.observation import PARTS, Classes, Flows, Observation, Offers, Requests
from overlace.model.overlay import ENDS, FACETS, Changes, Facet, Overlay, check_tree
from overlace.model.plan import Plan, Planner, Progress, Step, Steps

__all__ = [
    "ENDS",
    "FACETS",
    "NOT_MEASURED",
    "PARTS",
    "UNLIMITED",
    "Changes",
    "Classes",
    "Facet",
    "Flows",
    "Names",
    "Network",
    "Observation",
    "Offers",
    "Overlay",
    "Plan",
    "Planner",
    "Progress",
    "Requests",
    "Step",
    "Steps",
    "check_tree",
    "name_of",
]
