"""Raw trace events of nats-server: captured ones (capture_nats.py), and made up ones like them."""

import json
import tempfile
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from overlace.errors import BadParameter, BadTrace
from overlace.ingest.accounts import INCOMPLETE
from overlace.ingest.formats.nats import NO_EVENT, NO_ID, Hop, adds_up, read_event
from overlace.ingest.options import Options
from overlace.ingest.sources import guess
from overlace.matching.names import pseudonyms
from overlace.peek.peek import peek
from tests.engine import ingest_sources
from tests.ingest.capture_nats import EXPECTED, FILE
from tests.ingest.logs import ingested
from tests.ingest.test_growing import Reads

LINES = FILE.read_bytes().splitlines(keepends=True)
ALL = b"".join(LINES)
HOUR = 3_600_000_000


# --- events that are made up ------------------------------------------------------------------------------


def event(server, hop, children, *, came, subject, told, at, receivers=(), **more):
    """An event as nats-server writes it."""
    time = f"2026-11-18T08:{at // 60_000_000 % 60:02}:{at // 1_000_000 % 60:02}.{at % 1_000_000:06}123Z"
    header = {**told, **({"Nats-Trace-Hop": [hop]} if hop else {})}
    kind, name = came
    steps = [{"type": "in", "ts": time, "kind": kind, "cid": 9, "name": name, "acc": "BLUE", "subj": subject}]
    for who, what, queue in receivers:
        steps.append({"type": "eg", "ts": time, "kind": 0, "cid": 7, "name": who, "sub": what})
        if queue:
            steps[-1]["queue"] = queue
    steps += [
        {"type": "eg", "ts": time, "kind": 4, "cid": 6, "name": far, "hop": own} for far, own in children
    ]  # fmt: skip
    found = {"server": {"name": server, "host": "127.0.0.1"}, "request": {"header": header, "msgsize": 300}}
    return {**found, **({"hops": len(children)} if children else {}), "events": steps, **more}


@st.composite
def traces(draw, most=6):
    """(lines, messages): events of some messages over random trees of servers, and what was published."""
    lines, messages = [], []
    for number in range(draw(st.integers(1, most))):
        parents = [draw(st.integers(0, max(i - 1, 0))) for i in range(draw(st.integers(1, 5)))]
        told = {"Nats-Trace-Dest": [f"_OVERLACE.trace.{number}"]}
        if draw(st.booleans()):
            told = {"traceparent": [f"00-{number:032x}-{number:016x}-01"]}
        hops, counts = {0: ""}, Counter()
        for i in range(1, len(parents)):
            counts[parents[i]] += 1
            hops[i] = f"{hops[parents[i]]}.{counts[parents[i]]}".lstrip(".")
        publisher, everybody = draw(st.sampled_from("pqr")), set()
        for i, hop in hops.items():
            got = draw(
                st.lists(st.tuples(st.sampled_from("abcd"), st.just("t.>"), st.sampled_from([None, "g"])), max_size=3)
            )
            everybody |= {who for who, *_ in got}
            children = [(f"s{j}", hops[j]) for j in range(1, len(parents)) if parents[j] == i]
            came = (0, publisher) if not hop else (4, f"s{parents[i]}")
            made = event(
                f"s{i}", hop, children, came=came, subject=f"t.{number % 2}", told=told, at=number * 1000 + i,
                receivers=got,
            )  # fmt: skip
            lines.append(json.dumps(made).encode() + b"\n")
        messages.append((publisher, f"t.{number % 2}", frozenset(everybody)))
    return draw(st.permutations(lines)), messages


# --- what a trace holds -----------------------------------------------------------------------------------


def flows(trace):
    """Every message by names: (sender, topic, bytes, receivers)."""
    names, sets = trace.names, {row["audience"]: row["receivers"] for row in trace.read("audiences").to_pylist()}
    return Counter(
        (
            names["client"][row["client"]], names["topic"][row["topic"]], row["bytes"],
            frozenset(names["client"][each] for each in sets[row["audience"]]),
        )
        for row in trace.read("messages").to_pylist()
    )  # fmt: skip


