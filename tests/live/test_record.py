"""Recordings of real networks under a load: what is recorded is the load's own tally, and what is wrong is said."""

import asyncio
import os
import signal
from collections import Counter

import pytest

from overlace.cli.commands import run
from overlace.errors import BadNetwork
from overlace.live.local import down, up
from overlace.live.options import KEY_VARIABLE, LocalOptions, RecordOptions, TrafficOptions
from overlace.live.record import record
from overlace.live.servers import find_program, read_processes
from overlace.live.traffic import Load
from overlace.observe.observation import observe_with_names
from overlace.observe.traffic import complete_traffic
from overlace.trace.store import Trace
from tests.live.servers import wait_until

pytestmark = pytest.mark.live

SUBSTRATES = [
    pytest.param(each, marks=pytest.mark.skipif(find_program(each) is None, reason=f"no {each} server on this machine"))
    for each in ("nats", "mosquitto")
]
LOAD = TrafficOptions(seed=7, clients=12, topics=8, rate=150)


@pytest.fixture
def network(tmp_path):
    """Networks of three brokers that are ended whatever happens."""
    made = []

    def start(substrate="nats"):
        made.append(up(tmp_path / f"net{len(made)}", LocalOptions(substrate=substrate, brokers=3), bound=True))
        return made[-1]

    yield start
    for each in made:
        down(each)


async def record_load(load, out, **options):
    """(recorded, tally): a recording in which all of a load lies; a longer one where the machine was too busy."""
    loop = asyncio.get_running_loop()
    for seconds in (4.0, 10.0, 30.0):
        began, over = asyncio.Event(), asyncio.Event()

        def progress(share, text, began=began, over=over):
            is_recording = text.startswith("recording")
            loop.call_soon_threadsafe((began if is_recording and share < 0.9 else over).set)

        before = Counter(load.tally.counts)
        asked = RecordOptions(seconds=seconds, **options)
        recording = asyncio.create_task(
            asyncio.to_thread(record, load.deployment, str(out), asked, progress, force=True)
        )
        waiting = asyncio.create_task(began.wait())
        await asyncio.wait({recording, waiting}, return_when=asyncio.FIRST_COMPLETED)
        over.clear()  # it also looked at the network
        waiting.cancel()
        if not recording.done():
            await load.run(1.5)
        in_time = not over.is_set()
        found = await recording
        if in_time:
            return found, load.tally.counts - before
    raise AssertionError("no load was over before its recording")


def recorded_load(deployment, out, **options):
    async def story():
        async with Load(deployment, LOAD) as load:
            return load.tally, *(await record_load(load, out, **options))

    return asyncio.run(story())


def counts_of(trace):
    names = trace.names
    found = Counter()
    for row in trace.read("traffic").to_pylist():
        found[names["client"][row["client"]], names["topic"][row["topic"]]] += row["messages"]
    return found


def audiences_of(trace):
    """Messages by client, topic and receivers, as a trace has them."""
    names, traffic = trace.names, complete_traffic(trace)
    found = Counter()
    for client, topic, audience, messages in zip(
        *(each.tolist() for each in (traffic.client, traffic.topic, traffic.audience, traffic.messages)), strict=True
    ):
        members = traffic.receivers[traffic.start[audience] : traffic.start[audience + 1]].tolist()
        receivers = frozenset(names["client"][each] for each in members)
        found[names["client"][client], names["topic"][topic], receivers] += messages
    return found


def true_audiences(tally, counts):
    """The same of messages to topics, as the load knows them."""
    topics = {each.name: each for each in tally.scenario.topics if each.kind == "topics"}
    return Counter(
        {(c, t, frozenset(topics[t].receivers)): count for (c, t), count in counts.items() if t in topics}
    )  # fmt: skip


def to_topics(audiences):
    return Counter({key: count for key, count in audiences.items() if key[1].startswith("fab")})


