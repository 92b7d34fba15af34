"""The main job as Python has it: `overlace.optimize("trace", "run", budget=50)`.

Options are those of the command line: the fields of Limits and Goal, and the same checks.
"""

from __future__ import annotations

import inspect
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_type_hints

from overlace.errors import BadParameter
from overlace.limits import Goal, Limits, make_options
from overlace.model import Progress
from overlace.optimize.job import optimize as plan_and_judge
from overlace.optimize.result import Result
from overlace.report.page import write_report
from overlace.trace.store import Trace

if TYPE_CHECKING:
    from overlace.ingest.run import Ingested


def optimize(
    trace: str | Path | Trace | Ingested,
    run: str | Path,
    limits: Limits | None = None,
    goal: Goal | None = None,
    *,
    force: bool = False,
    progress: Progress | None = None,
    **options: object,
) -> Result:
    """Plan from a trace, judge the plan on held-out traffic, and write plan, answer and report into RUN.

    Options are named (`budget=50`), or come as Limits and Goal. NoChangeRecommended, with its `result`, where no plan
    is worth it; `force` replaces what is in the run folder.
    """
    if options and (limits or goal):
        raise BadParameter(f"{next(iter(options))}: give options by name, or limits and goal, not both")
    own: list[Any] = make_options((Limits, Goal), options)
    opened = getattr(trace, "trace", trace)
    path = opened.path if isinstance(opened, Trace) else str(trace)
    return plan_and_judge(
        path, Path(run), limits or own[0], goal or own[1], force=force, progress=progress, show=write_report
    )


def _signature() -> inspect.Signature:
    """What `optimize` takes, option by option."""
    hints = {name: hint for kind in (Limits, Goal) for name, hint in get_type_hints(kind).items()}
    own = [each for each in inspect.signature(optimize).parameters.values() if each.kind is not each.VAR_KEYWORD]
    named = [
        inspect.Parameter(each.name, inspect.Parameter.KEYWORD_ONLY, default=each.default, annotation=hints[each.name])
        for kind in (Limits, Goal)
        for each in fields(kind)
    ]
    return inspect.Signature([*own, *named], return_annotation=Result)


optimize.__signature__ = _signature()  # type: ignore[attr-defined]
