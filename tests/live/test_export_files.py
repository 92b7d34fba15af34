"""What export writes, without brokers: files that give the plan back, maps, differences, and what it refuses."""

import csv
import io
import json
import shutil
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pytest
import typer
from hypothesis import given, settings
from hypothesis import strategies as st

from overlace.cli.commands import run as run_command
from overlace.cli.live_export import export_command
from overlace.errors import BadNetwork, BadParameter, BadPlan, BadTrace, OverlaceError, Unknown
from overlace.ingest.topologies import read_topology
from overlace.live.client import name_in
from overlace.live.deployment import CONTROL, check_deployment
from overlace.live.export import export
from overlace.live.files import read_files, write_files
from overlace.live.options import ExportOptions
from overlace.live.planned import Planned, read_planned
from overlace.live.subscribed import read_subscribed
from overlace.live.targets import make_mosquitto, make_nats
from overlace.live.wiring import links_of
from overlace.trace.plan_file import Newcomers
from overlace.trace.plans import cut_plan
from tests.live.plans import Situation, make_plan, make_run
from tests.strategies import trees

HUBS = ["hub-1", "hub-2", "hub-3"]
NOW = Situation(
    HUBS,
    [(0, 1), (1, 2)],
    {"c1": 0, "c2": 1, "=c3": 2, "c4": 0},
    {"c1": ["a/+/x", "$share/g/b/c"], "c2": ["a/#", "bad#"], "=c3": [("q/w", "g"), "fab/line 3/t"]},
    ("t", "a/1/x"),
    (("c4", "t", ["c1"]), ("c4", "a/1/x", ["c1", "c2"])),
)
STAR = [("hub-1", "hub-2"), ("hub-1", "hub-3")]
HOMES = {"c1": "hub-2", "c2": "hub-2", "=c3": "hub-3", "c4": "hub-1"}
PASSWORDS = {role: f'pass "{role}" $word' for role in ("clients", "control", "links", "system")}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """(folder, run, plan) that every test may read."""
    folder = tmp_path_factory.mktemp("planned")
    _, run = make_run(folder, NOW)
    return folder, run, make_plan(run, STAR, HOMES)


def write_network(folder: Path, substrate="nats", brokers=HUBS, **more) -> Path:
    """A network file with secrets in files."""
    (folder / "secrets").mkdir(parents=True, exist_ok=True)
    roles = [role for role in PASSWORDS if substrate == "nats" or role != "system"]
    lines = [f"substrate = {json.dumps(substrate)}", *(f"{key} = {json.dumps(value)}" for key, value in more.items())]
    lines.append("[credentials]")
    for role in roles:
        (folder / "secrets" / role).write_text(PASSWORDS[role] + "\n")
        lines.append(f'{role} = {{ user = "{role}", password_file = "secrets/{role}" }}')
    for i, name in enumerate(brokers):
        lines += [f"[brokers.{json.dumps(name)}]"]
        if substrate == "nats":
            lines += [f'client = "127.0.0.1:{4000 + i}"', f'links = "127.0.0.1:{7000 + i}"']
        else:
            lines += [f'client = ["127.0.0.1:{1800 + i}", "127.0.0.1:{1900 + i}"]']
    (folder / "network.toml").write_text("\n".join(lines) + "\n")
    return folder / "network.toml"


def deployment_of(substrate, brokers, host):
    entries = {
        name: {"client": f"{host(i)}:{4000 + i}", "links": f"{host(i)}:{9000 + i}"} for i, name in enumerate(brokers)
    }
    credentials = {
        role: {"user": role, "password_env": "OVERLACE_TEST_SECRET"} for role in ("clients", "control", "links")
    }
    document = {"substrate": substrate, "credentials": credentials, "brokers": entries}
    return check_deployment(document, Path("network.toml"))


def links_in(folder):
    found = read_topology(folder)
    assert not any("to itself" in note for note in found.notes)
    return set(found.brokers), {(row["left"], row["right"]) for row in found.links.to_pylist() if row["wired"]}


# Laws

letters = st.characters(codec="utf-8", exclude_categories=["Cc", "Cs", "Zl", "Zp", "Zs"]) | st.sampled_from(
    "$\"'\\#.:/"
)
names = st.text(letters, min_size=1, max_size=12)
spaced = st.builds(lambda *parts: " ".join(parts), names, names) | names
HOSTS = [lambda i: "127.0.0.1", lambda i: f"10.0.{i // 250}.{i % 250 + 1}", lambda i: f"node{i}.example.com"]


