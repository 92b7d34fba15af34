"""Applying a plan, on a network in this process: what is refused changes nothing, and the inverse takes all back."""

import asyncio
import errno
import json
import os
import shlex
import signal

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from overlace import stopping
from overlace.cli.commands import run as run_cli
from overlace.errors import BadNetwork, BadPlan, Busy
from overlace.live import apply as applying
from overlace.live.apply import Interrupted, apply, journal_folder, look, resume, rollback
from overlace.live.deployment import check_deployment
from overlace.live.journal import begin_journal, last_journal
from overlace.live.local import draw_tree, network_text
from overlace.live.options import ApplyOptions
from overlace.live.swap import Swap
from tests.live.memory import MemoryClient, MemoryNetwork
from tests.live.plans import Situation, make_plan, make_run

NAMES = [f"b{i}" for i in range(4)]
CLIENTS = [f"c{i}" for i in range(5)]


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch):
    """Nothing is under way in a network without messages."""
    monkeypatch.setattr(Swap.__init__, "__defaults__", (50.0, 0.0))


class Stage:
    """A network in memory, and a run that was observed of it."""

    def __init__(self, folder, seed=1, substrate="nats", filters=None):
        addresses = {name: {"client": f"127.0.0.1:{4222 + i}"} for i, name in enumerate(NAMES)}
        document = {"substrate": substrate, "brokers": addresses, "credentials": {}}
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "network.toml").write_text(network_text(document))
        self.deployment = check_deployment(document, folder / "network.toml")
        links = draw_tree(NAMES, seed)
        self.network = MemoryNetwork(self.deployment, (links, frozenset()))
        filters = filters or {}
        self.network.clients = [
            MemoryClient(name, NAMES[(i + seed) % 4], list(filters.get(name, [("t", None)])))
            for i, name in enumerate(CLIENTS)
        ]
        place = {name: i for i, name in enumerate(NAMES)}
        now = Situation(
            NAMES,
            [(place[a], place[b]) for a, b in sorted(links)],
            {each.name: place[each.home] for each in self.network.clients},
            {each.name: ["t"] for each in self.network.clients},
        )
        _, self.run = make_run(folder, now)

    def plan(self, seed=2, homes=None, **more):
        """A plan of other links and homes."""
        homes = homes or {name: NAMES[(i * 3 + seed) % 4] for i, name in enumerate(CLIENTS)}
        return make_plan(self.run, draw_tree(NAMES, seed), homes, **more)

    def state(self):
        """What brokers and clients say, by name, whichever colour is live."""
        live = {each.live for each in self.network.clients}
        assert len(live) == 1
        return self.network.links[live.pop()], {each.name: each.home for each in self.network.clients}

    def untouched(self):
        """Whether nothing was ever changed."""
        return self.network.links[1] == frozenset() and self.network.takes == {0} and not self.network.orders


@pytest.fixture
def stage(tmp_path, monkeypatch):
    made = Stage(tmp_path)
    monkeypatch.setattr(applying, "changer_for", lambda deployment: made.network)
    return made


def refuse(stage, error, match, plan=None, **options):
    """A line, and nothing changed: neither looked at nor carried out."""
    plan = plan or stage.plan()
    before = sorted(stage.deployment.folder.glob("journal/*"))
    for call in (look, apply):
        with pytest.raises(error, match=match) as told:
            call(plan, stage.deployment, ApplyOptions(**options))
        assert "\n" not in str(told.value)
    assert stage.untouched()
    assert sorted(stage.deployment.folder.glob("journal/*")) == before


def test_a_plan_is_carried_out_and_taken_back_by_its_inverse(stage):
    before, plan = stage.state(), stage.plan()
    done = apply(plan, stage.deployment, ApplyOptions())
    assert (done.landed, done.links_landed) == (done.clients, done.links) == (5, 3)
    after = stage.state()
    assert after == (draw_tree(NAMES, 2), {name: NAMES[(i * 3 + 2) % 4] for i, name in enumerate(CLIENTS)})
    with pytest.raises(BadNetwork, match="nothing to roll back. The last plan is taken back by its inverse: ") as told:
        rollback(stage.deployment, ApplyOptions())
    words = shlex.split(str(told.value).partition("inverse: ")[2])
    assert words[:3] == ["overlace", "live", "apply"]
    assert run_cli(words[1:]) == 0  # the very command
    assert stage.state() == before
    with pytest.raises(BadNetwork, match="taken back by its inverse: ") as told:
        rollback(stage.deployment, ApplyOptions())
    assert "--inverse" not in str(told.value)


