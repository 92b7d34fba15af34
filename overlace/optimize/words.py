"""What plans, figures and savings are called: every sentence about a plan that was judged, worded once.

Console, JSON, plan files as they are shown and the page take them from here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from overlace.observe.cut import format_time
from overlace.trace.judgement import LEAST_SLICES, Judgement, Measure
from overlace.trace.plan_file import PlanFile
from overlace.wording import amount, counted, percent

PARTS = {"train": "in the training window", "held-out": "on held-out traffic"}
"""Where something was measured."""
COST_UNITS = {"message": "messages × cost of links", "gb": "GB × price of links", "ms": "messages × ms of links"}
"""What a traffic cost is, by what link costs are per."""
NO_COSTS = "links; no link has a cost: each counts 1"
"""What traffic is multiplied by where no link has a cost."""
COSTS = {"cost": "traffic cost", "access_cost": "cost of access", "total_cost": "traffic cost with access"}
LABELS: Mapping[str, str] = {
    **COSTS,
    "to_self": "messages to their own sender",
    "homeless": "deliveries without a home",
    "homeless_messages": "messages without a home",
    "crossings": "links crossed per message",
    "link_messages": "messages over links",
    "link_bytes": "bytes over links",
    "mean_hops": "links per delivery",
    "mean_broker_hops": "links between brokers per delivery",
    "mean_latency_us": "mean latency",
    "p50_latency_us": "latency, 50 %",
    "p95_latency_us": "latency, 95 %",
    "p99_latency_us": "latency, 99 %",
    "local_share": "deliveries at one broker",
    "region_local_share": "deliveries in one region",
    "crossing_messages": "messages over links between regions",
    "crossing_bytes": "bytes over links between regions",
    "cut_share_max": "worst failure of a broker",
    "max_broker_load": "busiest broker handles",
    "max_link_load": "busiest link carries",
    "received": "messages received",
    "false_positive_rate": "share of false positives",
    "mean_connections": "connections per publisher",
    "over_limit": "advertisements over their limit",
    "average_degree": "links per client",
    "max_degree": "most links of one client",
    "topic_connected": "all topics connected (1 or 0)",
    "components_too_many": "parts of topics too many",
    "flood_messages": "messages to flood a topic",
    "shared_topics": "topics shared per link",
}
"""Metrics in the words of the page; the others are called by their name."""
DISTANCES = {"messages": "links", "hops": "hops", "latency": "µs"}
"""What planners of placement and tree multiply their traffic by, by their objective."""
ENOUGH = 0.9
"""The share of what a plan saves at which its curve is called flat."""
MOST_TIMES = 1e6
"""How many times the first point of a curve a later one may be to be drawn where it is."""


def label_of(metric: str) -> str:
    """A metric without its unit."""
    return LABELS.get(metric, metric.replace("_", " "))


class Units(NamedTuple):
    """What link costs are per, and whether some link has one."""

    unit: str = "message"
    priced: bool = True

    @property
    def cost(self) -> str:
        """What traffic costs are counted in."""
        unit = COST_UNITS.get(self.unit, self.unit)
        return unit if self.priced else f"{unit.partition(' × ')[0]} × {NO_COSTS}"

    @property
    def of_links(self) -> str:
        """What traffic is multiplied by."""
        return self.cost.partition(" × ")[2]

    def metric(self, metric: str) -> str:
        """A metric in a line of figures; costs and latencies with their unit."""
        if metric == "mean_latency_us":
            return "mean latency in ms"
        return f"{LABELS[metric]} ({self.cost})" if metric in COSTS else label_of(metric)


PER_MESSAGE = Units()
"""Link costs per message."""


def own_cost_unit(facets: Sequence[str], parameters: Mapping[str, object], units: Units = PER_MESSAGE) -> str:
    """What a planner's own cost counts."""
    if "channels" in facets:
        return "messages received"
    if "mesh" in facets:
        return "links + clients × parts of topics too many"
    distance = parameters.get("objective") or parameters.get("distance") or ("cost" if "tree" in facets else "hops")
    counts = units.of_links if distance == "cost" else DISTANCES.get(str(distance), distance)
    return f"{parameters.get('weight', 'messages')} × {counts}"


