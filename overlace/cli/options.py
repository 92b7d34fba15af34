"""Fields of dataclasses as command-line options, and what people type back into them.

`options_from(Limits, Goal)` gives a command an option for every field of these classes, and the command gets them made:
help, default and range stand at the field, and nowhere else. Planners and workloads get theirs the same way. A field
that holds ids (`ids="client"`) takes names and patterns instead: `--keep 'plant-*' --keep hub1`.
"""

from __future__ import annotations

import dataclasses
import inspect
import tomllib
import types
from collections import abc
from collections.abc import Callable, Container, Mapping, Sequence
from datetime import date
from datetime import time as clock
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Union, get_args, get_origin, get_type_hints

import typer

from overlace.cli.console import err, shown
from overlace.errors import BadParameter, Unknown
from overlace.limits import Split, as_flag, make_options, range_of, rename_old, without_none

if TYPE_CHECKING:
    from overlace.model import Names, Planner

UNLIMITED = "unlimited"
CONFIG = Path("overlace.toml")
Config = Annotated[
    Path | None, typer.Option(help=f"limits as TOML (default: {CONFIG}, if it is there); what is typed comes first")
]


def options_from(
    *classes: type[Any], config: bool = False, only: Sequence[str] = ()
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """A command whose parameters of these classes are made from options, one for each field.

    With `config`, what is not typed may come from a TOML file; `only` some of the fields may be options.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        own = inspect.signature(command, eval_str=True).parameters.values()
        slots = {each.annotation: each.name for each in own if each.annotation in classes}
        panels = {each: getattr(each, "PANEL", each.__name__) for each in classes if len(classes) > 1}
        flags = [flag for each in classes for flag in parameters_of(each, panels.get(each), only)]

        def run(**typed: Any) -> None:
            given = {each.name: value for each in flags if (value := typed.pop(each.name, None)) not in (None, [])}
            path = typed.pop("config", None)
            file = path or (CONFIG if config and CONFIG.exists() else None)
            made, notes = read_options(classes, file, read_typed(classes, {each.name for each in flags}, given))
            for note in notes:
                err.print(f"[yellow]note:[/yellow] {shown(note)}")
            command(**typed, **{slots[type(each)]: each for each in made})

        extra = [_keyword("config", Config)] if config else []
        kept = [each.replace(kind=KEYWORD) for each in own if each.annotation not in classes]
        first = [each for each in kept if each.default is inspect.Parameter.empty]
        rest = [each for each in kept if each.default is not inspect.Parameter.empty]
        return with_parameters(run, [*first, *extra, *flags, *rest], command)

    return decorate


KEYWORD = inspect.Parameter.KEYWORD_ONLY


def _keyword(name: str, annotation: Any, default: Any = None) -> inspect.Parameter:
    return inspect.Parameter(name, KEYWORD, default=default, annotation=annotation)


def with_parameters(
    function: Callable[..., None], parameters: Sequence[inspect.Parameter], like: Any = None
) -> Callable[..., None]:
    """A function as typer sees it: with these parameters, and the name and help of another."""
    function.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    function.__annotations__ = {each.name: each.annotation for each in parameters}
    function.__doc__ = inspect.getdoc(like)
    function.__name__ = getattr(like, "__name__", function.__name__)
    return function


def read_typed(classes: Sequence[type[Any]], flags: Container[str], typed: Mapping[str, Any]) -> dict[str, Any]:
    """What people typed, as values; a flag that they left out may have another default than its field."""
    values = dict(typed)
    for each in (field for kind in classes for field in dataclasses.fields(kind)):
        read = each.metadata.get("read")
        word = values.get(each.name, each.metadata.get("typed"))
        if read and word is not None and each.name in flags:
            values[each.name] = read(word)
    return values


def read_options(
    classes: Sequence[type[Any]], path: Path | None, typed: Mapping[str, Any]
) -> tuple[list[Any], list[str]]:
    """(an instance of each class, notes) from a TOML file, if there is one, with what was typed on top."""
    document: dict[str, Any] = {}
    notes: list[str] = []
    if path is not None:
        try:
            document, notes = rename_old(classes, read_toml(path))
            document = plain_values(classes, document)
            make_options(classes, document, str(path))  # what is wrong in the file is wrong anyway
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, BadParameter) as error:
            raise BadParameter(f"{path}: {error}") from None
    given, more = rename_old(classes, typed)
    if given.keys() & Split.EITHER:  # what was typed takes the place of either
        document = {key: value for key, value in document.items() if key not in Split.EITHER}
    try:
        return make_options(classes, {**document, **plain_values(classes, given)}), [*notes, *more]
    except BadParameter as error:
        name, said, rest = str(error).partition(" is ")
        raise BadParameter(f"{as_flag(name)}{said}{rest}" if said and name in given else str(error)) from None


def read_toml(path: Path) -> dict[str, Any]:
    """What a TOML file says; a date is the text of it."""
    document = tomllib.loads(path.read_text(encoding="utf-8"))
    return {key: value.isoformat() if isinstance(value, date | clock) else value for key, value in document.items()}


def plain_values(classes: Sequence[type[Any]], document: Mapping[str, Any]) -> dict[str, Any]:
    """Values as fields take them: of a number that may be None, unlimited is."""
    hints = {name: hint for each in classes for name, hint in get_type_hints(each).items()}
    may = {name for name, hint in hints.items() if without_none(hint) in ((int, True), (float, True))}
    unlimited = {key for key, value in document.items() if isinstance(value, str) and value == UNLIMITED and key in may}
    return {key: None if key in unlimited else value for key, value in document.items()}


def parameters_of(kind: type[Any], panel: str | None = None, only: Sequence[str] = ()) -> list[inspect.Parameter]:
    """One keyword parameter a field, annotated for typer; what is not typed is None, and help says the default."""
    hints = get_type_hints(kind)
    found = []
    for field in dataclasses.fields(kind):
        if field.metadata.get("hidden") or (only and field.name not in only):
            continue
        annotation = _annotation(field, hints[field.name], panel)
        found.append(_keyword(field.name, annotation))
        if old := field.metadata.get("formerly"):
            hidden = typer.Option(as_flag(old), hidden=True)
            found.append(_keyword(old, Annotated[get_args(annotation)[0], hidden]))
    return found


def _annotation(field: dataclasses.Field[Any], hint: Any, panel: str | None) -> Any:
    """A field's type and option for typer."""
    (kind, optional), about, default = without_none(hint), field.metadata, field.default
    text, flag = about.get("help", ""), about.get("flag", as_flag(field.name))
    text += f"; {limits}" if (limits := range_of(about)) else ""
    names, parser, metavar = [flag], None, about.get("metavar")
    if "read" in about:
        kind = list[str] if get_origin(kind) in (tuple, abc.Mapping) else str
    elif get_origin(kind) is tuple:
        kind, metavar = list[str], metavar or "NAME"
        several = "may be given several times"
        text += f" ({about['ids']}s by name, pattern or id; {several})" if "ids" in about else f" ({several})"
    elif kind is bool:
        names = [f"{flag}/--no-{flag[2:]}"]
    elif optional and kind in (int, float):
        parser, metavar = _or_unlimited(kind), f"{kind.__name__}|{UNLIMITED}"
    if "read" in about:
        pass  # what people type is not the value
    elif default is True:
        text += f" (default: {flag})"
    elif default not in (None, (), dataclasses.MISSING) and default is not False:
        text += f" (default: {default:g})" if isinstance(default, float) else f" (default: {default})"
    option = typer.Option(*names, help=text, show_default=False, parser=parser, metavar=metavar, rich_help_panel=panel)
    return Annotated[Any if parser else kind | None, option]


def _or_unlimited(kind: Any) -> Callable[[str], Any]:
    """What people type for a field that may be unlimited."""

    def parse(text: str) -> Any:
        if text == UNLIMITED:
            return text
        try:
            return kind(text)
        except ValueError:
            raise typer.BadParameter(f"{text!r}: expected {kind.__name__} or {UNLIMITED}") from None

    return parse


def make_planner(planner: type[Planner], given: Mapping[str, Any], names: Names, counts: Mapping[str, int]) -> Planner:
    """The planner with these options; names and patterns become ids. What is None was not typed."""
    hints = get_type_hints(planner)
    values = {}
    for field in dataclasses.fields(planner):  # type: ignore[arg-type]
        value = given.get(field.name)
        if value is None:
            value = given.get(field.metadata.get("formerly", ""))
        if value is None:
            continue
        hint, _ = without_none(hints[field.name])
        if get_origin(hint) is tuple:
            kind = field.metadata.get("ids")
            value = ids_of(kind, value, names, counts) if kind else _plain(hint, value)
        values[field.name] = None if isinstance(value, str) and value == UNLIMITED else value
    return planner(**values)


def ids_of(kind: str, wanted: Sequence[str], names: Names, counts: Mapping[str, int]) -> tuple[int, ...]:
    """The ids that names, patterns (`plant-*`) or plain ids stand for, ascending."""
    from overlace.model import name_of

    known = [name_of(kind, i, names) for i in range(counts.get(kind, len(names.get(kind, ()))))]
    place = {name: i for i, name in enumerate(known)}
    found: set[int] = set()
    for each in wanted:
        if each in place:
            found.add(place[each])
        elif each.isdigit() and int(each) < len(known):
            found.add(int(each))
        else:
            matches = [i for i, name in enumerate(known) if fnmatchcase(name, each)]
            if not matches:
                raise Unknown(kind, each, known)
            found.update(matches)
    return tuple(sorted(found))


def _plain(hint: Any, values: Sequence[str]) -> tuple[Any, ...]:
    element = get_args(hint)[0]
    try:
        return tuple(element(value) for value in values)
    except ValueError:
        raise BadParameter(f"expected {element.__name__}s, found {' '.join(values)}") from None


def type_name(hint: Any) -> str:
    """A field's type as people write it."""
    if get_origin(hint) in (Union, types.UnionType):
        return " | ".join(type_name(each) for each in get_args(hint) if each is not type(None)) + " | unlimited"
    if get_origin(hint) is tuple:
        return f"{get_args(hint)[0].__name__}s"
    if get_args(hint):
        return " | ".join(map(str, get_args(hint)))
    return str(hint.__name__)
