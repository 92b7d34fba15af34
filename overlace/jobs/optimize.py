"""Optimize: from a trace to a plan that was judged on traffic it has not seen, with its report.

Decides what can be planned (who has brokers and links gets placement and tree together, advertisements get
channels, interests without brokers get a mesh), says what it left out and why, plans on the first part of the log,
replays the rest before and after, and says how sure the saving is. Where regions are given and what it costs to reach a
broker is not, nobody leaves its region; where nothing says where clients are, any broker may serve any client, and that
is said. Links that are listed with a cost could be wired. What a bound costs is said.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from overlace.errors import NothingBetter, NotObserved
from overlace.jobs.ahead import NOTHING, Ahead, look_ahead, measured_by, wanted_of
from overlace.jobs.curve import curve_of
from overlace.jobs.interval import saving, slices_of, sums_of
from overlace.jobs.limits import assumed, bounds_of, broken_by, broken_later, limits_of, places_known, within_cut
from overlace.jobs.newcomers import Placing, apart
from overlace.jobs.observe import observe, trace_of
from overlace.jobs.origins import LONG_US
from overlace.jobs.replay import Replayed, replay
from overlace.jobs.solve import Solved, Wanted, solve
from overlace.jobs.wishes import Wishes, check_names, kept_by, kinds_of, link_rows
from overlace.model import Metrics, Names, Observation, Overlay, Planner, Progress, regions_given
from overlace.observe.cut import Cut
from overlace.observe.known import known_as
from overlace.observe.later import Later, later, strangers
from overlace.observe.tables import columns
from overlace.observe.traffic import traffic_of
from overlace.planners.channels.strategy4 import Strategy4
from overlace.planners.joint.joint import Joint
from overlace.planners.mesh.star_cap import StarCap
from overlace.planners.mesh.td_cd_oda import TdCdOda
from overlace.report.curve import flattens
from overlace.report.page import write_report
from overlace.trace.plan_tables import changed
from overlace.trace.plans import Apart, Judgement, Measure, Point, Sure, judge, read_columns, read_plan
from overlace.trace.runs import read_observation, write_json
from overlace.trace.store import Trace

ROUTED = "placement and tree"
ALSO = {
    ROUTED: (
        "cost", "total_cost", "link_messages", "link_bytes", "mean_hops", "mean_latency_us", "p95_latency_us",
        "local_share",
        "max_broker_load", "max_link_load", "cut_share_max", "deliveries", "homeless",
    ),
    "channels": ("false_positive_rate", "received", "mean_connections", "over_limit", "channels"),
    "mesh": ("max_degree", "average_degree", "max_diameter", "links", "topic_connected"),
}  # fmt: skip
"""What is written into a plan of each family; of channels and meshes the first is what counts."""


class Part(NamedTuple):
    """A plan of one family and how it was judged."""

    name: str
    solved: Solved
    metric: str
    part: str  # the part of the log that judges
    before: float
    after: float
    train: float  # share saved on the part that planned
    saving: Sure | None
    moves: int
    swaps: int


@dataclass(frozen=True)
class Answer:
    """What was found."""

    run: Path
    parts: list[Part]
    left_out: list[tuple[str, str]]
    wishes: Wishes
    ahead: Ahead = NOTHING
    bounds: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    warning: str = ""
    report: Path = Path()


class Refused(NothingBetter):
    """Nothing beats what is there, or a limit that was asked for is not kept; with what was found."""

    def __init__(self, message: str, answer: Answer) -> None:
        super().__init__(message)
        self.answer = answer


def optimize(path: str, run: Path, wishes: Wishes, *, force: bool = False, progress: Progress | None = None) -> Answer:
    """Observe, plan, replay what was held out, and report."""
    tell = progress or (lambda share, what: None)
    check_names(wishes, Trace.open(path).names)
    tell(0.02, "observing")
    observed = observe(path, run, train=wishes.train, train_until=wishes.train_until, force=force)
    if force and (run / "plans").is_dir():  # what they were made from has just been replaced
        shutil.rmtree(run / "plans")
    observation, names = read_observation(run)
    opened = Trace.open(path)
    planners, left_out = choose(observation, names, wishes, opened.unit, link_costs_known(opened))
    if not planners:
        why = "; ".join(f"{facet}: {reason}" for facet, reason in left_out)
        raise NotObserved(f"{path}: nothing can be planned from this trace. {why}")
    trace, cut = trace_of(run)
    known = known_as(trace, names)
    keep, only = (kinds_of(each)["client"] for each in (wishes.keep, wishes.only))
    solved, looked, ahead = {}, NOTHING, None
    for i, (name, planner) in enumerate(planners.items()):
        wanted = Wanted()
        if isinstance(planner, Joint):
            tell(0.1, "choosing a forecast")
            metric = metric_of(name, observation, wishes)
            looked, ahead = look_ahead(
                trace, cut.train, known, observation, planner, wishes.seed, metric, _within(tell, 0.1, 0.3),
                plain=wishes.forecast == "plain", keep=keep, only=only,
            )  # fmt: skip
            wanted = wanted_of(looked, ahead, keep, only)
            if planner.max_cut is not None:
                rows = traffic_of(trace, cut.train, known)
                planner = planners[name] = within_cut(planner, observation, ahead, rows, trace.unit, wishes)
        begin, end = (0.3 + 0.2 * k / len(planners) for k in (i, i + 1))
        tell(begin, f"planning {name}")
        told = _within(lambda share, what, name=name: tell(share, f"planning {name}: {what}"), begin, end)  # type: ignore[misc]
        solved[name] = solve(planner, observation, run, names, seed=wishes.seed, wanted=wanted, progress=told)
    tell(0.5, "replaying")
    heard = {"train": later(trace, cut.train, known, observation)}
    heard["held-out"] = later(trace, cut.held_out, known, observation)
    done = replay(run, heard=heard)
    tell(0.6, "judging")
    parts = []
    for name, each in solved.items():
        parts.append(_judged(name, planners[name], each, done, observation, trace, heard, cut, wishes, looked))
    tell(0.8, "asking what binds the plan")
    routed, broken, bounds, limits = planners.get(ROUTED), {}, [], {}
    if isinstance(routed, Joint):
        made = parts[0].solved
        broken = broken_by(observation, names, wishes, routed, made.folder, done)
        after, _ = read_columns(made.folder, read_plan(made.folder))
        bounds = bounds_of(observation, ahead, wishes, routed, made.document, after) + list(broken.values())
        limits = limits_of(observation, routed)
    tell(0.9, "writing the report")
    notes = _notes(done, parts, wishes)
    if parts and parts[0].name == ROUTED and (said := gap_of(parts[0], heard["held-out"])):
        notes.insert(0, said)
    if isinstance(routed, Joint):
        if parts[0].part == "held-out":
            both = (_measured(done, which, "held-out") for which in ("", parts[0].solved.folder.name))
            notes = broken_later(observation, wishes, *both) + notes
        notes = assumed(observation, names, wishes, routed) + notes
    answer = Answer(run, parts, left_out, wishes, looked, bounds, notes, observed.cut.warning, run / "report.html")
    write_json(run / "answer.json", as_document(answer) | {"limits": limits})
    report = write_report(run)
    tell(1.0, "done")
    for name in sorted(broken.keys() & wishes.model_fields_set):
        raise Refused(f"no plan was found that keeps {name}: {broken[name]}. The nearest is in {report}", answer)
    if not any(_pays(part, wishes) for part in parts):
        best = max(map(worth, parts))
        where = "on the part of the log that it has not seen"
        if cut.held_out[1] <= cut.held_out[0]:
            where = "as far as plans from earlier times tell" if looked.expected else "on the part that planned"
        asked = (
            f"less than the {wishes.min_gain:.1%} of --min-gain" if best < wishes.min_gain else "and changes nothing"
        )
        raise Refused(
            f"the best plan found saves {best:.1%} {where}, {asked}.{to_try(bounds)} The report says more: {report}",
            answer,
        )
    return answer


def choose(
    observation: Observation, names: Names, wishes: Wishes, unit: str, priced: bool = True
) -> tuple[dict[str, Planner], list[tuple[str, str]]]:
    """(planners, left out): what can be planned from an observation; unit is what link costs are per, if priced."""
    planners: dict[str, Planner] = {}
    left_out = []
    network = observation.network
    if network.brokers < 2:
        left_out.append((ROUTED, f"{network.brokers} brokers; two or more are needed"))
    elif len(observation.overlay.tree) == 0:
        left_out.append((ROUTED, "no links are wired: ingest the table links"))
    elif len(observation.overlay.placement) == 0:
        left_out.append((ROUTED, "no client has a home: ingest sessions"))
    elif len(observation.classes) == 0:
        left_out.append((ROUTED, "no message was received by anybody"))
    elif wishes.objective == "latency" and not network.latency_us.any():
        left_out.append((ROUTED, "the latencies of links are not known: ingest links with latency_us"))
    elif wishes.objective == "bytes" and not observation.classes.bytes.any():
        left_out.append((ROUTED, "the sizes of messages are not known"))
    else:
        planners[ROUTED] = joint_planner(observation, names, wishes, unit, priced)
    if len(observation.offers.publisher):
        planners["channels"] = Strategy4()
    else:
        left_out.append(("channels", "no advertisements: ingest that table"))
    if len(observation.interests) and network.brokers < 2:
        planners["mesh"] = mesh_planner(observation, wishes)
    else:
        why = "there are brokers" if network.brokers >= 2 else "no interests: ingest that table"
        left_out.append(("mesh", why))
    return planners, left_out


def mesh_planner(observation: Observation, wishes: Wishes) -> StarCap:
    """Stars with the least greatest degree that was found at no more links than TD-CD-ODA needs."""
    links = len(TdCdOda().solve(observation, wishes.seed).after.mesh)
    return StarCap(budget=2 * links / max(observation.clients, 1), effort=1000 * wishes.effort)


def joint_planner(observation: Observation, names: Names, wishes: Wishes, unit: str, priced: bool = True) -> Joint:
    """The planner for placement and tree, with the user's limits as ids; where no link is priced, none is new."""
    network = observation.network
    stay = wishes.placement == "region" or (
        wishes.placement is None and regions_given(network, names) and not places_known(network)
    )
    by_bytes = wishes.objective == "bytes" or (wishes.objective == "cost" and unit == "gb")
    objective: Any = "messages" if wishes.objective == "bytes" else wishes.objective
    stays = kept_by(wishes, network, observation.overlay.tree, observation.clients, names)
    return Joint(
        budget=wishes.budget, max_moves=wishes.max_moves, max_swaps=wishes.max_swaps, objective=objective,
        weight="bytes" if by_bytes else "messages", min_gain=wishes.min_step, sent_cap=wishes.sent_cap or None,
        handled_cap=wishes.handled_cap or None, head_room=wishes.head_room,
        max_degree=wishes.max_degree, max_cut=wishes.max_cut,
        wired_only=bool(wishes.could_wire) or not priced,
        may_wire=link_rows(wishes.could_wire, network, names), within_region=stay, effort=wishes.effort,
        only=stays.only, keep=stays.clients,
        keep_brokers=stays.brokers, keep_links=stays.links,
    )  # fmt: skip


