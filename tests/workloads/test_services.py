import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overlace.errors import BadParameter
from overlace.model import check_tree
from overlace.planners.placement.modularity import communities_after, merges
from overlace.planners.placement.ties import ties_of
from overlace.trace.tables import conform
from overlace.workloads.composition import Composition
from overlace.workloads.random_clients import RandomClients
from overlace.workloads.small_world import SmallWorld
from reproductions.cc12.modularity import modularity

KINDS = (Composition, SmallWorld, RandomClients)


@settings(max_examples=20)
@given(st.sampled_from(KINDS), st.integers(0, 1999), st.integers(0, 1999), st.integers(0, 3))
def test_any_part_is_that_part_of_the_whole(kind, a, b, seed):
    first, last = min(a, b), max(a, b) + 1
    workload = kind(messages=2000, clients=60, seed=seed)
    whole, part = workload.part(0, 2000), workload.part(first, last - first)
    for name in ("at", "client", "topic", "bytes"):
        assert np.array_equal(whole[name][first:last], part[name])
    low, high = whole["start"][first], whole["start"][last]
    assert np.array_equal(whole["receivers"][low:high], part["receivers"])


@pytest.mark.parametrize("kind", KINDS)
def test_receivers_are_those_who_listen_and_a_composition_goes_on_at_one_of_them(kind):
    workload = kind(messages=1000, clients=60, length=4)
    part, world = workload.part(0, 1000), workload.world
    assert (np.diff(part["at"]) >= 0).all()
    for i in range(1000):
        heard = part["receivers"][part["start"][i] : part["start"][i + 1]].tolist()
        listens = world.listener[world.start[part["topic"][i]] : world.start[part["topic"][i] + 1]].tolist()
        assert heard == [c for c in listens if c != part["client"][i]]
        assert heard
        speaks = world.output_start[part["client"][i]] < world.output_start[part["client"][i] + 1]
        assert speaks
        following = part["client"][i + 1] if i % 4 < 3 else None
        silent = [c for c in heard if world.output_start[c] == world.output_start[c + 1]]
        assert following is None or following in heard or silent


@pytest.mark.parametrize("kind", KINDS)
def test_the_observation_counts_the_messages(kind):
    workload = kind(messages=1500, clients=60)
    part, observation = workload.part(0, 1500), workload.observation()
    assert observation.sent.sum() == 1500 == observation.classes.demand.sum()
    assert observation.flows.messages.sum() == len(part["receivers"])
    assert observation.flows.bytes.sum() == np.repeat(part["bytes"], np.diff(part["start"])).sum()
    check_tree(observation.overlay.tree, observation.network.brokers)


def test_the_overlays_are_those_of_the_paper():
    random, equal = SmallWorld().layout, SmallWorld(regions=9, least=5, most=5).layout
    sizes = np.bincount(random.region[random.region >= 0])
    assert (len(sizes), sizes.sum(), (random.region < 0).sum()) == (8, 45, 8)
    assert sizes.min() >= 3
    assert sizes.max() <= 8
    assert np.bincount(equal.region[equal.region >= 0]).tolist() == [5] * 9
    spread = SmallWorld(start="concentrated")
    assert set(spread.layout.region[spread.homes].tolist()) == {0, 1, 2}
    assert (SmallWorld().layout.region[SmallWorld().homes] >= 0).all()


def test_the_client_networks_have_the_modularity_that_the_paper_prints():
    for kind, q in ((RandomClients, 0.35), (SmallWorld, 0.65)):
        found = []
        for seed in range(4):
            ties = ties_of(kind(seed=seed).observation())
            made, _ = merges(ties)
            found.append(modularity(ties, communities_after(200, made, len(made))))
        assert np.mean(found) == pytest.approx(q, abs=0.03)


def test_some_parameters_of_a_composition_are_used_by_very_many():
    world = Composition(clients=3000).world
    used = np.sort(np.diff(world.start))[::-1]
    assert used[0] > 30 * np.median(used[used > 0])


@pytest.mark.parametrize("kind", KINDS)
def test_the_tables_conform(kind):
    for name, table in kind(messages=10, clients=30).tables().items():
        conform(table, name)


@pytest.mark.parametrize(
    ("kind", "bad"),
    [
        (SmallWorld, {"k": 3}), (SmallWorld, {"p": 2.0}), (SmallWorld, {"m": -1}), (Composition, {"fresh": 0.0}),
        (Composition, {"inputs": 0}), (RandomClients, {"degree": 200}), (SmallWorld, {"messages": 0}),
        (SmallWorld, {"brokers": 9}), (SmallWorld, {"share": 0.0}), (SmallWorld, {"start": "nowhere"}),
        (SmallWorld, {"k": 0}), (SmallWorld, {"p": float("nan")}), (Composition, {"fresh": 1.0}),
        (Composition, {"outputs": 1.5}), (RandomClients, {"degree": 0}), (SmallWorld, {"seed": -1}),
        (SmallWorld, {"latency_us": 2**31}),
    ],
)  # fmt: skip
def test_parameters_out_of_range_are_refused(kind, bad):
    with pytest.raises(BadParameter, match=next(iter(bad))):
        kind(**bad)
