"""A load on a real network: every message is accounted for, and clients counted what the tally counted."""

import asyncio
import json
import signal
import subprocess
import sys
import textwrap

import pytest

from overlace.errors import BadNetwork, Unknown
from overlace.live import servers, traffic
from overlace.live.client import Client
from overlace.live.local import down, up
from overlace.live.options import LocalOptions, TrafficOptions
from overlace.live.traffic import Load, run_load
from tests.processes import handles, until

pytestmark = pytest.mark.live

SUBSTRATES = [
    pytest.param(
        each, marks=pytest.mark.skipif(servers.find_program(each) is None, reason=f"no {each} server on this machine")
    )
    for each in ("nats", "mosquitto")
]


@pytest.fixture(scope="module", params=SUBSTRATES)
def network(request, tmp_path_factory):
    """Four brokers, ended whatever happens."""
    folder = tmp_path_factory.mktemp(request.param) / "net"
    made = up(folder, LocalOptions(substrate=request.param, brokers=4), bound=True)
    yield made
    down(made)


def test_a_load_is_accounted_for_id_by_id(network):
    seen = []
    tally = run_load(
        network, TrafficOptions(seed=5, seconds=1.5, clients=12), lambda share, text: seen.append((share, text))
    )
    assert (tally.lost, tally.duplicated, tally.reordered, tally.failed, tally.foreign) == (0, 0, 0, 0, 0)
    assert tally.delivered == sum(tally.figures(kind).expected for kind in ("topics", "groups", "requests"))
    assert tally.figures("groups").sent > 0
    assert (tally.answered, tally.unanswered) == (tally.figures("requests").sent, 0)
    assert "ready" in [text for _, text in seen]
    assert sorted(share for share, _ in seen) == [share for share, _ in seen]
    document = json.loads(json.dumps(tally.document()))
    assert set(document["homes"].values()) <= set(network.brokers)
    assert document["latency_ms"]["p50"] <= document["latency_ms"]["p100"]
    assert "lost 0, duplicated 0" in "\n".join(tally.lines())


def test_clients_count_what_the_tally_counts(network):
    async def run():
        async with Load(network, TrafficOptions(seed=6, clients=8)) as load:
            assert all(client.counts == {} for client in load.clients.values())  # getting ready is not counted
            running = asyncio.create_task(load.run(600))
            while load.tally.sent < 200:
                await asyncio.sleep(0.01)
            load.end()
            tally = await running
            counted = {
                (name, topic): count for name, client in load.clients.items() for topic, count in client.counts.items()
            }
            asked = [client.filters for client in load.clients.values()]
            return tally, counted, asked

    tally, counted, asked = asyncio.run(run())
    assert (tally.lost, tally.duplicated) == (0, 0)
    assert counted == {key: (count, tally.sizes[key]) for key, count in tally.counts.items()}
    own = {each for filters in asked for each in filters if not each[0].startswith(("_INBOX.", "_reply/"))}
    assert own == {(each.filter, each.group) for each in tally.subscriptions}


def test_a_second_load_of_the_same_clients_is_refused(network):
    async def run():
        async with Load(network, TrafficOptions(seed=6, clients=8)):
            with pytest.raises(BadNetwork, match="another load is running"):
                await traffic.refuse_second(Load(network, TrafficOptions(seed=7, clients=4)))
        await traffic.refuse_second(Load(network, TrafficOptions(seed=7, clients=4)))

    asyncio.run(run())


def test_what_does_not_arrive_is_lost_and_ends_the_wait(network, monkeypatch):
    monkeypatch.setattr(traffic, "PATIENCE", 0.3)

    async def run():
        load = Load(network, TrafficOptions(seed=8, clients=6, requests=0))
        await load.start()
        deaf = max(load.clients, key=lambda name: sum(each.client == name for each in load.scenario.subscriptions))
        for each in load.scenario.subscriptions:
            if each.client == deaf and each.group is None:
                await load.clients[deaf].unsubscribe(each.filter, each.group)
        tally = await load.run(0.5)
        await load.stop()
        return tally, deaf

    tally, deaf = asyncio.run(run())
    wanted = sum(
        count
        for (_, name), count in tally.counts.items()
        for topic in tally.scenario.topics
        if topic.name == name and topic.kind == "topics" and deaf in topic.receivers
    )
    assert (tally.lost, tally.duplicated) == (wanted, 0)
    assert tally.lost > 0


def test_a_broker_that_is_silent_or_unknown_is_said_in_a_line(network, tmp_path, monkeypatch):
    table = tmp_path / "homes.csv"
    table.write_text("client,broker\nclient-01,nowhere\n")
    with pytest.raises(Unknown, match="nowhere"):
        Load(network.model_copy(update={"homes": str(table)}))

    async def fail(self, home):
        raise traffic.ClientError("127.0.0.1:9: the broker does not answer")

    monkeypatch.setattr(Client, "_join", fail)
    with pytest.raises(BadNetwork, match="does not answer"):
        run_load(network, TrafficOptions(seconds=1, clients=3))


PROGRAM = """
import sys
from overlace import stopping
from overlace.live.options import TrafficOptions
from overlace.live.traffic import run_load
with stopping.listening():
    def tell(share, text):
        print("at", text, flush=True)
    tally = run_load(sys.argv[1], TrafficOptions(seconds=600, clients=4), tell)
    print(*tally.lines(), sep="\\n", flush=True)
"""


def test_ctrl_c_ends_it_with_what_there_is(network):
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(PROGRAM), str(network.path)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        until(lambda: handles(process.pid, signal.SIGINT))
        while "delivered" not in process.stdout.readline():
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        told, problems = process.communicate(timeout=60)
    finally:
        if process.poll() is None:
            process.kill()
            process.communicate()
    assert process.returncode == 0
    assert "lost 0, duplicated 0" in told
    assert "coming to an end" in problems
