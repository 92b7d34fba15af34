"""A plan to the files that carry it out: broker configuration, a map of clients, DNS records.

What is written is what `apply` would write, in one colour, beside the difference against what is there and its undo.
Everything is checked and made before the first file is written: the plan is whole and a tree, the network has all its
brokers, nothing else lies in the output folder.
"""

from __future__ import annotations

import getpass
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal, NamedTuple

from overlace.errors import BadNetwork, BadParameter, Unknown
from overlace.live import maps, mosquitto_files, nats_files
from overlace.live.addresses import ByHand, placeholder, read_addresses
from overlace.live.deployment import Deployment, Substrate, read_deployment
from overlace.live.files import MASK, open_folder, read_files, remove_files, undo_files, unified_difference, write_files
from overlace.live.filters import bridge_lines, is_lost, link_filters
from overlace.live.local import own_listens
from overlace.live.options import ExportOptions
from overlace.live.planned import Planned, read_planned, refuse_no_tree
from overlace.live.subscribed import read_subscribed
from overlace.live.wiring import Pair, dials
from overlace.trace.runs import read_json
from overlace.wording import counted

Target = Literal["nats", "mosquitto", "clients", "dns"]
MARK = "export.json"
"""What an output folder of ours holds."""

ENDINGS = (".conf", ".passwords", ".acl", ".csv", ".zone", ".diff", ".txt")
OPTIONS = ExportOptions()


class Exported(NamedTuple):
    """What was written."""

    folder: Path
    files: tuple[str, ...]
    summary: tuple[str, ...]  # in lines
    difference: str  # against what is there, secrets masked
    notes: tuple[str, ...]
    new: tuple[Pair, ...] = ()  # links that come
    gone: tuple[Pair, ...] = ()


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


def export(plan: Path, to: Target, out: Path, options: ExportOptions = OPTIONS, *, force: bool = False) -> Exported:
    """Write the files that carry a plan out into a folder; nothing is written if anything is wrong."""
    planned = read_planned(plan, Path(options.run) if options.run else None)
    deployment = find_network(to, options)
    if to in ("nats", "mosquitto"):
        refuse_no_tree(planned)
    if deployment is not None:
        check_network(planned, deployment)
    makers: dict[Target, Callable[[Planned, Deployment | None, Path, ExportOptions], Made]] = {
        "nats": make_nats,
        "mosquitto": make_mosquitto,
        "clients": make_clients,
        "dns": make_dns,
    }
    made = makers[to](planned, deployment, out.absolute(), options)
    notes = list(made.notes)
    if "filters" in options.given and to != "mosquitto":
        notes.insert(
            0, "--filters is for Mosquitto: NATS carries by interest" if to == "nats" else "--filters: not used"
        )
    earlier = check_output(out, force)
    difference = unified_difference(made.there, made.later, made.secrets) if made.where is not None else ""
    texts = {**made.texts, "README.txt": readme_text(planned, to, made, notes)}
    undo: dict[str, str] = {}
    if made.where is not None:
        texts["changes.diff"] = difference
        undo = undo_files(made.there, made.later, made.where)
    _write(out, texts, undo, earlier, planned, to)
    new, gone = (sorted(each) for each in (planned.links - planned.before, planned.before - planned.links))
    return Exported(out, tuple(sorted(texts)), made.summary, difference, tuple(notes), tuple(new), tuple(gone))


def find_network(to: Target, options: ExportOptions) -> Deployment | None:
    """The network that the files are for; refused if it is of another kind, None where a map needs none."""
    if options.network and options.addresses:
        raise BadParameter("--network and --addresses both say where brokers are: give one of them")
    if options.network:
        found = read_deployment(options.network)
        if to in ("nats", "mosquitto") and found.substrate != to:
            raise BadNetwork(
                f"{found.path}: a network of {found.substrate}; expected one of {to}. Use --to {found.substrate}."
            )
        return found
    if options.addresses:
        substrate: Substrate = "nats" if to == "nats" else "mosquitto"
        return read_addresses(Path(options.addresses), substrate, options.colour or "BLUE")
    if to != "clients":
        raise BadParameter(f"--to {to} needs to know where brokers are: --network FILE, or a table --addresses TABLE")
    return None


