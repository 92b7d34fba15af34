"""Carry a plan out on a running network, by a colour swap: look, say what would be done, do it, verify.

A plan is applied as a difference by name: every link that it removes must be there, none that it adds may be, clients
that it moves must be where it saw them, and the links with the difference must be a tree. Clients that the plan does
not know keep their home and take part.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing
from pathlib import Path
from typing import NamedTuple

from overlace.catalog import PLANNERS
from overlace.errors import BadNetwork, BadPlan
from overlace.live.adapter import Changed, Shown, refuse_silent
from overlace.live.deployment import Deployment
from overlace.live.filters import bridge_lines, link_filters
from overlace.live.journal import Journal, Layout, begin_journal, last_journal, write_filters
from overlace.live.mosquitto_files import Filters
from overlace.live.options import ApplyOptions
from overlace.live.planned import Planned, read_planned, refuse_no_tree
from overlace.live.recorder import refuse_names
from overlace.live.swap import PHASES, Swap, Unit, landed
from overlace.live.wiring import Pair, dials, is_tree
from overlace.model import Progress, name_of
from overlace.stopping import asked, coming_to_an_end
from overlace.trace.plans import cut_plan
from overlace.trace.runs import read_observation
from overlace.wording import counted


class Intent(NamedTuple):
    """What carrying a plan out would change, as the network is now."""

    plan: str  # its digest
    old: int
    new: int
    before: Layout
    after: Layout
    moves: Mapping[str, tuple[str, str]]  # client: from, to
    absent: tuple[str, ...]  # clients that the plan moves and that are not there
    unknown: tuple[str, ...]  # clients that the plan does not know
    unwrapped: tuple[str, ...]
    stranded: tuple[str, ...]
    filters: Filters | None  # Mosquitto: what bridges carry
    latency_ms: float  # of the longest way in the old colour

    @property
    def new_links(self) -> list[Pair]:
        """Links that come."""
        return sorted(self.after.links - self.before.links)

    @property
    def old_links(self) -> list[Pair]:
        """Links that go."""
        return sorted(self.before.links - self.after.links)

    def lines(self, brokers: int) -> list[str]:
        """What would be done, in lines."""
        clients = len(self.before.homes)
        moved, links = len(self.moves), max(len(self.new_links), len(self.old_links))
        found = [
            f"Plan: {counted(moved, 'client moves', 'clients move')}, {counted(links, 'link changes', 'links change')}",
            *(f"+ link {a} - {b}" for a, b in self.new_links),
            *(f"- link {a} - {b}" for a, b in self.old_links),
            *(f"~ client {name}: {a} -> {b}" for name, (a, b) in sorted(self.moves.items())),
            f"network   as the plan saw it: {moved} clients at their old home, {len(self.old_links)} of "
            f"{len(self.old_links)} links to go are wired",
            f"clients   {clients - len(self.unwrapped)} of {clients} follow orders; "
            + (f"left behind: {'; '.join(self.stranded)}" if self.stranded else "nothing would be left behind"),
            f"phases    wire {counted(brokers, 'broker', 'brokers')}, prepare {counted(clients, 'client', 'clients')} "
            f"({clients} connections more), probe {brokers} brokers, switch {clients}, finish {clients}, "
            f"unwire {brokers}",
        ]
        if self.absent:
            found.append(f"absent    {counted(len(self.absent), 'client', 'clients')} that the plan moves: "
                         f"{', '.join(self.absent[:5])}")  # fmt: skip
        if self.unknown:
            count = counted(len(self.unknown), "client", "clients")
            found.append(f"unknown   {count} that the plan does not know stay where they are")
        return found


class Applied(NamedTuple):
    """What came of it."""

    clients: int
    landed: int
    links: int
    links_landed: int
    seconds: float
    journal: Path
    live: int
    phases: Mapping[str, float]  # seconds

    def line(self) -> str:
        """In a line."""
        return (
            f"{self.landed} of {self.clients} at the planned home, {self.links_landed} of {self.links} links as "
            f"planned, {self.seconds:.1f} s; journal {self.journal}"
        )


def changer_for(deployment: Deployment) -> Changed:
    """The network that a network file names, to be changed."""
    refuse_one_colour(deployment)
    if deployment.substrate == "nats":
        from overlace.live.nats import NatsNetwork

        return NatsNetwork(deployment)
    from overlace.live.mosquitto import MosquittoNetwork

    return MosquittoNetwork(deployment)


def refuse_one_colour(deployment: Deployment) -> None:
    """Refused where there is no second colour to go to."""
    if len(deployment.colours) < 2:
        raise BadNetwork(f"{deployment.path}: a network of one colour can be recorded, not swapped. Name two colours.")


async def intend(adapter: Changed, planned: Planned, options: ApplyOptions) -> Intent:
    """Look at the network, and say what the plan would change; refused if it does not fit."""
    deployment = adapter.deployment
    shown = await adapter.shown()
    refuse_silent(shown, deployment)
    refuse_names(shown, deployment)
    live = shown.live
    present = shown.links[live]
    links = _links(planned, present, deployment)
    was, moves, absent = _moves(planned, shown, live)
    homes = {name: str(seen.homes[live] or seen.homes[1 - live]) for name, seen in shown.clients.items()}
    after = {name: moves[name][1] if name in moves else home for name, home in homes.items()}
    unknown = tuple(sorted(name for name in homes if name not in was))
    unwrapped = tuple(sorted(name for name, seen in shown.clients.items() if not seen.wrapped))
    if shown.nameless:
        unwrapped += tuple(f"connection {i + 1} that only the log names" for i in range(shown.nameless))
    if unwrapped and not options.lossy:
        first = ", ".join(map(repr, unwrapped[:3])) + (", ..." if len(unwrapped) > 3 else "")
        raise BadNetwork(
            f"{counted(len(unwrapped), 'client follows', 'clients follow')} no orders and would lose messages: {first}."
            " Let them use overlace.live.client, or accept the loss with --lossy."
        )
    stranded = tuple(each for each in await adapter.stranded() if not (options.copy_retained and "retained" in each))
    if stranded:
        raise BadNetwork(f"would be left behind: {'; '.join(stranded[:3])}. Move or remove it first.")
    filters = _filters(shown, after, links, deployment, options) if deployment.substrate == "mosquitto" else None
    latency = await adapter.latencies(live, present)
    return Intent(planned.document.digest, live, 1 - live, Layout(present, homes), Layout(links, after), moves, absent,
                  unknown, unwrapped, stranded, filters, sum(latency.values()) / 1000)  # fmt: skip


def _links(planned: Planned, present: frozenset[Pair], deployment: Deployment) -> frozenset[Pair]:
    """The links with the plan's difference; refused if it does not fit what is wired."""
    gone, new = planned.before - planned.links, planned.links - planned.before
    missing, there = sorted(gone - present), sorted(new & present)
    if missing or there:
        a, b = (missing or there)[0]
        what = "is not wired, and the plan removes it" if missing else "is wired already, and the plan adds it"
        raise BadPlan(f"{planned.path}: link {a} - {b} {what}. The network is not as the plan saw it: record it again.")
    for a, b in sorted(new):
        if not deployment.may_link(a, b):
            raise BadNetwork(f"{deployment.path}: allow_link does not allow the plan's new link {a} - {b}.")
    links = (present - gone) | new
    if not is_tree(deployment.brokers, links):
        raise BadPlan(f"{planned.path}: the links of the network with the plan's changes do not join all brokers.")
    return links


