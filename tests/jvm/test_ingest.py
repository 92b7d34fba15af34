"""Raw logs to observations on Spark, against plain Python."""

import contextlib
import gzip
import json
import os
import random
import shutil
import signal
from itertools import product

import pyarrow.parquet as pq
import pytest

from overlace.errors import BadParameter, BadTrace, Unknown
from overlace.ingest import sources
from overlace.ingest.options import Options
from overlace.ingest.tables import add_tables
from overlace.observe.cut import cut
from overlace.spark.ingest import ingest as ingest_on
from overlace.trace.store import Trace
from tests.engine import ingest_sources
from tests.observe.brute import observed, of_observation
from tests.processes import command
from tests.traces import observe


def ingest(paths, out, spark, options=None):
    return ingest_on(paths, out, spark=spark, options=options)


START = 1_767_571_200  # a Monday


def made_up(seed, count=400, clients=12, days=3):
    rng = random.Random(seed)
    messages = []
    for i in range(count):
        sender = rng.randrange(clients)
        messages.append(
            {
                "at": START + i * days * 86400 // count,
                "client": f"c{sender}",
                "broker": f"b{sender % 3}",
                "topic": f"t/{rng.randrange(5)}",
                "bytes": rng.randrange(1000),
                "receivers": sorted({f"c{rng.randrange(clients)}" for _ in range(rng.randrange(5))}),
            }
        )
    return messages


def written(path, messages):
    path.write_text("".join(json.dumps(each) + "\n" for each in messages))
    return str(path)


@pytest.mark.jvm
def test_an_observation_is_what_plain_python_counts(spark, tmp_path):
    messages = made_up(1)
    done = ingest([written(tmp_path / "log.jsonl", messages)], str(tmp_path / "trace"), spark)
    assert of_observation(observe(done.trace), done.trace.names) == observed(messages)
    assert done.trace.rows("messages") == 400
    homes = observe(done.trace).overlay.placement
    names = done.trace.names
    assert len(homes) == 12
    for client, broker in homes.tolist():
        assert names["broker"][broker] == f"b{int(names['client'][client][1:]) % 3}"


@pytest.mark.jvm
def test_the_order_of_lines_and_the_cut_into_files_change_nothing_but_message_ids(spark, tmp_path):
    messages = made_up(2)
    whole = ingest([written(tmp_path / "one.jsonl", messages)], str(tmp_path / "a"), spark).trace
    shuffled = random.Random(0).sample(messages, len(messages))
    parts = [written(tmp_path / f"part{i}.jsonl", shuffled[i::3]) for i in range(3)]
    split = ingest(parts, str(tmp_path / "b"), spark).trace
    assert observe(whole) == observe(split)
    assert whole.names == split.names
    assert of_observation(observe(split), split.names) == observed(messages)


@pytest.mark.jvm
def test_a_file_read_in_splits_gives_the_same_trace(spark, tmp_path, monkeypatch):
    path = written(tmp_path / "log.jsonl", made_up(3))
    whole = ingest([path], str(tmp_path / "a"), spark).trace
    for name in ("LEAST", "MOST"):
        monkeypatch.setattr(f"overlace.ingest.source.{name}", 7_001)
    split = ingest([path], str(tmp_path / "b"), spark).trace
    assert len(sources.look(path).splits(7_001)) > 3
    assert whole.digest() == split.digest()


@pytest.mark.jvm
def test_every_line_is_accounted_for(spark, tmp_path):
    rng = random.Random(4)
    lines = [json.dumps(each) for each in made_up(4, 3000)]
    for i in rng.sample(range(len(lines)), 700):
        lines[i] = rng.choice(
            [
                "",
                "   ",
                "{",
                "null",
                "[1]",
                lines[i][: rng.randrange(1, len(lines[i]))],
                lines[i] * 2,
                "\udcff",
                '{"at": "never", "client": "x"}',
                '{"at": 5}',
            ]
        )
    path = tmp_path / "log.jsonl"
    path.write_bytes("".join(f"{line}\n" for line in lines).encode("utf-8", "surrogateescape"))
    done = ingest([str(path)], str(tmp_path / "trace"), spark)
    (account,) = done.accounts
    assert account.lines == len(lines)
    assert account.adds_up()
    assert sum(account.ignored.values()) == sum(not line.strip() for line in lines)
    assert account.kept == done.trace.rows("messages") > 2000
    row = done.trace.read("sources").to_pylist()[0]
    assert row["lines"] == row["kept"] + row["ignored"] + row["quarantined"] + row["duplicates"]
    assert sum(done.trace.read("quarantine")["count"].to_pylist()) == row["quarantined"]
    (noted,) = done.trace.notes["sources"].values()
    assert noted["account"]["ignored"] == account.ignored == {"blank": row["ignored"]}


