"""peek on files as people have them.

The laws: what peek counts of a log is what plain Python counts; the command that it prints, run as it is printed,
succeeds and counts the same.
"""

import contextlib
import csv
import gzip
import io
import json
import re
import shlex
import shutil
import zipfile
from collections import defaultdict
from datetime import datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from overlace.trace.store import Trace
from tests.engine import sail

START = 1_767_571_200


@pytest.fixture
def ingest(overlace, monkeypatch):
    """Run a printed command: what it says as JSON. The one place that depends on how files are ingested."""
    monkeypatch.setattr("overlace.cli.logs.session", lambda **_: contextlib.nullcontext(sail()))

    def run(command):
        code, out, err = overlace(*shlex.split(command)[1:], "--json")
        assert code == 0, (command, err)
        return json.loads(out)

    return run


@pytest.fixture
def peek(overlace):
    """(exit code, document, error) of peek."""

    def look(*words):
        code, out, err = overlace("peek", *words, "--json")
        assert "Traceback" not in err
        return code, json.loads(out) if out else {}, err

    return look


@pytest.fixture
def look(peek):
    """The document of peek, which says what to type or why there is nothing, and whose counts add up."""

    def check(*words):
        code, seen, _ = peek(*words)
        assert (code == 0) == bool(seen["commands"])
        assert bool(seen["problem"]) == (not seen["commands"])
        for counts in (each["counts"] for each in seen["commands"]):
            if counts and "lines" in counts:
                others = sum(counts["bad"].values()) + sum(counts["ignored"].values()) + counts["duplicates"]
                assert 0 < counts["messages"] + others <= counts["lines"] or counts["lines"] == others
        return seen

    return check


@pytest.fixture
def run(ingest, look):
    """Peek, run what it prints, compare what both count; the document of peek."""

    def check(*words):
        seen = look(*words)
        for each in seen["commands"]:
            if seen["choose"]:
                shutil.rmtree("trace", ignore_errors=True)
            before = len(messages("trace"))
            done = ingest(each["command"])
            if each["counts"] is not None:
                assert_same(each["counts"], done, each["makes"])
            if each["makes"] == "log" and each["counts"]:
                assert each["counts"]["messages"] == len(messages("trace")) - before
        return seen

    return check


def messages(trace):
    return Trace.open(trace).read("messages", ["message"]) if Path(trace).exists() else []


def assert_same(counts, done, makes):
    if "rows" in counts:
        names = {"interests": "subscriptions"}
        for table, rows in counts["rows"].items():
            if table != "wired links":
                key = table if table in done["merged"] else names[table]
                assert done["merged"][key]["new"] == rows
        if makes != "topology":
            assert done["rows"][names.get(makes.split()[1], makes.split()[1])] == sum(counts["rows"].values())
        return
    bad, ignored = {}, {}
    for each in done["sources"]:
        for reason, (count, _) in each["quarantined"].items():
            bad[reason] = bad.get(reason, 0) + count
        for reason, count in each["ignored"].items():
            ignored[reason] = ignored.get(reason, 0) + count
    assert counts["lines"] == sum(each["lines"] for each in done["sources"])
    assert (counts["bad"], counts["ignored"]) == (bad, ignored)
    assert counts["duplicates"] == sum(each["duplicates"] for each in done["sources"])


def plain_count(path, columns):
    """(lines, messages, ignored, bad, duplicates) of a log of columns, as they are taken; by plain Python."""
    data = Path(path).read_bytes()
    text = (gzip.decompress(data) if path.endswith(".gz") else data).decode("utf-8-sig")
    columns_of_file = [each["column"] for each in columns]
    place = {each["field"]: each["column"] for each in columns if each["field"]}
    rows, ignored, bad = [], 0, 0
    if path.endswith("json"):
        rows = json.loads(text)
    for line in [] if path.endswith("json") else text.splitlines(keepends=True):
        if line.startswith("{"):
            rows.append(json.loads(line))
            continue
        cells = [next(csv.reader([line.rstrip()], delimiter=mark), []) for mark in ",;\t "]
        cells = next((each for each in cells if len(each) == len(columns_of_file)), [])
        if line.startswith("#") or cells == columns_of_file:
            ignored += 1
        elif len(cells) != len(columns_of_file) or line.count('"') % 2:
            bad += line.endswith("\n")  # else it waits for its end
        else:
            rows.append(dict(zip(columns_of_file, map(str.strip, cells), strict=True)))
    lines, joined = len(rows) + ignored + bad, defaultdict(list)
    for i, row in enumerate(rows):
        at = str(row[place["at"]])
        try:
            at = float(at) if re.fullmatch(r"[\d.]+", at) else datetime.fromisoformat(at)
        except ValueError:
            bad += 1
            continue
        receivers = row.get(place.get("receiver") or place.get("receivers"), [])
        key = [row.get(place.get(name)) for name in ("client", "topic", "bytes")]
        names = re.split("[;,]", receivers) if isinstance(receivers, str) else receivers
        joined[i if "json" in path else (at, *key)].append(names)
    duplicates = 0
    for lists in joined.values():
        each = max(len({name for names in lists for name in names}), 1) if max(map(len, lists)) <= 1 else 1
        duplicates += len(lists) - each
    return lines, len(joined), ignored, bad, duplicates


