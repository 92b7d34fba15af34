"""Adapting a running network to its traffic on the command line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING

from overlace.cli.console import IN_JSON, NETWORK, AsJson, NetworkPath, bar, err, out, shown
from overlace.cli.options import options_from
from overlace.extras import require
from overlace.live.options import AdaptOptions
from overlace.stopping import asked
from overlace.wording import counted

if TYPE_CHECKING:
    from overlace.model import Progress


@options_from(AdaptOptions)
def adapt_command(options: AdaptOptions, network: NetworkPath = NETWORK, as_json: AsJson = False) -> None:
    """Record, plan and apply window by window, without losing a message; a line a window. Ctrl-C ends it."""
    from overlace.live.adapt import Adaptation, RunningSite
    from overlace.live.deployment import read_deployment

    if options.metrics:
        require("live", "prometheus_client")
        from overlace.live.exposed import Exposed

    adaptation = Adaptation(RunningSite(read_deployment(network)), options)
    with Exposed(options.metrics) if options.metrics else nullcontext() as exposed, adaptation.held():
        for note in adaptation.memory.notes:
            err.print(f"[yellow]note:[/yellow] {shown(note)}")
        while adaptation.goes_on():
            with _watched(f"window {adaptation.kept.number + 1}") as progress:
                found = adaptation.window(progress)
            if found is None:
                break
            if exposed:
                exposed.take(found)
            if as_json:
                print(json.dumps(found.document(), ensure_ascii=False).translate(IN_JSON), flush=True)
            else:
                out.print(shown(found.line()))
        if asked():
            count = counted(adaptation.done, "window", "windows")
            err.print(f"[dim]ended after {count}; started again it goes on from {shown(adaptation.memory.path)}[/dim]")


@contextmanager
def _watched(what: str) -> Iterator[Progress | None]:
    """A progress bar where somebody watches."""
    if not err.is_terminal:
        yield None
        return
    with bar(what) as progress:
        yield progress