@pytest.mark.parametrize("substrate", SUBSTRATES)
def test_a_counted_recording_is_the_tally_and_can_be_planned_from(network, tmp_path, substrate, capsys):
    deployment = network(substrate)
    tally, found, counts = recorded_load(deployment, tmp_path / "trace")
    assert tally.lost == tally.duplicated == 0
    assert found.messages == counts.total() > 0
    assert found.about["clients"] == 12
    trace = Trace.open(str(tmp_path / "trace"))
    assert counts_of(trace) == counts
    audiences = audiences_of(trace)
    assert to_topics(audiences) == true_audiences(tally, counts)
    rest = audiences - to_topics(audiences)  # groups, requests and answers: one receiver each
    assert {len(receivers) for _, _, receivers in rest} == {1}
    observation, names = observe_with_names(trace)
    homes = observation.overlay.homes(observation.clients).tolist()
    assert {name: names["broker"][home] for name, home in zip(names["client"], homes, strict=True)} == tally.homes
    assert len(observation.overlay.tree) == 2

    code = run(
        ["optimize", str(tmp_path / "trace"), "--out", str(tmp_path / "run"), "--effort", "1", "--forecast", "plain"]
    )
    assert code in (0, 3)
    assert "less traffic cost on held-out traffic" in capsys.readouterr().out


@pytest.mark.parametrize("substrate", SUBSTRATES[:1])
def test_a_traced_recording_of_all_messages_has_their_receivers(network, tmp_path, substrate):
    tally, found, counts = recorded_load(network(), tmp_path / "trace", how="traced", sample=1.0)
    assert found.about["incomplete"] == 0
    assert found.messages == counts.total() > 0
    trace = Trace.open(str(tmp_path / "trace"))
    assert counts_of(trace) == counts
    assert to_topics(audiences_of(trace)) == true_audiences(tally, counts)


@pytest.mark.parametrize("substrate", SUBSTRATES[:1])
def test_pseudonyms_leave_no_name_of_the_load_and_what_is_wrong_is_said(
    network, tmp_path, monkeypatch, capsys, substrate
):
    monkeypatch.chdir(tmp_path)
    deployment = network()
    monkeypatch.setenv(KEY_VARIABLE, "a key of thirty-two letters and more")
    tally, _, counts = recorded_load(deployment, tmp_path / "trace", pseudonymise=True)
    trace = Trace.open(str(tmp_path / "trace"))
    assert counts_of(trace).total() == counts.total()
    words = {*tally.homes, *deployment.brokers, *(topic for _, topic in counts)}
    words |= {text for each in tally.subscriptions for text in (each.filter, each.group) if text}
    kept = [str(value) for table in trace.parts for row in trace.read(table).to_pylist() for value in row.values()]
    assert not [text for text in kept for word in words if word == text or (len(word) > 4 and word in text)]
    raw = b"".join(path.read_bytes() for path in sorted((tmp_path / "trace").rglob("*")) if path.is_file())
    assert not [word for word in words if len(word) > 4 and word.encode() in raw]

    def refused(*words):
        assert run(["live", "record", "--network", str(deployment.path), "--seconds", "0.2", *words]) != 0
        (line,) = [each for each in [" ".join(capsys.readouterr().err.split())] if each]
        return line

    assert "is a trace already" in refused("--out", "trace")
    monkeypatch.delenv(KEY_VARIABLE)
    assert KEY_VARIABLE in refused("--out", "new", "--pseudonymise")

    async def trace_nothing():
        async with Load(deployment, LOAD) as load:
            options = RecordOptions(how="traced", seconds=0.2)
            await asyncio.to_thread(record, load.deployment, "new", options)

    with pytest.raises(BadNetwork, match=r"no complete trace in 0.2 s \(no event came\)"):
        asyncio.run(trace_nothing())
    last = read_processes(deployment.folder / "run" / "processes.json")[-1]
    os.kill(last.pid, signal.SIGKILL)
    wait_until(lambda: not last.runs, "a killed broker is gone")
    assert f"{last.name} at 127.0.0.1" in refused("--out", "new")
    assert not (tmp_path / "new").exists()


def test_mosquitto_is_only_counted(tmp_path, capsys):
    (tmp_path / "network.toml").write_text('substrate = "mosquitto"\n[brokers.a]\nclient = "127.0.0.1:1"\n')
    for how in ("traced", "estimated"):
        words = ["--network", str(tmp_path), "--how", how, "--out", str(tmp_path / "new")]
        assert run(["live", "record", *words]) != 0
        assert f"--how {how} is for NATS" in " ".join(capsys.readouterr().err.split())
    assert not (tmp_path / "new").exists()
