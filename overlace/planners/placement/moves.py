"""From a placement to a better one, step by step.

A step moves one client, the one that saves most first. A client that fits nowhere until another one has left moves
together with it: two that trade homes are an exchange, and where only a longer chain does, the chain is one step.

Keeps: after every step no load is above both its cap and what it was before the plan; the gains add up to the whole
saving.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from overlace.arrays.heap import Queue, dequeue, enqueue, new_queue
from overlace.arrays.heap import before as comes_before
from overlace.arrays.jit import Bools, Floats, Ints, kernel
from overlace.model import Changes, Observation, Overlay, Plan, Planner, Steps
from overlace.planners.placement.problem import Problem, State, move, saving, state_at

REASONS = (
    "{client} to {to_broker}, where {there:.0%} of its traffic is with clients of the region ({here:.0%} around "
    "{from_broker}) and the mean way to those it talks with is {near:.3g} (was {far:.3g}); most with {most_client} "
    "({most:.0%})",
    "{client} and {other_client} trade {from_broker} and {to_broker}: neither fits before the other has left; "
    "{there:.0%} of {client}'s traffic is then inside its region ({here:.0%} around {from_broker})",
    "{clients} clients move together, {client} first: each fits only once another one has left",
)
"""What a step of a placement says for itself; shares and ways are those once everybody has moved."""


def plan_of(planner: Planner, observation: Observation, seed: int, problem: Problem, home: Ints) -> Plan:
    """The plan from the observed placement to these homes."""
    before = observation.overlay
    client, start, gain = ordered(problem, home, new_queue(len(home)))
    old, new = problem.origin[client], home[client]
    n = len(client)
    rows = np.empty((2 * n, 2), dtype=np.int64)
    rows[0::2, 0] = rows[1::2, 0] = client
    rows[0::2, 1], rows[1::2, 1] = old, new
    changes = Changes(np.zeros(2 * n), np.tile([-1, 1], n), rows[:, 0], rows[:, 1])
    placement = before.placement.copy()
    placement[:, 1] = np.where(home[placement[:, 0]] >= 0, home[placement[:, 0]], placement[:, 1])
    after = Overlay(placement=placement, tree=before.tree, channels=before.channels, mesh=before.mesh)
    size = np.diff(start)
    first = client[start[:-1]]
    other = client[np.minimum(start[:-1] + 1, max(n - 1, 0))] if n else first
    trade = (size == 2) & (home[other] == problem.origin[first]) & (home[first] == problem.origin[other])
    reason = np.where(size == 1, 0, np.where(trade, 1, 2))
    steps = Steps(2 * start, gain, reason, {"clients": size, "other_client": other, **_shares(problem, home, first)})
    return Plan(planner, seed, before, after, changes, steps)


def _shares(problem: Problem, home: Ints, client: Ints) -> Mapping[str, Any]:
    there, here, most, share, near, far = talk(problem, home, client)
    return {
        "client": client, "from_broker": problem.origin[client], "to_broker": home[client],
        "there": there, "here": here, "most_client": most, "most": share, "near": near, "far": far,
    }  # fmt: skip


@kernel
def talk(problem: Problem, home: Ints, clients: Ints) -> tuple[Floats, Floats, Ints, Floats, Floats, Floats]:
    """Each client's traffic with its new and its old region, whom it talks with most and how much, its mean ways."""
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


@kernel
def ordered(problem: Problem, home: Ints, queue: Queue) -> tuple[Ints, Ints, Floats]:
    """(client, start, gain): who moves in which order, where each step begins, what it saves; the queue is empty.

    Whoever does not fit is parked at the broker or region that is full, and looked at again when somebody leaves it.
    """
    state = state_at(problem, problem.origin)
    before = state_at(problem, problem.origin)
    clients, brokers, regions = len(home), len(problem.region), len(problem.region_sent)
    waiting = home != problem.origin
    n = int(waiting.sum())
    parked = np.full(
        brokers + regions + 1, -1, dtype=np.int64
    )  # the first one parked at each broker, region, elsewhere
    following = np.full(clients, -1, dtype=np.int64)
    for c in range(clients):
        if waiting[c]:
            enqueue(queue, c, saving(problem, state.home, c, home[c]))
    client = np.empty(n, dtype=np.int64)
    start = np.zeros(n + 1, dtype=np.int64)
    gain = np.zeros(n)
    done = steps = 0
    moved = True  # since everybody who is parked was looked at
    while done < n:
        if queue.size[0] == 0:
            for spot in range(len(parked)):
                unpark(parked, following, spot, n, queue)
            if not moved:  # nobody fits alone: the best one, and whoever is in its way
                while True:
                    c = next_of_chain(problem, before, state, home, queue)
                    dequeue(queue, c)
                    move(problem, state, c, home[c])
                    gain[steps] += settle(problem, home, waiting, c, queue)
                    client[done] = c
                    done += 1
                    if queue.size[0] == 0 or not worse(problem, before, state):
                        break
                steps += 1
                start[steps] = done
            moved = not moved
            continue
        c = queue.item[0]
        dequeue(queue, c)
        spot = full_at(problem, before, state, c, home[c])
        if spot < 0:
            move(problem, state, c, home[c])
            if len(problem.demand) and worse(problem, before, state):
                move(problem, state, c, problem.origin[c])
                spot = brokers + regions
        if spot >= 0:
            following[c] = parked[spot]
            parked[spot] = c
            continue
        moved = True
        gain[steps] = settle(problem, home, waiting, c, queue)
        client[done] = c
        done += 1
        steps += 1
        start[steps] = done
        left = problem.origin[c]
        unpark(parked, following, left, 4, queue)
        unpark(parked, following, brokers + problem.region[left], 4, queue)
    return client, start[: steps + 1].copy(), gain[:steps].copy()


