"""Pictures of an overlay: brokers placed so that near means cheap, links as wide as their load."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import altair as alt
import numpy as np
import scipy.sparse
import scipy.sparse.csgraph
from markupsafe import Markup

from overlace.arrays.jit import Floats, Ints
from overlace.arrays.trees import subtree_links
from overlace.model import Names, Network, Observation, Overlay, name_of
from overlace.report.sheets import visible

Chart = Any

INK, LOAD, PAPER = "#1b2733", "#d1495b", "#ffffff"


def broker_points(network: Network) -> Floats:
    """A place in the plane for each broker, from the costs of the links: classical scaling."""
    n = network.brokers
    if n < 3 or len(network.links) == 0:
        turn = 2 * np.pi * np.arange(n) / max(n, 1)
        return np.column_stack([np.cos(turn), np.sin(turn)])
    graph = scipy.sparse.coo_array((network.link_cost, network.links.T), shape=(n, n))
    apart = scipy.sparse.csgraph.shortest_path(graph.tocsr(), directed=False)
    far = apart[np.isfinite(apart)].max()
    apart = np.where(np.isfinite(apart), apart, 1.5 * far)
    centre = np.eye(n) - 1 / n
    values, vectors = np.linalg.eigh(-centre @ apart**2 @ centre / 2)
    points = vectors[:, -2:] * np.sqrt(np.maximum(values[-2:], 0))
    points *= np.where(points[np.abs(points).argmax(axis=0), [0, 1]] < 0, -1, 1)  # same picture every time
    return np.asarray(points, dtype=np.float64)


def link_loads(observation: Observation, overlay: Overlay) -> Floats:
    """Messages that cross each link of the tree."""
    classes = observation.classes
    tree = overlay.rooted(observation.network.brokers)
    homes = overlay.homes(observation.clients)[classes.members]
    placed = homes >= 0
    bounds = np.append(0, np.cumsum(placed))[classes.start]
    start, node = subtree_links(tree, bounds, homes[placed])
    demand = np.repeat(classes.demand, np.diff(start))
    loads = np.bincount(tree.link[node], weights=demand, minlength=len(overlay.tree))
    return loads.astype(np.float64)


def tree_picture(observation: Observation, panels: dict[str, Overlay], names: Names | None = None) -> Chart:
    """One panel an overlay, side by side: the broker tree, links as wide as their load."""
    points = broker_points(observation.network)
    most = max(float(link_loads(observation, each).max(initial=1.0)) for each in panels.values())
    charts = [_tree_panel(observation, overlay, title, points, most, names) for title, overlay in panels.items()]
    return alt.hconcat(*charts, background=PAPER).configure_view(stroke=None)


def _tree_panel(
    observation: Observation, overlay: Overlay, title: str, points: Floats, most: float, names: Names | None
) -> Chart:
    loads = link_loads(observation, overlay)
    links = [
        {"x": points[a, 0], "y": points[a, 1], "x2": points[b, 0], "y2": points[b, 1], "load": float(load)}
        for (a, b), load in zip(overlay.tree.tolist(), loads, strict=True)
    ]
    brokers = [{"x": x, "y": y, "name": name_of("broker", b, names)} for b, (x, y) in enumerate(points.tolist())]
    x = alt.X("x:Q", axis=None, scale=alt.Scale(zero=False, padding=24))
    y = alt.Y("y:Q", axis=None, scale=alt.Scale(zero=False, padding=18))
    width = alt.StrokeWidth("load:Q", scale=alt.Scale(type="sqrt", domain=[0, most], range=[0.8, 14]), legend=None)
    lines = _rows(links).mark_rule(color=LOAD, opacity=0.75, strokeCap="round")
    dots = _rows(brokers).mark_circle(color=INK, size=60, opacity=1)
    labels = _rows(brokers).mark_text(dy=-9, fontSize=10, color=INK)
    layer = alt.layer(
        lines.encode(x=x, y=y, x2="x2:Q", y2="y2:Q", strokeWidth=width),
        dots.encode(x=x, y=y),
        labels.encode(x=x, y=y, text="name:N"),
    )
    return layer.properties(width=420, height=340, title=alt.TitleParams(title, color=INK, fontSize=14))


def _rows(values: list[dict[str, Any]]) -> Chart:
    """A chart of plain rows; altair wants no data frame."""
    return alt.Chart(alt.InlineData(values=values))


def save(chart: Chart, path: Path) -> None:
    """Write an SVG or PNG, by the ending of its name; no browser is needed."""
    chart.save(str(path), scale_factor=2)


# --- pictures for a page: inline SVG that takes its colours from the page ---------------------------------

MOST_MARKS = 40
"""Marks in one picture; of more brokers, regions are drawn, or the busiest with what lies behind them."""
MOST_LETTERS = 22
MOST_SCALED = 1000
"""Brokers that are placed by the costs of their links; the work grows with the cube."""
WIDE, HIGH = 420.0, 330.0
FONT = 12.0

Links = Mapping[tuple[int, int], float]
"""Messages over each link."""


@dataclass(frozen=True)
class Map:
    """Marks in the plane: brokers, or groups of them; the same for every overlay of one network."""

    mark: Ints  # of each broker
    x: Floats
    y: Floats
    radius: Floats
    labels: Sequence[str]
    outlines: Sequence[tuple[float, float, float, str]]  # of regions: x, y, radius, name
    wide: float
    high: float
    drawn: str  # what a mark is, in words
    near: bool  # whether near means cheap to link; else near means near on the tree


def overlay_map(
    network: Network, links: Links, busy: Mapping[int, float], names: Names | None, region_name: Callable[[int], str]
) -> Map:
    """Where everything is drawn: brokers inside their regions, or groups where there are too many."""
    every = np.arange(network.brokers)
    regions, region = np.unique(network.region, return_inverse=True)
    called = [visible(name_of("broker", b, names), MOST_LETTERS) for b in range(network.brokers)]
    if network.brokers <= MOST_MARKS:
        if 1 < len(regions) < network.brokers:
            return _inside_regions(network, region, [_short(region_name(int(r))) for r in regions], called, links)
        return _marks(network, every, called, links, "broker")
    if 1 < len(regions) <= MOST_MARKS:
        return _marks(network, region, [_short(region_name(int(r))) for r in regions], links, "region")
    load = np.zeros(network.brokers)
    load[list(busy)] = list(busy.values())
    chosen = np.sort(np.argsort(-load, kind="stable")[:MOST_MARKS])
    mark = _nearest(network.brokers, links, chosen)
    behind = np.bincount(mark, minlength=len(chosen)) - 1
    labels = [called[b] + (f" +{n}" if n else "") for b, n in zip(chosen.tolist(), behind.tolist(), strict=True)]
    return _marks(network, mark, labels, links, "broker with those behind it")


def _short(name: str) -> str:
    return visible(name, MOST_LETTERS)


def _places(network: Network, mark: Ints, marks: int, links: Links) -> tuple[Floats, bool]:
    """(where each mark belongs, whether near means cheap): by the costs of links if a plane can show them."""
    if network.brokers <= MOST_SCALED and len(network.links) and np.ptp(network.link_cost) > 0:
        points = broker_points(network)
        apart = np.hypot(*(points[network.links[:, 0]] - points[network.links[:, 1]]).T)
        if np.ptp(apart) > 0 and np.corrcoef(apart, network.link_cost)[0, 1] >= 0.6:
            size = np.bincount(mark, minlength=marks)
            return np.column_stack([np.bincount(mark, points[:, i], marks) / size for i in (0, 1)]), True
    ends = {(min(mark[a], mark[b]), max(mark[a], mark[b])) for a, b in links if mark[a] != mark[b]}
    return _around(marks, sorted((int(a), int(b)) for a, b in ends)), False


def _around(marks: int, links: Sequence[tuple[int, int]]) -> Floats:
    """A tree drawn around its centre: a mark's distance is its depth, its wedge as wide as what hangs from it."""
    near: list[list[int]] = [[] for _ in range(marks)]
    for a, b in links:
        near[a].append(b)
        near[b].append(a)
    order, parent, depth = min((_walk(near, root) for root in range(marks)), key=lambda walk: max(walk[2]))
    leaves = [0] * marks
    for v in reversed(order):
        leaves[v] = max(leaves[v], 1)
        if parent[v] >= 0:
            leaves[parent[v]] += leaves[v]
    begin = [0.0] * marks
    places = np.zeros((marks, 2))
    for v in order:
        turn = 2 * np.pi * (begin[v] + leaves[v] / 2) / leaves[order[0]]
        places[v] = depth[v] * np.array([np.cos(turn), np.sin(turn)])
        at = begin[v]
        for w in near[v]:
            if parent[w] == v:
                begin[w], at = at, at + leaves[w]
    return places


