"""A run folder: what was observed, and the plans made from it.

    RUN/observation/        the observation as Parquet tables, and observation.json
    RUN/plans/ID/           one plan each (plans.py)

Folders are written beside and renamed, so that a killed write leaves nothing that reads as whole.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from overlace.arrays.jit import Pairs
from overlace.arrays.records import Record
from overlace.errors import BadTrace
from overlace.model import FACETS, Classes, Flows, Names, Network, Observation, Offers, Overlay, Requests
from overlace.trace.address import local
from overlace.trace.lock import locked
from overlace.trace.tables import (
    OBSERVATION,
    SCHEMA_VERSION,
    TIME,
    Numbers,
    arrow,
    check_version,
    groups,
    lists,
    numbers,
    table_of,
)


@contextmanager
def whole_folder(path: Path, mark: str, *, force: bool = False) -> Iterator[Path]:
    """A folder to fill; it takes its name only when everything is in it.

    With force it replaces a folder of its own kind, known by the file `mark`; never any other.
    """
    local(path)
    if path.exists() and not force:
        raise BadTrace(f"{path} is there already. Choose another name, or --force to replace it.")
    if path.exists() and not (path / mark).exists():
        raise BadTrace(f"{path} is there and holds no {mark}, so it is something else. Choose another name.")
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


@contextmanager
def writing_run(run: Path) -> Iterator[None]:
    """Hold the lock of a run folder, new or existing: a second writer would mix the plans of two observations.

    A folder that is new goes again if nothing was written into it.
    """
    fresh = not local(run).exists()
    run.mkdir(parents=True, exist_ok=True)
    try:
        with locked(str(run), break_lock=None):
            yield
    finally:
        if fresh:
            with suppress(OSError):
                run.rmdir()


def write_json(path: Path, document: object) -> None:
    """Indented, with keys in the order given: the same bytes for the same document."""
    beside = path.with_name(f".{path.name}.part")
    beside.write_text(json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False) + "\n", encoding="utf-8")
    os.replace(beside, path)


def read_json(path: Path, remedy: str = "") -> dict[str, Any]:
    """A JSON object, or an error that names the file; `remedy` names what makes one of an older schema anew."""
    try:
        document = json.loads(
            path.read_text(encoding="utf-8"),
            object_pairs_hook=_refuse_twice,
            parse_float=_finite,
            parse_constant=_finite,
        )
    except FileNotFoundError:
        raise BadTrace(f"{path} does not exist") from None
    except RecursionError:
        raise BadTrace(f"{path} cannot be read as JSON: it is nested too deeply") from None
    except (ValueError, OSError) as error:
        raise BadTrace(f"{path} cannot be read as JSON: {error}") from None
    if not isinstance(document, dict):
        raise BadTrace(f"{path}: expected a JSON object, found {type(document).__name__}")
    observe = f"Make it anew: `overlace observe TRACE --out {path.parent} --force`."
    check_version(document.get("schema_version", SCHEMA_VERSION), str(path), remedy or observe)
    return document


def read_run(run: Path) -> dict[str, Any]:
    """What run.json says of a run."""
    about = run / "run.json"
    if not about.exists():
        raise BadTrace(f"{about} does not exist. `overlace observe TRACE --out {run}` makes a run.")
    return read_json(about)


def _refuse_twice(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """An object of JSON; refused if a key stands in it twice."""
    made = dict(pairs)
    if len(made) < len(pairs):
        keys = [key for key, _ in pairs]
        raise ValueError(f"the key {next(key for key in keys if keys.count(key) > 1)!r} stands twice in an object")
    return made


def _finite(text: str) -> float:
    """A number of JSON; refused if it is none, or too large for one."""
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text[:20]} is no finite number")
    return value


def overlay_table(overlay: Overlay) -> pa.Table:
    """An overlay as rows of (facet, left, right)."""
    facets = [facet for facet in FACETS for _ in range(len(overlay.relation(facet)))]
    rows = np.concatenate([overlay.relation(facet) for facet in FACETS])
    return table_of("overlay", facets, rows[:, 0], rows[:, 1])


def overlay_of(table: pa.Table) -> Overlay:
    """The overlay that overlay_table wrote."""
    facet = np.array(table["facet"].to_pylist(), dtype=np.str_)
    rows = np.column_stack([numbers(table["left"]), numbers(table["right"])])
    return Overlay(**{each: rows[facet == each] for each in FACETS})


def write_observation(run: Path, observation: Observation, names: Names | None = None, *, force: bool = False) -> None:
    """The observation and the names of what it holds, into RUN/observation."""
    with whole_folder(run / "observation", "observation.json", force=force) as folder:
        for name, table in _tables(observation, names or {}).items():
            pq.write_table(table, folder / f"{name}.parquet", compression="zstd")
        about = {
            "schema_version": SCHEMA_VERSION,
            "digest": observation.digest(),
            "window": list(observation.window),
            "clients": observation.clients,
            "topics": observation.topics,
            "regions_known": bool(len(observation.network.client_region)),
            "access_cost": list(observation.network.access_cost.shape),
            "access_latency_us": list(observation.network.access_latency_us.shape),
        }
        write_json(folder / "observation.json", about)


def read_observation(run: Path) -> tuple[Observation, Names]:
    """What write_observation wrote, checked against its digest."""
    folder = run / "observation"
    if not folder.is_dir():
        raise BadTrace(f"{run} holds no observation. `overlace observe TRACE --out RUN` makes a run that holds one.")
    about = read_json(folder / "observation.json", f"Make it anew: `overlace observe TRACE --out {run} --force`.")
    try:
        tables = {name: pq.ParquetFile(folder / f"{name}.parquet").read() for name in OBSERVATION}
        observation = _observation(tables, about)
        whole = observation.digest() == about["digest"]
    except (KeyError, OSError, pa.ArrowException) as error:
        raise BadTrace(f"{folder} is not whole: {error}. Observe the trace again.") from None
    if not whole:
        raise BadTrace(f"{folder} was changed since it was written. Observe the trace again.")
    return observation, _names(tables["names"])


def read_names(run: Path) -> Names:
    """The names of what a run observed, without all else; none if it holds no observation."""
    file = run / "observation/names.parquet"
    return _names(pq.ParquetFile(file).read()) if file.exists() else {}


def _tables(observation: Observation, names: Names) -> dict[str, pa.Table]:
    network, classes = observation.network, observation.classes
    region = network.client_region if len(network.client_region) else np.full(observation.clients, -1)
    rows = [(kind, i, name) for kind in sorted(names) for i, name in enumerate(names[kind])]
    kinds, ids, called = zip(*rows, strict=True) if rows else ((), (), ())
    cost, latency = network.access_cost.reshape(-1), network.access_latency_us.reshape(-1)
    longest = max(len(cost), len(latency))
    tables = {
        "overlay": overlay_table(observation.overlay),
        "classes": table_of(
            "classes",
            lists(classes.start, classes.members, OBSERVATION["classes"].field("members").type),
            classes.demand,
            classes.bytes,
        ),
        "interests": table_of("interests", *observation.interests.T),
        "observed_brokers": _columns(network, "observed_brokers"),
        "observed_links": table_of("observed_links", *network.links.T, network.link_cost, network.latency_us),
        "observed_clients": table_of("observed_clients", observation.sent, observation.sent_bytes, region),
        "observed_access": table_of(
            "observed_access", _pad(cost, longest, pa.float64()), _pad(latency, longest, pa.int64())
        ),
        "names": table_of("names", kinds, ids, called, pa.nulls(len(ids), TIME)),
    }
    for name in ("flows", "offers", "requests"):
        tables[name] = _columns(getattr(observation, name), name)
    return tables


def _columns(record: Record, table: str) -> pa.Table:
    return table_of(table, *(getattr(record, name) for name in OBSERVATION[table].names))


def _pad(values: Numbers, size: int, kind: pa.DataType) -> pa.Array:
    return arrow(np.append(values, np.zeros(size - len(values), values.dtype)), kind, np.arange(size) >= len(values))


def _observation(tables: Mapping[str, pa.Table], about: Mapping[str, Any]) -> Observation:
    def column(table: str, name: str) -> Numbers:
        return numbers(tables[table][name])

    def columns(table: str) -> dict[str, Numbers]:
        return {name: column(table, name) for name in tables[table].column_names}

    def matrix(name: str) -> Numbers:
        rows, columns = about[name]
        return numbers(tables["observed_access"][name], 0)[: rows * columns].reshape(rows, columns)

    def pairs(table: str, left: str, right: str) -> Pairs:
        return np.column_stack([column(table, left), column(table, right)])

    start, members = groups(tables["classes"]["members"])
    return Observation(
        window=(int(about["window"][0]), int(about["window"][1])),
        overlay=overlay_of(tables["overlay"]),
        network=Network(
            **columns("observed_brokers"),
            links=pairs("observed_links", "left", "right"),
            link_cost=column("observed_links", "link_cost"),
            latency_us=column("observed_links", "latency_us"),
            client_region=column("observed_clients", "region") if about["regions_known"] else (),
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
        sent=column("observed_clients", "sent"),
        sent_bytes=column("observed_clients", "sent_bytes"),
    )


def _names(table: pa.Table) -> dict[str, Sequence[str]]:
    names: dict[str, list[str]] = {}
    for kind, name in zip(table["kind"].to_pylist(), table["name"].to_pylist(), strict=True):
        names.setdefault(kind, []).append(name)
    return dict(names)
