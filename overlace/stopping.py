"""Signals that end a process: one way out, from wherever it is.

Ctrl-C, SIGTERM and the hang-up of a closed terminal raise `Stopped` in the main thread. What must not be cut
short (stopping a session, removing what was staged) runs under `finishing()`; a signal that comes meanwhile
is raised at its end. Inside `coming_to_an_end()` the first Ctrl-C only asks: who searches looks at `asked()` from
time to time and ends with what there is; the second one stops it. Who waits for a job elsewhere leaves word with
`when_stopped` how it is cancelled; who starts a process of its own with `at_the_end`, so that it ends with us even
when a clean way out is not found within `GRACE` seconds.

This module is imported before all others, so it imports next to nothing.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

GRACE = 30.0
"""Seconds to find a clean way out after the first signal."""

SETTLE = 1.0
"""Seconds in which further signals are taken for the same request: a closing terminal sends more than one."""

AGAIN = 0.05
"""Seconds until the main thread is sent again a signal that it has not taken."""

NAMES = ("SIGINT", "SIGTERM", "SIGHUP")

ASKED = b"\ncoming to an end with what there is; Ctrl-C again stops at once\n"


class Stopped(KeyboardInterrupt):
    """A signal asked this process to end."""


class Watch:
    """What has come in, and what is under way. One at a time, since a process has one set of handlers."""

    def __init__(self) -> None:
        self.signal: int | None = None
        self.since = 0.0
        self.finishing = 0
        self.put_off = False
        self.gently = 0
        self.asked = False
        self.over = threading.Event()
        self.on_stop: dict[int, Callable[[], None]] = {}
        self.on_end: dict[int, Callable[[], None]] = {}


_watch = Watch()


def received() -> int | None:
    """The number of the signal that asked to stop, if one has."""
    return _watch.signal


def exit_code() -> int:
    """128 and the number of the signal, as shells count."""
    return 128 + (_watch.signal or signal.SIGINT)


@contextmanager
def listening() -> Iterator[None]:
    """While this lasts, signals raise `Stopped`; afterwards, when nothing is left to tidy up, they end the process.

    A signal that was ignored before (nohup, a job in the background) stays ignored.
    """
    global _watch
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before, _watch = _watch, Watch()
    numbers = [getattr(signal, name) for name in NAMES if hasattr(signal, name)]
    listened = [number for number in numbers if signal.getsignal(number) is not signal.SIG_IGN]
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    woken = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    listener = threading.Thread(target=_enforce, args=(_watch, reading, listened), daemon=True)
    try:
        listener.start()
        for number in listened:
            signal.signal(number, handle)
        yield
    finally:
        for number in listened:
            signal.signal(number, signal.SIG_DFL)
        signal.set_wakeup_fd(woken)
        _watch.over.set()
        _watch = before
        os.close(writing)
        if listener.ident is not None:
            listener.join(SETTLE)  # no thread of ours is about while Python leaves


def handle(number: int, frame: FrameType | None) -> None:
    """Take a signal: raise `Stopped`, or at the end of what has to be finished first."""
    now = time.monotonic()
    if _watch.gently and number == signal.SIGINT and _watch.signal is None:
        if not _watch.asked:
            _watch.asked, _watch.since = True, now
            with suppress(OSError):
                os.write(2, ASKED)
            return
        if now - _watch.since < SETTLE:
            return
    if _watch.signal is None:
        _watch.signal, _watch.since = number, now
    elif now - _watch.since < SETTLE:
        return
    if _watch.finishing:
        _watch.put_off = True
        return
    raise Stopped(number)


@contextmanager
def finishing() -> Iterator[None]:
    """A block that no signal cuts short; one that comes meanwhile is raised at the end of it."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    _watch.finishing += 1
    try:
        yield
    finally:
        _watch.finishing -= 1
        if _watch.put_off and not _watch.finishing:
            _watch.put_off = False
            raise Stopped(_watch.signal)


@contextmanager
def coming_to_an_end() -> Iterator[None]:
    """A block in which the first Ctrl-C asks for an early end, and the second one stops it."""
    watch = _watch
    watch.gently += 1
    try:
        yield
    finally:
        watch.gently -= 1


def asked() -> bool:
    """Whether Ctrl-C has asked for an early end."""
    return _watch.asked


def finish() -> None:
    """From here on signals are only noted: all that is left is to leave."""
    _watch.finishing += 1


def when_stopped(key: int, action: Callable[[], None] | None) -> None:
    """Do this, in a thread of its own, when a signal comes and every second from then on; None takes it back.

    For what the main thread waits for and would go on waiting for, such as a job elsewhere.
    """
    _set_action(_watch.on_stop, key, action)


def at_the_end(key: int, action: Callable[[], None] | None) -> None:
    """Do this before the process ends, whatever happened; None takes it back."""
    _set_action(_watch.on_end, key, action)


def _set_action(actions: dict[int, Callable[[], None]], key: int, action: Callable[[], None] | None) -> None:
    if action is None:
        actions.pop(key, None)
    else:
        actions[key] = action


def end_all() -> None:
    """Do what was asked for at the end, each once."""
    _do_all(_watch.on_end)


def _do_all(actions: dict[int, Callable[[], None]]) -> None:
    while actions:
        _, action = actions.popitem()
        with suppress(Exception):
            action()


def _cancel_waits(watch: Watch) -> None:
    """Cancel what the main thread waits for, again and again: a job may be about to begin."""
    while watch.on_stop and not watch.over.is_set():
        for action in list(watch.on_stop.values()):
            with suppress(Exception):
                action()
        watch.over.wait(SETTLE)


def _enforce(watch: Watch, reading: int, listened: list[int]) -> None:
    """Have a signal obeyed, from a thread that sleeps until one comes.

    The system may give a signal to any thread, and then a main thread that waits for an answer does not wake up:
    it is sent the signal again. What it waits for is let go. If all that does not help in time, we leave hard.
    """
    since = None
    while got := os.read(reading, 1):
        if got[0] not in listened:
            continue
        if not (watch.gently and got[0] == signal.SIGINT):
            break
        if since is not None and time.monotonic() - since >= SETTLE:
            break  # the second Ctrl-C
        since = since or time.monotonic()
    if not got:
        os.close(reading)
        return
    threading.Thread(target=_cancel_waits, args=(watch,), daemon=True).start()
    deadline = time.monotonic() + GRACE
    while watch.signal is None and time.monotonic() < deadline and not watch.over.wait(AGAIN):
        signal.pthread_kill(threading.main_thread().ident or 0, got[0])
    if watch.over.wait(max(0.0, deadline - time.monotonic())):
        os.close(reading)
        return
    _do_all(watch.on_end)
    with suppress(OSError, ValueError):
        cursor = b"\x1b[?25h" if os.isatty(2) else b""  # a progress bar may have hidden it
        os.write(2, cursor + b"stopped\n")
    os._exit(128 + got[0])


def hush() -> None:
    """Let what is still written to a closed terminal or pipe go nowhere, so that leaving is quiet too."""
    for stream in (sys.stdout, sys.stderr):
        if stream is None:
            continue
        try:
            stream.flush()
        except (OSError, ValueError):
            with suppress(OSError, ValueError):
                nowhere = os.open(os.devnull, os.O_WRONLY)
                os.dup2(nowhere, stream.fileno())
                os.close(nowhere)
