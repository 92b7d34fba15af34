"""The way from the system as it was to the one that was found: those changes first that pay most.

Every step is one client or one swap, as long as one keeps the limits; where none does, the next ones go together
until the limits hold again. A client that does not fit is parked at what is full, and looked at again when there is
room. What a move saves is worked out anew when a client moves that shares a class, and when it is its turn; swaps are
looked at anew after each swap and from time to time.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import NamedTuple

import numpy as np

from overlace.arrays.heap import Queue, dequeue, enqueue, new_queue
from overlace.arrays.jit import Bools, Floats, Ints, Pairs, by_address, kernel
from overlace.model import Progress
from overlace.planners.search.limits import excess, fits
from overlace.planners.search.links import best_swaps, crossings
from overlace.planners.search.problem import Problem
from overlace.planners.search.system import System, bill, full, prices, rooted, settle, shift, undo, work_of
from overlace.planners.search.walk import NO_LIMIT, Search, State, home_sets, replaced

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


class Change(NamedTuple):
    """A client that moves (client, from, to), or a link replaced (-1, and both links)."""

    client: int
    old: tuple[int, int]
    new: tuple[int, int]
    messages: float = 0.0  # that crossed the link which goes


class Path(NamedTuple):
    """Changes in order: a client that moves from broker to broker, or a link (client -1) replaced by another."""

    client: Ints
    old: Pairs  # (client, broker), or both ends of a link
    new: Pairs
    messages: Floats  # that crossed the link which goes
    start: Ints  # where each step begins
    gain: Floats  # what each step saves


@by_address
class Line(NamedTuple):
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
def saves(system: System, line: Line, c: int) -> float:
    """What the move of a client saves now."""
    out, here, there = system.scratch.out, system.seats.home[c], line.target[c]
    prices(system, c, 0.0, out)
    place = system.limits.place
    return float(out[here] - out[there]) - (line.price if place[here] != place[there] else 0.0)


@kernel(work=lambda system, line: work_of(system, int(line.waits.sum())))
def look_at_all(system: System, line: Line) -> None:
    """Let everybody wait who has not moved, at what its move saves now."""
    for spot in range(len(line.parked)):
        line.parked[spot] = -1
    for c in range(len(line.waits)):
        if line.waits[c]:
            enqueue(line.queue, c, saves(system, line, c))


@kernel(work=lambda system, line, c, gain: work_of(system, 8))
def go(system: System, line: Line, c: int, gain: float) -> None:
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
def let_go(system: System, line: Line, least: float, most: int) -> int:
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
def unpark(system: System, line: Line, spot: int, most: int) -> None:
    """Let some of those parked at a spot wait in the queue again."""
    for _ in range(most):
        c = line.parked[spot]
        if c < 0:
            break
        line.parked[spot] = line.behind[c]
        enqueue(line.queue, c, saves(system, line, c))


@kernel(work=lambda system, line: work_of(system, min(TRIED, int(line.queue.size[0]))))
def next_of_chain(system: System, line: Line) -> tuple[int, int]:
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


class Ordering:
    """Where the order stands."""

    def __init__(self, problem: Problem, goal: State) -> None:
        self.problem = problem
        self.search = Search(problem)
        clients, loads = len(goal.home), len(problem.limits.sent_cap)
        waits = goal.home != self.search.home
        self.moves = int(waits.sum())
        self.line = Line(
            goal.home.copy(), waits, new_queue(clients), np.full(2 * loads, -1), np.full(clients, -1),
            np.zeros(self.moves, dtype=np.int64), np.zeros(self.moves), np.zeros(1, dtype=np.int64),
            problem.move_price, FEW[self.search.huge],
        )  # fmt: skip
        had, has = ({(int(a), int(b)) for a, b in links} for links in (problem.links, goal.links))
        self.removed, self.added = had - has, has - had
        self.made: list[Path] = []
        self.swaps: list[tuple[float, Change, int]] = []  # as a heap: what each costs, and when that was worked out
        self.swapped = self.seen = self.time = self.looked = 0
        self.routed = -1, 0.0
        look_at_all(self.system, self.line)
        self._note(0)

    @property
    def system(self) -> System:
        """The system now, under the limits of the whole way, wherever it stands."""
        return self.search.system._replace(limits=self.problem.limits)

    @property
    def left(self) -> int:
        """Clients and links that have not changed yet."""
        return self.moves - int(self.line.done[0]) + len(self.added)

    def path(self, progress: Progress | None = None) -> Path:
        """All steps, in order."""
        total = self.left
        while self.left:
            swap = self._best_swap()
            least = swap[0] if swap else -np.inf
            most = max(1, (self.moves - int(self.line.done[0])) // 20) if self.added else NO_LIMIT
            before = int(self.line.done[0])
            stuck = let_go(self.system, self.line, least, most)
            self._note(before)
            if int(self.line.done[0]) > before:
                self.time += 1
            if swap and int(self.line.done[0]) - before < most and self._holds(swap[1]):
                change, gained = self._do_swap(swap[1])
                self._write([change], gained)
            elif self.left and (stuck or (int(self.line.done[0]) == before and not swap)):
                self._write(*self._together())
            if progress:
                progress(1 - self.left / max(total, 1), "ordering steps")
        client, old, new, messages = (np.concatenate([part[i] for part in self.made]) for i in range(4))
        size = np.concatenate([np.diff(part.start) for part in self.made])
        gain = np.concatenate([part.gain for part in self.made])
        return Path(client, old, new, messages, np.append(0, np.cumsum(size)), gain)

    def _note(self, since: int) -> None:
        """Write down the clients that have moved since, a step each."""
        line, end = self.line, int(self.line.done[0])
        client = line.moved[since:end].copy()
        old = np.column_stack([client, self.problem.limits.first[client]])
        new = np.column_stack([client, line.target[client]])
        none, start = np.zeros(len(client)), np.arange(len(client) + 1)
        self.made.append(Path(client, old, new, none, start, line.gain[since:end].copy()))

    def _write(self, changes: list[Change], gain: float) -> None:
        """Write down a step."""
        client, old, new, messages = (np.array([each[i] for each in changes]) for i in range(4))
        self.made.append(Path(client, old, new, messages, np.array([0, len(changes)]), np.array([gain])))

    def _best_swap(self) -> tuple[float, Change] | None:
        """The best swap of a link that goes for one that comes and keeps the limits, and what it saves.

        Swaps are looked at all together from time to time; in between the best is worked out anew until it is the best.
        """
        if not self.added:
            return None
        looked = False
        every = SEEN[self.search.huge]
        if self.swapped >= self.seen + every or not self.swaps or (every == 1 and self.looked != self.time):
            self._look_at_swaps()
            looked = True
        tried = 0
        while tried < SWAPS:
            if not self.swaps:
                if looked:
                    return None
                self._look_at_swaps()
                looked = True
                continue
            worth, change, then = self.swaps[0]
            if then != self.time:
                heappop(self.swaps)
                if change.old in self.removed and change.new in self.added and self._joins(change):
                    heappush(self.swaps, (-self._saved_by(change), change, self.time))
                continue
            if self._holds(change):
                return -worth, change
            heappop(self.swaps)
            tried += 1
        return None

    def _look_at_swaps(self, *, strict: bool = True) -> None:
        """Find the best swap for each link that goes."""
        s, p = self.search, self.problem
        n = len(p.node)
        wire, fixed = np.full((n, n), np.inf), np.ones((n, n), dtype=np.bool_)
        for a, b in self.added:
            wire[a, b] = wire[b, a] = p.wire[a, b]
        for a, b in self.removed:
            fixed[a, b] = fixed[b, a] = False
        both, straight = crossings(s.tree, fixed, *home_sets(p.demand, s.home))
        most = p.max_degree if strict else np.full(n, NO_LIMIT)
        score, left, right = best_swaps(s.tree, p.node, wire, both, straight, p.first, fixed, most, 0.0, NO_LIMIT)
        self.swaps = []
        for e in np.flatnonzero(np.isfinite(score)).tolist():
            change = Change(-1, _pair(e, int(s.tree.parent[e])), _pair(int(left[e]), int(right[e])))
            self.swaps.append((float(score[e]) + p.swap_price, change, self.time))
        heapify(self.swaps)
        self.seen, self.looked = self.swapped, self.time

    def _joins(self, change: Change) -> bool:
        """Whether a swap leaves a tree, and nobody with more links than it may have."""
        (a, b), (x, y) = change.old, change.new
        parent, degree = self.search.tree.parent, self.search.tree.degree
        low, inside = a if parent[a] == b else b, []
        for v in (x, y):
            if degree[v] + 1 - (v in change.old) > self.problem.max_degree[v]:
                return False
            while v not in (-1, low):
                v = int(parent[v])
            inside.append(v == low)
        return inside[0] != inside[1]

    def _saved_by(self, change: Change) -> float:
        """What a swap saves now."""
        p, s = self.problem, self.search
        if self.routed[0] != self.time:
            self.routed = self.time, s.routed()
        tree = rooted(replaced(s.links, *change.old, *change.new), p.wire)
        after = bill(p.demand, s.home, tree, p.node, p.limits.area, len(p.limits.sent_cap))[0]
        return float(self.routed[1] - after) - p.swap_price

    def _holds(self, change: Change) -> bool:
        """Whether brokers can handle what passes them after a swap."""
        return self.search.bears(replaced(self.search.links, *change.old, *change.new))

    def _do_swap(self, change: Change) -> tuple[Change, float]:
        """(the change with the messages that crossed its link, what it saves): replace a link."""
        s = self.search
        before, crossed = s.routed(), self._crossing(change.old)
        s.goto(State(s.home, replaced(s.links, *change.old, *change.new)))
        after = s.routed()
        self.removed.discard(change.old)
        self.added.discard(change.new)
        self.swapped += 1
        self.time += 1
        if self.swapped % SEEN[s.huge] == 0 or not self.added:
            look_at_all(self.system, self.line)
        return change._replace(messages=crossed), float(before - after) - self.problem.swap_price

    def _crossing(self, link: tuple[int, int]) -> float:
        """The messages that cross a link now."""
        tree, demand = self.search.tree, self.problem.demand
        low = link[0] if tree.parent[link[0]] == link[1] else link[1]
        below = np.zeros(len(tree.parent), dtype=np.bool_)
        below[low] = True
        for v in tree.order[1:].tolist():
            below[v] |= below[tree.parent[v]]
        inside = np.append(0, np.cumsum(below[self.search.home[demand.member]]))
        many = inside[demand.start[1:]] - inside[demand.start[:-1]]
        return float(demand.demand[(many > 0) & (many < np.diff(demand.start))].sum())

    def _together(self) -> tuple[list[Change], float]:
        """(changes, what they save): one after the other until the limits hold again, as one step."""
        changes: list[Change] = []
        gain = 0.0
        while self.left:
            system, line = self.system, self.line
            if not line.queue.size[0]:
                look_at_all(system, line)
            c, rank = next_of_chain(system, line)
            swap = None
            if rank < 3 and self.added:
                self._look_at_swaps(strict=False)
                swap = self.swaps[0]
                self.swaps = []
            if swap and (c < 0 or (rank == 0 and -swap[0] >= line.queue.worth[c])):
                change, saved = self._do_swap(swap[1])
                gain += saved
                changes.append(change)
            else:
                saved = saves(system, line, c)
                go(system, line, c, saved)
                gain += saved
                changes.append(Change(c, (c, int(self.problem.limits.first[c])), (c, int(line.target[c]))))
                self.time += 1
            if self._all_hold():
                break
        return changes, gain

    def _all_hold(self) -> bool:
        limits, loads = self.problem.limits, self.search.system.loads
        degrees = bool((self.search.tree.degree <= self.problem.max_degree).all())
        return degrees and fits(loads.sent, limits.sent_cap) and fits(loads.handled, limits.handled_cap)


def _pair(a: int, b: int) -> tuple[int, int]:
    return min(a, b), max(a, b)


def changes_of(path: Path, step: int) -> list[Change]:
    """The changes of one step."""
    made = []
    for i in range(int(path.start[step]), int(path.start[step + 1])):
        (a, b), (x, y) = path.old[i].tolist(), path.new[i].tolist()
        made.append(Change(int(path.client[i]), (a, b), (x, y), float(path.messages[i])))
    return made
