"""A plan to the files that carry it out: broker configuration, a map of clients, DNS records.

What is written is what `apply` would write, in one colour, beside the difference against what is there and its undo.
Everything is checked and made before the first file is written: the plan is whole and a tree, the network has all its
brokers, nothing else lies in the output folder.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

from overlace.errors import BadNetwork, BadParameter
from overlace.live.addresses import read_addresses
from overlace.live.deployment import Deployment, Substrate, read_deployment
from overlace.live.files import MASK, open_folder, remove_files, undo_files, unified_difference, write_files
from overlace.live.options import ExportOptions
from overlace.live.planned import Planned, read_planned, refuse_no_tree
from overlace.live.targets import MAKERS, Made, Target
from overlace.live.wiring import Pair
from overlace.trace.runs import read_json

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


def export(plan: Path, to: Target, out: Path, options: ExportOptions = OPTIONS, *, force: bool = False) -> Exported:
    """Write the files that carry a plan out into a folder; nothing is written if anything is wrong."""
    planned = read_planned(plan, Path(options.run) if options.run else None)
    deployment = find_network(to, options)
    if to in ("nats", "mosquitto"):
        refuse_no_tree(planned)
    if deployment is not None:
        check_network(planned, deployment)
    made = MAKERS[to](planned, deployment, out.absolute(), options)
    notes = list(made.notes)
    if "filters" in options.given and to != "mosquitto":
        notes.insert(
            0, "--filters is for Mosquitto: NATS carries by interest" if to == "nats" else "--filters: not used"
        )
    earlier = check_output(out, force)
    difference = ""
    if made.where is not None:
        difference = unified_difference(made.there, made.later, made.secrets, made.compared)
    texts = {**made.texts, "README.txt": readme_text(planned, to, made, notes)}
    undo: dict[str, str] = {}
    if made.where is not None:
        texts["changes.diff"] = difference
        undo = undo_files(made.there, made.later, made.where)
    _write(out, texts, undo, earlier, planned, to)
    new, gone = sorted(planned.links - planned.before), sorted(planned.before - planned.links)
    if to not in ("nats", "mosquitto"):
        new, gone = [], []
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
