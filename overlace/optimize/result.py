"""The result of the main job: a verdict on a plan of each family, what was measured, and the files of the run folder.

In hand after `optimize`, or read from the run folder: console, JSON, page and notebook are views of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from overlace import views
from overlace.catalog import PLANNERS
from overlace.errors import BadTrace, NothingBetter
from overlace.metrics import Metrics
from overlace.model import Names, Observation, Plan
from overlace.optimize.replay import Replayed, write_replays
from overlace.optimize.words import FREE, RISK, Units, enough_of, headline, lines, list_commands, summary
from overlace.trace.judgement import Interval, Judgement, Measure
from overlace.trace.plan_file import ChangeLine, PlanFile, change_lines
from overlace.trace.plans import load_plan, read_plan, save_plan
from overlace.trace.runs import read_json, read_observation, read_run, write_json
from overlace.trace.tables import conform

if TYPE_CHECKING:
    import pandas

Json = Mapping[str, Any]
"""What was read from a file of JSON or Parquet, or will be written."""


@dataclass(frozen=True)
class Verdict:
    """A plan of one family and how it was judged."""

    name: str  # the family
    folder: Path
    document: PlanFile  # with its judgement
    units: Units
    limits: Sequence[str] = ()  # that bind it, or stay broken
    notes: Sequence[str] = ()
    forecast: str = ""  # what it was made for, in words
    frontier: Json | None = None  # what a mesh was chosen from
    trees: Json | None = None  # a tree for each channel, in figures
    made: Plan | None = None  # in hand

    @property
    def id(self) -> str:
        """What the plan is called."""
        return self.folder.name

    @cached_property
    def plan(self) -> Plan:
        """The plan; read from its folder where it is not in hand."""
        return self.made or load_plan(self.folder, PLANNERS)

    @property
    def judged(self) -> Judgement:
        """What plan.json says of it."""
        assert self.document.judged is not None
        return self.document.judged

    @property
    def metric(self) -> str:
        """What it is judged by."""
        return self.judged.metrics[0].metric

    @property
    def part(self) -> str:
        """The part of the log that judges."""
        return self.judged.metrics[-1].part

    @property
    def before(self) -> float:
        """What today's overlay costs there."""
        return self._measured(self.part).before

    @property
    def after(self) -> float:
        """What is left with the plan."""
        return self._measured(self.part).after

    @property
    def train(self) -> float:
        """The share saved in the training window."""
        first = self._measured("train")
        return 1 - first.after / first.before if first.before else 0.0

    @property
    def saving(self) -> Interval | None:
        """The share saved where it is judged."""
        return self.judged.saving

    @property
    def worth(self) -> float:
        """The share that it is worth: where nothing is held out, what plans from earlier times let expect."""
        if self.part == "train" and self.judged.expected:
            return self.judged.expected.share
        return self.saving.share if self.saving else self.train

    def _measured(self, part: str) -> Measure:
        return next(each for each in self.judged.metrics if (each.metric, each.part) == (self.metric, part))

    @property
    def headline(self) -> str:
        """What to do, and what just that saves where the plan is judged."""
        return headline(self.document)

    @property
    def lines(self) -> list[tuple[str, str]]:
        """(what, figures), the most important first: what console, JSON, page and notebook say of it."""
        return lines(self.document, self.units)

    @property
    def summary(self) -> list[tuple[str, str]]:
        """The most important of them, short: what console and page begin with."""
        chosen = [("chosen", str(self.frontier["why"]))] if self.frontier else []
        trees = list((self.trees or {}).get("lines", {}).items())[:2]
        binding = next((text for text in self.limits if not text.endswith(FREE)), "")
        limited = [("limited by", binding.partition(RISK)[0])] if binding else []
        return [*summary(self.document, self.units), *trees, *limited, *chosen]

    def commands(self, run: Path) -> list[tuple[str, str]]:
        """(what for, what to type) to review the plan, cut it and carry it out, of a run folder of this path."""
        return list_commands(self.document, run / "plans" / self.id)

    def as_document(self) -> dict[str, Any]:
        """As JSON."""
        document, judged = self.document, self.judged
        enough = enough_of(judged)
        rule = {"rule": document.newcomers.rule} if document.newcomers else {}
        return {
            "name": self.name,
            "plan": self.id,
            "metric": self.metric,
            "part": self.part,
            "before": self.before,
            "after": self.after,
            "saved_on_train": self.train,
            "saved": self.saving.model_dump() if self.saving else None,
            "changes": document.changes,
            "steps": document.steps_total,
            "enough": enough._asdict() if enough else None,
            "peak_reconnects": document.peak_reconnects,
            "held_out_share": None if judged.train_share is None else 1 - judged.train_share,
            "moves": document.counts.moves,
            "links": document.counts.links,
            "expected": judged.expected.model_dump() if judged.expected else None,
            "apart": [each.model_dump() for each in judged.apart],
            "newcomers": rule | judged.newcomers.model_dump() if rule and judged.newcomers else None,
            "baselines": [each.model_dump() for each in judged.baselines],
            "metrics": [each.model_dump() for each in judged.metrics],
            "headline": self.headline,
            "lines": dict(self.lines),
            "limited_by": list(self.limits),
            "notes": list(self.notes),
            "beside": document.beside,
        }


