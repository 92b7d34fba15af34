"""Topology files as brokers and links: one reader a file, `read_topology` chooses among them."""

from overlace.formats.topologies.read import read_topology
from overlace.formats.topologies.topology import Bridge, Pattern, Topology

__all__ = ["Bridge", "Pattern", "Topology", "read_topology"]