def _walk(near: Sequence[Sequence[int]], root: int) -> tuple[list[int], list[int], list[int]]:
    """(order, parent, depth) of a walk outwards from a root; what it does not reach hangs from the root."""
    parent, depth = [-2] * len(near), [1] * len(near)
    parent[root], depth[root] = -1, 0
    order = [root]
    for v in order:
        for w in near[v]:
            if parent[w] == -2:
                parent[w], depth[w] = v, depth[v] + 1
                order.append(w)
    lost = [v for v in range(len(near)) if parent[v] == -2]
    return order + lost, [-1 if up == -2 else up for up in parent], depth


def _nearest(brokers: int, links: Links, chosen: Ints) -> Ints:
    """For each broker the place of the nearest chosen one, over the links."""
    near: dict[int, list[int]] = {}
    for a, b in sorted(links):
        near.setdefault(a, []).append(b)
        near.setdefault(b, []).append(a)
    mark = np.zeros(brokers, dtype=np.int64)
    queue = chosen.tolist()
    seen = set(queue)
    mark[chosen] = np.arange(len(chosen))
    for broker in queue:
        for other in near.get(broker, ()):
            if other not in seen:
                seen.add(other)
                mark[other] = mark[broker]
                queue.append(other)
    return mark


def _marks(network: Network, mark: Ints, labels: Sequence[str], links: Links, drawn: str) -> Map:
    """One mark a group, at the mean of its brokers."""
    places, near = _places(network, mark, len(labels), links)
    radius = np.minimum(4 + 2 * np.sqrt(np.bincount(mark, minlength=len(labels))), 14)
    x, y, wide, high = _spread(places, radius + 9)
    return Map(mark, x, y, radius, labels, (), wide, high, drawn, near)


