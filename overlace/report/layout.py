"""The network as a picture: where brokers are drawn, links as wide as their load, and what is new and what is gone.

Near means cheap to link where a plane can show that, else near on the tree.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse
import scipy.sparse.csgraph
from markupsafe import Markup

from overlace.arrays.jit import Floats, Ints
from overlace.arrays.trees import subtree_links
from overlace.model import Network, Observation, Overlay
from overlace.report.naming import Naming
from overlace.report.sheets import visible

MOST_MARKS = 40
"""Marks in one picture; of more brokers, regions are drawn, or the busiest with what lies behind them."""
MOST_LETTERS = 22
MOST_SCALED = 1000
"""Brokers that are placed by the costs of their links; the work grows with the cube."""
WIDE, HIGH = 420.0, 330.0

Links = Mapping[tuple[int, int], float]
"""Messages over each link."""


@dataclass(frozen=True)
class Layout:
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


def place_brokers(network: Network) -> Floats:
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


def lay_out(naming: Naming, links: Links, loads: Mapping[int, float]) -> Layout:
    """Where everything is drawn: brokers inside their regions, or groups where there are too many."""
    network = naming.network
    regions, region = np.unique(network.region, return_inverse=True)
    brokers = [visible(naming.broker(b), MOST_LETTERS) for b in range(network.brokers)]
    few = regions if len(regions) <= MOST_MARKS else ()
    region_names = [visible(naming.region(int(r)), MOST_LETTERS) for r in few]
    if network.brokers <= MOST_MARKS:
        if 1 < len(regions) < network.brokers:
            return _place_in_regions(network, region, region_names, brokers, links)
        return _place_groups(network, np.arange(network.brokers), brokers, links, "broker")
    if 1 < len(regions) <= MOST_MARKS:
        return _place_groups(network, region, region_names, links, "region")
    load = np.zeros(network.brokers)
    load[list(loads)] = list(loads.values())
    chosen = np.sort(np.argsort(-load, kind="stable")[:MOST_MARKS])
    mark = _find_nearest(network.brokers, links, chosen)
    behind = np.bincount(mark, minlength=len(chosen)) - 1
    labels = [brokers[b] + (f" +{n}" if n else "") for b, n in zip(chosen.tolist(), behind.tolist(), strict=True)]
    return _place_groups(network, mark, labels, links, "broker with those behind it")


def _find_places(network: Network, mark: Ints, marks: int, links: Links) -> tuple[Floats, bool]:
    """(where each mark belongs, whether near means cheap): by the costs of links if a plane can show them."""
    if network.brokers <= MOST_SCALED and len(network.links) and np.ptp(network.link_cost) > 0:
        points = place_brokers(network)
        apart = np.hypot(*(points[network.links[:, 0]] - points[network.links[:, 1]]).T)
        if np.ptp(apart) > 0 and np.corrcoef(apart, network.link_cost)[0, 1] >= 0.6:
            size = np.bincount(mark, minlength=marks)
            return np.column_stack([np.bincount(mark, points[:, i], marks) / size for i in (0, 1)]), True
    ends = {(min(mark[a], mark[b]), max(mark[a], mark[b])) for a, b in links if mark[a] != mark[b]}
    return _draw_around(marks, sorted((int(a), int(b)) for a, b in ends)), False


def _draw_around(marks: int, links: Sequence[tuple[int, int]]) -> Floats:
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


def _find_nearest(brokers: int, links: Links, chosen: Ints) -> Ints:
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


def _place_groups(network: Network, mark: Ints, labels: Sequence[str], links: Links, drawn: str) -> Layout:
    """One mark a group, at the mean of its brokers."""
    places, near = _find_places(network, mark, len(labels), links)
    radius = np.minimum(4 + 2 * np.sqrt(np.bincount(mark, minlength=len(labels))), 14)
    x, y, wide, high = _spread(places, radius + 9)
    return Layout(mark, x, y, radius, labels, (), wide, high, drawn, near)


def _place_in_regions(
    network: Network, region: Ints, regions: Sequence[str], labels: Sequence[str], links: Links
) -> Layout:
    """Brokers in the circles of their regions, the one with most links in the middle."""
    count = np.bincount(region, minlength=len(regions))
    ring = np.where(count > 1, np.maximum(17, (count - 1) * 15 / (2 * np.pi)), 0.0)
    places, near = _find_places(network, region, len(regions), links)
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
    return Layout(np.arange(network.brokers), x, y, radius, labels, outlines, wide, high, "broker", near)


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


# --- the picture -----------------------------------------------------------------------------------------------------

FONT = 12.0


def overlay_svg(
    layout: Layout, links: Links, most: float, title: str, before: Links | None = None, scale: bool = False
) -> Markup:
    """One overlay on the map, links as wide as their load; against another, what is new and what is gone.

    With a scale, lines below say how wide how many messages are.
    """
    loads, old = _sum_between(layout, links), _sum_between(layout, before) if before is not None else None
    parts = [
        Markup('<circle class="outline" cx="{:.1f}" cy="{:.1f}" r="{:.1f}"><title>{}</title></circle>').format(*outline)
        for outline in layout.outlines
    ]
    gone = sorted(set(old) - set(loads)) if old is not None else []
    parts += [_draw_link(layout, link, 1.2, "gone", f"{_ends(layout, link)}: no longer linked") for link in gone]
    for link, load in sorted(loads.items(), key=lambda item: (item[1], item[0])):
        kind = "new" if old is not None and link not in old else "link"
        wide = _width(load, most)
        messages = f": {load:,.0f} messages" if most else ""
        parts.append(_draw_link(layout, link, wide, kind, f"{_ends(layout, link)}{messages}"))
    for i, label in enumerate(layout.labels):
        dot = Markup('<circle class="mark" cx="{:.1f}" cy="{:.1f}" r="{:.1f}"><title>{}</title></circle>')
        parts.append(dot.format(layout.x[i], layout.y[i], layout.radius[i], label))
    parts += _draw_labels(layout, loads)
    text = f"{title}. {_describe(layout, loads, gone, old)}"
    high = layout.high
    if scale and most:
        parts += _draw_scale(layout, most)
        high += 2.6 * FONT
    svg = Markup('<svg class="network" viewBox="0 0 {:.0f} {:.0f}" role="img" aria-label="{}">{}</svg>')
    return svg.format(layout.wide, high, text, Markup("").join(parts))


def _width(load: float, most: float) -> float:
    """How wide a link is drawn."""
    return 0.8 + 11.2 * float(np.sqrt(load / most)) if most else 2.0


def _draw_scale(layout: Layout, most: float) -> list[Markup]:
    """Three lines with the messages that they stand for."""
    line = Markup('<path class="scale" d="M{:.1f} {:.1f}h26" stroke-width="{:.1f}"/>')
    text = Markup('<text x="{:.1f}" y="{:.1f}">{}</text>')
    found, y = [], layout.high + 1.3 * FONT
    loads = sorted({round_load(most * share) for share in (0.04, 0.3, 1.0)})
    for i, load in enumerate(loads):
        x, said = layout.wide * (0.04 + 0.29 * i), f"{load:,.0f}" + (" messages" if i == len(loads) - 1 else "")
        found += [line.format(x, y, _width(load, most)), text.format(x + 38 + 0.27 * FONT * len(said), y + 4, said)]
    return found


def round_load(load: float) -> float:
    """A number of messages with two digits, rounded down."""
    power = 10.0 ** max(np.floor(np.log10(max(load, 1.0))) - 1, 0)
    return float(np.floor(load / power) * power)


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
