"""What plans save on later traffic: plain sums, a forecast, a greedy mover, and the plan made on that traffic.

python benchmarks/hold.py [--data FOLDER] [--show] [email-Eu Enron]
"""

from __future__ import annotations

import argparse
import math
import sys
import tarfile
import tempfile
import time
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
from protocol import table, write

from overlace.ingest.topologies.read import read_topology
from overlace.model import Classes, Flows, Network, Observation, Overlay
from overlace.observe.forecast import BLOCKS, Forecast, Slices, expected, half_life_of, joined
from overlace.planners.joint.joint import Joint
from overlace.reproduce.cc12.unseen import Mail, logs

DATA = Path("../shared/data")
TRAIN = 0.7
"""Share of the messages that plans."""
DAY = 86_400
ORIGINS = (5 / 7, 6 / 7)


def bellcanada(data: Path, brokers: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    """(links, cost): the Topology Zoo's Bellcanada, great-circle milliseconds; or its first brokers, breadth first."""
    with tempfile.TemporaryDirectory() as folder, tarfile.open(data / "internet_topology_zoo_graphml.tar.gz") as tar:
        name = next(each for each in tar.getnames() if each.endswith("Bellcanada.graphml"))
        tar.extract(name, folder, filter="data")
        topology = read_topology([Path(folder) / name])
    number = {name: i for i, name in enumerate(topology.brokers)}
    columns = [topology.links[c].to_pylist() for c in ("left", "right", "cost")]
    cost: dict[tuple[int, int], float] = {}
    for a, b, paid in zip(*columns, strict=True):
        if a != b:
            key = min(number[a], number[b]), max(number[a], number[b])
            cost[key] = min(cost.get(key, math.inf), paid)
    if brokers is not None:
        near: dict[int, list[int]] = {}
        for a, b in sorted(cost):
            near.setdefault(a, []).append(b)
            near.setdefault(b, []).append(a)
        found = [0]
        for v in found:
            found += [w for w in sorted(near.get(v, ())) if w not in found]
        rank = {v: i for i, v in enumerate(found[:brokers])}
        cost = {
            (min(rank[a], rank[b]), max(rank[a], rank[b])): paid
            for (a, b), paid in cost.items() if a in rank and b in rank
        }  # fmt: skip
    links = np.array(sorted(cost))
    return links, np.array([cost[a, b] for a, b in links.tolist()])


class Log:
    """Mails as traffic: a mail is a class of its sender and receivers."""

    def __init__(self, mail: Mail) -> None:
        ids, who = np.unique(np.concatenate([mail.sender, mail.receiver]), return_inverse=True)
        self.clients = len(ids)
        self.sender, self.receiver = who[: len(mail.sender)], who[len(mail.sender) :]
        self.first = np.append(mail.first, len(self.sender))
        self.at = mail.at[mail.first]

    def between(self, since: float, until: float) -> tuple[Flows, Classes, np.ndarray]:
        """(flows, classes, sent) of the mails of a time."""
        chosen = np.flatnonzero((self.at >= since) & (self.at < until))
        found: dict[tuple[int, ...], int] = {}
        for k in chosen.tolist():
            a, b = self.first[k], self.first[k + 1]
            key = tuple(sorted({int(self.sender[a]), *self.receiver[a:b].tolist()}))
            found[key] = found.get(key, 0) + 1
        rows = np.concatenate([np.arange(self.first[k], self.first[k + 1]) for k in chosen.tolist()] or [[]]).astype(
            int
        )
        pair, count = np.unique(self.sender[rows] * self.clients + self.receiver[rows], return_counts=True)
        sent = np.bincount(self.sender[self.first[chosen]], minlength=self.clients)
        keys = sorted(found)
        return Flows(*np.divmod(pair, self.clients), count), Classes.of(keys, [found[k] for k in keys]), sent


def system(log: Log, links: np.ndarray, cost: np.ndarray, seed: int) -> Observation:
    """Homes uniform at random, today's tree a random spanning tree."""
    rng = np.random.default_rng(seed)
    n = int(links.max()) + 1
    tree, root = [], list(range(n))
    for a, b in links[rng.permutation(len(links))].tolist():
        if root[a] != root[b]:
            tree.append((a, b))
            root = [root[a] if each == root[b] else each for each in root]
    homes = rng.integers(0, n, log.clients)
    return Observation(
        network=Network(region=np.zeros(n), links=links, link_cost=cost),
        overlay=Overlay(placement=np.column_stack([np.arange(log.clients), homes]), tree=np.array(sorted(tree))),
        clients=log.clients, sent=np.zeros(log.clients),
    )  # fmt: skip


def seen(base: Observation, log: Log, since: float, until: float) -> Observation:
    """The system with the traffic of a time."""
    flows, classes, sent = log.between(since, until)
    return replace(base, flows=flows, classes=classes, sent=sent)


def slices(log: Log, since: float, until: float) -> Slices:
    """The traffic of a time by days, from its end back."""
    edges = [until - DAY * i for i in range(int((until - since) // DAY), -1, -1)]
    edges = [since, *edges] if edges[0] > since else edges
    parts = [(a, b, *log.between(a, b)[:2]) for a, b in pairwise(edges)]
    kept = [(int(a * 1e6), int(b * 1e6), f, c) for a, b, f, c in parts if len(c)]
    return joined([(a, b) for a, b, _, _ in kept], [(f, c) for _, _, f, c in kept])


def forecast_for(planner: Joint, base: Observation, log: Log, since: float, until: float) -> Forecast:
    """Half-life by the rule; blocks by planning at earlier times and judging on what followed them."""
    days = half_life_of(slices(log, since, until), base.clients)
    saved = np.zeros(len(BLOCKS))
    borders = [since + share * (until - since) for share in ORIGINS] + [until]
    quick = replace(planner, effort=0, method="joint")
    for origin, following in pairwise(borders):
        known, after = seen(base, log, since, origin), seen(base, log, origin, following)
        if not len(after.classes) or not len(known.classes):
            continue
        parts = slices(log, since, origin)
        for i, share in enumerate(BLOCKS):
            made = quick.overlay(expected(known, parts, Forecast(days, share)), 0, plain=known)
            saved[i] += 1 - planner.cost(after, made) / planner.cost(after, base.overlay)
    return Forecast(days, BLOCKS[int(np.argmax(saved))])


def greedy(planner: Joint, observation: Observation, moves: int) -> Overlay:
    """The rival of thirty lines: the client that saves most goes where it saves most, if the brokers have room."""
    problem = planner.problem(observation)
    from overlace.planners.search.system import prices, try_settle
    from overlace.planners.search.walk import Search

    search = Search(problem)
    system, n = search.system, len(problem.node)
    out = np.empty(n)
    gain, to = np.full(observation.clients, -np.inf), np.zeros(observation.clients, dtype=int)

    def look(c: int) -> None:
        prices(system, c, 0.0, out)
        to[c] = int(np.argmin(out))
        gain[c] = out[search.home[c]] - out[to[c]]

    for c in problem.movable.tolist():
        look(c)
    done = 0
    while done < moves:
        c = int(np.argmax(gain))
        before = gain[c]
        if before <= 0:
            break
        look(c)
        if gain[c] < before - 1e-9:
            continue
        done += bool(try_settle(system, c, int(to[c])))
        gain[c] = -np.inf
    return replace(observation.overlay, placement=np.column_stack([np.arange(observation.clients), search.home]))


def measured(
    name: str, log: Log, links: np.ndarray, cost: np.ndarray, plans: dict[str, Joint]
) -> list[tuple[object, ...]]:
    """Held-out savings of each way, seeds 0 to 3."""
    cut = float(np.sort(log.at)[int(TRAIN * len(log.at))])
    begin, end = float(log.at.min()), float(log.at.max()) + 1
    rows = []
    for what, planner in plans.items():
        found, chosen, spent = [], [], [0.0, 0.0]
        for seed in range(4):
            base = system(log, links, cost, seed)
            train, later = seen(base, log, begin, cut), seen(base, log, cut, end)
            today = planner.cost(later, base.overlay)
            clock = time.process_time()
            plain = planner.overlay(train, seed)
            spent[0] += time.process_time() - clock
            clock = time.process_time()
            forecast = forecast_for(planner, base, log, begin, cut)
            spent[1] += time.process_time() - clock
            ahead = planner.overlay(expected(train, slices(log, begin, cut), forecast), seed, plain=train)
            bound = planner.overlay(later, seed)
            ways = [plain, ahead, bound]
            if planner.max_swaps == 0:
                ways.append(greedy(planner, train, planner.max_moves or 0))
            found.append([1 - planner.cost(later, each) / today for each in ways])
            chosen.append(str(forecast))
        mean = np.mean(found, axis=0)
        shares = [f"{share:.1%}" for share in mean] + ["-"] * (4 - len(mean))
        rows.append((name, what, *shares, chosen[0], f"{spent[1] / spent[0]:.1f}"))
        print(rows[-1], flush=True)
    return rows


def after_1990(mail: Mail) -> Mail:
    """Without the rows whose clock was wrong."""
    kept = np.flatnonzero(mail.at >= 631_152_000)
    first = mail.first[mail.at[mail.first] >= 631_152_000] - kept[0]
    return mail._replace(sender=mail.sender[kept], receiver=mail.receiver[kept], at=mail.at[kept], first=first)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("parts", nargs="*", default=[])
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--effort", type=int, default=0)
    parser.add_argument("--show", action="store_true", help="print only")
    asked = parser.parse_args()
    mails = logs(asked.data)
    enron = after_1990(mails["Enron"])
    cases = {"email-Eu": (mails["email-Eu"], bellcanada(asked.data)), "Enron": (enron, bellcanada(asked.data, 12))}
    moves = {f"moves only, {k}": Joint(max_moves=k, max_swaps=0, effort=asked.effort) for k in (50, 200)}
    both = {f"both, {k}": Joint(budget=k, effort=asked.effort) for k in (20, 50, 200)}
    rows = []
    for name, (mail, (links, cost)) in cases.items():
        if not asked.parts or name in asked.parts:
            rows += measured(name, Log(mail), links, cost, moves | both)
    heads = ("log", "changes", "plain sums", "forecast", "planned on held-out traffic", "greedy", "forecast, seed 0",
             "choosing / planning, CPU")  # fmt: skip
    if not asked.show:
        write(__file__, "Hold", [table(heads, rows)])


if __name__ == "__main__":
    sys.exit(main())
