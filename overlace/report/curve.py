"""The gain curve of a plan on the page: a picture, a slider over its steps, and figures at every stop.

Where `optimize` judged the plan, the slider stops where the curve was measured on held-out traffic, and shows what
was measured there. Else it goes over the steps with the planner's estimate.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

import altair as alt
import numpy as np
from markupsafe import Markup

from overlace.optimize.words import PARTS, clipped_ratio, enough_of, flattens, label_of, objective_metric, own_cost_unit
from overlace.report.charts import inline_svg, round_step, rows_chart, share_axis
from overlace.report.naming import Naming
from overlace.report.sheets import Amount, Change, amount, change, shown
from overlace.trace.judgement import Judgement, Point
from overlace.trace.plan_file import PlanFile
from overlace.wording import counted

MOST_STOPS = 300
"""Steps over which the slider goes where the curve was not measured."""

Line = Sequence[tuple[float, float]]
"""Points from left to right: after so many steps, the share that is left."""


class Figure(NamedTuple):
    """One line of the figures at a stop."""

    name: str
    today: Amount
    after: Amount
    change: Change


class Stop(NamedTuple):
    """Where the slider stops: after how many steps, that in a sentence, and what was measured there."""

    steps: int
    text: str
    figures: Sequence[Figure] = ()


class Curve(NamedTuple):
    """A plan's gain curve."""

    picture: Markup
    stops: Sequence[Stop]
    where: str = ""  # it was measured; nowhere if it is the planner's estimate
    metric: str = "planner's estimate"

    @property
    def data(self) -> str:
        """What the slider's script reads."""
        return json.dumps([[stop.steps, stop.text] for stop in self.stops], ensure_ascii=False)


def gain_curve(name: str, document: PlanFile, naming: Naming) -> Curve | None:
    """The gain curve of a plan of several steps, measured where that was done."""
    judged = document.judged
    if judged and len(judged.curve) > 2:
        first = judged.curve[0]
        if first.metrics[objective_metric(judged)] > 0 and first.own_cost > 0:
            return _measured_curve(name, document, judged, naming)
    return _own_curve(name, document, naming)


def _measured_curve(name: str, document: PlanFile, judged: Judgement, naming: Naming) -> Curve:
    """Measured on the traffic that judges; a slider that stops where it was measured."""
    first, last, metric = judged.curve[0], judged.curve[-1], objective_metric(judged)
    saved = [
        (float(point.steps), 1 - clipped_ratio(point.metrics[metric], first.metrics[metric])) for point in judged.curve
    ]
    own = [(float(point.steps), 1 - clipped_ratio(point.own_cost, first.own_cost)) for point in judged.curve]
    where, flat, enough = PARTS[judged.metrics[-1].part], flattens(judged), enough_of(judged)
    unit = own_cost_unit(document.facets, document.parameters, naming.units)
    text = (
        f"What is saved of the {label_of(metric)} {where} after each number of steps of {name}: {saved[-1][1]:.1%} "
        f"after {last.steps:,} steps, by the planner's estimate in the training window {own[-1][1]:.1%}. "
        f"{flat[:1].upper() + flat[1:]}"
    )
    stops = [
        Stop(point.steps, _describe_stop(judged, point, naming), _list_figures(first, point, naming, unit))
        for point in judged.curve
    ]
    mark = (enough.steps, f"{counted(enough.steps, 'step', 'steps')}: {enough.share:.0%} of it") if enough else None
    return Curve(gain_svg(saved, own, text, mark), stops, where, label_of(metric))


def _describe_stop(judged: Judgement, point: Point, naming: Naming) -> str:
    """A stop in a sentence."""
    metric, first, total = objective_metric(judged), judged.curve[0], judged.curve[-1].steps
    before, after = first.metrics[metric], point.metrics[metric]
    values = f"{naming.metric(metric)} {amount(metric, before)} → {amount(metric, after)}"
    return f"Measured after {point.steps:,} of {total:,} steps: {values} ({change(metric, before, after).text})"


