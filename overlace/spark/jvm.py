"""The JVM as a process of ours: started, and ended whatever happens.

PySpark, interrupted while it starts one, leaves it behind for good. So the process is started here, known from its
first moment, and ended by its id if it does not end by itself, which it does when its standard input closes, also when
this process is killed. Its process group is its own: Ctrl-C and a closed terminal reach only the driver.

Its folder, of this user alone, holds its log, the file with its port, and the temporary files of it and its libraries,
native code included. The folder is removed when the JVM ends, but for a log that was named to the user.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import time
from contextlib import suppress
from importlib.resources import files
from pathlib import Path

from py4j.java_gateway import JavaGateway
from pyspark import SparkConf
from pyspark.find_spark_home import _find_spark_home
from pyspark.java_gateway import launch_gateway
from pyspark.serializers import UTF8Deserializer, read_int

from overlace.errors import OverlaceError
from overlace.places import fresh_folder
from overlace.stopping import at_the_end, finishing

PATIENCE, HURRY = 20.0, 5.0
"""Seconds that a JVM gets to end by itself, and after it was asked to."""

PORT, SECRET = "PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET"

TAIL = 20_000
"""Bytes of the log that are looked at for a JVM's last words."""


class NoSpark(OverlaceError):
    """Spark could not start, or its JVM is gone."""


def launch(conf: SparkConf, small: bool = True) -> JavaGateway:
    """The gateway to a new JVM with this configuration, which logs to `log_file()`."""
    global _last
    drop_folder()
    if PORT in os.environ:  # somebody started it for us: spark-submit
        return launch_gateway(conf)  # type: ignore[no-untyped-call]
    meeting = work_folder() / "gateway"
    process: subprocess.Popen[bytes] | None = None
    try:
        with finishing():  # no signal falls between the start and the word left for the end
            process = started = _last = _start(conf, meeting, small)
            at_the_end(started.pid, lambda: end(started, 0.0))
        while not meeting.is_file():
            if process.poll() is not None:
                raise NoSpark(f"Spark's JVM did not start: {last_words() or how_it_ended()}. Its log: {log_to_read()}")
            time.sleep(0.02)
        with meeting.open("rb") as info:
            port, secret = read_int(info), UTF8Deserializer().loads(info)  # type: ignore[no-untyped-call]
        meeting.unlink()
        os.environ |= {PORT: str(port), SECRET: secret}
        try:
            gateway = launch_gateway(conf)  # type: ignore[no-untyped-call]
        finally:
            del os.environ[PORT], os.environ[SECRET]
        gateway.proc = process
        return gateway
    except BaseException:
        with finishing():
            if process is not None:
                end(process, 0.0)
            drop_folder()
        raise


def _start(conf: SparkConf, meeting: Path, small: bool) -> subprocess.Popen[bytes]:
    """Start spark-submit, which becomes the JVM; it will write its port to the file where we meet."""
    words = [word for key, value in conf.getAll() for word in ("--conf", f"{key}={value}")]
    words += shlex.split(os.environ.get("PYSPARK_SUBMIT_ARGS", "pyspark-shell"))
    (work_folder() / "tmp").mkdir(mode=0o700, exist_ok=True)
    quiet = Path(str(files("overlace.spark") / "log4j2.properties")).as_uri()
    ours = [f"-Dlog4j2.configurationFile={quiet}", f"-Djava.io.tmpdir={work_folder() / 'tmp'}"]
    if small:
        ours.append("-XX:TieredStopAtLevel=1")  # the second compiler pays from some ten million rows on
    elif not names_collector(conf):
        ours.append("-XX:+UseParallelGC")  # a tenth less CPU time than the default, which collects beside the work
    quoted = ['"' + re.sub(r'(["\\])', r"\\\1", each) + '"' for each in ours]
    environment = {
        **os.environ,
        "SPARK_CONNECT_MODE": "0",
        "_PYSPARK_DRIVER_CONN_INFO_PATH": str(meeting),
        "SPARK_SUBMIT_OPTS": " ".join([*quoted, os.environ.get("SPARK_SUBMIT_OPTS", "")]),  # the user's word last
    }
    script = str(Path(_find_spark_home()) / "bin" / "spark-submit")
    with log_file().open("ab") as log:
        return subprocess.Popen(
            [script, *words], stdin=subprocess.PIPE, stdout=log, stderr=log, env=environment, process_group=0
        )


