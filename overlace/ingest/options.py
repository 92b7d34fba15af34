"""How to read a log: every option once, with its help; what a format cannot honour is refused."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from dataclasses import replace as with_values
from typing import TYPE_CHECKING, Any, ClassVar, cast

from overlace.errors import BadParameter
from overlace.ingest.formats import NAMES
from overlace.limits import as_flag, check_options, option

if TYPE_CHECKING:  # whoever only lists options loads no columns
    from overlace.ingest.events import Format, Settled
    from overlace.trace.store import Trace

KEPT = ("identity", "keep_topics", "pseudonymise", "reduce_only")
"""Options that hold for all logs of a trace."""

KEY_VARIABLE, KEY_BYTES = "OVERLACE_KEY", 16
"""Where the key for pseudonyms is, and its least length: a shorter one can be found out by trying."""

COST_UNITS = ("message", "gb", "ms")
"""What the cost of a link may be per."""

BUCKETS = {"hour": 3_600_000_000, "minute": 60_000_000}
"""Widths of buckets in microseconds."""


def read_mapping(words: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """FIELD=COLUMN words as a mapping; several may be joined by commas, a field may have several columns.

    A column is called as the file has it: with commas and blanks, if need be.
    """
    found: dict[str, tuple[str, ...]] = {}
    for word in (part for each in words for part in re.split(r",(?=\s*\w+=)", each)):
        name, mark, column = word.partition("=")
        if not mark or not name or not column:
            raise BadParameter(f"--map {word!r}: expected FIELD=COLUMN, such as client=src")
        found[name.strip()] = (*found.get(name.strip(), ()), column)
    return found


def read_fields(words: Sequence[str]) -> tuple[str, ...]:
    """Fields joined by commas."""
    return tuple(name for each in words for name in each.split(","))


def read_filters(words: Sequence[str]) -> tuple[str, ...]:
    """COLUMN=VALUE and COLUMN!=VALUE words; several may be joined by commas."""
    return tuple(part for each in words for part in re.split(r",(?=[\w.-]+!?=)", each))


def read_share(text: str) -> float:
    """A share such as 1% or 0.01."""
    try:
        value = float(text.rstrip("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        raise BadParameter(f"--max-bad {text!r}: expected a share such as 1% or 0.01") from None
    if not 0 <= value <= 1:
        raise BadParameter(f"--max-bad {text!r}: expected a share from 0 to 100%")
    return value


@dataclass(frozen=True)
class Options:
    """How to read a log."""

    PANEL: ClassVar[str] = "Logs"

    format: str | None = option(None, f"{', '.join(NAMES)} (default: detected)")
    map: Mapping[str, str | Sequence[str]] = option(
        {},
        "FIELD=COLUMN, several times: client=src receiver=dst at=time key=id ...; in objects client=properties.user",
        metavar="FIELD=COLUMN",
        read=read_mapping,
    )
    group: tuple[str, ...] = option(
        (),
        "rows that agree in these fields are one message: sender,at (default in tables: sender, time, topic and bytes)",
        metavar="FIELDS",
        read=read_fields,
    )
    content: tuple[str, ...] = option(
        (),
        "columns whose values are a message's content, matched by content filters: close,volume,code:text",
        metavar="COLUMNS",
        read=read_fields,
    )
    attributes: int | None = option(
        None,
        "make at most so many attributes of content, from what content subscriptions share: for channels",
        least=1,
        most=63,
    )
    where: tuple[str, ...] = option(
        (),
        "read only rows of this kind, several times: eventType=Publish-In, level!=DEBUG (values of one column: any); "
        "peek asks where a column says which rows are messages",
        metavar="COLUMN=VALUE",
        read=read_filters,
    )
    deliveries_where: tuple[str, ...] = option(
        (),
        "rows of this kind are deliveries of messages with their key, to client or receiver: eventType=Publish-Out",
        metavar="COLUMN=VALUE",
        read=read_filters,
    )
    delimiter: str | None = option(None, "column delimiter (default: detected)")
    header: bool | None = option(None, "the first line names the columns (default: detected)")
    list_separator: str | None = option(None, "what separates names inside a cell; none: a cell is one name")
    unit: str | None = option(
        None, "of times that are numbers: s, ms, us, ns (default: by their size)", flag="--time-unit"
    )
    broker: str | None = option(
        None, "the broker that wrote the log (Mosquitto; default: the file's name), or that senders are at"
    )
    bridges: tuple[str, ...] = option((), "bridges, found by a first look at the logs", hidden=True)
    whole_lines: bool = option(False, "a last line without an end waits for it, whatever it says", hidden=True)
    identity: str | None = option(
        None, "who is one client: client, broker/client, user or a pattern (default: by format)"
    )
    keep_topics: bool = option(False, "do not fold _INBOX.>, $JS.>, $SYS/# and UUID levels")
    pseudonymise: bool = option(False, "hash all names with the key in OVERLACE_KEY")
    reduce_only: bool = option(False, "keep traffic and audiences, no messages: smaller, windows are whole buckets")
    bucket: str | None = option(None, "width of a bucket: hour or minute (default: by the span of the log)")
    strict: bool = option(False, "fail on the first line that cannot be read")
    max_bad: float = option(
        1.0,
        "fail above this share of bad lines (default: 10%)",
        metavar="SHARE",
        read=read_share,
        typed="10%",
        least=0,
        most=1,
    )
    skip: tuple[str, ...] = option((), "leave files of this pattern in folders out: '*.md'", metavar="PATTERN")
    replace: bool = option(False, "take a log that was cut or written anew in place of what was ingested of it")
    break_lock: bool = option(False, "take the trace's lock from a writer that is gone")

    def __post_init__(self) -> None:
        from overlace.ingest.fields import UNITS
        from overlace.ingest.where import filters_of

        check_options(self)
        filters_of(self.where)
        filters_of(self.deliveries_where, "--deliveries-where")
        for each in fields(self):
            if getattr(self, each.name) == "":
                raise BadParameter(f"{flag_of(each.name)}: expected a text, found nothing")
        if self.unit is not None and self.unit not in UNITS:
            raise BadParameter(f"--time-unit {self.unit!r}: expected one of {', '.join(UNITS)}")
        if self.identity not in (None, "client", "broker/client", "user"):
            check_pattern(self.identity)
        if self.bucket is not None and self.bucket not in BUCKETS:
            raise BadParameter(f"--bucket {self.bucket!r}: expected hour or minute")

    def for_format(self, form: Format) -> Settled:
        """What a format's reader gets; refused if it was asked for something that the format does not honour."""
        from overlace.ingest.fields import asked_columns, field_called

        plain = "content where deliveries_where delimiter header list_separator unit broker".split()
        given: dict[str, Any] = {
            "map": asked_columns(self.map),
            "group": tuple(field_called(name) for name in self.group),
            **{name: getattr(self, name) for name in plain},
            "bridges": list(self.bridges),
        }
        asked = {name for name, value in given.items() if value not in (None, {}, (), [])}
        wrong = sorted(asked - form.options)
        if wrong:
            raise BadParameter(
                f"{flag_of(wrong[0])} means nothing for the format {form.name}. Leave it out, or name another --format."
            )
        if self.identity == "user" and form.name != "mosquitto":
            raise BadParameter("only Mosquitto's log tells users apart; else map their column: --map client=COLUMN")
        return cast("Settled", given)

    def key(self) -> bytes:
        """The key for pseudonyms, from the environment; it enters no file."""
        if not self.pseudonymise:
            return b""
        key = os.environ.get(KEY_VARIABLE, "").encode("utf-8", "surrogateescape")
        if len(key) < KEY_BYTES:
            raise BadParameter(
                f"--pseudonymise needs a key of {KEY_BYTES} bytes or more in {KEY_VARIABLE}, found {len(key)}: set it "
                "to a long random text (openssl rand -hex 32), and keep that"
            )
        return key


