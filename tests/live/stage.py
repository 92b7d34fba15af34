"""A network on this machine with a load on it, in a thread of its own, while verbs change the network."""

import asyncio
import threading
from contextlib import contextmanager
from pathlib import Path

from overlace.limits import Split
from overlace.live.apply import changer_for
from overlace.live.local import down, start_broker, up
from overlace.live.options import LocalOptions, TrafficOptions
from overlace.live.servers import read_processes, require_program
from overlace.live.traffic import Load
from overlace.live.wiring import links_of
from overlace.optimize.task import observe
from tests.live.appliers import Appliers
from tests.live.plans import make_plan

LONGEST = 120


class Stage:
    """Brokers, a load, and processes that change the network; all of it ends at the end."""

    def __init__(self, folder, local, traffic, more=""):
        self.folder = Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.deployment = up(self.folder / "net", local, bound=True, more=more)
        self.appliers = Appliers()
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self.thread.start()
        self.traffic = traffic
        self.load = None
        self.plans = {}

    @classmethod
    def small(cls, folder, substrate="nats", **options):
        """Three brokers and eight clients."""
        local = LocalOptions(substrate=substrate, brokers=3, **options)
        return cls(folder, local, TrafficOptions(seed=7, clients=8, topics=8, rate=300))

    def __enter__(self):
        try:
            self.load = Load(self.deployment, self.traffic)
            self.do(self.load.start())
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        """End everything."""
        try:
            self.appliers.__exit__()
            if self.load is not None:
                self.do(self.load.stop())
        finally:
            down(self.deployment)
            self.loop.call_soon_threadsafe(self.loop.stop)
            self.thread.join(LONGEST)
            self.loop.close()

    def do(self, work):
        """Have the load's loop do something."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(LONGEST)

    @contextmanager
    def loaded(self, seconds=3600.0):
        """While this lasts the load publishes; at its end all is accounted for, or waited for in vain."""
        running = asyncio.run_coroutine_threadsafe(self.load.run(seconds), self.loop)
        try:
            self.go_on(50)
            yield self.load.tally
            self.go_on(50)
        finally:
            self.load.end()
            running.result(LONGEST)

    def go_on(self, more):
        """Until so many messages more were sent."""
        sent = self.load.tally.sent

        async def until():
            while self.load.tally.sent < sent + more:
                await asyncio.sleep(0.01)

        self.do(until())

    @property
    def network(self):
        return self.deployment.folder

    def shown(self):
        """What the brokers say."""

        async def look():
            adapter = changer_for(self.deployment)
            try:
                return await adapter.shown()
            finally:
                await adapter.close()

        return self.do(look())

    def layout(self, *, alone=True):
        """(links, homes), of the live colour; if that should be alone, refused if the other has any."""
        shown = self.shown()
        live = shown.live
        if alone:
            assert shown.links[1 - live] == frozenset()
            assert all(seen.homes[1 - live] is None for seen in shown.clients.values())
        return shown.links[live], {name: seen.homes[live] for name, seen in shown.clients.items()}

    def verb(self, *words, **how):
        """Run a verb of `overlace live`."""
        return self.appliers.run("live", *words, "--network", self.network, **how)

    def plan(self, links, homes):
        """A plan from how the network is now, as it is recorded, to these links and homes; not under load."""
        here = self.folder / f"plan-{len(list(self.folder.glob('plan-*')))}"
        here.mkdir()
        with self.loaded():
            told = self.verb("record", "--out", here / "trace", "--seconds", "1")
        assert told.code == 0, told.text
        observe(str(here / "trace"), here / "run", Split(train=1.0))
        return make_plan(here / "run", sorted(links), homes)

    def processes(self):
        """The brokers' processes, by name."""
        return {each.name: each for each in read_processes(self.network / "run" / "processes.json")}

    def restart(self, broker):
        """Start a broker again, as it was."""
        program = require_program(self.deployment.substrate)
        made = start_broker(self.deployment, program, broker, 0, bound=True)
        from overlace.live import local

        others = [each for each in self.processes().values() if each.name != made.name]
        local._keep(self.network / "run", [*others, made])
        local.await_all([self.deployment.client_address(broker)], [made], self.network / "run")


def there_and_back(stage):
    """Two layouts of a network that differ in links and homes: as it is, and another. Members of groups stay together:
    Mosquitto deals at each broker on its own."""
    links, homes = stage.layout()
    brokers = list(stage.deployment.brokers)
    ring = {a: brokers[(i + 1) % len(brokers)] for i, a in enumerate(brokers)}
    return (links, homes), (links_of((ring[a], ring[b]) for a, b in links), {c: ring[b] for c, b in homes.items()})
