"""The answer in twelve lines: short, of one figure, and every number of it in the JSON."""

import json
import re

import pytest

from overlace.cli.main_job import MOST_LINES, WIDE
from overlace.optimize.result import read_result
from overlace.optimize.words import label_of
from overlace.report.page import write_report
from overlace.trace.runs import write_json
from overlace.wording import amount, percent
from tests.optimize import test_dissemination as channels
from tests.optimize.test_optimize import NAMES, TABLES, log
from tests.optimize.test_python import meshed, routed
from tests.report.test_page import HOSTILE, Page
from tests.traces import trace_of

SMALL = ("--placement", "anywhere", "--effort", "0")


def with_access(path):
    """Where clients are is known, and what it costs to reach a broker: the objective has access in it."""
    places = {"client": range(16), "region": [i % 3 for i in range(16)]}
    access = {
        "region": [r for r in range(3) for _ in range(5)], "broker": list(range(5)) * 3, "latency_us": [1000] * 15,
        "cost": [1.0 if b // 2 == r else 4.0 for r in range(3) for b in range(5)],
    }  # fmt: skip
    trace_of(path, log(), NAMES, **TABLES, clients=places, access=access)


def with_long_names(path):
    names = {"broker": [*(f"{bad[:60]}-{i}" for i, bad in enumerate(HOSTILE[:5]))], "client": NAMES["client"]}
    trace_of(path, log(late=[0]), names, **TABLES)


RUNS = {
    "a budget": (routed, (*SMALL, "--budget", "5")),
    "access": (with_access, SMALL),
    "hops": (routed, (*SMALL, "--objective", "hops")),
    "latency": (routed, (*SMALL, "--objective", "latency")),
    "bytes": (routed, (*SMALL, "--objective", "bytes", "--max-moves", "3")),
    "nothing to gain": (routed, ("--budget", "0", "--effort", "0")),
    "a limit that cannot be kept": (routed, ("--max-cut", "0.05", "--effort", "0")),
    "many limits": (routed, (*SMALL, "--sent-cap", "1.5", "--max-degree", "4", "--keep", "c00", "--min-step", "0.001")),
    "nothing held out": (routed, (*SMALL, "--train", "1")),
    "long names and other traffic": (with_long_names, (*SMALL, "--max-cut", "0.9", "--sent-cap", "1.2")),
    "a mesh": (meshed, ()),
    "a mesh that cannot be": (meshed, ("--max-degree", "1")),
    "channels": (lambda path: channels.make_trace(path, channels.make_tables(2)), ("--train", "1", "--min-gain", "0")),
}


@pytest.fixture(params=RUNS, ids=[name.replace(" ", "-") for name in RUNS])
def answer(request, overlace, tmp_path):
    """(standard output in lines, JSON) of a run."""
    make, options = RUNS[request.param]
    make(tmp_path / "trace")
    code, out, _ = overlace("optimize", "trace", "--out", "run", *options)
    assert code in (0, 3)
    return out.splitlines(), json.loads((tmp_path / "run" / "answer.json").read_text())


def numbers_of(document):
    """All numbers of a document, as they may be written: in full, rounded, as a share; and those of its notes."""
    if isinstance(document, dict):
        worded = {"headline", "lines", "report"}
        return set().union(*(numbers_of(each) for name, each in document.items() if name not in worded))
    if isinstance(document, list | tuple):
        return set().union(*map(numbers_of, document))
    if isinstance(document, str):
        return set(re.findall(NUMBER, document))
    if isinstance(document, bool) or document is None:
        return set()
    share = abs(100 * document)
    forms = (amount(document), amount(document / 1000), f"{document:,}", f"{document:.2f}", f"{share:.1f}",
             f"{share:.0f}", f"{int(share + 1e-9)}")  # fmt: skip
    return set(re.findall(NUMBER, " ".join(forms)))


NUMBER = r"\d+(?:,\d{3})*(?:\.\d+)?(?:e[+-]\d+)?"


def test_it_has_twelve_lines_of_a_hundred_characters_and_every_number_is_in_the_json(answer):
    lines, document = answer
    assert 1 <= len(lines) <= MOST_LINES == 12
    assert len(lines) == len({*lines})
    assert [line for line in lines if len(line) > WIDE and "run/" not in line] == []
    known = numbers_of(document)
    said = " ".join(line for line in lines if not line.startswith("  report"))
    about = {"95th": "95"}  # the name of a figure
    assert [each for each in re.findall(NUMBER, said) if each not in known | {*about.values()}] == []
    notes = [line.split(maxsplit=1)[1] for line in lines if line.startswith("  note")]
    assert len(notes) == len({*notes})


def test_every_headline_is_of_the_objective_s_metric(answer, tmp_path):
    lines, document = answer
    found = read_result(tmp_path / "run")
    text = write_report(tmp_path / "run").read_text()
    page, first = Page(text), text[: text.index("</section>")]
    for i, part in enumerate(document["parts"]):
        label = label_of(part["metric"])
        assert label in part["headline"]
        if part["saved"]:
            assert f"{percent(part['saved']['share'])} {label}" in part["headline"]
        assert [line for line in lines if part["headline"] in line] or any(line.endswith("…") for line in lines)
        brings = part["headline"].partition(": ")[2].replace(" -> ", " → ")
        assert brings in first
        assert f'data-metric="{part["metric"]}"' in first
        if i == 0:
            assert next(iter(page.tiles.items())) == (
                label,
                [part["before"], part["after"]][-1 if "mesh" in part["plan"] else 0 :],
            )
            assert part["metric"] != "total_cost" or "traffic cost" not in page.tiles  # it is not a second figure
    assert [each.headline for each in found.verdicts] == [part["headline"] for part in document["parts"]]


def test_with_access_the_objective_and_so_the_headline_has_access_in_it(overlace, tmp_path):
    with_access(tmp_path / "trace")
    assert overlace("optimize", "trace", "--out", "run", *SMALL)[0] == 0
    (part,) = json.loads((tmp_path / "run" / "answer.json").read_text())["parts"]
    assert part["metric"] == "total_cost"


def test_notes_come_in_order_of_what_they_change_and_the_rest_with_verbose(overlace, tmp_path):
    with_long_names(tmp_path / "trace")
    options = (*SMALL, "--max-cut", "0.9", "--sent-cap", "1.2")
    _, short, _ = overlace("optimize", "trace", "--out", "run", *options)
    _, full, _ = overlace("optimize", "trace", "--out", "run", *options, "--force", "--verbose")
    notes = [line for line in full.splitlines() if line.startswith("note: ")]
    assert len(notes) > 1
    ranks = [0 if "on held-out traffic" in note else 2 if "could be new" in note else 1 for note in notes]
    assert ranks == sorted(ranks)
    assert ("--verbose" in short) == (len(full.splitlines()) > MOST_LINES)


def test_a_page_with_an_old_answer_is_written_too(overlace, tmp_path):
    """Without the keys that came later."""
    routed(tmp_path / "trace")
    overlace("optimize", "trace", "--out", "run", *SMALL)
    path = tmp_path / "run" / "answer.json"
    old = json.loads(path.read_text())
    for part in old["parts"]:
        for key in ("enough", "peak_reconnects", "held_out_share"):
            del part[key]
    write_json(path, old)
    assert overlace("report", "run")[0] == 0