def summed(trace):
    """Messages by time, sender, topic and receivers, from the table of traffic."""
    names, sets = trace.names, {row["audience"]: row["receivers"] for row in trace.read("audiences").to_pylist()}
    found = Counter()
    for row in trace.read("traffic").to_pylist():
        who = frozenset(names["client"][each] for each in sets[row["audience"]])
        found[row["bucket"], names["client"][row["client"]], names["topic"][row["topic"]], who] += row["messages"]
    return found


def homes(trace):
    names = trace.names
    rows = trace.read("sessions").to_pylist()
    return {(names["client"][row["client"]], names["broker"][row["broker"]]) for row in rows}


def asked(trace):
    """(client, filter or topic, group) and since when, the first of each."""
    names, found = trace.names, {}
    for row in trace.read("subscriptions").to_pylist():
        what = row["filter"] or names["topic"][row["topic"]]
        name = (names["client"][row["client"]], what, row["group"])
        found[name] = min(row["since"], found.get(name, row["since"]))
    return found


def links(trace):
    brokers = trace.names["broker"]
    return {frozenset((brokers[row["left"]], brokers[row["right"]])) for row in trace.read("links").to_pylist()}


def everything(trace):
    return flows(trace), summed(trace), homes(trace), asked(trace), links(trace)


def lines_in_all(trace):
    """What became of all lines, over all files."""
    rows = trace.read("sources").to_pylist()
    return {name: sum(row[name] for row in rows) for name in ("lines", "kept", "ignored", "quarantined", "duplicates")}


def ingest(folder, files, name="trace", **options):
    """Files, given as lines or bytes, into a trace."""
    paths = []
    for file, lines in files.items():
        path = Path(folder) / file
        path.write_bytes(lines if isinstance(lines, bytes) else b"".join(lines))
        paths.append(str(path))
    return ingest_sources(paths, str(Path(folder) / name), options=Options(**options))


# --- captured events --------------------------------------------------------------------------------------


def test_captured_events_are_the_messages_that_were_published(tmp_path):
    done = ingest(tmp_path, {"events.jsonl": ALL})
    folded = [(who, "_INBOX.>" if what == "_INBOX" else what, *rest) for who, what, *rest in EXPECTED]
    assert flows(done.trace) == Counter(folded)
    (account,) = done.accounts
    assert (account.format, account.ignored, account.bad, account.duplicates) == ("nats", {"probe": 4}, 0, 0)
    assert account.adds_up()


def test_captured_events_tell_homes_subscriptions_and_links(tmp_path):
    done = ingest(tmp_path, {"events.jsonl": ALL})
    odd = 'é "odd" \\ > *'
    assert homes(done.trace) == {
        ("plc 1", "hub-2"), ("hmi", "hub-1"), ("hmi", "hub-4"), ("hub-3:12", "hub-3"), (odd, "hub-4"),
        ("echo", "hub-2"), ("worker-3", "hub-3"), ("worker-4", "hub-4"),
    }  # fmt: skip
    assert set(asked(done.trace)) == {
        ("hmi", "fab.>", None), ("hmi", "fab.1.*", None), ("hmi", "fab.1.temp", None), ("hmi", "new.7", None),
        ("hub-3:12", "fab.1.temp", None), (odd, "fab.>", None), ("echo", "fab.*", None),
        ("worker-3", "jobs", "workers"), ("worker-4", "svc", None), ("plc 1", "_INBOX.>", None),
    }  # fmt: skip
    assert links(done.trace) == {
        frozenset(pair) for pair in (("hub-1", "hub-2"), ("hub-1", "hub-3"), ("hub-3", "hub-4"))
    }
    assert any("hmi" in note and "--identity broker/client" in note for note in done.notes)


