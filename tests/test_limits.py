"""Options stand once: the fields of Limits and Goal are the command line, overlace.toml and the planners' fields."""

import ast
import dataclasses
import inspect
import pickle
from pathlib import Path
from typing import get_args, get_type_hints

import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st

from overlace.catalog import PLANNERS
from overlace.cli import options
from overlace.cli.logs import ingest_command
from overlace.cli.main_job import optimize_command
from overlace.cli.options import options_from, read_options
from overlace.errors import BadParameter, Unknown
from overlace.ingest.options import Options, TableOptions
from overlace.limits import Goal, Limits, PlannerLimits, Split, as_document, as_flag, check_options, make_options
from overlace.planners.joint.joint import Joint

PACKAGE = Path(inspect.getfile(Limits)).parent
OPTIONS = [each for kind in (Limits, Goal) for each in dataclasses.fields(kind)]
NUMBERS = [each for each in OPTIONS if {"least", "above", "most", "below"} & each.metadata.keys()]


def test_every_option_is_declared_in_one_place():
    """A field of a shared name stands once in the package; planners that have it too take that one."""
    found = {}
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                for line in node.body:
                    if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name) and line.value:
                        if not ast.unparse(line.value).startswith("option("):
                            continue
                        found.setdefault(line.target.id, []).append(f"{path.name}:{node.name}")
    for each in dataclasses.fields(PlannerLimits):
        if each.name in ("sent_cap", "handled_cap", "head_room", "max_cut", "min_step"):
            assert found[each.name] == ["limits.py:PlannerLimits"], each.name
    for name in ("allow_link", "survive", "max_diameter", "train_until"):
        assert found[name] == [f"limits.py:{'Split' if name.startswith('train') else 'Limits'}"], name


def test_the_command_has_an_option_for_every_field_and_no_other_list_of_them():
    parameters = inspect.signature(optimize_command).parameters
    assert {each.name for each in OPTIONS} <= parameters.keys()
    for each in OPTIONS:
        assert each.metadata["help"] in parameters[each.name].annotation.__metadata__[0].help


def test_every_option_of_logs_is_an_option_of_ingest_with_its_help():
    parameters = inspect.signature(ingest_command).parameters
    for each in (field for kind in (Options, TableOptions) for field in dataclasses.fields(kind)):
        if not each.metadata.get("hidden"):
            assert each.metadata["help"] in parameters[each.name].annotation.__metadata__[0].help


def test_an_option_that_is_added_reaches_the_command_and_the_file(tmp_path, monkeypatch):
    """One line and its use."""

    @dataclasses.dataclass(frozen=True)
    class More(Limits):
        colour: int = dataclasses.field(default=1, metadata={"help": "a new one", "least": 0})

    got = []

    @options_from(More, Goal, config=True)
    def command(limits: More, goal: Goal) -> None:
        got.append((limits, goal))

    app = typer.Typer(add_completion=False)
    app.command()(command)
    monkeypatch.chdir(tmp_path)
    Path("overlace.toml").write_text("colour = 5\nbudget = 3\n")
    app(["--budget", "4", "--objective", "hops"], standalone_mode=False)
    assert got == [(More(colour=5, budget=4), Goal(objective="hops"))]
    with pytest.raises(BadParameter, match="colour is -1; expected a whole number of 0 or more"):
        app(["--colour", "-1"], standalone_mode=False)


@pytest.mark.parametrize("each", NUMBERS, ids=lambda each: each.name)
def test_a_number_out_of_range_is_refused_with_the_range(each):
    kind = next(kind for kind in (Limits, Goal) if each in dataclasses.fields(kind))
    whole = "int" in str(get_type_hints(kind)[each.name])
    wrong = [float("nan"), float("inf"), "a lot", True, [1]]
    wrong += [each.metadata[name] - 1 for name in ("least", "above") if name in each.metadata]
    wrong += [each.metadata["most"] + 1] if "most" in each.metadata else []
    wrong += [each.metadata[name] for name in ("above", "below") if name in each.metadata]
    wrong += [0.5] if whole else []
    for value in wrong:
        with pytest.raises(BadParameter, match=f"{each.name} is .*; expected a (whole )?number"):
            kind(**{each.name: value})
    for name in ("least", "most"):
        if name in each.metadata:
            assert getattr(kind(**{each.name: each.metadata[name]}), each.name) == each.metadata[name]


