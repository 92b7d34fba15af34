"""What can go wrong, each with the exit code that the command line gives it.

An error says what was found, what was expected, and what to do.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


class OverlaceError(Exception):
    """Anything that Overlace can explain to its user in one line."""

    exit_code = 1


class BadOverlay(OverlaceError):
    """A relation that is not what its facet says: a tree with a cycle, a client with two homes."""


class BadObservation(OverlaceError):
    """Columns of unequal length, ids out of range, a network that cannot be joined."""


class BadPlan(OverlaceError):
    """A plan that does not fit the overlay it is applied to, or a plan file that was altered."""


class BadTrace(OverlaceError):
    """A trace or a run folder that is not whole, or of a schema that this version does not know."""


class NotObserved(OverlaceError):
    """A planner lacks data; the message names the table that would bring it."""


class NothingBetter(OverlaceError):
    """Nothing beats what is there, or the limits cannot be met: said plainly, with the best found."""

    exit_code = 3


class Unknown(OverlaceError):
    """A name that nobody has: planner, field, key, client. Lists the nearest that exist."""

    exit_code = 2

    def __init__(self, kind: str, name: str, known: Iterable[str]) -> None:
        names = list(known)
        near = get_close_matches(name, names, n=3, cutoff=0.4)
        hint = f"Nearest: {', '.join(near)}." if near else f"There are: {', '.join(names[:12]) or 'none'}."
        super().__init__(f"no {kind} is called {name!r}. {hint}")

    def __reduce__(self) -> tuple[object, ...]:
        return (_unknown, self.args)


def _unknown(message: str) -> Unknown:
    """An Unknown again from its message, after pickling."""
    made = Unknown.__new__(Unknown)
    Exception.__init__(made, message)
    return made


class BadParameter(OverlaceError):
    """A planner's field or a command's option with a value outside its range."""

    exit_code = 2
