"""Traced recordings: what messages cross against the tally, and what tracing costs links and processors."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import NamedTuple

from overlace.live.local import draw_tree
from recording.networks import Planning, Run, crossings, network, optimize, run

SHORT, LONG = 27.0, 57.0
"""Seconds of load in recordings of 30 s and of 60 s."""

NONE = "none"
STAGES = ((NONE, LONG), ("1%", SHORT), ("10%", LONG), ("50%", LONG), ("100%", LONG))
"""One after the other: which share is traced, and how long the load is."""

PLANNED = ("10%", "50%")
"""What is planned from."""


class Stage(NamedTuple):
    """The load, traced in part."""

    what: str
    run: Run


class Traced(NamedTuple):
    """A traced recording beside the tally."""

    what: str
    seconds: float
    traces: int
    incomplete: int
    found: float  # links that a topic message crosses
    true: float
    planning: Planning | None


def measure(seed: int) -> tuple[list[Stage], list[Traced]]:
    """All stages on one network."""
    stages, recordings = [], []
    with network("nats", seed) as deployment:
        tree = draw_tree(list(deployment.brokers), seed)
        folder = deployment.folder.parent
        for i, (what, seconds) in enumerate(STAGES):
            out = folder / f"trace{i}" if what != NONE else None
            share = float(what.rstrip("%")) / 100 if out else 1.0
            done = asyncio.run(run(deployment, seed, seconds, out, "traced", share))
            stages.append(Stage(what, done))
            if out:
                recordings.append(judge(what, out, done, done.tally.crossings(tree)))
    return stages, recordings


def judge(what: str, trace: Path, done: Run, true: float) -> Traced:
    """A recording beside the tally, and what can be planned from it."""
    found = crossings(trace, "fab.")
    planning = optimize(trace, trace.parent / f"{trace.name}.run") if what in PLANNED else None
    told = done.told
    return Traced(what, told["seconds"], told["messages"], told["incomplete"], found.mean, true, planning)
