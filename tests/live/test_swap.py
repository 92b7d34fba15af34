"""The law of order, on a network in this process: after every unit, with a kill after any of them, forward and back."""

import asyncio
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overlace.errors import BadNetwork, Busy
from overlace.live.deployment import check_deployment
from overlace.live.journal import NamedOverlay, begin_journal, last_journal
from overlace.live.local import draw_tree
from overlace.live.swap import PHASES, Stuck, Swap
from tests.live.memory import MemoryClient, MemoryNetwork

NAMES = [f"b{i}" for i in range(5)]


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch):
    """Nothing is under way in a network without messages."""
    monkeypatch.setattr("overlace.live.swap.SETTLE", 0.0)


def make(folder, data=None, clients=4, brokers=4, seeds=(1, 2)):
    """A network, and a journal that begins a swap of it."""
    names = NAMES[:brokers]
    entries = {name: {"client": f"127.0.0.1:{4222 + i}"} for i, name in enumerate(names)}
    deployment = check_deployment({"substrate": "nats", "brokers": entries}, folder / "network.toml")
    old, new = (draw_tree(names, seed) for seed in seeds)
    network = MemoryNetwork(deployment, (old, frozenset()))
    network.clients = [MemoryClient(f"c{i}", names[i % brokers]) for i in range(clients)]
    homes = {each.name: names[(i * 7 + 3) % brokers] for i, each in enumerate(network.clients)}
    before = NamedOverlay(old, {each.name: each.home for each in network.clients})
    head = {"old": 0, "new": 1, "before": before.document(), "after": NamedOverlay(new, homes).document()}
    return network, begin_journal(folder / "journal", head)


def swap_of(network, folder):
    return Swap(network, last_journal(folder / "journal"), settle=0.0)


async def drive(way, network, most=None, each=lambda unit: None):
    """Carry units out, at most so many, with the laws checked after each; the units."""
    units = []
    async for unit in way:
        units.append(unit)
        assert network.broken_laws() == []
        each(unit)
        if most is not None and len(units) >= most:
            break
    return units


def test_a_swap_ends_where_it_should_and_the_laws_hold_after_every_unit(tmp_path):
    network, journal = make(tmp_path)
    units = asyncio.run(drive(swap_of(network, tmp_path).forward(), network))
    assert list(dict.fromkeys(unit.phase for unit in units)) == list(PHASES)
    assert network.links == (frozenset(), journal.after.links)
    assert {each.name: each.home for each in network.clients} == journal.after.homes
    assert {each.live for each in network.clients} == {1}
    assert network.takes == {1}
    assert last_journal(tmp_path / "journal").ended


def test_killed_after_any_unit_it_is_resumed_or_taken_back(tmp_path):
    network, _ = make(tmp_path / "whole")
    total = len(asyncio.run(drive(swap_of(network, tmp_path / "whole").forward(), network)))
    for kill in range(1, total + 1):
        for way in ("forward", "back"):
            folder = tmp_path / f"{kill}-{way}"
            network, journal = make(folder)
            done = asyncio.run(drive(swap_of(network, folder).forward(), network, kill))
            again = swap_of(network, folder)
            if way == "back" and done[-1].phase in ("finish", "unwire"):
                with pytest.raises(BadNetwork, match="the inverse plan"):
                    asyncio.run(drive(again.back(), network))
                continue
            asyncio.run(drive(getattr(again, way)(), network))
            meant, live = (journal.after, 1) if way == "forward" else (journal.before, 0)
            assert {each.name: each.home for each in network.clients} == meant.homes, (kill, way)
            assert {each.live for each in network.clients} == {live}
            assert network.links[live] == meant.links
            assert network.links[1 - live] == frozenset()
            assert network.takes == {live}


def test_killed_twice_at_any_two_units_forward_and_back(tmp_path):
    count = iter(range(10**6))

    @settings(max_examples=150, deadline=None)
    @given(st.lists(st.tuples(st.integers(1, 30), st.booleans()), max_size=4), st.integers(0, 99), st.booleans())
    def law(kills, seed, back_at_last):
        folder = tmp_path / str(next(count))
        network, journal = make(folder, brokers=5, clients=5, seeds=(seed, seed + 1))
        turned = False
        for most, back in [*kills, (None, back_at_last)]:
            swap = swap_of(network, folder)
            if swap.journal.ended:
                break
            turned = turned or (back and swap.journal.reached not in ("finish", "unwire"))
            way = swap.back() if turned else swap.forward()
            asyncio.run(drive(way, network, most))
        meant, live = (journal.before, 0) if turned else (journal.after, 1)
        assert network.links[live] == meant.links
        assert {each.name: each.home for each in network.clients} == meant.homes
        assert network.links[1 - live] == frozenset()

    law()


