"""Bringing our files to a broker: into the folder on this machine, or by the command that the network file names."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from overlace.errors import BadNetwork
from overlace.live.deployment import Deployment
from overlace.live.files import read_files, write_files

PATIENCE = 60.0
"""Seconds that a command of the network file may take."""


async def deploy(deployment: Deployment, broker: str, files: Mapping[str, str]) -> None:
    """Bring files to a broker; those on this machine that are the same already stay as they are."""
    words = deployment.of(broker).deploy
    if words is None:
        folder = deployment.files_folder
        there = read_files(folder, files) if folder.is_dir() else {}
        if changed := {name: text for name, text in files.items() if there.get(name) != text}:
            write_files(folder, changed)
        return
    with tempfile.TemporaryDirectory() as folder_name:
        write_files(Path(folder_name), files)
        for name in files:
            await run_command(words, {"file": str(Path(folder_name) / name)}, f"deploy of {broker}")


async def run_command(words: Sequence[str], values: Mapping[str, str], what: str) -> None:
    """Run a command of the network file, without a shell; refused if it fails."""
    filled = []
    for word in words:
        for key, value in values.items():
            word = word.replace(f"{{{key}}}", value)
        filled.append(word)
    try:
        made = await asyncio.create_subprocess_exec(
            *filled, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
        )
    except OSError as error:
        raise BadNetwork(f"{what}: {words[0]} cannot be run: {error.strerror}") from None
    try:
        told, _ = await asyncio.wait_for(made.communicate(), PATIENCE)
    except TimeoutError:
        made.kill()
        raise BadNetwork(f"{what}: {words[0]} took longer than {PATIENCE:g} s") from None
    if made.returncode:
        last = (told.decode(errors="replace").strip().splitlines() or ["it said nothing"])[-1]
        raise BadNetwork(f"{what}: {words[0]} ended with {made.returncode}: {last}")
