"""What a mesh costs: first that every topic is connected, then few links (TDCD17 §II).

A mesh is topic-connected when the subscribers of each topic are one component, linked only to one
another. Each component too many weighs as much as all clients, more than the link that would join it.
"""

from __future__ import annotations

import numpy as np

from overlace.arrays.components import components_per_group
from overlace.arrays.jit import Ints, Pairs
from overlace.errors import BadOverlay
from overlace.model import Observation, Overlay


def cost(observation: Observation, overlay: Overlay) -> float:
    """clients x (components - 1, summed over the topics that have subscribers) + links."""
    apart = topic_components(observation, overlay)
    return float(observation.clients * np.maximum(apart - 1, 0).sum() + len(overlay.mesh))


def topic_components(observation: Observation, overlay: Overlay) -> Ints:
    """Into how many components the subscribers of each topic fall; 0 for a topic with none."""
    interests, mesh = observation.interests, overlay.mesh
    if mesh.size and (mesh.min() < 0 or mesh.max() >= observation.clients):
        wrong = int(mesh.min() if mesh.min() < 0 else mesh.max())
        raise BadOverlay(f"mesh: client {wrong} does not exist; there are {observation.clients}")
    start = np.searchsorted(interests[:, 0], np.arange(observation.clients + 1))
    topic = np.ascontiguousarray(interests[:, 1])
    return components_per_group(observation.topics, start, topic, mesh)


def degrees_of(observation: Observation, mesh: Pairs) -> tuple[float, int]:
    """Average and maximum degree over all clients."""
    degree = np.bincount(mesh.reshape(-1), minlength=1)
    return 2 * len(mesh) / max(observation.clients, 1), int(degree.max())
