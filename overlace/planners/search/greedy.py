"""The greedy way, to compare with: the client that saves most moves where it saves most, then the next.

Everybody moves once at most, and only where there is room. After a move those who talk with the client in small groups
are looked at again; all others when their turn comes.
"""

from __future__ import annotations

import numpy as np

from overlace.arrays.heap import Queue, dequeue, enqueue, new_queue
from overlace.arrays.jit import Ints, Pairs, kernel
from overlace.planners.search.problem import SearchProblem
from overlace.planners.search.system import System, find_open, prices, try_settle, work_of
from overlace.planners.search.walk import Search, State

TRIED = 4
"""Of the brokers that save most, so many are tried."""
CLOSE = 1e-9
"""What two costs of a client must differ by, as a share of them, to count as different."""
SMALL = 16
"""Members of a class up to which those who talk with a client are looked at again."""


def move_greedily(problem: SearchProblem, links: Pairs, moves: int) -> State:
    """Where clients are after so many moves, with these links between brokers."""
    search = Search(problem)
    search.goto(State(problem.limits.first.copy(), links))
    move_best(search.system, problem.movable, new_queue(len(search.home)), moves)
    search.goto(State(search.home.copy(), links))
    return search.state()


@kernel(work=lambda system, movable, queue, moves: 4 * work_of(system, len(movable)))
def move_best(system: System, movable: Ints, queue: Queue, moves: int) -> int:
    """Move clients, those that save most first; returns how many moved."""
    demand, home = system.demand, system.seats.home
    waits = np.zeros(len(home), dtype=np.bool_)
    for c in movable:
        waits[c] = True
        enqueue(queue, c, best_move(system, c, False))
    done = 0
    while done < moves and queue.size[0] > 0:
        c = queue.item[0]
        claimed = queue.worth[c]
        if not claimed > 0.0:
            break
        saves = best_move(system, c, False)
        if saves < claimed * (1 - CLOSE):
            enqueue(queue, c, saves)
            continue
        dequeue(queue, c)
        waits[c] = False
        if not best_move(system, c, True) > 0.0:
            continue
        done += 1
        for j in range(demand.of_start[c], demand.of_start[c + 1]):
            k = demand.of_class[j]
            if demand.start[k + 1] - demand.start[k] > SMALL:
                continue
            for i in range(demand.start[k], demand.start[k + 1]):
                if waits[demand.member[i]]:
                    enqueue(queue, demand.member[i], best_move(system, demand.member[i], False))
    return done


@kernel
def best_move(system: System, c: int, go: bool) -> float:
    """What a client saves where it saves most and has room; there it goes, if it is to go and limits hold."""
    out, open_to, here = system.scratch.out, system.scratch.open, system.seats.home[c]
    prices(system, c, 0.0, out)
    find_open(system, c, 1)
    now = out[here]
    for _ in range(TRIED):
        best = -1
        for b in range(len(out)):
            if b != here and open_to[b] and (best < 0 or out[b] < out[best]):
                best = b
        if best < 0 or not out[best] < now - CLOSE * max(1.0, abs(now)):
            return 0.0
        saves = float(now - out[best])
        if not go or try_settle(system, c, best):
            return saves
        open_to[best] = False
    return 0.0
