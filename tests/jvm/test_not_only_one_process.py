"""Ingest, observe and replay on a cluster of two executors, each its own JVM, with the package shipped as a zip."""

import json
import subprocess
import sys

import pytest

from tests.jvm.test_ingest import made_up, written

pytestmark = [pytest.mark.jvm, pytest.mark.long]  # test_cluster.py holds the same to a standalone master

CODE = """
import sys, json
from pathlib import Path
from overlace.spark.engines import Engine, session
from overlace.spark.ingest import ingest
from overlace.spark.reduction import OnEngine
from overlace.optimize.task import observe
from overlace.optimize.replay import replay
from overlace.ingest.tables import add_tables
folder, master, log, links = Path(sys.argv[1]), *sys.argv[2:]
with session(engine=Engine(master=master, conf={"spark.driver.memory": "1g"})) as spark:
    trace = ingest([log], str(folder / "trace"), spark=spark).trace
    trace, _ = add_tables([links], "links", str(folder / "trace"), {})
    observed = observe(str(folder / "trace"), folder / "run", reader=OnEngine(spark)).observation
    done = replay(folder / "run", reader=OnEngine(spark))
print(json.dumps([trace.digest(), observed.digest(), [(d.run, d.metrics.digest()) for d in done]]))
"""


def test_two_executors_give_the_digests_of_one_process(tmp_path):
    log = written(tmp_path / "log.jsonl", made_up(1, 300))
    (tmp_path / "links.csv").write_text("left,right\nb0,b1\nb1,b2\n")
    answers = []
    for name, master in (("local", "local[2]"), ("cluster", "local-cluster[2,1,1024]")):
        (tmp_path / name).mkdir()
        done = subprocess.run(
            [sys.executable, "-c", CODE, str(tmp_path / name), master, log, str(tmp_path / "links.csv")],
            capture_output=True, text=True, check=False, cwd=tmp_path, timeout=300,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr[-3000:]
        answers.append(json.loads(done.stdout.strip().splitlines()[-1]))
    assert answers[0] == answers[1]
    assert len(answers[0][2]) == 2
