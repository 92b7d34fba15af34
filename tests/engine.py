"""The engine that tests of whole ingests run on: one Sail session in this process."""

import atexit
import contextlib
import functools
import io
import sys

from overlace.ingest import run


@functools.cache
def sail():
    """The session, started once."""
    sys.modules.setdefault("IPython", None)  # else each call of the API looks for it on the disk
    from overlace.spark.engines import Engine, started

    stack = contextlib.ExitStack()

    def stop():
        with contextlib.redirect_stderr(io.StringIO()):
            stack.close()

    atexit.register(stop)
    return stack.enter_context(started(Engine("sail")))


def ingest_sources(paths, out, options=None, progress=None):
    """Ingest as the command line does, on Sail."""
    from overlace.spark.failures import explained_failures

    with explained_failures():
        return run.ingest_sources(paths, out, lambda size: sail(), options, progress)