def _inside_regions(network: Network, region: Ints, regions: Sequence[str], labels: Sequence[str], links: Links) -> Map:
    """Brokers in the circles of their regions, the one with most links in the middle."""
    count = np.bincount(region, minlength=len(regions))
    ring = np.where(count > 1, np.maximum(17, (count - 1) * 15 / (2 * np.pi)), 0.0)
    places, near = _places(network, region, len(regions), links)
    cx, cy, wide, high = _spread(places, ring + 22)
    degree = np.bincount(np.array([*links], dtype=np.int64).reshape(-1), minlength=network.brokers)
    x, y = cx[region].copy(), cy[region].copy()
    for r in range(len(regions)):
        members = np.flatnonzero(region == r)
        if len(members) == 2:
            x[members] += np.array([-0.5, 0.5]) * ring[r]
            continue
        around = members[members != members[degree[members].argmax()]]
        turn = 2 * np.pi * (np.arange(len(around)) + 0.25) / max(len(around), 1)
        x[around] += ring[r] * np.cos(turn)
        y[around] += ring[r] * np.sin(turn)
    outlines = [(float(cx[r]), float(cy[r]), float(ring[r] + 12), regions[r]) for r in range(len(regions))]
    radius = np.full(network.brokers, 4.5)
    return Map(np.arange(network.brokers), x, y, radius, labels, outlines, wide, high, "broker", near)


def _spread(points: Floats, room: Floats) -> tuple[Floats, Floats, float, float]:
    """(x, y, width, height): the points on the paper, pushed apart until each has its room."""
    grow = max(1.0, float(np.sqrt(np.sum(np.pi * room**2) / (0.45 * WIDE * HIGH))))
    paper = np.array([WIDE, HIGH]) * grow
    turn = np.arange(len(points)) * 2.399963  # the golden angle: no two points alike
    spot = points - points.min(axis=0, initial=np.inf)
    span = np.maximum(np.ptp(points, axis=0), 1e-9) if len(points) else np.ones(2)
    edge = float(room.max(initial=0.0)) + 4
    scale = (paper - 2 * edge) / span
    spot = spot * np.minimum(scale, 2.5 * scale.min())
    spot += (paper - np.ptp(spot, axis=0)) / 2 - spot.min(axis=0)
    spot += 0.5 * np.column_stack([np.cos(turn), np.sin(turn)])
    least = room[:, None] + room[None, :]
    for _ in range(400):
        apart = spot[:, None, :] - spot[None, :, :]
        far = np.hypot(apart[..., 0], apart[..., 1])
        np.fill_diagonal(far, np.inf)
        short = np.maximum(least - far, 0)
        if not (short > 0.5).any():
            break
        spot += 0.3 * (apart / np.maximum(far, 1e-9)[..., None] * short[..., None]).sum(axis=1)
        spot = np.clip(spot, (room + 2)[:, None] + [0, 8], paper - (room + 2)[:, None])
    return spot[:, 0], spot[:, 1], float(paper[0]), float(paper[1])