def _list_figures(first: Point, point: Point, naming: Naming, unit: str) -> list[Figure]:
    """All that was measured at a stop, what has changed by then, and the planner's estimate."""
    pairs = {
        metric: (before, point.metrics[metric]) for metric, before in first.metrics.items() if metric in point.metrics
    }
    if not any(pairs.get("mean_latency_us", ())):  # not known
        pairs.pop("mean_latency_us", None)
    lines = [
        Figure(naming.metric(metric), amount(metric, before), amount(metric, after), change(metric, before, after))
        for metric, (before, after) in pairs.items()
    ]
    nothing = Change("", "")
    lines.append(Figure("clients moved", Amount(None), Amount(point.moves), nothing))
    lines.append(Figure("links changed", Amount(None), Amount(point.links), nothing))
    own = change("cost", first.own_cost, point.own_cost)
    name = f"planner's estimate ({unit}), training window"
    lines.append(Figure(name, Amount(first.own_cost), Amount(point.own_cost), own))
    return lines


def _own_curve(name: str, document: PlanFile, naming: Naming) -> Curve | None:
    """The planner's estimate after each of the first steps."""
    steps, before = document.steps[:MOST_STOPS], document.cost_before
    if len(steps) < 2 or not before > 0:
        return None
    costs = [before]
    for step in steps:
        costs.append(costs[-1] - step.gain)
    saved = [(float(k), 1 - cost / before) for k, cost in enumerate(costs)]
    text = f"What is saved of the planner's estimate after each step of {name}: {saved[-1][1]:.0%} after {len(steps)}."
    unit = own_cost_unit(document.facets, document.parameters, naming.units)
    stops = [Stop(k, _describe_own_cost(k, before, cost, unit)) for k, cost in enumerate(costs)]
    return Curve(gain_svg(saved, (), text), stops)


def _describe_own_cost(k: int, before: float, cost: float, unit: str) -> str:
    saved = f"{100 * (cost / before - 1):.1f} %".replace("-", "−")
    steps = counted(k, "step", "steps")
    return f"After {steps}: planner's estimate {shown(before)} → {shown(cost)} ({saved}; {unit})"


def gain_svg(saved: Line, own: Line, text: str, mark: tuple[int, str] | None = None) -> Markup:
    """What is saved after so many steps; measured lines have a dot at each point, and a lighter line behind them.

    `mark` is where most of it is there, with its words. The script of the slider moves the mark `here` along the line
    `curve`.
    """
    shares = [share for _, share in (*saved, *own)]
    last = max(saved[-1][0], 1.0)
    marks = np.arange(0, last + 1, max(1.0, round_step(last / 5))).tolist()
    steps = alt.Axis(title="steps", values=marks, format=",d", grid=False, labelFlush=True)
    across = alt.X("steps:Q", axis=steps, scale=alt.Scale(domain=[0, last], nice=False))
    up = share_axis("saved", shares)

    def layer(name: str, line: Line) -> alt.Chart:
        rows = [{"steps": k, "saved": share, "tip": f"{k:,.0f} steps: {share:.1%}"} for k, share in line]
        return rows_chart(rows).properties(name=name).encode(x=across, y=up)

    behind = layer("own", own).mark_line(color="var(--today)", strokeWidth=7, opacity=0.45, strokeJoin="round")
    curve = layer("curve", saved).mark_line(color="var(--after)", strokeWidth=2)
    dots = layer("dots", saved).mark_point(color="var(--after)", filled=True, opacity=1, size=20)
    here = layer("here", saved[-1:]).mark_point(color="var(--ink)", filled=True, opacity=1, size=113)
    layers = [behind, curve, dots.encode(description="tip:N"), here] if own else [curve, here]
    if mark:
        at, words = mark
        rule = rows_chart([{"steps": at, "words": words}]).encode(x=across)
        side: dict[str, Any] = {"align": "left", "dx": 5} if at < 0.6 * last else {"align": "right", "dx": -5}
        said = rule.mark_text(**side, dy=-6, baseline="bottom", fontSize=12, color="var(--ink)")
        layers += [
            rule.properties(name="enough").mark_rule(color="var(--ink)", strokeDash=[3, 3]),
            said.encode(text="words:N", y=alt.value("height")),
        ]
    return inline_svg(alt.layer(*layers), 400, 210, text)
