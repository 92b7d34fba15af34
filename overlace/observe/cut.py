"""The cut of a log into a training window and held-out traffic."""

from __future__ import annotations

import datetime as dt
from typing import NamedTuple

import numpy as np

from overlace.errors import BadParameter, BadTrace
from overlace.observe.traffic import IN_PROCESS, Reader
from overlace.trace.store import DAY_US, Trace

WEEK_US = 7 * DAY_US


class Cut(NamedTuple):
    """Two windows, the share of messages in the first, and what to be warned of."""

    train: tuple[int, int]
    held_out: tuple[int, int]
    share: float
    warning: str = ""


def cut(trace: Trace, train: float = 0.7, reader: Reader = IN_PROCESS) -> Cut:
    """The boundary before which the share of messages first reaches `train`.

    A whole week from two weeks on, a whole day when the log spans several days, else a bucket. Both
    parts hold traffic if two such pieces do.
    """
    if not 0 < train <= 1:
        raise BadParameter(f"train is {train}; expected a share above 0 and up to 1")
    bucket, messages = reader.buckets(trace)
    if len(bucket) == 0:
        return Cut((0, 0), (0, 0), 1.0)  # interests only: one window
    begin, end = int(bucket.min()), int(bucket.max()) + trace.bucket_us
    if train == 1:
        return Cut((begin, end), (end, end), 1.0, "nothing is held out: the plan is judged by nothing")
    span = end - begin
    unit = WEEK_US if span >= 2 * WEEK_US else DAY_US if span >= 2 * DAY_US else trace.bucket_us
    piece = (bucket - (begin // DAY_US * DAY_US if unit >= DAY_US else begin)) // unit
    sums = np.bincount(piece, weights=messages)
    share = np.cumsum(sums) / sums.sum()
    filled = np.flatnonzero(sums)
    if len(filled) < 2:
        raise BadTrace(
            "the log is too short to cut: all its messages fall into one piece of "
            f"{unit / 1e6:.0f} s. Record longer, or plan on all of it with --train 1."
        )
    at = min(int(np.searchsorted(share, train - 1e-12)), int(filled[-1]) - 1)
    origin = begin // DAY_US * DAY_US if unit >= DAY_US else begin
    boundary = int(origin + (at + 1) * unit)
    return Cut((begin, boundary), (boundary, end), float(share[at]), _weekdays(bucket, messages, boundary))


def cut_at(trace: Trace, until: int, reader: Reader = IN_PROCESS) -> Cut:
    """The boundary at a given time: what comes before is the training window, the rest is held out."""
    begin, end = trace.span()
    if begin == end:
        raise BadTrace("the trace holds no traffic, so there is nothing to cut in time. Leave out --train-until.")
    bucket, messages = reader.buckets(trace)
    before = int(messages[bucket + trace.bucket_us <= until].sum())
    if until % trace.bucket_us and begin < until < end:
        cut_bucket = until // trace.bucket_us * trace.bucket_us
        parts = ((cut_bucket, until), (until, cut_bucket + trace.bucket_us))
        early, late = (int(reader.traffic(trace, part).messages.sum()) for part in parts)
        if early + late != int(messages[bucket == cut_bucket].sum()):
            raise BadTrace(
                f"--train-until {format_time(until)} is inside a bucket of {trace.bucket_us // 10**6} s of which the "
                "trace does not keep all messages. Name a time between two buckets."
            )
        before += early
    total = int(messages.sum())
    if not 0 < before < total:
        where = "after" if before else "before"
        raise BadParameter(
            f"--train-until {format_time(until)} is {where} all traffic, which runs from {format_time(begin)} to "
            f"{format_time(end)}. Name a time between them."
        )
    return Cut((begin, until), (until, end), before / total, _weekdays(bucket, messages, until))


def format_time(micro: int) -> str:
    """A time in an error or a line for people, UTC."""
    at = dt.datetime.fromtimestamp(micro / 1e6, dt.UTC)
    return at.strftime("%Y-%m-%d %H:%M" if micro % 60_000_000 == 0 else "%Y-%m-%d %H:%M:%S.%f")


def read_time(text: str) -> int:
    """UTC microseconds of an ISO time; one without a zone is UTC."""
    try:
        at = dt.datetime.fromisoformat(text.strip())
    except ValueError:
        raise BadParameter(
            f"--train-until is {text!r}; expected a date and time such as 2026-11-16T08:00 or 2026-11-16T08:00:00+01:00"
        ) from None
    if not 1 < at.year < 9999:  # the first and the last year may be another one in UTC
        raise BadParameter(f"--train-until is {text!r}; expected a year from 2 to 9998")
    at = at if at.tzinfo else at.replace(tzinfo=dt.UTC)
    return (at - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)) // dt.timedelta(microseconds=1)


def _weekdays(bucket: np.ndarray, messages: np.ndarray, boundary: int) -> str:
    """A warning when the two parts differ in their share of weekend traffic."""
    weekend = (bucket // DAY_US + 3) % 7 >= 5  # 1970 began on a Thursday
    halves = (bucket < boundary, bucket >= boundary)
    shares = [float(messages[mine & weekend].sum() / max(messages[mine].sum(), 1)) for mine in halves]
    if abs(shares[0] - shares[1]) > 0.15:
        return (
            f"{shares[0]:.0%} of the messages in the training window and {shares[1]:.0%} of those held out are from "
            "weekends: the two parts may differ for that reason alone"
        )
    return ""
