"""The gain curve of a plan on the page: a picture, a slider over its steps, and figures at every stop.

Where `optimize` judged the plan, the slider stops where the curve was measured on the part that judges, and shows what
was measured there. Else it goes over the steps with the planner's own cost.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import NamedTuple

from markupsafe import Markup

from overlace.report.lines import curve_svg, gain_svg
from overlace.report.sheets import Amount, Change, amount, change, shown
from overlace.report.tables import LABELS
from overlace.trace.judgement import Judgement, Point
from overlace.trace.plan_file import PlanFile

MOST_STEPS = 300
"""Steps of a plan that the page lists; without a judged curve the slider goes over these."""
MOST_TIMES = 1e6
"""How many times the first point a later one may be to be drawn where it is."""
ENOUGH = 0.9
"""The share of what a plan saves at which its curve is called flat."""


class Figure(NamedTuple):
    """One line of the figures at a stop."""

    name: str
    today: Amount
    after: Amount
    change: Change


class Stop(NamedTuple):
    """Where the slider stops: after how many steps, that in a sentence, and what was measured there."""

    steps: int
    said: str
    figures: Sequence[Figure] = ()


class Curve(NamedTuple):
    """A plan's gain curve."""

    picture: Markup
    stops: Sequence[Stop]
    part: str = ""  # that judges; none where the cost is the planner's own
    flat: str = ""

    @property
    def data(self) -> str:
        """What the slider's script reads."""
        return json.dumps([[stop.steps, stop.said] for stop in self.stops], ensure_ascii=False)


def curve(name: str, document: PlanFile) -> Curve | None:
    """The gain curve of a plan of several steps, measured where that was done."""
    judged = document.judged
    if judged and len(judged.curve) > 2:
        first = judged.curve[0]
        if first.metrics[_counts(judged)] > 0 and first.own_cost > 0:
            return _judged(name, judged)
    return _own(name, document)


def flattens(judged: Judgement) -> str:
    """After how many steps most of the saving is there, as a sentence; nothing where there is none to speak of."""
    saved = _saved(judged) if len(judged.curve) > 2 else []
    if not saved or saved[-1] <= 1e-9 * abs(judged.curve[0].metrics[_counts(judged)]):
        return ""
    steps, total = [point.steps for point in judged.curve], judged.curve[-1].steps
    where = "held-out traffic" if _part(judged) == "held-out" else "the training window"
    i = next(i for i, each in enumerate(saved) if each >= ENOUGH * saved[-1])
    if i == len(saved) - 1:
        return f"{ENOUGH:.0%} of what the plan saves on {where} takes more than {steps[-2]:,} of its {total:,} steps"
    share = int(100 * _ratio(saved[i], saved[-1]) + 1e-9)
    first = "the first of {:,} steps brings" if steps[i] == 1 else f"the first {steps[i]:,} of {{:,}} steps bring"
    return f"{first.format(total)} {share}% of what all of them save on {where}"


def _counts(judged: Judgement) -> str:
    """The metric of the objective."""
    return judged.metrics[0].metric


def _part(judged: Judgement) -> str:
    return judged.metrics[-1].part


def _ratio(value: float, whole: float) -> float:
    """value / whole; where they lie too far apart, the nearest that can be drawn."""
    return max(-MOST_TIMES, min(MOST_TIMES, value / whole))


def _saved(judged: Judgement) -> list[float]:
    """What each point of the curve saves of what counts; all objectives are the better the lower."""
    metric = _counts(judged)
    return [judged.curve[0].metrics[metric] - point.metrics[metric] for point in judged.curve]


def _judged(name: str, judged: Judgement) -> Curve:
    """Measured on the part that judges; a slider that stops where it was measured."""
    first, last, metric = judged.curve[0], judged.curve[-1], _counts(judged)
    left = [(float(point.steps), _ratio(point.metrics[metric], first.metrics[metric])) for point in judged.curve]
    own = [(float(point.steps), _ratio(point.own_cost, first.own_cost)) for point in judged.curve]
    part, flat = _part(judged), flattens(judged)
    title = f"What is left of {_label(metric)} on the {part} part after each number of steps of {name}"
    told = (
        f"It goes from 100 % to {left[-1][1]:.1%} after {last.steps:,} steps, and the planner's own cost on the part "
        f"that planned to {own[-1][1]:.1%}. {flat[:1].upper() + flat[1:]}"
    )
    stops = [Stop(point.steps, _said(judged, point), _figures(first, point)) for point in judged.curve]
    return Curve(gain_svg(left, own, title, told), stops, part, flat)


def _said(judged: Judgement, point: Point) -> str:
    """A stop in a sentence."""
    metric, first, total = _counts(judged), judged.curve[0], judged.curve[-1].steps
    before, after = first.metrics[metric], point.metrics[metric]
    values = f"{_label(metric)} {amount(metric, before)} → {amount(metric, after)}"
    return f"Measured after {point.steps:,} of {total:,} steps: {values} ({change(metric, before, after).text})"


def _figures(first: Point, point: Point) -> list[Figure]:
    """All that was measured at a stop, what has changed by then, and what the planner thought of it."""
    pairs = {metric: (first.metrics[metric], value) for metric, value in point.metrics.items()}
    if not any(pairs.get("mean_latency_us", ())):  # not known
        pairs.pop("mean_latency_us", None)
    lines = [
        Figure(_label(metric), amount(metric, before), amount(metric, after), change(metric, before, after))
        for metric, (before, after) in pairs.items()
    ]
    nothing = Change("", "")
    lines.append(Figure("clients moved", Amount(None), Amount(point.moves), nothing))
    lines.append(Figure("links changed", Amount(None), Amount(point.links), nothing))
    own = change("cost", first.own_cost, point.own_cost)
    lines.append(Figure("planner's own cost, where it planned", Amount(first.own_cost), Amount(point.own_cost), own))
    return lines


def _label(metric: str) -> str:
    return LABELS.get(metric, metric.replace("_", " "))


def _own(name: str, document: PlanFile) -> Curve | None:
    """The planner's own cost after each of the first steps."""
    steps, before = document.steps[:MOST_STEPS], document.cost_before
    if len(steps) < 2 or not before > 0:
        return None
    costs = [before]
    for step in steps:
        costs.append(costs[-1] - step.gain)
    picture = curve_svg([cost / before for cost in costs], f"What is left of the cost of {name} after each step")
    return Curve(picture, [Stop(k, _own_said(k, before, cost)) for k, cost in enumerate(costs)])


def _own_said(k: int, before: float, cost: float) -> str:
    less = f"{100 * (cost / before - 1):.1f} %".replace("-", "−")
    return f"After {k} step{'' if k == 1 else 's'}: own cost {shown(before)} → {shown(cost)} ({less})"
