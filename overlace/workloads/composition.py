"""Composition: services with input and output parameters, few of which everybody uses (CC12 §IV, after WSBen).

Services arrive one by one. Each has 1 to `inputs` input and 1 to `outputs` output parameters. A parameter is, with
probability `fresh`, a new one, else that of a random earlier slot: the more a parameter is used, the more it will be
(Simon's process), so that uses fall off by a power law of exponent 1 + 1 / (1 - fresh). The paper calls the result
scale-free. A parameter is a topic.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from overlace.arrays.jit import Floats, Ints, kernel
from overlace.arrays.pairs import as_pairs
from overlace.limits import option
from overlace.workloads.services import Services, ServiceWiring


@dataclass(frozen=True)
class Composition(Services):
    """Services with input and output parameters: a scale-free network of clients."""

    inputs: int = option(3, "input parameters of a service, at most", least=1)
    outputs: int = option(3, "output parameters of a service, at most", least=1)
    fresh: float = option(0.5, "chance that a parameter is a new one", above=0, below=1)

    def wiring(self) -> ServiceWiring:
        """Inputs and outputs, drawn slot by slot."""
        rng = np.random.default_rng([self.seed, 31])
        taken = rng.integers(1, self.inputs + 1, self.clients)
        given = rng.integers(1, self.outputs + 1, self.clients)
        client = np.repeat(np.arange(self.clients), taken + given)
        parameter = reused(rng.random(len(client)), rng.random(len(client)), self.fresh)
        begin = np.repeat(np.cumsum(taken + given) - taken - given, taken + given)
        is_input = np.arange(len(client)) - begin < np.repeat(taken, taken + given)
        return ServiceWiring(
            as_pairs(np.column_stack([parameter[is_input], client[is_input]])),
            as_pairs(np.column_stack([client[~is_input], parameter[~is_input]])),
        )


@kernel
def reused(new: Floats, which: Floats, fresh: float) -> Ints:
    """The parameter of each slot: a new one, or that of an earlier slot."""
    parameter = np.empty(len(new), dtype=np.int64)
    known = 0
    for i in range(len(new)):
        if i == 0 or new[i] < fresh:
            parameter[i] = known
            known += 1
        else:
            parameter[i] = parameter[np.int64(which[i] * i)]
    return parameter
