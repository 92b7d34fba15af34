"""The demo of running networks loses nothing, and leaves nothing running."""

import json

import pytest

from overlace.cli.commands import run
from overlace.live import demo, local, servers

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(servers.find_program("nats") is None, reason="no nats server on this machine"),
]


def test_the_demo_from_up_to_down(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for name, seconds in (("BEFORE", 6.0), ("DURING", 6.0), ("AFTER", 2.0)):
        monkeypatch.setattr(demo, name, seconds)
    processes = []
    keep = local._keep
    monkeypatch.setattr(local, "_keep", lambda folder, each: (processes.extend(each), keep(folder, each)))
    assert run(["live", "demo", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["applied"]["landed"] == told["applied"]["clients"] == 40
    assert told["applied"]["links_landed"] == told["applied"]["links"] == 6
    assert told["after"]["crossings"] < told["before"]["crossings"]
    assert (told["load"]["lost"], told["load"]["duplicated"], told["load"]["unanswered"]) == (0, 0, 0)
    assert (tmp_path / "live-demo" / "run" / "report.html").exists()
    assert processes
    assert not any(each.runs for each in processes)
    assert run(["live", "demo"]) == 1
    assert "holds other things" in capsys.readouterr().err


def test_force_replaces_nothing_but_a_demo(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "work" / "net").mkdir(parents=True)
    (tmp_path / "work" / "thesis.tex").write_text("years")
    assert run(["live", "demo", "--out", "work", "--force"]) == 1
    assert "holds other things" in capsys.readouterr().err
    assert (tmp_path / "work" / "thesis.tex").read_text() == "years"
