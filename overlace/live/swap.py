"""The colour swap: from one overlay to another without losing a message.

    L1  in each colour the wired links are a forest, and a tree in a colour that somebody publishes in
    L2  nobody publishes in a colour before every receiver holds all its filters there
    L3  every message is published in exactly one colour
    L4  no receiver leaves a colour while somebody publishes there, or a message of it is under way
    L5  the idle colour takes no clients

Phases in order: wire (a broker each), prepare (a client each, until none is new), probe, switch (a client each), finish
(a client each), unwire (a broker each). Before finish everything can be taken back. Every unit may be done again.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Collection, Mapping
from contextlib import suppress
from typing import NamedTuple

from overlace.errors import BadNetwork
from overlace.live.adapter import Answer, Changed, Shown, refuse_silent
from overlace.live.journal import Journal, Unwritten

PHASES = ("wire", "prepare", "probe", "switch", "finish", "unwire")
BACK = ("wire", "prepare", "probe", "switch")
"""Phases from which there is a way back."""

ROUNDS = 50
"""How often clients that come meanwhile are looked for, at most."""

PATIENCE = 3.0
"""Seconds in which a client that is there must answer."""

SETTLE = 0.25
"""Seconds, at least, that messages may be under way in the old colour."""


class Unit(NamedTuple):
    """One thing done: a broker or a client."""

    phase: str
    name: str


class Stuck(BadNetwork):
    """A phase that cannot go on: which, and why."""


class Swap:
    """One colour swap, forward or back; what is done is yielded unit by unit."""

    def __init__(self, adapter: Changed, journal: Journal, hold_ms: float = 50.0, settle: float = SETTLE) -> None:
        self.adapter, self.journal = adapter, journal
        self.hold_ms, self.settle, self.patience = hold_ms, settle, PATIENCE
        self.pause = min(0.2, settle)  # before what did not arrive is tried again

    async def forward(self) -> AsyncGenerator[Unit]:
        """Carry the swap out, from the phase that was reached on; those before it are made sure of again."""
        if self.journal.turned:
            raise BadNetwork(
                f"{self.journal.path}: it was being taken back. `overlace live rollback` goes on with that."
            )
        self._mean()
        reached = self.journal.reached
        done = PHASES.index(reached) if reached else 0
        start = 0 if done <= PHASES.index("switch") else done  # what is repeated changes nothing
        for phase in PHASES[start:]:
            async for unit in self._phase(phase):
                yield unit
        self.journal.write("end", live=self.journal.new, how="apply")

    async def back(self) -> AsyncGenerator[Unit]:
        """Take back what was done; refused from finish on."""
        if self.journal.reached and self.journal.reached not in BACK:
            then = f"; then `{self.journal.undo}` takes it back" if self.journal.undo else ""
            raise BadNetwork(
                "clients have left the old overlay already: there is no way back but the inverse plan. "
                f"`overlace live resume` finishes this one first{then}."
            )
        if not self.journal.turned:
            self.journal.write("turn")
        self._mean()
        old, new = self.journal.old, self.journal.new
        shown = await self._shown()
        async for unit in self._switch(old, shown):
            yield unit
        async for broker in self.adapter.admit(old):
            yield Unit("switch", broker)
        await asyncio.sleep(self.settle)
        async for unit in self._everybody("cancel", lambda seen: seen.homes[new] is not None):
            yield unit
        async for broker in self.adapter.unwire(new):
            yield Unit("unwire", broker)
        self.journal.write("end", live=old, how="rollback")

    def _mean(self) -> None:
        """Tell the adapter what is wired, or is to be: a broker that is away, or just back, shows less."""
        journal = self.journal
        self.adapter.meant = {journal.old: journal.before.links, journal.new: journal.after.links}

    async def _phase(self, phase: str) -> AsyncIterator[Unit]:
        """One phase, in the journal from its begin to its end."""
        self.journal.write("begin", phase=phase)
        try:
            async for unit in self._units(phase):
                yield unit
        except BadNetwork as error:
            with suppress(Unwritten):
                self.journal.write("fail", phase=phase, why=str(error))
            raise
        self.journal.write("done", phase=phase)

    async def _units(self, phase: str) -> AsyncIterator[Unit]:
        old, new = self.journal.old, self.journal.new
        if phase == "wire":
            async for broker in self.adapter.wire(new, self.journal.after.links, self.journal.filters):
                yield Unit(phase, broker)
            if self.journal.head.get("retained"):  # before anybody subscribes there: nobody sees them as new
                await self.adapter.copy_retained(old, new)
                yield Unit(phase, "retained messages")
        elif phase == "prepare":
            async for unit in self._prepare():
                yield unit
        elif phase == "probe":
            async for unit in self._probe():
                yield unit
        elif phase == "switch":
            async for unit in self._switch(new, await self._shown()):
                yield unit
            async for broker in self.adapter.admit(new):
                yield Unit(phase, broker)
            await asyncio.sleep(self.settle)
        elif phase == "finish":
            async for unit in self._everybody("finish", lambda seen: seen.homes[old] is not None):
                yield unit
        else:
            async for broker in self.adapter.unwire(old):
                yield Unit(phase, broker)

    async def _prepare(self) -> AsyncIterator[Unit]:
        """Everybody connects in the new colour, at the home that is meant; repeated until nobody is new."""
        new, homes = self.journal.new, self.journal.after.homes
        for _ in range(ROUNDS):
            shown = await self._shown()
            ahead = {
                name: homes.get(name) or seen.homes[self.journal.old]
                for name, seen in shown.clients.items()
                if seen.wrapped and seen.homes[new] != (homes.get(name) or seen.homes[self.journal.old])
                and (homes.get(name) or seen.homes[self.journal.old]) is not None
            }  # fmt: skip
            if not ahead:
                return
            for name, home in sorted(ahead.items()):
                await self._tell(name, {"do": "prepare", "colour": new, "home": home}, self.journal.old)
                yield Unit("prepare", name)
        raise Stuck("clients come faster than they can be prepared. Try again when fewer do.")

    async def _probe(self) -> AsyncIterator[Unit]:
        """From every broker every client is reached in the new colour; prepared again if one came meanwhile."""
        new = self.journal.new
        for _ in range(ROUNDS):
            shown = await self._shown()
            expected = {name for name, seen in shown.clients.items() if seen.wrapped}
            missing = {name for name in expected if shown.clients[name].homes[new] is None}
            if not missing:
                for broker in self.adapter.deployment.brokers:
                    missing = expected - await self.adapter.probe(new, broker, expected)
                    yield Unit("probe", broker)
                    if missing:  # maybe somebody has gone: that is waited for once, not at every broker
                        break
            if not missing:
                return
            await asyncio.sleep(self.pause)
            async for unit in self._prepare():
                yield unit
        raise Stuck(f"{min(missing)!r} is not reached in the new overlay from every broker.")

    async def _switch(self, colour: int, shown: Shown) -> AsyncIterator[Unit]:
        """Everybody publishes in a colour; who came meanwhile too."""
        done: set[str] = set()
        for _ in range(ROUNDS):
            ahead = sorted(
                name for name, seen in shown.clients.items()
                if seen.wrapped and name not in done and seen.homes[colour] is not None
            )  # fmt: skip
            if not ahead:
                return
            for name in ahead:
                await self._tell(name, {"do": "switch", "colour": colour, "hold_ms": self.hold_ms}, colour)
                done.add(name)
                yield Unit("switch", name)
            shown = await self._shown()

    async def _everybody(self, do: str, still: object) -> AsyncIterator[Unit]:
        """Give an order to everybody for whom it is still to be done."""
        assert callable(still)
        for _ in range(ROUNDS):
            shown = await self._shown()
            ahead = sorted(name for name, seen in shown.clients.items() if seen.wrapped and still(seen))
            if not ahead:
                return
            for name in ahead:
                seen = shown.clients[name]
                colour = self.journal.new if do == "finish" else self.journal.old
                await self._tell(name, {"do": do}, colour if seen.homes[colour] is not None else 1 - colour)
                yield Unit(do, name)
        raise Stuck(f"{do}: clients come faster than they can be told.")

    async def _tell(self, name: str, order: Mapping[str, object], colour: int) -> Answer | None:
        """Give an order; a client that has gone needs none. A broker that is back again may not know all at once."""
        deadline = time.monotonic() + self.patience
        while not (answers := await self.adapter.tell(name, order, colour)):
            seen = (await self._shown()).clients.get(name)
            if seen is None or not seen.wrapped:
                return None
            if time.monotonic() < deadline:
                await asyncio.sleep(0.05)
                continue
            raise Stuck(f"{name!r} does not answer. Stop it, then resume; or roll back.")
        if error := answers[0].get("error"):
            raise Stuck(f"{name!r}: {error}")
        return answers[0]

    async def _shown(self) -> Shown:
        shown = await self.adapter.shown()
        refuse_silent(shown, self.adapter.deployment)
        return shown


def landed(shown: Shown, homes: Mapping[str, str], colour: int, clients: Collection[str]) -> int:
    """How many of these clients are at the home that was meant."""
    return sum(name in shown.clients and shown.clients[name].homes[colour] == homes.get(name) for name in clients)
