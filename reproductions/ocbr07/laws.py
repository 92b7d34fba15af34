"""§3.1 as a table: local gain = global gain, masters of one round add up, rounds end."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from overlace.model import Observation, Progress
from overlace.planners.tree.cost import cost
from overlace.planners.tree.exact import price_matrix, tree_total
from overlace.planners.tree.ocbr import Ocbr
from overlace.planners.tree.problem import problem_of
from overlace.planners.tree.setting import setting_of
from overlace.report.charts import Row
from overlace.workloads.square import square
from reproductions.ocbr07.figure_2 import local_view
from reproductions.result import Measured, item
from reproductions.workloads.lottery import lottery, uniform_tree

WEIGHTS = ((1.0, 0.0), (0.0, 1.0), (1.0, 0.5))


def _figures(measured: Measured, seeds: int) -> dict[str, object]:
    ended = all(row["holds"] for row in measured.rows)
    every = "with a round in which every broker was asked and none found anything better"
    return {"ended": f"All runs of rounds ended {every}." if ended else f"Not all runs of rounds ended {every}."}


@item("ocbr07/laws", "The laws of §3.1", seeds=40, figures=_figures)
def laws(seeds: int, progress: Progress) -> Measured:
    """The statements that must hold, tried on random networks."""
    rows: list[Row] = []
    for alpha, beta in WEIGHTS:
        worst, count = 0.0, 0
        for seed in range(seeds):
            progress(seed / seeds / 4, f"alpha {alpha:g}, beta {beta:g}")
            for observation in (lottery(12, seed=seed), square(30, 90, 100, seed=seed)):
                errors = local_against_global(observation, alpha, beta, seed, 20)
                worst, count = max(worst, *errors), count + len(errors)
        rows.append(_row(f"local gain = global gain, alpha {alpha:g}, beta {beta:g}", count, worst))
    for locks in ("paper", "relaxed"):
        worst, count, most, ended = 0.0, 0, 0, True
        for seed in range(seeds):
            observation = square(40, 120, 150, seed=seed)
            planner = Ocbr(locks=locks)
            setting = setting_of(planner, observation)
            run = planner.run(setting, seed)
            ended = ended and run.rounds[-1].acted == 0
            here = planner.cost(observation, observation.overlay)
            after = planner.cost(observation, replace(observation.overlay, tree=run.links))
            worst = max(worst, abs(here - after - sum(each.gain for each in run.rounds)) / here)
            count += sum(each.acted for each in run.rounds)
            most = max(most, *(each.acted for each in run.rounds))
        what = f"gains of masters in one round add up, {locks} locks (up to {most} masters in a round)"
        rows.append(_row(what, count, worst) | {"holds": ended and worst < 1e-9})
    return Measured(rows)


def _row(law: str, count: int, worst: float) -> dict[str, object]:
    return {"law": law, "tried": count, "largest error": worst, "holds": worst < 1e-9}


def local_against_global(observation: Observation, alpha: float, beta: float, seed: int, many: int) -> list[float]:
    """Relative differences of what random masters and the whole network gain by random rearrangements."""
    rng = np.random.default_rng([seed, 3])
    p = problem_of(observation, observation.overlay, alpha=alpha, beta=beta)
    here = cost(observation, observation.overlay, alpha=alpha, beta=beta)
    degree = np.bincount(observation.overlay.tree.ravel(), minlength=observation.network.brokers)
    errors = []
    for master in rng.choice(np.flatnonzero((degree > 1) & (degree < 12)), many):
        view = local_view(p, observation.overlay.tree, int(master))
        k = len(view.nodes)
        links = uniform_tree(k, rng)
        star = np.zeros(k, dtype=np.int64)
        star[0] = -1
        price, toll, masks = price_matrix(p, view.nodes), p.toll[view.nodes], view.masks[:, 0].copy()
        local = tree_total(price, toll, masks, view.weight, star)
        local -= tree_total(price, toll, masks, view.weight, _hung(links, k))
        others = [row for row in observation.overlay.tree.tolist() if master not in row]
        tree = np.array(others + view.nodes[links].tolist(), dtype=np.int64)
        there = cost(observation, replace(observation.overlay, tree=tree), alpha=alpha, beta=beta)
        errors.append(abs(local - (here - there)) / here)
    return errors


def _hung(links: np.ndarray, k: int) -> np.ndarray:
    parent = np.full(k, -1, dtype=np.int64)
    todo = [0]
    while todo:
        v = todo.pop()
        for a, b in links.tolist():
            w = b if a == v else a if b == v else -1
            if w >= 0 and w != parent[v]:
                parent[w] = v
                todo.append(w)
    return parent