@settings(max_examples=60)
@given(trees(1, 12), st.data(), st.sampled_from(HOSTS), st.sampled_from(["nats", "mosquitto"]))
def test_ingest_reads_the_links_of_a_plan_from_exported_files(tmp_path_factory, tree, data, host, substrate):
    n, pairs = tree
    called = data.draw(st.lists(names if substrate == "nats" else spaced, min_size=n, max_size=n, unique=True))
    called = [name for name in called if not CONTROL.search(name)]
    if len(called) < n:
        return
    links = links_of((called[a], called[b]) for a, b in pairs.tolist())
    planned = Planned(Path("plan"), None, Path("run"), tuple(called), {}, links, frozenset())
    deployment = deployment_of(substrate, called, host)
    folder = tmp_path_factory.mktemp("exported")
    make = make_nats if substrate == "nats" else make_mosquitto
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OVERLACE_TEST_SECRET", PASSWORDS["links"])
        write_files(folder, make(planned, deployment, folder, ExportOptions(filters="all")).texts)
    assert links_in(folder) == (set(called), set(links))


@given(st.dictionaries(st.text() | st.just("*"), st.sampled_from(["h", "=h", "h,\n"])))
def test_a_map_of_clients_gives_the_homes_back(homes):
    from overlace.live.maps import clients_text, split_names

    fine, odd = split_names(homes)
    rows = list(csv.reader(io.StringIO(clients_text(fine, None))))
    assert {name_in(row[0]): name_in(row[1]) for row in rows[1:]} == fine
    assert "*" not in fine  # which is for all others
    assert len(fine) + odd == len(homes)
    assert not any(each.startswith(("=", "+", "-", "@")) for row in rows for each in row)


# What is written


def test_nats_files_have_accounts_remotes_and_no_secret_where_none_is_needed(made, tmp_path):
    _, _, plan = made
    network = write_network(tmp_path / "net")
    found = export(plan, "nats", tmp_path / "out", ExportOptions(network=str(network)))
    assert links_in(tmp_path / "out")[1] == set(STAR)
    assert found.new == (("hub-1", "hub-3"),)
    assert found.gone == (("hub-2", "hub-3"),)
    assert_private(tmp_path / "out")
    holds = {path.name for path in files_below(tmp_path / "out") if holds_secret(path)}
    assert holds == {f"hub-{i}.{kind}.conf" for i in (1, 2, 3) for kind in ("accounts", "remotes")} - {
        "hub-1.remotes.conf"
    }
    assert not any(secret in f"{found}" for secret in PASSWORDS.values())


def test_mosquitto_files_have_bridges_with_filters_and_no_secret_where_none_is_needed(made, tmp_path):
    _, _, plan = made
    network = write_network(tmp_path / "net", "mosquitto")
    found = export(plan, "mosquitto", tmp_path / "out", ExportOptions(network=str(network), filters="exact"))
    assert links_in(tmp_path / "out")[1] == set(STAR)
    assert_private(tmp_path / "out")
    assert {path.name for path in files_below(tmp_path / "out") if holds_secret(path)} == {
        "hub-2.0.conf",
        "hub-3.0.conf",
    }
    topics = {
        bridge.broker: sorted((each.pattern, each.direction) for each in bridge.topics)
        for bridge in read_topology(tmp_path / "out").bridges
    }
    probes = ("$overlace/probe/#", "both")
    here, there = [("a/#", "in"), ("b/c", "in"), ("t", "in")], [("fab/+/t", "out"), ("q/w", "out")]
    assert topics == {
        "hub-2": sorted([probes, *here, *there]),
        "hub-3": sorted([probes, *((each, "out") for each, _ in here), *((each, "in") for each, _ in there)]),
    }
    assert "subscription left out: malformed" in " ".join(found.notes)
    assert "1 topic that clients received without" in " ".join(found.notes)


def holds_secret(path):
    text = path.read_text()
    known = {each for secret in PASSWORDS.values() for each in (secret, secret.replace('"', '\\"'), _percent(secret))}
    return any(each in text for each in known)


