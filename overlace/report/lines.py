"""Pictures of one number against another: lines over steps, points in a plane."""

from __future__ import annotations

import math
from collections.abc import Sequence

from markupsafe import Markup

from overlace.report.figures import svg

Line = Sequence[tuple[float, float]]
"""Points from left to right."""


def gain_svg(judged: Line, own: Line, title: str, told: str) -> Markup:
    """What is left after so many steps: measured, with a dot at each point, and a lighter line beside it.

    A slider can move the mark. The axis begins where it is needed; its marks say where that is.
    """
    wide, high, left, foot, head = 400.0, 210.0, 46.0, 26.0, 12.0
    ticks = _ticks([y for _, y in (*judged, *own)])
    low, top, last = ticks[0], ticks[-1], max(judged[-1][0], 1.0)

    def at(x: float, y: float) -> tuple[float, float]:
        across = left + (wide - left - 12) * x / last
        return across, head + (high - head - foot) * (top - y) / (top - low)

    rule = Markup('<line class="grid" x1="{:.1f}" x2="{:.1f}" y1="{:.1f}" y2="{:.1f}"></line>')
    label = Markup('<text class="tick" x="{:.1f}" y="{:.1f}" style="text-anchor:{}">{}</text>')
    dot = Markup('<circle class="dot" cx="{:.1f}" cy="{:.1f}" r="2.5"><title>{:,.0f} steps: {:.1%}</title></circle>')
    path = Markup('<polyline class="{}" points="{}"></polyline>')
    parts = []
    for tick in ticks:
        height = at(0, tick)[1]
        parts += [rule.format(left, wide - 12, height, height), label.format(left - 6, height + 4, "end", _share(tick))]
    for kind, line in (("own", own), ("curve", judged)):
        parts.append(path.format(kind, " ".join("{:.1f},{:.1f}".format(*at(*point)) for point in line)))
    parts += [dot.format(*at(*point), *point) for point in judged]
    parts.append(Markup('<circle class="mark" cx="{:.1f}" cy="{:.1f}" r="6"></circle>').format(*at(*judged[-1])))
    parts.append(label.format(left, high - 6, "start", "0 steps"))
    parts.append(label.format(wide - 12, high - 6, "end", f"{last:,.0f} steps"))
    return svg(wide, high, title, told, parts)


def _ticks(shares: Sequence[float]) -> list[float]:
    """Three to six round shares that hold all of these."""
    low, top = min(shares), max(shares)
    step = next(s for s in (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.25, 0.5, math.inf) if top - low <= 4 * s)
    if step == math.inf:
        step = float(math.ceil((top - low) / 4))
    first, last = math.floor(low / step + 1e-9), math.ceil(top / step - 1e-9)
    return [step * i for i in range(first, max(last, first + 2) + 1)]


def _share(value: float) -> str:
    """In percent, with places only where they are needed."""
    return f"{round(100 * value, 1):g} %"


def curve_svg(shares: Sequence[float], title: str) -> Markup:
    """A falling line over the steps, with a mark that a slider can move; the cost before is the top."""
    wide, high, left, foot, head = 380.0, 160.0, 40.0, 24.0, 10.0
    top, low = max(1.0, *shares), min(0.0, *shares)
    across, room = (wide - left - 12) / max(1, len(shares) - 1), high - foot - head

    def at(k: int) -> tuple[float, float]:
        return left + k * across, head + room * (top - shares[k]) / (top - low)

    line = " ".join("{:.1f},{:.1f}".format(*at(k)) for k in range(len(shares)))
    parts = [
        Markup('<polyline class="curve" points="{}"></polyline>').format(line),
        Markup('<circle class="mark" cx="{:.1f}" cy="{:.1f}" r="5"></circle>').format(*at(len(shares) - 1)),
        Markup('<line class="axis" x1="{:.1f}" x2="{:.1f}" y1="{:.1f}" y2="{:.1f}"></line>').format(
            left, wide - 12, at_foot := head + room * top / (top - low), at_foot
        ),
    ]
    label = Markup('<text x="{:.1f}" y="{:.1f}" style="text-anchor:end">{}</text>')
    heights = [(share, head + room * (top - share) / (top - low)) for share in (top, 0.5 * top, 0.0)]
    parts += [label.format(left - 5, y + 4, f"{share:.0%}") for share, y in heights]
    parts.append(Markup('<text x="{:.1f}" y="{:.1f}">0 steps</text>').format(left, high - 6))
    parts.append(label.format(wide - 12, high - 6, len(shares) - 1))
    return svg(wide, high, title, f"It falls from 100% to {shares[-1]:.0%}.", parts)
