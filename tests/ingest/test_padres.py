"""The log of PADRES brokers. No line here was written by a running broker: all are COMPOSED from its source."""

import io
import os
import random
from collections import Counter, defaultdict

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from overlace.ingest.accounts import ORPHANS
from overlace.ingest.formats.padres import FORMAT
from overlace.ingest.lines import blocks
from overlace.ingest.options import Options
from overlace.ingest.sources import FORMATS, guess
from overlace.matching.names import pseudonyms
from overlace.peek.peek import peek
from tests.engine import ingest_sources
from tests.ingest.logs import with_text_names

PLACE = "INFO  ca.utoronto.msrg.padres.broker.brokercore.InputQueueHandler.processMessage(InputQueueHandler.java:113) "
ROUTER = "INFO  ca.utoronto.msrg.padres.broker.router.Router.handleMessage(Router.java:148) "
OUTPUT = "DEBUG ca.utoronto.msrg.padres.common.comm.OutputQueue.processMessage(OutputQueue.java:52) "
GOT, SENDING = "got message from INPUTQUEUE:", "is sending message: "


def message(kind, number, last, to, content, made="Tue Mar 01 12:00:00 EST 2011"):
    """A message as PADRES shows it. COMPOSED."""
    expiry = ",expiry='Wed Dec 31 19:00:00 EST 1969'" if kind == "Publication" else ""
    return (
        f"{kind}({number}):lasthop={last},nexthop={to},TTL=-999,time='{made}',priority=0,TraceRouteID='dummy',"
        f"PreviousBroker='dummy',PreviousClient='dummy'{expiry}:{content}"
    )


def publication(number, last, to, topic="STOCK", made="Tue Mar 01 12:00:00 EST 2011"):
    return message("Publication", number, last, to, f'[class,{topic}],[symbol,"YHOO"],[price,12.5];{made}', made)


def at(second, millis=0):
    return f"2011-03-01 12:{second // 60:02}:{second % 60:02},{millis:03} "


def got(broker, number, last, topic="STOCK", second=0):
    return at(second) + PLACE + f"{broker} {GOT}{publication(number, last, 'INPUTQUEUE', topic)}"


def sending(broker, number, to, topic="STOCK", second=0):
    return at(second) + PLACE + f"{broker} {SENDING}{publication(number, broker, to, topic)}"


COMPOSED = [
    at(0) + ROUTER + "B1: " + message("Advertisement", "B1-M1", "B1-C3", "INPUTQUEUE", "[class,eq,STOCK]"),
    at(0) + PLACE + f"B1 {GOT}" + message("Advertisement", "B1-M1", "B1-C3", "INPUTQUEUE", "[class,eq,STOCK]"),
    at(0) + PLACE + f"B1 {SENDING}" + message("Advertisement", "B1-M1", "B1", "B2", "[class,eq,STOCK]"),
    at(1) + PLACE + f"B2 {GOT}" + message("Subscription", "B2-M1", "B2-C9", "INPUTQUEUE", "[class,eq,STOCK]"),
    at(1) + PLACE + f"B2 {SENDING}" + message("Subscription", "B2-M1", "B2", "B1", "[class,eq,STOCK]"),
    at(2) + ROUTER + "B1: " + publication("B1-M17", "B1-C3", "INPUTQUEUE"),
    got("B1", "B1-M17", "B1-C3", second=2),
    sending("B1", "B1-M17", "B2", second=2),
    sending("B1", "B1-M17", "B1-C4", second=2),
    at(2) + OUTPUT + "Sending message: " + publication("B1-M17", "B1", "B2"),
    got("B2", "B1-M17", "B1", second=3),
    sending("B2", "B1-M17", "B2-C9", second=3),
    got("B2", "B1-M18", "B1", "HEARTBEAT_MANAGER", second=4),
    sending("B2", "B1-M18", "HEARTBEAT_MANAGER", "HEARTBEAT_MANAGER", second=4),
    got("B1", "B1-M19", "none", "BROKER_CONTROL", second=4),
    sending("B1", "B1-M19", "CONTROLLER", "BROKER_CONTROL", second=4),
    sending("B1", "B1-M20", "B7", "BROKER_INFO", second=4),
    got("B1", "B1-M21", "none", second=5),
    at(5) + "FATAL ca.utoronto.msrg.padres.X.y(X.java:1) MessageSender is null.",
    "java.lang.Exception: MessageSender is null.",
    "\tat ca.utoronto.msrg.padres.common.comm.OutputQueue.processMessage(OutputQueue.java:60)",
    "",
]


