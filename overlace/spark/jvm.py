"""The JVM as a process of ours: started, and ended whatever happens.

PySpark can start one too, but whoever interrupts it there leaves a JVM behind for good: the folder through
which the two meet is removed, the JVM fails to write there, and threads of its own keep it alive. So the
process is started here, known from its first moment, and ended by its id if it does not end by itself.

It ends by itself when its standard input closes, also when this process is killed. It has a process group of
its own, so that Ctrl-C and a closed terminal reach only the driver, which then stops it in good order.
"""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from pyspark import SparkConf
from pyspark.find_spark_home import _find_spark_home
from pyspark.java_gateway import launch_gateway
from pyspark.serializers import UTF8Deserializer, read_int

from overlace.errors import OverlaceError
from overlace.stopping import at_the_end, finishing

PATIENCE, HURRY = 20.0, 5.0
"""Seconds that a JVM gets to end by itself, and after it was asked to."""

PORT, SECRET = "PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET"

TAIL = 20_000
"""Bytes of the log that are looked at for a JVM's last words."""


class NoSpark(OverlaceError):
    """Spark could not start, or its JVM is gone."""


def launch(conf: SparkConf) -> Any:
    """A JVM with this configuration and the gateway to it. Its words go to `log_file()`."""
    global _last
    if PORT in os.environ:  # somebody started it for us: spark-submit
        return launch_gateway(conf)  # type: ignore[no-untyped-call]
    folder = tempfile.mkdtemp(prefix="overlace-")
    process: subprocess.Popen[bytes] | None = None
    try:
        with finishing():  # no signal falls between the start and the word left for the end
            process = started = _last = _start(conf, Path(folder) / "gateway")
            at_the_end(started.pid, lambda: end(started, 0.0))
        port, secret = _wait_for(Path(folder) / "gateway", process)
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
            drop_log()
        raise
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _start(conf: SparkConf, meeting: Path) -> subprocess.Popen[bytes]:
    """Start spark-submit, which becomes the JVM; it will write its port to the file where we meet."""
    script = Path(_find_spark_home()) / "bin" / "spark-submit"
    words = [word for key, value in conf.getAll() for word in ("--conf", f"{key}={value}")]
    words += shlex.split(os.environ.get("PYSPARK_SUBMIT_ARGS", "pyspark-shell"))
    environment = {**os.environ, "SPARK_CONNECT_MODE": "0", "_PYSPARK_DRIVER_CONN_INFO_PATH": str(meeting)}
    with log_file().open("ab") as log:
        return subprocess.Popen(
            [str(script), *words], stdin=subprocess.PIPE, stdout=log, stderr=log, env=environment, process_group=0
        )


def _wait_for(meeting: Path, process: subprocess.Popen[bytes]) -> tuple[int, str]:
    """The port and the secret of a JVM that is coming up."""
    while not meeting.is_file():
        if process.poll() is not None:
            raise NoSpark(f"Spark's JVM did not start: {last_words() or how_it_ended()}. Its log: {log_to_read()}")
        time.sleep(0.02)
    with meeting.open("rb") as info:
        return read_int(info), UTF8Deserializer().loads(info)  # type: ignore[no-untyped-call]


def end(process: subprocess.Popen[bytes], patience: float = PATIENCE) -> None:
    """See a JVM to its end: its input is closed; if that is not enough it is asked, and then made, to end."""
    if process.stdin is not None:
        with suppress(OSError):
            process.stdin.close()
    if not _ended(process, patience):
        _signal(process, signal.SIGTERM)
        if not _ended(process, HURRY):
            _signal(process, signal.SIGKILL)
            _ended(process, PATIENCE)
    at_the_end(process.pid, None)


def _ended(process: subprocess.Popen[bytes], patience: float) -> bool:
    with suppress(subprocess.TimeoutExpired):
        process.wait(timeout=patience)
    return process.returncode is not None


def _signal(process: subprocess.Popen[bytes], number: int) -> None:
    """To the group that this process leads: while it comes up it is a shell with a child."""
    if process.poll() is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)


def last_words() -> str:
    """The line of the log that says best why the JVM ended; empty if it said nothing."""
    lines = [line.strip() for line in log_tail().splitlines() if not line.strip().startswith("at ")]
    telling = [line for line in lines if "error" in line.lower() or "Exception" in line]
    return telling[-1][:300] if telling else ""


def how_it_ended() -> str:
    """How the JVM that was started last came to its end; empty while it runs."""
    if _last is None or not _ended(_last, 1.0):  # it may be about to
        return ""
    code = _last.returncode
    return f"it was killed by signal {-code}" if code < 0 else f"it ended with code {code}"


def log_tail() -> str:
    """The end of the JVM's log."""
    try:
        with log_file().open("rb") as log:
            log.seek(max(0, log.seek(0, os.SEEK_END) - TAIL))
            return log.read().decode("utf-8", "replace")
    except OSError:
        return ""


def log_file() -> Path:
    """Where the JVM's words go."""
    return Path(tempfile.gettempdir()) / f"overlace-spark-{os.getpid()}.log"


def log_to_read() -> Path:
    """The log, named to the user and therefore kept."""
    global _kept
    _kept = True
    return log_file()


def drop_log() -> None:
    """Remove the log, unless the user was told of it."""
    if not _kept:
        with suppress(OSError):
            log_file().unlink()


_kept = False
_last: subprocess.Popen[bytes] | None = None
