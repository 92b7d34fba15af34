"""All lines of a log as columns, with what tabbed lines continue and which clients are bridges."""

from __future__ import annotations

from typing import cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from overlace.arrays.jit import Bools, Ints
from overlace.ingest.formats.mosquitto.lines import Numbers, Part, is_any, mask
from overlace.ingest.formats.mosquitto.shapes import (
    BAD,
    BRIDGE,
    CONNECT,
    ECHO,
    FILTER,
    FILTER_OFF,
    LINK,
    LINK_IN,
    LINK_TEXT,
    ORPHAN,
    OTHER,
    REASON,
    SUBSCRIBE,
    TAB,
    UNSUBSCRIBE,
    WILL,
    WILL_TOPIC,
)


class Log:
    """A row a line. Names are codes: of clients in the order of the names, of topics and users in any."""

    def __init__(self, parts: list[Part]) -> None:
        column = {name: np.concatenate([part.numbers[name] for part in parts]) for name in parts[0].numbers}
        self.offset, self.at, self.code, self.reason = (column[name] for name in ("offset", "at", "code", "reason"))
        self.dup, self.qos, self.retain, self.mid = (column[name] for name in ("dup", "qos", "retain", "mid"))
        self.size, self.present, self.step = column["size"], column["present"], column["step"]
        self.version, self.clean = column["version"], column["clean"]
        clients = pc.unique(pa.concat_arrays([part.clients for part in parts]))
        self.clients = clients.take(pc.sort_indices(clients))
        self.topics = pc.unique(pa.concat_arrays([part.topics for part in parts]))
        self.users = pc.unique(pa.concat_arrays([part.users for part in parts]))
        self.client = _recode([(part.numbers["client"], part.clients) for part in parts], self.clients)
        self.topic = _recode([(part.numbers["topic"], part.topics) for part in parts], self.topics)
        self.user = _recode([(part.numbers["user"], part.users) for part in parts], self.users)
        self.sampled = np.flatnonzero(is_any(self.code, BAD, TAB))
        self.samples = pa.concat_arrays([part.samples for part in parts])
        self.addressed = np.flatnonzero(is_any(self.code, CONNECT, LINK, LINK_IN))
        self.addresses = pa.concat_arrays([part.addresses for part in parts])
        self.bridge = np.zeros(len(self.clients) + 1, bool)  # the last is for -1

    def topic_codes(self, names: pa.Array) -> Ints:
        """Codes of names as topics; new ones are added."""
        before = len(self.topics)
        coded = pa.concat_arrays([self.topics, names]).dictionary_encode()
        self.topics = coded.dictionary
        return cast(Ints, coded.indices.to_numpy()[before:].astype(np.int64))


def _recode(parts: list[tuple[Numbers, pa.Array]], names: pa.Array) -> Numbers:
    """Codes into each part's names as codes into all names."""
    places = [np.append(pc.index_in(own, value_set=names).to_numpy(), -1).astype(np.int32) for _, own in parts]
    return np.concatenate([place[codes] for place, (codes, _) in zip(places, parts, strict=True)])