def _moves(
    planned: Planned, shown: Shown, live: int
) -> tuple[dict[str, str], dict[str, tuple[str, str]], tuple[str, ...]]:
    """(homes that the plan saw, moves, clients that are not there); refused if one is elsewhere than it saw."""
    observation, names = read_observation(planned.run)
    before = observation.overlay.homes(observation.clients)
    was = {name_of("client", i, names): planned.brokers[b] for i, b in enumerate(before.tolist()) if b >= 0}
    moves, absent = {}, []
    for name, home in planned.homes.items():
        if was.get(name) in (None, home):
            continue
        if name not in shown.clients:
            absent.append(name)
            continue
        now = shown.clients[name].homes[live]
        if now == home:
            continue
        if now != was[name]:
            raise BadPlan(
                f"{planned.path}: client {name!r} is at {now}; the plan saw it at {was[name]} and moves it to {home}. "
                "The network is not as the plan saw it: record it again."
            )
        moves[name] = (was[name], home)
    for name, home in planned.newcomers.items():
        now = shown.clients[name].homes[live] if name in shown.clients else None
        if now is not None and now != home and name not in moves:
            moves[name] = (now, home)
    return was, moves, tuple(sorted(absent))


def _filters(
    shown: Shown, homes: Mapping[str, str], links: frozenset[Pair], deployment: Deployment, options: ApplyOptions
) -> Filters:
    """What each bridge carries: the filters of clients, at their new homes."""
    wanted: dict[str, set[str]] = {}
    for name, seen in shown.clients.items():
        wanted.setdefault(homes[name], set()).update(each for each, _ in seen.filters)
    across = link_filters(links, wanted, options.filters)
    return bridge_lines(across, dials(deployment.brokers, links))


def read_for(plan: Path, options: ApplyOptions) -> Planned:
    """The plan, or the first steps of it."""
    run = Path(options.run) if options.run else None
    if options.steps is None:
        planned = read_planned(plan, run)
        refuse_no_tree(planned)
        return planned
    folder = plan if plan.is_dir() else plan.parent
    with tempfile.TemporaryDirectory() as beside:
        cut = Path(beside) / "cut"
        cut_plan(plan, options.steps, cut, PLANNERS)
        planned = read_planned(cut, run or folder.absolute().parent.parent)
        refuse_no_tree(planned)
        return planned._replace(path=plan)