def overlay_svg(here: Map, links: Links, most: float, title: str, before: Links | None = None) -> Markup:
    """One overlay on the map, links as wide as their load; against another, what is new and what is gone."""
    loads, old = _between(here, links), _between(here, before) if before is not None else None
    parts = [
        Markup('<circle class="region" cx="{:.1f}" cy="{:.1f}" r="{:.1f}"><title>{}</title></circle>').format(*outline)
        for outline in here.outlines
    ]
    gone = sorted(set(old) - set(loads)) if old is not None else []
    parts += [_line(here, link, 1.2, "gone", f"{_ends(here, link)}: no longer linked") for link in gone]
    for link, load in sorted(loads.items(), key=lambda item: (item[1], item[0])):
        kind = "new" if old is not None and link not in old else "link"
        wide = 0.8 + 11.2 * float(np.sqrt(load / most)) if most else 0.8
        parts.append(_line(here, link, wide, kind, f"{_ends(here, link)}: {load:,.0f} messages"))
    for i, label in enumerate(here.labels):
        dot = Markup('<circle class="mark" cx="{:.1f}" cy="{:.1f}" r="{:.1f}"><title>{}</title></circle>')
        parts.append(dot.format(here.x[i], here.y[i], here.radius[i], label))
    parts += _labels(here, loads)
    return svg(here.wide, here.high, title, _told(here, loads, gone, old), parts)


def _between(here: Map, links: Links) -> dict[tuple[int, int], float]:
    """Loads between marks; links inside one are left out."""
    loads: dict[tuple[int, int], float] = {}
    for (a, b), load in links.items():
        i, j = sorted((int(here.mark[a]), int(here.mark[b])))
        if i != j:
            loads[i, j] = loads.get((i, j), 0.0) + load
    return loads


def _ends(here: Map, link: tuple[int, int]) -> str:
    return f"{here.labels[link[0]]}–{here.labels[link[1]]}"


def _line(here: Map, link: tuple[int, int], wide: float, kind: str, tip: str) -> Markup:
    a, b = link
    bend = _bend(here, a, b)
    x, y = (here.x[a] + here.x[b]) / 2 + bend[0], (here.y[a] + here.y[b]) / 2 + bend[1]
    line = Markup(
        '<path class="{}" d="M{:.1f} {:.1f}Q{:.1f} {:.1f} {:.1f} {:.1f}" stroke-width="{:.1f}"><title>{}</title></path>'
    )
    return line.format(kind, here.x[a], here.y[a], x, y, here.x[b], here.y[b], wide, tip)


def _bend(here: Map, a: int, b: int) -> Floats:
    """How far a link is pulled aside so that it does not seem to go through a mark that it only passes."""
    place = np.column_stack([here.x, here.y])
    others = np.delete(np.arange(len(place)), [a, b])
    along = place[b] - place[a]
    aside = np.array([-along[1], along[0]]) / max(float(np.hypot(*along)), 1e-9)
    t = np.linspace(0.04, 0.96, 24)[:, None]
    best, most = np.zeros(2), -np.inf
    for pull in (0, 16, -16, 32, -32, 56, -56, 90, -90):
        curve = place[a] + t * along + 2 * t * (1 - t) * pull * aside
        free = np.hypot(*(curve[:, None, :] - place[others][None, :, :]).transpose(2, 0, 1)) - here.radius[others]
        outside = max(float(np.maximum(8 - curve, curve - [here.wide - 8, here.high - 8]).max()), 0.0) if pull else 0.0
        worth = min(float(free.min(initial=4.0)), 4.0) - outside - abs(pull) / 40  # a small bend for a little room
        if worth > most:
            best, most = pull * aside, worth
    return best


def _labels(here: Map, loads: Links) -> list[Markup]:
    """Names where they hide nothing: regions first, then the busiest marks; the others have theirs as a tip."""
    wanted = [(x, y, r, name) for x, y, r, name in here.outlines]
    busy = np.zeros(len(here.labels))
    for (a, b), load in loads.items():
        busy[a] += load
        busy[b] += load
    if not here.outlines or len(here.labels) <= 12:
        wanted += [
            (float(here.x[i]), float(here.y[i]), float(here.radius[i]), here.labels[i])
            for i in np.argsort(-busy, kind="stable").tolist()
        ]
    taken = [(x - r, y - r, x + r, y + r) for x, y, r in zip(here.x, here.y, here.radius, strict=True)]
    rings = [(x - r, y - r, x + r, y + r) for x, y, r, _ in here.outlines]
    found = []
    for x, y, r, name in wanted:
        half = 0.29 * FONT * len(name) + 2
        spots = ((x, y - r - 4), (x, y + r + FONT), (x + r + half + 2, y + 4), (x - r - half - 2, y + 4))
        boxes = [(at_x - half, at_y - FONT + 1, at_x + half, at_y + 3) for at_x, at_y in spots]
        inside = [b for b in boxes if b[0] >= 0 and b[1] >= 0 and b[2] <= here.wide and b[3] <= here.high]
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


