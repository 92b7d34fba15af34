"""How many messages `record --how estimated` has at a wrong publisher, under a load of plain clients."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from protocol import table

from overlace.live.counters import Estimate, Sampler, estimate
from recording.networks import SEEDS, network

if TYPE_CHECKING:
    from tests.live.plain import PlainLoad

SECONDS = 60.0


async def run(seed: int, seconds: float, pairs: bool = False) -> tuple[PlainLoad, Sampler]:
    """A load, and the counters that were read meanwhile."""
    from tests.live.plain import PlainLoad

    with network("nats", seed) as deployment:
        load = PlainLoad(deployment, seed=seed)
        if pairs:
            load.pair_up()
        async with load.connect(), Sampler(deployment) as sampler:
            await load.run(seconds)
    return load, sampler


def wrong(found: Estimate, load: PlainLoad) -> str:
    """The share of messages at a wrong publisher."""
    from tests.live.plain import found_of, wrong_share

    return f"{wrong_share(found_of(found), load.sent):.1%}"


def measure(seconds: float = SECONDS) -> tuple[str, str]:
    """(with independent publishers, with pairs that publish together), tables."""
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
    return table(head, rows), table(pairs, together)
