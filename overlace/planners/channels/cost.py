"""What a cut into channels costs: D, the traffic that subscribers receive (PART10 §5.1, R6).

A publisher is connected to exactly the channels that hold a combination it offers, and publishes each
message in all of them; a subscriber listens to the one channel that holds its combination and
receives everything there. So D is the sum over channels of subscribers x messages. What is wanted of
it (the true positives) is the same for every cut, hence the lower D the fewer false positives.

Combinations that no channel holds share one channel of their own: with no channels at all, everybody
receives everything.
"""

from __future__ import annotations

import numpy as np

from overlace.arrays.jit import Floats, Ints, kernel
from overlace.arrays.masks import MOST_BITS, bits_of, submasks_of
from overlace.errors import BadObservation
from overlace.model import Observation, Offers, Overlay, name_of

MOST_ATTRIBUTES = 22
"""Of one advertisement: its combinations take 1 GB in a partition."""
MOST_LISTED = 1 << 23
"""Combinations of all types together: 2 GB in a partition if no two are the same."""


def cost(observation: Observation, overlay: Overlay) -> float:
    """D: messages received, over all channels."""
    subscribers, messages = channel_loads(observation, overlay)
    return float((subscribers.astype(np.float64) * messages).sum())


def channel_loads(observation: Observation, overlay: Overlay) -> tuple[Ints, Floats]:
    """(subscribers, messages) of each channel, in order of channel ids, the unassigned last."""
    attributes, messages = advertisement_types(observation.offers)
    wanted = observation.requests.attributes
    if len(wanted) == 0:
        wanted = submasks_of(attributes)
    combination = overlay.channels[:, 0]
    _, channel = np.unique(overlay.channels[:, 1], return_inverse=True)
    channels = int(channel.max()) + 1 if len(channel) else 0
    place = np.searchsorted(combination, wanted)
    held = place < len(combination)
    held[held] = combination[place[held]] == wanted[held]
    at = np.full(len(wanted), channels, dtype=np.int64)
    at[held] = channel[place[held]]
    subscribers = np.bincount(at, minlength=channels + 1).astype(np.int64)
    return subscribers, published(attributes, messages, combination, channel, channels)


def advertisement_types(offers: Offers) -> tuple[Ints, Floats]:
    """Distinct advertisements and the messages published under each: equal ones share all channels."""
    size = bits_of(offers.attributes)
    bad = np.flatnonzero((offers.attributes <= 0) | (size > MOST_ATTRIBUTES))
    if len(bad):
        row = int(bad[0])
        who = name_of("client", int(offers.publisher[row]))
        held = f"{size[row]} attributes" if offers.attributes[row] > 0 else f"mask {offers.attributes[row]}"
        raise BadObservation(
            f"offers: the advertisement of {who} (row {row}) holds {held}; expected 1 to "
            f"{MOST_ATTRIBUTES} of at most {MOST_BITS}, since all their combinations are listed"
        )
    attributes, at = np.unique(offers.attributes, return_inverse=True)
    total = int((2.0 ** bits_of(attributes) - 1).sum())
    if total > MOST_LISTED:
        row = int(size.argmax())
        who = name_of("client", int(offers.publisher[row]))
        raise BadObservation(
            f"offers: {len(attributes):,} different advertisements offer {total:,} combinations together, more than "
            f"the {MOST_LISTED:,} that are listed; the largest is that of {who} (row {row}) with {size[row]} attributes"
        )
    messages = np.bincount(at, weights=offers.messages, minlength=len(attributes))
    return attributes, messages.astype(np.float64)


@kernel
def published(attributes: Ints, messages: Floats, combination: Ints, channel: Ints, channels: int) -> Floats:
    """Messages published in each channel; the last one holds what is in none."""
    rate = np.zeros(channels + 1, dtype=np.float64)
    met = np.full(channels + 1, -1, dtype=np.int64)
    for i in range(len(attributes)):
        sub = attributes[i]
        while sub:
            at = np.searchsorted(combination, sub)
            held = at < len(combination) and combination[at] == sub
            c = channel[at] if held else channels
            if met[c] != i:
                met[c] = i
                rate[c] += messages[i]
            sub = (sub - 1) & attributes[i]
    return rate