def test_the_inverse_of_any_plan_or_of_its_first_steps_takes_it_back(tmp_path, monkeypatch):
    count = iter(range(10**6))

    @settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(st.integers(0, 50), st.integers(0, 50), st.none() | st.integers(0, 1), st.sets(st.sampled_from(CLIENTS)))
    def law(old, new, steps, still):
        made = Stage(tmp_path / str(next(count)), seed=old)
        monkeypatch.setattr(applying, "changer_for", lambda deployment: made.network)
        was = made.state()
        homes = {name: was[1][name] if name in still else NAMES[(i + new) % 4] for i, name in enumerate(CLIENTS)}
        plan = made.plan(new, homes)
        apply(plan, made.deployment, ApplyOptions(steps=steps))
        if steps == 0:
            assert made.state() == was
        else:
            assert made.state() == (draw_tree(NAMES, new), homes)
        apply(plan, made.deployment, ApplyOptions(steps=steps, inverse=True))
        assert made.state() == was
        assert made.network.broken_laws() == []

    law()


def test_a_plan_whose_first_steps_were_carried_out_is_carried_out_whole(stage):
    before = stage.state()
    trees = [draw_tree(NAMES, seed) for seed in range(200)]
    new, via = next(
        (new, via)
        for new in trees
        for via in trees
        if len(new - before[0]) == 2 and len(via - before[0]) == len(new - via) == 1
    )
    homes = {name: NAMES[(i * 3 + 2) % 4] for i, name in enumerate(CLIENTS)}
    plan = make_plan(stage.run, new, homes, via=via)
    apply(plan, stage.deployment, ApplyOptions(steps=1))
    assert stage.state() == (via, before[1])
    apply(plan, stage.deployment, ApplyOptions())
    assert stage.state() == (new, homes)
    with pytest.raises(BadPlan, match="The network is not as the plan saw it"):
        apply(plan, stage.deployment, ApplyOptions())
    apply(plan, stage.deployment, ApplyOptions(inverse=True))
    assert stage.state() == before


def test_from_finish_on_a_rollback_prints_both_commands(stage):
    plan = stage.plan()
    stop_at(stage, "finish", plan)
    both = "`overlace live resume` finishes this one first; then `overlace live apply .* --inverse --yes` takes it back"
    with pytest.raises(BadNetwork, match=both):
        rollback(stage.deployment, ApplyOptions())
    resume(stage.deployment, ApplyOptions())
    assert stage.state()[0] == draw_tree(NAMES, 2)


def test_the_inverse_does_not_fit_a_network_where_the_plan_was_not_carried_out(stage):
    refuse(stage, BadPlan, "is not wired, and the plan removes it|is at .*; the plan saw it", inverse=True)


# bad input


def test_an_altered_plan_is_refused(stage):
    plan = stage.plan()
    document = json.loads((plan / "plan.json").read_text())
    document["seed"] = 17
    (plan / "plan.json").write_text(json.dumps(document))
    refuse(stage, BadPlan, "plan.json", plan)


def test_a_plan_for_another_network_is_refused(stage, tmp_path):
    now = Situation(["x", "y"], [(0, 1)], {"a": 0, "b": 1}, {"a": ["t"]})
    _, run = make_run(tmp_path / "other", now)
    refuse(stage, BadPlan, "a network with a broker 'x'", make_plan(run, homes={"a": "y", "b": "y"}))


def test_a_network_that_is_not_as_the_plan_saw_it_is_refused(stage):
    plan = stage.plan()
    stage.network.clients[0].home = next(n for n in NAMES if n not in (stage.network.clients[0].home, NAMES[2]))
    refuse(stage, BadPlan, "client 'c0' is at .* record it again", plan)


