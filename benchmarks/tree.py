"""The tree facet: local reconfigurations, whole runs, and a straightforward networkx version beside them."""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from itertools import pairwise

import networkx as nx
import numpy as np
from protocol import Measured, seconds, short, table, write

from overlace.model import Observation
from overlace.planners.search.cut import weigh
from overlace.planners.search.links import best_join, stand
from overlace.planners.search.walk import Search
from overlace.planners.tree.hub_safe import HubSafe
from overlace.planners.tree.local import improve
from overlace.planners.tree.ocbr import Ocbr
from overlace.planners.tree.problem import problem_of
from overlace.planners.tree.regraft import Regraft
from overlace.planners.tree.setting import search_problem, setting_of
from overlace.planners.tree.tabu import TabuEffort, optimize
from overlace.workloads.square import Talk, square
from reproductions.ocbr07.figure_2 import local_view


def star(leaves: int, classes: int) -> Observation:
    base = square(leaves + 1, 4 * leaves, classes, talk=Talk(locality=0.5), seed=1)
    return replace(base, overlay=replace(base.overlay, tree=[[0, v] for v in range(1, leaves + 1)]))


def local_steps() -> str:
    rows = []
    for leaves in (4, 8, 16, 32, 128, 512):
        for classes in (100, 1_000, 10_000):
            observation = star(leaves, classes)
            p = problem_of(observation, observation.overlay)
            view = local_view(p, observation.overlay.tree, 0)

            def by_tabu(iterations=20):
                return optimize(p, view, TabuEffort(iterations, samples=20, tenure=7, least=1e-6), np.array([5]))

            def ours():
                return improve(p, view, 1e-6)

            look = seconds(lambda: local_view(p, observation.overlay.tree, 0), 3)
            times = [seconds(by_tabu, 3), seconds(ours, 3)]
            rival, saved = networkx_step(view, p) if leaves <= 32 and classes <= 1_000 else (0.0, 0.0)
            tabu_gain, our_gain = by_tabu()[0], ours()[0]
            assert rival == 0.0 or saved <= our_gain * (1 + 1e-9) or leaves > 8
            rows.append(
                (
                    leaves,
                    f"{classes:,}",
                    f"{len(view.weight):,}",
                    short(look),
                    short(times[0]),
                    short(times[1]),
                    f"{our_gain / tabu_gain:.2f}" if tabu_gain else "-",
                    f"{rival / seconds(lambda: by_tabu(1), 3):,.0f}" if rival else "-",
                )
            )
    head = (
        "degree | classes | classes seen | view | tabu (n = N = 20) | exact or regraft | its gain / tabu's | "
        "networkx / ours, one iteration"
    ).split(" | ")
    text = (
        "A star, one master. `networkx` is Figure 3 read off the page: every swap's cost is worked out anew over all "
        "classes seen, with shortest paths; its first iteration beside ours."
    )
    return "## One local reconfiguration\n\n" + table(head, rows) + "\n\n" + text