def rows(n, form):
    return "".join(form.format(i=i, a=f"u{i * 7 % 9}", b=f"u{i * 5 % 8}", t=START + i * 61) + "\n" for i in range(n))


MAIL = rows(60, "{a},{b},{t}")
LOGS = {
    # name: (content, the fields that columns are taken as)
    "headerless.txt": (rows(60, "{a} {b} {t}"), "client receiver at"),
    "numbers.txt": ("".join(f"{i % 9} {i * 5 % 8} {i * 997}\n" for i in range(80)), "client receiver at"),
    "mail.csv": (f"sender,recipient,sent_at\n{MAIL}", "client receiver at"),
    "fromto.csv": (f"From,To,Date\n{MAIL}", "client receiver at"),
    "srcdst.tsv": ("src\tdst\twhen\n" + MAIL.replace(",", "\t"), "client receiver at"),
    "chat.csv": (
        "user,channel,logged\n" + rows(40, "{a},room-{i},2026-01-05T08:00:{i:02}+01:00"),
        "client topic at",
    ),
    "camel.csv": ("eventTime;fromUser;toUser;topicName;sizeBytes\n" + rows(9, "{t};{a};{b};x/y;{i}"),
                  "at client receiver topic bytes"),
    "reordered.csv": ("colour,number,nothing,x,y\n" + rows(50, "red,{t}000,{i},{a},{b}"), "- at - client receiver"),
    "levels.csv": (rows(30, "{t},plant/{i}/temp,{a}"), "at topic client"),
    "bom.csv": (b"\xef\xbb\xbf" + b"time,client,topic\n" + rows(5, "{t},{a},x").encode(), "at client topic"),
    "crlf.csv": ("time;client;topic\r\n" + rows(5, "{t};{a};x\r"), "at client topic"),
    "quoted.csv": ('when it was,"who, exactly",what\n' + rows(9, '"2026-01-05 08:00:0{i}","{a}, jr",x'),
                   "at client -"),
    "blanks.csv": ("zeit, wer genau, an\n" + rows(9, "2026-01-05 08:00:0{i},{a},{b}"), "at client receiver"),
    "odd-row.csv": (f"sender,recipient,sent_at\n{MAIL}what is this\n{MAIL[:39]}", "client receiver at"),
    "newline.csv": ('time,client,topic\n1767571200,a,"x\ny"\n' + rows(30, "{t},{a},x"), "at client topic"),
    "no-end.csv": (f"time,client\n{START},a\n{START},b", "at client"),
    "seconds.jsonl": ("".join(json.dumps({"when": START + i, "who": f"u{i % 3}", "what": {"a": 1}}) + "\n"
                              for i in range(9)), "at client -"),
    "array.json": (json.dumps([{"ts": START * 1000 + i, "sender": "a", "recipients": ["b", "c"]} for i in range(9)]),
                   "at client receivers"),
    "strange-array.json": (json.dumps([{"sentAt": f"2026-01-05T08:00:0{i}Z", "author": f"u{i % 3}", "to_user": "u1"}
                                       for i in range(9)], indent=2), "at client receiver"),
    "comments.txt": ("# who wrote to whom\n# from to at\n" + rows(60, "{a} {b} {t}"), "client receiver at"),
    "recipients.csv": ("from,to,time\n" + rows(9, "{a},{b};x;y,{t}"), "client receiver at"),
    "ratings.csv": ("userId,movieId,rating,timestamp\n" + rows(30, "{a},{i},0.5,{t}"), "client topic - at"),
    "packed.csv.gz": (gzip.compress(f"from,to,time\n{MAIL}".encode()), "client receiver at"),
    "it's odd;$(x).csv": (f"src,dst,when\n{MAIL}", "client receiver at"),
    "-dash.csv": (f"src,dst,when\n{MAIL}", "client receiver at"),
}  # fmt: skip


