"""What plans save on later traffic: plain sums, a forecast, a greedy mover, and the plan made on that traffic itself.

python benchmarks/hold.py [--data FOLDER] [--effort N] [--seeds N] [--show] [email-Eu Enron sites turns newcomers]
"""

from __future__ import annotations

import argparse
import math
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from instances import ZOO, ends_of, number_people, random_tree, unpack_topology
from protocol import table, write

from overlace.limits import Goal, Limits
from overlace.model import Observation, Overlay
from overlace.observe.cut import cut
from overlace.observe.known import known_as
from overlace.observe.later import later
from overlace.observe.observation import observe_with_names
from overlace.optimize.forecast import choose_forecast
from overlace.optimize.interval import total
from overlace.optimize.newcomers import NewClientRule, split_clients
from overlace.optimize.plan import joint_planner
from overlace.optimize.task import Task, metric_of
from overlace.planners.joint.joint import Joint
from overlace.planners.search.system import prices, try_settle
from overlace.planners.search.walk import Search
from overlace.trace.store import DAY_US, HOUR_US, Trace
from overlace.trace.tables import TIME, numbers
from overlace.trace.traffic import NONE, Messages, audience_hashes, reduce
from overlace.trace.writer import Writer
from overlace.workloads.sites import Sites
from reproductions.cc12.mail import Mail, read_logs

