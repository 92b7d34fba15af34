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