@pytest.mark.parametrize("name", LOGS)
def test_a_log_with_columns_of_any_name_is_guessed_and_counted_as_plain_python_counts_it(look, name):
    content, fields = LOGS[name]
    Path(name).write_bytes(content if isinstance(content, bytes) else content.encode())
    seen = look(f"./{name}" if name.startswith("-") else name)
    assert [each["makes"] for each in seen["commands"]] == ["log"]
    assert seen["head"]
    if fields:
        assert [each["field"] or "-" for each in seen["columns"]] == fields.split()
    assert seen["whole"]
    counts = seen["commands"][0]["counts"]
    ignored, bad = (sum(counts[kind].values()) for kind in ("ignored", "bad"))
    counted = (counts["lines"], counts["messages"], ignored, bad, counts["duplicates"])
    assert counted == plain_count(name, seen["columns"])


@pytest.mark.parametrize(
    "name", ["headerless.txt", "chat.csv", "odd-row.csv", "recipients.csv", "packed.csv.gz",
             "strange-array.json", "seconds.jsonl", "it's odd;$(x).csv", "-dash.csv"]
)  # fmt: skip
def test_the_command_for_a_log_works_as_it_is_printed_and_counts_the_same(run, name):
    content, _ = LOGS[name]
    Path(name).write_bytes(content if isinstance(content, bytes) else content.encode())
    run(f"./{name}" if name.startswith("-") else name)


TABLES = {
    "follows.txt": ("".join(f"u{i} u{i + k}\n" for i in range(400) for k in (1, 2, 7)), ["interests", "links"]),
    "wires.txt": ("".join(f"b{i} b{i + 1}\n" for i in range(30)), ["links", "interests"]),
    "genres.csv": ("user,genre\n" + "".join(f"u{i},g{i % 4}\n" for i in range(30)), ["interests", "links"]),
    "topics.csv": ("client,topic\na,x\nb,y\n", ["interests"]),
    "links.csv": ("left,right,cost\na,b,2\nb,c,3\n", ["links"]),
    "weighted.csv": ("source;target;weight;colour\na;b;2;red\nb;c;3;red\nc;d;1;blue\n", ["links", "interests"]),
    "sessions.csv": ("client,broker,since\na,x,2026-01-05\n", ["sessions"]),
    "homes.csv": ("device,server\na,x\nb,x\nc,y\n", ["sessions"]),
    "brokers.csv": ("broker,region,cost\na,eu,2\n", ["brokers"]),
    "lists.json": (json.dumps({f"u{i}": ["rock", "pop"][: i % 3] for i in range(9)}), ["interests"]),
    "lists.json.gz": (gzip.compress(json.dumps({"a": ["x"], "b": []}).encode()), ["interests"]),
    "pretty.json": (json.dumps({"a": ["x", "y"], "b": ["x"]}, indent=2), ["interests"]),
    "pairs.json": (json.dumps([[f"u{i}", f"t{i % 3}"] for i in range(9)]), ["interests", "links"]),
    "objects.json": (json.dumps([{"user": f"u{i}", "genre": f"t{i % 3}"} for i in range(9)]), ["interests", "links"]),
    "snap.txt": (
        "# Nodes: 9\n# FromNodeId\tToNodeId\n" + "".join(f"{i}\t{i + 1}\n" for i in range(9)),
        ["links", "interests"],
    ),
    "star.csv": ("a,b\n" + "".join(f"hub,n{i}\n" for i in range(9)), ["interests", "links"]),
    "twice.csv": ("from_node,to_node\na,b\nb,a\nb,c\n", ["interests"]),  # a link twice is refused
}


@pytest.mark.parametrize("name", TABLES)
def test_a_table_without_times_is_interests_or_links_the_likelier_first(run, name):
    content, tables = TABLES[name]
    Path(name).write_bytes(content if isinstance(content, bytes) else content.encode())
    seen = run(name)
    assert [each["makes"] for each in seen["commands"]] == [f"table {table}" for table in tables]
    assert seen["columns"]


