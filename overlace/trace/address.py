"""Where logs and traces lie: local paths, and addresses of Arrow's file systems with their settings as a query.

    s3://BUCKET/KEY?endpoint_override=http://HOST:PORT&region=REGION

One address is one setting: Arrow's file system, the environment that Sail reads and the options of Apache Spark's S3A
are all made of it. Credentials come from the environment and are refused in an address, which files and messages hold.
In an address `%` and `?` of a name are percent-encoded.
"""

from __future__ import annotations

import os
import re
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import NamedTuple
from urllib.parse import parse_qsl, quote, unquote

import pyarrow as pa
import pyarrow.fs as pafs

from overlace.errors import BadTrace, read_os

SCHEMES = ("s3", "gs", "gcs", "abfs", "abfss", "hdfs", "viewfs", "file")
ADDRESS = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/")
"""What is an address or meant as one: `s3:/bucket` is no folder called `s3:`."""

SETTINGS = ("endpoint_override", "region", "scheme")
SECRET = re.compile(r"key|secret|token|passw|credential|signature|^sig$", re.IGNORECASE)

ENDPOINTS, REGIONS = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"), ("AWS_REGION", "AWS_DEFAULT_REGION")
CREDENTIALS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE")
CONNECT, SILENCE, TRIES = 5, 15, 3
"""Seconds until a store must have answered and may send nothing, and how often it is asked."""


class Bucket(NamedTuple):
    """A bucket of S3 and where it is found; an empty endpoint is Amazon's."""

    name: str
    endpoint: str
    region: str


def is_address(path: str) -> bool:
    """Whether a path is meant as an address, right or wrong, and not as a local file or folder."""
    return ADDRESS.match(path) is not None


def check_address(path: str) -> str:
    """The same address, or why it is none; what is refused is not repeated, since it may hold a password."""
    scheme, _, rest = path.partition(":")
    if scheme not in SCHEMES or not rest.startswith("//"):
        raise BadTrace(
            f"{scheme}:{'//' if rest.startswith('//') else '/'}... is no address that can be read. Expected "
            "s3://BUCKET/KEY, gs://, abfs:// or hdfs://, or ./ before a local name with a colon."
        )
    names = [name for name, _ in parse_qsl(path.partition("?")[2], keep_blank_values=True)]
    authority = rest[2:].partition("/")[0].partition("?")[0]
    user = authority if scheme == "s3" else authority.rpartition("@")[0]  # a bucket's name has no colon
    if any(map(SECRET.search, names)) or ":" in user or (scheme == "s3" and "@" in user):
        raise BadTrace(
            f"an address {scheme}://... holds credentials, which would be kept in files and messages. Leave them out "
            "and set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or what the store reads in the environment."
        )
    if scheme == "s3" and (unknown := [name for name in names if name not in SETTINGS]):
        raise BadTrace(f"{bare(path)}: the address has {unknown[0]!r}; expected {', '.join(SETTINGS)}")
    if scheme == "s3" and not authority:
        raise BadTrace(f"{path}: the address names no bucket. Expected s3://BUCKET/KEY.")
    return path


def local(path: str | Path) -> Path:
    """A path of this machine; an address is refused."""
    if is_address(str(path)):
        raise BadTrace(f"{str(path).partition(':')[0]}:/... is an address, and a local path is expected here.")
    return Path(path)


def bare(path: str) -> str:
    """A path or address without settings."""
    return path.partition("?")[0].rstrip("/") if is_address(path) else path


def inside(path: str, name: str) -> str:
    """What lies in a folder: a path, or an address with the same settings."""
    if not is_address(path):
        return f"{path}/{name}"
    settings = path[len(path.partition("?")[0]) :]
    return f"{bare(path)}/{name.replace('%', '%25').replace('?', '%3F')}{settings}"


def name_of(path: str) -> str:
    """The last name in a path or address."""
    return unquote(PurePosixPath(bare(path)).name) if is_address(path) else PurePosixPath(path).name