@pytest.mark.jvm
@pytest.mark.parametrize("options", [Options(strict=True), Options(max_bad=0.001)])
def test_too_many_bad_lines_and_nothing_is_ingested(spark, tmp_path, options):
    messages = made_up(5, 50)
    good = ingest([written(tmp_path / "good.jsonl", messages)], str(tmp_path / "trace"), spark).trace
    path = tmp_path / "bad.jsonl"
    path.write_text("".join(json.dumps(each) + "\n" for each in made_up(55, 50)) + "oops\n")
    with pytest.raises(BadTrace, match="1 of 51 lines cannot be read.*'oops'. Nothing was ingested"):
        ingest([str(path)], str(tmp_path / "trace"), spark, options)
    assert Trace.open(str(tmp_path / "trace")).digest() == good.digest()
    assert not list((tmp_path / "trace").glob(".staging*"))


@pytest.mark.jvm
def test_the_same_file_twice_changes_nothing_and_a_longer_one_adds_what_is_new(spark, tmp_path):
    messages = made_up(6, 300)
    path = tmp_path / "log.jsonl"
    for upto in (3, 100, 100, 300):
        written(path, messages[:upto])
        done = ingest([str(path)], str(tmp_path / "grown"), spark)
        assert done.trace.rows("messages") == upto
        assert of_observation(observe(done.trace), done.trace.names) == observed(messages[:upto])
    assert done.accounts[0].lines == 200
    with pytest.raises(BadTrace, match="is shorter"):
        written(path, messages[:200])
        ingest([str(path)], str(tmp_path / "grown"), spark)


def test_growing_by_parts_is_the_same_as_all_at_once(sail, tmp_path):
    """Where the first part already has every name: ids are given once and never change."""
    messages = made_up(16, 300)
    path = tmp_path / "log.jsonl"
    for upto in (250, 280, 300):
        grown = ingest([written(path, messages[:upto])], str(tmp_path / "grown"), sail).trace
    assert grown.digest() == ingest([str(path)], str(tmp_path / "once"), sail).trace.digest()


def test_an_ingest_that_dies_leaves_the_trace_as_it_was(sail, tmp_path, monkeypatch):
    first = ingest([written(tmp_path / "a.jsonl", made_up(7, 50))], str(tmp_path / "trace"), sail).trace
    from overlace.ingest import merge
    from overlace.ingest.run import Ingest

    steps = [(merge, each) for each in ("facts_of", "write_messages", "write_traffic", "write_names")]
    for owner, step in [*steps, (Ingest, "_scope"), (Ingest, "_commit")]:

        def die(*_, **__):
            raise KeyboardInterrupt

        with monkeypatch.context() as patched:
            patched.setattr(owner, step, die)
            with pytest.raises(KeyboardInterrupt):
                ingest([written(tmp_path / "b.jsonl", made_up(8, 50))], str(tmp_path / "trace"), sail)
        assert Trace.open(str(tmp_path / "trace")).digest() == first.digest()
        assert observe(Trace.open(str(tmp_path / "trace"))) == observe(first)


MOMENTS = [".staging-*/events/_temporary/*", "messages/generation=*/*/*/*.parquet"]
"""As soon as the first file of a stage is there: two in which most is under way."""

MORE_MOMENTS = [
    ".lock", ".staging-*/events/*/*.parquet", ".staging-*/joined/*", "traffic/generation=*/*/*.parquet",
    "audiences/generation=*/*.parquet", "names/generation=*/*.parquet", "sources/*.parquet", ".trace.json-*",
]  # fmt: skip


