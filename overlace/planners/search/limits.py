"""What must hold: how much brokers and regions may bear, where a client may be, and how changes are counted."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from overlace.arrays.jit import Bools, Floats, Ints, by_address, kernel
from overlace.model import Observation


@by_address
class LoadLimits(NamedTuple):
    """What must hold. Loads are those of brokers, then of the areas that brokers share, where areas have limits."""

    first: Ints  # home of each client before the plan
    sent: Floats  # messages that each client sends
    sent_cap: Floats  # per broker and area
    handled_cap: Floats
    area: Ints  # per broker: the place of its area among the loads, or -1
    may: Bools  # (groups, brokers)
    group: Ints  # per client, a row of `may`
    access: Floats  # (groups, brokers): cost per unit of a client's own traffic
    amount: Floats  # per client, its own traffic
    talk: Floats  # per client, the demand of its classes
    nearest: Floats  # per group, the least access where it may be
    place: Ints  # per broker: a client that goes from one place to another is moved
    region: Ints  # per broker
    leave: float  # what it costs that a client leaves its region
    inside: bool  # whether places are of several brokers, so that a client can change its home and is not moved


def no_limits(home: Ints, brokers: int) -> LoadLimits:
    """Nothing is limited, access is free, and nobody is counted as sending anything."""
    clients = len(home)
    none, free, nobody = np.zeros(clients), np.full(brokers, np.inf), np.zeros(clients, dtype=np.int64)
    return LoadLimits(
        first=home,
        sent=none,
        sent_cap=free,
        handled_cap=free,
        area=np.full(brokers, -1),
        may=np.ones((1, brokers), dtype=np.bool_),
        group=nobody,
        access=np.zeros((1, brokers)),
        amount=none,
        talk=none,
        nearest=np.zeros(1),
        place=np.arange(brokers),
        region=np.zeros(brokers, dtype=np.int64),
        leave=0.0,
        inside=False,
    )


@kernel(work=lambda load, cap: len(cap))
def fits(load: Floats, cap: Floats) -> bool:
    """Whether no load is above its cap, rounding aside."""
    for b in range(len(cap)):  # noqa: SIM110  kernels know no generators
        if load[b] > cap[b] * (1 + 1e-12) + 1e-9:
            return False
    return True


@kernel(work=lambda load, cap: len(cap))
def excess(load: Floats, cap: Floats) -> float:
    """By how much loads are above their caps, all together."""
    over = 0.0
    for b in range(len(cap)):
        if load[b] > cap[b] * (1 + 1e-12) + 1e-9:
            over += load[b] - cap[b]
    return over


@kernel
def added_by(limits: LoadLimits, c: int, here: int, there: int) -> int:
    """Changes that a move adds: 1 away from the first home, -1 back to it."""
    home = limits.place[limits.first[c]]
    return (1 if limits.place[there] != home else 0) - (1 if limits.place[here] != home else 0)


@kernel
def priced(limits: LoadLimits, c: int, b: int, price: float) -> float:
    """What it costs a client to be at a broker besides its classes: access, and the price of its move."""
    total = limits.access[limits.group[c], b] * limits.amount[c]
    first = limits.first[c]
    if limits.place[b] != limits.place[first]:
        total += price
    if limits.region[b] != limits.region[first]:
        total += limits.leave
    return float(total)


def capacity_of(observation: Observation) -> Floats:
    """What each broker can handle in the time that was observed; infinite where it is not known."""
    seconds = (observation.window[1] - observation.window[0]) / 1e6
    network = observation.network
    return network.capacity * seconds if seconds > 0 else np.full(network.brokers, np.inf)
