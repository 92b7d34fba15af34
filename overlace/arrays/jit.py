"""The one decorator under which kernels are compiled.

`@kernel` is numba's `njit` with a cache on disk, put off until the first call: to import numba and to load
what it compiled costs half a second. A kernel that says how much work a call is (`@kernel(work=size)`) runs
as plain Python as long as all such calls together are cheaper than that, or, if it was never compiled here, than to
compile it; the results are the same.

The cache lies beside the source where that can be written. Where the package is imported from a zip, as Spark's
executors do, every application unpacks the zip to another path, and a cache keyed by that path would never be found
again; there, and where the package is read-only, the module's source is kept once, in a folder of the user alone
(`overlace.places`) named by the hash of the package, and the cache lies beside that copy. Without such a folder
nothing is cached.

`NUMBA_DISABLE_JIT=1` runs every kernel as plain Python.
"""

from __future__ import annotations

import gc
import hashlib
import inspect
import os
import pickle
import sys
import zipfile
from collections.abc import Callable, Iterator
from functools import cache, cached_property, update_wrapper
from pathlib import Path
from types import FunctionType
from typing import Any, TypeVar, cast, overload

import numpy as np
from numpy.typing import NDArray

from overlace.places import cache_folder, keep, only_own_files

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Pairs = NDArray[np.int64]  # (n, 2): sorted, distinct

F = TypeVar("F", bound=Callable[..., Any])


Work = Callable[..., int]

PLAIN = 250_000
"""Units of work, each about a microsecond of plain Python, that a process does before numba pays."""
COLD, BRIEF = 6_000_000, 20_000
"""The same for kernels that have not been compiled on this machine, dozens of which take half a minute; and how long
one call of them may take, since a system whose calls take longer is compiled for anyway."""


def size(*given: Any) -> int:
    """The work of a call that looks at each element of its arrays once or a few times."""
    return sum(each.size if isinstance(each, np.ndarray) else size(*each) for each in given if np.iterable(each))


T = TypeVar("T")


def by_address(kind: type[T]) -> type[T]:
    """Have a class of named tuples passed to compiled kernels by its address: see `overlace.arrays.pointers`."""
    POINTED.add(kind)
    return kind


POINTED: set[type] = set()


def _passed(given: Any) -> Any:
    """What a compiled kernel is given for an argument."""
    if type(given) not in POINTED or os.environ.get("NUMBA_DISABLE_JIT") == "1":
        return given
    from overlace.arrays.pointers import boxed

    return boxed(given)


class Kernel:
    """A function of arrays and numbers, compiled when it is worth it. See `kernel`."""

    left: int = PLAIN  # shared by all kernels
    cold: int = COLD

    def __init__(self, function: Any, work: Work | None, brief: int) -> None:
        update_wrapper(self, function)
        self.py_func, self.work, self.brief = function, work, brief

    def __call__(self, *args: Any, **named: Any) -> Any:
        """Plain while it is cheaper, compiled from then on."""
        if self.work is not None:
            work = self.work(*args, **named)
            if work <= Kernel.left:
                Kernel.left -= work
                return self.interpreted(*args, **named)
            if work <= min(self.brief, Kernel.cold) and "compiled" not in self.__dict__ and self.never_compiled:
                Kernel.cold -= work
                return self.interpreted(*args, **named)
        return self.compiled(*map(_passed, args), **{name: _passed(each) for name, each in named.items()})

    def interpreted(self, *args: Any, **named: Any) -> Any:
        """Call it as plain Python; whole numbers wrap around without a word, as they do when compiled."""
        with np.errstate(over="ignore"):
            return self.plain(*args, **named)

    @cached_property
    def never_compiled(self) -> bool:
        """Whether numba keeps nothing of it beside its source; false where it keeps things elsewhere."""
        return _cached_beside(Path(self.py_func.__code__.co_filename)) and not _kept_of(self.py_func)

    @cached_property
    def plain(self) -> Any:
        """The function as it is written, calling other kernels as they are written."""
        code, known = self.py_func.__code__, self.py_func.__globals__
        called = {name: known[name].plain for name in code.co_names if isinstance(known.get(name), Kernel)}
        function = self.py_func
        return FunctionType(code, {**known, **called}, code.co_name, function.__defaults__, function.__closure__)

    @cached_property
    def compiled(self) -> Any:
        """The function compiled; cached on disk where that can be."""
        if os.environ.get("NUMBA_DISABLE_JIT") == "1":
            return self.interpreted
        return _compiled(self.py_func)

    @property
    def _numba_type_(self) -> Any:
        """How numba sees a kernel that another one calls."""
        return self.compiled._numba_type_

    def __reduce__(self) -> str:
        return cast(str, self.__qualname__)  # type: ignore[attr-defined]


