"""Folders of this user alone, for everything that is put outside the project: code, compiled kernels, logs.

Who can write to a folder that code is loaded from can run code in our name. So a folder is used only if it is
this user's own (mode 0700), no symbolic link, and if nobody else can put another in its place: every folder on the
way belongs to this user or to root and can be written by them alone (or is sticky, as the temporary folder is).

What lasts is kept in `cache_folder()`: under `OVERLACE_CACHE`, else `XDG_CACHE_HOME`, else `~/.cache`. What lives as
long as its owner goes to a `fresh_folder()`, whose name nobody can know before. `keep` compares what is there with
what should be there, byte by byte: a file of the right name is nothing yet.
"""

from __future__ import annotations

import atexit
import errno
import os
import shutil
import stat
import tempfile
from contextlib import suppress
from functools import cache
from pathlib import Path

from overlace.errors import OverlaceError

WRITABLE = stat.S_IWGRP | stat.S_IWOTH
"""By others than the owner."""

ADVICE = "Change that, or set OVERLACE_CACHE to another folder."


class Unsafe(OverlaceError):
    """A folder that others than this user could put code or logs into."""


def cache_folder(*names: str, beside: Path | None = None) -> Path | None:
    """A folder that lasts, made if absent; None if there is no safe place for one.

    `beside` is a last place to try, which is trusted already since code is imported from there.
    """
    for base, folder in _candidates(beside):
        with suppress(Unsafe, OSError):
            return own_folder(base, folder, *names)
    return None


def describe_cache() -> tuple[Path | None, str]:
    """The folder that lasts, and why the ones before it are not used."""
    reasons: list[str] = []
    for base, folder in _candidates():
        try:
            return own_folder(base, folder), "; ".join(reasons)
        except Unsafe as error:
            reasons.append(str(error))
        except OSError as error:
            reasons.append(f"{base / folder}: {error.strerror}")
    return None, "; ".join(reasons)


def _candidates(beside: Path | None = None) -> list[tuple[Path, str]]:
    """Where a folder that lasts may be, best first: what the user has chosen, and our name in it."""
    chosen, xdg = os.environ.get("OVERLACE_CACHE"), os.environ.get("XDG_CACHE_HOME", "")
    found = [(Path(chosen).absolute(), "overlace")] if chosen else []
    if os.path.isabs(xdg):
        found.append((Path(xdg), "overlace"))
    with suppress(RuntimeError):  # nobody knows where home is
        if (home := Path.home()).is_dir():
            found.append((home / ".cache", "overlace"))
    return [*found, (beside, f"overlace-{os.geteuid()}")] if beside else found


def fresh_folder() -> Path:
    """A new folder of this user alone in the temporary folder; who asks for it removes it."""
    where = Path(tempfile.gettempdir())
    about = where.stat()
    if about.st_uid not in (0, os.geteuid()) or (about.st_mode & WRITABLE and not about.st_mode & stat.S_ISVTX):
        raise Unsafe(
            f"others may exchange what is in the temporary folder {where}: it belongs to user {about.st_uid}, "
            f"mode {_mode(about)}. Set TMPDIR to a folder of your own."
        )
    return Path(tempfile.mkdtemp(prefix="overlace-", dir=where))


def process_folder(*names: str) -> Path:
    """A folder in a fresh one that this process has for what finds no better place; removed when it ends."""
    folder = _process_folder(os.getpid())
    folder.joinpath(*names).mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder.joinpath(*names)


@cache
def _process_folder(process: int) -> Path:
    folder = fresh_folder()
    atexit.register(lambda: shutil.rmtree(folder, ignore_errors=True) if os.getpid() == process else None)
    return folder


def own_folder(base: Path, *names: str) -> Path:
    """The folder base/names, made if absent, each of the names a folder of this user alone.

    What leads to the base must be safe, and from the base on no link is followed. A folder of this user that others
    can read is closed to them; one that they can write to is refused, whatever is in it.
    """
    _check_parents(base.parent)
    _make(base)
    _check_folder(base)
    folder = base
    for name in names:
        folder = folder / name
        _make(folder)
        _check_folder(folder, shared=False)
        if stat.S_IMODE(folder.lstat().st_mode) & 0o077:
            folder.chmod(0o700)
    if not os.access(folder, os.W_OK | os.X_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(folder))
    return folder


def _check_parents(path: Path, hops: int = 40) -> None:
    """Make what is missing, and see that nobody but this user and root can exchange a folder on the way."""
    for each in (*reversed(path.parents), path):
        _make(each)
        if each.is_symlink() and hops:
            _check_owner(each)
            _check_parents(Path(os.path.normpath(each.parent / os.readlink(each))), hops - 1)
        else:
            _check_folder(each)


def _make(folder: Path) -> None:
    with suppress(FileExistsError):
        if not os.path.lexists(folder):
            folder.mkdir(mode=0o700)


def _check_folder(path: Path, shared: bool = True) -> None:
    """A folder, no link to one, that others cannot write to; `shared`: it may be root's, or sticky."""
    _check_owner(path, shared)
    about = path.lstat()
    if stat.S_ISLNK(about.st_mode):
        raise Unsafe(f"{path} is a symbolic link. {ADVICE}")
    if not stat.S_ISDIR(about.st_mode):
        raise Unsafe(f"{path} is no folder. {ADVICE}")
    if about.st_mode & WRITABLE and not (shared and about.st_mode & stat.S_ISVTX):
        raise Unsafe(f"{path} can be written by others (mode {_mode(about)}). {ADVICE}")


def _check_owner(path: Path, shared: bool = True) -> None:
    owner = path.lstat().st_uid
    if owner != os.geteuid() and (owner or not shared):
        raise Unsafe(f"{path} belongs to user {owner}. {ADVICE}")


def _mode(about: os.stat_result) -> str:
    return f"{stat.S_IMODE(about.st_mode):04o}"


def keep(folder: Path, name: str, content: bytes, mode: int = 0o600) -> Path:
    """A file with this content in a folder of ours: what is there is compared, and replaced if it differs."""
    path = folder / name
    if read_own(path, mode) == content:
        return path
    handle, beside = tempfile.mkstemp(dir=folder, suffix=".part")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            os.fchmod(file.fileno(), mode)
        os.replace(beside, path)  # whole or not at all, also for another process that starts now
    except BaseException:
        with suppress(OSError):
            os.unlink(beside)
        raise
    return path


def read_own(path: Path, mode: int = 0o600) -> bytes | None:
    """What is in a file of this user alone; None if it is not there, a link, or somebody else's."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    with os.fdopen(handle, "rb") as file:
        about = os.fstat(file.fileno())
        own = stat.S_ISREG(about.st_mode) and about.st_uid == os.geteuid() and stat.S_IMODE(about.st_mode) == mode
        return file.read() if own else None


def only_own_files(folder: Path) -> bool:
    """Whether all that is in a folder are plain files that only this user can write; true if it is not there."""
    try:
        about = folder.lstat()
        if not stat.S_ISDIR(about.st_mode) or about.st_uid != os.geteuid() or about.st_mode & WRITABLE:
            return False
        with os.scandir(folder) as entries:
            inside = [each.stat(follow_symlinks=False) for each in entries]
    except FileNotFoundError:
        return True
    return all(
        stat.S_ISREG(each.st_mode) and each.st_uid == os.geteuid() and not each.st_mode & WRITABLE for each in inside
    )
