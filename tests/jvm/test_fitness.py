"""A Python that lacks what tasks need says so when a task starts, whatever the task; tasks are one number each."""

import hashlib
import json
import os
import socket
import subprocess
import sys
import zipfile
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import overlace
from overlace.places import fresh_folder
from overlace.spark.failures import UnfitExecutor, from_text
from overlace.spark.session import find_master, pack_package
from overlace.spark.tasks import UNFIT, check_first, refuse_unfit
from tests.jvm.cluster import python_without
from tests.jvm.test_ingest import made_up, written

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False)])
ROOT = str(Path(overlace.__file__).parents[1])


def double(batches):
    for batch in batches:
        yield pa.RecordBatch.from_arrays([pa.array([2 * each for each in batch["id"].to_pylist()])], schema=SCHEMA)


def rows(*ids):
    return [pa.RecordBatch.from_arrays([pa.array(each, pa.int64())], schema=SCHEMA) for each in ids]


@given(st.lists(st.lists(st.integers(-9, 9))))
def test_a_fit_python_gives_the_rows_of_the_function_and_says_nothing(ids):
    checked = check_first(double, SCHEMA, overlace.__version__)
    done = list(checked(iter(rows(*ids))))
    assert [batch["id"].to_pylist() for batch in done] == [[2 * each for each in batch] for batch in ids]
    assert all(each is None for batch in done for each in batch[UNFIT].to_pylist())


def test_another_version_of_overlace_is_unfit():
    (done,) = check_first(double, SCHEMA, "999.0")(iter(rows([1], [2])))
    with pytest.raises(UnfitExecutor, match=rf"lacks overlace \({overlace.__version__} there, 999.0 here\)"):
        refuse_unfit(map(json.loads, done[UNFIT].to_pylist()))


ELSEWHERE = """
import pickle, sys
from pathlib import Path
import pyarrow
function, rows = pickle.loads(Path(sys.argv[1]).read_bytes())
with pyarrow.ipc.open_stream(rows) as given:
    (done,) = function(iter(given))
print(done.to_pylist()[0]["unfit"])
"""


def test_a_python_without_anything_of_ours_can_still_say_so(tmp_path):
    """The check travels by value: it must not need what it looks for, nor unpack the function that does."""
    from pyspark import cloudpickle

    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, SCHEMA) as writer:
        writer.write_batch(rows([1])[0])
    checked = check_first(overlace.model.Overlay, SCHEMA, overlace.__version__)
    (tmp_path / "function").write_bytes(cloudpickle.dumps((checked, sink.getvalue().to_pybytes())))
    python = python_without(tmp_path / "venv", "numba", "llvmlite")
    done = subprocess.run(
        [python, "-c", ELSEWHERE, str(tmp_path / "function")], capture_output=True, text=True, check=False,
        cwd=tmp_path, env={key: value for key, value in os.environ.items() if key != "PYTHONPATH"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    about = json.loads(done.stdout)
    assert about["lacks"] == {"overlace": "missing", "numba": "missing"}
    assert about["path"] == python
    with pytest.raises(UnfitExecutor) as raised:
        refuse_unfit([about, about])
    assert f"on {socket.gethostname()} Python {about['python']} ({python}) lacks overlace, numba. " in str(raised.value)
    assert str(raised.value).count(python) == 1
    assert "\n" not in str(raised.value)


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


KINDS = """
import json, sys
from pathlib import Path
from overlace.optimize.observe import observe
from overlace.optimize.replay import replay
from overlace.spark import tasks
from overlace.spark.failures import UnfitExecutor
from overlace.spark.engines import Engine, session
from overlace.spark.tasks import runner
from overlace.workloads.sites import Sites

folder, log, python = Path(sys.argv[1]), *sys.argv[2:]
ask = tasks.check_python
tasks.check_python = lambda spark: None  # as if the executor had come later
with session(engine=Engine(master="local[1]", conf={"spark.pyspark.python": python})) as spark:
    kinds = {
        "observe": lambda: observe(str(folder / "trace"), folder / "seen", runner=runner(spark)),
        "replay": lambda: replay(folder / "run", runner=runner(spark)),
        "asked before": lambda: ask(spark),
    }
    for kind, run in kinds.items():
        try:
            run()
        except UnfitExecutor as error:
            print(kind, "|", error)
"""


@pytest.mark.jvm
def test_every_kind_of_task_looks_at_its_python_first(tmp_path):
    from overlace.ingest.tables import add_tables
    from overlace.optimize.observe import observe
    from tests.engine import ingest_sources

    log = written(tmp_path / "log.jsonl", made_up(3, 40))
    ingest_sources([log], str(tmp_path / "trace"))
    (tmp_path / "links.csv").write_text("left,right\nb0,b1\nb1,b2\n")
    add_tables([str(tmp_path / "links.csv")], "links", str(tmp_path / "trace"), {})
    observe(str(tmp_path / "trace"), tmp_path / "run")
    python = python_without(tmp_path / "venv", "numba")
    done = subprocess.run(
        [sys.executable, "-c", KINDS, str(tmp_path), log, python], capture_output=True, text=True, check=False,
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": ROOT},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    told = dict(line.split(" | ") for line in done.stdout.splitlines())
    assert set(told) == {"observe", "replay", "asked before"}
    assert all(f"({python}) lacks " in each and "numba" in each for each in told.values()), told
