"""Formats that are data: each is detected by its sample, read as plain Python reads it, refused where it does not fit.

A format is one file of overlace/ingest/presets; these tests list the folder.
"""

import contextlib
import json
import re
import shlex
import tomllib
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import pytest

import overlace.ingest.presets
from overlace.errors import BadTrace
from overlace.ingest.formats import NAMES
from overlace.ingest.options import Options
from overlace.ingest.sources import guess, look
from overlace.trace.store import Trace
from tests.engine import ingest_sources, sail
from tests.ingest.test_together import messages

FOLDER = Path(overlace.ingest.presets.__path__[0])
PRESETS = {path.stem: tomllib.loads(path.read_text()) for path in sorted(FOLDER.glob("*.toml"))}
EVERY = pytest.mark.parametrize("name", PRESETS)


@pytest.fixture(autouse=True)
def alone(tmp_path, monkeypatch):
    """Each test in a folder of its own, with the samples."""
    monkeypatch.chdir(tmp_path)
    for name, preset in PRESETS.items():
        Path(f"{name}.log").write_text(preset["sample"].removeprefix("\n"))


def reach(row, path):
    """The member at a path; none where nothing is."""
    for part in path.split("."):
        row = row.get(part) if isinstance(row, dict) else None
    return row


def plain_rows(preset):
    """(time, client, topic, receivers) of the messages in a sample, by plain Python."""
    for line in preset["sample"].splitlines():
        if preset["lines"] == "json":
            row = json.loads(line) if line else {}
        else:
            found = re.search(preset["pattern"], line)
            row = found.groupdict() if found else {}
        listed = {field: [each] if isinstance(each, str) else each for field, each in preset["map"].items()}
        values = {
            field: next((v for each in columns if (v := reach(row, each)) is not None), None)
            for field, columns in listed.items()
        }
        wanted = True
        for each in preset.get("where", ()):
            column, mark, value = re.fullmatch(r"([^=!]+)(!?=)(.*)", each).groups()
            cell = reach(row, column)
            wanted &= (("" if cell is None else cell) == value) == (mark == "=")
        if row and wanted:
            at = values["at"]
            if isinstance(at, int):
                when = at * (1_000_000 if at < 1e11 else 1000)
            else:
                whole, parts = re.fullmatch(r"(.{19})[.,](\d+).*", at).groups()
                second = datetime.fromisoformat(whole).replace(tzinfo=UTC)
                when = int(second.timestamp()) * 1_000_000 + int(parts[:6].ljust(6, "0"))
            receivers = values.get("receivers")
            heard = tuple(sorted(receivers)) if isinstance(receivers, list) else None
            yield when, values["client"], values["topic"], heard


@EVERY
def test_a_preset_says_where_it_comes_from_and_stands_in_the_list_of_formats(name):
    preset = PRESETS[name]
    assert name in NAMES
    assert preset["written"].startswith(("from the documentation", "from the source"))
    assert preset["source"].startswith("https://")


@EVERY
def test_it_is_detected_by_its_sample_and_by_that_of_no_other(name):
    for other, preset in PRESETS.items():
        assert (guess(preset["sample"].lstrip("\n").encode()[:4096]) == name) == (other == name)


@EVERY
@pytest.mark.parametrize("named", [False, True])
def test_its_rows_are_what_plain_python_reads(name, named):
    done = ingest_sources([f"{name}.log"], "trace", Options(format=name if named else None, bucket="minute"))
    (account,) = done.accounts
    assert account.format == name
    assert account.bad == 0
    expected = Counter(plain_rows(PRESETS[name]))
    assert sum(expected.values()) >= 3
    found = Counter()
    for (when, client, topic, _, _, heard, _), count in messages(done.trace).items():
        found[when, client, topic, heard] += count
    assert found == expected
    assert account.kept == sum(expected.values())


@EVERY
def test_peek_names_it_and_its_command_works(overlace, monkeypatch, name):
    monkeypatch.setattr("overlace.cli.logs.session", lambda **_: contextlib.nullcontext(sail()))
    code, out, _ = overlace("peek", f"{name}.log", "--json")
    seen = json.loads(out)
    assert (code, seen["format"]) == (0, name)
    (command,) = seen["commands"]
    code, out, err = overlace(*shlex.split(command["command"])[1:], "--json")
    assert code == 0, err
    (source,) = json.loads(out)["sources"]
    assert source["kept"] == command["counts"]["messages"] == sum(1 for _ in plain_rows(PRESETS[name]))
    assert Trace.open("trace").rows("messages") == source["kept"]


@EVERY
def test_a_file_of_something_else_is_refused_in_a_line(name):
    Path("other.log").write_text("at,client\n2026-11-16,a\n")
    with pytest.raises(BadTrace, match=f"no line looks like the format {name}") as found:
        look("other.log", Options(format=name))
    assert "\n" not in str(found.value)


def test_what_is_asked_for_comes_before_what_the_preset_says():
    text = PRESETS["rabbitmq-tracing"]["sample"]
    Path("x.log").write_text(text.lstrip("\n"))
    chosen = Options(map={"client": "user"}, where=("type=received",), bucket="minute")
    done = ingest_sources(["x.log"], "trace", chosen)
    assert [row[1] for row in messages(done.trace)] == ["billing"]


def test_a_log_of_a_preset_that_has_grown_is_read_on():
    """Only new bytes are read, by what was settled before."""
    lines = PRESETS["hivemq"]["sample"].lstrip("\n").splitlines(keepends=True)
    Path("grown.log").write_text("".join(lines[:4]))
    ingest_sources(["grown.log"], "trace", Options(bucket="minute"))
    Path("grown.log").write_text("".join(lines))
    done = ingest_sources(["grown.log"], "trace")
    assert [account.lines for account in done.accounts] == [len(lines) - 4]
    whole = ingest_sources(["hivemq.log"], "whole", Options(bucket="minute"))
    assert messages(done.trace) == messages(whole.trace)
