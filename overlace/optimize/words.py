"""What plans, figures and savings are called: every sentence about a plan that was judged, worded once.

Console, JSON, plan files as they are shown and the page take them from here.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from overlace.observe.cut import format_time
from overlace.trace.judgement import LEAST_SLICES, Judgement, Measure
from overlace.trace.plan_file import PlanFile
from overlace.wording import amount, counted, percent

PARTS = {"train": "in the training window", "held-out": "on held-out traffic"}
"""Where something was measured."""
COST_UNITS = {"message": "messages × cost of links", "gb": "GB × price of links", "ms": "messages × ms of links"}
"""What a traffic cost is, by what link costs are per."""
NO_COSTS = "links; no link has a cost: each is taken to cost 1"
"""What traffic is multiplied by where no link has a cost."""
COSTS = {"cost": "traffic cost", "access_cost": "cost of access", "total_cost": "traffic cost with access"}
LABELS: Mapping[str, str] = {
    **COSTS,
    "to_self": "messages to their own sender",
    "homeless": "deliveries without a known broker",
    "homeless_messages": "messages without a known broker",
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
RISK, FREE = "; the worst failure would cut off ", "nothing more was found"
"""How a limit's line goes on where lifting it puts something at risk, and ends where lifting it brings nothing."""
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
    """What a planner's estimate counts."""
    if "channels" in facets:
        return "messages received"
    if "mesh" in facets:
        return "links + clients × parts of topics too many"
    distance = parameters.get("objective") or parameters.get("distance") or ("cost" if "tree" in facets else "hops")
    counts = units.of_links if distance == "cost" else DISTANCES.get(str(distance), distance)
    return f"{parameters.get('weight', 'messages')} × {counts}"


VERBS = (
    ("move", "client", "clients"),
    ("change", "link", "links"),
    ("regroup", "combination", "combinations"),
    ("add", "link between clients", "links between clients"),
    ("remove", "link between clients", "links between clients"),
)
"""What each of a plan's counts asks an operator to do."""


def todo(document: PlanFile) -> str:
    """What to do, as a command."""
    asked = [f"{verb} {counted(n, *words)}" for n, (verb, *words) in zip(document.counts, VERBS, strict=True) if n]
    return ", ".join(asked) or "change nothing"


def headline(document: PlanFile) -> str:
    """What to do, and the one figure to quote: what just that saves of the objective's metric where it is judged."""
    brings = benefit(document)
    return f"{todo(document)}: {brings}" if brings else todo(document)


def benefit(document: PlanFile) -> str:
    """The one figure to quote of a plan, with its interval; empty where it was not judged."""
    judged = document.judged
    if judged is None or not judged.metrics:
        return ""
    first, part = judged.metrics[0], judged.metrics[-1].part
    if (saving := judged.saving) is not None:
        sure = f" ({saving.between})" if saving.slices >= LEAST_SLICES else ""
        return f"{percent(saving.share)} {label_of(first.metric)} {PARTS[part]}{sure}"
    now = next(each for each in judged.metrics if (each.metric, each.part) == (first.metric, part))
    if "mesh" in document.facets:  # where there were no links, there is nothing to compare with
        return f"{label_of(first.metric)}: {f'{amount(now.before)} -> ' if now.before else ''}{amount(now.after)}"
    return f"{label_of(first.metric)} {now.before:.1%} -> {now.after:.1%} {PARTS[part]}"


def summary(document: PlanFile, units: Units) -> list[tuple[str, str]]:
    """(what, figures) below a plan's headline, short: before and after, how sure, what it risks, how many steps do."""
    judged = document.judged
    if judged is None or not judged.metrics:
        return []
    part = judged.metrics[-1].part
    found = {each.metric: each for each in judged.metrics if each.part == part}
    if judged.saving is None:
        return [line for line in _family_lines(document, found) if line[0] not in ("changes", label_of(FALSE))]
    return list(_summary_lines(document, judged, found, units))


def _summary_lines(
    document: PlanFile, judged: Judgement, found: dict[str, Measure], units: Units
) -> Iterator[tuple[str, str]]:
    """Of placement and tree."""
    objective, saving = judged.metrics[0].metric, judged.saving
    assert saving is not None
    if first := found.get(objective):
        scale, named = (1000.0, "ms") if "latency" in objective else (1.0, label_of(objective))
        named = units.cost.partition(";")[0] if objective in COSTS else named
        yield "today -> after", f"{amount(first.before / scale)} -> {amount(first.after / scale)} {named}"
    yield "how sure", sure_line(judged)
    if judged.baselines and max(each.share for each in judged.baselines) > saving.share + BEATEN:
        yield "beaten", f"moving clients one by one saves more: {_baselines_line(judged)}"
    if cut := found.get("cut_share_max"):
        yield "worst failure", f"{cut.before:.1%} -> {cut.after:.1%} of deliveries lost while one broker is down"
    if load := found.get("max_broker_load"):
        yield "busiest broker", f"{amount(load.before)} -> {amount(load.after)} messages"
    if document.steps_total:
        flat = flattens(judged).removesuffix(f" {PARTS[judged.metrics[-1].part]}")
        most = counted(document.peak_reconnects, "reconnect", "reconnects")
        yield "steps", f"{flat}{'; ' if flat else ''}at most {most} in one step"


