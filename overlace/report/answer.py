"""The answer in lines: what a plan saves, what it changes, what it costs elsewhere; the same lines everywhere."""

from __future__ import annotations

from collections.abc import Iterator

from overlace.observe.cut import format_time
from overlace.report.naming import PARTS, Naming
from overlace.trace.judgement import LEAST_SLICES, Judgement, Measure
from overlace.trace.plan_file import PlanFile
from overlace.wording import amount, counted, percent


def metric_name(metric: str, naming: Naming) -> str:
    """What a metric is, with its unit."""
    return "mean latency in ms" if metric == "mean_latency_us" else naming.metric(metric)


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


def answer_lines(document: PlanFile, unit: str, priced: bool = True) -> list[tuple[str, str]]:
    """(what, figures) of a plan that was judged, the most important first; `priced`: some link has a cost."""
    naming = Naming(unit=unit, priced=priced)
    judged = document.judged
    if judged is None or not judged.metrics:
        return [("changes", changes_line(document))]
    part = judged.metrics[-1].part
    found = {each.metric: each for each in judged.metrics if each.part == part}
    if judged.saving is None:
        return list(_family_lines(document, found, naming))
    return list(_routed_lines(document, judged, found, naming))


def changes_line(document: PlanFile) -> str:
    """What a plan changes, in how many steps."""
    return f"{document.counts}" + (
        f", in {counted(document.steps_total, 'step', 'steps')}" if document.steps_total else ""
    )


def _routed_lines(
    document: PlanFile, judged: Judgement, found: dict[str, Measure], naming: Naming
) -> Iterator[tuple[str, str]]:
    """Of placement and tree."""
    part, saving = judged.metrics[-1].part, judged.saving
    assert saving is not None
    yield "windows", windows_line(judged)
    counts = found.get(judged.metrics[0].metric, judged.metrics[-1])
    scale = 1000.0 if counts.metric == "mean_latency_us" else 1.0
    values = f"{amount(counts.before / scale)} -> {amount(counts.after / scale)}"
    yield metric_name(counts.metric, naming), f"{values} {PARTS[part]}: {percent(saving.share)} ({saving})"
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


def windows_line(judged: Judgement) -> str:
    """What was planned on and what judges, by date and share of the messages."""

    def dates(window: list[int]) -> str:
        return " to ".join(map(format_time, window))

    share = judged.train_share
    train, rest = ("", "") if share is None else (f" ({share:.0%} of the messages)", f" ({1 - share:.0%})")
    if judged.metrics[-1].part == "train":
        return f"planned and judged on {dates(judged.train)}{train}, UTC"
    return f"planned on {dates(judged.train)}{train}, judged on {dates(judged.held_out)}{rest}, UTC"


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


def _family_lines(document: PlanFile, found: dict[str, Measure], naming: Naming) -> Iterator[tuple[str, str]]:
    """Of channels and meshes."""
    links = found.get("links")
    if links is None or not found.keys() >= {"max_degree", "average_degree", "max_diameter", "topic_connected"}:
        first = next(iter(found.values()))
        yield metric_name(first.metric, naming), f"{amount(first.before)} -> {amount(first.after)}"
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
