"""From content to attributes: few predicates that tell many filters apart, so that masks can stand in for content.

PART10's strategies know attributes, at most 63 of them: a message has some, a subscription asks for some. Where a log
has content, an attribute is a predicate, itself a filter: a message has those that it satisfies, a subscription asks
for those that its filter implies (that cover it). So a message that matches a filter has all that the filter asks for:
nothing that is wanted is lost, whatever the predicates. What else has them all is a false positive.

`rank_predicates` takes predicates one after the other, each time the one that takes most false positives away if every
combination had a channel of its own (strategy 1), as measured on a sample of messages. What takes little away comes
late, so the first N are the choice for N attributes. No message of the sample has more than `widest`, since channels
are made of all combinations of what a message has.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from overlace.arrays.jit import Bools, Ints
from overlace.matching.content.columns import Columns
from overlace.matching.content.constraints import Constraint, Filter
from overlace.matching.content.filters import covers, is_satisfiable
from overlace.matching.content.matcher import Matcher

MOST = 63
"""Attributes that a mask holds."""

WIDEST = 7
"""Attributes of one message, unless told otherwise."""

QUANTILES = 16
"""Parts into which the values of an attribute are cut to make ranges of them."""

SAMPLE = 3000
"""Messages on which predicates are compared."""

EVERYTHING: Filter = ()
"""The predicate that every message satisfies."""


def candidates(filters: Sequence[Filter], columns: Columns, least: int = 2, quantiles: int = QUANTILES) -> list[Filter]:
    """Predicates that at least so many filters imply, those that most do in front.

    They are the constraints that filters share, alone and together with an equality, beginnings and ends of the texts
    that they compare with, and ranges between the quantiles of the numbers that messages have.
    """
    shared: Counter[Filter] = Counter()
    ends: dict[Filter, None] = {}
    for filter in filters:
        own = tuple(dict.fromkeys(filter))
        equal = [each for each in own if each.operator == "="]
        shared.update((each,) for each in own)
        shared.update((one, each) for one in equal for each in own if each.attribute != one.attribute)
        for each in equal:
            if isinstance(each.value, str):
                for n in range(1, len(each.value)):
                    ends[Constraint(each.attribute, "prefix", each.value[:n]),] = None
                    ends[Constraint(each.attribute, "suffix", each.value[n:]),] = None
    bounded = {each.attribute for own in filters for each in own if each.type == "number" and each.operator != "="}
    ranges = [each for name in sorted(bounded & set(columns.columns)) for each in _ranges(name, columns, quantiles)]
    found = list(dict.fromkeys([*(each for each in shared if shared[each] >= least), *ends, *ranges]))
    count = implied_by(filters, found).sum(axis=0)
    order = np.argsort(-count, kind="stable")
    return [found[p] for p in order.tolist() if count[p] >= least]


def _ranges(name: str, columns: Columns, quantiles: int) -> Iterator[Filter]:
    """Ranges of an attribute between quantiles of its values, open on a side or closed on both."""
    values = columns.columns[name].numbers
    values = values[~np.isnan(values)]
    if columns.columns[name].type != "number" or len(values) == 0:
        return
    edges = np.unique(np.quantile(values, np.linspace(0, 1, quantiles + 1)[1:-1], method="nearest")).tolist()
    above = [Constraint(name, ">=", edge) for edge in edges]
    below = [Constraint(name, "<=", edge) for edge in edges]
    yield from ((each,) for each in (*above, *below))
    yield from ((low, high) for i, low in enumerate(above) for high in below[i + 1 :])


def implied_by(filters: Sequence[Filter], predicates: Sequence[Filter]) -> Bools:
    """(filter, predicate): which predicates each filter implies."""
    found = np.zeros((len(filters), len(predicates)), np.bool_)
    names = [frozenset(each.attribute for each in predicate) for predicate in predicates]
    known: dict[tuple[int, Filter], bool] = {}
    for f, filter in enumerate(filters):
        if not is_satisfiable(filter):
            found[f] = True
            continue
        own = frozenset(each.attribute for each in filter)
        for p, predicate in enumerate(predicates):
            if names[p] <= own:  # only what the filter says of these attributes matters
                part = tuple(each for each in filter if each.attribute in names[p])
                if (p, part) not in known:
                    known[p, part] = covers(predicate, part)
                found[f, p] = known[p, part]
    return found


def satisfied_by(columns: Columns, predicates: Sequence[Filter]) -> Bools:
    """(message, predicate): which predicates each message satisfies."""
    found = np.zeros((columns.rows, len(predicates)), np.bool_)
    start, ids = Matcher(predicates).match(columns)
    found[np.repeat(np.arange(columns.rows), np.diff(start)), ids] = True
    return found


def rank_predicates(
    filters: Sequence[Filter],
    columns: Columns,
    predicates: Sequence[Filter],
    most: int = MOST,
    widest: int = WIDEST,
) -> list[Filter]:
    """Predicates that take most false positives away, the best first; ties go to the one that comes first.

    If a filter implies none of the first, the one that all messages satisfy is in front: everybody asks for something.
    """
    implied, held = implied_by(filters, predicates), satisfied_by(columns, predicates)
    chosen: list[int] = []
    received = np.ones((1, columns.rows), np.float32)  # by each different request, the messages that have it all
    request = np.zeros(len(filters), np.int64)  # of each filter
    width = np.zeros(columns.rows, np.int64)
    room = widest - 1  # for what all messages satisfy
    heap = [(-np.inf, p) for p in range(len(predicates))]
    while heap and len(chosen) < most - 1:
        p = heapq.heappop(heap)[1]
        if (width[held[:, p]] >= room).any():
            continue
        askers = np.bincount(request[implied[:, p]], minlength=len(received))
        gain = float(askers @ (received @ (~held[:, p]).astype(np.float32)))
        if heap and (-gain, p) > heap[0]:  # gains only fall, so one that is still the largest is
            heapq.heappush(heap, (-gain, p))
            continue
        if gain <= 0:
            break
        chosen.append(p)
        width += held[:, p]
        request, received = _narrow(request, received, implied[:, p], held[:, p])
    listed = [predicates[p] for p in chosen]
    return [EVERYTHING, *listed] if not implied[:, chosen].any(axis=1).all() else listed


def _narrow(
    request: Ints, received: NDArray[np.float32], implied: Bools, held: Bools
) -> tuple[Ints, NDArray[np.float32]]:
    """Requests and what they receive, once those that imply a predicate ask for it too."""
    kinds, request = np.unique(2 * request + implied, return_inverse=True)
    narrowed = received[kinds // 2]
    narrowed[kinds % 2 == 1] *= held.astype(np.float32)
    return request, narrowed


def sample_rows(columns: Columns, most: int, seed: int) -> Columns:
    """Messages drawn without replacement, in their order."""
    if columns.rows <= most:
        return columns
    rows = np.sort(np.random.default_rng(seed).permutation(columns.rows)[:most])
    return take_rows(columns, rows)


def take_rows(columns: Columns, rows: Ints) -> Columns:
    """Some of the messages."""
    taken = {
        name: each._replace(
            numbers=each.numbers[rows] if len(each.numbers) else each.numbers,
            codes=each.codes[rows] if len(each.codes) else each.codes,
        )
        for name, each in columns.columns.items()
    }
    return Columns(len(rows), taken)


def choose_attributes(
    filters: Sequence[Filter], columns: Columns, most: int = MOST, widest: int = WIDEST, seed: int = 0
) -> list[Filter]:
    """At most so many predicates as attributes, the best first, from what filters share and messages say."""
    sample = sample_rows(columns, SAMPLE, seed)
    return rank_predicates(filters, sample, candidates(filters, sample), most, widest)


def mask_filters(filters: Sequence[Filter], predicates: Sequence[Filter]) -> Ints:
    """The attributes that each subscription asks for, as a mask."""
    bits = np.left_shift(1, np.arange(len(predicates), dtype=np.int64))
    masks: Ints = implied_by(filters, predicates).astype(np.int64) @ bits
    return masks
