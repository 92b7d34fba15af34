"""How the report was made: the windows, the log's lines, the replays, and the commands that make it again."""

from __future__ import annotations

import platform
import shlex
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from overlace import __version__
from overlace.report.run_data import COUNTS, Json, RunData
from overlace.report.sheets import Amount
from overlace.report.tables import more_of

MOST_SOURCES = 15


def describe_origin(data: RunData) -> Json:
    """All that the last section of the page says."""
    about, account = data.about, data.account
    return {
        "trace": str(about.get("trace", "")),
        "digest": str(about.get("trace_digest", "")),
        "observation": data.observation.digest(),
        "train": window_text(about["train"]),
        "held_out": window_text(about["held_out"]),
        "share": Amount(float(about.get("share", 0)), "share"),
        "warning": str(about.get("warning", "")),
        "recorded": [str(line) for line in about.get("recorded", ())],
        "problem": account.problem,
        "sources": account.sources[:MOST_SOURCES],
        "sources_more": more_of(len(account.sources) - MOST_SOURCES, "sources"),
        "totals": account.totals,
        "rest": account.totals.get("lines", 0) - sum(account.totals.get(name, 0) for name in COUNTS[1:]),
        "ignored": account.ignored[:MOST_SOURCES],
        "quarantine": account.quarantine[:MOST_SOURCES],
        "quarantine_more": more_of(len(account.quarantine) - MOST_SOURCES, "reasons"),
        "replays": list_replays(data.runs),
        "versions": sorted({str(each["version"]) for each in data.runs}),
        "version": __version__,
        "python": platform.python_version(),
        "commands": list_commands(data),
    }


class Replay(NamedTuple):
    """An overlay: its parameters, its seed, and how long each part took."""

    plan: str
    parameters: str
    seed: int
    seconds: dict[str, float]


def list_replays(runs: Sequence[Json]) -> list[Replay]:
    """One row an overlay."""
    rows: dict[str, Replay] = {}
    for each in runs:
        plan = each["plan"] or ""
        row = rows.setdefault(plan, Replay(plan, each["parameters"], each["seed"], {}))
        row.seconds[each["part"]] = each["seconds"]
    return list(rows.values())


def list_commands(data: RunData) -> list[str]:
    """What to type to make the page again."""
    run, trace = shlex.quote(str(data.run)), shlex.quote(str(data.about.get("trace", "TRACE")))
    if options := data.outcome.options:
        unused = {"train"} if options.get("train_until") else set()
        given = _flags({name: value for name, value in options.items() if value is not None and name not in unused})
        return [f"overlace optimize {trace} --out {run} {' '.join(given)}"]
    until = data.about.get("train_until")
    cut = f"--train-until {shlex.quote(until)}" if until else f"--train {data.about.get('share', 0.7)!r}"
    lines = [f"overlace observe {trace} --out {run} {cut}"]
    for plan in data.plans:
        document = plan.document
        flags = " ".join(_flags(document.parameters))
        lines.append(f"overlace solve {document.planner} {run} --seed {document.seed} {flags}".rstrip())
    return [*lines, f"overlace replay {run}", f"overlace report {run}"]


def _flags(parameters: Mapping[str, object]) -> Iterator[str]:
    """A planner's parameters as options of `overlace solve`."""
    for name, value in parameters.items():
        flag = "--" + name.replace("_", "-")
        if isinstance(value, bool):
            yield flag if value else f"--no-{flag[2:]}"
        elif isinstance(value, list):
            yield from (f"{flag} {shlex.quote(str(each))}" for each in value)
        else:
            yield f"{flag} {'unlimited' if value is None else shlex.quote(str(value))}"


def window_text(window: Sequence[int]) -> str:
    """A half-open window: from, to, and how long."""
    since, until = int(window[0]), int(window[1])
    if (since, until) == (0, 0):
        return "all of it (the log has no times)"
    if since >= until:
        return "nothing"
    return f"{_utc(since)} to {_utc(until)} UTC ({_duration(until - since)})"


def _utc(us: int) -> str:
    """A time as people read it."""
    try:
        at = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=int(us))
    except OverflowError:
        return f"{us} µs"
    return at.strftime("%Y-%m-%d %H:%M" + (":%S" if at.second or at.microsecond else ""))


def _duration(us: int) -> str:
    for unit, size in (("day", 86_400), ("hour", 3_600), ("minute", 60), ("second", 1)):
        if us >= size * 1_000_000:
            count = us / size / 1e6
            return f"{count:,.3g} {unit}{'' if count == 1 else 's'}" if count < 1000 else f"{count:,.0f} {unit}s"
    return f"{us} µs"
