"""Applying plans on real brokers: the inverse, Ctrl-C, clients without the wrapper, retained messages. Counts only."""

import asyncio
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager

import pytest

from overlace.errors import BadNetwork
from overlace.live import servers
from overlace.live.apply import apply, changer_for, journal_folder, look, resume, rollback
from overlace.live.client import connect, mqtt_client
from overlace.live.journal import last_journal
from overlace.live.local import down, up
from overlace.live.options import ApplyOptions, LocalOptions
from overlace.live.servers import PATIENCE
from overlace.live.wiring import links_of
from tests.live.plans import Situation, make_plan, make_run

pytestmark = pytest.mark.live

NAMES = ["hub-1", "hub-2", "hub-3"]
LINE = [("hub-1", "hub-2"), ("hub-2", "hub-3")]
OTHER = [("hub-1", "hub-3"), ("hub-2", "hub-3")]
HOMES = {"a": "hub-1", "b": "hub-2", "c": "hub-3", "d": "hub-1"}
AFTER = {"a": "hub-3", "b": "hub-2", "c": "hub-3", "d": "hub-2"}
NATS, MOSQUITTO = (
    pytest.mark.skipif(servers.find_program(each) is None, reason=f"no {each} server on this machine")
    for each in ("nats", "mosquitto")
)


@pytest.fixture
def network(tmp_path):
    """A network of three brokers in a line, ended whatever happens."""
    made = []

    def start(substrate):
        tree = tmp_path / "tree.csv"
        tree.write_text("left,right\n" + "".join(f"{a},{b}\n" for a, b in LINE))
        options = LocalOptions(substrate=substrate, brokers=3, tree=str(tree))
        made.append(up(tmp_path / f"net{len(made)}", options, bound=True))
        return made[-1]

    yield start
    for each in made:
        if (each.folder / "run" / "processes.json").exists():
            down(each)


def plan_of(folder, homes=HOMES, after=AFTER):
    place = {name: i for i, name in enumerate(NAMES)}
    now = Situation(
        NAMES, [(place[a], place[b]) for a, b in LINE], {name: place[home] for name, home in homes.items()},
        {name: ["all"] for name in homes}, ("all",),
    )  # fmt: skip
    return make_plan(make_run(folder / "made", now)[1], OTHER, after)


@asynccontextmanager
async def wrapped(deployment, homes=HOMES):
    """Clients at home that receive everything, by name; what each received."""
    got = {name: Counter() for name in homes}
    async with AsyncExitStack() as stack:
        clients = {}
        for name, home in homes.items():
            clients[name] = await stack.enter_async_context(await connect(name, network=deployment.path, home=home))
            await clients[name].subscribe("all", lambda message, mine=got[name]: mine.update([message.payload]))
        await joined(clients, got)
        yield clients, got


async def joined(clients, got):
    """Links are wired and filters known everywhere: a message of every client has reached everybody."""
    wanted = {f"try {name}".encode() for name in clients}
    deadline = time.monotonic() + PATIENCE
    while not all(wanted <= mine.keys() for mine in got.values()):
        assert time.monotonic() < deadline, "the network is joined"
        for name, client in clients.items():
            await client.publish("all", f"try {name}")
        await asyncio.sleep(0.05)


async def until(condition, what):
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, what
        await asyncio.sleep(0.01)


async def everybody_hears(clients, got, text):
    """A message of every client reaches everybody once."""
    for name, client in clients.items():
        await client.publish("all", f"{text} {name}")
    wanted = {f"{text} {name}".encode() for name in clients}
    await until(lambda: all(wanted <= mine.keys() for mine in got.values()), f"{text}: everybody hears everybody")
    assert all(mine[each] == 1 for mine in got.values() for each in wanted)


async def seen(deployment):
    """(links, homes) of the live colour, as the brokers say."""
    adapter = changer_for(deployment)
    try:
        shown = await adapter.shown()
        return shown.links[shown.live], {name: each.homes[shown.live] for name, each in shown.clients.items()}
    finally:
        await adapter.close()


@NATS
def test_apply_then_inverse_has_all_as_it_was(network, tmp_path):
    deployment, plan = network("nats"), plan_of(tmp_path)

    async def story():
        async with wrapped(deployment) as (clients, got):
            await everybody_hears(clients, got, "first")
            before = await seen(deployment)
            done = await asyncio.to_thread(apply, plan, deployment, ApplyOptions())
            assert (done.landed, done.links_landed) == (4, 2)
            assert await seen(deployment) == (links_of(OTHER), AFTER)
            await everybody_hears(clients, got, "then")
            with pytest.raises(BadNetwork, match=r"taken back by its inverse: overlace live apply .* --inverse --yes"):
                await asyncio.to_thread(rollback, deployment, ApplyOptions())
            done = await asyncio.to_thread(apply, plan, deployment, ApplyOptions(inverse=True))
            assert (done.landed, done.links_landed) == (4, 2)
            assert await seen(deployment) == before == (links_of(LINE), HOMES)
            await everybody_hears(clients, got, "last")

    asyncio.run(story())


