"""The demo: a generated trace, and the main job on it: planned, judged on held-out traffic, reported."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from overlace.errors import BadTrace
from overlace.limits import Goal, Limits
from overlace.model import Progress
from overlace.optimize.job import Answer, optimize
from overlace.spark.generate import generate
from overlace.spark.session import session
from overlace.trace.store import Trace
from overlace.workloads.sites import Sites

BUDGET = 40


class Demo(NamedTuple):
    """What the demo made."""

    trace: Trace
    answer: Answer


def _refuse_used(out: Path, path: str) -> None:
    """Refuse a folder that holds a trace or a run."""
    used = (
        f"{path} is a trace" if Trace.exists(path) else f"{out} holds a run" if (out / "observation").exists() else ""
    )
    if used:
        raise BadTrace(f"{used} already. Choose another name, or --force to replace it.")


def demo(
    out: Path,
    *,
    seed: int = 0,
    force: bool = False,
    config: Mapping[str, str] | None = None,
    progress: Progress | None = None,
) -> Demo:
    """Everything, into OUT."""
    tell = progress or (lambda share, what: None)
    path = str(out / "trace")
    if not force:  # at once, not after Spark has started
        _refuse_used(out, path)
    if force and (out / "run.json").exists():
        shutil.rmtree(out)
    tell(0.05, "starting Spark")
    with session(config=config) as spark:
        tell(0.3, "generating a log")
        trace = generate(Sites(seed=seed), path, spark, force=force)
    limits = Limits(budget=BUDGET, allow_link=("*:*",))
    answer = optimize(path, out, limits, Goal(seed=seed), progress=lambda share, what: tell(0.5 + 0.5 * share, what))
    return Demo(trace, answer)
