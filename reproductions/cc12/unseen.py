"""Traffic the plan has not seen: two e-mail logs on eight brokers, planned on the first 70 %, judged on the rest.

E-mail is who wrote to whom, not publish/subscribe: the sender is the publisher, the recipients at the same instant are
the receivers of one message. Eight brokers around one that holds nobody; homes at random at the start; what the clients
of a broker send in the first part may be at most 1.1 times the mean. The local share is the share of deliveries
between two clients of one broker. People who first show up later stay where chance put them.

The logs are not part of the project: OVERLACE_DATA names their folder (default: ../shared/data).
"""

from __future__ import annotations

import csv
import gzip
import os
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from overlace.arrays.jit import Bools, Floats, Ints
from overlace.model import Flows, Network, Observation, Overlay, Progress
from overlace.planners.placement.community import Community
from overlace.planners.placement.interest import Interest
from overlace.planners.placement.leiden import Leiden
from overlace.report.charts import Chart
from reproductions.result import Result, Spread

BROKERS, ROOM, TRAIN, SEEDS = 8, 1.1, 0.7, 5
FADES = (None, 180.0, 90.0, 45.0)
"""Days after which a message counts 1/e (half as much after 0.69 of them); None: all count alike."""
AIMS = {"email-Eu": 0.73, "Enron": 0.54}


class Mail(NamedTuple):
    """Deliveries in order of time, and the first delivery of each message."""

    sender: Ints
    receiver: Ints
    at: Ints  # seconds
    first: Ints
    clients: int


def mails(rows: Iterator[tuple[int, int, int]]) -> Mail:
    """Deliveries (sender, receiver, seconds) in any order; those to oneself are left out."""
    given = np.array(sorted((at, s, r) for s, r, at in rows if s != r), dtype=np.int64)
    at, sender, receiver = given.T
    _, first = np.unique(given[:, :2], axis=0, return_index=True)
    return Mail(sender, receiver, at, first, int(max(sender.max(), receiver.max())) + 1)


