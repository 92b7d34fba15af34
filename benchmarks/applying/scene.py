"""A network on this machine under load while verbs change it, and what is measured meanwhile."""

from __future__ import annotations

import asyncio
import json
import re
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from recording.networks import overlace

from overlace.live.adapter import adapter_for
from overlace.live.deployment import Substrate
from overlace.live.options import LocalOptions, TrafficOptions
from overlace.live.planned import Planned, read_planned
from overlace.live.tally import KINDS, Tally, links_crossed
from overlace.live.traced import Collector
from overlace.live.wiring import Links
from overlace.observe.traffic import complete_traffic
from overlace.trace.store import Trace
from tests.live.appliers import Outcome
from tests.live.stage import Stage

BROKERS, CLIENTS, RATE, DELAY_MS = 7, 40, 300.0, 3.0
RECORDED, TRACED, QUIET = 15.0, 10.0, 5.0
"""Seconds: recorded for the plan, traced on each side, and without tracing for the latency on each side."""

BRIDGED = re.compile(rb"Received PUBLISH from (?:local\.)?overlace\.\S+ \(d0, q\d, r\d, m\d+, 'fab/")
"""A message of a topic that came over a bridge, in the log of a Mosquitto."""


@contextmanager
def scene(
    substrate: Substrate, seed: int, *, brokers: int = BROKERS, clients: int = CLIENTS, logged: bool = False
) -> Iterator[Stage]:
    """A network with the load of a seed, not publishing yet."""
    with tempfile.TemporaryDirectory() as folder:
        local = LocalOptions(substrate=substrate, brokers=brokers, delay=DELAY_MS, seed=seed)
        topics = max(30, clients * 3 // 4)
        traffic = TrafficOptions(seed=seed, clients=clients, rate=RATE, topics=topics)
        with Stage(Path(folder), local, traffic, "log_type all\n" if logged else "") as stage:
            yield stage


def record_and_plan(stage: Stage) -> Planned:
    """Record the network under its load, and plan by `optimize --objective messages`, links and homes free."""
    trace, run = stage.folder / "trace", stage.folder / "run"
    told = stage.verb("record", "--out", trace, "--seconds", RECORDED)
    if told.code:
        raise RuntimeError(told.text)
    _, said = overlace("optimize", str(trace), "--out", str(run), "--objective", "messages", "--json")
    (part,) = json.loads(said)["parts"][:1]
    return read_planned(run / "plans" / part["plan"])


def apply_words(stage: Stage) -> list[str]:
    """Options of apply: exact filters where bridges carry what is named."""
    return ["--yes", "--json", *(["--filters", "exact"] if stage.deployment.substrate == "mosquitto" else [])]


def document(told: Outcome) -> dict[str, Any]:
    """What a verb said as JSON."""
    if told.code:
        raise RuntimeError(told.text)
    found: dict[str, Any] = json.loads(told.out)
    return found


class Window(NamedTuple):
    """Some seconds of a load."""

    messages: int  # to topics, whose crossings were measured
    crossings: float  # links that one crosses, measured
    reckoned: float  # the same, reckoned from homes and links with exact interest
    hops: float  # links between publisher and receiver, a delivery
    median_ms: float  # of deliveries of topics


def look_for_a_while(stage: Stage) -> Window:
    """Latency without tracing, then crossings: traced on NATS, from the logs on Mosquitto."""
    links, homes = stage.layout()
    micros = stage.load.tally._micros["topics"]
    first = len(micros)
    time.sleep(QUIET)
    median = statistics.median(micros[first:]) / 1000
    before = Counter(stage.load.tally._sent)
    if stage.deployment.substrate == "nats":
        count, crossed = stage.do(_trace(stage))
        sent = Counter(stage.load.tally._sent) - before
    else:
        ends = _ends(stage)
        time.sleep(TRACED)
        count, crossed = 0, _bridged(stage, ends)
        sent = Counter(stage.load.tally._sent) - before
        count = sum(n for (topic, _), n in sent.items() if stage.load.scenario.topics[topic].kind == "topics")
    reckoned, hops = _reckon(stage.load.tally, sent, links, homes)
    return Window(count, crossed / count, reckoned, hops, median)


async def _trace(stage: Stage) -> tuple[int, int]:
    """(messages to topics, links that they crossed), all traced for a while."""
    adapter = adapter_for(stage.deployment)
    try:
        live = (await adapter.shown()).live
        async with Collector(stage.deployment, live) as collector:
            await adapter.tell_all({"do": "sample", "share": 1, "seconds": 60}, live, stage.load.clients)
            await asyncio.sleep(TRACED)
            await adapter.tell_all({"do": "sample", "share": 0}, live, stage.load.clients)
        found = [each for each in collector.traces().messages if each.topic.startswith("fab.")]
        return len(found), sum(each.crossings for each in found)
    finally:
        await adapter.close()


def _ends(stage: Stage) -> dict[Path, int]:
    return {file: file.stat().st_size for file in (stage.network / "run").glob("*.log")}


def _bridged(stage: Stage, ends: Mapping[Path, int]) -> int:
    """Messages of topics that came over bridges since then."""
    found = 0
    for file in (stage.network / "run").glob("*.log"):
        with file.open("rb") as text:
            text.seek(ends.get(file, 0))
            found += len(BRIDGED.findall(text.read()))
    return found


def _reckon(
    tally: Tally, sent: Mapping[tuple[int, str], int], links: Links, homes: Mapping[str, str]
) -> tuple[float, float]:
    """(links that a message to a topic crosses, links between publisher and receiver of a delivery)."""
    crossed = messages = hops = deliveries = 0
    for (topic, client), count in sent.items():
        known = tally.scenario.topics[topic]
        if known.kind == "topics":
            messages += count
            crossed += count * len(links_crossed(links, homes[client], {homes[each] for each in known.receivers}))
            deliveries += count * len(known.receivers)
            hops += count * sum(len(links_crossed(links, homes[client], [homes[each]])) for each in known.receivers)
    return crossed / messages, hops / deliveries


def predict(stage: Stage, planned: Planned) -> float:
    """Links that a topic message of the recording crosses with the plan's homes and links."""
    trace = Trace.open(str(stage.folder / "trace"))
    names, traffic = trace.names, complete_traffic(trace)
    home = [planned.homes.get(name, "") for name in names["client"]]
    total = count = 0
    for client, topic, audience, messages in zip(
        traffic.client.tolist(), traffic.topic.tolist(), traffic.audience.tolist(), traffic.messages.tolist(),
        strict=True,
    ):  # fmt: skip
        if names["topic"][topic].startswith("fab"):
            members = traffic.receivers[traffic.start[audience] : traffic.start[audience + 1]].tolist()
            total += messages * len(links_crossed(planned.links, home[client], {home[each] for each in members}))
            count += messages
    return total / count


def counts(tally: Tally) -> list[str]:
    """Deliveries, lost, doubled, out of order, requests without an answer, group messages lost or doubled."""
    groups = tally.figures("groups")
    expected = sum(tally.figures(kind).expected for kind in KINDS)
    return [f"{expected:,}", f"{tally.lost:,}", f"{tally.duplicated:,}", f"{tally.reordered:,}",
            f"{tally.unanswered:,} of {tally.answered + tally.unanswered:,}",
            f"{groups.lost + groups.duplicated:,} of {groups.sent:,}"]  # fmt: skip


COUNTS = ["deliveries", "lost", "doubled", "out of order", "requests unanswered", "group messages lost or doubled"]