GRAPHML = '<graphml><graph><node id="a"/><node id="b"/><node id="c"/>{}</graph></graphml>'
EDGES = "".join(f'<edge source="{a}" target="{b}"/>' for a, b in ("ab", "bc", "ca"))
REPETITA = "NODES 2\nlabel x y\na 0 0\nb 0 0\n\nEDGES 1\nlabel src dest weight bw delay\ne 0 1 5 1 2\n"
CONF = "listener 1884\nconnection up\naddress hub:1883\ntopic # out\n"
NATS = "server_name: n1\nlisten: 127.0.0.1:4222\nleafnodes {\n  remotes = [ { url: nats-leaf://hub:7422 } ]\n}\n"
TOPOLOGIES = {
    "x.graphml": (GRAPHML.format(EDGES), " --wired mst"),
    "x.xml": (GRAPHML.format(EDGES), " --wired mst"),
    "alone.graphml": (GRAPHML.format(""), ""),
    "x.graph": (REPETITA, " --wired mst"),
    "net.txt": (REPETITA, " --wired mst"),
    "x.graph.gz": (gzip.compress(REPETITA.encode()), " --wired mst"),
    "mosquitto.conf": (CONF, ""),
    "n1.conf": (NATS, ""),
}


@pytest.mark.parametrize("name", TOPOLOGIES)
def test_a_topology_is_wired_where_nothing_in_it_is(run, name):
    content, wired = TOPOLOGIES[name]
    Path(name).write_bytes(content if isinstance(content, bytes) else content.encode())
    (command,) = run(name)["commands"]
    assert command["command"] == f"overlace ingest {name} --topology{wired} --out trace"


def zipped(name):
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        archive.writestr(name, "x")
    return data.getvalue()


HOPELESS = {
    "empty.csv": (b"", "empty"),
    "blank.csv": (b"\n \n\n", "blank"),
    "prose.txt": (b"Once upon a time\nthere was, a log.\n\nIt ended well\n", "text, but neither rows"),
    "stocks": (b"[class,'STOCK'],[symbol,'A'],[open,2]\n" * 9, "no attribute is the time.*--map at="),
    "book.xlsx": (zipped("xl/workbook.xml"), "an Excel workbook.*CSV"),
    "logs.zip": (zipped("a.log"), "a zip archive.*Unpack it"),
    "image.png": (b"\x89PNG\r\n\x1a\n" + bytes(200), "a PNG image"),
    "wide.csv": (f"time,client\n{MAIL}".encode("utf-16"), "UTF-16LE to UTF-8"),
    "wide-be.csv": (f"time,client\n{MAIL}".encode("utf-16-be"), "UTF-16BE to UTF-8"),
    "bytes.bin": (bytes(range(256)) * 9, "a binary file of an unknown kind"),
    "cut.csv.gz": (gzip.compress(MAIL.encode())[:-9], "not a whole gzip file"),
    "data.tar.gz": (gzip.compress(bytes(257) + b"ustar" + bytes(300)), "gzip of a tar archive"),
    "nested.json": (json.dumps({"meta": 1, "messages": [{"at": START, "client": "a"}]}).encode(),
                    "member 'messages' is a list"),
    "dates.csv": (b"who,whom,when\n" + b"a,b,05/01/2026 08:00\n" * 9, "times, such as '05/01/2026 08:00'"),
    "clock.csv": (b"date,time,from,to\n" + b"2026-01-05,08:00:01,a,b\n" * 9, r"\(date\) and the time of day \(time\)"),
    "iso.txt": (b"2026-01-05 08:00:01 a b\n2026-01-05 08:00:02 b a\n" * 9, "are in two columns"),
    "breaks.csv": (b'id,when,author,body\n' + b'1,2026-01-05T08:00:00Z,u,"line one\nline two"\n' * 9,
                   "cells hold line breaks"),
    "latin.csv": (("zeit;wer;größe\n" + "1767571200;Jürgen;1\n" * 9).encode("latin-1"), "not UTF-8"),
    "triples.json": (json.dumps([["a", "b", START + i] for i in range(9)]).encode(),
                     "row of CSV"),
    "graph.json": (json.dumps({"nodes": [{"id": "a"}], "links": [{"source": "a", "target": "b"}] * 2}).encode(),
                   "member 'links'"),
    "inside.jsonl": (rows(9, '{{"ts": {t}, "meta": {{"client": "a"}}}}').encode(), "one client, 'a' .from meta.client"),
    "pairs.log": (b"ts=2026-01-05T08:00:00Z client=a topic=b\n" * 9, "lines of name=value"),
    "access.log": (b'10.0.0.12 - - [05/Jan/2026:08:00:00 +0000] "GET / HTTP/1.1" 200 12\n' * 9,
                   "text, but neither rows"),
    "app.conf": (b"[main]\nkey = value\nother = 7\n", "text, but neither rows"),
    "half-bad.csv": (("sender,recipient,sent_at\n" + rows(9, "{a},{b},{t}\n{a},{b},soon")).encode(),
                     "9 of 19 lines cannot be read.*sent_at: not a time; such as 'u0,u0,soon'"),
    "one-line.csv": (b"1767571200,a,b\n", "all messages have one client"),
    "header-only.csv": (b"time,client,topic\n", "no line is a message"),
    "one.jsonl": (rows(9, '{{"at": {t}, "client": "a"}}').encode(), "have one client.*--map client=COLUMN"),
    "numbers.csv": (b"1.5,2.5,3.5\n" * 9, "no column holds times"),
    "broken.graphml": (b"<graphml><graph>", "not XML"),
}  # fmt: skip


