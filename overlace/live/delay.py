"""Latency for links on one machine: a proxy before the link port of each broker, which passes bytes on later.

Run as a process of its own: `python -m overlace.live.delay` reads a JSON list of [listen port, target port, seconds]
from standard input and serves until it is ended.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys

HOST = "127.0.0.1"
CHUNK = 1 << 16
HELD = 256
"""Chunks under way in a direction, at most: beyond it the sender waits."""


async def serve(listen: int, target: int, seconds: float) -> asyncio.Server:
    """Listen, and pass on what comes, each way so many seconds later."""

    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            there, back = await asyncio.open_connection(HOST, target)
        except OSError:
            writer.close()
            return
        ways = [asyncio.create_task(pass_on(*way, seconds)) for way in ((reader, back), (there, writer))]
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        for each in ways:
            each.cancel()
        await asyncio.gather(*ways, return_exceptions=True)
        writer.close()
        back.close()

    return await asyncio.start_server(take, HOST, listen)


async def pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, seconds: float) -> None:
    """Pass bytes on in order, each as long after it came."""
    now = asyncio.get_running_loop().time
    held: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(HELD)

    async def write() -> None:
        while True:
            due, data = await held.get()
            if (wait := due - now()) > 0:
                await asyncio.sleep(wait)
            if not data:
                return
            writer.write(data)
            await writer.drain()

    writing = asyncio.create_task(write())
    try:
        while True:
            data = await reader.read(CHUNK)
            await held.put((now() + seconds, data))
            if not data:
                break
        await writing
    except OSError:
        pass
    finally:
        writing.cancel()
        with contextlib.suppress(asyncio.CancelledError, OSError):
            await writing


async def main(proxies: list[tuple[int, int, float]]) -> None:
    """Serve all proxies until ended."""
    servers = [await serve(*each) for each in proxies]
    await asyncio.gather(*(each.serve_forever() for each in servers))


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(main(json.load(sys.stdin)))