@pytest.mark.jvm
@pytest.mark.parametrize(
    ("reached", "grown"),
    [*zip(MOMENTS, (False, True), strict=True), *(pytest.param(*each, marks=pytest.mark.long) for each in (
        *zip(MOMENTS, (True, False), strict=True), *product(MORE_MOMENTS, (False, True))
    ) if each != (".staging-*/joined/*", True))],  # what is new of this log is joined to nothing apart
)  # fmt: skip
def test_an_ingest_that_is_killed_leaves_the_trace_as_it_was(spark, tmp_path, monkeypatch, reached, grown):
    """kill -9 to the driver and its JVM at some moment; then the same command gives what it gives undisturbed."""
    monkeypatch.chdir(tmp_path)
    rows = [{**row, "id": i % 3000} for i, row in enumerate(made_up(8, 4000, clients=200))]
    log, digests = written(tmp_path / "b.jsonl", rows[:3500]), [None]
    if grown:
        digests = [ingest([log], "trace", spark).trace.digest()]
        shutil.copytree("trace", "undisturbed")
        written(tmp_path / "b.jsonl", rows)
    after = ingest([log], "undisturbed", spark).trace.digest()

    def there():
        with contextlib.suppress(FileNotFoundError):  # a folder that goes while it is looked through
            return set((tmp_path / "trace").glob(reached))
        return set()

    def kill_at_the_moment():
        known = there()
        killed = command("ingest", log, "--out", "trace", "--master", "local[1]")
        while not (reached_it := bool(there() - known)) and killed.poll() is None:
            pass
        with contextlib.suppress(ProcessLookupError):  # it has ended
            os.killpg(killed.pid, signal.SIGKILL)
        killed.communicate()
        return reached_it

    if grown:
        shutil.copytree("trace", "before")
    monkeypatch.setenv("SPARK_CONNECT_MODE_ENABLED", "1")  # as from a notebook that talks to a server
    for _ in range(6):  # on a busy machine a file comes and goes between two looks
        if kill_at_the_moment():
            break
        shutil.rmtree("trace")
        if grown:
            shutil.copytree("before", "trace")
    else:
        pytest.fail(f"{reached} was not seen in six runs")
    monkeypatch.delenv("SPARK_CONNECT_MODE_ENABLED")
    left = Trace.open("trace").digest() if Trace.exists("trace") else None
    assert left in (*digests, after)
    assert ingest([log], "trace", spark).trace.digest() == after
    assert not [each.name for each in (tmp_path / "trace").iterdir() if each.name.startswith(".")]


@pytest.mark.jvm
def test_rows_with_one_key_are_one_message_and_doubles_are_counted(spark, tmp_path):
    path = tmp_path / "mail.csv"
    rows = ["src,dst,time", "a,b,100", "a,c,100", "a,b,100", "b,c,100", "a,b,200"]
    path.write_text("\n".join(rows) + "\n")
    done = ingest([str(path)], str(tmp_path / "trace"), spark, Options(group=("sender", "at")))
    (account,) = done.accounts
    assert (account.lines, account.kept, account.duplicates, account.ignored) == (6, 4, 1, {"header": 1})
    expected = [
        {"client": "a", "receivers": ["b", "c"]},
        {"client": "b", "receivers": ["c"]},
        {"client": "a", "receivers": ["b"]},
    ]
    assert of_observation(observe(done.trace), done.trace.names) == observed(expected)


def test_counts_go_straight_into_traffic_and_receivers_follow_from_subscriptions(sail, tmp_path):
    from overlace.ingest.tables import add_tables

    (tmp_path / "counts.csv").write_text(
        "hour,client,topic,messages,bytes\n2026-01-05T00:00,a,x/1,10,500\n2026-01-05T00:00,a,x/1,5,100\n2026-01-06T07:00,b,y,7,70\n"
    )
    (tmp_path / "subs.csv").write_text("client,filter,dialect\nc,x/+,mqtt\nd,#,mqtt\na,x/1,mqtt\n")
    ingest([str(tmp_path / "counts.csv")], str(tmp_path / "trace"), sail, Options(format="counts"))
    trace, _ = add_tables([str(tmp_path / "subs.csv")], "subscriptions", str(tmp_path / "trace"), {})
    flows, classes, sent = of_observation(observe(trace), trace.names)
    assert sent == {"a": 15, "b": 7}
    assert flows == {
        ("a", "c"): 15,
        ("a", "c", "bytes"): 600,
        ("a", "d"): 15,
        ("a", "d", "bytes"): 600,
        ("b", "d"): 7,
        ("b", "d", "bytes"): 70,
    }
    assert classes == {frozenset("acd"): 15, frozenset("bd"): 7}