def place(path: str) -> tuple[pafs.FileSystem, str]:
    """The file system and the path in it, of a local path or an address."""
    if not is_text(path):
        raise BadTrace(f"{readable(path)}: a name in it is not UTF-8. Rename it.")
    if not is_address(path):
        return pafs.LocalFileSystem(), str(Path(path).absolute())
    if bucket := bucket_of(path):
        seen = tuple(os.environ.get(name) for name in CREDENTIALS)
        return _s3(bucket.endpoint, bucket.region, seen), unquote(bare(path).removeprefix("s3://"))
    try:
        found: tuple[pafs.FileSystem, str] = pafs.FileSystem.from_uri(check_address(path))
    except (pa.ArrowException, OSError) as error:
        raise BadTrace(f"{bare(path)} cannot be reached: {str(error).splitlines()[0]}") from None
    return found


@lru_cache(maxsize=16)
def _s3(endpoint: str, region: str, credentials: tuple[str | None, ...]) -> pafs.S3FileSystem:
    """Arrow's file system of a store, made once for the credentials that the environment has."""
    scheme, _, host = endpoint.rpartition("://")
    return pafs.S3FileSystem(
        endpoint_override=host or None,
        scheme=scheme or "https",
        region=region,
        connect_timeout=CONNECT,
        request_timeout=SILENCE,
        retry_strategy=pafs.AwsStandardS3RetryStrategy(max_attempts=TRIES),
    )


def is_text(path: str) -> bool:
    """Whether a path is UTF-8 on the disk: Arrow's file systems take no other."""
    return path.isascii() or readable(path) == path


def readable(path: str) -> str:
    r"""A path with its bytes that are not UTF-8 as \xff."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def absolute(path: str) -> str:
    """The same path for every process, wherever it runs: addresses as they are, local paths from the root."""
    if is_address(path) and not check_address(path).startswith("file:"):
        return path
    return place(path)[1]


# --- the same for engines -------------------------------------------------------------------------------------


def bucket_of(path: str) -> Bucket | None:
    """The bucket of an address of S3; none of any other path."""
    if not is_address(path) or not check_address(path).startswith("s3:"):
        return None
    name = path.removeprefix("s3://").partition("?")[0].partition("/")[0]
    settings = dict(parse_qsl(path.partition("?")[2]))
    endpoint = settings.get("endpoint_override") or _from_environment(*ENDPOINTS)
    if endpoint and "://" not in endpoint:
        endpoint = f"{settings.get('scheme', 'https')}://{endpoint}"
    region = settings.get("region") or (_from_environment(*REGIONS) or "us-east-1" if endpoint else _region(name))
    return Bucket(name, endpoint.rstrip("/"), region)


@lru_cache(maxsize=64)
def _region(bucket: str) -> str:
    """Where Amazon has a bucket."""
    try:
        return str(pafs.resolve_s3_region(bucket))
    except OSError as error:
        raise BadTrace(read_os(str(error)) or f"s3://{bucket}: {error}") from None


def _from_environment(*names: str) -> str:
    """The first of some variables that has a value, but for one that was exported for an engine."""
    values = ((name, os.environ.get(name, "")) for name in names)
    return next((value for name, value in values if value and value != _exported.get(name)), "")


_exported: dict[str, str] = {}


def export_for_sail(bucket: Bucket) -> None:
    """Set what Sail reads when it first comes to a bucket; it takes one endpoint at a time."""
    http = "true" if bucket.endpoint.startswith("http://") else "false"
    wanted = {"AWS_ENDPOINT": bucket.endpoint, "AWS_REGION": bucket.region, "AWS_ALLOW_HTTP": http}
    for name, value in wanted.items():
        if value and os.environ.get(name) != value:
            os.environ[name] = _exported[name] = value
        elif not value and os.environ.get(name) == _exported.get(name):
            os.environ.pop(name, None)


def options_of_s3a(bucket: Bucket) -> dict[str, str]:
    """What Apache Spark's S3A takes as options of a read or a write: for this bucket only."""
    options = {"endpoint.region": bucket.region}
    if bucket.endpoint:
        secure = "false" if bucket.endpoint.startswith("http://") else "true"
        options |= {"endpoint": bucket.endpoint, "path.style.access": "true", "connection.ssl.enabled": secure}
    return {f"fs.s3a.bucket.{bucket.name}.{key}": value for key, value in options.items()}


def for_engine(path: str, encoded: bool) -> str:
    """A path or address as an engine takes it; `encoded`: as a URL."""
    if not is_address(path):
        return f"file://{quote(path) if encoded else path}"
    scheme, _, rest = bare(path).partition("://")
    name = unquote(rest)
    return f"{'s3a' if scheme == 's3' and not encoded else scheme}://{quote(name) if encoded else name}"
