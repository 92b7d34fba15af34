"""The one decorator under which kernels are compiled.

`@kernel` is numba's `njit` with a cache on disk. The cache lies beside the source where that can be
written. Where the package is imported from a zip, as Spark's executors do, every application unpacks
the zip to another path, and a cache keyed by that path would never be found again; there the module's
source is kept once, in a folder named by the package's hash, and the cache lies beside that copy.

`NUMBA_DISABLE_JIT=1` runs every kernel as plain Python.
"""

from __future__ import annotations

import hashlib
import inspect
import os
import sys
import tempfile
import zipfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar, cast

import numba
import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Pairs = NDArray[np.int64]  # (n, 2): sorted, distinct

F = TypeVar("F", bound=Callable[..., Any])


def kernel(function: F) -> F:
    """Compile a function of arrays and numbers; callable from other kernels; cached on disk where that can be."""
    try:
        if not Path(inspect.getfile(function)).exists():
            _keep_source(function)
        return cast(F, numba.njit(function, cache=True))
    except (RuntimeError, OSError, TypeError):  # nowhere to write, or typed in at a prompt: compile each time
        return cast(F, numba.njit(function))


def cache_folder() -> Path:
    """Where sources of zipped kernels are kept: `OVERLACE_CACHE`, else the user's cache folder."""
    chosen = os.environ.get("OVERLACE_CACHE") or os.environ.get("XDG_CACHE_HOME")
    return Path(chosen) / "overlace" if chosen else Path.home() / ".cache" / "overlace"


def _keep_source(function: Callable[..., Any]) -> None:
    """Point a zipped function's code at a copy of its module that outlives the zip.

    Kernels are compiled into those that call them, so the copy lies under the hash of all the package's
    sources and not only of its own.
    """
    module = sys.modules[function.__module__]
    source = inspect.getsource(module)
    name = module.__name__.rpartition(".")[2] + ".py"
    for folder in (cache_folder, _temporary_folder):
        try:
            path = folder() / "kernels" / _package_hash(module) / name
            _write_once(path, source)
        except (OSError, RuntimeError):  # a home that is not there or cannot be written, as on many executors
            continue
        function.__code__ = function.__code__.replace(co_filename=str(path))
        return


def _temporary_folder() -> Path:
    return Path(tempfile.gettempdir()) / f"overlace-{os.getuid()}"


@cache
def _package_hash(module: ModuleType) -> str:
    archive = getattr(module.__loader__, "archive", None)
    state = hashlib.sha256()
    if archive:
        with zipfile.ZipFile(archive) as entries:
            for entry in sorted(entries.infolist(), key=lambda each: each.filename):
                if entry.filename.endswith(".py"):
                    state.update(f"{entry.filename}:{entry.CRC}:{entry.file_size};".encode())
    state.update(module.__name__.encode())
    return state.hexdigest()[:16]


def _write_once(path: Path, source: str) -> None:
    """Write beside and rename, so that two workers that start at once both find a whole file."""
    if path.exists():
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, beside = tempfile.mkstemp(dir=path.parent, suffix=".part")
    with os.fdopen(handle, "w") as file:
        file.write(source)
    Path(beside).replace(path)
