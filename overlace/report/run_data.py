"""What a run folder holds for its page: measurements, plans, what optimize recorded, and the accounts of the trace."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from overlace.errors import BadTrace
from overlace.model import Names, Observation
from overlace.report.naming import Naming, own_cost_unit
from overlace.report.sheets import Sheet, Sheets, read_sheets
from overlace.trace.plan_file import PlanFile
from overlace.trace.plans import read_plan
from overlace.trace.runs import read_json, read_observation, read_run
from overlace.trace.store import Trace

Json = Mapping[str, Any]
"""What was read from a file of JSON or Parquet."""


class Family(NamedTuple):
    """Facets that are judged by the same metrics."""

    name: str
    facets: tuple[str, ...]
    metrics: list[str]  # on top of the page; the first is what counts
    details: list[str]


ROUTING = Family(
    "traffic",
    ("placement", "tree"),
    "cost crossings mean_hops mean_latency_us local_share".split(),
    "cost access_cost total_cost crossings mean_hops mean_latency_us local_share p95_latency_us region_local_share "
    "crossing_messages max_broker_load max_link_load cut_share_max".split(),
)
CHANNELS = Family(
    "channels",
    ("channels",),
    "received false_positive_rate mean_connections over_limit channels".split(),
    "channels publishers subscribers received true_positives false_positives false_positive_rate mean_connections "
    "max_connections over_limit".split(),
)
MESH = Family(
    "mesh",
    ("mesh",),
    "average_degree max_degree topic_connected links max_diameter".split(),
    "links average_degree max_degree topic_connected components_too_many max_diameter mean_diameter shared_topics "
    "flood_messages".split(),
)
FAMILIES = (ROUTING, CHANNELS, MESH)


@dataclass(frozen=True)
class MeasuredPlan:
    """A plan of the run and what its overlay measured; empty sheets if it was not replayed."""

    id: str
    document: PlanFile
    train: Sheet
    judged: Sheet

    def cost_unit(self, priced: bool) -> str:
        """What the planner's own cost counts; `priced`: some link has a cost."""
        return own_cost_unit(self.document.facets, self.document.parameters, priced)

    def within(self, family: Family) -> bool:
        """Whether the plan is about this family, and was measured."""
        mine = any(facet in family.facets for facet in self.document.facets)
        return mine and self.judged.of(family.metrics[0]) is not None


@dataclass(frozen=True)
class RunData:
    """All that the page is made of."""

    run: Path
    about: Json
    observation: Observation
    names: Names
    runs: Sequence[Json]
    part: str  # what judges: held-out, or train where nothing is held out
    today: Sheet  # what the overlay as it was measured on that part
    today_train: Sheet  # and in the training window
    plans: Sequence[MeasuredPlan]
    account: Account
    outcome: Outcome

    @cached_property
    def naming(self) -> Naming:
        """What things are called."""
        about = self.about
        return Naming(self.names, self.observation.network, str(about.get("unit")), about.get("links_priced", True))

    def best(self, family: Family) -> MeasuredPlan | None:
        """The plan that does best by what counts in its family."""
        return next(iter(self.ranked(family)), None)

    def ranked(self, family: Family) -> list[MeasuredPlan]:
        """The plans of a family that were measured, the best first."""
        return sorted((plan for plan in self.plans if plan.within(family)), key=lambda plan: rank(plan, family))

    def sheets(self, family: Family) -> Sheets:
        """What the family's tables compare: today, and after the best plan."""
        best = self.best(family)
        return [("today", self.today), *([("after", best.judged)] if best else [])]


def rank(plan: MeasuredPlan, family: Family) -> tuple[float, float, str]:
    """What sorts plans of a family, the best first."""
    broken = 1 - (plan.judged.of("topic_connected") or 0) if family is MESH else 0.0
    return broken, plan.judged.of(family.metrics[0]) or 0.0, plan.id