DATA = Path("../shared/data")
CHANGES: dict[str, dict[str, int]] = {
    "moves only, 50": {"max_moves": 50, "max_swaps": 0},
    "moves only, 200": {"max_moves": 200, "max_swaps": 0},
    "both, 20": {"budget": 20},
    "both, 50": {"budget": 50},
    "both, 200": {"budget": 200},
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


def greedy(planner: Joint, observation: Observation, moves: int) -> Overlay:
    """The rival of thirty lines: the client that saves most goes where it saves most, if the brokers have room."""
    problem = planner.problem(observation)
    search = Search(problem)
    system, demand = search.system, problem.demand
    out = np.empty(len(problem.node))
    gain, to = np.full(observation.clients, -np.inf), np.zeros(observation.clients, dtype=int)
    movable = np.zeros(observation.clients, dtype=bool)
    movable[problem.movable] = True

    def look(c: int) -> None:
        prices(system, c, 0.0, out)
        to[c] = int(np.argmin(out))
        gain[c] = out[search.home[c]] - out[to[c]]

    for c in problem.movable.tolist():
        look(c)
    done = 0
    while done < moves:
        c = int(np.argmax(gain))
        if gain[c] <= 0:
            break
        went = bool(try_settle(system, c, int(to[c])))
        gain[c], movable[c] = -np.inf, False
        done += went
        near = demand.of_class[demand.of_start[c] : demand.of_start[c + 1]].tolist() if went else []
        met = {m for k in near for m in demand.member[demand.start[k] : demand.start[k + 1]].tolist()}
        for other in sorted(met):  # those it talks with may gain more or less now
            if movable[other]:
                look(other)
    placement = np.column_stack([np.arange(observation.clients), search.home])
    return replace(observation.overlay, placement=placement)


class Held(NamedTuple):
    """What one way to plan for one system saved on later traffic."""

    plain: float
    forecast: float
    ruled: float
    bound: float
    greedy: float
    expected: tuple[float, float, float]
    covered: bool
    known: float  # saved of the messages of known clients
    new: float  # and of those with a newcomer, by the rule
    new_bound: float  # and by the plan made on the later traffic
    new_share: float  # of what later traffic costs today
    chosen: str
    planning: float  # CPU seconds
    choosing: float


def held(trace: Trace, limits: Limits, goal: Goal) -> Held:
    """Plan on the first part as optimize does, and judge on the rest."""
    parts, unit = cut(trace, goal.train), trace.unit
    observation, names = observe_with_names(trace, parts.train)
    known = known_as(trace, names)
    planner = joint_planner(observation, names, limits, goal, unit)
    metric = metric_of(goal.objective, observation.network)
    clock = time.process_time()
    looked = choose_forecast(Task(trace, parts, observation, names, known, limits, goal), planner, metric)
    ahead = looked.ahead
    choosing = time.process_time() - clock
    clock = time.process_time()
    planned = looked.planner(planner).overlay(ahead or observation, goal.seed, plain=observation if ahead else None)
    planning = time.process_time() - clock
    follows = later(trace, parts.held_out, known, observation)
    rows, before = follows.rows(), follows.overlay(observation.overlay)
    today = total(follows.stage, before, rows, unit, metric)

    def saved(overlay: Overlay) -> float:
        return 1 - total(follows.stage, overlay, rows, unit, metric) / today

    plain = saved(follows.overlay(planner.overlay(observation, goal.seed)))
    ruled = NewClientRule(planner, observation, looked.rule, goal.seed).overlay(follows, planned)
    old, new = ((each.before, each.after) for each in split_clients(follows, before, ruled, unit, metric))
    other, other_names = observe_with_names(trace, parts.held_out)
    for_it = joint_planner(other, other_names, limits, goal, unit)
    best = for_it.overlay(other, goal.seed)
    theirs = known_as(trace, other_names)
    homes = np.full(follows.stage.clients, -1)
    homes[known.number("client", theirs.ids("client"))] = best.homes(other.clients)
    homes[follows.clients :] = homes[follows.arrivals.client]
    placement = np.column_stack([np.flatnonzero(homes >= 0), homes[homes >= 0]])
    bound = replace(before, placement=placement, tree=best.tree)
    fresh = follows.rows(np.flatnonzero(follows.fresh))
    for_new = [total(follows.stage, each, fresh, unit, metric) if fresh.num_rows else 0.0 for each in (before, bound)]
    simple = greedy(planner, observation, limits.max_moves or 0) if limits.max_swaps == 0 else None
    listed, sure = saved(follows.overlay(planned)), looked.expected

    def share(pair: Sequence[float]) -> float:
        return 1 - pair[1] / pair[0] if pair[0] else math.nan

    return Held(
        plain,
        listed,
        saved(ruled),
        saved(bound),
        saved(follows.overlay(simple)) if simple else math.nan,
        (sure.share, sure.low, sure.high) if sure else (math.nan,) * 3,
        bool(sure and sure.low - 1e-9 <= listed <= sure.high + 1e-9),
        share(old),
        share(new),
        share(for_new),
        new[0] / today,
        f"{looked.model}; {looked.rule or 'stay'}{'; greedy' if looked.way else ''}",
        planning,
        choosing,
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("parts", nargs="*", default=[])
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--effort", type=int, nargs="+", default=[0, 100])
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--changes", nargs="*", default=list(CHANGES))
    parser.add_argument("--show", action="store_true", help="print only")
    asked = parser.parse_args()
    cases: Cases = {}
    with tempfile.TemporaryDirectory() as folder:  # compile what is timed
        held(
            written(Path(folder) / "trace", *case("sites", asked.data, 9), 9),
            Limits(placement="anywhere", budget=9),
            Goal(),
        )
    for name in asked.parts or ["email-Eu", "Enron", "sites", "turns", "newcomers"]:
        for seed in range(asked.seeds):
            messages, net = case(name, asked.data, seed)
            with tempfile.TemporaryDirectory() as folder:
                trace = written(Path(folder) / "trace", messages, net, seed)
                for what in asked.changes:
                    for effort in asked.effort:
                        limits = Limits(placement="anywhere", allow_link=("*:*",), **CHANGES[what])
                        goal = Goal(effort=effort, seed=seed)
                        cases.setdefault((name, what, effort), []).append(held(trace, limits, goal))
                        print(name, seed, what, effort, cases[name, what, effort][-1], flush=True)
    pages = tables(cases)
    if asked.show:
        print("\n\n".join(pages))
    else:
        write(__file__, "Hold", pages)


Cases = dict[tuple[str, str, int], list[Held]]
"""By log, changes and effort: one for each seed."""


def tables(cases: Cases) -> list[str]:
    """The page: savings, what was expected and what became of newcomers."""

    def mean(each: list[Held], name: str) -> str:
        values = [getattr(one, name) for one in each]
        return "-" if np.isnan(values).any() else f"{np.mean(values):.1%}"

    saved, sure, new = [], [], []
    for key, each in cases.items():
        ways = [mean(each, way) for way in ("plain", "forecast", "ruled", "bound", "greedy")]
        ratio = sum(one.choosing for one in each) / sum(one.planning for one in each)
        saved.append((*key, *ways, each[0].chosen, f"{ratio:.1f}"))
        expects = "{:.1%} ({:.1%} to {:.1%})".format(*np.mean([one.expected for one in each], axis=0))
        sure.append((*key, expects, mean(each, "forecast"), f"{sum(one.covered for one in each)} of {len(each)}"))
        if each[0].new_share:
            new.append((*key, *(mean(each, name) for name in ("new_share", "known", "new", "new_bound"))))
    logs_of = {name: [one for key, each in cases.items() if key[0] == name for one in each] for name, _, _ in cases}
    said = [f"{name} {sum(one.covered for one in each)} of {len(each)}" for name, each in logs_of.items()]
    first = ("log", "changes", "effort")
    seeds = max(len(each) for each in cases.values())
    return [
        f"Seeds 0 to {seeds - 1}: homes uniform at random, today's tree a random spanning tree of the network's links; "
        "objective cost, default limits. *email-Eu* is on Bellcanada of the Topology Zoo (48 brokers, great-"
        "circle milliseconds), *Enron* (from 1990 on) on the 12 of its brokers that are first reached breadth "
        "first, *sites* and *turns* are `generate sites` over 28 days without and with turns, *newcomers* is "
        "*sites* with a third of the clients silent until the cut. The greedy mover moves the client that saves "
        "most to where it saves most, within the same limits; a plan is greedy itself where that was better in "
        "the trial plans. What is planned on that traffic itself is the bound: the same search with the same "
        "budget, which newcomers' moves count against, while a rule has none. What is expected is of the listed "
        "changes, without the rule.",
        "## Saved on traffic that the plan has not seen, mean over seeds",
        table(
            (
                *first,
                "plain sums",
                "forecast",
                "and newcomers by rule",
                "planned on that traffic itself",
                "greedy mover",
                "forecast and rule, seed 0",
                "choosing / planning, CPU",
            ),
            saved,
        ),
        "## What was expected, before that traffic was looked at",
        f"The interval holds what was saved in: {', '.join(said)} cases.",
        table((*first, "expected (mean of the intervals)", "saved", "within the interval"), sure),
        "## Newcomers: clients without traffic before the cut",
        table(
            (
                *first,
                "their share of what is paid",
                "saved for known clients",
                "for newcomers",
                "for newcomers, planned on that traffic itself",
            ),
            new,
        ),
    ]


def case(name: str, data: Path, seed: int) -> tuple[Messages, Net]:
    """Messages and network of an instance."""
    if name in ("email-Eu", "Enron"):
        mail = read_logs(data)[name]
        brokers = None if name == "email-Eu" else 12
        return of_mails(mail if name == "email-Eu" else after_1990(mail)), bellcanada(data, brokers)
    messages, net = of_sites(Sites(days=28, seed=seed, turns=1.0 if name == "turns" else 0.0))
    if name == "newcomers":
        late = np.zeros(600, dtype=bool)
        late[np.random.default_rng([seed, 7]).permutation(600)[: int(LATE * 600)]] = True
        messages = without_late(messages, late, int(messages.at.min()) // DAY_US * DAY_US + 21 * DAY_US)
    return messages, net


if __name__ == "__main__":
    sys.exit(main())
