"""Why: from `spec.runtime.checkpoint.location` to the storage it names: the one place that knows addresses.

How an object store is reached is said as users of Spark say it, by settings of Hadoop's S3A in the spec's `sparkConf`,
though no Hadoop is asked. Who may use it is not said there: a spec is read by many, so each process takes the
credentials of its pod. Must not open anything.
"""

from collections.abc import Mapping
from pathlib import Path
from urllib.parse import unquote, urlsplit

from holdfast.errors import UserActionError
from holdfast_runtime.state.folder_storage import FolderStorage
from holdfast_runtime.state.object_storage import ObjectStorage, S3Service
from holdfast_runtime.state.storage import Storage

_S3 = ("s3a", "s3")
_SETTINGS = "spark.hadoop.fs.s3a."
_SECRETS = ("access.key", "secret.key", "session.token")
_TRUTH = {"true": True, "false": False}


class CheckpointLocationError(UserActionError):
    """A checkpoint location that this release can't use."""


def storage_at(location: str, conf: Mapping[str, str]) -> Storage:
    """What there is at this address; `conf`: the settings of Spark in the spec. Raises `CheckpointLocationError`."""
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
        # Not the address itself: what stands before an @ may be a secret.
        message = "spec.runtime.checkpoint.location has no bucket as Amazon names them; write s3a://bucket/path"
        raise CheckpointLocationError(message)
    steps = [step for step in path.split("/") if step]
    if {".", ".."} & set(steps):
        message = f"spec.runtime.checkpoint.location is {location}: an object store knows no . and .. in a path"
        raise CheckpointLocationError(message)
    return ObjectStorage(_service(bucket, conf), bucket, "/".join(steps))


def _service(bucket: str, conf: Mapping[str, str]) -> S3Service:
    """As S3A reads its settings: those of the bucket count over those of all."""
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