def look(plan: Path, deployment: Deployment, options: ApplyOptions) -> Intent:
    """What carrying the plan out would change; nothing is changed."""
    planned = read_for(plan, options)

    async def run() -> Intent:
        adapter = changer_for(deployment)
        try:
            refuse_open(deployment)
            return await intend(adapter, planned, options)
        finally:
            await adapter.close()

    return asyncio.run(run())


def refuse_open(deployment: Deployment) -> None:
    """Refused while a swap is unfinished."""
    last = last_journal(journal_folder(deployment))
    if last is not None and not last.ended:
        raise BadNetwork(
            f"{last.path}: a colour swap is not finished. `overlace live resume` or `live rollback` first."
        )


def journal_folder(deployment: Deployment) -> Path:
    """Where the journals of a deployment lie."""
    return deployment.folder / "journal"


def begin(intent: Intent, deployment: Deployment) -> Journal:
    """The journal of a swap that begins."""
    head = {
        "plan": intent.plan,
        "network": str(deployment.path.name),
        "old": intent.old,
        "new": intent.new,
        "before": intent.before.document(),
        "after": intent.after.document(),
        "filters": write_filters(intent.filters),
        "hold_ms": max(50.0, round(intent.latency_ms, 1)),
        "lossy": list(intent.unwrapped),
    }
    return begin_journal(journal_folder(deployment), head)


def apply(plan: Path, deployment: Deployment, options: ApplyOptions, progress: Progress | None = None) -> Applied:
    """Carry a plan out."""
    planned = read_for(plan, options)

    async def run() -> Applied:
        adapter = changer_for(deployment)
        try:
            refuse_open(deployment)
            intent = await intend(adapter, planned, options)
            return await carry_out(adapter, begin(intent, deployment), options, progress)
        finally:
            await adapter.close()

    with coming_to_an_end():
        return asyncio.run(run())


def resume(deployment: Deployment, options: ApplyOptions, progress: Progress | None = None) -> Applied:
    """Go on with the swap that is not finished."""
    with coming_to_an_end():
        return asyncio.run(_again(deployment, options, progress, back=False))


def rollback(deployment: Deployment, options: ApplyOptions, progress: Progress | None = None) -> Applied:
    """Take the swap back that is not finished; from finish on only the inverse plan does."""
    with coming_to_an_end():
        return asyncio.run(_again(deployment, options, progress, back=True))


async def _again(deployment: Deployment, options: ApplyOptions, progress: Progress | None, *, back: bool) -> Applied:
    journal = last_journal(journal_folder(deployment))
    if journal is None or journal.ended:
        raise BadNetwork(f"{deployment.path}: no colour swap is under way, so there is nothing to go on with.")
    adapter = changer_for(deployment)
    try:
        return await carry_out(adapter, journal, options, progress, back=back)
    finally:
        await adapter.close()


class Interrupted(BadNetwork):
    """The user stopped it, in a state that loses nothing."""

    exit_code = 130


async def carry_out(
    adapter: Changed,
    journal: Journal,
    options: ApplyOptions,
    progress: Progress | None = None,
    *,
    back: bool = False,
    whole: bool = False,
) -> Applied:
    """Go forward or back, unit by unit, then verify; Ctrl-C stops it after a unit, unless it is to be done whole."""
    tell = progress or (lambda share, what: None)
    now = asyncio.get_running_loop().time
    swap = Swap(adapter, journal, hold_ms=float(journal.head.get("hold_ms", 50.0)))
    phases: dict[str, float] = {}
    began = last = now()
    with journal.held():
        async with adapter.alone(), aclosing(swap.back() if back else swap.forward()) as units:
            async for unit in _paced(units, options.rate):
                phases[unit.phase] = phases.get(unit.phase, 0.0) + now() - last
                last = now()
                tell(_share(unit), f"{unit.phase}: {unit.name}")
                if asked() and not whole:
                    raise Interrupted(
                        f"stopped in {unit.phase}, in a state that loses nothing. `overlace live resume` goes on, "
                        "`overlace live rollback` takes it back."
                    )
    meant, colour = (journal.before, journal.old) if back else (journal.after, journal.new)
    shown = await adapter.shown()
    there = [name for name in meant.homes if name in shown.clients]
    return Applied(
        clients=len(there),
        landed=landed(shown, meant.homes, colour, there),
        links=len(meant.links),
        links_landed=len(meant.links & shown.links[colour]),
        seconds=now() - began,
        journal=journal.path,
        live=colour,
        phases=phases,
    )


async def _paced(units: AsyncIterator[Unit], rate: float | None) -> AsyncIterator[Unit]:
    """Units, at most so many a second."""
    async for unit in units:
        yield unit
        if rate:
            await asyncio.sleep(1 / rate)


def _share(unit: Unit) -> float:
    phase = unit.phase if unit.phase in PHASES else "finish"
    return (PHASES.index(phase) + 0.5) / len(PHASES)
