"""Why: what the operator has put into a driver's folder, read once, and where on a cluster the driver's app keeps what.

Must not ask the API server.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from holdfast.errors import UserActionError
from holdfast.placement.told import TOLD_KEY, Told, read_told
from holdfast.spec.app import StreamApp
from holdfast.spec.parse import parse_app
from holdfast_runtime.data_dir import folder_name
from holdfast_runtime.places import Places

_APP, _SPARK, _SECRETS = "app.json", "spark.json", "secrets"


class DriverFolderError(UserActionError):
    """The folder does not hold what a driver needs."""


class CheckpointLocationError(UserActionError):
    """A checkpoint location that this release can't use."""


@dataclass(frozen=True, slots=True)
class DriverFolder:
    """What a driver is told."""

    app: StreamApp
    told: Told
    spark: Mapping[str, str]
    """Settings of Spark that come with the cluster."""


def read_folder(folder: Path) -> DriverFolder:
    """What is in this folder; raises `DriverFolderError` naming the file that is missing or no JSON."""
    app, told, spark = (_text(folder / name) for name in (_APP, TOLD_KEY, _SPARK))
    try:
        return DriverFolder(parse_app(json.loads(app)), read_told(told), json.loads(spark))
    except (ValueError, KeyError, TypeError) as error:
        message = (
            f"{folder} does not hold what a driver is told ({type(error).__name__}: {error}): the operator that wrote "
            f"it and this image are to be of one release"
        )
        raise DriverFolderError(message) from error


def places_of(read: DriverFolder, folder: Path, state: Path, log: Path | None) -> Places:
    """Where the app's run keeps what; raises `CheckpointLocationError`. Namespaces may share a location.

    `folder`: where all pods of the app have what the operator mounts.
    """
    run = _shared(read.app)
    for name in (read.told.namespace, read.told.app, read.told.run):
        run /= folder_name(name)
    return Places(
        query=run / "query", durable=run / "state", state=state / "tasks", log=log, sync=True, secrets=folder / _SECRETS
    )


def _shared(app: StreamApp) -> Path:
    checkpoint = app.spec.runtime.checkpoint
    if checkpoint is None:
        message = (
            "spec.runtime.checkpoint.location is not set: on a cluster, offsets and durable copies of state need a "
            "folder that all pods mount, e.g. file:///checkpoints"
        )
        raise CheckpointLocationError(message)
    found = urlsplit(checkpoint.location)
    if found.scheme != "file":
        message = (
            f"spec.runtime.checkpoint.location is {checkpoint.location}: object stores come with a later release, this "
            f"one keeps checkpoints in a folder that all pods mount; write file:///path, and mount it by the pod "
            f"templates of spec.runtime.driver and spec.runtime.executors"
        )
        raise CheckpointLocationError(message)
    if found.netloc:
        message = f"spec.runtime.checkpoint.location is {checkpoint.location}: it names a host; write file:///path"
        raise CheckpointLocationError(message)
    return Path(unquote(found.path))


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        message = f"{path} can't be read ({error.strerror}): give the driver the folder that the operator mounts"
        raise DriverFolderError(message) from error