def write(folder, logs):
    """A file for each log, given as lines."""
    paths = []
    for name, lines in logs.items():
        path = folder / f"MessagePath-{name}.log"
        path.write_text("".join(line + "\n" for line in lines))
        paths.append(str(path))
    return paths


def flows(trace):
    """Every message by names: (time, sender, topic, receivers)."""
    names, sets = trace.names, {row["audience"]: row["receivers"] for row in trace.read("audiences").to_pylist()}
    return Counter(
        (
            f"{row['at']:%Y-%m-%d %H:%M:%S,%f}"[:-3], names["client"][row["client"]], names["topic"][row["topic"]],
            frozenset(names["client"][each] for each in sets[row["audience"]]),
        )
        for row in trace.read("messages").to_pylist()
    )  # fmt: skip


def links(trace):
    brokers = trace.names["broker"]
    rows = trace.read("links").to_pylist()
    assert all(row["wired"] and row["cost"] is None and row["dials"] is None for row in rows)
    found = [frozenset((brokers[row["left"]], brokers[row["right"]])) for row in rows]
    assert len(set(found)) == len(found)
    return set(found)


def homes(trace):
    names = trace.names
    rows = trace.read("sessions").to_pylist()
    return {(names["client"][row["client"]], names["broker"][row["broker"]]) for row in rows}


def read(log, bounds=(0,), size=1 << 20):
    """Events of a log that is cut at some places, in order of the lines."""
    ends = [*bounds[1:], None]
    batches = [
        batch
        for start, end in zip(bounds, ends, strict=True)
        for batch in FORMAT.read(blocks(io.BytesIO(log), start, end, size), {})
    ]
    table = with_text_names(batches).drop_columns(["sample"])  # of a kind only the first has one
    return table.sort_by("offset").to_pylist()


def test_composed_lines_become_messages_deliveries_and_links(tmp_path):
    done = ingest_sources(write(tmp_path, {"all": COMPOSED}), str(tmp_path / "trace"))
    assert flows(done.trace) == {("2011-03-01 12:00:02,000", "B1-C3", "STOCK", frozenset(["B1-C4", "B2-C9"])): 1}
    assert links(done.trace) == {frozenset(["B1", "B2"]), frozenset(["B1", "B7"])}
    assert homes(done.trace) == {("B1-C3", "B1"), ("B1-C4", "B1"), ("B2-C9", "B2")}
    (account,) = done.accounts
    assert account.ignored == {
        "the same message again": 3, "advertisement": 2, "subscription": 2, "heartbeat": 2, "control": 3,
        "inside the broker": 1, "other": 1, "exception": 2, "blank": 1,
    }  # fmt: skip
    assert (account.kept, account.bad, account.format) == (5, 0, "padres")
    assert account.adds_up()
    assert done.trace.read("traffic")["messages"].to_pylist() == [1]


def test_a_log_is_told_from_others_by_its_first_lines(tmp_path):
    text = "\n".join(COMPOSED).encode()
    assert guess(text[:4096]) == "padres"
    others = {
        "jsonl": b'{"at": 1, "client": "a", "topic": "x):lasthop=a,nexthop=b"}\n',
        "csv": b"at,client,topic\n2011-03-01 12:00:00,a,b\n",
        "mosquitto": b"1794737265: Received PUBLISH from plc1 (d0, q1, r0, m2, 'fab/4/temp', ... (5 bytes))\n",
    }
    for name, head in others.items():
        assert guess(head) == name
        assert FORMATS["padres"].sniff(head) == 0
    seen = peek(write(tmp_path, {"all": COMPOSED}))
    assert seen.format == "padres"
    assert seen.facets["placement"] == "possible"


