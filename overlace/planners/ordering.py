"""The way from the system as it was to the one that was found: those changes first that pay most.

Every step is one client or one swap, as long as one keeps the limits; where none does, the next ones go together
until the limits hold again. A client that does not fit is parked at what is full, and looked at again when there is
room. What a move saves is worked out anew when a client moves that shares a class, and when it is its turn; swaps are
looked at anew after each swap and from time to time.
"""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple, Protocol

import numpy as np

from overlace.arrays.heap import Queue, dequeue, enqueue, new_queue
from overlace.arrays.jit import Bools, Floats, Ints, Pairs, by_address, kernel
from overlace.arrays.pairs import as_pairs, positions
from overlace.model import FACETS, Changes, Progress
from overlace.planners.search.cut import new_workspace
from overlace.planners.search.limits import excess, fits
from overlace.planners.search.problem import SearchProblem
from overlace.planners.search.rewiring import (
    EXCESS,
    TIME,
    Rewiring,
    gain_of,
    next_of_several,
    next_swap,
    replace_link,
    rewiring,
)
from overlace.planners.search.spans import Spans
from overlace.planners.search.system import System, full, prices, seat, settle, shift, undo, work_of
from overlace.planners.search.walk import NO_LIMIT, Search, State

FEW = 64, 16
"""Of those that share a class with a client that has moved, so many are looked at again at once; in large systems."""
ROOMY = 16
"""After a move, so many brokers are looked at that may be able to handle more now."""
SWAPS = 4
"""Swaps that are tried before clients go on."""
SEEN = 1, 8
"""Swaps after which all clients and swaps are looked at again, in small and in large systems."""
LOOKED, TRIED = 4096, 256
"""Of those that wait, so many are looked at for the next of a chain, and so many of them tried."""


class OverlayMove(NamedTuple):
    """A client that moves (client, from, to), or a link replaced (-1, and both links)."""

    client: int
    old: tuple[int, int]
    new: tuple[int, int]
    saves: float = 0.0
    messages: float = 0.0  # that crossed the link which goes
    who: int = -1  # the class that saves most by a link replaced
    most: float = 0.0  # and how much


class Path(NamedTuple):
    """Changes in order: a client that moves from broker to broker, or a link (client -1) replaced by another."""

    client: Ints
    old: Pairs  # (client, broker), or both ends of a link
    new: Pairs
    saves: Floats
    messages: Floats  # that crossed the link which goes
    who: Ints  # the class that saves most by a link replaced
    most: Floats  # and how much
    start: Ints  # where each step begins
    gain: Floats  # what each step saves


@by_address
class MoveQueue(NamedTuple):
    """Clients that wait to move, and those that have moved; changed in place."""

    target: Ints
    waits: Bools
    queue: Queue
    parked: Ints  # per load, the first that is parked there
    behind: Ints  # per client, the next one parked there
    moved: Ints  # in order
    gain: Floats
    done: Ints  # one entry: how many
    price: float  # of a move
    few: int  # of those that share a class with one that has moved, so many are looked at again at once


@kernel(work=lambda system, line, c: work_of(system, 1))
def saves(system: System, line: MoveQueue, c: int) -> float:
    """What the move of a client saves now."""
    out, here, there = system.scratch.out, system.seats.home[c], line.target[c]
    prices(system, c, 0.0, out)
    place = system.limits.place
    return float(out[here] - out[there]) - (line.price if place[here] != place[there] else 0.0)


@kernel(work=lambda system, line: work_of(system, int(line.waits.sum())))
def look_at_all(system: System, line: MoveQueue) -> None:
    """Let everybody wait who has not moved, at what its move saves now."""
    for spot in range(len(line.parked)):
        line.parked[spot] = -1
    for c in range(len(line.waits)):
        if line.waits[c]:
            enqueue(line.queue, c, saves(system, line, c))


