"""Plans carried out on real brokers, under load: nothing lost, nothing doubled, everybody where meant.

The applier is killed after a unit of each phase, clients come and go in each phase, and a broker is killed.
"""

import asyncio
import os
import signal
from contextlib import contextmanager

import pytest

from overlace.live import servers, traffic
from overlace.live.client import connect
from overlace.live.journal import last_journal
from overlace.live.swap import BACK, PHASES
from tests.live.appliers import KILLED
from tests.live.stage import Stage, there_and_back

pytestmark = [pytest.mark.live, pytest.mark.xdist_group("apply")]  # the tests of a network share a worker


def needs(substrate):
    return pytest.mark.skipif(servers.find_program(substrate) is None, reason=f"no {substrate} server on this machine")


class Ways:
    """A network that is at one of two layouts, and the plans between them."""

    def __init__(self, stage):
        self.stage = stage
        self.layouts = there_and_back(stage)
        self.at = 0
        self.plans = {0: stage.plan(*self.layouts[1])}

    @property
    def plan(self):
        """The plan that leads from where the network is to the other layout; its clients are the load's."""
        if self.at not in self.plans:
            self.plans[self.at] = self.stage.plan(*self.layouts[1 - self.at])
        return self.plans[self.at]

    def check(self, moved):
        """The network is at the other layout now, or where it was."""
        self.at = 1 - self.at if moved else self.at
        links, homes = self.stage.layout()
        assert links == self.layouts[self.at][0]
        assert {name: homes[name] for name in self.layouts[self.at][1]} == self.layouts[self.at][1]


@contextmanager
def nothing_lost(stage):
    """While this lasts the load publishes; all that it published must arrive, once.

    Order is not held here: on a busy machine a message may be under way longer than publishers pause.
    """
    before = stage.load.tally.unanswered
    with stage.loaded() as tally:
        yield
    assert (tally.lost, tally.duplicated, tally.failed) == (0, 0, 0)
    assert tally.unanswered == before


@pytest.fixture(scope="module", autouse=True)
def time_for_answers():
    """A busy machine may take long to answer."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(traffic, "REQUEST", 30.0)
        yield


@pytest.fixture(scope="module")
def nats(tmp_path_factory):
    with Stage.small(tmp_path_factory.mktemp("nats")) as stage:
        yield Ways(stage)


@needs("nats")
def test_a_plan_is_carried_out_under_load(nats):
    stage, plan = nats.stage, nats.plan
    with nothing_lost(stage):
        told = stage.verb("apply", plan)
        assert told.code == 0
        assert "8 of 8 follow orders; nothing would be left behind" in told.text
        assert "nothing was changed" in told.text
        nats.check(moved=False)
        told = stage.verb("apply", plan, "--yes")
        assert told.code == 0, told.text
        assert "8 of 8 at the planned broker, 2 of 2 links as planned" in told.text
        nats.check(moved=True)
        told = stage.verb("apply", plan, "--yes")
        assert told.code == 1
        assert "The network is not as the plan saw it" in told.text
        nats.check(moved=False)


@needs("nats")
@pytest.mark.parametrize(("phase", "units"), [(phase, 2) for phase in PHASES])
def test_killed_in_a_phase_it_is_resumed(nats, phase, units):
    stage, plan = nats.stage, nats.plan
    with nothing_lost(stage):
        assert stage.verb("apply", plan, "--yes", kill=(phase, units)).code == KILLED
        stage.go_on(20)
        if phase == PHASES[0]:
            told = stage.verb("apply", plan, "--yes")
            assert told.code == 1
            assert "a colour swap is not finished" in told.text
        if phase == PHASES[-1]:
            told = stage.verb("rollback")
            assert told.code == 1
            assert "no way back but the inverse plan" in told.text
        told = stage.verb("resume")
        assert told.code == 0, told.text
        assert "8 of 8 at the planned broker, 2 of 2 links as planned" in told.text
        nats.check(moved=True)


@needs("nats")
@pytest.mark.parametrize("phase", BACK)
def test_killed_before_finish_it_is_taken_back(nats, phase):
    stage, plan = nats.stage, nats.plan
    with nothing_lost(stage):
        assert stage.verb("apply", plan, "--yes", kill=(phase, 2)).code == KILLED
        stage.go_on(20)
        told = stage.verb("rollback")
        assert told.code == 0, told.text
        nats.check(moved=False)
        told = stage.verb("resume")
        assert told.code == 1
        assert "no colour swap is under way" in told.text


@needs("nats")
def test_a_torn_last_line_of_the_journal_is_no_line(nats):
    stage, plan = nats.stage, nats.plan
    with nothing_lost(stage):
        assert stage.verb("apply", plan, "--yes", kill=("switch", 3)).code == KILLED
        path = last_journal(stage.network / "journal").path
        path.write_bytes(path.read_bytes().removesuffix(b"\n")[:-7])  # so that switch never began
        assert last_journal(stage.network / "journal").reached == "probe"
        assert stage.verb("resume").code == 0
        nats.check(moved=True)


class Late:
    """A client that comes late: it receives what the load's neighbour says, and says something itself."""

    def __init__(self, name, home):
        self.name, self.home, self.got, self.sent = name, home, [], 0

    async def come(self, network):
        self.client = await connect(self.name, network, self.home)
        await self.client.subscribe("clock", lambda message: self.got.append(int(message.payload)))
        await self.client.flush()
        self.saying = asyncio.ensure_future(self.say())

    async def say(self):
        while True:
            await self.client.publish(f"late.{self.name}", str(self.sent).encode())
            self.sent += 1
            await asyncio.sleep(0.01)

    async def rest(self):
        self.saying.cancel()
        await asyncio.wait([self.saying])
        await self.client.flush()