def link_costs_known(trace: Trace) -> bool:
    """Whether any link of a trace has a cost: one that is not wired could then be."""
    return not np.isnan(columns(trace, "links", "cost")["cost"]).all()


def metric_of(name: str, observation: Observation, wishes: Wishes) -> str:
    """What a plan of a family is judged by."""
    return measured_by(wishes.objective, observation) if name == ROUTED else ALSO[name][0]


def _within(tell: Progress, low: float, high: float) -> Progress:
    """Progress as a part of a whole."""
    return lambda share, what: tell(low + (high - low) * share, what)


def _judged(
    name: str, planner: Planner, solved: Solved, done: list[Replayed], observation: Observation, trace: Trace,
    heard: Mapping[str, Later], cut: Cut, wishes: Wishes, looked: Ahead,
) -> Part:  # fmt: skip
    """Before and after on both parts, how sure that is, and all of it written into the plan."""
    metric, plan = metric_of(name, observation, wishes), solved.folder.name
    found = {(each.plan, each.part): each.metrics for each in done}

    def value(which: str, part: str, metric: str) -> float:
        metrics = found[which, part]
        return metrics.of(metric) if (metrics.metric == metric).any() else 0.0

    parts: tuple[Literal["train", "held-out"], ...]
    parts = ("train", "held-out") if name == ROUTED and cut.held_out[1] > cut.held_out[0] else ("train",)

    after, columns = read_columns(solved.folder, read_plan(solved.folder))
    judged: Sure | None = None
    curve: list[Point] = []
    split: list[Apart] = []
    if name == ROUTED and isinstance(planner, Joint):
        window = cut.held_out if "held-out" in parts else cut.train
        follows = heard[parts[-1]]
        new = solved.document.newcomers
        rule = (new.rule, wishes.seed, new.keep, new.only) if new else ()
        placing = Placing(planner, observation, *rule)

        def shown(overlay: Overlay) -> Overlay:
            return placing.overlay(follows, overlay)

        before, then = follows.overlay(observation.overlay), shown(after)
        ends = found["", parts[-1]], found[plan, parts[-1]]
        curve = curve_of(follows, columns, shown, trace.unit, metric, solved.document.cost_before, ends)
        long = cut.train[1] - cut.train[0] >= LONG_US
        slices = slices_of(_times(window, trace), trace.bucket_us, daily=long and len(looked.sums) > 0)
        judged = saving(sums_of(follows, before, then, trace.unit, metric, slices), looked.sums)
        if follows.fresh.any():
            costs = apart(follows, before, then, trace.unit, metric)
            split = [
                Apart(clients="known", before=costs.known[0], after=costs.known[1]),
                Apart(clients="newcomers", before=costs.new[0], after=costs.new[1]),
            ]
    measured = [each for each in ALSO[name] if any((m.metric == each).any() for m in found.values())]
    document = judge(
        solved.folder,
        Judgement(
            train=list(cut.train), held_out=list(cut.held_out), objective=wishes.objective,
            limits=wishes.model_dump(mode="json"), saving=judged, curve=curve, apart=split,
            expected=looked.expected if name == ROUTED else None,
            metrics=[
                Measure(metric=each, part=part, before=value("", part, each), after=value(plan, part, each))
                for part in parts for each in dict.fromkeys((metric, *measured))
            ],
        ),
    )  # fmt: skip
    first = value("", "train", metric)
    share = 1 - value(plan, "train", metric) / first if first else 0.0
    return Part(
        name, solved._replace(document=document), metric, parts[-1], value("", parts[-1], metric),
        value(plan, parts[-1], metric), share, judged, *changed(columns.changes),
    )  # fmt: skip


