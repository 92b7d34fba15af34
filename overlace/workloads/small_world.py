"""Small world: neighbours on a ring, and some links across (CC12 §IV).

Clients are numbered; each listens to the `k` nearest on a ring. Then `m` times two clients are drawn and, with
probability `p`, listen to each other. The paper does not print k, m and p; the defaults give the modularity that it
prints for this network (q = 0.65; `python -m reproductions cc12` shows ours). A client's messages are one topic.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from overlace.arrays.pairs import as_pairs
from overlace.errors import BadParameter
from overlace.limits import option
from overlace.workloads.services import Services, ServiceWiring


@dataclass(frozen=True)
class SmallWorld(Services):
    """Clients that listen to their neighbours on a ring and to a few others."""

    k: int = option(4, "neighbours on the ring that a client listens to; even", least=2)
    m: int = option(160, "pairs of clients drawn for a link across", least=0)
    p: float = option(0.5, "chance that a drawn pair is linked", least=0, most=1)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.k % 2 or self.k >= self.clients:
            raise BadParameter(f"k is {self.k}; expected an even number below the {self.clients} clients")

    def wiring(self) -> ServiceWiring:
        """The ring and the links across."""
        rng = np.random.default_rng([self.seed, 31])
        client = np.repeat(np.arange(self.clients), self.k)
        offset = np.tile([*range(-self.k // 2, 0), *range(1, self.k // 2 + 1)], self.clients)
        drawn = rng.integers(0, self.clients, (self.m, 2))
        drawn = drawn[(rng.random(self.m) < self.p) & (drawn[:, 0] != drawn[:, 1])]
        ring = np.column_stack([(client + offset) % self.clients, client])
        heard = as_pairs(np.concatenate([ring, drawn, drawn[:, ::-1]]))
        own = np.arange(self.clients)
        return ServiceWiring(heard, np.column_stack([own, own]))
