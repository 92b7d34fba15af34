"""Mesh planners: TD-CD-ODA and CD-ODA-I to a million clients, stars under a cap, GM; against plain Python and networkx.

CPU seconds of this process, least of several runs: the machine may have other work to do.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable

import networkx as nx
import numpy as np
from protocol import seconds, short, table, timed, write

from overlace.arrays.draws import scattered
from overlace.model import Observation, Planner
from overlace.planners.mesh.baselines import CdOda1, CdOda2
from overlace.planners.mesh.greedy_merge import GreedyMerge
from overlace.planners.mesh.interests import interests_of
from overlace.planners.mesh.star_cap import StarCap
from overlace.planners.mesh.td_cd_oda import TdCdOda, stars_of_few


def uniform(clients: int, topics: int, each: int = 10) -> Observation:
    _, drawn = scattered(0, 0, np.arange(clients), each, topics)
    pairs = np.column_stack([np.repeat(np.arange(clients), each), drawn])
    return Observation(interests=pairs, clients=clients, topics=topics)


def zipf(clients: int, topics: int, each: int = 10, seed: int = 0) -> Observation:
    rng = np.random.default_rng(seed)
    share = 1 / np.arange(1, topics + 1)
    drawn = [np.sort(rng.choice(topics, each, replace=False, p=share / share.sum())) for _ in range(clients)]
    pairs = np.column_stack([np.repeat(np.arange(clients), each), np.concatenate(drawn)])
    return Observation(interests=pairs, clients=clients, topics=topics)


def cpu(run: Callable[[], object], times: int = 5) -> float:
    """CPU seconds, the least of several runs after one that is not counted."""
    return seconds(run, times, time.process_time)


def copying(observation: Observation, mesh: np.ndarray) -> float:
    """CPU seconds to copy the interests and the mesh through memory, into arrays that are there."""
    rows, links = np.empty_like(observation.interests), np.empty_like(mesh)

    def copy() -> None:
        np.copyto(rows, observation.interests)
        np.copyto(links, mesh)

    return cpu(copy, 20)


def memory(size: int, planner: str) -> float:
    """MB that a solve adds to the peak of resident memory, in a process of its own that has solved a small one."""
    code = (
        "import sys; sys.path.insert(0, 'benchmarks')\n"
        "from mesh import uniform, TdCdOda, StarCap\n"
        "from protocol import risen\n"
        f"{planner}.solve(uniform(200, 100))\n"
        f"observation = uniform({size}, {size // 10})\n"
        f"print(risen(lambda: {planner}.solve(observation))[1] / 2**20)\n"
    )
    return float(subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout)


def plain_td_cd_oda(observation: Observation) -> set[tuple[int, int]]:
    """What one would write with dicts, sets and networkx: Algorithm 1, the sums kept up to date."""
    wants: dict[int, set[int]] = {}
    members: dict[int, set[int]] = {}
    for client, topic in observation.interests.tolist():
        wants.setdefault(client, set()).add(topic)
        members.setdefault(topic, set()).add(client)
    q = {client: sum(len(members[t]) for t in own) for client, own in wants.items()}
    graph = nx.Graph()
    left = set(members)
    while left:
        centre = min((c for c in q if wants[c] & left), key=lambda c: (q[c] / len(wants[c]), c))
        for topic in wants[centre] & left:
            for client in members[topic]:
                q[client] -= len(members[topic])
                if client != centre:
                    graph.add_edge(centre, client)
            left.discard(topic)
    return {(min(e), max(e)) for e in graph.edges}


def plain_gm(observation: Observation) -> set[tuple[int, int]]:
    """Greedy merge with a queue of pairs whose contributions are looked at again when they come up."""
    import heapq
    from itertools import combinations

    wants: dict[int, set[int]] = {}
    members: dict[int, set[int]] = {}
    for client, topic in observation.interests.tolist():
        wants.setdefault(client, set()).add(topic)
        members.setdefault(topic, set()).add(client)
    parts = {topic: nx.utils.UnionFind(own) for topic, own in members.items()}
    shared: dict[tuple[int, int], int] = {}
    for own in members.values():
        for pair in combinations(sorted(own), 2):
            shared[pair] = shared.get(pair, 0) + 1
    queue = [(-count, *pair) for pair, count in shared.items()]
    heapq.heapify(queue)
    links = set()
    while queue:
        count, u, v = heapq.heappop(queue)
        now = [t for t in wants[u] & wants[v] if parts[t][u] != parts[t][v]]
        if len(now) < -count:
            if now:
                heapq.heappush(queue, (-len(now), u, v))
            continue
        links.add((u, v))
        for t in now:
            parts[t].union(u, v)
    return links


def growth() -> str:
    rows, before = [], {}
    for clients in (10_000, 100_000, 1_000_000):
        observation = uniform(clients, clients // 10)
        runs = 3 if clients > 100_000 else 7
        plan = TdCdOda().solve(observation)
        copy = copying(observation, plan.after.mesh)
        state = np.empty((clients, 4), np.int32)

        def stars(observation=observation, state=state):
            return stars_of_few(interests_of(observation, "benchmark"), True, state)

        for what, run in (
            ("TD-CD-ODA: interests to links", stars),
            ("TD-CD-ODA: the whole plan", lambda o=observation: TdCdOda().solve(o)),
            ("CD-ODA-I: the whole plan", lambda o=observation: CdOda1().solve(o)),
        ):
            taken = cpu(run, runs)
            grown = f"{taken / before[what]:.1f}" if what in before else "-"
            before[what] = taken
            rows.append((what, f"{clients:,}", f"{len(plan.after.mesh):,}", short(taken), f"{taken / copy:.0f}", grown))
        rows.append(("copy input and output", f"{clients:,}", "", short(copy), "1", ""))
    head = ("what", "clients", "links", "CPU time", "times a copy", "growth per 10x")
    return "## Uniform interests, a topic for ten clients, 10 topics each\n\n" + table(head, rows)


def caps() -> str:
    observation = uniform(100_000, 10_000)
    base = cpu(lambda: TdCdOda().solve(observation))
    bound = int(np.bincount(observation.interests[:, 1]).max()) - 1
    rows = []
    named: list[tuple[str, Planner]] = [("TD-CD-ODA", TdCdOda())]
    named += [(f"star-cap, cap {bound + over}", StarCap(cap=bound + over)) for over in (10, 50, 250)]
    named += [("star-cap, no cap", StarCap()), ("CD-ODA-II", CdOda2())]
    for name, planner in named:
        plan = planner.solve(observation)
        degree = np.bincount(plan.after.mesh.reshape(-1), minlength=observation.clients)
        taken = cpu(lambda p=planner: p.solve(observation), 3)
        rows.append((name, f"{degree.mean():.2f}", int(degree.max()), short(taken), f"{taken / base:.1f}"))
    head = ("planner (effort 0)", "average", "maximum", "CPU time", "times TD-CD-ODA")
    return f"## 100,000 clients, 10,000 topics; the star bound is {bound}\n\n" + table(head, rows)


def peaks() -> str:
    rows = [
        (planner, f"{size:,}", f"{size * 160 / 1e6:,.0f} MB", f"{memory(size, planner):,.0f} MB")
        for planner in ("TdCdOda()", "StarCap(cap=400)")
        for size in (100_000, 1_000_000)
    ]
    head = ("planner", "clients", "interests", "peak above what was there, plan included")
    return "## Resident memory of a solve, in a process of its own\n\n" + table(head, rows)


def rivals() -> str:
    rows = []
    for clients, topics in ((1_000, 100), (3_000, 300)):
        observation = uniform(clients, topics)
        links, slow = timed(lambda o=observation: plain_td_cd_oda(o))
        assert links == set(map(tuple, TdCdOda().solve(observation).after.mesh.tolist()))
        fast = cpu(lambda o=observation: TdCdOda().solve(o))
        rows.append((f"TD-CD-ODA, {clients:,} x {topics}", short(fast), short(slow), f"{slow / fast:,.0f}"))
    observation = zipf(1_000, 100)
    links, slow = timed(lambda: plain_gm(observation))
    assert links == set(map(tuple, GreedyMerge().solve(observation).after.mesh.tolist()))
    fast = cpu(lambda: GreedyMerge().solve(observation))
    rows.append(("GM, 1,000 x 100 Zipf", short(fast), short(slow), f"{slow / fast:,.0f}"))
    for clients in (10_000, 100_000):
        observation = uniform(clients, clients // 10)
        taken = cpu(lambda o=observation: GreedyMerge().solve(o), 1)
        rows.append((f"GM, {clients:,} x {clients // 10:,}", short(taken), "-", "-"))
    head = ("what", "ours", "Python and networkx", "they / ours")
    note = "The links are the same, checked before. GenODA (2012) reports 3.8 s for GM at 1,000 x 100 Zipf."
    return "## Compared with plain Python\n\n" + table(head, rows) + "\n\n" + note


if __name__ == "__main__":
    write(__file__, "Mesh", [growth(), caps(), peaks(), rivals()])
