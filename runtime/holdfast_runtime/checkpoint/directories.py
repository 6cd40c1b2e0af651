"""The paths of a run's files: the storage named by `spec.runtime.checkpoint.location`, and the data directory.

Only this module knows addresses. An object store is configured as Spark users expect, by settings of Hadoop's S3A in
the spec's `sparkConf`, although Hadoop is not used. Credentials can't be set there: many people can read a spec, so
each process uses those of its pod. In the data directory of local runs, one process at a time may run an app; a second
one gets an error that names the first. Several apps may share a directory, and then they share streams. Must not create
or open what it names.
"""

import errno
import fcntl
import json
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit

import lmdb
from pyarrow import fs as pafs

from holdfast.errors import UserActionError, WorldChangeError
from holdfast.spec.app import StreamApp
from holdfast_runtime.state.durable.object_service import S3Service
from holdfast_runtime.state.durable.object_storage import ObjectStorage
from holdfast_runtime.state.durable.storage import DirectoryStorage, Storage


@dataclass(frozen=True, slots=True)
class RunPaths:
    """The paths of a run. Driver and executors use the same, but only shared ones lead to the same files."""

    query: Path
    """Spark's own checkpoint: which batch read what. Shared, unless `planned` is set."""
    shared: Storage
    """Shared: what the run keeps as a whole, such as its owner and a pending jump."""
    durable: Storage
    """Shared: durable copies of state, a directory for each task."""
    state: Path
    """Per location: local stores, a directory for each task."""
    log: Path | None
    """Shared: the streams of the embedded log; None: there is none."""
    planned: Storage | None = None
    """Shared: a copy of Spark's checkpoint if that is on the driver's own disk; None: it is shared itself."""
    secrets: Path | None = None
    """Per location: a directory for each Secret of the app, with a file for each entry."""
    runs: Path | None = None
    """The directory of all runs of the app, where it has the local stores of all; None: each run has its own disks."""


_S3 = ("s3a", "s3")
_SETTINGS = "spark.hadoop.fs.s3a."
_SECRETS = ("access.key", "secret.key", "session.token")
_TRUTH = {"true": True, "false": False}


_CHECKPOINT = "spec.runtime.checkpoint.location"


def storage_at(location: str, conf: Mapping[str, str], field: str = _CHECKPOINT) -> DirectoryStorage | ObjectStorage:
    """Return the storage at this address; `conf`: the spec's Spark settings, `field`: where the address stands.

    Raise `CheckpointLocationError`.
    """
    address = urlsplit(location)
    if address.scheme in _S3:
        return _bucket(location, address.netloc, unquote(address.path), conf, field)
    if address.scheme != "file":
        message = (
            f"{field} is {location}: this release knows only places in object stores that speak S3, s3a://bucket/path, "
            f"or in a folder that all pods mount, file:///path"
        )
        raise UserActionError(message, code="CheckpointLocationError")
    if address.netloc:
        message = f"{field} is {location}: it names a host; write file:///path"
        raise UserActionError(message, code="CheckpointLocationError")
    return DirectoryStorage(Path(unquote(address.path)))


def cluster_runs(app: StreamApp, namespace: str, location: str | None = None) -> Storage:
    """Return the storage of the runs of an app on a cluster; raise `CheckpointLocationError`.

    Namespaces may share a location. `location`: where it is reached from here, if elsewhere than its pods reach it.
    """
    runtime = app.spec.runtime
    if runtime.checkpoint is None:
        message = (
            "spec.runtime.checkpoint is not set: on a cluster, offsets and durable copies of state need a location "
            "that all pods reach, e.g. s3a://bucket/path, or the claim of a volume that all of them can mount"
        )
        raise UserActionError(message, code="CheckpointLocationError")
    storage = storage_at(location or runtime.checkpoint.location, runtime.spark_conf)
    return storage.below(directory_name(namespace), directory_name(app.name))


