"""How many messages `record --how estimated` has at a wrong publisher, under a load of plain clients.

Seven NATS servers on this machine, 40 clients of nats-py with Zipf rates, about 300 messages/s, one to three subjects
each, a wildcard, a queue group, requests and a subject that nobody wants; the load keeps the tally. Wrong is half of
what estimate and tally differ by, over all (publisher, topic), of the messages that somebody received.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from protocol import table, write

sys.path.insert(0, str(Path(__file__).parent.parent))

from overlace.live import local
from overlace.live.counters import Estimate, Sampler, estimate
from overlace.live.servers import find_program

if TYPE_CHECKING:
    from tests.live.plain import PlainLoad

TOLD = """`wrong` is what `record --how estimated` writes: counters read four times a second, those of links among
them. Beside it the same recording with one look a second, without the counters of links (as where brokers are no
leafnodes), and shares in proportion: every topic by what clients sent in all. `two halves differ` is what the
recording itself says of how sure it is: the share of messages that fits of every other tick have at different
publishers."""
FAILS = """The second client of each pair publishes whenever the first does, on subjects of its own. Counters cannot
tell the two apart, so that they share by what they sent; the notes of a recording name them. At different brokers the
counters of links do."""
SECONDS = 60.0
SEEDS = (7, 11, 23)


async def run(seed: int, seconds: float, pairs: bool = False) -> tuple[PlainLoad, Sampler]:
    """A load, and the counters that were read meanwhile."""
    from tests.live.plain import PlainLoad

    with tempfile.TemporaryDirectory() as folder:
        deployment = local.up(Path(folder) / "net", local.LocalOptions(brokers=7, seed=seed), bound=True)
        try:
            load = PlainLoad(deployment, seed=seed)
            if pairs:
                load.pair_up()
            async with load.connect(), Sampler(deployment) as sampler:
                await load.run(seconds)
        finally:
            local.down(deployment)
    return load, sampler


def wrong(found: Estimate, load: PlainLoad) -> str:
    """The share of messages at a wrong publisher."""
    from tests.live.plain import found_of, wrong_share

    return f"{wrong_share(found_of(found), load.sent):.1%}"


def main(seconds: float = SECONDS) -> None:
    """Write the page."""
    from tests.live.plain import in_proportion, wrong_share

    rows, together = [], []
    for seed in SEEDS:
        load, sampler = asyncio.run(run(seed, seconds))
        looks = sampler.snapshots
        found = sampler.estimate()
        slow = estimate([*looks[:-1:4], looks[-1]])
        blind = estimate([each._replace(links={}) for each in looks])
        plain = wrong_share(in_proportion(load.sent), load.sent)
        rows.append(
            [str(seed), f"{found.sent:,}", f"{len(looks):,}", wrong(found, load), wrong(slow, load), wrong(blind, load),
             f"{plain:.1%}", f"{found.spread:.1%}", f"{found.unheard:,}"]
        )  # fmt: skip
        load, sampler = asyncio.run(run(seed, seconds, pairs=True))
        found = sampler.estimate()
        named = {name for names in found.together for name in names}
        count = sum(set(pair) <= named for pair in load.pairs)
        together.append([str(seed), f"{found.sent:,}", wrong(found, load), f"{found.spread:.1%}",
                         f"{count} of {len(load.pairs)}"])  # fmt: skip
    head = ["seed", "messages", "looks", "wrong", "a look a second", "without links", "in proportion",
            "two halves differ", "unheard"]  # fmt: skip
    pairs = ["seed", "messages", "wrong", "two halves differ", "pairs that are named"]
    parts = [
        (__doc__ or "").partition("\n\n")[2].strip(),
        f"## After {seconds:g} s\n\n{table(head, rows)}",
        TOLD,
        f"## Where it fails: ten pairs of clients at one broker that publish together\n\n{table(pairs, together)}",
        FAILS,
    ]
    write(__file__, "Flows estimated from counters", parts)


if __name__ == "__main__":
    if find_program("nats") is None:
        print("no nats-server on this machine (make live): nothing measured")
        sys.exit(0)
    main(float(sys.argv[1]) if len(sys.argv) > 1 else SECONDS)
