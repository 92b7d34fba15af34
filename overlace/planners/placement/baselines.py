"""Homes to compare with: those of today, and clients grouped by interest.

Stay: everybody keeps their home.

The baseline that moves nobody and saves nothing. It shows what today's placement costs, and it is the
smallest planner there can be.

Interest clustering, the baseline of CC12 (§IV): clients with similar subscriptions go to the same region.

Two clients are the more alike the larger the share of their subscriptions that they have in common, (6). They are put
into as many groups as there are regions, by k-means on their subscriptions as 0/1 vectors or by k-medoids on (6), and
each group goes to a region of its own, so that as few clients as can be change theirs. Inside the region those who
arrive go to the broker with the lowest load, as in the paper's phase 3.

Reads: where no subscriptions were observed, a client's interests are the senders it hears. The paper does not say how
groups are given to regions; ours is the assignment with fewest moves. Loads are not looked at.
Keeps: nobody moves inside a region; clients that subscribe to nothing stay.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from scipy.optimize import linear_sum_assignment

from overlace.arrays.csr import group
from overlace.arrays.jit import Ints, kernel
from overlace.errors import NotObserved
from overlace.limits import option
from overlace.model import Changes, Observation, Plan, Progress, Steps
from overlace.planners.placement.majority import balance
from overlace.planners.placement.planner import PlacementPlanner, WeighedPlacement
from overlace.planners.placement.problem import Problem


@dataclass(frozen=True)
class Stay(WeighedPlacement):
    """Moves no client: the baseline of every placement."""

    REASONS: ClassVar[tuple[str, ...]] = ()

    def solve(self, observation: Observation, seed: int = 0, *, progress: Progress | None = None) -> Plan:
        """The plan without a step."""
        if len(observation.flows.sender) == 0:
            raise NotObserved("placement.stay: no flows were observed. Ingest a log that says who received what.")
        return Plan(self, seed, observation.overlay, observation.overlay, Changes(), Steps())


SAMPLE = 400
"""Members of a group that are tried as its medoid, and against which they are tried."""


@dataclass(frozen=True)
class Interest(PlacementPlanner):
    """Clients with similar subscriptions to the same region: the baseline that CC12 compares with."""

    method: Literal["k-means", "k-medoids"] = option("k-means", "how clients are put into groups")
    rounds: int = option(50, "maximum rounds of the grouping", least=1)
    restarts: int = option(5, "how often it starts anew; the best grouping is taken", least=1)
    paper: ClassVar[str] = "CC12 (6)"

    def wanted(self, observation: Observation, problem: Problem, seed: int, progress: Progress) -> Ints:
        """Groups by interest, one a region."""
        region, origin = problem.region, problem.origin
        regions = int(region[problem.may].max()) + 1
        start, topic, topics = interests_of(observation)
        who = np.flatnonzero((np.diff(start) > 0) & (origin >= 0) & problem.may[np.maximum(origin, 0)])
        wanted = np.full(len(origin), -1)
        if len(who):
            groups = self._groups(start, topic, topics, who, min(regions, len(who)), seed, progress)
            overlap = np.zeros((regions, regions), dtype=np.int64)
            np.add.at(overlap, (groups, region[origin[who]]), 1)
            _, chosen = linear_sum_assignment(overlap, maximize=True)
            wanted[who] = chosen[groups]
        return balance(origin, wanted, region, problem.may, problem.sent)

    def _groups(self, start: Ints, topic: Ints, topics: int, who: Ints, k: int, seed: int, tell: Progress) -> Ints:
        best, least = np.zeros(len(who), dtype=np.int64), np.inf
        for turn in range(self.restarts):
            tell(turn / self.restarts, "grouping")
            rng = np.random.default_rng([seed, turn])
            begin = rng.choice(len(who), k, replace=False)
            if self.method == "k-means":
                groups, spread = k_means(start, topic, topics, who, begin, self.rounds)
            else:
                pick = rng.permutation(len(who))
                groups, spread = k_medoids(start, topic, who, begin, pick, self.rounds, SAMPLE)
            if spread < least:
                best, least = groups, spread
        return best


def interests_of(observation: Observation) -> tuple[Ints, Ints, int]:
    """(start, topic, topics): the ascending subscriptions of each client, else the senders it hears."""
    rows, topics = observation.interests, observation.topics
    if len(rows) == 0:
        flows = observation.flows
        apart = flows.sender != flows.receiver
        rows = np.unique(np.column_stack([flows.receiver[apart], flows.sender[apart]]), axis=0)
        topics = observation.clients
    start, order = group(np.ascontiguousarray(rows[:, 0]), observation.clients)
    return start, rows[order, 1], topics


@kernel
def k_means(start: Ints, topic: Ints, topics: int, who: Ints, begin: Ints, rounds: int) -> tuple[Ints, float]:
    """(group, spread): clients by their 0/1 vectors, from the vectors of some of them as centres."""
    n, k = len(who), len(begin)
    centre = np.zeros((k, topics), dtype=np.float64)
    for g in range(k):
        for j in range(start[who[begin[g]]], start[who[begin[g]] + 1]):
            centre[g, topic[j]] = 1.0
    groups = np.full(n, -1, dtype=np.int64)
    spread = 0.0
    for _ in range(rounds):
        length = np.zeros(k)
        for g in range(k):
            for t in range(topics):
                length[g] += centre[g, t] * centre[g, t]
        changed, spread = False, 0.0
        for i in range(n):
            c = who[i]
            best, least = 0, np.inf
            for g in range(k):
                apart = length[g] + (start[c + 1] - start[c])
                for j in range(start[c], start[c + 1]):
                    apart -= 2 * centre[g, topic[j]]
                if apart < least - 1e-12:
                    best, least = g, apart
            spread += least
            if groups[i] != best:
                groups[i] = best
                changed = True
        if not changed:
            break
        size = np.zeros(k)
        for i in range(n):
            size[groups[i]] += 1
        for g in range(k):
            if size[g] > 0:
                centre[g] = 0.0
        for i in range(n):
            for j in range(start[who[i]], start[who[i] + 1]):
                centre[groups[i], topic[j]] += 1.0 / size[groups[i]]
    return groups, spread


@kernel
def unlike(start: Ints, topic: Ints, a: int, b: int) -> float:
    """1 - D_ij, (6): the share of the subscriptions of two clients that they do not have in common."""
    i, j, common = start[a], start[b], 0
    while i < start[a + 1] and j < start[b + 1]:
        if topic[i] == topic[j]:
            common += 1
            i += 1
            j += 1
        elif topic[i] < topic[j]:
            i += 1
        else:
            j += 1
    union = start[a + 1] - start[a] + start[b + 1] - start[b] - common
    return 1.0 - common / union if union else 0.0


@kernel
def k_medoids(
    start: Ints, topic: Ints, who: Ints, begin: Ints, pick: Ints, rounds: int, sample: int
) -> tuple[Ints, float]:
    """(group, spread): clients around the one of each group that is most like the others, or like a sample of them."""
    n, k = len(who), len(begin)
    medoid = begin.copy()
    groups = np.full(n, -1, dtype=np.int64)
    spread = 0.0
    for _ in range(rounds):
        changed, spread = False, 0.0
        for i in range(n):
            best, least = 0, np.inf
            for g in range(k):
                apart = 0.0 if medoid[g] == i else unlike(start, topic, who[i], who[medoid[g]])
                if apart < least:
                    best, least = g, apart
            spread += least
            if groups[i] != best:
                groups[i] = best
                changed = True
        if not changed:
            break
        for g in range(k):
            some = np.empty(sample, dtype=np.int64)
            m = 0
            for i in pick:
                if groups[i] == g and m < sample:
                    some[m] = i
                    m += 1
            least = np.inf
            for a in range(m):
                total = 0.0
                for b in range(m):
                    total += unlike(start, topic, who[some[a]], who[some[b]])
                if total < least or (total == least and some[a] < medoid[g]):
                    least = total
                    medoid[g] = some[a]
    return groups, spread
