"""What can go wrong, each with the exit code that the command line gives it.

An error says what was found, what was expected, and what to do.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Iterable
from difflib import get_close_matches


class OverlaceError(Exception):
    """Anything that Overlace can explain to its user in one line."""

    exit_code = 1


class BadOverlay(OverlaceError):
    """A relation that is not what its facet says: a tree with a cycle, a client with two homes."""


class BadObservation(OverlaceError):
    """Columns of unequal length, ids out of range, a network that cannot be joined."""


class BadPlan(OverlaceError):
    """A plan that does not fit the overlay it is applied to, or a plan file that was altered."""


class BadTrace(OverlaceError):
    """A trace or a run folder that is not whole, or of a schema that this version does not know."""


class Busy(BadTrace):
    """A trace or a log that another writer holds, or has changed meanwhile."""


class Absent(BadTrace):
    """Logs that are not there, or of which there is none yet."""


class Unfinished(BadTrace):
    """A log of which not even the first line is there yet."""


class BadNetwork(OverlaceError):
    """A network file that cannot be read, a server that is too old, a broker that does not answer."""


class BadFilter(OverlaceError):
    """A filter on content that cannot be read, or that does not fit the types of its attributes."""

    exit_code = 2


class NotObserved(OverlaceError):
    """A planner lacks data; the message names the table that would bring it."""


class NothingBetter(OverlaceError):
    """No change is recommended: no plan is worth it, or the limits cannot be met; with the best found."""

    exit_code = 3


class Unknown(OverlaceError):
    """A name that nobody has: planner, field, key, client. Lists the nearest that exist."""

    exit_code = 2

    def __init__(self, kind: str, name: str, known: Iterable[str]) -> None:
        names = list(known)
        near = get_close_matches(name, names, n=3, cutoff=0.4)
        hint = f"Nearest: {', '.join(near)}." if near else f"There are: {', '.join(names[:12]) or 'none'}."
        super().__init__(f"no {kind} is called {name!r}. {hint}")

    def __reduce__(self) -> tuple[object, ...]:
        return (_unknown, self.args)


def _unknown(message: str) -> Unknown:
    """An Unknown again from its message, after pickling."""
    made = Unknown.__new__(Unknown)
    Exception.__init__(made, message)
    return made


class BadParameter(OverlaceError):
    """A planner's field or a command's option with a value outside its range."""

    exit_code = 2


ADVICE = {
    errno.ENOSPC: "no space left on the disk{of}. Free some, or write elsewhere (temporary files: TMPDIR).",
    errno.EDQUOT: "the disk quota is used up{of}. Free some space, or write elsewhere (temporary files: TMPDIR).",
    errno.EACCES: "permission denied{colon}. Change its owner or mode, or choose another path.",
    errno.EPERM: "permission denied{colon}. Change its owner or mode, or choose another path.",
    errno.EROFS: "the file system is read-only{colon}. Write elsewhere.",
    errno.EMFILE: "too many open files. Raise the limit (ulimit -n), or give fewer files at a time.",
    errno.ENFILE: "too many open files on this machine. Close some programs, or give fewer files at a time.",
    errno.ENOENT: "no such file or folder{colon}. Check the path.",
    errno.EISDIR: "found a folder where a file was expected{colon}. Check the path.",
    errno.ENOTDIR: "found a file where a folder was expected{colon}. Check the path.",
    errno.EEXIST: "there is something already{colon}. Remove it, or choose another path.",
    errno.ENAMETOOLONG: "the file name is too long{colon}. Choose a shorter one.",
    errno.EIO: "the disk or terminal failed to read or write{colon}. Try again, or choose another disk.",
    errno.ENOMEM: "out of memory. Close other programs, or give less at a time.",
}
"""What an error of the operating system means, and what to do."""


def explain_os(number: int | None, path: object = None) -> str | None:
    """An error of the operating system in a line, if it is one that the user can do something about."""
    if number not in ADVICE:
        return None
    name = f" {path}" if path else ""
    return ADVICE[number].format(of=f" of{name}" if name else "", colon=f":{name}" if name else "")


def read_os(text: str) -> str | None:
    """The same from the text of an error that went through Arrow or came from another process."""
    found = re.search(r"\[errno (\d+)\]", text, re.IGNORECASE)
    if not found:
        return read_store(text)
    path = re.search(r"'([^'\n]+)'", text[found.end() :]) or re.search(r"'([^'\n]+)'", text[: found.start()])
    return explain_os(int(found[1]), path[1] if path else None)


STORES = (
    (
        r"AWS Error (?:ACCESS_DENIED|INVALID_ACCESS_KEY|INVALID_CLIENT_TOKEN|SIGNATURE|EXPIRED_TOKEN"
        r"|UNRECOGNIZED_CLIENT|MISSING_AUTH)|HTTP status 40[13]"
        r"|40[13] (?:Forbidden|Unauthorized)|Code>(?:AccessDenied|InvalidAccessKeyId"
        r"|SignatureDoesNotMatch)<|AccessDeniedException",
        "permission denied{of}. Check AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, and what they permit there.",
    ),
    (
        r"NO_SUCH_BUCKET|NoSuchBucket|[Bb]ucket '[^']+' not found|UnknownStoreException",
        "no such bucket{of}. Check the address; buckets are not made.",
    ),
    (
        r"AWS Error (?:NETWORK_CONNECTION|REQUEST_TIMEOUT)|error sending request|HTTP error: .*connect",
        "the object store does not answer{of}{why}. Check endpoint_override in the address, and the network.",
    ),
)
"""What an error of an object store means, by its words, and what to do."""


def read_store(text: str) -> str | None:
    """An error of an object store in a line, if it is one that the user can do something about."""
    advice = next((advice for pattern, advice in STORES if re.search(pattern, text)), None)
    if advice is None:
        return None
    bucket = re.search(r"[Bb]ucket '([^'\n]+)'|<BucketName>([^<]+)<", text)
    why = re.search(r"Details: ([^\n]+)", text)
    return advice.format(
        of=f": bucket {bucket[1] or bucket[2]}" if bucket else "", why=f" ({why[1].strip()})" if why else ""
    )