@pytest.mark.parametrize("name", ["B1", "rmi://10.0.0.5:1100/B1", "socket://node-1.lab:1100/B1"])
def test_brokers_may_be_named_by_address(tmp_path, name):
    far = name.replace("B1", "B2")
    log = [got(name, f"{name}-M1", f"{name}-C-3"), sending(name, f"{name}-M1", far)]
    log += [sending(far, f"{name}-M1", f"{far}-C/9")]
    trace = ingest_sources(write(tmp_path, {"all": log}), str(tmp_path / "trace")).trace
    assert [each[1:] for each in flows(trace)] == [(f"{name}-C-3", "STOCK", frozenset([f"{far}-C/9"]))]
    assert links(trace) == {frozenset([name, far])}


def test_the_layout_may_have_fewer_words_or_others(tmp_path):
    text = f"B1 {GOT}" + publication("B1-M1", "B1-C3", "INPUTQUEUE")
    heads = [at(0), at(0).replace(" ", "T", 1), at(0) + "[INPUTQUEUE-QueueHandler] INFO  MessagePath  - "]
    for i, head in enumerate(heads):
        (event,) = read((head + text.replace("M1", f"M{i}")).encode())
        assert (event["kind"], event["client"], event["broker"]) == ("message", "B1-C3", "B1")


def test_what_a_publication_says_is_no_line_of_its_own():
    fake = f"x B9 {GOT}" + publication("B9-M1", "B9-C1", "INPUTQUEUE")
    for head in (at(0), at(0) + ROUTER):
        said = head + "B1: " + message("Advertisement", "B1-M1", "B1", "B2", f"[class,eq,STOCK],[text,eq,{fake}]")
        (event,) = read(said.encode())
        assert (event["kind"], event["reason"]) == ("ignored", "the same message again")


def test_numbers_that_begin_anew_with_a_broker_are_other_messages(tmp_path):
    log = []
    for second, made in ((0, "Tue Mar 01 12:00:00 EST 2011"), (60, "Tue Mar 01 12:01:00 EST 2011")):
        head = at(second) + PLACE + "B1 "
        log.append(head + GOT + publication("B1-M0", "B1-C1", "INPUTQUEUE", made=made))
        log.append(head + SENDING + publication("B1-M0", "B1", f"B1-C{2 + second}", made=made))
    trace = ingest_sources(write(tmp_path, {"all": log}), str(tmp_path / "trace")).trace
    assert sorted(sorted(each[3]) for each in flows(trace)) == [["B1-C2"], ["B1-C62"]]


def test_a_bad_line_is_quarantined_alone(tmp_path):
    whole = got("B1", "B1-M1", "B1-C3")
    broken = {
        "no time": whole[24:],
        "not a time": "2011-13-01" + whole[10:],
        "a message that is cut short": whole[: whole.index(",TTL")],
        "a publication without a class": whole[: whole.index("[class")],
        "not UTF-8": None,
    }
    path = tmp_path / "MessagePath.log"
    lines = [line.encode() if line else b"\xff\xfe" for line in broken.values()]
    good = [got("B1", "B1-M2", "B1-C3").encode(), sending("B1", "B1-M2", "B1-C4").encode()]
    path.write_bytes(b"".join(line + b"\n" for line in [good[0], *lines, good[1]]))
    done = ingest_sources([str(path)], str(tmp_path / "trace"))
    (account,) = done.accounts
    assert {reason: count for reason, (count, _) in account.quarantined.items()} == dict.fromkeys(broken, 1)
    assert account.quarantined["no time"][1] == broken["no time"][:200]
    assert account.adds_up()
    assert account.kept == 2
    assert [each[3] for each in flows(done.trace)] == [frozenset(["B1-C4"])]


@given(st.lists(st.integers(0, 12_000), max_size=4), st.integers(1, 3000))
@example([5000], 1)
@settings(max_examples=25)
def test_cut_anywhere_gives_the_same_events(cuts, size):
    log = "\n".join([*COMPOSED, "no time", *COMPOSED]).encode()
    bounds = sorted({0, *(cut for cut in cuts if cut < len(log))})
    whole = read(log)
    assert read(log, bounds, size) == whole
    assert [each["offset"] for each in whole] == [i for i in range(len(log)) if i == 0 or log[i - 1] == 10]


