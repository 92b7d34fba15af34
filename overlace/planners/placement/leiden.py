"""Leiden communities, packed under caps, then local search on what a placement really costs.

Beyond CC12: communities come from NetworKit's Leiden (one thread, seeded), at the least resolution whose heaviest
community fits a region; they are packed into regions and brokers with room; then clients are re-homed, and exchanged
where caps bind, while that lowers messages x distance + access + `move_cost` x clients out of their region. The same
search starts from the present placement too, and the better end is kept; annealing refines it where there are few
clients enough.

Keeps: hard caps on what brokers and regions send and handle: a load above its cap at the start never grows, any other
stays within it; after every step no load is worse than its cap and the start. Moves inside a region cost nothing.
Where `max_moves` binds, the price of a move is raised until the moves fit; the first steps of plans with more moves are
looked at too, so that a cap that takes more moves to mend does not stop the moves there are.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import ClassVar

import numpy as np

from overlace.arrays.csr import group
from overlace.arrays.heap import new_queue
from overlace.arrays.jit import Ints
from overlace.errors import BadParameter, NothingBetter
from overlace.model import Facet, Observation, Overlay, Plan, Progress, name_of
from overlace.planners.placement import cost as placement_cost
from overlace.planners.placement.caps import FIELDS, caps_of, check_caps
from overlace.planners.placement.modularity import strengths
from overlace.planners.placement.moves import REASONS, ordered, plan_of, worse
from overlace.planners.placement.problem import Problem, check, excess, problem_of, region_numbers, state_at, total_cost
from overlace.planners.placement.search import anneal, improve, packed, repair
from overlace.planners.placement.ties import Ties
from overlace.planners.search.groups import communities_at

RESOLUTIONS = (1.0, 2.0, 4.0, 8.0, 16.0)
PROPOSALS, MOST_PROPOSALS, FEW = 400, 4_000_000, 200
BISECTIONS = 10
HEATS, COOLED = (0.15, 0.6, 2.0), 0.003
"""Annealing starts at these times the mean traffic of a client x the mean distance, and ends at this share of it."""


@dataclass(frozen=True)
class Leiden:
    """Communities by Leiden under caps, then local search on messages x distance and moves."""

    weight: placement_cost.Weight = field(
        default="messages", metadata={"help": "what a flow weighs: its messages or its bytes"}
    )
    distance: placement_cost.Distance = field(
        default="hops", metadata={"help": "what a link counts: one hop, its cost, or its latency"}
    )
    move_cost: float = field(default=0.0, metadata={"help": "price of a client that leaves its region; 0 or more"})
    max_moves: int | None = field(default=None, metadata={"help": "clients that may change their home"})
    across: bool = field(default=False, metadata={"help": "max_moves counts only moves across regions, as CC12 (2)"})
    region_sent: float | None = field(
        default=1.2, metadata={"help": "cap on what a region's clients send, times its fair share (5)"}
    )
    broker_sent: float | None = field(
        default=1.5, metadata={"help": "cap on what a broker's clients send, times its fair share"}
    )
    region_handled: float | None = field(
        default=None, metadata={"help": "cap on what a region handles, times the largest such load at the start"}
    )
    broker_handled: float | None = field(
        default=1.0, metadata={"help": "cap on what a broker handles, times the largest such load at the start"}
    )
    max_region_sent: float | None = field(default=None, metadata={"help": "the same caps in messages of the window"})
    max_broker_sent: float | None = field(default=None, metadata={"help": "see max_region_sent"})
    max_region_handled: float | None = field(default=None, metadata={"help": "see max_region_sent"})
    max_broker_handled: float | None = field(default=None, metadata={"help": "see max_region_sent"})
    keep: tuple[int, ...] = field(default=(), metadata={"help": "clients that stay", "ids": "client"})
    only: tuple[int, ...] = field(default=(), metadata={"help": "the only clients that may move", "ids": "client"})
    within_region: bool = field(default=False, metadata={"help": "nobody leaves its region"})
    effort: int = field(default=1, metadata={"help": "how long to anneal; 0: only local search"})
    strict: bool = field(
        default=False, metadata={"help": "refuse (exit 3) if a cap broken at the start is still broken at the end"}
    )
    facets: ClassVar[tuple[Facet, ...]] = ("placement",)
    paper: ClassVar[str] = ""
    REASONS: ClassVar[tuple[str, ...]] = REASONS

    def __post_init__(self) -> None:
        if not (np.isfinite(self.move_cost) and self.move_cost >= 0):
            raise BadParameter(f"move_cost is {self.move_cost}; expected a number of 0 or more")
        if self.max_moves is not None and self.max_moves < 0:
            raise BadParameter(f"max_moves is {self.max_moves}; expected 0 or more, or none")
        if self.effort < 0:
            raise BadParameter(f"effort is {self.effort}; expected 0 or more")
        check_caps(self._caps())

    def solve(self, observation: Observation, seed: int = 0, *, progress: Progress | None = None) -> Plan:
        """The better of two searches, from communities and from the present placement, as steps."""
        tell = progress or (lambda share, what: None)
        problem = self.problem(observation)
        tell(0.05, "communities")
        community = self._communities(problem, seed)
        tell(0.3, "local search")
        home = self._best(problem, community, seed, tell)
        tell(0.9, "steps")
        if self.strict:
            self._refuse_excess(observation, problem, home)
        plan = plan_of(self, observation, seed, problem, home)
        tell(1.0, "done")
        return plan

    def cost(self, observation: Observation, overlay: Overlay) -> float:
        """Messages (or bytes) x distance and access, plus the price of the moves from the observed placement."""
        base = placement_cost.cost(observation, overlay, weight=self.weight, distance=self.distance)
        region = observation.network.region
        old, new = (each.homes(observation.clients) for each in (observation.overlay, overlay))
        moved = (old >= 0) & (new >= 0)
        return base + self.move_cost * int((region[old[moved]] != region[new[moved]]).sum())

    def problem(self, observation: Observation) -> Problem:
        """The observation with this planner's limits, ready to be searched."""
        check(observation, "placement.leiden")
        for name in ("keep", "only"):
            wrong = [c for c in getattr(self, name) if not 0 <= c < observation.clients]
            if wrong:
                raise BadParameter(f"{name} names client {wrong[0]}; there are {observation.clients}")
        return problem_of(
            observation, caps_of(observation, self._caps()), weight=self.weight, distance=self.distance,
            move_cost=self.move_cost, keep=self.keep, only=self.only, within=self.within_region,
        )  # fmt: skip

    def _caps(self) -> dict[str, float | None]:
        every = asdict(self)
        return {name: every[name] for each in FIELDS for name in (each, f"max_{each}")}

    # --- the search ----------------------------------------------------------------------------------

    def _communities(self, problem: Problem, seed: int) -> Ints:
        """Leiden's communities at the least resolution whose heaviest one fits a region."""
        room = float(problem.region_sent[problem.region[problem.may]].max())
        found = np.arange(len(problem.origin))
        for resolution in RESOLUTIONS:
            found = leiden_communities(problem.ties, seed, resolution)
            if np.bincount(found, weights=problem.sent).max() <= room:
                break
        return found

    def _best(self, problem: Problem, community: Ints, seed: int, tell: Progress) -> Ints:
        free = self._search(problem, community, seed)
        if self.max_moves is None or self._moves(problem, free) <= self.max_moves:
            return free
        ends, nearest = [problem.origin, self._cut(problem, free, self.max_moves)], free
        low, high = 0.0, max(4 * float(strengths(problem.ties).max()) * float(problem.apart.max()), 1.0)
        least = high * 1e-6
        for i in range(BISECTIONS):  # the price of a move at which the moves just fit
            tell(0.3 + 0.6 * (i + 1) / BISECTIONS, "pricing moves")
            extra = float(np.sqrt(max(low, least) * high))
            priced = (
                problem._replace(move_cost=problem.move_cost + extra)
                if self.across
                else problem._replace(any_cost=extra)
            )
            home = self._search(priced, community, seed, heats=(HEATS[1],))
            if self._moves(problem, home) > self.max_moves:
                low, nearest = extra, home
            else:
                high = extra
                ends.append(home)
        ends.append(self._cut(problem, nearest, self.max_moves))
        return min(ends, key=lambda home: self._rank(problem, home))

    def _search(self, problem: Problem, community: Ints, seed: int, heats: tuple[float, ...] = HEATS) -> Ints:
        """The best of: present placement improved, communities packed and improved, and the better one annealed."""
        rng = np.random.default_rng(seed)
        order = rng.permutation(len(problem.origin))
        scale = float(strengths(problem.ties).mean()) * float(problem.apart.max() or 1.0)
        least, penalty = 1e-9 * max(scale, 1.0), 1e3 * max(scale, 1.0)
        tiny = problem._replace(any_cost=max(problem.any_cost, 1e-6 * max(scale, 1e-3)))  # nobody moves for nothing
        tries, passes = int(np.clip(200_000 // len(order), 4, 64)), int(np.clip(100_000 // len(order), 4, 30))
        ends = [tiny.origin]
        for begin in (problem.origin, self._packed(problem, community)):
            state = state_at(tiny, begin)
            repair(tiny, state)
            improve(tiny, state, order, tries, passes, least, penalty)
            ends.append(lawful(tiny, state.home))
        best = min(ends, key=lambda home: self._rank(tiny, home))
        proposals = min(PROPOSALS * len(order), MOST_PROPOSALS)
        mean = float(strengths(problem.ties).mean()) * float(problem.apart.mean())
        for turn in range(len(heats) * self.effort if proposals >= FEW * len(order) and mean > 0 else 0):
            state = state_at(tiny, best)
            hot = heats[turn % len(heats)] * mean
            home = anneal(tiny, state, seed * 1000 + turn, proposals, hot, COOLED * hot, float(problem.apart.max()))
            state = state_at(tiny, home)
            improve(tiny, state, order, tries, passes, least, penalty)
            best = min((best, lawful(tiny, state.home)), key=lambda home: self._rank(tiny, home))
        return best

    def _packed(self, problem: Problem, community: Ints) -> Ints:
        amount = int(community.max()) + 1
        load = np.bincount(community, weights=problem.sent, minlength=amount)
        strong = np.argsort(-strengths(problem.ties), kind="stable")
        first, place = group(community[strong], amount)
        regions = len(problem.region_sent)
        brokers = np.bincount(problem.region[problem.may], minlength=regions)
        fair = problem.sent.sum() * brokers / brokers.sum()
        room = np.where(np.isfinite(problem.region_sent), problem.region_sent, 1.2 * fair)
        room[brokers == 0] = 0.0
        return packed(problem, community, np.argsort(-load, kind="stable"), strong[place], first, room)

    def _rank(self, problem: Problem, home: Ints) -> tuple[float, float]:
        """Less above the caps, then less cost."""
        return (round(excess(problem, state_at(problem, home)), 9), total_cost(problem, home))

    def _moves(self, problem: Problem, home: Ints) -> int:
        place, known = self._places(problem), problem.origin >= 0
        return int((place[home[known]] != place[problem.origin[known]]).sum())

    def _places(self, problem: Problem) -> Ints:
        """What a client leaves when it moves, of each broker: its region, or the broker itself."""
        return problem.region if self.across else np.arange(len(problem.region))

    def _cut(self, problem: Problem, home: Ints, most: int) -> Ints:
        """The homes after the first steps towards these, as many as make no more than so many moves."""
        client, start, _ = ordered(problem, home, new_queue(len(home)))
        place = self._places(problem)
        moved = np.cumsum(np.append(0, place[problem.origin[client]] != place[home[client]]))[start]
        return part_way(problem, home, client[: start[int(np.searchsorted(moved, most, side="right")) - 1]])

    def _refuse_excess(self, observation: Observation, problem: Problem, home: Ints) -> None:
        state = state_at(problem, home)
        known, _ = region_numbers(observation)
        ids = {"broker": np.arange(len(problem.region)), "region": known}
        for name in FIELDS:
            load, cap = getattr(state, name), getattr(problem, name)
            above = np.flatnonzero(load > cap * (1 + 1e-9))
            if len(above):
                kind, what = name.split("_")
                worst = int(above[np.argmax(load[above] - cap[above])])
                heavy = int(np.argmax(problem.sent))
                raise NothingBetter(
                    f"placement.leiden: {name_of(kind, int(ids[kind][worst]))} would have {load[worst]:,.0f} messages "
                    f"{what}, its cap is {cap[worst]:,.0f}, and nothing better was found ({len(above)} {kind}s above "
                    f"their caps; {name_of('client', heavy)} alone sends {problem.sent[heavy]:,.0f}). Raise {name}."
                )


def lawful(problem: Problem, home: Ints) -> Ints:
    """These homes, or as far towards them as no load is above its cap and what it was."""
    if not worse(problem, state_at(problem, problem.origin), state_at(problem, home)):
        return home
    client, start, _ = ordered(problem, home, new_queue(len(home)))
    return part_way(problem, home, client[: start[-2]])  # only the last step can end above


def part_way(problem: Problem, home: Ints, client: Ints) -> Ints:
    """The homes when only these clients have moved to theirs."""
    there = problem.origin.copy()
    there[client] = home[client]
    return there


def leiden_communities(ties: Ties, seed: int, resolution: float = 1.0) -> Ints:
    """The community of each client by NetworKit's Leiden, numbered by their lowest client."""
    clients = len(ties.start) - 1
    left = np.repeat(np.arange(clients), np.diff(ties.start))
    once = left < ties.other
    return communities_at(left[once], ties.other[once], ties.weight[once], clients, seed, resolution)
