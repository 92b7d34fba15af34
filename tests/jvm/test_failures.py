"""What fails on Spark is one line that says what to do, also when the JVM is gone."""

import os
import subprocess
import sys

import pytest

from overlace.errors import OverlaceError, Unknown

pytestmark = pytest.mark.jvm


def failing(spark, batches):
    from overlace.spark.failures import explained_failures

    with explained_failures():
        spark.range(1).mapInArrow(batches, "id long").toArrow()


def own(batches):
    raise Unknown("topic", "a", ["b"])


def full(batches):
    raise OSError(28, "No space left on device", "/some/where")


def odd(batches):
    raise ValueError("odd")


def dead(batches):
    os.kill(os.getpid(), 9)
    yield from batches


@pytest.mark.parametrize(
    ("batches", "kind", "says"),
    [
        (own, Unknown, "no topic is called 'a'. There are: b."),
        (full, OverlaceError, "no space left on the disk of /some/where. Free some"),
        (odd, OverlaceError, "a task failed: ValueError: odd. Its log: "),
        (dead, OverlaceError, "a Python worker died"),
    ],
)
def test_what_a_task_says_is_one_line_that_can_still_be_read_later(spark, batches, kind, says):
    with pytest.raises(kind) as raised:
        failing(spark, batches)
    assert says in str(raised.value)
    assert "\n" not in str(raised.value)
    assert any("Traceback" in note or "Python worker" in note for note in raised.value.__notes__)


def test_words_of_spark_are_cut_to_what_matters(spark):
    from overlace.spark.failures import SparkFailed, explained_failures

    wanted = r"\[TABLE_OR_VIEW_NOT_FOUND\] The table or view `nowhere`"
    with pytest.raises(SparkFailed, match=wanted) as raised, explained_failures():
        spark.sql("select 1 from nowhere").collect()
    assert "\n" not in str(raised.value)


GONE = """
import logging, os
logging.getLogger().addHandler(logging.NullHandler())
from overlace.spark.engines import Engine, session
from overlace.errors import OverlaceError
try:
    with session(engine=Engine(master="local[1]", conf={"spark.driver.memory": "1g"})) as spark:
        os.kill(spark.sparkContext._gateway.proc.pid, 9)
        spark.range(3).count()
except OverlaceError as error:
    print(error)
with session(engine=Engine(master="local[1]", conf={"spark.driver.memory": "1g"})) as spark:
    print(spark.range(3).count())
"""


def test_a_jvm_that_is_gone_is_one_line_and_another_can_be_started(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", GONE], capture_output=True, text=True, check=False, timeout=300,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )  # fmt: skip
    assert done.stderr == ""
    first, second = done.stdout.splitlines()
    assert first.startswith("Spark's JVM does not answer any more: it was killed by signal 9. Its log: ")
    assert second == "3"
