"""The way from the system as it was to the one that was found: those changes first that pay most.

Every step is one client or one swap, as long as one keeps the limits; where none does, the next ones go together
until the limits hold again. Gains of waiting clients are looked up again when it is their turn (and
after a change those who share a class with a client that moved are looked at at once), swaps are looked at anew
after each swap and from time to time.
"""

from __future__ import annotations

import heapq
from typing import NamedTuple

import numpy as np

from overlace.joint.problem import Problem
from overlace.joint.regraft import best_swaps, crossings
from overlace.joint.rehome import try_move
from overlace.joint.search import NO_LIMIT, Search, State, home_sets, replaced
from overlace.joint.state import bill, fits
from overlace.model import Progress


class Change(NamedTuple):
    """A client that moves (client, from, to), or a link replaced (-1, and both links)."""

    client: int
    old: tuple[int, int]
    new: tuple[int, int]
    messages: float = 0.0  # that crossed the link which goes


class Step(NamedTuple):
    """Changes that are made together, and what they save."""

    changes: list[Change]
    gain: float


class Way:
    """Where the order stands."""

    def __init__(self, problem: Problem, goal: State) -> None:
        self.problem = problem
        self.search = Search(problem)
        self.target = goal.home
        self.moves = {int(c) for c in np.flatnonzero(goal.home != self.search.home)}
        had, has = ({(int(a), int(b)) for a, b in links} for links in (problem.links, goal.links))
        self.removed, self.added = had - has, has - had
        self.queue = [(-self._gain(c), c) for c in sorted(self.moves)]
        heapq.heapify(self.queue)
        self.swap: tuple[float, Change] | None = None
        self.stale = True
        self.since = 0

    def steps(self, progress: Progress | None = None) -> list[Step]:
        """All steps, in order."""
        made: list[Step] = []
        total = len(self.moves) + len(self.added)
        while self.moves or self.added:
            step = self._next(strict=True) or self._together()
            made.append(step)
            if progress:
                progress(1 - (len(self.moves) + len(self.added)) / total, "ordering steps")
        return made

    def _gain(self, c: int) -> float:
        s, p = self.search, self.problem
        args = (p.demand, s.seats, s.tree, p.node, p.limits, s.loads)
        return float(try_move(*args, c, int(self.target[c]), False, True)[1]) - p.move_price

    def _next(self, *, strict: bool) -> Step | None:
        """The best single change that keeps the limits, or with nothing strict the best one."""
        blocked = []
        step = None
        self._look_at_swaps(strict)
        while step is None:
            move = self._top_move()
            if self.swap and (move is None or self.swap[0] >= move[0]):
                step = self._do_swap(strict)
            elif move is None:
                break
            else:
                heapq.heappop(self.queue)
                step = self._do_move(move[1], strict)
                if step is None:
                    blocked.append((-move[0], move[1]))
        for each in blocked:
            heapq.heappush(self.queue, each)
        return step

    def _top_move(self) -> tuple[float, int] | None:
        """The waiting client that saves most, its gain looked up now."""
        while self.queue:
            known, c = self.queue[0]
            if c not in self.moves:
                heapq.heappop(self.queue)
                continue
            gain = self._gain(c)
            if gain >= -known - 1e-9 * max(1.0, abs(known)):
                return gain, c
            heapq.heapreplace(self.queue, (-gain, c))
            if self.queue[0][1] == c:
                return gain, c
        return None

    def _do_move(self, c: int, strict: bool) -> Step | None:
        s, p = self.search, self.problem
        here, there = int(s.home[c]), int(self.target[c])
        args = (p.demand, s.seats, s.tree, p.node, p.limits, s.loads)
        done, gain = try_move(*args, c, there, True, strict)
        if not done:
            return None
        self.moves.discard(c)
        self.since += 1
        self._look_again(self._partners(c))
        return Step([Change(c, (c, here), (c, there))], float(gain) - p.move_price)

    def _partners(self, c: int) -> set[int]:
        """Who waits to move and shares a class with a client."""
        d = self.problem.demand
        found: set[int] = set()
        for k in d.of_class[d.of_start[c] : d.of_start[c + 1]].tolist():
            found |= self.moves.intersection(d.member[d.start[k] : d.start[k + 1]].tolist())
        return found

    def _look_again(self, clients: set[int]) -> None:
        """Put the gains that these have now beside those they had; who has moved is passed over later."""
        for c in sorted(clients):
            heapq.heappush(self.queue, (-self._gain(c), c))

    def _look_at_swaps(self, strict: bool) -> None:
        """Find the best swap of a link that goes for one that comes, if the last look is old."""
        if not self.added or not (self.stale or self.since > len(self.moves) // 20):
            return
        s, p = self.search, self.problem
        n = len(p.node)
        wire, fixed = np.full((n, n), np.inf), np.ones((n, n), dtype=np.bool_)
        for a, b in self.added:
            wire[a, b] = wire[b, a] = p.wire[a, b]
        for a, b in self.removed:
            fixed[a, b] = fixed[b, a] = False
        both, straight = crossings(s.tree, *home_sets(p.demand, s.home))
        most = p.max_degree if strict else np.full(n, NO_LIMIT)
        score, left, right = best_swaps(s.tree, p.node, wire, both, straight, p.first, fixed, most, 0.0, NO_LIMIT)
        self.swap = None
        for e in np.lexsort((np.arange(n), score)).tolist():
            if not np.isfinite(score[e]):
                break
            up = int(s.tree.parent[e])
            change = Change(-1, _pair(e, up), _pair(int(left[e]), int(right[e])), float(both[e, e]))
            if not strict or self._holds(change):
                self.swap = -float(score[e]) - p.swap_price, change
                break
        self.stale, self.since = False, 0

    def _holds(self, change: Change) -> bool:
        """Whether brokers can handle what passes them after a swap."""
        return self.search.bears(replaced(self.search.links, *change.old, *change.new))

    def _do_swap(self, strict: bool) -> Step | None:
        assert self.swap
        s, change = self.search, self.swap[1]
        self.swap = None
        if strict and self.since and not self._holds(change):
            return None
        before = bill(self.problem.demand, s.home, s.tree, self.problem.node)[0]
        s.goto(State(s.home, replaced(s.links, *change.old, *change.new)))
        after = bill(self.problem.demand, s.home, s.tree, self.problem.node)[0]
        self.removed.discard(change.old)
        self.added.discard(change.new)
        self.stale = True
        self._look_again(self.moves)
        return Step([change], float(before - after) - self.problem.swap_price)

    def _together(self) -> Step:
        """Changes one after the other until the limits hold again, as one step."""
        changes: list[Change] = []
        gain = 0.0
        while self.moves or self.added:
            self.stale = True
            step = self._next(strict=False)
            assert step
            changes += step.changes
            gain += step.gain
            if self._all_hold():
                break
        self.stale = True
        return Step(changes, gain)

    def _all_hold(self) -> bool:
        s, limits = self.search, self.problem.limits
        degrees = bool((s.tree.degree <= self.problem.max_degree).all())
        return degrees and fits(s.loads.sent, limits.sent_cap) and fits(s.loads.handled, limits.handled_cap)


def _pair(a: int, b: int) -> tuple[int, int]:
    return min(a, b), max(a, b)
