"""From a trace to judged plans without a JVM, and plain files into a trace."""

import gzip
import json
import subprocess
import sys

import numpy as np
import pyarrow.parquet as pq
import pytest

from overlace.errors import BadPlan, BadTrace, Unknown
from overlace.ingest.tables import add_tables, add_topology
from overlace.limits import Split
from overlace.optimize.plan import solve
from overlace.optimize.replay import replay
from overlace.optimize.task import observe
from overlace.optimize.task import trace_of as trace_of_run
from overlace.peek.peek import peek
from overlace.planners.placement import cost as placement_cost
from overlace.planners.placement.baselines import Stay
from overlace.planners.tree import cost as tree_cost
from overlace.planners.tree.baselines import Mst
from overlace.spark import reduction
from overlace.spark.read import read
from overlace.trace.runs import read_observation, writing_run
from overlace.trace.store import HOUR_US
from tests.engine import ingest_sources
from tests.traces import observe as observation_of
from tests.traces import trace_of

LINKS = {"left": [0, 0, 1], "right": [1, 2, 2], "cost": [1.0, 5.0, 1.0], "wired": [True, True, False]}
NAMES = {"broker": ["x", "y", "z"], "client": [f"c{i}" for i in range(6)]}
SESSIONS = {"client": range(6), "broker": [0, 0, 1, 1, 2, 2]}