def test_two_clients_with_one_name_are_told_apart_by_their_servers(tmp_path):
    done = ingest(tmp_path, {"events.jsonl": ALL}, identity="broker/client")
    assert {("hub-1/hmi", "hub-1"), ("hub-4/hmi", "hub-4")} <= homes(done.trace)
    (first, *_) = [who for (*_, who) in flows(done.trace) if len(who) == 4]
    assert first == {"hub-1/hmi", "hub-4/hmi", "hub-3/hub-3:12", 'hub-4/é "odd" \\ > *'}
    assert done.notes == []


def test_the_format_is_told_by_the_first_bytes(tmp_path):
    assert guess(ALL[:4096]) == "nats"
    assert guess(b'{"server": "hub-1", "client": "a", "topic": "t", "at": 1}\n') == "jsonl"
    path = tmp_path / "events.jsonl"
    path.write_bytes(ALL)
    assert peek([str(path)]).format == "nats"


def test_names_are_hidden_with_a_key(tmp_path, monkeypatch):
    monkeypatch.setenv("OVERLACE_KEY", "a key of this test")
    done = ingest(tmp_path, {"events.jsonl": ALL}, pseudonymise=True)
    assert sum(flows(done.trace).values()) == len(EXPECTED)
    (hidden,) = pseudonyms(pa.array(["plc 1"]), b"a key of this test").to_pylist()
    assert hidden in done.trace.names["client"]
    text = b"".join(path.read_bytes() for path in (tmp_path / "trace").rglob("*") if path.is_file())
    assert b"plc 1" not in text
    assert b"events.jsonl" not in text
    assert str(tmp_path).encode() not in text


# --- laws -------------------------------------------------------------------------------------------------


@given(traces())
@ingested(60)
def test_what_was_published_is_what_is_read_in_any_order(made):
    lines, messages = made
    with tempfile.TemporaryDirectory() as folder:
        done = ingest(folder, {"a.jsonl": lines})
        found = flows(done.trace)
    assert Counter((who, what, got) for who, what, _, got in found.elements()) == Counter(messages)
    assert done.accounts[0].adds_up()
    assert done.accounts[0].kept == len(lines)


@given(st.data(), st.sampled_from(["captured", "made"]))
@ingested(80)
def test_an_event_more_or_less_makes_a_trace_incomplete_never_wrong(data, which):
    lines = list(LINES) if which == "captured" else data.draw(traces())[0]
    number = data.draw(st.integers(0, len(lines) - 1))
    touched = read_event(lines[number])
    if isinstance(touched, str):
        return
    how = data.draw(st.sampled_from(["remove", "duplicate", "hop", "hops", "child", "subject", "first"]))
    changed = {"remove": [], "duplicate": [lines[number]] * 2}.get(how, [_altered(lines[number], how)])
    fewer = [*lines[:number], *changed, *lines[number + 1 :]]
    with tempfile.TemporaryDirectory() as folder:
        whole = ingest(folder, {"a.jsonl": lines}, "whole").trace
        before = flows(whole)
        if not fewer:
            return
        done = ingest(folder, {"b.jsonl": fewer}, "less")
        after, (account,) = flows(done.trace), done.accounts
    gone = before - after
    assert not after - before
    assert sum(gone.values()) == 1
    (lost,) = gone
    assert lost[1] == ("_INBOX.>" if touched.topic.startswith("_INBOX") else lost[1])
    assert account.adds_up()
    same = [read_event(each) for each in fewer]
    left = sum(isinstance(each, Hop) for each in same) - account.kept
    assert account.bad == left
    assert set(account.quarantined) <= {INCOMPLETE}


def _altered(line, how):
    found = json.loads(line)
    steps = found["events"]
    if how == "hop":
        header = found["request"]["header"]
        if "Nats-Trace-Hop" not in header or steps[0]["kind"] == 0:
            how = "hops"
        else:
            header["Nats-Trace-Hop"] = [header["Nats-Trace-Hop"][0] + ".7"]
    if how == "hops":
        found["hops"] = found.get("hops", 0) + 1
    elif how == "child":
        steps.append({**steps[0], "type": "eg", "kind": 4, "name": "elsewhere", "hop": "9"})
        found["hops"] = found.get("hops", 0) + 1
    elif how == "subject":
        steps[0]["subj"] += ".other"
        steps.append({**steps[0], "type": "eg", "kind": 4, "name": "untraced"})  # a server that traces nothing
    elif how == "first":
        if steps[0]["kind"] == 0:
            steps[0]["kind"] = 4
            found["request"]["header"]["Nats-Trace-Hop"] = ["1.9"]
        else:
            steps[0]["kind"] = 0
            steps.append({**steps[0], "type": "eg", "kind": 4, "name": "untraced"})
    return json.dumps(found).encode() + b"\n"


