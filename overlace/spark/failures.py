"""What failed on Spark, in one line.

An error of the JVM can be read only while the JVM lives: py4j fetches its text when it is printed. So work on Spark
runs under `explained_failures()`, which turns such errors into ours at once: those of our own code in a task as they
were, what the machine lacks with what to do, all else as the last cause named and the path of the JVM's log. The whole
text is attached for `--debug`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from traceback import walk_tb

import pyspark
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from overlace import errors
from overlace.errors import OverlaceError, read_os
from overlace.spark.jvm import NoSpark, how_it_ended, last_words, log_tail, log_to_read
from overlace.stopping import received

LONGEST = 400
"""Characters of somebody else's message."""

FEWER = "Run fewer tasks at a time (--master 'local[1]'), or give less at a time."
ELSEWHERE = "choose another Python with PYSPARK_PYTHON or --conf spark.pyspark.python=PATH"

SILENT = re.compile(
    r"An error occurred while calling \S+\s*\Z|.*(Answer from Java side is empty|Error while sending or receiving|"
    r"An error occurred while trying to connect)",
    re.DOTALL,
)
"""The words of py4j when the JVM does not answer."""


class SparkFailed(OverlaceError):
    """Work on Spark failed for a reason that is not in the data."""


class UnfitExecutor(OverlaceError):
    """An executor whose Python lacks what our tasks need."""


@contextmanager
def explained_failures() -> Iterator[None]:
    """Errors of Spark that leave this block are ours, and say in a line what to do."""
    try:
        yield
    except Exception as error:
        if received() is not None or not is_of_spark(error):
            raise
        raise explain(error) from None


def is_of_spark(error: BaseException) -> bool:
    """Whether an error came from Spark or from a gateway that is gone."""
    if isinstance(error, PySparkException | Py4JError):
        return True
    files = [frame.f_code.co_filename for frame, _ in walk_tb(error.__traceback__)]
    silent = isinstance(error, ConnectionError | EOFError | AttributeError | AssertionError)
    return silent and any("py4j" in each or "pyspark" in each for each in files)


def explain(error: BaseException) -> OverlaceError:
    """An error of Spark as one of ours. To be called while the JVM lives, if it still does."""
    if text := words_of(error):
        made = from_text(text)
    else:
        why = "; ".join(filter(None, (how_it_ended(), _short(last_words()))))
        silent = f"Spark's JVM does not answer any more{f': {why}' if why else ''}. Its log: "
        made = _read_machine(log_tail()) or NoSpark(f"{silent}{log_to_read()}")
    made.add_note(text or log_tail())
    return made


def words_of(error: BaseException) -> str:
    """All that an error says; nothing if it only says that the JVM does not answer."""
    if isinstance(error, ConnectionError | EOFError):
        return ""
    try:
        text = str(error)
    except Exception:
        return ""
    return "" if SILENT.match(text) else text


def from_text(text: str) -> OverlaceError:
    """The words of Spark as one of our errors."""
    return _read_task(text) or _read_executor(text) or _read_machine(text) or _read_cause(text)


def _read_task(text: str) -> OverlaceError | None:
    """What our own code said in a task, of the kind that it was."""
    refused = re.search(r"overlace: (two .*?)(?: SQLSTATE: \w+)?$", text, re.MULTILINE)
    if refused:
        return errors.BadTrace(f"{refused[1]}. Nothing was ingested; two of a billion names do with one chance in 40.")
    said = re.findall(r"^\s*(?:[\w.]+: )?(overlace\.(?:\w+\.)*)?(\w+): (.*)$", text, re.MULTILINE)
    ours = [(getattr(errors, name, None), message) for room, name, message in said if room or hasattr(errors, name)]
    if not ours:
        return None
    kind, message = ours[-1]
    if not (isinstance(kind, type) and issubclass(kind, OverlaceError)):
        kind = SparkFailed
    made: OverlaceError = kind.__new__(kind)
    Exception.__init__(made, message)  # kinds take other arguments than their message
    return made


