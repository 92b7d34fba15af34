"""One writer at a time: a lock in the folder of what is written, which names its owner.

    FOLDER/.lock    {"host": ..., "process": ..., "since": ..., "command": ...}

The operating system holds the lock for as long as its owner lives, so that of a killed writer is free at once.
Where a file system knows no such locks, the file itself is the lock: it is taken from an owner that is known to
be dead, and from another only if the user says so. On an object store it is an object, which a second writer at the
same moment may replace: so it is looked at again before anything counts, and the writer that lost it is refused.
"""

from __future__ import annotations

import errno
import json
import os
import socket
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime

import pyarrow.fs as pafs

from overlace.errors import BadTrace, Busy
from overlace.stopping import finishing

try:
    import fcntl
except ImportError:  # pragma: no cover - where there are no such locks
    fcntl = None  # type: ignore[assignment]

LOCK = ".lock"


class Lock:
    """A lock that is held, until it is released or broken."""

    def __init__(self, path: str, held: int) -> None:
        self.path = path
        self.held = held
        text = json.dumps(owner(), ensure_ascii=False) + "\n"
        os.ftruncate(held, 0)
        os.pwrite(held, text.encode(), 0)

    def holds(self) -> bool:
        """Whether it is still ours: nobody has broken it."""
        return _is_at(self.held, self.path)

    def release(self) -> None:
        """Let others write."""
        if self.holds():
            os.unlink(self.path)
        os.close(self.held)


def owner() -> dict[str, object]:
    """Who we are, for others to read."""
    command = " ".join([os.path.basename(sys.argv[0]), *sys.argv[1:3]]) if sys.argv else ""
    now = datetime.now(UTC).isoformat(timespec="seconds")
    return {"host": socket.gethostname(), "process": os.getpid(), "since": now, "command": command}


class StoreLock:
    """A lock on an object store: ours as long as the object says so."""

    def __init__(self, files: pafs.FileSystem, path: str) -> None:
        self.files, self.path, self.id = files, path, uuid.uuid4().hex
        self.text = json.dumps({**owner(), "id": self.id}, ensure_ascii=False).encode()
        with files.open_output_stream(path) as stream:
            stream.write(self.text)
        _held_here.add(self.id)

    def holds(self) -> bool:
        """Whether it is still ours: nobody has broken it."""
        return read_object(self.files, self.path) == self.text

    def release(self) -> None:
        """Let others write, also if the store does not let us remove it."""
        _held_here.discard(self.id)
        with suppress(OSError):
            if self.holds():
                self.files.delete_file(self.path)


_held_here: set[object] = set()
"""The locks on object stores that this process holds."""


def read_object(files: pafs.FileSystem, path: str) -> bytes:
    """What a small object holds; nothing if it is absent."""
    try:
        with files.open_input_stream(path) as stream:
            return bytes(stream.read())
    except FileNotFoundError:
        return b""


@contextmanager
def locked(
    at: str, break_lock: bool | None = False, files: pafs.FileSystem | None = None, name: str = ""
) -> Iterator[Lock | StoreLock]:
    """Hold the lock of a folder, by its path in a file system; refused in one line while another writer holds it."""
    if files is None or isinstance(files, pafs.LocalFileSystem):
        lock: Lock | StoreLock = take(at, break_lock)
    else:
        lock = take_object(files, f"{at}/{LOCK}", name, bool(break_lock))
    try:
        yield lock
    finally:
        with finishing():
            lock.release()


def take(folder: str, break_lock: bool | None = False) -> Lock:
    """Take the lock of a folder, from its owner too if it is to be broken; None: nobody can ask for that."""
    path = os.path.join(folder, LOCK)
    while True:
        made, held = _open(path)
        if held is None:
            continue  # its owner has just let go
        try:
            free = _ask(held)
            if free is None:  # no such locks here: who made the file has it
                free = made or _is_dead(_read(held))
                if free and not made:
                    _remove(path, held)
                    os.close(held)
                    continue
            if free and _is_at(held, path):
                return Lock(path, held)
            writer = _read(held)
        except BaseException:
            os.close(held)
            raise
        if not free and break_lock:
            _remove(path, held)
        os.close(held)
        if not free and not break_lock:
            raise _held(folder, writer, break_lock is None)


def take_object(files: pafs.FileSystem, path: str, folder: str, break_lock: bool) -> StoreLock:
    """Take the lock of a folder in a store, from its owner too if it is to be broken or its owner is dead."""
    writer = _parse(read_object(files, path))
    mine = (writer.get("host"), writer.get("process")) == (socket.gethostname(), os.getpid())
    if not writer or break_lock or _is_dead(writer) or (mine and writer.get("id") not in _held_here):
        lock = StoreLock(files, path)
        if lock.holds():
            return lock
        writer = _parse(read_object(files, path))
    raise _held(folder, writer)


def _held(folder: str, writer: dict[str, object], final: bool = False) -> Busy:
    remedy = f"remove {folder}/{LOCK}" if final else "--break-lock takes the lock from it"
    who = _describe(writer)
    return Busy(f"{folder} is being written by {who}. Try again when it has ended; if it is gone, {remedy}.")


def _open(path: str) -> tuple[bool, int | None]:
    """(made by us, file) of a lock; no file if it or its folder has gone meanwhile."""
    flags = os.O_RDWR | getattr(os, "O_NOFOLLOW", 0)
    try:
        return True, os.open(path, flags | os.O_CREAT | os.O_EXCL, 0o666)
    except FileExistsError:
        try:
            return False, os.open(path, flags)
        except FileNotFoundError:
            return False, None
        except OSError as problem:
            raise BadTrace(f"{path} cannot be the trace's lock ({problem.strerror}): remove it") from problem
    except FileNotFoundError:  # whoever made the folder was refused, and has removed it
        os.makedirs(os.path.dirname(path), exist_ok=True)
        return False, None


def _ask(held: int) -> bool | None:
    """Whether the operating system gives us the lock; none if there are no locks here."""
    if fcntl is None:  # pragma: no cover - where there are no such locks
        return None
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES):
            return False
        if error.errno in (errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOLCK, errno.EINVAL):
            return None
        raise
    return True


def _is_at(held: int, path: str) -> bool:
    """Whether a file that we hold is the one of that name."""
    try:
        there = os.stat(path, follow_symlinks=False)
    except FileNotFoundError:
        return False
    mine = os.fstat(held)
    return (mine.st_dev, mine.st_ino) == (there.st_dev, there.st_ino)


def _remove(path: str, held: int) -> None:
    """Remove a lock, unless it is another by now."""
    if _is_at(held, path):
        with suppress(FileNotFoundError):
            os.unlink(path)


def _read(held: int) -> dict[str, object]:
    """What a lock says of its owner; nothing if that is not yet written."""
    return _parse(os.pread(held, 1 << 16, 0))


def _parse(text: bytes) -> dict[str, object]:
    try:
        writer = json.loads(text)
    except ValueError:
        return {}
    return writer if isinstance(writer, dict) else {}


def _is_dead(writer: dict[str, object]) -> bool:
    """Whether a process of this machine is known to have ended."""
    process = writer.get("process")
    if writer.get("host") != socket.gethostname() or not isinstance(process, int) or process <= 0:
        return False
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return True
    except OSError:
        return False
    return False


def _describe(writer: dict[str, object]) -> str:
    """An owner, for people."""
    if "process" not in writer:
        return "another process"
    command = f" ({writer['command']})" if writer.get("command") else ""
    return f"process {writer['process']} on {writer.get('host', '?')} since {writer.get('since', '?')}{command}"