@dataclass(frozen=True)
class Outcome:
    """What optimize recorded; empty if the run was made verb by verb."""

    options: Json
    plans: Sequence[str]
    why_not: str
    forecast: str
    notes: Sequence[str]
    bounds: Sequence[str]
    left_out: Sequence[tuple[str, str]]  # facet, why
    handled_shares: Sequence[float | None]  # of the messages, that each broker may handle
    frontier: Json
    trees: Json


@dataclass(frozen=True)
class Account:
    """Where the lines of the log went; or why that is not known."""

    problem: str = ""
    sources: Sequence[Json] = ()
    quarantine: Sequence[Json] = ()
    totals: Mapping[str, int] = field(default_factory=dict)
    ignored: Sequence[tuple[str, int]] = ()  # by kind of line, most first


COUNTS = ("lines", "kept", "ignored", "quarantined", "duplicates")


def load(run: Path) -> RunData:
    """Everything in a run folder that the page shows, and the accounts of its trace."""
    about = read_run(run)
    observation, names = read_observation(run)
    for name in ("metrics", "runs"):
        if not (run / f"{name}.parquet").exists():
            raise BadTrace(f"{run} has no {name}.parquet: nothing was measured yet. `overlace replay {run}` does it.")
    sheets = read_sheets(run / "metrics.parquet")
    runs = pq.read_table(run / "runs.parquet").to_pylist()
    today = {part: sheets.get(f"before/{part}", Sheet()) for part in ("held-out", "train")}
    routed = {name.rpartition("/")[2] for name, sheet in sheets.items() if sheet.of("messages") is not None}
    since, until = about["held_out"]
    part = "train" if routed == {"train"} or since >= until else "held-out"
    folders = sorted(path.parent for path in (run / "plans").glob("*/plan.json"))
    plans = [
        MeasuredPlan(
            each.name, read_plan(each), *(sheets.get(f"{each.name}/{name}", Sheet()) for name in ("train", part))
        )
        for each in folders
    ]
    measured = (today[part], today["train"], plans, read_account(about), read_outcome(run))
    return RunData(run, about, observation, names, runs, part, *measured)


def read_outcome(run: Path) -> Outcome:
    """answer.json, as optimize wrote it."""
    path = run / "answer.json"
    found = read_json(path) if path.exists() else {}
    return Outcome(
        options=found.get("options", {}),
        plans=[str(part["plan"]) for part in found.get("parts", ())],
        why_not=str(found.get("why_not") or ""),
        forecast=str(found.get("forecast") or ""),
        notes=[str(text) for text in found.get("notes", ())],
        bounds=[str(text) for text in found.get("bounds", ())],
        left_out=[(str(each["facet"]), str(each["why"])) for each in found.get("left_out", ())],
        handled_shares=found.get("limits", {}).get("handled", ()),
        frontier=found.get("frontier") or {},
        trees=found.get("trees") or {},
    )


def read_account(about: Json) -> Account:
    """The trace's own accounts, or why they cannot be had."""
    path = str(about.get("trace", ""))
    try:
        trace = Trace.open(path)
        if trace.digest() != about.get("trace_digest"):
            return Account(f"The trace {path} has changed since this run was observed, so its accounts are not shown.")
        sources, quarantine = (trace.read(table).to_pylist() for table in ("sources", "quarantine"))
    except (BadTrace, OSError, KeyError, TypeError, ValueError, pa.ArrowException) as error:
        return Account(f"The trace {path} cannot be read any more, so its accounts are not shown: {error}")
    totals = {name: sum(source[name] for source in sources) for name in COUNTS}
    if not sources and "recorded" in trace.notes:
        return Account("The trace was recorded from a running network, so there is no log to account for.")
    if not sources:
        return Account("The trace holds no accounts of a log: it was generated, or made from tables.")
    sources.sort(key=lambda source: (-source["lines"], source["name"]))
    quarantine.sort(key=lambda row: (-row["count"], row["source"], row["reason"]))
    kinds: Counter[str] = Counter()
    for source in trace.notes.get("sources", {}).values():
        kinds.update(source["account"]["ignored"])
    ignored = sorted(kinds.items(), key=lambda each: (-each[1], each[0]))
    return Account("", sources, quarantine, totals, ignored)
