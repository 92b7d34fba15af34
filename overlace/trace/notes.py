"""What a trace keeps for the next ingest, in trace.json: of each log what was read of it, and how."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, TypedDict

import msgspec

Count = Annotated[int, msgspec.Meta(ge=0, lt=1 << 62)]
At = Annotated[int, msgspec.Meta(gt=-(1 << 62), lt=1 << 62)]
Digest = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{16}(-[0-9]+)?$")]
Character = Annotated[str, msgspec.Meta(pattern="^[\x00-\x7f]$")]
Unit = Annotated[str, msgspec.Meta(pattern="^(s|ms|us|ns)$")]
Types = Annotated[str, msgspec.Meta(pattern=r"^(text|number|flag)(\|(text|number|flag))*$")]


class ReadSettings(TypedDict, total=False):
    """How a log is read, as the next part of it is to be read."""

    map: Mapping[str, Sequence[str]]  # field -> the columns that were asked for
    group: Sequence[str]  # rows that agree in these fields are one message
    delimiter: Character | None
    header: bool | None
    list_separator: str | None
    where: Sequence[str]  # filters of rows
    deliveries_where: Sequence[str]
    unit: Unit | None  # of times that are numbers
    mapping: Mapping[str, Sequence[str]]  # field -> its columns, first choice first
    unused: Sequence[str]  # columns
    content: Sequence[str]  # columns whose values are content, each with its type if that was asked for
    types: Mapping[str, Types]  # attribute -> the type of its values in the first lines
    zoneless: bool  # some times have no zone
    columns: Sequence[str]
    comments: bool  # lines of # are no rows
    head: str | None  # the line that names the columns


OF_THE_LOG = ("columns", "head", "types", "unused")
"""What of it is text of the log: nothing of it is kept where names are hidden."""


class LineCounts(TypedDict):
    """What became of the lines of a log."""

    lines: Count
    kept: Count
    duplicates: Count
    ignored: dict[str, Count]
    quarantined: dict[str, tuple[Count, str]]  # by reason: how many, and a sample


class Read(TypedDict):
    """What was read of a log."""

    name: str
    format: str
    settled: ReadSettings
    broker: str
    log: str  # which log it is a part of
    start: tuple[Annotated[int, msgspec.Meta(ge=0, le=4096)], str]  # how many first bytes, and their hash
    marks: dict[str, str]  # hashes of its first 256, 512, ... bytes
    end: Count  # how far it was read
    tail: str  # the hash of the last bytes that were read
    disk: tuple[Count, str]  # its bytes on disk, and the hash of the last of them
    open: bool  # its last line had no end, but could be read
    bridges: list[str]
    account: LineCounts
    pending: tuple[Count, Count]  # lines of messages that nobody published yet, or that are not whole


class Note(Read, total=False):
    """The same with its first and last time, if it has any."""

    first: At
    last: At


class BridgeLine(TypedDict):
    """A connection of a mosquitto.conf."""

    broker: str
    connection: str
    remote: str
    addresses: list[str]
    remote_clientid: str | None
    local_clientid: str | None
    topics: list[tuple[str, str, int, str, str]]


class How(TypedDict):
    """Options that hold for all logs of a trace."""

    identity: str | None
    keep_topics: bool
    pseudonymise: bool
    reduce_only: bool


class Notes(TypedDict, total=False):
    """What ingest has noted; others note other things."""

    sources: dict[Digest, Note]
    period: Literal["day", "year"]
    how: How
    check: str | None  # by which the key is recognised that names are hidden with
    bridges: list[BridgeLine]
    predicates: list[str]


def check_notes(notes: Mapping[str, Any]) -> None:
    """Refuse what was altered (msgspec.ValidationError)."""
    found = msgspec.convert(notes, Notes)
    sources = found.get("sources", {}).values()
    if sources and not {"how", "period"} <= found.keys():
        raise msgspec.ValidationError("`notes` has sources, and not how they were read")
    if any(("first" in each) != ("last" in each) for each in sources):
        raise msgspec.ValidationError("`notes` has a source with one time")