def _percent(text):
    from urllib.parse import quote

    return quote(text, safe="")


def files_below(folder):
    return [path for path in folder.rglob("*") if path.is_file()]


def assert_private(folder):
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    for path in folder.rglob("*"):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path


def test_prefixes_serve_the_next_subscriber_and_all_needs_no_trace(made, tmp_path):
    _, run, plan = made
    network = str(write_network(tmp_path / "net", "mosquitto"))
    export(plan, "mosquitto", tmp_path / "prefix", ExportOptions(network=network))
    lines = (tmp_path / "prefix" / "hub-2.0.conf").read_text().splitlines()
    assert {line for line in lines if line.startswith("topic")} == {
        "topic a/# in 2", "topic b/# in 2", "topic t/# in 2", "topic fab/+/# out 2", "topic q/# out 2",
        "topic $overlace/probe/# both 2",
    }  # fmt: skip
    shutil.copytree(run, tmp_path / "run")
    about = json.loads((tmp_path / "run" / "run.json").read_text())
    (tmp_path / "run" / "run.json").write_text(json.dumps({**about, "trace": str(tmp_path / "gone")}))
    alone = tmp_path / "run" / "plans" / plan.name
    with pytest.raises(BadTrace, match="`--filters all` needs no trace"):
        export(alone, "mosquitto", tmp_path / "x", ExportOptions(network=network))
    assert not (tmp_path / "x").exists()
    export(alone, "mosquitto", tmp_path / "all", ExportOptions(network=network, filters="all"))
    assert "topic # both 2" in (tmp_path / "all" / "hub-2.0.conf").read_text()


def test_a_client_that_the_plan_does_not_know_is_served_where_it_was_seen(tmp_path):
    now = NOW._replace(homes={**NOW.homes, "late": 2}, subscriptions={**NOW.subscriptions, "late": ["late/x"]})
    _, run = make_run(tmp_path, now)
    plan = make_plan(run, STAR, HOMES)
    assert "late/x" in read_subscribed(read_planned(plan), "mqtt")[0]["hub-3"]


def test_members_of_a_group_at_several_brokers_are_noted(tmp_path):
    now = NOW._replace(subscriptions={"c1": ["$share/g/x"], "c2": [("x", "g")], "=c3": [("x", "h")]})
    _, run = make_run(tmp_path, now)
    _, (note, *_) = read_subscribed(read_planned(make_plan(run)), "mqtt")
    assert "1 shared subscription has members at several brokers, 1 of them today" in note
    assert "first: x of group g, at hub-1, hub-2" in note
    at_one = read_planned(make_plan(run, STAR, dict.fromkeys(HOMES, "hub-1")))
    assert not any("several brokers" in note for note in read_subscribed(at_one, "mqtt")[1])


def test_a_password_that_nats_would_take_for_a_hash_is_refused(made, tmp_path):
    network = write_network(tmp_path / "net")
    (tmp_path / "net" / "secrets" / "clients").write_text("$2a$11$abcdefg")
    refuse(
        tmp_path,
        BadNetwork,
        "credentials.clients: NATS would take this password",
        made[2],
        "nats",
        network=str(network),
    )


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('control = { user = "control"', 'control = { user = "clients"', "control in BLUE and clients in BLUE are one"),
        ('system = { user = "system"', 'system = { user = "links-GREEN"', "system and links in GREEN are one user"),
        ("links = {", "# links = {", "credentials.links is missing"),
        ('substrate = "nats"', 'substrate = "nats"\ncolours = ["SYS", "B"]', "SYS is the system account"),
    ],
)
def test_nats_files_that_would_not_start_or_mix_users_are_refused(made, tmp_path, old, new, says):
    network = write_network(tmp_path / "net")
    text = network.read_text()
    assert old in text
    network.write_text(text.replace(old, new, 1))
    refuse(tmp_path, BadNetwork, says, made[2], "nats", network=str(network))


def test_mosquitto_files_that_would_mix_users_are_refused(made, tmp_path):
    network = write_network(tmp_path / "net", "mosquitto")
    network.write_text(network.read_text().replace('user = "control"', 'user = "clients"'))
    refuse(tmp_path, BadNetwork, "control and clients are one user", made[2], "mosquitto", network=str(network))


