"""Our files of a deployment: written whole, readable by their owner only, compared, and taken back.

A file is written beside and renamed, so that a killed write leaves the old one; all of them are written before the
first is renamed. Their names come from a slug, never from a broker's name; nothing outside their folder is written,
and no symbolic link is followed: one in the place of a file is replaced, one in the place of the folder is refused.
What a difference shows has its secrets masked, those of older files too.
"""

from __future__ import annotations

import os
import re
import secrets
import stat
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from difflib import unified_diff
from pathlib import Path

from overlace.errors import BadNetwork
from overlace.trace.address import local

MASK = "********"
MOST_READ = 64 << 20
"""Bytes of a file that is compared: ours are far smaller."""

FILE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")


@contextmanager
def open_folder(folder: Path, *, make: bool = False) -> Iterator[int]:
    """A folder by its descriptor, so that what is done in it stays in it; made for its owner only."""
    if make:
        local(folder).parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileExistsError):
            folder.mkdir(mode=0o700)
    try:
        at = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except (NotADirectoryError, OSError) as error:
        if folder.is_symlink():
            raise BadNetwork(f"{folder} is a symbolic link, which is not followed. Give the folder itself.") from None
        if isinstance(error, NotADirectoryError):
            raise BadNetwork(f"{folder} is a file. Expected a folder for our files.") from None
        raise
    try:
        yield at
    finally:
        os.close(at)


def check_name(name: str) -> str:
    """The name of a file of ours: a plain one, in its folder."""
    if not FILE.fullmatch(name) or name.startswith("."):
        raise BadNetwork(f"{name!r} is no name for a file of ours. Expected letters, digits, dots and dashes.")
    return name


def write_files(folder: Path, files: Mapping[str, str | bytes]) -> None:
    """Write files whole: 0600, in a folder that is made 0700 if it is not there."""
    for name in files:
        check_name(name)
    with open_folder(folder, make=True) as at:
        beside: dict[str, str] = {}
        try:
            for name, text in files.items():
                beside[name] = f".{name[:64]}-{secrets.token_hex(4)}.part"
                _write(at, beside[name], text.encode("utf-8", "surrogateescape") if isinstance(text, str) else text)
            for name in list(beside):
                _refuse_folder(folder, at, name)
            for name in list(beside):
                os.rename(beside[name], name, src_dir_fd=at, dst_dir_fd=at)
                del beside[name]
            os.fsync(at)
        finally:
            for part in beside.values():
                with suppress(OSError):
                    os.unlink(part, dir_fd=at)


def _write(at: int, name: str, data: bytes) -> None:
    """A new file in an open folder, on the disk when this returns."""
    file = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600, dir_fd=at)
    with os.fdopen(file, "wb") as stream:
        os.fchmod(stream.fileno(), 0o600)  # whatever the mask of the process
        stream.write(data)
        stream.flush()
        os.fsync(stream.fileno())


def _refuse_folder(folder: Path, at: int, name: str) -> None:
    with suppress(FileNotFoundError):
        if stat.S_ISDIR(os.stat(name, dir_fd=at, follow_symlinks=False).st_mode):
            raise BadNetwork(f"{folder / name} is a folder. Expected a file of ours, or nothing.")


def read_files(folder: Path, names: Iterable[str] | None = None) -> dict[str, str]:
    """The texts of those files that are there, of all where none is named; nothing is followed out of the folder."""
    if not folder.is_dir() and not folder.is_symlink():
        return {}
    found = {}
    with open_folder(folder) as at:
        for name in sorted(os.listdir(at)) if names is None else names:
            text = _read(at, name)
            if text is not None and FILE.fullmatch(name):
                found[name] = text
    return found


def _read(at: int, name: str) -> str | None:
    """A file of an open folder; None if it is not there, or no file."""
    try:
        file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=at)
    except OSError:
        return None
    with os.fdopen(file, "rb") as stream:
        if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
            return None
        return stream.read(MOST_READ).decode("utf-8", "surrogateescape")


def remove_files(folder: Path, names: Iterable[str]) -> None:
    """Take files of ours away, those that are there; no folder, and nothing that a link leads to."""
    if not folder.is_dir() or folder.is_symlink():
        return
    with open_folder(folder) as at:
        for name in names:
            with suppress(FileNotFoundError, IsADirectoryError, PermissionError):
                os.unlink(check_name(name), dir_fd=at)


def unified_difference(
    old: Mapping[str, str],
    new: Mapping[str, str],
    known: Collection[str] = (),
    others: Mapping[str, tuple[str, str]] | None = None,
) -> str:
    """What changes from old to new files, as `diff -u` shows it; secrets are masked, `known` ones wherever they are.

    A new file for which there are `others`, a name and a text, is compared with that.
    """
    lines: list[str] = []
    for name in sorted({*old, *new}):
        was, before = (others or {}).get(name, (name, old.get(name)))
        after = new.get(name)
        lines += unified_diff(
            _lines(before or ""),
            _lines(after or ""),
            "/dev/null" if before is None else f"a/{was}",
            "/dev/null" if after is None else f"b/{name}",
            lineterm="",
        )
    return "".join(f"{mask(line, known)}\n" for line in lines)


def _lines(text: str) -> list[str]:
    return text.split("\n")[:-1] if text.endswith("\n") else text.split("\n") if text else []


QUOTED = r"\"(?:[^\"\\]|\\.)*\"|'[^']*'"
SECRETS = (
    re.compile(r"^([ +-]?\s*(?:remote_password|password|bridge_psk|psk|keyfile_password)\s+)(?![:=])\S.*"),
    re.compile(
        rf"""(["']?\b(?:[\w-]*pass(?:word|wd|phrase)?|[\w-]*token|[\w-]*seed|[\w-]*secret|psk)["']?\s*[:=]\s*)"""
        rf"(?:{QUOTED}|[^\s,;}}\]]+)",
        re.IGNORECASE,
    ),
    re.compile(r"(://[^\s:/@\"']*:)[^\s\"']*(?=@)"),
    re.compile(r"^([ +-]?[^\s:]+:)\$\d+\$.*"),  # a line of a file of passwords
    re.compile(r"\b(S)[A-Z2-7]{57}\b"),  # the seed of an NKEY
)
"""What is written where a secret follows, in the files of both kinds of broker."""


def mask(line: str, known: Collection[str] = ()) -> str:
    """A line of a configuration without its secrets."""
    for secret in sorted(filter(None, known), key=len, reverse=True):
        line = line.replace(secret, MASK)
    for pattern in SECRETS:
        line = pattern.sub(rf"\g<1>{MASK}", line)
    return line


def undo_files(present: Mapping[str, str], new: Collection[str], folder: Path | str) -> dict[str, str]:
    """What takes a change of files back: the present ones as they are, and how to put them there."""
    fresh = sorted(set(new) - set(present))
    lines = ["How to take this change back:"]
    if present:
        lines.append(f"- copy the files beside this one to {folder}: they are as they were there")
    else:
        lines.append(f"- there were no such files in {folder} before")
    if fresh:
        lines.append("- remove what was not there before: " + ", ".join(fresh))
    return {"README.txt": "\n".join(lines) + "\n", **present}
