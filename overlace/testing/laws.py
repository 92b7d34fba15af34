"""The laws: what every overlay keeps, and every planner on every observation."""

from __future__ import annotations

import math
import pickle
from collections import Counter
from dataclasses import fields

import numpy as np

from overlace.errors import BadOverlay
from overlace.model import ENDS, FACETS, Changes, Observation, Overlay, Plan, Planner, Steps, check_tree, name_of
from overlace.testing.broken import Broken, calling, hold, listed, valid_overlay
from overlace.testing.planner_class import check_class, places_in


def check_overlay(overlay: Overlay, observation: Observation) -> None:
    """Refuse an overlay that is not valid for this observation; an empty relation is always valid."""
    for facet in FACETS:
        rows = overlay.relation(facet)
        counts = {"client": observation.clients, "broker": observation.network.brokers}
        for side, kind in enumerate(ENDS[facet]):
            ids = rows[:, side]
            most = counts.get(kind, np.iinfo(np.int64).max)
            if ids.size and (ids.min() < 0 or ids.max() >= most):
                bad = int(ids.min() if ids.min() < 0 else ids.max())
                raise BadOverlay(f"{facet}: {kind} {bad} does not exist; there are {most}")
        if facet in ("placement", "channels"):
            again = np.flatnonzero(rows[1:, 0] == rows[:-1, 0])
            if len(again):
                who = name_of(ENDS[facet][0], int(rows[again[0], 0]))
                raise BadOverlay(f"{facet}: {who} stands in two rows; once is the rule")
    if (overlay.channels[:, 0] == 0).any():
        raise BadOverlay("channels: the empty combination is in a channel; nobody can ask for it")
    if len(overlay.tree):
        check_tree(overlay.tree, observation.network.brokers)


def check_planner(planner: Planner, observation: Observation, seed: int = 0) -> Plan:
    """Hold a planner to all its laws on one observation; returns the plan it made."""
    hold(isinstance(observation, Observation), f"found a {type(observation).__name__}; expected an Observation")
    check_class(planner)
    plan = _solve(planner, observation, seed)
    _check_ends(planner, observation, seed, plan)
    _check_explanations(planner, plan)
    _check_changes(plan)
    _check_prefixes(planner, observation, plan)
    with calling(planner, "pickle.dumps", "a class at the top level of a module, with plain values in its fields"):
        again = pickle.loads(pickle.dumps(planner))
    hold(again == planner, f"it does not survive pickling: found {again!r}, expected {planner!r}")
    return plan


def _solve(planner: Planner, observation: Observation, seed: int) -> Plan:
    """The plan, made twice, the second time with somebody who is told of the progress."""
    content, parameters, state = observation.digest(), repr(planner), set(_state(planner))
    plans = []
    for progress in (None, _check_progress):
        with calling(planner, "solve", "a Plan"):
            plan = planner.solve(observation, seed, progress=progress)
        found = "None" if plan is None else f"a {type(plan).__name__}"
        hold(isinstance(plan, Plan), f"solve returned {found}; expected a Plan")
        hold(
            observation.digest() == content, "solve changed its observation; expected to find it as it was: copy first"
        )
        hold(repr(planner) == parameters, f"solve turned {parameters} into {planner!r}; expected its fields unchanged")
        left = set(_state(planner)) - state
        hold(not left, f"solve left {listed(left)} on the planner; expected no state: use local variables")
        plans.append(plan)
    one, two = plans
    for part, of in (("before", Overlay), ("after", Overlay), ("changes", Changes), ("steps", Steps)):
        found = type(getattr(one, part)).__name__
        hold(isinstance(getattr(one, part), of), f"the plan's {part} is a {found}; expected {of.__name__}")
    parts = [each.name for each in fields(Plan) if getattr(one, each.name) != getattr(two, each.name)]
    hold(one == two, f"seed {seed} gave two different plans ({listed(parts)} differ); expected the same seed to decide")
    return one


def _state(planner: Planner) -> dict[str, object]:
    return getattr(planner, "__dict__", {})


def _check_progress(share: float, what: str) -> None:
    right = isinstance(share, int | float) and 0 <= share <= 1 and isinstance(what, str)
    hold(right, f"solve called progress({share!r}, {what!r}); expected a share from 0 to 1 and what is being done")


def _check_ends(planner: Planner, observation: Observation, seed: int, plan: Plan) -> None:
    """The plan is this planner's, starts at the observed overlay and changes no other facet."""
    same = plan.planner == planner and plan.seed == seed
    hold(
        same,
        f"the plan names another planner or seed: {plan.planner!r} and {plan.seed!r}; expected {planner!r} and {seed}",
    )
    hold(
        plan.before == observation.overlay,
        f"the plan does not start at the observed overlay: found {_sizes(plan.before)}, expected "
        f"{_sizes(observation.overlay)}",
    )
    for facet in FACETS:
        same = np.array_equal(plan.before.relation(facet), plan.after.relation(facet))
        hold(facet in planner.facets or same, f"changed {facet}, but its facets are {planner.facets}")
    with valid_overlay("the overlay after"):
        check_overlay(plan.after, observation)


