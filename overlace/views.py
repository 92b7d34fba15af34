"""How notebooks show the nouns: whoever can draw them says so here, and is asked when one is shown. Loads nothing."""

from __future__ import annotations

from collections.abc import Callable

Painter = Callable[[object], str | None]
"""HTML of an object, or None where its repr will do."""

_painters: list[Painter] = []


def draw_with(painter: Painter) -> None:
    """Let notebooks show what this makes of an object."""
    _painters[:] = [painter]


def draw(noun: object) -> str | None:
    """HTML of an object; None if nobody draws it."""
    return _painters[0](noun) if _painters else None