def test_a_plan_that_is_no_tree_is_refused_after_any_number_of_steps(stage):
    plan = make_plan(stage.run, [("b0", "b1"), ("b1", "b2"), ("b0", "b2")])
    refuse(stage, BadPlan, "tree|cycle|joined|connected", plan)
    refuse(stage, BadPlan, "tree|cycle|joined|connected", plan, steps=1)


def test_more_steps_than_the_plan_has_are_refused(stage):
    refuse(stage, BadPlan, "has 1 steps?; cannot keep 2", steps=2)


def test_a_broker_that_is_down_is_refused_by_its_name(stage):
    stage.network.silent.add("b2")
    refuse(stage, BadNetwork, "b2 at 127.0.0.1:4224 does not answer. Is it running")


def test_what_follows_no_orders_or_would_be_left_behind_is_refused(stage):
    stage.network.clients[1].wrapped = False
    refuse(stage, BadNetwork, "1 client follows no orders and would lose messages: 'c1'")
    stage.network.clients[1].wrapped = True
    stage.network.left_behind.append("stream 'orders' at b1")
    refuse(stage, BadNetwork, "would be left behind: stream 'orders' at b1")


def test_a_second_applier_and_an_unfinished_journal_are_refused(stage):
    plan = stage.plan()
    stage.network.applied = True
    with pytest.raises(Busy, match="another applier"):
        apply(plan, stage.deployment, ApplyOptions())
    assert stage.untouched()
    stage.network.applied = False
    refuse(stage, BadNetwork, "a colour swap is not finished. `overlace live resume` or `live rollback` first", plan)
    rollback(stage.deployment, ApplyOptions())
    apply(plan, stage.deployment, ApplyOptions())
    with pytest.raises(BadNetwork, match="no colour swap is under way"):
        resume(stage.deployment, ApplyOptions())


def test_an_order_for_a_client_that_is_not_there_holds_nobody_up(stage):
    async def tell():
        assert await stage.network.tell("nobody", {"do": "prepare", "colour": 1, "home": "b1"}) == []
        swap = Swap(stage.network, begin_journal(journal_folder(stage.deployment), {"old": 0, "new": 1}))
        return await swap._tell("nobody", {"do": "finish"}, 0)

    assert asyncio.run(tell()) is None
    assert stage.network.links[1] == frozenset()


@pytest.mark.parametrize("call", ["write", "fsync"])
def test_a_full_disk_under_the_journal_is_said_and_nothing_is_changed(stage, monkeypatch, call):
    plan = stage.plan()

    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        if call == "fsync":
            patch.setattr("overlace.live.journal.os.fsync", full)
        else:
            patch.setattr("overlace.live.journal._append", full)
        with pytest.raises(BadNetwork, match="cannot be written .No space left on device.. Nothing was changed"):
            apply(plan, stage.deployment, ApplyOptions())
    assert stage.untouched()
    assert list(journal_folder(stage.deployment).iterdir()) == []
    apply(plan, stage.deployment, ApplyOptions())


def test_a_disk_that_fills_up_at_any_line_stops_it_and_it_goes_on_or_back(tmp_path, monkeypatch):
    for line in range(2, 14):
        for way in (resume, rollback):
            made = Stage(tmp_path / f"{line}{way.__name__}")
            monkeypatch.setattr(applying, "changer_for", lambda deployment, made=made: made.network)
            was, left = made.state(), [line]
            whole = os.fsync

            def sync(file, left=left, whole=whole):
                left[0] -= 1
                if left[0] < 0:
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                whole(file)

            with monkeypatch.context() as patch:
                patch.setattr("overlace.live.journal.os.fsync", sync)
                with pytest.raises(BadNetwork, match="No space left on device.*`overlace live resume` goes on"):
                    apply(made.plan(), made.deployment, ApplyOptions())
            assert made.network.broken_laws() == []
            reached = last_journal(journal_folder(made.deployment))
            if reached.ended:
                continue
            if way is rollback and reached.reached in ("finish", "unwire"):
                with pytest.raises(BadNetwork, match="inverse"):
                    rollback(made.deployment, ApplyOptions())
                continue
            way(made.deployment, ApplyOptions())
            assert (made.state() == was) == (way is rollback)
            assert made.network.broken_laws() == []


