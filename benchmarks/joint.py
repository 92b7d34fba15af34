"""Placement and tree together, against either alone and one after the other, at the same budget of changes.

python benchmarks/joint.py [DATA]      DATA: the folder with email-Eu and Repetita; default: ../shared/data
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
from instances import GEANT, classes_of, ends_of, number_people, unpack_topology
from protocol import table, timed, write
from scipy.sparse import csr_array
from scipy.sparse.csgraph import dijkstra

from overlace.model import Network, Observation, Overlay
from overlace.planners.joint.joint import Joint
from overlace.replay.measure import measure
from overlace.report.charts import Chart, chart_svg
from overlace.trace.tables import lists
from reproductions.cc12.mail import read_logs
from reproductions.workloads.regional import regional

TALK = ("composition", "small-world", "random")
WAYS = ("placement", "tree", "alternating", "joint")
AIMS = {40: 0.36, 120: 0.215, None: 0.16}
BUDGETS = (0, 5, 10, 20, 40, 80, 120, 180, None)
SEEDS = 5


def degree_cap(observation: Observation) -> int:
    """At most 6 links, or as many as today."""
    return max(6, int(np.bincount(observation.overlay.tree.ravel()).max()))


def shares(observation: Observation, planner: Joint, seed: int) -> tuple[dict[str, float], dict[str, int]]:
    """(cost / cost today, clients moved and links changed) by method."""
    problem = planner.problem(observation)
    states = planner.states(problem, seed)
    before = states["as it is"]
    had = {tuple(link) for link in problem.links.tolist()}
    changed = {
        name: int((state.home != before.home).sum()) + len({tuple(link) for link in state.links.tolist()} - had)
        for name, state in states.items()
    }
    reached = {name: state.cost / before.cost for name, state in states.items()}
    return {"best": min(reached.values()), **reached}, changed


def joint_alone(observation: Observation, planner: Joint, seed: int) -> tuple[float, float]:
    """(cost / cost today, CPU seconds) of joint without its rivals."""
    alone = Joint(**{**planner.__dict__, "method": "joint"})
    problem = alone.problem(observation)
    states, taken = timed(lambda: alone.states(problem, seed))
    return states["joint"].cost / states["as it is"].cost, taken


def small() -> tuple[str, Chart]:
    """45 brokers, 200 clients: a row for each aim, a picture of all budgets."""
    rows, points = [], []
    for budget in BUDGETS:
        figures: dict[str, list[float]] = {}
        changed: dict[str, list[int]] = {}
        alone, spent = [], []
        for talk in TALK:
            for seed in range(SEEDS):
                observation = regional(talk, seed=seed)
                planner = Joint(budget=budget, beta=1.0, max_degree=degree_cap(observation))
                found, changes = shares(observation, planner, seed)
                for name in (*WAYS, "best"):
                    figures.setdefault(name, []).append(found[name])
                for name in WAYS:
                    changed.setdefault(name, []).append(changes[name])
                if budget in AIMS:
                    share, cpu = joint_alone(observation, planner, seed)
                    alone.append(share)
                    spent.append(cpu)
        points += [
            {
                "method": way,
                "changes": float(np.mean(changed[way])),
                "cost / today": float(np.mean(figures[way])),
                "low": min(figures[way]),
                "high": max(figures[way]),
            }
            for way in WAYS
        ]
        if budget in AIMS:
            aim = AIMS[budget]
            every = [*(figures[way] for way in WAYS[:3]), alone, figures["best"]]
            spreads = [f"{np.mean(each):.3f} ({min(each):.2f} to {max(each):.2f})" for each in every]
            reached = "yes" if np.mean(figures["best"]) <= aim else "no"
            beaten = sum(a < j - 1e-12 for a, j in zip(figures["alternating"], alone, strict=True))
            rows.append(
                [budget or "unlimited", *spreads, aim, reached, f"{beaten} of {len(spent)}", f"{np.mean(spent):.1f} s"]
            )
    beaten_head = "alternating beats joint alone"
    heads = ("changes", *WAYS[:3], "joint alone", "best of all", "aim", "reached", beaten_head, "CPU of joint alone")
    title = "Cost against changes: 45 brokers, 200 clients"
    return table(heads, rows), Chart(title, points, "changes", "cost / today", series="method", low="low", high="high")


def large() -> str:
    rows = []
    for brokers, clients, regions, budget, messages, aim, about in (
        (100, 2_000, 20, 300, 200_000, 0.38, "about 1 s"),
        (300, 20_000, 60, 3_000, 1_000_000, 0.26, "about 15 s"),
    ):
        for talk in TALK:
            observation = regional(talk, brokers, clients, regions, messages)
            planner = Joint(budget=budget, beta=1.0, max_degree=degree_cap(observation), method="joint", effort=0)
            found, _ = shares(observation, planner, 0)
            _, cpu = joint_alone(observation, planner, 0)
            reached = "yes" if found["joint"] <= aim else "no"
            rows.append(
                [f"{brokers} / {clients:,}", talk, budget, f"{found['joint']:.3f}", aim, reached, f"{cpu:.1f} s", about]
            )
    return table(("brokers / clients", "talk", "changes", "cost / today", "aim", "reached", "CPU", "aim"), rows)


def geant(data: Path) -> str:
    """email-Eu on GEANT2012: planned on the first half of the messages, judged on the second."""
    topology = unpack_topology(data / GEANT[0], GEANT[1])
    ends, n = ends_of(topology), len(topology.brokers)
    delay = topology.links["latency_us"].to_numpy().astype(np.float64)
    far = csr_array((delay, (ends[:, 0], ends[:, 1])), shape=(n, n))
    apart, parent = dijkstra(far, directed=False, return_predecessors=True)
    medoid = int(apart.sum(axis=1).argmin())
    tree = [[b, int(parent[medoid, b])] for b in range(n) if b != medoid]
    mail = number_people(read_logs(data)["email-Eu"])
    bounds, half = np.append(mail.first, len(mail.sender)), len(mail.first) // 2
    observation = Observation(
        network=Network(region=np.arange(n), links=ends, link_cost=delay),
        overlay=Overlay(placement=[[c, c % n] for c in range(mail.clients)], tree=tree),
        classes=classes_of(mail, half),
        clients=mail.clients,
        sent=np.bincount(mail.sender[mail.first[:half]], minlength=mail.clients),
        sent_bytes=np.zeros(mail.clients, dtype=np.int64),
    )
    later = bounds[half:] - bounds[half]
    rows = pa.table(
        {
            "client": pa.array(mail.sender[bounds[half:-1]], pa.int32()),
            "topic": pa.nulls(len(later) - 1, pa.int32()),
            "messages": pa.array(np.ones(len(later) - 1), pa.int64()),
            "bytes": pa.array(np.zeros(len(later) - 1), pa.int64()),
            "receivers": lists(later, mail.receiver[bounds[half] :], pa.list_(pa.int32())),
        }
    )
    before = measure(observation, observation.overlay, rows, "message").of("cost")
    found = []
    for method in (*WAYS, "best"):
        planner = Joint(budget=100, method=method)  # type: ignore[arg-type]
        plan, cpu = timed(lambda planner=planner: planner.solve(observation))
        train = planner.cost(observation, plan.after) / planner.cost(observation, plan.before)
        judged = measure(observation, plan.after, rows, "message").of("cost") / before
        reached = "" if method != "best" else "yes" if judged <= 0.645 else "no"
        found.append(
            [method, f"{train:.3f}", f"{judged:.3f}", 0.645 if method == "best" else "", reached, f"{cpu:.1f} s"]
        )
    heads = ("method", "cost / today, first half", "second half (held out)", "aim", "reached", "CPU, steps included")
    return table(heads, found)


def main() -> None:
    data = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parents[2] / "shared" / "data"
    Joint(budget=3, beta=1.0).solve(regional(brokers=10, clients=30, regions=3, messages=500))  # compiled
    text, chart = small()
    Path(__file__).with_suffix(".svg").write_text(chart_svg(chart), encoding="utf-8")
    mails = (
        geant(data)
        if data.is_dir()
        else f"Not run: {data} holds no logs (email-Eu-core-temporal.txt.gz, repetita_graphs_delays_demands.tar.gz)."
    )
    write(
        __file__,
        "Placement and tree together",
        [
            "Cost / today's on the traffic that planned, mean (least to most), three client networks x seeds 0 to 4. "
            "45 brokers, 200 clients, alpha = beta = 1 (workloads/regional.py). Caps for all: degree at most 6 or as "
            "today's most, sent at most 1.5 x the mean or the heaviest client, handled at most today's busiest. "
            "The best of all is what the planner returns, never worse than any. Annealing follows joint, and the best "
            "of its rivals where that is better still.",
            text,
            "![Cost against changes](joint.svg)",
            "Larger systems, seed 0, joint alone without annealing:",
            large(),
            "email-Eu on GEANT2012 (40 brokers, delays as costs), clients by rank of their id at broker rank mod 40, "
            "start: shortest-path tree from the delay medoid; planned on the first half of the messages, 100 changes:",
            mails,
        ],
    )


if __name__ == "__main__":
    main()
