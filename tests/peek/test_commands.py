"""The law of printed commands: whatever peek prints works as it is printed, and keeps nearly all rows.

The corpus is of files as people have them. A file with nothing to read gets no command, and none writes a file.
"""

import contextlib
import csv
import gzip
import io
import json
import random
import re
import shlex
import shutil
import subprocess
import sys
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from overlace.ingest.presets import PRESETS
from overlace.ingest.where import kinds_of
from overlace.trace.store import Trace
from tests.engine import sail
from tests.ingest.test_together import messages

BEGIN = datetime(2026, 11, 16, 8, tzinfo=UTC)
DRAWS = random.Random(35)
TRAFFIC = [
    {
        "at": (BEGIN + timedelta(milliseconds=i * 731)).isoformat().replace("+00:00", "Z"),
        "client": f"plc-{DRAWS.randrange(7)}",
        "to": f"hmi-{DRAWS.randrange(5)}",
        "topic": f"plant/{DRAWS.randrange(4)}/temp",
        "bytes": DRAWS.randrange(4, 90),
        "id": f"m{i}",
    }
    for i in range(120)
]


def table(rows, delimiter=",", names=None):
    names = names or {name: name for name in rows[0]}
    out = io.StringIO()
    writer = csv.writer(out, delimiter=delimiter, lineterminator="\n")
    writer.writerow(names.values())
    writer.writerows([row[name] for name in names] for row in rows)
    return out.getvalue()


def lines(rows):
    return "".join(json.dumps(row) + "\n" for row in rows)


def of_two_kinds(first, second, name="event"):
    """Each message with a delivery of it, as brokers write them."""
    for row in TRAFFIC:
        own = {"ts": row["at"], "trace": row["id"], "topic": row["topic"]}
        yield {**own, name: first, "clientId": row["client"]}
        yield {**own, name: second, "clientId": row["to"]}


def nested(row):
    return {"time": row["at"], "properties": {"user": row["client"]}, "message": {"topic": row["topic"]}}


def fanned_out(row):
    """A row for each receiver of a message, with columns that are called by no known word."""
    receivers = sorted({row["to"], f"hmi-{row['bytes'] % 5}", f"hmi-{row['bytes'] % 3}"})
    return [{"moment": row["at"], "wer": row["client"], "wem": each, "pfad": row["topic"]} for each in receivers]


def listed(row):
    return {"time": row["at"], "event": {"client": row["client"], "topic": row["topic"], "receivers": [row["to"], "x"]}}


