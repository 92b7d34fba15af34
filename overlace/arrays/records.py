"""Frozen dataclasses whose fields are read-only arrays.

A record takes anything like an array, keeps arrays of its own that nobody can write to, is equal to a
record with the same content, and has a digest of that content: equal records, equal digests.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import Field, field, fields
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

import numpy as np
from numpy.typing import ArrayLike, NDArray

from overlace.arrays.jit import Floats, Ints
from overlace.arrays.pairs import as_pairs
from overlace.errors import BadObservation, OverlaceError
from overlace.views import draw

Array = NDArray[Any]  # of a type that is known only when it is there

if TYPE_CHECKING:  # to a type checker, a field that is set from anything like an array and read as one

    class IntColumn:
        """Integers."""

        def __get__(self, record: object, kind: type) -> Ints: ...
        def __set__(self, record: object, values: ArrayLike) -> None: ...

    class FloatColumn:
        """Floats."""

        def __get__(self, record: object, kind: type) -> Floats: ...
        def __set__(self, record: object, values: ArrayLike) -> None: ...

    class TextColumn:
        """Strings."""

        def __get__(self, record: object, kind: type) -> NDArray[np.str_]: ...
        def __set__(self, record: object, values: ArrayLike) -> None: ...

else:
    IntColumn = FloatColumn = TextColumn = np.ndarray


def column(dtype: type, *, matrix: bool = False, pairs: bool = False) -> Any:
    """A dataclass field that holds a read-only array of this type, or a relation; empty by default."""
    shape = (0, 2) if pairs else (0, 0) if matrix else (0,)
    return field(
        default_factory=lambda: np.empty(shape, dtype=dtype),
        metadata={"dtype": dtype, "pairs": pairs, "ndim": len(shape)},
    )


def frozen(values: ArrayLike, dtype: type, ndim: int = 1) -> Array:
    """The values as a read-only array of their own; ValueError if they are not of this type.

    Numbers are never bent: 0.7 is no integer, and neither is 2**64.
    """
    given = np.asarray(values)
    if given.size == 0 and given.ndim != ndim:
        given = np.empty((0,) * ndim, dtype=dtype)
    if given.ndim != ndim:
        raise ValueError(f"expected {ndim} dimension(s), found shape {given.shape}")
    if given.dtype == dtype and given.flags.c_contiguous and given.flags.owndata and not given.flags.writeable:
        return given
    array: Array = np.array(given, dtype=dtype, order="C") if _fits(given, dtype) else _refuse(given, dtype)
    if np.issubdtype(dtype, np.floating):
        array += 0.0  # -0.0 is 0.0
    array.setflags(write=False)
    return array


def _fits(given: Array, dtype: type) -> bool:
    if given.size == 0 or given.dtype == dtype:
        return True
    if np.issubdtype(dtype, np.str_):
        return np.issubdtype(given.dtype, np.str_) or all(isinstance(v, str) for v in given.flat)
    if not (np.issubdtype(given.dtype, np.number) or given.dtype == np.bool_):
        return False
    if np.issubdtype(dtype, np.floating):
        return not np.issubdtype(given.dtype, np.complexfloating)
    limits = np.iinfo(dtype)
    if np.issubdtype(given.dtype, np.floating):
        whole = bool(np.isfinite(given).all()) and bool((given == np.floor(given)).all())
        return whole and bool((given >= limits.min).all() and (given < float(limits.max) + 1).all())
    return int(given.max()) <= limits.max and int(given.min()) >= limits.min


def _refuse(given: Array, dtype: type) -> NoReturn:
    raise ValueError(f"expected {np.dtype(dtype).name} values, found {given.dtype}, such as {given.flat[0]!r}")


class Record:
    """A frozen dataclass of arrays: compared by content, pickled through its constructor."""

    __dataclass_fields__: ClassVar[dict[str, Field[object]]]
    fault: ClassVar[type[OverlaceError]] = BadObservation
    """What a constructor raises."""

    def __post_init__(self) -> None:
        for each in fields(self):
            if "dtype" in each.metadata:
                value = getattr(self, each.name)
                try:
                    value = as_pairs(frozen(value, np.int64, 2)) if each.metadata["pairs"] else value
                    self._put(each.name, value, each.metadata["dtype"], each.metadata["ndim"])
                except (TypeError, ValueError, OverflowError) as error:
                    raise self.fault(f"{type(self).__name__}.{each.name}: {error}") from None

    def _repr_html_(self) -> str | None:
        return draw(self)

    def _put(self, name: str, value: Any, dtype: type | None = None, ndim: int = 1) -> None:
        object.__setattr__(self, name, value if dtype is None else frozen(value, dtype, ndim))

    def _values(self) -> Iterator[tuple[str, Any]]:
        for each in fields(self):
            yield each.name, getattr(self, each.name)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, type(self)):
            return NotImplemented
        return all(_same(mine, theirs) for (_, mine), (_, theirs) in zip(self._values(), other._values(), strict=True))

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> tuple[type, tuple[object, ...]]:
        plain = (dict(value) if isinstance(value, Mapping) else value for _, value in self._values())
        return (type(self), tuple(plain))

    def __repr__(self) -> str:
        parts = (
            f"{name}={'x'.join(map(str, value.shape))}" if isinstance(value, np.ndarray) else f"{name}={value!r}"
            for name, value in self._values()
        )
        return f"{type(self).__name__}({', '.join(parts)})"

    def digest(self) -> str:
        """32 hex digits that are the same exactly when the content is."""
        state = hashlib.blake2b(digest_size=16)
        _feed(state, self)
        return state.hexdigest()

    def _lengths(self, *names: str) -> None:
        """Refuse columns of unequal length."""
        sizes = {name: len(getattr(self, name)) for name in names}
        if len(set(sizes.values())) > 1:
            found = ", ".join(f"{name} {size}" for name, size in sizes.items())
            raise self.fault(f"{type(self).__name__}: columns of unequal length: {found}")

    def _starts(self, name: str, end: int) -> None:
        """Refuse starts that are not 0 first, never falling, and the end last."""
        start = getattr(self, name)
        if start[0] != 0 or start[-1] != end or (np.diff(start) < 0).any():
            raise self.fault(
                f"{type(self).__name__}.{name}: expected to begin at 0, never to fall, and to end at {end}; "
                f"found {start[:3].tolist()} ... {start[-1]}"
            )


def _same(mine: Any, theirs: Any) -> bool:
    if isinstance(mine, np.ndarray):
        numbers = np.issubdtype(mine.dtype, np.floating)
        return np.array_equal(mine, theirs, equal_nan=numbers)
    if isinstance(mine, Mapping):
        return mine.keys() == theirs.keys() and all(_same(mine[key], theirs[key]) for key in mine)
    return bool(mine == theirs)


def _feed(state: hashlib.blake2b, value: object) -> None:
    if isinstance(value, Record):
        for name, part in value._values():
            state.update(name.encode() + b"=")
            _feed(state, part)
    elif isinstance(value, np.ndarray) and np.issubdtype(value.dtype, np.str_):
        state.update("\0".join(value.tolist()).encode() + f"|{value.shape}".encode())
    elif isinstance(value, np.ndarray):
        state.update(f"{value.dtype.str}{value.shape}".encode())
        state.update(np.ascontiguousarray(value).data)
    elif isinstance(value, Mapping):
        for key in sorted(value):
            state.update(str(key).encode() + b":")
            _feed(state, value[key])
    else:
        state.update(repr(value).encode() + b";")
