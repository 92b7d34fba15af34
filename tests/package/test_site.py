"""The documentation: what pages type exists, links lead where they did, outputs are what commands print."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from overlace.demo import MESSAGES
from overlace.workloads.logs import write_logs, write_tables
from overlace.workloads.sites import Sites
from reproductions.cc12.mail import logs_folder

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
import gallery  # noqa: E402
import outputs  # noqa: E402
import reference  # noqa: E402
import site_hook  # noqa: E402

PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")])


def tree(command=reference.ROOT, path=()):
    yield path, command
    for name, below in reference.children(command).items():
        yield from tree(below, (*path, name))


COMMANDS = list(tree())


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_what_a_page_types_exists(page):
    assert reference.check_commands(page.read_text()) == []


def test_whatever_exists_may_be_typed_and_a_letter_more_is_noticed():
    """Every command and every option, in a block, in a sentence and in a table of two columns."""
    assert len(COMMANDS) > 50
    for path, command in COMMANDS[1:]:
        line = " ".join(["overlace", *path])
        for flag in sorted(each for each in reference.flags_of(command) if each.startswith("--")):
            for text in (
                f"```\n$ {line} {flag} x\n```\n",
                f"so `{line} {flag}=x` does",
                f"```sh\n{line} {flag}   text\n```",
            ):
                assert reference.check_commands(text) == []
            assert reference.check_commands(f"`{line} {flag}-q`") == [f"{line} has no option {flag}-q"]
            assert reference.check_commands(f"with `{flag}`") == []
        if not reference.children(command):
            above = " ".join(["overlace", *path[:-1]])
            assert reference.check_commands(f"`{line}q now`") == [f"{above} has no command {path[-1] + 'q'!r}"]
    assert reference.check_commands("`--no-such-flag` is none") == ["no command has --no-such-flag"]


def test_words_after_a_command_are_none_of_its_own():
    fine = "overlace ingest a.csv --out t | tee log --append; overlace observe t --out r && x --y  # --z"
    assert reference.check_commands(f"```\n{fine}\n```") == []
    assert reference.check_commands("`from overlace import Plan`, `overlace.toml`, `overlace solve PLANNER RUN`") == []


@pytest.fixture(scope="module")
def pages():
    return reference.pages()


def test_the_reference_lists_every_command_option_planner_metric_and_table(pages):
    for path, command in COMMANDS[1:]:
        if path[0] == "solve" and len(path) == 2:
            assert f"## {path[1]}\n" in pages["reference/planners.md"]
            continue
        text = pages[f"reference/commands/{path[0]}.md"]
        assert re.search(rf"^#+ overlace {' '.join(path)}$", text, re.MULTILINE)
        for each in command.params if path[0] != "solve" else ():
            assert getattr(each, "hidden", False) or each.opts[0].startswith("-") <= (f"`{each.opts[0]}`" in text)
    for words, column, name in (("metrics", "metric", "metrics"), ("planners", "planner", "planners")):
        assert all(row[column] in pages[f"reference/{name}.md"] for row in reference.answer_of(words))
    assert "## trace: traffic" in pages["reference/tables.md"]


def test_what_the_package_exports_is_on_the_page_of_python(pages):
    import overlace

    text = pages["reference/python.md"]
    for name in set(overlace.__all__) - {"PLANNERS"}:
        assert re.search(rf"^::: overlace\..*\b{name}$", text, re.MULTILINE), name


# --- links -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_link_leads_to_the_same_page_in_the_site(page):
    """What a link of the repository leads to has a place; from the page's own place the turned link leads there."""
    source = page.relative_to(ROOT).as_posix()
    place = site_hook.place_of(source)
    before = [found for found in links(page.read_text()) if site_hook.place_of(resolved(source, found))]
    after = [
        found for found in links(site_hook.turned(page.read_text(), source, place)) if not found.startswith("gallery/")
    ]
    assert [resolved(place, each) for each in after] == [site_hook.place_of(resolved(source, each)) for each in before]
    assert place is not None


def links(text):
    found = [link for _, _, link in site_hook.CODE_OR_LINK.findall(text)]
    return [link for link in found if link and not re.match(r"[a-z]+:|#", link)]


def resolved(page, link):
    return site_hook.posixpath.normpath(
        site_hook.posixpath.join(site_hook.posixpath.dirname(page), link.partition("#")[0])
    )


def test_a_link_to_code_shows_its_text_alone_and_code_is_left_as_it_is():
    text = "[`catalog`](../overlace/catalog.py) [page](live.md#clients) `[x](gone.py)` [web](https://x.org) [up](#here)"
    assert site_hook.turned(text, "docs/a.md", "a.md") == (
        "`catalog` [page](live.md#clients) `[x](gone.py)` [web](https://x.org) [up](#here)"
    )
    assert site_hook.turned("[b](../benchmarks/core.md)", "docs/papers/a.md", "papers/a.md") == "b"
    assert site_hook.turned("[b](../../benchmarks/core.md)", "docs/papers/a.md", "papers/a.md") == (
        "[b](../benchmarks/core.md)"
    )
    assert site_hook.turned("[s](docs/start.md)", "README.md", "index.md") == "[s](start.md)"


