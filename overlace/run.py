"""A run folder: what was observed, and the plans made from it.

    RUN/run.json            the trace, its digest, the cut between train and held-out
    RUN/observation/        the observation as Parquet tables, and observation.json
    RUN/plans/ID/           one plan each (planfile.py)

Folders are written beside and renamed, so that a killed write leaves nothing that reads as whole.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from overlace.errors import BadTrace
from overlace.model import FACETS, Classes, Flows, Names, Network, Observation, Offers, Overlay, Requests
from overlace.tables import SCHEMA_VERSION, conform


@contextmanager
def whole_folder(path: Path, *, force: bool = False) -> Iterator[Path]:
    """A folder to fill; it takes its name only when everything is in it."""
    if path.exists() and not force:
        raise BadTrace(f"{path} is there already. Choose another name, or --force to replace it.")
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = Path(tempfile.mkdtemp(prefix=f".{path.name}-", dir=path.parent))
    try:
        yield beside
        beside.chmod(0o755)
        if path.exists():
            old = Path(tempfile.mkdtemp(prefix=f".{path.name}-old-", dir=path.parent))
            path.replace(old / path.name)
            beside.replace(path)
            shutil.rmtree(old)
        else:
            beside.replace(path)
    finally:
        if beside.exists():
            shutil.rmtree(beside)


def write_json(path: Path, document: Any) -> None:
    """Indented, with keys in the order given: the same bytes for the same document."""
    beside = path.with_name(f".{path.name}.part")
    beside.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    os.replace(beside, path)


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object, or an error that names the file."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise BadTrace(f"{path} does not exist") from None
    except (ValueError, OSError) as error:
        raise BadTrace(f"{path} cannot be read as JSON: {error}") from None
    if not isinstance(document, dict):
        raise BadTrace(f"{path}: expected a JSON object, found {type(document).__name__}")
    newer = document.get("schema_version", SCHEMA_VERSION)
    if not isinstance(newer, int) or newer > SCHEMA_VERSION:
        raise BadTrace(
            f"{path} has schema version {newer}; this Overlace reads up to {SCHEMA_VERSION}. Update Overlace."
        )
    return document


def overlay_table(overlay: Overlay) -> pa.Table:
    """An overlay as rows of (facet, left, right)."""
    facets = np.repeat(FACETS, [len(overlay.relation(facet)) for facet in FACETS])
    rows = np.concatenate([overlay.relation(facet) for facet in FACETS])
    return conform(pa.table({"facet": facets, "left": rows[:, 0], "right": rows[:, 1]}), "overlay")


def overlay_of(table: pa.Table) -> Overlay:
    """The overlay that overlay_table wrote."""
    facet = table["facet"].to_numpy(zero_copy_only=False)
    rows = np.column_stack([table["left"].to_numpy(), table["right"].to_numpy()])
    return Overlay(**{each: rows[facet == each] for each in FACETS})


def write_observation(run: Path, observation: Observation, names: Names | None = None, *, force: bool = False) -> None:
    """The observation and the names of what it holds, into RUN/observation."""
    with whole_folder(run / "observation", force=force) as folder:
        for name, table in _tables(observation, names or {}).items():
            pq.write_table(table, folder / f"{name}.parquet", compression="zstd")
        about = {
            "schema_version": SCHEMA_VERSION,
            "digest": observation.digest(),
            "window": list(observation.window),
            "clients": observation.clients,
            "topics": observation.topics,
        }
        write_json(folder / "observation.json", about)


def read_observation(run: Path) -> tuple[Observation, Names]:
    """What write_observation wrote, checked against its digest."""
    folder = run / "observation"
    if not folder.is_dir():
        raise BadTrace(f"{run} holds no observation. `overlace demo --out {run}` makes a small one.")
    about = read_json(folder / "observation.json")
    try:
        tables = {path.stem: pq.read_table(path) for path in folder.glob("*.parquet")}
        observation = _observation(tables, about)
    except (KeyError, pa.ArrowException) as error:
        raise BadTrace(f"{folder} is not whole: {error}. Observe the trace again.") from None
    if observation.digest() != about["digest"]:
        raise BadTrace(f"{folder} was changed since it was written. Observe the trace again.")
    return observation, _names(tables["names"])


def _tables(observation: Observation, names: Names) -> dict[str, pa.Table]:
    network, flows, classes = observation.network, observation.flows, observation.classes
    offers, requests = observation.offers, observation.requests
    region = np.full(observation.clients, -1)
    region[: len(network.client_region)] = network.client_region
    rows = [(kind, i, name) for kind in sorted(names) for i, name in enumerate(names[kind])]
    kinds, ids, called = zip(*rows, strict=True) if rows else ((), (), ())
    tables = {
        "overlay": overlay_table(observation.overlay),
        "flows": _columns(flows, "sender receiver messages bytes"),
        "classes": pa.table(
            {
                "members": pa.LargeListArray.from_arrays(classes.start, classes.members),
                "demand": classes.demand,
                "bytes": classes.bytes,
            }
        ),
        "interests": pa.table({"client": observation.interests[:, 0], "topic": observation.interests[:, 1]}),
        "offers": _columns(offers, "publisher attributes connections messages"),
        "requests": _columns(requests, "client attributes"),
        "brokers": _columns(network, "region broker_cost capacity max_degree"),
        "links": pa.table(
            {
                "left": network.links[:, 0],
                "right": network.links[:, 1],
                "link_cost": network.link_cost,
                "latency_us": network.latency_us,
            }
        ),
        "clients": pa.table({"sent": observation.sent, "sent_bytes": observation.sent_bytes, "region": region}),
        "names": pa.table(
            {
                "kind": pa.array(kinds, pa.string()),
                "id": pa.array(ids, pa.int32()),
                "name": pa.array(called, pa.string()),
            }
        ),
    }
    for name in ("access_cost", "access_latency_us"):
        matrix = getattr(network, name)
        tables[name] = pa.table(
            {"values": matrix.reshape(-1), "region": np.repeat(np.arange(len(matrix)), matrix.shape[1])}
        )
    return tables


def _columns(record: Any, names: str) -> pa.Table:
    return pa.table({name: getattr(record, name) for name in names.split()})


def _observation(tables: Mapping[str, pa.Table], about: Mapping[str, Any]) -> Observation:
    def column(table: str, name: str) -> Any:
        return tables[table][name].to_numpy()

    def columns(table: str) -> dict[str, Any]:
        return {name: column(table, name) for name in tables[table].column_names}

    def matrix(name: str) -> Any:
        values, region = column(name, "values"), column(name, "region")
        return values.reshape(int(region[-1]) + 1, -1) if len(values) else values.reshape(0, 0)

    def pairs(table: str, left: str, right: str) -> Any:
        return np.column_stack([column(table, left), column(table, right)])

    lists = tables["classes"]["members"].combine_chunks()
    members = lists.values.to_numpy() if len(lists) else np.empty(0, np.int64)
    start = lists.offsets.to_numpy() if len(lists) else np.zeros(1, np.int64)
    client_region = column("clients", "region")
    return Observation(
        window=(int(about["window"][0]), int(about["window"][1])),
        overlay=overlay_of(tables["overlay"]),
        network=Network(
            **columns("brokers"),
            links=pairs("links", "left", "right"),
            link_cost=column("links", "link_cost"),
            latency_us=column("links", "latency_us"),
            client_region=client_region if (client_region >= 0).any() else np.empty(0),
            access_cost=matrix("access_cost"),
            access_latency_us=matrix("access_latency_us"),
        ),
        flows=Flows(**columns("flows")),
        classes=Classes(start, members, column("classes", "demand"), column("classes", "bytes")),
        interests=pairs("interests", "client", "topic"),
        offers=Offers(**columns("offers")),
        requests=Requests(**columns("requests")),
        clients=int(about["clients"]),
        topics=int(about["topics"]),
        sent=column("clients", "sent"),
        sent_bytes=column("clients", "sent_bytes"),
    )


def _names(table: pa.Table) -> dict[str, Sequence[str]]:
    names: dict[str, list[str]] = {}
    for kind, name in zip(table["kind"].to_pylist(), table["name"].to_pylist(), strict=True):
        names.setdefault(kind, []).append(name)
    return dict(names)
