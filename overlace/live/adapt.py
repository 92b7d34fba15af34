"""Adapt a running network to its traffic, window by window: record, plan, judge on the last part, apply.

Kept between windows: the traces of the last ones, when each client last moved, and the journal of swaps. Nothing is
done when a plan saves too little, when it is not what `optimize` would recommend, when too little was recorded, when a
broker is silent, a swap is unfinished, or something would be left behind. Who moved rests for some windows: a plan made
from noise moves clients to and fro, and a client that stays does no harm that lasts.
"""

from __future__ import annotations

import asyncio
import glob
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from overlace.errors import OverlaceError
from overlace.limits import Goal, Limits
from overlace.live.adapter import Changed
from overlace.live.apply import Applied, Intent, begin, carry_out, changer_for, intend, refuse_one_colour, refuse_open
from overlace.live.client import ClientError
from overlace.live.deployment import Deployment
from overlace.live.figures import WindowFigures, figures_of
from overlace.live.kept import Memory, RecentWindows
from overlace.live.options import AdaptOptions, ApplyOptions, RecordOptions
from overlace.live.planned import Planned, read_planned, refuse_no_tree
from overlace.live.record import record
from overlace.live.windows import Window, join_windows, of_one_pattern, read_window
from overlace.model import Progress, name_of
from overlace.observe.later import later
from overlace.optimize.newcomers import NewClientRule, PinnedClients
from overlace.optimize.result import NoChangeRecommended, Result, Verdict
from overlace.optimize.task import read_task
from overlace.stopping import asked, coming_to_an_end, finishing
from overlace.trace.store import Trace
from overlace.verbs import optimize
from overlace.wording import counted

FEWEST = 300
"""Messages below which a window says too little."""

JUDGED = 0.3
"""Share of a window, at its end, that a plan is judged by."""

FRESH = 5
"""Windows are forgotten after this many times as long as all that are kept take."""


class Site(Protocol):
    """A network that is recorded and changed again and again."""

    deployment: Deployment

    def record(self, out: Path, seconds: float, progress: Progress) -> None:
        """Record it for some seconds into a new trace."""
        ...

    def adapter(self) -> Changed:
        """The network, to be changed; who asks for it closes it."""
        ...


class RunningSite:
    """Real brokers."""

    def __init__(self, deployment: Deployment) -> None:
        refuse_one_colour(deployment)
        self.deployment = deployment

    def record(self, out: Path, seconds: float, progress: Progress) -> None:
        """Record what clients publish, counted by themselves."""
        record(self.deployment, str(out), RecordOptions(seconds=seconds), progress, force=True)

    def adapter(self) -> Changed:
        """The network that the network file names."""
        return changer_for(self.deployment)


class Ended(Exception):
    """Ctrl-C has asked for an end."""


class Outcome(NamedTuple):
    """What a window came to, and what was done after it."""

    window: int
    figures: WindowFigures | None = None  # None: nothing was recorded
    gain: float | None = None  # share that the plan saves on the last part of the window; None: there was no plan
    moves: int = 0
    links: int = 0
    applied: Applied | None = None
    why: str = ""  # why nothing was done; empty: something was
    seconds: float = 0.0  # to plan and apply

    def line(self) -> str:
        """The window in a line."""
        parts = [f"window {self.window}"]
        if self.figures:
            parts.append(counted(self.figures.messages, "message", "messages"))
            parts.append(f"cost {self.figures.cost:,.0f} ({self.figures.crossings:.2f} crossings a message)")
        if self.gain is not None:
            parts.append(f"gain {self.gain:.1%}")
        if self.applied:
            links = counted(self.links, "link changed", "links changed")
            parts.append(f"{counted(self.moves, 'client', 'clients')} moved, {links}, {self.applied.line()}")
        else:
            parts.append(f"nothing done: {self.why}")
        return "; ".join(parts)

    def document(self) -> dict[str, Any]:
        """As JSON."""
        figures, applied = self.figures, self.applied
        return {
            "window": self.window,
            "messages": figures.messages if figures else 0,
            "cost": figures.cost if figures else None,
            "crossings": figures.crossings if figures else None,
            "gain": self.gain,
            "moves": self.moves,
            "links": self.links,
            "applied": {**applied._asdict(), "journal": str(applied.journal)} if applied else None,
            "why": self.why or None,
            "seconds": round(self.seconds, 3),
        }


