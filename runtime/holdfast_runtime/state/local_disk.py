"""Errors of the local disk, in one place: what could not be done, at which path, and what to do about it.

A disk that fails, is full or read-only reports a bare error number. Whatever lies on it here is either in the durable
copy as well or made again, so a cure never costs state. Must not translate errors of the checkpoint location, which
have other cures.
"""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from holdfast_runtime.state.errors import StoreDiskError, StoreFullError

NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_RIGHTS = (errno.EACCES, errno.EPERM)


@contextmanager
def on_local_disk(what: str, path: Path) -> Iterator[None]:
    """Turn the disk's errors into `StoreFullError` and `StoreDiskError`; `what` lies at the path."""
    try:
        yield
    except OSError as error:
        raise disk_error(what, path, error.errno or 0, str(error)) from error


def disk_error(what: str, path: Path, code: int, text: str) -> StoreFullError | StoreDiskError:
    """Return the error to raise for this error number."""
    if code in NO_SPACE:
        return StoreFullError(
            f"the disk under {path} has no space for {what} ({os.strerror(code)}): free or add space, and the batch "
            f"runs again; it was not committed, and the state is as it was before"
        )
    return StoreDiskError(
        f"{what} at {path} can't be used ({text}): {cure(code)}. The batch was not committed, and nothing is lost: "
        f"the durable copy has the state up to there"
    )


def cure(code: int) -> str:
    """Return what to do about this error number of a disk."""
    if code in _RIGHTS:
        return "see that this process may read and write there"
    if code == errno.EROFS:
        return (
            "its file system is mounted read-only, as Linux does after errors of a disk (see dmesg): repair or replace "
            "the disk, or mount it writable"
        )
    if code in (errno.ENOTDIR, errno.EISDIR, errno.EEXIST):
        return "something else is in its place: move it away"
    return (
        "the disk fails (see dmesg): repair or replace it, or remove this path, and start again (on a cluster, delete "
        "the volume's claim with its pod)"
    )
