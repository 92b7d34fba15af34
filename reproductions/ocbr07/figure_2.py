"""Figure 2: what bm sees of four traffic classes, and what its rearrangement saves, locally and globally."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from overlace.arrays.jit import Pairs
from overlace.arrays.pairs import as_pairs
from overlace.model import Classes, Network, Observation, Overlay, Progress
from overlace.planners.search.spans import Spans
from overlace.planners.tree.cost import cost
from overlace.planners.tree.exact import best_tree, price_matrix, tree_total
from overlace.planners.tree.problem import nodes_tree, problem_of
from overlace.planners.tree.view import LocalView, local_classes, neighbourhood, views_of
from overlace.report.charts import Row
from reproductions.result import Measured, expected, item

BROKERS = ("bm", "b1", "b2", "b3", "b4", "b5", "b6")
CLIENTS = ("c1", "c2", "c3", "c4", "c5")
HOMES = {"c1": "b1", "c2": "b5", "c3": "b3", "c4": "bm", "c5": "b6"}
TREE = (("bm", "b1"), ("bm", "b2"), ("bm", "b3"), ("bm", "b4"), ("b1", "b5"), ("b3", "b6"))
CLASSES = ((("c1", "c2"), 5), (("c1", "c2", "c4"), 3), (("c1", "c2", "c3"), 4), (("c2", "c3", "c5"), 2))


def figure_2_observation() -> Observation:
    """The network of Figure 2, as far as the text gives it; see the notes."""
    broker, client = BROKERS.index, CLIENTS.index
    left, right = np.triu_indices(len(BROKERS), 1)
    return Observation(
        overlay=Overlay(
            placement=[[client(c), broker(b)] for c, b in HOMES.items()], tree=[[broker(a), broker(b)] for a, b in TREE]
        ),
        network=Network(links=np.column_stack([left, right])),
        classes=Classes.of([[client(c) for c in members] for members, _ in CLASSES], [n for _, n in CLASSES]),
    )


def seen_by(observation: Observation, master: int) -> dict[frozenset[str], float]:
    """The classes that a master sees, its own clients apart, by the names of their ends."""
    brokers = observation.network.brokers
    p = problem_of(observation, observation.overlay, clients=True)
    view = local_view(p, nodes_tree(observation.overlay, brokers, observation.clients), master)
    names = [*BROKERS, *CLIENTS]
    return {
        frozenset(names[v] for i, v in enumerate(view.nodes.tolist()) if mask[0] >> i & 1): float(weight)
        for mask, weight in zip(view.masks, view.weight, strict=True)
    }


@item("ocbr07/figure-2", "Figure 2: what a master sees, and what it saves")
def figure_2(seeds: int, progress: Progress) -> Measured:
    """Figure 2, worked through."""
    observation, printed = figure_2_observation(), expected("ocbr07")
    seen = seen_by(observation, 0)
    rows: list[Row] = []
    for members, messages in CLASSES:
        alone = replace(observation, classes=Classes.of([[CLIENTS.index(c) for c in members]], [messages]))
        ends = next(iter(seen_by(alone, 0)), None)
        rows.append(
            {
                "traffic class": " ".join(members),
                "messages": messages,
                "seen by bm as": " ".join(sorted(ends)) if ends else "not seen",
                "with": seen[ends] if ends else None,
            }
        )
    before, after, seen_before, seen_after = _rearranged(observation)
    first, last = cost(observation, before), cost(observation, after)
    classes = [printed["figure-2", "traffic classes", column] for column in ("in the network", "seen by bm")]
    numbers = {
        "classes_paper": classes[0],
        "seen_paper": classes[1],
        "classes": len(CLASSES),
        "seen": len(seen),
        "local_before": seen_before,
        "local_after": seen_after,
        "local_gain": seen_before - seen_after,
        "before": first,
        "after": last,
        "gain": first - last,
    }
    return Measured(rows, facts={name: f"{value:g}" for name, value in numbers.items()} | {"links": _links(after)})


def _rearranged(observation: Observation) -> tuple[Overlay, Overlay, float, float]:
    """(before, after, local cost before, local cost after) of the best rearrangement by bm."""
    p = problem_of(observation, observation.overlay)
    view = local_view(p, observation.overlay.tree, 0)
    k = len(view.nodes)
    price, toll, masks = price_matrix(p, view.nodes), p.toll[view.nodes], view.masks[:, 0].copy()
    star = np.zeros(k, dtype=np.int64)
    star[0] = -1
    free, unbound = np.full(k, k, dtype=np.int64), np.zeros((k, k), dtype=np.bool_)
    least, parent = best_tree(price, toll, masks, view.weight, free, unbound)
    seen = tree_total(price, toll, masks, view.weight, star)
    others = [row for row in observation.overlay.tree.tolist() if 0 not in row]
    wired = [[int(view.nodes[i]), int(view.nodes[parent[i]])] for i in range(1, k)]
    return observation.overlay, replace(observation.overlay, tree=others + wired), float(seen), float(least)


def _links(overlay: Overlay) -> str:
    return ", ".join(f"{BROKERS[a]}-{BROKERS[b]}" for a, b in overlay.tree.tolist())


def local_view(p: Spans, links: Pairs, master: int) -> LocalView:
    """What one master sees in this tree, where no limit binds it."""
    views = views_of(p, as_pairs(links))
    nodes = neighbourhood(views, master)
    masks, weight = local_classes(p, views, master)
    return LocalView(nodes, masks, weight, np.full(len(nodes), len(nodes)), np.zeros(len(nodes), dtype=np.bool_))
