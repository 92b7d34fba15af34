"""Laws of a planner's class: a frozen dataclass of plain parameters, with facets, reasons, solve and cost."""

from __future__ import annotations

import inspect
import re
import string
import types
from dataclasses import MISSING, fields, is_dataclass
from typing import Literal, Union, get_args, get_origin, get_type_hints

from overlace.errors import Unknown
from overlace.model import FACETS, Planner
from overlace.testing.broken import Broken, calling, first_line, hold, listed

SOLVE, COST = "solve(self, observation, seed=0, *, progress=None)", "cost(self, observation, overlay)"
"""How the methods of a planner are declared."""


def check_class(planner: Planner) -> None:
    """Hold a planner to what its class must be, before it is asked for a plan."""
    _check_declaration(planner)
    _check_parameters(planner)
    _check_reasons(planner)
    _check_limits(planner)


def _check_declaration(planner: Planner) -> None:
    """A frozen dataclass with the methods and the constants of a planner."""
    if isinstance(planner, type):
        raise Broken(f"found the class {planner.__name__}; expected a planner made of it: {planner.__name__}()")
    kind = type(planner)
    name = kind.__name__
    hold(is_dataclass(kind), f"{name} is no dataclass; expected @dataclass(frozen=True) above the class")
    made = kind.__dataclass_params__  # type: ignore[attr-defined]
    hold(made.frozen, f"{name} is a dataclass that is not frozen; expected @dataclass(frozen=True)")
    hold(made.eq, f"{name} is a dataclass with eq=False; expected planners with the same parameters to be equal")
    left_out = set(inspect.get_annotations(kind)) - set(kind.__dataclass_fields__)  # type: ignore[attr-defined]
    hold(not left_out, f"{name} declares {listed(left_out)} but is no dataclass itself; expected @dataclass above it")
    for declared in (SOLVE, COST):
        _check_method(planner, declared)

    for constant, example in (("facets", '("tree",)'), ("REASONS", '("{client} moves to {to_broker}",)')):
        declared = f"{constant}: ClassVar[tuple[str, ...]] = {example}"
        value = getattr(kind, constant, None)
        hold(value is not None, f"{name} has no {constant}; expected such as {declared}")
        hold(
            constant not in {each.name for each in fields(kind)},  # type: ignore[arg-type]
            f"{name}.{constant} is a field, that is, a parameter; expected a constant of the class: {declared}",
        )
        right = isinstance(value, tuple) and all(isinstance(each, str) for each in value)
        hold(right, f"{name}.{constant} is {value!r}; expected a tuple of strings such as {example}")
    unknown = [each for each in kind.facets if each not in FACETS]
    hold(bool(kind.facets) and not unknown, f"{name}.facets is {kind.facets!r}; expected some of {', '.join(FACETS)}")


def _check_method(planner: Planner, declared: str) -> None:
    """The method is there and takes what it is called with."""
    name, method = type(planner).__name__, declared.split("(")[0]
    hold(callable(getattr(planner, method, None)), f"{name} has no method {method}; expected def {declared}")
    takes = inspect.signature(getattr(type(planner), method)).replace(return_annotation=inspect.Signature.empty)
    calls: list[tuple[tuple[None, ...], dict[str, None]]] = [((None, None, None), {})]  # self among them
    if method == "solve":
        calls += [((None, None), {}), ((None, None), {"seed": None, "progress": None})]
    for given, named in calls:
        try:
            takes.bind(*given, **named)
        except TypeError as error:
            raise Broken(f"{name} has {method}{takes} ({error}); expected {declared}") from None


def _check_parameters(planner: Planner) -> None:
    """Fields with defaults, of types that the command line and plan files know; the same again from them."""
    kind = type(planner)
    name = kind.__name__
    with calling(planner, "get_type_hints", "annotations whose names the module knows"):
        hints = get_type_hints(kind)
    for each in fields(kind):  # type: ignore[arg-type]
        value = getattr(planner, each.name, MISSING)
        hold(
            each.default is not MISSING or each.default_factory is not MISSING,
            f"{name}.{each.name} has no default; expected one for every field, so that {name}() is a planner",
        )
        hold(
            _is_plain(hints[each.name]),
            f"{name}.{each.name} is declared as {each.type}; expected bool, int, float, str, Literal, tuple[int, ...], "
            "or one of them | None",
        )
        hold(
            value.__hash__ is not None,
            f"{name}.{each.name} holds a {type(value).__name__}, which can change; expected a plain value or a tuple",
        )
    with calling(planner, f"{name}()", "a planner with the default of every field"):
        one, two = kind(), kind()
    hold(one == two, f"two planners with the same parameters differ: {one!r} and {two!r}; expected them to be equal")
    text = repr(planner)
    try:
        again = eval(text.replace(kind.__qualname__, name, 1), {name: kind})
    except Exception as error:
        raise Broken(
            f"its repr is {text}, which Python cannot read ({first_line(error)}); expected {name}(field=value, ...), "
            "as dataclass writes it"
        ) from None
    hold(again == planner, f"its repr does not make it again: {text} makes {again!r}")


def _is_plain(hint: object) -> bool:
    """Whether the command line can read a value of this type and a plan file keep it."""
    if get_origin(hint) in (Union, types.UnionType, tuple):
        return all(each in (type(None), Ellipsis) or _is_plain(each) for each in get_args(hint))
    return hint in (bool, int, float, str) or get_origin(hint) is Literal or (is_dataclass(hint) and hint is not None)


def _check_reasons(planner: Planner) -> None:
    """Templates that can be read, every place in them named."""
    for i, template in enumerate(planner.REASONS):
        try:
            places = places_in(template)
        except ValueError as error:
            raise Broken(
                f"REASONS[{i}] {template!r} cannot be read ({error}); expected places such as {{client}}"
            ) from None
        nameless = not all(place.isidentifier() for place in places)
        hold(not nameless, f"REASONS[{i}] {template!r} has a place without a name; expected such as {{client}}")


def _check_limits(planner: Planner) -> None:
    """Limits, where a planner has some, are lifted one by one; all other parameters stay as they are."""
    if not hasattr(planner, "limits"):
        return
    name, limits = type(planner).__name__, planner.limits
    right = isinstance(limits, tuple) and all(isinstance(each, str) for each in limits)
    hold(right, f"{name}.limits is {limits!r}; expected a tuple of names")
    for limit in limits:
        with calling(planner, f"relax({limit!r})", "the planner without that limit"):
            free = planner.relax(limit)
        hold(type(free) is type(planner), f"relax({limit!r}) made a {type(free).__name__}; expected a {name}")
        left = tuple(each for each in limits if each != limit)
        hold(free.limits == left, f"relax({limit!r}) left the limits {listed(free.limits)}; expected {listed(left)}")
    try:
        planner.relax("")
    except Unknown:
        return
    raise Broken(f"{name}.relax lifts a limit that is not there; expected Unknown")


def places_in(template: str) -> set[str]:
    """The arguments that a template names."""
    found = [name for _, name, _, _ in string.Formatter().parse(template) if name is not None]
    return {re.split(r"[.\[]", name)[0] for name in found}