@given(st.data(), st.sampled_from(["captured", "made"]), st.sampled_from(["grown", "together", "again", "apart"]))
@ingested(60)
def test_two_halves_give_the_trace_of_all_at_once(data, which, how):
    lines = list(LINES) if which == "captured" else data.draw(traces())[0]
    if data.draw(st.booleans()):
        lines.append(data.draw(st.sampled_from(lines)))  # one too many
    cut = data.draw(st.integers(0, len(lines)))
    first, second = lines[:cut], lines[cut:]
    reduced = {"reduce_only": how == "together" and data.draw(st.booleans())}  # else events of a message come at once
    with tempfile.TemporaryDirectory() as folder:
        whole = ingest(folder, {"all.jsonl": lines}, "whole", **reduced).trace
        if how == "together" or not first or not second:
            halves = ingest(folder, {"a.jsonl": first, "b.jsonl": second}, "halves", **reduced).trace
        elif how == "grown":
            ingest(folder, {"a.jsonl": first}, "halves", **reduced)
            halves = ingest(folder, {"a.jsonl": lines}, "halves", **reduced).trace
        elif how == "again":
            ingest(folder, {"a.jsonl": first}, "halves", **reduced)
            halves = ingest(folder, {"a.jsonl": first, "b.jsonl": second}, "halves", **reduced).trace
        else:
            ingest(folder, {"a.jsonl": first}, "halves", **reduced)
            halves = ingest(folder, {"b.jsonl": second}, "halves", **reduced).trace
        assert everything(halves) == everything(whole)
        assert lines_in_all(halves) == lines_in_all(whole)


def test_a_half_whose_file_is_gone_is_joined_with_the_other(tmp_path):
    lines = [json.dumps(each).encode() + b"\n" for each in (
        event("s0", "", [("s1", "1")], came=(0, "p"), subject="t", told={"Nats-Trace-Dest": ["x"]}, at=1),
        event("s1", "1", [], came=(4, "s0"), subject="t", told={"Nats-Trace-Dest": ["x"]}, at=2,
              receivers=[("a", "t", None)]),
    )]  # fmt: skip
    first = ingest(tmp_path, {"first.jsonl": lines[:1]}).trace
    assert (first.rows("messages"), lines_in_all(first)["quarantined"]) == (0, 1)
    (tmp_path / "first.jsonl").unlink()
    trace = ingest(tmp_path, {"second.jsonl": lines[1:]}).trace
    assert flows(trace) == Counter([("p", "t", 268, frozenset("a"))])
    assert lines_in_all(trace) == {"lines": 2, "kept": 2, "ignored": 0, "quarantined": 0, "duplicates": 0}


@pytest.mark.parametrize("odd", [0, 1])
def test_of_a_long_log_that_grew_only_what_is_new_is_read(odd, monkeypatch):
    """Messages go on where it was read last; sessions and subscriptions stay as they were."""
    told = [{"Nats-Trace-Dest": [f"x{i}"]} for i in range(6000)]
    lines = []
    for i, each in enumerate(told):
        away = event("s0", "", [("s1", "1")], came=(0, f"p{i % 7}"), subject="t", told=each, at=i * 900)
        home = event("s1", "1", [], came=(4, "s0"), subject="t", told=each, at=i * 900 + 50,
                     receivers=[(f"a{i % 5}", "t", None)])  # fmt: skip
        lines += [json.dumps(each).encode() + b"\n" for each in ((away, home) if i % 3 else (home, away))]
    cut = len(lines) - 1001 - odd
    with tempfile.TemporaryDirectory() as folder:
        whole = ingest(folder, {"all.jsonl": lines}, "whole").trace
        ingest(folder, {"a.jsonl": lines[:cut]}, "halves")
        reads = Reads(monkeypatch)
        halves = ingest(folder, {"a.jsonl": lines}, "halves").trace
        assert everything(halves) == everything(whole)
        assert lines_in_all(halves) == lines_in_all(whole)
        assert reads.taken() == len(b"".join(lines[cut:]))


