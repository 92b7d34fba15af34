"""Two e-mail logs as traffic: the sender publishes, the recipients at the same instant receive one message.

The logs are not part of the project: OVERLACE_DATA names their folder (default: ../shared/data).
"""

from __future__ import annotations

import csv
import gzip
import os
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import numpy as np

from overlace.arrays.jit import Ints


class Mail(NamedTuple):
    """Deliveries in order of time, and the first delivery of each message."""

    sender: Ints
    receiver: Ints
    at: Ints  # seconds
    first: Ints
    clients: int


def mail_of(rows: Iterable[tuple[int, int, int]]) -> Mail:
    """Deliveries (sender, receiver, seconds) in any order; those to oneself are left out."""
    given = np.array(sorted((at, s, r) for s, r, at in rows if s != r), dtype=np.int64)
    at, sender, receiver = given.T
    _, first = np.unique(given[:, :2], axis=0, return_index=True)
    return Mail(sender, receiver, at, first, int(max(sender.max(), receiver.max())) + 1)


def logs_folder() -> Path:
    """Where the logs should be."""
    return Path(os.environ.get("OVERLACE_DATA", "../shared/data"))


def read_logs(folder: Path) -> dict[str, Mail]:
    """The logs that are there."""
    found = {}
    path = folder / "email-Eu-core-temporal.txt.gz"
    if path.exists():
        with gzip.open(path, "rt") as file:
            found["email-Eu"] = mail_of(tuple(map(int, row.split())) for row in file)  # type: ignore[misc]
    path = folder / "enron_topics.csv.gz"
    if path.exists():
        with gzip.open(path, "rt") as file:
            found["Enron"] = mail_of(
                (
                    int(row["src"]),
                    int(row["dst"]),
                    int(datetime.fromisoformat(row["time"]).replace(tzinfo=UTC).timestamp()),
                )
                for row in csv.DictReader(file)
            )
    return found


def cut_at(mail: Mail, share: float, last: int | None = None) -> int:
    """The time before which that share of the messages (up to a time) was sent."""
    at = np.sort(mail.at[mail.first])
    at = at[at < last] if last is not None else at
    return int(at[int(share * len(at))])


def shuffle_receivers(mail: Mail, seed: int) -> Mail:
    """The null model: everybody sends and receives as much and when they did, but to and from whom is chance."""
    rng = np.random.default_rng([seed, 7])
    receiver = mail.receiver[rng.permutation(len(mail.receiver))]
    for _ in range(100):
        own = np.flatnonzero(receiver == mail.sender)
        if len(own) == 0:
            break
        other = rng.integers(0, len(receiver), len(own))
        receiver[own], receiver[other] = receiver[other], receiver[own]
    return mail._replace(receiver=receiver)
