"""Which mesh the main job takes: limits bind, the frontier says why, and nothing is dropped without a word."""

import json
import os
import signal

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overlace.errors import NothingBetter
from overlace.limits import Limits
from overlace.model import Observation
from overlace.optimize.meshes import Candidate, choose_mesh, take
from overlace.stopping import coming_to_an_end, listening
from overlace.trace.store import Trace
from tests.mesh.meshes import diameters, interests, observed, topic_graphs, uniform
from tests.optimize.asking import options_of
from tests.traces import trace_of


@given(interests(clients=14, topics=6), st.none() | st.integers(1, 8), st.none() | st.integers(2, 9))
@settings(max_examples=40, deadline=None)
def test_limits_bind_or_it_is_said_who_forbids_them(wants, degree, diameter):
    observation = observed(wants)
    options = options_of(max_degree=degree, max_diameter=diameter, effort=1)
    said = ""
    try:
        chosen = choose_mesh(observation, *options)
    except NothingBetter as error:
        said = str(error)
    if said:
        assert degree is not None
        assert "The least found is" in said
        least = int(said.split("To try: --max-degree ")[1].split(",")[0].rstrip("."))
        assert least > degree
        chosen, degree = choose_mesh(observation, *options_of(max_degree=least, max_diameter=diameter, effort=1)), least
    mesh = chosen.plan.after.mesh
    assert all(graph.number_of_nodes() < 2 or nx.is_connected(graph) for graph in topic_graphs(observation, mesh))
    if degree is not None:
        assert np.bincount(mesh.reshape(-1), minlength=1).max() <= degree
    if diameter is not None:
        assert all(d <= diameter for d in diameters(observation, mesh))
    (row,) = [row for row in chosen.rows if row["taken"]]
    assert (row["links"], row["max_degree"]) == (len(mesh), np.bincount(mesh.reshape(-1), minlength=1).max())
    assert max(diameters(observation, mesh), default=0) <= row["diameter"]


def test_with_survive_every_topic_stays_connected_whoever_fails():
    observation = uniform(30, 8, 4)
    chosen = choose_mesh(observation, *options_of(survive=1, effort=1))
    assert "hubs" in chosen.rows[0]["label"]
    for graph in topic_graphs(observation, chosen.plan.after.mesh):
        assert len(graph) < 3 or nx.node_connectivity(graph) >= 2


def candidate(diameter, degree):
    return Candidate("", None, diameter, True, observed({0: {0}}), 10, degree, 1.0)  # any plan will do


@pytest.mark.parametrize(("degrees", "taken"), [
    ((100, 51, 49, 40), 6), ((100, 50, 26, 14), 8), ((1000, 300, 100, 90), 6), ((10, 9, 8, 7), 2),
])  # fmt: skip
def test_a_longer_path_is_taken_where_it_halves_the_greatest_degree(degrees, taken):
    found = [candidate(d, degree) for d, degree in zip((2, 4, 6, 8), degrees, strict=True)]
    assert take(found, Limits()).diameter == taken


@pytest.mark.parametrize(("degrees", "taken"), [((10, 9, 8, 7), 8), ((10, 7, 8, 7), 4), ((10, 10, 10, 10), 2)])
def test_nobody_is_linked_to_everybody_where_others_do_with_less(degrees, taken):
    found = [candidate(d, degree) for d, degree in zip((2, 4, 6, 8), degrees, strict=True)]
    assert take(found, Limits(), others=10).diameter == taken
    assert take(found, Limits(), others=11).diameter == 2


@given(st.lists(st.tuples(st.integers(2, 20), st.integers(1, 12)), min_size=1, max_size=6), st.integers(1, 12))
def test_whoever_is_linked_to_everybody_is_so_in_every_mesh_of_short_paths(rows, others):
    taken = take([candidate(*row) for row in sorted(rows)], Limits(), others)
    shorter = [degree for diameter, degree in rows if diameter <= 8]
    assert taken.max_degree < others or taken.max_degree <= min(shorter, default=taken.max_degree)


def test_what_was_asked_for_and_binds_nothing_is_said(tmp_path, overlace):
    wants = {"client": [c for c in range(6) for _ in range(2)], "topic": [t for c in range(6) for t in (0, 1 + c % 2)]}
    names = {"client": [f"c{i}" for i in range(6)], "topic": ["a", "b", "c"]}
    trace_of(tmp_path / "trace", [], names, subscriptions=wants)
    assert Trace.open(str(tmp_path / "trace")).count("client") == 6
    asked = ("--budget", 3, "--max-cut", 0.5)
    code, out, _ = overlace("optimize", tmp_path / "trace", "--out", tmp_path / "run", *asked, "--verbose")
    assert code == 0
    assert "mesh: not limited by --budget, --max-cut" in " ".join(out.split())
    assert "mesh.hub-tree --diameter 4" in out
    assert "mesh.gm" in out
    code, out, _ = overlace("replay", tmp_path / "run")
    assert all(column in out for column in ("average_degree", "max_degree", "max_diameter"))
    assert "cost" not in out.splitlines()[0]
    code, out, _ = overlace("optimize", tmp_path / "trace", "--out", tmp_path / "low", "--max-degree", 1, "--json")
    assert code == 3
    assert json.loads(out)["recommended"] is False
    code, out, err = overlace("optimize", tmp_path / "trace", "--out", tmp_path / "low", "--max-degree", 1, "--force")
    assert "error:" not in err
    assert "No change recommended" in out
    assert "topic a has 6 subscribers" in " ".join(out.split())


def test_a_mesh_that_is_good_already_stays(tmp_path, overlace):
    wants = {"client": [0, 1, 2, 3], "topic": [0, 0, 1, 1]}
    names = {"client": list("abcd"), "topic": ["x", "y"]}
    peers = {"left": [0, 2], "right": [1, 3]}
    trace_of(tmp_path / "trace", [], names, subscriptions=wants, peers=peers)
    code, out, _ = overlace("optimize", tmp_path / "trace", "--out", tmp_path / "run", "--json")
    document = json.loads(out)
    assert (code, document["recommended"]) == (3, False)
    assert "today's mesh is connected" in document["why_not"]
    assert document["frontier"]["rows"][0]["label"] == "today"


def test_nothing_to_link_is_no_failure():
    chosen = choose_mesh(Observation(interests=[[0, 0], [1, 1]], clients=2), *options_of())
    assert len(chosen.plan.after.mesh) == 0


def test_ctrl_c_while_a_mesh_is_chosen_takes_the_best_so_far():
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    observation = uniform(40, 10, 4)

    def press(share, what):
        if "diameter 4" in what:
            os.kill(os.getpid(), signal.SIGINT)

    with listening(), coming_to_an_end():
        chosen = choose_mesh(observation, *options_of(effort=1), progress=press)
    assert [row["label"] for row in chosen.rows] == ["mesh.star-cap", "mesh.hub-tree --diameter 4"]
    assert len(choose_mesh(observation, *options_of(effort=1)).rows) == 5
