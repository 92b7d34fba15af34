"""Carry a plan out on a running network, by a colour swap: look, say what would be done, do it, verify.

A plan is applied as a difference by name: every link that it removes must be there, none that it adds may be, clients
that it moves must be where it saw them, and the links with the difference must be a tree. Clients that the plan does
not know keep their home and take part.
"""

from __future__ import annotations

import asyncio
import shlex
import tempfile
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from contextlib import aclosing
from pathlib import Path
from typing import NamedTuple

from overlace.catalog import PLANNERS
from overlace.errors import BadNetwork, BadPlan
from overlace.live.adapter import RETAINED, Changed, Shown, adapter_for, refuse_silent
from overlace.live.deployment import Deployment
from overlace.live.filters import How, bridge_lines, link_filters
from overlace.live.journal import Journal, NamedOverlay, begin_journal, last_journal, write_filters
from overlace.live.mosquitto_files import Filters
from overlace.live.options import ApplyOptions
from overlace.live.planned import Planned, links_by_step, read_planned, refuse_no_tree
from overlace.live.recorder import refuse_names
from overlace.live.sharing import refuse_split
from overlace.live.swap import PHASES, Swap, Unit, landed
from overlace.live.wiring import Pair, dials, is_tree
from overlace.model import Progress
from overlace.stopping import asked, coming_to_an_end
from overlace.trace.plans import cut_plan
from overlace.wording import counted

LOSS = {
    False: "the servers break their connections at the switch, and they come back by themselves. Expect each to miss "
    "some messages while it reconnects (measured: 1 to 10 of 1,000 deliveries of a run); where they land is up to "
    "their own list of servers",
    True: "they are cut off when the old brokers stop. Expect each to miss all messages from the switch until it comes "
    "to the new address, which must be given to it (DNS, or the map of `overlace live export --to clients`)",
}
"""What clients without the wrapper lose, on NATS and on Mosquitto."""

COMEBACK = 10.0
"""Seconds in which clients that were cut off must be back to be counted."""


class Intent(NamedTuple):
    """What carrying a plan out would change, as the network is now."""

    plan: str  # its digest
    old: int
    new: int
    before: NamedOverlay
    after: NamedOverlay
    moves: Mapping[str, tuple[str, str]]  # client: from, to
    absent: tuple[str, ...]  # clients that the plan moves and that are not there
    unknown: tuple[str, ...]  # clients that the plan does not know
    unwrapped: tuple[str, ...]
    retained: str  # retained messages that are copied, in words
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

    def loss(self) -> str:
        """What clients that follow no orders will lose, in a line; empty: all follow orders."""
        who = counted(len(self.unwrapped), "client follows", "clients follow")
        return f"lossy     {who} no orders: {LOSS[self.filters is not None]}" if self.unwrapped else ""

    def lines(self, brokers: int) -> list[str]:
        """What would be done, in lines."""
        clients, nameless = len(self.before.homes), len({*self.unwrapped} - self.before.homes.keys())
        moved, links = len(self.moves), max(len(self.new_links), len(self.old_links))
        found = [
            f"Plan: {counted(moved, 'client moves', 'clients move')}, {counted(links, 'link changes', 'links change')}",
            *(f"+ link {a} - {b}" for a, b in self.new_links),
            *(f"- link {a} - {b}" for a, b in self.old_links),
            *(f"~ client {name}: {a} -> {b}" for name, (a, b) in sorted(self.moves.items())),
            f"network   as the plan saw it: {moved} clients at their old broker, {len(self.old_links)} of "
            f"{len(self.old_links)} links to go are wired",
            f"clients   {len(self.before.homes.keys() - {*self.unwrapped})} of {clients + nameless} follow orders; "
            "nothing would be left behind",
            f"phases    wire {counted(brokers, 'broker', 'brokers')}, prepare {counted(clients, 'client', 'clients')} "
            f"({clients} connections more), probe {brokers} brokers, switch {clients}, finish {clients}, "
            f"unwire {brokers}",
        ]
        if self.retained:
            found.append(f"retained  {self.retained}: copied before anybody subscribes in the new overlay")
        if self.unwrapped:
            found.append(self.loss())
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
    lossy: int = 0  # clients that follow no orders; they are not among the clients above
    came: int = 0  # of these
    came_home: int | None = None  # of these, where planned; None: nobody can tell

    def line(self) -> str:
        """In a line."""
        return (
            f"{self.landed} of {self.clients} at the planned broker, {self.links_landed} of {self.links} links as "
            f"planned, {self.seconds:.1f} s; journal {self.journal}"
        )

    def lossy_line(self) -> str:
        """Of clients that follow no orders, in a line; empty: there were none."""
        home = "" if self.came_home is None else f", {self.came_home} at the planned broker"
        return f"{self.came} of {self.lossy} that follow no orders came back{home}" if self.lossy else ""