NO_WORDS = {"ts": "moment", "way": "way", "clientId": "peer", "topic": "path", "trace": "number"}
GERMAN = {"at": "Zeitstempel", "client": "Absender", "to": "Empfänger", "topic": "Thema", "bytes": "Größe"}
SECONDS = [{**row, "at": row["at"][:19] + "Z"} for row in TRAFFIC for _ in range(3)]
CORPUS = {
    "plain.csv": table(TRAFFIC),
    "german.csv": table(TRAFFIC, ";", GERMAN),
    "german-latin.csv": table(TRAFFIC, ";", GERMAN).encode("latin-1"),
    "tabs.tsv": table(TRAFFIC, "\t"),
    "lines.jsonl": lines(TRAFFIC),
    "array.json": json.dumps(TRAFFIC),
    "pretty.json": json.dumps(TRAFFIC, indent=2),
    "under-a-key.json": json.dumps({"version": 1, "messages": TRAFFIC}),
    "nested.jsonl": lines(map(nested, TRAFFIC)),
    "fan-out.csv": table([each for row in TRAFFIC for each in fanned_out(row)], ";"),
    "lists-inside.jsonl": lines(map(listed, TRAFFIC)),
    "no-words.csv": table([*of_two_kinds("In", "Out", "way")], names=NO_WORDS),
    "kafka-console.txt": "".join(
        f"CreateTime:{1794816000468 + 731 * i}\tPartition:{i % 3}\tOffset:{i}\tplc-{i % 7}\t{i}\n" for i in range(90)
    ),
    "one-object.json": json.dumps({"events": [{**row, "text": "x" * 900} for row in TRAFFIC]}, indent=2),
    "packed.jsonl.gz": gzip.compress(lines(TRAFFIC).encode()),
    "in-out.jsonl": lines(of_two_kinds("In", "Out")),
    "pub-msg.csv": table([*of_two_kinds("PUB", "MSG")]),
    "published.jsonl": lines(of_two_kinds("published", "received")),
    "deliver.csv": table([*of_two_kinds("PUBLISH", "DELIVER")]),
    "aws.jsonl": lines(of_two_kinds("Publish-In", "Publish-Out", "eventType")),
    "seconds.csv": table(SECONDS, names={name: name for name in ("at", "client", "topic")}),
    "half.csv": table([{**row, "at": row["at"] if i % 2 else "soon"} for i, row in enumerate(TRAFFIC)]),
    "one-client.csv": table([{**row, "client": "a"} for row in TRAFFIC], names={n: n for n in ("at", "client", "id")}),
    "interests.csv": "client,topic\n" + "".join(f"c{i},t{i % 4}\n" for i in range(40)),
    "syslog.log": "".join(
        f"Nov 16 08:{i // 60:02}:{i % 60:02} host{i % 3} app[{i}]: session opened for user u{i} by (uid=0)\n"
        for i in range(90)
    ),
    "long-prose.log": ("the broker has seen " + "word " * 34 + "\n") * 40,
    "commas.log": "1767571200: New client connected from 10.0.0.1, port 1883, as c1, user u1\n" * 30,
    "access.log": "".join(
        f'10.0.0.{i % 9} - - [16/Nov/2026:08:00:{i % 60:02} +0000] "GET /{i} HTTP/1.1" 200 {i}\n' for i in range(90)
    ),
    "binary.bin": bytes(range(256)) * 20,
    "binary.gz": gzip.compress(bytes(range(256)) * 20),
    "empty.csv": "",
    "empty.gz": gzip.compress(b""),
    "blank.txt": "\n\n \n",
    "empty.json": "[]",
    **{f"{name}.log": preset.sample for name, preset in PRESETS.items()},
}
NOTHING = {
    "syslog.log", "long-prose.log", "commas.log", "access.log", "binary.bin", "binary.gz", "empty.csv", "empty.gz",
    "blank.txt", "empty.json", "under-a-key.json", "half.csv", "seconds.csv", "one-client.csv",
    "kafka-console.txt", "one-object.json",
}  # fmt: skip
"""Files with nothing to read, or nothing that can be read as it is."""

ASIDE = ("left out by --where ", "header", "blank", "comment", "other")
"""Why lines are no rows."""


def write(name):
    content = CORPUS[name]
    Path(name).write_bytes(content if isinstance(content, bytes) else content.encode())


@pytest.fixture
def seen(overlace):
    """What peek says of a file, for programs and for people."""

    def look(*words):
        code, out, err = overlace("peek", *words, "--json")
        assert "Traceback" not in err
        _, text, said = overlace("peek", *words)
        return code, json.loads(out), text + said

    return look


@pytest.mark.parametrize("name", CORPUS)
def test_whatever_is_printed_works_and_keeps_nearly_all_rows(seen, overlace, monkeypatch, name):
    monkeypatch.setattr("overlace.cli.logs.session", lambda **_: contextlib.nullcontext(sail()))
    write(name)
    code, found, text = seen(name)
    assert [path.name for path in Path().iterdir()] == [name]
    said = " ".join([found["problem"], found["question"], *(each["command"] for each in found["commands"])])
    assert not re.search(r">|\b(jq|tar|unzip|iconv|gunzip|tee) -", said)  # nothing that writes a file
    assert (code, bool(found["commands"])) == ((1, False) if name in NOTHING else (0, True)), text
    assert all(line in text for each in found["commands"] for line in [each["command"]])
    for each in found["commands"]:
        shutil.rmtree("trace", ignore_errors=True)
        command = shlex.split(each["command"])
        code, out, err = overlace(*command[1:], "--json")
        assert code == 0, (each["command"], err)
        for source in json.loads(out).get("sources", ()):
            out_of = {why: n for why, n in source["ignored"].items() if why.startswith(ASIDE)}
            rows = source["lines"] - sum(out_of.values())
            assert source["kept"] >= 0.9 * rows > 0, (each["command"], source)


EACH_TO_ONE = Counter((row["client"], row["to"]) for row in TRAFFIC)
FLOWS = {
    "german.csv": EACH_TO_ONE,
    "no-words.csv": EACH_TO_ONE,
    "fan-out.csv": Counter((each["wer"], each["wem"]) for row in TRAFFIC for each in fanned_out(row)),
    "lists-inside.jsonl": EACH_TO_ONE + Counter((row["client"], "x") for row in TRAFFIC),
}


