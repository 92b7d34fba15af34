"""Pictures of an overlay: brokers placed so that near means cheap, links as wide as their load."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import altair as alt
import numpy as np
import scipy.sparse
import scipy.sparse.csgraph

from overlace.arrays.jit import Floats
from overlace.arrays.trees import subtree_links
from overlace.model import Names, Network, Observation, Overlay, name_of

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
