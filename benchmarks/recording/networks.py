"""A network on this machine under the seeded load, measured while it is recorded or not."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from overlace.live.deployment import Deployment, Substrate
from overlace.live.local import down, up
from overlace.live.monitor import look_at_all
from overlace.live.options import LocalOptions, TrafficOptions
from overlace.live.servers import read_processes
from overlace.live.tally import Tally, links_crossed
from overlace.live.traffic import Load
from overlace.live.wiring import Links, links_of
from overlace.observe.traffic import complete_traffic
from overlace.trace.store import Trace
from recording import recorder

ROOT = Path(__file__).parent.parent.parent
BROKERS, CLIENTS, RATE = 7, 40, 300.0
SEEDS = (7, 11, 23)
SPARE = 3.0
"""Seconds that a recording is longer than its load: all of the load is in it."""


def load_options(seed: int) -> TrafficOptions:
    """The load of a seed."""
    return TrafficOptions(seed=seed, clients=CLIENTS, rate=RATE)


@contextmanager
def network(substrate: Substrate, seed: int) -> Iterator[Deployment]:
    """A network in a folder of its own, which is gone afterwards."""
    with tempfile.TemporaryDirectory() as folder:
        options = LocalOptions(substrate=substrate, brokers=BROKERS, seed=seed)
        deployment = up(Path(folder) / "net", options, bound=True)
        try:
            yield deployment
        finally:
            if (deployment.folder / "run" / "processes.json").exists():
                down(deployment)


class Recorder:
    """A recording in a process of its own."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process

    @classmethod
    async def start(cls, deployment: Deployment, out: Path, how: str, seconds: float, sample: float = 1) -> Recorder:
        """Start to record; it has begun when this returns."""
        words = [str(deployment.path), str(out), how, str(seconds), str(sample)]
        made = cls(
            await asyncio.create_subprocess_exec(
                sys.executable, recorder.__file__, *words,
                stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": str(ROOT)},
            )
        )  # fmt: skip
        assert made.process.stdout is not None
        if (await made.process.stdout.readline()).decode().strip() != recorder.BEGUN:
            raise RuntimeError("the recording has not begun")
        return made

    async def end(self) -> dict[str, Any]:
        """Wait for its end; what it says."""
        assert self.process.stdout is not None
        told = (await self.process.stdout.read()).decode()
        if await self.process.wait():
            raise RuntimeError("the recording has failed")
        found: dict[str, Any] = json.loads(told.splitlines()[-1])
        return found


class Run(NamedTuple):
    """A load, with what it took."""

    tally: Tally
    messages: int  # published, answers included
    links: int  # messages on links, from before the recording to its end
    servers: float  # CPU seconds of all servers while messages were published
    clients: float  # of the process of all clients
    told: dict[str, Any]  # by the recording


async def crossed(deployment: Deployment) -> int:
    """Messages that have crossed links so far, as NATS servers count them."""
    told = await look_at_all(deployment, "leafz")
    return sum(leaf["out_msgs"] for each in told.values() if each for leaf in each.get("leafs") or [])


def cpu(pids: Sequence[int]) -> float:
    """Seconds that processes have run, all their threads together."""
    files = [file for pid in pids for file in Path(f"/proc/{pid}/task").glob("*/schedstat")]
    return sum(int(file.read_text().split()[0]) for file in files) / 1e9


async def run(
    deployment: Deployment, seed: int, seconds: float, out: Path | None = None, how: str = "counted", sample: float = 1
) -> Run:
    """Put the load of a seed on a network for some seconds, and record it, if there is a trace to write."""
    nats = deployment.substrate == "nats"
    pids = [each.pid for each in read_processes(deployment.folder / "run" / "processes.json")]
    async with Load(deployment, load_options(seed)) as load:
        links = await crossed(deployment) if nats else 0
        recording = await Recorder.start(deployment, out, how, seconds + SPARE, sample) if out else None
        servers, clients = cpu(pids), time.process_time()
        tally = await load.run(seconds)
        servers, clients = cpu(pids) - servers, time.process_time() - clients
        told = await recording.end() if recording else {}
        links = await crossed(deployment) - links if nats else 0
    if tally.lost or tally.failed or tally.unanswered:
        raise RuntimeError(f"the load itself lost messages: {tally.lines()}")
    return Run(tally, sum(tally.counts.values()), links, servers, clients, told)


def overlace(*words: str) -> tuple[int, str]:
    """(exit code, standard output) of a command."""
    code = "import sys; from overlace.cli import main; sys.exit(main())"
    done = subprocess.run(
        [sys.executable, "-c", code, *words],
        capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)}, check=False,
    )  # fmt: skip
    if done.returncode not in (0, 3):
        raise RuntimeError(f"overlace {' '.join(words)}: {done.stderr}")
    return done.returncode, done.stdout


class Planning(NamedTuple):
    """What `overlace optimize` said of a trace."""

    code: int
    text: str
    plan: Path | None


def optimize(trace: Path, run_folder: Path) -> Planning:
    """Plan from a trace as it is."""
    code, told = overlace("optimize", str(trace), "--out", str(run_folder), "--json")
    found = json.loads(told)
    if code or not found["parts"]:
        return Planning(code, f"no change: {found['why_not']}", None)
    part = found["parts"][0]
    text = f"saves {part['saved']['share']:.0%} of held-out traffic: {part['moves']} moves, {part['links']} links"
    return Planning(code, text, run_folder / "plans" / part["plan"])


class Crossed(NamedTuple):
    """Links that topic messages of a trace cross."""

    mean: float
    messages: int  # that the trace holds, without weights
    wired: Links


def crossings(path: Path, topics: str) -> Crossed:
    """What messages of a trace to topics that begin so cross: the paths to their receivers, each link once."""
    trace = Trace.open(str(path))
    names, traffic = trace.names, complete_traffic(trace)
    rows = [each for each in trace.read("links").to_pylist() if each["wired"]]
    wired = links_of((names["broker"][each["left"]], names["broker"][each["right"]]) for each in rows)
    sessions = trace.read("sessions").to_pylist()
    home = {each["client"]: names["broker"][each["broker"]] for each in sessions}
    total = count = 0
    for client, topic, audience, messages in zip(
        traffic.client.tolist(), traffic.topic.tolist(), traffic.audience.tolist(), traffic.messages.tolist(),
        strict=True,
    ):  # fmt: skip
        if names["topic"][topic].startswith(topics):
            members = traffic.receivers[traffic.start[audience] : traffic.start[audience + 1]].tolist()
            total += messages * len(links_crossed(wired, home[client], {home[each] for each in members}))
            count += messages
    return Crossed(total / count, count, wired)