def _times(window: tuple[int, int], trace: Trace) -> tuple[int, int]:
    """A window as times; (0, 0) is all of the log."""
    return window if window != (0, 0) else trace.span()


def _measured(done: list[Replayed], plan: str, part: str) -> Metrics:
    """What was measured of a plan, or of today's overlay, on a part."""
    return next(each.metrics for each in done if (each.plan, each.part) == (plan, part))


def _notes(done: list[Replayed], parts: list[Part], wishes: Wishes) -> list[str]:
    """What a reader of the figures must know."""
    said = []
    for part in parts:
        metrics = _measured(done, part.solved.folder.name, part.part)
        lost = metrics.of("homeless") if (metrics.metric == "homeless").any() else 0.0
        if part.name == ROUTED and lost:
            share = lost / (lost + metrics.of("deliveries"))
            said.append(
                f"{share:.1%} of the deliveries that judge are not counted: the log does not show where their sender "
                "or receiver was connected"
            )
        ignored = {"budget", "min_gain", "keep", "only", "max_moves", "max_swaps"} & wishes.model_fields_set
        if part.name != ROUTED and ignored:
            said.append(f"{part.name}: not bound by what is about placement and tree: {', '.join(sorted(ignored))}")
        judged = part.solved.document.judged
        if judged and (flat := flattens(judged)):
            said.append(flat)
    return said