class Adaptation:
    """The windows of one network, one after the other: `with adaptation.held(): adaptation.window()`, again and again.

    What it decides depends on what was recorded and kept alone, so that a simulation decides as the command does.
    """

    def __init__(self, site: Site, options: AdaptOptions) -> None:
        self.site, self.options = site, options
        self.memory = Memory(site.deployment)
        self.kept = RecentWindows()
        self.done = 0

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold what is kept, and read it."""
        with self.memory.held():
            self.kept = self.memory.read()
            with coming_to_an_end():
                yield

    def goes_on(self) -> bool:
        """Whether another window is wanted."""
        return not asked() and (self.options.windows is None or self.done < self.options.windows)

    def window(self, progress: Progress | None = None) -> Outcome | None:
        """Record a window, and do what follows from it; None: it was ended before anything was decided."""
        tell = progress or (lambda share, what: None)
        started = time.monotonic()
        self.kept.number += 1
        self.done += 1
        try:
            found = self._window(tell)
        except Ended:
            return None
        if found.figures is None:  # it could not be recorded: the next try comes a window later
            with suppress(Ended):
                self._wait(started + self.options.every, tell)
        return found

    def _window(self, tell: Progress) -> Outcome:
        number = self.kept.number
        try:
            refuse_open(self.site.deployment)
            figures = self._record(tell)
        except SURVIVED as error:
            return Outcome(number, why=_reason(error))
        found = Outcome(number, figures)
        if figures.messages < FEWEST:
            few = counted(figures.messages, "message", "messages")
            return found._replace(why=f"{few} recorded, fewer than {FEWEST}")
        began = time.monotonic()
        try:
            found = self._plan_and_change(found, tell)
        except SURVIVED as error:
            found = found._replace(why=_reason(error))
        return found._replace(seconds=time.monotonic() - began)

    def _record(self, tell: Progress) -> WindowFigures:
        """Record a window, and keep it."""
        number, out = self.kept.number, self.memory.window(self.kept.number)
        shutil.rmtree(out, ignore_errors=True)  # what a kill may have left
        begin_us = int(time.time() * 1e6)
        self.site.record(out, self.options.every, _until_asked(tell))
        trace = Trace.open(str(out))
        span = trace.span()
        begin_us = min(begin_us, span[0])
        end_us = max(span[1], begin_us + round(self.options.every * 1e6))
        self.kept.windows[number] = Window(out, begin_us, end_us)
        oldest = begin_us - round(FRESH * self.options.kept * self.options.every * 1e6)
        fresh = {n: each for n, each in self.kept.windows.items() if each.end_us >= oldest}
        self.kept.windows = dict(sorted(fresh.items())[-self.options.kept :])
        self.kept.moved = {name: when for name, when in self.kept.moved.items() if number - when <= self.options.rest}
        self.memory.write(self.kept)
        self.memory.sweep(self.kept)
        return figures_of(trace, self.options.objective)

    def _plan_and_change(self, found: Outcome, tell: Progress) -> Outcome:
        """Plan from what is kept, and carry it out if it is worth it."""
        windows = of_one_pattern([read_window(each) for each in self.kept.windows.values()])
        if self.options.wake and len(self.kept.windows) > 1 and len(windows) == 1:
            self.kept.moved.clear()
        joined = join_windows(windows, self.site.deployment, self.memory.folder / "trace")
        try:
            result = self._plan(joined, tell)
        except NoChangeRecommended as error:
            verdict = error.result.verdicts[0] if error.result.verdicts else None
            return found._replace(gain=verdict.worth if verdict else None, why=self._too_little(verdict, error))
        verdict = result.verdicts[0]
        found = found._replace(gain=verdict.worth)
        if asked():
            return found._replace(why="it was ended before the plan was carried out")
        planned = read_planned(verdict.folder, result.run)
        refuse_no_tree(planned)
        planned = planned._replace(newcomers=newcomers_of(verdict, result.run))
        try:
            intent, applied = self._change(planned, tell)
        except SURVIVED as error:
            return found._replace(why=_reason(error))
        links = max(len(intent.new_links), len(intent.old_links))
        found = found._replace(moves=len(intent.moves), links=links, applied=applied)
        if applied:
            return found
        if not intent.moves and not links:
            return found._replace(why="the plan changes nothing that is there")
        would = counted(len(intent.moves), "client would move", "clients would move")
        more = counted(links, "link would change", "links would change")
        return found._replace(why=f"{would}, {more}; --dry-run changes nothing")

    def _plan(self, trace: Trace, tell: Progress) -> Result:
        """The plan that `optimize` makes of the windows kept, judged on the last part of the last one."""
        last = self.kept.windows[self.kept.number]
        cut = last.end_us - round(JUDGED * (last.end_us - last.begin_us))
        cut = cut // trace.bucket_us * trace.bucket_us
        until = datetime.fromtimestamp(cut / 1e6, UTC).isoformat()
        there = set(trace.names.get("client", ()))
        keep = tuple(as_pattern(name) for name in self.kept.resting(self.options.rest) if name in there)
        asked_for: dict[str, Any] = {"min_gain": self.options.min_gain}
        if keep:
            asked_for["keep"] = keep
        if self.options.budget is not None:
            asked_for["budget"] = self.options.budget
        goal = Goal(
            train_until=until, objective=self.options.objective, effort=self.options.effort, seed=self.options.seed
        )
        return optimize(
            trace.path, self.memory.run(self.kept.number), Limits(**asked_for), goal, force=True, progress=tell
        )

    def _too_little(self, verdict: Verdict | None, error: NoChangeRecommended) -> str:
        """Why a plan is not carried out, in a few words."""
        if verdict is not None and verdict.worth < self.options.min_gain:
            return f"less than --min-gain {self.options.min_gain:.0%}"
        return _reason(error)

    def _change(self, planned: Planned, tell: Progress) -> tuple[Intent, Applied | None]:
        """Look at what a plan would change, and carry it out; a swap that was begun is brought to its end."""
        how = ApplyOptions()

        async def run() -> tuple[Intent, Applied | None]:
            adapter = self.site.adapter()
            try:
                refuse_open(self.site.deployment)
                intent = await intend(adapter, planned, how)
                if self.options.dry_run or not (intent.moves or intent.new_links):
                    return intent, None
                self.kept.moved |= dict.fromkeys(intent.moves, self.kept.number)
                self.kept.applies += 1
                self.memory.write(self.kept)  # before it is so: a kill must not make anybody forget it
                journal = begin(intent, self.site.deployment)
                return intent, await carry_out(adapter, journal, how, tell, whole=True)
            finally:
                await adapter.close()

        with finishing():
            return asyncio.run(run())

    def _wait(self, until: float, tell: Progress) -> None:
        """Wait for the next window."""
        while (left := until - time.monotonic()) > 0:
            _until_asked(tell)(0.0, "waiting for the next window")
            time.sleep(min(0.2, left))


SURVIVED = (OverlaceError, ClientError, OSError)
"""What may go wrong in a window without an end of all windows."""


def _reason(error: BaseException) -> str:
    """An error as the reason for doing nothing."""
    return str(error).rstrip(".") or type(error).__name__


def _until_asked(tell: Progress) -> Progress:
    """Progress that ends what reports it, once Ctrl-C has asked."""

    def report(share: float, what: str) -> None:
        if asked():
            raise Ended
        tell(share, what)

    return report


def as_pattern(name: str) -> str:
    """A client's name as a pattern of `keep` that matches no other, whatever is in it."""
    return f"[{name[0]}]{glob.escape(name[1:])}" if name[:1].isalnum() else glob.escape(name)


def newcomers_of(verdict: Verdict, run: Path) -> dict[str, str]:
    """Where a plan's rule sends those who first came up in the last part of the window, by name."""
    new, plan = verdict.document.newcomers, verdict.plan
    if new is None:
        return {}
    task = read_task(run)
    follows = later(task.trace, task.cut.held_out, task.known, task.observation)
    pinned = PinnedClients(tuple(new.keep), tuple(new.only))
    placing = NewClientRule(plan.planner.router, task.observation, new.rule, plan.seed, pinned)
    rule = placing.rule_for(plan.after)
    if rule is None or not len(follows.arrivals.client):
        return {}
    homes = placing.homes(follows, plan.after, rule)
    return {
        name: name_of("broker", int(home), task.names)
        for name, home in zip(follows.called, homes.tolist(), strict=True)
        if home >= 0
    }
