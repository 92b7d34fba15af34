"""The command line: one command per verb.

Results go to standard output, as text or with --json as JSON; progress and prose go to standard
error. Exit codes: 0 done, 1 bad input or a failure, 2 wrong usage, 3 nothing better; 130, 143 and 129
when Ctrl-C, SIGTERM or a closed terminal stopped it.

This module loads nothing that takes time, so that a signal finds somebody listening from the start.
"""

from __future__ import annotations

import sys
from contextlib import suppress

from overlace.stopping import end_all, exit_code, finish, hush, listening, received

STOPPED = 130


def main() -> None:
    """The entry point: every failure is one clear line and an exit code, or with --debug the whole trace."""
    try:
        code = listened(sys.argv[1:])
    except KeyboardInterrupt as stopped:  # in the moments before and after
        code = 128 + int(stopped.args[0]) if stopped.args else STOPPED
        say_stopped()
    sys.exit(code)


def listened(words: list[str]) -> int:
    """Run a command with an ear for signals; its exit code."""
    code = 1
    with listening():
        try:
            try:
                code = started(words)
            finally:
                finish()
        except KeyboardInterrupt:
            finish()
            code = STOPPED
        end_all()
        if received() is not None or code == STOPPED:
            code = exit_code()
            say_stopped()
        hush()
    return code


def started(words: list[str]) -> int:
    """Load the commands and run one; whatever comes of a signal counts as stopped."""
    try:
        from overlace.cli.commands import run

        return run(words)
    except BaseException as error:
        if received() is not None:
            return STOPPED  # import errors, lost gateways: a signal in the middle of things has many names
        if isinstance(error, SystemExit):
            return error.code if isinstance(error.code, int) else 0 if error.code is None else 1
        raise


def say_stopped() -> None:
    """One line, to a terminal that may be gone."""
    if sys.stderr is not None:
        with suppress(OSError, ValueError):
            print("stopped", file=sys.stderr, flush=True)
