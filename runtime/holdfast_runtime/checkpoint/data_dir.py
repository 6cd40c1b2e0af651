"""The data directory of local runs: log, checkpoint, state and record of each run, and the lock of each app.

One process at a time may run an app on a directory; a second one gets an error that names the first. Several apps may
share a directory, and then they share streams. Must not create what it names.
"""

import errno
import fcntl
import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import lmdb

from holdfast.errors import UserActionError, WorldChangeError
from holdfast_runtime.checkpoint.places import Places, folder_name
from holdfast_runtime.state.storage import FolderStorage


class DataInUseError(UserActionError):
    """Another process runs an app on this directory."""


class DataUnusableError(WorldChangeError):
    """The data directory can't be written: it is read-only, full, another user's, or a file."""


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


@contextmanager
def disk_refusals(data: Path) -> Iterator[None]:
    """Turn errors of the disk into `DataUnusableError`; other errors pass unchanged."""
    try:
        yield
    except OSError as error:
        # An error that names no file, or one elsewhere, may be about anything.
        if error.filename is None:
            ours = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EROFS)
        else:
            ours = error.errno in _CURES and Path(str(error.filename)).is_relative_to(data)
        if not ours:
            raise
        raise _unusable(data, error.errno or 0, error.filename) from error
    except lmdb.Error as error:
        if error.code not in _CURES:
            raise
        raise _unusable(data, error.code, None) from error


def _unusable(data: Path, code: int, file: object) -> DataUnusableError:
    at = "" if file is None or str(file) == str(data) else f" ({file})"
    return DataUnusableError(f"the data directory {data}{at} can't be used: {os.strerror(code)}; {_CURES[code]}")


@dataclass(frozen=True, slots=True)
class RunPlaces:
    """The folders of one run of an app."""

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
        """Durable copies of state, a folder for each task."""
        return self.checkpoint / "state"

    @property
    def state(self) -> Path:
        """Local stores, a folder for each task."""
        return self.path / "state"

    @property
    def metadata(self) -> Path:
        """The placement record, the number of the last attempt, and paces of generators."""
        return self.path / "metadata"


@dataclass(frozen=True, slots=True)
class AppDir:
    """The folder of one app with all its runs."""

    path: Path

    def run(self, run_id: str) -> RunPlaces:
        """Return the folders of one run."""
        return RunPlaces(self.path / "runs" / folder_name(run_id))

    @property
    def lock(self) -> Path:
        """The lock file, which says who runs the app here."""
        return self.path / "run.lock"

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
        """Return the folder of one app."""
        return AppDir(self.path / "apps" / folder_name(name))

    @property
    def secrets(self) -> Path:
        """A folder for each Secret that a spec names, with a file for each entry."""
        return Path(os.environ.get("HOLDFAST_SECRETS") or self.path / "secrets")

    def places(self, app: str, run_id: str) -> Places:
        """Return the places of one run of an app."""
        run = self.app(app).run(run_id)
        kept = FolderStorage(run.checkpoint, sync=False)
        return Places(
            query=run.query,
            shared=kept,
            durable=kept.below("state"),
            state=run.state,
            log=self.log,
            secrets=self.secrets,
        )


def _who(text: str) -> str:
    try:
        found = json.loads(text)
        return f"process {found['pid']} ({found['command']})"
    except (ValueError, KeyError, TypeError):
        return "another process"
