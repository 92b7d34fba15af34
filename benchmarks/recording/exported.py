"""From a recording to a network that was started from exported files: is it wired, and does it carry, as planned?"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from overlace.live import mosquitto_files, nats_files
from overlace.live.adapter import adapter_for
from overlace.live.client import Client, Message, connect
from overlace.live.deployment import NAME, Deployment, Substrate, read_deployment
from overlace.live.events import Traced
from overlace.live.local import await_all, down, draw_tree
from overlace.live.planned import Planned, read_planned
from overlace.live.servers import end, require_program, start
from overlace.live.tally import Tally
from overlace.live.traced import Collector
from overlace.live.traffic import Load
from overlace.live.wiring import Links, dials
from recording.counted import Compared, compare
from recording.networks import Planning, load_options, network, optimize, overlace, run

GREEN = 1
SECONDS, AFTER = 27.0, 15.0
"""Of load while it is recorded, and on the network that was started from exported files."""

QUIET = 2.0
"""Seconds without a message to somebody new after which no more is expected."""

TOPIC = re.compile(r"Received PUBLISH from (?:local\.)?overlace\.\S+ \(d0, q\d, r\d, m\d+, 'fab/\d+/t\d+'")
"""A message of the load that came over a bridge, in the log of a Mosquitto."""


class Carried(NamedTuple):
    """A network that was started from exported files, under the same load."""

    filters: str
    as_planned: bool  # links, as the brokers say
    at_home: int  # clients where the plan has them
    messages: int  # to topics
    predicted: float  # links that a message to a topic crosses
    measured: float
    lost: int
    duplicated: int  # of messages to topics
    doubled: int  # of messages to groups, which a Mosquitto deals at each broker on its own
    served: tuple[int, int]  # new subscribers under a prefix known at their broker: served, all


class Story(NamedTuple):
    """A recording and what came of it."""

    compared: Compared
    planning: Planning
    before: float  # links that a message to a topic crosses
    changed: tuple[int, int]  # links new, links gone
    carried: list[Carried]


def tell(substrate: Substrate, seed: int) -> Story:
    """Record, compare, plan, export, start what was exported, and look."""
    with network(substrate, seed) as deployment:
        folder = deployment.folder.parent
        trace = folder / "trace"
        done = asyncio.run(run(deployment, seed, SECONDS, trace))
        compared = compare(trace, done.tally, deployment, seed)
        tree = draw_tree(list(deployment.brokers), seed)
        before = done.tally.crossings(tree)
        planning = optimize(trace, folder / "run")
        if planning.plan is None:
            return Story(compared, planning, before, (0, 0), [])
        planned = read_planned(planning.plan)
        ways = ("interest",) if substrate == "nats" else ("exact", "prefix", "all")
        given = {"interest": [], "exact": ["--filters", "exact"], "prefix": [], "all": ["--filters", "all"]}
        where = ["--network", str(deployment.path)]
        for way in ways:
            words = ["--to", substrate, "--out", str(folder / way), *where, *given[way]]
            overlace("live", "export", str(planning.plan), *words)
        overlace("live", "export", str(planning.plan), "--to", "clients", "--out", str(folder / "map"), *where)
        down(deployment)
        deployment = with_homes(deployment, folder / "map" / "clients.csv")
        carried = [asyncio.run(carry(deployment, planned, folder / way, seed)) for way in ways]
    changed = len(planned.links - tree), len(tree - planned.links)
    return Story(compared, planning, before, changed, carried)


def with_homes(deployment: Deployment, homes: Path) -> Deployment:
    """The network with a map of clients."""
    file = deployment.folder / NAME
    file.write_text(f'homes = "{homes}"\n{file.read_text()}')
    return read_deployment(file)


@contextmanager
def started(deployment: Deployment, folder: Path, links: Links) -> Iterator[Path]:
    """Brokers started from the files of a folder as they are, parents first; their logs are in a folder beside it."""
    program = require_program(deployment.substrate)
    logs = folder.parent / f"{folder.name}.logs"
    logs.mkdir()
    parents = dials(deployment.brokers, links)
    order = [name for name in deployment.brokers if name not in parents]
    for name in order:
        order += [child for child, parent in parents.items() if parent == name]
    processes = []
    try:
        for name in order:
            if deployment.substrate == "nats":
                words = [program.path, "-c", str(folder / nats_files.names_of(name)["main"])]
            else:  # -v is log_type all
                words = [program.path, "-v", "-c", str(folder / mosquitto_files.names_of(name, GREEN)["main"])]
            processes.append(start(name, words, logs / f"{name}.log", bound=True))
            await_all([deployment.client_address(name, GREEN)], processes, logs)
        yield logs
    finally:
        end(processes)


async def carry(deployment: Deployment, planned: Planned, folder: Path, seed: int) -> Carried:
    """Start what was exported, put the load on it, and compare with what was planned."""
    nats = deployment.substrate == "nats"
    with started(deployment, folder, planned.links) as logs:
        adapter = adapter_for(deployment)
        try:
            deadline = time.monotonic() + 20
            while len((shown := await adapter.shown()).links[GREEN]) < len(planned.links):
                if time.monotonic() > deadline:
                    break
                await asyncio.sleep(0.05)
            async with Load(deployment, load_options(seed)) as load:
                at_home = sum(each.home == planned.homes.get(name) for name, each in load.clients.items())
                if nats:
                    async with Collector(deployment, GREEN) as collector:
                        await adapter.tell_all({"do": "sample", "share": 1, "seconds": 600}, GREEN, load.clients)
                        tally = await load.run(AFTER)
                        await adapter.tell_all({"do": "sample", "share": 0}, GREEN, load.clients)
                    measured = mean_crossings(collector.traces().messages, tally)
                else:
                    tally = await load.run(AFTER)
            served = await serve_newcomers(deployment, tally)
        finally:
            await adapter.close()
    topics = tally.figures("topics")
    if not nats:
        logged = sum(len(TOPIC.findall(file.read_text(errors="replace"))) for file in sorted(logs.iterdir()))
        measured = logged / topics.sent
    return Carried(
        filters=folder.name,
        as_planned=shown.links == (frozenset(), planned.links),
        at_home=at_home,
        messages=topics.sent,
        predicted=tally.crossings(planned.links),
        measured=measured,
        lost=tally.lost,
        duplicated=topics.duplicated,
        doubled=tally.duplicated - topics.duplicated,
        served=served,
    )


def mean_crossings(messages: Sequence[Traced], tally: Tally) -> float:
    """Links that messages to topics crossed, as servers traced them; all of them must have been."""
    mine = [each.crossings for each in messages if each.topic.startswith("fab.")]
    if len(mine) != tally.figures("topics").sent:
        raise RuntimeError(f"{len(mine)} of {tally.figures('topics').sent} messages to topics were traced")
    return sum(mine) / len(mine)


async def serve_newcomers(deployment: Deployment, tally: Tally) -> tuple[int, int]:
    """(served, all): new subscribers to a new topic under each prefix that is known at their broker.

    One is served if a message from every broker reaches it.
    """
    dot = "." if deployment.substrate == "nats" else "/"
    known = {
        (tally.homes[each.client], each.filter.split(dot)[1])
        for each in tally.subscriptions
        if each.filter.startswith("fab")
    }
    clients: list[Client] = []
    missing = {(home, prefix, source) for home, prefix in known for source in deployment.brokers}
    last = time.monotonic()

    def take(home: str) -> Callable[[Message], None]:
        def got(message: Message) -> None:
            nonlocal last
            key = home, message.topic.split(dot)[1], message.payload.decode()
            if key in missing:
                last = time.monotonic()
                missing.discard(key)

        return got

    try:
        for broker in deployment.brokers:
            clients.append(await connect(f"new at {broker}", deployment.plain(), broker))
            for home, prefix in sorted(known):
                if home == broker:
                    await clients[-1].subscribe(dot.join(("fab", prefix, "new")), take(broker))
            await clients[-1].flush()
        last = time.monotonic()
        while missing and time.monotonic() < last + QUIET:
            for client in clients:
                for prefix in sorted({prefix for _, prefix in known}):
                    await client.publish(dot.join(("fab", prefix, "new")), client.home)
            await asyncio.sleep(0.1)
    finally:
        for each in clients:
            await each.close()
    left = {(home, prefix) for home, prefix, _ in missing}
    return len(known) - len(left), len(known)
