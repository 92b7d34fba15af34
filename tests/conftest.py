import contextlib
import os
import signal
import sys
import threading

import pytest
from hypothesis import HealthCheck, Phase, settings

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as in a background job of a shell: tests of Ctrl-C need it
    with contextlib.suppress(ValueError):  # not the main thread
        signal.signal(signal.SIGINT, signal.default_int_handler)


# Sail's client runs threads of gRPC: in a process that is forked to become a broker they must not be started again.
os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "0"

# Compiling a kernel for the first time takes a second: no deadline. The same examples every time, so that what passed
# here passes there; `make test-long` draws others and more, `make cover` fewer.
plain = os.environ.get("NUMBA_DISABLE_JIT") == "1"
settings.register_profile(
    "overlace",
    deadline=None,
    derandomize="OVERLACE_RANDOM" not in os.environ,
    max_examples=int(os.environ.get("OVERLACE_EXAMPLES", 30 if plain else 100)),
    suppress_health_check=[HealthCheck.too_slow],
    **({"phases": [Phase.explicit, Phase.generate]} if "OVERLACE_NO_SHRINK" in os.environ else {}),
)
settings.load_profile("overlace")


def pytest_collection_modifyitems(config, items):
    """Tests of one file share a worker, with their fixtures and kernels, and all that start a JVM share a session.

    What takes long is asked for with `-m long`.
    """
    if "long" not in config.getoption("-m"):
        config.hook.pytest_deselected(items=[item for item in items if item.get_closest_marker("long")])
        items[:] = [item for item in items if not item.get_closest_marker("long")]
    for item in items:
        if item.get_closest_marker("jvm") or not item.get_closest_marker("xdist_group"):
            item.add_marker(pytest.mark.xdist_group("jvm" if item.get_closest_marker("jvm") else str(item.path)))


@pytest.fixture(autouse=True)
def signals_as_before():
    """A command that has ended leaves signals to the system; here, life goes on."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    yield
    for number, handler in before.items():
        if signal.getsignal(number) is not handler and threading.current_thread() is threading.main_thread():
            signal.signal(number, handler)


@pytest.fixture(autouse=True)
def functions_of_the_engine(request, monkeypatch):
    """PySpark takes column functions for those of Spark Connect or of a JVM by a variable of the environment."""
    if request.node.get_closest_marker("jvm"):
        monkeypatch.delenv("SPARK_CONNECT_MODE_ENABLED", raising=False)
    else:
        monkeypatch.setenv("SPARK_CONNECT_MODE_ENABLED", "1")


@pytest.fixture(scope="session")
def spark():
    """One session for all tests that need a JVM."""
    from overlace.spark.session import start, stop

    session = start("local[2]", {"spark.sql.shuffle.partitions": "1", "spark.driver.memory": "1g"})
    yield session
    stop(session)


@pytest.fixture(scope="session")
def sail():
    """The session of Sail in this process."""
    from tests.engine import sail

    return sail()


@pytest.fixture
def overlace(monkeypatch, capsys, tmp_path):
    """Run a command as a user would: (exit code, standard output, standard error)."""
    from overlace.cli import main

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr("overlace.cli.console.BRIEF", float("inf"))  # however slow the machine is
    monkeypatch.setattr("overlace.cli.console.OFTEN", float("inf"))

    def run(*words):
        monkeypatch.setattr(sys, "argv", ["overlace", *map(str, words)])
        with pytest.raises(SystemExit) as left:
            main()
        said = capsys.readouterr()
        return left.value.code or 0, said.out, said.err

    return run
