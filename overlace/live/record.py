"""Record a running network as a trace: counted, traced or estimated. No JVM is needed."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import NamedTuple

from overlace.errors import BadNetwork, BadParameter, BadTrace
from overlace.ingest.options import Options
from overlace.live.adapter import Shown, Watched
from overlace.live.deployment import Deployment
from overlace.live.options import How, RecordOptions
from overlace.live.recorder import SECOND_US, Recording, begin_recording, watch
from overlace.live.recording_tables import Published, Rows, tables_of
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
        spread = f" ({ends[0] / 1000:.1f} to {ends[1] / 1000:.1f} ms)" if isinstance(ends, list) else ""
        return (
            f"{', '.join(parts)}; {counted(clients, 'client', 'clients')}, {counted(brokers, 'broker', 'brokers')}, "
            f"{counted(links, 'link', 'links')}{spread}"
        )


def adapter_for(deployment: Deployment) -> Watched:
    """The network that a network file names."""
    if deployment.substrate == "nats":
        from overlace.live.nats import NatsNetwork

        return NatsNetwork(deployment)
    from overlace.live.mosquitto import MosquittoNetwork

    return MosquittoNetwork(deployment)


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
) -> tuple[Rows, Recording, dict[str, object]]:
    """Watch the network as it was asked for."""
    adapter = adapter_for(deployment)
    try:
        progress(0.0, "looking at the network")
        recording, shown = await begin_recording(adapter, options.how)
        about: dict[str, object] = {}
        if deployment.credentials.control is not None:
            recording.latency_us = await adapter.latencies(shown.live, recording.links)
        if options.how == "counted":
            await watch(adapter, recording, shown, options.seconds, progress, count=True)
            published = [Published(at, c, t, n, size) for (at, c, t), (n, size) in sorted(recording.sent.items())]
            rows = Rows(published, recording.sessions.rows(), recording.subscriptions.rows())
        elif options.how == "traced":
            rows = await _trace(adapter, recording, shown, options, about, progress)
        else:
            rows = await _estimate(deployment, recording, shown, options, about, progress)
        return rows, recording, about
    finally:
        await adapter.close()


async def _trace(
    adapter: Watched,
    recording: Recording,
    shown: Shown,
    options: RecordOptions,
    about: dict[str, object],
    progress: Progress,
) -> Rows:
    """Sampled messages as servers trace them."""
    raise NotImplementedError


async def _estimate(
    deployment: Deployment,
    recording: Recording,
    shown: Shown,
    options: RecordOptions,
    about: dict[str, object],
    progress: Progress,
) -> Rows:
    """What counters of servers say, fitted."""
    raise NotImplementedError


def _write(
    deployment: Deployment,
    out: str,
    options: RecordOptions,
    found: tuple[Rows, Recording, dict[str, object]],
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
    tables = tables_of(rows, recording, deployment, options.weight, key)
    with writing(out, anew=True) as writer:
        for name, table in tables.items():
            writer.write(name, table, replace=True)
        trace = writer.commit(bucket_us=SECOND_US, unit="message", notes={"recorded": about})
    return Recorded(trace, options.how, messages, about, notes)


def _remarks(recording: Recording) -> list[str]:
    """What a user should know."""
    silent = recording.silent_clients
    if not silent or recording.how == "estimated":
        return []
    first = ", ".join(map(repr, silent[:3])) + (", ..." if len(silent) > 3 else "")
    count = counted(len(silent), "client does", "clients do")
    return [f"{count} not use overlace.live.client; what they publish is not in the trace: {first}"]
