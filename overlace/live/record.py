"""Record a running network as a trace: counted, traced or estimated. No JVM is needed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import NamedTuple

from overlace.errors import BadNetwork, BadParameter, BadTrace
from overlace.ingest.options import Options
from overlace.live.adapter import Shown, Watched, adapter_for
from overlace.live.deployment import Deployment
from overlace.live.options import How, RecordOptions
from overlace.live.recorder import SECOND_US, Recording, Span, begin_recording, watch
from overlace.live.recording_tables import Published, RecordedRows, tables_of
from overlace.matching.names import check_value
from overlace.model import Progress
from overlace.trace.store import Trace
from overlace.trace.writer import refuse_foreign, writing
from overlace.wording import counted


class Recorded(NamedTuple):
    """A trace and how it came about."""

    trace: Trace
    how: How
    messages: int
    about: Mapping[str, object]
    notes: list[str]

    def summary(self) -> str:
        """The recording in a line."""
        about = self.about
        parts = [counted(self.messages, "message", "messages") + f" {self.how}"]
        if self.how == "traced":
            incomplete = int(str(about["incomplete"]))
            parts.append(f"{incomplete or 'none'} incomplete, each stands for {about['weight']}")
        clients, brokers, links = (int(str(about[key])) for key in ("clients", "brokers", "links"))
        ends = about["latency_us"]
        spread = f" ({ends[0] / 1000:.2g} to {ends[1] / 1000:.2g} ms)" if isinstance(ends, list) else ""
        return (
            f"{', '.join(parts)}; {counted(clients, 'client', 'clients')}, {counted(brokers, 'broker', 'brokers')}, "
            f"{counted(links, 'link', 'links')}{spread}"
        )


def record(
    deployment: Deployment,
    out: str,
    options: RecordOptions,
    progress: Progress | None = None,
    *,
    force: bool = False,
) -> Recorded:
    """Record a running network into a new trace; nothing is written if it cannot be recorded."""
    if options.how != "counted" and deployment.substrate != "nats":
        raise BadParameter(f"--how {options.how} is for NATS; Mosquitto shows too little. Record --how counted.")
    key = Options(pseudonymise=options.pseudonymise).key()
    if Trace.exists(out) and not force:
        raise BadTrace(f"{out} is a trace already. Choose another name, or replace it with --force.")
    refuse_foreign(out)
    tell = progress or (lambda share, what: None)
    rows, recording, about = asyncio.run(_record(deployment, options, tell))
    if not rows.traffic:
        raise BadNetwork(f"nothing was published in {options.seconds:g} s: there is nothing to plan from.")
    tell(0.95, "writing")
    return _write(deployment, out, options, (rows, recording, about), key)


async def _record(
    deployment: Deployment, options: RecordOptions, progress: Progress
) -> tuple[RecordedRows, Recording, dict[str, object]]:
    """Watch the network as it was asked for."""
    adapter = adapter_for(deployment)
    try:
        progress(0.0, "looking at the network")
        recording, shown = await begin_recording(adapter, options.how)
        about: dict[str, object] = {}
        recording.latency_us = await adapter.latencies(shown.live, recording.links)
        if options.how == "counted":
            await watch(adapter, recording, shown, options.seconds, progress)
            published = [Published(at, c, t, n, size) for (at, c, t), (n, size) in sorted(recording.sent.items())]
            rows = RecordedRows(published, recording.sessions.rows(), recording.subscriptions.rows())
        elif options.how == "traced":
            rows, about = await _trace(adapter, recording, shown, options, progress)
        else:
            rows, about = await _estimate(deployment, recording, shown, options, progress)
        return rows, recording, about
    finally:
        await adapter.close()


async def _trace(
    adapter: Watched, recording: Recording, shown: Shown, options: RecordOptions, progress: Progress
) -> tuple[RecordedRows, dict[str, object]]:
    """(rows, about): sampled messages as servers trace them."""
    from overlace.live.traced import Collector

    order = {"do": "sample", "share": 1 / options.weight, "seconds": SAMPLED}
    async with Collector(adapter.deployment, shown.live) as collector:
        try:
            await watch(adapter, recording, shown, options.seconds, progress, order)
        finally:
            await adapter.tell_all({"do": "sample", "share": 0}, shown.live)
        progress(0.92, "waiting for the last traces")
    found = collector.traces()
    if not found.messages:
        seen = (
            f"{counted(found.incomplete, 'trace was', 'traces were')} incomplete" if found.events else "no event came"
        )
        raise BadNetwork(
            f"no complete trace in {options.seconds:g} s ({seen}). Record longer, or with a larger --sample; every "
            "server on the way must be 2.11 or newer and in the network file."
        )
    if collector.lost:
        recording.notes.append(f"brokers that were away for a while: {', '.join(collector.lost)}; traces are missing")
    published = [
        Published(each.at_us, each.client, each.topic, 1, each.bytes, tuple(sorted(each.receivers)))
        for each in found.messages
    ]
    about: dict[str, object] = {"incomplete": found.incomplete, "events": found.events}
    return RecordedRows(published, recording.sessions.rows(), recording.subscriptions.rows()), about


SAMPLED = 30
"""Seconds after which clients stop to sample, unless they are told again: should we be gone."""


async def _estimate(
    deployment: Deployment, recording: Recording, shown: Shown, options: RecordOptions, progress: Progress
) -> tuple[RecordedRows, dict[str, object]]:
    """(rows, about): what counters of servers say, fitted."""
    from overlace.live.counters import Sampler

    recording.begin_us = int(time.time() * 1e6)
    async with Sampler(deployment, shown.live) as sampler:
        await wait_out(options.seconds, progress, lambda: counted(len(shown.clients), "client", "clients"))
    recording.end_us = int(time.time() * 1e6)
    progress(0.92, "fitting")
    found = sampler.estimate()
    recording.notes += found.notes
    published = [
        Published(int(at), client, topic, int(messages), int(size))
        for at, client, topic, messages, size in zip(
            found.second, found.client, found.topic, found.messages, found.bytes, strict=True
        )
    ]
    sessions = [Span((each.client, each.broker), each.since, each.until) for each in found.sessions]
    asked = [Span((each.client, each.filter, each.group), each.since, each.until) for each in found.subscriptions]
    about: dict[str, object] = {
        "fit": round(found.fit, 4),
        "spread": round(found.spread, 4),
        "incomplete": found.incomplete,
        "together": sum(map(len, found.together)),  # how many, not who: names may have to be hidden
    }
    return RecordedRows(published, sessions, asked), about


async def wait_out(seconds: float, progress: Progress, tell: Callable[[], str]) -> None:
    """Let the time pass, and say now and then how far it is."""
    began = time.monotonic()
    while (left := began + seconds - time.monotonic()) > 0:
        progress(min(0.9, 0.9 * (1 - left / seconds)), f"recording: {tell()}")
        await asyncio.sleep(min(1.0, left))


def _write(
    deployment: Deployment,
    out: str,
    options: RecordOptions,
    found: tuple[RecordedRows, Recording, dict[str, object]],
    key: bytes,
) -> Recorded:
    """Write the trace, with notes of how it came about."""
    rows, recording, extra = found
    messages = sum(each.messages for each in rows.traffic)
    latencies = sorted(recording.latency_us.values())
    about: dict[str, object] = {
        "how": options.how,
        "seconds": round((recording.end_us - recording.begin_us) / 1e6, 3),
        "messages": messages,
        "weight": options.weight,
        "incomplete": 0,
        "brokers": len(deployment.brokers),
        "clients": len({each.what[0] for each in rows.sessions}),
        "links": len(recording.links),
        "latency_us": [latencies[0], latencies[-1]] if latencies else None,
        "not_counted": len(recording.silent_clients),
        **extra,
    }
    notes = [*recording.notes, *_remarks(recording)]
    if key and notes:  # they name clients
        notes = [
            f"{counted(len(notes), 'note', 'notes')} left out: names are hidden. Record without --pseudonymise to see"
        ]
    tables = tables_of(rows, recording, deployment, options.weight, key)
    with writing(out, anew=True) as writer:
        tables.write(writer)
        trace = writer.commit(bucket_us=SECOND_US, unit="message", notes={"recorded": about, "check": check_value(key)})
    return Recorded(trace, options.how, messages, about, notes)


def _remarks(recording: Recording) -> list[str]:
    """What a user should know."""
    silent = recording.silent_clients
    if not silent or recording.how == "estimated":
        return []
    first = ", ".join(map(repr, silent[:3])) + (", ..." if len(silent) > 3 else "")
    count = counted(len(silent), "client does", "clients do")
    return [f"{count} not use overlace.live.client; what they publish is not in the trace: {first}"]
