"""Other people's Spark: a standalone master with two workers, one unfit, one killed in the middle of a task."""

import json
import os
import subprocess
import sys

import pytest

from overlace.ingest.tables import add_tables
from overlace.optimize.replay import replay
from overlace.optimize.task import observe
from overlace.trace.store import Trace
from tests.engine import ingest_sources
from tests.jvm.cluster import ROOT, cluster, python_without
from tests.jvm.test_ingest import made_up, written
from tests.processes import command, until

pytestmark = pytest.mark.jvm

DRIVER = {"SPARK_LOCAL_IP": "127.0.0.1", "PYTHONPATH": str(ROOT)}


@pytest.fixture
def two_workers(tmp_path):
    with cluster(tmp_path / "cluster") as made:
        yield made


def done(process):
    out, err = process.communicate(timeout=240)
    return process.returncode, out, err


def conf(settings):
    return [word for key, value in settings.items() for word in ("--conf", f"{key}={value}")]


DISTURBED = """
import json, os, resource, sys, time
from pathlib import Path
from overlace.ingest import run, source
from overlace.ingest.tables import add_tables
from overlace.optimize.task import observe
from overlace.optimize.replay import replay
from overlace.spark.ingest import ingest
from overlace.spark.reduction import OnEngine
from overlace.spark.engines import Engine, session

folder, master, log, links, settings = Path(sys.argv[1]), *sys.argv[2:5], json.loads(sys.argv[5])
source.LEAST = source.MOST = 4000  # several tasks from a small log
here = str(folder / "working")

class Disturbed(source.Reader):
    def read(self, partition):
        if "CLUSTER_VICTIM" in os.environ:
            Path(here).touch()
            while True:
                time.sleep(0.05)
        if "CLUSTER_GREEDY" in os.environ and not Path(here + "-greedy").exists():
            Path(here + "-greedy").touch()
            resource.setrlimit(resource.RLIMIT_AS, (1 << 32, resource.RLIM_INFINITY))
            held = [bytes(1 << 28) for _ in range(64)]
        yield from source.Reader.read(self, partition)

def read_events(spark, job):
    reader = Disturbed(job, source.tasks_of(job))
    spark.dataSource.register(type("Logs", (source.Logs,), {"reader": lambda self, schema: reader}))
    return spark.read.format("overlace").load()

run.read_events = read_events
with session(engine=Engine(master=master, conf=settings)) as spark:
    trace = ingest(log, str(folder / "trace"), spark=spark).trace
    trace, _ = add_tables([links], "links", str(folder / "trace"), {})
    observed = observe(str(folder / "trace"), folder / "run", reader=OnEngine(spark)).observation
    done = replay(folder / "run", reader=OnEngine(spark))
    settled = dict(spark.sparkContext.getConf().getAll())
print(json.dumps([trace.digest(), observed.digest(), [(d.run, d.metrics.digest()) for d in done], settled]))
"""


def test_an_unfit_worker_is_named_and_a_killed_one_changes_nothing(two_workers, tmp_path, monkeypatch):
    """The whole life of a small cluster in one test, since starting one takes longer than all else."""
    unfit = two_workers.worker("unfit", CLUSTER_PYTHON=python_without(tmp_path / "venv", "numba"))
    plain = {"NUMBA_DISABLE_JIT": "1"}  # to compile from nothing takes longer than all the rest
    victim = two_workers.worker("victim", CLUSTER_VICTIM="1", **plain)
    two_workers.joined(unfit, victim)
    settings = two_workers.settings(cores=2)
    for name, value in DRIVER.items():
        monkeypatch.setenv(name, value)

    # forty lines: no kernel would ever be compiled, and yet it is refused at once, before anything is written
    few = written(tmp_path / "few.jsonl", made_up(2, 40))
    words = ["--master", two_workers.url, *conf(settings)]
    code, _, err = done(command("ingest", few, "--out", tmp_path / "few", *words, cwd=tmp_path))
    assert code == 1
    assert "error: executors cannot run Overlace: on " in err
    assert (
        f"Python {'.'.join(map(str, sys.version_info[:3]))} ({tmp_path}/venv/bin/python) lacks numba. Install it" in err
    )
    assert not Trace.exists(str(tmp_path / "few"))

    code, out, err = done(command("doctor", "--json", *words, cwd=tmp_path))
    assert code == 1, err
    rows = {each["state"]: each for each in json.loads(out) if each["what"].startswith("executor ")}
    assert set(rows) == {"ok", "missing"}, "a row for each"
    assert f"({tmp_path}/venv/bin/python)" in rows["missing"]["found"]
    assert rows["missing"]["advice"] == "numba missing"
    assert "numba" in rows["ok"]["found"]

    # another worker takes its place, with a virtual environment of its own; it runs out of memory in its first task,
    # and the victim dies in the middle of one
    unfit.kill()
    second = python_without(tmp_path / "second")
    two_workers.joined(two_workers.worker("fit", CLUSTER_PYTHON=second, CLUSTER_GREEDY="1", **plain))
    log = written(tmp_path / "log.jsonl", made_up(1, 300))
    (tmp_path / "links.csv").write_text("left,right\nb0,b1\nb1,b2\n")
    (tmp_path / "there").mkdir()
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf/spark-defaults.conf").write_text("spark.sql.shuffle.partitions 3\nspark.cores.max 1\n")
    given = json.dumps(settings)
    process = subprocess.Popen(
        [sys.executable, "-c", DISTURBED, tmp_path / "there", two_workers.url, log, tmp_path / "links.csv", given],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path,
        env={**os.environ, "SPARK_CONF_DIR": str(tmp_path / "conf")},
    )  # fmt: skip
    try:
        until(lambda: (tmp_path / "there/working").exists() or process.poll() is not None)
        victim.kill()
        code, out, err = done(process)
    finally:
        process.kill()
    assert code == 0, err[-3000:]
    *digests, settled = json.loads(out.splitlines()[-1])
    assert (tmp_path / "there/working").exists()
    assert (tmp_path / "there/working-greedy").exists()

    trace = ingest_sources([log], str(tmp_path / "here")).trace
    trace, _ = add_tables([str(tmp_path / "links.csv")], "links", str(tmp_path / "here"), {})
    observed = observe(str(tmp_path / "here"), tmp_path / "run").observation
    replayed = [[each.run, each.metrics.digest()] for each in replay(tmp_path / "run")]
    assert digests == [trace.digest(), observed.digest(), replayed]
    assert len(replayed) == 2

    # off `local` what the cluster's owner has set wins over ours, and what the caller says over both
    assert settled["spark.sql.shuffle.partitions"] == "3"
    assert settled["spark.cores.max"] == "2"
    assert settled["spark.ui.enabled"] == "false", "ours fill the gaps"
    assert not (tmp_path / "spark-warehouse").exists()


