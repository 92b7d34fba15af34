"""How much load a broker or a region may have: from shares, absolute figures and capacities.

What is sent is measured against the fair share V of CC12 (5): all messages, by brokers. What is handled has no fair
share, since it grows with every hop; it is measured against the largest load of a broker (of a region) at the start.
"""

from __future__ import annotations

import numpy as np

from overlace.arrays.jit import Floats, Ints
from overlace.model import Observation
from overlace.planners.placement.problem import Caps, Problem, problem_of, region_numbers, search_problem
from overlace.planners.search.problem import loads_at

FIELDS = ("region_sent", "broker_sent", "region_handled", "broker_handled")


def caps_of(observation: Observation, given: dict[str, float | None]) -> Caps:
    """The caps that these fields mean: shares by their name, absolute ones as max_..., and the brokers' capacities."""
    network = observation.network
    _, region = region_numbers(observation)
    may = network.region >= 0
    regions = int(region.max()) + 1
    brokers_in = np.bincount(region[may], minlength=regions)
    fair = float(observation.sent.sum()) / may.sum()
    handled = [np.zeros(network.brokers), np.zeros(regions)]
    if given["broker_handled"] is not None or given["region_handled"] is not None:
        handled = list(handled_at_start(observation))
    least = {
        "broker_sent": np.where(may, fair, 0.0),
        "region_sent": fair * brokers_in,
        "broker_handled": np.full(network.brokers, handled[0].max()),
        "region_handled": np.full(regions, handled[1].max()),
    }
    caps = Caps(**{name: _least(base, given[name], given[f"max_{name}"]) for name, base in least.items()})
    return caps._replace(broker_handled=np.minimum(caps.broker_handled, _capacities(observation)))


def handled_at_start(observation: Observation) -> tuple[Floats, Floats]:
    """(by broker, by region): the messages whose minimal subtree touches it, as things are."""
    return loads_of(counting_problem(observation), observation.overlay.homes(observation.clients))[2:]


def loads_of(problem: Problem, home: Ints) -> tuple[Floats, Floats, Floats, Floats]:
    """(sent by broker, by region, handled by broker, by region) with these homes."""
    n, regions = len(problem.region), int(problem.region.max()) + 1
    given = search_problem(problem)
    limits = given.limits._replace(area=n + problem.region, sent_cap=np.zeros(n + regions))
    sent, handled = loads_at(limits, given.load, np.maximum(home, 0), given.links, given.wires)
    return sent[:n], sent[n:], handled[:n], handled[n:]


def counting_problem(observation: Observation) -> Problem:
    """The observation with its traffic classes, so that handled loads are counted."""
    _, region = region_numbers(observation)
    none, high = np.full(observation.network.brokers, np.inf), np.full(int(region.max()) + 1, np.inf)
    return problem_of(observation, Caps(none, high, np.full(len(none), np.finfo(np.float64).max), high))


def _least(base: Floats, share: float | None, most: float | None) -> Floats:
    cap = np.full(len(base), np.inf)
    if share is not None:
        cap = np.minimum(cap, share * base)
    return np.minimum(cap, most) if most is not None else cap


def _capacities(observation: Observation) -> Floats:
    """What brokers can handle in the window, where their capacities and the window are known."""
    capacity, window = observation.network.capacity, observation.window
    length = (window[1] - window[0]) / 1e6
    return capacity * length if length > 0 else np.full(len(capacity), np.inf)