def _told(here: Map, loads: Links, gone: Sequence[tuple[int, int]], old: Links | None) -> str:
    """The picture in words."""
    top = sorted(loads, key=lambda link: (-loads[link], link))[:3]
    busiest = "; ".join(f"{_ends(here, link)} {loads[link]:,.0f}" for link in top)
    told = f"{len(here.labels)} marks, each a {here.drawn}, joined by {len(loads)} links."
    told += f" Most messages go over {busiest}." if top else ""
    if old is not None:
        new = [_ends(here, link) for link in sorted(set(loads) - set(old))]
        told += f" New links: {', '.join(new[:8]) or 'none'}."
        told += f" Links that are gone: {', '.join(_ends(here, link) for link in gone[:8]) or 'none'}."
    return told


def bars_svg(
    labels: Sequence[str],
    series: Sequence[Sequence[float]],
    names: Sequence[str],
    title: str,
    axis: str,
    *,
    at_edges: bool = False,
) -> Markup:
    """Bars of shares side by side, one colour a series; labels at the bars or at their edges."""
    wide, high, left, foot, head = 380.0, 214.0, 36.0, 44.0, 10.0
    top = max((max(values, default=0.0) for values in series), default=0.0) or 1.0
    n, room = max(len(values) for values in series), high - foot - head
    slot = (wide - left - 8) / max(n, 1)
    bar = slot * 0.84 / len(series)
    parts = []
    for share in _ticks(top):
        y = high - foot - room * share / top
        parts.append(Markup('<line class="grid" x1="{}" x2="{}" y1="{:.1f}" y2="{:.1f}"/>').format(left, wide, y, y))
        text = Markup('<text class="tick end" x="{}" y="{:.1f}">{:g} %</text>')
        parts.append(text.format(left - 4, y + 4, round(100 * share, 6)))
    for s, values in enumerate(series):
        for i, share in enumerate(values):
            x, tall = left + i * slot + 0.08 * slot + s * bar, room * share / top
            tip = f"{names[s]}, {_bin_name(labels, i, at_edges)}: {100 * share:.1f} %"
            rect = Markup(
                '<rect class="s{}" x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}"><title>{}</title></rect>'
            )
            parts.append(rect.format(s, x, high - foot - tall, max(bar - 0.6, 0.6), tall, tip))
    every = max(1, -(-sum(map(len, labels)) // 34))
    for i, label in enumerate(labels):
        if i % every == 0:
            x = left + (i + (0 if at_edges else 0.5)) * slot
            parts.append(
                Markup('<text class="tick" x="{:.1f}" y="{:.1f}">{}</text>').format(x, high - foot + 18, label)
            )
    parts.append(Markup('<text class="tick" x="{:.1f}" y="{:.1f}">{}</text>').format((wide + left) / 2, high - 8, axis))
    told = ". ".join(
        f"{name}: "
        + ", ".join(f"{_bin_name(labels, i, at_edges)} {100 * v:.1f} %" for i, v in enumerate(values) if v > 0)
        for name, values in zip(names, series, strict=True)
    )
    return svg(wide, high, title, f"{axis}. {told}.", parts)


def _bin_name(labels: Sequence[str], i: int, at_edges: bool) -> str:
    return f"{labels[i]} to {labels[i + 1]}" if at_edges else labels[i]


def _ticks(top: float) -> list[float]:
    """Two to five round shares up to the top."""
    power = 10.0 ** np.floor(np.log10(top))
    step = next(s * power for s in (0.2, 0.25, 0.5, 1.0, 2.0) if top / (s * power) <= 5)
    return [float(step * i) for i in range(int(top / step + 1e-9) + 1)]


def svg(wide: float, high: float, title: str, told: str, parts: Sequence[Markup]) -> Markup:
    """An image with its text alternative; colours and fonts are the page's."""
    made = Markup('<svg viewBox="0 0 {:.0f} {:.0f}" role="img" aria-label="{}">{}</svg>')
    return made.format(wide, high, f"{title}. {told}", Markup("").join(parts))
