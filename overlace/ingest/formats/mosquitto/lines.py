"""Lines of a log as columns: what each is, its numbers, and its names as codes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from overlace.arrays.jit import Bools, Ints
from overlace.ingest.formats.mosquitto import kinds
from overlace.ingest.lines import BLANK, SAMPLE, text_lines
from overlace.ingest.lines import REASONS as UNREADABLE
from overlace.ingest.values import NONE, mask_of, times_in

Numbers = NDArray[Any]  # of whatever width


def is_any(code: Numbers, *codes: int) -> Bools:
    """Where a code is one of several."""
    return np.isin(code, codes)


def last_marked(marked: Bools) -> Ints:
    """For each place the last marked one up to it, or -1."""
    return np.maximum.accumulate(np.where(marked, np.arange(len(marked)), -1))


_NUMBERS = {
    **dict.fromkeys("code dup qos retain present version clean step".split(), np.int8),
    **dict.fromkeys("mid size reason".split(), np.int32),
}
_NAMES = ("client", "topic", "user", "address", "sample")


def parse_lines(offset: int, block: bytes) -> pa.RecordBatch:
    """The lines of a block that begins at an offset: numbers, and names as dictionaries, null where there is none."""
    text, offsets, state = text_lines(offset, block)
    head = pc.extract_regex(text, kinds.TIMED)
    at = _times(pc.struct_field(head, "at"))
    rest = pc.fill_null(pc.if_else(pa.array(at != NONE), pc.struct_field(head, "rest"), ""), "")
    numbers: dict[str, Numbers] = {name: np.zeros(len(offsets), kind) for name, kind in _NUMBERS.items()}
    names: dict[str, list[tuple[Ints, pa.Array]]] = {name: [] for name in _NAMES}
    for shape in kinds.SHAPES:
        _find(shape, rest, numbers, names)
    code, reason = numbers["code"], numbers["reason"]
    code[mask_of(pc.ends_with(rest, " disconnected.")) & (code == kinds.GONE)] = kinds.LEFT
    code[at == NONE], reason[at == NONE] = kinds.BAD, kinds.REASON[kinds.NO_TIME]
    blank = state == BLANK
    code[blank], reason[blank] = kinds.OTHER, kinds.REASON["blank"]
    for wrong, why in UNREADABLE.items():
        code[state == wrong], reason[state == wrong] = kinds.BAD, kinds.REASON[why]
    # A line that no shape knows may be the echo of a filter above it: only then its text is kept.
    echo = np.flatnonzero((reason == kinds.REASON["notice"]) & np.append(True, code[:-1] == kinds.TAB))
    names["topic"].append((echo, rest.take(pa.array(echo))))
    bad, broken = np.flatnonzero(is_any(code, kinds.BAD, kinds.TAB)), np.flatnonzero(is_any(state, *UNREADABLE))
    names["sample"].append((bad, pc.utf8_slice_codeunits(text.take(pa.array(bad)), 0, SAMPLE)))
    shown = [block[i : i + 4 * SAMPLE].partition(b"\n")[0] for i in (offsets[broken] - offset).tolist()]
    samples = [each.decode(errors="replace")[:SAMPLE] for each in shown]
    names["sample"].append((broken, pa.array(samples, pa.string())))
    columns = {"offset": pa.array(offsets), "at": pa.array(at)} | {name: pa.array(n) for name, n in numbers.items()}
    return pa.record_batch(columns | {name: _encode(found, len(offsets)) for name, found in names.items()})


def _find(
    shape: kinds.Shape, rest: pa.Array, numbers: dict[str, Numbers], names: dict[str, list[tuple[Ints, pa.Array]]]
) -> None:
    """Fill in what the lines of a shape are and hold, given the texts behind their times."""
    where = np.flatnonzero(mask_of(pc.starts_with(rest, shape.begins)))
    if shape.unless and len(where):
        where = where[~mask_of(pc.ends_with(rest.take(pa.array(where)), shape.unless))]
    if shape.fields and len(where):
        fields = pc.extract_regex(rest.take(pa.array(where)), "^" + re.escape(shape.begins) + shape.fields + "$")
        whole = mask_of(pc.is_valid(fields))
        if not shape.optional:
            numbers["code"][where[~whole]], numbers["reason"][where[~whole]] = kinds.BAD, kinds.REASON[kinds.CUT_SHORT]
        where, fields = where[whole], fields.filter(pa.array(whole))
        for field in fields.type:
            values = fields.field(field.name)
            there = mask_of(pc.not_equal(values, ""))
            if field.name in numbers:
                numbers[field.name][where] = pc.if_else(pa.array(there), values, "0").cast(pa.int32())
            else:
                names[field.name].append((where[there], values.filter(pa.array(there))))
    numbers["code"][where], numbers["reason"][where] = shape.code, kinds.REASON[shape.reason]


def _times(text: pa.Array) -> Ints:
    """Microseconds since 1970 of epoch seconds and ISO times; NONE where there is none."""
    coded = text.dictionary_encode()  # a second holds many lines
    at = times_in(coded.dictionary, "s")
    codes = pc.fill_null(coded.indices, len(at)).to_numpy(zero_copy_only=False)
    return cast(Ints, np.append(np.where(at > NONE + 1, at, NONE), NONE)[codes])


def _encode(found: Sequence[tuple[Ints, pa.Array]], lines: int) -> pa.Array:
    """A column of names from those of some lines."""
    coded = pa.concat_arrays([pa.array([], pa.string()), *(values for _, values in found)]).dictionary_encode()
    codes = np.full(lines, -1, np.int32)
    codes[np.concatenate([np.empty(0, np.int64), *(where for where, _ in found)])] = coded.indices.to_numpy()
    return pa.DictionaryArray.from_arrays(pa.array(codes, mask=codes < 0), coded.dictionary)


class Log:
    """A row a line. Names are codes, -1 for none: of clients in the order of the names, of others in any."""

    def __init__(self, parts: Sequence[pa.RecordBatch]) -> None:
        table = pa.Table.from_batches(parts).unify_dictionaries().combine_chunks()
        column: dict[str, Numbers] = {name: table[name].to_numpy().copy() for name in ("offset", "at", *_NUMBERS)}
        self.offset, self.at, self.code, self.reason = (column[name] for name in ("offset", "at", "code", "reason"))
        self.dup, self.qos, self.retain, self.mid = (column[name] for name in ("dup", "qos", "retain", "mid"))
        self.size, self.present, self.step = column["size"], column["present"], column["step"]
        self.version, self.clean = column["version"], column["clean"]
        coded = {name: table[name].chunk(0) for name in _NAMES}
        names = {name: each.dictionary for name, each in coded.items()}
        codes = {name: each.indices.fill_null(-1).to_numpy().copy() for name, each in coded.items()}
        order = pc.sort_indices(names["client"])
        self.clients, place = names["client"].take(order), np.full(len(order) + 1, -1, np.int32)
        place[order] = np.arange(len(order))
        self.client, self.topic, self.topics = place[codes["client"]], codes["topic"], names["topic"]
        self.user, self.users = codes["user"], names["user"]
        self.sample, self.samples = codes["sample"], names["sample"]
        self.address, self.addresses = codes["address"], names["address"]
        self.bridge = np.zeros(len(self.clients) + 1, bool)  # the last is for -1

    def topic_codes(self, names: pa.Array) -> Ints:
        """Codes of names as topics; new ones are added."""
        before = len(self.topics)
        coded = pa.concat_arrays([self.topics, names]).dictionary_encode()
        self.topics = coded.dictionary
        return cast(Ints, coded.indices.to_numpy()[before:].astype(np.int64))


def continue_lines(log: Log) -> None:
    """Lines that begin with a tab become filters and topics of wills; the echoes of filters are found."""
    code, client = log.code, log.client
    unknown = (code == kinds.OTHER) & (log.topic >= 0) & np.append(False, code[:-1] == kinds.TAB)
    above = last_marked(~((code == kinds.TAB) | unknown))
    tabs = np.flatnonzero(code == kinds.TAB)
    over = np.where(above[tabs] >= 0, code[above[tabs]], kinds.OTHER)
    code[tabs], log.reason[tabs] = kinds.BAD, kinds.REASON[kinds.ORPHAN]

    asked = pc.extract_regex(log.topics.take(pa.array(log.topic[tabs])), r"^(?P<filter>.*) \(QoS (?P<qos>[012])\)$")
    is_filter = (over == kinds.SUBSCRIBE) & mask_of(pc.is_valid(asked))
    for which, what in ((is_filter, kinds.FILTER), (over == kinds.UNSUBSCRIBE, kinds.FILTER_OFF)):
        lines = tabs[which]
        code[lines], log.reason[lines], client[lines] = what, 0, client[above[lines]]
    asked = asked.filter(pa.array(is_filter))
    log.topic[tabs[is_filter]] = log.topic_codes(pc.struct_field(asked, "filter"))
    log.qos[tabs[is_filter]] = pc.struct_field(asked, "qos").cast(pa.int32())

    wills = tabs[(over == kinds.WILL) & (above[tabs] == tabs - 1) & (tabs > 1)]
    wills = wills[is_any(code[wills - 2], kinds.CONNECT, kinds.LINK_IN)]
    code[wills], log.reason[wills], client[wills] = kinds.WILL_TOPIC, kinds.REASON["will"], client[wills - 2]
    for column in (log.size, log.qos, log.retain):
        column[wills] = column[wills - 1]
    _find_echoes(log, unknown)
    log.topic[code == kinds.OTHER] = -1


def _find_echoes(log: Log, unknown: Bools) -> None:
    """Lines that say the filter above them once more, with the client's name before it."""
    code, client = log.code, log.client
    for what, reason in ((kinds.FILTER, "SUBSCRIBE"), (kinds.FILTER_OFF, "UNSUBSCRIBE")):
        lines = np.flatnonzero(unknown & (np.append(-1, code[:-1]) == what))
        names = [log.clients.take(pa.array(client[lines - 1])), log.topics.take(pa.array(log.topic[lines - 1]))]
        if what == kinds.FILTER:
            names.insert(1, pa.array(log.qos[lines - 1]).cast(pa.string()))
        echoed = pc.binary_join_element_wise(*names, pa.scalar(" ", pa.string()))
        same = lines[mask_of(pc.equal(echoed, log.topics.take(pa.array(log.topic[lines]))))]
        code[same], log.reason[same], client[same], log.topic[same] = (
            kinds.ECHO,
            kinds.REASON[reason],
            client[same - 1],
            -1,
        )


