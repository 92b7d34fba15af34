"""Replay: what the traffic costs on the overlay as it was and as each plan would have it.

Both are judged alike, on the part of the log that the plans were made from and on the part that they have
not seen. Results are rows of RUN/metrics.parquet; RUN/runs.parquet says what each run was.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from overlace import __version__
from overlace.catalog import PLANNERS
from overlace.errors import BadTrace
from overlace.jobs.observe import trace_of
from overlace.model import Metrics, Observation, Overlay, Progress
from overlace.observe.traffic import traffic_of
from overlace.planfile import load_plan, read_plan
from overlace.replay.delivery import delivery
from overlace.replay.routing import routing
from overlace.replay.shape import shape
from overlace.run import read_observation
from overlace.tables import conform, schema_of
from overlace.trace import Trace, batches

Runner = Callable[[Any, Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]
"""How a batch function is run over batches: in this process, or by Spark."""


class Replayed(NamedTuple):
    """One run: which overlay, on which part, and what it measured."""

    run: str
    plan: str
    overlay: str
    part: str
    metrics: Metrics


def here(function: Any, rows: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Run a batch function in this process."""
    yield from function(iter(rows))


def measure(observation: Observation, overlay: Overlay, rows: pa.Table, unit: str, run: Runner = here) -> Metrics:
    """All that can be measured of an overlay: routing where there are brokers, delivery, shape."""
    found = []
    if observation.network.brokers and (len(overlay.tree) or observation.network.brokers == 1) and rows.num_rows:
        route = routing(observation, overlay, unit=unit)  # type: ignore[arg-type]
        found.append(route.finish(run(route.partial, batches(rows))))
    if len(observation.offers.publisher):
        found.append(delivery(observation, overlay))
    if len(observation.interests) and len(overlay.mesh):
        found.append(shape(observation, overlay))
    return joined(found)


def joined(parts: list[Metrics]) -> Metrics:
    """Several metrics as one."""
    if not parts:
        return Metrics()
    import numpy as np

    names = ("metric", "scope", "key", "other", "value")
    return Metrics(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))


def replay(run: Path, *, runner: Runner = here, progress: Progress | None = None) -> list[Replayed]:
    """Before and after each plan of the run, on both parts of its trace; written into RUN."""
    trace, parts = trace_of(run)
    observation, _ = read_observation(run)
    plans = sorted((run / "plans").glob("*/plan.json")) if (run / "plans").is_dir() else []
    overlays: dict[str, Overlay] = {"": observation.overlay}
    for path in plans:
        document = read_plan(path)
        if document.observation != observation.digest():
            raise BadTrace(f"{path.parent} was made from another observation than {run} holds. Solve again.")
        overlays[path.parent.name] = load_plan(path.parent, PLANNERS).after
    done: list[Replayed] = []
    rows: list[dict[str, Any]] = []
    windows = {"train": parts.train, "held-out": parts.held_out}
    steps = len(overlays) * len(windows)
    for part, window in windows.items():
        traffic = _traffic(trace, window)
        for plan, overlay in overlays.items():
            began = time.perf_counter()
            metrics = measure(observation, overlay, traffic, trace.unit, runner)
            name = f"{plan or 'before'}/{part}"
            done.append(Replayed(name, plan, "after" if plan else "before", part, metrics))
            rows.append(_row(run, name, plan, part, window, time.perf_counter() - began))
            if progress:
                progress(len(done) / steps, f"{plan or 'as it was'}, {part}")
    _write(run, done, rows)
    return done


def _traffic(trace: Trace, window: tuple[int, int]) -> pa.Table:
    if window == (0, 0):
        return traffic_of(trace)
    return traffic_of(trace, window)


def _row(run: Path, name: str, plan: str, part: str, window: tuple[int, int], seconds: float) -> dict[str, Any]:
    document = read_plan(run / "plans" / plan) if plan else None
    return {
        "run": name,
        "planner": document.planner if document else "",
        "parameters": json.dumps(document.parameters if document else {}),
        "seed": document.seed if document else 0,
        "plan": plan or None,
        "overlay": "after" if plan else "before",
        "part": part,
        "since": window[0],
        "until": window[1],
        "version": __version__,
        "seconds": seconds,
    }


def _write(run: Path, done: list[Replayed], rows: list[dict[str, Any]]) -> None:
    tables = []
    for each in done:
        m = each.metrics
        tables.append(
            pa.table(
                {
                    "run": pa.array([each.run] * len(m.value), pa.string()),
                    "metric": pa.array(m.metric.tolist(), pa.string()),
                    "scope": pa.array(m.scope.tolist(), pa.string()),
                    "key": m.key,
                    "other": pa.array(m.other, mask=m.other < 0),
                    "value": m.value,
                }
            )
        )
    time_type = schema_of("runs").field("since").type
    runs = pa.Table.from_pylist(rows)
    for name in ("since", "until"):
        at = runs.schema.get_field_index(name)
        runs = runs.set_column(at, name, runs[name].cast(pa.int64()).cast(time_type))
    for name, table in (("metrics", pa.concat_tables(tables)), ("runs", runs)):
        beside = run / f".{name}.part"
        pq.write_table(conform(table, name), beside, compression="zstd")
        beside.replace(run / f"{name}.parquet")