@pytest.mark.long
def test_a_cluster_does_what_any_engine_does_and_executors_that_never_come_are_said(two_workers, tmp_path, monkeypatch):
    second = python_without(tmp_path / "second")
    two_workers.joined(two_workers.worker("fit", CLUSTER_PYTHON=second, NUMBA_DISABLE_JIT="1"))
    for name, value in DRIVER.items():
        monkeypatch.setenv(name, value)
    (tmp_path / "logs").mkdir()
    few_tasks = {**two_workers.settings(cores=1), "spark.sql.shuffle.partitions": "1"}
    answers = []
    for name, engine in (
        ("sail", {"engine": "sail"}),
        ("rest", {"master": two_workers.url, "conf": few_tasks}),
    ):
        (tmp_path / name).mkdir()
        words = [sys.executable, "-m", "tests.jvm.behaviours", tmp_path / "logs", tmp_path / name, json.dumps(engine)]
        ran = subprocess.run(words, capture_output=True, text=True, check=False, cwd=ROOT)
        assert ran.returncode == 0, ran.stderr[-3000:]
        answers.append(json.loads(ran.stdout))
    assert answers[0] == answers[1]

    # more memory than any worker has: Spark itself would wait for ever
    few = written(tmp_path / "few.jsonl", made_up(2, 40))
    words = ["--master", two_workers.url, *conf({**two_workers.settings(cores=1), "spark.executor.memory": "64g"})]
    code, _, err = done(command("ingest", few, "--out", tmp_path / "few", *words, cwd=tmp_path))
    assert code == 1
    assert f"error: {two_workers.url} gave no executor within 30 s. Check that it has workers with free cores" in err
    assert not Trace.exists(str(tmp_path / "few"))


@pytest.mark.long
def test_a_python_that_cannot_speak_arrow_or_does_not_start_is_named_too(two_workers, tmp_path, monkeypatch):
    """Without pyarrow no task can answer, and without Python none begins: Spark would try them again elsewhere."""
    silent = two_workers.worker("silent", CLUSTER_PYTHON=python_without(tmp_path / "venv", "pyarrow"))
    absent = two_workers.worker("absent", CLUSTER_PYTHON="/nowhere/python")
    two_workers.joined(silent, absent)
    for name, value in DRIVER.items():
        monkeypatch.setenv(name, value)
    words = ["--master", two_workers.url, *conf(two_workers.settings(cores=2))]
    code, out, err = done(command("doctor", "--json", *words, cwd=tmp_path))
    assert code == 1, err
    advice = sorted(each["advice"] for each in json.loads(out) if each["what"].startswith("executor "))
    assert advice[0] == "pyarrow missing"
    assert " does not start: choose another Python" in advice[1]
    log = written(tmp_path / "log.jsonl", made_up(2, 40))
    code, _, err = done(command("ingest", log, "--out", "t", *words, cwd=tmp_path))
    assert code == 1
    assert "lacks pyarrow" in err
    assert "the Python of executor" in err
    assert not (tmp_path / "t").exists()
