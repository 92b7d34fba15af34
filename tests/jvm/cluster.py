"""A standalone master and its workers on loopback: real processes, ended whatever happens."""

import os
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import uuid
from contextlib import contextmanager, suppress
from pathlib import Path

import pyspark

import overlace
from overlace.spark.java import find_java
from tests.processes import MARK, marked, until

HOME = Path(pyspark.__file__).parent
ROOT = Path(overlace.__file__).parents[1]
QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"  # none of these JVMs lives long enough to be worth more


class Daemon:
    """A master or a worker with its executors, known by a mark in their environments."""

    def __init__(self, folder, *command, host="127.0.0.1", **environment):
        self.mark, self.log = uuid.uuid4().hex, folder / "log"
        folder.mkdir()
        theirs = ("SPARK_", "PYSPARK_", "PYTHON")
        known = {key: value for key, value in os.environ.items() if not key.startswith(theirs)}
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, cwd=folder,
                env={
                    **known, "JAVA_HOME": str(find_java().home), "SPARK_HOME": str(HOME), "SPARK_LOCAL_IP": host,
                    "SPARK_DAEMON_MEMORY": "256m", "SPARK_DAEMON_JAVA_OPTS": QUICK, MARK: self.mark, **environment,
                },
            )  # fmt: skip

    def wait_for(self, pattern):
        """What the log has for a pattern, once it has it."""
        until(
            lambda: (
                self.process.poll() is not None
                or re.search(pattern, self.log.read_text(errors="replace"), re.MULTILINE)
            )
        )
        found = re.search(pattern, self.log.read_text(errors="replace"), re.MULTILINE)
        assert found, self.log.read_text(errors="replace")[-2000:]
        return found[1]

    def kill(self):
        """kill -9: this process, then its executors and their Pythons."""
        self.process.kill()
        self.process.wait()
        until(lambda: not self._kill_rest())

    def _kill_rest(self):
        left = marked(self)
        for pid in left:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return left


class Cluster:
    """A master and workers of one core each."""

    def __init__(self, folder):
        self.folder, self.daemons = folder, []
        self.python = folder / "python"  # the same path for all; the Python behind it is the worker's own
        self.python.write_text(f'#!/bin/sh\nexec "${{CLUSTER_PYTHON:-{sys.executable}}}" "$@"\n')
        self.python.chmod(0o755)
        self.home = self.folder / "home"
        self.home.mkdir()
        master = self._started("master", "master.Master", "--port", "0")
        self.url = master.wait_for(r"Starting Spark master at (spark://\S+)")

    def _started(self, name, kind, *words, **environment):
        command = [HOME / "bin/spark-class", f"org.apache.spark.deploy.{kind}", "--host", "127.0.0.1"]
        command += ["--webui-port", "0", *words]
        self.daemons.append(Daemon(self.folder / name, *command, HOME=str(self.home), **environment))
        return self.daemons[-1]

    def worker(self, name, **environment):
        """Start a worker; it is there when `joined` says so."""
        return self._started(
            name, "worker.Worker", "--cores", "1", "--memory", "1g", "--work-dir", str(self.folder / f"{name}-work"),
            self.url, **environment,
        )  # fmt: skip

    @staticmethod
    def joined(*workers):
        """Wait until the master knows these workers."""
        for each in workers:
            each.wait_for(r"(Successfully registered with master)")

    def settings(self, cores):
        """What makes a session wait for all of them."""
        return {
            "spark.pyspark.python": str(self.python), "spark.cores.max": str(cores), "spark.executor.memory": "512m",
            "spark.scheduler.minRegisteredResourcesRatio": "1.0", "spark.driver.host": "127.0.0.1",
            "spark.scheduler.maxRegisteredResourcesWaitingTime": "120s",
            "spark.driver.extraJavaOptions": QUICK, "spark.executor.extraJavaOptions": QUICK,
        }  # fmt: skip


@contextmanager
def cluster(folder):
    """A cluster that is gone afterwards, also when a test fails."""
    folder.mkdir()
    made = object.__new__(Cluster)
    made.daemons = []
    try:
        made.__init__(folder)
        yield made
    finally:
        for each in reversed(made.daemons):
            each.kill()
        shutil.rmtree(folder, ignore_errors=True)


def python_without(folder, *names):
    """A virtual environment that has all packages of this one but those, and not Overlace."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    (target,) = folder.glob("lib/python*/site-packages")
    for each in Path(sysconfig.get_paths()["purelib"]).iterdir():
        if each.suffix != ".pth" and each.name.split("-")[0].lower() not in (*names, "overlace", "__pycache__"):
            (target / each.name).symlink_to(each)
    return str(folder / "bin/python")


@contextmanager
def connect_server(folder, python=sys.executable):
    """The address of a server of Spark Connect from the pip package, whose tasks a Python runs."""
    settings = {
        "spark.connect.grpc.binding.address": "127.0.0.1", "spark.connect.grpc.binding.port": "0",
        "spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "2",
        "spark.driver.extraJavaOptions": QUICK, "spark.sql.warehouse.dir": str(folder / "warehouse"),
    }  # fmt: skip
    words = [word for key, value in settings.items() for word in ("--conf", f"{key}={value}")]
    main = "org.apache.spark.sql.connect.service.SparkConnectServer"
    daemon = Daemon(
        folder, HOME / "bin/spark-submit", "--master", "local[2]", *words, "--class", main, "spark-internal",
        PYSPARK_PYTHON=python, SPARK_DAEMON_MEMORY="1g",
    )  # fmt: skip
    try:
        yield f"sc://127.0.0.1:{daemon.wait_for(r'Spark Connect server started at: .*?([0-9]+)$')}"
    finally:
        daemon.kill()
