"""The engine that tests of whole ingests run on: one Sail session in this process."""

import atexit
import contextlib
import functools
import io
import os
import sys

from overlace.ingest import run


@functools.cache
def sail():
    """The session, started once."""
    os.environ.setdefault("RUST_LOG", "off")
    sys.modules.setdefault("IPython", None)  # else each call of the API looks for it on the disk
    from pysail.spark import SparkConnectServer
    from pyspark.sql.connect.session import SparkSession

    server = SparkConnectServer()
    server.start(background=True)
    session = SparkSession.builder.remote(f"sc://localhost:{server.listening_address[1]}").create()
    session.conf.set("spark.sql.session.timeZone", "UTC")

    def stop():
        with contextlib.suppress(Exception), contextlib.redirect_stderr(io.StringIO()):
            session.stop()
        server.stop()

    atexit.register(stop)
    return session


def ingest_sources(paths, out, options=None, progress=None):
    """Ingest as the command line does, on Sail."""
    from overlace.spark.failures import explained_failures

    with explained_failures():
        return run.ingest_sources(paths, out, lambda size: sail(), options, progress)
