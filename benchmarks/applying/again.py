"""Plans in halves and back, appliers and brokers that are killed, and a larger network."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Mapping
from typing import NamedTuple

from protocol import table

from applying.scene import COUNTS, apply_words, counts, document, record_and_plan, scene
from applying.whole import NAMES
from overlace.live.planned import Planned
from overlace.live.swap import BACK, PHASES
from overlace.live.tally import KINDS, Tally, links_crossed
from overlace.live.wiring import Links
from tests.live.appliers import KILLED, Outcome
from tests.live.stage import Stage

SEED = 7
UNITS = {"wire": 3, "prepare": 10, "probe": 3, "switch": 10, "finish": 10, "unwire": 3}
"""After how many brokers or clients of a phase the applier is killed."""

Layout = tuple[Links, Mapping[str, str]]
Rows = list[list[str]]


def same(found: Layout, meant: Layout) -> str:
    """How much of a layout is as meant."""
    homes = sum(found[1].get(name) == home for name, home in meant[1].items())
    return f"{homes} of {len(meant[1])} homes, {len(found[0] & meant[0])} of {len(meant[0])} links"


def layouts(stage: Stage, planned: Planned) -> tuple[Layout, Layout]:
    """What is, and what the plan means."""
    links, homes = stage.layout()
    return (links, homes), (planned.links, {name: planned.homes.get(name, home) for name, home in homes.items()})


def describe(told: Outcome) -> str:
    """How a verb ended."""
    return "done" if told.code == 0 else f"exit code {told.code}: {told.text[:160]}"


# in halves, and back


def halves() -> str:
    """The section of plans in halves, and back."""
    rows: Rows = []
    total: Rows = []
    for substrate in NAMES:
        with scene(substrate, SEED) as stage:
            with stage.loaded() as tally:
                planned = record_and_plan(stage)
                for what, how, found in go_there_and_back(stage, planned):
                    rows.append([NAMES[substrate], what, how, found])
                    print(rows[-1], flush=True)
            total.append([NAMES[substrate], *counts(tally)])
    head = ["", "verb", "it said", "then, as the brokers say, of what is meant"]
    return f"{table(head, rows)}\n\nOver all of this:\n\n{table(['', *COUNTS], total)}"


def go_there_and_back(stage: Stage, planned: Planned) -> list[tuple[str, str, str]]:
    """Verbs, how each ended, and how the network then was."""
    before, after = layouts(stage, planned)
    plan, words = planned.path, apply_words(stage)
    steps = planned.document.steps_total
    found = []
    told = stage.verb("apply", plan, "--steps", steps // 2, *words)
    half = document(told) if told.code == 0 else {}
    meant = "{landed} of {clients} homes, {links_landed} of {links} links".format(**half) if half else ""
    found.append(
        (f"`apply --steps {steps // 2}` of {steps}", describe(told), f"{meant} of the overlay after these steps")
    )
    told = stage.verb("apply", plan, *words)
    found.append(("`apply`, the rest", describe(told), f"{same(stage.layout(), after)} of the plan"))
    told = stage.verb("apply", plan, "--inverse", *words)
    found.append(("`apply --inverse`", describe(told), f"{same(stage.layout(), before)} as they were"))
    told = stage.verb("apply", plan, *words, kill=("switch", UNITS["switch"]))
    how = f"killed after {UNITS['switch']} clients had switched" if told.code == KILLED else describe(told)
    told = stage.verb("rollback")
    found.append((f"`apply`, {how}; `rollback`", describe(told), f"{same(stage.layout(), before)} as they were"))
    return found


# the applier is killed


class Sum(NamedTuple):
    """What a load has come to."""

    expected: int
    lost: int
    duplicated: int

    @classmethod
    def of(cls, tally: Tally) -> Sum:
        """As it is now."""
        return cls(sum(tally.figures(kind).expected for kind in KINDS), tally.lost, tally.duplicated)


def kills() -> str:
    """The section of appliers that were killed."""
    rows: Rows = []
    for substrate in NAMES:
        with scene(substrate, SEED) as stage:
            with stage.loaded():
                planned = record_and_plan(stage)
            ends = layouts(stage, planned)
            at = 0
            for then, phases in (("resume", PHASES), ("rollback", BACK)):
                for phase in phases:
                    row, at = kill(stage, planned, ends, at, (phase, then))
                    rows.append([NAMES[substrate], *row])
                    print(rows[-1], flush=True)
    return f"{KILLS}\n\n" + table(
        ["", "killed in", "after", "then", "it said", "as meant", "deliveries", "lost", "doubled"], rows
    )


def kill(stage: Stage, planned: Planned, ends: tuple[Layout, Layout], at: int, how: tuple[str, str]) -> tuple:
    """(row, where the network is then): an applier killed in a phase, then resumed or taken back."""
    phase, then = how
    before = Sum.of(stage.load.tally)
    inverse = ["--inverse"] if at else []
    with stage.loaded() as tally:
        killed = stage.verb("apply", planned.path, *inverse, *apply_words(stage), kill=(phase, UNITS[phase]))
        time.sleep(1)
        told = stage.verb(then, "--json")
        at = 1 - at if then == "resume" else at
        found = same(stage.layout(alone=told.code == 0), ends[at])
    now = Sum.of(tally)
    unit = "brokers" if phase in ("wire", "probe", "unwire") else "clients"
    state = f"{UNITS[phase]} {unit}" if killed.code == KILLED else describe(killed)
    return [phase, state, f"`{then}`", describe(told), found, f"{now.expected - before.expected:,}",
            f"{now.lost - before.lost:,}", f"{now.duplicated - before.duplicated:,}"], at  # fmt: skip


KILLS = """The applier is killed with SIGKILL after some units of a phase, a second later another process resumes or
rolls back. The plan is carried out there and, with `--inverse`, back, in turn."""


# a broker is killed


def brokers() -> str:
    """The section of brokers that were killed."""
    rows: Rows = []
    for substrate in NAMES:
        with scene(substrate, SEED) as stage:
            with stage.loaded():
                planned = record_and_plan(stage)
            for inner in (False, True):
                rows.append([NAMES[substrate], *kill_broker(stage, planned, inner=inner)])
                print(rows[-1], flush=True)
    head = ["", "killed", "clients there", "`resume` says", "`rollback`, when it is back", "as it was", "deliveries",
            "lost", "to, from or through it", "others", "groups and requests", "doubled"]  # fmt: skip
    return f"{BROKERS}\n\n{table(head, rows)}"


BROKERS = f"""The applier is killed in prepare (after {UNITS["prepare"]} clients) and then a broker; after `resume` has
stopped, the broker is started again, and when its links are there again `rollback` takes all back. Its clients and
those beyond it are without it for as long, which is what the loss is made of."""


def kill_broker(stage: Stage, planned: Planned, *, inner: bool) -> list[str]:
    """A broker killed in prepare: a leaf of the tree, or one with several links."""
    before = stage.layout()
    links, homes = before
    degree = {name: sum(name in link for link in links) for name in stage.deployment.brokers}
    broker = next(name for name, count in degree.items() if (count > 1) == inner and name in homes.values())
    stage.load.tally = Tally(stage.load.scenario)
    with stage.loaded() as tally:
        killed = stage.verb("apply", planned.path, *apply_words(stage), kill=("prepare", UNITS["prepare"]))
        assert killed.code == KILLED, killed.text
        name = broker if stage.deployment.substrate == "nats" else f"{broker}.0"
        os.kill(stage.processes()[name].pid, signal.SIGKILL)
        time.sleep(1)
        stopped = stage.verb("resume")
        stage.restart(broker)
        deadline = time.monotonic() + 60
        while stage.shown().links[0] != links and time.monotonic() < deadline:
            time.sleep(0.5)
        told = stage.verb("rollback")
        found = same(stage.layout(alone=told.code == 0), before)
    through, others = lost_through(tally, links, homes, broker)
    resumed = f"exit code {stopped.code}, " + ("names it" if broker in stopped.text else stopped.text[:160])
    return [f"{broker}, {'inner' if inner else 'a leaf'}", str(list(homes.values()).count(broker)), resumed,
            describe(told), found, *counts(tally)[:2], f"{through:,}", f"{others:,}",
            f"{tally.lost - through - others:,}", f"{tally.duplicated:,}"]  # fmt: skip


def lost_through(tally: Tally, links: Links, homes: Mapping[str, str], broker: str) -> tuple[int, int]:
    """(lost to, from or through a broker, others): deliveries of topics."""
    through = others = 0
    for (topic, client), sent in tally._sent.items():
        known = tally.scenario.topics[topic]
        for receiver in known.receivers if known.kind == "topics" else ():
            stream = tally._streams.get((topic, client, receiver))
            lost = sent - (sum(map(bool, stream.seen)) if stream else 0)
            way = {homes[client]}.union(*links_crossed(links, homes[client], [homes[receiver]]))
            through, others = (through + lost, others) if broker in way else (through, others + lost)
    return through, others


# size


def size() -> str:
    """The section of a larger network."""
    with scene("nats", SEED, brokers=24, clients=300) as stage, stage.loaded() as tally:
        planned = record_and_plan(stage)
        done = document(stage.verb("apply", planned.path, *apply_words(stage)))
        time.sleep(2)
    phases = {phase: f"{done['phases'].get(phase, 0):.2f} s" for phase in PHASES}
    moved = sum(planned.was.get(name) != home for name, home in planned.homes.items())
    head = ["clients that move", "new links", *phases, "in all", "at the planned home", *COUNTS]
    row = [str(moved), str(len(planned.links - planned.before)), *phases.values(), f"{done['seconds']:.1f} s",
           f"{done['landed']} of {done['clients']}", *counts(tally)]  # fmt: skip
    return table(head, [row]) + "\n\n1,000 clients were not tried."
