"""How the report was made: the windows, the log's lines, the replays, and the commands that make it again."""

from __future__ import annotations

import platform
import shlex
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from overlace import __version__
from overlace.optimize.result import Json
from overlace.report.sheets import Amount
from overlace.report.tables import more_of
from overlace.report.view import COUNTS, View
from overlace.trace.address import name_of

MOST_SOURCES = 15


def describe_origin(data: View) -> Json:
    """All that the last section of the page says."""
    about, account = data.result.about, data.account
    replays: dict[str, Any] = {}  # of each overlay: its parameters, its seed, and how long each part took
    for each in data.result.replays:
        plan = each["plan"] or ""
        row = {"plan": plan, "parameters": each["parameters"], "seed": each["seed"], "seconds": {}}
        replays.setdefault(plan, row)["seconds"][each["part"]] = each["seconds"]
    return {
        "trace": name_of(str(about.get("trace", ""))),
        "digest": str(about.get("trace_digest", "")),
        "observation": data.result.observation.digest(),
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
        "replays": list(replays.values()),
        "versions": sorted({str(each["version"]) for each in data.result.replays}),
        "version": __version__,
        "python": platform.python_version(),
        "commands": list_commands(data),
    }


def list_commands(data: View) -> list[str]:
    """What to type to make the page again."""
    run, trace = shlex.quote(str(data.folder)), shlex.quote(name_of(str(data.result.about.get("trace", ""))) or "TRACE")
    if options := data.result.options:
        unused = {"train"} if options.get("train_until") else set()
        options = {name: value for name, value in options.items() if value is not None and name not in unused}
        given = _flags({name: name_of(value) if name == "delays" else value for name, value in options.items()})
        return [f"overlace optimize {trace} --out {run} {' '.join(given)}"]
    until = data.result.about.get("train_until")
    cut = f"--train-until {shlex.quote(until)}" if until else f"--train {data.result.about.get('share', 0.7)!r}"
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
