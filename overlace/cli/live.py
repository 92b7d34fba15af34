"""Running broker networks on the command line: up, down, status, traffic, record, export."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
import typer.core
from rich.table import Table

from overlace.cli.console import NETWORK, AsJson, Force, NetworkPath, Seed, answer, bar, err, example, shown
from overlace.cli.live_adapt import adapt_command
from overlace.cli.live_apply import apply_command, resume_command, rollback_command
from overlace.cli.live_export import export_command
from overlace.cli.options import options_from
from overlace.errors import BadNetwork, BadParameter
from overlace.live.options import LocalOptions, RecordOptions, TrafficOptions
from overlace.wording import counted

if TYPE_CHECKING:
    from overlace.live.adapter import Shown
    from overlace.live.deployment import Deployment

SECRET = re.compile(
    r"(?i)^--?(password|passwd|pass|pw|token|secret|nkey|seed-file|creds|credentials)\b|//[^/\s]*:[^/\s]*@"
)
"""Options that would hold a secret, and addresses with one in them."""


class LiveGroup(typer.core.TyperGroup):
    """The live commands; a secret on the command line is refused, since everybody on the machine could read it."""

    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:  # type: ignore[override]
        """The words, unless one would be a secret."""
        for word in args:
            if found := SECRET.search(word):
                what = found[0].lstrip("-") if word.startswith("-") else "an address with a password in it"
                raise BadParameter(
                    f"{what}: everybody on this machine can read a command line. Name a variable or a file in the "
                    "network file: password_env = 'VARIABLE' or password_file = 'PATH'."
                )
        return super().parse_args(ctx, args)


live = typer.Typer(
    cls=LiveGroup,
    no_args_is_help=True,
    rich_markup_mode="rich",
    help="Running broker networks: record them as traces, and carry plans out. Try it on this machine: "
    "[bold]overlace live up[/bold], then [bold]live traffic[/bold] and [bold]live record[/bold].",
)


@live.command("up", epilog=example("overlace live up --brokers 7 --delay 3ms"))
@options_from(LocalOptions)
def up_command(
    options: LocalOptions,
    folder: Annotated[Path, typer.Option("--out", help="output folder, with the network file")] = NETWORK,
    as_json: AsJson = False,
) -> None:
    """Start a broker network on this machine, on loopback, with generated passwords."""
    from overlace.live.local import down, up

    with bar("up") as progress:
        progress(0.1, f"starting: {counted(options.brokers, 'broker', 'brokers')}")
        deployment = up(folder, options)
        found = _look(deployment, links=options.brokers - 1)
        if len(found.links[0]) < options.brokers - 1:
            down(deployment)
            raise BadNetwork(
                f"{len(found.links[0])} of {counted(options.brokers - 1, 'link', 'links')} came up, so it was ended. "
                f"{deployment.folder / 'run'} has the logs."
            )
    document = {"network": str(deployment.path), **_document(found)}
    typed = shlex.quote(str(folder))
    lines = [
        f"{counted(len(found.brokers), 'broker', 'brokers')} of {options.substrate}, "
        f"{counted(len(found.links[0]), 'link', 'links')}",
        shown(f"network  {_relative(deployment.path)}"),
        shown(
            f"Put a load on it: overlace live traffic --network {typed}; end it: overlace live down --network {typed}"
        ),
    ]
    answer(as_json, document, *lines)


@live.command("demo", epilog=example("overlace live demo --out live-demo"))
def demo_command(
    out: Annotated[Path, typer.Option("--out", help="output folder")] = Path("live-demo"),
    substrate: Annotated[Literal["nats", "mosquitto"], typer.Option(help="what the brokers are")] = "nats",
    seed: Seed = 7,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """A network on this machine, recorded, planned and changed under a load, in about a minute."""
    from overlace.live.demo import live_demo

    with bar("live demo") as progress:
        options = LocalOptions(substrate=substrate, delay=3.0, seed=seed)
        found = live_demo(out, options, seed, force=force, progress=progress)
    report = shown(f"report     {found.result.report}")
    answer(as_json, found.document(), *map(shown, found.lines()), report)


@live.command("down", epilog=example("overlace live down --network net"))
def down_command(network: NetworkPath = NETWORK, as_json: AsJson = False) -> None:
    """End the brokers that `live up` has started, by their process ids."""
    from overlace.live.deployment import read_deployment
    from overlace.live.local import down

    ended = down(read_deployment(network))
    names = [each.name for each in ended]
    answer(as_json, {"ended": names}, f"ended {counted(len(names), 'process', 'processes')}")


@live.command("status", epilog=example("overlace live status --network net"))
def status_command(network: NetworkPath = NETWORK, as_json: AsJson = False) -> None:
    """Brokers, links and clients at their brokers, as the brokers say; exit code 1 when one is silent."""
    from overlace.live.deployment import read_deployment

    deployment = read_deployment(network)
    found = _look(deployment)
    answer(as_json, _document(found), *status_lines(found, deployment))
    if found.silent:
        raise typer.Exit(1)


def _look(deployment: Deployment, links: int | None = None) -> Shown:
    """What the brokers say; with a number of links, once so many are wired."""
    import asyncio
    import time

    from overlace.live.adapter import Shown as Seen
    from overlace.live.adapter import adapter_for
    from overlace.live.servers import PATIENCE

    async def look() -> Seen:
        adapter = adapter_for(deployment)
        try:
            found = await adapter.shown()
            deadline = time.monotonic() + PATIENCE
            while links is not None and len(found.links[0]) < links and time.monotonic() < deadline:
                await asyncio.sleep(0.05)
                found = await adapter.shown()
            return found
        finally:
            await adapter.close()

    return asyncio.run(look())


def _document(found: Shown) -> dict[str, object]:
    return {
        "brokers": dict(found.brokers),
        "silent": found.silent,
        "live": found.live,
        "links": [sorted(map(list, each)) for each in found.links],
        "clients": {
            name: {
                "homes": list(seen.homes),
                "live": seen.live,
                "filters": [list(each) for each in seen.filters],
                "wrapped": seen.wrapped,
            }
            for name, seen in sorted(found.clients.items())
        },
        "nameless": found.nameless,
    }


MOST = 40
"""Clients that are listed one by one."""


def status_lines(found: Shown, deployment: Deployment) -> list[str | Table]:
    """A network as its brokers show it."""
    live = found.live
    at: dict[str, list[str]] = {name: [] for name in found.brokers}
    for name, seen in found.clients.items():
        if (home := seen.homes[seen.live]) in at:
            at[home].append(name)
    table = Table("broker", "version", "address", "linked to", "clients", box=None, pad_edge=False, header_style="dim")
    for name, version in found.brokers.items():
        near = sorted(other for link in found.links[live] if name in link for other in link if other != name)
        state = shown(version) if version else "[red]silent[/red]"
        address = deployment.client_address(name, live if deployment.substrate == "mosquitto" else 0)
        table.add_row(shown(name), state, shown(address), shown(", ".join(near)), f"{len(at[name]):,}")
    lines: list[str | Table] = [table]
    wrapped = sum(seen.wrapped for seen in found.clients.values())
    lines.append(
        f"{counted(len(found.clients), 'client', 'clients')}, {wrapped:,} of them follow orders; "
        f"colour {shown(deployment.colours[live])} is live with {counted(len(found.links[live]), 'link', 'links')}"
    )
    if found.nameless:
        lines.append(f"{counted(found.nameless, 'connection', 'connections')} not matched to a client")
    for name, seen in sorted(found.clients.items())[:MOST]:
        home = seen.homes[seen.live] or "?"
        lines.append(shown(f"  {name} at {home}{'' if seen.wrapped else ' (does not follow orders)'}"))
    if len(found.clients) > MOST:
        lines.append(f"  ... and {len(found.clients) - MOST:,} more (--json lists them)")
    if found.silent:
        lines.append(f"[red]silent:[/red] {shown(', '.join(found.silent))}")
    return lines


@live.command("traffic", epilog=example("overlace live traffic --network net --seconds 30 --seed 7"))
@options_from(TrafficOptions)
def traffic_command(options: TrafficOptions, network: NetworkPath = NETWORK, as_json: AsJson = False) -> None:
    """Put a seeded load on a network, and account for every message: sent, delivered, lost, duplicated, reordered."""
    from overlace.live.deployment import read_deployment
    from overlace.live.traffic import run_load

    with bar("traffic") as progress:
        tally = run_load(read_deployment(network), options, progress)
    answer(as_json, tally.document(), *map(shown, tally.lines()))


@live.command("record", epilog=example("overlace live record --network net --seconds 60 --out trace"))
@options_from(RecordOptions)
def record_command(
    options: RecordOptions,
    out: Annotated[str, typer.Option("--out", help="output folder, the trace", metavar="TRACE")],
    network: NetworkPath = NETWORK,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Record a running network as a trace that `overlace optimize` plans from."""
    from overlace.live.deployment import read_deployment
    from overlace.live.record import record

    with bar("record") as progress:
        found = record(read_deployment(network), out, options, progress, force=force)
    for note in found.notes:
        err.print(f"[yellow]note:[/yellow] {shown(note)}")
    answer(
        as_json,
        {"trace": out, **found.about, "notes": found.notes},
        shown(f"recorded  {found.summary()}"),
        shown(f"trace     {out}"),
        shown(f"Plan from it: overlace optimize {shlex.quote(out)} --out run"),
    )


live.command("export", epilog=example("overlace live export run/plans/ID --to nats --network net --out files"))(
    export_command
)


live.command("apply", epilog=example("overlace live apply run/plans/ID --network net --yes"))(apply_command)
live.command("adapt", epilog=example("overlace live adapt --network net --every 60 --min-gain 5%"))(adapt_command)
live.command("resume", epilog=example("overlace live resume --network net"))(resume_command)
live.command("rollback", epilog=example("overlace live rollback --network net"))(rollback_command)


def _relative(path: Path) -> Path:
    """A path as people would type it."""
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
