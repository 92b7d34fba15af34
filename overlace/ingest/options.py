"""How to read a log: every option once, with its help; what a format cannot honour is refused."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from overlace.errors import BadParameter
from overlace.ingest.events import Format, Settled
from overlace.ingest.fields import UNITS, asked_columns, field_called
from overlace.trace.store import HOUR_US, MINUTE_US, Trace

KEPT = ("identity", "keep_topics", "pseudonymise", "reduce_only")
"""Options that hold for all logs of a trace."""

KEY_VARIABLE = "OVERLACE_KEY"
BUCKETS = {"hour": HOUR_US, "minute": MINUTE_US}


@dataclass(frozen=True)
class Options:
    """How to read a log."""

    format: str | None = None
    map: Mapping[str, str | Sequence[str]] = field(default_factory=dict)
    group: tuple[str, ...] = ()
    delimiter: str | None = None
    header: bool | None = None
    list_separator: str | None = None
    unit: str | None = None  # of times that are numbers: s, ms, us, ns
    broker: str | None = None
    bridges: tuple[str, ...] = ()
    identity: str | None = None  # client, broker/client, user, or a pattern; default: what the format needs
    keep_topics: bool = False
    pseudonymise: bool = False
    reduce_only: bool = False  # keep traffic and audiences, no messages
    bucket: str | None = None  # hour or minute; default: by the span of the log
    strict: bool = False
    max_bad: float = 1.0  # the share of bad lines above which nothing is ingested
    skip: tuple[str, ...] = ()  # patterns of file names in folders
    break_lock: bool = False  # take the lock from a writer that is gone

    def __post_init__(self) -> None:
        if self.unit is not None and self.unit not in UNITS:
            raise BadParameter(f"--time-unit {self.unit!r}: expected one of {', '.join(UNITS)}")
        if self.bucket is not None and self.bucket not in BUCKETS:
            raise BadParameter(f"--bucket {self.bucket!r}: expected hour or minute")

    def for_format(self, form: Format) -> Settled:
        """What a format's reader gets; refused if it was asked for something that the format does not honour."""
        given: Settled = {
            "map": asked_columns(self.map),
            "group": tuple(field_called(name) for name in self.group),
            "delimiter": self.delimiter,
            "header": self.header,
            "list_separator": self.list_separator,
            "unit": self.unit,
            "broker": self.broker,
            "bridges": list(self.bridges),
        }
        asked = {name for name, value in given.items() if value is not None and value not in ({}, (), [])}
        wrong = sorted(asked - set(form.options))
        if wrong:
            flag = FLAGS.get(wrong[0], "--" + wrong[0].replace("_", "-"))
            raise BadParameter(
                f"{flag} means nothing for the format {form.name}. Leave it out, or name another --format."
            )
        if self.identity == "user" and form.name != "mosquitto":
            raise BadParameter("only Mosquitto's log tells users apart; else map their column: --map client=COLUMN")
        return given

    def key(self) -> bytes:
        """The key for pseudonyms, from the environment; it enters no file."""
        if not self.pseudonymise:
            return b""
        key = os.environ.get(KEY_VARIABLE, "")
        if not key:
            raise BadParameter(f"pseudonyms need a key in the environment: set {KEY_VARIABLE}, and keep it")
        return key.encode()


FLAGS = {"unit": "--time-unit"}
"""Options whose flag is called otherwise."""


def keep_settings(options: Options, base: Trace | None) -> Options:
    """The options with those that hold for all logs of the trace as they were; refused if they were others."""
    how = base.notes.get("how") if base else None
    if not how or not base:
        return options
    for name in ("pseudonymise", "reduce_only"):
        if getattr(options, name) and not how[name]:
            flag = name.replace("_", "-")
            raise BadParameter(f"--{flag}: the trace at {base.path} was made without. Ingest into a new trace.")
    if how["pseudonymise"] and not options.pseudonymise:
        raise BadParameter(f"the names in the trace at {base.path} are hidden: give --pseudonymise with the same key")
    identity = options.identity or how["identity"]
    if identity != (how["identity"] or identity):
        raise BadParameter(
            f"--identity {identity}: the trace at {base.path} has {how['identity']}, and that cannot change"
        )
    return replace(
        options,
        identity=identity,
        keep_topics=options.keep_topics or how["keep_topics"],
        reduce_only=how["reduce_only"],
    )