@given(
    st.lists(st.tuples(st.integers(0, 20), st.integers(0, 420), st.integers(0, 420), st.text(max_size=6)), max_size=12)
)
@settings(max_examples=50)
def test_however_lines_are_broken_each_is_one_event(cuts):
    lines = [*COMPOSED]
    for which, first, last, put in cuts:
        lines[which] = lines[which][:first] + put.replace("\n", " ") + lines[which][last:]
    log = "\n".join(lines).encode(errors="replace")
    found = read(log)
    assert [each["offset"] for each in found] == [
        i for i in range(len(log) + 1) if (i == 0 or log[i - 1] == 10) and i < len(log)
    ]
    assert all(each["at"] and each["message"] and each["broker"] for each in found if each["kind"] == "message")
    assert all(each["key"] and each["broker"] for each in found if each["kind"] == "link")


# --- a tree of brokers that route ----------------------------------------------------------------------

TREE = {"B1": ["B2"], "B2": ["B1", "B3", "B4"], "B3": ["B2"], "B4": ["B2"]}
TOPICS = ("STOCK", "NEWS", "fab/4")


def routed(seed, count=40):
    """COMPOSED logs of four brokers by broker, with heartbeats and all else that brokers write, and the flows."""
    rng = random.Random(seed)
    clients = [f"{broker}-C{i}" for broker in TREE for i in range(rng.randrange(1, 4))]
    asked = {client: {topic for topic in TOPICS if rng.random() < 0.4} for client in clients}
    logs, truth = defaultdict(list), Counter()
    numbers = dict.fromkeys(TREE, 0)
    for k in range(count):
        sender, topic = rng.choice(clients), rng.choice(TOPICS)
        home = sender.partition("-")[0]
        number = f"{home}-M{numbers[home]}"
        numbers[home] += 1
        receivers = {client for client in clients if topic in asked[client]}
        waiting = [(home, sender)]
        while waiting:
            broker, last = waiting.pop()
            logs[broker].append(at(k) + ROUTER + f"{broker}: " + publication(number, last, "INPUTQUEUE", topic))
            logs[broker].append(got(broker, number, last, topic, k))
            for client in sorted(receivers):
                if client.startswith(broker + "-"):
                    logs[broker].append(sending(broker, number, client, topic, k))
            for to in TREE[broker]:
                if to != last and any(_leads(broker, to, client) for client in receivers):
                    logs[broker].append(sending(broker, number, to, topic, k))
                    waiting.append((to, broker))
        truth[(at(k).strip(), sender, topic, frozenset(receivers))] += 1
        if rng.random() < 0.5:
            broker = rng.choice(sorted(TREE))
            number = f"{broker}-M{numbers[broker]}"
            numbers[broker] += 1
            for to in TREE[broker]:
                logs[to].append(got(to, number, broker, "HEARTBEAT_MANAGER", k))
                logs[to].append(sending(to, number, "HEARTBEAT_MANAGER", "HEARTBEAT_MANAGER", k))
    return logs, truth


def _leads(broker, to, client):
    """Whether a client lies behind a neighbour."""
    seen, waiting = {broker}, [to]
    while waiting:
        here = waiting.pop()
        seen.add(here)
        waiting += [each for each in TREE[here] if each not in seen]
    return client.partition("-")[0] in seen - {broker}


def by_hand(lines):
    """(flows, links, orphans): a reader of one line after the other, in plain Python."""
    published, reached, linked, orphans = {}, defaultdict(set), set(), 0
    control = {"HEARTBEAT_MANAGER", "BROKER_CONTROL"}
    for line in lines:
        for verb, field in ((GOT, "lasthop="), (SENDING, "nexthop=")):
            before, found, rest = line.partition(" " + verb)
            if not found or "):lasthop=" in before:
                continue
            broker, hop = before.split(" ")[-1], rest.partition(field)[2].partition(",")[0]
            number = rest.partition("(")[2].partition(")")[0]
            topic = rest.partition("[class,")[2].partition("]")[0]
            if "-" not in hop:
                if hop not in ("INPUTQUEUE", "HEARTBEAT_MANAGER"):
                    linked.add(frozenset((broker, hop)))
            elif topic not in control and verb == GOT:
                published[number] = (line[:23], hop, topic)
            elif topic not in control:
                reached[number].add(hop)
    orphans = sum(len(hops) for number, hops in reached.items() if number not in published)
    return Counter((*told, frozenset(reached[number])) for number, told in published.items()), linked, orphans


