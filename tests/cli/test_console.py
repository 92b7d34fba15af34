"""Whatever a name holds, it does nothing to the terminal that shows it."""

import io
import json
import re
import sys
import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from rich.console import Console
from rich.table import Table
from rich.text import Text

from overlace.cli.console import HARMFUL, Harmless, Stages, answer, bar, err, shown, visible
from overlace.cli.plans import MOST_CHANGES, plan_lines
from overlace.planners.mesh.td_cd_oda import TdCdOda
from overlace.trace.plans import describe
from reproductions.workloads.uniform_interests import uniform_interests

COLOURS = re.compile(r"\x1b\[[0-9;]*m")
NASTY = "\x1b]0;title\x07\x1b[31mred\r\n\t\x7f\x85\x9b2J\u2028\u202eabc\u2066\udc80[bold]x[/red][link=http://x]y"
names = st.one_of(st.text(), st.text(st.sampled_from("\x1b[]\x07\n\r\\m/boldre=#@ \x9b\u202e")))


def written(*things):
    """What a terminal that knows colours is sent for these."""
    file = io.StringIO()
    console = Harmless(file=file, force_terminal=True, color_system="truecolor", width=300, soft_wrap=True)
    for each in things:
        console.print(each)
    return COLOURS.sub("", file.getvalue())


def steering(text):
    return {ord(each) for each in text} & HARMFUL - {ord("\n")}


@given(names)
@example(NASTY)
def test_a_name_stays_on_its_line_and_steers_nothing(name):
    for text in (f"[bold]{shown(name)}[/bold] is here", shown(name), name):
        said = written(text)
        assert not steering(said)
        assert said.count("\n") == 1


@given(names)
@example(NASTY)
def test_nor_does_it_in_tables_and_texts(name):
    table = Table("name", box=None)
    table.add_row(shown(name))
    table.add_row(name)
    assert not steering(written(table, Text(name)))


@given(st.text(st.characters(exclude_characters="\\")))
@example(NASTY)
def test_what_is_harmless_is_shown_as_it_is(name):
    assert written(f"name: {shown(name)}.") == f"name: {visible(name)}.\n"


@given(names, names)
@example(NASTY, NASTY)
def test_json_says_the_same_and_steers_nothing(key, name):
    before, sys.stdout = sys.stdout, io.StringIO()
    try:
        answer(True, {key: [name]})
        said = sys.stdout.getvalue()
    finally:
        sys.stdout = before
    assert json.loads(said) == {key: [name]}
    assert not steering(said)


def test_progress_is_as_careful(monkeypatch):
    file = io.StringIO()
    monkeypatch.setattr(err, "_file", file)
    monkeypatch.setattr(err, "_force_terminal", True)
    with bar("ingest") as progress:
        progress(0.5, NASTY)
        progress(0.6, "writing")
    assert "\\x1b]0;title" in file.getvalue()
    assert "\x07" not in file.getvalue()
    assert "\x9b" not in file.getvalue()
    assert "\u202e" not in file.getvalue()


def test_without_a_window_only_stages_of_some_seconds_leave_a_line(capsys, monkeypatch):
    now = [0.0]
    monkeypatch.setattr("overlace.cli.console.time.perf_counter", lambda: now[0])
    with bar("ingest") as progress:
        for share, text, passes in ((0.1, "starting", 1), (0.2, "reading: 5 rows", 12), (0.3, "reading: 9 rows", 3)):
            progress(share, text)
            now[0] += passes
        progress(0.9, "writing")
        now[0] += 1
    assert capsys.readouterr().err.splitlines() == [
        "ingest: reading, 9 rows, 12.0 s",
        "ingest: reading, 9 rows, 15.0 s",
    ]


@pytest.mark.parametrize("text", ["a\nb", "a\x1b[2Jb"])
def test_a_stage_is_one_line(text):
    stages = Stages("ingest")
    stages.enter(text)
    assert len(written(shown(stages.line())).splitlines()) == 1


def test_every_character_that_could_steer_a_terminal_is_shown_as_an_escape():
    """By what Unicode says of them: controls, separators of lines, halves of characters, turns of direction."""
    turns = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}
    for letter in map(chr, range(sys.maxunicode + 1)):
        harmful = unicodedata.category(letter) in ("Cc", "Cs", "Zl", "Zp") or unicodedata.bidirectional(letter) in turns
        assert (letter not in visible(letter)) == harmful, hex(ord(letter))


def test_a_step_of_many_changes_says_how_many_are_not_shown():
    observation = uniform_interests(12, 3, 2)
    document = describe(TdCdOda().solve(observation), "mesh.td-cd-oda", observation)
    console = Console(width=500, file=io.StringIO())
    for line in plan_lines(document):
        console.print(line)
    long = [len(step.changes) - MOST_CHANGES for step in document.steps if len(step.changes) > MOST_CHANGES]
    assert long
    assert all(
        f"... and {more} more change{'' if more == 1 else 's'} in this step" in console.file.getvalue() for more in long
    )
