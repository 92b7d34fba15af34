"""The network as SVG: links as wide as their load, against another overlay what is new and what is gone."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from markupsafe import Markup

from overlace.arrays.jit import Floats
from overlace.report.layout import Layout, Links

FONT = 12.0


def overlay_svg(layout: Layout, links: Links, most: float, title: str, before: Links | None = None) -> Markup:
    """One overlay on the map, links as wide as their load; against another, what is new and what is gone."""
    loads, old = _sum_between(layout, links), _sum_between(layout, before) if before is not None else None
    parts = [
        Markup('<circle class="outline" cx="{:.1f}" cy="{:.1f}" r="{:.1f}"><title>{}</title></circle>').format(*outline)
        for outline in layout.outlines
    ]
    gone = sorted(set(old) - set(loads)) if old is not None else []
    parts += [_draw_link(layout, link, 1.2, "gone", f"{_ends(layout, link)}: no longer linked") for link in gone]
    for link, load in sorted(loads.items(), key=lambda item: (item[1], item[0])):
        kind = "new" if old is not None and link not in old else "link"
        wide = 0.8 + 11.2 * float(np.sqrt(load / most)) if most else 2.0
        messages = f": {load:,.0f} messages" if most else ""
        parts.append(_draw_link(layout, link, wide, kind, f"{_ends(layout, link)}{messages}"))
    for i, label in enumerate(layout.labels):
        dot = Markup('<circle class="mark" cx="{:.1f}" cy="{:.1f}" r="{:.1f}"><title>{}</title></circle>')
        parts.append(dot.format(layout.x[i], layout.y[i], layout.radius[i], label))
    parts += _draw_labels(layout, loads)
    text = f"{title}. {_describe(layout, loads, gone, old)}"
    svg = Markup('<svg class="network" viewBox="0 0 {:.0f} {:.0f}" role="img" aria-label="{}">{}</svg>')
    return svg.format(layout.wide, layout.high, text, Markup("").join(parts))


def _sum_between(layout: Layout, links: Links) -> dict[tuple[int, int], float]:
    """Loads between marks; links inside one are left out."""
    loads: dict[tuple[int, int], float] = {}
    for (a, b), load in links.items():
        i, j = sorted((int(layout.mark[a]), int(layout.mark[b])))
        if i != j:
            loads[i, j] = loads.get((i, j), 0.0) + load
    return loads


def _ends(layout: Layout, link: tuple[int, int]) -> str:
    return f"{layout.labels[link[0]]}–{layout.labels[link[1]]}"


def _draw_link(layout: Layout, link: tuple[int, int], wide: float, kind: str, tip: str) -> Markup:
    a, b = link
    bend = _bend(layout, a, b)
    x, y = (layout.x[a] + layout.x[b]) / 2 + bend[0], (layout.y[a] + layout.y[b]) / 2 + bend[1]
    line = Markup(
        '<path class="{}" d="M{:.1f} {:.1f}Q{:.1f} {:.1f} {:.1f} {:.1f}" stroke-width="{:.1f}"><title>{}</title></path>'
    )
    return line.format(kind, layout.x[a], layout.y[a], x, y, layout.x[b], layout.y[b], wide, tip)


def _bend(layout: Layout, a: int, b: int) -> Floats:
    """How far a link is pulled aside so that it does not seem to go through a mark that it only passes."""
    place = np.column_stack([layout.x, layout.y])
    others = np.delete(np.arange(len(place)), [a, b])
    along = place[b] - place[a]
    aside = np.array([-along[1], along[0]]) / max(float(np.hypot(*along)), 1e-9)
    t = np.linspace(0.04, 0.96, 24)[:, None]
    best, most = np.zeros(2), -np.inf
    for pull in (0, 16, -16, 32, -32, 56, -56, 90, -90):
        curve = place[a] + t * along + 2 * t * (1 - t) * pull * aside
        free = np.hypot(*(curve[:, None, :] - place[others][None, :, :]).transpose(2, 0, 1)) - layout.radius[others]
        outside = (
            max(float(np.maximum(8 - curve, curve - [layout.wide - 8, layout.high - 8]).max()), 0.0) if pull else 0.0
        )
        worth = min(float(free.min(initial=4.0)), 4.0) - outside - abs(pull) / 40  # a small bend for a little room
        if worth > most:
            best, most = pull * aside, worth
    return best


def _draw_labels(layout: Layout, loads: Links) -> list[Markup]:
    """Names wlayout they hide nothing: regions first, then the busiest marks; the others have theirs as a tip."""
    wanted = [(x, y, r, name) for x, y, r, name in layout.outlines]
    busy = np.zeros(len(layout.labels))
    for (a, b), load in loads.items():
        busy[a] += load
        busy[b] += load
    if not layout.outlines or len(layout.labels) <= 12:
        wanted += [
            (float(layout.x[i]), float(layout.y[i]), float(layout.radius[i]), layout.labels[i])
            for i in np.argsort(-busy, kind="stable").tolist()
        ]
    taken = [(x - r, y - r, x + r, y + r) for x, y, r in zip(layout.x, layout.y, layout.radius, strict=True)]
    rings = [(x - r, y - r, x + r, y + r) for x, y, r, _ in layout.outlines]
    found = []
    for x, y, r, name in wanted:
        half = 0.29 * FONT * len(name) + 2
        spots = ((x, y - r - 4), (x, y + r + FONT), (x + r + half + 2, y + 4), (x - r - half - 2, y + 4))
        boxes = [(at_x - half, at_y - FONT + 1, at_x + half, at_y + 3) for at_x, at_y in spots]
        inside = [b for b in boxes if b[0] >= 0 and b[1] >= 0 and b[2] <= layout.wide and b[3] <= layout.high]
        free = [box for box in inside if not _hides(box, taken)]
        free = [box for box in free if not _hides(box, rings)] or free
        if free:
            taken.append(free[0])
            at = (free[0][0] + half, free[0][3] - 3)
            found.append(Markup('<text x="{:.1f}" y="{:.1f}">{}</text>').format(*at, name))
    return found


Box = tuple[float, float, float, float]


def _hides(box: Box, others: Sequence[Box]) -> bool:
    return any(box[0] < b[2] and b[0] < box[2] and box[1] < b[3] and b[1] < box[3] for b in others)


def _describe(layout: Layout, loads: Links, gone: Sequence[tuple[int, int]], old: Links | None) -> str:
    """The picture in words."""
    top = sorted((link for link in loads if loads[link]), key=lambda link: (-loads[link], link))[:3]
    busiest = "; ".join(f"{_ends(layout, link)} {loads[link]:,.0f}" for link in top)
    text = f"{len(layout.labels)} marks, each a {layout.drawn}, joined by {len(loads)} links."
    text += f" Most messages go over {busiest}." if top else ""
    if old is not None:
        new = [_ends(layout, link) for link in sorted(set(loads) - set(old))]
        text += f" New links: {', '.join(new[:8]) or 'none'}."
        text += f" Links that are gone: {', '.join(_ends(layout, link) for link in gone[:8]) or 'none'}."
    return text
