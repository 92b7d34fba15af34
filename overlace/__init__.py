"""Overlace plans better overlays for distributed publish/subscribe systems, from their traffic.

    from overlace import Observation, Overlay, Regraft, PLANNERS
    result = overlace.optimize("trace", "run", budget=50)

The nouns are here, and the planners too: by class (`Regraft`, `Joint`, ...), and in `PLANNERS` by name. Importing this
starts no JVM, and loads nouns and planners when they are asked for: a command has to listen for signals before the
first slow import.
"""

import inspect
import types
import typing
from importlib import import_module

from overlace import ingest, views

if typing.TYPE_CHECKING:
    from overlace.catalog import PLANNERS
    from overlace.metrics import Metrics
    from overlace.model import (
        Changes,
        Classes,
        Flows,
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


class Verb(types.ModuleType):
    """A package that is also what it does: `from overlace import ingest; ingest(logs, "trace")`."""

    def __call__(self, *args: object, **named: object) -> typing.Any:
        """Do it."""
        return self._verb(*args, **named)

    @property
    def _verb(self) -> typing.Any:
        name = self.__name__.rpartition(".")[2]
        module = {"ingest": "spark.ingest", "optimize": "verbs"}[name]
        return getattr(import_module(f"overlace.{module}"), name)

    @property
    def __signature__(self) -> inspect.Signature:
        """What it takes."""
        return inspect.signature(self._verb)


for _module in (ingest, import_module("overlace.optimize")):  # what spark imports of this must not lead to optimize
    _module.__class__ = Verb


def _draw(noun: object) -> str | None:
    """What a notebook shows: parts of the report, which is loaded then and not before."""
    html: str | None = import_module("overlace.report.notebook").noun_html(noun)
    return html


views.draw_with(_draw)

__all__ = [
    "PLANNERS",
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
    "optimize",
    "read",
]


def __getattr__(name: str) -> typing.Any:
    """A noun or a planner, which are all that begins with a capital letter; or `read`."""
    if name == "read":
        return import_module("overlace.spark.read").read
    if name in __all__:
        module = {"PLANNERS": "catalog", "Metrics": "metrics"}.get(name, "model")
        return getattr(import_module(f"overlace.{module}"), name)
    planners = _planner_classes() if name[:1].isupper() else {}
    if name in planners:
        return planners[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_planner_classes()})


def _planner_classes() -> "dict[str, type[Planner]]":
    """The planners by class."""
    planners: dict[str, type[Planner]] = import_module("overlace.catalog").PLANNERS
    return {each.__name__: each for each in planners.values()}