@kernel(work=lambda system, line, c, gain: work_of(system, 8))
def go(system: System, line: MoveQueue, c: int, gain: float) -> None:
    """A client moves, and those that share a class with it are looked at again."""
    demand = system.demand
    settle(system, c, line.target[c])
    line.waits[c] = False
    if line.queue.place[c] >= 0:
        dequeue(line.queue, c)
    line.moved[line.done[0]], line.gain[line.done[0]] = c, gain
    line.done[0] += 1
    left = line.few
    for j in range(demand.of_start[c], demand.of_start[c + 1]):
        k = demand.of_class[j]
        for i in range(demand.start[k], demand.start[k + 1]):
            m = demand.member[i]
            if left > 0 and line.waits[m] and line.queue.place[m] >= 0:
                enqueue(line.queue, m, saves(system, line, m))
                left -= 1
        if left == 0:
            break


@kernel
def blocked_by(system: System, c: int, there: int) -> int:
    """The load that has no room for a client; -1: there is room. What is handled is asked by trying."""
    here, limits, loads = system.seats.home[c], system.limits, system.loads
    if full(system, here, there, limits.sent[c]):
        area = limits.area[there]
        own = loads.sent[there] + limits.sent[c] > limits.sent_cap[there] * (1 + 1e-12) + 1e-9
        return there if own else area
    if not system.capped:
        return -1
    system.scratch.who[0], system.scratch.to[0] = c, there
    shift(system, 1)
    worst = -1
    for b in range(len(loads.handled)):
        if loads.handled[b] > limits.handled_cap[b] * (1 + 1e-12) + 1e-9:
            worst = b
            break
    undo(system, 1)
    return len(loads.sent) + worst if worst >= 0 else -1


@kernel(work=lambda system, line, least, most: work_of(system, 8 * int(line.waits.sum())))
def let_go(system: System, line: MoveQueue, least: float, most: int) -> int:
    """Let clients move one by one, the best first, while one saves at least so much; why it ended.

    0: nobody waits, or those that do save less, or so many have moved; 1: nobody who waits fits alone.
    """
    queue, n = line.queue, len(system.loads.sent)
    since = 0
    fresh = True  # whether all that are parked have been looked at since somebody moved
    while since < most:
        if queue.size[0] == 0:
            parked = False
            for spot in range(len(line.parked)):
                parked |= line.parked[spot] >= 0
                unpark(system, line, spot, len(line.waits))
            if not parked:
                return 0
            if fresh:
                return 1
            fresh = True
            continue
        c = queue.item[0]
        now = saves(system, line, c)
        if now < queue.worth[c] - 1e-9 * max(1.0, abs(queue.worth[c])):
            enqueue(queue, c, now)
            continue
        if now < least:
            return 0
        spot = blocked_by(system, c, line.target[c])
        if spot >= 0:
            dequeue(queue, c)
            line.behind[c] = line.parked[spot]
            line.parked[spot] = c
            continue
        here = system.seats.home[c]
        go(system, line, c, now)
        since += 1
        fresh = False
        unpark(system, line, here, 4)
        if system.limits.area[here] >= 0:
            unpark(system, line, system.limits.area[here], 4)
        for i in range(min(n, ROOMY)):  # some of the brokers in turn
            b = (since * ROOMY + i) % n
            if line.parked[n + b] >= 0 and system.loads.handled[b] < system.limits.handled_cap[b]:
                unpark(system, line, n + b, 2)
    return 0


@kernel
def unpark(system: System, line: MoveQueue, spot: int, most: int) -> None:
    """Let some of those parked at a spot wait in the queue again."""
    for _ in range(most):
        c = line.parked[spot]
        if c < 0:
            break
        line.parked[spot] = line.behind[c]
        enqueue(line.queue, c, saves(system, line, c))