def networkx_step(view, p) -> tuple[float, float]:
    """(seconds, gain) of the first iteration of Figure 3 by networkx."""
    k = len(view.nodes)
    sets = [[i for i in range(k) if mask[i // 62] >> (i % 62) & 1] for mask in view.masks]

    def price(a, b):
        a, b = sorted((int(view.nodes[a]), int(view.nodes[b])))
        return float(p.wires.price[a * (2 * p.wires.brokers - a - 1) // 2 + b - a - 1])

    def total(graph):
        result = 0.0
        for ends, weight in zip(sets, view.weight, strict=True):
            edges = set()
            for end in ends[1:]:
                path = nx.shortest_path(graph, ends[0], end)
                edges |= {frozenset(pair) for pair in pairwise(path)}
            result += weight * sum(price(*edge) for edge in edges)
        return result

    graph = nx.star_graph(k - 1)
    rng = np.random.default_rng(0)
    missing = list(nx.non_edges(graph))
    begin = time.perf_counter()
    here = total(graph)
    best = 0.0
    for i in rng.permutation(len(missing))[:20]:
        u, v = missing[i]
        for goes in [(0, u), (0, v)]:
            other = graph.copy()
            other.add_edge(u, v)
            other.remove_edge(*goes)
            best = max(best, here - total(other))
    return time.perf_counter() - begin, best


CASES = (
    (100, 300, None),
    (1_000, 3_000, None),
    (1_000, 10_000, None),
    (1_000, 100_000, None),
    (1_000, 1_000, 24),
    (1_000, 10_000, 24),
    (10_000, 10_000, 24),
    (10_000, 100_000, 24),
)
"""Brokers, classes, and how many nearest brokers could be linked to each."""


def whole_runs(largest: int) -> str:
    rows, before = [], {}
    for brokers, classes, near in CASES:
        if brokers > largest:
            continue
        observation = square(brokers, 4 * brokers, classes, near=near, seed=1)
        for name, planner in (
            ("ocbr", Ocbr(locks="relaxed")),
            ("hub-safe", HubSafe()),
            ("hub-safe + regraft", HubSafe(finish=True)),
            ("regraft", Regraft(kicks=0)),
        ):
            with Measured() as run:
                plan = planner.solve(observation)
            left = planner.cost(observation, plan.after) / planner.cost(observation, plan.before)
            memory = f"{run.peak / 1e6:,.0f} MB" if run.peak else "-"
            before[name, near, brokers, classes] = run.cpu
            growth = [
                f"{run.cpu / before[key]:.1f}" if key in before else "-"
                for key in ((name, near, brokers, classes // 10), (name, near, brokers // 10, classes // 10))
            ]
            links = f"{near} nearest" if near else "all pairs"
            rows.append(
                (
                    name,
                    f"{brokers:,}",
                    links,
                    f"{classes:,}",
                    short(run.cpu),
                    *growth,
                    f"{left:.4f}",
                    f"{len(plan.changes) // 2:,}",
                    memory,
                )
            )
            print(rows[-1], file=sys.stderr)
    head = (
        "planner | brokers | candidate links | classes | CPU | growth per 10x of classes | of both | cost left | "
        "links changed | peak memory"
    ).split(" | ")
    text = (
        "Workload square, seed 1; whole plans with their ordered steps; CPU seconds of one run in steps of 10 ms, "
        "kernels compiled before. OCBR and hub-safe with relaxed locks. All pairs of 10,000 brokers would be 50 "
        "million links: there the 24 nearest are candidates, and the first tree joins near brokers too. Growth is "
        "between runs with the same candidates. Memory is the resident peak of the whole process, interpreter and "
        "observation included; runs too short to be sampled have none."
    )
    return "## Whole runs\n\n" + table(head, rows) + "\n\n" + text


def one_swap() -> str:
    rows, before = [], {}
    for brokers in (100, 1_000, 10_000):
        observation = square(brokers, 4 * brokers, 3 * brokers, near=None if brokers < 10_000 else 24, seed=1)
        planner = Regraft()
        setting = setting_of(planner, observation)
        rules = Search(search_problem(planner, observation, setting)).rules(len(setting.start), 0.0)
        p = setting.problem
        good = HubSafe().run(setting).links
        for tree, links in (("as it was", setting.start), ("after hub-safe", good)):
            search = stand(p, np.ascontiguousarray(np.sort(links, axis=1)), rules)
            slots = np.random.default_rng(0).choice(len(setting.start), 50)

            def look():
                for slot in slots:
                    best_join(p, search, rules, slot, 1e-6)

            each = seconds(look, 3) / len(slots)
            sizes = [weigh(p, search.wiring, search.workspace, slot)[1] for slot in slots]
            pairs = float(np.mean([size * (brokers - size) for size in sizes]))
            overlay = replace(observation.overlay, tree=links)
            again = seconds(lambda: planner.cost(observation, overlay), 3)
            rival = f"{again * pairs / each:,.0f}"
            growth = f"{each / before[tree]:.1f}" if tree in before else "-"
            before[tree] = each
            rows.append((f"{brokers:,}", tree, f"{pairs:,.0f}", short(each), growth, rival))
    head = ("brokers", "tree", "swaps of a link, mean", "all of them", "growth per 10x", "each swap costed anew / ours")
    text = (
        "Taking one link out and looking at all pairs that join the parts. `each swap costed anew`: one call of (1), "
        "by the facet's own kernel, times the pairs. Above 1,000 brokers only the 24 nearest are candidates."
    )
    return "## All swaps of one link, by difference\n\n" + table(head, rows) + "\n\n" + text


if __name__ == "__main__":
    for planner in (Ocbr(locks="relaxed"), HubSafe(finish=True), Regraft(kicks=0)):
        planner.solve(square(40, 80, 80))
        planner.solve(square(200, 400, 300, near=24))
    most = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    write(__file__, "Tree", [local_steps(), one_swap(), whole_runs(most)])
