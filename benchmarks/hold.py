"""What the listed changes of plans save on later traffic, beside two baselines and a greedy mover of our own.

python benchmarks/hold.py [--data FOLDER] [--effort N] [--seeds N] [--show] [email-Eu Enron sites turns newcomers]
"""

from __future__ import annotations

import argparse
import math
import sys
import tempfile
from dataclasses import replace
from functools import cache
from itertools import pairwise
from pathlib import Path
from time import process_time as clock
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from instances import ZOO, ends_of, number_people, random_tree, unpack_topology
from protocol import table, write
from scipy.sparse import csr_array
from scipy.sparse.csgraph import shortest_path

from overlace.limits import Goal, Limits
from overlace.model import Observation, Overlay
from overlace.observe.cut import cut
from overlace.observe.known import known_as
from overlace.observe.later import later
from overlace.observe.observation import observe_with_names
from overlace.optimize.interval import total
from overlace.optimize.result import NoChangeRecommended
from overlace.trace.store import DAY_US, HOUR_US, Trace
from overlace.trace.tables import TIME, numbers
from overlace.trace.traffic import NONE, Messages, audience_hashes, reduce
from overlace.trace.writer import Writer
from overlace.verbs import optimize
from overlace.workloads.sites import Sites
from reproductions.cc12.mail import Mail, read_logs

DATA = Path("../shared/data")
LOGS = ("email-Eu", "Enron", "sites", "turns", "newcomers")
CHANGES: dict[str, dict[str, int]] = {
    **{f"moves only, {most}": {"max_moves": most, "max_swaps": 0} for most in (20, 50, 200)},
    **{f"both, {most}": {"budget": most} for most in (20, 50, 200)},
}
LATE = 1 / 3
"""Share of the clients that appear after the cut, where newcomers are what is asked about."""


class Net(NamedTuple):
    """Brokers and the links between them, and what clients pay for the way to them, where that is known."""

    brokers: pa.Table
    links: np.ndarray
    cost: np.ndarray
    more: dict[str, pa.Table]


def bellcanada(data: Path, brokers: int | None = None) -> Net:
    """The Topology Zoo's Bellcanada, great-circle milliseconds; or its first brokers, breadth first."""
    topology = unpack_topology(data / ZOO[0], ZOO[1])
    cost: dict[tuple[int, int], float] = {}
    for ends, paid in zip(np.sort(ends_of(topology), axis=1).tolist(), topology.links["cost"].to_pylist(), strict=True):
        if ends[0] != ends[1]:
            cost[*ends] = min(cost.get((*ends,), math.inf), paid)
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
            for (a, b), paid in cost.items()
            if a in rank and b in rank
        }
    links = np.array(sorted(cost))
    n = int(links.max()) + 1
    listed = pa.table({"broker": np.arange(n), "region": np.zeros(n, dtype=np.int64), "cost": np.ones(n)})
    return Net(listed, links, np.array([cost[a, b] for a, b in links.tolist()]), {})


def of_mails(mail: Mail) -> Messages:
    """A mail is a message to its receivers."""
    mail = number_people(mail)
    sender, receiver = mail.sender, mail.receiver
    first = np.append(mail.first, len(sender))
    groups = [np.unique(receiver[a:b]) for a, b in pairwise(first)]
    n, start = len(groups), np.append(0, np.cumsum([len(each) for each in groups]))
    one = np.ones(n, dtype=np.int64)
    return Messages(
        (mail.at[mail.first] * 1_000_000).astype(np.int64),
        sender[mail.first].astype(np.int64),
        np.full(n, NONE),
        np.full(n, NONE),
        one,
        one,
        one,
        start,
        np.concatenate(groups).astype(np.int64),
    )


def after_1990(mail: Mail) -> Mail:
    """Without the rows whose clock was wrong."""
    kept = np.flatnonzero(mail.at >= 631_152_000)
    first = mail.first[mail.at[mail.first] >= 631_152_000] - kept[0]
    return mail._replace(sender=mail.sender[kept], receiver=mail.receiver[kept], at=mail.at[kept], first=first)