def test_what_a_page_would_fetch_from_elsewhere_is_noticed():
    for tag in (
        '<script src="https://x.org/a.js">',
        '<link rel="s" href="//x.org/a.css">',
        "<img alt='' src=https://x.org/p>",
    ):
        assert site_hook.FETCHED.search(tag)
    for tag in ('<a href="https://x.org">', '<script src="assets/a.js">', '<img src="data:image/png;base64,//">'):
        assert not site_hook.FETCHED.search(tag)


@pytest.mark.long
@pytest.mark.parametrize(
    ("planted", "said"),
    [
        ("[gone](nowhere.md)", "nowhere.md"),
        ("[gone](live.md#no-such-part)", "no-such-part"),
        ('<img alt="" src="https://x.org/p.png">', "fetches"),
        ("`overlace ingest --no-such`", "overlace ingest has no option --no-such"),
    ],
)
def test_a_build_fails_for_what_is_wrong_in_a_page(planted, said, tmp_path):
    for each in ("docs", "scripts", "benchmarks", "reproductions", "overlace"):
        shutil.copytree(ROOT / each, tmp_path / each, ignore=shutil.ignore_patterns("__pycache__"))
    for each in ("mkdocs.yml", *site_hook.SINGLE):
        shutil.copy(ROOT / each, tmp_path)
    with (tmp_path / "docs/faq.md").open("a") as page:
        page.write(f"\n{planted}\n")
    run = [sys.executable, "-m", "mkdocs", "build"]
    done = subprocess.run(run, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert said in done.stdout + done.stderr


# --- outputs -------------------------------------------------------------------------------------------------

LINES = st.lists(
    st.text("abc .*(\\", max_size=6).map(str.rstrip).filter(lambda line: not line.endswith("...")), max_size=6
)


@given(LINES, st.integers(0, 3), st.integers(0, 3))
def test_what_is_cut_agrees_with_what_was_printed_and_another_line_does_not(printed, first, last):
    like = [*["x"] * first, outputs.GAP, *["x"] * last]
    shown = outputs.cut(printed, like)
    assert outputs.agrees(shown, printed)
    assert outputs.agrees(outputs.cut(printed, ["x"]), printed)
    assert not outputs.agrees(["other", *printed], printed)
    if shown and shown[0] != outputs.GAP:
        assert not outputs.agrees(["other", *shown[1:]], printed)


def test_a_page_is_written_anew_with_what_is_printed(tmp_path):
    page = tmp_path / "a.md"
    page.write_text("Text\n\n```\n$ echo one; echo two\none\n$ echo a b\na...\n```\n")
    assert outputs.check(page, tmp_path) == ["$ echo one; echo two\none\ntwo"]
    assert outputs.check(page, tmp_path, only="a b") == []
    outputs.check(page, tmp_path, write=True)
    assert page.read_text() == "Text\n\n```\n$ echo one; echo two\none\ntwo\n$ echo a b\na...\n```\n"
    assert outputs.check(page, tmp_path) == []


# --- the first pages -------------------------------------------------------------------------------------------


def test_the_readme_is_short_and_shows_five_commands_with_their_answers():
    text = (ROOT / "README.md").read_text()
    assert text.count("\n") < 120
    shown = list(outputs.commands_of(text))
    assert [each.command.split()[:2] for each in shown] == [
        ["overlace", verb] for verb in ("peek", "ingest", "ingest", "optimize", "plan")
    ]
    assert all(len(each.output) > 0 for each in shown)
    assert text.index("make demo") < text.index("![") < text.index("$ overlace peek") < text.index("| brokers |")
    assert text.index("| brokers |") < text.index("## What it is not for")


def test_every_report_of_the_gallery_has_its_commands():
    linked = re.findall(r"\(gallery/([\w-]+)\.html\)", (ROOT / "docs/gallery.md").read_text())
    assert list(gallery.sections()) == linked
    for commands in gallery.sections().values():
        assert "--out run" in commands


def test_the_example_for_spark_runs(sail, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (example,) = re.findall(
        r"^```python\n(.*?)^```", (ROOT / "docs/start-spark.md").read_text(), re.DOTALL | re.MULTILINE
    )
    exec(compile(example, "start-spark.md", "exec"), {"spark": sail})
    out = capsys.readouterr().out
    assert "1000 rows kept" in out
    assert "press-" in out


def test_what_start_shows_of_peek_is_what_it_prints(tmp_path):
    mail = ROOT / logs_folder() / "email-Eu-core-temporal.txt.gz"
    if not mail.exists():
        pytest.skip(f"no {mail}: set OVERLACE_DATA to the folder of the public logs")
    (tmp_path / "mail.txt.gz").symlink_to(mail.resolve())
    assert outputs.check(ROOT / "docs/start.md", tmp_path, only="peek") == []


@pytest.mark.long
def test_what_the_readme_shows_is_what_the_commands_print(tmp_path):
    """`python scripts/outputs.py README.md FOLDER --write` puts in what they print now."""
    workload = Sites(messages=MESSAGES, seed=0)
    write_logs(workload, tmp_path / "demo-run/logs")
    write_tables(workload, tmp_path / "demo-run/tables")
    assert outputs.check(ROOT / "README.md", tmp_path) == []
