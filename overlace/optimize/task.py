"""A task: a trace, its training window and held-out traffic, what was observed, and what the user asks for."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from overlace.errors import BadTrace
from overlace.limits import Goal, Limits, Split
from overlace.model import Names, Network, Observation, Planner
from overlace.observe.cut import Cut, cut, cut_at, read_time
from overlace.observe.known import IdMap, known_as
from overlace.observe.observation import observe_with_names
from overlace.observe.tables import columns
from overlace.observe.traffic import IN_PROCESS, Reader
from overlace.optimize.scope import Grouped
from overlace.trace.address import absolute, local
from overlace.trace.recorded import describe_recording
from overlace.trace.runs import read_observation, read_run, write_json, write_observation
from overlace.trace.store import Trace
from overlace.trace.tables import SCHEMA_VERSION

NO_LIMITS, USUAL, SPLIT = Limits(), Goal(), Split()


class Task(NamedTuple):
    """What is planned from and judged by, and what the user asks for."""

    trace: Trace
    cut: Cut
    observation: Observation  # of the training window
    names: Names
    known: IdMap
    limits: Limits = NO_LIMITS
    goal: Goal = USUAL
    grouped: Grouped = Grouped()  # clients that shared subscriptions hold in place

    @property
    def scoped(self) -> Limits:
        """The limits, with all that stays in their `keep`."""
        return replace(self.limits, keep=(*self.limits.keep, *self.grouped.keep))

    @property
    def held_out(self) -> bool:
        """Whether some traffic is held out."""
        return self.cut.held_out[1] > self.cut.held_out[0]

    @property
    def links_priced(self) -> bool:
        """Whether any link of the trace has a cost; where none has, each counts 1."""
        return not bool(np.isnan(columns(self.trace, "links", "cost")["cost"]).all())

    @property
    def given(self) -> frozenset[str]:
        """The options that the user gave, rather than their defaults."""
        return self.limits.given | self.goal.given

    @property
    def metric(self) -> str:
        """What a plan for placement and tree is judged by."""
        return metric_of(self.goal.objective, self.observation.network)


def observe(path: str, run: Path, split: Split = SPLIT, *, force: bool = False, reader: Reader = IN_PROCESS) -> Task:
    """Cut the log at a share of its messages or at a time, observe the training window, and write both into RUN."""
    trace, run = Trace.open(path), local(run)
    until = split.train_until
    parts = cut(trace, split.train, reader) if until is None else cut_at(trace, read_time(until), reader)
    window = parts.train if parts.train != (0, 0) else None
    observation, names = observe_with_names(trace, window, reader)
    task = Task(trace, parts, observation, names, known_as(trace, names))
    run.mkdir(parents=True, exist_ok=True)
    write_observation(run, observation, names, force=force)
    about = {
        "schema_version": SCHEMA_VERSION,
        "trace": absolute(path),
        "trace_digest": trace.digest(),
        "unit": trace.unit,
        "links_priced": task.links_priced,
        "train": list(parts.train),
        "held_out": list(parts.held_out),
        "train_until": until,
        "share": parts.share,
        "warning": parts.warning,
        **({"recorded": lines} if (lines := describe_recording(trace.notes)) else {}),
    }
    write_json(run / "run.json", about)
    return task


def read_task(run: Path) -> Task:
    """The task of a run, without limits; refused if the trace has changed since it was observed."""
    trace, parts = trace_of(run)
    observation, names = read_observation(run)
    return Task(trace, parts, observation, names, known_as(trace, names))


def trace_of(run: Path) -> tuple[Trace, Cut]:
    """The trace that a run was observed from, refused if it has changed since, and its cut."""
    about = read_run(run)
    trace = Trace.open(about["trace"])
    if trace.digest() != about["trace_digest"]:
        raise BadTrace(
            f"{about['trace']} has changed since {run} was observed (digest {trace.digest()}, then "
            f"{about['trace_digest']}). Observe it again into a new run."
        )
    train, held_out = tuple(about["train"]), tuple(about["held_out"])
    return trace, Cut((train[0], train[1]), (held_out[0], held_out[1]), about["share"], about["warning"])


METRIC = {
    "cost": "cost",
    "messages": "link_messages",
    "bytes": "link_bytes",
    "hops": "mean_hops",
    "latency": "mean_latency_us",
}
"""What judges each objective; where access has a cost, `total_cost` takes the place of `cost`."""


def metric_of(objective: str, network: Network, judged: bool = True) -> str:
    """The metric that judges an objective; of a plan that was not judged, what its planner counts.

    Planners count hops between brokers, replay also the two links of the clients, which no plan changes.
    """
    if objective == "cost" and network.access_cost.size:
        return "total_cost"
    return "mean_broker_hops" if objective == "hops" and not judged else METRIC[objective]


def objective_of(planner: Planner) -> str:
    """What a planner lowers, as optimize calls it."""
    objective = str(getattr(planner, "objective", "cost"))
    by_bytes = objective == "messages" and getattr(planner, "weight", "messages") == "bytes"
    return "bytes" if by_bytes else objective
