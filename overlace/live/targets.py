"""What an export consists of: texts for NATS, Mosquitto, a map of clients or DNS, and what is there in their place."""

from __future__ import annotations

import getpass
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal, NamedTuple

from overlace.errors import Unknown
from overlace.live import maps, mosquitto_files, nats_files
from overlace.live.addresses import ByHand, placeholder
from overlace.live.deployment import Deployment
from overlace.live.files import read_files
from overlace.live.filters import bridge_lines, is_lost, link_filters
from overlace.live.local import own_listens
from overlace.live.options import ExportOptions
from overlace.live.planned import Planned
from overlace.live.subscribed import read_subscribed
from overlace.live.wiring import dials, slug
from overlace.wording import counted

Target = Literal["nats", "mosquitto", "clients", "dns"]


class Made(NamedTuple):
    """The files of an export before they are written."""

    texts: Mapping[str, str]
    summary: tuple[str, ...]
    how: tuple[str, ...]  # to use them, for the README
    notes: tuple[str, ...] = ()
    there: Mapping[str, str] = {}  # files of these names that are there
    later: Mapping[str, str] = {}  # what would be written in their place
    where: Path | None = None  # where they are
    secrets: frozenset[str] = frozenset()
    compared: Mapping[str, tuple[str, str]] = {}  # name and text of what a new file is compared with in its absence


def find_colour(deployment: Deployment, options: ExportOptions, there: Mapping[str, str]) -> int:
    """The colour to wire: as asked for, else the one that the files that are there do not use."""
    colours = deployment.colours
    if options.colour is not None:
        if options.colour in colours:
            return colours.index(options.colour)
        raise Unknown("colour", options.colour, colours)
    if deployment.substrate == "nats":
        used = [any(f"account: {nats_files.quote(name)}" in text for text in there.values()) for name in colours]
    else:
        used = [any(name.endswith(f".{c}.conf") for name in there) for c in range(len(colours))]
    return 1 if used[0] and len(colours) == 2 and not used[1] else 0


def make_nats(planned: Planned, deployment: Deployment | None, out: Path, options: ExportOptions) -> Made:
    """Accounts and leafnode remotes, and a main file to start each broker with."""
    assert deployment is not None
    there = present_files(deployment)
    colour = find_colour(deployment, options, there)
    texts = nats_files.broker_files(deployment, {colour: planned.links}, {colour}, own_listens(deployment))
    account = deployment.colours[colour]
    summary = (
        f"{counted(len(deployment.brokers), 'broker', 'brokers')} of NATS, "
        f"{counted(len(planned.links), 'link', 'links')} in account {account}",
    )
    how = (
        "Start a broker with `nats-server -c SLUG.conf`; or, once, add to your own configuration",
        '`include "SLUG.accounts.conf"` and, within leafnodes, `include "SLUG.remotes.conf"`, and reload.',
        *_odd_names(deployment),
        *_by_hand(deployment),
    )
    notes = _unplanned(planned, deployment)
    if not any(name == nats_files.names_of(broker)["main"] for broker in deployment.brokers for name in texts):
        notes += ("accounts come from JWTs, or are the server's own, and are yours: only remotes are written",)
    return Made(texts, summary, how, notes, there, texts, _where(deployment), _secrets(deployment))


def make_mosquitto(planned: Planned, deployment: Deployment | None, out: Path, options: ExportOptions) -> Made:
    """Brokers of one colour, with bridges that carry what is subscribed beyond them."""
    assert deployment is not None
    present = present_files(deployment)
    colour = find_colour(deployment, options, present)
    notes: tuple[str, ...] = ()
    wanted: Mapping[str, set[str]] = {}
    if options.filters != "all":
        wanted, notes = read_subscribed(planned, "mqtt")
        if lost := sum(is_lost(each) for some in wanted.values() for each in some):
            notes += (f"{lost:,} filters left out: a first level that begins with $ and has a space",)
    across = link_filters(planned.links, wanted, options.filters)
    lines = bridge_lines(across, dials(deployment.brokers, planned.links))

    def files_in(folder: Path) -> dict[str, str]:
        placed = deployment.model_copy(update={"files": str(folder)})
        texts = mosquitto_files.broker_files(
            placed, colour, planned.links, lines, proxied=bool(own_listens(deployment))
        )
        for broker, entry in deployment.brokers.items():
            if isinstance(deployment, ByHand):
                users = [f"{deployment.login(role).user}:{placeholder(role)}" for role in mosquitto_files.ACCESS]
                texts[mosquitto_files.names_of(broker, colour)["passwords"]] = "\n".join(users) + "\n"
            elif entry.deploy is None:  # it runs on this machine, as we do
                main = mosquitto_files.names_of(broker, colour)["main"]
                first, rest = texts[main].split("\n", 1)
                texts[main] = f"{first}\nuser {mosquitto_files.plain(getpass.getuser(), 'user')}\n{rest}"
        return texts

    texts = files_in(Path(options.place) if options.place else out)
    later = files_in(deployment.files_folder)
    there = {name: text for name, text in present.items() if name in later}
    others = {
        new: (old, present[old])
        for broker in deployment.brokers
        for new, old in zip(*(mosquitto_files.names_of(broker, c).values() for c in (colour, 1 - colour)), strict=True)
        if old in present and new not in there
    }
    count = sum(map(len, lines.values()))
    summary = (
        f"{counted(len(deployment.brokers), 'broker', 'brokers')} of Mosquitto, "
        f"{counted(len(planned.links), 'bridge', 'bridges')} with {counted(count, 'filter', 'filters')} "
        f"({options.filters}), colour {deployment.colours[colour]}",
    )
    how = (
        f"Start a broker with `mosquitto -c SLUG.{colour}.conf`, those that are dialled first.",
        f"Paths in them are of {options.place or out}; --place FOLDER is for another.",
        *_odd_names(deployment),
        *_by_hand(deployment),
    )
    notes = (*notes, *_unplanned(planned, deployment))
    return Made(texts, summary, how, notes, there, later, _where(deployment), _secrets(deployment), others)