def logs(folder: Path) -> dict[str, Mail]:
    """The logs that are there."""
    found = {}
    path = folder / "email-Eu-core-temporal.txt.gz"
    if path.exists():
        with gzip.open(path, "rt") as file:
            found["email-Eu"] = mails(tuple(map(int, row.split())) for row in file)  # type: ignore[misc]
    path = folder / "enron_topics.csv.gz"
    if path.exists():
        with gzip.open(path, "rt") as file:
            found["Enron"] = mails(
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


def observed(mail: Mail, until: int, home: Ints, fade: float | None = None) -> Observation:
    """The mails before a time, fading if asked for: a flow weighs 1000 a mail of the last moment."""
    mine = mail.at < until
    weight = np.ones(int(mine.sum())) if fade is None else np.exp((mail.at[mine] - until) / (86_400 * fade))
    pair, place = np.unique(mail.sender[mine] * mail.clients + mail.receiver[mine], return_inverse=True)
    amount = np.bincount(place, weights=weight) * (1 if fade is None else 1000)
    spokes = np.column_stack([np.arange(BROKERS), np.full(BROKERS, BROKERS)])
    sent = mail.sender[mail.first[mail.at[mail.first] < until]]
    return Observation(
        overlay=Overlay(placement=np.column_stack([np.arange(mail.clients), home]), tree=spokes),
        network=Network(region=[*range(BROKERS), -1], links=spokes),
        flows=Flows(*np.divmod(pair, mail.clients), np.maximum(np.rint(amount), 1).astype(np.int64)),
        clients=mail.clients,
        sent=np.bincount(sent, minlength=mail.clients),
    )


def local(mail: Mail, home: Ints, some: Bools) -> float:
    """The share of some deliveries that stay at one broker."""
    return float((home[mail.sender[some]] == home[mail.receiver[some]]).mean())


def ours() -> Leiden:
    """Our planner at the cap of the comparison."""
    return Leiden(region_sent=ROOM, broker_sent=ROOM, broker_handled=None)


def fade_for(mail: Mail, cut: int, home: Ints, seed: int) -> float | None:
    """The fading that does best inside the first part: planned on 70 % of it, judged on its rest."""
    inner = cut_at(mail, TRAIN, cut)
    rest = (mail.at >= inner) & (mail.at < cut)
    score = {}
    for fade in FADES:
        plan = ours().solve(observed(mail, inner, home, fade), seed)
        score[fade] = local(mail, plan.after.homes(mail.clients), rest)
    return max(FADES, key=lambda fade: score[fade])


def ways(mail: Mail, cut: int, home: Ints, seed: int, chosen: list[str] | None) -> Iterator[tuple[str, Ints]]:
    """Every placement, by name; fading too where there is a list to note the fading that was chosen in."""
    plain = observed(mail, cut, home)
    yield "random", home
    for name, planner in (
        ("interest", Interest(method="k-medoids")), ("community", Community(overload=ROOM)), ("leiden", ours()),
    ):  # fmt: skip
        yield name, planner.solve(plain, seed).after.homes(mail.clients)
    if chosen is not None:
        fade = fade_for(mail, cut, home, seed)
        chosen.append("none" if fade is None else f"{fade:.0f} days")
        recent = observed(mail, cut, home, fade)
        yield "leiden, recent mail counts more", ours().solve(recent, seed).after.homes(mail.clients)
    parts = partitioned(plain)
    if parts is not None:
        yield "partitioner (METIS)", parts


def partitioned(observation: Observation) -> Ints | None:
    """METIS on the same graph and loads; None where it is not installed (it is a rival, not a part of ours)."""
    try:
        import pymetis
    except ImportError:
        return None
    from overlace.planners.placement.ties import ties_of

    ties = ties_of(observation)
    _, parts = pymetis.part_graph(
        BROKERS, pymetis.CSRAdjacency(ties.start.tolist(), ties.other.tolist()),
        eweights=ties.weight.astype(int).tolist(),
        vweights=observation.sent.tolist(), options=pymetis.Options(ufactor=round(1000 * (ROOM - 1)), seed=0),
    )  # fmt: skip
    return np.asarray(parts, dtype=np.int64)


def shuffled(mail: Mail, seed: int) -> Mail:
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


def on_unseen_mail(*, seeds: int | None = None, progress: Progress | None = None) -> Result:
    """Local shares on what was planned for and on what was not, for real logs and for shuffled ones."""
    seeds = seeds or SEEDS
    folder = Path(os.environ.get("OVERLACE_DATA", "../shared/data"))
    rows: list[dict[str, Any]] = []
    chosen: dict[str, list[str]] = {}
    found = logs(folder)
    for i, (name, mail) in enumerate(found.items()):
        cut = cut_at(mail, TRAIN)
        train, held = mail.at < cut, mail.at >= cut
        for kind, log in (("as logged", mail), ("shuffled, degrees kept", None)):
            shares: dict[str, list[tuple[float, ...]]] = {}
            for seed in range(seeds):
                if progress:
                    progress((i + seed / seeds) / len(found), f"{name}, {kind}")
                each = log or shuffled(mail, seed)
                home = np.random.default_rng([seed, 5]).integers(0, BROKERS, mail.clients)
                for way, placed in ways(each, cut, home, seed, chosen.setdefault(name, []) if log else None):
                    shares.setdefault(way, []).append(figures(each, placed, train, held))
            for way, values in shares.items():
                rows.append(_row(name, kind, way, values))
    notes = [
        f"{seeds} seeds (of the random homes and the searches). The sender is the publisher, the recipients at the "
        "same instant are the receivers of one message; 8 brokers around one that holds nobody; sent on train at most "
        "1.1 x the mean per broker (asked of ours; the others' largest loads stand beside).",
        "Aims on held-out traffic: 0.73 for email-Eu and 0.54 for Enron.",
        "`Recent mail counts more`: in the flows that are planned on, a mail of age t counts exp(-t / f). f is none, "
        "180, 90 or 45 days (half-lives of 125, 62 and 31), whichever does best inside the first part alone: planned "
        "on 70 % of it, judged on its rest. Chosen, seed by seed: "
        + "; ".join(f"{name}: {', '.join(each)}" for name, each in chosen.items())
        + ". Said plainly: that fading helps at all, and so these four to choose from, was found while held-out "
        "figures were in view; only the choice among them is made without. The row without fading has nothing to "
        "choose.",
        "The null model keeps who sends and receives how much and when, and shuffles whom: what a plan gains there "
        f"over random is not structure but unequal rates. {structure(rows)}",
        "Interest and community are not held to the cap and pay with their largest loads, so their shares are no "
        "comparison at equal load; METIS is the one near to it on email-Eu, and above the cap on Enron too.",
        "What limits it: the cap (communities that overload a broker 1.7 times reach more), people who first show up "
        "later, and on Enron the drift: half of who sends what changes between the parts, so that in the held-out "
        "part some broker has well above the mean whatever the plan, random homes included.",
        "Load drift is half the sum over people of the change in their share of messages sent (0: none, 1: all new "
        "people).",
    ]
    if not found:
        notes.append(f"The logs are not in {folder.name}: set OVERLACE_DATA to their folder.")
    bars = [
        {"log": f"{r['log']}, {r['traffic']}", "placement": r["placement"], "share": r["held-out mean"]} for r in rows
    ]
    chart = Chart(
        "Local share on held-out traffic", bars, "log", "share", series="placement", mark="bar",
        y_title="share of deliveries at one broker",
    )  # fmt: skip
    return Result("Unseen: e-mail on eight brokers", rows, notes, [chart] if bars else [])


def structure(rows: list[dict[str, Any]]) -> str:
    """How much of what leiden gains over random on held-out traffic is not there on shuffled traffic."""
    share = {(r["log"], r["traffic"][:2], r["placement"]): r["held-out mean"] for r in rows}
    told = []
    for log in dict.fromkeys(r["log"] for r in rows):
        real, null = (share[log, kind, "leiden"] - share[log, kind, "random"] for kind in ("as", "sh"))
        told.append(f"{100 * (1 - null / real):.0f} % on {log}")
    return f"Of leiden's gain that leaves as structure {', '.join(told)}." if told else ""


def figures(mail: Mail, home: Ints, train: Bools, held: Bools) -> tuple[float, ...]:
    """Local share on train, held-out, held-out between known; largest load on train and held-out; drift."""
    known = np.zeros(mail.clients, dtype=np.bool_)
    known[mail.sender[train]] = known[mail.receiver[train]] = True
    both = held & known[mail.sender] & known[mail.receiver]
    first = np.zeros(len(mail.at), dtype=np.bool_)
    first[mail.first] = True
    sent = [np.bincount(mail.sender[part & first], minlength=mail.clients) for part in (train, held)]
    load = [_peak(np.bincount(home, weights=each, minlength=BROKERS).astype(np.float64)) for each in sent]
    drift = float(np.abs(sent[0] / sent[0].sum() - sent[1] / sent[1].sum()).sum() / 2)
    return (local(mail, home, train), local(mail, home, held), local(mail, home, both), *load, drift)


def _peak(load: Floats) -> float:
    return float(load.max() / load.mean())


def _row(name: str, kind: str, way: str, values: list[tuple[float, ...]]) -> dict[str, Any]:
    train, held, known, load, later, drift = (Spread.of(each) for each in zip(*values, strict=True))
    goal = AIMS[name] if way.startswith("leiden") and kind == "as logged" else None
    return {
        "log": name, "traffic": kind, "placement": way, "train": str(train), "held-out": str(held),
        "held-out, known": str(known), "aim": goal, "met": None if goal is None else held.mean >= goal,
        "largest load / mean, train": round(load.mean, 3), "held-out load": round(later.mean, 3),
        "load drift": round(drift.mean, 3), "held-out mean": round(held.mean, 4),
    }  # fmt: skip