@pytest.mark.parametrize("name", HOPELESS)
def test_what_cannot_become_anything_says_why_and_shows_what_it_holds(peek, overlace, name):
    content, says = HOPELESS[name]
    Path(name).write_bytes(content)
    code, seen, _ = peek(name)
    assert code == 1
    assert seen["commands"] == []
    assert bool(seen["head"]) == bool(content.strip() and name != "cut.csv.gz")
    code, _, err = overlace("peek", name)
    assert code == 1
    assert "nothing to ingest: " in err
    assert re.search(says, err)


def test_a_member_that_is_a_list_can_be_taken_out_as_is_said_and_then_works(run):
    Path("taken.json").write_text(json.dumps([{"at": START, "client": each} for each in "ab"]))
    assert run("taken.json")["commands"][0]["counts"]["messages"] == 2


def test_parquet_with_columns_of_any_name(run):
    table = {"wer": [f"u{i % 5}" for i in range(40)], "wann": [START + i for i in range(40)]}
    pq.write_table(pa.table(table | {"an": [f"u{i % 4}" for i in range(40)]}), "x.parquet")
    seen = run("x.parquet")
    assert {each["column"]: each["field"] for each in seen["columns"]} == {
        "wer": "client", "wann": "at", "an": "receiver",
    }  # fmt: skip


def test_a_folder_with_other_things_in_it(run):
    logs = Path("my logs")
    (logs / "old").mkdir(parents=True)
    (logs / "a.csv").write_text("at,client,topic\n" + rows(30, "{t},{a},x"))
    (logs / "old/b.csv.gz").write_bytes(gzip.compress(("at,client,topic\n" + rows(9, "{t},{b},y")).encode()))
    (logs / "README.md").write_text("# Logs\n\nthose of, last week\n")
    (logs / "picture.png").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(99))
    (logs / "backup.gz").write_bytes(gzip.compress(bytes(257) + b"ustar" + bytes(300)))
    (logs / "empty.csv").write_text("")
    (logs / "net.graph").write_text(REPETITA)
    (logs / "interests.csv").write_text("client,topic\nu1,x\n")
    seen = run("my logs")
    commands = [each["command"] for each in seen["commands"]]
    assert len(commands) == 3
    log = shlex.split(commands[0])
    assert log[:3] == ["overlace", "ingest", "my logs"]
    skipped = {log[i + 1] for i, word in enumerate(log) if word == "--skip"}
    assert skipped >= {"*.md", "*.png", "backup.gz", "*.graph", "interests.csv"}
    assert seen["commands"][0]["counts"]["messages"] == 39
    assert commands[1].endswith("interests.csv' --table interests --out trace")
    assert commands[2].endswith("net.graph' --topology --wired mst --out trace")
    kinds = {(kind["makes"], kind["files"]) for kind in seen["kinds_of_files"]}
    assert {("log", 2), ("topology", 1), ("table interests", 1)} <= kinds
    assert not seen["choose"]


