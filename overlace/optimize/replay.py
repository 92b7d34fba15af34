"""Replay: what the traffic costs on the overlay as it was and with the changes that each plan lists.

Newcomers are where the log shows them. Both parts are judged alike, the training window and held-out traffic. Results
are rows of RUN/metrics.parquet; RUN/runs.parquet says what each run was.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from overlace import __version__
from overlace.metrics import Metrics
from overlace.model import Plan, Progress
from overlace.observe.known import IdMap
from overlace.observe.later import Later, later
from overlace.observe.tables import ALWAYS, STILL, Window, bounds
from overlace.observe.traffic import IN_PROCESS, Reader
from overlace.optimize.task import Task, read_task
from overlace.replay.forwarding import ContentRequests
from overlace.replay.measure import measure, within
from overlace.replay.tally import Tally
from overlace.trace.store import Trace
from overlace.trace.tables import arrow, is_content, numbers, table_of


class PartTraffic(NamedTuple):
    """The traffic of one part of a log, by the numbers of the observation."""

    window: tuple[int, int]
    later: Later


class Replayed(NamedTuple):
    """One run: which overlay, on which part, what it measured, and its row in the table runs."""

    run: str
    plan: str
    overlay: str
    part: str
    metrics: Metrics
    about: Mapping[str, Any]


def replay(run: Path, *, reader: Reader = IN_PROCESS, progress: Progress | None = None) -> list[Replayed]:
    """Before and after each plan of a run folder, on both parts of its trace; written into RUN."""
    task, folders = read_task(run), sorted(path.parent for path in (run / "plans").glob("*/plan.json"))
    plans: dict[str, Plan] = {}
    if folders:  # a run without plans loads no planners
        from overlace.catalog import PLANNERS
        from overlace.trace.plans import load_plan

        plans = {folder.name: load_plan(folder, PLANNERS, task.observation) for folder in folders}
    done = replay_plans(task, plans, read_traffic(task, reader), progress)
    write_replays(done, run)
    return done


def read_traffic(task: Task, reader: Reader = IN_PROCESS) -> dict[str, PartTraffic]:
    """The traffic of the training window and of what is held out."""
    windows = {"train": task.cut.train, "held-out": task.cut.held_out}
    return {
        part: PartTraffic(window, later(task.trace, window, task.known, task.observation, reader=reader))
        for part, window in windows.items()
    }


def replay_plans(
    task: Task, plans: Mapping[str, Plan], traffic: Mapping[str, PartTraffic], progress: Progress | None = None
) -> list[Replayed]:
    """Before and after each plan, on each part of the log."""
    trace, done = task.trace, list[Replayed]()
    for part, (window, follows) in traffic.items():
        messages, doubles = follows.rows(), _doubles(trace, window, task.known)
        requests = read_requests(trace, window, task.known)
        overlays = {"": follows.overlay(task.observation.overlay)}
        overlays |= {name: follows.overlay(plan.after) for name, plan in plans.items()}
        for name, overlay in overlays.items():
            began = time.perf_counter()
            metrics = fold_newcomers(measure(follows.stage, overlay, messages, trace.unit, doubles, requests), follows)
            about = {
                "run": f"{name or 'before'}/{part}",
                **_made_by(plans.get(name)),
                "plan": name or None,
                "overlay": "after" if name else "before",
                "part": part,
                "since": window[0],
                "until": window[1],
                "version": __version__,
                "seconds": time.perf_counter() - began,
            }
            done.append(Replayed(about["run"], name, about["overlay"], part, metrics, about))
            if progress:
                progress(len(done) / ((1 + len(plans)) * len(traffic)), f"{name or 'as it was'}, {part}")
    return done


def _made_by(plan: Plan | None) -> dict[str, Any]:
    """What made a plan, for the table runs."""
    if plan is None:
        return {"planner": "", "parameters": "{}", "seed": 0}
    from overlace.catalog import planner_name
    from overlace.trace.plans import parameters_of

    parameters = json.dumps(parameters_of(plan.planner))
    return {"planner": planner_name(plan.planner), "parameters": parameters, "seed": plan.seed}


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


def _doubles(trace: Trace, window: tuple[int, int], known: IdMap) -> pa.Table:
    """Second sends in the whole buckets of a window, clients as the observation numbers them."""
    rows = within(trace.read("doubles"), window, trace.bucket_us)
    client = known.number("client", numbers(rows["client"]).astype(np.int64))
    return rows.set_column(rows.column_names.index("client"), "client", arrow(client, pa.int32()))


def write_replays(done: Sequence[Replayed], run: Path) -> None:
    """RUN/metrics.parquet and RUN/runs.parquet."""
    tables = []
    for each in done:
        m = each.metrics
        other = arrow(m.other, pa.int64(), m.other < 0)
        columns = ([each.run] * len(m.value), m.metric.tolist(), m.scope.tolist(), m.key, other, m.value)
        tables.append(table_of("metrics", *columns))
    runs = table_of("runs", *zip(*(each.about.values() for each in done), strict=True))
    for name, table in (("metrics", pa.concat_tables(tables)), ("runs", runs)):
        beside = run / f".{name}.part"
        pq.write_table(table, beside, compression="zstd")
        beside.replace(run / f"{name}.parquet")


def read_requests(trace: Trace, window: Window, known: IdMap) -> ContentRequests | None:
    """Content subscriptions and advertisements at the end of a window, in order of arrival; none if nobody has any."""
    rows = trace.read("subscriptions", ["client", "filter", "dialect", "since", "until"])
    asked = _at_end(rows.filter(arrow(is_content(rows["dialect"]), pa.bool_())), window)
    if asked.num_rows == 0:
        return None
    from overlace.matching.content.syntax import parse_filter

    offers = trace.read("advertisements", ["client", "filter", "since", "until"])
    offered = _at_end(offers.filter(offers["filter"].is_valid()), window)
    return ContentRequests(
        known.number("client", numbers(asked["client"]).astype(np.int64)),
        [parse_filter(text) for text in asked["filter"].to_pylist()],
        known.number("client", numbers(offered["client"]).astype(np.int64)),
        [parse_filter(text) for text in offered["filter"].to_pylist()],
    )


def _at_end(rows: pa.Table, window: Window) -> pa.Table:
    """The rows that hold at the end of a window, those that came first in front."""
    _, end = bounds(window)
    since, until = numbers(rows["since"], ALWAYS), numbers(rows["until"], STILL)
    kept = np.flatnonzero((since < end) & (until >= end))
    return rows.take(arrow(kept[np.argsort(since[kept], kind="stable")], pa.int64()))