def test_accounts_of_the_server_itself_are_left_to_the_operator(made, tmp_path):
    network = write_network(tmp_path / "net", colours=["$G"])
    found = export(made[2], "nats", tmp_path / "out", ExportOptions(network=str(network)))
    assert not any(name.endswith((".accounts.conf", "hub-1.conf")) for name in found.files)
    assert any("only remotes are written" in note for note in found.notes)


@pytest.mark.parametrize("substrate", ["nats", "mosquitto"])
@pytest.mark.parametrize("secret", ["top\tsecret", " top secret", "top secret\x07", "\x1btop secret", ""])
def test_no_password_is_shown_where_it_cannot_be_written(made, tmp_path, substrate, secret):
    network = write_network(tmp_path / "net", substrate)
    (tmp_path / "net" / "secrets" / "links").write_text(secret)
    options = ExportOptions(network=str(network), filters="all")
    if (substrate, secret) == ("nats", " top secret"):  # which quotes hold
        export(made[2], substrate, tmp_path / "out", options)
        return
    with pytest.raises(BadNetwork, match="links") as found:
        export(made[2], substrate, tmp_path / "out", options)
    assert "secret" not in str(found.value).replace("secrets/", "")
    assert not (tmp_path / "out").exists()


def test_the_difference_is_against_what_is_there_and_its_undo_is_what_is_there(made, tmp_path):
    _, _, plan = made
    network = write_network(tmp_path / "net")
    options = ExportOptions(network=str(network), colour="BLUE")
    first = export(plan, "nats", tmp_path / "one", options)
    assert first.difference.count("--- /dev/null") == 9
    assert "no such files" in (tmp_path / "one" / "undo" / "README.txt").read_text()
    shutil.copytree(tmp_path / "one", tmp_path / "net" / "files", ignore=shutil.ignore_patterns("undo", "*.json"))
    assert export(plan, "nats", tmp_path / "two", options).difference == ""

    old = (tmp_path / "net" / "files" / "hub-3.remotes.conf").read_text().replace("7000", "7001")
    (tmp_path / "net" / "files" / "hub-3.remotes.conf").write_text(
        old.replace("links-BLUE:", "links-BLUE:older-secret")
    )
    found = export(plan, "nats", tmp_path / "three", options)
    assert found.difference == (tmp_path / "three" / "changes.diff").read_text()
    assert '-  { url: "nats-leaf://links-BLUE:********@127.0.0.1:7001"' in found.difference
    assert '+  { url: "nats-leaf://links-BLUE:********@127.0.0.1:7000"' in found.difference
    assert "older-secret" not in found.difference
    undo = read_files(tmp_path / "three" / "undo")
    there = read_files(tmp_path / "net" / "files")
    assert {name: text for name, text in undo.items() if name != "README.txt"} == {
        name: there[name] for name in undo if name != "README.txt"
    }
    assert "older-secret" in undo["hub-3.remotes.conf"]


def test_the_colour_is_the_one_that_is_not_in_use_or_as_asked_for(made, tmp_path):
    _, _, plan = made
    for substrate in ("nats", "mosquitto"):
        network = str(write_network(tmp_path / substrate, substrate))
        export(plan, substrate, tmp_path / substrate / "files", ExportOptions(network=network))
        found = export(plan, substrate, tmp_path / f"{substrate}-next", ExportOptions(network=network))
        assert "GREEN" in found.summary[0]
        found = export(plan, substrate, tmp_path / f"{substrate}-same", ExportOptions(network=network, colour="BLUE"))
        assert "BLUE" in found.summary[0]
        with pytest.raises(Unknown, match="no colour is called 'RED'"):
            export(plan, substrate, tmp_path / "x", ExportOptions(network=network, colour="RED"))
    found = (tmp_path / "mosquitto-next" / "changes.diff").read_text()
    assert "--- a/hub-2.0.conf\n+++ b/hub-2.1.conf\n" in found  # what is new is compared with what is in use
    assert "-address 127.0.0.1:1800\n+address 127.0.0.1:1900\n" in found
    assert (tmp_path / "mosquitto-next" / "undo" / "README.txt").read_text().count("hub-2.1.conf") == 1
    text = (tmp_path / "mosquitto-next" / "hub-2.1.conf").read_text()
    assert "listener 1901 127.0.0.1" in text
    assert "address 127.0.0.1:1900" in text