@given(st.integers(0, 10**6))
@settings(max_examples=10)
def test_flows_of_a_tree_of_brokers_are_those_that_were_routed(tmp_path_factory, seed):
    folder = tmp_path_factory.mktemp("tree")
    logs, truth = routed(seed)
    done = ingest_sources(write(folder, logs), str(folder / "trace"), options=Options(bucket="minute"))
    assert flows(done.trace) == truth == by_hand(line for lines in logs.values() for line in lines)[0]
    tree = {frozenset((left, right)) for left in TREE for right in TREE[left]}
    assert links(done.trace) <= tree
    if any("HEARTBEAT" in line and "lasthop=B2," in line for lines in logs.values() for line in lines):
        assert links(done.trace) == tree
    assert all(client.partition("-")[0] == broker for client, broker in homes(done.trace))
    for account, (broker, lines) in zip(done.accounts, logs.items(), strict=True):
        assert account.source == f"MessagePath-{broker}.log"
        assert account.lines == len(lines)
        assert account.adds_up()
        assert account.ignored.get("heartbeat", 0) == sum("[class,HEARTBEAT_MANAGER]" in line for line in lines)
        assert (account.bad, account.duplicates) == (0, 0)


@given(st.integers(0, 10**6))
@settings(max_examples=8)
def test_the_order_of_lines_and_files_changes_nothing(tmp_path_factory, seed):
    folder = tmp_path_factory.mktemp("order")
    logs, truth = routed(seed, 15)
    rng = random.Random(seed)
    lines = [line for each in logs.values() for line in each]
    rng.shuffle(lines)
    cut = rng.randrange(len(lines))
    mixed = {"x": lines[:cut], "y": lines[cut:]} if cut else {"x": lines}
    (folder / "mixed").mkdir()
    left = ingest_sources(write(folder, logs), str(folder / "left")).trace
    right = ingest_sources(write(folder / "mixed", mixed)[::-1], str(folder / "right")).trace
    assert flows(left) == flows(right) == truth
    assert links(left) == links(right)
    assert left.names == right.names
    assert homes(left) == homes(right)


@given(st.integers(0, 10**6))
@settings(max_examples=8)
def test_what_lost_lines_leave_is_what_a_reader_by_hand_finds(tmp_path_factory, seed):
    folder = tmp_path_factory.mktemp("lost")
    rng = random.Random(seed)
    logs = {broker: [line for line in lines if rng.random() < 0.6] for broker, lines in routed(seed, 15)[0].items()}
    logs = {broker: lines for broker, lines in logs.items() if lines}
    done = ingest_sources(write(folder, logs), str(folder / "trace"))
    found, linked, orphans = by_hand(line for lines in logs.values() for line in lines)
    assert flows(done.trace) == found
    assert links(done.trace) == linked
    assert sum(account.ignored.get(ORPHANS, 0) for account in done.accounts) == orphans
    assert all(account.adds_up() for account in done.accounts)


def test_links_that_earlier_logs_showed_stay(tmp_path):
    first, second = [sending("B1", "B1-M1", "B2")], [sending("B3", "B3-M1", "B2"), sending("B2", "B3-M1", "B1")]
    out = str(tmp_path / "trace")
    ingest_sources(write(tmp_path, {"first": first}), out)
    trace = ingest_sources(write(tmp_path, {"second": second}), out).trace
    assert links(trace) == {frozenset(["B1", "B2"]), frozenset(["B2", "B3"])}
    assert trace.names["broker"] == ["B1", "B2", "B3"]


