"""Ctrl-C, SIGTERM and a closed terminal end a command in one line, from its first moment on."""

import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from overlace import stopping
from overlace.stopping import (
    SETTLE,
    Stopped,
    asked,
    at_the_end,
    coming_to_an_end,
    end_all,
    finishing,
    listening,
    received,
    when_stopped,
)
from tests.processes import LONGEST, command, handles, until

SIGNALS = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]


@pytest.fixture(autouse=True)
def default_signals():
    """Signals that are not ignored, as they are where a shell started the tests in the background."""
    for number in SIGNALS:
        signal.signal(number, signal.SIG_DFL)


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_at_the_first_moment_is_one_line(number):
    out = "not tried"
    for _ in range(5):  # on a busy machine the list may be there before the signal is
        process = command("planners")
        until(lambda process=process: handles(process.pid, signal.SIGTERM) or process.poll() is not None)
        process.send_signal(number)
        out, said = process.communicate(timeout=LONGEST)
        if not out:
            break
    assert (process.returncode, out, said) == (128 + number, "", "stopped\n")


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_raises_stopped(number):
    with listening():
        with pytest.raises(Stopped):
            os.kill(os.getpid(), number)
        assert received() == number
    assert received() is None


def test_what_is_being_finished_is_finished_first():
    done = []
    with listening(), pytest.raises(Stopped):
        with finishing():
            os.kill(os.getpid(), signal.SIGTERM)
            with finishing():
                done.append("inner")
            done.append("outer")
        done.append("never")
    assert done == ["inner", "outer"]


def test_signals_that_come_together_are_one():
    with listening():
        with pytest.raises(Stopped):
            os.kill(os.getpid(), signal.SIGHUP)
        os.kill(os.getpid(), signal.SIGTERM)
        assert received() == signal.SIGHUP


def test_an_ignored_signal_stays_ignored():
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with listening():
        os.kill(os.getpid(), signal.SIGHUP)
        assert received() is None


def test_what_was_asked_for_at_the_end_is_done_once_whatever_it_does():
    done = []
    with listening():
        at_the_end(1, lambda: done.append(1))
        at_the_end(2, lambda: done.append(1 / 0))
        at_the_end(3, lambda: done.append(3))
        at_the_end(3, None)
        end_all()
        end_all()
    assert done == [1]


def test_what_is_waited_for_is_let_go():
    rows = threading.Event()
    with listening():
        when_stopped(1, rows.set)
        with pytest.raises(Stopped):
            os.kill(os.getpid(), signal.SIGTERM)
        assert rows.wait(LONGEST)


def test_a_signal_that_another_thread_gets_wakes_the_main_thread():
    """Who waits for an answer is not woken by a signal that the system gave to somebody else."""
    reading, writing = os.pipe()

    def take():
        signal.pthread_kill(threading.get_ident(), signal.SIGTERM)

    with listening(), pytest.raises(Stopped):
        threading.Timer(0.1, take).start()
        os.read(reading, 1)
    os.close(reading)
    os.close(writing)


STUCK = """
import os, signal, threading
from overlace import stopping
stopping.GRACE = 0.1
with stopping.listening():
    stopping.at_the_end(1, lambda: print("ended", flush=True))
    with stopping.finishing():
        os.kill(os.getpid(), signal.SIGTERM)
        threading.Event().wait()
"""


def test_a_way_out_that_is_not_found_is_made():
    done = subprocess.run([sys.executable, "-c", STUCK], capture_output=True, text=True, timeout=LONGEST, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (143, "ended\n", "stopped\n")


def test_a_reader_that_leaves_ends_it_quietly():
    for words in (("planners",), ("planners", "--json")):
        reading, writing = os.pipe()
        os.close(reading)
        process = command(*words, stdout=writing)
        os.close(writing)
        assert process.communicate(timeout=LONGEST)[1] == ""
        assert process.returncode != 0


def test_the_first_ctrl_c_asks_and_the_second_stops():
    with listening(), coming_to_an_end():
        assert not asked()
        os.kill(os.getpid(), signal.SIGINT)
        assert asked()
        assert received() is None
        os.kill(os.getpid(), signal.SIGINT)  # at once: the same request
        assert received() is None
        until(lambda: time.monotonic() - stopping._watch.since > SETTLE)
        with pytest.raises(Stopped):
            os.kill(os.getpid(), signal.SIGINT)
        assert received() == signal.SIGINT
    assert not asked()


def test_other_signals_stop_at_once_and_so_does_ctrl_c_elsewhere():
    with listening(), coming_to_an_end(), pytest.raises(Stopped):
        os.kill(os.getpid(), signal.SIGTERM)
    with listening():
        with coming_to_an_end():
            pass
        with pytest.raises(Stopped):
            os.kill(os.getpid(), signal.SIGINT)


def test_a_second_ctrl_c_ends_even_what_does_not_listen():
    """As a kernel that runs for long: Python's own handlers do not come to their turn."""
    code = (
        "import time, threading, overlace.stopping as s\n"
        "s.GRACE = 0.5\n"
        "with s.listening(), s.coming_to_an_end():\n"
        "    print('ready', flush=True)\n"
        "    while True:\n"
        "        try:\n"
        "            time.sleep(60)\n"
        "        except s.Stopped:\n"
        "            print('stopped', flush=True)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGINT)
    began = time.monotonic()
    until(lambda: time.monotonic() - began > 1.5)
    assert process.poll() is None
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=LONGEST) == 130
    process.communicate()
