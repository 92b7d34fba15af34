"""Random: each client listens to some others, whoever they are (CC12 §IV).

The paper does not print how many; the default gives the modularity that it prints for this network (q = 0.35;
`python -m reproductions cc12` shows ours). A client's messages are one topic.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from overlace.arrays.draws import scattered
from overlace.arrays.pairs import as_pairs
from overlace.errors import BadParameter
from overlace.limits import option
from overlace.workloads.services import Services, ServiceWiring

LISTENS = 31


@dataclass(frozen=True)
class RandomClients(Services):
    """Clients that listen to others at random."""

    degree: int = option(4, "others that a client listens to", least=1)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.degree >= self.clients:
            raise BadParameter(f"degree is {self.degree}; expected less than the {self.clients} clients")

    def wiring(self) -> ServiceWiring:
        """Distinct others for each client."""
        own = np.arange(self.clients)
        _, drawn = scattered(self.seed, LISTENS, own, self.degree, self.clients - 1)
        client = np.repeat(own, self.degree)
        other = drawn + (drawn >= client)  # anybody but itself
        return ServiceWiring(as_pairs(np.column_stack([other, client])), np.column_stack([own, own]))
