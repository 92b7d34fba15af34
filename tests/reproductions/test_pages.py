"""A page follows from its rows, and no sentence on it holds a figure of ours that was typed by hand."""

import ast
import csv
import inspect
import re
import textwrap
from pathlib import Path

import pytest

import reproductions
from reproductions import ITEMS
from reproductions.pages import render
from reproductions.result import read_notes

ROOT = Path(reproductions.__file__).parent
ALL = [each for items in ITEMS.values() for each in items.values()]
NOTES = sorted(ROOT.glob("*/*.notes.md"))


@pytest.mark.parametrize("item", ALL, ids=lambda item: item.path)
def test_the_page_follows_from_its_rows(item):
    key, name = item.path.split("/")
    text, _ = render(key, name, ROOT)
    assert text == (ROOT / key / f"{name}.md").read_text()


def test_every_item_has_notes_and_every_notes_file_an_item():
    shared = {f"{key}/shared" for key in ITEMS}
    files = {str(path.relative_to(ROOT)).removesuffix(".notes.md") for path in NOTES}
    assert {each.template for each in ALL} <= files
    assert files <= {each.template for each in ALL} | shared


def numbers_in(text):
    """The words of a text that have digits, without the {names} and the punctuation around them."""
    bare = re.sub(r"\{\w+\}", " ", text.replace("{{", " ").replace("}}", " "))
    return {word.strip("().,;:`'-") for word in bare.split() if re.search(r"\d", word)}


@pytest.mark.parametrize("path", NOTES, ids=lambda path: path.parent.name + "/" + path.name)
def test_notes_declare_every_number_that_is_not_computed(path):
    """Parameters, the paper's own numbers and history; a figure of ours is a {name}."""
    declared = re.match(r"<!-- not ours: (.*?) -->", path.read_text(), re.DOTALL)
    notes = read_notes(str(path.relative_to(ROOT)).removesuffix(".notes.md"))
    allowed = set(declared[1].split()) if declared else set()
    assert set().union(*map(numbers_in, notes)) == allowed


def test_a_figure_of_ours_in_a_note_is_noticed():
    assert numbers_in("R8: with {seeds} seeds the rate at 14..15 is 0.37 (thesis: {printed}).") == {
        "R8",
        "14..15",
        "0.37",
    }


def functions_under(function, seen):
    """A function and those of reproductions that it calls."""
    function = inspect.unwrap(getattr(function, "func", function))
    if function not in seen:
        seen.add(function)
        codes = [function.__code__, *(c for c in function.__code__.co_consts if inspect.iscode(c))]
        for name in {name for code in codes for name in code.co_names}:
            called = function.__globals__.get(name)
            if inspect.isfunction(called) and called.__module__.startswith("reproductions"):
                functions_under(called, seen)
    return seen


def texts_in(source):
    """The texts in a function's source, without its docstrings and formats."""
    tree = ast.parse(textwrap.dedent(source))
    left_out = {
        id(each)
        for node in ast.walk(tree)
        if isinstance(node, ast.FormattedValue) and node.format_spec
        for each in ast.walk(node.format_spec)
    }
    left_out |= {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    return [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in left_out
    ]


def labels(key):
    """What the tables of a paper call their columns and rows."""
    found = set()
    for path in (ROOT / key).glob("*.csv"):
        for row in csv.reader(path.read_text().splitlines()):
            found |= set(row)
    return found


@pytest.mark.parametrize("item", ALL, ids=lambda item: item.path)
def test_what_fills_the_notes_has_no_number_in_its_words(item):
    for function in functions_under(item.figures, set()):
        texts = texts_in(inspect.getsource(function)) if function.__name__ != "<lambda>" else []
        typed = [text for text in texts if re.search(r"\d", text)]
        assert not set(typed) - labels(item.path.split("/")[0]), function.__name__


def test_a_number_in_the_words_of_a_figure_is_noticed():
    source = '''
    def _figures(measured, seeds):
        """Two of 3."""
        return {"rate": f"{measured:.2f} of 0.37"}
    '''
    assert [text for text in texts_in(source) if re.search(r"\d", text)] == [" of 0.37"]


def test_the_figures_in_the_overview_stand_on_the_pages_that_it_links():
    rows = [line for line in (ROOT / "README.md").read_text().splitlines() if ".md)" in line and line.startswith("|")]
    assert len(rows) > 20
    for row in rows:
        pages = [(ROOT / link).read_text() for link in re.findall(r"\]\(([\w./-]+\.md)\)", row)]
        state = row.rsplit("|", 2)[1]
        shown = set(re.findall(r"\d+(?:[.,]\d+)*", state))
        assert shown <= set(re.findall(r"\d+(?:[.,]\d+)*", " ".join(pages))), row
