"""From a placement to a better one, step by step.

A step moves one client, the one that saves most first. A client that fits nowhere until another one has left moves
together with it: two that trade homes are an exchange, and where only a longer chain does, the chain is one step.

Keeps: after every step no load is above both its cap and what it was before the plan; the gains add up to the whole
saving.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from overlace.arrays.jit import Floats, Ints, kernel
from overlace.model import Observation, Overlay, Plan, Planner, Steps
from overlace.planners.ordering import Ordering, changes_in
from overlace.planners.placement.problem import Problem, search_problem
from overlace.planners.search.walk import State

UNITS = {"hops": "hops", "cost": "in cost of links", "latency": "µs"}
"""What a distance is counted in."""
IN_REGION, AT_BROKER = ("of the region", "around"), ("there", "at")
"""With whom a client's traffic is; where no regions are given, each broker is one of its own."""


def _moves(whose: str, around: str) -> list[str]:
    """Why a client moves, by the unit of distances."""
    return [
        f"{{client}} to {{to_broker}}, where {{there:.0%}} of its traffic is with clients {whose} ({{here:.0%}} "
        f"{around} {{from_broker}}) and the mean distance to those it talks with is {{near:amount}} {unit} (was "
        "{far:amount}); most with {most_client} ({most:.0%})"
        for unit in UNITS.values()
    ]


def _trades(whose: str, around: str) -> str:
    """Why two clients trade homes."""
    return (
        "{client} and {other_client} trade {from_broker} and {to_broker}: neither fits before the other has left; "
        f"{{there:.0%}} of {{client}}'s traffic is then with clients {whose} ({{here:.0%}} {around} {{from_broker}})"
    )


TOGETHER = 2
REASONS = (
    _moves(*IN_REGION)[0],
    _trades(*IN_REGION),
    "{clients} clients move together, {client} first: each fits only once another one has left",
    *_moves(*IN_REGION)[1:],
    *_moves(*AT_BROKER),
    _trades(*AT_BROKER),
)
"""What a step of a placement says for itself; shares and distances are those once everybody has moved."""


def plan_of(planner: Planner, observation: Observation, seed: int, problem: Problem, home: Ints) -> Plan:
    """The plan from the observed placement to these homes."""
    before = observation.overlay
    given = search_problem(problem)
    path = Ordering(given, State(np.where(home >= 0, home, given.limits.first), given.links)).path()
    client, start, gain = path.client, path.start, path.gain
    n, changes = len(client), changes_in(path)
    placement = before.placement.copy()
    placement[:, 1] = np.where(home[placement[:, 0]] >= 0, home[placement[:, 0]], placement[:, 1])
    after = Overlay(placement=placement, tree=before.tree, channels=before.channels, mesh=before.mesh)
    size = np.diff(start)
    first = client[start[:-1]]
    other = client[np.minimum(start[:-1] + 1, max(n - 1, 0))] if n else first
    trade = (size == 2) & (home[other] == problem.origin[first]) & (home[first] == problem.origin[other])
    moves, trades = _reasons_of(planner, problem)
    reason = np.where(size == 1, moves, np.where(trade, trades, TOGETHER))
    steps = Steps(2 * start, gain, reason, {"clients": size, "other_client": other, **_shares(problem, home, first)})
    return Plan(planner, seed, before, after, changes, steps)


def _reasons_of(planner: Planner, problem: Problem) -> tuple[int, int]:
    """(of a move, of a trade): the reasons by what is known of regions and what distances are counted in."""
    whose = IN_REGION if problem.region.max() + 1 < len(problem.region) else AT_BROKER
    unit = list(UNITS).index(getattr(planner, "distance", "hops"))
    return REASONS.index(_moves(*whose)[unit]), REASONS.index(_trades(*whose))


def _shares(problem: Problem, home: Ints, client: Ints) -> Mapping[str, Ints | Floats]:
    there, here, most, share, near, far = talk(problem, home, client)
    return {
        "client": client,
        "from_broker": problem.origin[client],
        "to_broker": home[client],
        "there": there,
        "here": here,
        "most_client": most,
        "most": share,
        "near": near,
        "far": far,
    }


@kernel(work=lambda problem, home, clients: 20 * len(clients) * (1 + len(problem.ties.other) // max(1, len(home))))
def talk(problem: Problem, home: Ints, clients: Ints) -> tuple[Floats, Floats, Ints, Floats, Floats, Floats]:
    """Each client's traffic with its new and its old region, whom it talks with most, its mean distances."""
    n = len(clients)
    there, here, share, near, far = np.zeros(n), np.zeros(n), np.zeros(n), np.zeros(n), np.zeros(n)
    most = np.zeros(n, dtype=np.int64)
    ties = problem.ties
    for i in range(n):
        c = clients[i]
        new, old = problem.region[home[c]], problem.region[problem.origin[c]]
        total = 0.0
        most[i] = c
        for k in range(ties.start[c], ties.start[c + 1]):
            total += ties.weight[k]
            at = problem.region[home[ties.other[k]]]
            near[i] += ties.weight[k] * problem.apart[home[c], home[ties.other[k]]]
            far[i] += ties.weight[k] * problem.apart[problem.origin[c], home[ties.other[k]]]
            if at == new:
                there[i] += ties.weight[k]
            if at == old:
                here[i] += ties.weight[k]
            if ties.weight[k] > share[i]:
                share[i] = ties.weight[k]
                most[i] = ties.other[k]
        if total > 0:
            there[i] /= total
            here[i] /= total
            share[i] /= total
            near[i] /= total
            far[i] /= total
    return there, here, most, share, near, far