@kernel(work=lambda system, line: work_of(system, min(TRIED, int(line.queue.size[0]))))
def next_of_chain(system: System, line: MoveQueue) -> tuple[int, int]:
    """(client, rank): of those who wait the best after whom all is well (3), else one that leaves what is too full (2),
    else the best of all (0)."""
    queue, limits, loads, home = line.queue, system.limits, system.loads, system.seats.home
    if queue.size[0] == 0:
        return -1, -1
    best, rank, looked = queue.item[0], 0, 0
    over = excess(loads.sent, limits.sent_cap) + (excess(loads.handled, limits.handled_cap) if system.capped else 0.0)
    for i in range(min(queue.size[0], LOOKED) if over > 0.0 else 0):
        c = queue.item[i]
        here, mine = home[c], 0
        crowded = loads.sent[here] > limits.sent_cap[here] or (
            limits.area[here] >= 0 and loads.sent[limits.area[here]] > limits.sent_cap[limits.area[here]]
        )
        if looked < TRIED and (crowded or excess(loads.sent, limits.sent_cap) == 0.0):
            looked += 1
            system.scratch.who[0], system.scratch.to[0] = c, line.target[c]
            shift(system, 1)
            left = excess(loads.sent, limits.sent_cap)
            left += excess(loads.handled, limits.handled_cap) if system.capped else 0.0
            mine = 3 if left == 0.0 else 2 if left < over else 0
            undo(system, 1)
        worth = queue.worth
        if mine > rank or (mine == rank and (worth[c] > worth[best] or (worth[c] == worth[best] and c < best))):
            best, rank = c, mine
    return int(best), rank


class Stepper(Protocol):
    """Changes that are left, as a facet sees them."""

    @property
    def left(self) -> int:
        """How many."""

    def alone(self) -> bool:
        """Carry out single changes, the best first, as long as one keeps the limits; whether any did."""

    def together(self) -> None:
        """Carry out several as one step, until the limits hold again."""


def carry_out(stepper: Stepper, progress: Progress | None = None) -> None:
    """All changes: single ones as long as one keeps the limits, and where none does, several as one step."""
    total = stepper.left
    while stepper.left:
        if not stepper.alone() and stepper.left:
            stepper.together()
        if progress:
            progress(1 - stepper.left / max(total, 1), "ordering steps")


