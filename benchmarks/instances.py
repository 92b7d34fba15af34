"""Systems that several benchmarks share: published topologies, e-mail as traffic, a random tree to start from."""

from __future__ import annotations

import tarfile
import tempfile
from itertools import pairwise
from pathlib import Path

import numpy as np

from overlace.ingest.topologies import Topology, read_topology
from overlace.model import Classes
from reproductions.cc12.mail import Mail

ZOO = ("internet_topology_zoo_graphml.tar.gz", "Bellcanada.graphml")
GEANT = ("repetita_graphs_delays_demands.tar.gz", "2016TopologyZooUCL_unary/Geant2012.graph")


def unpack_topology(archive: Path, ending: str) -> Topology:
    """The topology in an archive whose name ends so."""
    with tempfile.TemporaryDirectory() as folder, tarfile.open(archive) as tar:
        name = next(each for each in tar.getnames() if each.endswith(ending))
        tar.extract(name, folder, filter="data")
        return read_topology([Path(folder) / name])


def ends_of(topology: Topology) -> np.ndarray:
    """The two brokers of each link, numbered as they are listed."""
    number = {name: i for i, name in enumerate(topology.brokers)}
    left, right = (topology.links[column].to_pylist() for column in ("left", "right"))
    return np.array([(number[a], number[b]) for a, b in zip(left, right, strict=True)])


def random_tree(links: np.ndarray, brokers: int, rng: np.random.Generator) -> np.ndarray:
    """Which links make a spanning tree when they are tried in random order."""
    root, wired = list(range(brokers)), np.zeros(len(links), dtype=bool)
    for i in rng.permutation(len(links)).tolist():
        a, b = (root[end] for end in links[i].tolist())
        if a != b:
            wired[i] = True
            root = [a if each == b else each for each in root]
    return wired


def number_people(mail: Mail) -> Mail:
    """The same mail; who writes or receives is numbered from 0 without gaps."""
    ids, who = np.unique(np.concatenate([mail.sender, mail.receiver]), return_inverse=True)
    count = len(mail.sender)
    return mail._replace(sender=who[:count], receiver=who[count:], clients=len(ids))


def classes_of(mail: Mail, messages: int) -> Classes:
    """The traffic classes of the first messages: who wrote and who received, and how often."""
    demand: dict[tuple[int, ...], int] = {}
    for a, b in pairwise(np.append(mail.first, len(mail.sender))[: messages + 1].tolist()):
        members = tuple(sorted({int(mail.sender[a]), *mail.receiver[a:b].tolist()}))
        demand[members] = demand.get(members, 0) + 1
    return Classes.of(list(demand), list(demand.values()))
