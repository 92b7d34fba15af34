"""Observe: what the training window of a trace says, into a run folder; the rest is held out."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np

from overlace.errors import BadTrace
from overlace.limits import Split
from overlace.model import Names, Observation
from overlace.observe.cut import Cut, cut, cut_at, read_time
from overlace.observe.observation import observe_with_names
from overlace.observe.tables import columns
from overlace.observe.traffic import IN_PROCESS, Reader
from overlace.trace.address import absolute, local
from overlace.trace.recorded import describe_recording
from overlace.trace.runs import read_run, write_json, write_observation
from overlace.trace.store import Trace
from overlace.trace.tables import SCHEMA_VERSION

SPLIT = Split()


class Observed(NamedTuple):
    """What was observed, the names of what is in it, the trace, and where it was cut."""

    observation: Observation
    names: Names
    trace: Trace
    cut: Cut


def observe(
    path: str, run: Path, split: Split = SPLIT, *, force: bool = False, reader: Reader = IN_PROCESS
) -> Observed:
    """Cut the log at a share of its messages or at a time, observe the training window, and write both into RUN."""
    trace, run = Trace.open(path), local(run)
    until = split.train_until
    parts = cut(trace, split.train, reader) if until is None else cut_at(trace, read_time(until), reader)
    window = parts.train if parts.train != (0, 0) else None
    observation, names = observe_with_names(trace, window, reader)
    run.mkdir(parents=True, exist_ok=True)
    write_observation(run, observation, names, force=force)
    about = {
        "schema_version": SCHEMA_VERSION,
        "trace": absolute(path),
        "trace_digest": trace.digest(),
        "unit": trace.unit,
        "links_priced": link_costs_known(trace),
        "train": list(parts.train),
        "held_out": list(parts.held_out),
        "train_until": until,
        "share": parts.share,
        "warning": parts.warning,
        **({"recorded": lines} if (lines := describe_recording(trace.notes)) else {}),
    }
    write_json(run / "run.json", about)
    return Observed(observation, names, trace, parts)


def link_costs_known(trace: Trace) -> bool:
    """Whether any link of a trace has a cost; where none has, each counts 1."""
    return not bool(np.isnan(columns(trace, "links", "cost")["cost"]).all())


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