RULE = Newcomers(rule="region", brokers={"eu": "hub-1", "=us": "hub-3"}, default="hub-2", keep=["c4"], only=["c*"])


def test_a_map_has_every_client_and_the_rule_for_newcomers(tmp_path):
    now = NOW._replace(homes={**NOW.homes, "new\nline": 1})
    _, run = make_run(tmp_path, now)
    plan = make_plan(run, STAR, {**HOMES, "new\nline": "hub-1"}, newcomers=RULE)
    found = export(plan, "clients", tmp_path / "out")
    assert (tmp_path / "out" / "clients.csv").read_text() == (
        "client,broker\n'=c3,hub-3\nc1,hub-2\nc2,hub-2\nc4,hub-1\n*,hub-2\n"
    )
    assert (tmp_path / "out" / "newcomers.csv").read_text() == (
        "rule,which,broker\nregion,eu,hub-1\nregion,'=us,hub-3\nkeep,c4,\nonly,c*,\ndefault,*,hub-2\n"
    )
    assert "1 client left out" in found.notes[0]
    assert found.summary == ("4 clients at 3 brokers, 1 of them at a new broker",)
    assert found.new == ()
    assert "most of its region's traffic" in (tmp_path / "out" / "README.txt").read_text()
    assert_private(tmp_path / "out")


def test_the_wrapper_finds_its_home_in_a_map(made, tmp_path):
    from overlace.live.client import find_home, read_network

    _, _, plan = made
    export(plan, "clients", tmp_path / "out")
    network = write_network(tmp_path / "net", homes=str(tmp_path / "out" / "clients.csv"))
    assert {name: find_home(read_network(network), name) for name in (*HOMES, "who")} == {**HOMES, "who": None}
    other = make_plan(made[1], STAR, {**HOMES, "c1": "hub-1"}, name="other")
    found = export(other, "clients", tmp_path / "two", ExportOptions(network=str(network)))
    assert "-c1,hub-2\n+c1,hub-1\n" in found.difference


def test_dns_records_lead_every_client_to_its_broker(made, tmp_path):
    _, _, plan = made
    table = tmp_path / "addresses.csv"
    table.write_text("broker,client\nhub-1,10.0.0.1:1883\nhub-2,h2.example.com:1884\nhub-3,[fd00::3]:1885\n")
    export(plan, "dns", tmp_path / "out", ExportOptions(addresses=str(table)))
    zone = [line.partition(" ;")[0] for line in (tmp_path / "out" / "clients.zone").read_text().splitlines()[2:]]
    odd = zone[0].split()[0]
    assert zone == [
        f"{odd} 60 IN AAAA fd00::3", f"_mqtt._tcp.{odd} 60 IN SRV 0 0 1885 {odd}",
        "c1 60 IN CNAME h2.example.com.", "_mqtt._tcp.c1 60 IN SRV 0 0 1884 h2.example.com.",
        "c2 60 IN CNAME h2.example.com.", "_mqtt._tcp.c2 60 IN SRV 0 0 1884 h2.example.com.",
        "c4 60 IN A 10.0.0.1", "_mqtt._tcp.c4 60 IN SRV 0 0 1883 c4",
    ]  # fmt: skip
    rows = list(csv.reader((tmp_path / "out" / "records.csv").read_text().splitlines()))
    assert rows[1][:2] == ["'=c3", odd]


def test_by_hand_files_have_placeholders_and_no_secret(made, tmp_path):
    _, _, plan = made
    table = tmp_path / "addresses.csv"
    table.write_text("broker,client,links\n" + "".join(f"hub-{i},10.0.0.{i}:4222,10.0.0.{i}:7422\n" for i in (1, 2, 3)))
    for to in ("nats", "mosquitto"):
        found = export(plan, to, tmp_path / to, ExportOptions(addresses=str(table)))
        assert links_in(tmp_path / to)[1] == set(STAR)
        texts = read_files(tmp_path / to)
        assert any("PASSWORD_OF_LINKS" in text for text in texts.values())
        assert "PASSWORD_OF_CLIENTS" in texts["README.txt"]
        assert found.difference == ""
        assert "changes.diff" not in texts
        assert_private(tmp_path / to)
    assert read_files(tmp_path / "mosquitto")["hub-1.0.passwords"].startswith("clients:PASSWORD_OF_CLIENTS\n")
    assert "listener 7422 10.0.0.1" in read_files(tmp_path / "mosquitto")["hub-1.0.conf"]