def find_bridges(log: Log, names: Sequence[str]) -> None:
    """Which clients are bridges, and of which link: by their lines, or by the names that the caller knows."""

    def fitting(client: str, connections: Sequence[str]) -> list[str]:
        """The connections whose bridge may go by this client id: the connection's name, or HOST.CONNECTION."""
        return [each for each in connections if f".{client}".endswith(f".{each}")]

    own = np.unique(log.client[is_any(log.code, kinds.LINK_TEXT, kinds.LINK_IN) & (log.client >= 0)])
    listed = [i for i, each in enumerate(log.clients.to_pylist()) if fitting(each, names)] if names else []
    found = np.union1d(own, np.array(listed, np.int64)).astype(np.int64)
    log.bridge[found] = True
    dials = np.flatnonzero((log.code == kinds.LINK) & (log.step < 2))
    dialled = log.topics.take(pa.array(log.topic[dials])).to_pylist()
    diallers: dict[str, int] = {}
    links = []
    for i, each in zip(found.tolist(), log.clients.take(pa.array(found)).to_pylist(), strict=True):
        fits = fitting(each, list(dict.fromkeys(dialled))) or fitting(each, names)
        links.append(max(fits, key=len) if fits else each.removeprefix("local."))
        if each.startswith("local.") or links[-1] not in diallers:
            diallers[links[-1]] = i
    link = np.full(len(log.clients), -1, np.int64)
    link[found] = log.topic_codes(pa.array(links, pa.string()))
    steps = (log.code == kinds.LINK) & (log.step > 1)
    log.code[steps], log.reason[steps], log.topic[steps] = kinds.LINK_TEXT, kinds.BRIDGE, -1
    log.code[(log.code == kinds.CONNECT) & log.bridge[log.client]] = kinds.LINK_IN
    log.client[dials] = [diallers.get(each, -1) for each in dialled]
    arrived = log.code == kinds.LINK_IN
    log.topic[arrived] = link[log.client[arrived]]