def make_clients(planned: Planned, deployment: Deployment | None, out: Path, options: ExportOptions) -> Made:
    """A table of clients and brokers, and the rule for newcomers."""
    homes, odd = maps.split_names(planned.homes)
    newcomers = planned.document.newcomers
    texts = {"clients.csv": maps.clients_text(homes, newcomers), "newcomers.csv": maps.newcomers_text(newcomers)}
    there: dict[str, str] = {}
    where = deployment.place(deployment.homes) if deployment is not None and deployment.homes else None
    if where is not None and where.is_file():
        there = {"clients.csv": where.read_text(encoding="utf-8", errors="replace")}
    summary = (_moves(planned, homes),)
    how = (
        "clients.csv has the broker of every client; its last row, if it is *, is for all others. A name that a",
        "spreadsheet would take for a formula has ' before it, and so has one that begins with '.",
        *maps.newcomers_words(newcomers),
    )
    later = {"clients.csv": texts["clients.csv"]} if where is not None else {}
    return Made(texts, summary, how, _odd(odd), there, later, where)


def make_dns(planned: Planned, deployment: Deployment | None, out: Path, options: ExportOptions) -> Made:
    """A record for every client, as part of a zone file and as a table."""
    assert deployment is not None
    homes, odd = maps.split_names(planned.homes)
    newcomers = planned.document.newcomers
    everybody = {**homes, **({"*": newcomers.default} if newcomers and newcomers.default else {})}
    service = "nats" if deployment.substrate == "nats" else "mqtt"
    colour = find_colour(deployment, options, present_files(deployment))
    rows = maps.dns_rows(everybody, lambda broker: deployment.client_address(broker, colour), service)
    texts = {
        "clients.zone": maps.zone_text(rows, f"Written by Overlace from plan {planned.name}"),
        "records.csv": maps.table_text(("client", "name", "type", "value"), rows),
    }
    summary = (_moves(planned, homes), counted(len(rows), "record", "records"))
    how = (
        "clients.zone has a name for every client that leads to its broker, and a record of the service there;",
        "records.csv is the same as a table. A client that looks its name up again lands at its new broker.",
        *maps.newcomers_words(newcomers)[:1],
    )
    return Made(texts, summary, how, _odd(odd))


def _odd(count: int) -> tuple[str, ...]:
    left_out = f"{counted(count, 'client', 'clients')} left out: their names are empty, * or hold control characters"
    return (left_out,) if count else ()


def _unplanned(planned: Planned, deployment: Deployment) -> tuple[str, ...]:
    """A note on brokers that the plan does not know."""
    apart = sorted(set(deployment.brokers) - set(planned.brokers))
    if not apart:
        return ()
    return (f"no link for {', '.join(apart[:5])}{', ...' if len(apart) > 5 else ''}: not in the plan",)


def _odd_names(deployment: Deployment) -> tuple[str, ...]:
    """Which files are those of brokers whose name cannot be a file's."""
    return tuple(f"SLUG of {broker}: {slug(broker)}" for broker in deployment.brokers if slug(broker) != broker)


def _moves(planned: Planned, homes: Mapping[str, str]) -> str:
    """How many clients there are, and how many move."""
    moves = sum(planned.was.get(name, home) != home for name, home in homes.items())
    at = counted(len(set(homes.values())), "broker", "brokers")
    return f"{counted(len(homes), 'client', 'clients')} at {at}, {moves:,} of them at a new broker"


def _by_hand(deployment: Deployment) -> tuple[str, ...]:
    if not isinstance(deployment, ByHand):
        return ()
    told = "Put your passwords in the place of PASSWORD_OF_CLIENTS, PASSWORD_OF_CONTROL and so on"
    mosquitto = ", then hash those of *.passwords with `mosquitto_passwd -U FILE`"
    return (f"{told}{mosquitto if deployment.substrate == 'mosquitto' else ''}.",)


def _where(deployment: Deployment) -> Path | None:
    """The folder of a network's files; None where there is no network file."""
    return None if isinstance(deployment, ByHand) else deployment.files_folder


def present_files(deployment: Deployment) -> dict[str, str]:
    """Those of a network's configuration files that are there, of all colours."""
    where = _where(deployment)
    if where is None:
        return {}
    if deployment.substrate == "nats":
        names = [name for broker in deployment.brokers for name in nats_files.names_of(broker).values()]
    else:
        each = [mosquitto_files.names_of(broker, c) for broker in deployment.brokers for c in (0, 1)]
        names = [name for some in each for name in some.values()]
    return read_files(where, names)


def _secrets(deployment: Deployment) -> frozenset[str]:
    """The passwords of a network, so that they can be masked."""
    if isinstance(deployment, ByHand):
        return frozenset()
    held = deployment.credentials
    roles = [role for role in type(held).model_fields if getattr(held, role)]
    logins = [deployment.login(role, c) for role in roles for c in range(len(deployment.colours))]
    return frozenset(who.password for who in logins if who.password)


MAKERS: dict[Target, Callable[[Planned, Deployment | None, Path, ExportOptions], Made]] = {
    "nats": make_nats,
    "mosquitto": make_mosquitto,
    "clients": make_clients,
    "dns": make_dns,
}
"""How the files for each target are made."""