def test_logs_that_grew_are_joined_with_those_that_did_not(tmp_path):
    """Who received a message is in another broker's log, which need not be there any more."""
    one = [got("B1", "B1-M1", "B1-C3"), sending("B1", "B1-M1", "B2")]
    two = [sending("B2", "B1-M1", "B2-C9")]
    paths, out = write(tmp_path, {"one": one, "two": two}), str(tmp_path / "trace")
    before = flows(ingest_sources(paths, out).trace)
    assert ingest_sources(paths, out).known == ["MessagePath-one.log: nothing new", "MessagePath-two.log: nothing new"]
    write(tmp_path, {"one": [*one, got("B1", "B1-M2", "B1-C3", second=9)]})
    more = Counter([("2011-03-01 12:00:09,000", "B1-C3", "STOCK", frozenset())])
    assert flows(ingest_sources(paths[:1], out).trace) == before + more
    write(tmp_path, {"two": [*two, sending("B2", "B1-M2", "B2-C9", second=9)]})
    done = ingest_sources(paths, out)
    more = Counter([("2011-03-01 12:00:09,000", "B1-C3", "STOCK", frozenset(["B2-C9"]))])
    assert flows(done.trace) == before + more
    assert [account.lines for account in done.accounts] == [1]
    assert done.trace.read("sources")["lines"].to_pylist() == [3, 2]


def test_logs_of_brokers_are_joined_one_after_the_other(tmp_path):
    """Also where sends come before their publication; files of an earlier day, packed away, hold up nobody."""
    first = {
        "one": [got("B1", "B1-M1", "B1-C3"), sending("B1", "B1-M1", "B2")],
        "two": [sending("B2", "B1-M1", "B2-C9")],
    }
    later = [got("B1", "B1-M2", "B1-C3", second=50), sending("B1", "B1-M2", "B2", second=50)]
    last = [sending("B2", "B1-M2", "B2-C9", second=51), sending("B2", "B1-M3", "B2-C9", second=59)]
    out = str(tmp_path / "trace")
    ingest_sources(write(tmp_path, first), out)
    os.rename(tmp_path / "MessagePath-one.log", tmp_path / "old-one.log")
    os.rename(tmp_path / "MessagePath-two.log", tmp_path / "old-two.log")
    three, four = write(tmp_path, {"three": later, "four": last})
    (early,) = ingest_sources([four], out).accounts
    assert (early.kept, early.ignored) == (0, {ORPHANS: 2})
    trace = ingest_sources([three], out).trace
    assert sorted(sorted(receivers) for *_, receivers in flows(trace).elements()) == [["B2-C9"], ["B2-C9"]]
    write(tmp_path, {"three": [*later, got("B1", "B1-M3", "B1-C3", second=59)]})
    trace = ingest_sources([three], out).trace
    assert sorted(sorted(receivers) for *_, receivers in flows(trace).elements()) == [["B2-C9"]] * 3
    rows = trace.read("sources").to_pylist()
    assert [(row["lines"], row["kept"], row["ignored"]) for row in rows] == [(2, 2, 0), (1, 1, 0), (2, 2, 0), (3, 3, 0)]


def test_pseudonyms_hide_clients_brokers_and_both_ends_of_links(tmp_path, monkeypatch):
    monkeypatch.setenv("OVERLACE_KEY", "a key of sixteen bytes or more")
    logs, truth = routed(7)
    done = ingest_sources(write(tmp_path, logs), str(tmp_path / "trace"), options=Options(pseudonymise=True))

    def hidden(name):
        return pseudonyms(pa.array([name]), b"a key of sixteen bytes or more")[0].as_py()

    names = done.trace.names
    assert set(names["broker"]) == {hidden(broker) for broker in TREE}
    assert links(done.trace) == {
        frozenset((hidden(left), hidden(right))) for left in TREE for right in TREE[left]
    }  # fmt: skip
    assert Counter(each[1] for each in flows(done.trace).elements()) == Counter(
        hidden(each[1]) for each in truth.elements()
    )
    for folder, _, files in os.walk(tmp_path / "trace"):
        for file in files:
            with open(os.path.join(folder, file), "rb") as stream:
                assert b"B1-C" not in stream.read()