def test_logs_that_are_read_differently_get_a_command_each(look):
    Path("logs").mkdir()
    Path("logs/a.csv").write_text(f"sender,recipient,sent_at\n{MAIL}")
    Path("logs/b.jsonl").write_text("".join(json.dumps({"at": START + i, "client": f"c{i}"}) + "\n" for i in range(5)))
    seen = look("logs")
    assert [each["counts"]["lines"] for each in seen["commands"]] == [61, 5]


def test_logs_of_two_brokers_are_one_command(run):
    Path("logs").mkdir()
    head = "1767571200: mosquitto version 2.0.18 starting\n1767571200: Opening ipv4 listen socket on port 1883.\n"
    sent = "{t}: Received PUBLISH from c{i} (d0, q0, r0, m0, 'a/{i}', ... (4 bytes))\n"
    for name in ("hub", "plant"):
        lines = "".join(sent.format(t=START + i + len(name), i=i) for i in range(9))
        Path(f"logs/{name}.log").write_text(head + lines)
    Path("logs/notes").write_text("not a log\n\nat all,\n")
    seen = run("logs")
    assert [each["command"] for each in seen["commands"]] == ["overlace ingest logs --skip notes --out trace"]
    assert seen["commands"][0]["counts"]["messages"] == 18


def test_of_many_files_some_stand_for_all_and_the_command_is_one(run):
    Path("logs").mkdir()
    for i in range(45):
        Path(f"logs/{i:02}.csv").write_text(f"at,client,topic\n{START + i},c{i},x\n")
    Path("logs/README.md").write_text("# what, this is\n\nfor you\n")
    seen = run("logs")
    assert [each["command"] for each in seen["commands"]] == ["overlace ingest logs --skip '*.md' --out trace"]
    assert {(kind["makes"], kind["files"]) for kind in seen["kinds_of_files"]} == {("log", 45), ("", 1)}
    assert not seen["whole"]


def test_configurations_of_brokers_belong_together(run):
    Path("etc").mkdir()
    Path("etc/plant.conf").write_text(CONF.replace("hub:", "hub.example:"))
    Path("etc/hub.conf").write_text("listener 1883\n")
    (command,) = run("etc")["commands"]
    assert command["counts"]["rows"] == {"brokers": 2, "links": 1, "wired links": 1}


def test_of_a_long_log_only_the_beginning_is_looked_at_and_that_is_said(peek, overlace):
    Path("long.csv").write_text("sender,recipient,sent_at\n" + rows(90_000, "{a},{b},{t}"))
    code, seen, _ = peek("long.csv")
    assert code == 0
    assert not seen["whole"]
    assert seen["commands"][0]["counts"] is None
    assert seen["commands"][0]["command"] == "overlace ingest long.csv --map at=sent_at --out trace"
    _, out, _ = overlace("peek", "long.csv")
    assert "only the beginning was looked at" in out


def test_names_and_lines_that_would_steer_a_terminal_are_shown_harmless(overlace):
    Path("x.csv").write_text("at,client,\x1b[31mred\n" + rows(5, "{t},{a},\x1b]0;title\x07"))
    _, out, _ = overlace("peek", "x.csv")
    assert "\x1b" not in out
    assert "\\x1b" in out


def test_what_is_asked_for_is_taken_and_stands_in_the_command(run):
    Path("x.csv").write_text(f"sender,recipient,sent_at\n{MAIL}")
    seen = run("x.csv", "--map", "client=recipient", "--map", "at=sent_at")
    assert "--map client=recipient --map at=sent_at" in seen["commands"][0]["command"]


def test_a_column_that_is_not_there_or_an_unknown_format_is_a_mistake_of_usage(peek):
    Path("x.csv").write_text(f"sender,recipient,sent_at\n{MAIL}")
    code, _, err = peek("x.csv", "--map", "client=sendr")
    assert (code, "Nearest: sender" in err) == (2, True)
    code, _, err = peek("x.csv", "--format", "cvs")
    assert (code, "Nearest: csv" in err) == (2, True)


