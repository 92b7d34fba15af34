"""Held-out traffic: two e-mail logs on eight brokers, planned on the first 70 %, judged on the rest.

E-mail is who wrote to whom, not publish/subscribe: the sender is the publisher, the recipients at the same instant are
the receivers of one message. Eight brokers around one that holds nobody; homes at random at the start; what the clients
of a broker send in the first part may be at most 1.1 times the mean. The local share is the share of deliveries
between two clients of one broker. People who first show up later stay where chance put them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import log

import numpy as np

from overlace.arrays.jit import Bools, Floats, Ints
from overlace.model import Flows, Network, Observation, Overlay, Progress
from overlace.planners.placement.baselines import Interest
from overlace.planners.placement.community import Community
from overlace.planners.placement.leiden import Leiden
from overlace.report.charts import Chart, Row
from reproductions.cc12.mail import Mail, cut_at, logs_folder, read_logs, shuffle_receivers
from reproductions.result import Measured, Spread, item, words

BROKERS, ROOM, TRAIN, SEEDS = 8, 1.1, 0.7, 5
FADES = (None, 180.0, 90.0, 45.0)
"""Days after which a message counts 1/e (half as much after 0.69 of them); None: all count alike."""
AIMS = {"email-Eu": 0.73, "Enron": 0.54}


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


def our_planner() -> Leiden:
    """Our planner at the cap of the comparison."""
    return Leiden(region_sent=ROOM, broker_sent=ROOM, broker_handled=None)


def fade_for(mail: Mail, cut: int, home: Ints, seed: int) -> float | None:
    """The fading that does best inside the first part: planned on 70 % of it, judged on its rest."""
    inner = cut_at(mail, TRAIN, cut)
    rest = (mail.at >= inner) & (mail.at < cut)
    score = {}
    for fade in FADES:
        plan = our_planner().solve(observed(mail, inner, home, fade), seed)
        score[fade] = local(mail, plan.after.homes(mail.clients), rest)
    return max(FADES, key=lambda fade: score[fade])


def placements(mail: Mail, cut: int, home: Ints, seed: int, chosen: list[str] | None) -> Iterator[tuple[str, Ints]]:
    """Every placement, by name; fading too where there is a list to note the fading that was chosen in."""
    plain = observed(mail, cut, home)
    yield "random", home
    for name, planner in (
        ("interest", Interest(method="k-medoids")),
        ("community", Community(overload=ROOM)),
        ("leiden", our_planner()),
    ):
        yield name, planner.solve(plain, seed).after.homes(mail.clients)
    if chosen is not None:
        fade = fade_for(mail, cut, home, seed)
        chosen.append("none" if fade is None else f"{fade:.0f} days")
        recent = observed(mail, cut, home, fade)
        yield "leiden, recent mail counts more", our_planner().solve(recent, seed).after.homes(mail.clients)
    parts = place_by_metis(plain)
    if parts is not None:
        yield "partitioner (METIS)", parts


def place_by_metis(observation: Observation) -> Ints | None:
    """METIS on the same graph and loads; None where it is not installed (it is a rival, not a part of ours)."""
    try:
        import pymetis
    except ImportError:
        return None
    from overlace.planners.placement.ties import ties_of

    ties = ties_of(observation)
    _, parts = pymetis.part_graph(
        BROKERS,
        pymetis.CSRAdjacency(ties.start.tolist(), ties.other.tolist()),
        eweights=ties.weight.astype(int).tolist(),
        vweights=observation.sent.tolist(),
        options=pymetis.Options(ufactor=round(1000 * (ROOM - 1)), seed=0),
    )
    return np.asarray(parts, dtype=np.int64)


def structure(rows: Sequence[Row]) -> str:
    """How much of what leiden gains over random on held-out traffic is not there on shuffled traffic."""
    share = {(r["log"], r["traffic"][:2], r["placement"]): r["held-out mean"] for r in rows}
    parts = []
    for name in dict.fromkeys(r["log"] for r in rows):
        real, null = (share[name, kind, "leiden"] - share[name, kind, "random"] for kind in ("as", "sh"))
        parts.append(f"{100 * (1 - null / real):.0f} % on {name}")
    return f"Of leiden's gain that leaves as structure {', '.join(parts)}." if parts else ""


def _figures(measured: Measured, seeds: int) -> dict[str, object]:
    logged = [row for row in measured.rows if row["traffic"] == "as logged"]

    def tell(placement: str, text: str) -> str:
        """A sentence part about one placement, log by log."""
        return ", ".join(text.format_map(row) for row in logged if row["placement"].startswith(placement))

    load = "{largest load / mean, train} times the mean on {log}"
    folder = logs_folder().name
    missing = f"The logs are not in {folder}: set OVERLACE_DATA to their folder."
    days = [fade for fade in FADES if fade is not None]
    return {
        "brokers": BROKERS,
        "room": ROOM,
        "train": f"{100 * TRAIN:.0f} %",
        "aims": words([f"{aim} for {name}" for name, aim in AIMS.items()]),
        "fades": f"none, {', '.join(f'{each:.0f}' for each in days[:-1])} or {days[-1]:.0f} days",
        "half_lives": words([f"{each * log(2):.0f}" for each in days]),
        "structure": structure(measured.rows),
        "metis": tell("partitioner", load),
        "community": tell("community", "{held-out mean} with " + load),
        "drift": tell("random", "{load drift} on {log}"),
        "random": tell("random", "{held-out load} times the mean on {log}"),
        "missing": [] if measured.rows else [missing],
    }


@item("cc12/held-out", "Held-out traffic: e-mail on eight brokers", seeds=SEEDS, figures=_figures)
def place_held_out_mail(seeds: int, progress: Progress) -> Measured:
    """Local shares on what was planned for and on what was not, for real logs and for shuffled ones."""
    rows: list[Row] = []
    chosen: dict[str, list[str]] = {}
    found = read_logs(logs_folder())
    for i, (name, mail) in enumerate(found.items()):
        cut = cut_at(mail, TRAIN)
        train, held = mail.at < cut, mail.at >= cut
        for kind, logged in (("as logged", mail), ("shuffled, degrees kept", None)):
            shares: dict[str, list[tuple[float, ...]]] = {}
            for seed in range(seeds):
                progress((i + seed / seeds) / len(found), f"{name}, {kind}")
                each = logged or shuffle_receivers(mail, seed)
                home = np.random.default_rng([seed, 5]).integers(0, BROKERS, mail.clients)
                fades = chosen.setdefault(name, []) if logged else None
                for placement, placed in placements(each, cut, home, seed, fades):
                    shares.setdefault(placement, []).append(shares_and_loads(each, placed, train, held))
            rows += [_row(name, kind, placement, values) for placement, values in shares.items()]
    bars = [
        {"log": f"{r['log']}, {r['traffic']}", "placement": r["placement"], "share": r["held-out mean"]} for r in rows
    ]
    title, y_title = "Local share on held-out traffic", "share of deliveries at one broker"
    chart = Chart(title, bars, "log", "share", series="placement", mark="bar", y_title=y_title)
    fades_of = "; ".join(f"{name}: {', '.join(fades)}" for name, fades in chosen.items())
    return Measured(rows, [chart] if bars else [], {"chosen": fades_of})


def shares_and_loads(mail: Mail, home: Ints, train: Bools, held: Bools) -> tuple[float, ...]:
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


def _row(name: str, kind: str, placement: str, values: list[tuple[float, ...]]) -> dict[str, object]:
    train, held, known, load, later, drift = (Spread.of(each) for each in zip(*values, strict=True))
    goal = AIMS[name] if placement.startswith("leiden") and kind == "as logged" else None
    return {
        "log": name,
        "traffic": kind,
        "placement": placement,
        "train": str(train),
        "held-out": str(held),
        "held-out, known": str(known),
        "aim": goal,
        "met": None if goal is None else held.mean >= goal,
        "largest load / mean, train": round(load.mean, 3),
        "held-out load": round(later.mean, 3),
        "load drift": round(drift.mean, 3),
        "held-out mean": round(held.mean, 4),
    }
