"""The demo of running networks: a network, a load, a recording, a plan, and the plan carried out under the load."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from overlace.errors import BadNetwork
from overlace.limits import Goal, Limits
from overlace.live.adapter import adapter_for
from overlace.live.apply import Applied, apply
from overlace.live.deployment import Deployment
from overlace.live.local import down, up
from overlace.live.options import ApplyOptions, LocalOptions, RecordOptions, TrafficOptions
from overlace.live.record import record
from overlace.live.scenario import Kind
from overlace.live.servers import read_processes
from overlace.live.tally import Tally
from overlace.live.traffic import Load
from overlace.live.wiring import Links
from overlace.model import Progress
from overlace.optimize.result import Result
from overlace.verbs import optimize

BEFORE, DURING, AFTER = 15.0, 12.0, 10.0
"""Seconds of load that are recorded, during which the plan is carried out, and after it."""


OURS = {"net", "trace", "run"}
"""What the demo puts into its folder, and --force replaces."""


class Shot(NamedTuple):
    """The network at a moment, under the load."""

    crossings: float  # links that a topic message crosses, on average
    latency_ms: Mapping[int, float]  # percentiles


class LiveDemo(NamedTuple):
    """What the demo showed."""

    recorded: str
    result: Result
    applied: Applied
    before: Shot
    after: Shot
    tally: Tally

    def lines(self) -> list[str]:
        """In lines."""
        tally, first, then = self.tally, self.before, self.after
        return [
            f"recorded   {self.recorded}",
            f"applied    {self.applied.line()}",
            f"crossings  {first.crossings:.2f} -> {then.crossings:.2f} links a message",
            f"latency    median {first.latency_ms[50]:g} -> {then.latency_ms[50]:g} ms, "
            f"90 % within {first.latency_ms[90]:g} -> {then.latency_ms[90]:g} ms",
            f"messages   {tally.sent:,} sent, {tally.delivered:,} delivered; lost {tally.lost:,}, "
            f"duplicated {tally.duplicated:,}, reordered {tally.reordered:,}; "
            f"{tally.answered:,} requests answered, {tally.unanswered:,} not",
        ]

    def document(self) -> dict[str, object]:
        """As JSON."""
        return {
            "recorded": self.recorded,
            "applied": {**self.applied._asdict(), "journal": str(self.applied.journal)},
            "before": self.before._asdict(),
            "after": self.after._asdict(),
            "load": self.tally.document(),
        }


def live_demo(
    out: Path, options: LocalOptions, seed: int = 7, *, force: bool = False, progress: Progress | None = None
) -> LiveDemo:
    """Everything, into a folder; nothing is left running, whatever happens."""
    tell = progress or (lambda share, what: None)
    if out.exists() and any(out.iterdir()):
        if not force or not {each.name for each in out.iterdir()} <= OURS:
            raise BadNetwork(f"{out} holds other things. Choose another name" + ("." if force else ", or --force."))
        if any(each.runs for each in read_processes(out / "net" / "run" / "processes.json")):
            raise BadNetwork(f"{out} holds a network that is up. Wait for it to end, or choose another name.")
        shutil.rmtree(out)
    tell(0.0, f"starting {options.brokers} brokers")
    deployment = up(out / "net", options, bound=True)
    try:
        return asyncio.run(_show(deployment, out, seed, tell))
    finally:
        down(deployment)


async def _show(deployment: Deployment, out: Path, seed: int, tell: Progress) -> LiveDemo:
    async with Load(deployment, TrafficOptions(seed=seed)) as load:
        tell(0.05, f"recording a load of 40 clients for {BEFORE:g} s")
        options = RecordOptions(seconds=BEFORE)
        recorded, _ = await asyncio.gather(
            asyncio.to_thread(record, deployment, str(out / "trace"), options), load.run(BEFORE + 1.0)
        )
        before = await _shot(deployment, load, {})
        tell(0.4, "planning")
        result = await asyncio.to_thread(
            optimize, str(out / "trace"), out / "run", Limits(), Goal(objective="messages")
        )
        plan = result.verdicts[0].folder
        tell(0.6, "carrying the plan out under the load")
        applied, _ = await asyncio.gather(asyncio.to_thread(apply, plan, deployment, ApplyOptions()), load.run(DURING))
        tell(0.85, f"the load for {AFTER:g} s more")
        mark = load.tally.mark()
        await load.run(AFTER)
        after = await _shot(deployment, load, mark)
    return LiveDemo(recorded.summary(), result, applied, before, after, load.tally)


async def _shot(deployment: Deployment, load: Load, mark: Mapping[Kind, int]) -> Shot:
    """What a message crosses now, by links and homes as the brokers say, and the latencies since a mark."""
    adapter = adapter_for(deployment)
    try:
        shown = await adapter.shown()
    finally:
        await adapter.close()
    links: Links = shown.links[shown.live]
    homes = {name: str(seen.homes[shown.live]) for name, seen in shown.clients.items()}
    return Shot(round(load.tally.crossings(links, homes), 3), load.tally.latency(since=mark))