def headline(document: PlanFile) -> str:
    """What to do, and what just that saves where the plan is judged."""
    counts, judged = document.counts, document.judged
    todo = [
        f"{verb} {counted(number, *each)}"
        for number, verb, *each in (
            (counts.moves, "move", "client", "clients"), (counts.links, "change", "link", "links")
        )
        if number
    ]  # fmt: skip
    if judged is None or judged.saving is None:
        return str(counts)
    saving, part = judged.saving, judged.metrics[-1].part
    sure = f" ({saving.low:.1%} to {saving.high:.1%})" if saving.slices >= LEAST_SLICES else ""
    return f"{', '.join(todo) or 'change nothing'}: {percent(saving.share)} {PARTS[part]}{sure}"


def lines(document: PlanFile, units: Units) -> list[tuple[str, str]]:
    """(what, figures) of a plan that was judged, the most important first."""
    judged = document.judged
    if judged is None or not judged.metrics:
        return [("changes", changes_line(document))]
    part = judged.metrics[-1].part
    found = {each.metric: each for each in judged.metrics if each.part == part}
    if judged.saving is None:
        return list(_family_lines(document, found, units))
    return list(_routed_lines(document, judged, found, units))


def changes_line(document: PlanFile) -> str:
    """What a plan changes, in how many steps."""
    return f"{document.counts}" + (
        f", in {counted(document.steps_total, 'step', 'steps')}" if document.steps_total else ""
    )


def _routed_lines(
    document: PlanFile, judged: Judgement, found: dict[str, Measure], units: Units
) -> Iterator[tuple[str, str]]:
    """Of placement and tree."""
    part, saving = judged.metrics[-1].part, judged.saving
    assert saving is not None
    yield "windows", windows_line(judged.train, judged.held_out, judged.train_share)
    counts = found.get(judged.metrics[0].metric, judged.metrics[-1])
    scale = 1000.0 if counts.metric == "mean_latency_us" else 1.0
    values = f"{amount(counts.before / scale)} -> {amount(counts.after / scale)}"
    yield units.metric(counts.metric), f"{values} {PARTS[part]}: {percent(saving.share)} ({saving})"
    train = [each for each in judged.metrics if (each.metric, each.part) == (counts.metric, "train")]
    saved = [f"training window {percent(1 - each.after / each.before if each.before else 0.0)}" for each in train[:1]]
    if part == "held-out":
        saved.append(f"held out {percent(saving.share)}")
    if expected := judged.expected:
        saved.append(f"expected {percent(expected.share)} ({expected.low:.1%} to {expected.high:.1%})")
    yield "saved", ", ".join(saved)
    if judged.baselines and max(each.share for each in judged.baselines) > saving.share + BEATEN:
        yield "beaten by a baseline", f"{_baselines_line(judged)}: in trial plans inside the training window it was not"
    yield "changes", changes_line(document)
    yield from _client_lines(document, judged)
    mean, most = found.get("mean_latency_us"), found.get("p95_latency_us")
    if mean and (mean.before or mean.after):
        ends = f", 95th percentile {_ms(most)}" if most else ""
        yield "latency", f"mean {_ms(mean)}{ends}"
    if load := found.get("max_broker_load"):
        yield "busiest broker", f"{amount(load.before)} -> {amount(load.after)} messages"
    if cut := found.get("cut_share_max"):
        yield "worst single failure", f"{cut.before:.1%} -> {cut.after:.1%} of deliveries lost"
    if judged.baselines:
        yield "greedy baseline", f"{_baselines_line(judged)}: whoever saves most moves first"


LINKS = {"planned": "on the same links", "today": "on today's links"}
BEATEN = 0.005
"""What a baseline must save more, as a share of today's cost, for the first lines to say so."""


def windows_line(planned: Sequence[int], held_out: Sequence[int], share: float | None) -> str:
    """What was planned on and what judges, by date and share of the messages."""

    def dates(window: Sequence[int]) -> str:
        return " to ".join(map(format_time, window))

    train, rest = ("", "") if share is None else (f" ({share:.0%} of the messages)", f" ({1 - share:.0%})")
    if held_out[0] == held_out[1]:
        return f"planned and judged on {dates(planned)}{train}, UTC"
    return f"planned on {dates(planned)}{train}, judged on {dates(held_out)}{rest}, UTC"