class Ordering:
    """Where the order of clients and links stands."""

    def __init__(self, problem: SearchProblem, goal: State, most: int = NO_LIMIT) -> None:
        self.problem, self.most = problem, most
        self.search = Search(problem)
        clients, loads = len(goal.home), len(problem.limits.sent_cap)
        waits = goal.home != self.search.home
        self.moves = int(waits.sum())
        self.line = MoveQueue(
            target=goal.home.copy(),
            waits=waits,
            queue=new_queue(clients),
            parked=np.full(2 * loads, -1),
            behind=np.full(clients, -1),
            moved=np.zeros(self.moves, dtype=np.int64),
            gain=np.zeros(self.moves),
            done=np.zeros(1, dtype=np.int64),
            price=problem.move_price,
            few=FEW[self.search.huge],
        )
        self.goes, self.added = np.empty(0, dtype=np.int64), goal.links[:0]
        if not np.array_equal(goal.links, problem.links):
            had, has = as_pairs(problem.links), as_pairs(goal.links)
            self.goes, self.added = np.flatnonzero(positions(has, problem.links) < 0), has[positions(had, has) < 0]
        self.links, self.swapped = problem.links.copy(), 0
        self.made: list[Path] = []
        if self.moves:
            look_at_all(self.system, self.line)
        self._note(0)

    @property
    def system(self) -> System:
        """The system now, under the limits of the whole way, wherever it stands."""
        return self.search.system._replace(limits=self.problem.limits)

    @property
    def swaps(self) -> int:
        """Links that have not been replaced yet."""
        return min(len(self.goes), self.most) - self.swapped

    @cached_property
    def spans(self) -> Spans:
        """What classes span, as swaps were looked at last."""
        return self.search.spans()

    @cached_property
    def rewiring(self) -> Rewiring:
        """The links that go and come; made when the first is asked for."""
        return rewiring(self.spans, self.problem.links, self.goes, self.added)

    @property
    def left(self) -> int:
        """Clients and links that have not changed yet."""
        return self.moves - int(self.line.done[0]) + self.swaps

    def path(self, progress: Progress | None = None) -> Path:
        """All steps, in order."""
        carry_out(self, progress)
        columns = [np.concatenate([part[i] for part in self.made]) for i in range(7)]
        size = np.concatenate([np.diff(part.start) for part in self.made])
        gain = np.concatenate([part.gain for part in self.made])
        return Path._make([*columns, np.append(0, np.cumsum(size)), gain])

    def alone(self) -> bool:
        """Let clients move, and replace a link, as long as that keeps the limits; whether any did."""
        swap = self._best_swap()
        least = swap[2] if swap else -np.inf
        before, stuck = int(self.line.done[0]), 0
        most = max(1, (self.moves - before) // 20) if self.swaps else NO_LIMIT
        if self.moves > before:
            stuck = let_go(self.system, self.line, least, most)
            self._note(before)
        moved = int(self.line.done[0]) - before
        if swap and moved < most and (not moved or self._holds(*swap[:2])):
            self._write([self._do_swap(*swap[:2])])
            return True
        return moved > 0 and not stuck

    def together(self) -> None:
        """Let changes that only together keep the limits be one step."""
        self._write(self._together())

    def _note(self, since: int) -> None:
        """Write down the clients that have moved since, a step each."""
        line, end = self.line, int(self.line.done[0])
        client = line.moved[since:end].copy()
        old = np.column_stack([client, self.problem.limits.first[client]])
        new = np.column_stack([client, line.target[client]])
        none, start, gain = np.zeros(len(client)), np.arange(len(client) + 1), line.gain[since:end].copy()
        self.made.append(Path(client, old, new, gain, none, np.full(len(client), -1), none, start, gain))

    def _write(self, changes: list[OverlayMove]) -> None:
        """Write down a step."""
        if not changes:
            return
        columns = [np.array([each[i] for each in changes]) for i in range(7)]
        gain = sum(each.saves for each in changes)
        self.made.append(Path._make([*columns, np.array([0, len(changes)]), np.array([gain])]))

    def _best_swap(self) -> tuple[int, int, float] | None:
        """(where it stands among those that go, among those that come, what it saves): the best swap within limits."""
        if not self.swaps:
            return None
        spans = self._look()
        for _ in range(SWAPS):
            pick, place, gain = next_swap(spans, self.rewiring, self.problem.swap_price)
            if pick < 0:
                return None
            if self._holds(pick, place):
                return pick, place, gain
            self.rewiring.stale[pick] = -np.inf
        return None

    def _look(self) -> Spans:
        """What classes span now; where clients have moved, swaps are looked at anew, in large systems as they come."""
        spans = self.search.spans()
        if spans is not self.spans:
            self.spans, self.rewiring = spans, self.rewiring._replace(workspace=new_workspace(spans))
            self.rewiring.state[TIME] += 1
            if not self.search.huge:
                self.rewiring.stale[:] = np.inf
        return spans

    def _replaced(self, pick: int, place: int) -> Pairs:
        """The links after a swap."""
        made = self.links.copy()
        made[self.rewiring.slots[pick]] = self.rewiring.added[self.rewiring.left[place]]
        return made

    def _holds(self, pick: int, place: int) -> bool:
        """Whether brokers can handle what passes them after a swap."""
        return not self.problem.capped or self.search.bears(self._replaced(pick, place))

    def _do_swap(self, pick: int, place: int) -> OverlayMove:
        """Replace a link."""
        spans, r = self._look(), self.rewiring
        old = self.links[r.slots[pick]]
        new = r.added[r.left[place]]
        change = OverlayMove(-1, (int(old[0]), int(old[1])), (int(new[0]), int(new[1])))
        self.links = self._replaced(pick, place)
        gain, crossed, who, most = replace_link(spans, r, pick, place)
        self.swapped += 1
        waiting = int(self.line.done[0]) < self.moves
        if waiting or self.problem.capped:
            self.search.goto(State(self.search.home, self.links))
        if waiting and (self.swapped % SEEN[self.search.huge] == 0 or not self.swaps):
            look_at_all(self.system, self.line)
        shown = int(spans.example[who]) if who >= 0 else -1
        return change._replace(saves=gain - self.problem.swap_price, messages=crossed, who=shown, most=most)

    def _together(self) -> list[OverlayMove]:
        """Changes one after the other until the limits hold again, as one step; none where they never do."""
        changes: list[OverlayMove] = []
        while self.left:
            system, line = self.system, self.line
            if not line.queue.size[0] and self.moves > int(line.done[0]):
                look_at_all(system, line)
            c, rank = next_of_chain(system, line)
            swap = None
            if rank < 3 and self.swaps:
                swap = next_of_several(self._look(), self.rewiring)
            if swap and (c < 0 or (rank == 0 and swap[2] - self.problem.swap_price >= line.queue.worth[c])):
                changes.append(self._do_swap(*swap[:2]))
            else:
                saved = saves(system, line, c)
                go(system, line, c, saved)
                changes.append(OverlayMove(c, (c, int(self.problem.limits.first[c])), (c, int(line.target[c])), saved))
            if self._all_hold():
                return changes
        return []

    def _all_hold(self) -> bool:
        limits, loads = self.problem.limits, self.search.system.loads
        if self.swapped and self.rewiring.state[EXCESS] > 0:
            return False
        return fits(loads.sent, limits.sent_cap) and fits(loads.handled, limits.handled_cap)


def price_anew(problem: SearchProblem, path: Path) -> Path:
    """The same steps by what they save of another demand."""
    search, links = Search(problem), problem.links.copy()
    gain, messages = np.zeros(len(path.client)), np.zeros(len(path.client))
    swaps = np.flatnonzero(path.client < 0)
    done = 0
    for at in [*swaps.tolist(), len(path.client)]:
        client, target = path.client[done:at], path.new[done:at, 1]
        follow(search.system, client, np.ascontiguousarray(target), problem.move_price, gain[done:at])
        if at < len(path.client):
            slot = int(np.flatnonzero((links == path.old[at]).all(axis=1))[0])
            saved, crossed = gain_of(search.spans(), links, slot, *path.new[at].tolist())
            gain[at], messages[at] = saved - problem.swap_price, crossed
            links[slot] = path.new[at]
            search.rewire(links.copy())
            search.system = search.system._replace(tree=search.tree)
        done = at + 1
    return path._replace(saves=gain, messages=messages, gain=np.add.reduceat(np.append(gain, 0.0), path.start[:-1]))


@kernel(work=lambda system, client, target, price, gain: work_of(system, len(client)))
def follow(system: System, client: Ints, target: Ints, price: float, gain: Floats) -> None:
    """Seat clients elsewhere one after the other, whatever brokers bear, and put down what each saves."""
    out, place, home = system.scratch.out, system.limits.place, system.seats.home
    for i in range(len(client)):
        c, here, there = client[i], home[client[i]], target[i]
        prices(system, c, 0.0, out)
        gain[i] = out[here] - out[there] - (price if place[here] != place[there] else 0.0)
        seat(system.demand, system.seats, c, there)


def changes_of(path: Path, step: int) -> list[OverlayMove]:
    """The changes of one step."""
    made = []
    for i in range(int(path.start[step]), int(path.start[step + 1])):
        (a, b), (x, y) = path.old[i].tolist(), path.new[i].tolist()
        made.append(OverlayMove(int(path.client[i]), (a, b), (x, y), float(path.saves[i]), float(path.messages[i])))
    return made


def changes_in(path: Path, count: int | None = None) -> Changes:
    """The first changes of a path as those of a plan: what goes, then what comes."""
    facet = np.where(path.client[:count] < 0, FACETS.index("tree"), FACETS.index("placement"))
    rows = np.stack([path.old[:count], path.new[:count]], axis=1).reshape(-1, 2)
    return Changes(np.repeat(facet, 2), np.tile([-1, 1], len(facet)), rows[:, 0], rows[:, 1])