def to_try(bounds: list[str]) -> str:
    """What a user who wants more could lift."""
    could = [text.partition("; lifted, ")[0] for text in bounds if "at least" in text]
    return f" To try: lift {could[0]}." if could else ""


def gap_of(part: Part, follows: Later) -> str:
    """Why a plan saves far less than it did where it was made, as a sentence; nothing where it does not."""
    judged = part.solved.document.judged
    if part.part != "held-out" or judged is None or part.saving is None or part.train <= 0:
        return ""
    if part.saving.share >= (1 - GAP) * part.train:
        return ""
    causes = []
    paid = {each.clients: each.before for each in judged.apart}
    if paid.get("newcomers"):
        share = paid["newcomers"] / sum(paid.values())
        causes.append(f"{share:.0%} of it is for messages with a client that had no traffic then")
    if met := strangers(follows):
        causes.append(f"{met:.0%} of the deliveries between known clients are between two that had not talked then")
    why = f". Likely why: {'; '.join(causes)}" if causes else ""
    saved = part.saving.share
    return (
        f"{abs(saved):.1%} {'less' if saved >= 0 else 'more'} is paid where {part.train:.1%} less was on the part that "
        f"planned{why}"
    )


GAP = 1 / 3
"""Of the saving where a plan was made: a gap so large is named."""


