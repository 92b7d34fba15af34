"""Publishers that join one after the other: the setup of PART10 §5, at any size.

Each publisher takes a number of attributes, uniform between two bounds, and that many attributes of all
there are: uniformly, or by Zipf's law (attribute k with weight 1 / (k + 1) ** zipf, without replacement).
Its limit on connections is uniform between two bounds. Without `subscribers` messages are one each and requests none
(one subscriber per offered combination). With them, messages fall off as 1 / rank over the publishers in a random
order, from TOP down to at least one, and so do requests over the offered combinations.
"""

from __future__ import annotations

import numpy as np

from overlace.arrays.jit import Floats, Ints
from overlace.arrays.masks import submasks_of
from overlace.errors import BadParameter
from overlace.model import Observation, Offers, Requests

AT_ONCE = 1 << 16  # publishers drawn together
TOP = 1000  # messages of the one that sends most


def publishers(
    count: int = 1000,
    attributes: int = 10,
    size: tuple[int, int] = (3, 4),
    limits: tuple[int, int] | None = None,
    *,
    zipf: float = 0.0,
    subscribers: int = 0,
    seed: int = 0,
) -> Observation:
    """An observation after the recipe above: the same for the same arguments."""
    if not 1 <= size[0] <= size[1] <= attributes <= 63:
        raise BadParameter(
            f"size is {size[0]}..{size[1]} of {attributes} attributes: expected 1 <= least <= most <= 63"
        )
    rng = np.random.default_rng(seed)
    weight: Floats = 1.0 / np.arange(1, attributes + 1, dtype=np.float64) ** zipf
    masks = np.empty(count, dtype=np.int64)
    for first in range(0, count, AT_ONCE):
        masks[first : first + AT_ONCE] = _masks(rng, min(AT_ONCE, count - first), size, weight)
    connections = rng.integers(limits[0], limits[1] + 1, count) if limits else ()
    messages, requests = np.ones(count, dtype=np.int64), Requests()
    if subscribers:
        messages = np.maximum(1, TOP / (1.0 + rng.permutation(count))).astype(np.int64)
        offered = rng.permutation(submasks_of(np.unique(masks)))
        share = 1.0 / np.arange(1, len(offered) + 1)
        wanted = rng.choice(offered, subscribers, p=share / share.sum())
        requests = Requests(np.arange(subscribers) + count, np.sort(wanted))
    return Observation(offers=Offers(np.arange(count), masks, connections, messages), requests=requests)


def _masks(rng: np.random.Generator, count: int, size: tuple[int, int], weight: Floats) -> Ints:
    """Advertisements: the attributes with the earliest of exponential times, which is drawing without replacement."""
    sizes = rng.integers(size[0], size[1] + 1, count)
    order = np.argsort(rng.exponential(size=(count, len(weight))) / weight, axis=1)
    taken = np.arange(len(weight)) < sizes[:, None]
    return np.asarray(np.where(taken, np.int64(1) << order, 0).sum(axis=1), dtype=np.int64)