@kernel
def full_at(problem: Problem, before: State, state: State, client: int, to: int) -> int:
    """The broker, or len(brokers) + region, that has no room for what the client sends; -1 if there is room."""
    sent = problem.sent[client]
    if sent == 0:
        return -1
    region = problem.region[to]
    if over(state.broker_sent[to] + sent, problem.broker_sent[to], before.broker_sent[to]):
        return to
    if problem.region[problem.origin[client]] != region and over(
        state.region_sent[region] + sent, problem.region_sent[region], before.region_sent[region]
    ):
        return len(problem.region) + int(region)
    return -1


@kernel
def unpark(parked: Ints, following: Ints, spot: int, most: int, queue: Queue) -> None:
    """Let some of those parked at a spot wait in the queue again."""
    for _ in range(most):
        c = parked[spot]
        if c < 0:
            break
        parked[spot] = following[c]
        enqueue(queue, c, queue.worth[c])


@kernel
def settle(problem: Problem, home: Ints, waiting: Bools, client: int, queue: Queue) -> float:
    """The client has moved: what that saved, and what its moving is to the others that wait."""
    waiting[client] = False
    old, new = problem.origin[client], home[client]
    ties = problem.ties
    for k in range(ties.start[client], ties.start[client + 1]):
        c = ties.other[k]
        if waiting[c]:
            a, b = problem.origin[c], home[c]
            now = problem.apart[a, new] - problem.apart[b, new]
            worth = queue.worth[c] + ties.weight[k] * (now - problem.apart[a, old] + problem.apart[b, old])
            queue.worth[c] = worth
            if queue.place[c] >= 0:
                enqueue(queue, c, worth)
    return float(queue.worth[client])


@kernel
def next_of_chain(problem: Problem, before: State, state: State, home: Ints, queue: Queue) -> int:
    """Of those who wait the best one after whom all is well, else one that leaves what is too full, else the best."""
    best, rank, looked = queue.item[0], 0, 0
    for i in range(min(queue.size[0], 4096)):
        c = queue.item[i]
        at = problem.origin[c]
        mine = 0
        if over(state.broker_sent[at], problem.broker_sent[at], before.broker_sent[at]):
            mine = 2
        elif problem.region[at] != problem.region[home[c]]:
            r = problem.region[at]
            mine = 1 if over(state.region_sent[r], problem.region_sent[r], before.region_sent[r]) else 0
        if mine and looked < 256:
            looked += 1
            move(problem, state, c, home[c])
            if not worse(problem, before, state):
                mine = 3
            move(problem, state, c, at)
        if mine > rank or (mine == rank and comes_before(queue, c, best)):
            best, rank = c, mine
    return int(best)


@kernel
def over(load: float, cap: float, before: float) -> bool:
    """Whether a load is above its cap and above what it was."""
    return load > max(cap, before) * (1 + 1e-12) + 1e-9


@kernel
def worse(problem: Problem, before: State, state: State) -> bool:
    """Whether any load is above its cap and above what it was before the plan."""
    for b in range(len(problem.region)):
        if over(state.broker_sent[b], problem.broker_sent[b], before.broker_sent[b]):
            return True
        if over(state.broker_handled[b], problem.broker_handled[b], before.broker_handled[b]):
            return True
    for r in range(len(problem.region_sent)):
        if over(state.region_sent[r], problem.region_sent[r], before.region_sent[r]):
            return True
        if over(state.region_handled[r], problem.region_handled[r], before.region_handled[r]):
            return True
    return False
