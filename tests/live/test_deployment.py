"""The network file: what is not known is refused in a line, and no secret is in it or in what is said of it."""

import os
import stat
import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from overlace.cli.commands import run
from overlace.errors import BadNetwork
from overlace.live.deployment import check_deployment, read_deployment
from overlace.live.files import write_files
from overlace.live.local import draw_tree, network_text
from overlace.live.wiring import dials, is_tree, links_of, slug

PLAIN = """
substrate = "nats"
files = "overlace"
allow_link = ["*:hub-*"]
colours = ["BLUE", "GREEN"]
tls = { ca = "ca.pem" }
[credentials]
control = { user = "overlace", password_env = "OVERLACE_TEST_CONTROL" }
links = { user = "links-of-{colour}", password_file = "links.{colour}" }
system = { creds = "sys.creds" }
[brokers.hub-1]
client = "10.0.0.1:4222"
links = "10.0.0.1:7422"
monitor = "http://127.0.0.1:8222"
deploy = ["scp", "{file}", "hub-1:/etc/nats/overlace/"]
[brokers.leaf]
client = "[::1]:4222"
"""


def read(tmp_path, text):
    (tmp_path / "network.toml").write_text(text)
    return read_deployment(tmp_path)


def test_the_example_of_the_docs_is_read(tmp_path, monkeypatch):
    found = read(tmp_path, PLAIN)
    assert found.files_folder == tmp_path / "overlace"
    assert found.may_link("leaf", "hub-1")
    assert found.may_link("hub-1", "leaf")
    assert not found.may_link("leaf", "leaf-2")
    monkeypatch.setenv("OVERLACE_TEST_CONTROL", "s3cret")
    assert found.login("control", 1) == ("overlace-GREEN", "s3cret", None, None)
    assert "s3cret" not in repr(found.login("control", 1))
    (tmp_path / "links.BLUE").write_text("a word\n")
    assert found.login("links", 0)[:2] == ("links-of-BLUE", "a word")
    assert found.login("system").creds == tmp_path / "sys.creds"


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('files = "overlace"', 'folder = "x"', "folder: not known here. There are substrate, files"),
        ('client = "10.0.0.1:4222"', 'client = "10.0.0.1"', "brokers.hub-1.client.0: expected host:port"),
        ('client = "10.0.0.1:4222"', 'client = "10.0.0.1:99999"', "brokers.hub-1.client.0: expected host:port"),
        ('substrate = "nats"', 'substrate = "kafka"', "substrate: "),
        ('password_env = "OVERLACE_TEST_CONTROL"', 'password = "hunter2"', "credentials.control.password: not known"),
        ("http://127.0.0.1:8222", "http://me:hunter2@127.0.0.1:8222", "monitor: expected http://host:port"),
        ("[brokers.leaf]", '[brokers."a leaf"]', "expected a name without control characters or spaces"),
        ("[brokers.leaf]", '[brokers."a\\u0007"]', "expected a name without control characters or spaces"),
        ('["*:hub-*"]', '["hub-1"]', "expected two patterns, left:right"),
        ('["BLUE", "GREEN"]', '["BLUE", "BLUE"]', "colours: expected two different names"),
        ("substrate", "= substrate", "not TOML"),
    ],
)
def test_a_fault_is_one_line_without_a_secret(tmp_path, old, new, words):
    with pytest.raises(BadNetwork) as error:
        read(tmp_path, PLAIN.replace(old, new, 1))
    assert words in str(error.value)
    assert "hunter2" not in str(error.value)
    assert "\n" not in str(error.value)


def test_what_a_file_names_must_be_there(tmp_path, monkeypatch):
    found = read(tmp_path, PLAIN)
    monkeypatch.delenv("OVERLACE_TEST_CONTROL", raising=False)
    with pytest.raises(BadNetwork, match="OVERLACE_TEST_CONTROL is not set"):
        found.login("control")
    with pytest.raises(BadNetwork, match=r"links.BLUE cannot be read"):
        found.login("links")
    with pytest.raises(BadNetwork, match=r"credentials.clients is missing"):
        found.login("clients")
    with pytest.raises(BadNetwork, match="no network file there"):
        read_deployment(tmp_path / "elsewhere")
    with pytest.raises(BadNetwork, match=r"brokers.leaf has no links"):
        found.link_address("leaf")


def test_users_of_a_network_with_one_colour_are_called_as_they_are(tmp_path, monkeypatch):
    monkeypatch.setenv("OVERLACE_TEST_CONTROL", "s3cret")
    found = read(tmp_path, PLAIN.replace('["BLUE", "GREEN"]', '["BLUE"]'))
    assert found.login("control").user == "overlace"


@pytest.mark.parametrize(
    "words",
    [
        ["live", "status", "--password", "hunter2"],
        ["live", "record", "--out", "t", "--password=hunter2"],
        ["live", "status", "--network", "nats://me:hunter2@127.0.0.1:4222"],
        ["live", "record", "--token", "hunter2"],
    ],
)
def test_a_secret_on_the_command_line_is_refused(words, capsys):
    assert run(words) == 2
    said = capsys.readouterr().err
    assert "everybody on this machine can read a command line" in " ".join(said.split())
    assert "hunter2" not in said


@given(st.lists(st.text(st.characters(exclude_categories=["Cc", "Cs"]), min_size=1), unique=True, min_size=1))
def test_files_have_harmless_names_of_their_own(names):
    found = [slug(name) for name in names]
    assert len(set(found)) == len(names)
    assert all(set(each) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") for each in found)


@given(st.integers(1, 30), st.integers(0, 99))
def test_a_drawn_tree_is_one_and_nobody_dials_two(count, seed):
    names = [f"hub-{i}" for i in range(count)]
    links = draw_tree(names, seed)
    assert is_tree(names, links)
    parents = dials(names, links)
    assert links_of(parents.items()) == links
    assert len(parents) == count - 1  # one each, but for the first
    assert names[0] not in parents


def test_a_cycle_and_a_stranger_are_refused():
    with pytest.raises(BadNetwork, match="closes a cycle"):
        dials("abc", links_of(["ab", "bc", "ac"]))
    with pytest.raises(BadNetwork, match="no broker z"):
        dials("abc", links_of(["az"]))


def test_a_network_file_is_read_back_as_written(tmp_path):
    brokers = {'odd "name" \\ é': {"client": "127.0.0.1:1883"}, "b": {"client": ["127.0.0.1:1", "127.0.0.1:2"]}}
    credentials = {"control": {"user": "control", "password_file": "secrets/control"}}
    text = network_text({"substrate": "mosquitto", "credentials": credentials, "brokers": brokers})
    found = check_deployment(tomllib.loads(text), tmp_path / "network.toml")
    assert list(found.brokers) == list(brokers)
    assert found.client_address("b", 1) == "127.0.0.1:2"


def test_private_files_are_ours_alone_and_follow_no_link(tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("theirs")
    folder = tmp_path / "files"
    folder.mkdir()
    (folder / "a.conf").symlink_to(victim)
    old = os.umask(0)
    try:
        write_files(folder, {"a.conf": "ours"})
    finally:
        os.umask(old)
    assert victim.read_text() == "theirs"
    assert stat.S_IMODE((folder / "a.conf").stat().st_mode) == 0o600
    assert not (folder / "a.conf").is_symlink()