def _read_executor(text: str) -> OverlaceError | None:
    """What the Python of an executor lacks even to begin with a task."""
    place = re.search(r"\(TID \d+\) \((\S+) executor (\S+)\): ", text)
    executor = f"executor {place[2]} on {place[1]}" if place else "an executor"
    if found := re.search(r"Python in worker has different version: *(\S+) than that in driver: *([\d.]+\d)", text):
        return UnfitExecutor(f"{executor} runs Python {found[1]}, and this is {found[2]}: {ELSEWHERE}.")
    if found := re.search(r'Cannot run program "([^"]+)"', text):
        return UnfitExecutor(f"{executor} cannot run Python as {found[1]}: {ELSEWHERE}.")
    if re.search(r"pyspark\.daemon's (?:stdout|standard output)", text):
        found = re.search(r"Error from python worker:(?:.*\n)*?\s*(\w+(?:Error|Exception): .*)$", text, re.MULTILINE)
        why = f" ({found[1].strip()})" if found else ""
        return UnfitExecutor(f"the Python of {executor} does not start{why}: {ELSEWHERE}.")
    if found := re.search(r"(?:ModuleNotFoundError: No module named '|PACKAGE_NOT_INSTALLED\] )([\w.-]+)", text):
        return UnfitExecutor(f"the Python of {executor} lacks {found[1]}. Install it there, or {ELSEWHERE}.")
    return None


def _read_machine(text: str) -> OverlaceError | None:
    """What the machine lacks: memory, space, permission, a master that answers."""
    if re.search(r"OutOfMemoryError|GC overhead limit|\bMemoryError\b|ArrowMemoryError|exit code.{0,6}137", text):
        return SparkFailed(f"Spark ran out of memory. {FEWER} Its log: {log_to_read()}")
    if known := next(filter(None, map(read_os, reversed(text.splitlines()))), None):
        kind = errors.Absent if re.search(r"\[errno 2\]", text, re.IGNORECASE) else SparkFailed
        return kind(f"in a task: {known}")
    if "No space left on device" in text:
        return SparkFailed(
            "no space left on the disk that Spark works on. Free some, or point SPARK_LOCAL_DIRS and TMPDIR to another."
        )
    denied = re.search(r"(?:AccessDeniedException|FileNotFoundException|Permission denied)[:,]? *(.*)", text)
    if denied and "ermission denied" in text:
        where = f": {_short(denied[1])}" if denied[1] else ""
        return SparkFailed(f"permission denied{where}. Change its owner or mode, or choose another path.")
    if re.search(r"S3AFileSystem not found|No FileSystem for scheme:? \"?s3", text):
        jars = (Path(pyspark.__file__).parent / "jars").glob("hadoop-client-api-*.jar")
        version = next((each.stem.removeprefix("hadoop-client-api-") for each in jars), "VERSION")
        return SparkFailed(
            "Spark has no jars for s3 here. Add those of its own version of Hadoop: --conf "
            f"spark.jars.packages=org.apache.hadoop:hadoop-aws:{version}"
        )
    if unmade := re.search(r"Mkdirs failed to create (?:file:)?(\S+)", text):
        return SparkFailed(f"the folder {unmade[1]} cannot be made. Check the path and its owner, or choose another.")
    if re.search(r"Python worker (?:exited unexpectedly|failed to connect)|Segmentation fault", text):
        return SparkFailed(f"a Python worker died; most often memory runs out. {FEWER} Its log: {log_to_read()}")
    if re.search(r"All masters are unresponsive|Could not parse Master URL|Failed to connect to master", text):
        master = re.search(r"spark://[^\s'\"]+|Master URL: *\S+", text)
        return NoSpark(
            f"no Spark master answers{f' at {master[0]}' if master else ''}. Check --master and that it is running. "
            f"Its log: {log_to_read()}"
        )
    return None


def _read_cause(text: str) -> OverlaceError:
    """Anything else: the last cause that is named."""
    lines = [line for line in map(str.strip, text.splitlines()) if line and not re.match(r"at |\.\.\. \d+", line)]
    named = [
        each for each in lines if re.match(r"(: |Caused by: )?([\w$]+\.)*\w*(Error|Exception|Interrupt)\b.*: ", each)
    ]
    condition = [line for line in lines if re.match(r"\[[A-Z_.0-9]+\] ", line)]
    stopped = "stopped SparkContext" in text or re.search(r'SparkEnv\$?\.get\(\)" is null', text)
    known = None if (condition or named) and not stopped else _read_machine(log_tail())  # the JVM may have logged why
    best = (condition[:1] or named[-1:] or lines[:1] or ["it did not say why"])[0]
    what = "a task" if "Traceback (most recent call last)" in text else "Spark"
    cause = _short(re.sub("^(: |Caused by: )", "", best))
    return known or SparkFailed(f"{what} failed: {cause}. Its log: {log_to_read()}")


def _short(text: str) -> str:
    text = " ".join(text.split()).rstrip(".")
    return text if len(text) <= LONGEST else text[:LONGEST] + " ..."