OF_JOINT = {each.name for each in dataclasses.fields(Joint)}


@pytest.mark.parametrize("each", [each for each in NUMBERS if each.name in OF_JOINT], ids=lambda each: each.name)
def test_planners_refuse_what_users_may_not_ask_for(each):
    low = each.metadata.get("least", each.metadata.get("above", 0)) - 1
    with pytest.raises(BadParameter, match=each.name):
        Joint(**{each.name: low})


def test_choices_and_lists_are_checked():
    for kind, wrong in ((Goal, {"objective": "costs"}), (Limits, {"placement": "home"}), (Limits, {"keep": "a"})):
        with pytest.raises(BadParameter, match=f'{next(iter(wrong))} is ".*"; expected (one of|a list of names)'):
            kind(**wrong)
    with pytest.raises(BadParameter, match="keep is"):
        Limits(keep=(1,))


def test_none_is_taken_only_where_a_field_may_be_none():
    """A law over every field of every planner and of the user's options."""
    for kind in (Limits, Goal, *PLANNERS.values()):
        hints = get_type_hints(kind)
        for each in dataclasses.fields(kind):
            if each.metadata and type(None) not in get_args(hints[each.name]):
                with pytest.raises(BadParameter, match=f"{each.name} is null; expected"):
                    kind(**{each.name: None})


def test_numbers_fit_into_eight_bytes_and_ids_are_none_below_zero():
    for kind in (Goal, *PLANNERS.values()):
        for each in dataclasses.fields(kind):
            if isinstance(each.default, int) and not isinstance(each.default, bool) and each.metadata:
                with pytest.raises(BadParameter, match=each.name):
                    kind(**{each.name: 2**63})
            for wrong in ((1.5,), (True,), (-1,), [1]) if "ids" in each.metadata else ():
                with pytest.raises(BadParameter, match=f"{each.name} is .*; expected a list of numbers, from 0"):
                    kind(**{each.name: wrong})


def test_what_is_wrong_is_called_as_it_was_given(tmp_path):
    file = tmp_path / "overlace.toml"
    for text, says in (("budget = -1", "budget is -1; expected"), ("train_until = 08:00:00", "train_until"),
                       ("objective = 'unlimited'", "objective is \"unlimited\"; expected one of"),
                       ("keep = 'unlimited'", "keep is \"unlimited\"; expected a list"),
                       ("min_gain = 'unlimited'", "min_gain is \"unlimited\"; expected a number"),
                       ("survive = true", "survive is true; expected a whole number")):  # fmt: skip
        file.write_text(text + "\n")
        if text.startswith("train"):
            assert read_options([Goal], file, {})[0][0].train_until == "08:00:00"  # refused where times are read
            continue
        with pytest.raises(BadParameter, match=f"overlace.toml: {says}"):
            read_options([Limits, Goal], file, {})
    with pytest.raises(BadParameter, match="^--budget is -1; expected a whole number of 0 or more"):
        read_options([Limits, Goal], None, {"budget": -1})


@pytest.mark.parametrize("wrong", [{"max_bad": 5}, {"max_bad": "10%"}, {"header": "no"}, {"group": "sender,at"},
                                   {"delimiter": ""}, {"identity": ""}, {"map": ["a"]}])  # fmt: skip
def test_options_of_logs_are_checked_in_python_too(wrong):
    with pytest.raises(BadParameter, match=next(iter(wrong)).replace("_", "[-_]")):
        Options(**wrong)