def test_clients_that_come_in_any_phase_take_part(tmp_path):
    for i, phase in enumerate(PHASES):
        folder = tmp_path / phase
        network, _ = make(folder)
        came = []

        def arrive(unit, network=network, phase=phase, came=came):
            if unit.phase == phase and not came:
                live = max(each.live for each in network.clients)
                late = MemoryClient("late", NAMES[0], live=live)
                late.other = NAMES[0] if len(network.takes) == 2 else None  # a newcomer takes both colours
                network.clients.append(late)
                came.append(late)

        asyncio.run(drive(swap_of(network, folder).forward(), network, each=arrive))
        assert came, i
        assert came[0].homes == (None, NAMES[0]), phase


def test_who_dies_holds_nobody_up_and_who_is_stuck_is_named(tmp_path):
    network, _ = make(tmp_path / "dies")

    def die(unit):
        if unit.phase == "prepare":
            network.clients = [each for each in network.clients if each.name != "c3"]

    asyncio.run(drive(swap_of(network, tmp_path / "dies").forward(), network, each=die))
    assert len(network.clients) == 3
    network, _ = make(tmp_path / "stuck")
    network.mute.add("c2")
    with pytest.raises(Stuck, match="'c2' does not answer"):
        asyncio.run(drive(swap_of(network, tmp_path / "stuck").forward(), network))
    assert last_journal(tmp_path / "stuck" / "journal").lines[-1]["do"] == "fail"
    network.mute.clear()
    asyncio.run(drive(swap_of(network, tmp_path / "stuck").back(), network))
    assert network.links[1] == frozenset()


def test_a_silent_broker_stops_it_and_it_goes_back_when_it_returns(tmp_path):
    network, journal = make(tmp_path)

    def silence(unit):
        if unit.phase == "prepare":
            network.silent.add("b2")

    with pytest.raises(BadNetwork, match="b2"):
        asyncio.run(drive(swap_of(network, tmp_path).forward(), network, each=silence))
    with pytest.raises(BadNetwork, match="b2"):
        asyncio.run(drive(swap_of(network, tmp_path).forward(), network))
    network.silent.clear()
    asyncio.run(drive(swap_of(network, tmp_path).back(), network))
    assert network.links == (journal.before.links, frozenset())


def test_doing_everything_twice_changes_nothing(tmp_path):
    network, journal = make(tmp_path)

    async def twice():
        swap = swap_of(network, tmp_path)
        for phase in PHASES:
            async for _ in swap._units(phase):
                pass
            once = (network.links, set(network.takes), [repr(each) for each in network.clients])
            async for _ in swap._units(phase):
                pass
            assert once == (network.links, set(network.takes), [repr(each) for each in network.clients]), phase

    asyncio.run(twice())
    assert network.links[1] == journal.after.links


# the journal


def test_a_torn_last_line_is_no_line(tmp_path):
    _, journal = make(tmp_path)
    journal.write("begin", phase="wire")
    journal.write("done", phase="wire")
    text = journal.path.read_bytes()
    first = text.index(b"\n") + 1
    for end in range(first, len(text)):
        journal.path.write_bytes(text[:end])
        found = last_journal(tmp_path / "journal")
        assert len(found.lines) == text[first:end].count(b"\n") + _complete(text[first:end])
        found.write("turn")
        again = last_journal(tmp_path / "journal")
        assert again.lines[-1]["do"] == "turn"
        assert again.lines[:-1] == found.lines[:-1]


def _complete(text):
    """Whether what stands after the last newline is a whole line but for its newline."""
    try:
        return isinstance(json.loads(text.rpartition(b"\n")[2]), dict)
    except ValueError:
        return False


def test_an_open_journal_refuses_another_and_a_second_applier(tmp_path):
    _, journal = make(tmp_path)
    with pytest.raises(BadNetwork, match="is not finished"):
        begin_journal(tmp_path / "journal", {})
    with journal.held(), pytest.raises(Busy, match="another applier"), journal.held():
        pass
    journal.write("end", live=0, how="rollback")
    assert begin_journal(tmp_path / "journal", {"old": 0}).path.name == "0002.jsonl"
    assert oct(journal.path.stat().st_mode & 0o777) == "0o600"