def sure_line(judged: Judgement) -> str:
    """What judged the plan, and what was expected of it before."""
    share, expected = judged.train_share, judged.expected
    if judged.metrics[-1].part == "train":
        text = "nothing is held out: judged on the traffic it was planned for"
    else:
        text = "judged on later traffic" + ("" if share is None else f", {1 - share:.0%} of the messages")
    if judged.saving is not None and judged.saving.slices < LEAST_SLICES:
        text += ", too short for an interval"
    tense = "is" if judged.metrics[-1].part == "train" else "was"
    return text + (f"; {percent(expected.share)} {tense} expected ({expected.between})" if expected else "")


def lines(document: PlanFile, units: Units) -> list[tuple[str, str]]:
    """(what, figures) of a plan that was judged, the most important first."""
    judged = document.judged
    if judged is None or not judged.metrics:
        return [("changes", changes_line(document))]
    part = judged.metrics[-1].part
    found = {each.metric: each for each in judged.metrics if each.part == part}
    if judged.saving is None:
        return list(_family_lines(document, found))
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
    drawn = f" in 95 of 100 draws from {saving.slices} stretches of the log" if saving.slices >= LEAST_SLICES else ""
    earlier = f", those after {counted(saving.origins - 1, 'trial plan', 'trial plans')} among them"
    sure = f"({saving.between}{drawn}{earlier if drawn and saving.origins > 1 else ''})"
    yield units.metric(counts.metric), f"{values} {PARTS[part]}: {percent(saving.share)} {sure}"
    train = [each for each in judged.metrics if (each.metric, each.part) == (counts.metric, "train")]
    saved = [f"training window {percent(1 - each.after / each.before if each.before else 0.0)}" for each in train[:1]]
    if part == "held-out":
        saved.append(f"held out {percent(saving.share)}")
    if expected := judged.expected:
        saved.append(f"expected {percent(expected.share)} ({expected.between})")
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
        yield "worst failure of a broker", f"{cut.before:.1%} -> {cut.after:.1%} of deliveries lost"
    if flat := flattens(judged):
        yield "steps", flat
    if judged.baselines:
        yield "greedy baseline", f"{_baselines_line(judged)}: largest saving first"


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


FALSE = "false_positive_rate"


def _family_lines(document: PlanFile, found: dict[str, Measure]) -> Iterator[tuple[str, str]]:
    """Of channels and meshes."""
    links = found.get("links")
    if links is None or not found.keys() >= {"max_degree", "average_degree", "max_diameter", "topic_connected"}:
        for metric in (FALSE, "received", "mean_connections", "channels"):
            if each := found.get(metric):
                text = f"{each.before:.1%} -> {each.after:.1%}" if metric == FALSE else _before_after(each)
                yield label_of(metric), text
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


def _before_after(measure: Measure) -> str:
    return f"{amount(measure.before)} -> {amount(measure.after)}"


def _ms(measure: Measure) -> str:
    return f"{measure.before / 1000:.4g} -> {measure.after / 1000:.4g} ms"


def list_commands(document: PlanFile, plan: Path) -> list[tuple[str, str]]:
    """(what for, what to type) to review a plan, to cut it where its curve is flat, and to carry it out."""
    path, found = shlex.quote(str(plan)), enough_of(document.judged) if document.judged else None
    commands = [("review", f"overlace plan show {path}")]
    if found and found.steps < document.steps_total:
        commands.append(("cut", f"overlace plan cut {path} --steps {found.steps} --out first-{found.steps}"))
    if document.steps_total and {"placement", "tree"} & set(document.facets):
        commands.append(("carry out", f"overlace live export {path} --to clients --out FOLDER"))
    return commands


class Enough(NamedTuple):
    """Where a plan's curve is called flat: after how many steps which share of what all of them save is there."""

    steps: int
    share: float
    more_than: int  # steps of the point of the curve before
    least: float = ENOUGH


def enough_of(judged: Judgement) -> Enough | None:
    """After how many steps most of the saving is there; None where there is none to speak of."""
    saved = _savings(judged) if len(judged.curve) > 2 else []
    if not saved or saved[-1] <= 1e-9 * abs(judged.curve[0].metrics[objective_metric(judged)]):
        return None
    i = next(i for i, each in enumerate(saved) if each >= ENOUGH * saved[-1])
    return Enough(judged.curve[i].steps, clipped_ratio(saved[i], saved[-1]), judged.curve[i - 1].steps)


def flattens(judged: Judgement) -> str:
    """After how many steps most of the saving is there, as a sentence; nothing where there is none to speak of."""
    if (found := enough_of(judged)) is None:
        return ""
    where, total = PARTS[judged.metrics[-1].part], judged.curve[-1].steps
    if found.steps == total:
        most = "all" if found.more_than == total - 1 else f"more than {found.more_than:,} of"
        return f"{most} {total:,} steps are needed for {ENOUGH:.0%} of the saving {where}"
    share = int(100 * found.share + 1e-9)
    first = "the first of {:,} steps brings" if found.steps == 1 else f"the first {found.steps:,} of {{:,}} steps bring"
    return f"{first.format(total)} {share}% of the saving {where}"


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
