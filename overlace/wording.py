"""Numbers in words, alike wherever people read them. Loads nothing, so that commands start at once."""

from __future__ import annotations


def amount(value: float) -> str:
    """A number for people: whole from 1,000 on, else four digits."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def percent(saved: float) -> str:
    """A share that is saved, in words."""
    return f"{-saved:.1%} more" if saved < 0 else f"{saved:.1%} less"


def counted(number: int, one: str, many: str) -> str:
    """So many things."""
    return f"{number:,} {one if number == 1 else many}"


def left(share: float, seconds: float) -> str:
    """How long the rest takes if it goes on as it did; nothing while that cannot be told."""
    rest = seconds * (1 - share) / share if share > 0.02 and seconds >= 1 else 0
    return f", {rest:,.0f} s left" if rest >= 1 else ""