def _pays(part: Part, wishes: Wishes) -> bool:
    """Whether a plan saves enough where it was judged."""
    if part.saving is None:
        return part.solved.document.steps_total > 0
    document = part.solved.document
    return worth(part) >= wishes.min_gain and (document.steps_total > 0 or document.newcomers is not None)


def worth(part: Part) -> float:
    """The share that a plan is worth: where nothing is held out, what plans from earlier times let expect."""
    judged = part.solved.document.judged
    if part.part == "train" and judged and judged.expected:
        return judged.expected.share
    return part.saving.share if part.saving else part.train


def _about(part: Part) -> dict[str, Any]:
    """What was expected of a plan, and what became of newcomers."""
    document = part.solved.document
    judged = document.judged
    return {
        "expected": judged.expected.model_dump() if judged and judged.expected else None,
        "apart": [each.model_dump() for each in judged.apart] if judged else [],
        "newcomers": document.newcomers.rule if document.newcomers else None,
    }


def as_document(answer: Answer) -> dict[str, Any]:
    """The answer as JSON."""
    return {
        "wishes": answer.wishes.model_dump(mode="json"),
        "parts": [
            _about(part) | {
                "name": part.name, "plan": part.solved.folder.name, "metric": part.metric, "part": part.part,
                "before": part.before,
                "after": part.after, "saved_on_train": part.train, "moves": part.moves, "swaps": part.swaps,
                "saved": part.saving.model_dump() if part.saving else None,
                "beside": part.solved.document.beside,
            }
            for part in answer.parts
        ],
        "forecast": str(answer.ahead) if any(part.name == ROUTED for part in answer.parts) else None,
        "left_out": [{"facet": facet, "why": why} for facet, why in answer.left_out],
        "bounds": answer.bounds,
        "notes": answer.notes,
        "warning": answer.warning,
    }  # fmt: skip
