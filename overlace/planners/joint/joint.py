"""Placement and tree together: where clients connect and how brokers are wired, at one cost and one budget.

A class of traffic pays demand x (alpha x links + beta x brokers) of the subtree that joins its clients (OCBR07 (1)),
clients pay for the way to a home far from where they are (where that is known), and every client moved and link
changed has its price. Clients are re-homed or exchanged, parts of the tree regrafted, all evaluated by difference,
at a price of a change that falls until the budget is used; in small systems annealing follows. Beside this stand
the rivals: clients only, links only, and one after the other; the best of all is returned, so it is never worse than
any of them at the same budget.

Keeps: a tree after every step; no broker above its degree, sent or handled limit unless it was so before.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from typing import ClassVar, Literal, cast

import numpy as np

from overlace.arrays.jit import Pairs
from overlace.limits import option, same_option
from overlace.model import Facet, Observation, Overlay, Plan, Planner, Progress, Steps
from overlace.planners.joint.objective import Objective, apply_objective, drop_homeless
from overlace.planners.joint.problem import JointLimits, among_measured, in_messages, problem_of
from overlace.planners.joint.reasons import Present, reason_of
from overlace.planners.ordering import Ordering, Path, changes_in, changes_of, price_anew
from overlace.planners.placement import cost as placement_cost
from overlace.planners.search.degrees import thin_out, too_many
from overlace.planners.search.find import draws_for, find, refine, search_over
from overlace.planners.search.greedy import move_greedily
from overlace.planners.search.problem import SearchProblem, renumber
from overlace.planners.search.walk import NO_LIMIT, Budget, Kind, Search, State, by_cost
from overlace.planners.tree import cost as tree_cost
from overlace.stopping import asked

Method = Literal["best", "joint", "alternating", "placement", "tree"]
Homes = Literal["searched", "greedy"]
BOTH: tuple[Kind, ...] = ("clients", "links")
KINDS: dict[str, tuple[tuple[Kind, ...], ...]] = {
    "joint": (BOTH,),
    "alternating": (("links",), ("clients",)),
    "placement": (("clients",),),
    "tree": (("links",),),
}
"""What each way changes, in turns."""
WAYS = tuple(KINDS)
WITHIN = "within degrees"
"""The best of them, with brokers above their most links brought down as far as that goes."""


@dataclass(frozen=True)
class Joint(JointLimits, Planner):
    """Moves clients and rewires brokers together, within one budget of changes."""

    objective: Objective = option(
        "cost", "what a message pays: the cost of its links, 1 a link, or hops or latency per receiver"
    )
    alpha: float = option(1.0, "weight of link costs", least=0)
    beta: float = option(0.0, "weight of broker costs", least=0)
    weight: tree_cost.Weight = option("messages", "what traffic weighs: messages or bytes")
    move_price: float = option(0.0, "what a moved client costs, in units of the cost", least=0)
    swap_price: float = option(0.0, "what a changed link costs, in units of the cost", least=0)
    method: Method = option("best", "the best of all, or one of them alone")
    homes: Homes = option("searched", "how clients move: as the search found best, or under its links greedily")
    effort: int = same_option("effort")
    facets: ClassVar[tuple[Facet, ...]] = ("placement", "tree")
    paper: ClassVar[str] = ""
    REASONS: ClassVar[tuple[str, ...]] = (
        "{client} moves from {from_broker} to {to_broker}: {share:.0%} of its traffic is with clients nearer to there, "
        "and the largest part ({at:.0%}) with those at {near_broker}",
        "{left_broker}-{right_broker} replaces {from_broker}-{to_broker}, which {messages:,.0f} messages crossed",
        "{moves} clients and {links} links change together: no single one keeps the limits",
        "{client} moves from {from_broker} to {to_broker}: access costs {access:,.0f} less; {share:.0%} of its traffic "
        "is with clients nearer to there",
        "{moves} clients move together: no single one keeps the limits",
        "{links} links change together: no single one keeps the limits",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        tree_cost.check_weights(self.alpha, self.beta)

    def solve(
        self,
        observation: Observation,
        seed: int = 0,
        *,
        progress: Progress | None = None,
        ahead: Observation | None = None,
    ) -> Plan:
        """The best of the search over both and of its rivals, as steps that pay most first.

        With a forecast, plan and order are for the traffic ahead; what is written down is what steps would have saved.
        """
        problem = self.problem(ahead or observation, observation if ahead else None)
        found = self.states(problem, seed, progress)
        best = self._chosen(problem, found)
        path = Ordering(problem, best).path(progress and (lambda share, what: progress(0.8 + 0.2 * share, what)))
        least = self.min_step * found["as it is"].cost  # what a change had to save is no cost
        beside = {name: each.cost - least * each.changes for name, each in found.items() if name != "as it is"}
        if ahead is not None:
            problem = self.problem(observation)
            path, search = price_anew(problem, path), Search(problem)
            for name in beside:
                search.goto(found[name])
                beside[name] = search.cost
        return _plan(self, seed, observation, problem, path, beside)

    @property
    def router(self) -> Joint:
        """It plans for a forecast, and its limits say where there is room for new clients."""
        return self

    def problem(self, observation: Observation, plain: Observation | None = None) -> SearchProblem:
        """What is searched: demand, costs and limits; of a forecast, limits count the plain traffic."""
        seen, carried, caps = apply_objective(observation, self.objective), None, cast(JointLimits, self)
        if plain is not None or self.objective in ("hops", "latency"):
            carried = drop_homeless(plain or observation)
        if self.objective == "latency":
            caps = among_measured(self, observation)
        problem = problem_of(seen, self.alpha, self.beta, self.weight, caps, carried)
        if plain is not None:
            problem = in_messages(problem)
        return replace(problem, move_price=self.move_price, swap_price=self.swap_price)

    def overlay(self, observation: Observation, seed: int = 0, plain: Observation | None = None) -> Overlay:
        """What the search comes to, without the steps."""
        problem = self.problem(observation, plain)
        return _overlay_of(observation, self._chosen(problem, self.states(problem, seed)))

    def _chosen(self, problem: SearchProblem, found: dict[str, State]) -> State:
        """The best of what was found; with greedy homes, these under its links."""
        best = found.get(WITHIN) or min(found.values(), key=by_cost)
        if self.homes == "searched":
            return best
        budget = self._budget()
        moves = min(budget.moves, budget.both - int((~problem.is_first(best.links)).sum()), len(problem.movable))
        return move_greedily(problem, best.links, moves)

    def go_on(self, observation: Observation, begin: Overlay, plain: Observation | None = None) -> Overlay:
        """What descent comes to from a known overlay, around the price of a change where the budget is used up.

        Where moves are free, also by descent from today, links first.
        """
        problem = self.problem(observation, plain)
        known = State(np.maximum(begin.homes(observation.clients), 0), np.sort(begin.tree, axis=1).reshape(-1, 2))
        search = Search(replace(problem, least=self.min_step * Search(problem).first.cost))
        budget = self._budget()
        best = search.improve(known, budget, BOTH)
        if min(budget.moves, budget.both) == NO_LIMIT:
            search.goto(search.first)
            for kinds in (("links",), BOTH):  # with homes as the plan has them no single link may pay
                search.descend(0.0, budget, kinds, trade=True)
            best = min(best, search.state(), key=by_cost)
        return _overlay_of(observation, best)

    def greedy(self, observation: Observation, links: Pairs, moves: int, plain: Observation | None = None) -> Overlay:
        """To compare with: these links, and so many clients moved within the limits, whoever saves most first."""
        return _overlay_of(observation, move_greedily(self.problem(observation, plain), links, moves))

    def _budget(self) -> Budget:
        limits = (self.max_moves, self.max_swaps, self.budget)
        return Budget(*(NO_LIMIT if each is None else each for each in limits))

    def states(self, problem: SearchProblem, seed: int, progress: Progress | None = None) -> dict[str, State]:
        """What each method finds within the budget."""
        budget = self._budget()
        problem, number = renumber(problem)
        problem = replace(problem, least=self.min_step * Search(problem).first.cost)
        search = search_over(problem, budget, seed)
        found: dict[str, State] = {"as it is": search.first}
        ways: tuple[str, ...] = WAYS if self.method == "best" else (self.method,)
        may = {"clients": bool(len(problem.movable) and budget.moves), "links": bool(problem.rewires and budget.swaps)}
        if self.method == "best" and not all(may.values()):
            ways = WAYS[:1]  # with one kind of change only, all would find the same
        marginal, draws = 0.0, draws_for(search, self.effort / 100)
        for i, way in enumerate(ways):
            if i and asked():  # what is found by now will do
                break
            if progress:
                progress(0.8 * i / len(ways), f"searching {way}")
            search.goto(search.first)
            rival = found.get("joint")
            turns = [kinds for each in KINDS[way] if (kinds := tuple(kind for kind in each if may[kind]))] or [BOTH]
            if len(turns) == 1:
                found[way] = find(search, budget, turns[0], draws, seed, rival)
            else:
                state = alternate(search, budget)
                for kinds in turns:
                    state = refine(search, state, budget, kinds, draws, seed, rival)
                found[way] = state
            marginal = search.marginal if way == "joint" else marginal
        best = min(found.values(), key=by_cost)
        if self.method == "best" and best is not found["joint"] and not asked():
            search.marginal = marginal
            found["best"] = refine(search, best, budget, BOTH, draws, seed)
        best = min(found.values(), key=by_cost)
        if may["links"] and too_many(search, best.links):
            found[WITHIN] = thin_out(search, best, budget)
        back = np.argsort(number)
        return {name: replace(state, home=state.home[back]) for name, state in found.items()}

    def cost(self, observation: Observation, overlay: Overlay) -> float:
        """Demand x (alpha x links + beta x brokers), access, and the prices of what differs from today."""
        if self.objective == "latency":
            observation.network.check_measured(overlay.tree)
        homes, seen = overlay.homes(observation.clients), apply_objective(observation, self.objective)
        routed = tree_cost.cost(seen, overlay, alpha=self.alpha, beta=self.beta, weight=self.weight)
        access = placement_cost.access(seen, homes, self.weight, "cost")
        before = observation.overlay
        moved = int((homes != before.homes(observation.clients)).sum())
        links = {tuple(link) for link in overlay.tree.tolist()} - {tuple(link) for link in before.tree.tolist()}
        return routed + access + self.move_price * moved + self.swap_price * len(links)


def _overlay_of(observation: Observation, state: State) -> Overlay:
    """An overlay as a state has it; who has no home has none there."""
    before = observation.overlay
    homes = np.where(before.homes(observation.clients) >= 0, state.home, -1)
    placed = before.placement.copy()
    placed[:, 1] = np.where(homes[placed[:, 0]] >= 0, homes[placed[:, 0]], placed[:, 1])
    return replace(before, placement=placed, tree=state.links)


def alternate(search: Search, budget: Budget) -> State:
    """The rival: first one kind of change with a part of the budget, then the other with the rest, and so on."""
    best = search.first
    shares = (1.0,) if budget.both == NO_LIMIT else (0.5,) if search.large else (0.25, 0.5, 0.75)
    for kinds in ((("links",), ("clients",)), (("clients",), ("links",))):
        for share in shares:
            search.goto(search.first)
            part = budget._replace(both=int(share * budget.both)) if budget.both < NO_LIMIT else budget
            state = search.path(part, kinds[0])
            for turn in (1, 0, 1, 0, 1):
                search.goto(state)
                after = search.path(budget, kinds[turn])
                if by_cost(after) >= by_cost(state):
                    break
                state = after
            best = min(best, state, key=by_cost)
    return best


def _plan(
    planner: Joint, seed: int, observation: Observation, problem: SearchProblem, path: Path, beside: dict[str, float]
) -> Plan:
    """Steps as columns."""
    reasons, args = [], defaultdict(list)
    now = Present(problem, observation.overlay.homes(observation.clients))
    for step, gain in enumerate(path.gain.tolist()):
        made = changes_of(path, step)
        reason, said = reason_of(made, gain, now)
        reasons.append(reason)
        for name, value in said.items():
            args[name].append(value)
        for change in made:
            now.do(change)
    changes = changes_in(path)
    steps = Steps(2 * path.start, path.gain, reasons, {k: np.asarray(v) for k, v in args.items()})
    return Plan(planner, seed, observation.overlay, observation.overlay.apply(changes), changes, steps, beside)
