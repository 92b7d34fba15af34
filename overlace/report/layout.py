"""Where brokers are drawn: near means cheap to link where a plane can show that, else near on the tree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse
import scipy.sparse.csgraph

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
