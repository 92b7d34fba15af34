"""Clients re-homed by the one search: communities of who talks with whom, packed under caps, and local search.

Beyond CC12: it starts from the present placement and from communities (NetworKit's Leiden, one thread, seeded) that
are packed where there is room. Clients, and groups of them, are re-homed, and exchanged where caps bind, while that
lowers messages x distance + access + `move_cost` x clients out of their region; annealing refines the better end where
there are few clients enough.

Keeps: hard caps on what brokers and regions send and handle: a load above its cap at the start never grows, any other
stays within it; after every step no load is worse than its cap and the start. Moves inside a region cost nothing.
Where `max_moves` binds, a move has the price at which the moves just fit.

How much load a broker or a region may have: from shares, absolute figures and capacities.

What is sent is measured against the fair share V of CC12 (5): all messages, by brokers. What is handled has no fair
share, since it grows with every hop; it is measured against the largest load of a broker (of a region) at the start.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np

from overlace.arrays.jit import Floats, Ints
from overlace.errors import BadParameter, NothingBetter
from overlace.limits import option, same_option
from overlace.model import Observation, Overlay, Progress, name_of
from overlace.planners.placement.planner import WeighedPlacement
from overlace.planners.placement.problem import Caps, Problem, check, problem_of, region_numbers, search_problem
from overlace.planners.search.find import draws_for, find, search_over
from overlace.planners.search.limits import capacity_of
from overlace.planners.search.problem import loads_at, renumber
from overlace.planners.search.walk import NO_BUDGET, Budget, by_cost

DRAWS, FEWER, EACH = 3_000, 1_200, 15
"""Random changes that annealing draws for each client and unit of effort, at most; and among few clients, where so many
for each of the others are enough."""
MOST_CLIENTS = 20_000
"""Above so many clients nothing is annealed."""


@dataclass(frozen=True)
class Leiden(WeighedPlacement):
    """Communities by Leiden under caps, then local search on messages x distance and moves."""

    move_cost: float = option(0.0, "price of a client that leaves its region", least=0)
    max_moves: int | None = same_option("max_moves")
    across: bool = option(False, "max_moves limits only moves across regions, as CC12 (2)")
    region_sent: float | None = option(1.2, "cap on what a region's clients send, times its fair share (5)", above=0)
    broker_sent: float | None = option(1.5, "cap on what a broker's clients send, times its fair share", above=0)
    region_handled: float | None = option(
        None, "cap on what a region handles, times the largest such load at the start", above=0
    )
    broker_handled: float | None = option(
        1.0, "cap on what a broker handles, times the largest such load at the start", above=0
    )
    max_region_sent: float | None = option(
        None, "cap on what a region's clients send, in messages of the window", above=0
    )
    max_broker_sent: float | None = option(
        None, "cap on what a broker's clients send, in messages of the window", above=0
    )
    max_region_handled: float | None = option(None, "cap on what a region handles, in messages of the window", above=0)
    max_broker_handled: float | None = option(None, "cap on what a broker handles, in messages of the window", above=0)
    keep: tuple[int, ...] = option((), "clients that stay", ids="client")
    only: tuple[int, ...] = option((), "the only clients that may move", ids="client")
    within_region: bool = option(False, "clients stay in their region")
    effort: int = option(1, "how long to anneal; 0: only local search", least=0)
    strict: bool = option(False, "refuse (exit 3) if a cap broken at the start is still broken at the end")

    def wanted(self, observation: Observation, problem: Problem, seed: int, progress: Progress) -> Ints:
        """The better end of two searches, from communities and from the present placement."""
        given, number = renumber(search_problem(problem, across=self.across))
        progress(0.05, "communities")
        budget = NO_BUDGET if self.max_moves is None else Budget(moves=self.max_moves)
        search = search_over(given, budget, seed)
        progress(0.3, "local search")
        clients = len(number) if len(number) <= MOST_CLIENTS else 0
        draws = min(int(np.clip(EACH * clients, FEWER, DRAWS)) * clients * self.effort, draws_for(search, self.effort))
        found = min(search.first, find(search, budget, ("clients",), draws, seed), key=by_cost)
        home = np.empty_like(number)
        home[number] = np.where(problem.origin[number] >= 0, found.home, -1)
        if self.strict:
            self._refuse_excess(observation, problem, home)
        return home

    def cost(self, observation: Observation, overlay: Overlay) -> float:
        """Messages (or bytes) x distance and access, plus the price of the moves from the observed placement."""
        base = super().cost(observation, overlay)
        region = observation.network.region
        old, new = (each.homes(observation.clients) for each in (observation.overlay, overlay))
        moved = (old >= 0) & (new >= 0)
        return base + self.move_cost * int((region[old[moved]] != region[new[moved]]).sum())

    def problem(self, observation: Observation) -> Problem:
        """The observation with this planner's limits, ready to be searched."""
        check(observation, "placement.leiden")
        movable = np.full(observation.clients, not self.only)
        for name, moves in (("only", True), ("keep", False)):
            named = np.array(getattr(self, name), dtype=np.int64)
            wrong = named[(named < 0) | (named >= observation.clients)]
            if len(wrong):
                raise BadParameter(f"{name} names client {wrong[0]}; there are {observation.clients}")
            movable[named] = moves
        return problem_of(
            observation,
            caps_of(observation, self._caps()),
            weight=self.weight,
            distance=self.distance,
            move_cost=self.move_cost,
            movable=movable,
            within=self.within_region,
        )

    def _caps(self) -> dict[str, float | None]:
        every = asdict(self)
        return {name: every[name] for each in FIELDS for name in (each, f"max_{each}")}

    def _refuse_excess(self, observation: Observation, problem: Problem, home: Ints) -> None:
        names = ("broker_sent", "region_sent", "broker_handled", "region_handled")
        loads = dict(zip(names, loads_of(problem, home), strict=True))
        known, _ = region_numbers(observation)
        ids = {"broker": np.arange(len(problem.region)), "region": known}
        for name in FIELDS:
            load, cap = loads[name], getattr(problem, name)
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
    return caps._replace(broker_handled=np.minimum(caps.broker_handled, capacity_of(observation)))


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