@pytest.mark.jvm
def test_held_out_rows_do_not_reach_the_observation(spark, tmp_path):
    messages = made_up(9, 600, days=6)
    trace = ingest([written(tmp_path / "a.jsonl", messages)], str(tmp_path / "a"), spark).trace
    parts = cut(trace)
    early = [m for m in messages if m["at"] * 10**6 < parts.train[1]]
    late = [
        {**m, "client": "a-newcomer", "receivers": ["c1", "another"], "topic": "a-new-topic", "broker": "a-new-broker"}
        for m in messages
        if m["at"] * 10**6 >= parts.train[1]
    ]
    other = ingest([written(tmp_path / "b.jsonl", [*early, *late])], str(tmp_path / "b"), spark).trace
    assert cut(other) == parts
    assert 0.6 < parts.share < 0.9
    assert observe(trace, parts.train) == observe(other, parts.train)
    assert observe(trace, parts.held_out) != observe(other, parts.held_out)


def test_files_that_begin_alike_are_told_apart(sail, tmp_path):
    messages = made_up(20, 60)
    a = written(tmp_path / "a.jsonl", messages[:50])
    b = written(tmp_path / "b.jsonl", [*messages[:40], *made_up(21, 20)])
    both = ingest([a, b], str(tmp_path / "t"), sail)
    assert both.trace.rows("messages") == 50 + 60
    again = ingest([a, b], str(tmp_path / "t"), sail)
    assert sorted(again.known) == ["a.jsonl: nothing new", "b.jsonl: nothing new"]
    assert again.trace.digest() == both.trace.digest()


def test_empty_files_and_headers_alone_swallow_nothing(sail, tmp_path):
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs/empty.jsonl").write_text("")
    written(tmp_path / "logs/x.jsonl", made_up(22, 30))
    done = ingest([str(tmp_path / "logs")], str(tmp_path / "t"), sail)
    assert done.trace.rows("messages") == 30
    for name, rows in (("h1", 0), ("h2", 5), ("h3", 3)):
        text = "client,at,topic\n" + "".join(f"{name}-{i},{1000 + i},t\n" for i in range(rows))
        (tmp_path / f"{name}.csv").write_text(text)
        done = ingest([str(tmp_path / f"{name}.csv")], str(tmp_path / "u"), sail)
    assert done.trace.rows("messages") == 8


def test_a_log_is_not_counted_packed_and_plain(sail, tmp_path):
    path = written(tmp_path / "log.jsonl", made_up(23, 40))
    packed = tmp_path / "log.jsonl.gz"
    packed.write_bytes(gzip.compress((tmp_path / "log.jsonl").read_bytes()))
    assert ingest([str(packed)], str(tmp_path / "t"), sail).trace.rows("messages") == 40
    assert ingest([path], str(tmp_path / "t"), sail).trace.rows("messages") == 40


def test_ids_of_messages_are_those_of_their_own_file(sail, tmp_path):
    for name in ("a", "b"):
        (tmp_path / f"{name}.csv").write_text(
            f"id,client,receiver,at\n1,{name},y,100\n1,{name},z,100\n1,{name},y,100\n"
        )
    done = ingest([str(tmp_path / "a.csv"), str(tmp_path / "b.csv")], str(tmp_path / "t"), sail)
    assert done.trace.rows("messages") == 2
    assert [(a.lines, a.kept, a.duplicates) for a in done.accounts] == [(4, 2, 1)] * 2


def test_what_is_empty_has_no_name_and_what_looks_like_a_date_keeps_its_text(sail, tmp_path):
    rows = b"x,y;;z;,,,1767571200\nx,,t,,1767571200\n"
    (tmp_path / "a.csv").write_bytes(b"\xef\xbb\xbfclient,receivers,topic,broker,at\n" + rows)
    with pytest.raises(BadTrace, match="receivers: looks like a list; name its separator"):
        ingest([str(tmp_path / "a.csv")], str(tmp_path / "t"), sail, Options(unit="ns", max_bad=0.1))
    done = ingest([str(tmp_path / "a.csv")], str(tmp_path / "t"), sail, Options(list_separator=";"))
    assert done.accounts[0].kept == 2
    assert done.trace.names == {"client": ["x", "y", "z"], "topic": ["t"]}
    rows = [{"client": "m", "at": START + i, "topic": "2024-01-01", "receivers": ["n", None, ""]} for i in range(3)]
    named = ingest([written(tmp_path / "d.jsonl", rows)], str(tmp_path / "u"), sail).trace
    assert named.names == {"client": ["m", "n"], "topic": ["2024-01-01"]}
    assert of_observation(observe(named), named.names)[0]["m", "n"] == 3


