"""Replay: what the traffic costs on the overlay as it was and as each plan would have it.

Both are judged alike, on the part of the log that the plans were made from and on the part that they have
not seen. Results are rows of RUN/metrics.parquet; RUN/runs.parquet says what each run was.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from overlace import __version__
from overlace.jobs.observe import trace_of
from overlace.model import Metrics, Observation, Overlay, Progress
from overlace.observe.known import Known, known_as
from overlace.observe.traffic import traffic_of
from overlace.replay.measure import measure, within
from overlace.trace.runs import read_observation
from overlace.trace.store import Runner, Trace, here
from overlace.trace.tables import arrow, numbers, table_of


class Replayed(NamedTuple):
    """One run: which overlay, on which part, and what it measured."""

    run: str
    plan: str
    overlay: str
    part: str
    metrics: Metrics


def replay(run: Path, *, runner: Runner = here, progress: Progress | None = None) -> list[Replayed]:
    """Before and after each plan of the run, on both parts of its trace; written into RUN."""
    trace, parts = trace_of(run)
    observation, names = read_observation(run)
    known = known_as(trace, names)
    overlays = {"": observation.overlay, **_planned(run, observation)}
    done: list[Replayed] = []
    rows: list[tuple[Any, ...]] = []
    windows = {"train": parts.train, "held-out": parts.held_out}
    steps = len(overlays) * len(windows)
    for part, window in windows.items():
        traffic = traffic_of(trace, None if window == (0, 0) else window, known)
        doubles = _doubles(trace, window, known)
        for plan, overlay in overlays.items():
            began = time.perf_counter()
            metrics = measure(observation, overlay, traffic, trace.unit, runner, doubles)
            name = f"{plan or 'before'}/{part}"
            done.append(Replayed(name, plan, "after" if plan else "before", part, metrics))
            rows.append(_row(run, name, plan, part, window, time.perf_counter() - began))
            if progress:
                progress(len(done) / steps, f"{plan or 'as it was'}, {part}")
    _write(run, done, rows)
    return done


def _planned(run: Path, observation: Observation) -> dict[str, Overlay]:
    """The overlay that each plan of the run leads to; refused if it was made from another observation."""
    paths = sorted((run / "plans").glob("*/plan.json")) if (run / "plans").is_dir() else []
    overlays = {}
    for path in paths:
        from overlace.catalog import PLANNERS
        from overlace.trace.plans import load_plan

        overlays[path.parent.name] = load_plan(path.parent, PLANNERS, observation).after
    return overlays


def _doubles(trace: Trace, window: tuple[int, int], known: Known) -> pa.Table:
    """Second sends in the whole buckets of a window, clients as the observation numbers them."""
    rows = within(trace.read("doubles"), window, trace.bucket_us)
    client = known.number("client", numbers(rows["client"]).astype(np.int64))
    return rows.set_column(rows.column_names.index("client"), "client", arrow(client, pa.int32()))


def _row(run: Path, name: str, plan: str, part: str, window: tuple[int, int], seconds: float) -> tuple[Any, ...]:
    """A row of the table runs."""
    planner, parameters, seed = "", {}, 0
    if plan:
        from overlace.trace.plans import read_plan

        document = read_plan(run / "plans" / plan)
        planner, parameters, seed = document.planner, document.parameters, document.seed
    overlay = "after" if plan else "before"
    about = (name, planner, json.dumps(parameters), seed, plan or None, overlay, part)
    return (*about, *window, __version__, seconds)


def _write(run: Path, done: list[Replayed], rows: list[tuple[Any, ...]]) -> None:
    tables = []
    for name, _, _, _, m in done:
        other = arrow(m.other, pa.int64(), m.other < 0)
        columns = ([name] * len(m.value), m.metric.tolist(), m.scope.tolist(), m.key, other, m.value)
        tables.append(table_of("metrics", *columns))
    for name, table in (("metrics", pa.concat_tables(tables)), ("runs", table_of("runs", *zip(*rows, strict=True)))):
        beside = run / f".{name}.part"
        pq.write_table(table, beside, compression="zstd")
        beside.replace(run / f"{name}.parquet")