def test_an_export_is_replaced_by_force_and_what_others_wrote_stays(made, tmp_path):
    _, _, plan = made
    out = tmp_path / "out"
    export(plan, "clients", out)
    (out / "mine.txt").write_text("mine")
    with pytest.raises(BadNetwork, match="holds an export already"):
        export(plan, "clients", out)
    network = str(write_network(tmp_path / "net"))
    export(plan, "nats", out, ExportOptions(network=network), force=True)
    assert not (out / "clients.csv").exists()
    assert (out / "mine.txt").read_text() == "mine"
    assert links_in(out)[1] == set(STAR)
    shutil.rmtree(out)
    out.mkdir()
    export(plan, "clients", out)


# Bad input: a line each, and nothing written


@dataclass(frozen=True)
class Channels:
    facets: ClassVar = ("channels",)
    REASONS: ClassVar = ("it was asked for",)

    def cost(self, observation, overlay):
        return 0.0


def refuse(tmp_path, error, says, plan, to, **options):
    before = set(tmp_path.rglob("*"))
    with pytest.raises(error, match=says) as caught:
        export(plan, to, tmp_path / "never", ExportOptions(**options))
    assert isinstance(caught.value, OverlaceError)
    assert "\n" not in str(caught.value)
    assert not any(secret in str(caught.value) for secret in PASSWORDS.values())
    assert set(tmp_path.rglob("*")) == before


def test_plans_that_cannot_be_exported(made, tmp_path):
    _, run, plan = made
    network = str(write_network(tmp_path / "net"))
    refuse(tmp_path, Unknown, "no plan in .* is called 'want'. Nearest: wanted", plan.parent / "want", "clients")
    refuse(tmp_path, BadPlan, "no plan there. `overlace optimize", tmp_path / "no" / "plan", "clients")
    cycle = make_plan(run, [*STAR, ("hub-2", "hub-3")], name="cycle")
    refuse(tmp_path, BadPlan, "close a cycle", cycle, "nats", network=network)
    apart = make_plan(run, STAR[:1], name="apart")
    refuse(tmp_path, BadPlan, "in 2 parts", apart, "nats", network=network)
    channels = make_plan(run, name="channels", planner=Channels())
    refuse(tmp_path, BadPlan, "plans channels; expected one that plans placement or tree", channels, "clients")
    altered = make_plan(run, STAR, name="altered")
    text = (altered / "plan.json").read_text()
    (altered / "plan.json").write_text(text.replace("hub-3", "hub-2"))
    refuse(tmp_path, BadPlan, "altered", altered, "clients")
    (altered / "plan.json").write_text(text)
    shutil.copy(plan / "after.parquet", altered / "after.parquet")
    refuse(tmp_path, BadPlan, "altered", altered, "clients")
    for each in (cycle, apart, channels, altered):
        shutil.rmtree(each)


def test_a_plan_that_lies_elsewhere_needs_its_run(made, tmp_path):
    _, run, plan = made
    cut_plan(plan, 1, tmp_path / "cut")
    refuse(tmp_path, BadPlan, "lies in no run.*--run RUN", tmp_path / "cut", "clients")
    export(tmp_path / "cut", "clients", tmp_path / "out", ExportOptions(run=str(run)))
    other = tmp_path / "other"
    _, another = make_run(other, NOW._replace(links=[(0, 1), (0, 2)]))
    refuse(tmp_path, BadPlan, "another observation", tmp_path / "cut", "clients", run=str(another))


