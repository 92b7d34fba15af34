"""Replay: what the traffic costs on the overlay as it was and with the changes that each plan lists.

Newcomers are where the log shows them. Both parts are judged alike, the training window and held-out traffic. Results
are rows of RUN/metrics.parquet; RUN/runs.parquet says what each run was.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from overlace import __version__
from overlace.metrics import Metrics
from overlace.model import Observation, Plan, Progress
from overlace.observe.cut import Cut
from overlace.observe.known import Known, known_as
from overlace.observe.later import Later, later
from overlace.observe.traffic import IN_PROCESS, Reader
from overlace.optimize.case import Training
from overlace.optimize.content import read_requests
from overlace.optimize.observe import trace_of
from overlace.replay.measure import measure, within
from overlace.replay.tally import Tally
from overlace.trace.runs import read_observation
from overlace.trace.store import Trace
from overlace.trace.tables import arrow, numbers, table_of


class Replayed(NamedTuple):
    """One run: which overlay, on which part, and what it measured."""

    run: str
    plan: str
    overlay: str
    part: str
    metrics: Metrics


def replay(run: Path, *, reader: Reader = IN_PROCESS, progress: Progress | None = None) -> list[Replayed]:
    """Before and after each plan of a run folder, on both parts of its trace; written into RUN."""
    trace, cut = trace_of(run)
    observation, names = read_observation(run)
    training = Training(trace, cut.train, known_as(trace, names), observation)
    plans = _plans_in(run, observation)
    return replay_plans(run, training, plans, read_traffic(training, cut, reader), progress)


class Traffic(NamedTuple):
    """The traffic of one part of a log, by the numbers of the observation."""

    window: tuple[int, int]
    later: Later


def read_traffic(training: Training, cut: Cut, reader: Reader = IN_PROCESS) -> dict[str, Traffic]:
    """The traffic of the training window and of what is held out."""
    trace, _, known, observation = training
    windows = {"train": cut.train, "held-out": cut.held_out}
    return {
        part: Traffic(window, later(trace, window, known, observation, reader=reader))
        for part, window in windows.items()
    }


def replay_plans(
    run: Path,
    training: Training,
    plans: Mapping[str, Plan],
    traffic: Mapping[str, Traffic],
    progress: Progress | None = None,
) -> list[Replayed]:
    """Before and after each plan, on each part of the log; written into RUN."""
    trace, observation = training.trace, training.observation
    done: list[Replayed] = []
    rows: list[tuple[Any, ...]] = []
    for part, (window, follows) in traffic.items():
        messages, doubles = follows.rows(), _doubles(trace, window, training.known)
        requests = read_requests(trace, window, training.known)
        overlays = {"": follows.overlay(observation.overlay)}
        for name, plan in plans.items():
            overlays[name] = follows.overlay(plan.after)
        for name, overlay in overlays.items():
            began = time.perf_counter()
            metrics = fold_newcomers(measure(follows.stage, overlay, messages, trace.unit, doubles, requests), follows)
            each = Replayed(f"{name or 'before'}/{part}", name, "after" if name else "before", part, metrics)
            done.append(each)
            rows.append(_row(each, plans[name] if name else None, window, time.perf_counter() - began))
            if progress:
                progress(len(done) / ((1 + len(plans)) * len(traffic)), f"{name or 'as it was'}, {part}")
    _write(run, done, rows)
    return done


def fold_newcomers(metrics: Metrics, traffic: Later) -> Metrics:
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


def _plans_in(run: Path, observation: Observation) -> dict[str, Plan]:
    """Each plan of the run; refused if it was made from another observation."""
    paths = sorted((run / "plans").glob("*/plan.json")) if (run / "plans").is_dir() else []
    if not paths:
        return {}
    from overlace.catalog import PLANNERS
    from overlace.trace.plans import load_plan

    return {path.parent.name: load_plan(path.parent, PLANNERS, observation) for path in paths}


def _doubles(trace: Trace, window: tuple[int, int], known: Known) -> pa.Table:
    """Second sends in the whole buckets of a window, clients as the observation numbers them."""
    rows = within(trace.read("doubles"), window, trace.bucket_us)
    client = known.number("client", numbers(rows["client"]).astype(np.int64))
    return rows.set_column(rows.column_names.index("client"), "client", arrow(client, pa.int32()))


def _row(each: Replayed, plan: Plan | None, window: tuple[int, int], seconds: float) -> tuple[Any, ...]:
    """A row of the table runs."""
    planner, parameters, seed = "", {}, 0
    if plan is not None:
        from overlace.catalog import planner_name
        from overlace.trace.plans import parameters_of

        planner, parameters, seed = planner_name(plan.planner), parameters_of(plan.planner), plan.seed
    about = (each.run, planner, json.dumps(parameters), seed, each.plan or None, each.overlay, each.part)
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
