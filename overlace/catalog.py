"""Every planner by name. To add one: its file in its facet, its line here."""

from __future__ import annotations

from overlace.errors import Unknown
from overlace.model import Planner
from overlace.planners.channels.anneal import Anneal
from overlace.planners.channels.k_means import KMeans
from overlace.planners.channels.no_loss import NoLoss
from overlace.planners.channels.pairwise import Pairwise
from overlace.planners.channels.semcast import SemCast
from overlace.planners.channels.spanning_tree import SpanningTree
from overlace.planners.channels.strategy1 import Strategy1
from overlace.planners.channels.strategy2 import Strategy2
from overlace.planners.channels.strategy3 import Strategy3
from overlace.planners.channels.strategy4 import Strategy4
from overlace.planners.channels.strategy31 import Strategy31
from overlace.planners.joint.joint import Joint
from overlace.planners.mesh.cd_oda import CdOda
from overlace.planners.mesh.cd_oda_1 import CdOda1
from overlace.planners.mesh.cd_oda_2 import CdOda2
from overlace.planners.mesh.greedy_merge import GreedyMerge
from overlace.planners.mesh.hub_tree import HubTree
from overlace.planners.mesh.mm_oda import MmOda
from overlace.planners.mesh.random_mesh import RandomMesh
from overlace.planners.mesh.star_cap import StarCap
from overlace.planners.mesh.td_cd_oda import TdCdOda
from overlace.planners.mesh.two_d_oda import TwoDOda
from overlace.planners.mesh.two_hub import TwoHub
from overlace.planners.placement.community import Community
from overlace.planners.placement.exact import ExactPlacement
from overlace.planners.placement.interest import Interest
from overlace.planners.placement.leiden import Leiden
from overlace.planners.placement.stay import Stay
from overlace.planners.tree.exact import ExactTree
from overlace.planners.tree.gomory_hu import GomoryHu
from overlace.planners.tree.hub_safe import HubSafe
from overlace.planners.tree.mst import Mst
from overlace.planners.tree.ocbr import Ocbr
from overlace.planners.tree.regraft import Regraft
from overlace.planners.tree.star import Star

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
