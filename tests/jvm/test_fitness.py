"""A Python that lacks what tasks need says so when a task starts, whatever the task; tasks are one number each."""

import hashlib
import os
import socket
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import overlace
from overlace.places import fresh_folder
from overlace.spark.failures import UnfitExecutor, from_text
from overlace.spark.session import find_master, pack_package
from overlace.spark.tasks import refuse_unfit
from tests.jvm.cluster import python_without
from tests.jvm.test_ingest import made_up, written

ROOT = str(Path(overlace.__file__).parents[1])


LOST = "Job aborted due to stage failure: Task 0 in stage 0.0 failed 4 times, most recent failure: "
LOST += "Lost task 0.3 in stage 0.0 (TID 3) (10.1.2.3 executor 7): "


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            "org.apache.spark.api.python.PythonException: Traceback (most recent call last):\n"
            "  File \"worker.py\", line 1, in main\nModuleNotFoundError: No module named 'pyarrow'\n",
            "the Python of executor 7 on 10.1.2.3 lacks pyarrow. Install it there, or choose another Python",
        ),
        (
            "pyspark.errors.exceptions.base.PySparkRuntimeError: [PYTHON_VERSION_MISMATCH] Python in worker has "
            "different version: 3.9 than that in driver: 3.11, PySpark cannot run with different minor versions.",
            "executor 7 on 10.1.2.3 runs Python 3.9, and this is 3.11: choose another Python",
        ),
        (
            'java.io.IOException: Cannot run program "/opt/py/bin/python": error=2, No such file or directory',
            "executor 7 on 10.1.2.3 cannot run Python as /opt/py/bin/python: choose another Python",
        ),
        (
            "org.apache.spark.SparkException: EOFException occurred while reading the port number from "
            "pyspark.daemon's stdout.",
            "the Python of executor 7 on 10.1.2.3 does not start: choose another Python",
        ),
        (
            "org.apache.spark.SparkException: \nError from python worker:\n  Traceback (most recent call last):\n"
            "  AttributeError: module 're' has no attribute 'Pattern'\nPYTHONPATH was:\n  /x\n"
            "org.apache.spark.SparkException: Bad data in pyspark.daemon's standard output.",
            "the Python of executor 7 on 10.1.2.3 does not start (AttributeError: module 're' has no attribute "
            "'Pattern'): choose another Python",
        ),
    ],
)
def test_a_python_that_cannot_even_begin_is_named(text, says):
    error = from_text(LOST + text)
    assert isinstance(error, UnfitExecutor)
    assert str(error).startswith(says)
    with pytest.raises(UnfitExecutor) as raised:  # as the first job of a session says it
        refuse_unfit([{"lacks": {"python": str(error)}}])
    assert str(raised.value).count("choose another Python") == 1
    assert str(raised.value).startswith("executors cannot run Overlace: ")


@pytest.mark.parametrize(
    "master", ["spark://127.0.0.1:{port}", "spark://127.0.0.1", "spark://127.0.0.1:x,127.0.0.1:{port}"]
)
def test_a_master_that_does_not_answer_is_one_line(master):
    from overlace.spark.jvm import NoSpark

    with socket.socket() as bound:  # taken, and nobody listens
        bound.bind(("127.0.0.1", 0))
        master = master.format(port=bound.getsockname()[1])
        with pytest.raises(NoSpark, match=f"no Spark master answers at {master} .* Check --master") as raised:
            find_master(master)
    assert "\n" not in str(raised.value)


def test_one_master_of_several_is_enough():
    with socket.socket() as bound, socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        bound.bind(("127.0.0.1", 0))
        bound.listen()
        find_master(f"spark://127.0.0.1:{free.getsockname()[1]},127.0.0.1:{bound.getsockname()[1]}")
    find_master("local[*]")
    find_master("yarn")


def test_the_package_is_sent_from_a_fresh_folder_and_never_from_what_lies_about(tmp_path, monkeypatch):
    """The zip once lay under a name made from the sources: whoever made it first chose what executors import."""
    root, sources = Path(overlace.__file__).parent, hashlib.sha256()
    for path in sorted(path for path in root.rglob("*") if path.suffix in (".py", ".properties", ".j2")):
        sources.update(path.read_bytes())
    planted = tmp_path / f"overlace-{sources.hexdigest()[:16]}" / "overlace.zip"
    planted.parent.mkdir()
    planted.write_bytes(b"planted")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    folder = fresh_folder()
    sent = pack_package(folder)
    assert sent.parent == folder != planted.parent
    with zipfile.ZipFile(sent) as archive:
        names = {each for each in archive.namelist() if each.endswith(".py")}
        assert names == {str(Path("overlace") / path.relative_to(root)) for path in root.rglob("*.py")}
        assert all(archive.read(each) == (root.parent / each).read_bytes() for each in names)
    with pytest.raises(FileExistsError):
        pack_package(folder)  # nor from what was put there in the meantime


LATER = """
import sys
from pathlib import Path
from overlace.spark import ingest
from overlace.spark.engines import Engine, session
from overlace.spark.failures import UnfitExecutor
from overlace.spark.tasks import check_python

folder, log, python = Path(sys.argv[1]), *sys.argv[2:]
ingest.check_python = lambda spark: None  # as if the executor had come later
with session(engine=Engine(master="local[1]", conf={"spark.pyspark.python": python})) as spark:
    for kind, run in (
        ("ingest", lambda: ingest.ingest(log, str(folder / "trace"), spark=spark)),
        ("asked before", lambda: check_python(spark)),
    ):
        try:
            run()
        except UnfitExecutor as error:
            print(kind, "|", error)
"""


@pytest.mark.jvm
def test_an_executor_that_came_later_ends_the_work_with_what_it_lacks(tmp_path):
    log = written(tmp_path / "log.jsonl", made_up(3, 40))
    python = python_without(tmp_path / "venv", "msgspec")
    done = subprocess.run(
        [sys.executable, "-c", LATER, str(tmp_path), log, python], capture_output=True, text=True, check=False,
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": ROOT},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    told = dict(line.split(" | ") for line in done.stdout.splitlines())
    assert set(told) == {"ingest", "asked before"}
    assert all("msgspec" in each for each in told.values()), told
    assert not (tmp_path / "trace" / "trace.json").exists()
