import json
import os
import stat

import pytest
from hypothesis import given
from hypothesis import strategies as st

from overlace.errors import BadNetwork
from overlace.ingest.topologies.nats_conf import NatsReader
from overlace.live import mosquitto_files, nats_files
from overlace.live.client import name_in
from overlace.live.deployment import CONTROL
from overlace.live.files import (
    MASK,
    mask,
    read_files,
    remove_files,
    undo_files,
    unified_difference,
    write_files,
)
from overlace.live.maps import cell, label
from overlace.live.wiring import slug

texts = st.text(st.characters(codec="utf-8") | st.sampled_from("$\"'\\{}[]()#/ :=,;%"))
plain_texts = texts.filter(lambda text: not CONTROL.search(text))


# Laws of quoting


@given(plain_texts)
def test_a_text_in_quotes_is_read_back_by_our_own_reader(tmp_path_factory, text):
    notes = []
    conf = f"a: {nats_files.quote(text)}\nb {{ c: [ {nats_files.quote(text)} ], d: 1 }}\n"
    read = NatsReader(tmp_path_factory.getbasetemp(), conf, notes).read()
    assert read == {"a": text, "b": {"c": [text], "d": "1"}}
    assert notes == []


@given(texts.filter(CONTROL.search))
def test_control_characters_are_refused_wherever_they_would_be_written(text):
    for write in (nats_files.quote, mosquitto_files.bridge_filter, lambda each: mosquitto_files.plain(each, "name")):
        with pytest.raises(BadNetwork, match="control character"):
            write(text)


@given(texts, texts.filter(CONTROL.search), texts)
def test_a_secret_that_cannot_be_written_is_not_shown(before, control, after):
    secret = f"{before}s3cret{control}{after}"
    for write in (
        lambda: nats_files.quote(secret, "the password"),
        lambda: mosquitto_files.plain(secret, "the password", secret=True),
        lambda: mosquitto_files.plain(" s3cret ", "the password", secret=True),
    ):
        with pytest.raises(BadNetwork) as error:
            write()
        assert "s3cret" not in str(error.value)


@given(texts, texts)
def test_slugs_and_labels_are_harmless_and_two_names_never_share_one(left, right):
    for make, letters in ((slug, "-_"), (label, "-")):
        for name in (left, right):
            made = make(name)
            assert made.isascii()
            assert made
            assert all(letter.isalnum() or letter in letters for letter in made)
            assert not made.startswith(("-", "."))
            assert len(made) <= 63
        assert (make(left) == make(right)) == (left == right)
        assert make(make(left)) != make(left) or make(left) == left  # who is called like a slug gets another


@given(texts)
def test_a_cell_is_no_formula_and_gives_its_name_back(name):
    assert name_in(cell(name)) == name
    assert not cell(name).startswith(("=", "+", "-", "@"))


# Laws of files

names = st.from_regex(r"[a-z0-9][a-z0-9.-]{0,8}", fullmatch=True)
bodies = st.dictionaries(names, st.text(st.characters(codec="utf-8", exclude_characters="\r")), max_size=4)


@given(bodies, bodies)
def test_files_are_written_whole_for_their_owner_and_read_back(tmp_path_factory, first, second):
    folder = tmp_path_factory.mktemp("ours") / "new" / "files"
    old = os.umask(0)
    try:
        write_files(folder, first)
        write_files(folder, second)
    finally:
        os.umask(old)
    assert read_files(folder) == {**first, **second}
    assert sorted(os.listdir(folder)) == sorted({**first, **second})
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert all(stat.S_IMODE(each.stat().st_mode) == 0o600 for each in folder.iterdir())
    remove_files(folder, first)
    assert read_files(folder) == {name: text for name, text in second.items() if name not in first}


@given(bodies, bodies)
def test_the_difference_is_empty_where_nothing_differs_and_names_every_file_that_does(old, new):
    assert unified_difference(old, old) == ""
    shown = unified_difference(old, new)
    for name in {*old, *new}:
        differs = old.get(name, "").rstrip("\n") != new.get(name, "").rstrip("\n")
        if differs:
            assert f"a/{name}\n" in shown or f"b/{name}\n" in shown


secrets = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs", "Zl", "Zp"]), min_size=6)


@given(secrets.filter(lambda text: text == text.strip()), st.sampled_from(["", "+", "-", " "]))
def test_no_secret_of_either_kind_of_broker_is_shown_also_where_nobody_knows_it(secret, sign):
    from urllib.parse import quote as percent

    shown = nats_files.quote(secret)
    for line, rest in {
        f'      {{ user: {shown[:-1]}x", password: {shown}, permissions: {{ deny: "a" }} }}': 'deny: "a"',
        f'  {{ url: "nats-leaf://links:{percent(secret, safe="")}@10.0.0.1:7422", account: "BLUE" }}': "10.0.0.1:7422",
        f"remote_password {secret}": "remote_password",
        "clients:$7$101$c2FsdA==$" + secret: "clients",
        f"password: {shown}": "password",
        f"token = {shown}": "token",
    }.items():
        masked = mask(sign + line)
        assert MASK in masked
        assert rest in masked
        if "user:" not in line:
            assert secret not in masked.replace(MASK, "") or secret in sign + line.replace(secret, "")
    assert secret not in mask(f"{sign}seen here {secret} and {secret}", [secret]).replace(MASK, "") or secret in MASK


# Examples


def test_nothing_outside_of_the_folder_is_written_and_no_link_followed(tmp_path):
    other = tmp_path / "other.conf"
    other.write_text("theirs")
    folder = tmp_path / "ours"
    write_files(folder, {"a.conf": "1"})
    (folder / "b.conf").symlink_to(other)
    write_files(folder, {"b.conf": "ours"})
    assert other.read_text() == "theirs"
    assert not (folder / "b.conf").is_symlink()
    (folder / "c.conf").symlink_to(other)
    assert "c.conf" not in read_files(folder)
    remove_files(folder, ["c.conf"])
    assert other.read_text() == "theirs"
    (tmp_path / "link").symlink_to(tmp_path)
    with pytest.raises(BadNetwork, match="symbolic link"):
        write_files(tmp_path / "link", {"a.conf": "1"})
    with pytest.raises(BadNetwork, match="is a file"):
        write_files(other, {"a.conf": "1"})
    (folder / "d.conf").mkdir()
    with pytest.raises(BadNetwork, match="is a folder"):
        write_files(folder, {"a.conf": "2", "d.conf": "1"})
    assert (folder / "a.conf").read_text() == "1"
    for name in ("../x", "a/b", ".hidden", "", "a\nb", "/etc/x"):
        with pytest.raises(BadNetwork, match="no name for a file"):
            write_files(folder, {name: "1"})
    assert sorted(each.name for each in folder.iterdir()) == ["a.conf", "b.conf", "d.conf"]


def test_a_file_that_cannot_be_written_leaves_the_old_ones(tmp_path, monkeypatch):
    write_files(tmp_path / "x", {"a.conf": "old", "b.conf": "old"})

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_files(tmp_path / "x", {"a.conf": "new", "b.conf": "new"})
    assert read_files(tmp_path / "x") == {"a.conf": "old", "b.conf": "old"}
    assert len(os.listdir(tmp_path / "x")) == 2


def test_an_undo_says_what_to_copy_and_what_to_remove():
    made = undo_files({"a.conf": "old"}, ["a.conf", "b.conf"], "net/files")
    assert made["a.conf"] == "old"
    assert "remove what was not there before: b.conf" in made["README.txt"]
    assert "no such files" in undo_files({}, ["b.conf"], "net/files")["README.txt"]
    assert json.dumps(made)
