"""A broken law, and the errors of a planner's own code as one: what was found, what was expected."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import FrozenInstanceError

from overlace.errors import BadOverlay, BadPlan, OverlaceError
from overlace.model import Planner


class Broken(OverlaceError, AssertionError):
    """A planner broke a law."""


class BrokenOverlay(Broken, BadOverlay):
    """A planner led to an overlay that is none."""


def hold(law: bool, what: str) -> None:
    """Raise Broken, saying what, unless the law holds."""
    if not law:
        raise Broken(what)


@contextmanager
def calling(planner: Planner, method: str, expected: str) -> Iterator[None]:
    """Errors of a planner's own code as a broken law; what it says about the data passes."""
    try:
        yield
    except BadOverlay as error:
        raise BrokenOverlay(f"{method} raised BadOverlay: {error}; expected {expected}") from error
    except FrozenInstanceError as error:
        raise Broken(
            f"{method} sets a field of the planner ({error}); expected no state: use local variables"
        ) from error
    except Exception as error:
        if isinstance(error, OverlaceError) and not isinstance(error, BadPlan):
            raise
        frames = traceback.extract_tb(error.__traceback__)
        module = sys.modules.get(type(planner).__module__)
        own = [each for each in frames if each.filename == getattr(module, "__file__", None)]
        at = (own or frames)[-1]
        raise Broken(
            f"{method} raised {type(error).__name__} at {at.filename.rsplit('/', 1)[-1]}:{at.lineno}: "
            f"{first_line(error)}; expected {expected}"
        ) from error


@contextmanager
def valid_overlay(what: str) -> Iterator[None]:
    """An overlay that is none, or changes that do not fit it, as a broken law."""
    try:
        yield
    except (BadOverlay, BadPlan) as error:
        raise BrokenOverlay(f"{what} is not valid: {error}") from error


def first_line(error: Exception) -> str:
    """What an error says, in one line."""
    text = " ".join(str(error).split())
    hint = " (the arrays of an observation are not written to: copy them first)" if "read-only" in text else ""
    return text[:300] + hint


def listed(names: Iterable[str]) -> str:
    """Names in order, with commas."""
    return ", ".join(sorted(names))