@dataclass(frozen=True, eq=False, repr=False)
class Result:
    """What was found for a task: a plan of each family, judged, or why no change is recommended."""

    run: Path
    about: Json  # run.json: the trace and the windows
    observation: Observation
    names: Names
    verdicts: Sequence[Verdict] = ()
    left_out: Sequence[tuple[str, str]] = ()  # family, why
    why_not: str = ""  # why no change is recommended; empty: one is
    stopped: bool = False  # Ctrl-C ended the search early
    remarks: Sequence[str] = ()  # what goes before the notes on plans
    options: Json = field(default_factory=dict)
    load_limits: Json = field(default_factory=dict)  # what each broker may send and handle, of all messages
    measured: Mapping[str, Metrics] = field(default_factory=dict)  # by plan (or `before`) and part
    replays: Sequence[Json] = ()  # rows of the table runs
    others: Mapping[str, PlanFile] = field(default_factory=dict)  # plans of the run that were not judged
    trees: pa.Table | None = None

    @property
    def units(self) -> Units:
        """What costs are counted in."""
        return units_of(self.about)

    @property
    def warning(self) -> str:
        """What is to be said of the cut."""
        return str(self.about.get("warning", ""))

    @property
    def report(self) -> Path:
        """The page."""
        return self.run / "report.html"

    @property
    def plan(self) -> Plan:
        """The plan of the first family."""
        return self.verdicts[0].plan

    @property
    def steps(self) -> pandas.DataFrame:
        """The steps of that plan, a row each: what it changes by name, saves of what the planner counts, and why."""
        plan, names = self.plan, self.names
        rows = []
        for i in range(len(plan.steps)):
            step = plan.step(i)
            lines = change_lines([ChangeLine.of(*row, names) for row in step.changes.rows()])
            share = step.gain / plan.gain if plan.gain else 0.0
            rows.append((i + 1, "; ".join(lines), step.gain, share, plan.why(i, names)))
        columns = zip(*rows, strict=True) if rows else [()] * 5
        return pa.table(
            dict(zip(("step", "changes", "saves", "share", "why"), map(list, columns), strict=True))
        ).to_pandas()

    @property
    def saving(self) -> Interval | None:
        """What that plan saves where it is judged, with the interval around it."""
        return self.verdicts[0].saving

    @property
    def bounds(self) -> list[str]:
        """What limits the plans, a line each."""
        return [line for each in self.verdicts for line in each.limits]

    @property
    def notes(self) -> list[str]:
        """What a reader of the figures must know."""
        return [*self.remarks, *(line for each in self.verdicts for line in each.notes)]

    @property
    def plans(self) -> dict[str, PlanFile]:
        """All plans of the run, by name."""
        return dict(sorted(({each.id: each.document for each in self.verdicts} | dict(self.others)).items()))

    def __repr__(self) -> str:
        said = "; ".join(f"{each.name}: {each.headline}" for each in self.verdicts) or "no plan"
        return f"<Result {said}{'; no change recommended' if self.why_not else ''} ({self.run})>"

    def _repr_html_(self) -> str | None:
        return views.draw(self)

    def as_document(self) -> dict[str, Any]:
        """As JSON."""
        verdicts = self.verdicts
        return {
            "recommended": not self.why_not,
            "why_not": self.why_not or None,
            "stopped_early": self.stopped,
            "options": self.options,
            "parts": [each.as_document() for each in verdicts],
            "frontier": next((each.frontier for each in verdicts if each.frontier), None),
            "trees": next((each.trees for each in verdicts if each.trees), None),
            "forecast": next((each.forecast for each in verdicts if each.forecast), None),
            "left_out": [{"facet": facet, "why": why} for facet, why in self.left_out],
            "bounds": self.bounds,
            "remarks": list(self.remarks),
            "notes": self.notes,
            "warning": self.warning,
            "report": str(self.report),
        }