def files_at(location: str, conf: Mapping[str, str], field: str) -> tuple[pafs.FileSystem, str]:
    """Return the file system of files at this address, and their path there. Raise `CheckpointLocationError`."""
    storage = storage_at(location, conf, field)
    if isinstance(storage, DirectoryStorage):
        return pafs.LocalFileSystem(), str(storage.root)
    return storage.service.opened(storage.bucket), "/".join(filter(None, (storage.bucket, storage.prefix)))


def _bucket(location: str, bucket: str, path: str, conf: Mapping[str, str], field: str) -> ObjectStorage:
    if not bucket or "@" in bucket or ":" in bucket:
        # The message leaves the address out: the part before an @ may be a secret.
        message = f"{field} has no bucket as Amazon names them; write s3a://bucket/path"
        raise UserActionError(message, code="CheckpointLocationError")
    steps = [step for step in path.split("/") if step]
    if {".", ".."} & set(steps):
        message = f"{field} is {location}: an object store knows no . and .. in a path"
        raise UserActionError(message, code="CheckpointLocationError")
    return ObjectStorage(_service(bucket, conf), bucket, "/".join(steps))


def _service(bucket: str, conf: Mapping[str, str]) -> S3Service:
    """Return the service that S3A's settings describe; settings of the bucket override general ones."""
    _check_secrets(bucket, conf)

    def setting_of(name: str) -> str | None:
        setting = conf.get(f"{_SETTINGS}bucket.{bucket}.{name}") or conf.get(_SETTINGS + name)
        return None if setting is None else setting.strip()

    def truth(name: str, *, otherwise: bool) -> bool:
        text = setting_of(name)
        if text is None:
            return otherwise
        if text.casefold() not in _TRUTH:
            message = f"spec.runtime.sparkConf: {_SETTINGS}{name} is {text}; write true or false"
            raise UserActionError(message, code="CheckpointLocationError")
        return _TRUTH[text.casefold()]

    encrypted = truth("connection.ssl.enabled", otherwise=True)
    endpoint = setting_of("endpoint")
    if endpoint is not None and "://" in endpoint:
        scheme, endpoint = endpoint.split("://", 1)
        encrypted = scheme.casefold() != "http"
    return S3Service(
        endpoint=endpoint.rstrip("/") if endpoint else None,
        encrypted=encrypted,
        region=setting_of("endpoint.region"),
        virtual_hosts=bool(endpoint) and not truth("path.style.access", otherwise=True),
    )


def _check_secrets(bucket: str, conf: Mapping[str, str]) -> None:
    names = (prefix + name for prefix in (_SETTINGS, f"{_SETTINGS}bucket.{bucket}.") for name in _SECRETS)
    wrong = [name for name in names if name in conf]
    if wrong:
        message = (
            f"spec.runtime.sparkConf has {', '.join(wrong)}, which everybody reads who reads the app: put credentials "
            f"into a Secret, and that into the environment of driver and executors (AWS_ACCESS_KEY_ID, "
            f"AWS_SECRET_ACCESS_KEY) by their pod templates, or give the pods a role (docs/state.md#object-stores)"
        )
        raise UserActionError(message, code="CheckpointLocationError")


def directory_name(name: str) -> str:
    """Return a directory name for any text; it is never a path."""
    quoted = quote(name, safe="")
    return f"%2E{quoted[1:]}" if quoted.startswith(".") else quoted


class DataInUseError(UserActionError):
    """Another process runs an app on this directory."""


_CURES = {
    errno.ENOSPC: "free some space, or choose another --data DIR",
    errno.EDQUOT: "free some space, or choose another --data DIR",
    errno.ENOTDIR: "a file is in its way; choose another --data DIR",
    errno.EEXIST: "a file is in its way; choose another --data DIR",
    errno.EISDIR: "a directory is in its way; choose another --data DIR",
    **dict.fromkeys(
        (errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOENT), "choose a --data DIR that this user may write"
    ),
}


_FAILS = (
    "its disk may fail (see dmesg): copy the directory to another disk while it can be read, and choose the copy with "
    "--data DIR"
)
"""Never to remove it: a data directory holds checkpoints and logs, of which there is no other copy."""