def of_sites(sites: Sites) -> tuple[Messages, Net]:
    """The messages of a generated log, and its network."""
    rows, tables = sites.part(0, sites.messages), sites.tables()
    one = np.ones(sites.messages, dtype=np.int64)
    messages = Messages(
        rows["at"],
        rows["client"],
        rows["topic"],
        np.full(sites.messages, NONE),
        rows["bytes"],
        one,
        one,
        rows["start"],
        rows["receivers"],
    )
    links = tables["links"]
    pairs = np.column_stack([links["left"].to_numpy(), links["right"].to_numpy()])
    more = {name: tables[name] for name in ("clients", "access")}
    return messages, Net(tables["brokers"], pairs, links["cost"].to_numpy(), more)


def without_late(messages: Messages, late: np.ndarray, until: int) -> Messages:
    """The messages without those clients before some time."""
    early = messages.at < until
    kept = ~(early & late[messages.client])
    row = np.repeat(np.arange(len(messages.at)), np.diff(messages.start))
    heard = kept[row] & ~(early[row] & late[messages.receivers])
    start = np.append(0, np.cumsum(np.bincount(row[heard], minlength=len(messages.at))[kept]))
    columns = (each[kept] for each in messages[:7])
    return Messages(*columns, start, messages.receivers[heard])


def written(folder: Path, messages: Messages, net: Net, seed: int) -> Trace:
    """A trace: homes uniform at random, today's tree a random spanning tree."""
    rng = np.random.default_rng(seed)
    n, clients = net.brokers.num_rows, int(max(messages.client.max(), messages.receivers.max())) + 1
    wired = random_tree(net.links, n, rng)
    homes = rng.integers(0, n, clients)
    topics = int(max(-1, messages.topic.max())) + 1
    named = {"client": clients, "broker": n, "topic": topics, "region": 1 + max(net.brokers["region"].to_pylist())}
    writer = Writer(str(folder))
    writer.name({kind: [f"{kind}-{i:06}" for i in range(many)] for kind, many in named.items()})
    ids = numbers(writer.ids["client"])
    made = reduce(messages, HOUR_US, ids)
    writer.write("traffic", made.traffic)
    writer.write("audiences", made.audiences)
    rows = {
        "message": np.arange(len(messages.at)),
        "at": pa.array(messages.at).cast(TIME),
        "client": messages.client,
        "bytes": messages.bytes,
        "audience": audience_hashes(messages, ids),
        "weight": messages.weight,
        "topic": pa.array(messages.topic, mask=messages.topic == NONE),
    }
    writer.write("messages", pa.table(rows))
    writer.write("brokers", net.brokers)
    left, right = net.links.T
    writer.write("links", pa.table({"left": left, "right": right, "cost": net.cost, "wired": wired}))
    writer.write("sessions", pa.table({"client": np.arange(clients), "broker": homes}))
    for name, each in net.more.items():
        writer.write(name, each)
    return writer.commit(bucket_us=HOUR_US, unit="message", notes={})


def greedy(observation: Observation, moves: int) -> Overlay:
    """A rival without limits, by itself: whoever saves most of what was observed goes where that is, then the next."""
    network, classes, tree = observation.network, observation.classes, observation.overlay.tree
    home, demand = observation.overlay.homes(observation.clients), classes.demand.tolist()
    links = csr_array((network.costs_of(tree), tree.T), shape=(network.brokers, network.brokers))
    far = shortest_path(links, directed=False)
    members = [classes.members[a:b].tolist() for a, b in pairwise(classes.start.tolist())]
    of: list[list[int]] = [[] for _ in home]
    for k, each in enumerate(members):
        for c in each:
            of[c].append(k)

    @cache
    def way(there: tuple[int, ...]) -> np.ndarray:
        """How far each broker is from the subtree that joins these."""
        legs = far[list(there)]
        return (legs[:, None] + legs[None] - legs[:, list(there), None]).min(axis=(0, 1)) / 2

    def pays(k: int, c: int) -> np.ndarray | float:
        """What a class pays for a member at each broker."""
        there = tuple(sorted({int(home[m]) for m in members[k] if m != c}))
        return demand[k] * way(there) if there else 0.0

    cost = np.zeros((len(home), network.brokers))
    if network.access_cost.size:
        amount = np.bincount(observation.flows.receiver, observation.flows.messages, len(home)) + observation.sent
        cost += amount[:, None] * network.access_cost[network.client_region]
    for c, mine in enumerate(of):
        cost[c] += sum(pays(k, c) for k in mine)
    waits = np.ones(len(home), dtype=bool)
    for _ in range(moves):
        gain = np.where(waits, cost[np.arange(len(home)), home] - cost.min(axis=1), 0.0)
        c = int(gain.argmax())
        if not gain[c] > 1e-9:
            break
        near = [(k, m) for k in of[c] for m in members[k] if m != c and waits[m]]
        for k, m in near:
            cost[m] -= pays(k, m)
        home[c], waits[c] = int(cost[c].argmin()), False
        for k, m in near:
            cost[m] += pays(k, m)
    return replace(observation.overlay, placement=np.column_stack([np.arange(len(home)), home]))