def check_network(planned: Planned, deployment: Deployment) -> None:
    """Refused unless the network has all brokers of the plan, and allows its new links."""
    missing = [name for name in planned.brokers if name not in deployment.brokers]
    if missing:
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise BadNetwork(f"{deployment.path} has no broker {missing[0]!r}{more}, which the plan has. Add it there.")
    for left, right in sorted(planned.links - planned.before):
        if not deployment.may_link(left, right):
            raise BadNetwork(f"{deployment.path}: allow_link does not allow the plan's new link {left} - {right}.")


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
    there = _present(
        deployment, [name for broker in deployment.brokers for name in nats_files.names_of(broker).values()]
    )
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
        *_by_hand(deployment),
    )
    notes = _unplanned(planned, deployment)
    return Made(texts, summary, how, notes, there, texts, _where(deployment), _secrets(deployment))


def make_mosquitto(planned: Planned, deployment: Deployment | None, out: Path, options: ExportOptions) -> Made:
    """Brokers of one colour, with bridges that carry what is subscribed beyond them."""
    assert deployment is not None
    both = [(broker, c) for broker in deployment.brokers for c in range(len(deployment.colours))]
    present = _present(deployment, [name for each in both for name in mosquitto_files.names_of(*each).values()])
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
    count = sum(map(len, lines.values()))
    summary = (
        f"{counted(len(deployment.brokers), 'broker', 'brokers')} of Mosquitto, "
        f"{counted(len(planned.links), 'bridge', 'bridges')} with {counted(count, 'filter', 'filters')} "
        f"({options.filters}), colour {deployment.colours[colour]}",
    )
    how = (
        f"Start a broker with `mosquitto -c SLUG.{colour}.conf`, those that are dialled first.",
        f"Paths in them are of {options.place or out}; --place FOLDER is for another.",
        *_by_hand(deployment),
    )
    notes = (*notes, *_unplanned(planned, deployment))
    return Made(texts, summary, how, notes, there, later, _where(deployment), _secrets(deployment))


def make_clients(planned: Planned, deployment: Deployment | None, out: Path, options: ExportOptions) -> Made:
    """A table of clients and brokers, and the rule for newcomers."""
    homes, odd = maps.split_names(planned.homes)
    newcomers = planned.document.newcomers
    texts = {"clients.csv": maps.clients_text(homes, newcomers), "newcomers.csv": maps.newcomers_text(newcomers)}
    there: dict[str, str] = {}
    where = deployment.place(deployment.homes) if deployment is not None and deployment.homes else None
    if where is not None and where.is_file():
        there = {"clients.csv": where.read_text(encoding="utf-8", errors="replace")}
    summary = (
        f"{counted(len(homes), 'client', 'clients')} at {counted(len(set(homes.values())), 'broker', 'brokers')}",
    )
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
    there = _present(deployment, [])
    colour = find_colour(deployment, options, there) if options.colour and not isinstance(deployment, ByHand) else 0
    rows = maps.dns_rows(everybody, lambda broker: deployment.client_address(broker, colour), service)
    texts = {
        "clients.zone": maps.zone_text(rows, f"Written by Overlace from plan {planned.name}"),
        "records.csv": maps.table_text(("client", "name", "type", "value"), rows),
    }
    summary = (f"{counted(len(rows), 'record', 'records')} of {counted(len(homes), 'client', 'clients')}",)
    how = (
        "clients.zone has a name for every client that leads to its broker, and a record of the service there;",
        "records.csv is the same as a table. A client that looks its name up again lands at its new home.",
        *maps.newcomers_words(newcomers)[:1],
    )
    return Made(texts, summary, how, _odd(odd))