def changer_for(deployment: Deployment) -> Changed:
    """The network that a network file names, to be changed."""
    refuse_one_colour(deployment)
    return adapter_for(deployment)


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
    _refuse_other_brokers(planned, deployment)
    links = _links(planned, present, deployment)
    moves, absent = _moves(planned, shown, live)
    homes = {name: str(seen.homes[live] or seen.homes[1 - live]) for name, seen in shown.clients.items()}
    after = {name: moves[name][1] if name in moves else home for name, home in homes.items()}
    unknown = tuple(sorted(name for name in homes if name not in planned.was))
    unwrapped = tuple(sorted(name for name, seen in shown.clients.items() if not seen.wrapped))
    if shown.nameless:
        unwrapped += tuple(f"connection {i + 1} that only the log names" for i in range(shown.nameless))
    if unwrapped and not options.lossy:
        first = ", ".join(map(repr, unwrapped[:3])) + (", ..." if len(unwrapped) > 3 else "")
        raise BadNetwork(
            f"{counted(len(unwrapped), 'client follows', 'clients follow')} no orders and would lose messages: {first}."
            " Let them use overlace.live.client, or accept the loss with --lossy."
        )
    if stuck := sorted(name for name, seen in shown.clients.items() if not seen.movable):
        raise BadNetwork(
            f"{counted(len(stuck), 'client follows', 'clients follow')} no orders and could not come back, since the "
            f"user goes with the colour: {', '.join(map(repr, stuck[:3]))}. Let them use overlace.live.client, or the "
            "user of credentials.plain."
        )
    if deployment.substrate == "mosquitto":
        refuse_split(shown, homes, after)
    stranded = await adapter.stranded()
    retained = next((each for each in stranded if each.startswith(RETAINED)), "")
    if options.copy_retained and retained:
        stranded.remove(retained)
    if stranded:
        hint = " --copy-retained copies retained messages." if retained in stranded else ""
        raise BadNetwork(f"would be left behind: {'; '.join(stranded[:3])}. Move or remove it first.{hint}")
    filters = None
    if deployment.substrate == "mosquitto":  # what those want who follow no orders is not known
        filters = _filters(shown, after, links, deployment, "all" if unwrapped else options.filters)
    latency = await adapter.latencies(live, present)
    return Intent(planned.document.digest, live, 1 - live, NamedOverlay(present, homes), NamedOverlay(links, after),
                  moves, absent, unknown, unwrapped, retained, filters, sum(latency.values()) / 1000)  # fmt: skip


def _refuse_other_brokers(planned: Planned, deployment: Deployment) -> None:
    """Refused if the plan is for a network that has other brokers."""
    other = [name for name in planned.brokers if name not in deployment.brokers]
    if other:
        raise BadPlan(
            f"{planned.path}: it is for a network with a broker {other[0]!r}, which {deployment.path} does not name. "
            "Give the network that was recorded."
        )


def _links(planned: Planned, present: frozenset[Pair], deployment: Deployment) -> frozenset[Pair]:
    """The links with the plan's difference; refused if it does not fit what is wired."""
    gone, new = planned.before - planned.links, planned.links - planned.before
    missing, there = sorted(gone - present), sorted(new & present)
    changed = gone | new
    if (missing or there) and (
        present & changed == new or present & changed not in [links & changed for links in links_by_step(planned)]
    ):  # a part of the steps may have been carried out before, all of them not
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


def _moves(planned: Planned, shown: Shown, live: int) -> tuple[dict[str, tuple[str, str]], tuple[str, ...]]:
    """(moves, clients that are not there); refused if one is elsewhere than the plan saw it."""
    moves, absent, was = {}, [], planned.was
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
    return moves, tuple(sorted(absent))


def _filters(
    shown: Shown, homes: Mapping[str, str], links: frozenset[Pair], deployment: Deployment, how: How
) -> Filters:
    """What each bridge carries: the filters of clients, at their new homes."""
    wanted: dict[str, set[str]] = {}
    for name, seen in shown.clients.items():
        wanted.setdefault(homes[name], set()).update(each for each, _ in seen.filters)
    across = link_filters(links, wanted, how)
    return bridge_lines(across, dials(deployment.brokers, links))