def test_networks_that_do_not_fit(made, tmp_path):
    _, _, plan = made
    nats, two = str(write_network(tmp_path / "net")), str(write_network(tmp_path / "two", brokers=HUBS[:2]))
    refuse(tmp_path, BadNetwork, "a network of nats; expected one of mosquitto", plan, "mosquitto", network=nats)
    refuse(tmp_path, BadNetwork, "has no broker 'hub-3', which the plan has", plan, "nats", network=two)
    refuse(tmp_path, BadNetwork, "no network file there", plan, "nats", network=str(tmp_path / "none"))
    refuse(tmp_path, BadParameter, "--to dns needs to know where brokers are", plan, "dns")
    refuse(tmp_path, BadParameter, "give one of them", plan, "nats", network=nats, addresses="x.csv")
    narrow = str(write_network(tmp_path / "narrow", allow_link=["hub-2:*"]))
    refuse(
        tmp_path,
        BadNetwork,
        "allow_link does not allow the plan's new link hub-1 - hub-3",
        plan,
        "nats",
        network=narrow,
    )
    (tmp_path / "net" / "secrets" / "links").unlink()
    refuse(tmp_path, BadNetwork, "credentials.links: secrets/links cannot be read", plan, "nats", network=nats)


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ("", "columns none; expected broker,client,links,monitor"),
        ("broker,address\nhub-1,x:1\n", "columns broker,address"),
        ("broker,client\nhub-1,nowhere\n", "expected host:port"),
        ("broker,client\nhub-1,a:1\nhub-1,a:2\n", "row 3: hub-1 is there already"),
        ("broker,client\n,a:1\n", "row 2"),
        ("broker,client\nhub-1,a:1\nhub-2,a:2\nhub-3,a:3\n", "hub-1 has no links"),
    ],
)
def test_tables_of_addresses_that_cannot_be_read(made, tmp_path, table, says):
    (tmp_path / "addresses.csv").write_text(table)
    refuse(tmp_path, BadNetwork, says, made[2], "nats", addresses=str(tmp_path / "addresses.csv"))


def test_names_and_filters_with_control_characters_are_refused(tmp_path):
    _, run = make_run(tmp_path / "a", NOW._replace(brokers=["hub-1", "hub\n2", "hub-3"]))
    refuse(tmp_path, BadPlan, r"broker 'hub\\n2': a name with control characters", make_plan(run), "clients")
    subscriptions = {**NOW.subscriptions, "c2": ["x\nlistener 1"]}
    _, run = make_run(tmp_path / "b", NOW._replace(subscriptions=subscriptions))
    network = str(write_network(tmp_path / "net", "mosquitto"))
    refuse(tmp_path, BadNetwork, "control character", make_plan(run), "mosquitto", network=network)
    _, run = make_run(tmp_path / "c", NOW._replace(dialect="nats"))
    refuse(tmp_path, BadPlan, "NATS filters", make_plan(run), "mosquitto", network=network)


def test_an_output_folder_with_other_things_is_refused(made, tmp_path):
    (tmp_path / "never").mkdir()
    (tmp_path / "never" / "mine").write_text("mine")
    refuse(tmp_path, BadNetwork, "holds other things. Choose another folder, or --force", made[2], "clients")
    export(made[2], "clients", tmp_path / "never", force=True)
    assert (tmp_path / "never" / "mine").read_text() == "mine"
    shutil.rmtree(tmp_path / "never")
    (tmp_path / "there").mkdir()
    (tmp_path / "never").symlink_to(tmp_path / "there")
    refuse(tmp_path, BadNetwork, "symbolic link", made[2], "clients")


# The command


@pytest.fixture
def command():
    """The command as a user types it."""
    app = typer.Typer()
    app.command("export")(export_command)
    app.command("other")(lambda: None)
    return lambda *words: run_command(["export", *map(str, words)], app, "overlace live")


def test_the_command_writes_prints_and_notes(made, tmp_path, command, capsys):
    _, _, plan = made
    network = write_network(tmp_path / "net")
    words = (plan, "--to", "nats", "--network", network, "--out", tmp_path / "out", "--filters", "exact")
    assert command(*words) == 0
    said = capsys.readouterr()
    assert "3 brokers of NATS, 2 links in account BLUE" in said.out
    assert "+ link hub-1 - hub-3" in said.out
    assert "changes.diff" in said.out
    assert "--filters is for Mosquitto: NATS carries by interest" in said.err
    assert not any(secret in said.out + said.err for secret in PASSWORDS.values())
    assert command(*words) == 1
    assert "error:" in capsys.readouterr().err
    assert command(*words, "--force", "--json") == 0
    assert json.loads(capsys.readouterr().out)["new"] == [["hub-1", "hub-3"]]
    assert command(plan, "--to", "kafka", "--out", tmp_path / "x") == 2
