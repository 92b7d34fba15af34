"""Whether the Python of an executor can do our work: asked at the start of every task.

Small inputs never need numba, so an executor without it would pass forty lines and fail on a million. And a task
that fails is tried again elsewhere, so that one bad executor would only be slow, or fail a job by chance. Here a task
that finds its Python unfit answers with what it lacks, and the whole job is refused, with the host and the Python
named.

This module is pickled by value, with what it refers to: it runs where `overlace` may be missing. So it imports only
what every Python has; pyarrow and pyspark when they are asked for.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, TypedDict

from pyspark import cloudpickle

NEEDED = ("overlace", "numpy", "pyarrow", "pandas", "numba", "msgspec", "xxhash")
"""What tasks import, or Spark for them."""

UNFIT = "unfit"
"""The column in which a task says that it cannot work."""

if TYPE_CHECKING:
    import pyarrow as pa

    BatchFunction = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


class About(TypedDict):
    """What a Python says of itself: where it is, the versions of what it has, and what it lacks."""

    host: str
    path: str
    python: str
    found: dict[str, str]
    lacks: dict[str, str]


def look(version: str) -> About:
    """This Python: its host, path and version, the versions of what it has, and what it lacks."""
    import importlib
    import importlib.metadata
    import platform
    import socket

    found, lacks = {}, {}
    for name in NEEDED:
        try:
            module = importlib.import_module(name)
            found[name] = str(getattr(module, "__version__", None) or importlib.metadata.version(name))
        except ModuleNotFoundError as error:
            lacks[name] = "missing" if error.name == name else f"its import fails: no module {error.name}"
        except Exception as error:
            lacks[name] = f"its import fails: {' '.join(str(error).split())[:200]}"
    if found.get("overlace", version) != version:
        lacks["overlace"] = f"{found['overlace']} there, {version} here"
    host, python = socket.gethostname(), platform.python_version()
    return {"host": host, "path": sys.executable, "python": python, "found": found, "lacks": lacks}


def check_first(function: BatchFunction, names: list[str], types: list[pa.DataType], version: str) -> BatchFunction:
    """A batch function that first looks whether it can be run; its rows have one column more, `UNFIT`."""
    packed = cloudpickle.dumps(function)  # type: ignore[no-untyped-call]

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import json

        import pyarrow

        about = look(version)
        if about["lacks"]:
            for _ in batches:
                pass
            columns = [*(pyarrow.nulls(1, each) for each in types), pyarrow.array([json.dumps(about)])]
            yield pyarrow.RecordBatch.from_arrays(columns, names=[*names, UNFIT])
            return
        for batch in cloudpickle.loads(packed)(batches):
            yield batch.append_column(UNFIT, pyarrow.nulls(batch.num_rows, pyarrow.string()))

    return run


cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]