@contextmanager
def disk_refusals(data: Path) -> Iterator[None]:
    """Turn errors of the disk into `DataUnusableError`; other errors pass unchanged."""
    try:
        yield
    except OSError as error:
        # An error that names no file, or one elsewhere, may be about anything.
        if error.filename is None:
            ours = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO)
        else:
            ours = Path(str(error.filename)).is_relative_to(data)
        if not ours:
            raise
        raise _unusable(data, error.errno or 0, error.filename) from error
    except lmdb.Error as error:
        if error.code not in (*_CURES, errno.EIO):
            raise
        raise _unusable(data, error.code, None) from error


def _unusable(data: Path, code: int, file: object) -> WorldChangeError:
    named_file = "" if file is None or str(file) == str(data) else f" ({file})"
    return WorldChangeError(
        f"the data directory {data}{named_file} can't be used: {os.strerror(code)}; {_CURES.get(code, _FAILS)}",
        code="DataUnusableError",
    )


@dataclass(frozen=True, slots=True)
class RunDir:
    """The directories of one run of an app."""

    path: Path

    @property
    def checkpoint(self) -> Path:
        """All that the run keeps except local stores and metadata."""
        return self.path / "checkpoint"

    @property
    def query(self) -> Path:
        """Spark's own checkpoint: which batch read what."""
        return self.checkpoint / "query"

    @property
    def durable(self) -> Path:
        """Durable copies of state, a directory for each task."""
        return self.checkpoint / "state"

    @property
    def state(self) -> Path:
        """Local stores, a directory for each task."""
        return self.path / "state"

    @property
    def metadata(self) -> Path:
        """The placement record, the number of the last attempt, and paces of generators."""
        return self.path / "metadata"


@dataclass(frozen=True, slots=True)
class AppDir:
    """The directory of one app with all its runs."""

    path: Path

    def run(self, run_id: str) -> RunDir:
        """Return the directories of one run."""
        return RunDir(self.runs / directory_name(run_id))

    @property
    def runs(self) -> Path:
        """The directory of all runs."""
        return self.path / "runs"

    @property
    def lock(self) -> Path:
        """The lock file, which says who runs the app here."""
        return self.path / "run.lock"

    @property
    def functions_log(self) -> Path:
        """The file with what the functions of steps print, where no Spark prints too."""
        return self.path / "functions.log"

    @contextmanager
    def taken(self) -> Iterator[None]:
        """Hold the lock of the app; raise `DataInUseError`, naming the process that holds it."""
        self.path.mkdir(parents=True, exist_ok=True)
        with self.lock.open("a+", encoding="utf-8", errors="replace") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                file.seek(0)
                message = f"{self.path} is in use by {_who(file.read())}; stop it, or choose another --data DIR"
                raise DataInUseError(message) from error
            file.truncate(0)
            file.write(json.dumps({"pid": os.getpid(), "command": " ".join(sys.argv)}))
            file.flush()
            try:
                yield
            finally:
                file.truncate(0)


@dataclass(frozen=True, slots=True)
class DataDir:
    """The data directory. Apps that share one share the streams of its log."""

    path: Path

    @property
    def log(self) -> Path:
        """The streams of the embedded log."""
        return self.path / "log"

    def app(self, name: str) -> AppDir:
        """Return the directory of one app."""
        return AppDir(self.path / "apps" / directory_name(name))

    @property
    def secrets(self) -> Path:
        """A directory for each Secret that a spec names, with a file for each entry."""
        return Path(os.environ.get("HOLDFAST_SECRETS") or self.path / "secrets")

    def paths(self, app: str, run_id: str) -> RunPaths:
        """Return the paths of one run of an app."""
        run = self.app(app).run(run_id)
        shared = DirectoryStorage(run.checkpoint, sync=False)
        return RunPaths(
            query=run.query,
            shared=shared,
            durable=shared.below("state"),
            state=run.state,
            log=self.log,
            secrets=self.secrets,
            runs=self.app(app).runs,
        )


def _who(text: str) -> str:
    try:
        holder = json.loads(text)
        return f"process {holder['pid']} ({holder['command']})"
    except (ValueError, KeyError, TypeError):
        return "another process"