@pytest.fixture
def run(tmp_path):
    rng = np.random.default_rng(0)
    log = [(i * HOUR_US // 4, i % 6, i % 3, 10, rng.integers(0, 6, 3).tolist()) for i in range(200)]
    trace_of(tmp_path / "trace", log, NAMES, links=LINKS, sessions=SESSIONS)
    observe(str(tmp_path / "trace"), tmp_path / "run")
    return tmp_path / "run"


def test_replay_agrees_with_the_planners_own_costs(run):
    observation, names = read_observation(run)
    plan = solve(Mst(), observation, run, names)
    done = {each.run: each.metrics for each in replay(run)}
    assert set(done) == {f"{name}/{part}" for name in ("before", plan.folder.name) for part in ("train", "held-out")}
    before, after = done["before/train"], done[f"{plan.folder.name}/train"]
    assert before.of("cost") == pytest.approx(plan.document.cost_before)
    assert after.of("cost") == pytest.approx(plan.document.cost_after)
    hops = placement_cost.cost(observation, observation.overlay)
    assert before.of("mean_broker_hops") * before.of("deliveries") == pytest.approx(hops)
    assert before.of("messages") == observation.sent.sum()


def test_replay_of_the_held_out_part_is_that_of_an_observation_of_it(run):
    trace, parts = trace_of_run(run)
    late = observation_of(trace, parts.held_out)
    done = {each.run: each.metrics for each in replay(run)}
    observation, _ = read_observation(run)
    assert done["before/held-out"].of("cost") == pytest.approx(tree_cost.cost(late, observation.overlay))


def test_metrics_and_runs_are_written_as_tables(run):
    replay(run)
    metrics, runs = pq.read_table(run / "metrics.parquet"), pq.read_table(run / "runs.parquet")
    assert set(metrics["run"].to_pylist()) == set(runs["run"].to_pylist()) == {"before/train", "before/held-out"}
    assert runs["part"].to_pylist() == ["train", "held-out"]


def test_a_small_observe_and_replay_import_neither_numba_nor_pandas(run, tmp_path):
    """Half a second each, more than all the rest."""
    code = f"""
import sys
from pathlib import Path
from overlace.optimize.task import observe
from overlace.optimize.replay import replay
observe({str(tmp_path / "trace")!r}, Path({str(tmp_path / "again")!r}))
replay(Path({str(tmp_path / "again")!r}))
print(sorted({{"numba", "pandas", "pydantic", "scipy"}} & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "[]", done.stderr


def test_a_trace_that_changed_since_is_refused(run, tmp_path):
    add_tables([_csv(tmp_path, "sessions.csv", "client,broker\nc0,z\n")], "sessions", str(tmp_path / "trace"), {})
    with pytest.raises(BadTrace, match="has changed since"):
        replay(run)


def test_a_plan_from_another_observation_is_refused(run, tmp_path):
    observation, names = read_observation(run)
    solve(Stay(), observation, run, names)
    observe(str(tmp_path / "trace"), run, Split(train=0.3), force=True)
    with pytest.raises(BadPlan, match="was made from another observation"):
        replay(run)


def _csv(folder, name, text):
    (folder / name).write_text(text)
    return str(folder / name)


def test_plain_files_become_tables_with_names(tmp_path):
    out = str(tmp_path / "t")
    add_tables([_csv(tmp_path, "brokers.csv", "broker,region,cost\nhub,eu,2\nedge,us,1\n")], "brokers", out, {})
    add_tables(
        [_csv(tmp_path, "links.csv", "a;b;price\nhub;edge;7\n")],
        "links",
        out,
        {"map": {"left": "a", "right": "b", "cost": "price"}},
    )
    add_tables([_csv(tmp_path, "sessions.csv", "client,broker,since\nc,edge,2026-01-05T00:00Z\n")], "sessions", out, {})
    offers = _csv(tmp_path, "offers.csv", "client,attributes,connections\nc,A;B,2\nd,B;C,\n")
    trace, counts = add_tables([offers], "advertisements", out, {})
    assert str(counts) == "2 new"
    assert trace.names == {
        "attribute": ["A", "B", "C"],
        "broker": ["edge", "hub"],
        "client": ["c", "d"],
        "region": ["eu", "us"],
    }
    found = observation_of(trace)
    assert found.network.link_cost.tolist() == [7]
    assert found.network.region.tolist() == [1, 0]
    assert found.overlay.placement.tolist() == [[0, 0]]
    assert found.offers.attributes.tolist() == [0b011, 0b110]
    assert found.offers.connections.tolist()[0] == 2
    again, counts = add_tables([_csv(tmp_path, "links.csv", "left,right\nhub,edge\n")], "links", out, {})
    assert again.digest() == trace.digest()
    assert counts == (0, 0, 1)


def test_interests_come_from_pairs_or_from_an_object_of_lists(tmp_path):
    pairs = _csv(tmp_path, "friends.txt", "1 2\n2 3\n")
    trace, _ = add_tables(
        [pairs], "interests", str(tmp_path / "a"), {"map": {"client": "0", "topic": "1"}}, both_ways=True
    )
    names = trace.names
    found = {(names["client"][c], names["topic"][t]) for c, t in observation_of(trace).interests.tolist()}
    assert found == {("1", "2"), ("2", "1"), ("2", "3"), ("3", "2")}
    packed = tmp_path / "genres.json.gz"
    packed.write_bytes(gzip.compress(json.dumps({"u": ["jazz", "folk"], "v": ["jazz"], "w": []}).encode()))
    trace, counts = add_tables([str(packed)], "interests", str(tmp_path / "b"), {})
    assert counts == (3, 0, 0)
    assert observation_of(trace).interests.tolist() == [[0, 0], [0, 1], [1, 1]]


def test_a_plain_file_that_does_not_fit_is_told_what_was_expected(tmp_path):
    with pytest.raises(BadTrace, match="found the columns x, y; expected client broker since until"):
        add_tables([_csv(tmp_path, "s.csv", "x,y\na,b\n")], "sessions", str(tmp_path / "t"), {})
    with pytest.raises(Unknown, match="Nearest: sessions"):
        add_tables([_csv(tmp_path, "s.csv", "x,y\na,b\n")], "session", str(tmp_path / "t"), {})
    with pytest.raises(Unknown, match="no column is called 'q'"):
        add_tables([_csv(tmp_path, "s.csv", "x,y\na,b\n")], "sessions", str(tmp_path / "t"), {"map": {"client": "q"}})


def test_broker_configurations_become_brokers_and_wired_links(tmp_path):
    conf = tmp_path / "conf"
    conf.mkdir()
    (conf / "hub.conf").write_text("listener 1883 127.0.0.1\n")
    (conf / "plant.conf").write_text("listener 1884 127.0.0.1\nconnection up\naddress 127.0.0.1:1883\ntopic # both\n")
    trace, counts, _ = add_topology([str(conf)], str(tmp_path / "t"))
    assert counts == {"brokers": (2, 0, 0), "links": (1, 0, 0)}
    assert trace.read("links")["cost"].to_pylist() == [None]
    assert trace.names["broker"] == ["hub", "plant"]
    assert observation_of(trace).overlay.tree.tolist() == [[0, 1]]


def test_peek_says_what_a_log_is_and_what_is_missing(tmp_path):
    log = tmp_path / "log.jsonl"
    rows = [
        {"at": 1_767_571_200 + i, "client": f"plc{i % 3}", "topic": "t", "receivers": ["hmi"], "broker": "b"}
        for i in range(20)
    ]
    log.write_text(
        "".join(json.dumps(r) + "\n" for r in rows)
        + "junk\n"
        + json.dumps({**rows[0], "client": "mosq-aB3dE5fG7hJ9"})
        + "\n"
    )
    found = peek([str(log)])
    assert (found.format, found.lines, found.clients, found.topics, found.brokers) == ("jsonl", 22, 5, 1, 1)
    assert len(found.rows) == 10
    assert found.kinds["bad: not one JSON object"] == 1
    assert found.unstable == ["mosq-aB3dE5fG7hJ9"]
    assert found.facets["mesh"] == "missing: interests (--table interests)"
    assert found.facets["tree"] == "missing: how brokers are wired (--table links, or --topology)"
    assert "advertisements" in found.facets["channels"]
    assert found.whole


def test_an_engine_reads_large_traces_and_this_process_the_others(overlace, sail, tmp_path, monkeypatch):
    rows = [{"at": 3600 * k, "client": f"c{k % 5}", "broker": f"b{k % 2}", "receivers": ["c1"]} for k in range(60)]
    (tmp_path / "log.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    ingest_sources([str(tmp_path / "log.jsonl")], str(tmp_path / "trace"))
    digests = []
    for name, least in (("small", 61), ("large", 60)):
        monkeypatch.setitem(reduction.LARGE, "sail", least)
        code, _, err = overlace("observe", "trace", "--out", name, "--engine", "sail")
        assert code == 0, err
        assert ("60 rows: read in this process, which is faster" in err) == (name == "small")
        digests.append(read_observation(tmp_path / name)[0].digest())
    assert digests[0] == digests[1]
    assert read(sail, "trace", "traffic").count() == 60


def test_two_writers_of_one_run_folder_are_one_too_many(overlace, run, tmp_path):
    """Before, the plans of two observations came to lie beside each other."""
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    with writing_run(run):
        for words in (
            "optimize trace --out run --force",
            "observe trace --out run --force",
            "solve tree.mst run",
            "replay run",
        ):
            code, _, err = overlace(*words.split())
            assert code == 1, words
            assert "is being written by process" in err
            assert "--break-lock" not in err
    assert {path: path.read_bytes() for path in run.rglob("*") if path.is_file()} == before
    assert overlace("observe", "absent", "--out", "new")[0] == 1
    assert not (tmp_path / "new").exists()
    assert overlace("replay", "run")[0] == 0