class Clock:
    """Two clients that were there before: one says numbers, one hears all that late ones say."""

    def __init__(self, homes):
        self.homes, self.number, self.heard = homes, 0, {}

    async def come(self, network):
        self.clients = [await connect(f"clock-{i}", network, home) for i, home in enumerate(self.homes)]
        await self.clients[1].subscribe("late.*", self.hear)
        self.ticking = asyncio.ensure_future(self.tick())

    def hear(self, message):
        self.heard.setdefault(message.topic.removeprefix("late."), []).append(int(message.payload))

    async def tick(self):
        while True:
            await self.clients[0].publish("clock", str(self.number).encode())
            self.number += 1
            await asyncio.sleep(0.005)

    async def gone_on(self, late):
        """Everybody has got something new."""
        while not (late.got and self.heard.get(late.name)):
            await asyncio.sleep(0.01)

    async def rest(self, lates):
        """Nobody says more, and all has arrived."""
        for each in lates:
            await each.rest()
        self.ticking.cancel()
        await asyncio.wait([self.ticking])
        deadline = asyncio.get_running_loop().time() + 20
        while asyncio.get_running_loop().time() < deadline and not all(
            each.got[-1:] == [self.number - 1] and self.heard[each.name][-1:] == [each.sent - 1] for each in lates
        ):
            await asyncio.sleep(0.01)

    async def leave(self, lates):
        for client in (*self.clients, *(each.client for each in lates)):
            await client.close()


def without_gaps(numbers, first=None):
    """Whether numbers go on one by one, from the first on."""
    return bool(numbers) and numbers == list(range(numbers[0] if first is None else first, numbers[-1] + 1))


def come_late(stage, clock, name, home, lates):
    late = Late(name, home)
    stage.do(late.come(stage.network))
    lates.append(late)
    stage.do(clock.gone_on(late))


def assert_all_heard(clock, lates):
    for each in lates:
        assert without_gaps(each.got), each.name  # from the first that it got, interest has spread
        assert each.got[-1] == clock.number - 1
        assert without_gaps(clock.heard[each.name], first=0), each.name
        assert clock.heard[each.name][-1] == each.sent - 1


@needs("nats")
@pytest.mark.parametrize("applier", ["alive", "dead"])
def test_clients_that_come_in_any_phase_lose_nothing(nats, applier):
    stage, plan = nats.stage, nats.plan
    brokers, lates = list(stage.deployment.brokers), []
    clock = Clock(brokers[1:])
    stage.do(clock.come(stage.network))
    try:
        with nothing_lost(stage):
            if applier == "alive":
                child = stage.appliers.start("live", "apply", plan, "--yes", "--network", stage.network, hold=PHASES)
                for i, phase in enumerate(PHASES):
                    stage.appliers.wait_for_phase(child, phase)
                    come_late(stage, clock, f"late-{phase}", brokers[i % 3], lates)
                    stage.appliers.release(child, phase)
                told = stage.appliers.wait(child)
            else:
                told = stage.verb("apply", plan, "--yes", kill=(PHASES[0], 2))
                for i, phase in enumerate(PHASES[1:]):
                    assert told.code == KILLED
                    come_late(stage, clock, f"late-{i}", brokers[i % 3], lates)
                    told = stage.verb("resume", kill=(phase, 1))
                assert told.code == KILLED
                told = stage.verb("resume")
            assert told.code == 0, told.text
        stage.do(clock.rest(lates))
        assert_all_heard(clock, lates)
        shown = stage.shown()
        assert {shown.clients[each.name].homes[shown.live] for each in lates} <= set(brokers)
        nats.check(moved=True)
    finally:
        stage.do(clock.leave(lates))


@needs("nats")
def test_clients_that_die_in_any_phase_hold_nobody_up(nats):
    stage, plan = nats.stage, nats.plan
    brokers = list(stage.deployment.brokers)
    mortals = {
        phase: stage.appliers.client(f"mortal-{phase}", stage.network, brokers[i % 3], "load.none")
        for i, phase in enumerate(PHASES)
    }
    with nothing_lost(stage):
        words = "live", "apply", plan, "--yes", "--network", stage.network
        child = stage.appliers.start(*words, hold=PHASES, patience=1.0)
        for phase in PHASES:
            stage.appliers.wait_for_phase(child, phase)
            stage.appliers.kill(mortals[phase])
            stage.appliers.release(child, phase)
        told = stage.appliers.wait(child)
        assert told.code == 0, told.text
        nats.check(moved=True)


@needs("nats")
def test_a_broker_killed_in_prepare_stops_it_and_it_is_taken_back_when_it_returns(nats):
    """The last test of this network: what is lost is lost."""
    stage, plan = nats.stage, nats.plan
    with stage.loaded():
        assert stage.verb("apply", plan, "--yes", kill=("prepare", 4)).code == KILLED
        broker = list(stage.deployment.brokers)[-1]
        process = stage.processes()[broker]
        os.kill(process.pid, signal.SIGKILL)
        told = stage.verb("resume")
        assert told.code == 1
        assert f"{broker} at " in told.text
        assert "does not answer" in told.text
        stage.restart(broker)
        told = stage.verb("rollback")
        assert told.code == 0, told.text
        nats.check(moved=False)


@needs("mosquitto")
def test_a_plan_is_carried_out_on_mosquitto(tmp_path):
    with Stage.small(tmp_path, "mosquitto") as stage:
        ways = Ways(stage)
        with nothing_lost(stage):
            told = stage.verb("apply", ways.plan, "--yes")
            assert told.code == 0, told.text
            assert "8 of 8 at the planned broker, 2 of 2 links as planned" in told.text
            ways.check(moved=True)