def test_home_is_where_a_client_was_seen_last(sail, tmp_path):
    rows = [{"client": "x", "broker": b, "at": START + i * 7200, "receivers": ["y"]} for i, b in enumerate("ABAAAA")]
    trace = ingest([written(tmp_path / "l.jsonl", rows)], str(tmp_path / "t"), sail).trace
    found = observe(trace)
    assert [trace.names["broker"][b] for _, b in found.overlay.placement.tolist()] == ["A"]
    middle = (START * 10**6, (START + 2 * 7200 - 1) * 10**6)
    assert [trace.names["broker"][b] for _, b in observe(trace, middle).overlay.placement.tolist()] == ["B"]


def test_a_mapping_that_names_nothing_is_refused_before_anything_is_read(sail, tmp_path):
    (tmp_path / "a.csv").write_text("client,receiver,at\nx,y,100\n")
    with pytest.raises(Unknown, match="no column is called 'clint'. Nearest: client"):
        ingest([str(tmp_path / "a.csv")], str(tmp_path / "t"), sail, Options(map={"client": "clint"}))
    with pytest.raises(Unknown, match="no field of this log is called 'topic'"):
        ingest([str(tmp_path / "a.csv")], str(tmp_path / "t"), sail, Options(group=("sender", "topic")))
    with pytest.raises(BadParameter, match="map their column"):
        ingest([str(tmp_path / "a.csv")], str(tmp_path / "t"), sail, Options(identity="user"))


def test_what_a_task_says_is_one_clear_line(sail, tmp_path):
    rows = [{"client": "x", "at": START, "attributes": [f"a{i}" for i in range(70)], "receivers": []}]
    with pytest.raises(BadTrace, match="^70 attributes; a mask holds at most 63"):
        ingest([written(tmp_path / "l.jsonl", rows)], str(tmp_path / "t[1]"), sail)


def test_ids_that_are_made_up_for_each_connection_are_warned_of_and_can_be_joined(sail, tmp_path):
    rows = [{"client": f"app-{i % 3}-{i:08x}", "at": START + i, "receivers": []} for i in range(60)]
    path = written(tmp_path / "l.jsonl", rows)
    done = ingest([path], str(tmp_path / "t"), sail)
    assert done.notes == [
        "60 of 60 senders sent 3 messages or fewer in all. If their ids are made up for each connection, say who is "
        "one client with --identity PATTERN."
    ]
    joined = ingest([path], str(tmp_path / "u"), sail, Options(identity="app-[0-9]+"))
    assert joined.trace.names["client"] == ["app-0", "app-1", "app-2"]
    assert joined.notes == []


def test_names_can_be_hidden_and_the_rest_stays_the_same(sail, tmp_path, monkeypatch):
    monkeypatch.setenv("OVERLACE_KEY", "a key of sixteen bytes or more")
    messages = made_up(10, 100)
    path = written(tmp_path / "log.jsonl", messages)
    with open(path, "a") as log:
        log.write("c3 said something secret\n")
    plain = ingest([path], str(tmp_path / "plain"), sail).trace
    hidden = ingest([path], str(tmp_path / "hidden"), sail, Options(pseudonymise=True)).trace
    files = b"".join(p.read_bytes() for p in (tmp_path / "hidden").rglob("*") if p.is_file())
    assert b"secret" not in files
    assert not set(plain.names["client"]) & set(hidden.names["client"])
    a, b = observe(plain), observe(hidden)
    assert sorted(a.sent) == sorted(b.sent)
    assert sorted(a.classes.demand) == sorted(b.classes.demand)


def test_unknown_formats_and_fields_are_answered_with_what_there_is(sail, tmp_path):
    path = tmp_path / "prose.txt"
    path.write_text("once upon a time\nthere was, a log\n\n")
    with pytest.raises(BadTrace, match="does not exist"):
        ingest([str(tmp_path / "none")], str(tmp_path / "t"), sail)
    with pytest.raises(BadTrace, match="no known format"):
        ingest([str(path)], str(tmp_path / "t"), sail)


def test_messages_lie_by_day(sail, tmp_path):
    trace = ingest([written(tmp_path / "log.jsonl", made_up(11))], str(tmp_path / "t"), sail).trace
    days = {part.path.rpartition("period=")[2] for part in trace.parts["messages"]}
    for part in trace.parts["messages"]:
        table = pq.read_table(tmp_path / "t" / part.path, partitioning=None)
        assert {str(at.date()) for at in table["at"].to_pylist()} == {part.path.rpartition("period=")[2]}
    assert len(days) == 3


