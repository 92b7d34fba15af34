"""Who knows what: a note for the tables that compare planners."""

from __future__ import annotations

KNOWS = (
    "Who knows what: a master of OCBR or hub-safe its neighbourhood and the classes that pass it; regraft, hub-safe + "
    "regraft, exact and star the whole tree and all classes; mst all links and no traffic."
)
