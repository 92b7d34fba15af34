"""How a trace was recorded from a running network, in words for whoever reads figures of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def describe_recording(notes: Mapping[str, Any]) -> list[str]:
    """What a reader must know of a recorded trace, a line each; nothing of other traces.

    `notes` are those of the trace: {"recorded": {"how": "counted" | "traced" | "estimated", ...}}.
    """
    about = notes.get("recorded")
    if not isinstance(about, Mapping):
        return []
    how, lines = about.get("how"), []
    if how == "estimated":
        lines.append(
            "flows are estimated from counters: brokers say how much each client sent and each filter received; who "
            f"sent what to whom is fitted{_between(about)}"
        )
    if how == "traced":
        messages, weight, incomplete = (_number(about.get(key)) for key in ("messages", "weight", "incomplete"))
        share = _number(about.get("share"))
        weight = weight or (round(1 / share) if share else 1)
        if weight > 1:
            lines.append(f"{messages:,.0f} messages were traced, each stands for {weight:,.0f}")
        if incomplete:
            lines.append(f"{incomplete:,.0f} messages are left out: not all of their way was traced")
    if left := _number(about.get("not_counted")):
        lines.append(f"what {left:,.0f} clients publish is not in the trace: they do not use overlace.live.client")
    return lines


def _between(about: Mapping[str, Any]) -> str:
    spread = _number(about.get("spread"))
    return f"; two halves of the recording differ in {spread:.0%} of the messages" if spread else ""


def _number(value: object) -> float:
    """A number as the notes have it; 0 for what is none."""
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) and value > 0 else 0.0
