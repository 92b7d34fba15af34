"""Where searches get stuck: groups that sit everywhere, tight limits, few changes, another numbering of the clients.

    python benchmarks/search.py [--data FOLDER] [groups limits links few numbering budgets large ...]

Each part is a table of its own; without a name all are run. DATA holds email-Eu and the Topology Zoo.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
from instances import ZOO, classes_of, ends_of, number_people, random_tree, unpack_topology
from protocol import table, timed, write

from overlace.catalog import planner_class
from overlace.model import Classes, Flows, Network, Observation, Overlay, Planner
from reproductions.cc12.mail import read_logs
from reproductions.workloads.regional import regional

Joint, Leiden = planner_class("joint"), planner_class("placement.leiden")
DATA = Path(__file__).parents[2] / "shared" / "data"
TALK = ("composition", "small-world", "random")


def left(planner: Planner, observation: Observation, seed: int = 0) -> float:
    """What is left of the cost."""
    plan = planner.solve(observation, seed)
    before, after = (planner.cost(observation, each) for each in (plan.before, plan.after))
    return float(after / before)


# --- groups with members everywhere


def grouped(brokers: int, groups: int, each: int, overlap: int = 0, seed: int = 0) -> Observation:
    """Groups of clients that hear one another, as many at each broker of a row; some clients are in two groups."""
    clients = groups * each
    rng = np.random.default_rng(seed)
    members = [set(range(g * each, (g + 1) * each)) for g in range(groups)]
    for g in range(groups):
        members[g] |= {int(c) for c in rng.choice(sorted(members[(g + 1) % groups]), overlap, replace=False)}
    homes = np.arange(clients) % each % brokers
    row = np.column_stack([np.arange(brokers - 1), np.arange(1, brokers)])
    lists = [sorted(each) for each in members]
    rows = np.array([(a, b, 1) for each in lists for a in each for b in each if a != b])
    pairs, place = np.unique(rows[:, :2], axis=0, return_inverse=True)
    return Observation(
        network=Network(region=np.zeros(brokers), links=row),
        overlay=Overlay(placement=np.column_stack([np.arange(clients), homes]), tree=row),
        classes=Classes.of(lists, [len(each) for each in lists]),
        flows=Flows(pairs[:, 0], pairs[:, 1], np.bincount(place.reshape(-1))),
        clients=clients,
        sent=np.bincount(np.concatenate(lists), minlength=clients),
    )


def groups(_: Path) -> str:
    rows = []
    for brokers, count, each, overlap in (
        (20, 100, 60, 0),
        (20, 100, 60, 3),
        (3, 6, 6, 0),
        (3, 12, 9, 1),
        (5, 20, 15, 0),
        (5, 20, 15, 2),
        (8, 16, 24, 0),
        (8, 32, 24, 3),
    ):
        seen = grouped(brokers, count, each, overlap)
        tried = (Joint(effort=0), Joint(), Leiden(effort=0), Leiden())
        found, took = timed(lambda seen=seen, tried=tried: [left(planner, seen) for planner in tried])
        rows.append((brokers, f"{count} of {each}", overlap, *(f"{x:.3f}" for x in found), f"{took:.1f} s"))
    return table(
        (
            "brokers in a row | groups | clients in two | joint, effort 0 | joint | leiden, effort 0 | leiden | CPU"
        ).split(" | "),
        rows,
    )


# --- with and without limits


def limits(_: Path) -> str:
    rows = []
    none = {"region_sent": None, "broker_sent": None, "region_handled": None, "broker_handled": None}
    for talk in TALK:
        for seed in (0, 1):
            seen = regional(talk, clients=300, seed=seed)
            fields = {"objective": "hops", "max_swaps": 0}
            rows.append(
                (
                    talk,
                    seed,
                    *(
                        f"{x:.3f}"
                        for x in (
                            left(Joint(**fields, sent_cap=None, handled_cap=None), seen),
                            left(Leiden(**none), seen),
                            left(Joint(**fields), seen),
                            left(Leiden(region_sent=None), seen),
                        )
                    ),
                )
            )
    return table(("talk", "seed", "joint, no limits", "leiden, no limits", "joint, limits", "leiden, limits"), rows)


# --- what brokers handle


def bellcanada(data: Path, seed: int, share: float = 1.0) -> Observation:
    """email-Eu on Bellcanada: random homes, a random spanning tree."""
    topology = unpack_topology(data / ZOO[0], ZOO[1])
    ends, n = ends_of(topology), len(topology.brokers)
    ends = np.unique(np.sort(ends[ends[:, 0] != ends[:, 1]], axis=1), axis=0)
    rng = np.random.default_rng(seed)
    tree = ends[random_tree(ends, n, rng)]
    mail = number_people(read_logs(data)["email-Eu"])
    homes = rng.integers(0, n, mail.clients)
    return Observation(
        network=Network(region=np.zeros(n), links=ends),
        overlay=Overlay(placement=np.column_stack([np.arange(mail.clients), homes]), tree=tree),
        classes=classes_of(mail, int(share * len(mail.first))),
        clients=mail.clients,
        sent=np.bincount(mail.sender[mail.first], minlength=mail.clients),
    )


def links(data: Path) -> str:
    rows = []
    for seed in range(6):
        seen = bellcanada(data, seed)
        for_each = []
        for cap in (1.0, 1.1):
            planner = Joint(budget=20, handled_cap=cap)
            plan = planner.solve(seen, 0)
            swaps = int((plan.changes.facet == 1).sum()) // 2
            saved = 1 - planner.cost(seen, plan.after) / planner.cost(seen, plan.before)
            for_each += [f"{saved:.1%}", swaps]
        rows.append((seed, *for_each))
    means = [np.mean([float(row[i].rstrip("%")) for row in rows]) for i in (1, 3)]
    rows.append(("mean", f"{means[0]:.1f}%", "", f"{means[1]:.1f}%", ""))
    return table(("seed", "saved at handled cap 1.0", "links", "at 1.1", "links"), rows)


# --- another numbering


def renumbered(seen: Observation, order: np.ndarray) -> Observation:
    """The same system; client c is called order[c]."""
    back = np.argsort(order)
    flows, classes = seen.flows, seen.classes
    rows = np.column_stack([order[flows.sender], order[flows.receiver], flows.messages, flows.bytes])
    rows = rows[np.lexsort((rows[:, 1], rows[:, 0]))]
    lists = [sorted(order[classes.members[a:b]].tolist()) for a, b in pairwise(classes.start.tolist())]
    by = sorted(range(len(lists)), key=lambda k: lists[k])
    network = seen.network
    if len(network.client_region):
        network = replace(network, client_region=network.client_region[back])
    placement = seen.overlay.placement.copy()
    placement[:, 0] = order[placement[:, 0]]
    return replace(
        seen,
        flows=Flows(*rows.T),
        network=network,
        sent=seen.sent[back],
        sent_bytes=seen.sent_bytes[back],
        classes=replace(Classes.of([lists[k] for k in by], classes.demand[by]), bytes=classes.bytes[by]),
        overlay=replace(seen.overlay, placement=placement[np.argsort(placement[:, 0])]),
    )


def numbering(data: Path) -> str:
    rows = []
    cases = {
        "45 brokers, 40 changes": (regional(), 40),
        "email-Eu on Bellcanada, 60 changes": (bellcanada(data, 0), 60),
    }
    for name, (seen, budget) in cases.items():
        for what, planner in (("joint", Joint(budget=budget)), ("leiden", Leiden(max_moves=budget))):
            if what == "leiden" and not len(seen.flows.sender):
                continue
            shares = []
            for seed in range(8):
                order = np.random.default_rng(seed).permutation(seen.clients)
                shares.append(100 * (1 - left(planner, renumbered(seen, order) if seed else seen)))
            rows.append((name, what, f"{np.mean(shares):.2f}%", f"{min(shares):.2f}% to {max(shares):.2f}%"))
    return table(("system", "planner", "saved, mean of 8 numberings", "least to most"), rows)


# --- few changes: does planning for another demand help?


def stationary(seed: int, messages: int = 100_000) -> Observation:
    """A log that does not change: `generate sites`, 28 days, all of it."""
    from overlace.optimize.task import observe
    from overlace.workloads.generate import generate
    from overlace.workloads.sites import Sites

    with tempfile.TemporaryDirectory() as folder:
        generate(Sites(days=28, messages=messages, seed=seed), str(Path(folder) / "trace"))
        return observe(str(Path(folder) / "trace"), Path(folder) / "run").observation


def with_communities(seen: Observation, share: float, seed: int) -> Observation:
    """A part of the demand drawn anew: for a class, members replaced by others of their community, by their traffic."""
    from overlace.planners.placement.ties import ties_of
    from tests.placement.observed import leiden_communities

    community = leiden_communities(ties_of(seen, "messages"), seed)
    rng = np.random.default_rng(seed)
    classes = seen.classes
    talk = np.zeros(seen.clients)
    np.add.at(talk, classes.members, np.repeat(classes.demand, np.diff(classes.start)))
    pools = {int(g): np.flatnonzero((community == g) & (talk > 0)) for g in np.unique(community)}
    lists, demand = [], []
    for k, (a, b) in enumerate(pairwise(classes.start.tolist())):
        lists.append(classes.members[a:b].tolist())
        demand.append((1 - share) * classes.demand[k])
        for _ in range(4):
            drawn = set()
            for c in classes.members[a:b]:
                pool = pools[int(community[c])]
                drawn.add(int(rng.choice(pool, p=talk[pool] / talk[pool].sum())) if len(pool) else int(c))
            lists.append(sorted(drawn))
            demand.append(share * classes.demand[k] / 4)
    scaled = np.maximum(1, np.rint(100 * np.array(demand))).astype(np.int64)
    joined: dict[tuple[int, ...], int] = {}
    for each, amount in zip(lists, scaled.tolist(), strict=True):
        joined[tuple(each)] = joined.get(tuple(each), 0) + amount
    return replace(seen, classes=Classes.of(list(joined), list(joined.values())))


def few(_: Path) -> str:
    rows = []
    for seed in range(3):
        seen = stationary(seed)
        for moves in (25, 50, 100):
            planner = Joint(max_moves=moves, max_swaps=0)
            plain = 1 - left(planner, seen)
            mixed = []
            for share in (0.2, 0.5):
                plan = planner.solve(with_communities(seen, share, 0))
                mixed.append(1 - planner.cost(seen, plan.after) / planner.cost(seen, plan.before))
            rows.append((seed, moves, f"{plain:.1%}", *(f"{each:.1%}" for each in mixed)))
    return table(("seed", "moves", "saved", "planned with 20 % communities", "with 50 %"), rows)


# --- the seeds of benchmarks/joint.py, and five fresh ones


def budgets(_: Path) -> str:
    rows = []
    for seeds in (range(5), range(100, 105)):
        for budget in (40, 120, None):
            for effort in (100, 0):
                found = []
                began = time.process_time()
                for talk in TALK:
                    for seed in seeds:
                        seen = regional(talk, seed=seed)
                        cap = max(6, int(np.bincount(seen.overlay.tree.ravel()).max()))
                        planner = Joint(budget=budget, beta=1.0, max_degree=cap, effort=effort)
                        states = planner.states(planner.problem(seen), seed)
                        costs = {name: state.cost for name, state in states.items()}
                        found.append(min(costs.values()) / costs["as it is"])
                took = (time.process_time() - began) / len(found)
                shown = f"{min(found):.2f} to {max(found):.2f}"
                seeds_shown, most = f"{seeds[0]} to {seeds[-1]}", budget or "unlimited"
                rows.append((seeds_shown, most, effort, f"{np.mean(found):.4f}", shown, f"{took:.1f} s"))
    return table(("seeds", "changes", "effort", "cost / today, mean", "least to most", "CPU each"), rows)


def large(_: Path) -> str:
    rows = []
    for talk in TALK:
        seen = regional(talk, 300, 20_000, 60, 1_000_000)
        planner = Joint(
            budget=3000,
            beta=1.0,
            max_degree=max(6, int(np.bincount(seen.overlay.tree.ravel()).max())),
            method="joint",
            effort=0,
        )
        share, took = timed(lambda planner=planner, seen=seen: left(planner, seen))
        rows.append((talk, f"{share:.3f}", f"{took:.1f} s"))
    return table(("300 brokers, 20,000 clients, 3,000 changes", "cost / today", "CPU, ordered plan"), rows)


PARTS = {each.__name__: each for each in (groups, limits, links, few, numbering, budgets, large)}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("parts", nargs="*", choices=[[], *PARTS], default=[])
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--show", action="store_true", help="print only")
    asked = parser.parse_args()
    Joint(budget=3).solve(regional(brokers=10, clients=30, regions=3, messages=500))  # compiled
    texts = []
    for name in asked.parts or PARTS:
        made = PARTS[name](asked.data)
        texts.append(f"## {name}\n\n{made}")
        print(texts[-1], flush=True)
    if not asked.show:
        write(__file__, "Search", texts)


if __name__ == "__main__":
    sys.exit(main())