def names_collector(conf: SparkConf) -> bool:
    """Whether the user has chosen a garbage collector, by any of the ways: a JVM with two does not start."""
    defaults = Path(os.environ.get("SPARK_CONF_DIR") or Path(_find_spark_home()) / "conf") / "spark-defaults.conf"
    said = [value for _, value in conf.getAll()] + [
        os.environ.get(name, "")
        for name in ("SPARK_SUBMIT_OPTS", "PYSPARK_SUBMIT_ARGS", "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS")
    ]
    with suppress(OSError, UnicodeDecodeError):
        said.append(defaults.read_text())
    return any(re.search(r"-XX:\+Use\w+GC\b", text) for text in said)


def end(process: subprocess.Popen[bytes], patience: float = PATIENCE) -> None:
    """End a JVM: by closing its input, then by SIGTERM, then by SIGKILL."""
    if process.stdin is not None:
        with suppress(OSError):
            process.stdin.close()
    for wait, number in ((patience, signal.SIGTERM), (HURRY, signal.SIGKILL)):
        if not _ended(process, wait):
            with suppress(ProcessLookupError):  # to its group: while it comes up it is a shell with a child
                os.killpg(process.pid, number)
    _ended(process, PATIENCE)
    at_the_end(process.pid, None)


def _ended(process: subprocess.Popen[bytes], patience: float) -> bool:
    with suppress(subprocess.TimeoutExpired):
        process.wait(timeout=patience)
    return process.returncode is not None


def last_words() -> str:
    """The line of the log that says best why the JVM ended; empty if it said nothing."""
    lines = (line.strip() for line in reversed(log_tail().splitlines()))
    about = (line for line in lines if re.search("(?i:error)|Exception", line) and not line.startswith("at "))
    return next(about, "")[:300]


def how_it_ended() -> str:
    """How the JVM that was started last came to its end; empty while it runs."""
    if _last is None or not _ended(_last, 1.0):  # it may be about to
        return ""
    code = _last.returncode
    return f"it was killed by signal {-code}" if code < 0 else f"it ended with code {code}"


def log_tail() -> str:
    """The end of the JVM's log; nothing if the JVM is not ours."""
    if _folder is not None:
        with suppress(OSError), log_file().open("rb") as log:
            log.seek(max(0, log.seek(0, os.SEEK_END) - TAIL))
            return log.read().decode("utf-8", "replace")
    return ""


def work_folder() -> Path:
    """The folder of the JVM, and of the package that is sent to executors."""
    global _folder
    if _folder is None:
        _folder = fresh_folder()
    return _folder


def log_file() -> Path:
    """The JVM's log."""
    return work_folder() / "spark.log"


def log_to_read() -> Path | str:
    """The log, named to the user and therefore kept."""
    global _kept
    if _folder is None or not log_file().exists():
        return "where your session writes it"
    _kept = True
    return log_file()


def drop_folder() -> None:
    """Remove the folder of a JVM that has ended, but for a log that was named to the user."""
    global _folder, _kept
    if _folder is None:
        return
    for each in _folder.iterdir():
        if each.is_dir() and not each.is_symlink():
            shutil.rmtree(each, ignore_errors=True)
        elif not (_kept and each.name == "spark.log"):
            with suppress(OSError):
                each.unlink()
    with suppress(OSError):
        _folder.rmdir()
    _folder, _kept = None, False


_kept = False
_folder: Path | None = None
_last: subprocess.Popen[bytes] | None = None
