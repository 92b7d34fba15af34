"""The command line: one command per verb.

Results go to standard output, as text or with --json as JSON; progress and prose go to standard
error. Exit codes: 0 done, 1 bad input or a failure, 2 wrong usage, 3 nothing better; 130, 143 and 129
when Ctrl-C, SIGTERM or a closed terminal stopped it.

This module loads nothing that takes time, so that a signal finds somebody listening from the start.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import suppress

from overlace.stopping import end_all, exit_code, finish, hush, listening, received

Command = Callable[[list[str]], int]
"""What takes the words after the program's name and returns an exit code."""

STOPPED = 130


def main(command: Command | None = None) -> None:
    """The entry point, of these commands or of another: every failure is one clear line and an exit code."""
    try:
        code = run_listening(sys.argv[1:], command)
    except KeyboardInterrupt as stopped:  # in the moments before and after
        code = 128 + int(stopped.args[0]) if stopped.args else STOPPED
        say_stopped()
    sys.exit(code)


def run_listening(words: list[str], command: Command | None = None) -> int:
    """Run a command with an ear for signals; its exit code."""
    code = 1
    with listening():
        try:
            try:
                code = load_and_run(words, command)
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


def load_and_run(words: list[str], command: Command | None) -> int:
    """Load the commands and run one; whatever comes of a signal counts as stopped."""
    try:
        if command is not None:
            return command(words)
        if words[:1] == ["peek"]:  # which takes less time than to load all other commands
            if "pyarrow" not in sys.modules:
                sys.meta_path.insert(0, WithoutPandas())
            from overlace.cli.peek import run_peek

            return run_peek(words)
        from overlace.cli.commands import run

        return run(words)
    except BaseException as error:
        if received() is not None:
            return STOPPED  # import errors, lost gateways: a signal in the middle of things has many names
        if isinstance(error, SystemExit):
            return error.code if isinstance(error.code, int) else 0 if error.code is None else 1
        raise


class WithoutPandas:
    """Hides pandas, which Arrow looks for at its first array: loading it takes longer than all that peek does."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        """Nothing, or an error for pandas."""
        if name == "pandas":
            raise ModuleNotFoundError(name)


def say_stopped() -> None:
    """One line, to a terminal that may be gone."""
    if sys.stderr is not None:
        with suppress(OSError, ValueError):
            print("stopped", file=sys.stderr, flush=True)
