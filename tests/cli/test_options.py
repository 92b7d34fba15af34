import inspect
from dataclasses import dataclass, field
from typing import ClassVar, Literal, get_type_hints

import pytest

from overlace.catalog import PLANNERS
from overlace.cli.options import ids_of, make_planner, parameters_of, type_name
from overlace.errors import BadParameter, Unknown

NAMES = {"client": ["plant-1", "plant-2", "hub"]}
COUNTS = {"client": 5}


@dataclass(frozen=True)
class Fancy:
    """One field of each kind."""

    effort: int = field(default=10, metadata={"help": "steps"})
    rehome: bool = False
    ties: Literal["lowest", "random"] = "lowest"
    cap: float | None = None
    keep: tuple[int, ...] = field(default=(), metadata={"help": "stay", "ids": "client"})
    sizes: tuple[int, ...] = (1, 2)
    facets: ClassVar[tuple[str, ...]] = ()


def test_each_field_is_an_option_with_its_default():
    found = {p.name: p for p in parameters_of(Fancy)}
    assert list(found) == ["effort", "rehome", "ties", "cap", "keep", "sizes"]
    assert all(p.kind is inspect.Parameter.KEYWORD_ONLY for p in found.values())
    assert all(p.default is None for p in found.values())  # not typed: the field's own default
    help_of = {name: p.annotation.__metadata__[0].help for name, p in found.items()}
    assert help_of["effort"] == "steps (default: 10)"
    assert not any("default" in help_of[name] for name in ("cap", "keep", "rehome"))


def test_what_is_typed_becomes_a_planner():
    given = {"effort": 3, "rehome": True, "ties": "random", "cap": None, "keep": ["plant-*", "4"], "sizes": ["7"]}
    made = make_planner(Fancy, given, NAMES, COUNTS)
    assert made == Fancy(3, True, "random", None, (0, 1, 4), (7,))
    assert make_planner(Fancy, {"keep": None, "sizes": ["1", "2"]}, NAMES, COUNTS) == Fancy()


@pytest.mark.parametrize(
    ("wanted", "ids"),
    [
        (["hub"], (2,)),
        (["plant-*"], (0, 1)),
        (["*"], (0, 1, 2, 3, 4)),
        (["1", "hub"], (1, 2)),
        (["c3"], (3,)),
        ([], ()),
    ],
)
def test_names_patterns_and_ids_stand_for_ids(wanted, ids):
    assert ids_of("client", wanted, NAMES, COUNTS) == ids


def test_a_name_that_nobody_has_is_answered_with_the_nearest():
    with pytest.raises(Unknown, match=r"no client is called 'plant3'\. Nearest: plant-"):
        ids_of("client", ["plant3"], NAMES, COUNTS)
    with pytest.raises(Unknown):
        ids_of("client", ["99"], NAMES, COUNTS)
    with pytest.raises(Unknown, match="no client is called '5'"):  # counted from 0
        ids_of("client", ["5"], NAMES, COUNTS)
    with pytest.raises(BadParameter, match="expected ints, found x"):
        make_planner(Fancy, {"sizes": ["x"]}, NAMES, COUNTS)


def test_types_are_written_as_people_write_them():
    hints = get_type_hints(Fancy)
    assert type_name(hints["ties"]) == "lowest | random"
    assert type_name(hints["cap"]) == "float | unlimited"
    assert type_name(hints["keep"]) == "ints"


def test_typer_takes_every_kind_of_field(capsys):
    """Through typer itself: repeated options, choices, on and off, unlimited."""
    import typer

    got = {}

    def command(**given):
        got.update(given)

    parameters = parameters_of(Fancy)
    command.__signature__ = inspect.Signature(parameters)
    command.__annotations__ = {p.name: p.annotation for p in parameters}
    app = typer.Typer(add_completion=False)
    app.command()(command)
    words = "--keep plant-1 --keep hub --rehome --ties random --cap 2.5 --sizes 4".split()
    app(words, standalone_mode=False)
    assert make_planner(Fancy, got, NAMES, COUNTS) == Fancy(10, True, "random", 2.5, (0, 2), (4,))
    app(["--cap", "unlimited"], standalone_mode=False)
    assert make_planner(Fancy, got, NAMES, COUNTS) == Fancy()
    app([], standalone_mode=False)
    assert make_planner(Fancy, got, NAMES, COUNTS) == Fancy()
    app(["--help"], standalone_mode=False)
    shown = capsys.readouterr().out
    assert "lowest|random" in shown
    assert "clients by name" in shown


def test_an_old_name_of_a_planner_s_field_works_until_it_goes():
    kind = PLANNERS["channels.k-means"]
    assert make_planner(kind, {"limits": "ignore"}, {}, {}) == kind(connections="ignore")
    assert make_planner(kind, {"connections": "keep", "limits": "ignore"}, {}, {}) == kind()
