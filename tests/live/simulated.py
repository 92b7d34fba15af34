"""A network in this process whose clients publish by a scenario, at once: for simulations of `live adapt`.

What is recorded is drawn: in every window each flow's rate is its share of the pattern times a factor of its own (the
noise), and its messages are Poisson in every second. Plans are carried out by the real swap on a network in memory.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import numpy as np

from overlace.errors import BadNetwork
from overlace.live.deployment import Deployment
from overlace.live.options import TrafficOptions
from overlace.live.recorder import SECOND_US, Recording, Session, Span, Subscription, begin_recording
from overlace.live.recording_tables import Published, RecordedRows, tables_of
from overlace.live.scenario import draw_scenario
from overlace.live.wiring import Links
from overlace.model import Progress
from overlace.trace.writer import writing
from tests.live.memory import MemoryClient, MemoryNetwork

BEGIN_US = 1_000_000 * SECOND_US
BYTES = 100
"""Of every message."""


class SimulatedSite:
    """A site as `live adapt` takes it; its clock runs only while it is recorded."""

    def __init__(self, deployment: Deployment, options: TrafficOptions, links: Links, noise: float = 0.0) -> None:
        self.deployment, self.noise = deployment, noise
        self.scenario = draw_scenario(options, list(deployment.brokers), deployment.substrate, lambda name: None)
        self.network = MemoryNetwork(deployment, (links, frozenset()))
        asked: dict[str, list[tuple[str, str | None]]] = {name: [] for name in self.scenario.homes}
        for each in self.scenario.subscriptions:
            asked[each.client].append((each.filter, each.group))
        self.network.clients = [MemoryClient(name, home, asked[name]) for name, home in self.scenario.homes.items()]
        self.window = 0
        self.at_us = BEGIN_US

    def adapter(self) -> MemoryNetwork:
        """The network, to be changed."""
        return self.network

    def record(self, out: Path, seconds: float, progress: Progress) -> None:
        """Write the trace of the next window."""
        progress(0.0, "recording")
        asyncio.run(begin_recording(self.network, "counted"))  # which refuses what cannot be recorded
        rows = RecordedRows(self._published(seconds), self._sessions(), self._subscriptions())
        if not rows.traffic:
            raise BadNetwork(f"nothing was published in {seconds:g} s: there is nothing to plan from.")
        recording = Recording("counted", self.at_us, self.at_us + round(seconds * 1e6))
        recording.links = self.network.links[self.live]
        recording.latency_us = dict.fromkeys(recording.links, 1000)
        with writing(str(out), anew=True) as writer:
            tables_of(rows, recording, self.deployment, 1).write(writer)
            writer.commit(bucket_us=SECOND_US, unit="message", notes={"recorded": {"how": "counted"}})
        self.window += 1
        self.at_us = recording.end_us

    @property
    def live(self) -> int:
        """The colour that is live."""
        return self.network.clients[0].live

    @property
    def homes(self) -> dict[str, str]:
        """Where everybody is."""
        return {each.name: each.home for each in self.network.clients}

    @property
    def pattern(self) -> int:
        """The pattern of the next window."""
        passed = (self.at_us - BEGIN_US) / 1e6
        return sum(passed >= each for each in self.scenario.options.change_at)

    def _published(self, seconds: float) -> list[Published]:
        options = self.scenario.options
        rng = np.random.default_rng([options.seed, self.window, 29])
        found = []
        for topic, client, share in self.scenario.flows(self.pattern):
            rate = options.rate * share * float(rng.lognormal(-(self.noise**2) / 2, self.noise))
            for second, messages in enumerate(rng.poisson(rate, round(seconds)).tolist()):
                if messages:
                    at = self.at_us + second * SECOND_US
                    name = self.scenario.topics[topic].name
                    found.append(Published(at, client, name, messages, messages * BYTES))
        return found

    def _sessions(self) -> list[Span[Session]]:
        return [Span((name, home), None, None) for name, home in self.homes.items()]

    def _subscriptions(self) -> list[Span[Subscription]]:
        return [Span((each.name, f, g), None, None) for each in self.network.clients for f, g in each.filters]
