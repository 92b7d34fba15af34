"""Every planner by name. To add one: its file in its facet, its line here."""

from __future__ import annotations

from overlace.errors import Unknown
from overlace.model import Planner
from overlace.planners.channels.anneal import Anneal
from overlace.planners.channels.baselines import KMeans, NoLoss, Pairwise, SpanningTree
from overlace.planners.channels.semcast import SemCast
from overlace.planners.channels.strategies import Strategy1, Strategy2, Strategy3, Strategy31
from overlace.planners.channels.strategy4 import Strategy4
from overlace.planners.joint.joint import Joint
from overlace.planners.mesh.baselines import CdOda, CdOda1, CdOda2, MmOda, RandomMesh, TwoDOda
from overlace.planners.mesh.greedy_merge import GreedyMerge
from overlace.planners.mesh.hub_tree import HubTree
from overlace.planners.mesh.star_cap import StarCap
from overlace.planners.mesh.td_cd_oda import TdCdOda
from overlace.planners.mesh.two_hub import TwoHub
from overlace.planners.placement.baselines import Interest, Stay
from overlace.planners.placement.community import Community
from overlace.planners.placement.exact import ExactPlacement
from overlace.planners.placement.leiden import Leiden
from overlace.planners.tree.baselines import Mst, Star
from overlace.planners.tree.exact import ExactTree
from overlace.planners.tree.gomory_hu import GomoryHu
from overlace.planners.tree.hub_safe import HubSafe
from overlace.planners.tree.ocbr import Ocbr
from overlace.planners.tree.regraft import Regraft

PLANNERS: dict[str, type[Planner]] = {
    "channels.anneal": Anneal,
    "channels.k-means": KMeans,
    "channels.no-loss": NoLoss,
    "channels.pairwise": Pairwise,
    "channels.semcast": SemCast,
    "channels.spanning-tree": SpanningTree,
    "channels.strategy-1": Strategy1,
    "channels.strategy-2": Strategy2,
    "channels.strategy-3": Strategy3,
    "channels.strategy-3.1": Strategy31,
    "channels.strategy-4": Strategy4,
    "joint": Joint,
    "mesh.2d-oda": TwoDOda,
    "mesh.cd-oda": CdOda,
    "mesh.cd-oda-1": CdOda1,
    "mesh.cd-oda-2": CdOda2,
    "mesh.gm": GreedyMerge,
    "mesh.hub-tree": HubTree,
    "mesh.mm-oda": MmOda,
    "mesh.random-mesh": RandomMesh,
    "mesh.star-cap": StarCap,
    "mesh.td-cd-oda": TdCdOda,
    "mesh.two-hub": TwoHub,
    "placement.community": Community,
    "placement.exact": ExactPlacement,
    "placement.interest": Interest,
    "placement.leiden": Leiden,
    "placement.stay": Stay,
    "tree.exact": ExactTree,
    "tree.gomory-hu": GomoryHu,
    "tree.hub-safe": HubSafe,
    "tree.mst": Mst,
    "tree.ocbr": Ocbr,
    "tree.regraft": Regraft,
    "tree.star": Star,
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