def continue_lines(log: Log) -> None:
    """Lines that begin with a tab become filters and topics of wills; the echoes of filters are found."""
    code, client = log.code, log.client
    unknown = (code == OTHER) & (log.topic >= 0) & np.append(False, code[:-1] == TAB)
    here = np.arange(len(code))
    above = np.maximum.accumulate(np.where((code == TAB) | unknown, -1, here))
    tabs = np.flatnonzero(code == TAB)
    over = np.where(above[tabs] >= 0, code[above[tabs]], OTHER)
    code[tabs], log.reason[tabs] = BAD, REASON[ORPHAN]

    text = log.topics.take(pa.array(log.topic[tabs]))
    asked = pc.extract_regex(text, r"^(?P<filter>.*) \(QoS (?P<qos>[012])\)$")
    is_filter = (over == SUBSCRIBE) & mask(pc.is_valid(asked))
    for which, what in ((is_filter, FILTER), (over == UNSUBSCRIBE, FILTER_OFF)):
        lines = tabs[which]
        code[lines], log.reason[lines], client[lines] = what, 0, client[above[lines]]
    asked = asked.filter(pa.array(is_filter))
    log.topic[tabs[is_filter]] = log.topic_codes(pc.struct_field(asked, "filter"))
    log.qos[tabs[is_filter]] = pc.struct_field(asked, "qos").cast(pa.int32())

    wills = tabs[(over == WILL) & (above[tabs] == tabs - 1) & (tabs > 1)]
    wills = wills[is_any(code[wills - 2], CONNECT, LINK_IN)]
    code[wills], log.reason[wills], client[wills] = WILL_TOPIC, REASON["will"], client[wills - 2]
    for column in (log.size, log.qos, log.retain):
        column[wills] = column[wills - 1]
    _find_echoes(log, unknown)
    log.topic[code == OTHER] = -1


def _find_echoes(log: Log, unknown: Bools) -> None:
    """Lines that say the filter above them once more, with the client's name before it."""
    code, client = log.code, log.client
    for what, reason in ((FILTER, "SUBSCRIBE"), (FILTER_OFF, "UNSUBSCRIBE")):
        lines = np.flatnonzero(unknown & (np.append(-1, code[:-1]) == what))
        names = [log.clients.take(pa.array(client[lines - 1])), log.topics.take(pa.array(log.topic[lines - 1]))]
        if what == FILTER:
            names.insert(1, pa.array(log.qos[lines - 1]).cast(pa.string()))
        echoed = pc.binary_join_element_wise(*names, pa.scalar(" ", pa.string()))
        same = lines[mask(pc.equal(echoed, log.topics.take(pa.array(log.topic[lines]))))]
        code[same], log.reason[same], client[same], log.topic[same] = ECHO, REASON[reason], client[same - 1], -1


def find_bridges(log: Log, names: list[str]) -> None:
    """Which clients are bridges, and of which link: by their lines, or by the names that the caller knows."""
    ids = log.clients.to_pylist() if names else []
    own = np.unique(log.client[is_any(log.code, LINK_TEXT, LINK_IN) & (log.client >= 0)])
    listed = [i for i, each in enumerate(ids) if any(_is_of(each, name) for name in names)]
    found = np.union1d(own, np.array(listed, np.int64)).astype(np.int64)
    log.bridge[found] = True
    dials = np.flatnonzero((log.code == LINK) & (log.step < 2))
    dialled = {*log.topics.take(pa.array(log.topic[dials])).to_pylist()}
    diallers: dict[str, int] = {}
    links = []
    for i, each in zip(found, log.clients.take(pa.array(found)).to_pylist(), strict=True):
        fits = [name for name in dialled if _is_of(each, name)] or [name for name in names if _is_of(each, name)]
        links.append(max(fits, key=len) if fits else each.removeprefix("local."))
        if each.startswith("local.") or links[-1] not in diallers:
            diallers[links[-1]] = i
    link = np.full(len(log.clients), -1, np.int64)
    link[found] = log.topic_codes(pa.array(links, pa.string()))
    steps = (log.code == LINK) & (log.step > 1)
    log.code[steps], log.reason[steps], log.topic[steps] = LINK_TEXT, BRIDGE, -1
    log.code[(log.code == CONNECT) & log.bridge[log.client]] = LINK_IN
    log.client[dials] = [diallers.get(each, -1) for each in log.topics.take(pa.array(log.topic[dials])).to_pylist()]
    arrived = log.code == LINK_IN
    log.topic[arrived] = link[log.client[arrived]]


def _is_of(client: str, connection: str) -> bool:
    """Whether a bridge goes by this client id: the connection's name, or HOST.CONNECTION."""
    return client == connection or client.endswith("." + connection)