def read_for(plan: Path, options: ApplyOptions) -> Planned:
    """The plan, or the first steps of it; or its way back."""
    run = Path(options.run) if options.run else None
    if options.steps is None:
        planned = read_planned(plan, run)
    else:
        folder = plan if plan.is_dir() else plan.parent
        with tempfile.TemporaryDirectory() as beside:
            cut = Path(beside) / "cut"
            cut_plan(plan, options.steps, cut, PLANNERS)
            planned = read_planned(cut, run or folder.absolute().parent.parent)._replace(path=plan)
    if options.inverse:
        planned = planned.inverse()
    refuse_no_tree(planned)
    return planned


def undo_command(plan: Path, deployment: Deployment, options: ApplyOptions) -> str:
    """The command that takes back what was carried out, once all is done."""
    words = ["overlace", "live", "apply", str(plan.absolute()), "--network", str(deployment.path)]
    given = {"steps": options.steps, "run": options.run and str(Path(options.run).absolute())}
    words += [word for name, value in given.items() if value is not None for word in (f"--{name}", str(value))]
    if options.filters != ApplyOptions.filters:
        words += ["--filters", options.filters]
    flags = {"--inverse": not options.inverse, "--lossy": options.lossy, "--copy-retained": options.copy_retained}
    return shlex.join([*words, *(flag for flag, wanted in flags.items() if wanted), "--yes"])


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


def begin(intent: Intent, deployment: Deployment, undo: str = "") -> Journal:
    """The journal of a swap that begins; `undo` is the command that applies the inverse."""
    head = {
        "plan": intent.plan,
        "network": str(deployment.path.name),
        "undo": undo,
        "old": intent.old,
        "new": intent.new,
        "before": intent.before.document(),
        "after": intent.after.document(),
        "filters": write_filters(intent.filters),
        "hold_ms": max(50.0, round(intent.latency_ms, 1)),
        "lossy": list(intent.unwrapped),
        "retained": bool(intent.retained),
    }
    return begin_journal(journal_folder(deployment), head)


def apply(
    plan: Path,
    deployment: Deployment,
    options: ApplyOptions,
    progress: Progress | None = None,
    announce: Callable[[Intent], None] = lambda intent: None,
) -> Applied:
    """Carry a plan out; `announce` is told what is going to be changed before anything is."""
    planned = read_for(plan, options)

    async def run() -> Applied:
        adapter = changer_for(deployment)
        try:
            refuse_open(deployment)
            intent = await intend(adapter, planned, options)
            announce(intent)
            if asked():
                raise Interrupted("stopped before anything was changed.")
            journal = begin(intent, deployment, undo_command(plan, deployment, options))
            return await carry_out(adapter, journal, options, progress)
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
        undo = journal.undo if back and journal is not None else ""
        raise BadNetwork(
            f"{deployment.path}: no colour swap is under way, so there is nothing to "
            + (f"roll back. The last plan is taken back by its inverse: {undo}" if undo else "go on with.")
        )
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
    lossy = tuple(map(str, journal.head.get("lossy", ())))
    shown, came = await _come_back(adapter, lossy, meant, colour)
    there = [name for name in meant.homes if name in shown.clients and name not in lossy]
    named = [name for name in lossy if name in meant.homes]
    return Applied(
        clients=len(there),
        landed=landed(shown, meant.homes, colour, there),
        links=len(meant.links),
        links_landed=len(meant.links & shown.links[colour]),
        seconds=now() - began,
        journal=journal.path,
        live=colour,
        phases=phases,
        lossy=len(lossy),
        came=came,
        came_home=landed(shown, meant.homes, colour, named) if len(named) == len(lossy) else None,
    )


async def _come_back(adapter: Changed, lossy: Collection[str], meant: NamedOverlay, colour: int) -> tuple[Shown, int]:
    """(the network, how many of those that were cut off are back), when they and all links are or after a time."""
    now = asyncio.get_running_loop().time
    deadline = now() + COMEBACK
    named = [name for name in lossy if name in meant.homes]
    while True:
        shown = await adapter.shown()
        back = [name for name in named if name in shown.clients and shown.clients[name].homes[colour] is not None]
        came = len(back) + min(shown.nameless, len(lossy) - len(named))
        if (came >= len(lossy) and meant.links <= shown.links[colour]) or now() > deadline:
            return shown, came
        await asyncio.sleep(0.1)


async def _paced(units: AsyncIterator[Unit], rate: float | None) -> AsyncIterator[Unit]:
    """Units, at most so many a second."""
    async for unit in units:
        yield unit
        if rate:
            await asyncio.sleep(1 / rate)


def _share(unit: Unit) -> float:
    phase = unit.phase if unit.phase in PHASES else "finish"
    return (PHASES.index(phase) + 0.5) / len(PHASES)
