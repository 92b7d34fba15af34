"""Shared subscriptions of MQTT: their members stay where they are, unless the user lets them move."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from overlace.catalog import PLANNERS
from overlace.errors import NothingBetter
from overlace.optimize.scope import grouped_in, members_of
from overlace.trace.plans import read_columns, read_plan
from overlace.trace.runs import read_observation
from overlace.trace.store import Trace
from overlace.verbs import optimize
from tests.optimize.asking import options_of
from tests.traces import trace_of

BROKERS = ["hub-1", "hub-2", "hub-3"]


def make(path, seed, dialect, group="workers", shared=False):
    """Twelve clients at three brokers in a line; everybody sends, six share one subscription, at brokers as drawn."""
    rng = np.random.default_rng(seed)
    clients = [f"c[{i}]*" for i in range(12)]  # names that would match others if they were taken for patterns
    homes = rng.integers(0, 3, 12)
    members = np.arange(6) if seed % 2 else np.flatnonzero(homes == homes[0])
    messages = [(i * 10**6, int(rng.integers(12)), i % 3, 10, [int(rng.integers(12))]) for i in range(400)]
    rows = [(int(each), f"$share/{group}/t0" if shared else "t0", None if shared else group) for each in members]
    rows += [(each, "t1/+", None) for each in range(12)]
    trace_of(
        path,
        messages,
        {"client": clients, "broker": BROKERS, "topic": ["t0", "t1", "t2"]},
        sessions={"client": pa.array(range(12), pa.int32()), "broker": pa.array(homes, pa.int32())},
        subscriptions={
            "client": pa.array([row[0] for row in rows], pa.int32()),
            "filter": pa.array([row[1] for row in rows], pa.string()),
            "group": pa.array([row[2] for row in rows], pa.string()),
            "dialect": pa.array([dialect] * len(rows), pa.string()),
        },
        brokers={"broker": pa.array(range(3), pa.int32()), "cost": pa.array([1.0] * 3)},
        links={
            "left": pa.array([0, 0, 1], pa.int32()),
            "right": pa.array([1, 2, 2], pa.int32()),
            "cost": pa.array([1.0] * 3),
            "wired": pa.array([True, False, True]),
        },
    )
    return {clients[i] for i in members} if len(members) > 1 else set()


def moved(path, run, **options):
    """(clients that the plan moves, the notes)."""
    limits, goal = options_of(
        objective="messages", train=1.0, effort=0, sent_cap=0, handled_cap=0, min_gain=0, **options
    )
    try:
        answer = optimize(str(path), run, limits, goal)
    except NothingBetter as error:
        answer = error.result
    observation, names = read_observation(run)
    folder = answer.verdicts[0].folder
    after, _ = read_columns(folder, read_plan(folder, PLANNERS))
    before, now = (each.homes(observation.clients) for each in (observation.overlay, after))
    return {names["client"][i] for i in np.flatnonzero(before != now)}, answer.notes


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 99), shared=st.booleans())
def test_no_plan_moves_a_member_of_a_group_of_mqtt(tmp_path_factory, seed, shared):
    folder = tmp_path_factory.mktemp("groups")
    members = make(folder / "trace", seed, "mqtt", shared=shared)
    who, notes = moved(folder / "trace", folder / "run")
    assert not who & members
    said = [note for note in notes if "every Mosquitto deals a group on its own" in note]
    assert len(said) == bool(members)


def test_members_move_on_nats_and_where_the_user_says_so(tmp_path):
    members = make(tmp_path / "mqtt", 1, "mqtt")
    assert members
    assert not moved(tmp_path / "mqtt", tmp_path / "kept")[0] & members
    who, notes = moved(tmp_path / "mqtt", tmp_path / "only", only=("*",))
    assert who & members
    assert not any("deals a group" in note for note in notes)
    make(tmp_path / "nats", 1, "nats")
    assert moved(tmp_path / "nats", tmp_path / "free")[0] & members


@pytest.mark.parametrize("given", ["mqtt", "nats", None])
def test_a_group_is_known_by_its_filter_and_needs_two_members(tmp_path, given):
    rows = [(0, "a/+", "g", given), (1, "a/+", "g", given), (2, "b", "g", given), (3, "$share/h/c", None, given),
            (4, "$share/h/c", None, given), (5, "d", None, given)]  # fmt: skip
    kinds = {"client": pa.int32(), "filter": pa.string(), "group": pa.string(), "dialect": pa.string()}
    table = {name: pa.array([row[i] for row in rows], kind) for i, (name, kind) in enumerate(kinds.items())}
    trace_of(tmp_path / "trace", [(0, 5, 0, 1, [0])], subscriptions=table)
    trace = Trace.open(str(tmp_path / "trace"))
    if given != "mqtt":
        assert members_of(trace) == {}
        assert grouped_in(trace, options_of()[0]).note() == ""
        return
    assert members_of(trace) == {("g", "a/+"): {"c0", "c1"}, ("g", "b"): {"c2"}, ("h", "c"): {"c3", "c4"}}
    found = grouped_in(trace, options_of(only=("c0",))[0])
    assert (found.keep, found.groups) == (("client:c1", "client:c3", "client:c4"), 2)
    assert found.note().startswith("3 clients stay where they are, members of 2 shared subscriptions")