values = st.one_of(
    st.sampled_from(["u1", "u2", "2026-01-05T08:00:00Z", "", "x/y", None, START, START * 1000, 7, 0.5, True]),
    st.lists(st.sampled_from(["u1", "u2", 3]), max_size=3),
    st.fixed_dictionaries({"client": st.just("a")}),
)
members = st.dictionaries(st.sampled_from(["when", "ts", "user", "to", "topic", "b c", "x=y"]), values, max_size=4)
documents = st.one_of(
    st.lists(members, max_size=8),
    st.lists(st.lists(values, max_size=3), max_size=8),
    st.dictionaries(st.sampled_from(["a", "b", "messages"]), st.lists(st.one_of(members, st.sampled_from("xyz")))),
    members,
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(documents, st.sampled_from([None, 2]), st.booleans())
def test_whatever_json_holds_its_counts_add_up(look, document, indent, in_lines):
    lines = in_lines and isinstance(document, list)
    text = "".join(json.dumps(each) + "\n" for each in document) if lines else json.dumps(document, indent=indent)
    Path("any.json").write_text(text)
    look("any.json")


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.one_of(st.binary(max_size=300), st.text(max_size=200).map(str.encode)), st.sampled_from(["x", "x.conf", "x.csv"])
)
def test_whatever_bytes_there_are_peek_says_what_it_sees(look, data, name):
    Path(name).write_bytes(data)
    look(name)


names = st.sampled_from(["time", "when", "src", "to", "user", "x y", "a,b", "q=r", "größe", "it's", "topic", "v1"])
cells = st.sampled_from(["u1", "u2", "u3", "7", "2026-01-05T08:00:00Z", "1767571200", "", "a b", "x/y", "3.5", "soon"])


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(names, min_size=1, max_size=4, unique=True), st.data(), st.sampled_from([",", ";", "\t"]), st.booleans()
)
def test_whatever_a_table_holds_its_counts_add_up(look, header, data, delimiter, with_header):
    lines = data.draw(st.lists(st.lists(cells, min_size=len(header), max_size=len(header)), max_size=12))
    quote = lambda cell: f'"{cell}"' if delimiter in cell else cell  # noqa: E731
    listed = [header, *lines] if with_header else lines
    Path("any.csv").write_text("".join(delimiter.join(map(quote, row)) + "\n" for row in listed))
    for counts in (each["counts"] for each in look("any.csv")["commands"]):
        assert counts.get("lines", len(listed)) == len(listed)


def test_files_that_are_named_one_by_one_get_a_command_each_that_works(run):
    """Only what stands in a folder can be skipped."""
    Path("mail.csv").write_text(f"sender,recipient,sent_at\n{MAIL}")
    Path("homes.csv").write_text("client,broker\na,x\nb,y\n")
    Path("wires.csv").write_text("left,right,cost\nx,y,3\n")
    seen = run("mail.csv", "homes.csv", "wires.csv")
    assert not any("--skip" in each["command"] for each in seen["commands"])
    assert len(seen["commands"]) == 3


@pytest.mark.parametrize("mark", [";", "|", ","])
def test_receivers_may_be_listed_in_a_cell_under_any_name(look, mark):
    rows = [f"2026-03-01 10:{i:02}:00\tm{i % 9}\tm{(i + 1) % 9}{mark}m{(i + 2) % 9}\t{i}" for i in range(40)]
    Path("calls.tsv").write_text("when_sent\tauthor\treaders\tsize_b\n" + "\n".join(rows) + "\n")
    (log, *_) = look("calls.tsv")["commands"]
    assert "receiver=readers" in log["command"]
    assert f"--list-separator {shlex.quote(mark)}" in log["command"]


def test_a_copy_of_a_log_is_counted_once_and_that_is_said(run):
    Path("logs").mkdir()
    Path("logs/a.csv").write_text(f"from,to,time\n{MAIL}")
    Path("logs/b.csv.gz").write_bytes(gzip.compress(f"from,to,time\n{MAIL}".encode()))
    (command,) = run("logs")["commands"]
    assert command["counts"]["messages"] == 60
    assert command["counts"]["notes"] == ["b.csv.gz is the same as a.csv: read once"]


def test_rows_of_one_id_are_one_message_across_the_files_of_a_rotation(run):
    Path("logs").mkdir()
    line = "m{i},{t},{a},{b}"
    Path("logs/a.csv.1").write_text("id,at,client,receiver\n" + rows(9, line))
    Path("logs/a.csv").write_text("id,at,client,receiver\n" + rows(12, line.replace("{b}", "z{b}")))
    (command,) = run("logs")["commands"]
    assert command["counts"]["messages"] == 12
    assert command["counts"]["duplicates"] == 0