@NATS
def test_ctrl_c_stops_between_two_units_and_resume_goes_on(network, tmp_path):
    deployment, plan = network("nats"), plan_of(tmp_path)

    def reached(phase):
        found = last_journal(journal_folder(deployment))
        return found is not None and found.reached == phase

    async def story():
        async with wrapped(deployment) as (clients, got):
            words = ["live", "apply", str(plan), "--network", str(deployment.path), "--yes", "--rate", "4"]
            with open(tmp_path / "told", "w") as told:
                main = [sys.executable, "-c", "from overlace.cli import main; main()"]
                process = subprocess.Popen([*main, *words], stdout=told, stderr=told)
            try:
                await until(lambda: reached("prepare") or process.poll() is not None, "it prepares")
                process.send_signal(signal.SIGINT)
                await asyncio.to_thread(process.wait, PATIENCE)
            finally:
                process.kill()
                process.wait()
            told = " ".join((tmp_path / "told").read_text().split())
            assert process.returncode == 130, told
            assert "in a state that loses nothing. `overlace live resume` goes on" in told
            assert not last_journal(journal_folder(deployment)).ended
            await everybody_hears(clients, got, "halfway")
            done = await asyncio.to_thread(resume, deployment, ApplyOptions())
            assert (done.landed, done.links_landed) == (4, 2)
            await everybody_hears(clients, got, "last")

    asyncio.run(story())


@NATS
def test_lossy_cuts_plain_clients_off_and_counts_who_landed(network, tmp_path):
    import nats

    deployment = network("nats")
    plan = plan_of(tmp_path, {**HOMES, "p": "hub-1", "q": "hub-1"}, {**AFTER, "p": "hub-2", "q": "hub-2"})
    who = deployment.login("plain")

    async def ignore(error):
        pass

    async def plain(stack, name, brokers):
        """A client of nats-py with a list of servers, which it goes through in turn."""
        made = await nats.connect(
            [f"nats://{deployment.client_address(each)}" for each in brokers], name=name, user=who.user,
            password=who.password, dont_randomize=True, reconnect_time_wait=0.1, max_reconnect_attempts=-1,
            error_cb=ignore,
        )  # fmt: skip
        stack.push_async_callback(made.close)
        return made

    async def story():
        async with wrapped(deployment) as (clients, got), AsyncExitStack() as stack:
            heard = Counter()
            await plain(stack, "p", ["hub-1", "hub-2"])
            other = await plain(stack, "q", ["hub-1", "hub-3"])

            async def take(message):
                heard[message.data] += 1

            await other.subscribe("all", cb=take)
            await other.flush()
            with pytest.raises(BadNetwork, match="2 clients follow no orders and would lose messages: 'p', 'q'"):
                await asyncio.to_thread(look, plan, deployment, ApplyOptions())
            done = await asyncio.to_thread(apply, plan, deployment, ApplyOptions(lossy=True))
            assert (done.clients, done.landed, done.lossy, done.came) == (4, 4, 2, 2)
            links, homes = await seen(deployment)
            assert links == links_of(OTHER)
            assert done.came_home == [homes["p"], homes["q"]].count("hub-2")
            assert homes["q"] != "hub-2"  # which its list does not have
            await everybody_hears(clients, got, "last")
            await until(lambda: {f"last {name}".encode() for name in clients} <= heard.keys(), "plain ones hear it too")

    asyncio.run(story())


@contextmanager
def plain_mqtt(deployment, name, broker):
    """A client of paho, as any application has one; cut off, it comes to the address of the other colour."""
    client = mqtt_client(deployment.plain(), "clients", name)
    there, colour = threading.Event(), [0]

    def join():
        host, _, port = deployment.client_address(broker, colour[0]).rpartition(":")
        client.connect_async(host, int(port))

    def lost(*_):
        colour[0] = 1  # somebody has changed its address
        join()

    client.on_connect = lambda *_: there.set()
    client.on_disconnect = lost
    join()
    client.loop_start()
    try:
        assert there.wait(PATIENCE)
        yield client
    finally:
        client.on_disconnect = None
        client.disconnect()
        client.loop_stop()


@MOSQUITTO
def test_retained_messages_are_copied_nobody_gets_one_twice_and_plain_clients_are_counted(network, tmp_path):
    deployment, plan = network("mosquitto"), plan_of(tmp_path)

    async def story():
        async with wrapped(deployment) as (clients, got):
            with plain_mqtt(deployment, "plain", "hub-1") as plain:
                plain.publish("state/one", "on", qos=1, retain=True).wait_for_publish(PATIENCE)
                kept = Counter()
                await clients["a"].subscribe("state/#", lambda message: kept.update([message.payload]))
                await until(lambda: kept[b"on"] == 1, "the retained message comes with the subscription")
                with pytest.raises(BadNetwork, match="1 client follows no orders and would lose messages"):
                    await asyncio.to_thread(look, plan, deployment, ApplyOptions())
                with pytest.raises(BadNetwork, match="retained messages of 1 topic: 'state/one'"):
                    await asyncio.to_thread(look, plan, deployment, ApplyOptions(lossy=True))
                options = ApplyOptions(copy_retained=True, lossy=True)
                done = await asyncio.to_thread(apply, plan, deployment, options)
                assert (done.landed, done.links_landed) == (4, 2)
                assert done.lossy_line() == "1 of 1 that follow no orders came back"
                late = Counter()
                await clients["d"].subscribe("state/one", lambda message: late.update([message.payload]))
                await until(lambda: late[b"on"] == 1, "a later subscriber gets it from the new broker")
                await everybody_hears(clients, got, "end")
                assert kept == late == {b"on": 1}

    asyncio.run(story())