class Held(NamedTuple):
    """What one plan saved on later traffic, and what simpler ways did; shares of today's cost."""

    listed: float  # the plan's listed changes
    rule: float  # more by the rule for newcomers
    same: float  # the baseline under the plan's links
    today: float  # and under today's
    greedy: float  # our own mover: no limits, today's links
    expected: tuple[float, float, float]
    train: float
    known: float  # saved of the messages of known clients,
    new: float  # and of those with a newcomer, by the rule
    new_share: float  # of what later traffic costs today
    chosen: str
    searching: float  # CPU seconds: choosing and planning
    asking: float


def held(trace: Trace, limits: Limits, goal: Goal) -> Held:
    """Optimize as a user would, and move greedily beside that."""
    seen: list[tuple[str, float]] = []
    with tempfile.TemporaryDirectory() as folder:
        try:
            answer = optimize(
                trace.path, Path(folder) / "run", limits, goal, progress=lambda _, what: seen.append((what, clock()))
            )
        except NoChangeRecommended as error:
            answer = error.result
    spent: dict[str, float] = {}
    for (what, begin), (_, end) in pairwise(seen):
        spent[what.split()[0]] = spent.get(what.split()[0], 0.0) + end - begin
    part = answer.verdicts[0]
    assert part.saving is not None
    judged, made, parts = part.judged, part.document, cut(trace, goal.train)
    saved = {each.links: each.share for each in judged.baselines}
    observation, names = observe_with_names(trace, parts.train)
    follows = later(trace, parts.held_out, known_as(trace, names), observation)
    moves = min(each for each in (limits.max_moves, limits.budget, observation.clients) if each is not None)
    paid = [
        total(follows.stage, follows.overlay(each), follows.rows(), trace.unit, part.metric)
        for each in (observation.overlay, greedy(observation, moves))
    ]
    rule, sure = judged.newcomers.share if judged.newcomers else 0.0, judged.expected
    known, new = judged.apart or (None, None)
    all_paid = known.before + new.before if known and new else 0.0
    return Held(
        part.saving.share,
        rule,
        saved.get("planned", saved.get("today", 0.0)),
        saved.get("today", 0.0),
        1 - paid[1] / paid[0],
        (sure.share, sure.low, sure.high) if sure else (math.nan,) * 3,
        part.train,
        known.saved if known else part.saving.share,
        new.saved + rule * all_paid / new.before if new and new.before else math.nan,
        new.before / all_paid if new else 0.0,
        f"{made.forecast or 'plain sums'}; {made.newcomers.rule if made.newcomers else 'stay'}"
        + ("; moved greedily" if made.parameters.get("homes") == "greedy" else ""),
        spent.get("choosing", 0.0) + spent.get("planning", 0.0),
        spent.get("asking", 0.0),
    )


Cases = dict[tuple[str, str], list[Held]]
"""By log and changes: one for each seed."""


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("parts", nargs="*", default=[])
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--effort", type=int, default=100)
    parser.add_argument("--forecast", default="chosen")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--changes", nargs="*", default=list(CHANGES))
    parser.add_argument("--messages", type=int, default=200_000, help="of generated logs")
    parser.add_argument("--show", action="store_true", help="print only")
    asked = parser.parse_args()
    cases: Cases = {}
    for name in asked.parts or LOGS:
        for seed in range(asked.seeds):
            messages, net = case(name, asked.data, seed, asked.messages)
            with tempfile.TemporaryDirectory() as folder:
                trace = written(Path(folder) / "trace", messages, net, seed)
                for what in asked.changes:
                    limits = Limits(placement="anywhere", allow_link=("*:*",), **CHANGES[what])
                    goal = Goal(effort=asked.effort, seed=seed, forecast=asked.forecast)
                    if not cases:  # compile what is timed
                        held(trace, limits, goal)
                    cases.setdefault((name, what), []).append(held(trace, limits, goal))
                    print(name, seed, what, cases[name, what][-1], flush=True)
    pages = tables(cases)
    if asked.show:
        print("\n\n".join(pages))
    else:
        write(__file__, "Hold", pages)