def units_of(about: Json) -> Units:
    """What costs are counted in, as run.json says."""
    return Units(str(about.get("unit")), bool(about.get("links_priced", True)))


class NoChangeRecommended(NothingBetter):
    """No plan is worth it, or one breaks a limit that was asked for; with what was found."""

    def __init__(self, result: Result) -> None:
        super().__init__(result.why_not)
        self.result = result


def write(result: Result, replays: Sequence[Replayed]) -> None:
    """The files of a result: each plan, what was measured, trees and answer.json."""
    run, trees = result.run, result.run / "trees.parquet"
    write_replays(replays, run)
    for each in result.verdicts:
        save_plan(each.plan, each.document, each.folder, force=True)
    trees.unlink(missing_ok=True)
    if result.trees is not None:
        pq.write_table(result.trees, trees)
    write_json(run / "answer.json", result.as_document() | {"limits": result.load_limits})


def read_result(run: Path) -> Result:
    """The result of a run folder; of one that was made verb by verb, what there is."""
    about = read_run(run)
    observation, names = read_observation(run)
    for name in ("metrics", "runs"):
        if not (run / f"{name}.parquet").exists():
            raise BadTrace(f"{run} has no {name}.parquet: nothing was measured yet. `overlace replay {run}` does it.")
    measured = read_metrics(run / "metrics.parquet")
    found = read_json(run / "answer.json") if (run / "answer.json").exists() else {}
    plans = {path.parent.name: read_plan(path.parent) for path in sorted((run / "plans").glob("*/plan.json"))}
    verdicts: list[Verdict] = []
    for part in found.get("parts", ()):
        if (document := plans.pop(str(part["plan"]), None)) and document.judged:
            first, own = not verdicts, part["name"]
            verdicts.append(
                Verdict(
                    own,
                    run / "plans" / str(part["plan"]),
                    document,
                    units_of(about),
                    part.get("limited_by", ()),
                    part.get("notes", ()),
                    str(found.get("forecast") or "") if first else "",
                    found.get("frontier") if own == "mesh" else None,
                    found.get("trees") if own == "channels" else None,
                )
            )
    trees = run / "trees.parquet"
    return Result(
        run,
        about,
        observation,
        names,
        verdicts,
        [(str(each["facet"]), str(each["why"])) for each in found.get("left_out", ())],
        str(found.get("why_not") or ""),
        bool(found.get("stopped_early")),
        found.get("remarks", ()),
        found.get("options", {}),
        found.get("limits", {}),
        measured,
        pq.read_table(run / "runs.parquet").to_pylist(),
        plans,
        pq.read_table(trees) if trees.exists() else None,
    )


def read_metrics(path: Path) -> dict[str, Metrics]:
    """metrics.parquet, by run."""
    try:
        table = conform(pq.read_table(path), "metrics").combine_chunks()
    except (OSError, pa.ArrowException) as error:
        raise BadTrace(f"{path} cannot be read: {error}. Replay again.") from None
    if not table.num_rows:
        return {}
    coded = [table[name].chunk(0).dictionary_encode() for name in ("run", "metric", "scope")]
    run, *texts = (each.indices.to_numpy() for each in coded)
    runs, *words = (np.array(each.dictionary.to_pylist()) for each in coded)
    numbers = [table["key"].to_numpy(), table["other"].fill_null(-1).to_numpy(), table["value"].to_numpy()]
    columns = [*(known[text] for known, text in zip(words, texts, strict=True)), *numbers]
    return {str(name): Metrics(*(each[run == i] for each in columns)) for i, name in enumerate(runs)}