def _baselines_line(judged: Judgement) -> str:
    """What the baselines save, with how many changes."""
    return ", ".join(
        f"{percent(each.share)} {LINKS[each.links]} with {counted(each.changes, 'change', 'changes')}"
        for each in judged.baselines
    )


def _client_lines(document: PlanFile, judged: Judgement) -> Iterator[tuple[str, str]]:
    """Known clients and newcomers apart, and what the rule for newcomers saves beyond the changes."""
    if judged.apart:
        known, new = judged.apart
        share = new.before / ((known.before + new.before) or 1.0)
        yield "known clients", percent(known.saved)
        yield "newcomers", f"{percent(new.saved)} ({share:.0%} of today's cost), left where they connect"
    if document.newcomers:
        saved = f": {judged.newcomers}" if judged.newcomers else ""
        yield "rule for newcomers", f"{document.newcomers}{saved}"


def _family_lines(document: PlanFile, found: dict[str, Measure], units: Units) -> Iterator[tuple[str, str]]:
    """Of channels and meshes."""
    links = found.get("links")
    if links is None or not found.keys() >= {"max_degree", "average_degree", "max_diameter", "topic_connected"}:
        first = next(iter(found.values()))
        yield units.metric(first.metric), f"{amount(first.before)} -> {amount(first.after)}"
    else:
        most, average = found["max_degree"], found["average_degree"]
        today = f"{amount(links.before)} -> " if links.before else "none today, with the plan "
        yield "links", f"{today}{amount(links.after)}"
        was = f"{amount(most.before)} -> " if links.before else ""
        mean = f"{average.before:.2f} -> {average.after:.2f}" if links.before else f"{average.after:.2f}"
        yield "links of a client", f"at most {was}{amount(most.after)}, {mean} on average"
        yield "longest path", f"{amount(found['max_diameter'].after)} links between two subscribers of a topic"
        apart = "" if found["topic_connected"].after else "not "
        yield (
            "topics",
            f"{apart}all connected"
            + ("" if found["topic_connected"].before or not links.before else "; not all of them are today"),
        )
    yield "changes", changes_line(document)


def _ms(measure: Measure) -> str:
    return f"{measure.before / 1000:.4g} -> {measure.after / 1000:.4g} ms"


def flattens(judged: Judgement) -> str:
    """After how many steps most of the saving is there, as a sentence; nothing where there is none to speak of."""
    saved = _savings(judged) if len(judged.curve) > 2 else []
    if not saved or saved[-1] <= 1e-9 * abs(judged.curve[0].metrics[objective_metric(judged)]):
        return ""
    steps, total = [point.steps for point in judged.curve], judged.curve[-1].steps
    where = PARTS[judged.metrics[-1].part]
    i = next(i for i, each in enumerate(saved) if each >= ENOUGH * saved[-1])
    if i == len(saved) - 1:
        return f"{ENOUGH:.0%} of what the plan saves {where} takes more than {steps[-2]:,} of its {total:,} steps"
    share = int(100 * clipped_ratio(saved[i], saved[-1]) + 1e-9)
    first = "the first of {:,} steps brings" if steps[i] == 1 else f"the first {steps[i]:,} of {{:,}} steps bring"
    return f"{first.format(total)} {share}% of what all of them save {where}"


def objective_metric(judged: Judgement) -> str:
    """The metric of the objective."""
    return judged.metrics[0].metric


def clipped_ratio(value: float, whole: float) -> float:
    """value / whole; where they lie too far apart, the nearest that can be drawn."""
    return max(-MOST_TIMES, min(MOST_TIMES, value / whole))


def _savings(judged: Judgement) -> list[float]:
    """What each point of the curve saves of what counts; all objectives are the better the lower."""
    metric = objective_metric(judged)
    return [judged.curve[0].metrics[metric] - point.metrics[metric] for point in judged.curve]