# --- single events ----------------------------------------------------------------------------------------

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)


@given(st.data())
@ingested(300)
def test_whatever_stands_in_an_event_every_line_is_accounted_for(data):
    found = json.loads(data.draw(st.sampled_from(LINES)))
    part = found
    for _ in range(data.draw(st.integers(0, 4))):  # somewhere inside, something else
        inner = [key for key, value in _items(part) if isinstance(value, dict | list) and value]
        if not inner:
            break
        part = part[data.draw(st.sampled_from(inner))]
    keys = [key for key, _ in _items(part)]
    part[data.draw(st.sampled_from(keys))] = data.draw(JSON)
    line = json.dumps(found).encode() + b"\n"
    with tempfile.TemporaryDirectory() as folder:
        done = ingest(folder, {"a.jsonl": [*LINES, line]}, format="nats")
    (account,) = done.accounts
    assert account.adds_up()
    assert account.lines == len(LINES) + 1


def _items(part):
    return list(part.items()) if isinstance(part, dict) else list(enumerate(part))


@pytest.mark.parametrize("line", [b"", b"{}", b"[]", b"null", b'{"server":{"name":"a"}}', b"\xff", b'{"a":' * 2000])
def test_what_is_no_event_is_said_to_be_none(line):
    assert read_event(line) == NO_EVENT


def test_events_of_a_message_that_no_header_tells_are_bad():
    one = event("s0", "", [], came=(0, "p"), subject="t", told={"X-Id": ["1"]}, at=1)
    assert read_event(json.dumps(one)) == NO_ID
    assert isinstance(read_event(json.dumps(one), ["x-id"]), Hop)


def test_a_named_header_tells_messages_apart_that_have_one_destination(tmp_path):
    lines = []
    for number in range(3):
        told = {"Nats-Trace-Dest": ["traces"], "X-Id": [str(number)]}
        lines.append(event("s0", "", [("s1", "1")], came=(0, "p"), subject="t", told=told, at=number))
        lines.append(
            event("s1", "1", [], came=(4, "s0"), subject="t", told=told, at=number, receivers=[("a", "t", None)])
        )
    raw = [json.dumps(each).encode() + b"\n" for each in lines]
    done = ingest(tmp_path, {"a.jsonl": raw}, "one", map={"id": "X-Id"})
    assert [(who, got) for who, _, _, got in flows(done.trace).elements()] == [("p", {"a"})] * 3
    done = ingest(tmp_path, {"a.jsonl": raw}, "other")
    assert done.accounts[0].quarantined[INCOMPLETE][0] == 6
    with pytest.raises(BadParameter, match="--map"):
        ingest(tmp_path, {"a.jsonl": raw}, "third", map={"client": "name"})


def test_too_many_incomplete_traces_are_refused_with_what_to_do(tmp_path):
    with pytest.raises(BadTrace, match=r"incomplete trace, of which events are missing.*--map id=HEADER"):
        ingest(tmp_path, {"a.jsonl": LINES[::2]}, max_bad=0.1)
    assert not (tmp_path / "trace" / "trace.json").exists()


@given(traces(most=1))
def test_balances_add_up_only_over_all_events(made):
    lines, _ = made
    hops = [read_event(line) for line in lines]
    assert adds_up(sum(hop.balance for hop in hops))
    for number in range(len(hops)):
        assert not adds_up(sum(hop.balance for hop in [*hops[:number], *hops[number + 1 :]]))
        assert not adds_up(sum(hop.balance for hop in [*hops, hops[number]]))
