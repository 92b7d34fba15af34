"""What became of a command that failed, in one line."""

from __future__ import annotations

from overlace.errors import OverlaceError, explain_os, read_os


def explain(error: Exception) -> str:
    """What went wrong and what to do; of what nobody foresaw, its name and how to see where."""
    if isinstance(error, OverlaceError):
        return words_of(error)
    if hasattr(error, "format_message"):  # wrong usage, found by the parser of options
        text = str(error.format_message())
        context = getattr(error, "ctx", None)
        return f"{text} ({context.command_path} --help)" if text and context else text
    if isinstance(error, OSError):
        known = explain_os(error.errno, error.filename) if error.filename else None
        known = known or read_os(words_of(error)) or explain_os(error.errno)
        if known:
            return known
    if isinstance(error, MemoryError):
        return "out of memory. Close other programs, or give less at a time."
    return f"{type(error).__name__}: {words_of(error)} (overlace --debug ... shows where)"


def words_of(error: Exception) -> str:
    """The words of an error, also of one that fails to find them: those of a JVM that is gone."""
    try:
        return str(error)
    except Exception as second:
        return f"it cannot be read any more ({type(second).__name__})"


def exit_code_of(error: Exception) -> int:
    """The exit code that an error brings along, else 1."""
    code = getattr(error, "exit_code", 1)
    return code if isinstance(code, int) else 1