def _odd(count: int) -> tuple[str, ...]:
    left_out = f"{counted(count, 'client', 'clients')} left out: their names are empty or hold control characters"
    return (left_out,) if count else ()


def _unplanned(planned: Planned, deployment: Deployment) -> tuple[str, ...]:
    """A note on brokers that the plan does not know."""
    apart = sorted(set(deployment.brokers) - set(planned.brokers))
    if not apart:
        return ()
    return (f"no link for {', '.join(apart[:5])}{', ...' if len(apart) > 5 else ''}: not in the plan",)


def _by_hand(deployment: Deployment) -> tuple[str, ...]:
    if not isinstance(deployment, ByHand):
        return ()
    told = "Put your passwords in the place of PASSWORD_OF_CLIENTS, PASSWORD_OF_CONTROL and so on"
    mosquitto = ", then hash those of *.passwords with `mosquitto_passwd -U FILE`"
    return (f"{told}{mosquitto if deployment.substrate == 'mosquitto' else ''}.",)


def _where(deployment: Deployment) -> Path | None:
    """The folder of a network's files; None where there is no network file."""
    return None if isinstance(deployment, ByHand) else deployment.files_folder


def _present(deployment: Deployment, names: list[str]) -> dict[str, str]:
    """Those of our files that are there."""
    where = _where(deployment)
    return read_files(where, names) if where is not None and names else {}


def _secrets(deployment: Deployment) -> frozenset[str]:
    """The passwords of a network, so that they can be masked."""
    if isinstance(deployment, ByHand):
        return frozenset()
    held = deployment.credentials
    roles = [role for role in type(held).model_fields if getattr(held, role)]
    logins = [deployment.login(role, c) for role in roles for c in range(len(deployment.colours))]
    return frozenset(who.password for who in logins if who.password)


def readme_text(planned: Planned, to: Target, made: Made, notes: list[str]) -> str:
    """What the files are, how they are used, and what to know."""
    lines = [f"Files for {to}, written by Overlace from plan {planned.name} (digest {planned.document.digest})."]
    lines += [f"- {each}" for each in made.summary]
    lines += ["", *made.how, ""]
    if made.where is not None:
        lines.append(f"changes.diff is the difference to {made.where}, with secrets as {MASK}; undo/ takes it back.")
    lines += [f"Note: {note}" for note in notes]
    return "\n".join(lines).rstrip() + "\n"


def check_output(out: Path, force: bool) -> dict[str, list[str]]:
    """The files of an earlier export in the output folder; refused if it holds other things, unless forced to."""
    if not out.exists() and not out.is_symlink():
        return {}
    with open_folder(out):
        pass
    if not any(out.iterdir()):
        return {}
    ours = (out / MARK).is_file() and not (out / MARK).is_symlink()
    if not force:
        what = "an export already" if ours else "other things"
        raise BadNetwork(f"{out} holds {what}. Choose another folder, or --force to write there; others' files stay.")
    about = read_json(out / MARK) if ours else {}
    names = {key: about.get(key) for key in ("files", "undo")}
    return {
        key: [name for name in listed if isinstance(name, str) and name.endswith(ENDINGS) and "/" not in name]
        for key, listed in names.items()
        if isinstance(listed, list)
    }


def _write(
    out: Path, texts: dict[str, str], undo: dict[str, str], earlier: dict[str, list[str]], planned: Planned, to: Target
) -> None:
    about = {"plan": planned.document.digest, "to": to, "files": sorted(texts), "undo": sorted(undo)}
    if undo:
        with open_folder(out, make=True):
            write_files(out / "undo", undo)
    write_files(out, {**texts, MARK: json.dumps(about, indent=1, ensure_ascii=False) + "\n"})
    remove_files(out, set(earlier.get("files", ())) - set(texts))
    remove_files(out / "undo", set(earlier.get("undo", ())) - set(undo))
