"""What is kept outside the project is in folders of the user alone; what somebody planted is never used."""

import os
import stat
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from overlace import places
from overlace.errors import OverlaceError

NAMES = ("kernels", "0123abcd")


@pytest.fixture(autouse=True)
def nowhere_else(monkeypatch, tmp_path):
    monkeypatch.delenv("OVERLACE_CACHE", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    (tmp_path / "home").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))


def mode_of(path):
    return stat.S_IMODE(path.lstat().st_mode)


@pytest.mark.parametrize("mask", [0o000, 0o022, 0o077])
def test_every_folder_that_is_made_is_of_the_user_alone(tmp_path, mask):
    before = os.umask(mask)
    try:
        folder = places.cache_folder(*NAMES)
        file = places.keep(folder, "a.py", b"x = 1\n")
        fresh = places.fresh_folder()
    finally:
        os.umask(before)
    assert folder == tmp_path / "home/.cache/overlace/kernels/0123abcd"
    assert {mode_of(each) for each in (folder, folder.parent, folder.parent.parent, fresh)} == {0o700}
    assert mode_of(file) == 0o600
    fresh.rmdir()


def test_the_users_choices_come_first_and_what_cannot_be_used_is_left_out(tmp_path, monkeypatch):
    assert places.cache_folder() == tmp_path / "home/.cache/overlace"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg/deep"))
    assert places.cache_folder() == tmp_path / "xdg/deep/overlace"
    monkeypatch.setenv("OVERLACE_CACHE", str(tmp_path / "chosen"))
    assert places.cache_folder() == tmp_path / "chosen/overlace"
    (tmp_path / "chosen/overlace").chmod(0o777)
    assert places.cache_folder() == tmp_path / "xdg/deep/overlace"
    folder, why = places.describe_cache()
    assert folder == tmp_path / "xdg/deep/overlace"
    assert why.startswith(f"{tmp_path}/chosen/overlace can be written by others (mode 0777). ")
    assert "\n" not in why
    monkeypatch.setenv("XDG_CACHE_HOME", "xdg")
    assert places.cache_folder() == tmp_path / "home/.cache/overlace", "XDG: a relative path is ignored"