@pytest.mark.parametrize("name", FLOWS)
def test_receivers_that_a_log_holds_are_read_by_the_first_command(seen, overlace, monkeypatch, name):
    """However its columns are called, and wherever they are: what the trace holds is what the rows say."""
    monkeypatch.setattr("overlace.cli.logs.session", lambda **_: contextlib.nullcontext(sail()))
    write(name)
    _, found, text = seen(name)
    assert overlace(*shlex.split(found["commands"][0]["command"])[1:])[0] == 0, text
    flows = Counter()
    for (_, client, _, _, _, receivers, _), count in messages(Trace.open("trace")).items():
        flows += Counter({(client, each): count for each in receivers})
    assert flows == FLOWS[name]


@pytest.mark.parametrize("name", ["kafka-console.txt", "one-object.json", "under-a-key.json"])
def test_a_file_that_cannot_be_read_as_it_is_says_what_to_do(seen, name):
    write(name)
    _, found, _ = seen(name)
    assert re.search("Write the values alone|put that into a file of its own", found["problem"])


@pytest.mark.parametrize("name", ["in-out.jsonl", "pub-msg.csv", "published.jsonl", "deliver.csv", "aws.jsonl"])
def test_rows_of_several_kinds_are_asked_about_and_each_answer_is_told_apart(seen, name):
    write(name)
    _, found, text = seen(name)
    assert "Which are messages, which deliveries of them?" in text
    commands = [each["command"] for each in found["commands"]]
    assert all("--where" in each for each in commands)
    joined = [each for each in commands if "--deliveries-where" in each]
    assert len(joined) == (2 if name == "in-out.jsonl" else 1)
    assert all("--map key=trace" in each for each in joined)
    reasons = " ".join(each["why"] for each in found["commands"])
    assert ("if brokers wrote it" in reasons and "if clients wrote it" in reasons) == (name == "in-out.jsonl")


@pytest.mark.parametrize("name", ["in-out.jsonl", "pub-msg.csv"])
def test_an_ingest_without_a_filter_says_that_rows_are_of_several_kinds(overlace, monkeypatch, name):
    monkeypatch.setattr("overlace.cli.logs.session", lambda **_: contextlib.nullcontext(sail()))
    write(name)
    words = ("--map", "client=clientId", "--out", "trace", "--json")
    _, out, err = overlace("ingest", name, *words)
    assert any("rows are of several kinds by event" in note for note in json.loads(out)["notes"])
    assert "--where event=" in err


def test_repeats_within_whole_seconds_are_said_with_the_ways_out(seen, overlace, monkeypatch):
    monkeypatch.setattr("overlace.cli.logs.session", lambda **_: contextlib.nullcontext(sail()))
    write("seconds.csv")
    _, _, text = seen("seconds.csv")
    for says in ("times are whole seconds", "--map key=COLUMN", "--group FIELDS"):
        assert says in text
    code, out, _ = overlace("ingest", "seconds.csv", "--out", "trace", "--json")
    assert code == 0
    (note,) = json.loads(out)["notes"]
    (account,) = json.loads(out)["sources"]
    assert f"{account['duplicates']:,} of {account['lines']:,} rows are dropped as duplicates" in note
    text = CORPUS["seconds.csv"].replace("Z,", ".5Z,")
    Path("parts.csv").write_text(text)
    _, out, _ = overlace("ingest", "parts.csv", "--out", "other", "--json")
    assert json.loads(out)["sources"][0]["duplicates"] == account["duplicates"]
    assert json.loads(out)["notes"] == []


@pytest.mark.parametrize(
    "values", [["INFO", "DEBUG"], ["red", "blue"], ["0", "1", "2"], ["a"], ["in"], ["temp", "pressure"]]
)
def test_other_columns_of_few_values_say_nothing_of_kinds(values):
    assert kinds_of({"column": values * 9}, {}) is None


def test_peek_loads_no_numba_pandas_or_spark():
    write("plain.csv")
    code = (
        "import sys; sys.argv = ['overlace', 'peek', 'plain.csv']\n"
        "from overlace.cli import main\n"
        "try:\n    main()\nexcept SystemExit as left:\n    assert not left.code\n"
        "print([each for each in ('numba', 'pandas', 'pyspark') if each in sys.modules], file=sys.stderr)"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stderr.strip() == "[]"
    assert "overlace ingest plain.csv" in found.stdout


@pytest.fixture(autouse=True)
def alone(tmp_path, monkeypatch):
    """Each test in a folder of its own."""
    monkeypatch.chdir(tmp_path)
