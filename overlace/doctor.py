"""Check an installation: what is there and what is missing, a line each, with what to do about it."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shutil
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple, get_args

import numba

from overlace import __version__
from overlace.errors import OverlaceError
from overlace.extras import EXTRAS, USES, installing, missing_of
from overlace.live.deployment import Substrate
from overlace.live.servers import HAD_FROM, find_program, is_new_enough, needed
from overlace.live.servers import PROGRAMS as PROGRAM_OF
from overlace.places import describe_cache
from overlace.spark.engines import Engine, session
from overlace.spark.java import find_java

State = Literal["ok", "optional", "missing"]


class Finding(NamedTuple):
    """One thing, how it is, and what to do if it is not there."""

    what: str
    state: State
    found: str
    advice: str = ""


NEEDED = "numpy numba scipy pyarrow pyspark pandas msgspec xxhash networkit typer rich pydantic jinja2 altair"
PROGRAMS = {"chromium": "needed only by the project's own browser tests"}


PACKAGES = ("overlace", "numba", "pyarrow", "numpy", "pandas", "msgspec", "xxhash")
"""What executors need."""


def examine(engine: Engine | None = None) -> tuple[list[Finding], Sequence[Mapping[str, Any]]]:
    """Look at this machine and, with an engine, at what each of its executors answers."""
    findings = [
        Finding("overlace", "ok", __version__),
        _python(),
        *(_package(name) for name in NEEDED.split()),
        _java(),
        *(_extra(name) for name in EXTRAS if name != "java"),
        _machine(),
        _kernels(),
        *(_server(substrate) for substrate in get_args(Substrate)),
        *(_program(name, advice) for name, advice in PROGRAMS.items()),
    ]
    if engine is None:
        return findings, []
    spark, executors = _executors(engine)
    return [*findings, spark], executors


def _python() -> Finding:
    new = sys.version_info >= (3, 11)
    return Finding("python", "ok" if new else "missing", platform.python_version(), "" if new else "3.11 or newer")


def _package(name: str) -> Finding:
    try:
        return Finding(name, "ok", importlib.metadata.version(name))
    except importlib.metadata.PackageNotFoundError:
        return Finding(name, "missing", "not installed", f"pip install {name}")


def _java() -> Finding:
    try:
        java = find_java()
    except OverlaceError as error:
        return Finding("java", "missing", "none that Spark can use", str(error))
    return Finding("java", "ok", f"{java.version} from {java.origin}")


def _machine() -> Finding:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return Finding("machine", "ok", f"{os.cpu_count()} cores, {memory:.0f} GB of memory")


def _kernels() -> Finding:
    if getattr(numba.config, "DISABLE_JIT", 0):
        return Finding("kernels", "optional", "plain Python: NUMBA_DISABLE_JIT is set", "unset it: 100 times faster")
    from overlace.arrays.masks import submasks

    submasks(0b101)
    folder, unused = describe_cache()
    if folder is None:
        return Finding("kernels", "optional", "compiled; no safe folder to keep zipped ones in", unused)
    return Finding("kernels", "ok", f"compiled; zipped ones are kept in {folder}", unused)


def _program(name: str, advice: str) -> Finding:
    path = shutil.which(name)
    return Finding(name, "ok" if path else "optional", path or "not on PATH", "" if path else advice)


def _server(substrate: Substrate) -> Finding:
    """A broker program, and whether it is new enough."""
    name, found = PROGRAM_OF[substrate], find_program(substrate)
    if found is None:
        return Finding(name, "optional", "not on PATH", f"needed by `overlace live`: {HAD_FROM[substrate]}")
    old = not is_new_enough(substrate, found.version)
    said = f"{found.version or 'no version'} at {found.path}"
    advice = f"too old for `overlace live`, which needs {needed(substrate)}" if old else ""
    return Finding(name, "optional" if old else "ok", said, advice)


def _extra(extra: str) -> Finding:
    """Whether the packages of an extra are there."""
    if missing := missing_of(*EXTRAS[extra]):
        return Finding(f"overlace[{extra}]", "optional", f"not installed: {', '.join(missing)}", installing(extra))
    return Finding(f"overlace[{extra}]", "ok", f"can be used: {USES[extra]}")


def _executors(engine: Engine) -> tuple[Finding, Sequence[Mapping[str, Any]]]:
    """Whether an engine runs, and what each executor answers."""
    from overlace.spark.tasks import probe

    what = engine.place if engine.engine == "sail" else f"spark on {engine.place}"
    try:
        with session(engine=engine) as spark:
            rows = probe(spark)
    except OverlaceError as error:
        return Finding(what, "missing", "does not run", str(error)), []
    fit = sum(not row["lacks"] for row in rows)
    return Finding(what, "ok", f"{fit} of {len(rows)} executors can run Overlace"), rows


def executor_finding(row: Mapping[str, Any]) -> Finding:
    """What an executor has and lacks, in a line."""
    has = ", ".join(f"{name} {version}" for name, version in row["found"].items())
    found = f"{row['host']}: python {row['python']} ({row['path']}), {has or 'nothing known'}"
    lacks = "; ".join(what if name == "python" else f"{name} {what}" for name, what in row["lacks"].items())
    return Finding(f"executor {row['executor']}", "missing" if lacks else "ok", found, lacks)
