"""The places of a run's files, and the storage that `spec.runtime.checkpoint.location` names.

This is the only module that knows addresses. An object store is configured as Spark users expect, by settings of
Hadoop's S3A in the spec's `sparkConf`, although Hadoop is not used. Credentials can't be set there: many people can
read a spec, so each process uses those of its pod. Must not create or open what it names.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit

from holdfast.errors import UserActionError
from holdfast_runtime.state.object_storage import ObjectStorage, S3Service
from holdfast_runtime.state.storage import FolderStorage, Storage


@dataclass(frozen=True, slots=True)
class Places:
    """The places of a run. Driver and executors use the same paths, but only shared ones lead to the same place."""

    query: Path
    """Spark's own checkpoint: which batch read what. Shared, unless `planned` is set."""
    shared: Storage
    """Shared: what the run keeps as a whole, such as its owner and a pending jump."""
    durable: Storage
    """Shared: durable copies of state, a directory for each task."""
    state: Path
    """Per location: local stores, a folder for each task."""
    log: Path | None
    """Shared: the streams of the embedded log; None: there is none."""
    planned: Storage | None = None
    """Shared: a copy of Spark's checkpoint if that is on the driver's own disk; None: it is shared itself."""
    secrets: Path | None = None
    """Per location: a folder for each Secret of the app, with a file for each entry."""


_S3 = ("s3a", "s3")
_SETTINGS = "spark.hadoop.fs.s3a."
_SECRETS = ("access.key", "secret.key", "session.token")
_TRUTH = {"true": True, "false": False}


class CheckpointLocationError(UserActionError):
    """The checkpoint location is missing, or this release can't use it."""


def storage_at(location: str, conf: Mapping[str, str]) -> Storage:
    """Return the storage at this address; `conf`: the spec's Spark settings. Raise `CheckpointLocationError`."""
    found = urlsplit(location)
    if found.scheme in _S3:
        return _bucket(location, found.netloc, unquote(found.path), conf)
    if found.scheme != "file":
        message = (
            f"spec.runtime.checkpoint.location is {location}: this release keeps checkpoints in object stores that "
            f"speak S3, s3a://bucket/path, or in a folder that all pods mount, file:///path"
        )
        raise CheckpointLocationError(message)
    if found.netloc:
        message = f"spec.runtime.checkpoint.location is {location}: it names a host; write file:///path"
        raise CheckpointLocationError(message)
    return FolderStorage(Path(unquote(found.path)))


def _bucket(location: str, bucket: str, path: str, conf: Mapping[str, str]) -> ObjectStorage:
    if not bucket or "@" in bucket or ":" in bucket:
        # The message leaves the address out: the part before an @ may be a secret.
        message = "spec.runtime.checkpoint.location has no bucket as Amazon names them; write s3a://bucket/path"
        raise CheckpointLocationError(message)
    steps = [step for step in path.split("/") if step]
    if {".", ".."} & set(steps):
        message = f"spec.runtime.checkpoint.location is {location}: an object store knows no . and .. in a path"
        raise CheckpointLocationError(message)
    return ObjectStorage(_service(bucket, conf), bucket, "/".join(steps))


def _service(bucket: str, conf: Mapping[str, str]) -> S3Service:
    """Return the service that S3A's settings describe; settings of the bucket override general ones."""
    _check_secrets(bucket, conf)

    def said(name: str) -> str | None:
        found = conf.get(f"{_SETTINGS}bucket.{bucket}.{name}") or conf.get(_SETTINGS + name)
        return None if found is None else found.strip()

    def truth(name: str, *, otherwise: bool) -> bool:
        text = said(name)
        if text is None:
            return otherwise
        if text.casefold() not in _TRUTH:
            message = f"spec.runtime.sparkConf: {_SETTINGS}{name} is {text}; write true or false"
            raise CheckpointLocationError(message)
        return _TRUTH[text.casefold()]

    encrypted = truth("connection.ssl.enabled", otherwise=True)
    endpoint = said("endpoint")
    if endpoint is not None and "://" in endpoint:
        scheme, endpoint = endpoint.split("://", 1)
        encrypted = scheme.casefold() != "http"
    return S3Service(
        endpoint=endpoint.rstrip("/") if endpoint else None,
        encrypted=encrypted,
        region=said("endpoint.region"),
        virtual_hosts=bool(endpoint) and not truth("path.style.access", otherwise=True),
    )


def _check_secrets(bucket: str, conf: Mapping[str, str]) -> None:
    names = (prefix + name for prefix in (_SETTINGS, f"{_SETTINGS}bucket.{bucket}.") for name in _SECRETS)
    wrong = [name for name in names if name in conf]
    if wrong:
        message = (
            f"spec.runtime.sparkConf has {', '.join(wrong)}, which everybody reads who reads the app: put credentials "
            f"into a Secret, and that into the environment of driver and executors (AWS_ACCESS_KEY_ID, "
            f"AWS_SECRET_ACCESS_KEY) by their pod templates, or give the pods a role (docs/object-stores.md)"
        )
        raise CheckpointLocationError(message)


def folder_name(name: str) -> str:
    """Return a folder name for any text; it is never a path."""
    quoted = quote(name, safe="")
    return f"%2E{quoted[1:]}" if quoted.startswith(".") else quoted