USERS = """1767571200: mosquitto version 2.0.11 starting
1767571201: New client connected from 127.0.0.1:1 as c1 (p2, c1, k60, u'ann').
1767571201: New client connected from 127.0.0.1:1 as c2 (p2, c1, k60, u'ann').
1767571201: New client connected from 127.0.0.1:1 as c3 (p2, c1, k60).
1767571202: Received PUBLISH from c3 (d0, q0, r0, m0, 't', ... (5 bytes))
1767571202: Sending PUBLISH to c1 (d0, q0, r0, m0, 't', ... (5 bytes))
1767571202: Sending PUBLISH to c2 (d0, q0, r0, m0, 't', ... (5 bytes))
1767571202: Sending PUBLISH to c1 (d0, q0, r0, m0, 't', ... (5 bytes))
"""


@pytest.mark.parametrize(("identity", "receivers"), [("user", {"ann"}), ("client", {"c1", "c2"})])
def test_who_is_one_client_is_the_users_choice_and_a_second_send_is_load_but_no_flow(
    sail, tmp_path, identity, receivers
):
    (tmp_path / "site.log").write_text(USERS)
    done = ingest([str(tmp_path / "site.log")], str(tmp_path / "trace"), sail, Options(identity=identity))
    names = done.trace.names["client"]
    found = observe(done.trace)
    assert {names[c] for c in found.flows.receiver.tolist()} == receivers
    assert found.flows.messages.tolist() == [1] * len(receivers)
    from overlace.replay.measure import double_sends

    load = double_sends(found, found.overlay, done.trace.read("doubles"))
    assert load.of("double_sends") == load.of("double_sends", "broker", 0) == 1
    (twice,) = done.trace.read("doubles").to_pylist()
    assert (twice["messages"], twice["bytes"]) == (1, 5)
    assert names[twice["client"]] == ("ann" if identity == "user" else "c1")
    assert all(account.adds_up() for account in done.accounts)


@pytest.mark.jvm
def test_observe_and_replay_on_a_session_of_the_users_own_give_what_they_give_in_process(spark, tmp_path):
    from overlace.ingest.tables import add_tables
    from overlace.observe.cut import cut_at
    from overlace.observe.known import known_as
    from overlace.observe.later import later
    from overlace.observe.observation import observe_with_names
    from overlace.observe.traffic import IN_PROCESS
    from overlace.replay.measure import measure
    from overlace.spark.reduction import OnEngine

    ingest([written(tmp_path / "log.jsonl", made_up(9, 200))], str(tmp_path / "trace"), spark)
    (tmp_path / "links.csv").write_text("left,right\nb0,b1\nb1,b2\n")
    trace, _ = add_tables([str(tmp_path / "links.csv")], "links", str(tmp_path / "trace"), {})
    parts = cut_at(trace, (START + 100_000) * 10**6)  # inside a bucket
    here, names = observe_with_names(trace, parts.train)
    assert observe_with_names(trace, parts.train, OnEngine(spark))[0].digest() == here.digest()
    follows = [
        later(trace, parts.held_out, known_as(trace, names), here, reader=r) for r in (IN_PROCESS, OnEngine(spark))
    ]
    found = [measure(each.stage, each.overlay(here.overlay), each.rows(), trace.unit).digest() for each in follows]
    assert found[0] == found[1]
    assert spark.range(3).count() == 3  # it is still there


def test_receivers_by_content_are_the_same_on_spark_as_in_a_list(sail, tmp_path):
    filters = ["close > 10 and symbol prefix 'A'", "close <= 10", "symbol = 'B'"]
    listed = [{"client": f"c{i}", "filter": text, "dialect": "content"} for i, text in enumerate(filters)]
    rng = random.Random(5)
    rows = [
        {"at": START + i, "client": "p", "symbol": rng.choice("AB"), "close": rng.randrange(20)} for i in range(300)
    ]
    how, found = Options(content=("symbol", "close")), []
    for name, run in (
        ("list", lambda *a: ingest_sources(*a, options=how)),
        ("sail", lambda *a: ingest(*a, sail, how)),
    ):
        out = str(tmp_path / name)
        add_tables([written(tmp_path / "subs.jsonl", listed)], "subscriptions", out, {})
        trace = run([written(tmp_path / "log.jsonl", rows)], out).trace
        found.append([trace.read(table).sort_by(key).to_pylist() for table, key in TABLES])
    assert found[0] == found[1]
    assert sum(len(row["receivers"]) for row in found[0][1]) > 0


TABLES = (("messages", "message"), ("audiences", "audience"), ("names", "name"))
