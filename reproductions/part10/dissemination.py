"""§3.2: one dissemination tree for a channel, on a generated matrix of delays between hosts all over the world."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from overlace.arrays.jit import Floats, Ints
from overlace.model import Progress
from overlace.planners.dissemination.arrange import arrange_problem
from overlace.planners.dissemination.baselines import grow_by_bound, grow_shortest, grow_spanning, make_star
from overlace.planners.dissemination.comparison import judge_later, measure_again
from overlace.planners.dissemination.problem import TreeProblem, make_problem, measure
from overlace.planners.dissemination.upper import bound_met
from overlace.report.charts import Chart, Row
from reproductions.result import Measured, item

SUBSCRIBERS, BOUNDS, DEGREES, SIGMAS = 489, (50.0, 100.0, 200.0, 400.0), (2, 4, 8), (0.1, 0.3)
REGIONS = ((0.0, 0.0, 0.4), (80.0, 10.0, 0.35), (190.0, -10.0, 0.25))
"""Where hosts are, in ms of distance, and how many of them: like two continents and a third farther away."""
WIDE, ACCESS, DETOUR = 18.0, 4.0, 0.25
"""How far a region reaches, ms; the median way to the network, ms; how much ways differ from the straight one."""
MET, UPPER, TREE = "share of bounds met", "upper bound", "tree"
ARRANGED, GREEDY, RANDOM, STAR = "arranged", "greedy by bound", "random", "star (breaks the limit)"


def generate_delays(hosts: int, seed: int) -> Floats:
    """One-way delays between hosts: regions on a plane, a way to the network for each host, detours for each pair."""
    rng = np.random.default_rng(seed)
    x, y, share = (np.array(column) for column in zip(*REGIONS, strict=True))
    region = rng.choice(len(REGIONS), hosts, p=share)
    place = np.column_stack([x[region], y[region]]) + rng.normal(0.0, WIDE, (hosts, 2))
    straight = np.hypot(*(place[:, None] - place[None]).transpose(2, 0, 1))
    detour = np.triu(rng.lognormal(0.0, DETOUR, (hosts, hosts)), 1)
    access = rng.lognormal(np.log(ACCESS), 1.0, hosts)
    delay: Floats = straight * (detour + detour.T) + access[:, None] + access
    np.fill_diagonal(delay, 0.0)
    return delay


def draw_problem(subscribers: int, degree: int, seed: int) -> TreeProblem:
    """The first host publishes, the others subscribe, each with one of the bounds."""
    rng = np.random.default_rng((seed, subscribers))
    bound = np.append(np.inf, rng.choice(BOUNDS, subscribers))
    return make_problem(generate_delays(subscribers + 1, seed), bound, degree, 0)


def grow_random(problem: TreeProblem, seed: int) -> Ints:
    """Subscribers join in random order, each below anybody who has a free place."""
    rng = np.random.default_rng(seed)
    parent = np.full(len(problem.bound), -1, dtype=np.int64)
    free = problem.degree.copy()
    inside = [problem.root]
    for v in rng.permutation(np.delete(np.arange(len(parent)), problem.root)).tolist():
        p = int(rng.choice([u for u in inside if free[u] > 0]))
        parent[v] = p
        free[p] -= 1
        inside.append(v)
    return parent


def make_trees(problem: TreeProblem, seed: int) -> dict[str, Ints]:
    """Every tree by name."""
    return {
        RANDOM: grow_random(problem, seed),
        GREEDY: grow_by_bound(problem),
        "shortest-path tree": grow_shortest(problem),
        "minimum spanning tree": grow_spanning(problem),
        ARRANGED: arrange_problem(problem, seed),
        STAR: make_star(problem),
    }


class Run(NamedTuple):
    """What one seed gives for one tree."""

    met: float
    upper: float
    mean_ms: float
    p95_ms: float
    children: int
    kept: tuple[float, ...]  # promised and kept for each sigma


def run_seed(subscribers: int, degree: int, seed: int) -> dict[str, Run]:
    """All trees of a seed, on its delays and on delays measured twice."""
    problem = draw_problem(subscribers, degree, seed)
    upper = bound_met(problem).most / subscribers
    kept: dict[str, list[float]] = {}
    for i, sigma in enumerate(SIGMAS):
        first, later = (measure_again(problem.delay, sigma, 10 * seed + 2 * i + k) for k in range(2))
        known = problem._replace(delay=first)
        for name, parent in make_trees(known, seed).items():
            found = judge_later(known, parent, later)
            kept.setdefault(name, []).extend((found.promised, found.kept))
    runs = {}
    for name, parent in make_trees(problem, seed).items():
        m = measure(problem, parent)
        runs[name] = Run(m.share, upper, m.mean_ms, m.p95_ms, m.max_degree, tuple(kept[name]))
    return runs


def _figures(measured: Measured, seeds: int) -> dict[str, object]:
    """Shares by degree of the trees that the notes speak of."""

    def shares(name: str, column: str = MET) -> str:
        return " / ".join(f"{row[column]:.3f}" for row in measured.rows if row[TREE] == name)

    return {
        "arranged": shares(ARRANGED),
        "upper": shares(ARRANGED, UPPER),
        "greedy": shares(GREEDY),
        "random": shares(RANDOM),
        "promised": shares(ARRANGED, columns_of(SIGMAS[-1])[0]),
        "kept": shares(ARRANGED, columns_of(SIGMAS[-1])[1]),
        "star": shares(STAR, columns_of(SIGMAS[-1])[1]),
    }


def columns_of(sigma: float) -> tuple[str, str]:
    """What the columns of a noise are called."""
    return f"promised, sigma {sigma:g}", f"kept, sigma {sigma:g}"


@item("part10/dissemination", "A dissemination tree under bounds and degrees (§3.2)", seeds=3, figures=_figures)
def dissemination(seeds: int, progress: Progress) -> Measured:
    """Share of bounds met by each tree at each degree, and what holds when delays are measured again."""
    rows: list[Row] = []
    for i, degree in enumerate(DEGREES):
        runs = []
        for seed in range(seeds):
            progress((i + seed / seeds) / len(DEGREES), f"degree {degree}")
            runs.append(run_seed(SUBSCRIBERS, degree, seed))
        for name in runs[0]:
            of = [run[name] for run in runs]
            kept = np.mean([each.kept for each in of], axis=0)
            columns = [column for sigma in SIGMAS for column in columns_of(sigma)]
            rows.append(
                {
                    "degree": degree,
                    TREE: name,
                    MET: float(np.mean([each.met for each in of])),
                    UPPER: float(np.mean([each.upper for each in of])),
                    "mean ms": float(np.mean([each.mean_ms for each in of])),
                    "95th percentile ms": float(np.mean([each.p95_ms for each in of])),
                    "most children": max(each.children for each in of),
                    **dict(zip(columns, map(float, kept), strict=True)),
                    "seeds": seeds,
                }
            )
    chart = Chart("Share of bounds met", rows, "degree", MET, TREE, mark="bar")
    return Measured(rows, [chart])