@overload
def kernel(function: F) -> F: ...
@overload
def kernel(*, work: Work, brief: int = BRIEF) -> Callable[[F], F]: ...
def kernel(function: Any = None, *, work: Work | None = None, brief: int = BRIEF) -> Any:
    """Compile a function of arrays and numbers at its first call; callable from other kernels.

    With `work`, which is told the arguments of a call and says how many microseconds plain Python would
    take for it, give or take, little work is done without numba.
    """
    return Kernel(function, work, brief) if function else lambda function: Kernel(function, work, brief)


@cache
def _numba() -> Any:
    """numba, with the garbage collector at rest while it compiles: it makes much, and nothing of it is garbage."""
    import numba
    from numba.core import event

    class Rest(event.Listener):
        """Puts the collector to rest from the first start to the last end."""

        depth, on = 0, False

        def on_start(self, _: Any) -> None:
            self.on = gc.isenabled() if self.depth == 0 else self.on
            self.depth += 1
            gc.disable()

        def on_end(self, _: Any) -> None:
            self.depth -= 1
            if self.depth == 0 and self.on:
                gc.enable()

    event.register("numba:compile", Rest())  # type: ignore[no-untyped-call]
    return numba


def _compiled(function: Any) -> Any:
    """A function compiled; cached on disk where that can be."""
    numba = _numba()
    try:
        file = Path(inspect.getfile(function))
        beside = _cached_beside(file)
        if beside:
            _drop_unreadable(function)
        return numba.njit(function, cache=beside or _keep_source(function), no_cfunc_wrapper=True)
    except (RuntimeError, OSError, TypeError):  # nowhere to write, or typed in at a prompt: compile each time
        return numba.njit(function, no_cfunc_wrapper=True)


def _drop_unreadable(function: Any) -> None:
    """Delete what an older version left of a kernel, if it names classes that are no more: numba would stop at it."""
    for path in _kept_of(function):
        try:
            with path.open("rb") as index:
                pickle.load(index)
                pickle.loads(index.read())  # as numba does, which reads it again
        except OSError:
            continue
        except Exception:  # whatever a pickle of something that has changed may raise
            path.unlink(missing_ok=True)


def _kept_of(function: Any) -> list[Path]:
    """The index files that numba keeps of a kernel beside its source."""
    code, file = function.__code__, Path(function.__code__.co_filename)
    name, folder = f"{file.stem}.{function.__qualname__}-{code.co_firstlineno}.", file.parent / "__pycache__"
    return [folder / each for each in _names(folder) if each.startswith(name) and each.endswith(".nbi")]


@cache
def _names(folder: Path) -> tuple[str, ...]:
    """The files of a folder when it was first asked for."""
    return tuple(each.name for each in folder.iterdir()) if folder.is_dir() else ()


def _cached_beside(file: Path) -> bool:
    """Whether numba can write its cache beside a source."""
    return file.exists() and all(
        os.access(each, os.W_OK) for each in (file.parent, file.parent / "__pycache__") if each.exists()
    )


def _keep_source(function: Callable[..., Any]) -> bool:
    """Point a function's code at a copy of its module in a folder of the user alone; false if there is none.

    Kernels are compiled into those that call them, so the copy lies under the hash of all the package's
    sources and not only of its own.
    """
    module = sys.modules[function.__module__]
    archive = getattr(module.__loader__, "archive", None)
    folder = cache_folder("kernels", _package_hash(), beside=Path(archive).parent if archive else None)
    if folder is None or not only_own_files(folder / "__pycache__"):
        return False
    path = keep(folder, f"{module.__name__}.py", inspect.getsource(module).encode())
    function.__code__ = function.__code__.replace(co_filename=str(path))
    return True


@cache
def _package_hash() -> str:
    state = hashlib.sha256()
    for name, content in _sources():
        state.update(f"{name}:{len(content)}:".encode() + content)
    return state.hexdigest()


def _sources() -> Iterator[tuple[str, bytes]]:
    """Names and contents of the modules of this package, from a zip or from a folder."""
    package = sys.modules["overlace"]
    archive = getattr(package.__loader__, "archive", None)
    if archive:
        with zipfile.ZipFile(archive) as entries:
            for name in sorted(entries.namelist()):
                if name.endswith(".py"):
                    yield name, entries.read(name)
    else:
        root = Path(package.__path__[0])
        for path in sorted(root.rglob("*.py")):
            yield str(path.relative_to(root)), path.read_bytes()
