"""Overlace plans better overlays for distributed publish/subscribe systems, from their traffic.

The nouns are here; the planners are in their facets (`overlace.planners.tree.mst.Mst`, ...) and, by name, in
`overlace.catalog.PLANNERS`. Importing this starts no JVM, and loads the nouns when they are asked for: a
command has to listen for signals before the first slow import.
"""

from types import ModuleType
from typing import TYPE_CHECKING, Any

from overlace import ingest, views

if TYPE_CHECKING:
    from overlace.model import (
        Changes,
        Classes,
        Flows,
        Metrics,
        Network,
        Observation,
        Offers,
        Overlay,
        Plan,
        Planner,
        Requests,
        Step,
        Steps,
    )

__version__ = "0.1.0"


class Verb(ModuleType):
    """A package that is also what it does: `from overlace import ingest; ingest(logs, "trace")`."""

    def __call__(self, *args: Any, **named: Any) -> Any:
        """Do it, on Spark."""
        from importlib import import_module

        name = self.__name__.rpartition(".")[2]
        return getattr(import_module(f"overlace.spark.{name}"), name)(*args, **named)


ingest.__class__ = Verb


def _draw(noun: object) -> str | None:
    """What a notebook shows: parts of the report, which is loaded then and not before."""
    from importlib import import_module

    html: str | None = import_module("overlace.report.notebook").noun_html(noun)
    return html


views.draw_with(_draw)

__all__ = [
    "Changes",
    "Classes",
    "Flows",
    "Metrics",
    "Network",
    "Observation",
    "Offers",
    "Overlay",
    "Plan",
    "Planner",
    "Requests",
    "Step",
    "Steps",
    "ingest",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from overlace import model

    return getattr(model, name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
