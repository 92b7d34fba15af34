"""Frozen dataclasses whose fields are read-only arrays.

A record takes anything like an array, keeps arrays of its own that nobody can write to, is equal to a
record with the same content, and has a digest of that content.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import field, fields
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from overlace.arrays.jit import Floats, Ints
from overlace.arrays.pairs import as_pairs
from overlace.errors import BadObservation

if TYPE_CHECKING:  # to a type checker, a field that is set from anything like an array and read as one

    class IntColumn:
        """Integers."""

        def __get__(self, record: Any, kind: Any) -> Ints: ...
        def __set__(self, record: Any, values: ArrayLike) -> None: ...

    class FloatColumn:
        """Floats."""

        def __get__(self, record: Any, kind: Any) -> Floats: ...
        def __set__(self, record: Any, values: ArrayLike) -> None: ...

    class TextColumn:
        """Strings."""

        def __get__(self, record: Any, kind: Any) -> NDArray[np.str_]: ...
        def __set__(self, record: Any, values: ArrayLike) -> None: ...

else:
    IntColumn = FloatColumn = TextColumn = np.ndarray


def column(dtype: type, *, matrix: bool = False, pairs: bool = False) -> Any:
    """A dataclass field that holds a read-only array of this type, or a relation; empty by default."""
    shape = (0, 2) if pairs else (0, 0) if matrix else (0,)
    return field(
        default_factory=lambda: np.empty(shape, dtype=dtype),
        metadata={"dtype": dtype, "pairs": pairs, "ndim": len(shape)},
    )


def frozen(values: ArrayLike, dtype: type, ndim: int, what: str) -> NDArray[Any]:
    """The values as a read-only array of their own, unless they are one already."""
    try:
        array: NDArray[Any] = np.ascontiguousarray(values, dtype=dtype)
    except (TypeError, ValueError, OverflowError) as error:
        raise BadObservation(f"{what}: expected {np.dtype(dtype).name} values; {error}") from None
    if array.ndim != ndim:
        if array.size:
            raise BadObservation(f"{what}: expected {ndim} dimension(s), found shape {array.shape}")
        array = np.empty((0,) * ndim, dtype=dtype)
    if array.flags.writeable:
        array = array.copy() if array is values or array.base is not None else array
        array.setflags(write=False)
    return array


class Record:
    """A frozen dataclass of arrays: compared by content, pickled through its constructor."""

    def __post_init__(self) -> None:
        for each in fields(cast(Any, self)):
            if "dtype" in each.metadata:
                what = f"{type(self).__name__}.{each.name}"
                value = getattr(self, each.name)
                if each.metadata["pairs"]:
                    try:
                        value = as_pairs(value)
                    except ValueError as error:
                        raise BadObservation(f"{what}: {error}") from None
                self._put(each.name, frozen(value, each.metadata["dtype"], each.metadata["ndim"], what))

    def _put(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)

    def _values(self) -> Iterator[tuple[str, Any]]:
        for each in fields(cast(Any, self)):
            yield each.name, getattr(self, each.name)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, type(self)):
            return NotImplemented
        return all(
            np.array_equal(mine, theirs) if isinstance(mine, np.ndarray) else mine == theirs
            for (_, mine), (_, theirs) in zip(self._values(), other._values(), strict=True)
        )

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), tuple(value for _, value in self._values()))

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
            raise BadObservation(f"{type(self).__name__}: columns of unequal length: {found}")


def _feed(state: Any, value: Any) -> None:
    if isinstance(value, Record):
        for name, part in value._values():
            state.update(name.encode() + b"=")
            _feed(state, part)
    elif isinstance(value, np.ndarray):
        state.update(f"{value.dtype.str}{value.shape}".encode())
        state.update(np.ascontiguousarray(value).data)
    elif isinstance(value, Mapping):
        for key in sorted(value):
            state.update(str(key).encode() + b":")
            _feed(state, value[key])
    else:
        state.update(repr(value).encode() + b";")
