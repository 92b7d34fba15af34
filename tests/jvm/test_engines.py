"""One dataflow on every engine: the same behaviours, accounts and digests."""

import json
import os
import re
import socket
import subprocess
import sys

import pytest

from overlace.errors import BadParameter
from overlace.extras import NotInstalled
from overlace.spark.engines import Engine, NoEngine, session
from overlace.spark.ingest import ingest
from overlace.spark.java import find_java
from tests.jvm.behaviours import behaviours, made_up
from tests.jvm.cluster import HOME, ROOT, connect_server, python_without
from tests.jvm.test_ingest import written
from tests.processes import LONGEST, command


@pytest.fixture(scope="module")
def logs(tmp_path_factory):
    return tmp_path_factory.mktemp("logs")


@pytest.fixture(scope="module")
def on_sail(logs, sail, tmp_path_factory):
    return behaviours(logs, tmp_path_factory.mktemp("sail"), sail)


@pytest.mark.jvm
def test_local_spark_does_what_sail_does(spark, on_sail, logs, tmp_path):
    assert behaviours(logs, tmp_path, spark) == on_sail


@pytest.mark.jvm
def test_a_trace_of_one_engine_grows_on_another(spark, sail, tmp_path):
    rows = made_up(120)
    parts = [written(tmp_path / f"{k}.jsonl", rows[60 * k : 60 * k + 60]) for k in range(2)]
    traces = {}
    for first, second in ((spark, sail), (sail, spark), (sail, sail)):
        out = str(tmp_path / f"trace{len(traces)}")
        ingest(parts[0], out, spark=first)
        traces[out] = ingest(parts[1], out, spark=second).trace.digest()
    assert len(set(traces.values())) == 1


@pytest.mark.jvm
def test_spark_connect_does_what_sail_does(on_sail, logs, tmp_path):
    """A server from the pip package, whose Python has not this package: the client brings it."""
    (tmp_path / "out").mkdir()
    with connect_server(tmp_path / "server", python_without(tmp_path / "venv")) as url:
        words = [sys.executable, "-m", "tests.jvm.behaviours", logs, tmp_path / "out", json.dumps({"remote": url})]
        done = subprocess.run(words, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr[-3000:]
    assert json.loads(done.stdout) == on_sail


JOB = """
import sys
from pathlib import Path
import overlace
from overlace import ingest
from pyspark.sql import SparkSession
spark = SparkSession.builder.getOrCreate()
done = ingest(sys.argv[1], sys.argv[2], spark=spark)
assert spark.sparkContext.master == "local[1]"
print(overlace.__file__, done.trace.digest(), sep="\\n")
spark.stop()
"""


@pytest.mark.jvm
def test_spark_submit_runs_the_wheel(on_sail, logs, tmp_path):
    wheel = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", tmp_path, "."]
    subprocess.run(wheel, check=True, cwd=ROOT, capture_output=True)
    (built,) = tmp_path.glob("*.whl")
    (tmp_path / "job.py").write_text(JOB)
    words = [
        HOME / "bin/spark-submit",
        "--master",
        "local[1]",
        "--py-files",
        built,
        "job.py",
        logs / "several",
        "trace",
    ]
    environment = {**os.environ, "JAVA_HOME": str(find_java().home), "PYSPARK_PYTHON": sys.executable}
    environment |= {"PYSPARK_DRIVER_PYTHON": sys.executable}
    done = subprocess.run(words, capture_output=True, text=True, check=False, cwd=tmp_path, env=environment)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.splitlines() == [f"{built}/overlace/__init__.py", on_sail["several"][0]]


@pytest.mark.jvm
@pytest.mark.long
@pytest.mark.parametrize("version", ["4.0.5", "4.1.4", "4.3.0"])
def test_other_versions_of_spark_do_the_same(on_sail, logs, tmp_path, version):
    python = python_without(tmp_path / "venv", "pyspark")
    (target,) = (tmp_path / "venv").glob("lib/python*/site-packages")
    wanted = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", target, f"pyspark=={version}"]
    had = subprocess.run(wanted, capture_output=True, text=True, check=False)
    if had.returncode:
        pytest.skip(f"pyspark {version} cannot be had: {had.stderr.strip().splitlines()[-1]}")
    words = [python, "-m", "tests.jvm.behaviours", logs, tmp_path, json.dumps({"master": "local[2]"})]
    here = {**os.environ, "PYTHONPATH": str(ROOT)}  # tasks find the package as an installed one
    done = subprocess.run(words, capture_output=True, text=True, check=False, cwd=ROOT, env=here)
    assert done.returncode == 0, done.stderr[-3000:]
    assert json.loads(done.stdout) == on_sail


@pytest.mark.jvm
@pytest.mark.long
def test_a_server_whose_python_lacks_something_is_one_line(tmp_path):
    log = written(tmp_path / "a.jsonl", made_up())
    with connect_server(tmp_path / "server", python_without(tmp_path / "venv", "msgspec")) as url:
        process = command("ingest", log, "--out", tmp_path / "trace", "--remote", url, cwd=tmp_path)
        _, err = process.communicate(timeout=LONGEST)
    assert process.returncode == 1
    assert err.splitlines()[-1].startswith("error: executors cannot run Overlace: on ")
    assert "lacks msgspec. Install it there" in err
    assert not (tmp_path / "trace").exists()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"engine": "sail", "master": "local[2]"}, "leave --master and --remote out"),
        ({"engine": "sail", "conf": {"spark.a": "b"}}, "--conf is for Spark"),
        ({"master": "local[2]", "remote": "sc://here"}, "give one of them"),
        ({"master": "sc://here:15002"}, "give it as --remote sc://here:15002"),
        ({"remote": "spark://here:7077"}, "expected a server of Spark Connect, such as sc://host:15002"),
        ({"engine": "duck"}, "expected one of spark, sail"),
    ],
)
def test_engines_that_exclude_each_other_are_refused(given, said):
    with pytest.raises(BadParameter, match=re.escape(said)):
        Engine(**given)


def test_what_cannot_be_had_is_one_line(monkeypatch):
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        url = f"sc://127.0.0.1:{bound.getsockname()[1]}/;user_id=x"
        with pytest.raises(NoEngine, match=f"no server of Spark Connect answers at {url} .* Check --remote"):
            session(engine=Engine(remote=url)).__enter__()
    for name in ("pysail", "grpc"):
        monkeypatch.setitem(sys.modules, name, None)
    for given, said in ((Engine("sail"), "pysail, grpc are not"), (Engine(remote="sc://a"), "grpc is not")):
        with pytest.raises(NotInstalled, match=f"{said} installed: pip install 'overlace"):
            session(engine=given).__enter__()
