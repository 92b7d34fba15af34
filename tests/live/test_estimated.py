"""Flows estimated from the counters of real NATS servers, under a load of plain clients whose tally is known."""

import asyncio
import threading
from collections import Counter

import pytest

from overlace.live import local
from overlace.live.counters import UNHEARD, Sampler
from overlace.live.options import RecordOptions
from overlace.live.record import record
from overlace.live.servers import find_program
from overlace.trace.recorded import describe_recording
from overlace.trace.store import Trace
from tests.live.plain import PlainLoad, connected, found_of, in_proportion, wrong_share
from tests.live.servers import PATIENCE, until
from tests.traces import observe

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(find_program("nats") is None, reason="no nats-server on this machine"),
]


@pytest.fixture
def network(tmp_path):
    deployment = local.up(tmp_path / "net", local.LocalOptions(brokers=3), bound=True)
    yield deployment
    local.down(deployment)


def by_topic(counts):
    found = Counter()
    for (_, topic), messages in counts.items():
        found[topic] += messages
    return found


def test_totals_are_those_of_the_load_and_publishers_far_better_than_in_proportion(network):
    async def run():
        async with PlainLoad(network, clients=12, topics=8, rate=200, seed=1).connect() as load:
            async with Sampler(network) as sampler:
                await load.run(10)
            return load, sampler.estimate()

    load, result = asyncio.run(run())
    found, true = found_of(result), load.sent
    assert result.sent == true.total() == result.messages.sum()
    assert by_topic(found) == by_topic(true)
    assert result.unheard == by_topic(true)[UNHEARD] > 0
    assert result.lost == 0
    assert wrong_share(found, true) < 0.75 * wrong_share(in_proportion(true), true)
    assert result.homes == load.homes
    asked = {(each.client, each.filter, each.group or "") for each in result.subscriptions}
    assert {(name, *each) for name, held in load.filters.items() for each in held} <= asked
    assert not [name for name in result.homes if name.startswith("hub")]  # links are no clients
    assert len({each.client for each in result.receivers("jobs")}) == 3
    replies = [topic for topic in by_topic(found) if topic.startswith("_INBOX.")]
    assert len(replies) == len(load.asks)


def test_a_recording_is_a_trace_that_is_called_estimated_and_hides_names_if_asked(network, tmp_path, monkeypatch):
    monkeypatch.setenv("OVERLACE_KEY", "a long and random key")
    done = threading.Event()
    load = PlainLoad(network, clients=10, topics=6, rate=150, seed=2)
    ready = threading.Event()

    async def run():
        async with load.connect():
            ready.set()
            while not done.is_set():
                await load.run(0.5)

    thread = threading.Thread(target=asyncio.run, args=(run(),))
    thread.start()
    try:
        assert ready.wait(PATIENCE)
        found = record(network, str(tmp_path / "trace"), RecordOptions(how="estimated", seconds=6, pseudonymise=True))
    finally:
        done.set()
        thread.join(PATIENCE)
    trace = Trace.open(str(tmp_path / "trace"))
    assert trace.notes["recorded"]["how"] == "estimated"
    assert 0 < found.messages <= load.sent.total()
    assert observe(trace).sent.sum() == found.messages
    words = (tmp_path / "trace" / "trace.json").read_text() + "\n".join(
        each for names in trace.names.values() for each in names
    )
    assert not [name for name in (*load.homes, *network.brokers, "fab", "jobs") if name in words]
    assert "flows are estimated from counters" in describe_recording(trace.notes)[0]


def test_a_client_that_reconnects_elsewhere_is_one_client_and_a_broker_that_is_gone_is_said(network):
    async def publish(client, times):
        for _ in range(times):
            await client.publish("a.b", b"12345")
        await client.flush()

    async def run():
        async with connected(network, "reader", "hub-1") as reader:
            got = []

            async def take(message):
                got.append(message)

            await reader.subscribe("a.>", cb=take)
            await reader.flush()
            async with connected(network, "writer", "hub-1") as writer, Sampler(network) as sampler:
                await publish(writer, 30)
                await until(lambda: len(got) == 30)
                await sampler.look()
                await writer.close()
                async with connected(network, "writer", "hub-1") as again:
                    await publish(again, 20)
                    await until(lambda: len(got) == 50)
                    await sampler.look()
                    third = next(each for each in local.read_processes(network.folder / "run" / "processes.json")
                                 if each.name.startswith("hub-3"))  # fmt: skip
                    local.end([third])
                    seen = len(sampler.snapshots)
                    await until(lambda: any(each.brokers["hub-3"] is None for each in sampler.snapshots[seen:]))
            return sampler.estimate()

    result = asyncio.run(run())
    assert found_of(result) == {("writer", "a.>"): 50}
    assert result.bytes.sum() == 250
    assert [each.broker for each in result.sessions if each.client == "writer"] == ["hub-1", "hub-1"]
    assert any("hub-3 was silent" in note for note in result.notes)
    assert result.incomplete >= 1