def _check_explanations(planner: Planner, plan: Plan) -> None:
    """Every step has a reason that can be written with its arguments."""
    steps, known = plan.steps, len(planner.REASONS)
    wrong = np.flatnonzero((steps.reason < 0) | (steps.reason >= known))
    if len(wrong):
        expected = f"0 to {known - 1}, an index into REASONS" if known else "no step, since REASONS is empty"
        raise Broken(f"step {wrong[0]} has reason {steps.reason[wrong[0]]}; expected {expected}")
    for i in np.unique(steps.reason).tolist():
        lacking = places_in(planner.REASONS[i]) - set(steps.args)
        there = listed(steps.args) or "none"
        hold(not lacking, f"REASONS[{i}] names {listed(lacking)}, expected among the args of the steps; found {there}")
    for name, values in {**steps.args, "gain": steps.gain}.items():
        odd = np.flatnonzero(~np.isfinite(values))
        hold(len(odd) == 0, f"step {odd[:1]} has {name} {values[odd[:1]]}; expected a finite number, as plan files do")
    for i in range(len(steps)):
        with calling(planner, f"why({i})", f"{planner.REASONS[steps.reason[i]]!r} to fit the args"):
            why = plan.why(i)
        hold(bool(why), f"step {i} has no reason: found an empty text, expected a sentence")


def _check_changes(plan: Plan) -> None:
    """The changes are the whole difference, both ways, and each step has some."""
    there = plan.before.changes_to(plan.after)
    back = plan.after.changes_to(plan.before)
    if plan.changes.sorted() != there.sorted():
        found, expected = _rows(plan.changes), _rows(there)
        raise Broken(
            "the changes are not the whole difference between before and after: "
            f"too many {_shown(found - expected)}, lacking {_shown(expected - found)}"
        )
    hold(plan.inverse().changes.sorted() == back.sorted(), "the inverse is not the whole way back")
    hold(plan.before.apply(plan.changes) == plan.after, "the changes do not lead to the overlay after")
    hold(plan.inverse().inverse() == plan, "the inverse of the inverse is another plan")
    empty = np.flatnonzero(np.diff(plan.steps.start) == 0)
    hold(len(empty) == 0, f"a step has no change: step {empty[:1]}; expected one change or more in each")


def _check_prefixes(planner: Planner, observation: Observation, plan: Plan) -> None:
    """After every step the overlay is valid and the cost has fallen by the gains so far."""
    content = observation.digest()
    overlay, start, saved = plan.before, _cost(planner, observation, plan.before), 0.0
    again = _cost(planner, observation, plan.before)
    hold(start == again, f"cost returned {start!r}, then {again!r} for the same overlay; expected the same")
    for i in range(len(plan.steps)):
        step = plan.step(i)
        with valid_overlay(f"the overlay after step {i}"):
            overlay = overlay.apply(step.changes)
            check_overlay(overlay, observation)
        saved += step.gain
        there = _cost(planner, observation, overlay)
        near = 1e-9 * max(1.0, abs(start), abs(there))
        hold(
            abs(start - there - saved) <= near,
            f"after step {i} the cost fell by {start - there!r}, the gains add up to {saved!r}; expected the same",
        )
    hold(observation.digest() == content, "cost changed its observation; expected to find it as it was: copy first")
    hold(overlay == plan.after, "the steps do not lead to the overlay after")
    for k in {0, len(plan.steps) // 2, len(plan.steps)}:
        part = plan.first(k)
        hold(part.before == plan.before and len(part.steps) == k, f"first({k}) is not a prefix")
    hold(plan.first(len(plan.steps)) == plan, "the first of all steps is not the plan")


def _cost(planner: Planner, observation: Observation, overlay: Overlay) -> float:
    with calling(planner, "cost", "a number"):
        found = planner.cost(observation, overlay)
    number = isinstance(found, int | float | np.integer | np.floating) and math.isfinite(found)
    hold(number, f"cost returned {found!r}; expected a finite number")
    return float(found)


def _sizes(overlay: Overlay) -> str:
    return ", ".join(f"{len(overlay.relation(facet))} rows of {facet}" for facet in FACETS)


def _rows(changes: Changes) -> Counter[tuple[int, ...]]:
    columns = (changes.facet, changes.action, changes.left, changes.right)
    return Counter(zip(*(each.tolist() for each in columns), strict=True))


def _shown(rows: Counter[tuple[int, ...]]) -> str:
    """How many rows, and the first."""
    if not rows:
        return "none"
    facet, action, left, right = min(rows)
    return f"{rows.total()} (first: {'add' if action > 0 else 'remove'} {FACETS[facet]} {left}-{right})"