def test_what_means_nothing_for_tables_is_refused():
    both, wired = {"both_ways": True}, {"wired": "mst"}
    for wrong in (
        {"table": "sessions", **both},
        {"topology": True, **both},
        {"table": "links", "topology": True},
        wired,
    ):
        with pytest.raises(BadParameter):
            TableOptions(**wrong)


def test_what_was_given_is_known_also_where_it_is_the_default():
    assert Limits(handled_cap=1.0).given == {"handled_cap"}
    assert Limits().given == frozenset()
    assert Limits(handled_cap=1.0) == Limits()
    copied = pickle.loads(pickle.dumps(Limits(budget=3)))
    assert (copied, copied.given) == (Limits(budget=3), {"budget"})
    assert Goal(0.5).given == {"train"}


def test_the_log_is_cut_in_one_place():
    for kind in (Split, Goal):
        with pytest.raises(BadParameter, match="give one of them"):
            kind(train=0.7, train_until="2026-01-01")
    with pytest.raises(BadParameter, match="train is 0"):
        Split(train=0)


def test_old_names_work_and_are_noted(tmp_path, monkeypatch, capsys):
    (limits, goal), notes = read_options([Limits, Goal], None, {"could_wire": ["a:b"], "seed": 3})
    assert (limits.allow_link, goal.seed) == (("a:b",), 3)
    (note,) = notes
    assert note.startswith("--could-wire (could_wire in overlace.toml) is called --allow-link now; the old name goes")
    with pytest.raises(BadParameter, match="the same option"):
        read_options([Limits], None, {"could_wire": ["a:b"], "allow_link": ["c:d"]})
    file = tmp_path / "overlace.toml"
    for written, typed in (("could_wire", "allow_link"), ("allow_link", "could_wire")):  # what is typed comes first
        file.write_text(f"{written} = ['c:d']\n")
        assert read_options([Limits], file, {typed: ["a:b"]})[0] == [Limits(allow_link=("a:b",))]
    got = []

    @options_from(Limits)
    def command(limits: Limits) -> None:
        got.append(limits)

    app = typer.Typer(add_completion=False)
    app.command()(command)
    told = []
    monkeypatch.setattr(options.err, "print", told.append)
    app(["--could-wire", "a:b"], standalone_mode=False)
    assert got == [Limits(allow_link=("a:b",))]
    assert "is called --allow-link now" in told[0]
    app(["--help"], standalone_mode=False)
    assert "could-wire" not in capsys.readouterr().out


def test_unlimited_may_be_typed_and_wins_over_a_file(tmp_path):
    file = tmp_path / "overlace.toml"
    file.write_text("budget = 5\nsent_cap = 'unlimited'\n")
    (limits,), _ = read_options([Limits], file, {"budget": "unlimited"})
    assert (limits.budget, limits.sent_cap) == (None, None)
    assert limits.given == {"budget", "sent_cap"}


@given(st.dictionaries(st.text(max_size=12), st.one_of(st.none(), st.integers(), st.floats(), st.text(max_size=4))))
def test_any_document_is_taken_or_refused_in_a_line(document):
    try:
        limits, goal = make_options([Limits, Goal], document)
    except (BadParameter, Unknown):
        return
    check_options(limits)
    check_options(goal)


def test_what_is_written_down_can_be_read_again():
    limits, goal = Limits(budget=3, keep=("a", "b"), max_cut=0.5), Goal(objective="hops", seed=7)
    document = as_document(limits, goal)
    del document["train_until"]
    assert make_options([Limits, Goal], document) == [limits, goal]


def test_fields_of_one_name_and_meaning_have_one_help():
    """What joint shares with the user is said in the same words."""
    mine = {each.name: each for each in dataclasses.fields(Joint)}
    for each in dataclasses.fields(PlannerLimits):
        assert (mine[each.name].default, mine[each.name].metadata) == (each.default, each.metadata)
    assert as_flag("max_cut") == "--max-cut"
    assert all(hasattr(planner(), "facets") for planner in PLANNERS.values())