@pytest.mark.parametrize("home", ["/proc", "/nonexistent-home"])
def test_without_a_home_that_can_be_written_there_is_none_or_the_last_place(home, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", home)
    assert places.cache_folder("kernels") is None
    assert places.describe_cache()[0] is None
    assert not Path("/nonexistent-home").exists()
    beside = places.cache_folder("kernels", beside=tmp_path)
    assert beside == tmp_path / f"overlace-{os.geteuid()}" / "kernels"
    assert mode_of(beside.parent) == 0o700


FLAWS = ("link", "file", 0o777, 0o770, 0o702, 0o1777)


@given(st.sampled_from(range(4)), st.sampled_from(FLAWS), st.booleans())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
def test_a_planted_folder_is_never_used_nor_touched(tmp_path_factory, level, flaw, elsewhere):
    """Whatever is wrong with any folder from the chosen one on, nothing below it is read or written."""
    root = tmp_path_factory.mktemp("root")
    chain = [root / "chosen"]
    for name in ("overlace", *NAMES):
        chain.append(chain[-1] / name)
    if flaw == 0o1777 and level == 0:
        return  # a sticky folder on the way, as /tmp is: nobody can exchange what is ours in it
    evil = root / "evil"
    evil.mkdir(mode=0o700)
    chain[level].parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    for each in (root / "chosen", *chain[1:level]):
        if each.is_dir():
            each.chmod(0o700)
    if flaw == "link":
        chain[level].symlink_to(evil)
    elif flaw == "file":
        chain[level].write_text("in the way")
    else:
        chain[level].mkdir()
        chain[level].chmod(flaw)
        evil = chain[level]
    (evil / "planted.py").write_text("raise SystemExit('planted')")
    if elsewhere:
        reason = {"link": "is a symbolic link", "file": "is no folder"}.get(flaw, "can be written by others")
        with pytest.raises(places.Unsafe, match=f"^{chain[level]} {reason}") as raised:
            places.own_folder(root / "chosen", "overlace", *NAMES)
        assert "\n" not in str(raised.value)
        assert isinstance(raised.value, OverlaceError)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OVERLACE_CACHE", str(root / "chosen"))
        found = places.cache_folder(*NAMES)
    assert found is not None
    assert not found.is_relative_to(root / "chosen")
    assert [each.name for each in evil.iterdir()] == ["planted.py"]


def test_a_folder_on_the_way_that_others_can_write_to_is_not_passed(tmp_path):
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    (tmp_path / "open/inside").mkdir(mode=0o700)
    with pytest.raises(places.Unsafe, match="open can be written by others"):
        places.own_folder(tmp_path / "open/inside/cache", "overlace")
    (tmp_path / "open").chmod(0o1777)
    assert places.own_folder(tmp_path / "open/inside/cache", "overlace").is_dir()


def test_a_link_on_the_way_is_as_good_as_where_it_leads(tmp_path):
    """A home may lie on another disk; a link to what others can write to is no way."""
    (tmp_path / "disk").mkdir(mode=0o700)
    (tmp_path / "way").symlink_to("disk")
    assert places.own_folder(tmp_path / "way/cache", "overlace") == tmp_path / "way/cache/overlace"
    (tmp_path / "disk").chmod(0o777)
    with pytest.raises(places.Unsafe, match="disk can be written by others"):
        places.own_folder(tmp_path / "way/cache", "overlace")
    (tmp_path / "round").symlink_to("round")
    with pytest.raises((places.Unsafe, OSError)):
        places.own_folder(tmp_path / "round/cache", "overlace")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
@pytest.mark.parametrize("level", [0, 1, 2])
def test_a_folder_of_somebody_else_is_not_used(tmp_path, level):
    folder = places.own_folder(tmp_path / "chosen", "overlace", "kernels")
    given_away = [tmp_path / "chosen", folder.parent, folder][level]
    os.chown(given_away, 12345, -1)
    with pytest.raises(places.Unsafe, match=f"{given_away} belongs to user 12345"):
        places.own_folder(tmp_path / "chosen", "overlace", "kernels")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a link away")
def test_a_link_of_somebody_else_is_no_way(tmp_path):
    (tmp_path / "disk").mkdir(mode=0o700)
    (tmp_path / "way").symlink_to("disk")
    os.chown(tmp_path / "way", 12345, -1, follow_symlinks=False)
    with pytest.raises(places.Unsafe, match="way belongs to user 12345"):
        places.own_folder(tmp_path / "way/cache", "overlace")


def test_an_older_folder_that_others_can_only_read_is_closed(tmp_path):
    folder = tmp_path / "home/.cache/overlace"
    folder.mkdir(parents=True)
    folder.chmod(0o755)
    assert places.cache_folder() == folder
    assert mode_of(folder) == 0o700


@pytest.mark.parametrize("plant", ["other", "link", "fifo", "open", "same"])
def test_a_file_under_the_right_name_is_compared_and_replaced(tmp_path, plant):
    folder, content = places.cache_folder("kernels"), b"right = True\n"
    path, other = folder / "a.py", tmp_path / "other"
    other.write_bytes(content)
    other.chmod(0o600)
    if plant == "other":
        path.write_bytes(b"planted = True\n")
        path.chmod(0o600)
    elif plant == "link":
        path.symlink_to(other)
    elif plant == "fifo":
        os.mkfifo(path)
    elif plant == "open":
        path.write_bytes(content)
        path.chmod(0o666)
    else:
        places.keep(folder, "a.py", content)
    before = os.lstat(path).st_ino if plant == "same" else None
    assert places.keep(folder, "a.py", content) == path
    assert stat.S_ISREG(path.lstat().st_mode)
    assert path.read_bytes() == content
    assert mode_of(path) == 0o600
    assert other.read_bytes() == content
    assert before in (None, path.lstat().st_ino)
    assert [each.name for each in folder.iterdir()] == ["a.py"]


def test_only_own_files_sees_links_folders_and_what_others_can_write(tmp_path):
    folder = tmp_path / "compiled"
    assert places.only_own_files(folder)
    folder.mkdir(mode=0o700)
    (folder / "a.nbi").write_bytes(b"")
    assert places.only_own_files(folder)
    (folder / "a.nbi").chmod(0o666)
    assert not places.only_own_files(folder)
    (folder / "a.nbi").unlink()
    (folder / "b.nbi").symlink_to(tmp_path)
    assert not places.only_own_files(folder)
    (tmp_path / "link").symlink_to(tmp_path)
    assert not places.only_own_files(tmp_path / "link")


def test_a_temporary_folder_where_others_could_exchange_ours_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "home"))
    (tmp_path / "home").chmod(0o777)
    with pytest.raises(places.Unsafe, match=f"temporary folder {tmp_path}/home.* mode 0777. Set TMPDIR"):
        places.fresh_folder()
    (tmp_path / "home").chmod(0o1777)
    places.fresh_folder().rmdir()
