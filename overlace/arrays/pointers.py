"""Named tuples of arrays that compiled kernels take by their address.

A kernel that is given forty arrays in a tuple has some three hundred arguments, and so has every kernel that it calls:
most of the time to compile them goes into passing them on. By its address a tuple is one argument. Its layout is
written down once, as words of eight bytes: of an array what numba keeps of one, of a number its value, of a tuple
inside it all of its words.

A kernel must not return an array that it was given this way: the tuple keeps it alive, and nothing else does.
"""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import types
from numba.core.typing.templates import AttributeTemplate
from numba.extending import (
    NativeValue,
    infer_getattr,
    lower_getattr_generic,
    models,
    register_model,
    typeof_impl,
    unbox,
)

WORD = 8
KEPT = 4
"""So many tuples are remembered with their words, since one is passed many times."""


class Pointed(types.Type):
    """A tuple by its address: where each field is, in words, and its type."""

    def __init__(self, name: str, fields: tuple[tuple[str, Any], ...]) -> None:
        self.at: dict[str, tuple[int, Any]] = {}
        self.words = 0
        for field, kind in fields:
            self.at[field] = self.words, kind
            self.words += _words(kind)
        digest = hashlib.sha256(repr(fields).encode()).hexdigest()[:8]
        super().__init__(name=f"{name}_{digest}")


def _words(kind: Any) -> int:
    if isinstance(kind, Pointed):
        return kind.words
    if isinstance(kind, types.Array):
        return 5 + 2 * int(kind.ndim)
    return len(kind) if isinstance(kind, types.BaseTuple) else 1


class Box:
    """A tuple and its words."""

    def __init__(self, given: Any) -> None:
        self.given = given  # keeps its arrays
        self.kind, words = _laid_out(given)
        self.words = np.array(words, dtype=np.int64)
        self.address: int = self.words.ctypes.data

    @property
    def _numba_type_(self) -> Pointed:
        return self.kind


_boxes: dict[int, Box] = {}
_kinds: dict[Any, Pointed] = {}


def boxed(given: Any) -> Box:
    """A tuple with its words; one that was asked for a moment ago is not laid out again."""
    found = _boxes.get(id(given))
    if found is None:
        if len(_boxes) >= KEPT:
            del _boxes[next(iter(_boxes))]
        found = _boxes[id(given)] = Box(given)
    return found


def _laid_out(given: Any) -> tuple[Pointed, list[int]]:
    """(type, words) of a tuple."""
    kinds: list[Any] = []
    words: list[int] = []
    for each in given:
        if isinstance(each, np.ndarray):
            if not each.flags.c_contiguous:
                raise TypeError(f"{type(given).__name__}: an array is not contiguous")
            kinds.append((each.dtype, each.ndim))
            words += [0, 0, each.size, each.itemsize, each.ctypes.data, *each.shape, *each.strides]
        elif hasattr(each, "_fields"):
            kind, inner = _laid_out(each)
            kinds.append(kind)
            words += inner
        else:
            numbers = each if isinstance(each, tuple) else (each,)
            whole = not isinstance(numbers[0], float)
            kinds.append(
                (bool if isinstance(each, bool | np.bool_) else int if whole else float, len(numbers), each is numbers)
            )
            words += [int(n) for n in numbers] if whole else np.array(numbers, dtype=np.float64).view(np.int64).tolist()
    key = (type(given), *kinds)
    known = _kinds.get(key)
    if known is None:
        fields = tuple(zip(given._fields, map(_kind, kinds), strict=True))
        known = _kinds[key] = Pointed(type(given).__name__, fields)
    return known, words


def _kind(key: Any) -> Any:
    """The type of a field."""
    from numba.np import numpy_support

    if isinstance(key, Pointed):
        return key
    if isinstance(key[0], np.dtype):
        return types.Array(numpy_support.from_dtype(key[0]), key[1], "C")
    kind = {bool: types.boolean, int: types.int64, float: types.float64}[key[0]]
    return types.UniTuple(kind, key[1]) if key[2] else kind


register_model(Pointed)(models.OpaqueModel)


@typeof_impl.register(Box)
def _typeof(box: Box, _: Any) -> Pointed:
    return box.kind


@unbox(Pointed)
def _unbox(_: Any, box: Any, c: Any) -> Any:
    """The address that a box holds."""
    number = c.pyapi.object_getattr_string(box, "address")
    address = c.pyapi.long_as_voidptr(number)
    c.pyapi.decref(number)
    return NativeValue(address)


@infer_getattr
class _Fields(AttributeTemplate):
    key = Pointed

    def generic_resolve(self, kind: Any, field: Any) -> Any:  # type: ignore[override]
        """The type of a field, or None."""
        return kind.at[field][1] if field in kind.at else None


@lower_getattr_generic(Pointed)
def _load(context: Any, builder: Any, kind: Pointed, address: Any, field: str) -> Any:
    """A field; it is the same however often it is loaded."""
    word, what = kind.at[field]
    at = builder.gep(address, [ir.Constant(ir.IntType(64), WORD * word)])
    if isinstance(what, Pointed):
        return at
    held = ir.IntType(64) if what is types.boolean else context.get_value_type(what)
    value = builder.load(builder.bitcast(at, held.as_pointer()))
    value.set_metadata("invariant.load", builder.module.add_metadata([]))
    if what is types.boolean:
        return builder.icmp_unsigned("!=", value, ir.Constant(held, 0))
    if isinstance(what, types.Array):  # nobody counts who holds it, and the compiler can see that
        value = builder.insert_value(value, ir.Constant(held.elements[0], None), 0)
    return value
