"""Replay: what the traffic costs on the overlay as it was and as each plan would have it.

Both are judged alike, on the part of the log that the plans were made from and on the part that they have
not seen. Results are rows of RUN/metrics.parquet; RUN/runs.parquet says what each run was.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from overlace import __version__
from overlace.errors import BadPlan
from overlace.metrics import Metrics
from overlace.model import Observation, Overlay, Plan, Progress
from overlace.observe.known import Known, known_as
from overlace.observe.later import Later, later
from overlace.optimize.observe import trace_of
from overlace.replay.measure import measure, within
from overlace.replay.tally import Tally
from overlace.trace.runs import read_observation
from overlace.trace.store import Runner, Trace, here
from overlace.trace.tables import arrow, numbers, table_of

if TYPE_CHECKING:
    from overlace.trace.plan_file import Newcomers


class Replayed(NamedTuple):
    """One run: which overlay, on which part, and what it measured."""

    run: str
    plan: str
    overlay: str
    part: str
    metrics: Metrics


def replay(
    run: Path, *, runner: Runner = here, progress: Progress | None = None, heard: Mapping[str, Later] | None = None
) -> list[Replayed]:
    """Before and after each plan of the run, on both parts of its trace; written into RUN.

    `heard` is the traffic of the parts, if it has been read.
    """
    trace, parts = trace_of(run)
    observation, names = read_observation(run)
    known = known_as(trace, names)
    plans = _planned(run, observation)
    done: list[Replayed] = []
    rows: list[tuple[Any, ...]] = []
    windows = {"train": parts.train, "held-out": parts.held_out}
    steps = (1 + len(plans)) * len(windows)
    for part, window in windows.items():
        traffic = heard[part] if heard else later(trace, window, known, observation)
        said = traffic.rows()
        doubles = _doubles(trace, window, known)
        overlays = {"": traffic.overlay(observation.overlay)}
        for name, (plan, rule) in plans.items():
            overlays[name] = with_newcomers(plan, observation, traffic, rule)
        for plan_name, overlay in overlays.items():
            began = time.perf_counter()
            metrics = folded(measure(traffic.stage, overlay, said, trace.unit, runner, doubles), traffic)
            name = f"{plan_name or 'before'}/{part}"
            done.append(Replayed(name, plan_name, "after" if plan_name else "before", part, metrics))
            rows.append(_row(run, name, plan_name, part, window, time.perf_counter() - began))
            if progress:
                progress(len(done) / steps, f"{plan_name or 'as it was'}, {part}")
    _write(run, done, rows)
    return done


def folded(metrics: Metrics, traffic: Later) -> Metrics:
    """What was measured, by the clients of the observation: a newcomer's first message is its own again.

    Newcomers that the observation has no number for are in the sums, and have no rows of their own.
    """
    mine = metrics.scope == "client"
    clients = traffic.observation.clients
    if not (mine & (metrics.key >= clients)).any():
        return metrics
    key = np.append(np.arange(traffic.clients), traffic.arrivals.client)[metrics.key[mine]]
    named, code = np.unique(metrics.metric[mine], return_inverse=True)
    listed, place = np.unique((code * clients + key)[key < clients], return_inverse=True)
    value = np.bincount(place, weights=metrics.value[mine][key < clients], minlength=len(listed))
    tally = Tally()
    for i, name in enumerate(named.tolist()):
        rows = listed // max(clients, 1) == i
        tally.add(name, "client", listed[rows] % max(clients, 1), value[rows])
    rest = Metrics(*(getattr(metrics, each)[~mine] for each in ("metric", "scope", "key", "other", "value")))
    return Metrics.join([rest, tally.metrics()])


def with_newcomers(plan: Plan, observation: Observation, traffic: Later, rule: Newcomers | None) -> Overlay:
    """The overlay after a plan, with the newcomers where its rule sends them, or where the log shows them."""
    if rule is None:
        return traffic.overlay(plan.after)
    from overlace.optimize.newcomers import Placing
    from overlace.planners.joint.joint import Joint

    if not isinstance(plan.planner, Joint):
        raise BadPlan(f"only joint plans have a rule for newcomers; this one names {rule.rule}")
    return Placing(plan.planner, observation, rule.rule, plan.seed, rule.keep, rule.only).overlay(traffic, plan.after)


def _planned(run: Path, observation: Observation) -> dict[str, tuple[Plan, Newcomers | None]]:
    """Each plan of the run with its rule for newcomers; refused if it was made from another observation."""
    paths = sorted((run / "plans").glob("*/plan.json")) if (run / "plans").is_dir() else []
    plans: dict[str, tuple[Plan, Newcomers | None]] = {}
    for path in paths:
        from overlace.catalog import PLANNERS
        from overlace.trace.plans import load_plan, read_plan

        made = load_plan(path.parent, PLANNERS, observation)
        plans[path.parent.name] = made, read_plan(path.parent).newcomers
    return plans


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
