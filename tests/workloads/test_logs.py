import csv
import gzip
import json

import numpy as np
import pytest

from overlace.ingest.tables import add_tables
from overlace.workloads import logs
from overlace.workloads.composition import Composition
from overlace.workloads.logs import write_logs, write_tables
from overlace.workloads.sites import MONDAY_US, Sites
from tests.engine import ingest_sources

SMALL = Sites(messages=3000, clients=60, topics=40, regions=3, brokers=2)


def lines_of(path):
    with gzip.open(path, "rt") as file:
        return file.read().splitlines()


def readable(line):
    try:
        return json.loads(line)["at"] != "not set"
    except ValueError:
        return False


@pytest.mark.parametrize("workload", [SMALL, Composition(messages=1000)], ids=["sites", "composition"])
def test_the_logs_hold_the_messages_of_the_workload(tmp_path, workload):
    paths, bad = write_logs(workload, tmp_path, bad=0.01)
    tables = workload.tables()
    names = workload.names()
    home = {row["client"]: names["broker"][row["broker"]] for row in tables["sessions"].to_pylist()}
    found, unreadable = [], 0
    for path in paths:
        rows = [json.loads(line) for line in lines_of(path) if readable(line)]
        unreadable += len(lines_of(path)) - len(rows)
        assert {row["broker"] for row in rows} <= {path.name.removesuffix(".jsonl.gz")}
        assert [row["at"] for row in rows] == sorted(row["at"] for row in rows)
        found += rows
    part = workload.part(0, workload.messages)
    assert len(paths) == tables["brokers"].num_rows
    assert unreadable == bad > 0
    found.sort(key=lambda row: row["at"])
    assert [np.datetime64(row["at"][:-1], "us").astype(int) for row in found] == part["at"].tolist()
    start, receivers = part["start"].tolist(), part["receivers"].tolist()
    for i, row in enumerate(found):
        client = int(part["client"][i])
        assert row == {
            "at": row["at"],
            "client": names["client"][client],
            "topic": names["topic"][int(part["topic"][i])],
            "bytes": int(part["bytes"][i]),
            "receivers": [names["client"][each] for each in receivers[start[i] : start[i + 1]]],
            "broker": home[client],
        }


def test_the_same_workload_gives_the_same_bytes_however_it_is_cut(tmp_path, monkeypatch):
    write_logs(SMALL, tmp_path / "a", bad=0.01)
    write_logs(SMALL, tmp_path / "b", bad=0.01)
    monkeypatch.setattr(logs, "PIECE", 700)
    write_logs(SMALL, tmp_path / "c", bad=0.01)
    write_logs(Sites(messages=3000, clients=60, topics=40, regions=3, brokers=2, seed=1), tmp_path / "d", bad=0.01)
    for path in sorted((tmp_path / "a").iterdir()):
        assert path.read_bytes() == (tmp_path / "b" / path.name).read_bytes()
        assert lines_of(path) == lines_of(tmp_path / "c" / path.name)
    whole = [[line for path in sorted((tmp_path / each).iterdir()) for line in lines_of(path)] for each in "ad"]
    assert whole[0] != whole[1]


def test_without_bad_lines_every_line_is_a_message(tmp_path):
    paths, bad = write_logs(SMALL, tmp_path, bad=0)
    assert (bad, sum(len(lines_of(path)) for path in paths)) == (0, 3000)


def test_the_tables_hold_names_and_what_logs_do_not(tmp_path):
    paths = write_tables(SMALL, tmp_path)
    assert set(paths) == {"access", "brokers", "clients", "links", "subscriptions"}
    with paths["links"].open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == SMALL.tables()["links"].num_rows
    assert rows[0] == {"left": "broker-0-0", "right": "broker-0-1", "cost": "0.1", "latency_us": "200", "wired": "true"}


def test_logs_and_tables_are_ingested_and_every_bad_line_is_accounted_for(tmp_path):
    paths, bad = write_logs(SMALL, tmp_path / "logs", bad=0.01)
    out = str(tmp_path / "trace")
    for table, path in write_tables(SMALL, tmp_path / "tables").items():
        assert add_tables([str(path)], table, out, {})[1].new == SMALL.tables()[table].num_rows
    done = ingest_sources([str(path) for path in paths], out)
    assert sum(each.kept for each in done.accounts) == 3000
    assert sum(each.bad for each in done.accounts) == bad
    assert sum(each.lines for each in done.accounts) == 3000 + bad
    trace = done.trace
    assert trace.rows("messages") == 3000
    assert trace.count("client") == 60
    assert min(trace.read("messages", ["at"])["at"].to_pylist()).timestamp() * 1e6 >= MONDAY_US
    homes = {
        trace.names["client"][row["client"]]: trace.names["broker"][row["broker"]]
        for row in trace.read("sessions").to_pylist()
    }
    names = SMALL.names()
    for client in set(SMALL.part(0, 3000)["client"].tolist()):
        assert homes[names["client"][client]] == names["broker"][int(SMALL.world.home[client])]