@dataclass(frozen=True)
class TableOptions:
    """Files that are no logs: a table, or a topology."""

    PANEL: ClassVar[str] = "Tables and topologies"

    table: str | None = option(
        None, "the files are this table: brokers links clients sessions subscriptions interests ..."
    )
    topology: bool = option(False, "the files are GraphML, Repetita, mosquitto.conf or NATS configurations")
    wired: str | None = option(
        None,
        "with --topology, the wired links: a minimum spanning tree, all, or a table of them (left, right)",
        metavar="mst|all|FILE",
    )
    cost_unit: str | None = option(
        None,
        "what the cost of a link is per: message, gb (price of a gigabyte) or ms (default: ms where each is the link's "
        "latency, else message)",
        metavar="message|gb|ms",
    )
    both_ways: bool = option(False, "with --table interests: a pair holds in both directions")

    def __post_init__(self) -> None:
        if self.wired and (self.table or not self.topology):
            raise BadParameter("--wired goes with --topology")
        if self.cost_unit is not None and self.cost_unit not in COST_UNITS:
            raise BadParameter(f"--cost-unit {self.cost_unit!r}: expected one of {', '.join(COST_UNITS)}")
        if self.cost_unit and self.table != "links" and not self.topology:
            raise BadParameter("--cost-unit goes with --table links or --topology")
        if self.table and self.topology:
            raise BadParameter("--table and --topology: files are one or the other")
        if self.both_ways and self.table != "interests":
            raise BadParameter("--both-ways goes with --table interests")


def check_pattern(pattern: str | None) -> None:
    """Refuse a pattern of --identity that cannot be used, before anything is read."""
    import pyarrow as pa

    from overlace.ingest.columns import extract_client

    try:
        extract_client(pa.array([""]), pattern or "")
    except pa.ArrowInvalid as error:
        raise BadParameter(
            f"--identity {pattern!r}: {error}. Expected client, broker/client, user, or a pattern in which the part "
            "that is the client is (?P<client>...) and other groups are (?:...)"
        ) from None


def flag_of(name: str) -> str:
    """An option of a log as it is typed."""
    return next(str(each.metadata.get("flag", as_flag(name))) for each in fields(Options) if each.name == name)


def keep_settings(options: Options, base: Trace | None) -> Options:
    """The options with those that hold for all logs of the trace as they were; refused if they were others."""
    if base and base.notes.get("check") and not options.pseudonymise:
        raise BadParameter(f"the names in the trace at {base.path} are hidden: give --pseudonymise with the same key")
    if base and options.pseudonymise and not base.notes.get("check") and base.rows("names"):
        raise BadParameter(f"--pseudonymise: the trace at {base.path} was made without. Ingest into a new trace.")
    how = base.notes.get("how") if base else None
    if not how or not base:
        return options
    if options.reduce_only and not how["reduce_only"]:
        raise BadParameter(f"--reduce-only: the trace at {base.path} was made without. Ingest into a new trace.")
    identity = options.identity or how["identity"]
    if identity != (how["identity"] or identity):
        raise BadParameter(
            f"--identity {identity}: the trace at {base.path} has {how['identity']}, and that cannot change"
        )
    return with_values(
        options,
        identity=identity,
        keep_topics=options.keep_topics or how["keep_topics"],
        reduce_only=how["reduce_only"],
    )
