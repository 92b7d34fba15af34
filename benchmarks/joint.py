"""Placement and tree together, against either alone and one after the other, at the same budget of changes.

python benchmarks/joint.py [DATA]      DATA: the folder with email-Eu and Repetita; default: ../shared/data
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np
from protocol import table, write

from overlace.joint.joint import Joint
from overlace.joint.problem import Caps, problem_of
from overlace.model import Observation
from overlace.workloads.regional import regional

TALK = ("composition", "small-world", "random")
WAYS = ("placement", "tree", "alternating", "joint")
AIMS = {40: 0.36, 120: 0.215, None: 0.16}


def degree_cap(observation: Observation) -> int:
    """At most 6 links, or as many as today."""
    return max(6, int(np.bincount(observation.overlay.tree.ravel()).max()))


def shares(observation: Observation, planner: Joint, seed: int) -> tuple[dict[str, float], float]:
    """(cost / cost today by method, CPU seconds of joint alone)."""
    caps = Caps(planner.sent_cap, planner.handled_cap, planner.max_degree)
    problem = problem_of(observation, planner.alpha, planner.beta, planner.weight, caps)
    found = {name: state.cost for name, state in planner.states(problem, seed).items()}
    before = found.pop("as it is")
    alone = Joint(**{**planner.__dict__, "method": "joint"})
    began = time.process_time()
    alone.states(problem, seed)
    return {name: cost / before for name, cost in found.items()}, time.process_time() - began


def small() -> str:
    rows = []
    for budget, aim in AIMS.items():
        figures: dict[str, list[float]] = {}
        spent = []
        for talk in TALK:
            for seed in range(5):
                observation = regional(talk, seed=seed)
                planner = Joint(budget=budget, beta=1.0, max_degree=degree_cap(observation))
                found, cpu = shares(observation, planner, seed)
                spent.append(cpu)
                for name, share in found.items():
                    figures.setdefault(name, []).append(share)
        means = [
            f"{np.mean(figures[way]):.3f} ({np.min(figures[way]):.2f} to {np.max(figures[way]):.2f})" for way in WAYS
        ]
        reached = "yes" if np.mean(figures["joint"]) <= aim else "no"
        rows.append([budget or "unlimited", *means, aim, reached, f"{np.mean(spent):.1f} s"])
    return table(("changes", *WAYS, "aim", "reached", "CPU of joint"), rows)


def large() -> str:
    rows = []
    for brokers, clients, regions, budget, messages, aim, about in (
        (100, 2_000, 20, 300, 200_000, 0.38, "1 s"),
        (300, 20_000, 60, 3_000, 1_000_000, 0.26, "15 s"),
    ):
        for talk in TALK:
            observation = regional(talk, brokers, clients, regions, messages)
            planner = Joint(budget=budget, beta=1.0, max_degree=degree_cap(observation), method="joint", effort=0)
            shares(observation, planner, 0)  # compiled
            found, cpu = shares(observation, planner, 0)
            reached = "yes" if found["joint"] <= aim else "no"
            rows.append(
                [f"{brokers} / {clients:,}", talk, budget, f"{found['joint']:.3f}", aim, reached, f"{cpu:.1f} s", about]
            )
    return table(("brokers / clients", "talk", "changes", "cost / today", "aim", "reached", "CPU", "aim"), rows)


def main() -> None:
    write(
        __file__,
        "Placement and tree together",
        [
            "Cost / today's on the traffic that planned, mean (least to most), three client networks x seeds 0 to 4. "
            "45 brokers, 200 clients, alpha = beta = 1 (workloads/regional.py). Caps for all: degree at most 6 or as "
            "today's most, sent at most 1.5 x the mean or the heaviest client, handled at most today's busiest.",
            small(),
            "Larger systems, seed 0, joint alone without kicks:",
            large(),
        ],
    )


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))
    main()