# groups


def test_a_plan_that_splits_a_group_is_refused_on_mosquitto_only(tmp_path, monkeypatch):
    for substrate in ("mosquitto", "nats"):
        filters = {name: [("jobs/+", "workers")] for name in ("c0", "c4")}  # both at b1
        made = Stage(tmp_path / substrate, substrate=substrate, filters=filters)
        monkeypatch.setattr(applying, "changer_for", lambda deployment, made=made: made.network)
        was = made.state()[1]
        split = made.plan(1, {**was, "c4": "b3"}, name="split")
        if substrate == "nats":
            assert look(split, made.deployment, ApplyOptions()).moves == {"c4": ("b1", "b3")}
            continue
        refuse(made, BadPlan, "group 'workers' of 'jobs/.' is at b1, and the plan has it at b1, b3", split)
        together = made.plan(1, {**was, "c0": "b3", "c4": "b3"}, name="together")
        done = apply(together, made.deployment, ApplyOptions())
        assert done.landed == 5


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from(NAMES), st.sampled_from(NAMES), st.sampled_from(["g", "h", None])), max_size=6)
)
def test_no_plan_that_passes_has_a_group_at_more_brokers_than_it_was(clients):
    from overlace.live.adapter import Seen, Shown
    from overlace.live.sharing import refuse_split

    names = [f"c{i}" for i in range(len(clients))]
    shown = Shown({}, (frozenset(), frozenset()), {
        name: Seen((was, None), 0, (("t", group),), True) for name, (was, _, group) in zip(names, clients, strict=True)
    })  # fmt: skip
    homes, after = ({n: each[i] for n, each in zip(names, clients, strict=True)} for i in (0, 1))
    worse = any(
        len({then for _, then, g in clients if g == group}) > len({was for was, _, g in clients if g == group})
        for group in ("g", "h")
    )
    if worse:
        with pytest.raises(BadPlan, match="deals a group on its own"):
            refuse_split(shown, homes, after)
    else:
        refuse_split(shown, homes, after)


# Ctrl-C


def stop_at(stage, phase, plan):
    """Ctrl-C in a phase, at its first unit."""
    sent = []

    def press(share, what):
        if what.startswith(phase) and not sent:
            sent.append(what)
            os.kill(os.getpid(), signal.SIGINT)

    with stopping.listening(), pytest.raises(Interrupted, match=f"stopped in {phase}, .* loses nothing.*resume.*rollb"):
        apply(plan, stage.deployment, ApplyOptions(), press)
    assert sent


@pytest.mark.parametrize("phase", ["wire", "prepare", "probe", "switch", "finish", "unwire"])
@pytest.mark.parametrize("way", [resume, rollback])
def test_ctrl_c_stops_after_the_unit_in_hand_and_it_goes_on_or_back(stage, phase, way):
    was = stage.state()
    stop_at(stage, phase, stage.plan())
    assert stage.network.broken_laws() == []
    assert not stage.network.applied  # the next one may come
    if way is rollback and phase in ("finish", "unwire"):
        with pytest.raises(BadNetwork, match="--inverse"):
            rollback(stage.deployment, ApplyOptions())
        return
    done = way(stage.deployment, ApplyOptions())
    assert done.landed == done.clients == 5
    assert (stage.state() == was) == (way is rollback)


def test_ctrl_c_before_the_first_unit_changes_nothing(stage):
    plan = stage.plan()

    def press(intent):
        os.kill(os.getpid(), signal.SIGINT)

    with stopping.listening(), pytest.raises(Interrupted, match="stopped before anything was changed"):
        apply(plan, stage.deployment, ApplyOptions(), announce=press)
    assert stage.untouched()
    assert last_journal(journal_folder(stage.deployment)) is None


# clients without the wrapper, retained messages


