"""Carrying plans out on the command line: apply, resume, rollback."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from overlace.cli.console import NETWORK, AsJson, NetworkPath, PlanPath, answer, bar, err, shown
from overlace.cli.options import options_from
from overlace.live.options import ApplyOptions

if TYPE_CHECKING:
    from overlace.live.apply import Applied, Intent

Yes = Annotated[bool, typer.Option("--yes", help="carry it out; without it nothing is changed")]
COLOURS = {"+": "green", "-": "red", "~": "yellow"}


@options_from(ApplyOptions)
def apply_command(
    plan: PlanPath, options: ApplyOptions, network: NetworkPath = NETWORK, yes: Yes = False, as_json: AsJson = False
) -> None:
    """Carry a plan out on a running network without losing a message; without --yes say what would be done."""
    from overlace.live.apply import apply, look
    from overlace.live.deployment import read_deployment

    deployment = read_deployment(network)
    if not yes:
        intent = look(plan, deployment, options)
        lines = []
        for line in intent.lines(len(deployment.brokers)):
            colour = COLOURS.get(line[0])
            lines.append(f"[{colour}]{shown(line)}[/{colour}]" if colour else shown(line))
        document = {
            "plan": intent.plan,
            "moves": {name: list(each) for name, each in intent.moves.items()},
            "new_links": intent.new_links,
            "old_links": intent.old_links,
            "absent": intent.absent,
            "unknown": intent.unknown,
            "unwrapped": intent.unwrapped,
            "retained": intent.retained,
            "changed": False,
        }
        answer(as_json, document, *lines, "nothing was changed. Carry it out with --yes")
        return
    with bar("apply") as progress:
        done = apply(plan, deployment, options, progress, _warn)
    _tell(as_json, done)


def _warn(intent: Intent) -> None:
    """What will be lost, before anything is changed."""
    if intent.unwrapped:
        err.print(shown(intent.loss()))


def resume_command(network: NetworkPath = NETWORK, as_json: AsJson = False) -> None:
    """Go on with a plan that was being carried out, from where the brokers are."""
    from overlace.live.apply import resume
    from overlace.live.deployment import read_deployment

    with bar("resume") as progress:
        done = resume(read_deployment(network), ApplyOptions(), progress)
    _tell(as_json, done)


def rollback_command(network: NetworkPath = NETWORK, as_json: AsJson = False) -> None:
    """Take back a plan that was being carried out; possible until clients have left the old overlay."""
    from overlace.live.apply import rollback
    from overlace.live.deployment import read_deployment

    with bar("rollback") as progress:
        done = rollback(read_deployment(network), ApplyOptions(), progress)
    _tell(as_json, done)


def _tell(as_json: bool, done: Applied) -> None:
    document = {**done._asdict(), "journal": str(done.journal), "changed": True}
    phases = ", ".join(f"{name} {seconds:.2f} s" for name, seconds in done.phases.items())
    lossy = [shown(f"lossy     {done.lossy_line()}")] if done.lossy else []
    answer(as_json, document, shown(f"phases    {phases}"), *lossy, shown(f"done      {done.line()}"))
    if done.landed < done.clients or done.links_landed < done.links:
        raise typer.Exit(1)