def tables(cases: Cases) -> list[str]:
    """The page: savings beside those of simpler ways, what was expected, and what became of newcomers."""

    def mean(each: list[Held], name: str) -> str:
        values = [getattr(one, name) for one in each]
        return "-" if np.isnan(values).any() else f"{np.mean(values):.1%}"

    def points(each: list[Held]) -> str:
        return f"{100 * np.mean([one.listed - max(one.same, one.today) for one in each]):+.1f}"

    def covered(each: list[Held]) -> str:
        return f"{sum(one.expected[1] - 1e-9 <= one.listed <= one.expected[2] + 1e-9 for one in each)} of {len(each)}"

    saved, sure, new = [], [], []
    for (name, what), each in cases.items():
        ways = [mean(each, way) for way in ("listed", "same", "today", "greedy")]
        ratio = sum(one.asking for one in each) / sum(one.searching for one in each)
        cpu = f"{np.mean([one.searching for one in each]):.1f} s"
        saved.append((name, what, *ways, points(each), mean(each, "rule"), each[0].chosen, cpu, f"{ratio:.0%}"))
        expects = "{:.1%} ({:.1%} to {:.1%})".format(*np.mean([one.expected for one in each], axis=0))
        sure.append((name, what, expects, mean(each, "train"), mean(each, "listed"), covered(each)))
        if each[0].new_share:
            new.append((name, what, *(mean(each, which) for which in ("new_share", "known", "new"))))
    logs = {name: [one for key, each in cases.items() if key[0] == name for one in each] for name, _ in cases}
    means = [(name, *(mean(each, way) for way in ("listed", "same", "today", "greedy")), points(each), covered(each))
             for name, each in logs.items()]  # fmt: skip
    seeds = max(len(each) for each in cases.values())
    ways = (
        "the plan's listed changes",
        "baseline, the plan's links",
        "baseline, today's links",
        "our mover, no limits",
    )
    return [
        f"Seeds 0 to {seeds - 1}: homes uniform at random, today's tree a random spanning tree of the network's links; "
        "objective cost, default limits. *email-Eu* is on Bellcanada of the Topology Zoo (48 brokers, great-"
        "circle milliseconds), *Enron* (from 1990 on) on the 12 of its brokers that are first reached breadth "
        "first, *sites* and *turns* are `generate sites` over 28 days without and with turns, *newcomers* is "
        "*sites* with a third of the clients silent until the cut. The baselines are those that `overlace optimize` "
        "prints: as many changes within the same limits, clients moved greedily. Our mover is a script of its own "
        "here: moves only, no limits on brokers, whoever saves most of the training window first. Points are what the "
        "plan saves beyond the better baseline of each case.",
        "## Mean of each log",
        table(("log", *ways, "points", "within the interval expected"), means),
        "## Saved on held-out traffic, by changes",
        table(("log", "changes", *ways, "points", "more by the rule for newcomers", "planned for, seed 0",
               "choosing and planning, CPU", "asking what limits it, of that"), saved),
        "## What was expected, before that traffic was looked at",
        table(("log", "changes", "expected (mean of the intervals)", "training window", "held out",
               "within the interval"), sure),
        "## Newcomers: clients without traffic before the cut",
        table(("log", "changes", "their share of what is paid", "saved for known clients", "for them, by rule"), new),
    ]  # fmt: skip


def case(name: str, data: Path, seed: int, most: int = 200_000) -> tuple[Messages, Net]:
    """Messages and network of an instance."""
    if name in ("email-Eu", "Enron"):
        mail = read_logs(data)[name]
        brokers = None if name == "email-Eu" else 12
        return of_mails(mail if name == "email-Eu" else after_1990(mail)), bellcanada(data, brokers)
    messages, net = of_sites(Sites(most, days=28, seed=seed, turns=1.0 if name == "turns" else 0.0))
    if name == "newcomers":
        late = np.zeros(600, dtype=bool)
        late[np.random.default_rng([seed, 7]).permutation(600)[: int(LATE * 600)]] = True
        messages = without_late(messages, late, int(messages.at.min()) // DAY_US * DAY_US + 21 * DAY_US)
    return messages, net


if __name__ == "__main__":
    sys.exit(main())
