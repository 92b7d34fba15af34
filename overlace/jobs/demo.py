"""The demo: a generated trace, observed, planned, replayed on traffic the plan has not seen, and reported."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import NamedTuple

from overlace.jobs.observe import observe
from overlace.jobs.replay import replay
from overlace.jobs.solve import Solved, solve
from overlace.model import Observation, Progress
from overlace.report.page import write_report
from overlace.spark.generate import generate
from overlace.spark.session import session
from overlace.trace import Trace
from overlace.tree.mst import Mst
from overlace.workloads.sites import Sites

SHOWN = ("cost", "crossings", "mean_hops", "mean_latency_us", "max_link_load", "cut_share_max")


class Demo(NamedTuple):
    """What the demo made, and where."""

    trace: Trace
    observation: Observation
    solved: Solved
    held_out: dict[str, tuple[float, float]]  # metric: before, after
    report: Path


def demo(out: Path, *, seed: int = 0, force: bool = False, progress: Progress | None = None) -> Demo:
    """Everything, into OUT."""
    tell = progress or (lambda share, what: None)
    if force and (out / "run.json").exists():
        shutil.rmtree(out)
    path = str(out / "trace")
    tell(0.05, "starting Spark")
    with session() as spark:
        tell(0.3, "generating a log")
        trace = generate(Sites(seed=seed), path, spark, force=force)
    tell(0.75, "observing")
    observation, _ = observe(path, out)
    tell(0.8, "planning")
    solved = solve(Mst(), observation, out, trace.names, seed=seed)
    tell(0.85, "replaying")
    done = {(each.overlay, each.part): each.metrics for each in replay(out)}
    before, after = done["before", "held-out"], done["after", "held-out"]
    tell(0.9, "writing the report")
    report = write_report(out)
    tell(1.0, "done")
    return Demo(trace, observation, solved, {m: (before.of(m), after.of(m)) for m in SHOWN}, report)