def test_lossy_moves_clients_without_the_wrapper_and_counts_who_landed(stage):
    plan = stage.plan()
    for name in ("c1", "c2"):
        next(each for each in stage.network.clients if each.name == name).wrapped = False
    meant = {name: NAMES[(i * 3 + 2) % 4] for i, name in enumerate(CLIENTS)}
    stage.network.lands = {"c1": meant["c1"], "c2": next(each for each in NAMES if each != meant["c2"])}
    intent = look(plan, stage.deployment, ApplyOptions(lossy=True))
    assert any(line.startswith("lossy     2 clients follow no orders: the servers break") for line in intent.lines(4))
    assert any("3 of 5 follow orders" in line for line in intent.lines(4))
    told = []
    done = apply(plan, stage.deployment, ApplyOptions(lossy=True), announce=lambda each: told.append(stage.untouched()))
    assert told == [True]  # what will be lost is said before anything is changed
    assert (done.clients, done.landed, done.lossy, done.came, done.came_home) == (3, 3, 2, 2, 1)
    assert done.lossy_line() == "2 of 2 that follow no orders came back, 1 at the planned broker"
    assert stage.network.broken_laws() == []
    assert stage.network.plain == 1


def test_who_could_not_come_back_is_refused_even_with_lossy(stage, monkeypatch):
    stage.network.clients[1].wrapped = False
    whole = stage.network.shown

    async def fixed():
        found = await whole()
        return found._replace(clients={**found.clients, "c1": found.clients["c1"]._replace(movable=False)})

    monkeypatch.setattr(stage.network, "shown", fixed)
    refuse(stage, BadNetwork, "1 client follows no orders and could not come back.*'c1'.*credentials.plain", lossy=True)


def test_with_clients_without_the_wrapper_the_laws_hold_after_every_unit_and_every_kill(tmp_path):
    """L5 too: the idle colour takes nobody, at any time."""
    for stop in range(1, 60):
        for way in ("forward", "back"):
            made = Stage(tmp_path / f"{stop}{way}")
            made.network.clients[3].wrapped = False
            links, homes = made.state()
            head = {
                "old": 0, "new": 1, "retained": True,
                "before": {"links": sorted(links), "homes": homes},
                "after": {"links": sorted(draw_tree(NAMES, 3)), "homes": {**homes, "c0": "b3", "c3": "b3"}},
            }  # fmt: skip
            made.network.retained[0].update({"a", "b"})
            begin_journal(journal_folder(made.deployment), head)

            async def drive(units, most, network=made.network):
                done = []
                async for unit in units:
                    done.append(unit)
                    assert network.broken_laws() == []
                    if len(done) == most:
                        break
                await units.aclose()
                return done

            first = Swap(made.network, last_journal(journal_folder(made.deployment)))
            done = asyncio.run(drive(first.forward(), stop))
            if len(done) < stop:
                assert made.network.plain == 1
                assert made.network.retained == (set(), {"a", "b"})
                return
            if way == "back" and done[-1].phase in ("finish", "unwire"):
                continue
            again = Swap(made.network, last_journal(journal_folder(made.deployment)))
            asyncio.run(drive(getattr(again, way)(), None))
            live = int(way == "forward")
            assert {each.live for each in made.network.clients} == {live}
            assert made.network.plain == live
            assert made.network.retained[live] == {"a", "b"}
    raise AssertionError("the swap has no end")


def test_retained_messages_are_refused_with_their_topics_or_copied_before_anybody_is_prepared(stage):
    stage.network.retained[0].update(f"room/{i}" for i in range(7))
    told = "retained messages of 7 topics: 'room/0', .*, .... Move or remove it first. --copy-retained copies retained"
    refuse(stage, BadNetwork, told)
    stage.network.left_behind.append("1 durable session at b1")
    refuse(stage, BadNetwork, "left behind: 1 durable session at b1. Move or remove it first.$", copy_retained=True)
    stage.network.left_behind.clear()
    intent = look(stage.plan(), stage.deployment, ApplyOptions(copy_retained=True))
    assert any(line.startswith("retained  retained messages of 7 topics") for line in intent.lines(4))
    apply(stage.plan(), stage.deployment, ApplyOptions(copy_retained=True))
    assert len(stage.network.retained[1]) == 7
